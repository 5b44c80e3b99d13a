//! Study of network state: queues and rates of links whose senders know their state, beside TCP.

mod hosts;
mod measures;
mod plan;
mod raw;
mod reports;
#[cfg(test)]
mod tests;
mod world;

use std::ops::ControlFlow;

use byway_scenario::{Interruption, Progress, StopReason};

use crate::findings::Findings;

pub(crate) use plan::{StatePlan, read};

impl StatePlan {
    /// Runs the plan with this seed and returns its findings. Calls `watch` regularly with the
    /// progress; `watch` may stop the run.
    pub(crate) fn run(
        &self,
        seed: u64,
        watch: &mut dyn FnMut(&Progress) -> ControlFlow<StopReason>,
    ) -> Findings {
        let (mut run, mut world) = world::build(self, seed);
        let length = self.length;
        let halted = world::advance(&mut run, &mut world, &mut |now, memory| {
            watch(&Progress { now, length, memory, lines: String::new(), capture: Vec::new() })
        });
        let mut findings = measures::reduce(&run);
        findings.stopped = halted.map(|(now, halt)| Interruption::from_stop_reason(now, halt));
        findings
    }
}
