//! Published results, reproduced: experiments as files, their runs, verdicts and report.
//!
//! # Where to start
//! - [`Experiment::read`] reads a file, [`Experiment::run`] performs one of its runs, and
//!   [`Experiment::results`] combines the findings of all.
//! - [`score_calls`] scores calls that were measured elsewhere.
//! - [`Results`] is the content of a result file.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | [`limits`] | limits, with their reasons |
//! | `calls` | scores of calls measured elsewhere |
//! | `classes` | study of classes on shared links, with its own files and world |
//! | `decoding_bound` | upper bound for codes over several flows |
//! | `experiment` | validated experiments and their options |
//! | `findings` | measures and samples of one run |
//! | `flows` | study of flows: losses, repairs, times, costs |
//! | `model` | studies computed from tables: feasibility, cost and routes |
//! | `on_path` | codes and retransmissions on the direct path, for comparison |
//! | `raw` | settings of experiments, as in the file |
//! | `repair_floor` | least times in which services could repair a flow's losses |
//! | `report` | HTML page, terminal table, plots as SVG |
//! | `result` | content of a result file |
//! | `result_tables` | rows, tables and plots from findings |
//! | `run` | runs of an experiment |
//! | `selection` | study of the selected service of many flows |
//! | `state` | study of network state, with its own files and world |
//! | `target` | targets of rows |
//! | `test_records` | records of made-up flows, for tests |
//! | `timers` | NACK timers, compared on the same arrivals |
//! | `transfers` | study of TCP transfers |

pub mod limits;

mod calls;
mod classes;
mod decoding_bound;
mod experiment;
mod findings;
mod flows;
mod model;
mod on_path;
mod raw;
mod repair_floor;
mod report;
mod result;
mod result_tables;
mod run;
mod selection;
mod state;
mod target;
#[cfg(test)]
mod test_records;
mod timers;
mod transfers;

pub use calls::{CallError, CallScores, score_calls};
pub use experiment::{Experiment, Options, ReadFile, file_of};
pub use report::{markdown, page, svg, terminal};
pub use result::{Bound, Curve, Kind, Plot, Results, Row, Scale, StoppedRun, Table, World};
pub use run::Finding;
