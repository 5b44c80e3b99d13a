//! An agent between a lying relay and a lying peer: both have their keys, and say whatever the input wants.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use byway_code::{AlignedBuffer, Encoder, Engine};
use byway_proto::agent::{Agent, Offer, OfferRefusal, ReceiveFlowId, SendFlowId};
use byway_units::{AgentId, BatchId, FlowId, Time};
use byway_wire::messages::{FlowRole, InStreamHead, InStreamRepair, Mask, Registered, Relayed};
use byway_wire::packets::SourceHeader;
use byway_wire::seal::Purpose;
use byway_wire::{Alias, FlowKey, Message, Messages, Piece, Place, Service};

use crate::harness::input::Input;
use crate::harness::machine::{Machine, Output};
use crate::harness::message_generator::Subject;
use crate::harness::scripted_peer::{ScriptedPeer, write};
use crate::harness::table::Table;
use crate::harness::topology::{self, EGRESS, INGRESS, NodeId};

const SELF: NodeId = NodeId::Agent(2);
const PEER: NodeId = NodeId::Agent(1);
const FLOW: FlowId = FlowId::new(1);

/// Packets that the peer sealed and that may still come, one way or another.
const SEALED_MAX: usize = 32;

/// A packet of the peer.
struct Sealed {
    number: u64,
    /// As it travels on the direct path.
    packet: Vec<u8>,
}

struct Harness {
    table: Table,
    relay: ScriptedPeer,
    peer: ScriptedPeer,
    service: Service,
    /// The flows, unless they are closed.
    sends: Option<SendFlowId>,
    receives: Option<ReceiveFlowId>,
    sealed: Vec<Sealed>,
    next: u64,
    /// How many datagrams were sealed, and which of them were delivered.
    made: u64,
    delivered: BTreeSet<u64>,
    /// Datagrams that the peer said in early packets.
    early: BTreeSet<Vec<u8>>,
    /// True once such a packet held part of a datagram, which may be joined with a part of any other.
    has_early_pieces: bool,
    are_answered: bool,
}

/// Tells an agent what the input says, with all keys that its relay and its peer have.
///
/// # Panics
/// If the agent does, delivers what the peer did not seal, or twice, or tells strangers more than they told it.
pub fn agent_input(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut harness = Harness::new(&mut input);
    while !input.is_empty() {
        harness.turn(&mut input);
    }
    harness.pass(harness.table.now + byway_units::Duration::from_secs(3));
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

impl Harness {
    fn new(input: &mut Input<'_>) -> Self {
        let mut agent = topology::agent(SELF, EGRESS, PEER);
        let services =
            [Service::Coding, Service::Caching, Service::Both, Service::Forwarding, Service::Internet];
        let service = services[input.below(services.len())];
        let receives = accept(&mut agent, service, Time::START);
        let sends = open(&mut agent, service, Time::START);
        assert!(receives.is_some() && sends.is_some(), "the peer is known");
        let mut harness = Self {
            table: Table::new(Machine::agent(agent)),
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
            has_early_pieces: false,
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
            let registered_message =
                Registered { flow_key, role, revision: None, far_relay, outcome: Ok(alias(number)) };
            write(&Message::Registered(registered_message), &mut registered);
        }
        let packet = harness.relay.says(&registered);
        harness.tell(EGRESS.address(), packet);
        harness
    }

    /// Hands take what is theirs, and answer handshakes.
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
                let hand = match to {
                    _ if to == EGRESS.address() => &mut self.relay,
                    _ if to == PEER.address() => &mut self.peer,
                    _ => continue,
                };
                if let Some(answer) = hand.take(&bytes).filter(|_| self.are_answered) {
                    outputs.push(self.table.receive(to, &answer));
                }
            }
        }
    }

    /// An offer of the peer comes up; its subject says what becomes of it.
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

    /// Notes the early packets among messages: what they say is delivered without having been sealed.
    fn note_early(&mut self, messages: &[u8]) {
        for message in Messages::new(messages).flatten() {
            if let Message::EarlyPacket(packet) = message {
                self.early.insert(packet.plaintext.datagram.to_vec());
                self.has_early_pieces |= packet.piece != Piece::Whole;
            }
        }
    }

    fn check_delivered(&mut self, datagram: &[u8]) {
        if self.has_early_pieces || self.early.contains(datagram) {
            return;
        }
        let number = datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let number = number.expect("the peer's datagrams are numbered");
        assert!(number < self.made, "a datagram is delivered that was never sealed");
        assert!(self.delivered.insert(number), "a datagram is delivered twice");
    }

    /// The agent gets a packet that is sealed for it.
    fn tell(&mut self, from: SocketAddr, packet: Option<Vec<u8>>) {
        let Some(packet) = packet else { return };
        let output = self.table.tell(from, packet);
        self.route(output);
    }

    /// Lets time pass until then, with all deadlines in between.
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
            9 => self.says_anything(input),
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
            19 => self.shake_hands(input),
            20 => self.pass_on(input),
            21 => self.answer(input),
            22 => self.repeat(input),
            _ => match input.byte() {
                254.. => self.come_or_go(input),
                choice => {
                    self.are_answered = choice < 200;
                    self.relay.skip(input.long() >> 8);
                }
            },
        }
    }

    /// Flows are closed and begun again, or offered; now and then the agent leaves.
    fn come_or_go(&mut self, input: &mut Input<'_>) {
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

    /// A packet of somebody without keys.
    fn anybody_says(&mut self, input: &mut Input<'_>) {
        let from = [NodeId::Stranger, PEER, EGRESS][input.below(3)].address();
        let length = usize::from(input.byte());
        let bytes = input.bytes(length);
        let output = self.table.receive(from, bytes);
        assert!(output.bytes_to(from) <= bytes.len(), "a stranger gets more than it gave");
        assert!(output.delivered.is_empty());
        self.route(output);
    }

    fn subject<'a>(&self, keys: &'a [FlowKey], packet: &'a [u8]) -> Subject<'a> {
        let [.., a, b, c, d] = self.next.to_be_bytes();
        Subject { keys, newest: u32::from_be_bytes([a, b, c, d]), aliases: 2, packet }
    }

    fn hand(&mut self, input: &mut Input<'_>) -> &mut ScriptedPeer {
        if input.byte() < 170 { &mut self.relay } else { &mut self.peer }
    }

    /// A message packet, its messages mostly of the right form.
    fn somebody_says(&mut self, input: &mut Input<'_>) {
        let keys = [topology::flow(1, 2, 1), topology::flow(2, 1, 1), topology::flow(1, 2, 2)];
        let mut messages = Vec::new();
        let subject = self.subject(&keys, b"\x08 is no packet");
        for _ in 0..=input.below(3) {
            subject.say(input, &mut messages);
        }
        messages.truncate(65_000);
        self.note_early(&messages);
        let hand = self.hand(input);
        let (from, packet) = (hand.who.address(), hand.says(&messages));
        let from = if input.byte() < 240 { from } else { NodeId::Stranger.address() };
        self.tell(from, packet);
    }

    fn says_anything(&mut self, input: &mut Input<'_>) {
        let length = usize::from(input.byte());
        let messages = input.bytes(length);
        self.note_early(messages);
        let hand = self.hand(input);
        let (from, packet) = (hand.who.address(), hand.says(messages));
        self.tell(from, packet);
    }

    /// The peer seals a datagram; how it travels is decided later.
    fn seal(&mut self, input: &mut Input<'_>) {
        let piece = match input.byte() {
            0..200 => Piece::Whole,
            200..228 => Piece::First,
            _ => Piece::Second,
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
        let Some(packet) = self.peer.sends(FLOW, number, piece, sent, &datagram) else { return };
        self.made += 1;
        if self.sealed.len() == SEALED_MAX {
            self.sealed.remove(0);
        }
        self.sealed.push(Sealed { number, packet });
    }

    /// Which of the sealed packets.
    fn choose(&self, input: &mut Input<'_>) -> Option<&Sealed> {
        let back = input.below(SEALED_MAX);
        self.sealed.len().checked_sub(back + 1).map(|place| &self.sealed[place])
    }

    fn send_direct(&mut self, input: &mut Input<'_>) {
        let packet = self.choose(input).map(|sealed| sealed.packet.clone());
        let from = if input.byte() < 230 { PEER } else { NodeId::Stranger };
        self.tell(from.address(), packet);
    }

    /// The relay gives a packet, a true one or anything.
    fn repair(&mut self, input: &mut Input<'_>) {
        let role = input.role();
        let number = alias(1 + u16::from(input.byte() >= 230));
        let sealed = self.choose(input);
        let (low, coded) = match (input.byte(), sealed) {
            (0..200, Some(sealed)) => {
                (low(sealed.number), sealed.packet[SourceHeader::CODED_START..].to_vec())
            }
            (_, _) => (input.near(low(self.next)), vec![input.byte(); input.length().max(22)]),
        };
        let packet = self.relay.envelops(role, number, low, &coded);
        self.tell(EGRESS.address(), packet);
    }

    /// The relay makes a repair packet over what was sealed last, as a true one or not.
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
        for repair in encoder.repairs(BatchId::new(low(first))) {
            let index = u8::try_from(repair.index).expect("there are two");
            let place = Place::new(index, 2).expect("it is one of two");
            let mut length_symbol = repair.length_symbol;
            length_symbol[1] ^= u8::from(lie == 255);
            let head = InStreamHead { alias: alias(1), first_low: low(first), mask, place, length_symbol };
            let end = repair.payload.len().min(30_000);
            let payload = &repair.payload[..if lie == 254 { end / 2 } else { end }];
            write(&Message::InStreamRepair(InStreamRepair { head, payload }), &mut messages);
        }
        messages.truncate(65_000);
        let packet = self.relay.says(&messages);
        self.tell(EGRESS.address(), packet);
    }

    /// A hand begins a new epoch, perhaps as if it had restarted.
    fn shake_hands(&mut self, input: &mut Input<'_>) {
        let hand = self.hand(input);
        if input.byte() < 100 {
            hand.boot += 1;
        }
        let (from, packet) = (hand.who.address(), hand.initiate(input.byte(), &[]));
        let (is_peer, from) =
            (hand.who == PEER, if input.byte() < 230 { from } else { NodeId::Stranger.address() });
        let output = self.table.receive(from, &packet);
        assert!(output.bytes_to(from) <= packet.len(), "an answer is longer than the initiation");
        let responses: Vec<Vec<u8>> = output.sent.iter().map(|(_, bytes)| bytes.clone()).collect();
        if is_peer {
            for response in responses {
                self.peer.take(&response);
            }
        }
        self.route(output);
    }

    /// The relay passes on a packet: the peer's, its own, or anything.
    fn pass_on(&mut self, input: &mut Input<'_>) {
        let keys = [topology::flow(1, 2, 1), topology::flow(2, 1, 1)];
        let mut messages = Vec::new();
        let subject = self.subject(&keys, b"\x08 is no packet");
        subject.say(input, &mut messages);
        messages.truncate(30_000);
        self.note_early(&messages);
        let inner = match input.byte() % 5 {
            0 => self.relay.says(&messages),
            1 => Some(self.peer.initiate(input.byte(), &[])),
            2 => Some(b"\x04 is no initiation".to_vec()),
            _ => self.peer.says(&messages),
        };
        let Some(mut inner) = inner else { return };
        // As often as it fits, inside one another.
        for _ in 0..=input.byte() / 4 {
            let mut message = Vec::new();
            if let Some(relayed) = Relayed::new(PEER.agent_id(), &inner).filter(|_| inner.len() < 60_000) {
                write(&Message::Relayed(relayed), &mut message);
            }
            let Some(packet) = self.relay.says(&message) else { return };
            inner = packet;
        }
        self.tell(EGRESS.address(), Some(inner));
    }

    /// What was asked for is answered honestly.
    fn answer(&mut self, input: &mut Input<'_>) {
        let now = self.table.now;
        let hand = self.hand(input);
        let answers = hand.answers(now);
        let (from, packet) = (hand.who.address(), hand.says(&answers));
        self.tell(from, packet);
    }

    /// A packet comes again.
    fn repeat(&mut self, input: &mut Input<'_>) {
        if let Some(output) = self.table.repeat(input) {
            self.route(output);
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "packets carry the low bits")]
const fn low(number: u64) -> u32 {
    number as u32
}
