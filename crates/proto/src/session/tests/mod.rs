//! Tests of two nodes that exchange packets through their outboxes.

mod epochs;
mod forgeries;
mod handshakes;
mod keepalive;
mod paths;
mod uplinks;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::messages::{Ack, Close, CloseReason};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::{PortableProvider, PreSharedKey, Purpose, StaticSecret, Suite};
use byway_wire::{Alias, Capabilities, Ecn, Message, Messages, SequenceNumber, Shard};

use super::{
    EnvelopeContents, Inbound, LocalIdentity, RemoteIdentity, Route, SessionEvent, SessionId, Sessions,
    ViaRelay,
};
use crate::network_path::{LocalAddress, NetworkPath, Uplink, Uplinks};
use crate::outbox::Priority;
use crate::random::Generator;

/// One-way delay.
const DELAY: Duration = ms(10);

/// First bytes of initiation, response and cookie.
const INITIATION: u8 = 4;
const RESPONSE: u8 = 5;
const COOKIE: u8 = 6;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600)
}

/// A datagram and its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Datagram {
    sender: usize,
    from: SocketAddr,
    /// The sender's local address, as its driver numbers it.
    local: LocalAddress,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// A node with one peer, and its received data.
struct TestNode {
    sessions: Sessions,
    peer: SessionId,
    address: SocketAddr,
    /// Local address of received datagrams, as the driver numbers it.
    asked_at: LocalAddress,
    /// Numbers received from the other side.
    received_numbers: Vec<u32>,
    /// First byte of the coded bytes of each envelope.
    enveloped: Vec<u8>,
    events: Vec<SessionEvent>,
}

/// Indices of the two nodes. The one with the smaller key has priority when handshakes cross.
const SMALL: usize = 0;
const LARGE: usize = 1;

/// Two nodes and the network between them.
struct SessionPair {
    nodes: [TestNode; 2],
    now: Time,
    flying: VecDeque<(Time, Datagram)>,
    sent: Vec<Datagram>,
    loses: Box<dyn FnMut(&Datagram) -> bool>,
}

fn secrets() -> [StaticSecret; 2] {
    let (one, other) = (StaticSecret::from_bytes([1; 32]), StaticSecret::from_bytes([2; 32]));
    if one.public_key() < other.public_key() { [one, other] } else { [other, one] }
}

fn sessions(who: usize, seed: u8, started_unix_nanos: u64, now: Time) -> Sessions {
    let local = LocalIdentity {
        secret: secrets()[who].clone(),
        suite: Suite::ChaCha20Poly1305,
        shard: Shard::new(0),
        capabilities: Capabilities::DIGESTS,
        started_unix_nanos,
        uplinks: Uplinks::One,
    };
    Sessions::new(local, &PortableProvider, Generator::new([seed; 32]), now)
}

fn remote(who: usize, keep: bool) -> RemoteIdentity {
    RemoteIdentity {
        key: secrets()[who].public_key(),
        purpose: Purpose::EndToEnd,
        shard: Shard::new(0),
        pre_shared: PreSharedKey::default(),
        addresses: alloc::vec![address(u8::try_from(who).expect("two nodes"))],
        is_persistent: keep,
    }
}

impl TestNode {
    fn new(who: usize, seed: u8, started_unix_nanos: u64, keep: bool, now: Time) -> Self {
        let sessions = sessions(who, seed, started_unix_nanos, now);
        Self::with_peer(who, sessions, remote(1 - who, keep), now)
    }

    fn with_peer(who: usize, mut sessions: Sessions, remote: RemoteIdentity, now: Time) -> Self {
        let peer = sessions.add(remote, now);
        let address = address(u8::try_from(who).expect("two nodes"));
        Self {
            sessions,
            peer,
            address,
            asked_at: LocalAddress::ANY,
            received_numbers: Vec::new(),
            enveloped: Vec::new(),
            events: Vec::new(),
        }
    }

    fn receive(&mut self, datagram: &mut Datagram, now: Time) {
        let from = NetworkPath { remote: datagram.from, local: self.asked_at };
        match self.sessions.receive_from(&mut datagram.bytes, Route::Direct(from), now) {
            Inbound::Nothing
            | Inbound::Stranger { .. }
            | Inbound::Source { .. }
            | Inbound::Transit { .. } => {}
            Inbound::Initiation { session, initiation, origin } => {
                self.sessions.accept(session, initiation, origin, &[], now);
            }
            Inbound::Response { session, messages } => self.handle_messages(session, &messages, from, now),
            Inbound::Messages { session, messages } => {
                let messages = messages.to_vec();
                self.handle_messages(session, &messages, from, now);
            }
            Inbound::Envelope { datagram, .. } => self.enveloped.push(datagram[crate::limits::CODED_START]),
        }
    }

    fn handle_messages(&mut self, session: SessionId, messages: &[u8], from: NetworkPath, now: Time) {
        for message in Messages::new(messages) {
            let message = message.expect("the other node speaks properly");
            if self.sessions.handle_message(session, &message, Route::Direct(from), now) {
                continue;
            }
            if let Message::Ack(ack) = message {
                self.received_numbers.push(ack.from_low);
            }
        }
    }

    fn is_established(&self, now: Time) -> bool {
        self.sessions.is_established(self.peer, now)
    }

    /// Returns the events of the session since the last call, without the answers to probes.
    fn drain_events(&mut self) -> Vec<SessionEvent> {
        let changes = core::mem::take(&mut self.events);
        changes
            .into_iter()
            .filter(|change| !matches!(change, SessionEvent::ProbeReplyReceived { .. }))
            .collect()
    }

    fn epochs(&self) -> usize {
        self.sessions.get(self.peer).map_or(0, |session| session.epochs.len())
    }
}

impl SessionPair {
    fn new() -> Self {
        let nodes = [SMALL, LARGE]
            .map(|who| TestNode::new(who, 10 + u8::try_from(who).expect("two"), 1_000, false, Time::START));
        Self {
            nodes,
            now: Time::START,
            flying: VecDeque::new(),
            sent: Vec::new(),
            loses: Box::new(|_| false),
        }
    }

    /// Returns two nodes with a session that the first one began.
    fn established() -> Self {
        let mut pair = Self::new();
        pair.connect(SMALL);
        pair.run(ms(100));
        assert!(pair.nodes.iter().all(|node| node.is_established(pair.now)));
        pair
    }

    fn connect(&mut self, who: usize) {
        let node = &mut self.nodes[who];
        node.sessions.connect(node.peer, &[], self.now);
        self.send(who);
    }

    /// Sends a number, as application data.
    fn send_number(&mut self, who: usize, number: u32) {
        let node = &mut self.nodes[who];
        node.sessions.use_session(node.peer, self.now);
        let alias = Alias::new(1).expect("not zero");
        node.sessions.queue_message(node.peer, &Message::Ack(Ack { alias, from_low: number }), self.now);
        self.send(who);
    }

    fn envelop(&mut self, who: usize, number: u8) {
        let (node, alias) = (&mut self.nodes[who], Alias::new(1).expect("not zero"));
        let coded = &[number; 40];
        let ecn = Ecn::NotCapable;
        let contents =
            EnvelopeContents { role: EnvelopeRole::Copy, alias, sequence_low: 0, coded, ecn, owner: None };
        node.sessions.send_envelope(node.peer, &contents, Priority::Source, self.now);
        self.send(who);
    }

    fn close(&mut self, who: usize) {
        let node = &mut self.nodes[who];
        node.sessions.queue_message(
            node.peer,
            &Message::Close(Close { reason: CloseReason::Leaving }),
            self.now,
        );
        self.send(who);
    }

    /// Sends the queued packets of a node.
    fn send(&mut self, who: usize) {
        let node = &mut self.nodes[who];
        node.events.extend(node.sessions.events.drain(..));
        node.sessions.flush_all(self.now);
        while let Some((meta, bytes)) = node.sessions.outbox.pop() {
            let NetworkPath { remote: to, local } = meta.path;
            let datagram = Datagram { sender: who, from: node.address, local, to, bytes: bytes.to_vec() };
            self.sent.push(datagram.clone());
            if !(self.loses)(&datagram) {
                self.flying.push_back((self.now + DELAY, datagram));
            }
        }
    }

    /// Delivers a datagram to a node, from any address.
    fn deliver(&mut self, who: usize, mut datagram: Datagram) {
        self.nodes[who].receive(&mut datagram, self.now);
        self.send(who);
    }

    /// Runs for a time, with all events that are due.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let arrival = self.flying.front().map(|(at, _)| *at);
            let deadlines = self.nodes.iter().filter_map(|node| node.sessions.deadline());
            let Some(at) = deadlines.chain(arrival).min().filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(at);
            if arrival.is_some_and(|at| at <= self.now) {
                let (_, datagram) = self.flying.pop_front().expect("one is in front");
                if let Some(who) = self.nodes.iter().position(|node| node.address == datagram.to) {
                    self.deliver(who, datagram);
                }
                continue;
            }
            for who in [SMALL, LARGE] {
                self.nodes[who].sessions.handle_timeout(self.now);
                self.send(who);
            }
        }
        self.now = end;
    }

    fn loses(&mut self, loses: impl FnMut(&Datagram) -> bool + 'static) {
        self.loses = Box::new(loses);
    }

    /// Returns the datagrams of a kind that a node sent.
    fn sent_by(&self, who: usize, kind: u8) -> Vec<&Datagram> {
        self.sent.iter().filter(|datagram| datagram.sender == who && datagram.bytes[0] == kind).collect()
    }

    fn handshakes(&self) -> [u64; 2] {
        self.nodes.each_ref().map(|node| node.sessions.counters.handshakes)
    }
}
