//! Relays that die, restart or hang: flows go on through others within 600 ms, and come back.

use byway_proto::agent::Event;
use byway_units::Time;
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at};

/// Four flows with standby relays, when a relay dies at 6 s.
fn with_standby(service: Service, dies: usize) -> (OverlayWorld, Run) {
    let (mut world, mut run) = Plan::pairs(4, service).with_standby_relays().losing_in_turn().build();
    Run::when(&mut world, at(6_000), move |run, world| world.stop(run.relays[dies]));
    run.finish(&mut world);
    (world, run)
}

/// When senders changed to which path.
fn changes(run: &Run) -> Vec<(Time, usize)> {
    let by_sender = |agent: usize| run.plan.flows.iter().any(|flow| flow.from == agent);
    let changes = run.events.iter().filter_map(|(time, agent, event)| match event {
        Event::PathChanged { path, .. } if by_sender(*agent) => Some((*time, *path)),
        _ => None,
    });
    changes.collect()
}

#[test]
fn when_a_relay_dies_forwarding_goes_on_through_the_standby_within_600_ms() {
    for relay in [0, 1] {
        let (_, run) = with_standby(Service::Forwarding, relay);
        assert_eq!(run.all_missing(at(2_000), at(5_900)), 0, "relay {relay}");
        assert!(run.all_missing(at(5_900), at(6_600)) > 0, "relay {relay}: its death shows");
        assert_eq!(run.all_missing(at(6_600), Time::MAX), 0, "relay {relay}");
        let changes = changes(&run);
        assert_eq!(changes.len(), 4, "relay {relay}: {changes:?}");
        assert!(
            changes.iter().all(|(time, path)| *path == 1 && (at(6_000)..at(6_600)).contains(time)),
            "relay {relay}: {changes:?}"
        );
    }
}

#[test]
fn when_a_relay_dies_repairs_go_on_through_the_standby_within_600_ms() {
    for service in [Service::Caching, Service::Coding] {
        for relay in [0, 1] {
            let (world, run) = with_standby(service, relay);
            let fate = run.fate(&world);
            assert!(fate.lost > 200, "{fate:?}");
            assert_eq!(run.all_missing(at(2_500), at(5_800)), 0, "{service:?}, relay {relay}");
            assert!(run.all_missing(at(5_800), at(6_600)) > 0, "{service:?}, relay {relay}: its death shows");
            assert_eq!(run.all_missing(at(6_600), at(11_700)), 0, "{service:?}, relay {relay}: {fate:?}");
        }
    }
}

#[test]
fn when_both_relays_of_a_path_die_forwarding_goes_on_through_the_standby_within_600_ms() {
    let (mut world, mut run) = Plan::pairs(4, Service::Forwarding).with_standby_relays().build();
    Run::when(&mut world, at(6_000), |run, world| {
        world.stop(run.relays[0]);
        world.stop(run.relays[1]);
    });
    run.finish(&mut world);
    assert_eq!(run.all_missing(at(6_600), Time::MAX), 0);
}

#[test]
fn a_relay_that_restarts_with_nothing_in_its_memory_repairs_again_within_a_second() {
    for service in [Service::Coding, Service::Caching] {
        for relay in [0, 1] {
            let plan = Plan::pairs(4, service).losing_in_turn();
            let (mut world, mut run) = plan.build();
            Run::when(&mut world, at(5_000), move |run, world| world.stop(run.relays[relay]));
            Run::when(&mut world, at(5_300), move |run, world| run.restart_relay(relay, world));
            run.finish(&mut world);
            assert_eq!(run.all_missing(at(2_500), at(4_800)), 0, "{service:?}, relay {relay}");
            let late = run.all_missing(at(6_600), at(11_700));
            assert_eq!(
                late,
                0,
                "{service:?}, relay {relay}: {:?} {:?}",
                run.ingress(0, &world),
                run.egress(1, &world)
            );
            assert!(run.ways(0, at(6_600), at(12_000)).len() > 1, "something was repaired");
        }
    }
}

#[test]
fn a_relay_that_knows_grants_only_takes_its_agents_back_after_a_restart() {
    for relay in [0, 1] {
        let mut plan = Plan::pairs(4, Service::Caching).losing_in_turn();
        plan.has_controller = true;
        let (mut world, mut run) = plan.build();
        Run::when(&mut world, at(5_000), move |run, world| world.stop(run.relays[relay]));
        Run::when(&mut world, at(5_300), move |run, world| run.restart_relay(relay, world));
        run.finish(&mut world);
        assert_eq!(run.all_missing(at(2_500), at(4_800)), 0, "relay {relay}");
        assert_eq!(run.all_missing(at(6_600), at(11_700)), 0, "relay {relay}");
    }
}
