//! What a run in virtual time may take of the machine: real time and memory.

use std::ops::ControlFlow;
use std::time::Instant;

use byway_scenario::{Halt, Progress};
use byway_typed::{TypedBytes, TypedDuration};
use byway_units::Duration;

use crate::interrupt;

/// What each run may take.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Allowance {
    /// Ends a run after so much real time: what it has by then is marked as stopped, and is not the same each time.
    #[arg(long, value_name = "TIME")]
    pub(crate) at_most: Option<TypedDuration>,
    /// Ends a run when its packets under way, its books and its records hold more, at the same place each time.
    #[arg(long, value_name = "BYTES", default_value = "4 GB")]
    pub(crate) memory: TypedBytes,
}

/// A run that is looked after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    allowance: Allowance,
    began: Instant,
}

impl Allowance {
    /// A run begins.
    #[allow(clippy::disallowed_methods, reason = "this is the clock of runs in virtual time")]
    pub(crate) fn begin(self) -> Guard {
        Guard { allowance: self, began: Instant::now() }
    }
}

impl Guard {
    /// Whether a run that is so far goes on.
    pub(crate) fn look(&self, progress: &Progress) -> ControlFlow<Halt> {
        let took = Duration::try_from(self.began.elapsed()).unwrap_or(Duration::MAX);
        let Allowance { at_most, memory } = self.allowance;
        match at_most {
            _ if interrupt::check().is_err() => ControlFlow::Break(Halt::Unwanted),
            Some(most) if took >= most.0 => ControlFlow::Break(Halt::RealTime(most.0)),
            _ if progress.held > memory.0 => ControlFlow::Break(Halt::Memory(memory.0)),
            _ => ControlFlow::Continue(()),
        }
    }
}
