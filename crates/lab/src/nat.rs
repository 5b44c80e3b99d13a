//! NAT router, as in most homes: its translation of packets, without links and clocks.
//!
//! In the terms of RFC 4787, its mapping is endpoint-independent and its filtering is address and
//! port-dependent. An inside endpoint has one outside port for all peers, and only peers to which
//! it has sent can reach it there. UDP, TCP and ICMP echo pass. Fragments, ICMP errors, IPv6 and
//! all other packets are dropped, and so are packets from inside to the outside address
//! (hairpinning).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use byway_units::{Duration, Time};
use byway_wire::ip::{PacketEndpoints, TcpHeader, Transport};

/// Timeout of a UDP mapping without packets from inside. RFC 4787 recommends this value, and
/// requires at least two minutes (REQ-5).
pub const UDP_TIMEOUT: Duration = Duration::from_secs(300);

/// Timeout of an established TCP connection (RFC 5382, REQ-5): two hours, the interval of
/// keepalives, and four minutes.
pub const TCP_TIMEOUT: Duration = Duration::from_secs(7_440);

/// Timeout of a TCP connection that is opening or closing (RFC 5382, REQ-5).
pub const TCP_ENDS_TIMEOUT: Duration = Duration::from_secs(240);

/// Timeout of an ICMP echo session (RFC 5508, REQ-2).
pub const ECHO_TIMEOUT: Duration = Duration::from_secs(60);

/// Most sessions of a NAT router, which are pairs of an inside and an outside endpoint: as many as
/// in small home routers. Packets of further sessions are dropped.
pub const SESSIONS_MAX: usize = 4_096;

/// Outside ports, assigned in order: the dynamic ports (RFC 6335, section 6).
const PORTS: RangeInclusive<u16> = 49_152..=u16::MAX;

/// Most forwarded ports of a NAT router; each belongs to a flow of the scenario.
pub const FORWARDS_MAX: usize = 4_096;

const _: () = assert!(
    SESSIONS_MAX + FORWARDS_MAX < (*PORTS.end() - *PORTS.start()) as usize,
    "every session finds a free port"
);

/// Reason for which a NAT router drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Packet that is not UDP, TCP or ICMP echo over IPv4, or that is a fragment or damaged.
    Untranslatable,
    /// Packet from inside whose source is not an inside machine.
    Foreign,
    /// Packet from inside to the outside address.
    Hairpin,
    /// Packet from outside whose source no inside endpoint has sent to.
    Unsolicited,
    /// Packet of a new session while the table of sessions is full.
    Full,
}

/// State of a NAT router. Calls must be in the order of time.
#[derive(Clone, Debug)]
pub struct Nat {
    outside: Ipv4Addr,
    inside: BTreeSet<Ipv4Addr>,
    /// Mappings by transport and outside port.
    mappings: BTreeMap<(Transport, u16), Mapping>,
    /// Outside ports by transport and inside endpoint.
    ports: BTreeMap<(Transport, SocketAddrV4), u16>,
    next_port: u16,
    sessions: usize,
    /// Lower bound of the time at which a session expires.
    next_end: Time,
}

/// Mapping of an inside endpoint to an outside port.
#[derive(Clone, Debug)]
struct Mapping {
    inside: SocketAddrV4,
    /// True for a port that the configuration forwards: the mapping never expires, and accepts any
    /// sender.
    is_forwarded: bool,
    /// Sessions by outside endpoint; empty for a forwarded port.
    peers: BTreeMap<SocketAddrV4, Session>,
}

/// Session of an inside endpoint with one outside endpoint.
#[derive(Clone, Copy, Debug)]
struct Session {
    until: Time,
    /// For TCP: true after a FIN or RST of either endpoint.
    is_ending: bool,
}

impl Nat {
    /// Makes a router with this outside address and these inside machines, without sessions.
    #[must_use]
    pub fn new(outside: Ipv4Addr, inside: impl IntoIterator<Item = Ipv4Addr>) -> Self {
        Self {
            outside,
            inside: inside.into_iter().collect(),
            mappings: BTreeMap::new(),
            ports: BTreeMap::new(),
            next_port: *PORTS.start(),
            sessions: 0,
            next_end: Time::MAX,
        }
    }

    /// Forwards an outside port to an inside endpoint, whose packets also leave from this port.
    ///
    /// # Panics
    /// If more than [`FORWARDS_MAX`] ports are forwarded.
    pub fn forward(&mut self, transport: Transport, port: u16, inside: SocketAddrV4) {
        let forwarded = self.mappings.values().filter(|mapping| mapping.is_forwarded).count();
        assert!(forwarded < FORWARDS_MAX, "scenarios have fewer flows");
        self.mappings
            .insert((transport, port), Mapping { inside, is_forwarded: true, peers: BTreeMap::new() });
        self.ports.insert((transport, inside), port);
    }

    /// Translates a packet from inside in place: its source becomes the outside address and port.
    ///
    /// # Errors
    /// If the packet is dropped.
    pub fn translate_outbound(&mut self, packet: &mut [u8], now: Time) -> Result<(), Refusal> {
        self.expire_sessions(now);
        let mut ends = PacketEndpoints::new(packet).ok_or(Refusal::Untranslatable)?;
        if !self.inside.contains(ends.source().ip()) {
            return Err(Refusal::Foreign);
        }
        if *ends.destination().ip() == self.outside {
            return Err(Refusal::Hairpin);
        }
        if ends.is_echo_reply() {
            // Requests from outside are never forwarded, so no reply to one is valid.
            return Err(Refusal::Untranslatable);
        }
        let port = self.port_of(&ends, now)?;
        ends.set_source(SocketAddrV4::new(self.outside, port));
        Ok(())
    }

    /// Translates a packet to the outside address in place, and returns the address of the inside
    /// machine to deliver it to.
    ///
    /// # Errors
    /// If the packet is dropped.
    pub fn translate_inbound(&mut self, packet: &mut [u8], now: Time) -> Result<Ipv4Addr, Refusal> {
        self.expire_sessions(now);
        let mut ends = PacketEndpoints::new(packet).ok_or(Refusal::Untranslatable)?;
        let (source, destination) = (ends.source(), ends.destination());
        if self.inside.contains(source.ip()) {
            return Err(Refusal::Hairpin);
        }
        let found = self.mappings.get_mut(&(ends.transport(), destination.port()));
        let mapping = found.filter(|_| *destination.ip() == self.outside).ok_or(Refusal::Unsolicited)?;
        let session = mapping.peers.get_mut(&source);
        if session.is_none() && !mapping.is_forwarded {
            return Err(Refusal::Unsolicited);
        }
        // An inbound packet does not refresh a session (RFC 4787, REQ-6), but may end it.
        if let Some(session) = session.filter(|_| ends.tcp().is_some_and(is_end)) {
            session.is_ending = true;
            session.until = session.until.min(now + TCP_ENDS_TIMEOUT);
            self.next_end = self.next_end.min(session.until);
        }
        ends.set_destination(mapping.inside);
        Ok(*mapping.inside.ip())
    }

    /// Restarts the clock at 0, where it was `before`. Sessions keep their remaining times.
    pub fn restart_clock(&mut self, before: Time) {
        for session in self.mappings.values_mut().flat_map(|mapping| mapping.peers.values_mut()) {
            session.until = Time::START + session.until.saturating_since(before);
        }
        self.next_end = Time::START;
    }

    /// Returns the outside port of a packet's inside endpoint, which it maps if necessary.
    /// Refreshes the session with the packet's destination.
    fn port_of(&mut self, ends: &PacketEndpoints<'_>, now: Time) -> Result<u16, Refusal> {
        let (transport, inside, peer) = (ends.transport(), ends.source(), ends.destination());
        let mapped_port = self.ports.get(&(transport, inside)).copied();
        let mapping = mapped_port.and_then(|port| self.mappings.get(&(transport, port)));
        if let (Some(port), true) = (mapped_port, mapping.is_some_and(|mapping| mapping.is_forwarded)) {
            return Ok(port);
        }
        let is_new = mapping.is_none_or(|mapping| !mapping.peers.contains_key(&peer));
        if is_new && self.sessions == SESSIONS_MAX {
            return Err(Refusal::Full);
        }
        let port = mapped_port.unwrap_or_else(|| self.new_port(transport));
        self.ports.insert((transport, inside), port);
        let new = || Mapping { inside, is_forwarded: false, peers: BTreeMap::new() };
        let mapping = self.mappings.entry((transport, port)).or_insert_with(new);
        let session = mapping.peers.entry(peer).or_insert(Session { until: now, is_ending: false });
        session.note(transport, ends.tcp(), now);
        self.next_end = self.next_end.min(session.until);
        self.sessions += usize::from(is_new);
        Ok(port)
    }

    /// Returns the next outside port that no mapping of this transport uses.
    fn new_port(&mut self, transport: Transport) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(*PORTS.start());
            if !self.mappings.contains_key(&(transport, port)) {
                return port;
            }
        }
    }

    /// Removes expired sessions, and mappings that have none left.
    fn expire_sessions(&mut self, now: Time) {
        if now < self.next_end {
            return;
        }
        for mapping in self.mappings.values_mut() {
            mapping.peers.retain(|_, session| session.until > now);
        }
        self.mappings.retain(|_, mapping| mapping.is_forwarded || !mapping.peers.is_empty());
        let mappings = &self.mappings;
        self.ports.retain(|(transport, _), port| mappings.contains_key(&(*transport, *port)));
        let sessions = || mappings.values().flat_map(|mapping| mapping.peers.values());
        self.sessions = sessions().count();
        self.next_end = sessions().map(|session| session.until).min().unwrap_or(Time::MAX);
    }
}

impl Session {
    /// Extends the session's lifetime for a packet from inside.
    fn note(&mut self, transport: Transport, tcp: Option<TcpHeader>, now: Time) {
        let begins = tcp.is_some_and(TcpHeader::is_syn);
        self.is_ending = tcp.is_some_and(is_end) || self.is_ending && !begins;
        let timeout = match transport {
            Transport::Udp => UDP_TIMEOUT,
            Transport::Echo => ECHO_TIMEOUT,
            Transport::Tcp if begins || self.is_ending => TCP_ENDS_TIMEOUT,
            Transport::Tcp => TCP_TIMEOUT,
        };
        self.until = now + timeout;
    }
}

const fn is_end(tcp: TcpHeader) -> bool {
    tcp.is_fin() || tcp.is_reset()
}

#[cfg(test)]
mod tests;
