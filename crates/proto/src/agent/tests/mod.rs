//! Two agents and a relay that does only what it is told, in a network of fixed delays.

mod asking;
mod closing;
mod dscp;
mod early;
mod helping;
mod mixture;
mod offering;
mod ordering;
mod paths;
mod receiving;
mod registering;
mod relay_delivery;
mod sending;
mod totals;
mod weighing;
mod work;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::{Engine, encode};
use byway_units::{AgentId, BatchId, Duration, FlowId, Rate, RelayId, Time};
use byway_wire::messages::{
    FlowRole, InStreamHead, InStreamRepair, Mask, Refusal, Register, Registered, Unregister, Unregistered,
};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::{Portable, PreSharedKey, Purpose, StaticSecret, Suite};
use byway_wire::{
    Alias, Capabilities, Ecn, FlowKey, GrantedRelay, Message, Messages, Place, RangeSet, Ranges,
    SequenceNumber, Service, Shard, TrafficClass,
};

use super::{
    Agent, AgentIdentity, AgentInput, AgentOutput, Delivery, Event, FlowSettings, Offer, Peer, ReceiveFlowId,
    RelayPath, RelayPeer, SendFlowId, flow_between,
};
use crate::agent::weighing::on_the_line;
use crate::limits::CODED_START;
use crate::network_path::LocalAddress;
use crate::outbox::Urgency;
use crate::random::Generator;
use crate::session::{Enveloped, Local, Origin, Received, Remote, SessionId, Sessions};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The sending and the receiving agent.
const SENDER: usize = 0;
const RECEIVER: usize = 1;
const RELAY: usize = 2;

/// What the relay calls the flow, at its sender and at its receiver.
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

/// The relay at both ends of that path.
fn far_relay() -> GrantedRelay {
    path().far_relay(FlowRole::Sender)
}

/// A flow with one path through the relay.
fn settings(service: Service) -> FlowSettings {
    FlowSettings { service, paths: alloc::vec![path()], ..FlowSettings::default() }
}

/// What an agent said to the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Register { role: FlowRole, selective: bool },
    Nack { open_from: Option<u32>, by_timer: bool, confirms: bool, ranges: Vec<(u32, u16)> },
    Ack(u32),
    Lost(Vec<(u32, u16)>),
    Unregister(FlowRole),
    Envelope { role: EnvelopeRole, sequence: u32, coded: Vec<u8> },
    Other,
}

/// A NACK for what later packets showed to be missing.
fn nack(ranges: &[(u32, u16)]) -> Said {
    Said::Nack { open_from: None, by_timer: false, confirms: false, ranges: ranges.to_vec() }
}

fn all(ranges: &Ranges<'_>) -> Vec<(u32, u16)> {
    ranges.iter().map(|range| (range.first_low(), range.length())).collect()
}

/// A relay with sessions and no mind of its own, but that it registers flows.
struct Relay {
    sessions: Sessions,
    agents: BTreeMap<usize, SessionId>,
    heard: Vec<(Time, usize, Said)>,
    /// How long a repair was of use, as the last NACK had it.
    patience: Duration,
    answer: Option<Result<(), Refusal>>,
}

impl Relay {
    fn new(seed: u8, now: Time) -> Self {
        let local = Local {
            secret: secret(RELAY),
            suite: Suite::ChaCha20Poly1305,
            shard: Shard::new(0),
            capabilities: Capabilities::NONE,
            started_unix_nanos: 1_000,
        };
        let sessions = Sessions::new(local, &Portable, Generator::new([seed; 32]), now);
        Self {
            sessions,
            agents: BTreeMap::new(),
            heard: Vec::new(),
            patience: Duration::ZERO,
            answer: Some(Ok(())),
        }
    }

    fn receive(&mut self, who: usize, bytes: &mut [u8], now: Time) {
        let from = Origin::Address(address(who).into());
        match self.sessions.receive_from(bytes, from, now) {
            Received::Stranger { initiation, origin } => {
                let remote = Remote {
                    key: initiation.peer,
                    purpose: Purpose::AgentToRelay,
                    shard: Shard::new(0),
                    pre_shared: PreSharedKey::default(),
                    addresses: Vec::new(),
                    keep: false,
                };
                let session = self.sessions.add(remote, now);
                self.agents.insert(who, session);
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Received::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Received::Messages { session, messages } => {
                let messages = messages.to_vec();
                for message in Messages::new(&messages) {
                    let message = message.expect("agents speak properly");
                    if !self.sessions.handle_message(session, &message, from, now) {
                        self.hear(who, &message, now);
                    }
                }
            }
            Received::Envelope { header, datagram, .. } => {
                let coded = datagram[CODED_START..datagram.len() - 16].to_vec();
                let said = Said::Envelope { role: header.role, sequence: header.sequence_low, coded };
                self.heard.push((now, who, said));
            }
            Received::Nothing | Received::Response { .. } | Received::Source { .. } => {}
        }
    }

    fn hear(&mut self, who: usize, message: &Message<'_>, now: Time) {
        let said = match message {
            Message::Register(register) => {
                self.register(who, register, now);
                Said::Register { role: register.role, selective: register.options.selective }
            }
            Message::Nack(nack) => {
                self.patience = nack.patience.duration();
                Said::Nack {
                    open_from: nack.open_from_low,
                    by_timer: nack.noticed_by_timer,
                    confirms: nack.answers_confirm,
                    ranges: all(&nack.ranges),
                }
            }
            Message::Ack(ack) => Said::Ack(ack.from_low),
            Message::Lost(lost) => Said::Lost(all(&lost.ranges)),
            Message::Unregister(unregister) => {
                let Unregister { flow_key, role, far_relay } = *unregister;
                let answer = Message::Unregistered(Unregistered { flow_key, role, far_relay });
                self.sessions.say(self.agents[&who], &answer, now);
                Said::Unregister(role)
            }
            _ => Said::Other,
        };
        self.heard.push((now, who, said));
    }

    fn register(&mut self, who: usize, register: &Register<'_>, now: Time) {
        if let Some(answer) = self.answer {
            let outcome = answer.map(|()| alias_of(who));
            let Register { flow_key, role, revision, far_relay, .. } = *register;
            let answer = Registered { flow_key, role, revision, far_relay, outcome };
            self.sessions.say(self.agents[&who], &Message::Registered(answer), now);
        }
    }
}

/// What an application got.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Got {
    bytes: Vec<u8>,
    ecn: Ecn,
    delivery: Delivery,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
struct Datagram {
    at: Time,
    from: usize,
    to: usize,
    urgency: Urgency,
    ecn: Ecn,
    bytes: Vec<u8>,
}

impl Datagram {
    /// The sequence number of an original.
    fn original(&self) -> Option<u32> {
        let low = self.bytes.get(7..11).filter(|_| self.bytes[0] == 7)?;
        low.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

/// All of it.
struct Hall {
    agents: [Agent; 2],
    relay: Relay,
    now: Time,
    flying: BTreeMap<(Time, u64), Datagram>,
    /// Everything that was sent, lost or not.
    sent: Vec<Datagram>,
    got: Vec<Got>,
    /// The DSCP of each of them.
    dscps: Vec<u8>,
    events: Vec<(usize, Event)>,
    offers: Vec<(usize, AgentId, FlowId, Offer)>,
    flow: SendFlowId,
    received: ReceiveFlowId,
    /// One way between agents, and between an agent and the relay.
    direct: Duration,
    relayed: Duration,
    loses: Box<dyn FnMut(&Datagram) -> bool>,
    /// What the line carries by which the sender sends, if that is limited, and until when it is busy.
    uplink: Option<Rate>,
    busy_until: Time,
}

fn agent(who: usize, seed: u8, started_unix_nanos: u64, now: Time) -> Agent {
    let (number_here, suite) = (number(who), Suite::ChaCha20Poly1305);
    let identity = AgentIdentity { number: number_here, secret: secret(who), suite, started_unix_nanos };
    let mut agent = Agent::new(identity, Engine::fastest(), &Portable, [seed; 32], now);
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

impl Hall {
    /// A flow that is registered at both ends, and a session between them.
    fn new(settings: &FlowSettings) -> Self {
        let mut hall = Self::unregistered(settings);
        hall.run(ms(500));
        hall.forget();
        hall
    }

    fn unregistered(settings: &FlowSettings) -> Self {
        let now = Time::START;
        let mut agents =
            [SENDER, RECEIVER].map(|who| agent(who, 20 + u8::try_from(who).expect("two"), 1_000, now));
        let received =
            agents[RECEIVER].accept_flow(key(), settings.clone(), now).expect("the peer was added");
        let flow = agents[SENDER].open_flow(key(), settings.clone(), now).expect("the peer was added");
        let mut hall = Self {
            agents,
            relay: Relay::new(50, now),
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
        hall.drain(SENDER);
        hall.drain(RECEIVER);
        hall
    }

    /// Forgets what was recorded.
    fn forget(&mut self) {
        self.sent.clear();
        self.got.clear();
        self.events.clear();
        self.offers.clear();
        self.relay.heard.clear();
    }

    fn loses(&mut self, loses: impl FnMut(&Datagram) -> bool + 'static) {
        self.loses = Box::new(loses);
    }

    /// The direct path loses the originals with these numbers.
    fn loses_originals(&mut self, numbers: impl IntoIterator<Item = u32>) {
        let numbers: BTreeSet<u32> = numbers.into_iter().collect();
        self.loses(move |datagram| datagram.original().is_some_and(|number| numbers.contains(&number)));
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

    /// So many datagrams, 10 ms apart, each of its number's low byte.
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
                    let (urgency, ecn) = (transmit.urgency, transmit.ecn);
                    let bytes = transmit.bytes.to_vec();
                    self.fly(Datagram { at: self.now, from: who, to, urgency, ecn, bytes });
                }
                AgentOutput::Deliver { datagram, traffic_class, delivery, .. } => {
                    self.dscps.push(traffic_class.dscp());
                    self.got.push(Got { bytes: datagram.to_vec(), ecn: traffic_class.ecn(), delivery });
                }
                AgentOutput::Event(event) => self.events.push((who, event)),
                AgentOutput::Offered { peer, flow, offer } => self.offers.push((who, peer, flow, *offer)),
            }
        }
    }

    fn drain_relay(&mut self) {
        self.relay.sessions.changes.clear();
        self.relay.sessions.flush_all(self.now);
        while let Some((heading, bytes)) = self.relay.sessions.outbox.take() {
            let to = (0..3).find(|to| address(*to) == heading.path.remote).expect("there are three nodes");
            let datagram = Datagram {
                at: self.now,
                from: RELAY,
                to,
                urgency: heading.urgency,
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
            let takes = uplink.time_for(on_the_line(datagram.bytes.len())).expect("some rate");
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

    /// Time passes, with all that is due meanwhile.
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

    /// The relay says something to an agent.
    fn relay_says(&mut self, who: usize, message: &Message<'_>) {
        self.relay.sessions.say(self.relay.agents[&who], message, self.now);
        self.drain_relay();
    }

    /// The relay gives the receiver a packet.
    fn gives(&mut self, role: EnvelopeRole, sequence: u32, coded: &[u8]) {
        let session = self.relay.agents[&RECEIVER];
        let (alias, urgency) = (alias_of(RECEIVER), Urgency::Scavenger);
        let contents =
            Enveloped { role, alias, sequence_low: sequence, coded, ecn: Ecn::NotCapable, owner: None };
        self.relay.sessions.send_envelope(session, &contents, urgency, self.now);
        self.drain_relay();
    }

    /// The relay delivers the newest copies that it has.
    fn forward_copies(&mut self, count: usize) {
        let copies = self.enveloped(EnvelopeRole::Copy);
        for number in &copies[copies.len().saturating_sub(count)..] {
            let coded = self.copy(*number);
            self.gives(EnvelopeRole::Forwarded, *number, &coded);
        }
    }

    /// The relay gives the receiver a repair packet over these packets of the flow, of which it has copies.
    fn gives_own_repair(&mut self, first: u32, count: u8) {
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
            place: Place::new(0, 1).expect("one of one"),
            length_symbol: repair.length_symbol,
        };
        let message = Message::InStreamRepair(InStreamRepair { head, payload: repair.payload });
        self.relay.sessions.send_alone(self.relay.agents[&RECEIVER], &message, Urgency::Scavenger, self.now);
        self.drain_relay();
    }

    /// The coded bytes of a packet, as the relay got them in a copy.
    fn copy(&self, number: u32) -> Vec<u8> {
        let copies = self.relay.heard.iter().filter_map(|(_, _, said)| match said {
            Said::Envelope { role: EnvelopeRole::Copy | EnvelopeRole::ResentCopy, sequence, coded } => {
                Some((sequence, coded))
            }
            _ => None,
        });
        let mut copies = copies.filter(|(sequence, _)| **sequence == number);
        copies.next().expect("the relay has a copy").1.clone()
    }

    /// What an agent said to the relay, with when; not what it registered or copied.
    fn said(&self, by: usize) -> Vec<(Time, Said)> {
        let heard = self.relay.heard.iter().filter(|(_, who, said)| *who == by && !is_routine(said));
        heard.map(|(at, _, said)| (*at, said.clone())).collect()
    }

    /// The same, without when.
    fn words(&self, by: usize) -> Vec<Said> {
        self.said(by).into_iter().map(|(_, said)| said).collect()
    }

    /// The numbers that the relay got in envelopes of this role.
    fn enveloped(&self, wanted: EnvelopeRole) -> Vec<u32> {
        let heard = self.relay.heard.iter().filter_map(|(_, _, said)| match said {
            Said::Envelope { role, sequence, .. } if *role == wanted => Some(*sequence),
            _ => None,
        });
        heard.collect()
    }

    /// The first bytes of what was delivered this way.
    fn delivered(&self, delivery: Delivery) -> Vec<u8> {
        self.got.iter().filter(|got| got.delivery == delivery).map(|got| got.bytes[0]).collect()
    }

    fn statistics(&self) -> super::ReceiveStatistics {
        *self.agents[RECEIVER].statistics(self.received).expect("the flow is open")
    }
}

fn is_routine(said: &Said) -> bool {
    match said {
        Said::Register { .. } | Said::Unregister(_) | Said::Other => true,
        Said::Envelope { role, .. } => *role != EnvelopeRole::CooperativeAnswer,
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
        let place = flying.keys().map(|(_, place)| place + 1).max().unwrap_or(0);
        flying.insert((datagram.at + delay, place), datagram);
    }
}

/// Ranges for a message.
fn ranges(numbers: impl IntoIterator<Item = u64>) -> RangeSet {
    let mut ranges = RangeSet::new();
    assert!(numbers.into_iter().all(|number| ranges.insert(SequenceNumber::new(number))), "they fit");
    ranges
}
