//! Adversaries of a restarting agent, and the guarantees against them.

use byway_units::Time;

use crate::harness::net::Packet;
use crate::harness::topology::NodeId;

/// The restarting agent: the receiver of the honest flow.
pub(super) const RESTARTED: NodeId = NodeId::Agent(2);

/// A node that sends its own packets.
pub(super) trait Adversary {
    /// Returns the packets that the adversary sends when it observes an initiation of the agent.
    fn see(&mut self, _initiation: &Packet, _now: Time) -> Vec<Packet> {
        Vec::new()
    }

    /// Returns the next packet of the adversary's flood; `None` if it sends none.
    fn flood(&mut self) -> Option<Packet> {
        None
    }

    /// Handles a packet that arrives at an address of the adversary.
    fn on_packet(&mut self, _packet: &Packet) {}
}

struct Nobody;

impl Adversary for Nobody {}

/// External port that the agent's NAT assigns after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NatPort {
    Same,
    New,
}

/// Guarantee for a restarted agent in the presence of an adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// The agent's handshakes take no longer than without an adversary.
    NoLater,
    /// Each handshake of the agent completes in time.
    InTime,
    /// The agent has no guarantee; the result is still measured.
    Nothing,
}

/// An adversary of a restarting agent, with its scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Siege {
    pub(super) name: &'static str,
    pub(super) begin: fn() -> Box<dyn Adversary>,
    pub(super) port: NatPort,
    pub(super) promise: Promise,
}

impl Siege {
    /// Control, in which no adversary acts.
    pub(super) const QUIET: Self =
        Self { name: "nobody", begin: || Box::new(Nobody), port: NatPort::Same, promise: Promise::InTime };
}
