//! What a run comes to: rates, losses and waits by class, link and traffic.

use byway_sched::Class;
use byway_sim::{ClassUse, World};
use byway_units::{Duration, Rate};

use super::hosts::{Machine, Sink};
use super::mos::{Call, mean_opinion};
use super::typed::TypedSends;
use super::world::{Run, SEGMENT_BYTES, VOICE_EVERY};
use crate::findings::{Findings, Unit, number, share};

/// From when on calls are judged (section V-C of the paper).
const CALLS_SETTLE: Duration = Duration::from_secs(10);

/// In the order of [`Class::ALL`].
const CLASSES: [&str; Class::COUNT] = ["high-rate", "low-delay", "low-average"];

/// All that was measured.
pub(crate) fn reduce<'a>(run: &Run<'a>, world: &World<Run<'a>>) -> Findings {
    let mut findings = Findings::default();
    let seconds = (run.plan.length - run.plan.settle).as_secs_f64();
    for link in 0..run.plan.links.len() {
        of_link(run, world, link, seconds, &mut findings);
    }
    findings.sample("wait", CLASSES[1], &run.waits);
    of_traffics(run, world, seconds, &mut findings);
    of_calls(run, world, &mut findings);
    findings
}

/// Of the observed link, classes are called as such; of others, with the link's name.
fn of_link<'a>(run: &Run<'a>, world: &World<Run<'a>>, link: usize, seconds: f64, findings: &mut Findings) {
    let planned = &run.plan.links[link];
    let capacity = rate_of(planned.scheduling.rate) * seconds;
    let uses = run.uses(link, world);
    let settled = &run.settled[link];
    let mut carried = [0.0; Class::COUNT];
    for (place, (all, before)) in uses.iter().zip(settled).enumerate() {
        if place == Class::LowAverage as usize && all.offered == 0 {
            continue;
        }
        let class = since(all, before);
        carried[place] = number(class.left_bytes.count()) * 8.0 / capacity;
        let group = if link == run.plan.observed {
            CLASSES[place].to_owned()
        } else {
            format!("{} {}", planned.name, CLASSES[place])
        };
        let mut put = |name: &str, value, unit| findings.measure(name, Some(&group), value, unit);
        put("utilization", Some(carried[place]), Unit::Share);
        put("loss", share(class.dropped, class.offered), Unit::Share);
        put("discarded", share(class.discarded, class.offered), Unit::Share);
        put("marked", share(class.marked, class.left), Unit::Share);
        let waited = (all.left > 0).then(|| milliseconds(all.waited_max));
        put("wait-max", waited, Unit::Milliseconds);
        let mean = (class.left > 0).then(|| milliseconds(class.waited) / number(class.left));
        put("wait-mean", mean, Unit::Milliseconds);
    }
    if link == run.plan.observed {
        findings.measure("utilization", None, Some(carried.iter().sum()), Unit::Share);
        let ratio = (carried[1] > 0.0).then(|| carried[0] / carried[1]);
        findings.measure("class-ratio", None, ratio, Unit::Ratio);
        put_counted(findings, carried, run.counted.map(|sum| share(sum, run.looks)));
    }
}

/// How many flows the link counted in the mean, and what one of them got.
fn put_counted(findings: &mut Findings, carried: [f64; Class::COUNT], flows: [Option<f64>; Class::COUNT]) {
    for (class, (flows, carried)) in CLASSES.into_iter().zip(flows.into_iter().zip(carried)) {
        let flows = flows.filter(|_| carried > 0.0);
        findings.measure("counted-flows", Some(class), flows, Unit::Count);
    }
    let [high_rate, low_delay, _] = flows;
    let ratio = high_rate
        .zip(low_delay)
        .map(|(high_rate, low_delay)| carried[0] / high_rate / (carried[1] / low_delay));
    findings.measure("counted-ratio", None, ratio, Unit::Ratio);
}

fn since(all: &ClassUse, before: &ClassUse) -> ClassUse {
    ClassUse {
        offered: all.offered - before.offered,
        dropped: all.dropped - before.dropped,
        discarded: all.discarded - before.discarded,
        marked: all.marked - before.marked,
        left: all.left - before.left,
        left_bytes: all.left_bytes - before.left_bytes,
        waited: all.waited - before.waited,
        waited_max: all.waited_max,
    }
}

/// Of the flows of each traffic that go forth.
fn of_traffics<'a>(run: &Run<'a>, world: &World<Run<'a>>, seconds: f64, findings: &mut Findings) {
    let delivered = run.all_delivered(world);
    let mut mean_of_class = [(0.0, 0_u64); Class::COUNT];
    let mut implied_of_class = [(0.0, 0.0); Class::COUNT];
    for (place, traffic) in run.plan.traffics.iter().enumerate() {
        let flows = traffic.flows.iter().enumerate().filter(|(_, flow)| !flow.is_back);
        let rates: Vec<f64> = flows
            .map(|(flow, _)| {
                number(delivered[place][flow] - run.delivered[place][flow]) * 8.0 / seconds / 1e6
            })
            .collect();
        let count = rates.len() as u64;
        let mean = rates.iter().sum::<f64>() / number(count).max(1.0);
        findings.measure("flow-rate", Some(&traffic.name), (count > 0).then_some(mean), Unit::Megabits);
        findings.sample("flow-rate", &traffic.name, &rates);
        let (again, sent) = segments(run, world, place);
        findings.measure("retransmitted", Some(&traffic.name), share(again, sent), Unit::Share);
        let longest = milliseconds(world.observer().longest[place]);
        findings.measure("one-way-max", Some(&traffic.name), Some(longest), Unit::Milliseconds);
        if matches!(traffic.sends, TypedSends::Bulk {}) {
            let (sum, flows) = &mut mean_of_class[traffic.class as usize];
            (*sum, *flows) = (*sum + mean * number(count), *flows + count);
            let wait = findings.value("wait-mean", Some(CLASSES[traffic.class as usize]));
            let round_trips = run.ends[place].iter().zip(&traffic.flows).filter(|(_, flow)| !flow.is_back);
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

/// The share of segments that a flow of TCP at so many Mbit/s of payload loses: rate = (S/RTT)·√(3/(2·b·p)), where acknowledgments are for
/// b = 2 segments (Mathis, Semke, Mahdavi and Ott, 1997); at most all.
fn implied_loss(megabits: f64, round_trip_ms: f64) -> f64 {
    let window = megabits * 1e3 * round_trip_ms / 8.0 / f64::from(SEGMENT_BYTES);
    if window > 0.0 { (0.75 / (window * window)).min(1.0) } else { 1.0 }
}

/// The segments that the senders of a traffic that goes forth sent again, and all that they sent.
fn segments<'a>(run: &Run<'a>, world: &World<Run<'a>>, place: usize) -> (u64, u64) {
    let flows = run.plan.traffics[place].flows.iter().zip(&run.ends[place]);
    let hosts = flows.filter(|(flow, _)| !flow.is_back).filter_map(|(_, ends)| match world.host(ends.from) {
        Machine::Tcp(host) => Some(host.statistics()),
        _ => None,
    });
    hosts.fold((0, 0), |(again, sent), of| {
        (again + of.retransmitted, sent + of.retransmitted + of.originals_sent)
    })
}

fn of_calls<'a>(run: &Run<'a>, world: &World<Run<'a>>, findings: &mut Findings) {
    for (place, traffic) in run.plan.traffics.iter().enumerate() {
        if !matches!(traffic.sends, TypedSends::Voice {}) {
            continue;
        }
        let calls: Vec<Call> = run.ends[place]
            .iter()
            .filter_map(|ends| {
                let Machine::Sink(sink) = world.host(ends.to) else {
                    return None;
                };
                let spoken =
                    run.plan.length.saturating_sub(ends.begin.saturating_since(byway_units::Time::START));
                judge(sink, spoken)
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

/// A call as its receiver hears it; `None` if it was too short to be judged.
fn judge(sink: &Sink, spoken: Duration) -> Option<Call> {
    let packets =
        |time: Duration| u32::try_from(time.as_nanos() / VOICE_EVERY.as_nanos()).unwrap_or(u32::MAX);
    let first = packets(CALLS_SETTLE.min(spoken / 2));
    // What is under way at the end is not lost.
    let last = packets(spoken.saturating_sub(Duration::from_secs(2)));
    let mut delays = vec![None; last.checked_sub(first).filter(|sent| *sent > 0)? as usize];
    for (number, delay) in sink.came.iter().filter(|(number, _)| (first..last).contains(number)) {
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
