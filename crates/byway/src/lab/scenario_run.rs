//! One run of a lab in real time: sets up machines, emulator, nodes and programs, and performs the
//! scenario's steps.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use byway_lab::EmulatorThread;
use byway_net::Clock;
use byway_scenario::{MachineRole, Network, NetworkChange, Scenario};
use byway_units::{Duration, Time};
use rustix::process::Signal;

use super::commands::{Commands, PlaceholderValues, ResolvedCommand};
use super::evaluation::{self, Evaluation};
use super::nodes::{Nodes, lab_failure};
use super::outcome::{self, CarrierOutcome, LabOutcome};
use super::overlay_mode::OverlayMode;
use super::tally::Tally;
use super::traffic::{self, DatagramLog, FlowSockets};
use crate::exit::Failure;
use crate::interrupt;

/// Longest time until each flow has delivered a datagram, while agents connect to peers and relays.
const FLOWS_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval at which a run checks that nodes and programs still run.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Time between the last probe of flows and the measured time, because probes may still arrive.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time after the scenario's end in which its datagrams may still arrive.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// Folder of the nodes' files within a run's folder.
const NODES: &str = "nodes";
/// Folder of the commands' files within a run's folder.
const COMMANDS: &str = "commands";

/// Scenario, network, seed and options of one lab run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) network: &'a Network,
    pub(super) seed: u64,
    pub(super) world: OverlayMode,
    /// Folder of the scenario file.
    pub(super) here: &'a Path,
    /// Folder for captures of the machines' packets; `None` without a capture.
    pub(super) capture: Option<&'a Path>,
}

/// Lab run whose machines, nodes and emulator exist.
struct LabRun<'a> {
    run: Run<'a>,
    nodes: Nodes,
    commands: Commands,
    emulator: EmulatorThread,
    tally: Tally,
    clock: Clock,
}

impl Run<'_> {
    /// Fills in the commands of the scenario, with their folders in this one.
    ///
    /// # Errors
    /// If a program is not found.
    pub(super) fn commands(&self, folder: &Path) -> Result<Vec<ResolvedCommand>, Failure> {
        let Self { network, world, here, .. } = *self;
        let byway = std::env::current_exe().map_err(Failure::machine)?;
        let filling =
            PlaceholderValues { network, world, here, byway: &byway, folder: &folder.join(COMMANDS) };
        self.scenario.commands().iter().map(|command| filling.resolve(command)).collect()
    }

    /// Performs the run, with its files in `folder`, and returns its measurements and verdicts.
    pub(super) fn run(self, folder: &Path) -> anyhow::Result<LabOutcome> {
        let commands = Commands::new(self.commands(folder)?, &folder.join(COMMANDS));
        commands.write_files()?;
        let clock = Clock::start();
        let (mut nodes, emulator) =
            Nodes::new(self.network, self.seed, self.world, &folder.join(NODES), self.capture, clock)?;
        if self.world.has_nodes() {
            nodes.start_all(self.network, self.world == OverlayMode::Byway, clock)?;
        }
        let tally = Tally::new(self.network, &nodes);
        let mut lab_run = LabRun { run: self, nodes, commands, emulator, tally, clock };
        lab_run.commands.start_services(&lab_run.nodes, clock)?;
        let ends = lab_run.nodes.flow_sockets(self.network, self.world)?;
        let silent = traffic::probe_flows(&ends, FLOWS_TIMEOUT, clock)?;
        if let Some(index) = silent.first() {
            let name = &self.network.flows[*index].name;
            eprintln!(
                "note: no packet of flow {name:?} arrived within {FLOWS_TIMEOUT}; starting the run without it"
            );
        }
        lab_run.wait_until(clock.now() + SETTLE_TIMEOUT, None)?;
        lab_run.tally = Tally::new(self.network, &lab_run.nodes);
        lab_run.run_lab(&ends)
    }

    fn evaluate(&self, outcome: &LabOutcome) -> Evaluation {
        let expected = self.scenario.expectations();
        // Expectations apply to Byway, and to any mode if the scenario has no flows.
        if self.world != OverlayMode::Byway && !self.network.flows.is_empty() {
            return Evaluation { verdicts: Vec::new(), unmeasured: expected };
        }
        evaluation::evaluate(expected, &outcome.flows, &outcome.commands, &outcome.links)
    }
}

impl LabRun<'_> {
    fn run_lab(mut self, ends: &[Option<FlowSockets>]) -> anyhow::Result<LabOutcome> {
        let transferred = self.run_scenario(ends);
        let Self { run, nodes, commands, emulator, tally, clock } = self;
        let tallied = transferred.and_then(|fates| {
            let tallied = tally.close(run.network, &nodes);
            Ok((fates, tallied, commands.end(clock)?))
        });
        // An emulator that ended by itself reports the cause; other errors only follow from it.
        let report = emulator.stop().map_err(lab_failure)?;
        let (fates, tallied, commands) = tallied?;
        let outcome = LabOutcome {
            title: run.scenario.title().to_owned(),
            seed: run.seed,
            world: run.world,
            flows: outcome::of_flows(run.network, &fates, &tallied.flows),
            commands,
            nodes: outcome::of_nodes(run.network, &report.machines, &tallied.machines),
            links: outcome::of_links(run.scenario, run.network, &report),
            expectations: Vec::new(),
            not_judged: Vec::new(),
            repeated: fates.repeated,
            carrier: CarrierOutcome::of(&report),
        };
        let Evaluation { verdicts, unmeasured: not_judged } = run.evaluate(&outcome);
        Ok(LabOutcome { expectations: verdicts, not_judged, ..outcome })
    }

    /// Runs the scenario itself: applications send, and steps change the network.
    fn run_scenario(&mut self, ends: &[Option<FlowSockets>]) -> anyhow::Result<DatagramLog> {
        let stop = AtomicBool::new(false);
        let zero = self.emulator.begin().context("the packet thread has ended")?;
        let (network, clock) = (self.run.network, self.clock);
        let times = (zero, network.length, DRAIN_TIME);
        thread::scope(|scope| {
            let traffic = scope.spawn(|| traffic::run_traffic(&network.flows, ends, times, clock, &stop));
            let happened = self.steps(zero);
            let waited = happened.and_then(|()| self.wait_until_done(zero));
            // Sending and receiving are over, or an error has ended the run.
            stop.store(true, Ordering::Relaxed);
            let fates = traffic.join().expect("applications do not panic");
            waited.map(|()| fates)
        })
    }

    /// Waits until the end of the scenario, and then for [`DRAIN_TIME`]. If only programs send, the
    /// scenario ends when all tasks have ended.
    fn wait_until_done(&mut self, zero: Time) -> anyhow::Result<()> {
        let network = self.run.network;
        let end = zero + network.length + DRAIN_TIME;
        let only_programs_send = network.flows.iter().all(|flow| flow.traffic.is_of_programs());
        while self.clock.now() < end && !(only_programs_send && self.commands.tasks_have_ended()) {
            self.wait_until(end.min(self.clock.now() + POLL_INTERVAL), Some(zero))?;
        }
        self.wait_until(end.min(self.clock.now() + DRAIN_TIME), Some(zero))
    }

    fn steps(&mut self, zero: Time) -> anyhow::Result<()> {
        let network = self.run.network;
        for step in &network.steps {
            self.wait_until(zero + step.at, Some(zero))?;
            match &step.change {
                NetworkChange::Links(links) => self.emulator.change(links.clone()),
                of_node if self.run.world.has_nodes() => self.apply_change(of_node)?,
                // Without nodes, changes of nodes do not apply.
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies a scenario step to a machine's node: stops, starts, freezes or resumes it.
    fn apply_change(&mut self, change: &NetworkChange) -> anyhow::Result<()> {
        let network = self.run.network;
        match change {
            NetworkChange::Stop(index) => {
                self.tally.on_node_stop(*index, network, &self.nodes);
                self.nodes.stop(*index);
            }
            NetworkChange::Start(index) => {
                self.tally.on_node_stop(*index, network, &self.nodes);
                self.nodes.start(*index, role(network, *index))?;
            }
            NetworkChange::Freeze(index) => self.nodes.signal(*index, Signal::STOP),
            NetworkChange::Resume(index) => self.nodes.signal(*index, Signal::CONT),
            NetworkChange::Links(_) => {}
        }
        Ok(())
    }

    /// Waits until `time`, while it checks that nodes, commands and emulator run. After `zero`,
    /// starts tasks when they are due.
    fn wait_until(&mut self, time: Time, zero: Option<Time>) -> anyhow::Result<()> {
        loop {
            self.nodes.expect_running()?;
            self.commands.poll(zero, &self.nodes, self.clock)?;
            if self.emulator.has_ended() {
                bail!("the packet thread has ended");
            }
            let now = self.clock.now();
            let left = time.saturating_since(now);
            if left.is_zero() {
                return Ok(());
            }
            let next = zero.and_then(|zero| self.commands.next_start(zero));
            let until_next = next.map_or(Duration::MAX, |next| next.saturating_since(now));
            let nap = left.min(POLL_INTERVAL).min(until_next);
            interrupt::sleep(std::time::Duration::from_nanos(nap.as_nanos()))?;
        }
    }
}

fn role(network: &Network, index: usize) -> MachineRole {
    network.machines[index].role
}
