//! Settings as typed: what a configuration file may say, key by key.
//!
//! The doc comments here are the configuration reference.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use byway_scenario::TypedUplink;
use byway_typed::{TypedBytes, TypedDuration, TypedPorts, TypedRate, TypedShape};

use super::endpoint::{Endpoint, read_address, read_addresses, read_some_addresses};
use super::selectors::{TypedInside, TypedMark, TypedPrefix, TypedUsers};

/// A configuration file. One file may have the tables of several roles; each command reads its own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedFile {
    /// Settings of `byway agent`.
    pub(crate) agent: Option<TypedAgent>,
    /// Settings of `byway relay`.
    pub(crate) relay: Option<TypedRelay>,
    /// The rate that a relay sends at most, and how its flows share it. Without it, a relay sends every packet at once.
    pub(crate) uplink: Option<TypedUplink>,
    /// Settings of `byway controller`.
    pub(crate) controller: Option<TypedController>,
    /// Ports whose datagrams go to something that another agent exposes.
    #[serde(default)]
    pub(crate) forward: Vec<TypedForward>,
    /// Packets of applications that know nothing of Byway, to be taken to another agent.
    #[serde(default)]
    pub(crate) capture: Vec<TypedCapture>,
    /// Targets and networks that other agents may send to.
    #[serde(default)]
    pub(crate) expose: Vec<TypedExpose>,
    /// Limits of an agent's mappings. Where they are reached, a mapping without an answer makes room for the next port, else
    /// the longest idle one.
    #[serde(default)]
    pub(crate) mappings: TypedMappings,
    /// The device through which packets are captured.
    pub(crate) tunnel: Option<TypedTunnel>,
    /// The nodes of the network, where there is no controller: static mode.
    pub(crate) network: Option<TypedNetwork>,
    /// The address at which this node answers questions about itself.
    #[serde(default)]
    pub(crate) observe: TypedObserve,
    /// The log.
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
            own: $($(#[$own_about:meta])* $own:ident: $kind:ty),+
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
            #[serde(default, deserialize_with = "read_some_addresses")]
            #[schemars(with = "Option<Vec<String>>")]
            listen: Option<Vec<SocketAddr>>,
            $(#[$addresses])*
            #[serde(default, deserialize_with = "read_addresses")]
            #[schemars(with = "Vec<String>")]
            addresses: Vec<SocketAddr>,
            $($(#[$own_about])* pub(crate) $own: Option<$kind>,)+
        }

        impl $table {
            /// Returns the settings that agents and relays have in common.
            pub(crate) const fn node(&mut self) -> NodeTable<'_> {
                let Self { name, state, token, token_file, key_file, listen, addresses, $($own: _),+ } = self;
                NodeTable { name, state, token, token_file, key_file, listen, addresses }
            }
        }
    };
}

/// Settings that agents and relays have in common, from the table of either.
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
            /// Where it meets peers and relays: one IPv4 address, one IPv6 address, or both. Port 0 is the port of the agent's
            /// last run, kept in the state folder, or any if that is not free. Default: `["0.0.0.0:0", "[::]:0"]`, as far as
            /// the machine speaks them.
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
            shards: u8,
            /// The memory for all that grows with what comes, in all shards together: at least 8 MB for each. An eighth each is for
            /// the packets that copies and repairs are kept as, of both halves, and for the state of flows that are received and
            /// sent; a quarter each for sessions (4.8 kB each, 16,384 at most) and for registered flows (3.4 kB each). The queue of
            /// an `[uplink]` comes on top. Default: 400 MB for each shard.
            memory: TypedBytes,
            /// Most sessions of one tenant's agents in each shard: 1 to 16384. Default: any number until half of those that
            /// `memory` has room for are there, then these divided by the number of tenants that have any. A tenant below its
            /// share takes from the one that has most.
            tenant_sessions_max: u64,
            /// Most flows of one tenant that are registered in each shard, sent and received: 1 to 1000000. Default: as for
            /// sessions, of the flows that `memory` has room for.
            tenant_flows_max: u64
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
    /// The rate that all flows of a pair of agents may send together through relays. Default: 100 Mbit/s.
    pub(crate) rate: Option<TypedRate>,
    /// Most agents of one tenant: 1 to 4096. Default: any number until half of 4,096 members are there, then 4,096 divided by
    /// the number of tenants that have agents or tokens.
    pub(crate) tenant_agents_max: Option<usize>,
    /// Most pairs with an agent of one tenant: 1 to 16384. Default: as for agents, of 16,384 pairs.
    pub(crate) tenant_pairs_max: Option<usize>,
    /// Most tokens of one tenant: 1 to 1024. Default: as for agents, of 1,024 tokens.
    pub(crate) tenant_tokens_max: Option<usize>,
}

/// Writes the table of what flows may be asked for: whose they are, and what relays do for them.
macro_rules! flows_table {
    (
        $(#[$about:meta])*
        $table:ident { $($(#[$own_about:meta])* $own:ident: $kind:ty),* $(,)? }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $table {
            $($(#[$own_about])* pub(crate) $own: $kind,)*
            /// The agent at the other end, by name.
            pub(crate) peer: String,
            /// The target or network that the peer exposes, by name.
            pub(crate) to: String,
            /// The service of relays for it, in both directions: `internet`, `coding`, `caching`, `forwarding` or `both`. Default:
            /// `caching`, which needs no other flows beside it.
            #[serde(default)]
            service: TypedService,
            /// The rate that each flow sends at most, in each direction; a forward has one for each application, a capture one for TCP and QUIC
            /// and one for all else. Default: 4 Mbit/s, of a capture 100 Mbit/s.
            rate: Option<TypedRate>,
            /// From sending to delivery: what comes later is lost. Default: 250 ms.
            latency_budget: Option<TypedDuration>,
            /// Repair packets within the flow, for the coding service: source packets + repair packets of a block. Default:
            /// `16+1`.
            in_stream: Option<TypedShape>,
            /// Repair packets across flows, for the coding service: source packets + repair packets of a full batch. Default:
            /// `8+2`.
            batch: Option<TypedShape>,
            /// The kind of the packets: `datagrams`, `congestion-controlled` for TCP and QUIC, or `mixture` for tunnels, which hide
            /// what they carry: all is copied, and repaired unless packets queue on the direct path. A forward that nothing tells
            /// what to copy of congestion-controlled traffic takes it for a mixture. Default: `datagrams`; of a capture, TCP and
            /// QUIC (UDP port 443) are congestion-controlled, and all else is datagrams.
            traffic: Option<TypedTraffic>,
            /// The packets that go to the relay: `usual` (everything, but of congestion-controlled traffic nothing that is bulk), `all`
            /// (everything, also of what comes back), `marked` (what `marks` names), `by-relay` (everything, and nothing on the direct path: the relay sends it on), or
            /// `own-repairs` (repair packets made here, for uplinks that carry no copies). Default: `usual`.
            #[serde(default)]
            copies: TypedCopies,
            /// The packets that are worth a copy where not all get one: any of `tcp-handshakes` (SYN, SYN-ACK), `tcp-syn-acks`,
            /// `tcp-ends` (FIN, and the last segment of what was written), `short-flows` (the first 64 kB of each connection, and of
            /// each that was idle for a second), `rtp-h264-key-frames`, `rtp-h265-key-frames`, `rtp-vp8-key-frames`, `mpeg-ts-key-frames`, `dscp:46` (packets of this
            /// DSCP). Of a forward, those that look into datagrams. Default: of a capture, `tcp-handshakes`, `tcp-ends` and `short-flows`.
            marks: Option<Vec<TypedMark>>,
            /// Holds copies back until the first losses, but for those of a flow's first packets. Default: false.
            #[serde(default)]
            standby: bool,
        }

        impl $table {
            /// Returns the service that relays are asked for.
            pub(crate) fn wish(&self) -> TypedWish<'_> {
                let Self { service, rate, latency_budget, in_stream, batch, traffic, copies, marks, standby, .. } = self;
                TypedWish {
                    peer: &self.peer,
                    to: &self.to,
                    service: *service,
                    rate: *rate,
                    latency_budget: *latency_budget,
                    in_stream: *in_stream,
                    batch: *batch,
                    traffic: *traffic,
                    copies: *copies,
                    marks: marks.as_deref(),
                    standby: *standby,
                }
            }
        }
    };
}

/// The service that relays are asked for, from whichever table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypedWish<'a> {
    pub(crate) peer: &'a str,
    pub(crate) to: &'a str,
    pub(crate) service: TypedService,
    pub(crate) rate: Option<TypedRate>,
    pub(crate) latency_budget: Option<TypedDuration>,
    pub(crate) in_stream: Option<TypedShape>,
    pub(crate) batch: Option<TypedShape>,
    pub(crate) traffic: Option<TypedTraffic>,
    pub(crate) copies: TypedCopies,
    pub(crate) marks: Option<&'a [TypedMark]>,
    pub(crate) standby: bool,
}

flows_table! {
    /// A port whose datagrams go to something that another agent exposes, and whose answers come back.
    TypedForward {
        /// Where applications send to: an address of this machine with a port, `0.0.0.0` or `[::]` for all of them.
        #[serde(deserialize_with = "read_address")]
        #[schemars(with = "String")]
        listen: SocketAddr,
        /// The DSCP of each datagram goes to the peer, which puts it back where the datagram leaves for its target, and the DSCPs of
        /// answers are put back here. `false`: both are 0. DSCPs 48 to 63 (CS6, CS7: network control) of a peer always become 0.
        /// The packets of Byway themselves are not marked. Not to be taken for the mark `dscp:46`. Default: true.
        keep_dscp: Option<bool>,
    }
}

flows_table! {
    /// Packets of applications that know nothing of Byway: they are routed into a device of the agent, and come out at another
    /// agent. It takes `CAP_NET_ADMIN`. A packet is taken if all that is named here fits.
    TypedCapture {
        /// Where they go: addresses, or prefixes like `10.1.0.0/16`. Default: anywhere.
        #[serde(default)]
        destinations: Vec<TypedPrefix>,
        /// To which ports, like `tcp:443`, `udp:5000-5010` or `tcp`. Default: all packets, of whatever protocol.
        #[serde(default)]
        ports: Vec<TypedPorts>,
        /// Of which users of this machine, like `alice` or `1000-1999`. Default: of all, and what this machine routes for others.
        #[serde(default)]
        users: Vec<TypedUsers>,
        /// Of which control groups, by their path below `/sys/fs/cgroup`, like `system.slice/nginx.service`; it takes iptables.
        #[serde(default)]
        cgroups: Vec<String>,
        /// With which firewall mark: what a rule of nft or iptables has set. Default: whatever it is.
        #[serde(default)]
        firewall_marks: Vec<u32>,
        /// Captures packets that programs pin to a device, as a `WireGuard` in user space does: rules of routing do not count for those,
        /// and a rule of iptables, where that is there, has them routed anew. Default: false.
        #[serde(default)]
        pinned: bool,
        /// The queue (NFQUEUE) into which rules of nft or iptables put the packets: 0 to 65535. In the place of `destinations`, `ports`, `users`, `cgroups`
        /// and `firewall_marks`: the rules choose, and the agent makes none of its own.
        queue: Option<u32>,
    }
}

/// The device of an agent that captures packets, or exposes networks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedTunnel {
    /// Its name in the system. Default: `byway0`.
    pub(crate) device: Option<String>,
    /// The number of the routing table, of the first of 100 priorities of rules, and of the firewall mark of Byway's own packets: all
    /// three are this agent's alone. Default: 4600.
    pub(crate) table: Option<u32>,
    /// The longest IP packet that applications send through it: 1280 to 1500 bytes. One of more than 1354
    /// bytes takes two packets on the way, and so does a shorter one where the path carries less; TCP agrees on segments that take one, once
    /// that is known. Default: 1354.
    pub(crate) mtu: Option<u16>,
    /// The routing table by which Byway's own packets go: 254, the system's main one, where a VPN takes all that this machine sends by
    /// a table of its own, and Byway carries that VPN. Default: they go as all others of this machine.
    pub(crate) own_table: Option<u32>,
    /// Its addresses, with the length of the prefix behind which others like it are, as in `100.64.7.1/24`: packets that are captured
    /// come from there. Default: none, and packets come from the address that they would have without Byway.
    #[serde(default)]
    pub(crate) addresses: Vec<TypedInside>,
    /// A device of this machine whose packets captures carry, as that of a `WireGuard`: if it sends and nothing of it goes by Byway, status,
    /// log and metrics say so within 10 s. Default: none.
    pub(crate) watches: Option<String>,
}

/// Limits of an agent's mappings.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedMappings {
    /// Most mappings at the same time, of this agent's applications and of its peers': 1 to 4096. Each takes about 12 kB, and one
    /// of a peer a socket. A relay repairs about 2,000 of one agent; beyond that, mappings have the direct path alone. Default:
    /// 2000.
    pub(crate) max: Option<u32>,
    /// Most of them that one peer's applications have: 1 to `max`. Default: half of `max`.
    pub(crate) peer_max: Option<u32>,
}

/// Something that other agents may send to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedExpose {
    /// By which other agents refer to it.
    pub(crate) name: String,
    /// Where their datagrams go: an address or a DNS name, with a port. A name is resolved at the start and every 30 s; while it does
    /// not resolve, its last address is used. Either this or `networks`.
    pub(crate) target: Option<Endpoint>,
    /// Where packets may go that they capture: addresses of this machine, and prefixes behind it.
    #[serde(default)]
    pub(crate) networks: Vec<TypedPrefix>,
    /// Of `networks`: where those packets may come from; `0.0.0.0/0` and `::/0` for anywhere else. What this machine sends there goes
    /// back the same way.
    #[serde(default)]
    pub(crate) sources: Vec<TypedPrefix>,
    /// Of `networks`: to which ports, as of a capture. Default: all packets; then all that this machine sends to `sources` goes through
    /// the device.
    #[serde(default)]
    pub(crate) ports: Vec<TypedPorts>,
    /// Of `networks`: the packets of the way back that are worth a copy where not all get one, as of a capture.
    pub(crate) marks: Option<Vec<TypedMark>>,
    /// The agents that may, by name. Default: all agents of the network that are paired with this one.
    pub(crate) peers: Option<Vec<String>>,
    /// Of `target`: the DSCP of peers' datagrams is put back on those to the target, and the DSCP of the target's answers goes to
    /// the peer. `false`: both are 0. DSCPs 48 to 63 (CS6, CS7: network control) of a peer always become 0. Default: true.
    pub(crate) keep_dscp: Option<bool>,
}

/// The service of relays for a flow.
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

/// The kind of a flow's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedTraffic {
    /// Datagrams whose order does not matter.
    #[default]
    Datagrams,
    /// TCP or QUIC.
    CongestionControlled,
    /// Both, and nobody can tell which packets are which.
    Mixture,
}

/// The packets that go to the ingress relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedCopies {
    /// All datagrams, but no bulk data of congestion-controlled traffic.
    #[default]
    Usual,
    /// All datagrams.
    All,
    /// Those that `marks` names.
    Marked,
    /// All datagrams, and none on the direct path from here.
    ByRelay,
    /// None: repair packets are made here.
    OwnRepairs,
}

/// The nodes of the network, the same in the files of all of them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedNetwork {
    /// The relays.
    #[serde(default)]
    pub(crate) relays: Vec<TypedNetworkRelay>,
    /// The agents.
    #[serde(default)]
    pub(crate) agents: Vec<TypedNetworkAgent>,
    /// The pairs of agents that may exchange flows.
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
    /// Where it is reached: an IPv4 address, an IPv6 address, or both; or a DNS name. Names are resolved at the start, and again while
    /// the relay does not answer: a relay may move.
    pub(crate) addresses: Vec<Endpoint>,
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
    /// Where it may be reached directly: addresses, or DNS names, as of a relay. Default: nowhere, as behind a NAT; relays then
    /// bring the two ends together.
    #[serde(default)]
    pub(crate) addresses: Vec<Endpoint>,
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
    /// The rate that all flows of the pair send at most, in each direction. Default: 100 Mbit/s.
    pub(crate) rate: Option<TypedRate>,
}

/// The address at which a node answers questions about itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedObserve {
    /// An address of this machine for `byway status` and Prometheus. What it says is not secret from this machine's users,
    /// and for nobody else. Default: 127.0.0.1 with port 4680 for an agent, 4681 for a relay and 4682 for a controller.
    pub(crate) listen: Option<SocketAddr>,
}

/// The log.
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
    /// Events of normal operation.
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
