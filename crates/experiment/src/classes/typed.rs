//! Links with classes and what flows over them, as typed. The doc comments here are the reference of the format.

use byway_scenario::classes::{TypedDiscards, TypedGuard, TypedQueue};
use byway_typed::{Drawn, TypedBytes, TypedDuration, TypedRate};
use schemars::JsonSchema;
use serde::Deserialize;

/// Links that are shared by classes of flows.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedClasses {
    /// What it shows, in a line.
    #[allow(dead_code, reason = "for readers of the file")]
    pub(crate) title: String,
    /// What it shows, and where its numbers come from.
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    pub(crate) description: String,
    /// How long it lasts.
    pub(crate) length: TypedDuration,
    /// What comes before is not measured, but for the longest waits. Default: `"5 s"`.
    pub(crate) settle: Option<TypedDuration>,
    /// The link at which classes are measured. Default: the first.
    pub(crate) observe: Option<String>,
    /// The links, in a row: each begins where the one before ends.
    pub(crate) link: Vec<TypedLink>,
    /// What flows.
    pub(crate) traffic: Vec<TypedTraffic>,
}

/// A link, in both directions alike.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedLink {
    /// What paths and measures call it.
    pub(crate) name: String,
    /// What it carries.
    pub(crate) rate: TypedRate,
    /// How long it is.
    pub(crate) delay: TypedDuration,
    /// What is before it. Default: `"drop-tail"`.
    #[serde(default)]
    pub(crate) queue: TypedQueue,
    /// Of `rate-delay`: the bound on the queueing of low-delay packets, at most a minute. Default: `"10 ms"`.
    pub(crate) bound: Option<TypedDuration>,
    /// Of `rate-delay`: the rate of a high-rate flow by that of a low-delay one. Default: 2.
    pub(crate) ratio: Option<f64>,
    /// Of `rate-delay`: whether there is a third class, whose delay is low on average but may spike. Default: `false`.
    #[serde(default)]
    pub(crate) average: bool,
    /// Of `rate-delay` with `average`: what a packet of that class may wait. Default: five times the `bound`.
    pub(crate) spike: Option<TypedDuration>,
    /// Of `rate-delay`: which low-delay packets are dropped when their class gets less room. Default: `"late"`.
    #[serde(default)]
    pub(crate) discards: TypedDiscards,
    /// Of `rate-delay`: protection from senders who choose the wrong class or make up flows. Default: `"none"`.
    #[serde(default)]
    pub(crate) guard: TypedGuard,
    /// Of `rate-delay`: whether low-delay packets are marked before the queue is full. Default: `false`.
    #[serde(default)]
    pub(crate) ecn: bool,
    /// What fits into the queue, as the time that the link takes for it. Default: `"250 ms"`.
    pub(crate) buffer: Option<TypedDuration>,
    /// How many there are in a row. Default: 1.
    pub(crate) count: Option<u32>,
}

/// Flows that are alike.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedTraffic {
    /// What measures call it.
    pub(crate) name: String,
    /// The class that its packets ask for. Default: `"high-rate"`.
    #[serde(default)]
    pub(crate) class: TypedClass,
    /// The links that it takes, in their order.
    pub(crate) path: Vec<String>,
    /// Whether it takes each link of the path by itself, and not all of them one after the other. Default: `false`.
    #[serde(default)]
    pub(crate) each: bool,
    /// Which way. Default: `"forth"`.
    #[serde(default)]
    pub(crate) direction: TypedDirection,
    /// How many flows there are, or sources of short ones. Default: 1.
    pub(crate) count: Option<u32>,
    /// How long the way to the other end and back is, drawn for each. Default: as long as the links are.
    pub(crate) round_trip: Option<Drawn<TypedDuration>>,
    /// What the way to the first link and from the last one carries. Default: `"200 Mbit/s"`.
    pub(crate) access: Option<TypedRate>,
    /// Flows begin one after the other, so many in a second in the mean, at random. Default: 100.
    pub(crate) starts: Option<f64>,
    /// What is sent.
    pub(crate) sends: TypedSends,
    /// How TCP behaves.
    #[serde(default)]
    pub(crate) tcp: TypedTcp,
}

/// A class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedClass {
    /// A high rate.
    #[default]
    HighRate,
    /// A low delay.
    LowDelay,
    /// A delay that is low on average.
    LowAverage,
}

/// A direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedDirection {
    /// From the first link to the last.
    #[default]
    Forth,
    /// From the last to the first.
    Back,
    /// As many flows each way.
    Both,
}

/// What is sent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub(crate) enum TypedSends {
    /// As much as TCP can.
    Bulk {},
    /// Short transfers over TCP, each by a new connection: web traffic.
    Short {
        /// How many begin in a second in the mean.
        per_second: f64,
        /// How many segments they have in the mean of a Pareto distribution. Default: 30.
        segments: Option<f64>,
        /// Its shape, above 1. Default: 1.3.
        shape: Option<f64>,
    },
    /// Datagrams at a rate, whatever becomes of them.
    Constant {
        /// The rate of IP packets.
        rate: TypedRate,
        /// The length of an IP packet. Default: `"1 kB"`.
        packet: Option<TypedBytes>,
    },
    /// Calls: AMR at 12.2 kbit/s, a packet of 32 bytes and 40 of headers every 20 ms.
    Voice {},
    /// Flows of one packet.
    Dummies {
        /// How many in a second in the mean.
        per_second: f64,
        /// The length of an IP packet. Default: `"40 B"`.
        packet: Option<TypedBytes>,
    },
}

/// How TCP avoids congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedAlgorithm {
    /// `NewReno` (RFC 5681, 6582).
    #[default]
    Newreno,
    /// The same with paced segments and windows down to a sixteenth of one.
    Fractional,
}

/// How TCP behaves.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedTcp {
    /// Whether it uses ECN. Default: `false`.
    #[serde(default)]
    pub(crate) ecn: bool,
    /// How it avoids congestion. Default: `"newreno"`.
    #[serde(default)]
    pub(crate) algorithm: TypedAlgorithm,
    /// The initial window in segments. Default: 2 (RFC 2581, when the results were published); 10 since RFC 6928.
    pub(crate) initial_window: Option<u64>,
}
