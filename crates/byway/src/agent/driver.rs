//! Driver of the agent in its thread: overlay packets on one side, applications' datagrams on the
//! other.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{AgentStatus, NetworkMap};
use byway_net::{Arrival, Io, PacketTooBig, QueuedPacket, Role, SocketId, Verdict};
use byway_proto::agent::{Agent, AgentInput, AgentOutput, Event, Offer, Traffic};
use byway_proto::conventions::{CONTACT_FLOW, Contacts, FlowNumbers, PairUse, Subject};
use byway_proto::copy_selection::{Marking, MarkingInput};
use byway_proto::{LocalAddress, Priority, Transmit, Uplink};
use byway_units::{AgentId, FlowId, Time};
use tokio::sync::oneshot;

use super::admission::{MappingRefusal, allocate_flow};
use super::dscp;
use super::flow_prices::price_table;
use super::limits::SWEEP_INTERVAL;
use super::listeners::{Listener, open_port};
use super::log_limit::LogLimit;
use super::mappings::{
    Consent, Datagram, Endpoint, Mapping, MappingId, Mappings, MappingsExhausted, OfferState, Owner,
    PendingDatagram, SendOutcome, Side,
};
use super::network_view::{NetworkView, Observed};
use super::notices::{Notice, receiver};

use super::explain_request::ExplainRequest;
use super::segments::Segments;
use super::settings_change::SettingsChange;
use super::source_ids::SourceIds;
use super::source_ports::{Caller, SourcePortTable};
use super::terms::{build_offer, return_terms};
use super::tunnel::{InboundPacket, TunForwarder};
use super::watchdog::Watchdog;
use crate::name_resolution::ResolvedNames;
use crate::settings::{ExposedResource, FlowSpec, Forward, MappingLimits, UplinkDevice, packet_subject};

/// Control message from the rest of the process to the agent's thread.
pub(super) enum AgentControl {
    /// Apply a newer map of the network.
    Map(Arc<NetworkMap>),
    /// Replace the addresses to which targets' DNS names resolve.
    Names(Arc<ResolvedNames>),
    /// Return the agent's status.
    Status(oneshot::Sender<AgentStatus>),
    /// Return the measurements for the controller: observed addresses, and round trips to relays.
    Observed(oneshot::Sender<Observed>),
    /// Return the flows, or the explanation of one of them.
    Explain(ExplainRequest),
    /// Apply new settings. If that fails, the former ones stay in force, and the error is returned.
    Reload(Box<SettingsChange>, oneshot::Sender<Result<(), String>>),
    /// Close all sessions, and end the thread.
    Close,
}

/// Driver of an agent: its state machine, its proxy with the mappings, and its view of the network.
pub(super) struct AgentDriver {
    pub(super) agent: Box<Agent>,
    pub(super) network_view: NetworkView,
    contacts: Contacts,
    pub(super) listeners: Vec<Listener>,
    pub(super) exposed: Vec<ExposedResource>,
    /// Addresses to which the DNS names of targets resolve.
    pub(super) resolved: Arc<ResolvedNames>,
    pub(super) mappings: Mappings,
    pub(super) segments: Segments,
    flow_numbers: FlowNumbers,
    /// Numbers by which peers know applications' endpoints.
    source_ids: SourceIds,
    pub(super) source_ports: SourcePortTable,
    /// Forwarding of captured packets, if the settings need a TUN device.
    pub(super) tunnel: Option<TunForwarder>,
    /// Detection of traffic that should be protected and is not.
    pub(super) watchdog: Watchdog,
    pub(super) log_limit: LogLimit,
    pending_offers: VecDeque<(AgentId, FlowId, Offer)>,
    next_sweep: Time,
    /// Receiver of the start's result: whether the forwards' ports and the device are open.
    started: Option<oneshot::Sender<Result<(), String>>>,
    has_left: bool,
}

impl AgentDriver {
    pub(super) fn new(
        agent: Agent,
        known: NetworkView,
        forwards: Vec<Forward>,
        exposed: Vec<ExposedResource>,
        tunnel: Option<TunForwarder>,
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
            network_view: known,
            contacts: Contacts::default(),
            listeners,
            exposed,
            resolved: Arc::default(),
            mappings: Mappings::default(),
            segments: Segments::default(),
            source_ids: SourceIds::new(u32::from_be_bytes(source)),
            source_ports: SourcePortTable::default(),
            watchdog: Watchdog::new(tunnel.as_ref().and_then(TunForwarder::watched_device)),
            tunnel,
            log_limit: LogLimit::default(),
            pending_offers: VecDeque::new(),
            next_sweep: Time::START + SWEEP_INTERVAL,
            started: Some(started),
            has_left: false,
        }
    }

    /// Sets the limits of mappings.
    pub(super) fn with_limits(mut self, limits: MappingLimits) -> Self {
        self.mappings.limit_to(limits);
        self
    }

    /// Sets the addresses to which the DNS names of targets resolve.
    pub(super) fn with_names(mut self, resolved: Arc<ResolvedNames>) -> Self {
        self.resolved = resolved;
        self
    }

    /// Sets the uplinks that the settings name.
    pub(super) fn with_uplinks(mut self, uplinks: Vec<UplinkDevice>) -> Self {
        self.segments.uplinks.devices = uplinks;
        self
    }

    /// Executes the outputs of the agent's state machine, and handles peers' pending offers, until
    /// none is left.
    fn drain(&mut self, io: &mut Io) {
        loop {
            self.drain_outputs(io);
            let Some((peer, flow, offer)) = self.pending_offers.pop_front() else {
                return;
            };
            self.on_offer(peer, flow, &offer, io);
        }
    }

    fn drain_outputs(&mut self, io: &mut Io) {
        let mut events = Vec::new();
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Transmit(transmit) => {
                    self.segments.count_sent(&transmit);
                    io.send(SocketId::OVERLAY, &transmit);
                }
                AgentOutput::Deliver { flow, datagram, traffic_class, .. } => {
                    let ecn = traffic_class.ecn();
                    let Some(id) = self.mappings.of_received(flow) else { continue };
                    let Some(mapping) = self.mappings.get_mut(id) else { continue };
                    mapping.note_arrival(io.now());
                    if let Some(Endpoint { socket, address: to }) = mapping.endpoint {
                        let (from, priority) = (mapping.local_address, Priority::Source);
                        let ends = (&self.listeners[..], &self.exposed[..]);
                        let class = dscp::delivered_class(traffic_class, mapping.side, ends);
                        io.send_as(socket, &Transmit { to, from, ecn, priority, bytes: datagram }, class);
                    } else if let Some(tunnel) = &mut self.tunnel {
                        let inbound =
                            InboundPacket { id, mapping, known: &self.network_view, exposed: &self.exposed };
                        if tunnel.deliver(&inbound, datagram, ecn, io) {
                            self.segments.count_delivered(datagram);
                        }
                    }
                }
                AgentOutput::Offered { peer, flow, offer } => {
                    self.pending_offers.push_back((peer, flow, *offer));
                }
                AgentOutput::Event(event) => events.push(event),
            }
        }
        for event in events {
            self.on_event(event, io);
        }
    }

    fn on_event(&mut self, event: Event, io: &mut Io) {
        if let Some(notice) = Notice::of(&event, &self.network_view) {
            notice.log(&mut self.log_limit, io.now());
        }
        self.poll_now();
        match event {
            Event::OfferAnswered { peer, flow, outcome } => self.on_offer_answer(peer, flow, outcome, io),
            Event::FlowClosed(key) => {
                let is_sent = key.sender() == self.network_view.number();
                let peer = if is_sent { receiver(&key) } else { Some(key.sender()) };
                if let Some(peer) = peer {
                    self.on_flow_closed(peer, key.flow(), io);
                }
            }
            Event::PeerEstablished(peer) => self.mappings.abandon(peer, io.now()),
            Event::PeerLeft(peer) => {
                self.on_peer_left(peer);
                // Datagrams to the peer wait until it is back.
                for id in self.mappings.initiated_by(peer) {
                    self.close_mapping(id, io);
                }
            }
            Event::Left => self.has_left = true,
            other => tracing::debug!(?other, "agent event"),
        }
    }

    fn on_flow_closed(&mut self, peer: AgentId, flow: FlowId, io: &mut Io) {
        if flow == CONTACT_FLOW {
            self.contacts.on_closed(peer, &mut self.agent, io.now());
        } else if let Some(id) = self.mappings.of_flow(peer, flow) {
            self.close_mapping(id, io);
        }
    }

    /// Sends a datagram of an application or a target to the mapping's peer. A datagram of a new
    /// application begins a mapping.
    fn on_application_datagram(&mut self, arrival: &Arrival<'_>, io: &mut Io) {
        let Arrival { socket, from, to, traffic_class, .. } = *arrival;
        let known = self.mappings.of_endpoint(Endpoint { socket, address: from });
        if let Some(id) = known.or_else(|| self.begin_at_socket(socket, from, io)) {
            self.mappings.note_sent(id, to, io.now());
            let candidate = MarkingInput { headers: None, payload: arrival.bytes, connection: None };
            let marked = self.mappings.is_marked(id, &candidate);
            let Some(side) = self.mappings.get(id).map(|mapping| mapping.side) else { return };
            let traffic_class = dscp::outgoing_class(traffic_class, side, (&self.listeners, &self.exposed));
            self.forward(id, &Datagram { bytes: arrival.bytes, traffic_class, marked }, io);
        }
    }

    /// Begins a mapping if an unknown endpoint's datagram arrived at a forward's socket. Otherwise,
    /// counts the datagram as unsolicited.
    fn begin_at_socket(&mut self, socket: SocketId, from: SocketAddr, io: &mut Io) -> Option<MappingId> {
        let listener_index = self.listeners.iter().position(|listener| listener.socket == Some(socket));
        if listener_index.is_none() {
            self.segments.unsolicited += 1;
        }
        self.begin_forward_mapping(listener_index?, socket, from, io)
    }

    pub(super) fn forward(&mut self, id: MappingId, datagram: &Datagram<'_>, io: &mut Io) {
        if self.send_early(id, datagram, io) {
            return;
        }
        match self.mappings.on_outgoing(id, datagram, io.now()) {
            Some(SendOutcome::Sent(flow)) => {
                let Datagram { bytes, traffic_class, marked } = *datagram;
                self.segments.count_accepted(bytes);
                let input = AgentInput::Send { flow, datagram: bytes, traffic_class, marked };
                self.agent.handle(input, io.now());
            }
            Some(SendOutcome::OfferAgain) => self.send_offer(id, io),
            Some(SendOutcome::Refused) => self.count_refused(id),
            Some(SendOutcome::Queued) | None => {}
        }
    }

    /// Sends a datagram together with its mapping's offer. Returns `false` if the peer has
    /// answered, an earlier datagram waits, or the state machine refuses.
    fn send_early(&mut self, id: MappingId, datagram: &Datagram<'_>, io: &mut Io) -> bool {
        let Datagram { bytes, traffic_class, marked } = *datagram;
        let flow = self.mappings.early_flow(id, io.now());
        let send = |flow| self.agent.send_early(flow, bytes, traffic_class, marked, io.now());
        let is_sent = flow.is_some_and(send);
        if is_sent {
            self.mappings.note_early(id);
            self.segments.count_accepted(bytes);
        }
        is_sent
    }

    /// Begins a mapping for the first datagram that an application's endpoint sends to a forward.
    /// `index` is the forward's index. Returns `None`, and counts the datagram, if that fails.
    fn begin_forward_mapping(
        &mut self,
        index: usize,
        socket: SocketId,
        from: SocketAddr,
        io: &mut Io,
    ) -> Option<MappingId> {
        let endpoint = Some(Endpoint { socket, address: from });
        let began = self.begin_mapping(Side::Forward(index), endpoint, io);
        match began {
            Ok(id) => Some(id),
            Err(MappingRefusal::UnknownPeer) => {
                self.segments.unknown_peer += 1;
                tracing::debug!(index, "peer of a forward not found in the network's map");
                None
            }
            Err(MappingRefusal::Full) => {
                self.segments.mappings_full += 1;
                None
            }
        }
    }

    /// Opens the two flows of a mapping that begins here, and offers them to the peer.
    pub(super) fn begin_mapping(
        &mut self,
        side: Side,
        endpoint: Option<Endpoint>,
        io: &mut Io,
    ) -> Result<MappingId, MappingRefusal> {
        let is_known =
            self.flow_spec(side).is_some_and(|(wanted, _)| self.network_view.peer(&wanted.peer).is_some());
        if is_known {
            let owner = endpoint.map_or(Owner::Here, Owner::of);
            self.ensure_capacity(owner, io).map_err(|MappingsExhausted| MappingRefusal::Full)?;
        }
        let (wanted, traffic) = self.flow_spec(side).ok_or(MappingRefusal::Full)?;
        let (terms, back, marking) =
            (wanted.forward_terms(traffic), return_terms(wanted, traffic), Marking::new(&wanted.marks));
        let (peer, flow) =
            allocate_flow(self.network_view.peer(&wanted.peer), &self.mappings, &mut self.flow_numbers)?;
        let number = self.network_view.number();
        let now = io.now();
        let sending = terms.settings(self.network_view.paths(number, peer));
        let receiving = back.settings(self.network_view.paths(peer, number));
        let pair = self.open_pair(peer, flow, sending, receiving, now);
        let (sent, received) = pair.ok_or(MappingRefusal::Full)?;
        let consent = Consent::Requested(OfferState::default());
        let mapping = Mapping {
            peer,
            flow,
            sent,
            received,
            endpoint,
            local_address: LocalAddress::ANY,
            sent_last: now,
            side,
            marking,
            consent,
            refusal: None,
            budget: terms.latency_budget,
            usage: PairUse::new(now),
            unfragmented_max: None,
        };
        let id = self.mappings.add(mapping);
        self.send_offer(id, io);
        Ok(id)
    }

    /// Returns the flow settings and the traffic of a mapping that began here; `None` if its peer
    /// began it.
    pub(super) fn flow_spec(&self, side: Side) -> Option<(&FlowSpec, Traffic)> {
        match side {
            Side::Forward(index) => {
                let wanted = &self.listeners[index].forward.spec;
                Some((wanted, wanted.traffic.unwrap_or_default()))
            }
            Side::Capture { index, traffic } => Some((self.tunnel.as_ref()?.wanted(index), traffic)),
            Side::Exposed { .. } | Side::Network { .. } => None,
        }
    }

    /// Sends the peer the offer of a mapping that began here.
    pub(super) fn send_offer(&mut self, id: MappingId, io: &mut Io) {
        let Some(Mapping { peer, flow, endpoint, side, .. }) = self.mappings.get(id) else {
            return;
        };
        let (peer, flow, side) = (*peer, *flow, *side);
        let source = match (endpoint, side) {
            (Some(endpoint), _) => self.source_ids.number(endpoint.address),
            (None, side) => self.capture_number(side),
        };
        let Some((wanted, traffic)) = self.flow_spec(side) else {
            return;
        };
        let name = if let Side::Capture { index, .. } = side {
            packet_subject(&wanted.to, self.only_destination(index))
        } else {
            wanted.to.clone()
        };
        let offer = build_offer(wanted, traffic, &Subject { source, name });
        self.agent.offer(peer, flow, offer, io.now());
    }

    /// Records the peer's consent to a mapping, and sends the mapping's waiting datagrams.
    pub(super) fn send_pending(&mut self, id: MappingId, io: &mut Io) {
        for pending in self.mappings.on_consent(id, io.now()) {
            let Some(flow) = self.mappings.get(id).map(|mapping| mapping.sent) else { return };
            let PendingDatagram { bytes, traffic_class, marked, arrived_at, .. } = pending;
            self.segments.count_accepted(&bytes);
            self.agent.send_buffered(flow, &bytes, traffic_class, marked, arrived_at, io.now());
            self.drain_outputs(io);
        }
    }

    /// Returns the name of the exposed resource to which the mapping's application sends. The
    /// resource is here, or at the peer.
    pub(super) fn subject_of(&self, mapping: &Mapping) -> &str {
        match mapping.side {
            Side::Exposed { index, .. } | Side::Network { index, .. } => &self.exposed[index].name,
            Side::Forward(_) | Side::Capture { .. } => {
                self.flow_spec(mapping.side).map_or("", |(wanted, _)| wanted.to.as_str())
            }
        }
    }

    /// Removes a mapping: closes its flows, withdraws its offer, and releases its source port.
    pub(super) fn close_mapping(&mut self, id: MappingId, io: &mut Io) {
        let Some(mapping) = self.mappings.remove(id) else {
            return;
        };
        let now = io.now();
        let ended = self.with_flows(|flows| flows.cost_totals(&mapping));
        self.segments.ended.add(&ended);
        self.agent.withdraw_offer(mapping.peer, mapping.flow);
        self.agent.close_flow(mapping.sent, now);
        self.agent.close_received_flow(mapping.received, now);
        self.watchdog.on_mapping_closed(id);
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.on_mapping_closed(id);
        }
        let Some(Endpoint { address, .. }) = mapping.endpoint else {
            return;
        };
        if let Side::Exposed { source, .. } = mapping.side {
            let caller = Caller::new(mapping.peer, source, address);
            if let Some(unused) = self.source_ports.release(caller) {
                io.close(unused);
            }
        } else if !self.mappings.has_source(address) {
            self.source_ids.forget(address);
        }
    }

    fn sweep(&mut self, io: &mut Io) {
        if self.next_sweep > io.now() {
            return;
        }
        self.next_sweep = io.now() + SWEEP_INTERVAL;
        self.close_former_targets(io);
        self.mappings.expire_pending(io.now());
        for id in self.mappings.idle(io.now()) {
            if !self.is_captured_by_peer(id, io.now()) {
                self.close_mapping(id, io);
            }
        }
    }

    /// Applies a newer map: configures its relays and peers, moves flows to its paths, and closes
    /// the mappings of removed peers.
    fn on_map(&mut self, map: &NetworkMap, io: &mut Io) {
        let now = io.now();
        let removed = self.network_view.update_map(map);
        for id in self.mappings.of_peers(&removed.agents) {
            self.close_mapping(id, io);
        }
        self.network_view.configure_agent(&mut self.agent, now);
        self.agent.set_relay_prices(price_table(&self.network_view));
        self.contacts.update(
            self.network_view.number(),
            self.network_view.peer_paths(),
            &mut self.agent,
            now,
        );
        let number = self.network_view.number();
        for (_, mapping) in self.mappings.iter() {
            self.agent.set_paths(mapping.sent, self.network_view.paths(number, mapping.peer), now);
            self.agent.set_received_paths(
                mapping.received,
                self.network_view.paths(mapping.peer, number),
                now,
            );
        }
        for peer in removed.agents {
            self.agent.remove_peer(peer, now);
            self.flow_numbers.forget(peer);
            self.log_limit.forget(peer);
            self.on_peer_left(peer);
        }
        self.poll_now();
        removed.relays.into_iter().for_each(|relay| self.agent.stop_relay_probing(relay, now));
    }

    /// Opens the UDP ports of all forwards.
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

impl Role for AgentDriver {
    type Control = AgentControl;

    fn start(&mut self, io: &mut Io) {
        let listening = self.listen(io);
        let listening = listening.and_then(|()| self.open_device(io));
        self.has_left = listening.is_err();
        // The receiver may have been dropped.
        self.started.take().map(|started| started.send(listening));
        self.network_view.configure_agent(&mut self.agent, io.now());
        self.agent.set_relay_prices(price_table(&self.network_view));
        self.contacts.update(
            self.network_view.number(),
            self.network_view.peer_paths(),
            &mut self.agent,
            io.now(),
        );
        self.drain(io);
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        self.watchdog.on_activity(io.now());
        if arrival.socket == SocketId::OVERLAY {
            self.segments.count_received(arrival.bytes, arrival.from);
            let Arrival { from, to, traffic_class, bytes, .. } = arrival;
            let ecn = traffic_class.ecn();
            self.agent.handle(AgentInput::Received { from, to, ecn, bytes }, io.now());
        } else {
            self.on_application_datagram(&arrival, io);
        }
        self.drain(io);
    }

    fn on_packet_too_big(&mut self, packet: &PacketTooBig, io: &mut Io) {
        let PacketTooBig { to, quoted, payload_bytes_max } = packet;
        let (to, payload_bytes_max) = (*to, *payload_bytes_max);
        self.agent.handle(AgentInput::TooLong { to, quoted, payload_bytes_max }, io.now());
        self.drain(io);
    }

    fn on_uplink_refused(&mut self, uplink: Uplink, to: SocketAddr, io: &mut Io) {
        self.agent.handle(AgentInput::UplinkRefused { uplink, to }, io.now());
        self.drain(io);
    }

    fn on_device_packet(&mut self, packet: &mut [u8], io: &mut Io) {
        self.on_device_packet(packet, io);
        self.drain(io);
    }

    fn on_queued_packet(&mut self, queued: QueuedPacket<'_>, io: &mut Io) -> Verdict {
        let verdict = self.on_queued_packet(queued, io);
        self.drain(io);
        verdict
    }

    fn on_deadline(&mut self, io: &mut Io) {
        if self.agent.deadline().is_some_and(|(at, _)| at <= io.now()) {
            self.agent.handle(AgentInput::Deadline, io.now());
        }
        self.sweep(io);
        self.poll_tunnel(io);
        self.check_protection(io);
        self.drain(io);
    }

    fn on_control(&mut self, control: AgentControl, io: &mut Io) {
        match control {
            AgentControl::Map(map) => self.on_map(&map, io),
            AgentControl::Names(resolved) => self.on_names(resolved, io),
            // The receiver may have been dropped.
            AgentControl::Status(answer) => drop(answer.send(self.status(io))),
            AgentControl::Observed(answer) => {
                drop(answer.send(self.network_view.observed(&self.agent, io.now())));
            }
            AgentControl::Explain(request) => {
                let now = io.now();
                if let Some(flow) = self.with_flows(|flows| flows.explain(request, now)) {
                    self.agent.ask_for_unknown_delay(flow, now);
                }
            }
            AgentControl::Reload(change, answer) => drop(answer.send(self.reload(*change, io))),
            AgentControl::Close => self.agent.close(io.now()),
        }
        self.drain(io);
    }

    fn deadline(&self) -> Option<Time> {
        let agent = self.agent.deadline().map(|(at, _)| at);
        let tunnel = self.tunnel.as_ref().map(TunForwarder::deadline);
        agent.into_iter().chain(tunnel).chain([self.next_sweep, self.watchdog.deadline()]).min()
    }

    fn is_finished(&self) -> bool {
        self.has_left
    }
}
