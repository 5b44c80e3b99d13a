//! The agent in its thread: overlay packets on one side, applications' datagrams on the other.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, NetworkMap};
use byway_net::{Arrival, Io, Queued, Role, SocketId, TooLong, Verdict};
use byway_proto::agent::{Agent, AgentInput, AgentOutput, Event, Offer, OfferRefusal, Traffic};
use byway_proto::conventions::{CONTACT_FLOW, Contacts, FlowNumbers, PairLimits, PairUse, Subject};
use byway_proto::marking::{Candidate, Marking};
use byway_proto::{LocalAddress, Transmit, Urgency};
use byway_units::{AgentId, FlowId, Time};
use tokio::sync::oneshot;

use super::admission::{Declined, begin};
use super::dscp;
use super::known::Known;
use super::limits::SWEEP_INTERVAL;
use super::listeners::{Listener, open_port};
use super::log_limit::{LogLimit, Topic};
use super::mappings::{
    AllInUse, Answered, Beginning, Consent, Datagram, Endpoint, Mapping, MappingId, Mappings, Outgoing,
    Owner, PendingDatagram, Side,
};
use super::notices::{Notice, receiver};
use super::numbers::Sources;
use super::outsides::{Caller, Outsides};
use super::reloading::Change;
use super::segments::Segments;
use super::terms::{back, offer_of};
use super::tunnel::{Came, Tunnelled};
use super::unprotected::not_here;
use super::watchdog::Watchdog;
use crate::names::Resolved;
use crate::settings::{Exposed, Forward, Wanted, packets_for};

/// What the rest of the process asks of the agent.
pub(super) enum AgentControl {
    /// The network is this now.
    Map(Arc<NetworkMap>),
    /// Names stand for these addresses now.
    Names(Arc<Resolved>),
    /// How are you?
    Status(oneshot::Sender<AgentStatus>),
    /// Which addresses do relays see?
    Seen(oneshot::Sender<Seen>),
    /// Work by these settings from now on, or by the former ones if that cannot be.
    Reload(Box<Change>, oneshot::Sender<Result<(), String>>),
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

/// The agent, its proxy, and what it knows of the network.
pub(super) struct AgentRole {
    pub(super) agent: Box<Agent>,
    pub(super) known: Known,
    contacts: Contacts,
    pub(super) listeners: Vec<Listener>,
    pub(super) exposed: Vec<Exposed>,
    /// Addresses of the targets that have names.
    pub(super) resolved: Arc<Resolved>,
    pub(super) mappings: Mappings,
    pub(super) segments: Segments,
    flow_numbers: FlowNumbers,
    /// Numbers of applications' endpoints, told to peers.
    sources: Sources,
    pub(super) outsides: Outsides,
    /// Packets of a device, if there is one.
    pub(super) tunnel: Option<Tunnelled>,
    /// What should be protected and is not.
    pub(super) watchdog: Watchdog,
    pub(super) log_limit: LogLimit,
    offered: VecDeque<(AgentId, FlowId, Offer)>,
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
        tunnel: Option<Tunnelled>,
        random: u64,
        started: oneshot::Sender<Result<(), String>>,
    ) -> Self {
        let listeners =
            forwards.into_iter().map(|forward| Listener { forward, socket: None, local: None }).collect();
        let [first, second, source @ ..] = random.to_be_bytes();
        let source: [u8; 4] = [source[0], source[1], source[2], source[3]];
        Self {
            agent: Box::new(agent),
            flow_numbers: FlowNumbers::new(known.number(), u16::from_be_bytes([first, second])),
            known,
            contacts: Contacts::default(),
            listeners,
            exposed,
            resolved: Arc::default(),
            mappings: Mappings::default(),
            segments: Segments::default(),
            sources: Sources::new(u32::from_be_bytes(source)),
            outsides: Outsides::default(),
            watchdog: Watchdog::new(tunnel.as_ref().and_then(Tunnelled::watches)),
            tunnel,
            log_limit: LogLimit::default(),
            offered: VecDeque::new(),
            next_sweep: Time::START + SWEEP_INTERVAL,
            started: Some(started),
            has_left: false,
        }
    }

    /// Has no more mappings than these.
    pub(super) fn limited_to(mut self, limits: PairLimits) -> Self {
        self.mappings.limit_to(limits);
        self
    }

    /// Knows what the names of targets stand for.
    pub(super) fn with_names(mut self, resolved: Arc<Resolved>) -> Self {
        self.resolved = resolved;
        self
    }

    /// Takes what the agent wants done, until it wants nothing more.
    fn drain(&mut self, io: &mut Io) {
        loop {
            self.drain_outputs(io);
            let Some((peer, flow, offer)) = self.offered.pop_front() else {
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
                AgentOutput::Deliver { flow, datagram, traffic_class, .. } => {
                    let ecn = traffic_class.ecn();
                    let Some(id) = self.mappings.of_received(flow) else { continue };
                    let Some(mapping) = self.mappings.get_mut(id) else { continue };
                    mapping.note_arrival(io.now());
                    if let Some(Endpoint { socket, address: to }) = mapping.endpoint {
                        let (from, urgency) = (mapping.asked_at, Urgency::Original);
                        let ends = (&self.listeners[..], &self.exposed[..]);
                        let class = dscp::delivered(traffic_class, mapping.side, ends);
                        io.send_as(socket, &Transmit { to, from, ecn, urgency, bytes: datagram }, class);
                    } else if let Some(tunnel) = &mut self.tunnel {
                        let came = Came { id, mapping, known: &self.known, exposed: &self.exposed };
                        if tunnel.deliver(&came, datagram, ecn, io) {
                            self.segments.delivered(datagram);
                        }
                    }
                }
                AgentOutput::Offered { peer, flow, offer } => self.offered.push_back((peer, flow, *offer)),
                AgentOutput::Event(event) => events.push(event),
            }
        }
        for event in events {
            self.event(event, io);
        }
    }

    fn event(&mut self, event: Event, io: &mut Io) {
        if let Some(notice) = Notice::of(&event, &self.known) {
            notice.log(&mut self.log_limit, io.now());
        }
        self.hasten_look();
        match event {
            Event::OfferAnswered { peer, flow, outcome } => self.answered(peer, flow, outcome, io),
            Event::FlowClosed(key) => {
                let is_sent = key.sender() == self.known.number();
                let peer = if is_sent { receiver(&key) } else { Some(key.sender()) };
                if let Some(peer) = peer {
                    self.flow_closed(peer, key.flow(), io);
                }
            }
            Event::PeerEstablished(peer) => self.mappings.abandon(peer, io.now()),
            Event::PeerLeft(peer) => {
                self.peer_left(peer);
                // What is sent to it waits for its return.
                for id in self.mappings.begun_by(peer) {
                    self.close_mapping(id, io);
                }
            }
            Event::Left => self.has_left = true,
            other => tracing::debug!(?other, "the agent says"),
        }
    }

    fn flow_closed(&mut self, peer: AgentId, flow: FlowId, io: &mut Io) {
        if flow == CONTACT_FLOW {
            self.contacts.closed(peer, &mut self.agent, io.now());
        } else if let Some(id) = self.mappings.of_flow(peer, flow) {
            self.close_mapping(id, io);
        }
    }

    /// A datagram of an application, or of a target.
    fn outgoing(&mut self, arrival: &Arrival<'_>, io: &mut Io) {
        let Arrival { socket, from, to, traffic_class, .. } = *arrival;
        let known = self.mappings.of_endpoint(Endpoint { socket, address: from });
        if let Some(id) = known.or_else(|| self.begin_at(socket, from, io)) {
            self.mappings.note_sent(id, to, io.now());
            let candidate = Candidate { headers: None, payload: arrival.bytes, connection: None };
            let marked = self.mappings.marks(id, &candidate);
            let Some(side) = self.mappings.get(id).map(|mapping| mapping.side) else { return };
            let traffic_class = dscp::sent(traffic_class, side, (&self.listeners, &self.exposed));
            self.forward(id, &Datagram { bytes: arrival.bytes, traffic_class, marked }, io);
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

    pub(super) fn forward(&mut self, id: MappingId, datagram: &Datagram<'_>, io: &mut Io) {
        if self.sends_early(id, datagram, io) {
            return;
        }
        match self.mappings.outgoing(id, datagram, io.now()) {
            Some(Outgoing::Sent(flow)) => {
                let Datagram { bytes, traffic_class, marked } = *datagram;
                self.segments.taken(bytes);
                let input = AgentInput::Send { flow, datagram: bytes, traffic_class, marked };
                self.agent.handle(input, io.now());
            }
            Some(Outgoing::Asks) => self.offer(id, io),
            Some(Outgoing::Refused) => self.count_refused(id),
            Some(Outgoing::Held) | None => {}
        }
    }

    /// Sends a datagram with its flow's offer; `false` if it cannot go early, or need not.
    fn sends_early(&mut self, id: MappingId, datagram: &Datagram<'_>, io: &mut Io) -> bool {
        let Datagram { bytes, traffic_class, marked } = *datagram;
        let flow = self.mappings.begins(id, io.now());
        let send = |flow| self.agent.send_early(flow, bytes, traffic_class, marked, io.now());
        let is_sent = flow.is_some_and(send);
        if is_sent {
            self.mappings.note_early(id);
            self.segments.taken(bytes);
        }
        is_sent
    }

    /// An application's endpoint sends for the first time.
    fn begin(&mut self, place: usize, socket: SocketId, from: SocketAddr, io: &mut Io) -> Option<MappingId> {
        let endpoint = Some(Endpoint { socket, address: from });
        let began = self.begin_mapping(Side::Forward(place), endpoint, io);
        match began {
            Ok(id) => Some(id),
            Err(Declined::UnknownPeer) => {
                self.segments.unknown_peer += 1;
                tracing::debug!(place, "the peer of a forward is not in the network's map");
                None
            }
            Err(Declined::NoRoom) => {
                self.segments.no_room += 1;
                None
            }
        }
    }

    /// Opens the flows of a mapping that begins here, and offers them to the peer.
    pub(super) fn begin_mapping(
        &mut self,
        side: Side,
        endpoint: Option<Endpoint>,
        io: &mut Io,
    ) -> Result<MappingId, Declined> {
        let is_known = self.wanted(side).is_some_and(|(wanted, _)| self.known.peer(&wanted.peer).is_some());
        if is_known {
            let owner = endpoint.map_or(Owner::Here, Owner::of);
            self.make_room(owner, io).map_err(|AllInUse| Declined::NoRoom)?;
        }
        let (wanted, traffic) = self.wanted(side).ok_or(Declined::NoRoom)?;
        let (terms, back, marking) =
            (wanted.forth(traffic), back(wanted, traffic), Marking::new(&wanted.marks));
        let (peer, flow) = begin(self.known.peer(&wanted.peer), &self.mappings, &mut self.flow_numbers)?;
        let number = self.known.number();
        let now = io.now();
        let sending = terms.settings(self.known.paths(number, peer));
        let receiving = back.settings(self.known.paths(peer, number));
        let pair = self.open_pair(peer, flow, sending, receiving, now);
        let (sent, received) = pair.ok_or(Declined::NoRoom)?;
        let consent = Consent::Asked(Beginning::default());
        let mapping = Mapping {
            peer,
            flow,
            sent,
            received,
            endpoint,
            asked_at: LocalAddress::ANY,
            sent_last: now,
            side,
            marking,
            consent,
            refusal: None,
            budget: terms.latency_budget,
            usage: PairUse::new(now),
            whole: None,
        };
        let id = self.mappings.add(mapping);
        self.offer(id, io);
        Ok(id)
    }

    /// What is wanted of the peer of a mapping that begins here, and what it carries.
    pub(super) fn wanted(&self, side: Side) -> Option<(&Wanted, Traffic)> {
        match side {
            Side::Forward(place) => {
                let wanted = &self.listeners[place].forward.wanted;
                Some((wanted, wanted.traffic.unwrap_or_default()))
            }
            Side::Capture { place, traffic } => Some((self.tunnel.as_ref()?.wanted(place), traffic)),
            Side::Exposed { .. } | Side::Network { .. } => None,
        }
    }

    /// Asks the peer whether it takes part.
    pub(super) fn offer(&mut self, id: MappingId, io: &mut Io) {
        let Some(Mapping { peer, flow, endpoint, side, .. }) = self.mappings.get(id) else {
            return;
        };
        let (peer, flow, side) = (*peer, *flow, *side);
        let source = match (endpoint, side) {
            (Some(endpoint), _) => self.sources.number(endpoint.address),
            (None, side) => self.capture_number(side),
        };
        let Some((wanted, traffic)) = self.wanted(side) else {
            return;
        };
        let name = if let Side::Capture { place, .. } = side {
            packets_for(&wanted.to, self.only_destination(place))
        } else {
            wanted.to.clone()
        };
        let offer = offer_of(wanted, traffic, &Subject { source, name });
        self.agent.offer(peer, flow, offer, io.now());
    }

    fn answered(&mut self, peer: AgentId, flow: FlowId, outcome: Result<(), OfferRefusal>, io: &mut Io) {
        let Some(id) = self.mappings.of_flow(peer, flow) else {
            return;
        };
        if outcome == Err(OfferRefusal::NoRoom)
            && let Some(evicted) = self.mappings.beyond_share_at_peer(id, io.now())
        {
            self.mappings.note_full_peer(id);
            self.evict(evicted, io);
            return self.offer(id, io);
        }
        match self.mappings.answered(id, outcome, io.now()) {
            Some(Answered::Consented) => self.send_held(id, io),
            Some(Answered::Ends) => self.close_mapping(id, io),
            Some(Answered::Refused(Some(OfferRefusal::NoRoom))) => self.log_full_peer(peer, io.now()),
            Some(Answered::Refused(Some(OfferRefusal::NotHere))) => {
                let place = self.mappings.get(id).and_then(|mapping| match mapping.side {
                    Side::Capture { place, .. } => self.only_destination(place),
                    _ => None,
                });
                if self.log_limit.is_due(Topic::PeerRefuses, Some(peer), "NotHere", io.now()) {
                    tracing::info!("{}", not_here(&self.known.name_of(peer), place));
                }
            }
            Some(Answered::Refused(Some(refusal))) => {
                let detail = format!("{refusal:?}");
                if !self.log_limit.is_due(Topic::PeerRefuses, Some(peer), &detail, io.now()) {
                    return;
                }
                let to = self.mappings.get(id).map(|mapping| self.subject_of(mapping).to_owned());
                tracing::warn!(
                    peer = self.known.name_of(peer),
                    to,
                    ?refusal,
                    "the peer does not take what is sent there: compare its [[expose]] with the \"to\" here"
                );
            }
            Some(Answered::Refused(None)) | None => {}
        }
    }

    /// Sends what has waited for the peer's consent.
    fn send_held(&mut self, id: MappingId, io: &mut Io) {
        for pending in self.mappings.consented(id, io.now()) {
            let Some(flow) = self.mappings.get(id).map(|mapping| mapping.sent) else { return };
            let PendingDatagram { bytes, traffic_class, marked, came, .. } = pending;
            self.segments.taken(&bytes);
            self.agent.send_held(flow, &bytes, traffic_class, marked, came, io.now());
            self.drain_outputs(io);
        }
    }

    /// The name of what is exposed, here or there, that a mapping sends to.
    pub(super) fn subject_of(&self, mapping: &Mapping) -> &str {
        match mapping.side {
            Side::Exposed { place, .. } | Side::Network { place, .. } => &self.exposed[place].name,
            Side::Forward(_) | Side::Capture { .. } => {
                self.wanted(mapping.side).map_or("", |(wanted, _)| wanted.to.as_str())
            }
        }
    }

    /// A mapping ends: its flows are closed at both ends.
    pub(super) fn close_mapping(&mut self, id: MappingId, io: &mut Io) {
        let Some(mapping) = self.mappings.remove(id) else {
            return;
        };
        let now = io.now();
        self.agent.withdraw_offer(mapping.peer, mapping.flow);
        self.agent.close_flow(mapping.sent, now);
        self.agent.close_received_flow(mapping.received, now);
        self.watchdog.closed(id);
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.closed(id);
        }
        let Some(Endpoint { address, .. }) = mapping.endpoint else {
            return;
        };
        if let Side::Exposed { source, .. } = mapping.side {
            let caller = Caller::new(mapping.peer, source, address);
            if let Some(unused) = self.outsides.left(caller) {
                io.close(unused);
            }
        } else if !self.mappings.has_source(address) {
            self.sources.forget(address);
        }
    }

    fn sweep(&mut self, io: &mut Io) {
        if self.next_sweep > io.now() {
            return;
        }
        self.next_sweep = io.now() + SWEEP_INTERVAL;
        self.leave_former_targets(io);
        self.mappings.expire_pending(io.now());
        for id in self.mappings.idle(io.now()) {
            if !self.is_captured_by_peer(id, io.now()) {
                self.close_mapping(id, io);
            }
        }
    }

    /// The network is this now: relays and peers are made known, and flows take the paths that it names.
    fn take_map(&mut self, map: &NetworkMap, io: &mut Io) {
        let now = io.now();
        let gone = self.known.take(map);
        for id in self.mappings.of_peers(&gone.agents) {
            self.close_mapping(id, io);
        }
        self.known.introduce(&mut self.agent, now);
        self.contacts.follow(self.known.number(), self.known.acquainted(), &mut self.agent, now);
        let number = self.known.number();
        for (_, mapping) in self.mappings.iter() {
            self.agent.set_paths(mapping.sent, self.known.paths(number, mapping.peer), now);
            self.agent.set_received_paths(mapping.received, self.known.paths(mapping.peer, number), now);
        }
        for peer in gone.agents {
            self.agent.remove_peer(peer, now);
            self.flow_numbers.forget(peer);
            self.log_limit.forget(peer);
            self.peer_left(peer);
        }
        self.hasten_look();
        gone.relays.into_iter().for_each(|relay| self.agent.leave_relay(relay, now));
    }

    /// Opens the ports of all forwards.
    fn listen(&mut self, io: &mut Io) -> Result<(), String> {
        for listener in &mut self.listeners {
            let wanted = listener.forward.listen;
            let socket = open_port(wanted, io)?;
            listener.socket = Some(socket);
            listener.local = io.local_address(socket);
        }
        Ok(())
    }
}

impl Role for AgentRole {
    type Control = AgentControl;

    fn start(&mut self, io: &mut Io) {
        let listening = self.listen(io);
        let listening = listening.and_then(|()| self.open_device(io));
        self.has_left = listening.is_err();
        // Whoever waits for it may have gone.
        self.started.take().map(|started| started.send(listening));
        self.known.introduce(&mut self.agent, io.now());
        self.contacts.follow(self.known.number(), self.known.acquainted(), &mut self.agent, io.now());
        self.drain(io);
    }

    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        self.watchdog.stir(io.now());
        if arrival.socket == SocketId::OVERLAY {
            self.segments.received(arrival.bytes, arrival.from);
            let Arrival { from, to, traffic_class, bytes, .. } = arrival;
            let ecn = traffic_class.ecn();
            self.agent.handle(AgentInput::Received { from, to, ecn, bytes }, io.now());
        } else {
            self.outgoing(&arrival, io);
        }
        self.drain(io);
    }

    fn too_long(&mut self, packet: &TooLong, io: &mut Io) {
        let TooLong { to, quoted, payload_bytes_max } = packet;
        let (to, payload_bytes_max) = (*to, *payload_bytes_max);
        self.agent.handle(AgentInput::TooLong { to, quoted, payload_bytes_max }, io.now());
        self.drain(io);
    }

    fn packet(&mut self, packet: &mut [u8], io: &mut Io) {
        self.take_packet(packet, io);
        self.drain(io);
    }

    fn queued(&mut self, queued: Queued<'_>, io: &mut Io) -> Verdict {
        let verdict = self.take_queued(queued, io);
        self.drain(io);
        verdict
    }

    fn woken(&mut self, io: &mut Io) {
        if self.agent.deadline().is_some_and(|(at, _)| at <= io.now()) {
            self.agent.handle(AgentInput::Deadline, io.now());
        }
        self.sweep(io);
        self.look_after_tunnel(io);
        self.look_whether_protected(io);
        self.drain(io);
    }

    fn controlled(&mut self, control: AgentControl, io: &mut Io) {
        match control {
            AgentControl::Map(map) => self.take_map(&map, io),
            AgentControl::Names(resolved) => self.take_names(resolved, io),
            // Whoever asked may have gone.
            AgentControl::Status(answer) => drop(answer.send(self.status(io))),
            AgentControl::Seen(answer) => drop(answer.send(self.known.seen(&self.agent, io.now()))),
            AgentControl::Reload(change, answer) => drop(answer.send(self.reload(*change, io))),
            AgentControl::Close => self.agent.close(io.now()),
        }
        self.drain(io);
    }

    fn deadline(&self) -> Option<Time> {
        let agent = self.agent.deadline().map(|(at, _)| at);
        let tunnel = self.tunnel.as_ref().map(Tunnelled::deadline);
        agent.into_iter().chain(tunnel).chain([self.next_sweep, self.watchdog.deadline()]).min()
    }

    fn is_finished(&self) -> bool {
        self.has_left
    }
}
