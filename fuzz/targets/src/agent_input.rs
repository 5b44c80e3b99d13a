//! Fuzz target: an agent between a misbehaving relay and a misbehaving peer. Both have their keys,
//! and send what the input determines.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use byway_code::{AlignedBuffer, Encoder, Engine};
use byway_proto::agent::{Agent, Offer, OfferRefusal, ReceiveFlowId, SendFlowId};
use byway_units::{AgentId, BatchId, FlowId, Time};
use byway_wire::messages::{FlowRole, InStreamHead, InStreamRepair, Mask, RegisterReply, RelayedPacket};
use byway_wire::packets::SourceHeader;
use byway_wire::seal::Purpose;
use byway_wire::{Alias, FlowKey, Fragment, Message, Messages, RepairIndex, Service};

use crate::harness::input::Input;
use crate::harness::machine::{Machine, Output};
use crate::harness::message_generator::MessageContext;
use crate::harness::scripted_peer::{ScriptedPeer, write};
use crate::harness::test_bench::TestBench;
use crate::harness::topology::{self, EGRESS, INGRESS, NodeId};

const SELF: NodeId = NodeId::Agent(2);
const PEER: NodeId = NodeId::Agent(1);
const FLOW: FlowId = FlowId::new(1);

/// Most sealed packets of the peer that may still be delivered, by any path.
const SEALED_MAX: usize = 32;

/// A sealed source packet of the scripted peer, which may be delivered later.
struct SealedPacket {
    number: u64,
    /// Bytes of the packet in the form for the direct path.
    packet: Vec<u8>,
}

struct AgentHarness {
    table: TestBench,
    relay: ScriptedPeer,
    peer: ScriptedPeer,
    service: Service,
    /// Flows that the agent sends and receives; `None` while closed.
    sends: Option<SendFlowId>,
    receives: Option<ReceiveFlowId>,
    sealed: Vec<SealedPacket>,
    next: u64,
    /// Number of datagrams that the peer has sealed, and the numbers of those that the agent
    /// delivered.
    made: u64,
    delivered: BTreeSet<u64>,
    /// Datagrams of the peer's early packets, which the agent may deliver.
    early: BTreeSet<Vec<u8>>,
    /// True after an early packet with a fragment, which the agent may join with a fragment of any
    /// other datagram.
    has_early_fragments: bool,
    are_answered: bool,
}

/// Sends packets that the input determines to an agent, with all keys of its relay and its peer.
///
/// # Panics
/// - If the agent panics.
/// - If it delivers a datagram that the peer did not seal, or delivers one twice.
/// - If it sends more bytes to a stranger than it received from it.
pub fn agent_input(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut harness = AgentHarness::new(&mut input);
    while !input.is_empty() {
        harness.step(&mut input);
    }
    harness.advance_until(harness.table.now + byway_units::Duration::from_secs(3));
}

fn alias(number: u16) -> Alias {
    Alias::new(number).expect("the alias is not zero")
}

/// Opens the flow that the agent sends.
fn open(agent: &mut Agent, service: Service, now: Time) -> Option<SendFlowId> {
    agent.open_flow(topology::flow(2, 1, 1), topology::settings(service, EGRESS, INGRESS), now)
}

/// Accepts the flow that the agent receives.
fn accept(agent: &mut Agent, service: Service, now: Time) -> Option<ReceiveFlowId> {
    agent.accept_flow(topology::flow(1, 2, 1), topology::settings(service, INGRESS, EGRESS), now)
}

impl AgentHarness {
    fn new(input: &mut Input<'_>) -> Self {
        let mut agent = topology::agent(SELF, EGRESS, PEER);
        let services =
            [Service::Coding, Service::Caching, Service::Both, Service::Forwarding, Service::Internet];
        let service = services[input.below(services.len())];
        let receives = accept(&mut agent, service, Time::START);
        let sends = open(&mut agent, service, Time::START);
        assert!(receives.is_some() && sends.is_some(), "the peer is known");
        let mut harness = Self {
            table: TestBench::new(Machine::agent(agent)),
            relay: ScriptedPeer::new(EGRESS, SELF, Purpose::AgentToRelay),
            peer: ScriptedPeer::new(PEER, SELF, Purpose::EndToEnd),
            service,
            sends,
            receives,
            sealed: Vec::new(),
            next: 0,
            made: 0,
            delivered: BTreeSet::new(),
            early: BTreeSet::new(),
            has_early_fragments: false,
            are_answered: true,
        };
        let output = harness.table.machine.drain();
        harness.route(output);
        assert!(harness.relay.is_established() && harness.peer.is_established());
        let mut registered = Vec::new();
        for (flow_key, role, number) in
            [(topology::flow(1, 2, 1), FlowRole::Receiver, 1), (topology::flow(2, 1, 1), FlowRole::Sender, 2)]
        {
            let far_relay = topology::far_relay(flow_key, role);
            let registered_message = RegisterReply {
                flow_key,
                role,
                revision: None,
                far_relay,
                outcome: Ok(alias(number)),
                far_round_trip: None,
                group_activity: None,
            };
            write(&Message::RegisterReply(registered_message), &mut registered);
        }
        let packet = harness.relay.seal_messages(&registered);
        harness.deliver(EGRESS.address(), packet);
        harness
    }

    /// Passes packets to the scripted peers, which answer handshakes.
    fn route(&mut self, output: Output) {
        let mut outputs = vec![output];
        while let Some(output) = outputs.pop() {
            for (_, datagram) in &output.delivered {
                self.check_delivered(datagram);
            }
            for (peer, flow, offer) in &output.offered {
                outputs.push(self.answer_offer(*peer, *flow, offer));
            }
            for (to, bytes) in output.sent {
                let peer = match to {
                    _ if to == EGRESS.address() => &mut self.relay,
                    _ if to == PEER.address() => &mut self.peer,
                    _ => continue,
                };
                if let Some(answer) = peer.on_packet(&bytes).filter(|_| self.are_answered) {
                    outputs.push(self.table.receive(to, &answer));
                }
            }
        }
    }

    /// Answers an offer of the peer. The first byte of its subject determines the answer.
    fn answer_offer(&mut self, peer: AgentId, flow: FlowId, offer: &Offer) -> Output {
        assert!(peer == PEER.agent_id() && flow.number().is_multiple_of(2), "{peer:?} offers flow {flow:?}");
        let outcome = match offer.subject.first().copied().unwrap_or(0) {
            0..100 => Ok(()),
            100..200 => Err(OfferRefusal::NotYet),
            _ => Err(OfferRefusal::UnknownSubject),
        };
        if offer.subject.len() < 12 {
            self.table.machine.as_agent().answer_offer(peer, flow, outcome, self.table.now);
        }
        self.table.machine.drain()
    }

    /// Records the early packets among messages, because the agent delivers their datagrams without
    /// a sealed source packet.
    fn note_early(&mut self, messages: &[u8]) {
        for message in Messages::new(messages).flatten() {
            if let Message::EarlyPacket(packet) = message {
                self.early.insert(packet.plaintext.datagram.to_vec());
                self.has_early_fragments |= packet.fragment != Fragment::Whole;
            }
        }
    }

    fn check_delivered(&mut self, datagram: &[u8]) {
        if self.has_early_fragments || self.early.contains(datagram) {
            return;
        }
        let number = datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let number = number.expect("the peer's datagrams are numbered");
        assert!(number < self.made, "a datagram is delivered that was never sealed");
        assert!(self.delivered.insert(number), "a datagram is delivered twice");
    }

    /// Delivers a packet that is sealed for the agent.
    fn deliver(&mut self, from: SocketAddr, packet: Option<Vec<u8>>) {
        let Some(packet) = packet else { return };
        let output = self.table.deliver_replayable(from, packet);
        self.route(output);
    }

    /// Advances time to `until`, and handles all deadlines before it.
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
            9 => self.send_arbitrary_plaintext(input),
            10..12 => self.seal(input),
            12..14 => self.send_direct(input),
            14..16 => self.repair(input),
            16 => self.repair_in_stream(input),
            17 | 18 => {
                let (length, marked) = (input.length(), input.byte() < 128);
                let datagram = vec![1; length];
                if let Some(flow) = self.sends {
                    let output = self.table.machine.send(flow, &datagram, marked, self.table.now);
                    self.route(output);
                }
            }
            19 => self.begin_epoch(input),
            20 => self.forward(input),
            21 => self.answer(input),
            22 => self.replay(input),
            _ => match input.byte() {
                254.. => self.change_flows(input),
                choice => {
                    self.are_answered = choice < 200;
                    self.relay.skip(input.long() >> 8);
                }
            },
        }
    }

    /// Closes, reopens or offers flows. Occasionally, the agent leaves.
    fn change_flows(&mut self, input: &mut Input<'_>) {
        let (choice, now, service) = (input.byte(), self.table.now, self.service);
        let agent = self.table.machine.as_agent();
        match choice {
            0..120 => match self.sends.take() {
                Some(flow) => agent.close_flow(flow, now),
                None => self.sends = open(agent, service, now),
            },
            120..220 => match self.receives.take() {
                Some(flow) => agent.close_received_flow(flow, now),
                None => self.receives = accept(agent, service, now),
            },
            220..240 => {
                let flow = FlowId::new(input.byte().into());
                let offer = Offer { subject: vec![choice; 3], ..Offer::default() };
                let is_its = flow.number() % 2 == 1;
                assert!(!agent.offer(PEER.agent_id(), flow, offer, now) || is_its);
                if input.byte() < 100 {
                    agent.withdraw_offer(PEER.agent_id(), flow);
                }
            }
            _ => {
                agent.close(now);
                (self.sends, self.receives) = (None, None);
            }
        }
        let output = self.table.machine.drain();
        self.route(output);
    }

    /// Sends a packet from a node without keys.
    fn send_unauthenticated(&mut self, input: &mut Input<'_>) {
        let from = [NodeId::Stranger, PEER, EGRESS][input.below(3)].address();
        let length = usize::from(input.byte());
        let bytes = input.bytes(length);
        let is_late = self.table.is_late();
        let output = self.table.receive(from, bytes);
        assert!(is_late || output.bytes_to(from) <= bytes.len(), "a stranger gets more than it gave");
        assert!(output.delivered.is_empty());
        self.route(output);
    }

    fn subject<'a>(&self, keys: &'a [FlowKey], packet: &'a [u8]) -> MessageContext<'a> {
        let [.., a, b, c, d] = self.next.to_be_bytes();
        MessageContext { keys, newest: u32::from_be_bytes([a, b, c, d]), aliases: 2, packet }
    }

    fn scripted_peer(&mut self, input: &mut Input<'_>) -> &mut ScriptedPeer {
        if input.byte() < 170 { &mut self.relay } else { &mut self.peer }
    }

    /// Sends a message packet, mostly with well-formed messages.
    fn send_messages(&mut self, input: &mut Input<'_>) {
        let keys = [topology::flow(1, 2, 1), topology::flow(2, 1, 1), topology::flow(1, 2, 2)];
        let mut messages = Vec::new();
        let subject = self.subject(&keys, b"\x08 is no packet");
        for _ in 0..=input.below(3) {
            subject.write_message(input, &mut messages);
        }
        messages.truncate(65_000);
        self.note_early(&messages);
        let peer = self.scripted_peer(input);
        let (from, packet) = (peer.who.address(), peer.seal_messages(&messages));
        let from = if input.byte() < 240 { from } else { NodeId::Stranger.address() };
        self.deliver(from, packet);
    }

    fn send_arbitrary_plaintext(&mut self, input: &mut Input<'_>) {
        let length = usize::from(input.byte());
        let messages = input.bytes(length);
        self.note_early(messages);
        let peer = self.scripted_peer(input);
        let (from, packet) = (peer.who.address(), peer.seal_messages(messages));
        self.deliver(from, packet);
    }

    /// Seals a datagram of the peer. A later step determines its delivery.
    fn seal(&mut self, input: &mut Input<'_>) {
        let fragment = match input.byte() {
            0..200 => Fragment::Whole,
            200..228 => Fragment::First,
            _ => Fragment::Second,
        };
        let number = match input.byte() {
            0..220 => self.next,
            by => (self.next + 20).saturating_sub(u64::from(by) - 220),
        };
        let jump = if input.byte() < 250 { 1 } else { u64::from(input.long()) };
        self.next = self.next.max(number).saturating_add(jump);
        let length = input.length();
        let mut datagram = self.made.to_be_bytes().to_vec();
        datagram.resize(length.max(8), 3);
        let late = input.step();
        let sent = if input.byte() < 128 { self.table.now } else { self.table.now.saturating_sub(late) };
        let Some(packet) = self.peer.seal_source_packet(FLOW, number, fragment, sent, &datagram) else {
            return;
        };
        self.made += 1;
        if self.sealed.len() == SEALED_MAX {
            self.sealed.remove(0);
        }
        self.sealed.push(SealedPacket { number, packet });
    }

    /// Returns one of the sealed packets, as the input determines; `None` if there are none.
    fn choose(&self, input: &mut Input<'_>) -> Option<&SealedPacket> {
        let back = input.below(SEALED_MAX);
        self.sealed.len().checked_sub(back + 1).map(|index| &self.sealed[index])
    }

    fn send_direct(&mut self, input: &mut Input<'_>) {
        let packet = self.choose(input).map(|sealed| sealed.packet.clone());
        let from = if input.byte() < 230 { PEER } else { NodeId::Stranger };
        self.deliver(from.address(), packet);
    }

    /// Sends an envelope from the relay: a sealed packet, or arbitrary bytes.
    fn repair(&mut self, input: &mut Input<'_>) {
        let role = input.role();
        let number = alias(1 + u16::from(input.byte() >= 230));
        let sealed = self.choose(input);
        let (low, coded) = match (input.byte(), sealed) {
            (0..200, Some(sealed)) => {
                (low_bits(sealed.number), sealed.packet[SourceHeader::CODED_START..].to_vec())
            }
            (_, _) => (input.near(low_bits(self.next)), vec![input.byte(); input.length().max(22)]),
        };
        let packet = self.relay.seal_envelope(role, number, low, &coded);
        self.deliver(EGRESS.address(), packet);
    }

    /// Sends an in-stream repair of the latest sealed packets from the relay, valid or modified.
    fn repair_in_stream(&mut self, input: &mut Input<'_>) {
        let count = (1 + input.below(6)).min(self.sealed.len());
        let covered = &self.sealed[self.sealed.len() - count..];
        let Some(first) = covered.first().map(|sealed| sealed.number) else { return };
        let payloads = (0..2).map(|_| AlignedBuffer::new(70_000));
        let mut encoder = Encoder::new(Engine::fastest(), payloads).expect("there are two");
        let mut mask = Mask::FIRST;
        for sealed in covered {
            let offset = sealed.number.checked_sub(first);
            let Some(with) =
                offset.and_then(|offset| if offset == 0 { Some(mask) } else { mask.with(offset) })
            else {
                return;
            };
            mask = with;
            encoder.add(&sealed.packet[SourceHeader::CODED_START..]).expect("packets are few and short");
        }
        let mut messages = Vec::new();
        let lie = input.byte();
        for repair in encoder.repairs(BatchId::new(low_bits(first))) {
            let index = u8::try_from(repair.index).expect("there are two");
            let repair_index = RepairIndex::new(index, 2).expect("it is one of two");
            let mut length_symbol = repair.length_symbol;
            length_symbol[1] ^= u8::from(lie == 255);
            let head = InStreamHead {
                alias: alias(1),
                first_low: low_bits(first),
                mask,
                repair_index,
                length_symbol,
            };
            let end = repair.payload.len().min(30_000);
            let payload = &repair.payload[..if lie == 254 { end / 2 } else { end }];
            write(&Message::InStreamRepair(InStreamRepair { head, payload }), &mut messages);
        }
        messages.truncate(65_000);
        let packet = self.relay.seal_messages(&messages);
        self.deliver(EGRESS.address(), packet);
    }

    /// Begins a new epoch of a scripted peer, possibly with a new incarnation.
    fn begin_epoch(&mut self, input: &mut Input<'_>) {
        let peer = self.scripted_peer(input);
        if input.byte() < 100 {
            peer.incarnation += 1;
        }
        let (from, packet) = (peer.who.address(), peer.initiate(input.byte(), &[]));
        let (is_peer, from) =
            (peer.who == PEER, if input.byte() < 230 { from } else { NodeId::Stranger.address() });
        let is_late = self.table.is_late();
        let output = self.table.receive(from, &packet);
        assert!(is_late || output.bytes_to(from) <= packet.len(), "the answer exceeds the initiation");
        let responses: Vec<Vec<u8>> = output.sent.iter().map(|(_, bytes)| bytes.clone()).collect();
        if is_peer {
            for response in responses {
                self.peer.on_packet(&response);
            }
        }
        self.route(output);
    }

    /// Sends a relayed packet: the peer's, the relay's own, or arbitrary bytes.
    fn forward(&mut self, input: &mut Input<'_>) {
        let keys = [topology::flow(1, 2, 1), topology::flow(2, 1, 1)];
        let mut messages = Vec::new();
        let subject = self.subject(&keys, b"\x08 is no packet");
        subject.write_message(input, &mut messages);
        messages.truncate(30_000);
        self.note_early(&messages);
        let inner = match input.byte() % 5 {
            0 => self.relay.seal_messages(&messages),
            1 => Some(self.peer.initiate(input.byte(), &[])),
            2 => Some(b"\x04 is no initiation".to_vec()),
            _ => self.peer.seal_messages(&messages),
        };
        let Some(mut inner) = inner else { return };
        // Nests the packet in itself until it is too long.
        for _ in 0..=input.byte() / 4 {
            let mut message = Vec::new();
            if let Some(relayed) =
                RelayedPacket::new(PEER.agent_id(), &inner).filter(|_| inner.len() < 60_000)
            {
                write(&Message::RelayedPacket(relayed), &mut message);
            }
            let Some(packet) = self.relay.seal_messages(&message) else { return };
            inner = packet;
        }
        self.deliver(EGRESS.address(), Some(inner));
    }

    /// Sends correct answers to the agent's pending requests from a scripted peer.
    fn answer(&mut self, input: &mut Input<'_>) {
        let now = self.table.now;
        let peer = self.scripted_peer(input);
        let answers = peer.answers(now);
        let (from, packet) = (peer.who.address(), peer.seal_messages(&answers));
        self.deliver(from, packet);
    }

    /// Replays a packet that the agent has received.
    fn replay(&mut self, input: &mut Input<'_>) {
        if let Some(output) = self.table.replay(input) {
            self.route(output);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "packets carry the low bits")]
const fn low_bits(number: u64) -> u32 {
    number as u32
}
