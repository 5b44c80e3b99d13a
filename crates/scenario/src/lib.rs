//! Scenarios: a network, its flows, its faults and its expected results in one file, and their run
//! in virtual time with the production state machines.
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
//!     { name = "call", from = "alice", to = "bob",
//!       sends = { kind = "steady", every = "10 ms", bytes = 500 } },
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
//! - [`Scenario::read`] reads a file, [`Scenario::run`] runs it, and [`Outcome`] is the result.
//! - [`reference()`] is the reference page of the format.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `build` | construction of a world from a scenario and a seed |
//! | `capture` | captures of links, as IP packets |
//! | [`change`] | overrides of a scenario's values |
//! | [`classes`] | packet schedulers of links |
//! | `command` | programs that a lab runs |
//! | `conversation` | applications over TCP |
//! | `costs` | bytes of relays by destination, and their costs |
//! | `delivery_counts` | packets by their outcome, and histograms of times |
//! | `delivery_ledger` | outcome of each packet of a flow |
//! | `explanation` | explanations of services, and what was measured after them |
//! | `flow_service` | service of a flow |
//! | `frames` | recorded frame sizes of a video |
//! | `import` | loss and delay traces from the output of other tools |
//! | [`limits`] | all limits of scenarios, with their reasons |
//! | `machine` | machines as hosts of the world |
//! | `measure` | measures of flows and links |
//! | `network` | a scenario's network, for the lab |
//! | `observer` | lost packets, trace and capture of a run |
//! | `outcome` | results of a run, and verdicts on its expectations |
//! | [`pcapng`] | capture files for Wireshark |
//! | `raw` | raw settings, key by key |
//! | `record` | record of every packet and transfer |
//! | `reference` | reference page of the format |
//! | `routes` | shortest paths through routers |
//! | `run` | run in virtual time |
//! | `scenario` | validated scenarios |
//! | `send_schedule` | send schedules of applications |
//! | `swarm` | random scenarios |
//! | `trace` | readable trace of a run |
//! | `uplink` | uplink settings of relays |
//! | `validation` | conversion of raw settings, and all checks |

pub mod change;
pub mod classes;
pub mod limits;
pub mod pcapng;

mod build;
mod capture;
mod command;
mod conversation;
mod costs;
mod delivery_counts;
mod delivery_ledger;
mod explanation;
mod flow_service;
mod frames;
mod import;
mod machine;
mod measure;
mod network;
mod observer;
mod outcome;
mod raw;
mod record;
mod reference;
mod routes;
mod run;
mod scenario;
mod send_schedule;
mod swarm;
mod trace;
mod uplink;
mod validation;

pub use build::BuildError;
pub use command::{Command, Lifecycle, Placeholder, ReadinessCheck, Template};
pub use costs::{CostOutcome, RelayCostOutcome};
pub use delivery_counts::{Quantiles, RepairCounts};
pub use explanation::{ExplanationOutcome, MeasuredOutcome, PredictionOutcome};
pub use flow_service::FlowService;
pub use import::{ImportError, MeasurementFormat, import_delays, import_trace};
pub use network::{
    MachineRole, Network, NetworkChange, NetworkDatagram, NetworkFlow, NetworkLink, NetworkMachine,
    NetworkStep, NetworkTraffic,
};
pub use outcome::{
    ClassOutcome, ClassesOutcome, FlowOutcome, Interruption, LinkOutcome, NodeOutcome, Outcome, Subject,
    TailQuantiles, TransfersOutcome, Verdict,
};
pub use record::{
    ConversationRecord, DeliveryMethod, DeliveryTerms, FlowRecord, LossLocation, OverlayDelays, PacketRecord,
    Transfer,
};
pub use reference::reference;
pub use run::{CaptureFilter, Progress, RecordOptions, StopReason, TraceLevel};
pub use scenario::{CapturedCopies, CapturedTraffic, ProgramEnds, Scenario};
pub use swarm::{swarm_faults, swarm_files, swarm_scenario};
pub use uplink::{UplinkError, UplinkSetting};
