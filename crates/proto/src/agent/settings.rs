//! What an agent is told: who it is, whom it talks to, and what its flows ask for.

use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{AgentId, Duration, FlowId, Rate, RelayId};
use byway_wire::messages::Consent;
use byway_wire::seal::{PreSharedKey, PublicKey, StaticSecret, Suite};
use byway_wire::{FlowKey, Service, Shard};

use crate::limits::CONSENT;
use crate::policy::{CodingRates, copies, is_direct};

/// Who the agent is.
#[derive(Debug)]
pub struct AgentIdentity {
    /// Its number, under which all its flows are sealed.
    pub number: AgentId,
    /// Its long-term secret.
    pub secret: StaticSecret,
    /// The suite it chooses when it initiates: the faster one on its processor.
    pub suite: Suite,
    /// The driver's start in nanoseconds of Unix time: makes initiations rise from one run to the next.
    pub started_unix_nanos: u64,
}

/// An agent to talk to.
#[derive(Debug)]
pub struct Peer {
    /// Its number.
    pub number: AgentId,
    /// Its public key.
    pub key: PublicKey,
    /// A secret that both know beside their keys; zeros for none.
    pub pre_shared: PreSharedKey,
    /// Where it may be reached directly, tried in turn. Behind a NAT none may be known.
    pub addresses: Vec<SocketAddr>,
}

/// One shard of a relay.
#[derive(Clone, Debug)]
pub struct RelayPeer {
    /// The relay's number.
    pub number: RelayId,
    /// Which of its shards.
    pub shard: Shard,
    /// Its public key.
    pub key: PublicKey,
    /// Where it is.
    pub address: SocketAddr,
}

/// A way through the overlay, and the right to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPath {
    /// The relay near the sender, with its shard.
    pub ingress: (RelayId, Shard),
    /// The relay near the receiver, with its shard; the same one for a partial overlay.
    pub egress: (RelayId, Shard),
    /// The signed grant; empty where the relays' static configuration implies it.
    pub grant: Vec<u8>,
}

/// Which of a flow's packets the ingress relay gets.
#[derive(Clone, Copy, Debug, Default)]
pub enum Duplication {
    /// All of them; of congestion-controlled traffic those the application marked, since its bulk data is not for
    /// copying (RFC 9265).
    #[default]
    Usual,
    /// All of them, whatever they carry.
    All,
    /// Those the application marked.
    Marked,
    /// Those the predicate chooses: a key frame, a SYN, the last segment of a burst.
    Chosen(fn(&[u8]) -> bool),
    /// All, and the direct path gets none from here: the relay sends on what it gets. For uplinks that cannot
    /// carry two copies.
    ByRelay,
    /// None: this end makes the in-stream repair packets, and the ingress relay gets those instead. For uplinks that
    /// cannot carry copies at all; of use to the coding service alone.
    OwnRepairs,
}

impl Duplication {
    /// Whether this datagram of a flow that carries `traffic` goes to the ingress relay.
    #[must_use]
    pub fn takes(self, traffic: Traffic, datagram: &[u8], marked: bool) -> bool {
        match self {
            Self::All | Self::ByRelay => true,
            Self::Usual => marked || traffic != Traffic::CongestionControlled,
            Self::Marked => marked,
            Self::OwnRepairs => false,
            Self::Chosen(chooses) => chooses(datagram),
        }
    }

    /// Whether some datagrams of a flow that carries `traffic` are left out.
    #[must_use]
    pub const fn is_selective(self, traffic: Traffic) -> bool {
        match self {
            Self::All | Self::ByRelay | Self::OwnRepairs => false,
            Self::Usual => matches!(traffic, Traffic::CongestionControlled),
            Self::Marked | Self::Chosen(_) => true,
        }
    }
}

/// What a flow carries, as far as repairs must mind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traffic {
    /// Datagrams whose order does not matter.
    #[default]
    Datagrams,
    /// TCP or QUIC, which take a packet that stays out for a quarter of a round trip for lost, and lost packets
    /// for congestion: what follows a gap is held back that long, no longer, and only if a repair can come meanwhile.
    /// What cannot be repaired by then is not repaired.
    CongestionControlled,
    /// Both at once, and nobody can tell which packets are which, as in a tunnel that encrypts: all are copied, and
    /// delivered as they come. What is lost while packets queue on the direct path is a sign of congestion for those
    /// who heed it, and stays lost (RFC 9265); all other losses are repaired.
    Mixture,
}

/// One flow, as both its ends are told.
#[derive(Clone, Debug)]
pub struct FlowSettings {
    /// What the overlay does for it.
    pub service: Service,
    /// How it is coded.
    pub rates: CodingRates,
    /// What it sends at most.
    pub rate: Rate,
    /// From sending to delivery; what comes later is lost.
    pub latency_budget: Duration,
    /// The ways through the overlay, best first. Those after the first stand by. Several may begin at one
    /// ingress relay, where the flow is registered once for each egress relay.
    pub paths: Vec<RelayPath>,
    /// Which packets are copied.
    pub duplication: Duplication,
    /// What it carries.
    pub traffic: Traffic,
    /// Whether copies wait for the first losses. Nothing waits where the relay is the packets' only way: with
    /// forwarding, and with [`Duplication::ByRelay`].
    pub standby: bool,
    /// Whether it may be coded with other tenants' flows.
    pub shares: bool,
    /// What its receiver gives for others.
    pub consent: Consent,
}

impl FlowSettings {
    /// Whether the flow's packets have no way but through a relay: what it gets is then no copy.
    pub(super) const fn needs_relay(&self) -> bool {
        copies(self.service) && (!is_direct(self.service) || matches!(self.duplication, Duplication::ByRelay))
    }

    /// Whether the ingress relay gets nothing before the first losses.
    pub(super) const fn waits_for_losses(&self) -> bool {
        self.standby && !self.needs_relay()
    }
}

impl Default for FlowSettings {
    fn default() -> Self {
        Self {
            service: Service::Internet,
            rates: CodingRates::default(),
            rate: Rate::from_megabits_per_second(2),
            latency_budget: Duration::from_millis(250),
            paths: Vec::new(),
            duplication: Duplication::Usual,
            traffic: Traffic::Datagrams,
            standby: false,
            shares: false,
            consent: CONSENT,
        }
    }
}

/// The flow from `sender` to `receiver` with this number.
#[must_use]
pub fn flow_between(sender: AgentId, receiver: AgentId, flow: FlowId) -> FlowKey {
    FlowKey::new(sender, byway_wire::Receiver::Agent(receiver), flow)
}
