//! `byway lab`: scenarios with real programs, in namespaces over emulated links.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a lab is a driver: it starts programs, opens sockets and writes files"
)]

mod commands;
mod compare;
mod configuration;
mod evaluation;
mod folder;
mod measures;
mod nat;
mod nodes;
mod outcome;
mod overlay_mode;
mod programs;
mod resource_usage;
mod scenario_run;
mod tally;
mod traffic;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use byway_scenario::{Network, NetworkTraffic, Scenario};

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::sim::ScenarioFlags;

use configuration::{Configuration, FLOWS_MAX};
use folder::Folder;
use overlay_mode::OverlayMode;
use scenario_run::Run;

/// Most machines of a lab. Each runs a program, on the cores of one machine.
const MACHINES_MAX: usize = 200;

/// Scenarios with real programs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum LabCommand {
    /// Run a scenario in real time with real agents, relays and programs in network namespaces.
    /// Needs root, and leaves nothing behind. Exit code 6: an expectation is not met, or a program
    /// has failed.
    ///
    /// The file has the format of `byway sim run`, and links lose and delay packets as they do
    /// there.
    Run(RunFlags),
    /// Run a scenario without Byway, without relays and with both, for each seed, and compare the
    /// results in one table. Expectations are not judged. Exit code 6: a program has failed.
    Compare(compare::CompareFlags),
}

/// Options of `byway lab run`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct RunFlags {
    #[command(flatten)]
    scenario: ScenarioFlags,
    /// Random seed [default: the scenario's]
    #[arg(long)]
    seed: Option<u64>,
    /// Run agents without relays: the same flows over the direct path alone, for comparison.
    #[arg(long, conflicts_with = "bare")]
    without_relays: bool,
    /// Run neither agents nor relays: programs use the direct path itself, for comparison.
    #[arg(long)]
    bare: bool,
    /// Keep configurations, logs and outputs of programs in this folder, which must be empty or
    /// new.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Capture each machine's packets during the scenario for Wireshark, at most 128 MiB each, in
    /// this folder, which must be empty or new.
    #[arg(long, value_name = "DIR")]
    capture: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand `run` or `compare` of `byway lab`.
///
/// # Errors
/// If the scenario is invalid, or the machine does not permit it.
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
        (true, _) => OverlayMode::Bare,
        (false, true) => OverlayMode::WithoutRelays,
        (false, false) => OverlayMode::Byway,
    };
    let world = if OverlayMode::of(&network).contains(&world) { world } else { OverlayMode::Bare };
    let run = Run { scenario: &scenario, network: &network, seed, world, here: &here, capture: None };
    // Missing programs must be reported before the first machine exists.
    run.commands(Path::new(""))?;
    let folder = Folder::new(keep.as_deref())?;
    let capture = capture.as_deref().map(folder::empty).transpose()?;
    let outcome = Run { capture: capture.as_deref(), ..run }.run(folder.path())?;
    if *json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("{}", outcome.text());
    }
    if outcome.carrier.is_void {
        return Err(void().into());
    }
    if outcome.expectations.iter().any(|verdict| !verdict.is_met) {
        return Err(Failure::new(Cause::Unmet, format!("{}: expectations not met", file.display())).into());
    }
    Ok(())
}

fn void() -> Failure {
    Failure::machine(
        "run void: this machine was too busy to forward packets on time; end other programs, or make \
         the scenario smaller",
    )
}

/// Reads a scenario, and checks its number of machines.
fn read(flags: &ScenarioFlags) -> Result<Scenario, Failure> {
    let scenario = flags.read()?;
    expect_few_machines(&scenario)?;
    Ok(scenario)
}

/// Builds the network of a seed, and checks that a lab can run it.
fn network(scenario: &Scenario, seed: u64) -> Result<Network, Failure> {
    let network = scenario.network(seed).map_err(|error| Failure::new(Cause::Settings, error))?;
    check(&network)?;
    Ok(network)
}

/// Returns the absolute path of the scenario's folder, because programs run in other folders.
fn here(file: &Path) -> anyhow::Result<PathBuf> {
    let whole = file.canonicalize().with_context(|| file.display().to_string())?;
    Ok(whole.parent().map(Path::to_owned).unwrap_or_default())
}

fn expect_few_machines(scenario: &Scenario) -> Result<(), Failure> {
    let count = scenario.node_names().count();
    if count <= MACHINES_MAX {
        return Ok(());
    }
    let message = format!(
        "too many machines, {count}: a lab has at most {MACHINES_MAX}; remove some, or use byway sim run"
    );
    Err(Failure::new(Cause::Settings, message))
}

/// Rejects networks that a lab cannot run.
fn check(network: &Network) -> Result<(), Failure> {
    let refuse = |message: String| Err(Failure::new(Cause::Settings, message));
    if network.flows.len() > FLOWS_MAX {
        let count = network.flows.len();
        return refuse(format!(
            "too many flows, {count}: a lab has at most {FLOWS_MAX}; remove some, or use byway sim run"
        ));
    }
    for flow in &network.flows {
        let name = &flow.name;
        match &flow.traffic {
            NetworkTraffic::Datagrams(_) | NetworkTraffic::Captured(_) => {}
            NetworkTraffic::Tcp => {
                return refuse(format!(
                    "flow {name:?} is simulated TCP, which a lab does not support: use byway sim run"
                ));
            }
            NetworkTraffic::Programs(ends) => {
                let ports = [ends.listen, ends.target].map(|address| address.port());
                if let Some(port) = ports.into_iter().find(|port| configuration::is_reserved(*port)) {
                    return refuse(format!(
                        "flow {name:?}: port {port} is reserved for the lab, as are 4600, 4680, 10000 \
                         to 10399 and 30000 to 30399; use another port"
                    ));
                }
            }
        }
    }
    nat::check(network).or_else(refuse)?;
    for index in 0..network.machines.len() {
        if let [one, other, ..] = Configuration::relays_near(network, index)[..] {
            let [agent, one, other] = [index, one, other].map(|index| &network.machines[index].name);
            return refuse(format!(
                "flows of {agent} name two relays near it, {one} and {other}, but a real agent has \
                 one: name one, or use byway sim run"
            ));
        }
    }
    Ok(())
}
