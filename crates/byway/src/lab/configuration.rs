//! Configuration files for the nodes of a lab, as one would write them by hand: a static network.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use byway_lab::addresses;
use byway_scenario::classes::TypedGuard;
use byway_scenario::{CapturedCopies, MachineRole, Network, NetworkFlow, NetworkTraffic, TypedUplink};
use byway_typed::{TypedDuration, TypedPorts};
use byway_wire::{BlockShape, Service};
use serde::Serialize;

/// The port of every node, as each has a machine of its own.
const PORT: u16 = 4_600;

/// Where a node answers questions about itself, within its machine.
pub(super) const OBSERVED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4_680);

/// The ports of forwards and targets are these and the flow's place.
const FORWARD_PORTS: u16 = 10_000;
const TARGET_PORTS: u16 = 30_000;

/// Most flows of a lab: each takes two sockets of this process, which usually has 1,024.
pub(super) const FLOWS_MAX: usize = 400;

/// What the flows of a pair send together at most: as good as no limit, as in the simulator.
const PAIR_RATE: &str = "1 Gbit/s";

/// A file, for one node.
#[derive(Serialize)]
struct NodeFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uplink: Option<Uplink>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forward: Vec<Forward>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capture: Vec<Capture>,
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

/// As a scenario has it.
#[derive(Serialize)]
struct Uplink {
    rate: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low_delay_budget: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<TypedGuard>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<bool>,
}

impl Uplink {
    fn of(typed: &TypedUplink) -> Self {
        let TypedUplink { rate, delay, ratio, low_delay_budget, guard, ecn } = *typed;
        let time = |time: TypedDuration| format!("{} us", time.0.as_micros());
        Self {
            rate: format!("{} bit/s", rate.0.bits_per_second()),
            delay: delay.map(time),
            ratio,
            low_delay_budget: low_delay_budget.map(time),
            guard,
            ecn,
        }
    }
}

#[derive(Serialize)]
struct Forward {
    listen: SocketAddr,
    #[serde(flatten)]
    wanted: Wanted,
}

#[derive(Serialize)]
struct Capture {
    destinations: [IpAddr; 2],
    ports: Vec<String>,
    copies: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    marks: Option<&'static [&'static str]>,
    #[serde(flatten)]
    wanted: Wanted,
}

/// What is wanted of a peer.
#[derive(Serialize)]
struct Wanted {
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
    #[serde(flatten)]
    at: ExposedAt,
    peers: [String; 1],
}

#[derive(Serialize)]
#[serde(untagged)]
enum ExposedAt {
    Target {
        target: SocketAddr,
    },
    Network {
        networks: [IpAddr; 2],
        sources: [IpAddr; 2],
        ports: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        marks: Option<&'static [&'static str]>,
    },
}

#[derive(Serialize)]
struct Observe {
    listen: SocketAddr,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<SocketAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    relays: Vec<String>,
}

#[derive(Serialize)]
struct Pair {
    agents: [String; 2],
    rate: &'static str,
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

/// Whether a port within machines is one that the lab itself takes.
pub(super) fn is_taken(port: u16) -> bool {
    let of_flows = |first: u16| (first..).take(FLOWS_MAX).any(|taken| taken == port);
    [PORT, OBSERVED.port()].contains(&port) || of_flows(FORWARD_PORTS) || of_flows(TARGET_PORTS)
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
        let sent = || flows().filter(|(_, flow)| flow.from == place);
        let expose = flows().filter(|(_, flow)| flow.to == place);
        toml::to_string(&NodeFile {
            agent,
            relay,
            uplink: self.network.machines[place].uplink.as_ref().map(Uplink::of),
            forward: sent().filter_map(|(nth, flow)| self.forward(nth, flow)).collect(),
            capture: sent().filter_map(|(nth, flow)| self.capture(nth, flow)).collect(),
            expose: expose.map(|(nth, flow)| self.expose(nth, flow)).collect(),
            observe: Observe { listen: OBSERVED },
            network: self.members(),
        })
    }

    fn name(&self, place: usize) -> String {
        self.network.machines[place].name.clone()
    }

    fn forward(&self, nth: usize, flow: &NetworkFlow) -> Option<Forward> {
        let listen = match flow.traffic {
            NetworkTraffic::Programs(ends) => ends.listen,
            NetworkTraffic::Datagrams(_) | NetworkTraffic::Tcp => forward(nth),
            NetworkTraffic::Captured(_) => return None,
        };
        Some(Forward { listen, wanted: self.wanted(nth, flow) })
    }

    fn capture(&self, nth: usize, flow: &NetworkFlow) -> Option<Capture> {
        let NetworkTraffic::Captured(captured) = &flow.traffic else {
            return None;
        };
        let (copies, marks) = copies(captured.copies);
        Some(Capture {
            destinations: addresses(flow.to),
            ports: texts(&captured.ports),
            copies,
            marks,
            wanted: self.wanted(nth, flow),
        })
    }

    fn wanted(&self, nth: usize, flow: &NetworkFlow) -> Wanted {
        let service = if self.uses_relays { flow.service } else { Service::Internet };
        let coded = |shape: Option<BlockShape>| {
            let text = |shape: BlockShape| format!("{}+{}", shape.source_packets(), shape.repair_packets());
            (service == Service::Coding).then(|| shape.map_or_else(|| "none".to_owned(), text))
        };
        Wanted {
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
        let at = match &flow.traffic {
            NetworkTraffic::Programs(ends) => ExposedAt::Target { target: ends.target },
            NetworkTraffic::Datagrams(_) | NetworkTraffic::Tcp => ExposedAt::Target { target: target(nth) },
            NetworkTraffic::Captured(captured) => ExposedAt::Network {
                networks: addresses(flow.to),
                sources: addresses(flow.from),
                ports: texts(&captured.ports),
                marks: copies(captured.copies).1,
            },
        };
        Expose { name: exposed(nth), at, peers: [self.name(flow.from)] }
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
            pairs: pairs
                .into_iter()
                .map(|ends| Pair { agents: ends.map(|end| self.name(end)), rate: PAIR_RATE })
                .collect(),
        }
    }

    fn member(&self, place: usize) -> Member {
        Member {
            name: self.name(place),
            number: place + 1,
            key: self.keys[place].clone(),
            // Behind a router that translates it, an address means nothing to others: relays bring the two ends together.
            addresses: if self.network.machines[place].behind.is_some() { Vec::new() } else { at(place) },
            relays: Self::relays_near(self.network, place)
                .into_iter()
                .map(|relay| self.name(relay))
                .collect(),
        }
    }

    /// The relays near an agent that its flows name, those of the first flow first.
    pub(super) fn relays_near(network: &Network, place: usize) -> Vec<usize> {
        let mut near = Vec::new();
        for flow in &network.flows {
            let Some((ingress, egress)) = flow.relays else {
                continue;
            };
            let relay = if flow.from == place { Some(ingress) } else { (flow.to == place).then_some(egress) };
            near.extend(relay.filter(|relay| !near.contains(relay)));
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

fn texts(ports: &[TypedPorts]) -> Vec<String> {
    ports.iter().map(ToString::to_string).collect()
}

/// How an agent is told which captured packets relays get: `copies` and `marks`.
const fn copies(copies: CapturedCopies) -> (&'static str, Option<&'static [&'static str]>) {
    match copies {
        CapturedCopies::Usual => ("usual", None),
        CapturedCopies::All => ("all", None),
        CapturedCopies::Ends => ("marked", Some(&["tcp-handshakes", "tcp-ends"])),
        CapturedCopies::Syn => ("marked", Some(&["tcp-handshakes"])),
        CapturedCopies::SynAck => ("marked", Some(&["tcp-syn-acks"])),
    }
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

#[cfg(test)]
mod tests {
    use byway_scenario::Scenario;

    use super::*;

    const SCENARIO: &str = r#"
title = "Two calls"
length = "4 s"
node = [
    { name = "alice", role = "agent", count = 2 },
    { name = "bob", role = "agent", count = 2 },
    { name = "east", role = "relay" },
    { name = "west", role = "relay" },
]
link = [
    { between = ["alice", "bob"], delay = "40 ms" },
    { between = ["alice", "east"], delay = "5 ms" },
    { between = ["bob", "west"], delay = "5 ms" },
    { between = ["east", "west"], delay = "35 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "coding", in_stream = "none", batch = "6+2", sends = { kind = "steady", every = "20 ms", bytes = 300 } },
]
"#;

    fn network() -> Network {
        Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("they are joined")
    }

    fn with<T>(network: &Network, folder: &Path, look: impl FnOnce(&Configuration<'_>) -> T) -> T {
        let keys: Vec<String> = (0..network.machines.len())
            .map(|_| crate::membership::NodeKey::generate().public_key().to_string())
            .collect();
        look(&Configuration { network, keys: &keys, folder, uses_relays: true })
    }

    #[test]
    fn nodes_find_their_files_right() {
        let (network, folder) = (network(), tempfile::tempdir().expect("a folder"));
        with(&network, folder.path(), |configuration| {
            for place in 0..network.machines.len() {
                let file = folder.path().join(format!("{place}.toml"));
                std::fs::write(&file, configuration.file(place).expect("TOML")).expect("room on the disk");
                let roles = crate::settings::check_file(&file).expect("a right file");
                let expected = if place < 4 { "agent" } else { "relay" };
                assert_eq!(roles, [expected], "{place}");
            }
        });
    }

    #[test]
    fn an_agent_behind_a_router_that_translates_addresses_is_reached_nowhere_directly() {
        let scenario = SCENARIO
            .replace("count = 2", "count = 1")
            .replace("role = \"relay\" },\n]", "role = \"relay\" },\n    { name = \"home\", role = \"router\", nat = true },\n    { name = \"gate\", role = \"router\" },\n]")
            .replace("[\"alice\", \"bob\"]", "[\"home\", \"gate\"]")
            .replace("[\"alice\", \"east\"]", "[\"home\", \"east\"]")
            .replace("link = [", "link = [\n    { between = [\"alice\", \"home\"] },\n    { between = [\"gate\", \"bob\"] },");
        let network = Scenario::parse(&scenario).expect("a scenario").network(1).expect("they are joined");
        let folder = tempfile::tempdir().expect("a folder");
        let text = with(&network, folder.path(), |configuration| configuration.file(1).expect("TOML"));
        let members = text.split_once("[[network").expect("who is who").1;
        assert!(!members.contains("10.77.0.1:4600") && members.contains("10.77.0.2:4600"), "{text}");
        let file = folder.path().join("bob.toml");
        std::fs::write(&file, text).expect("room on the disk");
        assert_eq!(crate::settings::check_file(&file).expect("a right file"), ["agent"]);
    }

    #[test]
    fn the_uplink_of_a_relay_is_said_to_it_alone() {
        let uplink = "role = \"relay\", uplink = { rate = \"10 Mbit/s\", delay = \"12 ms\", ratio = 2.5, guard = \"strict\" } },";
        let scenario = SCENARIO.replacen("role = \"relay\" },", uplink, 1);
        let network = Scenario::parse(&scenario).expect("a scenario").network(1).expect("they are joined");
        let folder = tempfile::tempdir().expect("a folder");
        with(&network, folder.path(), |configuration| {
            for (place, has_uplink) in [(0, false), (4, true), (5, false)] {
                let text = configuration.file(place).expect("TOML");
                assert_eq!(text.contains("[uplink]"), has_uplink, "{text}");
                let file = folder.path().join(format!("{place}.toml"));
                std::fs::write(&file, &text).expect("room on the disk");
                assert_eq!(crate::settings::check_file(&file).expect("a right file").len(), 1);
                let typed: crate::settings::TypedFile = toml::from_str(&text).expect("the same");
                assert_eq!(typed.uplink, network.machines[place].uplink);
            }
        });
    }

    #[test]
    fn what_a_scenario_says_of_codes_is_said_to_agents() {
        let network = network();
        let file = with(&network, Path::new("/lab"), |configuration| configuration.file(0).expect("TOML"));
        assert!(file.contains("in_stream = \"none\"") && file.contains("batch = \"6+2\""), "{file}");
        assert!(file.contains("relays = [\"east\"]") && file.contains("relays = [\"west\"]"), "{file}");
    }
}
