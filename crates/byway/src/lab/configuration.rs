//! Configuration files for the nodes of a lab, as one would write them by hand: a static network.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use byway_config_types::{DurationSetting, PortsSetting};
use byway_lab::addresses;
use byway_scenario::classes::GuardSetting;
use byway_scenario::{
    CapturedCopies, FlowService, MachineRole, Network, NetworkFlow, NetworkTraffic, UplinkSetting,
};
use byway_wire::{BlockShape, Service};
use serde::Serialize;

/// Port of every node; each has a machine of its own.
const PORT: u16 = 4_600;

/// Address of a node's status and metrics, within its machine.
pub(super) const OBSERVED: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4_680);

/// First port of the flows' forwards and of their targets; the index of a flow is added to each.
const FORWARD_PORTS: u16 = 10_000;
const TARGET_PORTS: u16 = 30_000;

/// Most flows of a lab. The lab's process opens two sockets for each, and may usually open 1,024.
pub(super) const FLOWS_MAX: usize = 400;

/// Rate of all flows of a pair of agents together: effectively unlimited, as in the simulator.
const PAIR_RATE: &str = "1 Gbit/s";

/// Configuration file of a node, an agent or a relay.
#[derive(Serialize)]
struct NodeFile {
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<NodeSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<NodeSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uplink: Option<Uplink>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forward: Vec<ForwardTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    capture: Vec<CaptureTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expose: Vec<ExposeTable>,
    observe: ObserveTable,
    network: Members,
}

#[derive(Serialize)]
struct NodeSection {
    name: String,
    state: PathBuf,
    listen: Vec<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transit: Option<bool>,
}

/// Uplink section of a relay, with the scenario's settings.
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
    guard: Option<GuardSetting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ecn: Option<bool>,
}

impl Uplink {
    fn of(typed: &UplinkSetting) -> Self {
        let UplinkSetting { rate, delay, ratio, low_delay_budget, guard, ecn } = *typed;
        let time = |time: DurationSetting| format!("{} us", time.0.as_micros());
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
struct ForwardTable {
    listen: SocketAddr,
    #[serde(flatten)]
    wanted: FlowKeys,
}

#[derive(Serialize)]
struct CaptureTable {
    destinations: [IpAddr; 2],
    ports: Vec<String>,
    copies: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    marks: Option<&'static [&'static str]>,
    #[serde(flatten)]
    wanted: FlowKeys,
}

/// Settings of a flow to a peer, common to forwards and captures.
#[derive(Serialize)]
struct FlowKeys {
    peer: String,
    to: String,
    service: &'static str,
    rate: String,
    latency_budget: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_stream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redundancy: Option<&'static str>,
}

#[derive(Serialize)]
struct ExposeTable {
    name: String,
    #[serde(flatten)]
    at: ExposedKind,
    peers: [String; 1],
}

#[derive(Serialize)]
#[serde(untagged)]
enum ExposedKind {
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
struct ObserveTable {
    listen: SocketAddr,
}

/// Section that lists the members of the static network.
#[derive(Serialize)]
struct Members {
    relays: Vec<Member>,
    agents: Vec<Member>,
    pairs: Vec<PairTable>,
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
struct PairTable {
    agents: [String; 2],
    rate: &'static str,
}

/// Writer of the configuration files of a lab's nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Configuration<'a> {
    pub(super) network: &'a Network,
    /// Public key of each machine, by index; empty for routers.
    pub(super) keys: &'a [String],
    /// Parent folder of the nodes' folders, which have their state and keys.
    pub(super) folder: &'a Path,
    /// True if flows use relays. Otherwise the same flows use the direct path alone.
    pub(super) uses_relays: bool,
}

/// Returns the address in the sender's machine to which the application of this flow sends.
pub(super) fn forward(flow: usize) -> SocketAddr {
    local(FORWARD_PORTS, flow)
}

/// Returns the address in the receiver's machine at which the application of this flow listens.
pub(super) fn target(flow: usize) -> SocketAddr {
    local(TARGET_PORTS, flow)
}

/// True if the lab itself uses this port within machines.
pub(super) fn is_reserved(port: u16) -> bool {
    let of_flows = |first: u16| (first..).take(FLOWS_MAX).any(|reserved| reserved == port);
    [PORT, OBSERVED.port()].contains(&port) || of_flows(FORWARD_PORTS) || of_flows(TARGET_PORTS)
}

fn local(first: u16, flow: usize) -> SocketAddr {
    let flow = u16::try_from(flow).expect("there are at most FLOWS_MAX");
    SocketAddr::from(([127, 0, 0, 1], first + flow))
}

impl Configuration<'_> {
    /// Returns the folder of a node, by the index of its machine.
    pub(super) fn folder(&self, index: usize) -> PathBuf {
        self.folder.join(&self.network.machines[index].name)
    }

    /// Returns the configuration file of a node, by the index of its machine.
    pub(super) fn file(&self, index: usize) -> Result<String, toml::ser::Error> {
        let node = NodeSection {
            name: self.name(index),
            state: self.folder(index),
            listen: at(index),
            transit: self.network.machines[index].transit.then_some(true),
        };
        let (agent, relay) = match self.network.machines[index].role {
            MachineRole::Relay => (None, Some(node)),
            MachineRole::Agent | MachineRole::Router => (Some(node), None),
        };
        let flows = || self.network.flows.iter().enumerate();
        let sent = || flows().filter(|(_, flow)| flow.from == index);
        let expose = flows().filter(|(_, flow)| flow.to == index);
        toml::to_string(&NodeFile {
            agent,
            relay,
            uplink: self.network.machines[index].uplink.as_ref().map(Uplink::of),
            forward: sent().filter_map(|(nth, flow)| self.forward(nth, flow)).collect(),
            capture: sent().filter_map(|(nth, flow)| self.capture(nth, flow)).collect(),
            expose: expose.map(|(nth, flow)| self.expose(nth, flow)).collect(),
            observe: ObserveTable { listen: OBSERVED },
            network: self.members(),
        })
    }

    fn name(&self, index: usize) -> String {
        self.network.machines[index].name.clone()
    }

    fn forward(&self, nth: usize, flow: &NetworkFlow) -> Option<ForwardTable> {
        let listen = match flow.traffic {
            NetworkTraffic::Programs(ends) => ends.listen,
            NetworkTraffic::Datagrams(_) | NetworkTraffic::Tcp => forward(nth),
            NetworkTraffic::Captured(_) => return None,
        };
        Some(ForwardTable { listen, wanted: self.flow_keys(nth, flow) })
    }

    fn capture(&self, nth: usize, flow: &NetworkFlow) -> Option<CaptureTable> {
        let NetworkTraffic::Captured(captured) = &flow.traffic else {
            return None;
        };
        let (copies, marks) = copies(captured.copies);
        Some(CaptureTable {
            destinations: addresses(flow.to),
            ports: texts(&captured.ports),
            copies,
            marks,
            wanted: self.flow_keys(nth, flow),
        })
    }

    fn flow_keys(&self, nth: usize, flow: &NetworkFlow) -> FlowKeys {
        let service = if self.uses_relays { flow.service } else { FlowService::Named(Service::Internet) };
        let coded = |shape: Option<BlockShape>| {
            let text = |shape: BlockShape| format!("{}+{}", shape.source_packets(), shape.repair_packets());
            (service == FlowService::Named(Service::Coding))
                .then(|| shape.map_or_else(|| "none".to_owned(), text))
        };
        FlowKeys {
            peer: self.name(flow.to),
            to: exposed_name(nth),
            service: service.name(),
            rate: format!("{} bit/s", flow.rate.bits_per_second()),
            latency_budget: format!("{} us", flow.terms.budget.as_micros()),
            in_stream: coded(flow.in_stream),
            batch: coded(flow.batch),
            redundancy: (service == FlowService::Named(Service::Coding)).then_some(flow.redundancy.name()),
        }
    }

    fn expose(&self, nth: usize, flow: &NetworkFlow) -> ExposeTable {
        let at = match &flow.traffic {
            NetworkTraffic::Programs(ends) => ExposedKind::Target { target: ends.target },
            NetworkTraffic::Datagrams(_) | NetworkTraffic::Tcp => ExposedKind::Target { target: target(nth) },
            NetworkTraffic::Captured(captured) => ExposedKind::Network {
                networks: addresses(flow.to),
                sources: addresses(flow.from),
                ports: texts(&captured.ports),
                marks: copies(captured.copies).1,
            },
        };
        ExposeTable { name: exposed_name(nth), at, peers: [self.name(flow.from)] }
    }

    fn members(&self) -> Members {
        let of_role = |role| {
            let machines = self.network.machines.iter().enumerate();
            machines.filter(move |(_, machine)| machine.role == role).map(|(index, _)| self.member(index))
        };
        let pairs: BTreeSet<[usize; 2]> =
            self.network.flows.iter().map(|flow| [flow.from.min(flow.to), flow.from.max(flow.to)]).collect();
        Members {
            relays: of_role(MachineRole::Relay).collect(),
            agents: of_role(MachineRole::Agent).collect(),
            pairs: pairs
                .into_iter()
                .map(|ends| PairTable { agents: ends.map(|end| self.name(end)), rate: PAIR_RATE })
                .collect(),
        }
    }

    fn member(&self, index: usize) -> Member {
        Member {
            name: self.name(index),
            number: index + 1,
            key: self.keys[index].clone(),
            // An address behind a NAT router is not reachable for others: relays introduce the two
            // agents to each other.
            addresses: if self.network.machines[index].behind.is_some() { Vec::new() } else { at(index) },
            relays: Self::relays_near(self.network, index)
                .into_iter()
                .map(|relay| self.name(relay))
                .collect(),
        }
    }

    /// Returns the near relay of an agent in each of its flows, without repetitions, in the order
    /// of the flows.
    pub(super) fn relays_near(network: &Network, index: usize) -> Vec<usize> {
        let mut near = Vec::new();
        for flow in &network.flows {
            let Some((ingress, egress)) = flow.relays else {
                continue;
            };
            let relay = if flow.from == index { Some(ingress) } else { (flow.to == index).then_some(egress) };
            near.extend(relay.filter(|relay| !near.contains(relay)));
        }
        near
    }
}

fn at(index: usize) -> Vec<SocketAddr> {
    addresses(index).map(|address| SocketAddr::new(address, PORT)).to_vec()
}

/// Returns the name by which the receiver of this flow exposes its target.
pub(super) fn exposed_name(flow: usize) -> String {
    format!("flow-{flow}")
}

fn texts(ports: &[PortsSetting]) -> Vec<String> {
    ports.iter().map(ToString::to_string).collect()
}

/// Returns the values of the settings `copies` and `marks`, which select the captured packets that
/// an agent copies to relays.
const fn copies(copies: CapturedCopies) -> (&'static str, Option<&'static [&'static str]>) {
    match copies {
        CapturedCopies::Usual => ("usual", None),
        CapturedCopies::All => ("all", None),
        CapturedCopies::Ends => ("marked", Some(&["tcp-handshakes", "tcp-ends"])),
        CapturedCopies::Syn => ("marked", Some(&["tcp-handshakes"])),
        CapturedCopies::SynAck => ("marked", Some(&["tcp-syn-acks"])),
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

    fn with<T>(network: &Network, folder: &Path, act: impl FnOnce(&Configuration<'_>) -> T) -> T {
        let keys: Vec<String> = (0..network.machines.len())
            .map(|_| crate::membership::NodeKey::generate().public_key().to_string())
            .collect();
        act(&Configuration { network, keys: &keys, folder, uses_relays: true })
    }

    #[test]
    fn nodes_find_their_files_right() {
        let (network, folder) = (network(), tempfile::tempdir().expect("a folder"));
        with(&network, folder.path(), |configuration| {
            for index in 0..network.machines.len() {
                let file = folder.path().join(format!("{index}.toml"));
                std::fs::write(&file, configuration.file(index).expect("TOML")).expect("space on the disk");
                let roles = crate::settings::check_file(&file).expect("a right file");
                let expected = if index < 4 { "agent" } else { "relay" };
                assert_eq!(roles, [expected], "{index}");
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
        let members = text.split_once("[[network").expect("a section of the network").1;
        assert!(!members.contains("10.77.0.1:4600") && members.contains("10.77.0.2:4600"), "{text}");
        let file = folder.path().join("bob.toml");
        std::fs::write(&file, text).expect("space on the disk");
        assert_eq!(crate::settings::check_file(&file).expect("a right file"), ["agent"]);
    }

    #[test]
    fn the_uplink_of_a_relay_is_said_to_it_alone() {
        let uplink = "role = \"relay\", uplink = { rate = \"10 Mbit/s\", delay = \"12 ms\", ratio = 2.5, guard = \"strict\" } },";
        let scenario = SCENARIO.replacen("role = \"relay\" },", uplink, 1);
        let network = Scenario::parse(&scenario).expect("a scenario").network(1).expect("they are joined");
        let folder = tempfile::tempdir().expect("a folder");
        with(&network, folder.path(), |configuration| {
            for (index, has_uplink) in [(0, false), (4, true), (5, false)] {
                let text = configuration.file(index).expect("TOML");
                assert_eq!(text.contains("[uplink]"), has_uplink, "{text}");
                let file = folder.path().join(format!("{index}.toml"));
                std::fs::write(&file, &text).expect("space on the disk");
                assert_eq!(crate::settings::check_file(&file).expect("a right file").len(), 1);
                let typed: crate::settings::RawFile = toml::from_str(&text).expect("the same");
                assert_eq!(typed.uplink, network.machines[index].uplink);
            }
        });
    }

    #[test]
    fn a_relay_that_passes_on_packets_of_others_has_that_setting() {
        let scenario = SCENARIO.replacen("role = \"relay\" },", "role = \"relay\", transit = true },", 1);
        let network = Scenario::parse(&scenario).expect("a scenario").network(1).expect("they are joined");
        let folder = tempfile::tempdir().expect("a folder");
        with(&network, folder.path(), |configuration| {
            for (index, transits) in [(0, false), (4, true), (5, false)] {
                let text = configuration.file(index).expect("TOML");
                assert_eq!(text.contains("transit = true"), transits, "{text}");
                let file = folder.path().join(format!("{index}.toml"));
                std::fs::write(&file, &text).expect("space on the disk");
                assert_eq!(crate::settings::check_file(&file).expect("a right file").len(), 1);
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
