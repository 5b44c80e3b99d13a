//! Entry points of a scenario's run, and its main loop.

use std::ops::ControlFlow;

use byway_sim::{NodeId, Seed, World};
use byway_units::{Duration, Time};

use super::{CaptureFilter, Progress, RecordOptions, Run, StopReason, TraceLevel};
use crate::build::{BuildError, Plan};
use crate::capture::Capture;
use crate::outcome::{Interruption, Outcome};
use crate::scenario::{Load, Scenario};
use crate::trace::TraceText;

/// Interval at which a run calls its observer: the trace stays short, and an interrupt takes effect
/// soon.
const PART: Duration = Duration::from_millis(100);

impl Scenario {
    /// Checks the routes between all machines that exchange packets.
    ///
    /// # Errors
    /// If a route is missing.
    pub fn check(&self) -> Result<(), BuildError> {
        Plan::new(self, Seed::new(self.seed)).map(drop)
    }

    /// Runs the scenario in virtual time and returns its outcome.
    ///
    /// # Errors
    /// If a route is missing, or if programs send a flow or a router translates
    /// addresses, which only a lab supports.
    pub fn run(&self, seed: u64) -> Result<Outcome, BuildError> {
        self.run_observed(seed, &RecordOptions::default(), |_| ControlFlow::Continue(()))
    }

    /// Runs the scenario in virtual time, and calls `watch` with the progress after each tenth of a
    /// second of virtual time. `watch` may stop the run; the outcome is then marked as partial.
    ///
    /// # Errors
    /// If a route is missing, or if programs send a flow or a router translates
    /// addresses, which only a lab supports.
    pub fn run_observed(
        &self,
        seed: u64,
        watching: &RecordOptions,
        mut watch: impl FnMut(Progress) -> ControlFlow<StopReason>,
    ) -> Result<Outcome, BuildError> {
        if let Some(flow) =
            self.flows.iter().find(|flow| matches!(flow.load, Load::Programs(_) | Load::Captured(_)))
        {
            return Err(BuildError::Programs { location: flow.location.clone(), flow: flow.name.clone() });
        }
        if let Some((location, router)) =
            self.nodes.iter().find_map(|node| Some((node.nat.clone()?, node.name.clone())))
        {
            return Err(BuildError::Translates { location, router });
        }
        let own = Seed::new(seed);
        let plan = Plan::new(self, own)?;
        let mut world = plan.build();
        let mut run = Run::new(plan);
        if watching.trace != TraceLevel::Nothing {
            let names = self.node_names().map(str::to_owned).collect();
            world.observer_mut().trace = Some(TraceText::new(names, watching.trace == TraceLevel::Packets));
        }
        if watching.capture != CaptureFilter::Nothing {
            let capture = self.capture(&world, &watching.capture)?;
            world.observer_mut().capture = Some(capture);
        }
        if watching.records {
            run.flows.iter_mut().for_each(|flow| flow.ledger.enable_recording());
        }
        run.begin(&mut world);
        let stopped = self.advance(&mut world, &mut run, &mut watch);
        Ok(run.outcome(&mut world, seed, stopped))
    }

    /// Returns a capture of the links between machines of these names.
    fn capture(&self, world: &World<Run<'_>>, captured: &CaptureFilter) -> Result<Capture, BuildError> {
        let name = |node: NodeId| self.nodes[node.number() as usize].name.as_str();
        let all: Vec<(NodeId, NodeId)> = world.links().map(|(from, to, _)| (from, to)).collect();
        let joins = |link: &(NodeId, NodeId), ends: &[String; 2]| {
            let [one, other] = ends.each_ref().map(String::as_str);
            (name(link.0), name(link.1)) == (one, other) || (name(link.0), name(link.1)) == (other, one)
        };
        if let CaptureFilter::Links(wanted) = captured {
            let is_absent = |ends: &&[String; 2]| !all.iter().any(|link| joins(link, ends));
            if let Some([from, to]) = wanted.iter().find(is_absent) {
                return Err(BuildError::NoLink { from: from.clone(), to: to.clone() });
            }
        }
        let is_wanted = |link: &&(NodeId, NodeId)| match captured {
            CaptureFilter::Nothing => false,
            CaptureFilter::Everything => true,
            CaptureFilter::Links(wanted) => wanted.iter().any(|ends| joins(link, ends)),
        };
        let named =
            |link: &(NodeId, NodeId)| (link.0, link.1, format!("{} to {}", name(link.0), name(link.1)));
        Ok(Capture::new(all.iter().filter(is_wanted).map(named)))
    }

    /// Advances the world until the scenario's end, until the run cannot continue, or until `watch`
    /// stops it.
    fn advance<'a>(
        &self,
        world: &mut World<Run<'a>>,
        run: &mut Run<'a>,
        watch: &mut impl FnMut(Progress) -> ControlFlow<StopReason>,
    ) -> Option<Interruption> {
        let mut now = Duration::ZERO;
        while now < self.length {
            now = (now + PART).min(self.length);
            world.run_until(Time::START + now, run);
            let lines = world.observer_mut().trace.as_mut().map(TraceText::drain).unwrap_or_default();
            let capture = world.observer_mut().capture.as_mut().map(Capture::drain).unwrap_or_default();
            let decision =
                watch(Progress { now, length: self.length, memory: run.memory(world), lines, capture });
            match (run.stopped, decision) {
                (Some(why), _) => return Some(Interruption::at(now, why, true)),
                (None, ControlFlow::Break(reason)) if now < self.length => {
                    return Some(Interruption::from_stop_reason(now, reason));
                }
                (None, _) => {}
            }
        }
        None
    }
}
