//! Comparison of NACK timers: the number of NACKs and the detection delay, with the agents' timer
//! and with a fixed one, on the arrivals of the same run.

use byway_proto::parts::loss_timer::{FixedTimeout, LossTimer, TwoState};
use byway_scenario::{DeliveryMethod, FlowRecord};
use byway_units::Time;

use crate::findings::{Findings, Unit, number, quantile, share};
use crate::flows::milliseconds;

/// Adds the number of NACKs and the delay of loss detection with each of the two timers, for all
/// flows and by their name.
pub(crate) fn compare(records: &[FlowRecord], findings: &mut Findings) {
    let names: std::collections::BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    for group in names.into_iter().map(Some).chain([None]) {
        let members = || records.iter().filter(move |record| group.is_none_or(|name| record.name == name));
        let two_states = members().map(|record| run_timer(record, TwoState::new(record.terms.round_trip)));
        add("two-states", group, two_states.fold(TimerStatistics::default(), TimerStatistics::and), findings);
        let fixed = members().map(|record| run_timer(record, FixedTimeout::default()));
        add("fixed", group, fixed.fold(TimerStatistics::default(), TimerStatistics::and), findings);
        let of = |name: &str| findings.value(name, group);
        let ratio = of("timer-nacks-fixed")
            .zip(of("timer-nacks-two-states"))
            .map(|(fixed, own)| fixed / own.max(1.0));
        let later = of("noticed-two-states-p50").zip(of("noticed-fixed-p50")).map(|(own, fixed)| own - fixed);
        findings.measure("timer-nacks-ratio", group, ratio, Unit::Ratio);
        findings.measure("noticed-later-p50", group, later, Unit::Milliseconds);
    }
}

fn add(timer: &str, group: Option<&str>, mut statistics: TimerStatistics, findings: &mut Findings) {
    let mut put = |name: String, value, unit| findings.measure(&name, group, value, unit);
    put(format!("timer-nacks-{timer}"), Some(number(statistics.nacks)), Unit::Count);
    put(format!("timer-spurious-nacks-{timer}"), Some(number(statistics.spurious_nacks)), Unit::Count);
    put(format!("timer-nacks-of-packets-{timer}"), share(statistics.nacks, statistics.arrivals), Unit::Ratio);
    for (suffix, at) in [("p50", 0.5), ("p95", 0.95)] {
        put(
            format!("noticed-{timer}-{suffix}"),
            quantile(&mut statistics.detection_delays_ms, at),
            Unit::Milliseconds,
        );
    }
}

/// Results of a loss timer on the arrivals of flows.
#[derive(Clone, Debug, Default)]
struct TimerStatistics {
    arrivals: u64,
    /// NACKs that the timer caused; `spurious_nacks` counts those for packets that were not lost.
    nacks: u64,
    spurious_nacks: u64,
    /// Time from the due time of each gap's first packet to its detection, in milliseconds.
    detection_delays_ms: Vec<f64>,
}

impl TimerStatistics {
    fn and(mut self, other: Self) -> Self {
        self.arrivals += other.arrivals;
        self.nacks += other.nacks;
        self.spurious_nacks += other.spurious_nacks;
        self.detection_delays_ms.extend(other.detection_delays_ms);
        self
    }
}

/// Runs a loss timer on the arrivals of a flow's direct path, and counts the NACKs that it causes.
fn run_timer(record: &FlowRecord, mut timer: impl LossTimer) -> TimerStatistics {
    let mut statistics = TimerStatistics::default();
    let mut last: Option<(usize, Time)> = None;
    for (index, arrival) in arrivals(record) {
        statistics.arrivals += 1;
        let Some((before, since)) = last else {
            timer.on_packet(true, arrival);
            last = Some((index, arrival));
            continue;
        };
        if index <= before {
            continue;
        }
        let is_gap = index > before + 1;
        let mut detected = None;
        while let Some(at) = since.checked_add(timer.timeout()).filter(|at| *at < arrival) {
            statistics.nacks += 1;
            statistics.spurious_nacks += u64::from(!is_gap);
            detected.get_or_insert(at);
            timer.on_timeout(at);
        }
        if is_gap {
            let due = record.packets[before + 1].sent + record.terms.due;
            let detected = detected.unwrap_or(arrival).saturating_since(due);
            statistics.detection_delays_ms.push(milliseconds(detected));
        }
        timer.on_packet(!is_gap, arrival);
        last = Some((index, arrival));
    }
    statistics
}

/// Returns index and arrival time of the packets that the direct path did not lose, in the order of
/// arrival.
fn arrivals(record: &FlowRecord) -> Vec<(usize, Time)> {
    let direct = record.packets.iter().enumerate().filter(|(_, fate)| !fate.is_lost());
    let delivered = direct.filter_map(|(index, fate)| match fate.delivered {
        Some((at, DeliveryMethod::Direct)) => Some((index, at)),
        // Its repair arrived first, and the direct copy would have followed.
        Some(_) => Some((index, fate.sent.saturating_add(record.terms.due))),
        None => None,
    });
    let mut arrivals: Vec<(usize, Time)> = delivered.collect();
    arrivals.sort_unstable_by_key(|(_, at)| *at);
    arrivals
}
