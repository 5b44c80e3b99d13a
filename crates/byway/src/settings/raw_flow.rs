//! Flow settings that forwards and captures have in common, as written in the file.

use byway_config_types::{DurationSetting, RateSetting, RedundancySetting, ShapeSetting};
use schemars::JsonSchema;
use serde::Deserialize;

use super::raw::{CopiesSetting, ServiceSetting, TrafficSetting};
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
    pub(crate) traffic: Option<TrafficSetting>,
    pub(crate) copies: CopiesSetting,
    pub(crate) marks: Option<&'a [MarkSetting]>,
}

/// Delays of the direct path and of relays, between which a flow selects its path.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLatency {
    /// One-way delay up to which the direct path is used, however fast relays are: that of 95 % of
    /// the packets, queues included. At most the latency budget.
    pub(crate) acceptable: DurationSetting,
    /// Least difference of the delays for which packets change from the slower path to the faster
    /// one. Default: 10 ms.
    pub(crate) gain: Option<DurationSetting>,
}
