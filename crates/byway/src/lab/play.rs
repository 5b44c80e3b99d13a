//! A run: machines, what is between them, and what is in them, in real time.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use byway_lab::Carrier;
use byway_net::Clock;
use byway_scenario::{MachineRole, Network, NetworkChange, Scenario};
use byway_units::{Duration, Time};
use rustix::process::Signal;

use super::commands::{Commands, Filled, Filling};
use super::judging::{self, Judged};
use super::nodes::{Nodes, not_made};
use super::outcome::{self, CarrierOutcome, LabOutcome};
use super::tally::Tally;
use super::traffic::{self, Ends, Fates};
use super::world::World;
use crate::exit::Failure;
use crate::interrupt;

/// How long flows may take until each has brought a datagram: agents meet their peers and relays meanwhile.
const FLOWS_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked whether all works.
const GLANCE: Duration = Duration::from_millis(20);

/// How long what was tried last may take, before anything counts.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// How long what was sent last may take.
const GRACE: Duration = Duration::from_secs(2);

/// Below a run's folder: what nodes have, and what commands have.
const NODES: &str = "nodes";
/// See [`NODES`].
const COMMANDS: &str = "commands";

/// A run that is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) network: &'a Network,
    pub(super) seed: u64,
    pub(super) world: World,
    /// The scenario's folder.
    pub(super) here: &'a Path,
    /// Where it is written down what machines send and receive, if that is wanted.
    pub(super) capture: Option<&'a Path>,
}

/// A run at work.
struct Stage<'a> {
    run: Run<'a>,
    nodes: Nodes,
    commands: Commands,
    carrier: Carrier,
    tally: Tally,
    clock: Clock,
}

impl Run<'_> {
    /// The commands of the scenario, as they are started with their folders in this one.
    ///
    /// # Errors
    /// If a program is not there.
    pub(super) fn commands(&self, folder: &Path) -> Result<Vec<Filled>, Failure> {
        let Self { network, world, here, .. } = *self;
        let byway = std::env::current_exe().map_err(Failure::machine)?;
        let filling = Filling { network, world, here, byway: &byway, folder: &folder.join(COMMANDS) };
        self.scenario.commands().iter().map(|command| filling.filled(command)).collect()
    }

    /// Does it, with its files in this folder.
    pub(super) fn play(self, folder: &Path) -> anyhow::Result<LabOutcome> {
        let commands = Commands::new(self.commands(folder)?, &folder.join(COMMANDS));
        commands.write_files()?;
        let clock = Clock::start();
        let (mut nodes, carrier) =
            Nodes::new(self.network, self.seed, self.world, &folder.join(NODES), self.capture, clock)?;
        if self.world.has_nodes() {
            nodes.start_all(self.network, self.world == World::Byway, clock)?;
        }
        let tally = Tally::new(self.network, &nodes);
        let mut stage = Stage { run: self, nodes, commands, carrier, tally, clock };
        stage.commands.start_services(&stage.nodes, clock)?;
        let ends = stage.nodes.ends(self.network, self.world)?;
        let silent = traffic::try_flows(&ends, FLOWS_WITHIN, clock)?;
        if let Some(place) = silent.first() {
            let name = &self.network.flows[*place].name;
            eprintln!(
                "note: flow {name:?} brought nothing within {FLOWS_WITHIN}; the run begins all the same"
            );
        }
        stage.wait_until(clock.now() + SETTLES_WITHIN, None)?;
        stage.tally = Tally::new(self.network, &stage.nodes);
        stage.play(&ends)
    }

    fn judged(&self, outcome: &LabOutcome) -> Judged {
        let expected = self.scenario.expectations();
        // What is expected is expected of Byway, unless it has nothing to do.
        if self.world != World::Byway && !self.network.flows.is_empty() {
            return Judged { verdicts: Vec::new(), left: expected };
        }
        judging::judge(expected, &outcome.flows, &outcome.commands, &outcome.links)
    }
}

impl Stage<'_> {
    fn play(mut self, ends: &[Option<Ends>]) -> anyhow::Result<LabOutcome> {
        let played = self.in_time(ends);
        let Self { run, nodes, commands, carrier, tally, clock } = self;
        let tallied = played.and_then(|fates| {
            let tallied = tally.close(run.network, &nodes);
            Ok((fates, tallied, commands.end(clock)?))
        });
        // A carrier that ended by itself knows why, and others only that it did.
        let did = carrier.stop().map_err(not_made)?;
        let (fates, tallied, commands) = tallied?;
        let outcome = LabOutcome {
            title: run.scenario.title().to_owned(),
            seed: run.seed,
            world: run.world,
            flows: outcome::of_flows(run.network, &fates, &tallied.flows),
            commands,
            nodes: outcome::of_nodes(run.network, &did.machines, &tallied.machines),
            links: outcome::of_links(run.scenario, run.network, &did),
            expectations: Vec::new(),
            not_judged: Vec::new(),
            repeated: fates.repeated,
            carrier: CarrierOutcome::of(&did),
        };
        let Judged { verdicts, left } = run.judged(&outcome);
        Ok(LabOutcome { expectations: verdicts, not_judged: left, ..outcome })
    }

    /// The time of the scenario: applications send, and steps happen.
    fn in_time(&mut self, ends: &[Option<Ends>]) -> anyhow::Result<Fates> {
        let stop = AtomicBool::new(false);
        let zero = self.carrier.begin().context("the thread that carries packets has ended")?;
        let (network, clock) = (self.run.network, self.clock);
        let times = (zero, network.length, GRACE);
        thread::scope(|scope| {
            let traffic = scope.spawn(|| traffic::play(&network.flows, ends, times, clock, &stop));
            let happened = self.steps(zero);
            let waited = happened.and_then(|()| self.wait_until_done(zero));
            // Nothing is left to be sent or received, or it does not matter any more.
            stop.store(true, Ordering::Relaxed);
            let fates = traffic.join().expect("applications do not panic");
            waited.map(|()| fates)
        })
    }

    /// Waits until the end of the scenario, or until all tasks have ended where nobody else sends.
    fn wait_until_done(&mut self, zero: Time) -> anyhow::Result<()> {
        let network = self.run.network;
        let end = zero + network.length + GRACE;
        let only_programs_send = network.flows.iter().all(|flow| flow.traffic.is_of_programs());
        while self.clock.now() < end && !(only_programs_send && self.commands.tasks_have_ended()) {
            self.wait_until(end.min(self.clock.now() + GLANCE), Some(zero))?;
        }
        self.wait_until(end.min(self.clock.now() + GRACE), Some(zero))
    }

    fn steps(&mut self, zero: Time) -> anyhow::Result<()> {
        let network = self.run.network;
        for step in &network.steps {
            self.wait_until(zero + step.at, Some(zero))?;
            match &step.change {
                NetworkChange::Links(links) => self.carrier.change(links.clone()),
                of_node if self.run.world.has_nodes() => self.happen(of_node)?,
                // There is no node to which it could happen.
                _ => {}
            }
        }
        Ok(())
    }

    /// Something happens to the node of a machine.
    fn happen(&mut self, change: &NetworkChange) -> anyhow::Result<()> {
        let network = self.run.network;
        match change {
            NetworkChange::Stop(place) => {
                self.tally.before_end_of(*place, network, &self.nodes);
                self.nodes.stop(*place);
            }
            NetworkChange::Start(place) => {
                self.tally.before_end_of(*place, network, &self.nodes);
                self.nodes.start(*place, role(network, *place))?;
            }
            NetworkChange::Hang(place) => self.nodes.signal(*place, Signal::STOP),
            NetworkChange::Resume(place) => self.nodes.signal(*place, Signal::CONT),
            NetworkChange::Links(_) => {}
        }
        Ok(())
    }

    /// Waits, while everything works that is to work; from the begin on, tasks begin.
    fn wait_until(&mut self, time: Time, zero: Option<Time>) -> anyhow::Result<()> {
        loop {
            self.nodes.expect_running()?;
            self.commands.look(zero, &self.nodes, self.clock)?;
            if self.carrier.has_ended() {
                bail!("the thread that carries packets has ended");
            }
            let now = self.clock.now();
            let left = time.saturating_since(now);
            if left.is_zero() {
                return Ok(());
            }
            let next = zero.and_then(|zero| self.commands.next_start(zero));
            let until_next = next.map_or(Duration::MAX, |next| next.saturating_since(now));
            let nap = left.min(GLANCE).min(until_next);
            interrupt::sleep(std::time::Duration::from_nanos(nap.as_nanos()))?;
        }
    }
}

fn role(network: &Network, place: usize) -> MachineRole {
    network.machines[place].role
}
