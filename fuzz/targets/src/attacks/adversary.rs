//! Adversaries of an agent that restarts, and what holds beside them.

use byway_units::Time;

use crate::harness::net::Packet;
use crate::harness::topology::NodeId;

/// The agent that restarts: the receiver of the honest flow.
pub(super) const RESTARTED: NodeId = NodeId::Agent(2);

/// Somebody who sends packets of its own.
pub(super) trait Adversary {
    /// Returns packets in answer to an initiation that it sees.
    fn see(&mut self, _initiation: &Packet, _now: Time) -> Vec<Packet> {
        Vec::new()
    }

    /// Returns its next packet of a flood, if it sends one.
    fn flood(&mut self) -> Option<Packet> {
        None
    }

    /// Takes a packet to an address of its own.
    fn take(&mut self, _packet: &Packet) {}
}

struct Nobody;

impl Adversary for Nobody {}

/// The outside port that an agent's NAT gives it after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NatPort {
    Same,
    New,
}

/// What holds for a restarted agent beside an adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Its sessions take no longer than beside nobody.
    NoLater,
    /// It gets each in time.
    InTime,
    /// None: what happens is measured all the same.
    Nothing,
}

/// An adversary of an agent that restarts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Siege {
    pub(super) name: &'static str,
    pub(super) begin: fn() -> Box<dyn Adversary>,
    pub(super) port: NatPort,
    pub(super) promise: Promise,
}

impl Siege {
    /// The control.
    pub(super) const QUIET: Self =
        Self { name: "nobody", begin: || Box::new(Nobody), port: NatPort::Same, promise: Promise::InTime };
}
