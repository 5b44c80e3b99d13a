//! Settings of links with classes and their traffic, as in the file. The doc comments here are the
//! reference of the format.

use byway_config_types::{BytesSetting, DurationSetting, RateSetting, Sampled};
use byway_scenario::classes::{DiscardsSetting, GuardSetting, QueueSetting};
use schemars::JsonSchema;
use serde::Deserialize;

/// Links that classes of flows share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassesSetting {
    /// Subject, in one line.
    #[allow(dead_code, reason = "for readers of the file")]
    pub(crate) title: String,
    /// Purpose, and sources of the numbers.
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    pub(crate) description: String,
    /// Length of the run.
    pub(crate) length: DurationSetting,
    /// Time before measuring begins; only the longest sojourn times include it. Default: `"5 s"`.
    pub(crate) settle: Option<DurationSetting>,
    /// The link at which classes are measured. Default: the first.
    pub(crate) observe: Option<String>,
    /// Links in a chain: each begins at the end of the one before.
    pub(crate) link: Vec<LinkSetting>,
    /// Traffic over the links.
    pub(crate) traffic: Vec<TrafficSetting>,
}

/// Link, with the same properties in both directions.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkSetting {
    /// Name in paths and measures.
    pub(crate) name: String,
    /// Rate of the link.
    pub(crate) rate: RateSetting,
    /// One-way delay of the link.
    pub(crate) delay: DurationSetting,
    /// Queue of the link. Default: `"drop-tail"`.
    #[serde(default)]
    pub(crate) queue: QueueSetting,
    /// For `rate-delay`: bound on the sojourn time of low-delay packets, at most a minute. Default:
    /// `"10 ms"`.
    pub(crate) bound: Option<DurationSetting>,
    /// For `rate-delay`: ratio of a high-rate flow's rate to a low-delay flow's. Default: 2.
    pub(crate) ratio: Option<f64>,
    /// For `rate-delay`: adds a third class, whose delay is low on average but may spike. Default:
    /// `false`.
    #[serde(default)]
    pub(crate) average: bool,
    /// For `rate-delay` with `average`: longest sojourn time in that class. Default: five times the
    /// `bound`.
    pub(crate) spike: Option<DurationSetting>,
    /// For `rate-delay`: low-delay packets to drop when the class's buffer shrinks. Default:
    /// `"late"`.
    #[serde(default)]
    pub(crate) discards: DiscardsSetting,
    /// For `rate-delay`: protection from senders that choose the wrong class or invent flows.
    /// Default: `"none"`.
    #[serde(default)]
    pub(crate) guard: GuardSetting,
    /// For `rate-delay`: marks low-delay packets before the queue is full. Default: `false`.
    #[serde(default)]
    pub(crate) ecn: bool,
    /// Size of the queue's buffer, as time at the link's rate. Default: `"250 ms"`.
    pub(crate) buffer: Option<DurationSetting>,
    /// Number of such links in a row. Default: 1.
    pub(crate) count: Option<u32>,
}

/// Flows of one kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrafficSetting {
    /// Name in measures.
    pub(crate) name: String,
    /// Class of its packets. Default: `"high-rate"`.
    #[serde(default)]
    pub(crate) class: ClassSetting,
    /// Links of its path, in order.
    pub(crate) path: Vec<String>,
    /// Sends separate flows over each link of the path, instead of flows over the whole path.
    /// Default: `false`.
    #[serde(default)]
    pub(crate) each: bool,
    /// Direction. Default: `"forth"`.
    #[serde(default)]
    pub(crate) direction: DirectionSetting,
    /// Number of flows, or of sources of short flows. Default: 1.
    pub(crate) count: Option<u32>,
    /// Round-trip time without queues, drawn for each flow. Default: that of the links.
    pub(crate) round_trip: Option<Sampled<DurationSetting>>,
    /// Rate of the access links before the first link and after the last. Default: `"200 Mbit/s"`.
    pub(crate) access: Option<RateSetting>,
    /// Mean number of flows that start per second, at random times. Default: 100.
    pub(crate) starts: Option<f64>,
    /// Traffic of a flow.
    pub(crate) sends: SendsSetting,
    /// Settings of TCP.
    #[serde(default)]
    pub(crate) tcp: TcpSetting,
}

/// Class of a traffic's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ClassSetting {
    /// High rate.
    #[default]
    HighRate,
    /// Low delay.
    LowDelay,
    /// Low average delay.
    LowAverage,
}

/// Direction of a traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DirectionSetting {
    /// From the first link to the last.
    #[default]
    Forth,
    /// From the last to the first.
    Back,
    /// As many flows in each direction.
    Both,
}

/// Traffic of a flow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub(crate) enum SendsSetting {
    /// TCP at its full rate.
    Bulk {},
    /// Short TCP transfers, each over a new connection, like web traffic.
    Short {
        /// Mean number of transfers that start per second.
        per_second: f64,
        /// Mean number of segments, of a Pareto distribution. Default: 30.
        segments: Option<f64>,
        /// Shape of the distribution, above 1. Default: 1.3.
        shape: Option<f64>,
    },
    /// Datagrams at a constant rate, without congestion control.
    Constant {
        /// Rate of IP packets.
        rate: RateSetting,
        /// Length of an IP packet. Default: `"1 kB"`.
        packet: Option<BytesSetting>,
    },
    /// Calls with AMR at 12.2 kbit/s: a packet of 32 bytes and 40 bytes of headers every 20 ms.
    Voice {},
    /// Flows of one packet.
    Dummies {
        /// Mean number of flows per second.
        per_second: f64,
        /// Length of an IP packet. Default: `"40 B"`.
        packet: Option<BytesSetting>,
    },
}

/// Congestion control of TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AlgorithmSetting {
    /// `NewReno` (RFC 5681, 6582).
    #[default]
    Newreno,
    /// `NewReno` with paced segments, and windows down to a sixteenth of a segment.
    Fractional,
}

/// Settings of TCP.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TcpSetting {
    /// Use of ECN. Default: `false`.
    #[serde(default)]
    pub(crate) ecn: bool,
    /// Congestion control. Default: `"newreno"`.
    #[serde(default)]
    pub(crate) algorithm: AlgorithmSetting,
    /// Initial window in segments. Default: 2 (RFC 2581, when the results were published); 10 since
    /// RFC 6928.
    pub(crate) initial_window: Option<u64>,
}
