//! Test harness: two agents and a scripted relay, in a network of fixed delays.

mod closing;
mod cooperative_recovery;
mod direct_samples;
mod dscp;
mod early;
mod mixture;
mod nack;
mod offering;
mod ordering;
mod paths;
mod receiving;
mod registering;
mod relay_delivery;
mod retransmission;
mod sending;
mod totals;
mod uplink_probing;
mod work;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::{Engine, encode};
use byway_units::{AgentId, BatchId, Duration, FlowId, Rate, RelayId, Time};
use byway_wire::messages::{
    FlowRole, InStreamHead, InStreamRepair, Mask, Refusal, Register, RegisterReply, Unregister,
    UnregisterReply,
};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::{PortableProvider, PreSharedKey, Purpose, StaticSecret, Suite};
use byway_wire::{
    Alias, Capabilities, Ecn, FlowKey, GrantedRelay, Message, Messages, RangeSet, Ranges, RepairIndex,
    SequenceNumber, Service, Shard, TrafficClass,
};

use super::{
    Agent, AgentIdentity, AgentInput, AgentOutput, Delivery, Event, FlowSettings, Offer, Peer, ReceiveFlowId,
    RelayPath, RelayPeer, SendFlowId, flow_between,
};
use crate::agent::uplink_probing::uplink_bytes;
use crate::limits::CODED_START;
use crate::network_path::{LocalAddress, Uplinks};
use crate::outbox::Priority;
use crate::random::Generator;
use crate::session::{EnvelopeContents, Inbound, LocalIdentity, RemoteIdentity, Route, SessionId, Sessions};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Indices of the sending and the receiving agent.
const SENDER: usize = 0;
const RECEIVER: usize = 1;
const RELAY: usize = 2;

/// Returns the relay's alias for the flow, at its sender and at its receiver.
fn alias_of(who: usize) -> Alias {
    Alias::new(if who == SENDER { 1 } else { 2 }).expect("not zero")
}

fn address(who: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, u8::try_from(who).expect("three nodes"))), 4_600)
}

fn secret(who: usize) -> StaticSecret {
    StaticSecret::from_bytes([u8::try_from(who).expect("three nodes") + 1; 32])
}

fn number(who: usize) -> AgentId {
    AgentId::new(u32::try_from(who).expect("three nodes") + 1)
}

fn key() -> FlowKey {
    flow_between(number(SENDER), number(RECEIVER), FlowId::new(1))
}

fn path() -> RelayPath {
    let relay = (RelayId::new(9), Shard::new(0));
    RelayPath { ingress: relay, egress: relay, grant: Vec::new() }
}

/// Returns the relay at both ends of that path.
fn far_relay() -> GrantedRelay {
    path().far_relay(FlowRole::Sender)
}

/// Returns the settings of a flow with one path through the relay.
fn settings(service: Service) -> FlowSettings {
    FlowSettings { service, paths: alloc::vec![path()], ..FlowSettings::default() }
}

/// Message of an agent that the relay received.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ObservedMessage {
    Register { role: FlowRole, selective: bool },
    Nack { open_from: Option<u32>, by_timer: bool, confirms: bool, ranges: Vec<(u32, u16)> },
    Ack(u32),
    CooperativeRefusal(Vec<(u32, u16)>),
    Unregister(FlowRole),
    Envelope { role: EnvelopeRole, sequence: u32, coded: Vec<u8> },
    Other,
}

/// Returns a NACK for gaps that later packets revealed.
fn nack(ranges: &[(u32, u16)]) -> ObservedMessage {
    ObservedMessage::Nack { open_from: None, by_timer: false, confirms: false, ranges: ranges.to_vec() }
}

fn all(ranges: &Ranges<'_>) -> Vec<(u32, u16)> {
    ranges.iter().map(|range| (range.first_low(), range.length())).collect()
}

/// Scripted relay with sessions, which registers flows by itself.
struct TestRelay {
    sessions: Sessions,
    agents: BTreeMap<usize, SessionId>,
    observed: Vec<(Time, usize, ObservedMessage)>,
    /// Repair lifetime in the latest NACK.
    repair_lifetime: Duration,
    answer: Option<Result<(), Refusal>>,
}

impl TestRelay {
    fn new(seed: u8, now: Time) -> Self {
        let local = LocalIdentity {
            secret: secret(RELAY),
            suite: Suite::ChaCha20Poly1305,
            shard: Shard::new(0),
            capabilities: Capabilities::NONE,
            started_unix_nanos: 1_000,
            uplinks: Uplinks::One,
        };
        let sessions = Sessions::new(local, &PortableProvider, Generator::new([seed; 32]), now);
        Self {
            sessions,
            agents: BTreeMap::new(),
            observed: Vec::new(),
            repair_lifetime: Duration::ZERO,
            answer: Some(Ok(())),
        }
    }

    fn receive(&mut self, who: usize, bytes: &mut [u8], now: Time) {
        let from = Route::Direct(address(who).into());
        match self.sessions.receive_from(bytes, from, now) {
            Inbound::Stranger { initiation, origin } => {
                let remote = RemoteIdentity {
                    key: initiation.peer,
                    purpose: Purpose::AgentToRelay,
                    shard: Shard::new(0),
                    pre_shared: PreSharedKey::default(),
                    addresses: Vec::new(),
                    is_persistent: false,
                };
                let session = self.sessions.add(remote, now);
                self.agents.insert(who, session);
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Inbound::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Inbound::Messages { session, messages } => {
                let messages = messages.to_vec();
                for message in Messages::new(&messages) {
                    let message = message.expect("agents speak properly");
                    if !self.sessions.handle_message(session, &message, from, now) {
                        self.on_message(who, &message, now);
                    }
                }
            }
            Inbound::Envelope { header, datagram, .. } => {
                let coded = datagram[CODED_START..datagram.len() - 16].to_vec();
                let observed =
                    ObservedMessage::Envelope { role: header.role, sequence: header.sequence_low, coded };
                self.observed.push((now, who, observed));
            }
            Inbound::Nothing
            | Inbound::Response { .. }
            | Inbound::Source { .. }
            | Inbound::Transit { .. } => {}
        }
    }

    fn on_message(&mut self, who: usize, message: &Message<'_>, now: Time) {
        let observed = match message {
            Message::Register(register) => {
                self.register(who, register, now);
                ObservedMessage::Register { role: register.role, selective: register.options.selective }
            }
            Message::Nack(nack) => {
                self.repair_lifetime = nack.repair_lifetime.duration();
                ObservedMessage::Nack {
                    open_from: nack.open_from_low,
                    by_timer: nack.noticed_by_timer,
                    confirms: nack.answers_confirm,
                    ranges: all(&nack.ranges),
                }
            }
            Message::Ack(ack) => ObservedMessage::Ack(ack.from_low),
            Message::CooperativeRefusal(lost) => ObservedMessage::CooperativeRefusal(all(&lost.ranges)),
            Message::Unregister(unregister) => {
                let Unregister { flow_key, role, far_relay } = *unregister;
                let answer = Message::UnregisterReply(UnregisterReply { flow_key, role, far_relay });
                self.sessions.queue_message(self.agents[&who], &answer, now);
                ObservedMessage::Unregister(role)
            }
            _ => ObservedMessage::Other,
        };
        self.observed.push((now, who, observed));
    }

    fn register(&mut self, who: usize, register: &Register<'_>, now: Time) {
        if let Some(answer) = self.answer {
            let answer = RegisterReply::to(register, answer.map(|()| alias_of(who)));
            self.sessions.queue_message(self.agents[&who], &Message::RegisterReply(answer), now);
        }
    }
}

/// Datagram that an application received.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeliveredDatagram {
    bytes: Vec<u8>,
    ecn: Ecn,
    delivery: Delivery,
}

/// Datagram in flight.
#[derive(Clone, Debug)]
struct Datagram {
    at: Time,
    from: usize,
    to: usize,
    priority: Priority,
    ecn: Ecn,
    bytes: Vec<u8>,
}

impl Datagram {
    /// Returns the sequence number of a source packet.
    fn source_sequence(&self) -> Option<u32> {
        let low = self.bytes.get(7..11).filter(|_| self.bytes[0] == 7)?;
        low.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// Simulated network with all nodes.
struct TestNetwork {
    agents: [Agent; 2],
    relay: TestRelay,
    now: Time,
    flying: BTreeMap<(Time, u64), Datagram>,
    /// All datagrams sent, lost or not.
    sent: Vec<Datagram>,
    got: Vec<DeliveredDatagram>,
    /// DSCP of each delivered datagram.
    dscps: Vec<u8>,
    events: Vec<(usize, Event)>,
    offers: Vec<(usize, AgentId, FlowId, Offer)>,
    flow: SendFlowId,
    received: ReceiveFlowId,
    /// One-way delay between agents, and between an agent and the relay.
    direct: Duration,
    relayed: Duration,
    loses: Box<dyn FnMut(&Datagram) -> bool>,
    /// Rate of the sender's uplink, if it is limited, and the time until which it is busy.
    uplink: Option<Rate>,
    busy_until: Time,
}

fn agent(who: usize, seed: u8, started_unix_nanos: u64, now: Time) -> Agent {
    let (number_here, suite) = (number(who), Suite::ChaCha20Poly1305);
    let identity = AgentIdentity { number: number_here, secret: secret(who), suite, started_unix_nanos };
    let mut agent = Agent::new(identity, Engine::fastest(), &PortableProvider, [seed; 32], now);
    agent.add_relay(
        &RelayPeer {
            number: RelayId::new(9),
            shard: Shard::new(0),
            key: secret(RELAY).public_key(),
            address: address(RELAY),
        },
        now,
    );
    let other = 1 - who;
    agent.add_peer(
        Peer {
            number: number(other),
            key: secret(other).public_key(),
            pre_shared: PreSharedKey::default(),
            addresses: alloc::vec![address(other)],
        },
        now,
    );
    agent
}

impl TestNetwork {
    /// Returns a network with a session between the agents, and a flow that both ends have
    /// registered.
    fn new(settings: &FlowSettings) -> Self {
        let mut network = Self::unregistered(settings);
        network.run(ms(500));
        network.forget();
        network
    }

    fn unregistered(settings: &FlowSettings) -> Self {
        let now = Time::START;
        let mut agents =
            [SENDER, RECEIVER].map(|who| agent(who, 20 + u8::try_from(who).expect("two"), 1_000, now));
        let received =
            agents[RECEIVER].accept_flow(key(), settings.clone(), now).expect("the peer was added");
        let flow = agents[SENDER].open_flow(key(), settings.clone(), now).expect("the peer was added");
        let mut network = Self {
            agents,
            relay: TestRelay::new(50, now),
            now,
            flying: BTreeMap::new(),
            sent: Vec::new(),
            got: Vec::new(),
            dscps: Vec::new(),
            events: Vec::new(),
            offers: Vec::new(),
            flow,
            received,
            direct: ms(30),
            relayed: ms(10),
            loses: Box::new(|_| false),
            uplink: None,
            busy_until: now,
        };
        network.drain(SENDER);
        network.drain(RECEIVER);
        network
    }

    /// Clears the records.
    fn forget(&mut self) {
        self.sent.clear();
        self.got.clear();
        self.events.clear();
        self.offers.clear();
        self.relay.observed.clear();
    }

    fn loses(&mut self, loses: impl FnMut(&Datagram) -> bool + 'static) {
        self.loses = Box::new(loses);
    }

    /// Makes the direct path lose the source packets with these numbers.
    fn lose_source_packets(&mut self, numbers: impl IntoIterator<Item = u32>) {
        let numbers: BTreeSet<u32> = numbers.into_iter().collect();
        self.loses(move |datagram| {
            datagram.source_sequence().is_some_and(|number| numbers.contains(&number))
        });
    }

    fn send(&mut self, bytes: &[u8]) {
        self.send_as(bytes, Ecn::NotCapable, false);
    }

    fn send_as(&mut self, bytes: &[u8], traffic_class: impl Into<TrafficClass>, marked: bool) {
        let traffic_class = traffic_class.into();
        let input = AgentInput::Send { flow: self.flow, datagram: bytes, traffic_class, marked };
        self.agents[SENDER].handle(input, self.now);
        self.drain(SENDER);
    }

    /// Sends datagrams at intervals of 10 ms, each with the low byte of its number.
    fn stream(&mut self, count: u8) {
        for number in 0..count {
            self.send(&[number; 50]);
            self.run(ms(10));
        }
    }

    fn drain(&mut self, who: usize) {
        while let Some(output) = self.agents[who].poll() {
            match output {
                AgentOutput::Transmit(transmit) => {
                    let to = (0..3).find(|to| address(*to) == transmit.to).expect("there are three nodes");
                    let (urgency, ecn) = (transmit.priority, transmit.ecn);
                    let bytes = transmit.bytes.to_vec();
                    self.fly(Datagram { at: self.now, from: who, to, priority: urgency, ecn, bytes });
                }
                AgentOutput::Deliver { datagram, traffic_class, delivery, .. } => {
                    self.dscps.push(traffic_class.dscp());
                    self.got.push(DeliveredDatagram {
                        bytes: datagram.to_vec(),
                        ecn: traffic_class.ecn(),
                        delivery,
                    });
                }
                AgentOutput::Event(event) => self.events.push((who, event)),
                AgentOutput::Offered { peer, flow, offer } => self.offers.push((who, peer, flow, *offer)),
            }
        }
    }

    fn drain_relay(&mut self) {
        self.relay.sessions.events.clear();
        self.relay.sessions.flush_all(self.now);
        while let Some((heading, bytes)) = self.relay.sessions.outbox.pop() {
            let to = (0..3).find(|to| address(*to) == heading.path.remote).expect("there are three nodes");
            let datagram = Datagram {
                at: self.now,
                from: RELAY,
                to,
                priority: heading.priority,
                ecn: heading.ecn,
                bytes: bytes.to_vec(),
            };
            fly(&mut self.flying, &mut self.sent, &mut self.loses, self.relayed, datagram);
        }
    }

    fn fly(&mut self, datagram: Datagram) {
        let mut delay =
            if datagram.from == RELAY || datagram.to == RELAY { self.relayed } else { self.direct };
        if let Some(uplink) = self.uplink.filter(|_| datagram.from == SENDER) {
            let takes = uplink.time_for(uplink_bytes(datagram.bytes.len())).expect("some rate");
            self.busy_until = self.busy_until.max(self.now) + takes;
            delay += self.busy_until.saturating_since(self.now);
        }
        fly(&mut self.flying, &mut self.sent, &mut self.loses, delay, datagram);
    }

    fn arrive(&mut self, mut datagram: Datagram) {
        if datagram.to == RELAY {
            self.relay.receive(datagram.from, &mut datagram.bytes, self.now);
            self.drain_relay();
        } else {
            let Datagram { from, to, ecn, mut bytes, .. } = datagram;
            let input =
                AgentInput::Received { from: address(from), to: LocalAddress::ANY, ecn, bytes: &mut bytes };
            self.agents[to].handle(input, self.now);
            self.drain(to);
        }
    }

    /// Advances the time, and handles everything that is due.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let deadlines = self.agents.iter().filter_map(|agent| agent.deadline().map(|(at, _)| at));
            let Some(at) =
                deadlines.chain(self.relay.sessions.deadline()).chain(arrival).min().filter(|at| *at <= end)
            else {
                break;
            };
            self.now = self.now.max(at);
            if arrival.is_some_and(|at| at <= self.now) {
                let (_, datagram) = self.flying.pop_first().expect("one is in front");
                self.arrive(datagram);
                continue;
            }
            for who in [SENDER, RECEIVER] {
                if self.agents[who].deadline().is_some_and(|(at, _)| at <= self.now) {
                    self.agents[who].handle(AgentInput::Deadline, self.now);
                    self.drain(who);
                }
            }
            self.relay.sessions.handle_timeout(self.now);
            self.drain_relay();
        }
        self.now = end;
    }

    /// Sends a message from the relay to an agent.
    fn send_from_relay(&mut self, who: usize, message: &Message<'_>) {
        self.relay.sessions.queue_message(self.relay.agents[&who], message, self.now);
        self.drain_relay();
    }

    /// Sends a packet in an envelope from the relay to the receiver.
    fn send_envelope_from_relay(&mut self, role: EnvelopeRole, sequence: u32, coded: &[u8]) {
        let session = self.relay.agents[&RECEIVER];
        let (alias, urgency) = (alias_of(RECEIVER), Priority::Scavenger);
        let contents = EnvelopeContents {
            role,
            alias,
            sequence_low: sequence,
            coded,
            ecn: Ecn::NotCapable,
            owner: None,
        };
        self.relay.sessions.send_envelope(session, &contents, urgency, self.now);
        self.drain_relay();
    }

    /// Forwards the newest copies from the relay.
    fn forward_copies(&mut self, count: usize) {
        let copies = self.enveloped(EnvelopeRole::Copy);
        for number in &copies[copies.len().saturating_sub(count)..] {
            let coded = self.copy(*number);
            self.send_envelope_from_relay(EnvelopeRole::Forwarded, *number, &coded);
        }
    }

    /// Sends the receiver a repair packet over these packets of the flow, from the relay's copies.
    fn send_in_stream_repair(&mut self, first: u32, count: u8) {
        let packets: Vec<Vec<u8>> =
            (first..).take(usize::from(count)).map(|number| self.copy(number)).collect();
        let views: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
        let mut payloads = [[0; 2_048]];
        let encoded = encode(Engine::fastest(), &views, &mut payloads).expect("a short block");
        let repair = encoded.repairs(BatchId::new(first), &payloads).next().expect("one was made");
        let head = InStreamHead {
            alias: alias_of(RECEIVER),
            first_low: first,
            mask: Mask::new((1 << count) - 1).expect("a short block"),
            repair_index: RepairIndex::new(0, 1).expect("one of one"),
            length_symbol: repair.length_symbol,
        };
        let message = Message::InStreamRepair(InStreamRepair { head, payload: repair.payload });
        self.relay.sessions.send_alone(self.relay.agents[&RECEIVER], &message, Priority::Scavenger, self.now);
        self.drain_relay();
    }

    /// Returns the coded bytes of a packet from the copy at the relay.
    fn copy(&self, number: u32) -> Vec<u8> {
        let copies = self.relay.observed.iter().filter_map(|(_, _, message)| match message {
            ObservedMessage::Envelope {
                role: EnvelopeRole::Copy | EnvelopeRole::ResentCopy,
                sequence,
                coded,
            } => Some((sequence, coded)),
            _ => None,
        });
        let mut copies = copies.filter(|(sequence, _)| **sequence == number);
        copies.next().expect("the relay has a copy").1.clone()
    }

    /// Returns the messages of an agent to the relay with their times, without registrations and
    /// copies.
    fn observed(&self, by: usize) -> Vec<(Time, ObservedMessage)> {
        let observed =
            self.relay.observed.iter().filter(|(_, who, message)| *who == by && !is_routine(message));
        observed.map(|(at, _, message)| (*at, message.clone())).collect()
    }

    /// Returns the messages of an agent to the relay, without registrations and copies.
    fn observed_messages(&self, by: usize) -> Vec<ObservedMessage> {
        self.observed(by).into_iter().map(|(_, message)| message).collect()
    }

    /// Returns the sequence numbers that the relay received in envelopes of this role.
    fn enveloped(&self, wanted: EnvelopeRole) -> Vec<u32> {
        let observed = self.relay.observed.iter().filter_map(|(_, _, message)| match message {
            ObservedMessage::Envelope { role, sequence, .. } if *role == wanted => Some(*sequence),
            _ => None,
        });
        observed.collect()
    }

    /// Returns the first bytes of the datagrams that were delivered like this.
    fn delivered(&self, delivery: Delivery) -> Vec<u8> {
        self.got.iter().filter(|got| got.delivery == delivery).map(|got| got.bytes[0]).collect()
    }

    fn statistics(&self) -> super::ReceiveStatistics {
        *self.agents[RECEIVER].statistics(self.received).expect("the flow is open")
    }
}

fn is_routine(message: &ObservedMessage) -> bool {
    match message {
        ObservedMessage::Register { .. } | ObservedMessage::Unregister(_) | ObservedMessage::Other => true,
        ObservedMessage::Envelope { role, .. } => *role != EnvelopeRole::CooperativeAnswer,
        _ => false,
    }
}

fn fly(
    flying: &mut BTreeMap<(Time, u64), Datagram>,
    sent: &mut Vec<Datagram>,
    loses: &mut dyn FnMut(&Datagram) -> bool,
    delay: Duration,
    datagram: Datagram,
) {
    let is_lost = loses(&datagram);
    sent.push(datagram.clone());
    if !is_lost {
        let index = flying.keys().map(|(_, index)| index + 1).max().unwrap_or(0);
        flying.insert((datagram.at + delay, index), datagram);
    }
}

/// Returns ranges for a message.
fn ranges(numbers: impl IntoIterator<Item = u64>) -> RangeSet {
    let mut ranges = RangeSet::new();
    assert!(numbers.into_iter().all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
    ranges
}
