//! What runs in virtual time may take of the machine: real time and memory.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Instant;

use byway_scenario::{Halt, Progress};
use byway_typed::{TypedBytes, TypedDuration};
use byway_units::{Bytes, Duration};

use crate::interrupt;

/// What each run may take of real time, and all that are under way together of memory.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Allowance {
    /// Ends a run after so much real time: what it has by then is marked as stopped, and is not the same each time.
    #[arg(long, value_name = "TIME")]
    pub(crate) at_most: Option<TypedDuration>,
    /// Ends a run when it holds more than its part of this: all that are under way share it.
    ///
    /// As many run at a time as there are cores, and with as many, a run ends at the same place each time. Counted are packets under
    /// way, books of what may still arrive, tables of delays, and records; not machines (some 20 kB each, and what relays and agents
    /// keep, up to their own limits), recordings that scenarios name, and results of runs that are over.
    #[arg(long, value_name = "BYTES", default_value = "4 GB")]
    pub(crate) memory: TypedBytes,
}

/// A run that is looked after.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    at_most: Option<TypedDuration>,
    /// The part of this run.
    memory: Bytes,
    began: Instant,
}

impl Allowance {
    /// A run begins, one of so many at a time.
    #[allow(clippy::disallowed_methods, reason = "this is the clock of runs in virtual time")]
    pub(crate) fn begin(self, at_a_time: NonZero<usize>) -> Guard {
        let memory = Bytes::new(self.memory.0.count() / at_a_time.get() as u64);
        Guard { at_most: self.at_most, memory, began: Instant::now() }
    }
}

impl Guard {
    /// Whether a run that is so far goes on.
    pub(crate) fn look(&self, progress: &Progress) -> ControlFlow<Halt> {
        let took = Duration::try_from(self.began.elapsed()).unwrap_or(Duration::MAX);
        match self.at_most {
            _ if interrupt::check().is_err() => ControlFlow::Break(Halt::Unwanted),
            Some(most) if took >= most.0 => ControlFlow::Break(Halt::RealTime(most.0)),
            _ if progress.held > self.memory => ControlFlow::Break(Halt::Memory(self.memory)),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_at_a_time_share_the_memory() {
        let allowance = Allowance { at_most: None, memory: TypedBytes(Bytes::new(4_000)) };
        let look = |at_a_time, held| {
            let guard = allowance.begin(NonZero::new(at_a_time).expect("some"));
            let (now, length) = (Duration::ZERO, Duration::from_secs(1));
            guard.look(&Progress {
                now,
                length,
                held: Bytes::new(held),
                lines: String::new(),
                capture: Vec::new(),
            })
        };
        let beyond = |memory| ControlFlow::Break(Halt::Memory(Bytes::new(memory)));
        assert_eq!([look(1, 4_000), look(1, 4_001)], [ControlFlow::Continue(()), beyond(4_000)]);
        assert_eq!([look(4, 1_000), look(4, 1_001)], [ControlFlow::Continue(()), beyond(1_000)]);
    }
}
