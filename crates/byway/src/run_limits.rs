//! Limits of runs in virtual time: the real time and the memory of the machine that they may use.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Instant;

use byway_config_types::{BytesSetting, DurationSetting};
use byway_scenario::{Progress, StopReason};
use byway_units::{Bytes, Duration};

use crate::interrupt;

/// Limits of real time for each run, and of memory for all concurrent runs.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct RunLimits {
    /// End a run after this real time.
    ///
    /// Its results so far are marked as stopped, and are not reproducible.
    #[arg(long, value_name = "TIME")]
    pub(crate) at_most: Option<DurationSetting>,
    /// End a run when it exceeds its part of this memory, which all concurrent runs share.
    ///
    /// As many runs are concurrent as there are cores. With the same number, a run ends at the same
    /// point each time. The count includes packets in flight, ledgers of packets that may still
    /// arrive, tables of delays, and records. It excludes machines (some 20 kB each, and the
    /// buffers of relays and agents, up to their own limits), recordings that scenarios name, and
    /// results of finished runs.
    #[arg(long, value_name = "BYTES", default_value = "4 GB")]
    pub(crate) memory: BytesSetting,
}

/// Monitor of one run in virtual time against its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunMonitor {
    at_most: Option<DurationSetting>,
    /// Memory that this run may use: an equal part of the limit for all concurrent runs.
    memory: Bytes,
    began: Instant,
}

impl RunLimits {
    /// Returns the monitor of a run that starts now, as one of `at_a_time` concurrent ones.
    #[allow(clippy::disallowed_methods, reason = "this is the clock of runs in virtual time")]
    pub(crate) fn start(self, at_a_time: NonZero<usize>) -> RunMonitor {
        let memory = Bytes::new(self.memory.0.count() / at_a_time.get() as u64);
        RunMonitor { at_most: self.at_most, memory, began: Instant::now() }
    }
}

impl RunMonitor {
    /// Checks a run's real time and memory against its limits. Returns the reason to stop if it
    /// exceeds one, or the user interrupts the program.
    pub(crate) fn check(&self, progress: &Progress) -> ControlFlow<StopReason> {
        let took = Duration::try_from(self.began.elapsed()).unwrap_or(Duration::MAX);
        match self.at_most {
            _ if interrupt::check().is_err() => ControlFlow::Break(StopReason::Cancelled),
            Some(most) if took >= most.0 => ControlFlow::Break(StopReason::RealTime(most.0)),
            _ if progress.memory > self.memory => ControlFlow::Break(StopReason::Memory(self.memory)),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_at_a_time_share_the_memory() {
        let allowance = RunLimits { at_most: None, memory: BytesSetting(Bytes::new(4_000)) };
        let look = |at_a_time, held| {
            let guard = allowance.start(NonZero::new(at_a_time).expect("some"));
            let (now, length) = (Duration::ZERO, Duration::from_secs(1));
            guard.check(&Progress {
                now,
                length,
                memory: Bytes::new(held),
                lines: String::new(),
                capture: Vec::new(),
            })
        };
        let beyond = |memory| ControlFlow::Break(StopReason::Memory(Bytes::new(memory)));
        assert_eq!([look(1, 4_000), look(1, 4_001)], [ControlFlow::Continue(()), beyond(4_000)]);
        assert_eq!([look(4, 1_000), look(4, 1_001)], [ControlFlow::Continue(()), beyond(1_000)]);
    }
}
