//! Relays that die leave every service the direct path, and serve flows again when they are back.

use byway_proto::agent::{Delivery, Duplication};
use byway_sim::Hang;
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, Lie, OverlayWorld, Plan, Run, at, secs};

const SERVICES: [Service; 4] = [Service::Coding, Service::Caching, Service::Forwarding, Service::Both];

/// The time from the death of relays within which flows take another path.
const MOVED_WITHIN: Duration = Duration::from_millis(600);

/// Stops relays at a time: all of them, so that no path is left.
fn stop_all(run: &mut Run, world: &mut OverlayWorld) {
    run.relays.clone().into_iter().for_each(|relay| world.stop(relay));
}

fn restart_all(run: &mut Run, world: &mut OverlayWorld) {
    (0..run.relays.len()).for_each(|relay| run.restart_relay(relay, world));
}

/// Returns the number of packets that relays delivered, of those sent in a span.
fn forwarded(run: &Run, from: Time, until: Time) -> u64 {
    let ways = (0..run.plan.flows.len()).map(|flow| run.ways(flow, from, until));
    ways.map(|ways| ways.get(&Delivery::Forwarded).copied().unwrap_or(0)).sum()
}

fn long(service: Service, arrange: fn(Plan) -> Plan) -> Plan {
    arrange(Plan::pairs(2, service)).each_flow(|flow| flow.length = secs(16))
}

#[test]
fn where_all_relays_die_every_service_takes_the_direct_path_within_600_ms() {
    for service in SERVICES {
        for (name, arrange) in ARRANGEMENTS {
            let (mut world, mut run) = long(service, arrange).build();
            Run::when(&mut world, at(6_000), stop_all);
            Run::when(&mut world, at(10_000), restart_all);
            run.finish(&mut world);
            let case = format!("{service:?}, {name}");
            assert_eq!(run.all_missing(at(2_500), at(5_800)), 0, "{case}");
            assert_eq!(run.all_missing(at(6_000) + MOVED_WITHIN, Time::MAX), 0, "{case}");
            if matches!(service, Service::Forwarding) {
                assert!(forwarded(&run, at(3_000), at(5_800)) > 500, "{case}: relays deliver");
                assert_eq!(forwarded(&run, at(7_000), at(10_000)), 0, "{case}: they are dead");
                assert!(forwarded(&run, at(14_000), at(17_000)) > 500, "{case}: they deliver again");
            }
        }
    }
}

#[test]
fn where_one_relay_dies_every_service_has_a_path_within_600_ms() {
    for service in SERVICES {
        for (name, arrange) in ARRANGEMENTS {
            let relays = arrange(Plan::pairs(2, service)).relays;
            for dies in 0..relays {
                let (mut world, mut run) = long(service, arrange).build();
                Run::when(&mut world, at(6_000), move |run, world| world.stop(run.relays[dies]));
                run.finish(&mut world);
                let case = format!("{service:?}, {name}, relay {dies}");
                assert_eq!(run.all_missing(at(6_000) + MOVED_WITHIN, Time::MAX), 0, "{case}");
            }
        }
    }
}

#[test]
fn relays_that_hang_leave_every_service_the_direct_path() {
    for service in SERVICES {
        for (name, arrange) in ARRANGEMENTS {
            for hang in [Hang::Keep, Hang::Lose] {
                let (mut world, mut run) = long(service, arrange).build();
                Run::when(&mut world, at(6_000), move |run, world| {
                    run.relays.clone().into_iter().for_each(|relay| world.hang(relay, hang));
                });
                Run::when(&mut world, at(9_000), |run, world| {
                    run.relays.clone().into_iter().for_each(|relay| world.resume(relay));
                });
                run.finish(&mut world);
                let case = format!("{service:?}, {name}, {hang:?}");
                assert_eq!(run.all_missing(at(6_000) + MOVED_WITHIN, Time::MAX), 0, "{case}");
            }
        }
    }
}

#[test]
fn relays_that_never_answer_leave_every_service_the_direct_path() {
    for service in SERVICES {
        for (name, arrange) in ARRANGEMENTS {
            let (mut world, mut run) = long(service, arrange).build();
            stop_all(&mut run, &mut world);
            run.finish(&mut world);
            let begin = at(2_000);
            assert_eq!(run.all_missing(begin + MOVED_WITHIN, Time::MAX), 0, "{service:?}, {name}");
        }
    }
}

#[test]
fn a_flow_without_any_relay_takes_the_direct_path() {
    for service in SERVICES {
        let plan = Plan::pairs(1, service).each_flow(|flow| flow.paths.clear());
        let (_, run) = plan.run();
        assert_eq!(run.all_missing(at(2_000), Time::MAX), 0, "{service:?}");
    }
}

#[test]
fn copies_by_a_relay_that_dies_leave_the_direct_path() {
    let plan = long(Service::Caching, |plan| plan)
        .each_flow(|flow| flow.settings.duplication = Duplication::ByRelay);
    let (mut world, mut run) = plan.build();
    Run::when(&mut world, at(6_000), stop_all);
    run.finish(&mut world);
    assert_eq!(run.all_missing(at(6_000) + MOVED_WITHIN, Time::MAX), 0);
}

#[test]
fn relays_that_answer_and_deliver_garbage_leave_forwarding_the_direct_path_within_600_ms() {
    for (name, arrange) in ARRANGEMENTS {
        let mut plan = long(Service::Forwarding, arrange);
        plan.lie = Some(Lie::Garbage);
        let (world, run) = plan.run();
        let begins = at(2_000);
        assert!(run.all_missing(begins, begins + MOVED_WITHIN) > 0, "{name}: their lies show");
        assert_eq!(run.all_missing(begins + MOVED_WITHIN, begins + secs(10)), 0, "{name}");
        let missing = run.all_missing(begins + secs(10), Time::MAX);
        let sent: u64 = run.fates(&world).iter().map(|fate| fate.sent).sum();
        // Relays are tried again once: as much as in 600 ms of 16 s.
        assert!(missing as u64 <= sent * 6 / 160, "{name}: {missing} of {sent}");
    }
}
