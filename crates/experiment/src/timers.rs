//! How often receivers ask, and how soon they notice a loss, with the timer of agents and with a fixed one, on the arrivals of the same
//! run.

use byway_proto::parts::loss_timer::{Fixed, LossTimer, TwoState};
use byway_scenario::{FlowRecord, Way};
use byway_units::Time;

use crate::findings::{Findings, Unit, number, quantile, share};
use crate::flows::milliseconds;

/// Adds, for both timers, how often receivers of flows of each name ask, and how long after it was due a loss is noticed.
pub(crate) fn compare(records: &[FlowRecord], findings: &mut Findings) {
    let names: std::collections::BTreeSet<&str> = records.iter().map(|record| record.name.as_str()).collect();
    for group in names.into_iter().map(Some).chain([None]) {
        let members = || records.iter().filter(move |record| group.is_none_or(|name| record.name == name));
        let two_states = members().map(|record| watch(record, TwoState::new(record.terms.round_trip)));
        add("two-states", group, two_states.fold(Watched::default(), Watched::and), findings);
        let fixed = members().map(|record| watch(record, Fixed::default()));
        add("fixed", group, fixed.fold(Watched::default(), Watched::and), findings);
        let of = |name: &str| findings.value(name, group);
        let ratio = of("timer-nacks-fixed")
            .zip(of("timer-nacks-two-states"))
            .map(|(fixed, own)| fixed / own.max(1.0));
        let later = of("noticed-two-states-p50").zip(of("noticed-fixed-p50")).map(|(own, fixed)| own - fixed);
        findings.measure("timer-nacks-ratio", group, ratio, Unit::Ratio);
        findings.measure("noticed-later-p50", group, later, Unit::Milliseconds);
    }
}

fn add(timer: &str, group: Option<&str>, mut watched: Watched, findings: &mut Findings) {
    let mut put = |name: String, value, unit| findings.measure(&name, group, value, unit);
    put(format!("timer-nacks-{timer}"), Some(number(watched.asked)), Unit::Count);
    put(format!("timer-nacks-in-vain-{timer}"), Some(number(watched.in_vain)), Unit::Count);
    put(format!("timer-nacks-of-packets-{timer}"), share(watched.asked, watched.arrivals), Unit::Ratio);
    for (suffix, at) in [("p50", 0.5), ("p95", 0.95)] {
        put(format!("noticed-{timer}-{suffix}"), quantile(&mut watched.noticed, at), Unit::Milliseconds);
    }
}

/// What a timer did.
#[derive(Clone, Debug, Default)]
struct Watched {
    arrivals: u64,
    /// How often it had the receiver ask, and how often for a packet that then came.
    asked: u64,
    in_vain: u64,
    /// How long after the first packet of each gap was due it was noticed, in milliseconds.
    noticed: Vec<f64>,
}

impl Watched {
    fn and(mut self, other: Self) -> Self {
        self.arrivals += other.arrivals;
        self.asked += other.asked;
        self.in_vain += other.in_vain;
        self.noticed.extend(other.noticed);
        self
    }
}

/// Has a timer watch the arrivals of a flow by its direct path.
fn watch(record: &FlowRecord, mut timer: impl LossTimer) -> Watched {
    let mut watched = Watched::default();
    let mut last: Option<(usize, Time)> = None;
    for (place, arrival) in arrivals(record) {
        watched.arrivals += 1;
        let Some((before, since)) = last else {
            timer.arrival(true, arrival);
            last = Some((place, arrival));
            continue;
        };
        if place <= before {
            continue;
        }
        let is_gap = place > before + 1;
        let mut noticed = None;
        while let Some(at) = since.checked_add(timer.timeout()).filter(|at| *at < arrival) {
            watched.asked += 1;
            watched.in_vain += u64::from(!is_gap);
            noticed.get_or_insert(at);
            timer.expired(at);
        }
        if is_gap {
            let due = record.fates[before + 1].sent + record.terms.due;
            let noticed = noticed.unwrap_or(arrival).saturating_since(due);
            watched.noticed.push(milliseconds(noticed));
        }
        timer.arrival(!is_gap, arrival);
        last = Some((place, arrival));
    }
    watched
}

/// The packets that came by the direct path the first time they were sent, in the order of their arrival.
fn arrivals(record: &FlowRecord) -> Vec<(usize, Time)> {
    let direct = record.fates.iter().enumerate().filter(|(_, fate)| !fate.is_lost());
    let came = direct.filter_map(|(place, fate)| match fate.delivered {
        Some((at, Way::Direct)) => Some((place, at)),
        // Its repair came before: the direct copy was about to.
        Some(_) => Some((place, fate.sent.saturating_add(record.terms.due))),
        None => None,
    });
    let mut arrivals: Vec<(usize, Time)> = came.collect();
    arrivals.sort_unstable_by_key(|(_, at)| *at);
    arrivals
}
