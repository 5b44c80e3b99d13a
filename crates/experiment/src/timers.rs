//! Comparison of NACK timers: the number of NACKs and the detection delay, with the agents' timer
//! and with fixed ones, on the arrivals of the same run.

use std::collections::BTreeSet;

use byway_proto::parts::loss_timer::{LossTimer, TwoState};
use byway_scenario::{DeliveryMethod, FlowRecord};
use byway_units::{Duration, Time};

use crate::findings::{Findings, Unit, number, quantile, share};
use crate::flows::milliseconds;

/// Fixed timeout with which the publication compares its timer (CASPR, section 5.3).
const PUBLISHED_TIMEOUT: Duration = Duration::from_millis(25);

/// Names of the timers, as in the names of measures: that of agents, the published fixed one, and a
/// control that is too patient.
const TIMERS: [&str; 3] = ["two-states", "fixed", "long"];

/// Fixed timeout that expires once in a silence, and not again before the next packet.
///
/// A timer that repeats its NACKs in idle pauses would be no fair comparison: the published one
/// does not.
#[derive(Clone, Copy, Debug)]
struct OncePerSilence {
    timeout: Duration,
    has_expired: bool,
}

impl OncePerSilence {
    const fn new(timeout: Duration) -> Self {
        Self { timeout, has_expired: false }
    }
}

impl LossTimer for OncePerSilence {
    fn on_packet(&mut self, _follows: bool, _now: Time) {
        self.has_expired = false;
    }

    fn timeout(&self) -> Duration {
        if self.has_expired { Duration::MAX } else { self.timeout }
    }

    fn on_timeout(&mut self, _now: Time) {
        self.has_expired = true;
    }
}

/// Adds the number of NACKs and the delay of loss detection with each timer, for all flows and by
/// their name.
pub(crate) fn compare(records: &[FlowRecord], findings: &mut Findings) {
    let names: BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    for group in names.into_iter().map(Some).chain([None]) {
        for timer in TIMERS {
            let members = records.iter().filter(|record| group.is_none_or(|name| record.name == name));
            let each = members.map(|record| statistics(timer, record));
            add(timer, group, each.fold(TimerStatistics::default(), TimerStatistics::and), findings);
        }
        let of = |name: &str| findings.value(name, group);
        let ratio = of("timer-nacks-fixed")
            .zip(of("timer-nacks-two-states"))
            .map(|(fixed, own)| fixed / own.max(1.0));
        let later = |timer: &str, suffix: &str| {
            let own = of(&format!("noticed-{timer}-{suffix}"));
            own.zip(of(&format!("noticed-fixed-{suffix}"))).map(|(own, fixed)| own - fixed)
        };
        let (p50, p95) = (later("two-states", "p50"), later("two-states", "p95"));
        let long = later("long", "p95");
        findings.measure("timer-nacks-ratio", group, ratio, Unit::Ratio);
        findings.measure("noticed-later-p50", group, p50, Unit::Milliseconds);
        findings.measure("noticed-later-p95", group, p95, Unit::Milliseconds);
        findings.measure("noticed-later-long-p95", group, long, Unit::Milliseconds);
    }
}

/// Runs the timer of this name on a flow's arrivals.
fn statistics(timer: &str, record: &FlowRecord) -> TimerStatistics {
    let round_trip = record.terms.round_trip;
    match timer {
        "two-states" => run_timer(record, TwoState::new(round_trip)),
        "fixed" => run_timer(record, OncePerSilence::new(PUBLISHED_TIMEOUT)),
        _ => run_timer(record, OncePerSilence::new(round_trip * 2)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_records::{Fate, flow};

    fn measured(record: &FlowRecord) -> Findings {
        let mut findings = Findings::default();
        compare(std::slice::from_ref(record), &mut findings);
        findings
    }

    /// Returns a flow that sends bursts of five packets, 10 ms apart, with pauses of a second.
    fn bursts() -> FlowRecord {
        let mut record = flow(&[Fate::Direct; 50]);
        for (nth, packet) in (0_u64..).zip(&mut record.packets) {
            let pauses = Duration::from_secs(1) * (nth / 5);
            packet.sent += pauses;
            packet.delivered = packet.delivered.map(|(at, method)| (at + pauses, method));
        }
        record
    }

    #[test]
    fn a_fixed_timer_asks_once_in_each_pause() {
        let findings = measured(&bursts());
        let value = |name| findings.value(name, None).unwrap_or(f64::NAN);
        assert_eq!((value("timer-nacks-fixed"), value("timer-spurious-nacks-fixed")), (9.0, 9.0));
        let long = findings.value("timer-nacks-long", None);
        assert_eq!(long, Some(9.0), "a second is longer than two round trips");
    }

    #[test]
    fn a_patient_timer_notices_an_outage_later() {
        let mut fates = [Fate::Direct; 200];
        for nth in 1..9 {
            fates[nth * 20..nth * 20 + 10].fill(Fate::Missing);
        }
        let findings = measured(&flow(&fates));
        let value = |name| findings.value(name, None).unwrap_or(f64::NAN);
        // The silence is 110 ms. The first lost packet is due 10 ms after its beginning.
        assert!((value("noticed-fixed-p50") - 15.0).abs() < 1e-6);
        assert!((value("noticed-later-long-p95") - 85.0).abs() < 1e-6);
        assert!(value("noticed-two-states-p50") < 100.0 && value("timer-nacks-two-states") > 0.0);
    }
}
