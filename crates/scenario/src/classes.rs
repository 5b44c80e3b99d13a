//! Queues that tell packets apart, from what is typed of them to what a link is told.

use std::fmt;

use byway_sched::{Class, DELAY_MAX, Discards, GuardMode, Marking, Settings, SettingsError};
use byway_sim::{Queueing, Scheduling};
use byway_typed::TypedDuration;
use byway_units::{Bytes, Duration, Rate};
use schemars::JsonSchema;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{QUEUE_MIN, SCHEDULED_PACKET_MAX};

/// A queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedQueue {
    /// One for all, which drops what finds no room.
    #[default]
    DropTail,
    /// Two classes by rate and delay.
    RateDelay,
    /// Low-delay packets first.
    Priority,
    /// One for each flow.
    FqCodel,
}

/// Which packets are dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedDiscards {
    /// Those that would wait longer than was promised.
    #[default]
    Late,
    /// All, as published.
    All,
    /// None.
    None,
}

/// Protection from misbehaving senders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedGuard {
    /// None: the link takes senders at their word.
    #[default]
    None,
    /// A sender that takes more than a fair share of its class loses packets before others do.
    Fair,
    /// A sender has no more than a fair share of its class where others are short of anything, nor more than its part of what a high-rate flow gets.
    Strict,
}

impl<'de> Deserialize<'de> for TypedGuard {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GuardVisitor)
    }
}

/// Reads a guard; whatever else is there, the error names the values.
struct GuardVisitor;

impl Visitor<'_> for GuardVisitor {
    type Value = TypedGuard;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"none\", \"fair\" or \"strict\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TypedGuard, E> {
        match text {
            "none" => Ok(TypedGuard::None),
            "fair" => Ok(TypedGuard::Fair),
            "strict" => Ok(TypedGuard::Strict),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

impl From<TypedGuard> for GuardMode {
    fn from(typed: TypedGuard) -> Self {
        match typed {
            TypedGuard::None => Self::None,
            TypedGuard::Fair => Self::Fair,
            TypedGuard::Strict => Self::Strict,
        }
    }
}

/// A queue before a link with a rate, in the place of one for all; how much waits in it, `queue` says. The DSCP of a packet is its class.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedClasses {
    /// Which.
    pub(crate) kind: TypedQueue,
    /// Which DSCPs mean low delay, 0 to 63. Default: `[4, 45, 46]`. What simulated applications send has DSCP 0.
    pub(crate) dscp: Option<Vec<u8>>,
    /// Of `rate-delay`: the bound on the queueing of low-delay packets, at most a minute. Default: `"10 ms"`, or what two packets take if that is more.
    pub(crate) bound: Option<TypedDuration>,
    /// Of `rate-delay`: the rate of a high-rate flow by that of a low-delay one, more than 1 and at most 1000. Default: 2.
    pub(crate) ratio: Option<f64>,
    /// Of `rate-delay`: which DSCPs mean a third class, whose delay is low on average but may spike, for fewer losses. Default: none, and there is
    /// no such class.
    pub(crate) average_dscp: Option<Vec<u8>>,
    /// Of `rate-delay` with `average_dscp`: what a packet of that class waits at most while flows come and go slowly. Default: five times the `bound`.
    pub(crate) spike: Option<TypedDuration>,
    /// Of `rate-delay`: which low-delay packets are dropped when their class gets less room. Default: `"late"`.
    pub(crate) discards: Option<TypedDiscards>,
    /// Of `rate-delay`: protection from senders who choose the wrong class or make up flows. Default: `"none"`.
    pub(crate) guard: Option<TypedGuard>,
    /// Of `rate-delay`: whether low-delay packets are marked before the queue is full. Default: `false`.
    pub(crate) ecn: Option<bool>,
}

impl TypedClasses {
    /// The first key that is given and of Rate-Delay alone.
    pub(crate) fn key_of_rate_delay(&self) -> Option<&'static str> {
        let given = [
            ("bound", self.bound.is_some()),
            ("ratio", self.ratio.is_some()),
            ("average_dscp", self.average_dscp.is_some()),
            ("spike", self.spike.is_some()),
            ("discards", self.discards.is_some()),
            ("guard", self.guard.is_some()),
            ("ecn", self.ecn.is_some()),
        ];
        given.into_iter().find_map(|(key, is_given)| is_given.then_some(key))
    }

    /// The key that is given and of the third class alone, where there is none.
    pub(crate) fn key_of_third_class(&self) -> Option<&'static str> {
        (self.spike.is_some() && self.average_dscp.is_none()).then_some("spike")
    }

    /// A DSCP that means low delay and a low average.
    pub(crate) fn dscp_of_two_classes(&self) -> Option<u8> {
        let low_delay = |dscp: &&u8| self.low_delay().class(**dscp << 2) == Class::LowDelay;
        self.average_dscp.iter().flatten().find(low_delay).copied()
    }

    fn low_delay(&self) -> Marking {
        let marked = |dscps: &Vec<u8>| dscps.iter().fold(Marking::NONE, |marking, dscp| marking.with(*dscp));
        self.dscp.as_ref().map_or_else(Marking::default, marked)
    }

    /// What is meant, with 4, 45 and 46 where no DSCP is given.
    pub(crate) fn meaning(&self) -> Classes {
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
            },
            marking: average.fold(marking, |marking, dscp| marking.with_low_average(*dscp)),
        }
    }
}

/// How packets before a link are told apart, whatever its rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    plan: QueuePlan,
    marking: Marking,
}

impl Classes {
    /// What fits into the queue where nobody says it, as time that the link takes for it: the buffer of the paper on Rate-Delay.
    const USUAL_QUEUE: Duration = Duration::from_millis(250);

    /// The queue before a link of this rate.
    pub(crate) fn scheduling(&self, rate: Rate, queue: Option<Bytes>) -> Result<Scheduling, NoPromise> {
        let usual = || rate.bytes_in(Self::USUAL_QUEUE).unwrap_or(Bytes::MAX).max(QUEUE_MIN);
        let room = queue.unwrap_or_else(usual);
        let queueing = self.plan.queueing(rate, SCHEDULED_PACKET_MAX, room)?;
        Ok(Scheduling { rate, queueing, marking: self.marking, packet: SCHEDULED_PACKET_MAX })
    }
}

/// What a packet of the third class may wait, by the bound of the low-delay class.
const SPIKE_USUAL: u64 = 5;

/// What is wanted of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueuePlan {
    /// Which it is.
    pub kind: TypedQueue,
    /// Of Rate-Delay, as all that follows: the bound on the queueing of low-delay packets. `None`: the usual one.
    pub bound: Option<Duration>,
    /// The rate of a high-rate flow by that of a low-delay one. `None`: the usual one.
    pub ratio: Option<f64>,
    /// Whether there is a third class, whose delay is low on average but may spike.
    pub third: ThirdClass,
    /// Which low-delay packets are dropped when their class gets less room.
    pub discards: TypedDiscards,
    /// Protection from senders who choose the wrong class or make up flows.
    pub guard: TypedGuard,
    /// Whether low-delay packets are marked before the queue is full.
    pub marks: bool,
}

/// The third class of a Rate-Delay link.
#[derive(Clone, Copy, Debug)]
pub enum ThirdClass {
    /// There is none.
    Absent,
    /// Its packets may wait for the usual multiple of the bound of the low-delay class.
    Usual,
    /// They may wait for so long.
    Spike(Duration),
}

impl ThirdClass {
    /// What is meant by whether it is wanted, and a `spike`.
    #[must_use]
    pub fn of(is_wanted: bool, spike: Option<TypedDuration>) -> Self {
        match spike {
            _ if !is_wanted => Self::Absent,
            None => Self::Usual,
            Some(spike) => Self::Spike(spike.0),
        }
    }

    /// What its packets may wait, where there is one.
    fn spike(self, bound: Duration) -> Option<Duration> {
        match self {
            Self::Absent => None,
            Self::Usual => Some((bound.min(DELAY_MAX) * SPIKE_USUAL).min(DELAY_MAX)),
            Self::Spike(spike) => Some(spike),
        }
    }
}

/// What a link cannot promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct NoPromise {
    /// The key that asks for it: `rate`, `bound`, `ratio` or `spike`.
    pub key: &'static str,
    /// Why it cannot.
    pub error: SettingsError,
}

impl QueuePlan {
    /// The queue before a link of this rate with packets of at most so many bytes, in which so much fits.
    ///
    /// # Errors
    /// If the link cannot promise what is wanted of Rate-Delay.
    pub fn queueing(&self, rate: Rate, packet: Bytes, room: Bytes) -> Result<Queueing, NoPromise> {
        Ok(match self.kind {
            TypedQueue::DropTail => Queueing::DropTail(room),
            TypedQueue::Priority => Queueing::StrictPriority(room),
            TypedQueue::FqCodel => Queueing::FqCodel(room),
            TypedQueue::RateDelay => Queueing::RateDelay(self.settings(rate, packet, room)?),
        })
    }

    pub(crate) fn settings(&self, rate: Rate, packet: Bytes, room: Bytes) -> Result<Settings, NoPromise> {
        let broken = |key| move |error| NoPromise { key, error };
        let mut settings = Settings::new(rate, packet).map_err(broken("rate"))?;
        settings = settings.with_buffers(room, room);
        if let Some(bound) = self.bound {
            settings = settings.with_delay(bound).map_err(broken("bound"))?;
        }
        if let Some(ratio) = self.ratio {
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "casts saturate, and what is out of range is refused"
            )]
            let milli = (ratio * 1_000.0).round() as u32;
            settings = settings.with_ratio_milli(milli).map_err(broken("ratio"))?;
        }
        if let Some(spike) = self.third.spike(settings.delay()) {
            settings = settings.with_low_average(spike).map_err(broken("spike"))?;
        }
        settings = settings.with_discards(match self.discards {
            TypedDiscards::Late => Discards::Late,
            TypedDiscards::All => Discards::All,
            TypedDiscards::None => Discards::None,
        });
        settings = settings.with_guard(self.guard.into());
        Ok(if self.marks { settings.with_ecn() } else { settings })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinkOutcome, NetworkChange, Scenario};

    /// 2.6 Mbit/s on a link that carries 2, and later 1.5.
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
        assert!(classes.low_delay.waited_ms_max <= 50.0, "{classes:?}");
        assert_eq!(link.lost.get("queue_full"), Some(&classes.low_delay.dropped));
        assert!(classes.low_delay.dropped > 0 && classes.low_delay.left == link.delivered, "{link:?}");
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
        let waits = verdict("measure = \"low-delay-wait-max\"\nat_most = \"50 ms\"");
        let link = forth(SCENARIO).classes.expect("it has some");
        assert_eq!((waits.measured, waits.is_met), (Some(link.low_delay.waited_ms_max), true));
        assert!(!verdict("measure = \"low-delay-wait-max\"\nat_most = \"10 ms\"").is_met);
        // 0.6 of 2.6 Mbit/s, and then 1.1.
        let loss = verdict("measure = \"low-delay-loss\"\nat_most = \"20 %\"");
        assert!(!loss.is_met && loss.measured.is_some_and(|loss| loss < 0.45), "{loss:?}");
        // Back, nothing is lost.
        assert_eq!(verdict("measure = \"low-delay-loss\"\nat_least = \"20 %\"").measured, Some(0.0));
        let none = verdict("measure = \"high-rate-loss\"\nat_most = \"50 %\"");
        assert_eq!((none.measured, none.is_met), (None, false), "no packet was of that class");
        for (wrong, words) in [
            (
                "measure = \"missing\"\nat_most = 3",
                "links have no measure \"missing\": it is one of `high-rate-wait-max`",
            ),
            ("measure = \"low-delay-loss\"\nat_most = \"3 ms\"", "3 ms"),
            ("flow = \"call\"\nmeasure = \"missing\"\nat_most = 3", "either `flow`, `command` or `link`"),
        ] {
            let said = Scenario::parse(&expecting(wrong)).expect_err(wrong).to_string();
            assert!(said.contains(words), "{said}");
        }
        let of_flow = format!(
            "{SCENARIO}\n[[expect]]\nflow = \"call\"\nmeasure = \"low-delay-loss\"\nat_most = \"1 %\"\n"
        );
        let said = Scenario::parse(&of_flow).expect_err("a measure of links").to_string();
        assert!(said.contains("flows have no measure \"low-delay-loss\""), "{said}");
        let unnamed = format!(
            "{SCENARIO}\n[[expect]]\nlink = \"middle\"\nmeasure = \"low-delay-loss\"\nat_most = \"1 %\"\n"
        );
        let said = Scenario::parse(&unnamed).expect_err("no such link").to_string();
        assert!(
            said.contains("expect[0].link: there is no link with a name and classes \"middle\""),
            "{said}"
        );
    }

    #[test]
    fn without_its_dscp_a_packet_is_high_rate_and_waits_as_long_as_there_is_room() {
        let classes = forth(&changed("dscp = [0]", "")).classes.expect("it has some");
        assert_eq!(classes.low_delay.offered, 0);
        // 250 ms of 2 Mbit/s before the change, which take a third longer after it.
        assert!((240.0..=340.0).contains(&classes.high_rate.waited_ms_max), "{classes:?}");
        let queue = changed("dscp = [0]", "").replacen("rate = ", "queue = \"5 kB\"\nrate = ", 1);
        let classes = forth(&queue).classes.expect("it has some");
        assert!(
            classes.high_rate.waited_ms_max <= 44.0,
            "5 kB at 1 Mbit/s, and the packet before: {classes:?}"
        );
    }

    #[test]
    fn packets_of_the_third_class_wait_on_average_as_long_as_promised_and_spike() {
        let third = changed("dscp = [0]", "dscp = [1]\naverage_dscp = [0]");
        let classes = forth(&third).classes.expect("it has some");
        let average = classes.low_average.expect("some packets came");
        assert_eq!((classes.high_rate.offered, classes.low_delay.offered), (0, 0));
        assert!(
            average.dropped > 0 && average.waited_ms_max > 50.0 && average.waited_ms_max < 300.0,
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
            let room = rate.bytes_in(Duration::from_millis(250)).expect("it is small");
            let settings = Settings::new(rate, Bytes::new(1_500)).expect("a link");
            let settings = settings.with_delay(Duration::from_millis(50)).expect("long enough");
            let settings = settings.with_ratio_milli(2_300).expect("a ratio").with_discards(Discards::All);
            let settings = settings.with_low_average(Duration::from_millis(250)).expect("long enough");
            let queueing = Queueing::RateDelay(
                settings.with_buffers(room, room).with_guard(GuardMode::Strict).with_ecn(),
            );
            let marking = Marking::NONE.with(0).with_low_average(34);
            Some(Scheduling { rate, queueing, marking, packet: Bytes::new(1_500) })
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
        assert_eq!(scheduling.queueing, Queueing::FqCodel(Bytes::new(62_500)));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
        for (line, instead, place, words) in [
            ("rate = \"2 Mbit/s\"\n", "", "scenario.toml:12: link[0].classes", "give one"),
            ("rate = \"2", "capacity = \"c\"\n#", "link[0]", "name a text file"),
            ("kind = \"rate-delay\"", "", "scenario.toml:13", "missing field `kind`"),
            (
                "\"rate-delay\"",
                "\"fair\"",
                "scenario.toml:14",
                "`drop-tail`, `rate-delay`, `priority`, `fq-codel`",
            ),
            ("\"rate-delay\"", "\"priority\"", "scenario.toml:16: link[0].classes.bound", "leave it out"),
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
                "no third class",
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
            ("bound = \"50 ms\"", "average_dscp = [0]", "link[0].classes.average_dscp", "one class"),
            ("bound = \"50 ms\"", "average_dscp = [64]", "link[0].classes.average_dscp", "0 to 63"),
            (
                "bound = \"50 ms\"",
                "average_dscp = [1]\nspike = \"1 ms\"",
                "link[0].classes.spike",
                "at least twice",
            ),
            ("1500", "100", "scenario.toml:29: step[0].rate", "240 ms"),
            (
                "rate = \"2 Mbit/s\"",
                "rate = { one_of = [\"2 Mbit/s\", \"100 kbit/s\"] }",
                "scenario.toml:16: link[0].classes.bound",
                "240 ms",
            ),
        ] {
            let said = Scenario::parse(&changed(line, instead)).expect_err(instead).to_string();
            assert!(said.contains(place) && said.contains(words), "{instead}: {said}");
        }
    }
}
