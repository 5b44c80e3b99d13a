//! Outcome of a scenario's run, and the verdicts on its expectations.

use std::collections::BTreeMap;

use byway_sched::Class;
use byway_sim::ClassCounters;
use byway_units::Duration;
use serde::Serialize;

use crate::costs::CostOutcome;
use crate::delivery_counts::{Quantiles, RepairCounts};
use crate::explanation::ExplanationOutcome;
use crate::record::{ConversationRecord, FlowRecord};
use crate::run::StopReason;
use crate::scenario::{Bound, Expectation, ExpectedMeasure, Measure, Scenario};

/// Outcome of a scenario with one seed. The same scenario and seed give the same outcome on every
/// machine, unless [`Outcome::stopped`] reports a stop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Title of the scenario.
    pub title: String,
    /// Seed of the run.
    pub seed: u64,
    /// Duration of the run, in seconds of virtual time.
    pub seconds: f64,
    /// Time and reason of an early stop. All other fields then have the values at that time.
    pub stopped: Option<Interruption>,
    /// Digest of all events of packets, in hexadecimal digits: equal for two runs only if their
    /// traces are.
    pub digest: String,
    /// Packets offered to links, summed over all links: a packet counts once for each link on its
    /// path.
    pub link_crossings: u64,
    /// Packets to addresses without an owner or a route.
    pub unroutable: u64,
    /// Outcomes of the flows: all flows of one name together, in the order of the file.
    pub flows: Vec<FlowOutcome>,
    /// Outcomes of the machines, in the order of the file.
    pub nodes: Vec<NodeOutcome>,
    /// Outcomes of the links, an entry for each direction.
    pub links: Vec<LinkOutcome>,
    /// Costs of the relays' bytes, if some have prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostOutcome>,
    /// Explanations of flows' services, with what was measured after them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explanations: Vec<ExplanationOutcome>,
    /// Verdicts on the scenario's expectations.
    pub expectations: Vec<Verdict>,
    /// Outcome of every packet, by flow; no packets unless records are enabled.
    #[serde(skip)]
    pub records: Vec<FlowRecord>,
    /// Transfers of every application over TCP.
    #[serde(skip)]
    pub conversations: Vec<ConversationRecord>,
}

impl Outcome {
    /// True if the run reached its end, and all expectations are met.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.stopped.is_none() && self.expectations.iter().all(|verdict| verdict.is_met)
    }
}

/// Stop of a run before its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interruption {
    /// Time of the stop, in seconds of virtual time.
    pub seconds: f64,
    /// Reason for the stop.
    pub why: String,
    /// True if the same scenario and seed stop at this time on each run: false if a clock or a
    /// person stopped it.
    pub is_repeatable: bool,
}

impl Interruption {
    /// Creates the interruption at a virtual time for the reason that the caller of the run has.
    #[must_use]
    pub fn from_stop_reason(now: Duration, reason: StopReason) -> Self {
        match reason {
            StopReason::Cancelled => Self::at(now, "it was cancelled", false),
            StopReason::RealTime(most) => Self::at(now, format!("it took {most} of real time"), false),
            StopReason::Memory(most) => {
                Self::at(now, format!("its packets and records need more than {most}"), true)
            }
        }
    }

    pub(crate) fn at(now: Duration, why: impl Into<String>, is_repeatable: bool) -> Self {
        Self { seconds: now.as_secs_f64(), why: why.into(), is_repeatable }
    }
}

/// Outcome of the flows of one name. Losses are counted by the world, not by agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowOutcome {
    /// Name of the flows.
    pub name: String,
    /// Number of flows of this name; for TCP, reverse flows are included.
    pub flows: u64,
    /// Packets that the flows' applications sent.
    pub sent: u64,
    /// Bytes that the flows' applications sent.
    pub app_bytes: u64,
    /// Packets without an intact direct copy. With forwarding, the direct path has no copies, and
    /// no losses.
    pub lost_direct: u64,
    /// Packets without an intact direct copy that were delivered within the budget.
    pub repaired: u64,
    /// Repaired packets that were delivered at most one round trip of the direct path after the
    /// expected arrival.
    pub repaired_within_rtt: u64,
    /// Packets delivered within the budget.
    pub delivered: u64,
    /// Packets delivered after the budget.
    pub late: u64,
    /// Packets that were never delivered.
    pub missing: u64,
    /// Packets still within their budget, and undelivered, at the end of the run.
    pub in_flight: u64,
    /// Deliveries beyond the first of each packet.
    pub duplicates: u64,
    /// Repaired packets by kind of repair.
    pub repaired_by: RepairCounts,
    /// Repair times from the expected arrival of the direct copy, in milliseconds; `None` without
    /// any.
    pub repair_ms: Option<Quantiles>,
    /// Delays of packets from sending to delivery, in milliseconds; `None` without any.
    pub delay_ms: Option<Quantiles>,
    /// Bytes that all relays of the run sent, relative to those that all applications sent.
    pub relay_share: Option<f64>,
    /// Outcome of TCP transfers, if there are any. Then all fields above count its segments, in
    /// both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<TransfersOutcome>,
}

/// Outcome of the transfers over the flows of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransfersOutcome {
    /// Transfers begun, whether finished or not.
    pub begun: u64,
    /// Transfers whose last byte arrived.
    pub finished: u64,
    /// Transfers that failed at one end.
    pub failed: u64,
    /// Durations of the finished transfers from their first SYN, in milliseconds; `None` without
    /// any.
    pub completion_ms: Option<TailQuantiles>,
    /// Goodput of bulk transfers in Mbit/s: the mean rate of in-order payload from the beginning to
    /// the completion or, without one, to the end of the run. `None` of fetches.
    pub goodput_mbit: Option<f64>,
    /// Goodput of bulk transfers in each second from the beginning on, in Mbit/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goodput_mbit_by_second: Vec<f64>,
    /// Segments that both ends sent.
    pub segments: u64,
    /// Sent segments that retransmitted payload or FIN.
    pub retransmitted: u64,
    /// Expiries of the retransmission timer after the handshake, at both ends of all transfers.
    pub timeouts: u64,
    /// Retransmissions of a SYN or a SYN-ACK.
    pub handshake_timeouts: u64,
    /// Starts of fast recovery at either end.
    pub recoveries: u64,
}

/// Median, high percentiles and maximum of a distribution, each a value that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct TailQuantiles {
    /// Median value.
    pub p50: f64,
    /// 99th percentile of the values.
    pub p99: f64,
    /// 99.9th percentile of the values.
    pub p999: f64,
    /// Largest value.
    pub max: f64,
}

impl TailQuantiles {
    /// Returns the quantiles of these values; `None` without any.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let last = *values.last()?;
        let at = |per_mille: usize| values[(values.len() * per_mille).div_ceil(1_000) - 1];
        Some(Self { p50: at(500), p99: at(990), p999: at(999), max: last })
    }
}

/// Outcome of a machine in a run: the IP packets that it sent, and its own protocol counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeOutcome {
    /// Name of the machine.
    pub name: String,
    /// IP packets that the machine sent.
    pub sent: u64,
    /// Bytes of the IP packets that the machine sent.
    pub sent_bytes: u64,
    /// Packets that the machine sent or received after a second of silence in the last minute: each
    /// wakes a sleeping radio. `None` in shorter scenarios.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_ups_in_last_minute: Option<u64>,
    /// Counters of the agent or relay that are not 0, named as in metrics (docs/metrics.md),
    /// without prefixes like `byway_agent_`.
    pub counted: BTreeMap<String, u64>,
}

/// Outcome of a link, in one direction. Bytes are those of IP packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkOutcome {
    /// Name of the link in the scenario, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the machine at which the link begins.
    pub from: String,
    /// Name of the machine at which the link ends.
    pub to: String,
    /// Packets offered to the link.
    pub sent: u64,
    /// Bytes of the packets offered to the link.
    pub sent_bytes: u64,
    /// Packets that arrived at the link's end, including duplicates.
    pub delivered: u64,
    /// Bytes of the packets that arrived at the link's end.
    pub delivered_bytes: u64,
    /// Duplicates that the link made.
    pub duplicated: u64,
    /// Copies in which the link inverted a bit.
    pub corrupted: u64,
    /// Copies that did not reach the host at the link's end, by reason: `queue_full`, `outage`,
    /// `too_long`, `random`, `address_moved`, `host_stopped`, `host_hung`; reasons without losses
    /// are omitted.
    pub lost: BTreeMap<String, u64>,
    /// Share of the bytes possible with the link's `rate` or `capacity` that passed. `None` without
    /// either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub utilisation: Option<f64>,
    /// Largest backlog of the link in bytes, including the packet in transmission. `None` without
    /// `rate` and `capacity`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_bytes_max: Option<u64>,
    /// Counters of each class of the link's packet scheduler. `None` without `classes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<ClassesOutcome>,
}

/// Counters of the classes of a link with a packet scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassesOutcome {
    /// Counters of the high-rate class: all DSCPs that do not select another class.
    pub high_rate: ClassOutcome,
    /// Counters of the low-delay class.
    pub low_delay: ClassOutcome,
    /// Counters of the class with a delay that is low on average. `None` without such packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_average: Option<ClassOutcome>,
}

/// Counters of the packets of one class at a link's scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ClassOutcome {
    /// Packets of the class that were offered to the queue.
    pub offered: u64,
    /// Packets of the class that the queue dropped.
    pub dropped: u64,
    /// Packets of the class in which the queue marked congestion (CE).
    pub marked: u64,
    /// Packets of the class that left the queue, including the packet in transmission.
    pub dequeued: u64,
    /// Bytes of the packets that left the queue.
    pub dequeued_bytes: u64,
    /// Mean sojourn time of the packets that left the queue, in milliseconds; `None` if none left.
    pub sojourn_ms_mean: Option<f64>,
    /// Longest sojourn time of the packets that left the queue, in milliseconds.
    pub sojourn_ms_max: f64,
}

impl ClassesOutcome {
    /// Converts the class counters of a link's scheduler.
    #[must_use]
    pub fn of([high_rate, low_delay, low_average]: &[ClassCounters; Class::COUNT]) -> Self {
        Self {
            high_rate: ClassOutcome::of(high_rate),
            low_delay: ClassOutcome::of(low_delay),
            low_average: (low_average.offered > 0).then(|| ClassOutcome::of(low_average)),
        }
    }

    /// Returns the counters of the classes, each with the class's name.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, &ClassOutcome)> {
        let two = [("high rate", &self.high_rate), ("low delay", &self.low_delay)];
        two.into_iter().chain(self.low_average.iter().map(|class| ("low average", class)))
    }
}

impl ClassOutcome {
    fn of(class: &ClassCounters) -> Self {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            offered: class.offered,
            dropped: class.dropped,
            marked: class.marked,
            dequeued: class.dequeued,
            dequeued_bytes: class.dequeued_bytes.count(),
            sojourn_ms_mean: (class.dequeued > 0).then(|| milliseconds(class.sojourn_total / class.dequeued)),
            sojourn_ms_max: milliseconds(class.sojourn_max),
        }
    }
}

/// Verdict on an expectation: the measured value, its bounds, and the comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Flows, command or links that were measured.
    #[serde(flatten)]
    pub of: Subject,
    /// Name of the measure: of flows and links, packets, a share of 1, milliseconds or Mbit/s.
    pub measure: String,
    /// Measured value; `None` without data.
    pub measured: Option<f64>,
    /// Lower bound of the expectation; `None` without one.
    pub at_least: Option<f64>,
    /// Upper bound of the expectation; `None` without one.
    pub at_most: Option<f64>,
    /// True if the measured value is within the bounds; false without a value.
    pub is_met: bool,
}

/// Subject of an expectation, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// All flows of this name.
    Flow(String),
    /// The command of this name, on any number of machines.
    Command(String),
    /// All links of this name.
    Link(String),
}

impl Subject {
    /// Returns the name of the flows, command or links.
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
            ExpectedMeasure::Flow(group, measure) => {
                let flow = scenario.flows.iter().find(|flow| flow.group == *group);
                let name = flow.map(|flow| flow.name.clone()).unwrap_or_default();
                (Subject::Flow(name), measure.name().to_owned())
            }
            ExpectedMeasure::Command(name, measure) => (Subject::Command(name.clone()), measure.clone()),
            ExpectedMeasure::Link(name, measure) => (Subject::Link(name.clone()), measure.name().to_owned()),
        };
        Self { of, measure, measured: None, at_least, at_most, is_met: false }
    }

    /// Returns the worst of several measured values: the lowest if the verdict has a lower bound,
    /// or else the highest.
    #[must_use]
    pub fn worst(&self, values: impl Iterator<Item = f64>) -> Option<f64> {
        values.reduce(if self.at_least.is_some() { f64::min } else { f64::max })
    }

    /// Returns the worst value of the verdict's measure over links, each direction by itself;
    /// `None` without packets of the class.
    #[must_use]
    pub fn at_links<'a>(&self, links: impl Iterator<Item = &'a ClassesOutcome>) -> Option<f64> {
        let measure = Measure::ALL.iter().find(|measure| measure.name() == self.measure)?;
        self.worst(links.filter_map(|classes| measure.of_classes(classes)))
    }

    /// Returns a copy of the verdict with this measured value, compared with the bounds.
    #[must_use]
    pub fn with(&self, measured: Option<f64>) -> Self {
        let is_met = measured.is_some_and(|value| {
            self.at_least.is_none_or(|bound| value >= bound)
                && self.at_most.is_none_or(|bound| value <= bound)
        });
        Self { measured, is_met, ..self.clone() }
    }
}
