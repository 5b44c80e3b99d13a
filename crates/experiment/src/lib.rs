//! Published results, reproduced: experiments as files, their runs, verdicts and report.
//!
//! # Where to start
//! - [`Experiment::read`] reads a file, [`Experiment::run`] does one of its runs, and [`Experiment::results`] says what all
//!   came to.
//! - [`score_calls`] says what people think of calls that were measured elsewhere.
//! - [`Results`] is what a result file has.

pub mod limits;

mod calls;
mod classes;
mod experiment;
mod findings;
mod flows;
mod ideal;
mod model;
mod on_path;
mod present;
mod report;
mod result;
mod run;
mod target;
mod timers;
mod transfers;
mod typed;

pub use calls::{CallScores, WrongCall, score_calls};
pub use experiment::{Experiment, Options, ReadFile, file_of};
pub use report::{page, svg, terminal};
pub use result::{Bound, Curve, Kind, Plot, Results, Row, Scale, StoppedRun, Table, World};
pub use run::Finding;
