//! Configuration files for the processes of a run, as a user would write them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::plan::{DEADLINE_MS, DemoNode, DemoPlan};
use super::results::RunKind;

/// Name of the service that the receiving agent exposes.
const EXPOSED: &str = "video";

/// Rate limit of the agent's forward. It exceeds the stream's 1.5 Mbit/s, because the network and
/// not the agent must decide which packets are lost.
const FORWARD_RATE: &str = "2 Mbit/s";

#[derive(Serialize)]
struct AgentFile {
    agent: NodeTable,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forward: Vec<ForwardTable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    expose: Vec<ExposeTable>,
    observe: ObserveTable,
}

#[derive(Serialize)]
struct RelayFile {
    relay: NodeTable,
    observe: ObserveTable,
}

#[derive(Serialize)]
struct ControllerFile {
    controller: ControllerTable,
    observe: ObserveTable,
}

#[derive(Serialize)]
struct NodeTable {
    name: String,
    state: PathBuf,
    token_file: PathBuf,
    listen: [SocketAddr; 1],
    addresses: [SocketAddr; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<String>,
}

#[derive(Serialize)]
struct ControllerTable {
    listen: [SocketAddr; 1],
    addresses: [String; 1],
    state: PathBuf,
}

#[derive(Serialize)]
struct ForwardTable {
    listen: SocketAddr,
    peer: String,
    to: &'static str,
    service: &'static str,
    rate: &'static str,
    latency_budget: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_stream: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<&'static str>,
}

#[derive(Serialize)]
struct ExposeTable {
    name: &'static str,
    target: SocketAddr,
    peers: [String; 1],
}

#[derive(Serialize)]
struct ObserveTable {
    listen: SocketAddr,
}

/// Role of a node of the demo: relay or agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Relay,
    Agent,
}

impl Role {
    /// Returns the subcommand of `byway` that runs a node of this role.
    pub(crate) const fn command(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Agent => "agent",
        }
    }
}

/// Contents of the configuration files of one run's controller, relays and agents, as TOML.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configuration<'a> {
    pub(crate) plan: &'a DemoPlan,
    pub(crate) kind: RunKind,
    pub(crate) folder: &'a Path,
}

impl Configuration<'_> {
    /// Returns the path of the token file for nodes of this role.
    pub(crate) fn token_file(&self, role: Role) -> PathBuf {
        self.folder.join(format!("{}.token", role.command()))
    }

    /// Returns the configuration file of a relay or an agent.
    pub(crate) fn node(&self, node: DemoNode) -> Result<String, toml::ser::Error> {
        let observe = ObserveTable { listen: self.plan.observe(node) };
        let table = self.table(node);
        match node {
            DemoNode::IngressRelay | DemoNode::EgressRelay => {
                toml::to_string(&RelayFile { relay: table, observe })
            }
            DemoNode::Sender(pair) => {
                let forward = vec![self.forward(pair)];
                toml::to_string(&AgentFile { agent: table, forward, expose: Vec::new(), observe })
            }
            DemoNode::Receiver(pair) => {
                let target = self.plan.target(pair);
                let expose =
                    vec![ExposeTable { name: EXPOSED, target, peers: [DemoNode::Sender(pair).name()] }];
                toml::to_string(&AgentFile { agent: table, forward: Vec::new(), expose, observe })
            }
        }
    }

    /// Returns the controller's configuration file.
    pub(crate) fn controller(&self) -> Result<String, toml::ser::Error> {
        let listen = self.plan.controller();
        let state = self.folder.join("controller");
        let controller = ControllerTable { listen: [listen], addresses: [listen.to_string()], state };
        toml::to_string(&ControllerFile {
            controller,
            observe: ObserveTable { listen: self.plan.observe_controller() },
        })
    }

    fn table(&self, node: DemoNode) -> NodeTable {
        let (role, relay) = match node {
            DemoNode::Sender(_) => (Role::Agent, Some(DemoNode::IngressRelay.name())),
            DemoNode::Receiver(_) => (Role::Agent, Some(DemoNode::EgressRelay.name())),
            DemoNode::IngressRelay | DemoNode::EgressRelay => (Role::Relay, None),
        };
        NodeTable {
            name: node.name(),
            state: self.folder.join(node.name()),
            token_file: self.token_file(role),
            listen: [self.plan.real(node)],
            addresses: [self.plan.public(node)],
            relay,
        }
    }

    fn forward(&self, pair: usize) -> ForwardTable {
        let service = match self.kind {
            RunKind::Lossless | RunKind::Coding | RunKind::RelaysKilled | RunKind::Lone => "coding",
            RunKind::Internet => "internet",
            RunKind::Caching => "caching",
            RunKind::Forwarding => "forwarding",
        };
        let is_coding = service == "coding";
        ForwardTable {
            listen: self.plan.forward(pair),
            peer: DemoNode::Receiver(pair).name(),
            to: EXPOSED,
            service,
            rate: FORWARD_RATE,
            latency_budget: format!("{DEADLINE_MS} ms"),
            in_stream: is_coding.then_some("16+1"),
            batch: is_coding.then_some("8+2"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: DemoPlan = DemoPlan { net: 77, pairs: 8, seed: 1, outage_ms: (4_000, 9_000) };

    fn of(kind: RunKind) -> Configuration<'static> {
        Configuration { plan: &PLAN, kind, folder: Path::new("/tmp/run") }
    }

    #[test]
    fn a_sender_forwards_to_its_receiver_with_the_service_of_the_run() {
        let file = of(RunKind::RelaysKilled).node(DemoNode::Sender(0)).expect("TOML");
        let expected = r#"[agent]
name = "sender-1"
state = "/tmp/run/sender-1"
token_file = "/tmp/run/agent.token"
listen = ["127.77.1.3:4600"]
addresses = ["127.77.2.3:4600"]
relay = "ingress"

[[forward]]
listen = "127.77.3.1:5000"
peer = "receiver-1"
to = "video"
service = "coding"
rate = "2 Mbit/s"
latency_budget = "200 ms"
in_stream = "16+1"
batch = "8+2"

[observe]
listen = "127.77.5.3:4680"
"#;
        assert_eq!(file, expected);
    }

    #[test]
    fn only_coding_says_how_to_code() {
        let file = of(RunKind::Caching).node(DemoNode::Sender(7)).expect("TOML");
        assert!(file.contains("service = \"caching\"") && !file.contains("batch"), "{file}");
    }

    #[test]
    fn receivers_expose_and_relays_do_neither() {
        let receiver = of(RunKind::Coding).node(DemoNode::Receiver(7)).expect("TOML");
        assert!(receiver.contains("[[expose]]") && receiver.contains("peers = [\"sender-8\"]"), "{receiver}");
        let relay = of(RunKind::Coding).node(DemoNode::EgressRelay).expect("TOML");
        assert!(relay.starts_with("[relay]\nname = \"egress\"") && !relay.contains("expose"), "{relay}");
        let controller = of(RunKind::Coding).controller().expect("TOML");
        assert!(controller.contains("addresses = [\"127.77.7.1:4443\"]"), "{controller}");
    }
}
