//! `byway lab`: scenarios with real programs, in namespaces over emulated links.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a lab is a driver: it starts programs, opens sockets and writes files"
)]

mod configuration;
mod nodes;
mod outcome;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use byway_api::{AgentStatus, FlowReceived};
use byway_lab::Carrier;
use byway_net::Clock;
use byway_scenario::{MachineRole, Network, NetworkChange, NetworkFlow, Scenario};
use byway_units::{Duration, Time};
use rustix::process::Signal;

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::scratch::Scratch;

use configuration::{FLOWS_MAX, exposed};
use nodes::{Nodes, not_made};
use outcome::{CarrierOutcome, Counted, LabOutcome};
use traffic::{Ends, Fates};

/// Most machines of a lab: each has a program, on the cores of one machine.
const MACHINES_MAX: usize = 200;

/// How long flows may take until each has brought a datagram: agents meet their peers and relays meanwhile.
const FLOWS_WITHIN: Duration = Duration::from_secs(10);

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

/// What a lab cannot do.
fn check(network: &Network) -> Result<(), Failure> {
    let refuse = |message: String| Err(Failure::new(Cause::Settings, message));
    if network.machines.len() > MACHINES_MAX {
        let count = network.machines.len();
        return refuse(format!(
            "a lab has at most {MACHINES_MAX} machines, not {count}: have fewer, or use byway sim run"
        ));
    }
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
    let before = counted(&nodes, network);
    let fates = in_time(network, &mut nodes, &carrier, &ends, clock)?;
    let after = counted(&nodes, network);
    let did = carrier.stop().map_err(not_made)?;
    let (lateness, counters) = (did.lateness.summary(), did.counters);
    let since = before.iter().zip(after).map(|(before, after)| Counted {
        lost: after.lost.saturating_sub(before.lost),
        repaired: after.repaired.saturating_sub(before.repaired),
    });
    Ok(LabOutcome {
        title: scenario.title().to_owned(),
        seed,
        uses_relays,
        flows: outcome::of_flows(network, &fates, &since.collect::<Vec<_>>()),
        repeated: fates.repeated,
        carrier: CarrierOutcome {
            sent: counters.sent,
            lost: counters.lost,
            delivered: counters.delivered,
            unroutable: counters.unroutable,
            overflowed: counters.overflowed,
            refused: did.refused,
            has_precedence: did.has_precedence,
            is_void: lateness.is_void(),
            lateness,
        },
    })
}

/// The time of the scenario: applications send, and steps happen.
fn in_time(
    network: &Network,
    nodes: &mut Nodes,
    carrier: &Carrier,
    ends: &[Ends],
    clock: Clock,
) -> anyhow::Result<Fates> {
    let stop = AtomicBool::new(false);
    let zero = carrier.begin().unwrap_or_else(|| clock.now());
    let times = (zero, network.length, GRACE);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| traffic::play(&network.flows, ends, times, clock, &stop));
        let happened = steps(network, nodes, carrier, zero, clock);
        let waited = happened.and_then(|()| wait_until(zero + network.length, clock));
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
    zero: Time,
    clock: Clock,
) -> anyhow::Result<()> {
    for step in &network.steps {
        wait_until(zero + step.at, clock)?;
        match &step.change {
            NetworkChange::Stop(place) => nodes.stop(*place),
            NetworkChange::Start(place) => nodes.start(*place, role(network, *place))?,
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

fn wait_until(time: Time, clock: Clock) -> anyhow::Result<()> {
    let left = time.saturating_since(clock.now());
    interrupt::sleep(std::time::Duration::from_nanos(left.as_nanos()))?;
    Ok(())
}

/// What the receivers of all flows have counted so far, by flow; nothing of those whose machine is stopped.
fn counted(nodes: &Nodes, network: &Network) -> Vec<Counted> {
    let agents: BTreeSet<usize> = network.flows.iter().map(|flow| flow.to).collect();
    let statuses: BTreeMap<usize, AgentStatus> =
        agents.into_iter().filter_map(|place| Some((place, nodes.status(place)?))).collect();
    let of_flow = |(nth, flow): (usize, &NetworkFlow)| {
        let mappings = statuses.get(&flow.to).map(|status| status.mappings.as_slice()).unwrap_or_default();
        let of_it = mappings.iter().filter(|mapping| !mapping.is_from_here && mapping.to == exposed(nth));
        of_it.fold(Counted::default(), |counted, mapping| {
            let FlowReceived { lost_direct, in_stream, cooperative, cached, .. } = mapping.received;
            let repaired = counted.repaired + in_stream + cooperative + cached;
            Counted { lost: counted.lost + lost_direct, repaired }
        })
    };
    network.flows.iter().enumerate().map(of_flow).collect()
}
