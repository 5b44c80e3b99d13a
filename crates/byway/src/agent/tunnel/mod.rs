//! Packets of applications that know nothing of Byway: taken from a device, and given to the system at the other end.

mod changing;
mod connections;
mod device_queue;
mod down;
mod queued;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use byway_api::CaptureStatus;
use byway_net::{Device, Io, PacketQueues};
use byway_proto::agent::Traffic;
use byway_proto::marking::Candidate;
use byway_units::{AgentId, Duration, Time};
use byway_wire::Ecn;
use byway_wire::ip::{Headers, Packet, TcpHeader, packet_too_long};
use tokio::sync::watch;

use super::admission::Declined;
use super::known::Known;
use super::limits::SWEEP_INTERVAL;
use super::mappings::{Consent, Datagram, Mapping, MappingId, Side};
use super::role::AgentRole;
use crate::capture::{DeviceState, Inlet};
use crate::settings::{Capture, Exposed, ExposedAt, MTU_MIN, Tunnel, Wanted};
pub(super) use changing::TunnelChange;
use connections::Connections;

/// How often is looked whether peers still answer while packets go to them: with their probes, somebody who is gone is noticed within
/// 0.7 s, and within a second packets go their own way.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// How long after a packet. Then events tell, and nothing wakes an idle machine.
const LOOKS_FOR: Duration = Duration::from_secs(3);

/// A peer that does not answer on the direct path is there as long as packets of it come, by whatever way.
const HEARD_FOR: Duration = Duration::from_secs(1);

/// How soon a peer that is not there is asked again whether it takes packets, and how late, as it goes on.
const ASKS_AGAIN_AFTER: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Addresses behind peers that are kept in mind, of all of them together.
const BEHIND_MAX: usize = 16_384;

/// Of those, so many at most are answered through the device: each takes rules, which the system looks through for each packet.
const ANSWERED_MAX: usize = 256;

/// A peer that was silent for so long loses an address that another one shows.
const SILENT_FOR: Duration = Duration::from_secs(5);

/// How often somebody is told at most that packets are too long: whoever heeds it does so at once, and keeps it for minutes. Linux does not
/// where ports decide about a packet's route.
const TELLS_EVERY: Duration = Duration::from_secs(1);

/// The port of QUIC (RFC 9114, section 3.3).
const QUIC: u16 = 443;

/// Bytes of IPv4 and IPv6 headers with that of TCP: what the longest packet has no room for (RFC 6691).
const TCP_OVERHEADS: [u16; 2] = [40, 60];

/// Which captures take packets, and for which of what is exposed answers go back through the device: those whose peers are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Doors {
    /// The number of the settings whose places these are.
    pub(crate) generation: u64,
    /// By the places of captures.
    pub(crate) captures: Vec<bool>,
    /// The places of what is exposed, each with the addresses behind peers that have sent to it.
    pub(crate) exposed: BTreeSet<(usize, IpAddr)>,
}

/// What became of packets that the device did not pass on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TunnelCounters {
    /// From the device: no IP packets, to groups, or for nobody behind it.
    pub(super) not_taken: u64,
    /// From peers: not IP, nothing that is exposed to them, and no answers.
    pub(super) not_permitted: u64,
}

/// An agent's device, and what goes through it.
#[derive(Debug)]
pub(super) struct Tunnelled {
    settings: Tunnel,
    /// Until the thread has it.
    device: Option<Device>,
    /// The same of queues.
    queues: Option<PacketQueues>,
    /// The number of the device.
    device_index: u32,
    state: DeviceState,
    /// Whether the system takes answers of IPv6 from it.
    speaks_ipv6: bool,
    /// By capture: the mappings of congestion-controlled traffic and of datagrams.
    mappings: Vec<[Option<MappingId>; 2]>,
    /// By address and traffic: who showed that it is behind them, and the mapping that leads there.
    behind: BTreeMap<(IpAddr, usize), (AgentId, MappingId)>,
    /// By capture: the number by which peers know it, the same for as long as it is there.
    numbers: Vec<u32>,
    /// The number of the settings, which doors name.
    generation: u64,
    connections: Connections,
    /// Packets that were taken, by capture; and those that answer what came from peers.
    taken: Vec<u64>,
    answered: u64,
    /// When peers' packets came last.
    heard: BTreeMap<AgentId, Time>,
    doors: watch::Sender<Doors>,
    /// By capture whose peer is not there: when that is asked again, and after what time.
    asks: BTreeMap<usize, (Time, Duration)>,
    next_look: Time,
    looks_until: Time,
    tells_next: Time,
    scratch: Vec<u8>,
    pub(super) counters: TunnelCounters,
}

/// A mapping by which a packet came, and what decides about it.
pub(super) struct Came<'a> {
    pub(super) id: MappingId,
    pub(super) mapping: &'a Mapping,
    pub(super) known: &'a Known,
    pub(super) exposed: &'a [Exposed],
}

/// Where a packet of the device goes.
enum Towards {
    Mapping(MappingId),
    Capture { place: usize, traffic: Traffic },
}

impl Tunnelled {
    pub(super) fn new(settings: Tunnel, inlet: Inlet) -> (Self, watch::Receiver<Doors>) {
        let Inlet { device, queues, state, speaks_ipv6 } = inlet;
        let captures = settings.captures.len();
        let closed = Doors { captures: vec![false; captures], ..Doors::default() };
        let (doors, seen) = watch::channel(closed);
        let tunnelled = Self {
            settings,
            device_index: device.index(),
            device: Some(device),
            queues,
            state,
            speaks_ipv6,
            mappings: vec![[None; 2]; captures],
            behind: BTreeMap::new(),
            numbers: (0..).take(captures).collect(),
            generation: 0,
            connections: Connections::new(),
            taken: vec![0; captures],
            answered: 0,
            heard: BTreeMap::new(),
            doors,
            asks: BTreeMap::new(),
            next_look: Time::START,
            looks_until: Time::START,
            tells_next: Time::START,
            scratch: Vec::new(),
            counters: TunnelCounters::default(),
        };
        (tunnelled, seen)
    }

    /// What a capture wants of its peer.
    pub(super) fn wanted(&self, place: usize) -> &Wanted {
        &self.settings.captures[place].wanted
    }

    pub(super) const fn deadline(&self) -> Time {
        self.next_look
    }

    /// The device whose packets captures carry.
    pub(super) fn watches(&self) -> Option<String> {
        self.settings.watches.clone()
    }

    /// How many packets were taken, to begin something or to answer.
    pub(super) fn seen(&self) -> u64 {
        self.taken.iter().sum::<u64>() + self.answered
    }

    fn count(&mut self, side: Side) {
        match side {
            Side::Capture { place, .. } => self.taken[place] += 1,
            _ => self.answered += 1,
        }
    }

    pub(super) fn has_captures(&self) -> bool {
        !self.settings.captures.is_empty()
    }

    pub(super) fn captures_any(&self) -> bool {
        self.doors.borrow().captures.contains(&true)
    }

    /// What is said of captures.
    pub(super) fn statuses(&self) -> Vec<CaptureStatus> {
        let doors = self.doors.borrow();
        let captures = self.settings.captures.iter().zip(&self.taken).enumerate();
        let status = |(place, (capture, taken)): (usize, (&Capture, &u64))| CaptureStatus {
            peer: capture.wanted.peer.clone(),
            to: capture.wanted.to.clone(),
            is_open: doors.captures.get(place) == Some(&true),
            taken: *taken,
        };
        captures.map(status).collect()
    }

    /// A mapping has ended.
    pub(super) fn closed(&mut self, id: MappingId) {
        self.behind.retain(|_, (_, mapping)| *mapping != id);
        for mapping in self.mappings.iter_mut().flatten().filter(|mapping| **mapping == Some(id)) {
            *mapping = None;
        }
        // Another may begin.
        self.next_look = Time::START;
    }

    /// Gives the system a packet of a peer, if the peer may have it given; whether it was.
    pub(super) fn deliver(&mut self, came: &Came<'_>, packet: &[u8], ecn: Ecn, io: &mut Io) -> bool {
        let Mapping { peer, side, .. } = *came.mapping;
        let now = io.now();
        let permitted = Headers::parse(packet).filter(|headers| self.permits(came, headers, now));
        let Some(headers) = permitted else {
            self.counters.not_permitted += 1;
            return false;
        };
        self.heard.insert(peer, now);
        if let Side::Network { traffic, .. } = side {
            self.learn(headers.source, traffic, peer, came.id, now);
        }
        let whole = came.mapping.whole.filter(|_| headers.tcp.is_some_and(TcpHeader::is_syn));
        if self.is_down() {
            self.next_look = Time::START;
        }
        if headers.ecn == ecn && whole.is_none() {
            return io.give_packet(packet);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(packet);
        if let Some(mut packet) = Packet::new(&mut self.scratch) {
            packet.set_ecn(ecn);
            // What it announces is what comes back from here.
            if let Some(whole) = whole {
                packet.limit_segments(segment_bytes(whole, &headers));
            }
        }
        io.give_packet(&self.scratch)
    }

    /// Whether a peer may send this here: an answer to what was sent from here, or something for what is exposed to it.
    fn permits(&mut self, came: &Came<'_>, headers: &Headers, now: Time) -> bool {
        let peer = came.mapping.peer;
        let name = came.known.name_on_map(peer);
        let is_open = |exposed: &Exposed| {
            let may = |peers: &Vec<String>| peers.iter().any(|may| Some(may.as_str()) == name);
            let network = match &exposed.at {
                ExposedAt::Network(network) => network,
                ExposedAt::Target(_) => return false,
            };
            exposed.peers.as_ref().is_none_or(may) && network.permits(headers)
        };
        self.connections.has(peer, headers, now)
            || self.goes_on(came, headers)
            || came.exposed.iter().any(is_open)
    }

    /// Whether a packet belongs to a connection over TCP that began before this agent did: of those that were captured, it may.
    fn goes_on(&self, came: &Came<'_>, headers: &Headers) -> bool {
        let Side::Capture { place, .. } = came.mapping.side else {
            return false;
        };
        let is_within = headers.tcp.is_some_and(|tcp| !tcp.begins());
        let Capture { selection, queue, .. } = &self.settings.captures[place];
        // Whom the firewall's rules have chosen is not known before they have sent something.
        is_within && queue.is_none() && selection.is_source_of(headers)
    }

    /// Somebody is behind a peer. Where another peer has shown the same, that stays: nobody takes others' answers away.
    fn learn(&mut self, address: IpAddr, traffic: Traffic, peer: AgentId, id: MappingId, now: Time) {
        let key = (address, place_of(traffic));
        let has_room = self.behind.len() < BEHIND_MAX;
        let is_silent = |peer| {
            let heard = self.heard.get(peer).copied().unwrap_or(Time::START);
            now.saturating_since(heard) >= SILENT_FOR
        };
        match self.behind.get(&key) {
            None if !has_room => return,
            Some((owner, _)) if *owner != peer && !is_silent(owner) => return,
            None => self.next_look = Time::START,
            Some(_) => {}
        }
        self.behind.insert(key, (peer, id));
    }

    /// Where a packet of the device goes.
    fn towards(&self, headers: &Headers, exposed: &[Exposed]) -> Option<Towards> {
        self.towards_whom_it_answers(headers, exposed).or_else(|| {
            let captures = &self.settings.captures;
            let place = captures.iter().position(|capture| capture.selection.has(headers))?;
            Some(self.towards_capture(place, headers))
        })
    }

    /// Somebody behind a peer, if a packet may be an answer.
    fn towards_whom_it_answers(&self, headers: &Headers, exposed: &[Exposed]) -> Option<Towards> {
        let is_answer = exposed.iter().any(|exposed| match &exposed.at {
            ExposedAt::Network(network) => network.answers(headers),
            ExposedAt::Target(_) => false,
        });
        let traffic = traffic_of(headers);
        let of = |traffic| self.behind.get(&(headers.destination, place_of(traffic)));
        let known = of(traffic).or_else(|| of(other(traffic))).filter(|_| is_answer);
        known.map(|(_, id)| Towards::Mapping(*id))
    }

    fn towards_capture(&self, place: usize, headers: &Headers) -> Towards {
        let traffic = self.wanted(place).traffic.unwrap_or(traffic_of(headers));
        let known = self.mappings[place][place_of(traffic)];
        known.map_or(Towards::Capture { place, traffic }, Towards::Mapping)
    }

    /// A packet goes to a peer: for a while, it is looked whether that answers.
    fn look_soon(&mut self, now: Time) {
        self.looks_until = now + LOOKS_FOR;
        self.next_look = self.next_look.min(now + LOOKS_EVERY);
    }

    /// Reads a packet of the device, and has its connection agree on segments that fit.
    fn read(&self, packet: &mut [u8]) -> Option<(Headers, Ecn)> {
        let headers = Headers::parse(packet).filter(|headers| !headers.destination.is_multicast())?;
        if headers.tcp.is_some_and(TcpHeader::is_syn) {
            Packet::new(packet)?.limit_segments(segment_bytes(self.settings.mtu, &headers));
        }
        let ecn = headers.ecn;
        Some((headers, ecn))
    }
}

impl AgentRole {
    /// The thread takes the device, and queues.
    pub(super) fn open_device(&mut self, io: &mut Io) -> Result<(), String> {
        let Some(tunnel) = &mut self.tunnel else {
            return Ok(());
        };
        let device = tunnel.device.take().map_or(Ok(()), |device| io.open_device(device));
        device.map_err(|error| format!("the device cannot be waited for: {error}"))?;
        let queues = tunnel.queues.take().map_or(Ok(()), |queues| io.open_queues(queues));
        queues.map_err(|error| format!("queues of packets cannot be waited for: {error}"))
    }

    /// A packet that the system has routed into the device.
    pub(super) fn take_packet(&mut self, packet: &mut [u8], io: &mut Io) {
        let now = io.now();
        let Some(tunnel) = &mut self.tunnel else {
            return;
        };
        let Some((headers, ecn)) = tunnel.read(packet) else {
            tunnel.counters.not_taken += 1;
            return;
        };
        let Some(towards) = tunnel.towards(&headers, &self.exposed) else {
            tunnel.counters.not_taken += 1;
            return;
        };
        tunnel.look_soon(now);
        let id = match towards {
            Towards::Mapping(id) => Some(id),
            Towards::Capture { place, traffic } => self.begin_capture(place, traffic, io),
        };
        if let Some(id) = id {
            self.pass_on(id, &headers, ecn, packet, io);
        }
    }

    /// A packet that is captured goes into its flow.
    fn pass_on(&mut self, id: MappingId, headers: &Headers, ecn: Ecn, packet: &mut [u8], io: &mut Io) {
        let Some(Mapping { peer, side, .. }) = self.mappings.get(id) else {
            return;
        };
        let connection = self.tunnel.as_mut().map(|tunnel| {
            tunnel.count(*side);
            tunnel.connections.sent(*peer, headers, packet.len(), io.now())
        });
        self.mind_path(id, headers, packet, io);
        let candidate = Candidate { headers: Some(headers), payload: &packet[headers.payload..], connection };
        let marked = self.mappings.marks(id, &candidate);
        // The DSCP is in the packet.
        self.forward(id, &Datagram { bytes: packet, traffic_class: ecn.into(), marked }, io);
    }

    /// Where a path carries less than the device lets packets have, has a connection that begins here agree on segments that fit, and tells
    /// who sends longer packets how long they may be. Longer ones travel in two pieces.
    fn mind_path(&mut self, id: MappingId, headers: &Headers, packet: &mut [u8], io: &mut Io) {
        let now = io.now();
        let (Some(mapping), Some(tunnel)) = (self.mappings.get_mut(id), &mut self.tunnel) else {
            return;
        };
        let whole = self.agent.datagram_bytes_whole(mapping.sent, now);
        mapping.whole = whole.and_then(|bytes| u16::try_from(bytes).ok());
        let Some(whole) = mapping.whole else {
            return;
        };
        if headers.tcp.is_some_and(TcpHeader::is_syn)
            && let Some(mut packet) = Packet::new(packet)
        {
            packet.limit_segments(segment_bytes(whole, headers));
        }
        // Less than the least MTU of IPv6 is nothing that hosts would send.
        let told = if headers.destination.is_ipv6() { whole.max(MTU_MIN) } else { whole };
        if packet.len() > usize::from(told)
            && tunnel.tells_next <= now
            && packet_too_long(packet, told, &mut tunnel.scratch)
        {
            tunnel.tells_next = now + TELLS_EVERY;
            io.give_packet(&tunnel.scratch);
        }
    }

    fn begin_capture(&mut self, place: usize, traffic: Traffic, io: &mut Io) -> Option<MappingId> {
        let id = match self.begin_mapping(Side::Capture { place, traffic }, None, io) {
            Ok(id) => id,
            Err(Declined::UnknownPeer) => {
                self.segments.unknown_peer += 1;
                return None;
            }
            Err(Declined::NoRoom) => {
                self.segments.no_room += 1;
                return None;
            }
        };
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.mappings[place][place_of(traffic)] = Some(id);
        }
        Some(id)
    }

    /// Begins the mappings of captures that have none, and opens and closes doors as peers come and go.
    pub(super) fn look_after_tunnel(&mut self, io: &mut Io) {
        let now = io.now();
        let Some(tunnel) = self.tunnel.as_mut().filter(|tunnel| tunnel.next_look <= now) else {
            return;
        };
        if tunnel.is_down() {
            self.close_device_mappings(io);
            return;
        }
        tunnel.next_look = if now < tunnel.looks_until { now + LOOKS_EVERY } else { now + SWEEP_INTERVAL };
        let missing: Vec<(usize, Traffic)> = missing(&tunnel.settings.captures, &tunnel.mappings);
        for (place, traffic) in missing {
            if self.known.peer(&self.tunnel_capture(place).wanted.peer).is_some() {
                self.begin_capture(place, traffic, io);
            }
        }
        let doors = self.doors(now);
        self.ask_again(&doors, io);
        if let Some(tunnel) = &self.tunnel {
            tunnel.set_doors(doors);
        }
    }

    /// Offers again what goes to peers that are not there: nobody sends to them meanwhile, and they may have come back.
    fn ask_again(&mut self, doors: &Doors, io: &mut Io) {
        let now = io.now();
        let Some(tunnel) = &mut self.tunnel else {
            return;
        };
        let mut due = Vec::new();
        for (place, is_open) in doors.captures.iter().enumerate() {
            if *is_open {
                tunnel.asks.remove(&place);
                continue;
            }
            let [least, most] = ASKS_AGAIN_AFTER;
            let (at, pause) = tunnel.asks.entry(place).or_insert((now + least, least));
            if *at <= now {
                *pause = (*pause * 2).min(most);
                *at = now + *pause;
                due.extend(tunnel.mappings[place].iter().flatten());
            }
            tunnel.next_look = tunnel.next_look.min(*at);
        }
        for id in due {
            self.offer(id, io);
        }
    }

    /// The address that all packets of a capture go to, if there is one alone.
    pub(super) fn only_destination(&self, place: usize) -> Option<IpAddr> {
        self.tunnel_capture(place).only_destination()
    }

    fn tunnel_capture(&self, place: usize) -> &Capture {
        &self.tunnel.as_ref().expect("there is a capture").settings.captures[place]
    }

    /// Whether a mapping is that of a capture whose agent is there: it lasts as long as that.
    pub(super) fn is_captured_by_peer(&self, id: MappingId, now: Time) -> bool {
        let mapping = self.mappings.get(id).filter(|mapping| matches!(mapping.side, Side::Network { .. }));
        let status = mapping.and_then(|mapping| self.agent.peer_status(mapping.peer, now));
        status.is_some_and(|status| status.is_alive)
    }

    /// A peer has said that it leaves: what came of it last says nothing more.
    pub(super) fn peer_left(&mut self, peer: AgentId) {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.heard.remove(&peer);
        }
    }

    /// Something about a peer has changed: it is looked at once.
    pub(super) fn hasten_look(&mut self) {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel.next_look = Time::START;
        }
    }

    fn doors(&self, now: Time) -> Doors {
        let Some(tunnel) = &self.tunnel else {
            return Doors::default();
        };
        let is_there = |peer: AgentId| {
            let heard = tunnel.heard.get(&peer).is_some_and(|at| now.saturating_since(*at) < HEARD_FOR);
            heard || self.agent.peer_status(peer, now).is_some_and(|status| status.is_alive)
        };
        let is_open = |id: &Option<MappingId>| {
            let mapping = id.and_then(|id| self.mappings.get(id));
            mapping.is_some_and(|mapping| matches!(mapping.consent, Consent::Given) && is_there(mapping.peer))
        };
        let of_capture = |(capture, mappings): (&Capture, &[Option<MappingId>; 2])| {
            traffics(capture).iter().all(|traffic| is_open(&mappings[place_of(*traffic)]))
        };
        let captures = tunnel.settings.captures.iter().zip(&tunnel.mappings).map(of_capture).collect();
        let mut exposed = BTreeSet::new();
        for ((address, _), (peer, id)) in &tunnel.behind {
            let side = self.mappings.get(*id).filter(|_| is_there(*peer)).map(|mapping| mapping.side);
            if let Some(Side::Network { place, .. }) = side
                && exposed.len() < ANSWERED_MAX
            {
                exposed.insert((place, *address));
            }
        }
        Doors { generation: tunnel.generation, captures, exposed }
    }
}

/// The longest segment of TCP that a packet of this length has room for.
fn segment_bytes(packet_bytes: u16, headers: &Headers) -> u16 {
    packet_bytes.saturating_sub(TCP_OVERHEADS[usize::from(headers.destination.is_ipv6())])
}

/// What captures have no mapping for yet.
fn missing(captures: &[Capture], mappings: &[[Option<MappingId>; 2]]) -> Vec<(usize, Traffic)> {
    let of_capture = |(place, capture): (usize, &Capture)| {
        let mappings = mappings[place];
        let missing =
            traffics(capture).iter().copied().filter(move |traffic| mappings[place_of(*traffic)].is_none());
        missing.map(move |traffic| (place, traffic)).collect::<Vec<_>>()
    };
    captures.iter().enumerate().flat_map(of_capture).collect()
}

/// What a capture may take.
fn traffics(capture: &Capture) -> &[Traffic] {
    match capture.wanted.traffic {
        Some(Traffic::Datagrams) => &[Traffic::Datagrams],
        Some(Traffic::CongestionControlled) => &[Traffic::CongestionControlled],
        Some(Traffic::Mixture) => &[Traffic::Mixture],
        None => &[Traffic::CongestionControlled, Traffic::Datagrams],
    }
}

/// What a packet that says nothing of itself carries: TCP and QUIC mind congestion, and nobody knows of others.
fn traffic_of(headers: &Headers) -> Traffic {
    let is_quic = headers.is_udp()
        && headers.ports.is_some_and(|ports| ports.source == QUIC || ports.destination == QUIC);
    if headers.is_tcp() || is_quic { Traffic::CongestionControlled } else { Traffic::Datagrams }
}

const fn other(traffic: Traffic) -> Traffic {
    match traffic {
        Traffic::Datagrams | Traffic::Mixture => Traffic::CongestionControlled,
        Traffic::CongestionControlled => Traffic::Datagrams,
    }
}

const fn place_of(traffic: Traffic) -> usize {
    match traffic {
        Traffic::CongestionControlled => 0,
        Traffic::Datagrams | Traffic::Mixture => 1,
    }
}
