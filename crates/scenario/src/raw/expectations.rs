//! Expectations of a scenario, and the measures that they are about.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// An expected result of a scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectationSetting {
    /// The name of the flows to measure, all of this name together.
    pub(crate) flow: Option<String>,
    /// The command to measure, instead of `flow`. One on several machines must meet the expectation
    /// on each (in a lab only).
    pub(crate) command: Option<String>,
    /// The name of the links to measure, which have `classes`, instead of `flow`. Each direction
    /// with packets of the class must meet the expectation.
    pub(crate) link: Option<String>,
    /// The measure; of a command, the name of a number in its output.
    #[schemars(with = "MeasureSetting")]
    pub(crate) measure: ExpectedMeasureSetting,
    /// The lower bound: a share like `"99 %"`, a time like `"60 ms"` or a number, as the measure
    /// needs; of commands, a number.
    pub(crate) at_least: Option<BoundSetting>,
    /// The upper bound: a share, a time or a number, as for `at_least`.
    pub(crate) at_most: Option<BoundSetting>,
}

/// Measure of an expectation: one of flows and links, or the name of a number in a command's
/// output.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum ExpectedMeasureSetting {
    Known(MeasureSetting),
    Other(String),
}

/// Bound of a measure: text with a unit, or a number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum BoundSetting {
    Text(String),
    Number(f64),
}

impl JsonSchema for BoundSetting {
    fn schema_name() -> Cow<'static, str> {
        "BoundSetting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string or number" })
    }
}

/// Defines [`MeasureSetting`] from its measures, each with its name in files.
macro_rules! measures {
    ($($(#[$doc:meta])* $measure:ident = $name:literal,)*) => {
        /// Measures of flows and links.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
        pub(crate) enum MeasureSetting {
            $($(#[$doc])* #[serde(rename = $name)] $measure,)*
        }

        impl MeasureSetting {
            /// All measures, in the order of the reference page.
            pub(crate) const ALL: &[Self] = &[$(Self::$measure),*];

            /// Returns the name of the measure in files.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$measure => $name,)*
                }
            }
        }
    };
}

measures! {
    /// Packets that the flows' applications sent: a number.
    Sent = "sent",
    /// Packets without an intact copy on the direct path: a number.
    LostDirect = "lost-direct",
    /// Packets lost on the direct path and delivered within the budget, of all those lost there: a
    /// share.
    Repaired = "repaired",
    /// Packets lost on the direct path and delivered at most one of its round trips after the
    /// expected arrival, of all those lost there: a share.
    RepairedWithinRtt = "repaired-within-rtt",
    /// Packets delivered after their budget: a number.
    Late = "late",
    /// Packets never delivered: a number.
    Missing = "missing",
    /// Repeated deliveries of packets: a number.
    Duplicates = "duplicates",
    /// Median of the repair times, from the expected arrival of the direct copy to the repair: a
    /// time.
    RepairP50 = "repair-p50",
    /// 95th percentile of the repair times, from the expected arrival of the direct copy: a time.
    RepairP95 = "repair-p95",
    /// 99th percentile of the repair times, from the expected arrival of the direct copy: a time.
    RepairP99 = "repair-p99",
    /// Median of the delays from sending to delivery: a time.
    DelayP50 = "delay-p50",
    /// 99th percentile of the delays from sending to delivery: a time.
    DelayP99 = "delay-p99",
    /// Bytes that all relays send, relative to those that all applications send: a share, also
    /// above 100 %.
    RelayBytes = "relay-bytes",
    /// Transfers over TCP that are unfinished at the end: failed ones and those in progress: a
    /// number.
    TransfersUnfinished = "transfers-unfinished",
    /// Median duration of the finished TCP transfers, from the first SYN: a time.
    TransferP50 = "transfer-p50",
    /// 99th percentile of the durations of finished TCP transfers, from the first SYN: a time.
    TransferP99 = "transfer-p99",
    /// 99.9th percentile of the durations of finished TCP transfers, from the first SYN: a time.
    TransferP999 = "transfer-p999",
    /// Longest duration of a finished TCP transfer, from the first SYN: a time.
    TransferMax = "transfer-max",
    /// Mean goodput of bulk transfers over TCP, from their beginning to their end: a number in
    /// Mbit/s.
    Goodput = "goodput",
    /// Of links: the longest sojourn time of a high-rate packet: a time.
    HighRateSojournMax = "high-rate-sojourn-max",
    /// Of links: high-rate packets that the queue dropped, of all that were offered: a share.
    HighRateLoss = "high-rate-loss",
    /// Of links: the longest sojourn time of a low-delay packet: a time.
    LowDelaySojournMax = "low-delay-sojourn-max",
    /// Of links: low-delay packets that the queue dropped, of all that were offered: a share.
    LowDelayLoss = "low-delay-loss",
}
