//! A router that translates addresses, as most homes have one: what it does to packets, without links and clocks.
//!
//! Its mapping is endpoint-independent and its filtering address and port-dependent, in the words of RFC 4787: an end inside has one port
//! outside, whomever it speaks with, and only those to whom it has sent reach it there. UDP, TCP and ICMP echo pass; fragments, ICMP
//! errors, IPv6 and all others do not, nor does what one inside sends to the address outside (hairpinning).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use byway_units::{Duration, Time};
use byway_wire::ip::{Ends, TcpHeader, Transport};

/// How long an end inside that is silent is reached over UDP: what RFC 4787 recommends (REQ-5), where two minutes are the least.
pub const UDP_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a connection of TCP may be silent (RFC 5382, REQ-5): two hours, when ends look after each other, and four minutes.
pub const TCP_TIMEOUT: Duration = Duration::from_secs(7_440);

/// How long one may be silent that has not begun, or is at its end (RFC 5382, REQ-5).
pub const TCP_ENDS_TIMEOUT: Duration = Duration::from_secs(240);

/// How long an ICMP echo may take (RFC 5508, REQ-2).
pub const ECHO_TIMEOUT: Duration = Duration::from_secs(60);

/// Most pairs of an end inside and one outside that speak with each other: as many as small home routers keep. What would be one more
/// does not pass.
pub const SESSIONS_MAX: usize = 4_096;

/// The ports outside, handed out in order: those that belong to nobody (RFC 6335, section 6).
const PORTS: RangeInclusive<u16> = 49_152..=u16::MAX;

/// Most ports that are forwarded: each is one that a scenario's flow names.
pub const FORWARDS_MAX: usize = 4_096;

const _: () = assert!(
    SESSIONS_MAX + FORWARDS_MAX < (*PORTS.end() - *PORTS.start()) as usize,
    "an end with a session finds a port that is free"
);

/// Why a packet does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is none of UDP, TCP or ICMP echo over IPv4, a fragment, or broken.
    Untranslatable,
    /// Its source is no machine inside.
    Foreign,
    /// It is from inside and for the address outside.
    Hairpin,
    /// Nobody inside has sent to where it is from.
    Unasked,
    /// As many speak with each other as may.
    Full,
}

/// A router that translates addresses. What it hears of comes in the order of time.
#[derive(Clone, Debug)]
pub struct Nat {
    outside: Ipv4Addr,
    inside: BTreeSet<Ipv4Addr>,
    /// By port outside.
    mappings: BTreeMap<(Transport, u16), Mapping>,
    /// The ports outside of ends inside.
    ports: BTreeMap<(Transport, SocketAddrV4), u16>,
    next_port: u16,
    sessions: usize,
    /// No session is forgotten before.
    next_end: Time,
}

/// An end inside that is seen outside.
#[derive(Clone, Debug)]
struct Mapping {
    inside: SocketAddrV4,
    /// Whether it was set by hand: it never ends, and whoever sends is let in.
    is_forwarded: bool,
    /// Whom it speaks with; nobody if it is forwarded.
    peers: BTreeMap<SocketAddrV4, Session>,
}

/// What is known of an end inside and one outside.
#[derive(Clone, Copy, Debug)]
struct Session {
    until: Time,
    /// Of TCP: whether one of both has said that it ends.
    is_ending: bool,
}

impl Nat {
    /// A router with this address outside and machines with these inside, that has seen nothing yet.
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

    /// Whoever sends to a port outside reaches an end inside from now on, which sends from there.
    ///
    /// # Panics
    /// If more than [`FORWARDS_MAX`] are forwarded.
    pub fn forward(&mut self, transport: Transport, port: u16, inside: SocketAddrV4) {
        let forwarded = self.mappings.values().filter(|mapping| mapping.is_forwarded).count();
        assert!(forwarded < FORWARDS_MAX, "scenarios have fewer flows");
        self.mappings
            .insert((transport, port), Mapping { inside, is_forwarded: true, peers: BTreeMap::new() });
        self.ports.insert((transport, inside), port);
    }

    /// A packet leaves for outside; it is then from the address outside.
    ///
    /// # Errors
    /// If it does not pass.
    pub fn leave(&mut self, packet: &mut [u8], now: Time) -> Result<(), Refusal> {
        self.forget(now);
        let mut ends = Ends::new(packet).ok_or(Refusal::Untranslatable)?;
        if !self.inside.contains(ends.source().ip()) {
            return Err(Refusal::Foreign);
        }
        if *ends.destination().ip() == self.outside {
            return Err(Refusal::Hairpin);
        }
        if ends.is_echo_reply() {
            // Nobody's request was let in.
            return Err(Refusal::Untranslatable);
        }
        let port = self.port_of(&ends, now)?;
        ends.set_source(SocketAddrV4::new(self.outside, port));
        Ok(())
    }

    /// A packet comes to the address outside; it is then for the machine inside whose address this tells.
    ///
    /// # Errors
    /// If it does not pass.
    pub fn enter(&mut self, packet: &mut [u8], now: Time) -> Result<Ipv4Addr, Refusal> {
        self.forget(now);
        let mut ends = Ends::new(packet).ok_or(Refusal::Untranslatable)?;
        let (source, destination) = (ends.source(), ends.destination());
        if self.inside.contains(source.ip()) {
            return Err(Refusal::Hairpin);
        }
        let known = self.mappings.get_mut(&(ends.transport(), destination.port()));
        let mapping = known.filter(|_| *destination.ip() == self.outside).ok_or(Refusal::Unasked)?;
        let session = mapping.peers.get_mut(&source);
        if session.is_none() && !mapping.is_forwarded {
            return Err(Refusal::Unasked);
        }
        // What comes prolongs nothing (RFC 4787, REQ-6), but may end it.
        if let Some(session) = session.filter(|_| ends.tcp().is_some_and(is_end)) {
            session.is_ending = true;
            session.until = session.until.min(now + TCP_ENDS_TIMEOUT);
            self.next_end = self.next_end.min(session.until);
        }
        ends.set_destination(mapping.inside);
        Ok(*mapping.inside.ip())
    }

    /// The clock begins anew at 0 and was at this instant before: what is known stays known for as long as it would have.
    pub fn restart_clock(&mut self, before: Time) {
        for session in self.mappings.values_mut().flat_map(|mapping| mapping.peers.values_mut()) {
            session.until = Time::START + session.until.saturating_since(before);
        }
        self.next_end = Time::START;
    }

    /// The port outside of the end from which a packet leaves, which may be answered from now on.
    fn port_of(&mut self, ends: &Ends<'_>, now: Time) -> Result<u16, Refusal> {
        let (transport, inside, peer) = (ends.transport(), ends.source(), ends.destination());
        let known = self.ports.get(&(transport, inside)).copied();
        let mapping = known.and_then(|port| self.mappings.get(&(transport, port)));
        if let (Some(port), true) = (known, mapping.is_some_and(|mapping| mapping.is_forwarded)) {
            return Ok(port);
        }
        let is_new = mapping.is_none_or(|mapping| !mapping.peers.contains_key(&peer));
        if is_new && self.sessions == SESSIONS_MAX {
            return Err(Refusal::Full);
        }
        let port = known.unwrap_or_else(|| self.new_port(transport));
        self.ports.insert((transport, inside), port);
        let new = || Mapping { inside, is_forwarded: false, peers: BTreeMap::new() };
        let mapping = self.mappings.entry((transport, port)).or_insert_with(new);
        let session = mapping.peers.entry(peer).or_insert(Session { until: now, is_ending: false });
        session.note(transport, ends.tcp(), now);
        self.next_end = self.next_end.min(session.until);
        self.sessions += usize::from(is_new);
        Ok(port)
    }

    /// The next port that is free.
    fn new_port(&mut self, transport: Transport) -> u16 {
        loop {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(*PORTS.start());
            if !self.mappings.contains_key(&(transport, port)) {
                return port;
            }
        }
    }

    /// Forgets the sessions that were silent for too long, and ends inside that have none.
    fn forget(&mut self, now: Time) {
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
    /// The end inside sends.
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
