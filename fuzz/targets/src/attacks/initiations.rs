//! Initiations without end: one again and again from a member's address, and floods that are to keep a restarted agent out.

use std::net::SocketAddr;

use byway_wire::packets::CookiePacket;
use byway_wire::seal::{
    AwaitedResponse, Initiation, PreSharedKey, PublicKey, Purpose, StaticSecret, Suite, write_mac2,
};
use byway_wire::{Boot, Capabilities, Epoch, SessionIndex, Shard};

use super::Attack;
use super::adversary::{Adversary, NatPort, Promise, RESTARTED, Siege};
use crate::harness::net::Packet;
use crate::harness::topology::{EGRESS, NodeId};

/// One initiation again and again, at the price of an authentication code to the sender.
pub(super) const ATTACK: Attack = Attack {
    name: "initiations",
    prepare: |_| {},
    datagram: |mallory, nth, first| Some(if nth == 0 { mallory.initiate() } else { first.to_vec() }),
};

/// Ports of a flood: together they may be read more often than the network that they are in.
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

/// Nothing tells the agent from the attacker: the initiations that are read of one network go to whoever asks most.
pub(super) const SAME_NAT_WITH_COOKIES_AND_NEW_PORT: Siege = Siege {
    name: "as many from behind its NAT, with cookies; its port is new",
    begin: || flooder(RESTARTED.address(), true),
    port: NatPort::New,
    promise: Promise::Nothing,
};

/// An initiation of a stranger to a node, sent from ports in turn. Every second port shows the cookies that it gets, if any does: so the
/// flood uses up what is read with cookies and what is read without.
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
    /// A flood of an agent's initiations to a relay with this key.
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
            stamp: 7,
            boot: Boot::new(7),
            epoch: Epoch::new(0),
            messages: &[],
        };
        let secret = StaticSecret::from_bytes([213; 32]);
        let written = initiation.write(&secret, relay, &PreSharedKey::default(), &[214; 32]);
        let (packet, awaited) = written.expect("the key is a key");
        Self { packets: vec![packet; PORTS.into()], awaited, shows_cookies, next: 0 }
    }

    /// Returns the next packet, and the number of the port that it is sent from.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> (usize, &[u8]) {
        self.next = (self.next + 1) % self.packets.len();
        (self.next, &self.packets[self.next])
    }

    /// Takes what came to a port: a cookie is shown from there on.
    pub fn take(&mut self, port: usize, packet: &[u8]) {
        let cookie =
            CookiePacket::parse(packet).ok().and_then(|packet| self.awaited.open_cookie(packet).ok());
        if let Some(cookie) = cookie.filter(|_| self.shows_cookies && port.is_multiple_of(2)) {
            write_mac2(&mut self.packets[port], &cookie);
        }
    }
}

struct Flooder {
    flood: InitiationFlood,
    /// Its address and the first of its ports.
    from: SocketAddr,
}

fn flooder(mut from: SocketAddr, shows_cookies: bool) -> Box<dyn Adversary> {
    // Beyond those of the agent.
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

    fn take(&mut self, packet: &Packet) {
        let port = packet.to.port().checked_sub(self.from.port()).filter(|port| *port < PORTS);
        if let Some(port) = port.filter(|_| packet.to.ip() == self.from.ip()) {
            self.flood.take(port.into(), &packet.bytes);
        }
    }
}
