//! The agent in its thread: overlay packets on one side, applications' datagrams on the other.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use byway_api::{AgentStatus, NetworkMap};
use byway_net::{Arrival, Io, Role, SocketId};
use byway_proto::agent::{Agent, AgentInput, AgentOutput, Event, Offer, OfferRefusal, flow_between};
use byway_proto::{Transmit, Urgency};
use byway_units::{AgentId, FlowId, Time};
use byway_wire::Ecn;
use tokio::sync::oneshot;

use super::contacts::Contacts;
use super::known::Known;
use super::limits::{CONTACT_FLOW, PEER_MAPPINGS_MAX, REFUSED_FOR, SWEEP_INTERVAL};
use super::mappings::{Consent, Held, Mapping, MappingId, Mappings, Side};
use super::segments::Segments;
use super::subject::Subject;
use super::terms::{back, forth, offer_of};
use crate::settings::{Exposed, Forward};

/// What the rest of the process asks of the agent.
pub(super) enum AgentControl {
    /// The network is this now.
    Map(Arc<NetworkMap>),
    /// How are you?
    Status(oneshot::Sender<AgentStatus>),
    /// Which addresses do relays see?
    Seen(oneshot::Sender<Seen>),
    /// Leave.
    Close,
}

/// What a controller is told about an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Where relays see it.
    pub(super) addresses: Vec<SocketAddr>,
    /// Round trips to relays by number, in microseconds.
    pub(super) round_trips_us: BTreeMap<u32, u64>,
}

/// A forward's port.
pub(super) struct Listener {
    pub(super) forward: Forward,
    pub(super) socket: Option<SocketId>,
    pub(super) local: Option<SocketAddr>,
}

/// The port from which a peer's application speaks to targets here.
struct Outside {
    socket: SocketId,
    mappings: usize,
}

/// The agent, its proxy, and what it knows of the network.
pub(super) struct AgentRole {
    pub(super) agent: Box<Agent>,
    pub(super) known: Known,
    contacts: Contacts,
    pub(super) listeners: Vec<Listener>,
    pub(super) exposed: Vec<Exposed>,
    pub(super) mappings: Mappings,
    pub(super) segments: Segments,
    /// Flow numbers for peers, the next to be tried.
    next_flows: BTreeMap<AgentId, u16>,
    /// Where numbers begin: another place in each run, as peers may still know those of the last one.
    first_flow: u16,
    /// Numbers of applications' endpoints, told to peers.
    sources: BTreeMap<SocketAddr, u32>,
    next_source: u32,
    outsides: BTreeMap<(AgentId, u32), Outside>,
    offered: Vec<(AgentId, FlowId, Offer)>,
    next_sweep: Time,
    /// Who waits to hear whether the forwards' ports could be had.
    started: Option<oneshot::Sender<Result<(), String>>>,
    has_left: bool,
}

impl AgentRole {
    pub(super) fn new(
        agent: Agent,
        known: Known,
        forwards: Vec<Forward>,
        exposed: Vec<Exposed>,
        random: u64,
        started: oneshot::Sender<Result<(), String>>,
    ) -> Self {
        let listeners =
            forwards.into_iter().map(|forward| Listener { forward, socket: None, local: None }).collect();
        let [first, second, source @ ..] = random.to_be_bytes();
        let source: [u8; 4] = [source[0], source[1], source[2], source[3]];
        Self {
            agent: Box::new(agent),
            known,
            contacts: Contacts::default(),
            listeners,
            exposed,
            mappings: Mappings::default(),
            segments: Segments::default(),
            next_flows: BTreeMap::new(),
            first_flow: u16::from_be_bytes([first, second]),
            sources: BTreeMap::new(),
            next_source: u32::from_be_bytes(source),
            outsides: BTreeMap::new(),
            offered: Vec::new(),
            next_sweep: Time::START + SWEEP_INTERVAL,
            started: Some(started),
            has_left: false,
        }
    }

    /// Takes what the agent wants done, until it wants nothing more.
    fn drain(&mut self, io: &mut Io) {
        loop {
            self.drain_outputs(io);
            let Some((peer, flow, offer)) = self.offered.pop() else {
                return;
            };
            self.offered_by(peer, flow, &offer, io);
        }
    }

    fn drain_outputs(&mut self, io: &mut Io) {
        let mut events = Vec::new();
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Transmit(transmit) => {
                    self.segments.sent(&transmit);
                    io.send(SocketId::OVERLAY, &transmit);
                }
                AgentOutput::Deliver { flow, datagram, ecn, .. } => {
                    let mapping = self.mappings.of_received(flow).and_then(|id| self.mappings.get_mut(id));
                    if let Some(mapping) = mapping {
                        mapping.used = io.now();
                        let (socket, to) = (mapping.socket, mapping.endpoint);
                        self.segments.delivered(datagram);
                        io.send(socket, &Transmit { to, ecn, urgency: Urgency::Original, bytes: datagram });
                    }
                }
                AgentOutput::Offered { peer, flow, offer } => self.offered.push((peer, flow, *offer)),
                AgentOutput::Event(event) => events.push(event),
            }
        }
        for event in events {
            self.event(event, io);
        }
    }

    fn event(&mut self, event: Event, io: &mut Io) {
        match event {
            Event::OfferAnswered { peer, flow, outcome } => self.answered(peer, flow, outcome, io),
            Event::FlowClosed(key) => {
                let number = self.known.number();
                let peer = if key.sender() == number { peer_of(&key) } else { Some(key.sender()) };
                match peer {
                    Some(peer) if key.flow() == CONTACT_FLOW => {
                        self.contacts.closed(peer, &mut self.agent, io.now());
                    }
                    Some(peer) => {
                        if let Some(id) = self.mappings.of_flow(peer, key.flow()) {
                            self.close_mapping(id, io);
                        }
                    }
                    None => {}
                }
            }
            Event::PeerLeft(peer) => {
                tracing::info!(peer = self.known.name_of(peer), "the peer has left");
                self.close_incoming(peer, io);
            }
            Event::PeerEstablished(peer) => {
                tracing::info!(peer = self.known.name_of(peer), "there is a session with the peer");
            }
            Event::PeerLost(peer) => {
                tracing::warn!(
                    peer = self.known.name_of(peer),
                    "the peer does not answer: it is tried again as long as there is something to send"
                );
            }
            Event::FlowRefused { flow, refusal } => {
                tracing::warn!(flow = flow.flow().number(), ?refusal, "a relay does not serve a flow");
            }
            Event::PathChanged { flow, path } => {
                tracing::info!(flow = flow.flow().number(), path, "a flow uses another path through relays");
            }
            Event::Left => self.has_left = true,
            other => tracing::debug!(?other, "the agent says"),
        }
    }

    /// A datagram of an application, or of a target.
    fn outgoing(&mut self, arrival: &Arrival<'_>, io: &mut Io) {
        let Arrival { socket, from, ecn, .. } = *arrival;
        let known = self.mappings.of_endpoint(socket, from);
        if let Some(id) = known.or_else(|| self.begin_at(socket, from, io)) {
            self.forward(id, arrival.bytes, ecn, io);
        }
    }

    /// An unknown endpoint sends: a new application, or nobody who was spoken to.
    fn begin_at(&mut self, socket: SocketId, from: SocketAddr, io: &mut Io) -> Option<MappingId> {
        let place = self.listeners.iter().position(|listener| listener.socket == Some(socket));
        if place.is_none() {
            self.segments.unsolicited += 1;
        }
        self.begin(place?, socket, from, io)
    }

    fn forward(&mut self, id: MappingId, bytes: &[u8], ecn: Ecn, io: &mut Io) {
        let now = io.now();
        let Some(mapping) = self.mappings.get_mut(id) else {
            return;
        };
        mapping.used = now;
        match &mapping.consent {
            Consent::Given => {
                let flow = mapping.sent;
                self.segments.taken(bytes);
                self.agent.handle(AgentInput::Send { flow, datagram: bytes, ecn, marked: false }, now);
            }
            Consent::Asked(_) => self.mappings.hold(id, bytes, ecn, now),
            Consent::Refused(until) if *until > now => self.segments.refused += 1,
            Consent::Refused(_) => {
                self.offer(id, io);
                self.mappings.hold(id, bytes, ecn, now);
            }
        }
    }

    /// An application's endpoint sends for the first time.
    fn begin(&mut self, place: usize, socket: SocketId, from: SocketAddr, io: &mut Io) -> Option<MappingId> {
        let forward = self.listeners[place].forward.clone();
        let Some(peer) = self.known.peer(&forward.peer) else {
            self.segments.unknown_peer += 1;
            tracing::debug!(peer = forward.peer, "the peer of a forward is not in the network's map");
            return None;
        };
        if !self.mappings.has_room() {
            self.segments.no_room += 1;
            return None;
        }
        let flow = self.draw_flow(peer)?;
        let number = self.known.number();
        let now = io.now();
        let sending = forth(&forward).settings(self.known.paths(number, peer));
        let receiving = back(&forward).settings(self.known.paths(peer, number));
        let sent = self.agent.open_flow(flow_between(number, peer, flow), sending, now)?;
        let Some(received) = self.agent.accept_flow(flow_between(peer, number, flow), receiving, now) else {
            self.agent.close_flow(sent, now);
            return None;
        };
        let mapping = Mapping {
            peer,
            flow,
            sent,
            received,
            socket,
            endpoint: from,
            side: Side::Forward(place),
            consent: Consent::Asked(Held::default()),
            used: now,
        };
        let id = self.mappings.add(mapping);
        self.offer(id, io);
        Some(id)
    }

    /// Asks the peer whether it takes part.
    fn offer(&mut self, id: MappingId, io: &mut Io) {
        let Some(mapping) = self.mappings.get_mut(id) else {
            return;
        };
        let Side::Forward(place) = mapping.side else {
            return;
        };
        mapping.consent = Consent::Asked(Held::default());
        let (peer, flow, endpoint) = (mapping.peer, mapping.flow, mapping.endpoint);
        let source = self.number_source(endpoint);
        let offer = offer_of(&self.listeners[place].forward, source);
        self.agent.offer(peer, flow, offer, io.now());
    }

    fn number_source(&mut self, endpoint: SocketAddr) -> u32 {
        let next = &mut self.next_source;
        *self.sources.entry(endpoint).or_insert_with(|| {
            *next = next.wrapping_add(1);
            *next
        })
    }

    /// A flow number that no mapping with this peer has: even ones are of the agent with the smaller number.
    fn draw_flow(&mut self, peer: AgentId) -> Option<FlowId> {
        let parity = u16::from(self.known.number() > peer);
        let first = self.first_flow;
        let next = self.next_flows.entry(peer).or_insert(first);
        for _ in 0..=u16::MAX / 2 {
            *next = next.wrapping_add(2);
            let flow = FlowId::new((*next & !1) | parity);
            if flow != CONTACT_FLOW && self.mappings.of_flow(peer, flow).is_none() {
                return Some(flow);
            }
        }
        None
    }

    fn answered(&mut self, peer: AgentId, flow: FlowId, outcome: Result<(), OfferRefusal>, io: &mut Io) {
        let Some(id) = self.mappings.of_flow(peer, flow) else {
            return;
        };
        match outcome {
            Ok(()) => {
                let Some(Side::Forward(place)) = self.mappings.get(id).map(|mapping| mapping.side) else {
                    return;
                };
                let budget = self.listeners[place].forward.latency_budget;
                for datagram in self.mappings.consented(id, budget, io.now()) {
                    self.forward(id, &datagram.bytes, datagram.ecn, io);
                    self.drain_outputs(io);
                }
            }
            Err(OfferRefusal::NumberTaken) => self.close_mapping(id, io),
            Err(refusal) => {
                let name = self.known.name_of(peer);
                tracing::warn!(
                    peer = name,
                    ?refusal,
                    "the peer does not take what a forward sends: compare its [[expose]] with the forward's \"to\""
                );
                self.mappings.refused(id, io.now() + REFUSED_FOR);
            }
        }
    }

    /// A peer's application wants to send to something here.
    fn offered_by(&mut self, peer: AgentId, flow: FlowId, offer: &Offer, io: &mut Io) {
        let answer = self.accept(peer, flow, offer, io);
        if let Err(refusal) = answer {
            tracing::info!(peer = self.known.name_of(peer), ?refusal, "refused what a peer offers");
        }
        self.agent.answer_offer(peer, flow, answer, io.now());
    }

    fn accept(
        &mut self,
        peer: AgentId,
        flow: FlowId,
        offer: &Offer,
        io: &mut Io,
    ) -> Result<(), OfferRefusal> {
        let subject = Subject::parse(&offer.subject).ok_or(OfferRefusal::UnknownSubject)?;
        let exposed = self.exposed.iter().position(|exposed| exposed.name == subject.name);
        let place = exposed.ok_or(OfferRefusal::UnknownSubject)?;
        let peer_name = self.known.name_of(peer);
        let may = |peers: &Vec<String>| peers.contains(&peer_name);
        if !self.exposed[place].peers.as_ref().is_none_or(may) {
            return Err(OfferRefusal::NotAllowed);
        }
        if let Some(old) = self.mappings.of_flow(peer, flow) {
            self.close_mapping(old, io);
        }
        let of_peer = self.mappings.iter().filter(|(_, mapping)| mapping.peer == peer).count();
        if !self.mappings.has_room() || of_peer >= PEER_MAPPINGS_MAX {
            return Err(OfferRefusal::NoRoom);
        }
        let target = self.exposed[place].target;
        let socket = self.outside(peer, subject.source, target, io).ok_or(OfferRefusal::NoRoom)?;
        if let Some(other) = self.mappings.of_endpoint(socket, target) {
            // The application's endpoint was known under another number: its agent restarted.
            self.close_mapping(other, io);
        }
        let socket = self.outside(peer, subject.source, target, io).ok_or(OfferRefusal::NoRoom)?;
        let number = self.known.number();
        let now = io.now();
        let forth = offer.forth.settings(self.known.paths(peer, number));
        let back = offer.back.settings(self.known.paths(number, peer));
        let sent = self.agent.open_flow(flow_between(number, peer, flow), back, now);
        let received = self.agent.accept_flow(flow_between(peer, number, flow), forth, now);
        let (Some(sent), Some(received)) = (sent, received) else {
            if let Some(sent) = sent {
                self.agent.close_flow(sent, now);
            }
            if let Some(received) = received {
                self.agent.close_received_flow(received, now);
            }
            self.close_outside_if_unused(peer, subject.source, io);
            return Err(OfferRefusal::NotYet);
        };
        if let Some(outside) = self.outsides.get_mut(&(peer, subject.source)) {
            outside.mappings += 1;
        }
        self.mappings.add(Mapping {
            peer,
            flow,
            sent,
            received,
            socket,
            endpoint: target,
            side: Side::Exposed { place, source: subject.source },
            consent: Consent::Given,
            used: now,
        });
        Ok(())
    }

    /// The socket from which a peer's application speaks to targets here.
    fn outside(&mut self, peer: AgentId, source: u32, target: SocketAddr, io: &mut Io) -> Option<SocketId> {
        if let Some(outside) = self.outsides.get(&(peer, source)) {
            return Some(outside.socket);
        }
        let bind = match (target.ip().is_loopback(), target.is_ipv4()) {
            (true, true) => (Ipv4Addr::LOCALHOST, 0).into(),
            (true, false) => (Ipv6Addr::LOCALHOST, 0).into(),
            (false, true) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            (false, false) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        match io.open(bind) {
            Ok(socket) => {
                self.outsides.insert((peer, source), Outside { socket, mappings: 0 });
                Some(socket)
            }
            Err(error) => {
                tracing::error!(%error, "no socket towards what is exposed");
                None
            }
        }
    }

    fn close_outside_if_unused(&mut self, peer: AgentId, source: u32, io: &mut Io) {
        if self.outsides.get(&(peer, source)).is_some_and(|outside| outside.mappings == 0)
            && let Some(outside) = self.outsides.remove(&(peer, source))
        {
            io.close(outside.socket);
        }
    }

    /// A mapping ends: its flows are closed at both ends.
    fn close_mapping(&mut self, id: MappingId, io: &mut Io) {
        let Some(mapping) = self.mappings.remove(id) else {
            return;
        };
        let now = io.now();
        self.agent.withdraw_offer(mapping.peer, mapping.flow);
        self.agent.close_flow(mapping.sent, now);
        self.agent.close_received_flow(mapping.received, now);
        match mapping.side {
            Side::Exposed { source, .. } => {
                if let Some(outside) = self.outsides.get_mut(&(mapping.peer, source)) {
                    outside.mappings -= 1;
                }
                self.close_outside_if_unused(mapping.peer, source, io);
            }
            Side::Forward(_) => {
                if !self.mappings.iter().any(|(_, other)| other.endpoint == mapping.endpoint) {
                    self.sources.remove(&mapping.endpoint);
                }
            }
        }
    }

    /// A peer left: what its applications send to is closed. What is sent to it waits for its return.
    fn close_incoming(&mut self, peer: AgentId, io: &mut Io) {
        let of_peer = self.mappings.iter().filter(|(_, mapping)| mapping.peer == peer);
        let incoming = of_peer.filter(|(_, mapping)| matches!(mapping.side, Side::Exposed { .. }));
        let incoming: Vec<MappingId> = incoming.map(|(id, _)| id).collect();
        for id in incoming {
            self.close_mapping(id, io);
        }
    }

    fn sweep(&mut self, io: &mut Io) {
        if self.next_sweep > io.now() {
            return;
        }
        self.next_sweep = io.now() + SWEEP_INTERVAL;
        for id in self.mappings.idle(io.now()) {
            self.close_mapping(id, io);
        }
    }

    /// The network is this now: relays and peers are made known, and flows take the paths that it names.
    fn take_map(&mut self, map: &NetworkMap, io: &mut Io) {
        let now = io.now();
        self.known.take(map);
        self.known.introduce(&mut self.agent, now);
        self.contacts.follow(&self.known, &mut self.agent, now);
        let number = self.known.number();
        for (_, mapping) in self.mappings.iter() {
            self.agent.set_paths(mapping.sent, self.known.paths(number, mapping.peer), now);
            self.agent.set_received_paths(mapping.received, self.known.paths(mapping.peer, number), now);
        }
    }

    /// Opens the ports of all forwards.
    fn listen(&mut self, io: &mut Io) -> Result<(), String> {
        for listener in &mut self.listeners {
            let wanted = listener.forward.listen;
            let socket = io.open(wanted).map_err(|error| {
                format!("{wanted} cannot be had for a forward ({error}): name another port, or stop who has it (ss -ulpn shows who)")
            })?;
            listener.socket = Some(socket);
            listener.local = io.local_address(socket);
        }
        Ok(())
    }
}

/// The receiver of a flow, if it is an agent.
fn peer_of(key: &byway_wire::FlowKey) -> Option<AgentId> {
    match key.receiver() {
        byway_wire::Receiver::Agent(agent) => Some(agent),
        byway_wire::Receiver::Group(_) => None,
    }
}

impl Role for AgentRole {
    type Control = AgentControl;

    fn start(&mut self, io: &mut Io) {
        let listening = self.listen(io);
        self.has_left = listening.is_err();
        // Whoever waits for it may have gone.
        self.started.take().map(|started| started.send(listening));
        self.known.introduce(&mut self.agent, io.now());
        self.contacts.follow(&self.known, &mut self.agent, io.now());
        self.drain(io);
    }

    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        if arrival.socket == SocketId::OVERLAY {
            self.segments.received(arrival.bytes, arrival.from);
            let Arrival { from, ecn, bytes, .. } = arrival;
            self.agent.handle(AgentInput::Received { from, ecn, bytes }, io.now());
        } else {
            self.outgoing(&arrival, io);
        }
        self.drain(io);
    }

    fn woken(&mut self, io: &mut Io) {
        if self.agent.deadline().is_some_and(|(at, _)| at <= io.now()) {
            self.agent.handle(AgentInput::Deadline, io.now());
        }
        self.sweep(io);
        self.drain(io);
    }

    fn controlled(&mut self, control: AgentControl, io: &mut Io) {
        match control {
            AgentControl::Map(map) => self.take_map(&map, io),
            // Whoever asked may have gone.
            AgentControl::Status(answer) => drop(answer.send(self.status(io))),
            AgentControl::Seen(answer) => drop(answer.send(self.known.seen(&self.agent, io.now()))),
            AgentControl::Close => self.agent.close(io.now()),
        }
        self.drain(io);
    }

    fn deadline(&self) -> Option<Time> {
        let agent = self.agent.deadline().map(|(at, _)| at);
        agent.into_iter().chain([self.next_sweep]).min()
    }

    fn is_finished(&self) -> bool {
        self.has_left
    }
}
