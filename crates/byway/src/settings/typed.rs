//! Settings as typed: what a configuration file may say, key by key.
//!
//! The doc comments here are the configuration reference.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use byway_typed::{TypedDuration, TypedRate, TypedShape};

/// A configuration file. One file may have the tables of several roles; each command reads its own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedFile {
    /// What `byway agent` is told.
    pub(crate) agent: Option<TypedAgent>,
    /// What `byway relay` is told.
    pub(crate) relay: Option<TypedRelay>,
    /// What `byway controller` is told.
    pub(crate) controller: Option<TypedController>,
    /// Ports whose datagrams go to something that another agent exposes.
    #[serde(default)]
    pub(crate) forward: Vec<TypedForward>,
    /// What other agents may send to.
    #[serde(default)]
    pub(crate) expose: Vec<TypedExpose>,
    /// Who is who, where there is no controller: static mode.
    pub(crate) network: Option<TypedNetwork>,
    /// Where this node answers questions about itself.
    #[serde(default)]
    pub(crate) observe: TypedObserve,
    /// What is logged.
    #[serde(default)]
    pub(crate) log: TypedLog,
}

/// Writes the table of a node: what agents and relays are both told, the meaning of what differs between them, and what only
/// one of them is told. A table within the table would do the same, but its errors would name no line of the file.
macro_rules! node_table {
    (
        $(#[$about:meta])*
        $table:ident {
            listen: $(#[$listen:meta])*
            addresses: $(#[$addresses:meta])*
            own: $(#[$own_about:meta])* $own:ident: $kind:ty
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $table {
            /// By which others refer to it. Default: the host's name.
            name: Option<String>,
            /// The folder of its key, its membership and the last map. Default: `$STATE_DIRECTORY`, else `agent` or `relay` in
            /// `/var/lib/byway` for root and in `~/.local/state/byway` for others.
            state: Option<PathBuf>,
            /// The controller's invitation, from `byway token create`. Needed until the node has joined; not with `[network]`.
            token: Option<String>,
            /// A file that holds the token instead.
            token_file: Option<PathBuf>,
            /// Its secret key, made by `byway keygen`. Default: `key` in the state folder, made at the first start.
            key_file: Option<PathBuf>,
            $(#[$listen])*
            listen: Option<Vec<SocketAddr>>,
            $(#[$addresses])*
            #[serde(default)]
            addresses: Vec<SocketAddr>,
            $(#[$own_about])*
            pub(crate) $own: Option<$kind>,
        }

        impl $table {
            /// What agents and relays are both told.
            pub(crate) const fn node(&mut self) -> NodeTable<'_> {
                let Self { name, state, token, token_file, key_file, listen, addresses, $own: _ } = self;
                NodeTable { name, state, token, token_file, key_file, listen, addresses }
            }
        }
    };
}

/// What agents and relays are both told, in the table of either.
#[derive(Debug)]
pub(crate) struct NodeTable<'a> {
    pub(crate) name: &'a mut Option<String>,
    pub(crate) state: &'a mut Option<PathBuf>,
    pub(crate) token: &'a mut Option<String>,
    pub(crate) token_file: &'a mut Option<PathBuf>,
    pub(crate) key_file: &'a mut Option<PathBuf>,
    pub(crate) listen: &'a mut Option<Vec<SocketAddr>>,
    pub(crate) addresses: &'a mut Vec<SocketAddr>,
}

node_table! {
    /// An agent.
    TypedAgent {
        listen:
            /// Where it meets peers and relays: one IPv4 address, one IPv6 address, or both; port 0 for any. Default:
            /// `["0.0.0.0:0", "[::]:0"]`, as far as the machine speaks them.
        addresses:
            /// Addresses at which peers may reach it beside those that are found out: a port that a router forwards.
        own:
            /// The relay near it, by name. Default: with a controller, the one with the shortest round trip.
            relay: String
    }
}

node_table! {
    /// A relay.
    TypedRelay {
        listen:
            /// Where it listens: one IPv4 address, one IPv6 address, or both, of the same port. Default:
            /// `["0.0.0.0:4600", "[::]:4600"]`, as far as the machine speaks them.
        addresses:
            /// Where others reach it, if that is not where it listens. Needed when it listens on `0.0.0.0` or `[::]` and there
            /// is a controller.
        own:
            /// Threads that share the work, each with its own flows: 1 to 64. Default: 1.
            shards: u8
    }
}

/// A controller.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedController {
    /// Where it answers HTTPS. Default: `["0.0.0.0:4443", "[::]:4443"]`, as far as the machine speaks them.
    pub(crate) listen: Option<Vec<SocketAddr>>,
    /// Where nodes find it, as host:port: written into tokens. Default: the host's name with the port it listens on.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// The folder of its database and keys. Default: `$STATE_DIRECTORY`, else `/var/lib/byway/controller` for root and
    /// `~/.local/state/byway/controller` for others.
    pub(crate) state: Option<PathBuf>,
    /// For how long a grant lets a pair of agents use relays: at least 24 h, as relays work so long without the controller.
    /// Default: 48 h.
    pub(crate) grant_lifetime: Option<TypedDuration>,
    /// The network's name, which counts on the first start. Default: `byway`.
    pub(crate) network: Option<String>,
    /// What all flows of a pair of agents may send together through relays. Default: 100 Mbit/s.
    pub(crate) rate: Option<TypedRate>,
}

/// A port whose datagrams go to something that another agent exposes, and whose answers come back.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedForward {
    /// Where applications send to.
    pub(crate) listen: SocketAddr,
    /// The agent at the other end, by name.
    pub(crate) peer: String,
    /// What it exposes, by name.
    pub(crate) to: String,
    /// What relays do for it, in both directions: `internet`, `coding`, `caching`, `forwarding` or `both`. Default:
    /// `caching`, which needs no other flows beside it.
    #[serde(default)]
    pub(crate) service: TypedService,
    /// What each application sends at most, in each direction. Default: 4 Mbit/s.
    pub(crate) rate: Option<TypedRate>,
    /// From sending to delivery: what comes later is lost. Default: 250 ms.
    pub(crate) latency_budget: Option<TypedDuration>,
    /// Repair packets within the flow, for the coding service: source packets + repair packets of a block. Default:
    /// `16+1`.
    pub(crate) in_stream: Option<TypedShape>,
    /// Repair packets across flows, for the coding service: source packets + repair packets of a full batch. Default:
    /// `8+2`.
    pub(crate) batch: Option<TypedShape>,
    /// What the datagrams are: `datagrams`, or `congestion-controlled` for tunnels of TCP, and for QUIC. Default:
    /// `datagrams`.
    #[serde(default)]
    pub(crate) traffic: TypedTraffic,
    /// What goes to the relay: `usual` (everything, but of congestion-controlled traffic nothing that is bulk), `all`,
    /// `by-relay` (everything, and nothing on the direct path: the relay sends it on), or `own-repairs` (repair packets
    /// made here, for uplinks that carry no copies). Default: `usual`.
    #[serde(default)]
    pub(crate) copies: TypedCopies,
    /// Whether copies wait for the first losses. Default: false.
    #[serde(default)]
    pub(crate) standby: bool,
}

/// Something that other agents may send to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedExpose {
    /// By which other agents refer to it.
    pub(crate) name: String,
    /// Where their datagrams go.
    pub(crate) target: SocketAddr,
    /// The agents that may, by name. Default: all agents of the network that are paired with this one.
    pub(crate) peers: Option<Vec<String>>,
}

/// What relays do for a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedService {
    /// Nothing: the direct path alone.
    Internet,
    /// Repair packets, within the flow and across flows.
    Coding,
    /// Repair from copies that wait near the receiver.
    #[default]
    Caching,
    /// Delivery through the relays alone.
    Forwarding,
    /// Delivery through the relays and on the direct path; what comes first counts.
    Both,
}

/// What a flow carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedTraffic {
    /// Datagrams whose order does not matter.
    #[default]
    Datagrams,
    /// TCP or QUIC.
    CongestionControlled,
}

/// What goes to the ingress relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedCopies {
    /// All datagrams, but no bulk data of congestion-controlled traffic.
    #[default]
    Usual,
    /// All datagrams.
    All,
    /// All datagrams, and none on the direct path from here.
    ByRelay,
    /// None: repair packets are made here.
    OwnRepairs,
}

/// Who is who, the same in the files of all nodes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedNetwork {
    /// The relays.
    #[serde(default)]
    pub(crate) relays: Vec<TypedNetworkRelay>,
    /// The agents.
    #[serde(default)]
    pub(crate) agents: Vec<TypedNetworkAgent>,
    /// Which agents may exchange flows.
    #[serde(default)]
    pub(crate) pairs: Vec<TypedPair>,
}

/// A relay of the network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedNetworkRelay {
    /// Its name.
    pub(crate) name: String,
    /// Its number: 1 or more, of which no other relay has the same.
    pub(crate) number: u32,
    /// Its public key, as `byway keygen` shows it.
    pub(crate) key: String,
    /// Where it is reached: an IPv4 address, an IPv6 address, or both.
    pub(crate) addresses: Vec<SocketAddr>,
    /// How many shards it has. Default: 1.
    pub(crate) shards: Option<u8>,
}

/// An agent of the network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedNetworkAgent {
    /// Its name.
    pub(crate) name: String,
    /// Its number: 1 or more, of which no other agent has the same.
    pub(crate) number: u32,
    /// Its public key, as `byway keygen` shows it.
    pub(crate) key: String,
    /// Where it may be reached directly. Default: nowhere, as behind a NAT; relays then bring the two ends together.
    #[serde(default)]
    pub(crate) addresses: Vec<SocketAddr>,
    /// The relays near it by name, best first; those after the first stand by. Default: none, the Internet alone.
    #[serde(default)]
    pub(crate) relays: Vec<String>,
}

/// Two agents that may exchange flows through their relays.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedPair {
    /// The two agents, by name.
    pub(crate) agents: [String; 2],
    /// Pairs of one group have their flows coded together where they share relays. Default: 1.
    pub(crate) group: Option<u32>,
    /// What all flows of the pair send at most, in each direction. Default: 100 Mbit/s.
    pub(crate) rate: Option<TypedRate>,
}

/// Where a node answers questions about itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedObserve {
    /// An address of this machine for `byway status` and Prometheus. What it says is not secret from this machine's users,
    /// and for nobody else. Default: 127.0.0.1 with port 4680 for an agent, 4681 for a relay and 4682 for a controller.
    pub(crate) listen: Option<SocketAddr>,
}

/// What is logged.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedLog {
    /// The least important messages shown: `error`, `warn`, `info`, `debug` or `trace`. Default: `info`.
    pub(crate) level: Option<TypedLevel>,
    /// For people or for machines: `text` or `json`. Default: `text`.
    pub(crate) format: Option<TypedFormat>,
}

/// How important a log message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedLevel {
    /// Something failed.
    Error,
    /// Something is wrong, and Byway goes on.
    Warn,
    /// What happens.
    Info,
    /// In detail.
    Debug,
    /// In all detail.
    Trace,
}

/// How log messages look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedFormat {
    /// A line for people.
    Text,
    /// A JSON object on a line.
    Json,
}
