//! How a scenario is run.

use std::ops::ControlFlow;

use byway_sim::{NodeId, Seed, World};
use byway_units::{Duration, Time};

use super::{Captured, Halt, Progress, Run, Trace, Watching};
use crate::build::{BuildError, Plan};
use crate::capture::Capture;
use crate::outcome::{Outcome, Stopped};
use crate::scenario::{Load, Scenario};
use crate::trace::Lines;

/// A run is looked at after each such part: what is read along stays small, and one who interrupts is heard.
const PART: Duration = Duration::from_millis(100);

impl Scenario {
    /// Whether all who have to reach each other do.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), BuildError> {
        Plan::new(self, Seed::new(self.seed)).map(drop)
    }

    /// Runs it in virtual time.
    ///
    /// # Errors
    /// If machines that have to reach each other do not, or if a flow is sent by programs or a router translates
    /// addresses, which only a lab has.
    pub fn run(&self, seed: u64) -> Result<Outcome, BuildError> {
        self.run_watched(seed, &Watching::default(), |_| ControlFlow::Continue(()))
    }

    /// Runs it in virtual time; `watch` is told after each tenth of a second of that how far it is, and may end it: what it has
    /// by then is the outcome, marked as such.
    ///
    /// # Errors
    /// If machines that have to reach each other do not, or if a flow is sent by programs or a router translates
    /// addresses, which only a lab has.
    pub fn run_watched(
        &self,
        seed: u64,
        watching: &Watching,
        mut watch: impl FnMut(Progress) -> ControlFlow<Halt>,
    ) -> Result<Outcome, BuildError> {
        if let Some(flow) =
            self.flows.iter().find(|flow| matches!(flow.load, Load::Programs(_) | Load::Captured(_)))
        {
            return Err(BuildError::Programs { place: flow.place.clone(), flow: flow.name.clone() });
        }
        if let Some((place, router)) =
            self.nodes.iter().find_map(|node| Some((node.nat.clone()?, node.name.clone())))
        {
            return Err(BuildError::Translates { place, router });
        }
        let own = Seed::new(seed);
        let plan = Plan::new(self, own)?;
        let mut world = plan.build();
        let mut run = Run::new(plan);
        if watching.trace != Trace::Nothing {
            let names = self.node_names().map(str::to_owned).collect();
            world.observer_mut().lines = Some(Lines::new(names, watching.trace == Trace::Packets));
        }
        if watching.capture != Captured::Nothing {
            let capture = self.capture(&world, &watching.capture)?;
            world.observer_mut().capture = Some(capture);
        }
        if watching.records {
            run.flows.iter_mut().for_each(|flow| flow.book.record());
        }
        run.begin(&mut world);
        let stopped = self.advance(&mut world, &mut run, &mut watch);
        Ok(run.outcome(&mut world, seed, stopped))
    }

    /// A capture of the links between machines of these names.
    fn capture(&self, world: &World<Run<'_>>, captured: &Captured) -> Result<Capture, BuildError> {
        let name = |node: NodeId| self.nodes[node.number() as usize].name.as_str();
        let all: Vec<(NodeId, NodeId)> = world.links().map(|(from, to, _)| (from, to)).collect();
        let joins = |link: &(NodeId, NodeId), ends: &[String; 2]| {
            let [one, other] = ends.each_ref().map(String::as_str);
            (name(link.0), name(link.1)) == (one, other) || (name(link.0), name(link.1)) == (other, one)
        };
        if let Captured::Links(wanted) = captured {
            let is_absent = |ends: &&[String; 2]| !all.iter().any(|link| joins(link, ends));
            if let Some([from, to]) = wanted.iter().find(is_absent) {
                return Err(BuildError::NoLink { from: from.clone(), to: to.clone() });
            }
        }
        let is_wanted = |link: &&(NodeId, NodeId)| match captured {
            Captured::Nothing => false,
            Captured::Everything => true,
            Captured::Links(wanted) => wanted.iter().any(|ends| joins(link, ends)),
        };
        let named =
            |link: &(NodeId, NodeId)| (link.0, link.1, format!("{} to {}", name(link.0), name(link.1)));
        Ok(Capture::new(all.iter().filter(is_wanted).map(named)))
    }

    /// Runs until the end, or until it cannot go on or `watch` does not let it.
    fn advance<'a>(
        &self,
        world: &mut World<Run<'a>>,
        run: &mut Run<'a>,
        watch: &mut impl FnMut(Progress) -> ControlFlow<Halt>,
    ) -> Option<Stopped> {
        let mut now = Duration::ZERO;
        while now < self.length {
            now = (now + PART).min(self.length);
            world.run_until(Time::START + now, run);
            let lines = world.observer_mut().lines.as_mut().map(Lines::take).unwrap_or_default();
            let capture = world.observer_mut().capture.as_mut().map(Capture::take).unwrap_or_default();
            let told = watch(Progress { now, length: self.length, held: run.held(world), lines, capture });
            match (run.stopped, told) {
                (Some(why), _) => return Some(Stopped::at(now, why, true)),
                (None, ControlFlow::Break(halt)) if now < self.length => {
                    return Some(Stopped::halted(now, halt));
                }
                (None, _) => {}
            }
        }
        None
    }
}
