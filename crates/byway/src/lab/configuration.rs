//! Configuration files for the nodes of a lab, as one would write them by hand: a static network.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use byway_lab::addresses;
use byway_scenario::{MachineRole, Network, NetworkFlow};
use byway_wire::{BlockShape, Service};
use serde::Serialize;

/// The port of every node, as each has a machine of its own.
const PORT: u16 = 4_600;

/// Where a node answers questions about itself, within its machine.
pub(super) const OBSERVED: &str = "127.0.0.1:4680";

/// The ports of forwards and targets are these and the flow's place.
const FORWARD_PORTS: u16 = 10_000;
const TARGET_PORTS: u16 = 30_000;

/// Most flows of a lab: as many as there are ports between those of forwards and those of targets.
pub(super) const FLOWS_MAX: usize = (TARGET_PORTS - FORWARD_PORTS) as usize;

/// A file, for one node.
#[derive(Serialize)]
struct NodeFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<Node>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forward: Vec<Forward>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expose: Vec<Expose>,
    observe: Observe,
    network: Members,
}

#[derive(Serialize)]
struct Node {
    name: String,
    state: PathBuf,
    listen: Vec<SocketAddr>,
}

#[derive(Serialize)]
struct Forward {
    listen: SocketAddr,
    peer: String,
    to: String,
    service: &'static str,
    rate: String,
    latency_budget: String,
    standby: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_stream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
}

#[derive(Serialize)]
struct Expose {
    name: String,
    target: SocketAddr,
    peers: [String; 1],
}

#[derive(Serialize)]
struct Observe {
    listen: &'static str,
}

/// Who is who.
#[derive(Serialize)]
struct Members {
    relays: Vec<Member>,
    agents: Vec<Member>,
    pairs: Vec<Pair>,
}

#[derive(Serialize)]
struct Member {
    name: String,
    number: usize,
    key: String,
    addresses: Vec<SocketAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    relays: Vec<String>,
}

#[derive(Serialize)]
struct Pair {
    agents: [String; 2],
}

/// The files of a lab's nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Configuration<'a> {
    pub(super) network: &'a Network,
    /// The public key of each machine, by place; nothing of routers.
    pub(super) keys: &'a [String],
    /// Where each node has a folder of its own.
    pub(super) folder: &'a Path,
    /// Whether relays do anything: without them, the same flows take the direct path alone.
    pub(super) uses_relays: bool,
}

/// Where the application of the flow at this place sends to, within its sender's machine.
pub(super) fn forward(flow: usize) -> SocketAddr {
    local(FORWARD_PORTS, flow)
}

/// Where the application of the flow at this place listens, within its receiver's machine.
pub(super) fn target(flow: usize) -> SocketAddr {
    local(TARGET_PORTS, flow)
}

fn local(first: u16, flow: usize) -> SocketAddr {
    let flow = u16::try_from(flow).expect("there are at most FLOWS_MAX");
    SocketAddr::from(([127, 0, 0, 1], first + flow))
}

impl Configuration<'_> {
    /// The folder of a node.
    pub(super) fn folder(&self, place: usize) -> PathBuf {
        self.folder.join(&self.network.machines[place].name)
    }

    /// What the file of a node says.
    pub(super) fn file(&self, place: usize) -> Result<String, toml::ser::Error> {
        let node = Node { name: self.name(place), state: self.folder(place), listen: at(place) };
        let (agent, relay) = match self.network.machines[place].role {
            MachineRole::Relay => (None, Some(node)),
            MachineRole::Agent | MachineRole::Router => (Some(node), None),
        };
        let flows = || self.network.flows.iter().enumerate();
        let forward = flows().filter(|(_, flow)| flow.from == place);
        let expose = flows().filter(|(_, flow)| flow.to == place);
        toml::to_string(&NodeFile {
            agent,
            relay,
            forward: forward.map(|(nth, flow)| self.forward(nth, flow)).collect(),
            expose: expose.map(|(nth, flow)| self.expose(nth, flow)).collect(),
            observe: Observe { listen: OBSERVED },
            network: self.members(),
        })
    }

    fn name(&self, place: usize) -> String {
        self.network.machines[place].name.clone()
    }

    fn forward(&self, nth: usize, flow: &NetworkFlow) -> Forward {
        let service = if self.uses_relays { flow.service } else { Service::Internet };
        let coded = |shape: Option<BlockShape>| {
            let shape = shape.filter(|_| service == Service::Coding)?;
            Some(format!("{}+{}", shape.source_packets(), shape.repair_packets()))
        };
        Forward {
            listen: forward(nth),
            peer: self.name(flow.to),
            to: exposed(nth),
            service: word(service),
            rate: format!("{} bit/s", flow.rate.bits_per_second()),
            latency_budget: format!("{} us", flow.terms.budget.as_micros()),
            standby: flow.is_on_standby,
            in_stream: coded(flow.in_stream),
            batch: coded(flow.batch),
        }
    }

    fn expose(&self, nth: usize, flow: &NetworkFlow) -> Expose {
        Expose { name: exposed(nth), target: target(nth), peers: [self.name(flow.from)] }
    }

    fn members(&self) -> Members {
        let of_role = |role| {
            let machines = self.network.machines.iter().enumerate();
            machines.filter(move |(_, machine)| machine.role == role).map(|(place, _)| self.member(place))
        };
        let pairs: BTreeSet<[usize; 2]> =
            self.network.flows.iter().map(|flow| [flow.from.min(flow.to), flow.from.max(flow.to)]).collect();
        Members {
            relays: of_role(MachineRole::Relay).collect(),
            agents: of_role(MachineRole::Agent).collect(),
            pairs: pairs.into_iter().map(|ends| Pair { agents: ends.map(|end| self.name(end)) }).collect(),
        }
    }

    fn member(&self, place: usize) -> Member {
        Member {
            name: self.name(place),
            number: place + 1,
            key: self.keys[place].clone(),
            addresses: at(place),
            relays: self.relays_near(place),
        }
    }

    /// The relays that an agent's flows name, those of the first flow first.
    fn relays_near(&self, place: usize) -> Vec<String> {
        let mut near = Vec::new();
        for flow in &self.network.flows {
            let Some((ingress, egress)) = flow.relays else {
                continue;
            };
            let relay = if flow.from == place { Some(ingress) } else { (flow.to == place).then_some(egress) };
            near.extend(relay.map(|relay| self.name(relay)).filter(|name| !near.contains(name)));
        }
        near
    }
}

fn at(place: usize) -> Vec<SocketAddr> {
    addresses(place).map(|address| SocketAddr::new(address, PORT)).to_vec()
}

/// By what name the receiver of the flow at this place exposes its target.
pub(super) fn exposed(flow: usize) -> String {
    format!("flow-{flow}")
}

const fn word(service: Service) -> &'static str {
    match service {
        Service::Internet => "internet",
        Service::Coding => "coding",
        Service::Caching => "caching",
        Service::Forwarding => "forwarding",
        Service::Both => "both",
    }
}
