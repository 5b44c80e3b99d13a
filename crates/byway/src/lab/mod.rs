//! `byway lab`: scenarios with real programs, in namespaces over emulated links.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a lab is a driver: it starts programs, opens sockets and writes files"
)]

mod configuration;
mod nodes;
mod outcome;
mod tally;
mod traffic;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use byway_lab::Carrier;
use byway_net::Clock;
use byway_scenario::{MachineRole, Network, NetworkChange, Scenario};
use byway_units::{Duration, Time};
use rustix::process::Signal;

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::scratch::Scratch;

use configuration::{Configuration, FLOWS_MAX};
use nodes::{Nodes, not_made};
use outcome::{CarrierOutcome, LabOutcome};
use tally::Tally;
use traffic::{Ends, Fates};

/// Most machines of a lab: each has a program, on the cores of one machine.
const MACHINES_MAX: usize = 200;

/// How long flows may take until each has brought a datagram: agents meet their peers and relays meanwhile.
const FLOWS_WITHIN: Duration = Duration::from_secs(10);

/// How often it is looked whether all works.
const GLANCE: Duration = Duration::from_millis(20);

/// How long what was tried last may take, before anything counts.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// How long what was sent last may take.
const GRACE: Duration = Duration::from_secs(2);

/// Scenarios with real programs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum LabCommand {
    /// Runs a scenario with the real agents and relays of this program, in real time: a network namespace for each machine, links
    /// emulated between them. Needs root. Nothing of it is left behind, however it ends.
    ///
    /// The file is one as `byway sim run` takes, and its links lose and delay packets as they do there; its expectations are not looked at.
    Run {
        /// The scenario; what it may say is in docs/scenario-format.md.
        file: PathBuf,
        /// What chance begins with; by default what the scenario says.
        #[arg(long)]
        seed: Option<u64>,
        /// Has no relay do anything: the same flows over the direct path alone, to compare with.
        #[arg(long)]
        without_relays: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
///
/// # Errors
/// If the scenario is wrong, or the machine does not let it.
pub(crate) fn run(command: &LabCommand) -> anyhow::Result<()> {
    let LabCommand::Run { file, seed, without_relays, json } = command;
    interrupt::listen()?;
    let scenario = crate::sim::read(file)?;
    let seed = seed.unwrap_or(scenario.seed());
    expect_few_machines(&scenario)?;
    let network = scenario.network(seed).map_err(|error| Failure::new(Cause::Settings, error))?;
    check(&network)?;
    let outcome = play(&scenario, &network, seed, !without_relays)?;
    if *json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("{}", outcome.text());
    }
    if outcome.carrier.is_void {
        let message = "the run is void: this machine was too busy to carry packets in time; end other work, or make the scenario smaller";
        return Err(Failure::machine(message).into());
    }
    Ok(())
}

fn expect_few_machines(scenario: &Scenario) -> Result<(), Failure> {
    let count = scenario.node_names().count();
    if count <= MACHINES_MAX {
        return Ok(());
    }
    let message =
        format!("a lab has at most {MACHINES_MAX} machines, not {count}: have fewer, or use byway sim run");
    Err(Failure::new(Cause::Settings, message))
}

/// What a lab cannot do.
fn check(network: &Network) -> Result<(), Failure> {
    let refuse = |message: String| Err(Failure::new(Cause::Settings, message));
    if network.flows.len() > FLOWS_MAX {
        let count = network.flows.len();
        return refuse(format!(
            "a lab has at most {FLOWS_MAX} flows, not {count}: have fewer, or use byway sim run"
        ));
    }
    if let Some(flow) = network.flows.iter().find(|flow| flow.datagrams.is_none()) {
        let name = &flow.name;
        return refuse(format!(
            "flow {name:?} is one of simulated TCP, which a lab does not have: use byway sim run"
        ));
    }
    for place in 0..network.machines.len() {
        if let [one, other, ..] = Configuration::relays_near(network, place)[..] {
            let [agent, one, other] = [place, one, other].map(|place| &network.machines[place].name);
            return refuse(format!(
                "flows of {agent} name two relays near it, {one} and {other}: a real agent has one, so name one, or use byway sim run"
            ));
        }
    }
    Ok(())
}

fn play(scenario: &Scenario, network: &Network, seed: u64, uses_relays: bool) -> anyhow::Result<LabOutcome> {
    let scratch = Scratch::new()?;
    let clock = Clock::start();
    let (mut nodes, carrier) = Nodes::new(network, seed, scratch.path(), clock)?;
    nodes.start_all(network, uses_relays, clock)?;
    let ends = nodes.ends(network)?;
    let silent = traffic::try_flows(&ends, FLOWS_WITHIN, clock)?;
    if let Some(place) = silent.first() {
        let name = &network.flows[*place].name;
        eprintln!("note: flow {name:?} brought nothing within {FLOWS_WITHIN}; the run begins all the same");
    }
    wait_until(clock.now() + SETTLES_WITHIN, &mut nodes, &carrier, clock)?;
    let mut tally = Tally::new(network, &nodes);
    let played = in_time(network, &mut nodes, &carrier, &ends, &mut tally, clock)
        .map(|fates| (fates, tally.close(network, &nodes)));
    // A carrier that ended by itself knows why, and others only that it did.
    let did = carrier.stop().map_err(not_made)?;
    let (fates, counted) = played?;
    Ok(LabOutcome {
        title: scenario.title().to_owned(),
        seed,
        uses_relays,
        flows: outcome::of_flows(network, &fates, &counted),
        repeated: fates.repeated,
        carrier: CarrierOutcome::of(&did),
    })
}

/// The time of the scenario: applications send, and steps happen.
fn in_time(
    network: &Network,
    nodes: &mut Nodes,
    carrier: &Carrier,
    ends: &[Ends],
    tally: &mut Tally,
    clock: Clock,
) -> anyhow::Result<Fates> {
    let stop = AtomicBool::new(false);
    let zero = carrier.begin().context("the thread that carries packets has ended")?;
    let times = (zero, network.length, GRACE);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| traffic::play(&network.flows, ends, times, clock, &stop));
        let happened = steps(network, nodes, carrier, tally, (zero, clock));
        let waited = happened.and_then(|()| wait_until(zero + network.length + GRACE, nodes, carrier, clock));
        if waited.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let fates = traffic.join().expect("applications do not panic");
        waited.map(|()| fates)
    })
}

fn steps(
    network: &Network,
    nodes: &mut Nodes,
    carrier: &Carrier,
    tally: &mut Tally,
    (zero, clock): (Time, Clock),
) -> anyhow::Result<()> {
    for step in &network.steps {
        wait_until(zero + step.at, nodes, carrier, clock)?;
        match &step.change {
            NetworkChange::Stop(place) => {
                tally.before_end_of(*place, network, nodes);
                nodes.stop(*place);
            }
            NetworkChange::Start(place) => {
                tally.before_end_of(*place, network, nodes);
                nodes.start(*place, role(network, *place))?;
            }
            NetworkChange::Hang(place) => nodes.signal(*place, Signal::STOP),
            NetworkChange::Resume(place) => nodes.signal(*place, Signal::CONT),
            NetworkChange::Links(links) => carrier.change(links.clone()),
        }
    }
    Ok(())
}

fn role(network: &Network, place: usize) -> MachineRole {
    network.machines[place].role
}

/// Waits, while everything works that is to work.
fn wait_until(time: Time, nodes: &mut Nodes, carrier: &Carrier, clock: Clock) -> anyhow::Result<()> {
    loop {
        nodes.expect_running()?;
        if carrier.has_ended() {
            bail!("the thread that carries packets has ended");
        }
        let left = time.saturating_since(clock.now());
        if left.is_zero() {
            return Ok(());
        }
        interrupt::sleep(std::time::Duration::from_nanos(left.min(GLANCE).as_nanos()))?;
    }
}
