//! The study of classes: what each gets of links that are shared, and what queues do to it.

mod hosts;
mod measures;
pub(crate) mod mos;
mod plan;
#[cfg(test)]
mod tests;
mod typed;
mod world;

use std::ops::ControlFlow;

use byway_scenario::{Halt, Progress, Stopped};

use crate::findings::Findings;

pub(crate) use plan::{Plan, read};

impl Plan {
    /// Runs it; `watch` is told now and then how far it is, and may end it.
    pub(crate) fn run(&self, seed: u64, watch: &mut dyn FnMut(&Progress) -> ControlFlow<Halt>) -> Findings {
        let (mut run, mut world) = world::build(self, seed);
        let length = self.length;
        let halted = world::advance(&mut run, &mut world, &mut |now, held| {
            watch(&Progress { now, length, held, lines: String::new(), capture: Vec::new() })
        });
        let mut findings = measures::reduce(&run, &world);
        findings.stopped = halted.map(|(now, halt)| Stopped::halted(now, halt));
        findings
    }
}
