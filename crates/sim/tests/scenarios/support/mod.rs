//! An overlay of any shape, its applications, and the ledgers of their deliveries.

mod adversary;
mod faulty_relay;
mod hostile;
mod identities;
mod node;
mod plan;
mod recording_ciphers;
mod run;
mod traffic_recorder;

pub(crate) use adversary::{Adversary, InjectedPackets};
pub(crate) use byway_sim::overlay::topology::address;
pub(crate) use faulty_relay::Misbehaviour;
pub(crate) use hostile::Members;
pub(crate) use identities::{AGENTS, RELAYS, agent_number, relay_node};
pub(crate) use node::{InjectedDatagram, TestNode};
pub(crate) use plan::{ARRANGEMENTS, AgentPlan, FlowPlan, Plan, access};
pub(crate) use recording_ciphers::CipherLog;
pub(crate) use run::{DeliveredPacket, FlowSummary, OverlayWorld, Run};
pub(crate) use traffic_recorder::{ObservedPacket, TokenBucket, TrafficRecorder};

use byway_units::{Duration, Probability, Time};

pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns the instant this many milliseconds after the start.
pub(crate) const fn at(millis: u64) -> Time {
    Time::START.saturating_add(ms(millis))
}

pub(crate) fn share(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}
