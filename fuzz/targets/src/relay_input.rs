//! A relay between lying agents, a lying relay and strangers.

use std::net::SocketAddr;

use byway_code::{AlignedBuffer, Encoder, Engine};
use byway_proto::parts::block_encoder::BlockEncoder;
use byway_units::{BatchId, Duration, Rate, Time};
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasKnowledge, AliasKnowledges, Aliases, AliasesKnown, Consent,
    CopyNack, Cover, CrossStreamHead, CrossStreamRepair, Entries, Entry, FlowOptions, FlowRole, Nack,
    Register, Relayed, RelayedOn,
};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::Purpose;
use byway_wire::{
    Alias, BlockShape, FlowKey, KilobitsPerSecond, Message, Messages, Microseconds, Place, RangeSet,
    SequenceNumber, Service,
};

use crate::harness::input::Input;
use crate::harness::machine::{Machine, Output};
use crate::harness::message_generator::Subject;
use crate::harness::scripted_peer::{ScriptedPeer, write};
use crate::harness::table::Table;
use crate::harness::topology::{self, EGRESS, INGRESS, NodeId};

const TWO: NodeId = NodeId::Agent(2);
const FOUR: NodeId = NodeId::Agent(4);

/// What each flow may send, in kbit/s.
const RATE: KilobitsPerSecond = KilobitsPerSecond::new(2_000);

/// What the flows of a grant may send.
const GRANTED: KilobitsPerSecond = KilobitsPerSecond::new(topology::GRANTED_KBITS);

/// What the repairs of a flow may take at once, as time at its rate.
const REPAIR_BURST: Duration = Duration::from_secs(2);

/// What the copies of a flow may take at once, as time at its rate.
const COPY_BURST: Duration = Duration::from_millis(500);

struct Harness {
    table: Table,
    /// Agents 2 and 4, and the other relay.
    hands: [ScriptedPeer; 3],
    newest: u32,
    next_batch: u32,
    /// The rates of all registrations that agents asked for; each comes with a budget.
    registered: Vec<Rate>,
    repair_bytes: u64,
    carried_bytes: u64,
    are_answered: bool,
}

/// Tells a relay what the input says, with all keys that its agents and the other relay have.
///
/// # Panics
/// If the relay does, spends more on repairs than was registered, or tells strangers more than they told it.
pub fn relay_input(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut harness = Harness::new(&mut input);
    while !input.is_empty() {
        harness.turn(&mut input);
    }
    harness.pass(harness.table.now + Duration::from_secs(3));
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

/// The coded bytes of a packet of the flow with this alias, the same whenever they are asked for.
fn coded(alias: Alias, low: u32) -> Vec<u8> {
    let [.., fill] = low.to_be_bytes();
    vec![fill ^ alias.number().to_be_bytes()[1]; 100 + usize::from(fill)]
}

impl Harness {
    fn new(input: &mut Input<'_>) -> Self {
        let mut harness = Self {
            table: Table::new(Machine::relay(topology::relay(EGRESS))),
            hands: [
                ScriptedPeer::new(TWO, EGRESS, Purpose::AgentToRelay),
                ScriptedPeer::new(FOUR, EGRESS, Purpose::AgentToRelay),
                ScriptedPeer::new(INGRESS, EGRESS, Purpose::RelayToRelay),
            ],
            newest: 0,
            next_batch: 0,
            registered: Vec::new(),
            repair_bytes: 0,
            carried_bytes: 0,
            are_answered: true,
        };
        let output = harness.table.machine.drain();
        harness.route(output);
        for place in 0..harness.hands.len() {
            if !harness.hands[place].is_established() {
                let packet = harness.hands[place].initiate(0, &[]);
                harness.tell(harness.hands[place].who.address(), Some(packet));
            }
        }
        assert!(harness.hands.iter().all(ScriptedPeer::is_established));
        harness.register(input);
        harness
    }

    /// The flows begin as both agents and both relays mean them.
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
        for (hand, flow_key, role) in wanted {
            let mut message = Vec::new();
            write(&Message::Register(registration(flow_key, role, service)), &mut message);
            self.say(hand, &message);
        }
        let announced = [(1, topology::flow(1, 2, 1)), (2, topology::flow(3, 4, 1))];
        let mut announced = announced.into_iter().map(|(number, flow_key)| AliasAnnouncement {
            alias: alias(number),
            flow_key,
            service,
            selective: false,
            rate: RATE,
        });
        let mut message = Vec::new();
        let mut scratch = [[0; AliasAnnouncement::BYTES]; 2];
        let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
        write(&Message::Aliases(Aliases { flows }), &mut message);
        let mut known = std::iter::once(AliasKnowledge { alias: alias(1), has_receiver: true });
        let mut scratch = [[0; AliasKnowledge::BYTES]; 1];
        let aliases = AliasKnowledges::collect(&mut known, &mut scratch);
        write(&Message::AliasesKnown(AliasesKnown { aliases }), &mut message);
        self.say(2, &message);
        self.pass(self.table.now + Duration::from_millis(10));
    }

    /// A hand says something.
    fn say(&mut self, hand: usize, messages: &[u8]) {
        self.registered.extend(Messages::new(messages).flatten().filter_map(|message| match message {
            Message::Register(register) => Some(register.rate.rate().min(GRANTED.rate())),
            _ => None,
        }));
        let hand = &mut self.hands[hand];
        let (from, packet) = (hand.who.address(), hand.says(messages));
        self.tell(from, packet);
    }

    fn tell(&mut self, from: SocketAddr, packet: Option<Vec<u8>>) {
        let Some(packet) = packet else { return };
        let output = self.table.tell(from, packet);
        self.route(output);
    }

    /// Hands take what is theirs, and answer handshakes.
    fn route(&mut self, output: Output) {
        let mut outputs = vec![output];
        while let Some(output) = outputs.pop() {
            self.charge(&output);
            for (to, bytes) in output.sent {
                let hand = self.hands.iter_mut().find(|hand| hand.who.address() == to);
                let answer = hand.and_then(|hand| hand.take(&bytes)).filter(|_| self.are_answered);
                if let Some(answer) = answer {
                    outputs.push(self.table.receive(to, &answer));
                }
            }
        }
    }

    /// Repairs stay within what the flows' rates allow.
    fn charge(&mut self, output: &Output) {
        for (_, bytes) in &output.sent {
            let is_repair = bytes[0] == 9 && matches!(bytes[1], 4 | 5);
            self.repair_bytes += if is_repair { bytes.len() as u64 - 32 } else { 0 };
            let is_carried = bytes[0] == 9 && bytes[1] == 2;
            self.carried_bytes += if is_carried { bytes.len() as u64 - 32 } else { 0 };
        }
        let (repairs, allowed) = (self.repair_bytes, self.allowed(REPAIR_BURST));
        assert!(repairs <= allowed, "repairs of {repairs} bytes where {allowed} are due");
        // Once, and as much again for those that got lost.
        let (carried, allowed) = (self.carried_bytes, 2 * self.allowed(COPY_BURST));
        assert!(carried <= allowed, "{carried} bytes carried where {allowed} may be");
    }

    /// What all registered rates let through, with so much of it at once.
    fn allowed(&self, burst: Duration) -> u64 {
        let time = burst + (self.table.now - Time::START);
        self.registered.iter().map(|rate| rate.bytes_in(time).expect("plays are short").count()).sum()
    }

    fn pass(&mut self, until: Time) {
        while let Some(output) = self.table.wake(until) {
            self.route(output);
        }
        self.table.now = self.table.now.max(until);
    }

    fn turn(&mut self, input: &mut Input<'_>) {
        match input.byte() % 24 {
            0..3 => self.pass(self.table.now + input.step()),
            // A driver that is late.
            3 => self.table.now += input.step(),
            4 => self.anybody_says(input),
            5..9 => self.somebody_says(input),
            9 => {
                let (hand, length) = (input.below(3), usize::from(input.byte()));
                self.say(hand, input.bytes(length));
            }
            10 => self.envelop(input),
            11 | 12 => self.batch(input),
            13 => self.block(input),
            14 => self.carry(input),
            15 => self.ask(input),
            16 => self.miss(input),
            17 => self.help(input),
            18 | 19 => self.copy(input),
            20 => self.shake_hands(input),
            21 => self.pass_on(input),
            22 => self.repeat(input),
            _ => {
                let hand = input.below(3);
                self.are_answered = input.byte() < 220;
                self.hands[hand].skip(input.long() >> 8);
                let answers = self.hands[hand].answers(self.table.now);
                self.say(hand, &answers);
            }
        }
    }

    /// A packet of somebody without keys that the relay knows.
    fn anybody_says(&mut self, input: &mut Input<'_>) {
        let from = NodeId::Stranger.address();
        let length = usize::from(input.byte());
        let mut bytes = input.bytes(length).to_vec();
        if length > 240 {
            let purpose = [Purpose::EndToEnd, Purpose::AgentToRelay, Purpose::RelayToRelay][length % 3];
            bytes = ScriptedPeer::new(NodeId::Stranger, EGRESS, purpose).initiate(input.byte(), &bytes);
        }
        let output = self.table.receive(from, &bytes);
        assert!(output.bytes_to(from) <= bytes.len(), "a stranger gets more than it gave");
        self.route(output);
    }

    fn subject<'a>(&self, keys: &'a [FlowKey], packet: &'a [u8]) -> Subject<'a> {
        Subject { keys, newest: self.newest, aliases: 3, packet }
    }

    /// A message packet, its messages mostly of the right form.
    fn somebody_says(&mut self, input: &mut Input<'_>) {
        let keys = keys();
        let mut messages = Vec::new();
        let subject = self.subject(&keys, b"\x08 is no packet");
        for _ in 0..=input.below(3) {
            subject.say(input, &mut messages);
        }
        messages.truncate(65_000);
        self.say(input.below(3), &messages);
    }

    /// An envelope of any role with anything in it.
    fn envelop(&mut self, input: &mut Input<'_>) {
        let (hand, role) = (input.below(3), input.role());
        let number = alias(1 + u16::from(input.byte() % 4));
        let (low, length, fill) = (input.near(self.newest), input.length().max(22), input.byte());
        let hand = &mut self.hands[hand];
        let (from, packet) = (hand.who.address(), hand.envelops(role, number, low, &vec![fill; length]));
        self.tell(from, packet);
    }

    fn number(&mut self, input: &mut Input<'_>) -> u32 {
        let low = input.near(self.newest.wrapping_add(90));
        if low.wrapping_sub(self.newest) < 1 << 20 {
            self.newest = low;
        }
        low
    }

    /// The other relay has coded packets of two flows together, and says so with or without digests.
    fn batch(&mut self, input: &mut Input<'_>) {
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
            .map(|(alias, low)| self.hands[2].digest(*alias, *low, &coded(*alias, *low)))
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
            let place = Place::new(index, 2).expect("it is one of two");
            let length_symbol = [repair.length_symbol[0] ^ u8::from(choice >= 250), repair.length_symbol[1]];
            let head = CrossStreamHead { batch: repair.batch, place, length_symbol, cover };
            write(
                &Message::CrossStreamRepair(CrossStreamRepair { head, payload: repair.payload }),
                &mut messages,
            );
        }
        self.say(2, &messages);
    }

    /// The other relay has made a block of one flow's packets.
    fn block(&mut self, input: &mut Input<'_>) {
        let (first, count) = (self.number(input), input.byte() % 6 + 1);
        let number = alias(1 + u16::from(input.byte() % 3));
        let shape = BlockShape::new(count, 2).expect("blocks of one to six are made");
        let mut block = BlockEncoder::new(Engine::fastest(), shape, 0);
        for offset in 0..u64::from(count) {
            let sequence = SequenceNumber::new(u64::from(first) + offset);
            block.add(sequence, &coded(number, sequence.low()), self.table.now);
        }
        let mut messages = Vec::new();
        for repair in block.repairs(number) {
            write(&Message::InStreamRepair(repair), &mut messages);
        }
        self.say(2, &messages);
    }

    /// The other relay brings a copy.
    fn carry(&mut self, input: &mut Input<'_>) {
        let (low, number) = (self.number(input), alias(1 + u16::from(input.byte() % 2)));
        let packet = self.hands[2].envelops(EnvelopeRole::Carried, number, low, &coded(number, low));
        self.tell(INGRESS.address(), packet);
    }

    /// An agent asks for a packet that there may be.
    fn ask(&mut self, input: &mut Input<'_>) {
        let (hand, choice, low) = (input.below(2), input.byte(), input.near(self.newest.wrapping_add(90)));
        let mut ranges = RangeSet::new();
        for offset in 0..u64::from(choice % 5) {
            assert!(ranges.insert(SequenceNumber::new(u64::from(low) + offset)), "one range takes them all");
        }
        let nack = Nack {
            alias: alias(if choice & 0x40 == 0 { 1 } else { 3 }),
            open_from_low: (choice & 0x80 != 0).then_some(low),
            noticed_by_timer: choice & 0x20 != 0,
            answers_confirm: choice & 0x10 != 0,
            patience: Microseconds::from_duration(input.step()),
            ranges: ranges.ranges(),
        };
        let mut message = Vec::new();
        write(&Message::Nack(nack), &mut message);
        self.say(hand, &message);
    }

    /// The other relay asks for copies that were carried to it.
    fn miss(&mut self, input: &mut Input<'_>) {
        let (low, number) = (input.near(self.newest), alias(1 + u16::from(input.byte() % 2)));
        let mut ranges = RangeSet::new();
        for offset in 0..u64::from(input.byte()) {
            assert!(ranges.insert(SequenceNumber::new(u64::from(low) + offset)), "one range takes them all");
        }
        let mut message = Vec::new();
        write(&Message::CopyNack(CopyNack { alias: number, ranges: ranges.ranges() }), &mut message);
        self.say(2, &message);
    }

    /// An agent gives what it was asked for, or something else.
    fn help(&mut self, input: &mut Input<'_>) {
        let (hand, lie) = (input.below(2), input.byte());
        let Some((asked, low)) = self.hands[hand].heard.requested.pop() else { return };
        // Both relays call an agent's first flow by its place among their agents.
        let mut packet = coded(alias(1 + u16::from(hand == 1)), low);
        if lie >= 230 {
            packet[0] ^= 1;
        }
        let who = self.hands[hand].who.address();
        let envelope = self.hands[hand].envelops(EnvelopeRole::CooperativeAnswer, asked, low, &packet);
        self.tell(who, envelope);
    }

    /// An agent sends copies of what it sends.
    fn copy(&mut self, input: &mut Input<'_>) {
        let (hand, count) = (input.below(2), input.byte() % 12);
        let low = self.number(input);
        let role = if input.byte() < 230 { EnvelopeRole::Copy } else { EnvelopeRole::ResentCopy };
        for offset in 0..u32::from(count) {
            let low = low.wrapping_add(offset);
            let packet = self.hands[hand].envelops(role, alias(2), low, &coded(alias(2), low));
            self.tell(self.hands[hand].who.address(), packet);
        }
    }

    /// A hand begins a new epoch, perhaps as if it had restarted.
    fn shake_hands(&mut self, input: &mut Input<'_>) {
        let hand = input.below(3);
        if input.byte() < 100 {
            self.hands[hand].boot += 1;
        }
        let packet = self.hands[hand].initiate(input.byte(), &[]);
        let who = self.hands[hand].who;
        let from = if input.byte() < 230 { who.address() } else { NodeId::Stranger.address() };
        let output = self.table.receive(from, &packet);
        assert!(output.bytes_to(from) <= packet.len(), "an answer is longer than the initiation");
        for (_, response) in &output.sent {
            self.hands[hand].take(response);
        }
        self.charge(&output);
    }

    /// An agent, or the other relay, wants a packet passed on, of whatever length.
    fn pass_on(&mut self, input: &mut Input<'_>) {
        let (hand, to, kind) =
            (input.below(3), NodeId::Agent(input.byte() % 6), [4, 5, 6, 8][input.below(4)]);
        let mut packet = vec![7; input.length().max(1)];
        packet[0] = kind;
        let is_passed_on = "the kind is one that is passed on";
        let mut message = Vec::new();
        if hand == 2 {
            let from = NodeId::Agent(input.byte() % 6).agent_id();
            let relayed = RelayedOn::new(from, to.agent_id(), &packet).expect(is_passed_on);
            write(&Message::RelayedOn(relayed), &mut message);
        } else {
            let relayed = Relayed::new(to.agent_id(), &packet).expect(is_passed_on);
            write(&Message::Relayed(relayed), &mut message);
        }
        self.say(hand, &message);
    }

    /// A packet comes again.
    fn repeat(&mut self, input: &mut Input<'_>) {
        if let Some(output) = self.table.repeat(input) {
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
        },
        rate: RATE,
        budget: Microseconds::new(250_000),
        consent: Consent { burst_percent: 100, average_per_mille: 50, seconds: 30 },
        far_relay: topology::far_relay(flow_key, role),
        grant: &[],
    }
}
