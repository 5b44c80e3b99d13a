//! The uplink of a relay, from what is typed of it to what a shard is told.

use byway_proto::limits::UPLINK_PACKET;
use byway_proto::relay::UplinkSettings;
use byway_sched::SettingsError;
use byway_typed::{TypedDuration, TypedRate};
use byway_units::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::classes::{NoPromise, QueuePlan, ThirdClass, TypedDiscards, TypedGuard, TypedQueue};

/// What a relay sends at most, and how its flows share that.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypedUplink {
    /// What the relay sends at most, with the headers of IP and UDP: a little less than what its line carries, so that packets wait
    /// here and not elsewhere. Shards share it evenly.
    pub rate: TypedRate,
    /// The bound on the queueing of low-delay packets, at most a minute. Default: `"10 ms"`.
    pub delay: Option<TypedDuration>,
    /// The rate of a high-rate flow by that of a low-delay one: more than 1, at most 1000. Default: 2.
    pub ratio: Option<f64>,
    /// The largest latency budget with which flows are low-delay. Default: `"150 ms"`.
    pub low_delay_budget: Option<TypedDuration>,
    /// Protection from flows that choose low delay and send too much, and from agents that make flows up. Default: `"fair"`.
    pub guard: Option<TypedGuard>,
    /// Whether low-delay packets are marked before their queue is full (ECN), and those dropped that cannot be. Default: `false`.
    pub ecn: Option<bool>,
}

/// Why an uplink cannot be as it is typed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoUplink {
    /// The key that asks for it.
    pub key: &'static str,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl TypedUplink {
    /// The bound on queueing where none is typed (the choice of the paper on Rate-Delay, section V).
    const USUAL_DELAY: Duration = Duration::from_millis(10);

    /// What fits into the queue, as time that the line takes for it: the buffer of that paper.
    const USUAL_QUEUE: Duration = Duration::from_millis(250);

    /// What each of so many shards is told.
    ///
    /// # Errors
    /// If the rate leaves a shard too little for what is promised, or the ratio is none.
    pub fn settings(&self, shards: u8) -> Result<UplinkSettings, NoUplink> {
        let rate = Rate::from_bits_per_second(self.rate.0.bits_per_second() / u64::from(shards.max(1)));
        let delay = self.delay.map_or(Self::USUAL_DELAY, |delay| delay.0);
        let plan = QueuePlan {
            kind: TypedQueue::RateDelay,
            bound: Some(delay),
            ratio: self.ratio,
            third: ThirdClass::Absent,
            discards: TypedDiscards::Late,
            guard: self.guard.unwrap_or(TypedGuard::Fair),
            marks: self.ecn.unwrap_or(false),
        };
        let room = rate.bytes_in(Self::USUAL_QUEUE).unwrap_or(Bytes::MAX);
        let link = plan.settings(rate, UPLINK_PACKET, room).map_err(|broken| self.told(&broken, shards))?;
        let usual = UplinkSettings::new(link);
        let low_delay_budget = self.low_delay_budget.map_or(usual.low_delay_budget, |budget| budget.0);
        Ok(UplinkSettings { low_delay_budget, ..usual })
    }

    /// The same, in the words of an uplink.
    fn told(&self, broken: &NoPromise, shards: u8) -> NoUplink {
        let NoPromise { key, error } = *broken;
        let SettingsError::Delay { given, least, packet } = error else {
            return NoUplink { key, message: error.to_string() };
        };
        let (rate, shards) = (self.rate.0, u64::from(shards.max(1)));
        let of_shards = if shards == 1 {
            String::new()
        } else {
            format!(", of which each of {shards} shards has its part")
        };
        let needed =
            Rate::over(packet + packet, given).map(|least| least.bits_per_second().saturating_mul(shards));
        let needed = needed.map_or_else(String::new, |least| {
            format!(" a rate of {} or more,", Rate::from_bits_per_second(least.saturating_add(shards)))
        });
        let fewer = if shards == 1 { "" } else { " fewer shards," };
        let message = format!(
            "two packets of {packet} take {least} at {rate}{of_shards}, which is more than the delay of {given}: give{needed}{fewer} or a longer delay"
        );
        NoUplink { key: if self.delay.is_some() { "delay" } else { "rate" }, message }
    }
}

#[cfg(test)]
mod tests {
    use byway_proto::limits::LOW_DELAY_BUDGET;
    use byway_sched::GuardMode;

    use super::*;

    fn typed(text: &str) -> TypedUplink {
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
        // The rate that is named is enough.
        assert!(typed("rate = \"2433 kbit/s\"").settings(1).is_ok());
        assert!(typed("rate = \"4866 kbit/s\"").settings(2).is_ok());
    }
}
