//! Scenarios: a network, its flows, its faults and what is to come of them, in one file; and its run in virtual time, with the
//! state machines of production.
//!
//! ```
//! use byway_scenario::Scenario;
//!
//! let text = r#"
//! title = "A path that loses one packet in a hundred"
//! length = "10 s"
//! node = [
//!     { name = "alice", role = "agent" },
//!     { name = "bob", role = "agent" },
//!     { name = "east", role = "relay" },
//! ]
//! link = [
//!     { between = ["alice", "bob"], delay = "40 ms", loss = [{ share = "1 %" }] },
//!     { between = ["alice", "east"], delay = "10 ms" },
//!     { between = ["bob", "east"], delay = "30 ms" },
//! ]
//! flow = [
//!     { name = "call", from = "alice", to = "bob", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
//! ]
//! expect = [{ flow = "call", measure = "repaired-within-rtt", at_least = "99 %" }]
//! "#;
//! let scenario = Scenario::parse(text)?;
//! let result = scenario.run(scenario.seed())?;
//! assert!(result.is_met(), "{result:?}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//! - [`Scenario::read`] reads a file, [`Scenario::run`] runs it, [`Outcome`] is what came of it.
//! - [`reference()`] is the page on the format.

pub mod change;
pub mod classes;
pub mod limits;
pub mod pcapng;

mod applications;
mod books;
mod build;
mod capture;
mod command;
mod conversation;
mod frames;
mod import;
mod machine;
mod meaning;
mod measure;
mod network;
mod outcome;
mod record;
mod reference;
mod routes;
mod run;
mod scenario;
mod swarm;
mod trace;
mod typed;
mod uplink;
mod watch;

pub use build::BuildError;
pub use command::{Command, Life, Placeholder, Ready, Template};
pub use import::{ImportError, MeasuredFormat, import_delays, import_trace};
pub use network::{
    MachineRole, Network, NetworkChange, NetworkDatagram, NetworkFlow, NetworkLink, NetworkMachine,
    NetworkStep, NetworkTraffic,
};
pub use outcome::{
    ClassOutcome, ClassesOutcome, FlowOutcome, LinkOutcome, NodeOutcome, Outcome, Quantiles, RepairedBy,
    Stopped, Subject, TailQuantiles, TransfersOutcome, Verdict,
};
pub use record::{ConversationRecord, Fate, FlowRecord, LossPlace, OverlayDelays, Terms, Transfer, Way};
pub use reference::reference;
pub use run::{Captured, Halt, Progress, Trace, Watching};
pub use scenario::{CapturedCopies, CapturedTraffic, ProgramEnds, Scenario};
pub use swarm::{swarm_faults, swarm_files, swarm_scenario};
pub use uplink::{NoUplink, TypedUplink};
