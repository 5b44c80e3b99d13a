//! Fuzz target: a relay between misbehaving agents, a misbehaving relay and strangers.

use std::net::SocketAddr;

use byway_code::{AlignedBuffer, Encoder, Engine};
use byway_proto::parts::block_encoder::BlockEncoder;
use byway_units::{BatchId, Duration, Rate, Time};
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasStatus, AliasStatuses, Aliases, AliasesReply, Consent,
    CopyNack, Cover, CrossStreamHead, CrossStreamRepair, Entries, Entry, FlowOptions, FlowRole,
    InterRelayPacket, Nack, NetworkTags, Register, RelayedPacket,
};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::Purpose;
use byway_wire::{
    Alias, BlockShape, FlowKey, KilobitsPerSecond, Message, Messages, Microseconds, RangeSet, RepairIndex,
    SequenceNumber, Service,
};

use crate::harness::input::Input;
use crate::harness::machine::{Machine, Output};
use crate::harness::message_generator::MessageContext;
use crate::harness::scripted_peer::{ScriptedPeer, write};
use crate::harness::test_bench::TestBench;
use crate::harness::topology::{self, EGRESS, INGRESS, NodeId};

const TWO: NodeId = NodeId::Agent(2);
const FOUR: NodeId = NodeId::Agent(4);

/// Registered rate of each flow.
const RATE: KilobitsPerSecond = KilobitsPerSecond::new(2_000);

/// Rate limit of a grant, for all of its flows together.
const GRANTED: KilobitsPerSecond = KilobitsPerSecond::new(topology::GRANTED_KBITS);

/// Burst of a flow's repairs, as time at its rate.
const REPAIR_BURST: Duration = Duration::from_secs(2);

/// Burst of a flow's copies, as time at its rate.
const COPY_BURST: Duration = Duration::from_millis(500);

struct RelayHarness {
    table: TestBench,
    /// Scripted peers of the relay: agents 2 and 4, and the other relay.
    scripted_peers: [ScriptedPeer; 3],
    newest: u32,
    next_batch: u32,
    /// Rates of all registrations that agents have sent. Each registration adds a budget.
    registered: Vec<Rate>,
    repair_bytes: u64,
    forwarded_bytes: u64,
    are_answered: bool,
}

/// Sends packets that the input determines to a relay, with all keys of its agents and of the other
/// relay.
///
/// # Panics
/// - If the relay panics.
/// - If it sends more repairs than the registered budgets permit.
/// - If it sends more bytes to a stranger than it received from it.
pub fn relay_input(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut harness = RelayHarness::new(&mut input);
    while !input.is_empty() {
        harness.step(&mut input);
    }
    harness.advance_until(harness.table.now + Duration::from_secs(3));
}

fn alias(number: u16) -> Alias {
    Alias::new(number).expect("the alias is not zero")
}

fn keys() -> [FlowKey; 5] {
    [
        topology::flow(1, 2, 1),
        topology::flow(3, 4, 1),
        topology::flow(2, 1, 1),
        topology::flow(4, 2, 1),
        topology::flow(1, 2, 2),
    ]
}

/// Returns the coded bytes of a packet of the flow with this alias, always the same for equal
/// arguments.
fn coded(alias: Alias, low: u32) -> Vec<u8> {
    let [.., fill] = low.to_be_bytes();
    vec![fill ^ alias.number().to_be_bytes()[1]; 100 + usize::from(fill)]
}

impl RelayHarness {
    fn new(input: &mut Input<'_>) -> Self {
        let mut harness = Self {
            table: TestBench::new(Machine::relay(topology::relay(EGRESS))),
            scripted_peers: [
                ScriptedPeer::new(TWO, EGRESS, Purpose::AgentToRelay),
                ScriptedPeer::new(FOUR, EGRESS, Purpose::AgentToRelay),
                ScriptedPeer::new(INGRESS, EGRESS, Purpose::RelayToRelay),
            ],
            newest: 0,
            next_batch: 0,
            registered: Vec::new(),
            repair_bytes: 0,
            forwarded_bytes: 0,
            are_answered: true,
        };
        let output = harness.table.machine.drain();
        harness.route(output);
        for index in 0..harness.scripted_peers.len() {
            if !harness.scripted_peers[index].is_established() {
                let packet = harness.scripted_peers[index].initiate(0, &[]);
                harness.deliver(harness.scripted_peers[index].who.address(), Some(packet));
            }
        }
        assert!(harness.scripted_peers.iter().all(ScriptedPeer::is_established));
        harness.register(input);
        harness
    }

    /// Registers the flows correctly at both agents and both relays.
    fn register(&mut self, input: &mut Input<'_>) {
        let services =
            [Service::Coding, Service::Coding, Service::Caching, Service::Both, Service::Forwarding];
        let service = services[input.below(services.len())];
        let (receiver, sender) = (FlowRole::Receiver, FlowRole::Sender);
        let wanted = [
            (0, topology::flow(1, 2, 1), receiver),
            (0, topology::flow(2, 1, 1), sender),
            (0, topology::flow(4, 2, 1), receiver),
            (1, topology::flow(3, 4, 1), receiver),
            (1, topology::flow(4, 2, 1), sender),
        ];
        for (peer_index, flow_key, role) in wanted {
            let mut message = Vec::new();
            write(&Message::Register(registration(flow_key, role, service)), &mut message);
            self.send_plaintext(peer_index, &message);
        }
        let announced = [(1, topology::flow(1, 2, 1)), (2, topology::flow(3, 4, 1))];
        let mut announced = announced.into_iter().map(|(number, flow_key)| AliasAnnouncement {
            alias: alias(number),
            flow_key,
            service,
            selective: false,
            adaptive_redundancy: false,
            rate: RATE,
        });
        let mut message = Vec::new();
        let mut scratch = [[0; AliasAnnouncement::BYTES]; 2];
        let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
        write(&Message::Aliases(Aliases { flows }), &mut message);
        let mut known = std::iter::once(AliasStatus { alias: alias(1), has_receiver: true });
        let mut scratch = [[0; AliasStatus::BYTES]; 1];
        let aliases = AliasStatuses::collect(&mut known, &mut scratch);
        let networks = NetworkTags::EMPTY;
        write(&Message::AliasesReply(AliasesReply { aliases, networks }), &mut message);
        self.send_plaintext(2, &message);
        self.advance_until(self.table.now + Duration::from_millis(10));
    }

    /// Sends messages from a scripted peer.
    fn send_plaintext(&mut self, peer_index: usize, messages: &[u8]) {
        self.registered.extend(Messages::new(messages).flatten().filter_map(|message| match message {
            Message::Register(register) => Some(register.rate.rate().min(GRANTED.rate())),
            _ => None,
        }));
        let peer = &mut self.scripted_peers[peer_index];
        let (from, packet) = (peer.who.address(), peer.seal_messages(messages));
        self.deliver(from, packet);
    }

    fn deliver(&mut self, from: SocketAddr, packet: Option<Vec<u8>>) {
        let Some(packet) = packet else { return };
        let output = self.table.deliver_replayable(from, packet);
        self.route(output);
    }

    /// Passes packets to the scripted peers, which answer handshakes.
    fn route(&mut self, output: Output) {
        let mut outputs = vec![output];
        while let Some(output) = outputs.pop() {
            self.count_repair_bytes(&output);
            for (to, bytes) in output.sent {
                let peer = self.scripted_peers.iter_mut().find(|peer| peer.who.address() == to);
                let answer = peer.and_then(|peer| peer.on_packet(&bytes)).filter(|_| self.are_answered);
                if let Some(answer) = answer {
                    outputs.push(self.table.receive(to, &answer));
                }
            }
        }
    }

    /// Checks that repairs remain within the budgets of the flows' rates.
    fn count_repair_bytes(&mut self, output: &Output) {
        for (_, bytes) in &output.sent {
            let is_repair = bytes[0] == 9 && matches!(bytes[1], 4 | 5);
            self.repair_bytes += if is_repair { bytes.len() as u64 - 32 } else { 0 };
            let is_carried = bytes[0] == 9 && bytes[1] == 2;
            self.forwarded_bytes += if is_carried { bytes.len() as u64 - 32 } else { 0 };
        }
        let (repairs, allowed) = (self.repair_bytes, self.allowed(REPAIR_BURST));
        assert!(repairs <= allowed, "repairs of {repairs} bytes where {allowed} are due");
        // Each copy is forwarded once, and once more if it was lost.
        let (forwarded, allowed) = (self.forwarded_bytes, 2 * self.allowed(COPY_BURST));
        assert!(forwarded <= allowed, "{forwarded} bytes forwarded where {allowed} may be");
    }

    /// Returns the bytes that all registered rates permit until now, with this burst.
    fn allowed(&self, burst: Duration) -> u64 {
        let time = burst + (self.table.now - Time::START);
        self.registered.iter().map(|rate| rate.bytes_in(time).expect("plays are short").count()).sum()
    }

    fn advance_until(&mut self, until: Time) {
        while let Some(output) = self.table.wake(until) {
            self.route(output);
        }
        self.table.now = self.table.now.max(until);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 24 {
            0..3 => self.advance_until(self.table.now + input.step()),
            // The driver is late: time advances without handling deadlines.
            3 => self.table.now += input.step(),
            4 => self.send_unauthenticated(input),
            5..9 => self.send_messages(input),
            9 => {
                let (peer_index, length) = (input.below(3), usize::from(input.byte()));
                self.send_plaintext(peer_index, input.bytes(length));
            }
            10 => self.envelop(input),
            11 | 12 => self.send_batch_repair(input),
            13 => self.send_block_repair(input),
            14 => self.send_copy(input),
            15 => self.send_nack(input),
            16 => self.request_copies(input),
            17 => self.send_cooperative_packet(input),
            18 | 19 => self.send_source_copies(input),
            20 => self.begin_epoch(input),
            21 => self.forward(input),
            22 => self.replay(input),
            _ => {
                let peer_index = input.below(3);
                self.are_answered = input.byte() < 220;
                self.scripted_peers[peer_index].skip(input.long() >> 8);
                let answers = self.scripted_peers[peer_index].answers(self.table.now);
                self.send_plaintext(peer_index, &answers);
            }
        }
    }

    /// Sends a packet from a node whose keys the relay does not know.
    fn send_unauthenticated(&mut self, input: &mut Input<'_>) {
        let from = NodeId::Stranger.address();
        let length = usize::from(input.byte());
        let mut bytes = input.bytes(length).to_vec();
        if length > 240 {
            let purpose = [Purpose::EndToEnd, Purpose::AgentToRelay, Purpose::RelayToRelay][length % 3];
            bytes = ScriptedPeer::new(NodeId::Stranger, EGRESS, purpose).initiate(input.byte(), &bytes);
        }
        let is_late = self.table.is_late();
        let output = self.table.receive(from, &bytes);
        assert!(is_late || output.bytes_to(from) <= bytes.len(), "a stranger gets more than it gave");
        self.route(output);
    }

    fn subject<'a>(&self, keys: &'a [FlowKey], packet: &'a [u8]) -> MessageContext<'a> {
        MessageContext { keys, newest: self.newest, aliases: 3, packet }
    }

    /// Sends a message packet, mostly with well-formed messages.
    fn send_messages(&mut self, input: &mut Input<'_>) {
        let keys = keys();
        let mut messages = Vec::new();
        let subject = self.subject(&keys, b"\x08 is no packet");
        for _ in 0..=input.below(3) {
            subject.write_message(input, &mut messages);
        }
        messages.truncate(65_000);
        self.send_plaintext(input.below(3), &messages);
    }

    /// Sends an envelope of any role with arbitrary content.
    fn envelop(&mut self, input: &mut Input<'_>) {
        let (peer_index, role) = (input.below(3), input.role());
        let number = alias(1 + u16::from(input.byte() % 4));
        let (low, length, fill) = (input.near(self.newest), input.length().max(22), input.byte());
        let peer = &mut self.scripted_peers[peer_index];
        let (from, packet) = (peer.who.address(), peer.seal_envelope(role, number, low, &vec![fill; length]));
        self.deliver(from, packet);
    }

    fn number(&mut self, input: &mut Input<'_>) -> u32 {
        let low = input.near(self.newest.wrapping_add(90));
        if low.wrapping_sub(self.newest) < 1 << 20 {
            self.newest = low;
        }
        low
    }

    /// Sends a cross-stream repair of two flows from the other relay, with or without digests.
    fn send_batch_repair(&mut self, input: &mut Input<'_>) {
        let (one, other, choice) = (self.number(input), input.near(self.newest), input.byte());
        let covered = [(alias(1), one), (alias(2), other), (alias(1), one.wrapping_add(1))];
        let covered = &covered[..usize::from(choice % 3 + 1)];
        let payloads = (0..2).map(|_| AlignedBuffer::new(2_048));
        let mut encoder = Encoder::new(Engine::fastest(), payloads).expect("there are two");
        for (alias, low) in covered {
            encoder.add(&coded(*alias, *low)).expect("packets are few and short");
        }
        let digests: Vec<[u8; 4]> = covered
            .iter()
            .map(|(alias, low)| self.scripted_peers[2].digest(*alias, *low, &coded(*alias, *low)))
            .collect();
        let mut scratch = [[0; Entry::BYTES]; 3];
        let mut entries = covered.iter().map(|(alias, low)| Entry { alias: *alias, sequence_low: *low });
        let entries = Entries::collect(&mut entries, &mut scratch);
        let cover =
            Cover::new(entries, (choice & 0x40 == 0).then_some(&digests)).expect("there are one to three");
        self.next_batch = self.next_batch.wrapping_add(u32::from(choice != 255));
        let mut messages = Vec::new();
        for repair in encoder.repairs(BatchId::new(self.next_batch)).take(1 + usize::from(choice & 1)) {
            let index = u8::try_from(repair.index).expect("there are two");
            let repair_index = RepairIndex::new(index, 2).expect("it is one of two");
            let length_symbol = [repair.length_symbol[0] ^ u8::from(choice >= 250), repair.length_symbol[1]];
            let head = CrossStreamHead { batch: repair.batch, repair_index, length_symbol, cover };
            write(
                &Message::CrossStreamRepair(CrossStreamRepair { head, payload: repair.payload }),
                &mut messages,
            );
        }
        self.send_plaintext(2, &messages);
    }

    /// Sends an in-stream repair from the other relay.
    fn send_block_repair(&mut self, input: &mut Input<'_>) {
        let (first, count) = (self.number(input), input.byte() % 6 + 1);
        let number = alias(1 + u16::from(input.byte() % 3));
        let shape = BlockShape::new(count, 2).expect("blocks of one to six are made");
        let mut block = BlockEncoder::new(Engine::fastest(), shape, 0);
        for offset in 0..u64::from(count) {
            let sequence = SequenceNumber::new(u64::from(first) + offset);
            block.add(
                sequence,
                &coded(number, sequence.low()),
                byway_proto::limits::BLOCK_WAIT_MAX,
                self.table.now,
            );
        }
        let mut messages = Vec::new();
        for repair in block.repairs(number) {
            write(&Message::InStreamRepair(repair), &mut messages);
        }
        self.send_plaintext(2, &messages);
    }

    /// Sends a copy from the other relay.
    fn send_copy(&mut self, input: &mut Input<'_>) {
        let (low, number) = (self.number(input), alias(1 + u16::from(input.byte() % 2)));
        let packet =
            self.scripted_peers[2].seal_envelope(EnvelopeRole::RelayedCopy, number, low, &coded(number, low));
        self.deliver(INGRESS.address(), packet);
    }

    /// Sends a NACK from an agent, for a packet that may exist.
    fn send_nack(&mut self, input: &mut Input<'_>) {
        let (peer_index, choice, low) =
            (input.below(2), input.byte(), input.near(self.newest.wrapping_add(90)));
        let mut ranges = RangeSet::new();
        for offset in 0..u64::from(choice % 5) {
            assert!(ranges.insert(SequenceNumber::new(u64::from(low) + offset)), "one range takes them all");
        }
        let nack = Nack {
            alias: alias(if choice & 0x40 == 0 { 1 } else { 3 }),
            open_from_low: (choice & 0x80 != 0).then_some(low),
            noticed_by_timer: choice & 0x20 != 0,
            answers_confirm: choice & 0x10 != 0,
            queue_grows: choice & 0x08 != 0,
            repair_lifetime: Microseconds::from_duration(input.step()),
            ranges: ranges.ranges(),
        };
        let mut message = Vec::new();
        write(&Message::Nack(nack), &mut message);
        self.send_plaintext(peer_index, &message);
    }

    /// Sends a copy NACK from the other relay, for forwarded copies.
    fn request_copies(&mut self, input: &mut Input<'_>) {
        let (low, number) = (input.near(self.newest), alias(1 + u16::from(input.byte() % 2)));
        let mut ranges = RangeSet::new();
        for offset in 0..u64::from(input.byte()) {
            assert!(ranges.insert(SequenceNumber::new(u64::from(low) + offset)), "one range takes them all");
        }
        let mut message = Vec::new();
        write(&Message::CopyNack(CopyNack { alias: number, ranges: ranges.ranges() }), &mut message);
        self.send_plaintext(2, &message);
    }

    /// Sends a cooperative answer from an agent, correct or false.
    fn send_cooperative_packet(&mut self, input: &mut Input<'_>) {
        let (peer_index, lie) = (input.below(2), input.byte());
        let Some((requested_alias, low)) = self.scripted_peers[peer_index].pending.requested.pop() else {
            return;
        };
        // Both relays assign the alias of an agent's first flow by its index among their agents.
        let mut packet = coded(alias(1 + u16::from(peer_index == 1)), low);
        if lie >= 230 {
            packet[0] ^= 1;
        }
        let node = self.scripted_peers[peer_index].who.address();
        let envelope = self.scripted_peers[peer_index].seal_envelope(
            EnvelopeRole::CooperativeAnswer,
            requested_alias,
            low,
            &packet,
        );
        self.deliver(node, envelope);
    }

    /// Sends copies of an agent's packets.
    fn send_source_copies(&mut self, input: &mut Input<'_>) {
        let (peer_index, count) = (input.below(2), input.byte() % 12);
        let low = self.number(input);
        let role = if input.byte() < 230 { EnvelopeRole::Copy } else { EnvelopeRole::ResentCopy };
        for offset in 0..u32::from(count) {
            let low = low.wrapping_add(offset);
            let packet =
                self.scripted_peers[peer_index].seal_envelope(role, alias(2), low, &coded(alias(2), low));
            self.deliver(self.scripted_peers[peer_index].who.address(), packet);
        }
    }

    /// Begins a new epoch of a scripted peer, possibly with a new incarnation.
    fn begin_epoch(&mut self, input: &mut Input<'_>) {
        let peer_index = input.below(3);
        if input.byte() < 100 {
            self.scripted_peers[peer_index].incarnation += 1;
        }
        let packet = self.scripted_peers[peer_index].initiate(input.byte(), &[]);
        let node = self.scripted_peers[peer_index].who;
        let from = if input.byte() < 230 { node.address() } else { NodeId::Stranger.address() };
        let is_late = self.table.is_late();
        let output = self.table.receive(from, &packet);
        assert!(is_late || output.bytes_to(from) <= packet.len(), "the answer exceeds the initiation");
        for (_, response) in &output.sent {
            self.scripted_peers[peer_index].on_packet(response);
        }
        self.count_repair_bytes(&output);
    }

    /// Sends a packet of any length, which the relay must forward, from an agent or the other
    /// relay.
    fn forward(&mut self, input: &mut Input<'_>) {
        let (peer_index, to, kind) =
            (input.below(3), NodeId::Agent(input.byte() % 6), [4, 5, 6, 8][input.below(4)]);
        let mut packet = vec![7; input.length().max(1)];
        packet[0] = kind;
        let is_passed_on = "the kind is one that is passed on";
        let mut message = Vec::new();
        if peer_index == 2 {
            let from = NodeId::Agent(input.byte() % 6).agent_id();
            let relayed = InterRelayPacket::new(from, to.agent_id(), &packet).expect(is_passed_on);
            write(&Message::InterRelayPacket(relayed), &mut message);
        } else {
            let relayed = RelayedPacket::new(to.agent_id(), &packet).expect(is_passed_on);
            write(&Message::RelayedPacket(relayed), &mut message);
        }
        self.send_plaintext(peer_index, &message);
    }

    /// Replays a packet that the relay has received.
    fn replay(&mut self, input: &mut Input<'_>) {
        if let Some(output) = self.table.replay(input) {
            self.route(output);
        }
    }
}

fn registration(flow_key: FlowKey, role: FlowRole, service: Service) -> Register<'static> {
    Register {
        flow_key,
        role,
        revision: None,
        service,
        in_stream: BlockShape::new(5, 1),
        batch: BlockShape::new(4, 2),
        options: FlowOptions {
            relay_side_duplication: false,
            sender_makes_repairs: false,
            coded_with_other_tenants: true,
            selective: false,
            adaptive_redundancy: false,
        },
        rate: RATE,
        budget: Microseconds::new(250_000),
        consent: Consent { burst_percent: 100, average_per_mille: 50, seconds: 30 },
        far_relay: topology::far_relay(flow_key, role),
        grant: &[],
    }
}
