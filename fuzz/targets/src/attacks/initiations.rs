//! Attacks with initiations: one that a member replays from its own address, and floods that
//! prevent a restarted agent's handshake.

use std::net::SocketAddr;

use byway_wire::packets::CookiePacket;
use byway_wire::seal::{
    AwaitedResponse, Initiation, PreSharedKey, PublicKey, Purpose, StaticSecret, Suite, write_mac2,
};
use byway_wire::{Capabilities, Epoch, Incarnation, SessionIndex, Shard};

use super::Attack;
use super::adversary::{Adversary, NatPort, Promise, RESTARTED, Siege};
use crate::harness::net::Packet;
use crate::harness::topology::{EGRESS, NodeId};

/// Attack: replays one initiation, which costs the sender only one MAC.
pub(super) const ATTACK: Attack = Attack {
    name: "initiations",
    prepare: |_| {},
    datagram: |attacker, nth, first| Some(if nth == 0 { attacker.initiate() } else { first.to_vec() }),
};

/// Number of source ports of a flood. The sum of their limits exceeds the limit of their network.
pub const PORTS: u16 = 32;

pub(super) const ELSEWHERE: Siege = Siege {
    name: "50,000 initiations a second from another address",
    begin: || flooder(NodeId::Stranger.address(), true),
    ..Siege::QUIET
};

pub(super) const SAME_NAT: Siege = Siege {
    name: "as many from behind its NAT, without cookies; its port is new",
    begin: || flooder(RESTARTED.address(), false),
    port: NatPort::New,
    ..Siege::QUIET
};

pub(super) const SAME_NAT_WITH_COOKIES: Siege = Siege {
    name: "as many from behind its NAT, with cookies; its port is the same",
    begin: || flooder(RESTARTED.address(), true),
    ..Siege::QUIET
};

/// The relay cannot distinguish the agent from the attacker. It reads a limited number of
/// initiations from one network, and most of them are the attacker's.
pub(super) const SAME_NAT_WITH_COOKIES_AND_NEW_PORT: Siege = Siege {
    name: "as many from behind its NAT, with cookies; its port is new",
    begin: || flooder(RESTARTED.address(), true),
    port: NatPort::New,
    promise: Promise::Nothing,
};

/// Initiations of a stranger to a node, sent from ports in turn. With cookies, every second port
/// includes its cookie. The flood thus exhausts both limits, for initiations with and without
/// cookies.
pub struct InitiationFlood {
    packets: Vec<Vec<u8>>,
    awaited: AwaitedResponse,
    shows_cookies: bool,
    next: usize,
}

impl std::fmt::Debug for InitiationFlood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InitiationFlood").field("ports", &self.packets.len()).finish_non_exhaustive()
    }
}

impl InitiationFlood {
    /// Returns a flood of an agent's initiations to a relay with this key.
    ///
    /// # Panics
    /// If the key is of low order.
    #[must_use]
    pub fn new(relay: &PublicKey, shows_cookies: bool) -> Self {
        let initiation = Initiation {
            purpose: Purpose::AgentToRelay,
            suite: Suite::ChaCha20Poly1305,
            shard: Shard::new(0),
            capabilities: Capabilities::DIGESTS,
            index: SessionIndex::new(7),
            handshake_timestamp: 7,
            incarnation: Incarnation::new(7),
            epoch: Epoch::new(0),
            messages: &[],
        };
        let secret = StaticSecret::from_bytes([213; 32]);
        let written = initiation.write(&secret, relay, &PreSharedKey::default(), &[214; 32]);
        let (packet, awaited) = written.expect("the key is a key");
        Self { packets: vec![packet; PORTS.into()], awaited, shows_cookies, next: 0 }
    }

    /// Returns the next packet, and the index of its source port.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> (usize, &[u8]) {
        self.next = (self.next + 1) % self.packets.len();
        (self.next, &self.packets[self.next])
    }

    /// Handles a packet to a port. A cookie is included in later initiations from there.
    pub fn on_packet(&mut self, port: usize, packet: &[u8]) {
        let cookie =
            CookiePacket::parse(packet).ok().and_then(|packet| self.awaited.open_cookie(packet).ok());
        if let Some(cookie) = cookie.filter(|_| self.shows_cookies && port.is_multiple_of(2)) {
            write_mac2(&mut self.packets[port], &cookie);
        }
    }
}

struct Flooder {
    flood: InitiationFlood,
    /// Source address, with the first port.
    from: SocketAddr,
}

fn flooder(mut from: SocketAddr, shows_cookies: bool) -> Box<dyn Adversary> {
    // The ports are above those of the agent.
    from.set_port(20_000);
    Box::new(Flooder { flood: InitiationFlood::new(&EGRESS.key(), shows_cookies), from })
}

impl Adversary for Flooder {
    fn flood(&mut self) -> Option<Packet> {
        let (port, bytes) = self.flood.next();
        let port = self.from.port() + u16::try_from(port).expect("few ports");
        let from = SocketAddr::new(self.from.ip(), port);
        Some(Packet { from, to: EGRESS.address(), bytes: bytes.to_vec() })
    }

    fn on_packet(&mut self, packet: &Packet) {
        let port = packet.to.port().checked_sub(self.from.port()).filter(|port| *port < PORTS);
        if let Some(port) = port.filter(|_| packet.to.ip() == self.from.ip()) {
            self.flood.on_packet(port.into(), &packet.bytes);
        }
    }
}
