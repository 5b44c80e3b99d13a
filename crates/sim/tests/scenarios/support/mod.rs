//! An overlay of any shape, its applications, and the books about them.

mod adversary;
mod books;
mod hostile;
mod identities;
mod liar;
mod node;
mod plan;
mod run;
mod spy;

pub(crate) use adversary::{Additions, Adversary};
pub(crate) use books::{Books, Budget, Crossing};
pub(crate) use byway_sim::overlay::cast::address;
pub(crate) use hostile::Members;
pub(crate) use identities::{AGENTS, RELAYS, agent_number, relay_card};
pub(crate) use liar::Lie;
pub(crate) use node::{Node, Parcel};
pub(crate) use plan::{ARRANGEMENTS, AgentPlan, FlowPlan, Plan, access};
pub(crate) use run::{Fate, Got, OverlayWorld, Run};
pub(crate) use spy::Seen;

use byway_units::{Duration, Probability, Time};

pub(crate) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The instant so many milliseconds after the start.
pub(crate) const fn at(millis: u64) -> Time {
    Time::START.saturating_add(ms(millis))
}

pub(crate) fn share(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}
