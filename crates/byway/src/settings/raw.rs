//! Settings as typed: the keys of a configuration file.
//!
//! The doc comments here are the configuration reference.

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use byway_config_types::{
    BytesSetting, DurationSetting, PortsSetting, PricesSetting, RateSetting, RedundancySetting, ShapeSetting,
    ShareSetting,
};
use byway_scenario::UplinkSetting;

use super::endpoint::{Endpoint, read_address, read_addresses, read_some_addresses};
use super::prices::RawControllerRelay;
use super::raw_flow::{CopiesSetting, RawFlow, RawLatency, ServiceSetting, TrafficSetting};
use super::selectors::{InterfaceAddressSetting, MarkSetting, PrefixSetting, UsersSetting};
use super::topology::{RawReportedLink, RawRoutedPath, RawTenantNetwork};
use super::uplinks::UplinkDevice;

/// A configuration file. One file may have the tables of several roles; each command reads its own.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFile {
    /// Settings of `byway agent`.
    pub(crate) agent: Option<RawAgent>,
    /// Settings of `byway relay`.
    pub(crate) relay: Option<RawRelay>,
    /// Largest rate of a relay, and its distribution among the flows. Without it, a relay sends
    /// each packet at once.
    pub(crate) uplink: Option<UplinkSetting>,
    /// Settings of `byway controller`.
    pub(crate) controller: Option<RawController>,
    /// Ports whose datagrams go to a target that another agent exposes.
    #[serde(default)]
    pub(crate) forward: Vec<RawForward>,
    /// Packets of applications that know nothing of Byway, to be transported to another agent.
    #[serde(default)]
    pub(crate) capture: Vec<RawCapture>,
    /// Targets and networks that other agents may send to.
    #[serde(default)]
    pub(crate) expose: Vec<RawExpose>,
    /// Limits of an agent's mappings. At a limit, a new mapping evicts an unanswered one, or else
    /// the longest idle one.
    #[serde(default)]
    pub(crate) mappings: RawMappings,
    /// The device through which packets are captured.
    pub(crate) tunnel: Option<RawTunnel>,
    /// Nodes of the network, if there is no controller: static mode.
    pub(crate) network: Option<RawNetwork>,
    /// Address of this node's status server.
    #[serde(default)]
    pub(crate) observe: RawObserve,
    /// Log settings.
    #[serde(default)]
    pub(crate) log: RawLog,
}

/// Defines the table of a node: the common keys of agents and relays, the meaning of keys that
/// differ, and the keys of one of them. A nested table would have errors without a line of the
/// file.
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
            /// Name of the node for others. Default: the host's name.
            name: Option<String>,
            /// Folder of the node's key, membership and latest map. Default: `$STATE_DIRECTORY`,
            /// else `agent` or `relay` in `/var/lib/byway` for root and in `~/.local/state/byway`
            /// for others.
            state: Option<PathBuf>,
            /// Invitation of the controller, from `byway token create`. Required until the node has
            /// joined; not with `[network]`.
            token: Option<String>,
            /// File that contains the token.
            token_file: Option<PathBuf>,
            /// File that contains the node's secret key, made by `byway keygen`. Default: `key` in
            /// the state folder, created at the first start.
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
    RawAgent {
        listen:
            /// Addresses to listen on for peers and relays: one IPv4 address, one IPv6 address, or
            /// both. Port 0 is the port of the agent's last run, which the state folder contains;
            /// if it is not free, the system chooses one. Default: `["0.0.0.0:0", "[::]:0"]`, as
            /// far as the machine supports them.
        addresses:
            /// Addresses at which peers may reach it, in addition to detected ones: a port that a
            /// router forwards.
        own:
            /// Relay near it, by name. Default: with a controller, the one with the shortest round
            /// trip.
            relay: String,
            /// Network devices by which it sends to peers and relays: `["eth0"]`, or
            /// `["eth0", "wwan0"]`. Of two, the first is for peers and the second for relays while
            /// both work. `{ device = "wwan0", metered = true }` as the second sends copies only
            /// after a loss. Default: the system chooses.
            #[schemars(with = "Option<Vec<String>>")]
            uplinks: Vec<UplinkDevice>,
            /// Share of each received flow's `rate` that the agent returns in the long run, for
            /// repairs of other agents' losses. A burst of 30 s at the whole rate is additional.
            /// `0 %`: nothing, not even the burst, as for a metered connection. Default: `25 %`.
            consent: ShareSetting
    }
}

node_table! {
    /// A relay.
    RawRelay {
        listen:
            /// Addresses to listen on: one IPv4 address, one IPv6 address, or both, of the same
            /// port. Default: `["0.0.0.0:4600", "[::]:4600"]`, as far as the machine supports them.
        addresses:
            /// Addresses at which others reach it, if they are not the listening ones. Required if
            /// it listens on `0.0.0.0` or `[::]` and there is a controller.
        own:
            /// Threads that share the work, each with its own flows: 1 to 64. Default: 1.
            shards: u8,
            /// Memory of all state that grows with traffic, in all shards together: at least 8 MB
            /// for each. An eighth each is for packets that the ingress half stores, for those that
            /// the egress half stores, for received flows, and for sent flows. A quarter each is
            /// for sessions (4.8 kB each, 16,384 at most) and for registered flows (3.4 kB each).
            /// The queue of an `[uplink]` is additional. Default: 400 MB for each shard.
            memory: BytesSetting,
            /// Most sessions of one tenant's agents in each shard: 1 to 16384. Default: any number
            /// up to half of the sessions that fit into `memory`; beyond, an equal share for each
            /// tenant that has sessions. A new session of a tenant below its share replaces one of
            /// the tenant with the most.
            tenant_sessions_max: u64,
            /// Most registered flows of one tenant in each shard, sent and received: 1 to 1000000.
            /// Default: as for sessions, with the flows that fit into `memory`.
            tenant_flows_max: u64,
            /// Passes on packets between other relays that arrive sooner through this one: up to
            /// 200 Mbit/s of each in each shard, which this relay's provider charges for. Default:
            /// `false`.
            transit: bool
    }
}

/// A controller.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawController {
    /// Addresses to serve HTTPS on. Default: `["0.0.0.0:4443", "[::]:4443"]`, as far as the machine
    /// supports them.
    pub(crate) listen: Option<Vec<SocketAddr>>,
    /// Addresses of the controller for nodes, as host:port, which tokens contain. Default: the
    /// host's name with the listening port.
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// Folder of the controller's database and keys. Default: `$STATE_DIRECTORY`, else
    /// `/var/lib/byway/controller` for root and `~/.local/state/byway/controller` for others.
    pub(crate) state: Option<PathBuf>,
    /// Lifetime of a grant, which permits a pair of agents to use relays: at least 24 h, the time
    /// for which relays work without the controller. Default: 48 h.
    pub(crate) grant_lifetime: Option<DurationSetting>,
    /// Name of the network, used on the first start. Default: `byway`.
    pub(crate) network: Option<String>,
    /// Largest rate of all flows of a pair of agents together through relays. Default: 100 Mbit/s.
    pub(crate) rate: Option<RateSetting>,
    /// Most agents of one tenant: 1 to 4096. Default: any number up to half of 4,096 members;
    /// beyond, 4,096 divided by the number of tenants that have agents or tokens.
    pub(crate) tenant_agents_max: Option<usize>,
    /// Most pairs with an agent of one tenant: 1 to 16384. Default: as for agents, of 16,384 pairs.
    pub(crate) tenant_pairs_max: Option<usize>,
    /// Most tokens of one tenant: 1 to 1024. Default: as for agents, of 1,024 tokens.
    pub(crate) tenant_tokens_max: Option<usize>,
    /// Tenants whose flows relays may code together, as in `["lab", "office"]`. Only flows whose
    /// settings permit it are: `coded_with_other_tenants`. Default: none.
    #[serde(default)]
    pub(crate) shared_coding: Vec<String>,
    /// Relays whose prices are known. Maps carry them to agents.
    #[serde(default)]
    pub(crate) relays: Vec<RawControllerRelay>,
    /// Addresses of tenants. An application may read network state of paths from or to its tenant's
    /// networks.
    #[serde(default)]
    pub(crate) networks: Vec<RawTenantNetwork>,
    /// Links that report their queues and rates. A path has those that can queue.
    #[serde(default)]
    pub(crate) links: Vec<RawReportedLink>,
    /// Paths whose network state applications may read. Each has one direction.
    #[serde(default)]
    pub(crate) paths: Vec<RawRoutedPath>,
}

/// Defines the table of flows: their peer, and the service of relays for them.
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
            /// Agent at the other end, by name.
            pub(crate) peer: String,
            /// Target or network that the peer exposes, by name.
            pub(crate) to: String,
            /// Service of relays, in both directions. Default: `auto`. It is `caching` if the relay
            /// does not get all packets: with other `copies` than `usual` and `all`.
            service: Option<ServiceSetting>,
            /// Largest rate of each flow, in each direction. A forward has one flow for each
            /// application. A capture has one for TCP and QUIC, and one for all else. Default: 4
            /// Mbit/s, of a capture 100 Mbit/s.
            rate: Option<RateSetting>,
            /// Latency budget from sending to delivery, after which a packet counts as lost.
            /// Default: 250 ms.
            latency_budget: Option<DurationSetting>,
            /// Delays from which packets go by relays, because the direct path is too slow:
            /// `{ acceptable = "50 ms", gain = "10 ms" }`. Default: the direct path is used
            /// however slow it is.
            latency: Option<RawLatency>,
            /// Repair packets within the flow, for the coding service: source packets + repair
            /// packets of a block. Default: `16+1`.
            in_stream: Option<ShapeSetting>,
            /// Repair packets across flows, for the coding service: source packets + repair packets
            /// of a full batch. Default: `8+2`.
            batch: Option<ShapeSetting>,
            /// Rule for the number of repair packets, for the coding service. `adaptive`: as many
            /// as the losses of the latest half minute require, and none without losses. `fixed`:
            /// those of `in_stream` and `batch`. With relays of earlier versions, `adaptive` is
            /// `fixed`. Default: `fixed`.
            #[serde(default)]
            redundancy: RedundancySetting,
            /// Permits relays to code the flows with those of other tenants, for the coding
            /// service, if the controller lists both tenants in `shared_coding`. Batches are then
            /// larger, and their number of repair packets is `fixed`. Default: false.
            coded_with_other_tenants: Option<bool>,
            /// Kind of the packets: `datagrams`, `congestion-controlled` for TCP and QUIC, or
            /// `mixture` for tunnels, which hide their content. A mixture is copied whole, and
            /// repaired unless packets queue on the direct path. A forward of congestion-controlled
            /// traffic without a selection of copies counts as a mixture. Default: `datagrams`; in
            /// a capture, TCP and QUIC (UDP port 443) are congestion-controlled, and all else is
            /// datagrams.
            traffic: Option<TrafficSetting>,
            /// Packets that go to the relay. `usual`: all, except bulk data of
            /// congestion-controlled traffic. `all`: all, also of the return direction. `marked`:
            /// those that `marks` names. `by-relay`: all, and none on the direct path, because the
            /// relay forwards them. `sender-fec`: repair packets made here, for uplinks without
            /// capacity for copies. Default: `usual`.
            #[serde(default)]
            copies: CopiesSetting,
            /// Packets that get a copy if not all do. Of TCP: `tcp-handshakes` (SYN, SYN-ACK),
            /// `tcp-syn-acks`, `tcp-ends` (FIN, and the last segment of written data).
            /// `short-flows`: the first 64 kB of each connection, and after a second of idle time.
            /// Of video: `rtp-h264-key-frames`, `rtp-h265-key-frames`, `rtp-vp8-key-frames`,
            /// `mpeg-ts-key-frames`. `dscp:46`: packets of this DSCP. A forward supports those that
            /// inspect datagrams. Default: of a capture, `tcp-handshakes`, `tcp-ends` and
            /// `short-flows`.
            marks: Option<Vec<MarkSetting>>,
        }

        impl $table {
            /// Returns the flow settings of the table.
            pub(crate) fn raw_flow(&self) -> RawFlow<'_> {
                let Self { service, rate, latency_budget, latency, in_stream, batch, redundancy, traffic, copies, marks, .. } = self;
                let coded_with_other_tenants = self.coded_with_other_tenants.unwrap_or(false);
                RawFlow {
                    peer: &self.peer,
                    to: &self.to,
                    service: *service,
                    rate: *rate,
                    latency_budget: *latency_budget,
                    latency: *latency,
                    in_stream: *in_stream,
                    batch: *batch,
                    redundancy: *redundancy,
                    coded_with_other_tenants,
                    traffic: *traffic,
                    copies: *copies,
                    marks: marks.as_deref(),
                }
            }
        }
    };
}

flows_table! {
    /// A port whose datagrams go to a target that another agent exposes, and from which the answers
    /// return.
    RawForward {
        /// Address to which applications send: an address of this machine with a port, `0.0.0.0` or
        /// `[::]` for all of them.
        #[serde(deserialize_with = "read_address")]
        #[schemars(with = "String")]
        listen: SocketAddr,
        /// Preserves the DSCP of each datagram: the peer sets it on the datagram to its target, and
        /// this agent sets the DSCPs of answers. `false`: both are 0. DSCPs 48 to 63 (CS6, CS7:
        /// network control) of a peer always become 0. Byway's own packets are not marked.
        /// Unrelated to the mark `dscp:46`. Default: true.
        keep_dscp: Option<bool>,
    }
}

flows_table! {
    /// Packets of applications that know nothing of Byway. They are routed into a device of the
    /// agent, and leave at another agent. Capture requires `CAP_NET_ADMIN`. A packet is captured if
    /// it matches all keys here.
    RawCapture {
        /// Destinations: addresses, or prefixes like `10.1.0.0/16`. Default: any.
        #[serde(default)]
        destinations: Vec<PrefixSetting>,
        /// Destination ports, like `tcp:443`, `udp:5000-5010` or `tcp`. Default: all packets, of
        /// any protocol.
        #[serde(default)]
        ports: Vec<PortsSetting>,
        /// Users of this machine, like `alice` or `1000-1999`. Default: all, and packets that this
        /// machine routes for others.
        #[serde(default)]
        users: Vec<UsersSetting>,
        /// Control groups, by their path below `/sys/fs/cgroup`, like `system.slice/nginx.service`;
        /// requires iptables.
        #[serde(default)]
        cgroups: Vec<String>,
        /// Firewall marks, as set by a rule of nft or iptables. Default: any.
        #[serde(default)]
        firewall_marks: Vec<u32>,
        /// Captures packets that programs pin to a device, as a `WireGuard` in user space does.
        /// Routing rules do not affect such packets; a rule of iptables, if it is installed,
        /// triggers another routing decision. Default: false.
        #[serde(default)]
        pinned: bool,
        /// Queue (NFQUEUE) into which rules of nft or iptables put the packets: 0 to 65535. It
        /// replaces `destinations`, `ports`, `users`, `cgroups` and `firewall_marks`: the rules
        /// select the packets, and the agent adds none of its own.
        queue: Option<u32>,
    }
}

/// Device of an agent that captures packets, or exposes networks.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTunnel {
    /// Name of the device. Default: `byway0`.
    pub(crate) device: Option<String>,
    /// Number of the routing table, of the first of 100 rule priorities, and of the firewall mark
    /// of Byway's own packets. No other program may use any of the three. Default: 4600.
    pub(crate) table: Option<u32>,
    /// Longest IP packet that applications send through it: 1280 to 1500 bytes. A packet of more
    /// than 1354 bytes takes two packets, as does a shorter one on a path with a smaller MTU. TCP
    /// negotiates segments that take one, once the path MTU is known. Default: 1354.
    pub(crate) mtu: Option<u16>,
    /// Routing table of Byway's own packets. Set 254, the system's main one, if a VPN routes all
    /// traffic of this machine by a table of its own and Byway transports that VPN. Default: the
    /// same as for other packets of this machine.
    pub(crate) own_table: Option<u32>,
    /// Addresses of the device, with the prefix length of the network of such devices, as in
    /// `100.64.7.1/24`. Captured packets have them as sources. Default: none; packets have the
    /// source that they would have without Byway.
    #[serde(default)]
    pub(crate) addresses: Vec<InterfaceAddressSetting>,
    /// Device of this machine whose packets the captures should transport, such as a `WireGuard`
    /// device. If it sends, and Byway captures nothing of it, status, log and metrics report that
    /// within 10 s. Default: none.
    pub(crate) watched_device: Option<String>,
}

/// Limits of an agent's mappings.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawMappings {
    /// Most mappings of this agent's applications and of its peers' together: 1 to 4096. Each takes
    /// about 12 kB, and one of a peer a socket. A relay repairs about 2,000 of one agent; further
    /// mappings have the direct path alone. Default: 2000.
    pub(crate) max: Option<u32>,
    /// Most of them that one peer's applications have: 1 to `max`. Default: half of `max`.
    pub(crate) peer_max: Option<u32>,
}

/// A target or network that other agents may send to.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawExpose {
    /// Name of the resource for other agents.
    pub(crate) name: String,
    /// Destination of peers' datagrams: an address or a DNS name, with a port. A name is resolved
    /// at the start and every 30 s; while it does not resolve, its latest address is used. Either
    /// this or `networks`.
    pub(crate) target: Option<Endpoint>,
    /// Destinations of packets that peers capture: addresses of this machine, and prefixes behind
    /// it.
    #[serde(default)]
    pub(crate) networks: Vec<PrefixSetting>,
    /// Of `networks`: sources of those packets; `0.0.0.0/0` and `::/0` for any other address.
    /// Packets of this machine to them return through Byway.
    #[serde(default)]
    pub(crate) sources: Vec<PrefixSetting>,
    /// Of `networks`: destination ports, as of a capture. Default: all packets; all packets of this
    /// machine to `sources` then go through the device.
    #[serde(default)]
    pub(crate) ports: Vec<PortsSetting>,
    /// Of `networks`: packets of the return direction that get a copy if not all do, as of a
    /// capture.
    pub(crate) marks: Option<Vec<MarkSetting>>,
    /// Agents that may send to it, by name. Default: all agents of the network that are paired with
    /// this one.
    pub(crate) peers: Option<Vec<String>>,
    /// Of `target`: sets the DSCP of peers' datagrams on those to the target, and sends the DSCP of
    /// the target's answers to the peer. `false`: both are 0. DSCPs 48 to 63 (CS6, CS7: network
    /// control) of a peer always become 0. Default: true.
    pub(crate) keep_dscp: Option<bool>,
}

/// Nodes of the network, the same in the files of all of them.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNetwork {
    /// The relays.
    #[serde(default)]
    pub(crate) relays: Vec<RawNetworkRelay>,
    /// The agents.
    #[serde(default)]
    pub(crate) agents: Vec<RawNetworkAgent>,
    /// Pairs of agents that may exchange flows.
    #[serde(default)]
    pub(crate) pairs: Vec<RawPair>,
}

/// A relay of the network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNetworkRelay {
    /// Its name.
    pub(crate) name: String,
    /// Its number: 1 or more, unique among relays.
    pub(crate) number: u32,
    /// Its public key, as `byway keygen` shows it.
    pub(crate) key: String,
    /// Addresses of the relay: an IPv4 address, an IPv6 address, or both; or a DNS name. Names are
    /// resolved at the start, and again while the relay does not answer, because a relay may move.
    pub(crate) addresses: Vec<Endpoint>,
    /// Number of its shards. Default: 1.
    pub(crate) shards: Option<u8>,
    pub(crate) prices: Option<PricesSetting>,
}

/// An agent of the network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawNetworkAgent {
    /// Its name.
    pub(crate) name: String,
    /// Its number: 1 or more, unique among agents.
    pub(crate) number: u32,
    /// Its public key, as `byway keygen` shows it.
    pub(crate) key: String,
    /// Addresses for direct contact, or DNS names, as of a relay. Default: none, as behind a NAT;
    /// relays then help the two ends to find each other.
    #[serde(default)]
    pub(crate) addresses: Vec<Endpoint>,
    /// Relays near it by name, best first; those after the first are backups. Default: none, the
    /// Internet alone.
    #[serde(default)]
    pub(crate) relays: Vec<String>,
}

/// Two agents that may exchange flows through their relays.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPair {
    /// The two agents, by name.
    pub(crate) agents: [String; 2],
    /// Coding group: flows of its pairs are coded together if they share relays. Default: 1.
    pub(crate) group: Option<u32>,
    /// Largest rate of all flows of the pair together, in each direction. Default: 100 Mbit/s.
    pub(crate) rate: Option<RateSetting>,
}

/// Address of a node's status server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawObserve {
    /// Address of this machine for `byway status` and Prometheus. Users of this machine may read
    /// the status, and nobody else. Default: 127.0.0.1 with port 4680 for an agent, 4681 for a
    /// relay and 4682 for a controller.
    pub(crate) listen: Option<SocketAddr>,
}

/// Log settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLog {
    /// Least severity of log messages: `error`, `warn`, `info`, `debug` or `trace`. Default:
    /// `info`.
    pub(crate) level: Option<LogLevelSetting>,
    /// Format for people or for programs: `text` or `json`. Default: `text`.
    pub(crate) format: Option<LogFormatSetting>,
}

/// Severity of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogLevelSetting {
    /// Failures.
    Error,
    /// A problem that does not stop Byway.
    Warn,
    /// Events of normal operation.
    Info,
    /// Details.
    Debug,
    /// All details.
    Trace,
}

/// Format of log messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LogFormatSetting {
    /// One line of text for people.
    Text,
    /// One JSON object on a line.
    Json,
}
