//! The attacker and its accomplice: sessions with real keys, and the registrations that their
//! grants permit.

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

/// Role of a member in an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Member that attacks the egress relay of the honest flow.
    Attacker,
    /// Member that sends to the attacker, through the ingress relay of the honest flow.
    Accomplice,
}

/// Credentials of a member of a real network, for one role.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Secret key of the member.
    pub secret: StaticSecret,
    /// Number of the member as an agent.
    pub agent: AgentId,
    /// Number of the agent in the other role.
    pub other: AgentId,
    /// Key of the agent's relay.
    pub relay_key: PublicKey,
    /// Address of the agent's relay.
    pub relay_address: std::net::SocketAddr,
    /// Relay of the member in the other role.
    pub far_relay: GrantedRelay,
    /// Grant for the flows that the member sends to the one in the other role.
    pub sends: Vec<u8>,
    /// Grant for the flows that the member receives from the one in the other role.
    pub receives: Vec<u8>,
}

/// Attacker or accomplice, with its session and its flows.
pub struct Attacker {
    pub(crate) peer: ScriptedPeer,
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
    /// Returns a member of the virtual network, whose relays have its grants.
    pub(super) fn member(node: NodeId, other: NodeId, relay: NodeId, far_relay: GrantedRelay) -> Self {
        Self {
            peer: ScriptedPeer::new(node, relay, Purpose::AgentToRelay),
            agent: node.agent_id(),
            other: other.agent_id(),
            far_relay,
            sends: Vec::new(),
            receives: Vec::new(),
        }
    }

    /// Returns a member of a real network, with its start in nanoseconds of Unix time.
    #[must_use]
    pub fn new(part: Role, credentials: Credentials, started_unix_nanos: u64) -> Self {
        let Credentials { secret, agent, other, relay_key, relay_address, far_relay, sends, receives } =
            credentials;
        let node = if part == Role::Attacker {
            super::virtual_testbed::MALLORY
        } else {
            super::virtual_testbed::ACCOMPLICE
        };
        let peer = Peer { key: relay_key, address: relay_address };
        let mut scripted_peer = ScriptedPeer::with_keys(node, secret, peer, Purpose::AgentToRelay);
        (scripted_peer.incarnation, scripted_peer.handshake_timestamp) =
            (started_unix_nanos, started_unix_nanos);
        Self { peer: scripted_peer, agent, other, far_relay, sends, receives }
    }

    /// Returns an initiation that contains a grant.
    pub fn initiate(&mut self) -> Vec<u8> {
        let mut plaintext = Vec::new();
        if !self.receives.is_empty() {
            write(&self.register(FlowRole::Receiver, 1), &mut plaintext);
        }
        self.peer.initiate(0, &plaintext)
    }

    /// True if the session is established.
    #[must_use]
    pub const fn is_established(&self) -> bool {
        self.peer.is_established()
    }

    /// Handles a packet of the relay. Returns an answer, which maintains the session.
    pub fn on_packet(&mut self, packet: &[u8], now: Time) -> Option<Vec<u8>> {
        self.peer.on_packet(packet);
        let answers = self.peer.answers(now);
        if answers.is_empty() { None } else { self.peer.seal_messages(&answers) }
    }

    /// Returns the agent at the other end of the member's flows.
    pub(super) const fn other(&self) -> AgentId {
        self.other
    }

    /// Returns the key of the member's flow with this number, in this role.
    pub(super) fn flow(&self, role: FlowRole, number: u16) -> FlowKey {
        let (sender, receiver) = match role {
            FlowRole::Sender => (self.agent, self.other),
            FlowRole::Receiver => (self.other, self.agent),
        };
        flow_between(sender, receiver, FlowId::new(number))
    }

    /// Returns the registration of the member's flow with this number, in this role.
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
                adaptive_redundancy: false,
            },
            rate: KilobitsPerSecond::new(10_000),
            budget: Microseconds::from_duration(Duration::from_millis(250)),
            consent: byway_proto::limits::CONSENT,
            far_relay: self.far_relay,
            grant,
        })
    }

    /// Returns a datagram with as many registrations of these flows as fit, and their number.
    pub fn register_some(&mut self, role: FlowRole, numbers: &[u16]) -> (Option<Vec<u8>>, usize) {
        // A grant occupies about 250 bytes.
        let count_max = if self.receives.is_empty() { 15 } else { 3 };
        let numbers = &numbers[..numbers.len().min(count_max)];
        let messages = filled(numbers.iter().map(|number| self.register(role, *number)));
        (self.peer.seal_messages(&messages), numbers.len())
    }

    /// Returns a copy of a packet, as the flow's sender would send it to its relay.
    pub(super) fn copy(&mut self, alias: Alias, low_bits: u32, coded: &[u8]) -> Option<Vec<u8>> {
        self.peer.seal_envelope(EnvelopeRole::Copy, alias, low_bits, coded)
    }
}
