//! Uplink of a relay: conversion of its settings to those of one shard.

use byway_config_types::{DurationSetting, RateSetting};
use byway_proto::limits::UPLINK_PACKET;
use byway_proto::relay::UplinkSettings;
use byway_sched::{SettingsError, Sharing};
use byway_units::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::classes::{DiscardsSetting, GuardSetting, QueuePlan, QueuePlanError, QueueSetting, ThirdClass};

/// The rate limit of a relay's uplink, and the shares of its flows.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UplinkSetting {
    /// The rate limit of the relay, including IP and UDP headers; packets queue here and not
    /// elsewhere if it is a little less than the rate of the access link. Shards share it evenly.
    pub rate: RateSetting,
    /// The bound on the sojourn time of low-delay packets, at most a minute. Default: `"10 ms"`.
    pub delay: Option<DurationSetting>,
    /// The ratio of a high-rate flow's rate to a low-delay flow's, more than 1 and at most 1000.
    /// Default: 2.
    pub ratio: Option<f64>,
    /// The largest latency budget with which a flow counts as low-delay. Default: `"150 ms"`.
    pub low_delay_budget: Option<DurationSetting>,
    /// Protection from low-delay flows that send too much, and from agents that invent flows.
    /// Default: `"fair"`.
    pub guard: Option<GuardSetting>,
    /// True to mark low-delay packets before their queue is full (ECN), and to drop those that are
    /// not ECN-capable. Default: `false`.
    pub ecn: Option<bool>,
}

/// Error in the settings of an uplink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UplinkError {
    /// Key of the setting that is invalid.
    pub key: &'static str,
    /// Description of the problem, and its remedy.
    pub message: String,
}

impl UplinkSetting {
    /// Default bound on the sojourn time of low-delay packets in an uplink (the choice of the paper
    /// on Rate-Delay, section V).
    const DEFAULT_DELAY: Duration = Duration::from_millis(10);

    /// Default buffer of an uplink, as time at its rate: that of the paper on Rate-Delay.
    const DEFAULT_QUEUE: Duration = Duration::from_millis(250);

    /// Returns the settings of each of this many shards.
    ///
    /// # Errors
    /// If a shard's rate is too low for the delay bound, or the ratio is invalid.
    pub fn settings(&self, shards: u8) -> Result<UplinkSettings, UplinkError> {
        let rate = Rate::from_bits_per_second(self.rate.0.bits_per_second() / u64::from(shards.max(1)));
        let delay = self.delay.map_or(Self::DEFAULT_DELAY, |delay| delay.0);
        let plan = QueuePlan {
            kind: QueueSetting::RateDelay,
            bound: Some(delay),
            ratio: self.ratio,
            third: ThirdClass::Absent,
            discards: DiscardsSetting::Late,
            guard: self.guard.unwrap_or(GuardSetting::Fair),
            marks: self.ecn.unwrap_or(false),
            sharing: Sharing::ByRatio,
        };
        let buffer = rate.bytes_in(Self::DEFAULT_QUEUE).unwrap_or(Bytes::MAX);
        let link = plan
            .settings(rate, UPLINK_PACKET, buffer)
            .map_err(|broken| self.uplink_error(&broken, shards))?;
        let usual = UplinkSettings::new(link);
        let low_delay_budget = self.low_delay_budget.map_or(usual.low_delay_budget, |budget| budget.0);
        Ok(UplinkSettings { low_delay_budget, ..usual })
    }

    /// Converts an error of the queue plan to the settings of an uplink, which all shards share.
    fn uplink_error(&self, broken: &QueuePlanError, shards: u8) -> UplinkError {
        let QueuePlanError { key, error } = *broken;
        let SettingsError::Delay { requested, least, packet } = error else {
            return UplinkError { key, message: error.to_string() };
        };
        let (rate, shards) = (self.rate.0, u64::from(shards.max(1)));
        let of_shards = if shards == 1 { String::new() } else { format!(", divided by {shards} shards") };
        let needed = Rate::over(packet + packet, requested)
            .map(|least| least.bits_per_second().saturating_mul(shards));
        let needed = needed.map_or_else(String::new, |least| {
            format!(" a rate of {} or more,", Rate::from_bits_per_second(least.saturating_add(shards)))
        });
        let fewer = if shards == 1 { "" } else { " fewer shards," };
        let message = format!(
            "two packets of {packet} take {least} at {rate}{of_shards}, more than the delay of \
             {requested}: set{needed}{fewer} or a longer delay"
        );
        UplinkError { key: if self.delay.is_some() { "delay" } else { "rate" }, message }
    }
}

#[cfg(test)]
mod tests {
    use byway_proto::limits::LOW_DELAY_BUDGET;
    use byway_sched::GuardMode;

    use super::*;

    fn typed(text: &str) -> UplinkSetting {
        toml::from_str(text).expect("an uplink")
    }

    #[test]
    fn what_is_typed_is_what_each_shard_is_told() {
        let usual = typed("rate = \"100 Mbit/s\"").settings(4).expect("enough");
        assert_eq!(usual.low_delay_budget, LOW_DELAY_BUDGET);
        assert_eq!(usual.link.capacity(), Rate::from_megabits_per_second(25));
        assert_eq!((usual.link.delay(), usual.link.ratio_milli()), (Duration::from_millis(10), 2_000));
        assert_eq!((usual.link.packet(), usual.link.guard()), (UPLINK_PACKET, GuardMode::Fair));
        let text = "rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\nratio = 2.5\nlow_delay_budget = \"80 ms\"\nguard = \"strict\"\necn = true";
        let other = typed(text).settings(1).expect("enough");
        assert_eq!(other.low_delay_budget, Duration::from_millis(80));
        assert_eq!((other.link.delay(), other.link.ratio_milli()), (Duration::from_millis(5), 2_500));
        assert_eq!(other.link.guard(), GuardMode::Strict);
        assert_ne!(
            other.link,
            typed(&text.replace("ecn = true", "ecn = false")).settings(1).expect("enough").link
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_bound_that_it_breaks() {
        for (text, shards, key, words) in [
            ("rate = \"0 bit/s\"", 1, "rate", "give its rate"),
            ("rate = \"2 Mbit/s\"", 1, "rate", "a rate of 2.432"),
            ("rate = \"4 Mbit/s\"", 2, "rate", "fewer shards"),
            ("rate = \"4 Mbit/s\"\ndelay = \"5 ms\"", 1, "delay", "6.08 ms"),
            ("rate = \"4 Mbit/s\"\nratio = 1.0", 1, "ratio", "give more than 1"),
        ] {
            let refused = typed(text).settings(shards).expect_err(text);
            assert!(refused.key == key && refused.message.contains(words), "{text}: {refused:?}");
        }
        // The rate that the error message requests is sufficient.
        assert!(typed("rate = \"2433 kbit/s\"").settings(1).is_ok());
        assert!(typed("rate = \"4866 kbit/s\"").settings(2).is_ok());
    }
}
