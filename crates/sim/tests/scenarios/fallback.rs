//! Tests of relays that stop: every service falls back to the direct path, and uses the relays
//! again after their restart.

use byway_proto::agent::Delivery;
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{ARRANGEMENTS, OverlayWorld, Plan, Run, at, secs};

const SERVICES: [Service; 6] = [
    Service::Retransmission,
    Service::Pull,
    Service::Coding,
    Service::Caching,
    Service::Forwarding,
    Service::Both,
];

/// Time from the crash of relays in which flows move to another path.
const MOVED_WITHIN: Duration = Duration::from_millis(600);

/// Stops all relays at a time, which leaves no relay path.
fn stop_all(run: &mut Run, world: &mut OverlayWorld) {
    run.relays.clone().into_iter().for_each(|relay| world.stop(relay));
}

fn restart_all(run: &mut Run, world: &mut OverlayWorld) {
    (0..run.relays.len()).for_each(|relay| run.restart_relay(relay, world));
}

/// Returns the number of packets that relays delivered, of those sent in a span.
fn forwarded(run: &Run, from: Time, until: Time) -> u64 {
    let counts = (0..run.plan.flows.len()).map(|flow| run.delivery_counts(flow, from, until));
    counts.map(|counts| counts.get(&Delivery::Forwarded).copied().unwrap_or(0)).sum()
}

fn long(service: Service, arrange: fn(Plan) -> Plan) -> Plan {
    arrange(Plan::pairs(2, service)).each_flow(|flow| flow.length = secs(16))
}

#[test]
fn where_all_relays_die_every_service_takes_the_direct_path_within_600_ms() {
    for service in SERVICES {
        for (name, arrange) in ARRANGEMENTS {
            let (mut world, mut run) = long(service, arrange).build();
            Run::schedule(&mut world, at(6_000), stop_all);
            Run::schedule(&mut world, at(10_000), restart_all);
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
                Run::schedule(&mut world, at(6_000), move |run, world| world.stop(run.relays[dies]));
                run.finish(&mut world);
                let case = format!("{service:?}, {name}, relay {dies}");
                assert_eq!(run.all_missing(at(6_000) + MOVED_WITHIN, Time::MAX), 0, "{case}");
            }
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
