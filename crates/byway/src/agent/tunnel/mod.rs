//! Capture of packets whose applications know nothing of Byway. The system routes them into a TUN
//! device, and at the other end delivers them.

mod connections;
mod device_down;
mod device_queue;
mod nfqueue;
mod reconfigure;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use byway_api::CaptureStatus;
use byway_net::{Device, Io, PacketQueues};
use byway_proto::agent::Traffic;
use byway_proto::copy_selection::MarkingInput;
use byway_units::{AgentId, Duration, Time};
use byway_wire::Ecn;
use byway_wire::ip::{Headers, Packet, TcpHeader, packet_too_long};
use tokio::sync::watch;

use super::admission::MappingRefusal;
use super::driver::AgentDriver;
use super::limits::SWEEP_INTERVAL;
use super::mappings::{Consent, Datagram, Mapping, MappingId, Side};
use super::network_view::NetworkView;
use crate::capture::{CaptureSource, DeviceState};
use crate::settings::{Capture, ExposedKind, ExposedResource, FlowSpec, MTU_MIN, Tunnel};
use connections::ConnectionTable;
pub(super) use reconfigure::TunnelChange;
use traffic::{capture_traffic, classify_traffic, other_traffic, traffic_index};

/// Interval between two liveness checks of the peers of captures. The agent's probes detect a
/// failed peer within 0.7 s, and within a second packets bypass Byway.
const LIVENESS_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time after a captured packet for which the agent checks the liveness of peers. Later, events
/// trigger a check, and an idle machine stays asleep.
const LIVENESS_POLL_DURATION: Duration = Duration::from_secs(3);

/// Silence after which a capture's peer counts as absent if it does not answer on the direct path.
/// Packets of the peer on any path end the silence.
const PEER_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest and longest interval between two offers to an absent peer. The interval grows as the
/// absence continues.
const OFFER_RETRY_INTERVALS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Maximum number of addresses behind peers that the agent remembers, for all peers together.
const LEARNED_ROUTES_MAX: usize = 16_384;

/// Maximum number of learned addresses whose answers go through the device. Each needs rules, which
/// the system searches for each packet.
const RETURN_RULES_MAX: usize = 256;

/// Silence of a peer after which another peer may claim an address that the agent learned behind
/// it.
const LEARNED_ROUTE_TIMEOUT: Duration = Duration::from_secs(5);

/// Least interval between two Packet Too Big messages. A host that heeds one does so immediately,
/// and remembers the size for minutes. Linux ignores them if ports decide about a packet's route.
const PACKET_TOO_BIG_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of an IPv4 and of an IPv6 header, each with a TCP header. A TCP segment is shorter than
/// the packet by that (RFC 6691).
const TCP_OVERHEADS: [u16; 2] = [40, 60];

/// Captures that are active because their peers are present, and the peers' addresses whose answers
/// go back through the device. The agent sends it to the task that adapts the routing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaptureState {
    /// Generation of the settings that the indices refer to.
    pub(crate) generation: u64,
    /// True for each active capture, by the capture's index.
    pub(crate) captures: Vec<bool>,
    /// Indices of exposed networks, each with an address behind a present peer that has sent to it.
    pub(crate) exposed: BTreeSet<(usize, IpAddr)>,
}

/// Counters of packets that the agent dropped between the TUN device and peers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TunnelCounters {
    /// Packets from the device that are not IP, or whose destination is multicast or behind no
    /// peer.
    pub(super) not_captured: u64,
    /// Packets from peers that are not IP, or neither answers nor for a network exposed to the
    /// peer.
    pub(super) not_permitted: u64,
}

/// Forwarder of packets between an agent's TUN device and its peers.
#[derive(Debug)]
pub(super) struct TunForwarder {
    settings: Tunnel,
    /// Device, until the agent's thread has opened it.
    device: Option<Device>,
    /// NFQUEUE queues, until the agent's thread has opened them.
    queues: Option<PacketQueues>,
    /// Interface index of the device.
    device_index: u32,
    state: DeviceState,
    /// True if the system accepts IPv6 answers from the device.
    speaks_ipv6: bool,
    /// By capture: the mappings of congestion-controlled traffic and of datagrams.
    mappings: Vec<[Option<MappingId>; 2]>,
    /// By address and kind of traffic: the peer behind which the address is, and the mapping to it.
    learned_routes: BTreeMap<(IpAddr, usize), (AgentId, MappingId)>,
    /// By capture: the number by which peers know it, constant as long as the capture exists.
    numbers: Vec<u32>,
    /// Generation of the settings in force, which the capture state contains.
    generation: u64,
    connections: ConnectionTable,
    /// Numbers of captured packets, by capture, and of captured answers to packets of peers.
    captured: Vec<u64>,
    answered: u64,
    /// Time of each peer's latest permitted packet.
    last_received: BTreeMap<AgentId, Time>,
    capture_state: watch::Sender<CaptureState>,
    /// By capture with an absent peer: the time of the next offer, and the interval after it.
    offer_retries: BTreeMap<usize, (Time, Duration)>,
    next_poll: Time,
    poll_until: Time,
    next_too_big_at: Time,
    scratch: Vec<u8>,
    pub(super) counters: TunnelCounters,
}

/// Mapping by which a packet arrived, and the settings that decide about its delivery.
pub(super) struct InboundPacket<'a> {
    pub(super) id: MappingId,
    pub(super) mapping: &'a Mapping,
    pub(super) known: &'a NetworkView,
    pub(super) exposed: &'a [ExposedResource],
}

/// Destination of a packet from the device: a mapping, or a capture that has none yet.
enum Route {
    Mapping(MappingId),
    Capture { index: usize, traffic: Traffic },
}

impl TunForwarder {
    pub(super) fn new(settings: Tunnel, source: CaptureSource) -> (Self, watch::Receiver<CaptureState>) {
        let CaptureSource { device, queues, state, speaks_ipv6 } = source;
        let captures = settings.captures.len();
        let closed = CaptureState { captures: vec![false; captures], ..CaptureState::default() };
        let (sender, receiver) = watch::channel(closed);
        let forwarder = Self {
            settings,
            device_index: device.index(),
            device: Some(device),
            queues,
            state,
            speaks_ipv6,
            mappings: vec![[None; 2]; captures],
            learned_routes: BTreeMap::new(),
            numbers: (0..).take(captures).collect(),
            generation: 0,
            connections: ConnectionTable::new(),
            captured: vec![0; captures],
            answered: 0,
            last_received: BTreeMap::new(),
            capture_state: sender,
            offer_retries: BTreeMap::new(),
            next_poll: Time::START,
            poll_until: Time::START,
            next_too_big_at: Time::START,
            scratch: Vec::new(),
            counters: TunnelCounters::default(),
        };
        (forwarder, receiver)
    }

    /// Returns the flow settings of a capture.
    pub(super) fn wanted(&self, index: usize) -> &FlowSpec {
        &self.settings.captures[index].spec
    }

    pub(super) const fn deadline(&self) -> Time {
        self.next_poll
    }

    /// Returns the device whose packets the captures should transport, which the watchdog observes.
    pub(super) fn watched_device(&self) -> Option<String> {
        self.settings.watched_device.clone()
    }

    /// Returns the number of captured packets, answers included.
    pub(super) fn captured_packets(&self) -> u64 {
        self.captured.iter().sum::<u64>() + self.answered
    }

    fn count(&mut self, side: Side) {
        match side {
            Side::Capture { index, .. } => self.captured[index] += 1,
            _ => self.answered += 1,
        }
    }

    pub(super) fn has_captures(&self) -> bool {
        !self.settings.captures.is_empty()
    }

    pub(super) fn captures_any(&self) -> bool {
        self.capture_state.borrow().captures.contains(&true)
    }

    /// Returns the captures in the form of the agent's status.
    pub(super) fn statuses(&self) -> Vec<CaptureStatus> {
        let state = self.capture_state.borrow();
        let captures = self.settings.captures.iter().zip(&self.captured).enumerate();
        let status = |(index, (capture, captured)): (usize, (&Capture, &u64))| CaptureStatus {
            peer: capture.spec.peer.clone(),
            to: capture.spec.to.clone(),
            is_active: state.captures.get(index) == Some(&true),
            captured: *captured,
        };
        captures.map(status).collect()
    }

    /// Removes a closed mapping from the forwarder's tables, and schedules a check that may begin
    /// another one.
    pub(super) fn on_mapping_closed(&mut self, id: MappingId) {
        self.learned_routes.retain(|_, (_, mapping)| *mapping != id);
        for mapping in self.mappings.iter_mut().flatten().filter(|mapping| **mapping == Some(id)) {
            *mapping = None;
        }
        // A new mapping may begin.
        self.next_poll = Time::START;
    }

    /// Writes a peer's packet to the TUN device, if the peer may send it. Returns true if the
    /// device accepted the packet.
    pub(super) fn deliver(
        &mut self,
        inbound: &InboundPacket<'_>,
        packet: &[u8],
        ecn: Ecn,
        io: &mut Io,
    ) -> bool {
        let Mapping { peer, side, .. } = *inbound.mapping;
        let now = io.now();
        let permitted = Headers::parse(packet).filter(|headers| self.permits(inbound, headers, now));
        let Some(headers) = permitted else {
            self.counters.not_permitted += 1;
            return false;
        };
        self.last_received.insert(peer, now);
        if let Side::Network { traffic, .. } = side {
            self.learn_route(headers.source, traffic, peer, inbound.id, now);
        }
        let unfragmented_max =
            inbound.mapping.unfragmented_max.filter(|_| headers.tcp.is_some_and(TcpHeader::is_syn));
        if self.is_down() {
            self.next_poll = Time::START;
        }
        if headers.ecn == ecn && unfragmented_max.is_none() {
            return io.send_to_device(packet);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(packet);
        if let Some(mut packet) = Packet::new(&mut self.scratch) {
            packet.set_ecn(ecn);
            // The segment size that the packet announces limits the packets of the return
            // direction.
            if let Some(unfragmented_max) = unfragmented_max {
                packet.limit_segments(segment_bytes(unfragmented_max, &headers));
            }
        }
        io.send_to_device(&self.scratch)
    }

    /// True if a peer may send this packet: it is an answer to one from here, or goes to a network
    /// that is exposed to the peer.
    fn permits(&mut self, inbound: &InboundPacket<'_>, headers: &Headers, now: Time) -> bool {
        let peer = inbound.mapping.peer;
        let name = inbound.known.name_on_map(peer);
        let is_active = |exposed: &ExposedResource| {
            let may = |peers: &Vec<String>| peers.iter().any(|may| Some(may.as_str()) == name);
            let network = match &exposed.at {
                ExposedKind::Network(network) => network,
                ExposedKind::Target(_) => return false,
            };
            exposed.peers.as_ref().is_none_or(may) && network.permits(headers)
        };
        self.connections.contains(peer, headers, now)
            || self.is_midstream_tcp(inbound, headers)
            || inbound.exposed.iter().any(is_active)
    }

    /// True if a packet from a capture's peer belongs to a TCP connection that began before this
    /// agent did. Such packets are permitted.
    fn is_midstream_tcp(&self, inbound: &InboundPacket<'_>, headers: &Headers) -> bool {
        let Side::Capture { index, .. } = inbound.mapping.side else {
            return false;
        };
        let is_within = headers.tcp.is_some_and(|tcp| !tcp.begins());
        let Capture { selection, queue, .. } = &self.settings.captures[index];
        // The agent does not know what the firewall's rules choose before a packet of it arrives.
        is_within && queue.is_none() && selection.is_source_of(headers)
    }

    /// Records that an address is behind a peer. Another peer's entry stays unless that peer is
    /// silent: no peer diverts another one's answers.
    fn learn_route(&mut self, address: IpAddr, traffic: Traffic, peer: AgentId, id: MappingId, now: Time) {
        let key = (address, traffic_index(traffic));
        let has_capacity = self.learned_routes.len() < LEARNED_ROUTES_MAX;
        let is_silent = |peer| {
            let last_received = self.last_received.get(peer).copied().unwrap_or(Time::START);
            now.saturating_since(last_received) >= LEARNED_ROUTE_TIMEOUT
        };
        match self.learned_routes.get(&key) {
            None if !has_capacity => return,
            Some((owner, _)) if *owner != peer && !is_silent(owner) => return,
            None => self.next_poll = Time::START,
            Some(_) => {}
        }
        self.learned_routes.insert(key, (peer, id));
    }

    /// Returns the destination of a packet from the device; `None` if no peer has it.
    fn route(&self, headers: &Headers, exposed: &[ExposedResource]) -> Option<Route> {
        self.return_route(headers, exposed).or_else(|| {
            let captures = &self.settings.captures;
            let index = captures.iter().position(|capture| capture.selection.has(headers))?;
            Some(self.capture_route(index, headers))
        })
    }

    /// Returns the route for a packet that answers one of a peer; `None` if it is no such answer.
    fn return_route(&self, headers: &Headers, exposed: &[ExposedResource]) -> Option<Route> {
        let is_answer = exposed.iter().any(|exposed| match &exposed.at {
            ExposedKind::Network(network) => network.answers(headers),
            ExposedKind::Target(_) => false,
        });
        let traffic = classify_traffic(headers);
        let of = |traffic| self.learned_routes.get(&(headers.destination, traffic_index(traffic)));
        let known = of(traffic).or_else(|| of(other_traffic(traffic))).filter(|_| is_answer);
        known.map(|(_, id)| Route::Mapping(*id))
    }

    fn capture_route(&self, index: usize, headers: &Headers) -> Route {
        let traffic = self.wanted(index).traffic.unwrap_or(classify_traffic(headers));
        let known = self.mappings[index][traffic_index(traffic)];
        known.map_or(Route::Capture { index, traffic }, Route::Mapping)
    }

    /// Schedules liveness checks of peers after a packet to one of them.
    fn schedule_poll(&mut self, now: Time) {
        self.poll_until = now + LIVENESS_POLL_DURATION;
        self.next_poll = self.next_poll.min(now + LIVENESS_POLL_INTERVAL);
    }

    /// Parses a packet from the device or a queue; clamps a TCP SYN's segment size to the MTU.
    fn parse_packet(&self, packet: &mut [u8]) -> Option<(Headers, Ecn)> {
        let headers = Headers::parse(packet).filter(|headers| !headers.destination.is_multicast())?;
        if headers.tcp.is_some_and(TcpHeader::is_syn) {
            Packet::new(packet)?.limit_segments(segment_bytes(self.settings.mtu, &headers));
        }
        let ecn = headers.ecn;
        Some((headers, ecn))
    }
}

impl AgentDriver {
    /// Opens the TUN device and the queues on this thread.
    pub(super) fn open_device(&mut self, io: &mut Io) -> Result<(), String> {
        let Some(tunnel) = &mut self.tunnel else {
            return Ok(());
        };
        let device = tunnel.device.take().map_or(Ok(()), |device| io.open_device(device));
        device.map_err(|error| format!("cannot wait for the device: {error}"))?;
        let queues = tunnel.queues.take().map_or(Ok(()), |queues| io.open_queues(queues));
        queues.map_err(|error| format!("cannot wait for packet queues: {error}"))
    }

    /// Forwards a packet that the system has routed into the TUN device.
    pub(super) fn on_device_packet(&mut self, packet: &mut [u8], io: &mut Io) {
        let now = io.now();
        let Some(tunnel) = &mut self.tunnel else {
            return;
        };
        let Some((headers, ecn)) = tunnel.parse_packet(packet) else {
            tunnel.counters.not_captured += 1;
            return;
        };
        let Some(route) = tunnel.route(&headers, &self.exposed) else {
            tunnel.counters.not_captured += 1;
            return;
        };
        tunnel.schedule_poll(now);
        let id = match route {
            Route::Mapping(id) => Some(id),
            Route::Capture { index, traffic } => self.begin_capture(index, traffic, io),
        };
        if let Some(id) = id {
            self.forward_packet(id, &headers, ecn, packet, io);
        }
    }

    /// Sends a captured packet in its mapping's flow.
    fn forward_packet(&mut self, id: MappingId, headers: &Headers, ecn: Ecn, packet: &mut [u8], io: &mut Io) {
        let Some(Mapping { peer, side, .. }) = self.mappings.get(id) else {
            return;
        };
        let connection = self.tunnel.as_mut().map(|tunnel| {
            tunnel.count(*side);
            tunnel.connections.record_sent(*peer, headers, packet.len(), io.now())
        });
        self.enforce_path_mtu(id, headers, packet, io);
        let candidate =
            MarkingInput { headers: Some(headers), payload: &packet[headers.payload..], connection };
        let marked = self.mappings.is_marked(id, &candidate);
        // The packet itself contains the DSCP.
        self.forward(id, &Datagram { bytes: packet, traffic_class: ecn.into(), marked }, io);
    }

    /// Adapts packets to a path that is narrower than the device's MTU. The agent clamps the
    /// segment size of TCP connections that begin here, and sends Packet Too Big to senders of
    /// longer packets. Longer packets travel in two fragments.
    fn enforce_path_mtu(&mut self, id: MappingId, headers: &Headers, packet: &mut [u8], io: &mut Io) {
        let now = io.now();
        let (Some(mapping), Some(tunnel)) = (self.mappings.get_mut(id), &mut self.tunnel) else {
            return;
        };
        let unfragmented_max = self.agent.datagram_bytes_unfragmented(mapping.sent, now);
        mapping.unfragmented_max = unfragmented_max.and_then(|bytes| u16::try_from(bytes).ok());
        let Some(unfragmented_max) = mapping.unfragmented_max else {
            return;
        };
        if headers.tcp.is_some_and(TcpHeader::is_syn)
            && let Some(mut packet) = Packet::new(packet)
        {
            packet.limit_segments(segment_bytes(unfragmented_max, headers));
        }
        // Hosts ignore a size below the minimum MTU of IPv6.
        let advertised_mtu =
            if headers.destination.is_ipv6() { unfragmented_max.max(MTU_MIN) } else { unfragmented_max };
        if packet.len() > usize::from(advertised_mtu)
            && tunnel.next_too_big_at <= now
            && packet_too_long(packet, advertised_mtu, &mut tunnel.scratch)
        {
            tunnel.next_too_big_at = now + PACKET_TOO_BIG_INTERVAL;
            io.send_to_device(&tunnel.scratch);
        }
    }

    fn begin_capture(&mut self, index: usize, traffic: Traffic, io: &mut Io) -> Option<MappingId> {
        let id = match self.begin_mapping(Side::Capture { index, traffic }, None, io) {
            Ok(id) => id,
            Err(MappingRefusal::UnknownPeer) => {
                self.segments.unknown_peer += 1;
                return None;
            }
            Err(MappingRefusal::Full) => {
                self.segments.mappings_full += 1;
                return None;
            }
        };
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.mappings[index][traffic_index(traffic)] = Some(id);
        }
        Some(id)
    }

    /// Begins the missing mappings of captures, and starts and stops captures with the presence of
    /// their peers.
    pub(super) fn poll_tunnel(&mut self, io: &mut Io) {
        let now = io.now();
        let Some(tunnel) = self.tunnel.as_mut().filter(|tunnel| tunnel.next_poll <= now) else {
            return;
        };
        if tunnel.is_down() {
            self.close_device_mappings(io);
            return;
        }
        tunnel.next_poll =
            if now < tunnel.poll_until { now + LIVENESS_POLL_INTERVAL } else { now + SWEEP_INTERVAL };
        let missing: Vec<(usize, Traffic)> = missing_mappings(&tunnel.settings.captures, &tunnel.mappings);
        for (index, traffic) in missing {
            if self.network_view.peer(&self.tunnel_capture(index).spec.peer).is_some() {
                self.begin_capture(index, traffic, io);
            }
        }
        let state = self.capture_state(now);
        self.retry_offers(&state, io);
        if let Some(tunnel) = &self.tunnel {
            tunnel.publish_capture_state(state);
        }
    }

    /// Repeats captures' offers to absent peers, to which no other packet goes meanwhile.
    fn retry_offers(&mut self, state: &CaptureState, io: &mut Io) {
        let now = io.now();
        let Some(tunnel) = &mut self.tunnel else {
            return;
        };
        let mut due = Vec::new();
        for (index, is_active) in state.captures.iter().enumerate() {
            if *is_active {
                tunnel.offer_retries.remove(&index);
                continue;
            }
            let [least, most] = OFFER_RETRY_INTERVALS;
            let (at, pause) = tunnel.offer_retries.entry(index).or_insert((now + least, least));
            if *at <= now {
                *pause = (*pause * 2).min(most);
                *at = now + *pause;
                due.extend(tunnel.mappings[index].iter().flatten());
            }
            tunnel.next_poll = tunnel.next_poll.min(*at);
        }
        for id in due {
            self.send_offer(id, io);
        }
    }

    /// Returns the only address to which packets of a capture go; `None` if there are several.
    pub(super) fn only_destination(&self, index: usize) -> Option<IpAddr> {
        self.tunnel_capture(index).only_destination()
    }

    fn tunnel_capture(&self, index: usize) -> &Capture {
        &self.tunnel.as_ref().expect("there is a capture").settings.captures[index]
    }

    /// True if a mapping belongs to a peer's capture and the peer is alive. The sweep does not
    /// close such a mapping.
    pub(super) fn is_captured_by_peer(&self, id: MappingId, now: Time) -> bool {
        let mapping = self.mappings.get(id).filter(|mapping| matches!(mapping.side, Side::Network { .. }));
        let status = mapping.and_then(|mapping| self.agent.peer_status(mapping.peer, now));
        status.is_some_and(|status| status.is_alive)
    }

    /// Forgets a peer that left: its latest packet no longer counts as a sign of life.
    pub(super) fn on_peer_left(&mut self, peer: AgentId) {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.last_received.remove(&peer);
        }
    }

    /// Schedules a liveness check of captures' peers immediately.
    pub(super) fn poll_now(&mut self) {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.next_poll = Time::START;
        }
    }

    fn capture_state(&self, now: Time) -> CaptureState {
        let Some(tunnel) = &self.tunnel else {
            return CaptureState::default();
        };
        let is_there = |peer: AgentId| {
            let is_recent =
                tunnel.last_received.get(&peer).is_some_and(|at| now.saturating_since(*at) < PEER_TIMEOUT);
            is_recent || self.agent.peer_status(peer, now).is_some_and(|status| status.is_alive)
        };
        let is_active = |id: &Option<MappingId>| {
            let mapping = id.and_then(|id| self.mappings.get(id));
            mapping
                .is_some_and(|mapping| matches!(mapping.consent, Consent::Granted) && is_there(mapping.peer))
        };
        let of_capture = |(capture, mappings): (&Capture, &[Option<MappingId>; 2])| {
            capture_traffic(capture.spec.traffic)
                .iter()
                .all(|traffic| is_active(&mappings[traffic_index(*traffic)]))
        };
        let captures = tunnel.settings.captures.iter().zip(&tunnel.mappings).map(of_capture).collect();
        let mut exposed = BTreeSet::new();
        for ((address, _), (peer, id)) in &tunnel.learned_routes {
            let side = self.mappings.get(*id).filter(|_| is_there(*peer)).map(|mapping| mapping.side);
            if let Some(Side::Network { index, .. }) = side
                && exposed.len() < RETURN_RULES_MAX
            {
                exposed.insert((index, *address));
            }
        }
        CaptureState { generation: tunnel.generation, captures, exposed }
    }
}

/// Returns the longest TCP segment, in bytes, that fits into a packet of this length.
fn segment_bytes(packet_bytes: u16, headers: &Headers) -> u16 {
    packet_bytes.saturating_sub(TCP_OVERHEADS[usize::from(headers.destination.is_ipv6())])
}

/// Returns the mappings that captures do not have yet: the capture's index, and the traffic.
fn missing_mappings(captures: &[Capture], mappings: &[[Option<MappingId>; 2]]) -> Vec<(usize, Traffic)> {
    let of_capture = |(index, capture): (usize, &Capture)| {
        let mappings = mappings[index];
        let missing = capture_traffic(capture.spec.traffic)
            .iter()
            .copied()
            .filter(move |traffic| mappings[traffic_index(*traffic)].is_none());
        missing.map(move |traffic| (index, traffic)).collect::<Vec<_>>()
    };
    captures.iter().enumerate().flat_map(of_capture).collect()
}
