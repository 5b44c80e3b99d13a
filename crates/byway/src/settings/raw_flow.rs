//! Flow settings that forwards and captures have in common, as written in the file.

use byway_config_types::{DurationSetting, RateSetting, RedundancySetting, ShapeSetting};
use schemars::JsonSchema;
use serde::Deserialize;

use super::selectors::MarkSetting;

/// Flow settings, from either table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawFlow<'a> {
    pub(crate) peer: &'a str,
    pub(crate) to: &'a str,
    pub(crate) service: Option<ServiceSetting>,
    pub(crate) rate: Option<RateSetting>,
    pub(crate) latency_budget: Option<DurationSetting>,
    pub(crate) latency: Option<RawLatency>,
    pub(crate) in_stream: Option<ShapeSetting>,
    pub(crate) batch: Option<ShapeSetting>,
    pub(crate) redundancy: RedundancySetting,
    pub(crate) coded_with_other_tenants: bool,
    pub(crate) traffic: Option<TrafficSetting>,
    pub(crate) copies: CopiesSetting,
    pub(crate) marks: Option<&'a [MarkSetting]>,
}

/// Delays of the direct path and of relays, between which a flow selects its path.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLatency {
    /// One-way delay up to which the direct path is used, however fast relays are: that of 95 % of
    /// the packets, queues included; the least one for a mixture of traffic. At most the latency
    /// budget.
    pub(crate) acceptable: DurationSetting,
    /// Least difference of the delays for which packets change from the slower path to the faster
    /// one. Default: 10 ms.
    pub(crate) gain: Option<DurationSetting>,
}

/// Service of relays for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ServiceSetting {
    /// The cheapest service that repairs nearly all losses in time, chosen again while the flow
    /// runs. Traffic other than datagrams has caching.
    Auto,
    /// No service: the direct path alone.
    Internet,
    /// Repair packets, within the flow and across flows.
    Coding,
    /// Repair from copies that are stored near the receiver.
    Caching,
    /// Delivery through the relays alone.
    Forwarding,
    /// Delivery through the relays and on the direct path; the first arrival counts.
    Both,
    /// Repair from copies that wait near the sender until a packet is missing.
    Pull,
    /// Repair by the sender, through relays, when a packet is missing. Nothing is copied before.
    Retransmission,
}

/// Kind of a flow's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrafficSetting {
    /// Datagrams whose order does not matter.
    #[default]
    Datagrams,
    /// TCP or QUIC.
    CongestionControlled,
    /// Both, in packets that hide their kind.
    Mixture,
}

/// Packets that go to the ingress relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CopiesSetting {
    /// All datagrams, but no bulk data of congestion-controlled traffic.
    #[default]
    Usual,
    /// All datagrams.
    All,
    /// Datagrams that `marks` names.
    Marked,
    /// All datagrams, and none on the direct path from here.
    ByRelay,
    /// None: this agent makes repair packets.
    SenderFec,
}
