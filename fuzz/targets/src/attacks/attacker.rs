//! The attacker and its mate: sessions with real keys, and the registrations that their grants allow.

use byway_proto::agent::flow_between;
use byway_units::{AgentId, Duration, FlowId, Time};
use byway_wire::messages::{FlowOptions, FlowRole, Register};
use byway_wire::packets::EnvelopeRole;
use byway_wire::seal::{PublicKey, Purpose, StaticSecret};
use byway_wire::{
    Alias, BlockShape, FlowKey, GrantedRelay, KilobitsPerSecond, Message, Microseconds, Service,
};

use super::filled;
use crate::harness::scripted_peer::{Peer, ScriptedPeer, write};
use crate::harness::topology::NodeId;

/// A part in an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Attacks the relay where the honest flow leaves the overlay.
    Attacker,
    /// Sends to the attacker, from the relay where the honest flow enters the overlay.
    Mate,
}

/// What a member of a real network needs to play a part.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Its secret key.
    pub secret: StaticSecret,
    /// Its number.
    pub agent: AgentId,
    /// The number of the other one.
    pub other: AgentId,
    /// The key of its relay.
    pub relay_key: PublicKey,
    /// The address of its relay.
    pub relay_address: std::net::SocketAddr,
    /// The relay of the other one.
    pub far_relay: GrantedRelay,
    /// The grant for what it sends to the other one.
    pub sends: Vec<u8>,
    /// The grant for what it receives.
    pub receives: Vec<u8>,
}

/// The attacker or its mate.
pub struct Attacker {
    pub(crate) hand: ScriptedPeer,
    agent: AgentId,
    other: AgentId,
    far_relay: GrantedRelay,
    sends: Vec<u8>,
    receives: Vec<u8>,
}

impl std::fmt::Debug for Attacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attacker").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl Attacker {
    /// A member of the virtual network, whose relays know its grants.
    pub(super) fn known(who: NodeId, other: NodeId, relay: NodeId, far_relay: GrantedRelay) -> Self {
        Self {
            hand: ScriptedPeer::new(who, relay, Purpose::AgentToRelay),
            agent: who.agent_id(),
            other: other.agent_id(),
            far_relay,
            sends: Vec::new(),
            receives: Vec::new(),
        }
    }

    /// A member of a real network that starts at this time, in nanoseconds since 1970.
    #[must_use]
    pub fn new(part: Part, credentials: Credentials, started_unix_nanos: u64) -> Self {
        let Credentials { secret, agent, other, relay_key, relay_address, far_relay, sends, receives } =
            credentials;
        let who = if part == Part::Attacker { super::stage::MALLORY } else { super::stage::MATE };
        let peer = Peer { key: relay_key, address: relay_address };
        let mut hand = ScriptedPeer::with_keys(who, secret, peer, Purpose::AgentToRelay);
        (hand.boot, hand.stamp) = (started_unix_nanos, started_unix_nanos);
        Self { hand, agent, other, far_relay, sends, receives }
    }

    /// The packet that begins a session; it shows a grant.
    pub fn initiate(&mut self) -> Vec<u8> {
        let mut shown = Vec::new();
        if !self.receives.is_empty() {
            write(&self.register(FlowRole::Receiver, 1), &mut shown);
        }
        self.hand.initiate(0, &shown)
    }

    /// Whether the session is there.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        self.hand.is_established()
    }

    /// Takes a packet of the relay; returns the answer that keeps the session alive.
    pub fn take(&mut self, packet: &[u8], now: Time) -> Option<Vec<u8>> {
        self.hand.take(packet);
        let answers = self.hand.answers(now);
        if answers.is_empty() { None } else { self.hand.says(&answers) }
    }

    /// The agent at the other end of its flows.
    pub(super) const fn other(&self) -> AgentId {
        self.other
    }

    /// Its flow with this number, in this role.
    pub(super) fn flow(&self, role: FlowRole, number: u16) -> FlowKey {
        let (sender, receiver) = match role {
            FlowRole::Sender => (self.agent, self.other),
            FlowRole::Receiver => (self.other, self.agent),
        };
        flow_between(sender, receiver, FlowId::new(number))
    }

    /// The registration of its flow with this number, in this role.
    pub(super) fn register(&self, role: FlowRole, number: u16) -> Message<'_> {
        let grant = if role == FlowRole::Sender { &self.sends } else { &self.receives };
        Message::Register(Register {
            flow_key: self.flow(role, number),
            role,
            revision: None,
            service: Service::Caching,
            in_stream: None,
            batch: BlockShape::new(10, 2),
            options: FlowOptions {
                relay_side_duplication: false,
                sender_makes_repairs: false,
                coded_with_other_tenants: false,
                selective: false,
            },
            rate: KilobitsPerSecond::new(10_000),
            budget: Microseconds::from_duration(Duration::from_millis(250)),
            consent: byway_proto::limits::CONSENT,
            far_relay: self.far_relay,
            grant,
        })
    }

    /// A datagram with as many of these registrations as it has room for, and how many these are.
    pub fn register_some(&mut self, role: FlowRole, numbers: &[u16]) -> (Option<Vec<u8>>, usize) {
        // A grant takes some 250 bytes.
        let room = if self.receives.is_empty() { 15 } else { 3 };
        let numbers = &numbers[..numbers.len().min(room)];
        let messages = filled(numbers.iter().map(|number| self.register(role, *number)));
        (self.hand.says(&messages), numbers.len())
    }

    /// A packet of a flow, as the sender of that flow copies it to its relay.
    pub(super) fn copy(&mut self, alias: Alias, low_bits: u32, coded: &[u8]) -> Option<Vec<u8>> {
        self.hand.envelops(EnvelopeRole::Copy, alias, low_bits, coded)
    }
}
