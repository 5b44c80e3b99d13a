//! Reduction of a run of the study of classes to measures: rates, losses and sojourn times by
//! class, link and traffic.

use byway_sched::Class;
use byway_sim::{ClassCounters, World};
use byway_units::{Duration, Rate};

use super::hosts::{Machine, Sink};
use super::mos::{Call, mean_opinion};
use super::raw::SendsSetting;
use super::world::{Run, SEGMENT_BYTES, VOICE_EVERY};
use crate::findings::{Findings, Unit, number, share};

/// Time from which calls are scored (section V-C of the paper); in short calls, their first half is
/// left out.
const CALLS_WARM_UP: Duration = Duration::from_secs(10);

/// Names of the classes, in the order of [`Class::ALL`].
const CLASSES: [&str; Class::COUNT] = ["high-rate", "low-delay", "low-average"];

/// Reduces a completed run of the study of classes to its measures and samples.
pub(crate) fn reduce<'a>(run: &Run<'a>, world: &World<Run<'a>>) -> Findings {
    let mut findings = Findings::default();
    let seconds = (run.plan.length - run.plan.settle).as_secs_f64();
    for link in 0..run.plan.links.len() {
        of_link(run, world, link, seconds, &mut findings);
    }
    findings.sample("wait", CLASSES[1], &run.sojourns_ms);
    of_traffics(run, world, seconds, &mut findings);
    of_calls(run, world, &mut findings);
    findings
}

/// Adds the measures of each class of a link. Only for the observed link, names of measures do not
/// begin with the link's name.
fn of_link<'a>(run: &Run<'a>, world: &World<Run<'a>>, link: usize, seconds: f64, findings: &mut Findings) {
    let planned = &run.plan.links[link];
    let capacity = rate_of(planned.scheduling.rate) * seconds;
    let uses = run.class_counters(link, world);
    let settled = &run.baseline[link];
    let mut utilization = [0.0; Class::COUNT];
    for (class_index, (all, before)) in uses.iter().zip(settled).enumerate() {
        if class_index == Class::LowAverage as usize && all.offered == 0 {
            continue;
        }
        let class = since(all, before);
        utilization[class_index] = number(class.dequeued_bytes.count()) * 8.0 / capacity;
        let group = if link == run.plan.observed {
            CLASSES[class_index].to_owned()
        } else {
            format!("{} {}", planned.name, CLASSES[class_index])
        };
        let mut put = |name: &str, value, unit| findings.measure(name, Some(&group), value, unit);
        put("utilization", Some(utilization[class_index]), Unit::Share);
        put("loss", share(class.dropped, class.offered), Unit::Share);
        put("discarded", share(class.discarded, class.offered), Unit::Share);
        put("marked", share(class.marked, class.dequeued), Unit::Share);
        let waited = (all.dequeued > 0).then(|| milliseconds(all.sojourn_max));
        put("sojourn-max", waited, Unit::Milliseconds);
        let mean = (class.dequeued > 0).then(|| milliseconds(class.sojourn_total) / number(class.dequeued));
        put("sojourn-mean", mean, Unit::Milliseconds);
    }
    if link == run.plan.observed {
        findings.measure("utilization", None, Some(utilization.iter().sum()), Unit::Share);
        let ratio = (utilization[1] > 0.0).then(|| utilization[0] / utilization[1]);
        findings.measure("class-ratio", None, ratio, Unit::Ratio);
        put_counted(findings, utilization, run.counted.map(|sum| share(sum, run.samples)));
    }
}

/// Adds the mean number of flows that the link's scheduler counted in each class, and the ratio of
/// the classes' rates per counted flow.
fn put_counted(
    findings: &mut Findings,
    utilization: [f64; Class::COUNT],
    flows: [Option<f64>; Class::COUNT],
) {
    for (class, (flows, utilization)) in CLASSES.into_iter().zip(flows.into_iter().zip(utilization)) {
        let flows = flows.filter(|_| utilization > 0.0);
        findings.measure("counted-flows", Some(class), flows, Unit::Count);
    }
    let [high_rate, low_delay, _] = flows;
    let ratio = high_rate
        .zip(low_delay)
        .map(|(high_rate, low_delay)| utilization[0] / high_rate / (utilization[1] / low_delay));
    findings.measure("counted-ratio", None, ratio, Unit::Ratio);
}

fn since(all: &ClassCounters, before: &ClassCounters) -> ClassCounters {
    ClassCounters {
        offered: all.offered - before.offered,
        dropped: all.dropped - before.dropped,
        discarded: all.discarded - before.discarded,
        marked: all.marked - before.marked,
        dequeued: all.dequeued - before.dequeued,
        dequeued_bytes: all.dequeued_bytes - before.dequeued_bytes,
        sojourn_total: all.sojourn_total - before.sojourn_total,
        sojourn_max: all.sojourn_max,
    }
}

/// Adds the measures of each traffic, over its flows in forward direction.
fn of_traffics<'a>(run: &Run<'a>, world: &World<Run<'a>>, seconds: f64, findings: &mut Findings) {
    let delivered = run.all_delivered(world);
    let mut mean_of_class = [(0.0, 0_u64); Class::COUNT];
    let mut implied_of_class = [(0.0, 0.0); Class::COUNT];
    for (index, traffic) in run.plan.traffics.iter().enumerate() {
        let flows = traffic.flows.iter().enumerate().filter(|(_, flow)| !flow.is_back);
        let rates: Vec<f64> = flows
            .map(|(flow, _)| {
                number(delivered[index][flow] - run.delivered[index][flow]) * 8.0 / seconds / 1e6
            })
            .collect();
        let count = rates.len() as u64;
        let mean = rates.iter().sum::<f64>() / number(count).max(1.0);
        findings.measure("flow-rate", Some(&traffic.name), (count > 0).then_some(mean), Unit::Megabits);
        findings.sample("flow-rate", &traffic.name, &rates);
        let (again, sent) = segments(run, world, index);
        findings.measure("retransmitted", Some(&traffic.name), share(again, sent), Unit::Share);
        let longest = milliseconds(world.observer().longest[index]);
        findings.measure("one-way-max", Some(&traffic.name), Some(longest), Unit::Milliseconds);
        if matches!(traffic.sends, SendsSetting::Bulk {}) {
            let (sum, flows) = &mut mean_of_class[traffic.class as usize];
            (*sum, *flows) = (*sum + mean * number(count), *flows + count);
            let wait = findings.value("sojourn-mean", Some(CLASSES[traffic.class as usize]));
            let round_trips = run.ends[index].iter().zip(&traffic.flows).filter(|(_, flow)| !flow.is_back);
            for ((ends, _), rate) in round_trips.zip(&rates) {
                let round_trip = milliseconds(ends.round_trip) + wait.unwrap_or(0.0);
                let (lost, sent) = &mut implied_of_class[traffic.class as usize];
                (*lost, *sent) = (*lost + implied_loss(*rate, round_trip) * rate, *sent + rate);
            }
        }
    }
    for (class, (lost, sent)) in CLASSES.into_iter().zip(implied_of_class) {
        findings.measure("implied-loss", Some(class), (sent > 0.0).then(|| lost / sent), Unit::Share);
    }
    let means = mean_of_class.map(|(sum, flows)| (flows > 0).then(|| sum / number(flows)));
    for (class, mean) in CLASSES.into_iter().zip(means) {
        findings.measure("class-flow-rate", Some(class), mean, Unit::Megabits);
    }
    let [high_rate, low_delay, _] = means.map(|mean| mean.unwrap_or(0.0));
    let ratio = (low_delay > 0.0).then(|| high_rate / low_delay);
    findings.measure("flow-ratio", None, ratio, Unit::Ratio);
}

/// Returns the share of lost segments that the rate of a TCP flow implies, at most 1. The rate is
/// in Mbit/s of payload.
///
/// The model is rate = (S/RTT)·√(3/(2·b·p)) (Mathis, Semke, Mahdavi and Ott, 1997). Receivers
/// acknowledge b = 2 segments at once.
fn implied_loss(megabits: f64, round_trip_ms: f64) -> f64 {
    let window = megabits * 1e3 * round_trip_ms / 8.0 / f64::from(SEGMENT_BYTES);
    if window > 0.0 { (0.75 / (window * window)).min(1.0) } else { 1.0 }
}

/// Returns the number of segments that the senders of a traffic's forward flows retransmitted, and
/// of all that they sent.
fn segments<'a>(run: &Run<'a>, world: &World<Run<'a>>, index: usize) -> (u64, u64) {
    let flows = run.plan.traffics[index].flows.iter().zip(&run.ends[index]);
    let hosts = flows.filter(|(flow, _)| !flow.is_back).filter_map(|(_, ends)| match world.host(ends.from) {
        Machine::Tcp(host) => Some(host.statistics()),
        _ => None,
    });
    hosts.fold((0, 0), |(again, sent), of| {
        (again + of.retransmitted, sent + of.retransmitted + of.first_transmissions)
    })
}

fn of_calls<'a>(run: &Run<'a>, world: &World<Run<'a>>, findings: &mut Findings) {
    for (index, traffic) in run.plan.traffics.iter().enumerate() {
        if !matches!(traffic.sends, SendsSetting::Voice {}) {
            continue;
        }
        let calls: Vec<Call> = run.ends[index]
            .iter()
            .filter_map(|ends| {
                let Machine::Sink(sink) = world.host(ends.to) else {
                    return None;
                };
                let spoken =
                    run.plan.length.saturating_sub(ends.begin.saturating_since(byway_units::Time::START));
                score_call(sink, spoken)
            })
            .collect();
        let name = Some(traffic.name.as_str());
        let mean = |of: &dyn Fn(&Call) -> f64| {
            (!calls.is_empty()).then(|| calls.iter().map(of).sum::<f64>() / number(calls.len() as u64))
        };
        findings.measure("mos", name, mean(&mean_opinion), Unit::Score);
        findings.measure("call-delay", name, mean(&|call| call.delay_ms), Unit::Milliseconds);
        findings.measure("call-loss", name, mean(&|call| call.loss), Unit::Share);
        let scores: Vec<f64> = calls.iter().map(mean_opinion).collect();
        findings.sample("mos", &traffic.name, &scores);
    }
}

/// Scores a call from the delays at its receiver; `None` if the call was too short.
fn score_call(sink: &Sink, spoken: Duration) -> Option<Call> {
    let packets =
        |time: Duration| u32::try_from(time.as_nanos() / VOICE_EVERY.as_nanos()).unwrap_or(u32::MAX);
    let first = packets(CALLS_WARM_UP.min(spoken / 2));
    // Packets in flight at the end are not lost.
    let last = packets(spoken.saturating_sub(Duration::from_secs(2)));
    let mut delays = vec![None; last.checked_sub(first).filter(|sent| *sent > 0)? as usize];
    for (number, delay) in sink.received.iter().filter(|(number, _)| (first..last).contains(number)) {
        delays[(number - first) as usize] = Some(milliseconds(*delay));
    }
    Some(Call::of(&delays))
}

fn rate_of(rate: Rate) -> f64 {
    number(rate.bits_per_second())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
