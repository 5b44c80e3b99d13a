//! What came of a scenario.

use std::collections::BTreeMap;

use byway_sched::Class;
use byway_sim::ClassUse;
use byway_units::Duration;
use serde::Serialize;

use crate::record::{ConversationRecord, FlowRecord};
use crate::run::Halt;
use crate::scenario::{Bound, Expectation, Expected, Measure, Scenario};

/// What came of a scenario with one seed. The same scenario and seed give the same outcome on every machine, unless
/// [`Outcome::stopped`] says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The scenario's title.
    pub title: String,
    /// The seed.
    pub seed: u64,
    /// How long it lasted, in seconds of its own time.
    pub seconds: f64,
    /// If it was stopped before its end: when and why. All else then is what it had by that time.
    pub stopped: Option<Stopped>,
    /// A digest of everything that happened to packets, in hexadecimal digits: the same for two runs only if their traces are.
    pub digest: String,
    /// Packets that went over a link.
    pub link_crossings: u64,
    /// Packets to addresses that nobody has, or that no way leads to.
    pub unroutable: u64,
    /// The flows by their names, those of one name together, in the order of the file.
    pub flows: Vec<FlowOutcome>,
    /// The machines, in the order of the file.
    pub nodes: Vec<NodeOutcome>,
    /// What is between them, each direction by itself.
    pub links: Vec<LinkOutcome>,
    /// What was expected.
    pub expectations: Vec<Verdict>,
    /// What became of every packet, flow by flow; without packets unless they were asked for.
    #[serde(skip)]
    pub records: Vec<FlowRecord>,
    /// Every transfer over TCP.
    #[serde(skip)]
    pub conversations: Vec<ConversationRecord>,
}

impl Outcome {
    /// Whether it came to its end, and all is as expected.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.stopped.is_none() && self.expectations.iter().all(|verdict| verdict.is_met)
    }
}

/// A run that did not come to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stopped {
    /// When, in seconds of its own time.
    pub seconds: f64,
    /// Why.
    pub why: String,
    /// Whether the same scenario and seed stop there each time: not if a clock or a person stopped it.
    pub is_repeatable: bool,
}

impl Stopped {
    /// A run that was ended from outside.
    #[must_use]
    pub fn halted(now: Duration, halt: Halt) -> Self {
        match halt {
            Halt::Unwanted => Self::at(now, "nobody waits for the rest", false),
            Halt::RealTime(most) => Self::at(now, format!("it took {most} of real time"), false),
            Halt::Memory(most) => {
                Self::at(now, format!("its packets and records hold more than {most}"), true)
            }
        }
    }

    pub(crate) fn at(now: Duration, why: impl Into<String>, is_repeatable: bool) -> Self {
        Self { seconds: now.as_secs_f64(), why: why.into(), is_repeatable }
    }
}

/// What came of the flows of one name. Losses are counted by the world, not by agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowOutcome {
    /// Their name.
    pub name: String,
    /// How many there are; of TCP, those back are counted, too.
    pub flows: u64,
    /// Packets that applications sent.
    pub sent: u64,
    /// Their bytes.
    pub app_bytes: u64,
    /// Packets of which no direct copy came through whole. With forwarding there is none, and none is lost.
    pub lost_direct: u64,
    /// Of these, delivered within the budget.
    pub repaired: u64,
    /// Of these, at most one round trip of the direct path after they were due.
    pub repaired_within_rtt: u64,
    /// Packets delivered within the budget.
    pub delivered: u64,
    /// Packets delivered after the budget.
    pub late: u64,
    /// Packets that were never delivered.
    pub missing: u64,
    /// Packets that still had time when all ended.
    pub in_flight: u64,
    /// Deliveries of what was delivered before.
    pub duplicates: u64,
    /// How packets came that the direct path had lost.
    pub repaired_by: RepairedBy,
    /// How long repairs took, from when the direct copy was due, in milliseconds; `None` without any.
    pub repair_ms: Option<Quantiles>,
    /// How long deliveries took, in milliseconds; `None` without any.
    pub delay_ms: Option<Quantiles>,
    /// The bytes that all relays sent, by those that all applications did.
    pub relay_share: Option<f64>,
    /// What came of TCP, if they carry that: all above then is about its segments, in both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<TransfersOutcome>,
}

/// What came of the transfers over the flows of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransfersOutcome {
    /// Those that began.
    pub begun: u64,
    /// Those of which all arrived.
    pub finished: u64,
    /// Those that one end gave up.
    pub failed: u64,
    /// How long the finished ones took from their first SYN, in milliseconds; `None` without any.
    pub completion_ms: Option<TailQuantiles>,
    /// Payload of bulk transfers that arrived in order, in Mbit/s: in the mean from the beginning to the last arrival. `None` of
    /// fetches.
    pub goodput_mbit: Option<f64>,
    /// The same for each second from the beginning on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goodput_mbit_by_second: Vec<f64>,
    /// Segments sent, by both ends.
    pub segments: u64,
    /// Of these, with payload or FIN that was sent before.
    pub retransmitted: u64,
    /// How often a retransmission timer expired.
    pub timeouts: u64,
    /// How often a SYN or a SYN-ACK was sent again.
    pub handshake_timeouts: u64,
    /// How often fast recovery began.
    pub recoveries: u64,
}

/// Quantiles with the far end of a distribution, each a value that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TailQuantiles {
    /// Half of the values are no more.
    pub p50: f64,
    /// 99 % of the values are no more.
    pub p99: f64,
    /// 99.9 % of the values are no more.
    pub p999: f64,
    /// No value is more.
    pub max: f64,
}

impl TailQuantiles {
    /// Of these values; `None` of none.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let last = *values.last()?;
        let at = |per_mille: usize| values[(values.len() * per_mille).div_ceil(1_000) - 1];
        Some(Self { p50: at(500), p99: at(990), p999: at(999), max: last })
    }
}

/// How packets came that the direct path had lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepairedBy {
    /// Restored from the flow's own repair packets.
    pub in_stream: u64,
    /// Restored with other flows' packets.
    pub cooperative: u64,
    /// From a relay's cache.
    pub cache: u64,
    /// By relays, unasked.
    pub forward: u64,
    /// By the direct path, where their senders sent them again.
    pub resent: u64,
}

/// Quantiles, each a value that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of the values are no more.
    pub p50: f64,
    /// 95 % of the values are no more.
    pub p95: f64,
    /// 99 % of the values are no more.
    pub p99: f64,
}

/// What a machine sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeOutcome {
    /// Its name.
    pub name: String,
    /// IP packets that it sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// How often it sent or received something after a second of silence in the last minute: as often, a sleeping radio is
    /// woken. `None` of shorter scenarios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_ups_in_last_minute: Option<u64>,
    /// What it counted of itself, where that is not 0: as metrics do (docs/metrics.md), without `byway_agent_` and so on.
    pub counted: BTreeMap<String, u64>,
}

/// What happened on a link, in one direction. Bytes are those of IP packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkOutcome {
    /// What the scenario calls it, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The machine where it begins.
    pub from: String,
    /// The machine where it ends.
    pub to: String,
    /// Packets that were offered to it.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that came to its end, second copies among them.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Second copies that it made.
    pub duplicated: u64,
    /// Copies of which it inverted a bit.
    pub corrupted: u64,
    /// Copies that did not come to the host at its end, by reason: `queue_full`, `outage`, `too_long`, `random`,
    /// `address_moved`, `host_stopped`, `host_hung`; those without any are left out.
    pub lost: BTreeMap<String, u64>,
    /// What passed its `rate` or `capacity`, by what could have passed. `None` without either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// The most bytes that waited before it, those being sent among them. `None` without `rate` and `capacity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes_max: Option<u64>,
    /// What happened to the packets of each class. `None` without `classes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassesOutcome>,
}

/// What happened to packets before a link that tells them apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassesOutcome {
    /// To those whose DSCP does not mean low delay.
    pub high_rate: ClassOutcome,
    /// To the others.
    pub low_delay: ClassOutcome,
    /// To those whose DSCP means a delay that is low on average. `None` if none came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_average: Option<ClassOutcome>,
}

/// What happened to the packets of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassOutcome {
    /// Packets that came.
    pub offered: u64,
    /// Packets that the queue dropped.
    pub dropped: u64,
    /// Packets that it marked (CE).
    pub marked: u64,
    /// Packets that left it, the one being sent among them.
    pub left: u64,
    /// Their bytes.
    pub left_bytes: u64,
    /// How long those waited in the mean, in milliseconds; `None` if none left.
    pub waited_ms_mean: Option<f64>,
    /// The longest that one of them waited, in milliseconds.
    pub waited_ms_max: f64,
}

impl ClassesOutcome {
    /// Of what a link counted.
    #[must_use]
    pub fn of([high_rate, low_delay, low_average]: &[ClassUse; Class::COUNT]) -> Self {
        Self {
            high_rate: ClassOutcome::of(high_rate),
            low_delay: ClassOutcome::of(low_delay),
            low_average: (low_average.offered > 0).then(|| ClassOutcome::of(low_average)),
        }
    }

    /// All, each with its name.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, &ClassOutcome)> {
        let two = [("high rate", &self.high_rate), ("low delay", &self.low_delay)];
        two.into_iter().chain(self.low_average.iter().map(|class| ("low average", class)))
    }
}

impl ClassOutcome {
    fn of(class: &ClassUse) -> Self {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            offered: class.offered,
            dropped: class.dropped,
            marked: class.marked,
            left: class.left,
            left_bytes: class.left_bytes.count(),
            waited_ms_mean: (class.left > 0).then(|| milliseconds(class.waited / class.left)),
            waited_ms_max: milliseconds(class.waited_max),
        }
    }
}

/// What came of an expectation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whose measure it is.
    #[serde(flatten)]
    pub of: Subject,
    /// What was measured: of flows and links, packets, a share of 1, milliseconds or Mbit/s.
    pub measure: String,
    /// What it came to; `None` if there was nothing to measure.
    pub measured: Option<f64>,
    /// What it should be at least.
    pub at_least: Option<f64>,
    /// What it should be at most.
    pub at_most: Option<f64>,
    /// Whether it is. Where nothing was measured, nothing is met.
    pub is_met: bool,
}

/// Whose measure it is of which something is expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The flows of a name.
    Flow(String),
    /// The command of a name, in however many machines.
    Command(String),
    /// The links of a name.
    Link(String),
}

impl Subject {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        let (Self::Flow(name) | Self::Command(name) | Self::Link(name)) = self;
        name
    }
}

impl Verdict {
    pub(crate) fn of_nothing(expectation: &Expectation, scenario: &Scenario) -> Self {
        let (at_least, at_most) = match expectation.bound {
            Bound::AtLeast(bound) => (Some(bound), None),
            Bound::AtMost(bound) => (None, Some(bound)),
        };
        let (of, measure) = match &expectation.of {
            Expected::Flow(group, measure) => {
                let flow = scenario.flows.iter().find(|flow| flow.group == *group);
                let name = flow.map(|flow| flow.name.clone()).unwrap_or_default();
                (Subject::Flow(name), measure.name().to_owned())
            }
            Expected::Command(name, measure) => (Subject::Command(name.clone()), measure.clone()),
            Expected::Link(name, measure) => (Subject::Link(name.clone()), measure.name().to_owned()),
        };
        Self { of, measure, measured: None, at_least, at_most, is_met: false }
    }

    /// Of these values, the one that is furthest from what is expected.
    #[must_use]
    pub fn worst(&self, values: impl Iterator<Item = f64>) -> Option<f64> {
        values.reduce(if self.at_least.is_some() { f64::min } else { f64::max })
    }

    /// What its measure comes to at links, each direction by itself: the worst; `None` if there were no packets of the class.
    #[must_use]
    pub fn at_links<'a>(&self, links: impl Iterator<Item = &'a ClassesOutcome>) -> Option<f64> {
        let measure = Measure::ALL.iter().find(|measure| measure.name() == self.measure)?;
        self.worst(links.filter_map(|classes| measure.of_classes(classes)))
    }

    /// The verdict if this had been measured.
    #[must_use]
    pub fn with(&self, measured: Option<f64>) -> Self {
        let is_met = measured.is_some_and(|value| {
            self.at_least.is_none_or(|bound| value >= bound)
                && self.at_most.is_none_or(|bound| value <= bound)
        });
        Self { measured, is_met, ..self.clone() }
    }
}
