//! `byway lab`: scenarios with real programs, in namespaces over emulated links.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a lab is a driver: it starts programs, opens sockets and writes files"
)]

mod commands;
mod compare;
mod configuration;
mod cost;
mod folder;
mod judging;
mod measures;
mod nodes;
mod outcome;
mod outside;
mod play;
mod programs;
mod tally;
mod traffic;
mod world;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byway_scenario::{Network, NetworkTraffic, Scenario};

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::sim::ScenarioFlags;

use configuration::{Configuration, FLOWS_MAX};
use folder::Folder;
use play::Run;
use world::World;

/// Most machines of a lab: each has a program, on the cores of one machine.
const MACHINES_MAX: usize = 200;

/// Scenarios with real programs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum LabCommand {
    /// Runs a scenario with the real agents and relays of this program, and the programs that it names, in real time: a network namespace
    /// for each machine, links emulated between them. Needs root. Nothing of it is left behind, however it ends.
    ///
    /// The file is one as `byway sim run` takes, and its links lose and delay packets as they do there. Exit code 6: not what it expects, or a
    /// program has failed.
    Run(RunFlags),
    /// Runs a scenario three times for each seed, without Byway, without relays and with both, and says in one table what programs measured,
    /// what became of flows and what relays did. Nothing is judged. Exit code 6: a program has failed.
    Compare(compare::CompareFlags),
}

/// What `byway lab run` takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    scenario: ScenarioFlags,
    /// What chance begins with; by default what the scenario says.
    #[arg(long)]
    seed: Option<u64>,
    /// Has no relay do anything: the same flows over the direct path alone, to compare with.
    #[arg(long, conflicts_with = "bare")]
    without_relays: bool,
    /// Runs no agent and no relay: programs speak over the direct path itself, to compare with.
    #[arg(long)]
    bare: bool,
    /// Keeps the files of the run there: configurations, logs, outputs of programs. The folder has to be empty or new.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Captures what each machine sends and receives in the time of the scenario, in a file for Wireshark there, of 128 MiB at most. The
    /// folder has to be empty or new.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// If the scenario is wrong, or the machine does not let it.
pub(crate) fn run(command: &LabCommand) -> anyhow::Result<()> {
    interrupt::listen()?;
    match command {
        LabCommand::Run(flags) => run_once(flags),
        LabCommand::Compare(flags) => compare::run(flags),
    }
}

fn run_once(flags: &RunFlags) -> anyhow::Result<()> {
    let RunFlags { scenario: of, seed, without_relays, bare, keep, capture, json } = flags;
    let (file, scenario) = (&of.file, read(of)?);
    let seed = seed.unwrap_or(scenario.seed());
    let (network, here) = (network(&scenario, seed)?, here(file)?);
    let world = match (bare, without_relays) {
        (true, _) => World::Bare,
        (false, true) => World::WithoutRelays,
        (false, false) => World::Byway,
    };
    let world = if World::of(&network).contains(&world) { world } else { World::Bare };
    let run = Run { scenario: &scenario, network: &network, seed, world, here: &here, capture: None };
    // What is not installed is said before anything is there.
    run.commands(Path::new(""))?;
    let folder = Folder::new(keep.as_deref())?;
    let capture = capture.as_deref().map(folder::empty).transpose()?;
    let outcome = Run { capture: capture.as_deref(), ..run }.play(folder.path())?;
    if *json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("{}", outcome.text());
    }
    if outcome.carrier.is_void {
        return Err(void().into());
    }
    if outcome.expectations.iter().any(|verdict| !verdict.is_met) {
        return Err(Failure::new(Cause::Unmet, format!("{}: not as expected", file.display())).into());
    }
    Ok(())
}

fn void() -> Failure {
    Failure::machine(
        "the run is void: this machine was too busy to carry packets in time; end other work, or make the scenario smaller",
    )
}

/// A scenario that a lab may have.
fn read(flags: &ScenarioFlags) -> Result<Scenario, Failure> {
    let scenario = flags.read()?;
    expect_few_machines(&scenario)?;
    Ok(scenario)
}

/// What a seed makes of it, if that is something a lab can do.
fn network(scenario: &Scenario, seed: u64) -> Result<Network, Failure> {
    let network = scenario.network(seed).map_err(|error| Failure::new(Cause::Settings, error))?;
    check(&network)?;
    Ok(network)
}

/// The folder of a scenario, for programs that run elsewhere.
fn here(file: &Path) -> anyhow::Result<PathBuf> {
    let whole = file.canonicalize().with_context(|| file.display().to_string())?;
    Ok(whole.parent().map(Path::to_owned).unwrap_or_default())
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
    for flow in &network.flows {
        let name = &flow.name;
        match &flow.traffic {
            NetworkTraffic::Datagrams(_) | NetworkTraffic::Captured(_) => {}
            NetworkTraffic::Tcp => {
                return refuse(format!(
                    "flow {name:?} is one of simulated TCP, which a lab does not have: use byway sim run"
                ));
            }
            NetworkTraffic::Programs(ends) => {
                let ports = [ends.listen, ends.target].map(|address| address.port());
                if let Some(port) = ports.into_iter().find(|port| configuration::is_taken(*port)) {
                    return refuse(format!(
                        "flow {name:?}: the lab itself takes port {port}, as it does 4600, 4680, 10000 to 10399 and 30000 to 30399: take another one"
                    ));
                }
            }
        }
    }
    outside::check(network).or_else(refuse)?;
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
