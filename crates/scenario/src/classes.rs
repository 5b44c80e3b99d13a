//! Packet schedulers of links: conversion of their settings.

use std::fmt;

use byway_config_types::{DurationSetting, ShareSetting};
use byway_sched::{Class, DELAY_MAX, DiscardPolicy, GuardMode, Marking, Settings, SettingsError, Sharing};
use byway_sim::{QueueDiscipline, SchedulerSettings};
use byway_units::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{QUEUE_MIN, SCHEDULED_PACKET_MAX};

/// Queue discipline of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueSetting {
    /// One tail-drop queue for all packets.
    #[default]
    DropTail,
    /// Two classes by rate and delay.
    RateDelay,
    /// Strict priority of low-delay packets.
    Priority,
    /// One queue for each flow.
    FqCodel,
}

/// Rule by which the classes of a link share its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SharingSetting {
    /// By the `ratio` of a flow's rates, with a bound on the delay.
    #[default]
    Ratio,
    /// By the numbers of flows, without a bound: for low-delay flows that follow network state.
    Flows,
}

/// Low-delay packets to drop when the rate of their class shrinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiscardsSetting {
    /// Queued low-delay packets that would exceed the delay bound.
    #[default]
    Late,
    /// All queued low-delay packets, as published.
    All,
    /// No queued packets.
    None,
}

/// Protection from misbehaving senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuardSetting {
    /// No protection: the link trusts senders.
    #[default]
    None,
    /// Drops packets of a sender beyond a fair share of its class before those of others.
    Fair,
    /// Limits a sender to a fair share of a congested class, and to its part of a high-rate flow's
    /// rate.
    Strict,
}

impl<'de> Deserialize<'de> for GuardSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GuardVisitor)
    }
}

/// Deserializer of a [`GuardSetting`]; for any other value, the error lists the valid ones.
struct GuardVisitor;

impl Visitor<'_> for GuardVisitor {
    type Value = GuardSetting;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"none\", \"fair\" or \"strict\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<GuardSetting, E> {
        match text {
            "none" => Ok(GuardSetting::None),
            "fair" => Ok(GuardSetting::Fair),
            "strict" => Ok(GuardSetting::Strict),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl From<GuardSetting> for GuardMode {
    fn from(typed: GuardSetting) -> Self {
        match typed {
            GuardSetting::None => Self::None,
            GuardSetting::Fair => Self::Fair,
            GuardSetting::Strict => Self::Strict,
        }
    }
}

/// A packet scheduler of a link with a rate, with a buffer of size `queue`; the DSCP of a packet
/// selects its class.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassesSetting {
    /// Queue discipline of the link.
    pub(crate) kind: QueueSetting,
    /// DSCPs of the low-delay class, 0 to 63; packets of simulated applications have DSCP 0.
    /// Default: `[4, 45, 46]`.
    pub(crate) dscp: Option<Vec<u8>>,
    /// Of `rate-delay`: the bound on the sojourn time of low-delay packets, at most a minute.
    /// Default: `"10 ms"`, or the transmission time of two packets if that is more.
    pub(crate) bound: Option<DurationSetting>,
    /// Of `rate-delay`: the ratio of a high-rate flow's rate to a low-delay flow's, more than 1 and
    /// at most 1000. Default: 2.
    pub(crate) ratio: Option<f64>,
    /// Of `rate-delay`: DSCPs of a third class, whose delay is low on average, with spikes, for
    /// fewer losses. Default: no such class.
    pub(crate) average_dscp: Option<Vec<u8>>,
    /// Of `rate-delay` with `average_dscp`: the longest sojourn time of that class while the number
    /// of flows changes slowly. Default: five times the `bound`.
    pub(crate) spike: Option<DurationSetting>,
    /// Of `rate-delay`: the low-delay packets to drop when their class's buffer shrinks. Default:
    /// `"late"`.
    pub(crate) discards: Option<DiscardsSetting>,
    /// Of `rate-delay`: protection from senders that choose the wrong class or invent flows.
    /// Default: `"none"`.
    pub(crate) guard: Option<GuardSetting>,
    /// Of `rate-delay`: marks low-delay packets before the queue is full (ECN). Default: `false`.
    pub(crate) ecn: Option<bool>,
    /// Of `rate-delay`: the rule by which the classes share the rate. Default: `"ratio"`.
    pub(crate) share: Option<SharingSetting>,
    /// Of `rate-delay` with `share = "flows"`: the least share of the rate for low-delay flows, at
    /// most 90 %. Default: `"0 %"`.
    pub(crate) floor: Option<ShareSetting>,
}

impl ClassesSetting {
    /// Returns the first key present that is valid only with Rate-Delay; `None` if there is none.
    pub(crate) fn key_of_rate_delay(&self) -> Option<&'static str> {
        let keys = [
            ("bound", self.bound.is_some()),
            ("ratio", self.ratio.is_some()),
            ("average_dscp", self.average_dscp.is_some()),
            ("spike", self.spike.is_some()),
            ("discards", self.discards.is_some()),
            ("guard", self.guard.is_some()),
            ("ecn", self.ecn.is_some()),
            ("share", self.share.is_some()),
            ("floor", self.floor.is_some()),
        ];
        keys.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// Returns the first key present that has no effect with the sharing of the link; `None` if
    /// there is none.
    pub(crate) fn key_of_other_sharing(&self) -> Option<&'static str> {
        let of_flows = [("floor", self.floor.is_some())];
        let of_ratio = [
            ("bound", self.bound.is_some()),
            ("ratio", self.ratio.is_some()),
            ("average_dscp", self.average_dscp.is_some()),
            ("spike", self.spike.is_some()),
            ("discards", self.discards.is_some()),
        ];
        let keys = match self.share.unwrap_or_default() {
            SharingSetting::Ratio => &of_flows[..],
            SharingSetting::Flows => &of_ratio[..],
        };
        keys.iter().find_map(|(key, is_present)| is_present.then_some(*key))
    }

    /// Returns a key that is valid only with a third class, if it is present without that class.
    pub(crate) fn key_of_third_class(&self) -> Option<&'static str> {
        (self.spike.is_some() && self.average_dscp.is_none()).then_some("spike")
    }

    /// Returns a DSCP that selects both the low-delay and the third class; `None` if no DSCP does.
    pub(crate) fn dscp_of_two_classes(&self) -> Option<u8> {
        let low_delay = |dscp: &&u8| self.low_delay().class(**dscp << 2) == Class::LowDelay;
        self.average_dscp.iter().flatten().find(low_delay).copied()
    }

    fn low_delay(&self) -> Marking {
        let marked = |dscps: &Vec<u8>| dscps.iter().fold(Marking::NONE, |marking, dscp| marking.with(*dscp));
        self.dscp.as_ref().map_or_else(Marking::default, marked)
    }

    fn sharing(&self) -> Sharing {
        match self.share.unwrap_or_default() {
            SharingSetting::Ratio => Sharing::ByRatio,
            SharingSetting::Flows => {
                Sharing::ByFlows { floor_milli: self.floor.map_or(0, |floor| milli(floor.0.value())) }
            }
        }
    }

    /// Returns the validated settings, with DSCPs 4, 45 and 46 by default.
    pub(crate) fn validate(&self) -> Classes {
        let marking = self.low_delay();
        let average = self.average_dscp.iter().flatten();
        Classes {
            plan: QueuePlan {
                kind: self.kind,
                bound: self.bound.map(|bound| bound.0),
                ratio: self.ratio,
                third: ThirdClass::of(self.average_dscp.is_some(), self.spike),
                discards: self.discards.unwrap_or_default(),
                guard: self.guard.unwrap_or_default(),
                marks: self.ecn.unwrap_or(false),
                sharing: self.sharing(),
            },
            marking: average.fold(marking, |marking, dscp| marking.with_low_average(*dscp)),
        }
    }
}

/// Packet scheduler of a link, as planned for any rate of the link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    plan: QueuePlan,
    marking: Marking,
}

impl Classes {
    /// Default buffer, as time at the link's rate: that of the paper on Rate-Delay.
    const DEFAULT_QUEUE: Duration = Duration::from_millis(250);

    /// Returns the scheduler settings of a link with this rate.
    pub(crate) fn scheduling(
        &self,
        rate: Rate,
        queue: Option<Bytes>,
    ) -> Result<SchedulerSettings, QueuePlanError> {
        let usual = || rate.bytes_in(Self::DEFAULT_QUEUE).unwrap_or(Bytes::MAX).max(QUEUE_MIN);
        let buffer = queue.unwrap_or_else(usual);
        let queueing = self.plan.discipline(rate, SCHEDULED_PACKET_MAX, buffer)?;
        Ok(SchedulerSettings {
            rate,
            discipline: queueing,
            marking: self.marking,
            packet_bytes_max: SCHEDULED_PACKET_MAX,
        })
    }
}

/// Default spike of the third class, as a multiple of the low-delay class's bound.
const DEFAULT_SPIKE_FACTOR: u64 = 5;

/// Requirements of a link's queue: the discipline and, for Rate-Delay, its parameters.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlan {
    /// Queue discipline of the link.
    pub kind: QueueSetting,
    /// Bound on the sojourn time of Rate-Delay's low-delay packets. `None`: the default.
    pub bound: Option<Duration>,
    /// Ratio of a high-rate flow's rate to a low-delay flow's with Rate-Delay. `None`: the default.
    pub ratio: Option<f64>,
    /// Third class of Rate-Delay, whose delay is low on average, with spikes.
    pub third: ThirdClass,
    /// Packets that Rate-Delay drops from the low-delay queue when that class's buffer shrinks.
    pub discards: DiscardsSetting,
    /// Protection of Rate-Delay from senders that choose the wrong class or invent flows.
    pub guard: GuardSetting,
    /// True if Rate-Delay marks low-delay packets before the queue is full (ECN).
    pub marks: bool,
    /// Rule by which the classes of Rate-Delay share the link.
    pub sharing: Sharing,
}

/// Third class of a Rate-Delay link, with a delay that is low on average.
#[derive(Clone, Copy, Debug)]
pub enum ThirdClass {
    /// Two classes only.
    Absent,
    /// A third class whose longest sojourn time is the default multiple of the low-delay bound.
    Default,
    /// A third class with this longest sojourn time.
    Spike(Duration),
}

impl ThirdClass {
    /// Creates the third class if it is wanted, with its `spike` if there is one.
    #[must_use]
    pub fn of(is_wanted: bool, spike: Option<DurationSetting>) -> Self {
        match spike {
            _ if !is_wanted => Self::Absent,
            None => Self::Default,
            Some(spike) => Self::Spike(spike.0),
        }
    }

    /// Returns the longest sojourn time of the third class's packets; `None` without that class.
    fn spike(self, bound: Duration) -> Option<Duration> {
        match self {
            Self::Absent => None,
            Self::Default => Some((bound.min(DELAY_MAX) * DEFAULT_SPIKE_FACTOR).min(DELAY_MAX)),
            Self::Spike(spike) => Some(spike),
        }
    }
}

/// Error of a [`QueuePlan`] whose requirements a link cannot meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct QueuePlanError {
    /// Key of the requirement that the link cannot meet: `rate`, `bound`, `ratio`, `spike`, `share`
    /// or `floor`.
    pub key: &'static str,
    /// Reason, as the Rate-Delay scheduler reports it.
    pub error: SettingsError,
}

impl QueuePlan {
    /// Returns the queue discipline of a link with this rate, this longest packet and this buffer.
    ///
    /// # Errors
    /// If the link cannot meet the requirements of Rate-Delay.
    pub fn discipline(
        &self,
        rate: Rate,
        packet: Bytes,
        buffer: Bytes,
    ) -> Result<QueueDiscipline, QueuePlanError> {
        Ok(match self.kind {
            QueueSetting::DropTail => QueueDiscipline::DropTail(buffer),
            QueueSetting::Priority => QueueDiscipline::StrictPriority(buffer),
            QueueSetting::FqCodel => QueueDiscipline::FqCodel(buffer),
            QueueSetting::RateDelay => QueueDiscipline::RateDelay(self.settings(rate, packet, buffer)?),
        })
    }

    pub(crate) fn settings(
        &self,
        rate: Rate,
        packet: Bytes,
        buffer: Bytes,
    ) -> Result<Settings, QueuePlanError> {
        let broken = |key| move |error| QueuePlanError { key, error };
        let mut settings = Settings::new(rate, packet).map_err(broken("rate"))?;
        settings = settings.with_buffers(buffer, buffer);
        if let Some(bound) = self.bound {
            settings = settings.with_delay(bound).map_err(broken("bound"))?;
        }
        if let Some(ratio) = self.ratio {
            settings = settings.with_ratio_milli(milli(ratio)).map_err(broken("ratio"))?;
        }
        if let Some(spike) = self.third.spike(settings.delay()) {
            settings = settings.with_low_average(spike).map_err(broken("spike"))?;
        }
        settings = settings.with_discards(match self.discards {
            DiscardsSetting::Late => DiscardPolicy::Late,
            DiscardsSetting::All => DiscardPolicy::All,
            DiscardsSetting::None => DiscardPolicy::None,
        });
        settings = settings.with_sharing(self.sharing).map_err(|error| {
            let key = match error {
                SettingsError::SharedRate(_) => "rate",
                SettingsError::Floor(_) => "floor",
                _ => "share",
            };
            QueuePlanError { key, error }
        })?;
        settings = settings.with_guard(self.guard.into());
        Ok(if self.marks { settings.with_ecn() } else { settings })
    }
}

/// Returns a number in thousandths, rounded to the nearest.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts saturate, and numbers out of range are refused"
)]
fn milli(number: f64) -> u32 {
    (number * 1_000.0).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkOutcome, NetworkChange, Scenario};

    /// 2.6 Mbit/s on a link of 2 Mbit/s, and later 1.5.
    const SCENARIO: &str = r#"title = "Too much"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
]

[[link]]
between = ["alice", "bob"]
delay = "20 ms"
rate = "2 Mbit/s"

[link.classes]
kind = "rate-delay"
dscp = [0]
bound = "50 ms"

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
sends = { kind = "steady", every = "1600 us", bytes = 472 }

[[step]]
at = "5 s"
do = "change"
between = ["alice", "bob"]
rate = "1500 kbit/s"
"#;

    fn changed(line: &str, instead: &str) -> String {
        assert!(SCENARIO.contains(line), "{line}");
        SCENARIO.replacen(line, instead, 1)
    }

    fn forth(text: &str) -> LinkOutcome {
        let outcome = Scenario::parse(text).expect("a scenario").run(1).expect("all are joined");
        outcome.links.into_iter().find(|link| link.from == "alice").expect("a link")
    }

    #[test]
    fn low_delay_packets_wait_no_longer_than_promised_also_at_another_rate() {
        let link = forth(SCENARIO);
        let classes = link.classes.expect("it has some");
        assert_eq!((classes.high_rate.offered, classes.low_delay.offered), (0, link.sent));
        assert!(classes.low_delay.sojourn_ms_max <= 50.0, "{classes:?}");
        assert_eq!(link.lost.get("queue_full"), Some(&classes.low_delay.dropped));
        assert!(classes.low_delay.dropped > 0 && classes.low_delay.dequeued == link.delivered, "{link:?}");
    }

    #[test]
    fn what_is_expected_of_a_link_is_judged_by_its_worse_direction() {
        let expecting = |expected: &str| {
            let named = changed("delay = \"20 ms\"", "delay = \"20 ms\"\nname = \"middle\"");
            format!("{named}\n[[expect]]\nlink = \"middle\"\n{expected}\n")
        };
        let verdict = |expected: &str| {
            let scenario = Scenario::parse(&expecting(expected)).expect("a scenario");
            let outcome = scenario.run(1).expect("all are joined");
            assert!(outcome.links.iter().all(|link| link.name.as_deref() == Some("middle")));
            outcome.expectations[0].clone()
        };
        let waits = verdict("measure = \"low-delay-sojourn-max\"\nat_most = \"50 ms\"");
        let link = forth(SCENARIO).classes.expect("it has some");
        assert_eq!((waits.measured, waits.is_met), (Some(link.low_delay.sojourn_ms_max), true));
        assert!(!verdict("measure = \"low-delay-sojourn-max\"\nat_most = \"10 ms\"").is_met);
        // 0.6 of 2.6 Mbit/s, and then 1.1.
        let loss = verdict("measure = \"low-delay-loss\"\nat_most = \"20 %\"");
        assert!(!loss.is_met && loss.measured.is_some_and(|loss| loss < 0.45), "{loss:?}");
        // In the reverse direction, no packet is lost.
        assert_eq!(verdict("measure = \"low-delay-loss\"\nat_least = \"20 %\"").measured, Some(0.0));
        let none = verdict("measure = \"high-rate-loss\"\nat_most = \"50 %\"");
        assert_eq!((none.measured, none.is_met), (None, false), "no packet was of that class");
        for (wrong, words) in [
            (
                "measure = \"missing\"\nat_most = 3",
                "invalid measure of links, \"missing\": name one of `high-rate-sojourn-max`",
            ),
            ("measure = \"low-delay-loss\"\nat_most = \"3 ms\"", "3 ms"),
            ("flow = \"call\"\nmeasure = \"missing\"\nat_most = 3", "one of `flow`, `command` and `link`"),
        ] {
            let error = Scenario::parse(&expecting(wrong)).expect_err(wrong).to_string();
            assert!(error.contains(words), "{error}");
        }
        let of_flow = format!(
            "{SCENARIO}\n[[expect]]\nflow = \"call\"\nmeasure = \"low-delay-loss\"\nat_most = \"1 %\"\n"
        );
        let error = Scenario::parse(&of_flow).expect_err("a measure of links").to_string();
        assert!(error.contains("invalid measure of flows, \"low-delay-loss\""), "{error}");
        let unnamed = format!(
            "{SCENARIO}\n[[expect]]\nlink = \"middle\"\nmeasure = \"low-delay-loss\"\nat_most = \"1 %\"\n"
        );
        let error = Scenario::parse(&unnamed).expect_err("no such link").to_string();
        assert!(
            error.contains("expect[0].link: link with a name and classes \"middle\" not found"),
            "{error}"
        );
    }

    #[test]
    fn without_its_dscp_a_packet_is_high_rate_and_waits_as_long_as_there_is_room() {
        let classes = forth(&changed("dscp = [0]", "")).classes.expect("it has some");
        assert_eq!(classes.low_delay.offered, 0);
        // 250 ms of 2 Mbit/s before the change, whose sojourn times are a third longer after it.
        assert!((240.0..=340.0).contains(&classes.high_rate.sojourn_ms_max), "{classes:?}");
        let queue = changed("dscp = [0]", "").replacen("rate = ", "queue = \"5 kB\"\nrate = ", 1);
        let classes = forth(&queue).classes.expect("it has some");
        assert!(
            classes.high_rate.sojourn_ms_max <= 44.0,
            "5 kB at 1 Mbit/s, and the packet before: {classes:?}"
        );
    }

    #[test]
    fn packets_of_the_third_class_wait_on_average_as_long_as_promised_and_spike() {
        let third = changed("dscp = [0]", "dscp = [1]\naverage_dscp = [0]");
        let classes = forth(&third).classes.expect("it has some");
        let average = classes.low_average.expect("some packets arrived");
        assert_eq!((classes.high_rate.offered, classes.low_delay.offered), (0, 0));
        assert!(
            average.dropped > 0 && average.sojourn_ms_max > 50.0 && average.sojourn_ms_max < 300.0,
            "{average:?}"
        );
    }

    #[test]
    fn what_is_typed_is_what_a_link_is_told() {
        let wanted = changed(
            "bound = \"50 ms\"",
            "bound = \"50 ms\"\nratio = 2.3\naverage_dscp = [34]\ndiscards = \"all\"\nguard = \"strict\"\necn = true",
        );
        let network = Scenario::parse(&wanted).expect("a scenario").network(1).expect("all are joined");
        let expected = |kilobits: u64| {
            let rate = Rate::from_bits_per_second(kilobits * 1_000);
            let buffer = rate.bytes_in(Duration::from_millis(250)).expect("it is small");
            let settings = Settings::new(rate, Bytes::new(1_500)).expect("a link");
            let settings = settings.with_delay(Duration::from_millis(50)).expect("long enough");
            let settings =
                settings.with_ratio_milli(2_300).expect("a ratio").with_discards(DiscardPolicy::All);
            let settings = settings.with_low_average(Duration::from_millis(250)).expect("long enough");
            let queueing = QueueDiscipline::RateDelay(
                settings.with_buffers(buffer, buffer).with_guard(GuardMode::Strict).with_ecn(),
            );
            let marking = Marking::NONE.with(0).with_low_average(34);
            Some(SchedulerSettings {
                rate,
                discipline: queueing,
                marking,
                packet_bytes_max: Bytes::new(1_500),
            })
        };
        assert!(network.links.iter().all(|link| link.link.scheduling == expected(2_000)));
        let NetworkChange::Links(links) = &network.steps[0].change else { panic!("it changes links") };
        assert!(
            links
                .iter()
                .all(|link| link.link.scheduling == expected(1_500) && link.link.bottleneck.is_none())
        );
        let usual = changed("dscp = [0]\nbound = \"50 ms\"", "").replacen("rate-delay", "fq-codel", 1);
        let network = Scenario::parse(&usual).expect("a scenario").network(1).expect("all are joined");
        let scheduling = network.links[0].link.scheduling.expect("classes");
        assert_eq!(scheduling.marking, Marking::default());
        assert_eq!(scheduling.discipline, QueueDiscipline::FqCodel(Bytes::new(62_500)));
    }

    #[test]
    fn shares_by_flows_are_those_of_the_scheduler_also_at_another_rate() {
        let wanted = changed("bound = \"50 ms\"", "share = \"flows\"\nfloor = \"20.5 %\"\nguard = \"fair\"");
        let network = Scenario::parse(&wanted).expect("a scenario").network(1).expect("all are joined");
        let expected = |kilobits: u64| {
            let rate = Rate::from_kilobits_per_second(kilobits);
            let buffer = rate.bytes_in(Duration::from_millis(250)).expect("it is small");
            let settings = Settings::new(rate, Bytes::new(1_500)).expect("a link");
            let settings = settings.with_buffers(buffer, buffer).with_guard(GuardMode::Fair);
            settings.with_sharing(Sharing::ByFlows { floor_milli: 205 }).map(QueueDiscipline::RateDelay)
        };
        let discipline = |link: &byway_sim::Link| link.scheduling.expect("classes").discipline;
        assert!(network.links.iter().all(|link| Ok(discipline(&link.link)) == expected(2_000)));
        let NetworkChange::Links(links) = &network.steps[0].change else { panic!("it changes links") };
        assert!(links.iter().all(|link| Ok(discipline(&link.link)) == expected(1_500)));
    }

    #[test]
    fn with_shares_by_flows_packets_wait_beyond_a_bound_and_the_same_ones_are_lost() {
        // 2.6 Mbit/s on 2 Mbit/s: the queue has 250 ms, which take 333 ms at 1.5 Mbit/s.
        let by_flows = changed("bound = \"50 ms\"", "share = \"flows\"");
        let classes = forth(&by_flows).classes.expect("it has some");
        assert!((240.0..=340.0).contains(&classes.low_delay.sojourn_ms_max), "{classes:?}");
        assert_eq!(classes.high_rate.offered, 0);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
        for (line, instead, location, words) in [
            ("rate = \"2 Mbit/s\"\n", "", "scenario.toml:12: link[0].classes", "need a `rate`"),
            ("rate = \"2", "capacity = \"c\"\n#", "link[0]", "name a text file"),
            ("kind = \"rate-delay\"", "", "scenario.toml:13", "missing field `kind`"),
            (
                "\"rate-delay\"",
                "\"fair\"",
                "scenario.toml:14",
                "`drop-tail`, `rate-delay`, `priority`, `fq-codel`",
            ),
            ("\"rate-delay\"", "\"priority\"", "scenario.toml:16: link[0].classes.bound", "omit it"),
            ("[0]", "[64]", "scenario.toml:15: link[0].classes.dscp", "0 to 63"),
            ("\"50 ms\"", "\"3 ms\"", "scenario.toml:16: link[0].classes.bound", "give at least that much"),
            ("bound = \"50 ms\"", "ratio = 1", "scenario.toml:16: link[0].classes.ratio", "give more than 1"),
            (
                "bound = \"50 ms\"",
                "ratio = -2.0",
                "scenario.toml:16: link[0].classes.ratio",
                "give more than 1",
            ),
            ("bound", "delay", "scenario.toml:16", "unknown field `delay`"),
            (
                "bound = \"50 ms\"",
                "spike = \"1 s\"",
                "scenario.toml:16: link[0].classes.spike",
                "third class without",
            ),
            (
                "bound = \"50 ms\"",
                "guard = true",
                "scenario.toml:16:",
                "expected \"none\", \"fair\" or \"strict\"",
            ),
            (
                "bound = \"50 ms\"",
                "guard = \"on\"",
                "scenario.toml:16:",
                "expected \"none\", \"fair\" or \"strict\"",
            ),
            ("bound = \"50 ms\"", "average_dscp = [0]", "link[0].classes.average_dscp", "use each DSCP once"),
            ("bound = \"50 ms\"", "average_dscp = [64]", "link[0].classes.average_dscp", "0 to 63"),
            (
                "bound = \"50 ms\"",
                "average_dscp = [1]\nspike = \"1 ms\"",
                "link[0].classes.spike",
                "at least twice",
            ),
            ("bound = \"50 ms\"", "floor = \"20 %\"", "link[0].classes.floor", "the other `share`"),
            ("bound", "share = \"flows\"\nbound", "link[0].classes.bound", "the other `share`"),
            (
                "bound = \"50 ms\"",
                "share = \"flows\"\nfloor = \"91 %\"",
                "link[0].classes.floor",
                "at most 90 %",
            ),
            ("bound = \"50 ms\"", "share = \"weights\"", "scenario.toml:16:", "`ratio` or `flows`"),
            ("1500", "100", "scenario.toml:29: step[0].rate", "240 ms"),
            (
                "rate = \"2 Mbit/s\"",
                "rate = { one_of = [\"2 Mbit/s\", \"100 kbit/s\"] }",
                "scenario.toml:16: link[0].classes.bound",
                "240 ms",
            ),
        ] {
            let error = Scenario::parse(&changed(line, instead)).expect_err(instead).to_string();
            assert!(error.contains(location) && error.contains(words), "{instead}: {error}");
        }
    }
}
