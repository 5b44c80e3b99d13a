//! A link reports numbers that are wrong, as a broken or hostile one does.

use byway_state::{Guidance, LinkSample, Rules};
use byway_units::{Bytes, Duration, Rate};

use crate::link::LinkSetup;
use crate::world::{Reporting, World};

/// Change of what a link reports.
type Misreport = fn(&mut LinkSample);

/// Link of the forward or of the return path.
#[derive(Clone, Copy, Debug)]
enum FaultyLink {
    Forward,
    Back,
}

const FAULTS: [(&str, FaultyLink, Misreport); 7] = [
    ("a hundred times the rate", FaultyLink::Forward, overstate),
    ("a hundred times the rate, and no backlog", FaultyLink::Forward, overstate_and_empty),
    ("a long backlog", FaultyLink::Forward, pile_up),
    ("a long backlog", FaultyLink::Back, pile_up),
    ("a low rate, and a backlog of a second", FaultyLink::Back, slow_down),
    ("a long delay", FaultyLink::Forward, delay),
    ("a long delay", FaultyLink::Back, delay),
];

fn overstate(sample: &mut LinkSample) {
    sample.shown = Rate::from_megabits_per_second(500);
}

fn overstate_and_empty(sample: &mut LinkSample) {
    overstate(sample);
    sample.backlog = Bytes::ZERO;
}

fn slow_down(sample: &mut LinkSample) {
    (sample.shown, sample.backlog) = (Rate::from_kilobits_per_second(8), Bytes::new(1_000));
}

fn pile_up(sample: &mut LinkSample) {
    sample.backlog = Bytes::new(16 << 20);
}

fn delay(sample: &mut LinkSample) {
    sample.delay = Duration::from_secs(10);
}

#[derive(Debug)]
struct Damage {
    /// Part of the forward link's rate.
    used: f64,
    /// Median and 95 % quantile of its backlog in packets of each flow.
    backlog: [f64; 2],
    /// Part of its rate, and 95 % quantile of its backlog, from two seconds after the fault on.
    after: [f64; 2],
}

/// Runs so many flows over a link that is faulty from 10 s to 20 s.
fn run(rules: Rules, flows: u64, faulty: FaultyLink, misreport: Misreport) -> Damage {
    let mut world = World::new();
    let (link, back) = world.add_link_pair(LinkSetup::new(5, 50), Reporting::FRESH);
    for flow in 0..flows {
        world.add_flow(rules, &[link], &[back], 100 * flow);
    }
    let faulty = match faulty {
        FaultyLink::Forward => link,
        FaultyLink::Back => back,
    };
    world.at(10_000, move |world| world.links[faulty].misreport = Some(misreport));
    world.at(20_000, move |world| world.links[faulty].misreport = None);
    world.run_until(30_000);
    assert!(rules == Rules::PUBLISHED || world.flows[0].control.guidance() == Guidance::State);
    let backlog = |part, from_ms, to_ms| world.backlog(link, part, from_ms, to_ms) / flows as f64;
    Damage {
        used: world.total_rate(12_000, 20_000) / 5.0,
        backlog: [0.5, 0.95].map(|part| backlog(part, 12_000, 20_000)),
        after: [world.total_rate(22_000, 30_000) / 5.0, backlog(0.95, 22_000, 30_000)],
    }
}

#[test]
fn round_trips_refute_a_faulty_link_and_flows_go_on_by_delay() {
    for (name, faulty, misreport) in FAULTS {
        for flows in [1, 2, 10] {
            let damage = run(Rules::CORRECTED, flows, faulty, misreport);
            println!("{name}, {faulty:?}, {flows} flows: {damage:.3?}");
            assert!(
                damage.used >= 0.8 && damage.backlog[0] <= 5.0 && damage.backlog[1] <= 10.0,
                "{damage:?}"
            );
            assert!(damage.after[0] >= 0.95 && damage.after[1] <= 3.0, "{damage:?}");
        }
    }
}

#[test]
fn the_published_equations_believe_a_faulty_link() {
    for misreport in [overstate, delay] {
        let damage = run(Rules::PUBLISHED, 1, FaultyLink::Forward, misreport);
        println!("{damage:.3?}");
        assert!(damage.backlog[0] >= 100.0, "{damage:?}");
    }
}
