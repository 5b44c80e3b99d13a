//! Tests of relays that stop, restart or freeze: flows move to others within 600 ms, and return.

use std::collections::BTreeSet;

use byway_proto::agent::{Delivery, Event};
use byway_sim::overlay::SendSchedule;
use byway_sim::{Freeze, Link, Loss, Span};
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at, ms, secs, share};

/// Four flows with standby relays; a relay stops at 6 s.
fn with_standby(service: Service, dies: usize) -> (OverlayWorld, Run) {
    let (mut world, mut run) = Plan::pairs(4, service).with_standby_relays().losing_in_turn().build();
    Run::schedule(&mut world, at(6_000), move |run, world| world.stop(run.relays[dies]));
    run.finish(&mut world);
    (world, run)
}

/// Path changes of senders: time and index of the path.
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
fn when_a_relay_dies_that_a_controllers_grants_name_the_standbys_grants_count() {
    for relay in [0, 1] {
        let mut plan = Plan::pairs(2, Service::Forwarding).with_standby_relays();
        plan.has_controller = true;
        let (mut world, mut run) = plan.build();
        Run::schedule(&mut world, at(6_000), move |run, world| world.stop(run.relays[relay]));
        run.finish(&mut world);
        assert!(run.all_missing(at(5_900), at(6_600)) > 0, "relay {relay}: its death shows");
        assert_eq!(run.all_missing(at(6_600), Time::MAX), 0, "relay {relay}");
    }
}

#[test]
fn when_both_relays_of_a_path_die_forwarding_goes_on_through_the_standby_within_600_ms() {
    let (mut world, mut run) = Plan::pairs(4, Service::Forwarding).with_standby_relays().build();
    Run::schedule(&mut world, at(6_000), |run, world| {
        world.stop(run.relays[0]);
        world.stop(run.relays[1]);
    });
    run.finish(&mut world);
    assert_eq!(run.all_missing(at(6_600), Time::MAX), 0);
}

/// Four flows whose agents know two relays; one of these stops at 6 s. A fifth flow opens a second
/// later.
fn with_both_relays(service: Service, has_controller: bool, dies: usize) -> Run {
    let mut plan = Plan::pairs(5, service).with_both_relays().losing_in_turn();
    plan.has_controller = has_controller;
    plan.flows[4].begin = secs(7);
    plan.flows[4].length = secs(5);
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(6_000), move |run, world| world.stop(run.relays[dies]));
    run.finish(&mut world);
    run
}

#[test]
fn when_the_only_relay_near_either_end_dies_the_other_one_protects_within_600_ms() {
    for (service, relay, has_controller) in
        [Service::Forwarding, Service::Caching, Service::Coding].into_iter().flat_map(|service| {
            [(service, 0, false), (service, 1, false), (service, 0, true), (service, 1, true)]
        })
    {
        let run = with_both_relays(service, has_controller, relay);
        let context = format!("{service:?}, relay {relay}, controller {has_controller}");
        assert_eq!(run.all_missing(at(2_500), at(5_800)), 0, "{context}");
        assert!(run.all_missing(at(5_800), at(6_600)) > 0, "{context}: its death shows");
        let missing = |flow, from| run.missing(flow, from, at(11_700));
        assert_eq!((0..4).map(|flow| missing(flow, at(6_600)).len()).sum::<usize>(), 0, "{context}");
        assert_eq!(missing(4, at(7_600)), [], "{context}: of a flow opened since");
        let counts = run.delivery_counts(0, at(6_600), at(12_000));
        assert!(counts.keys().any(|delivery| *delivery != Delivery::Direct), "{context}: {counts:?}");
        let delivered: BTreeSet<_> = run.delivered.iter().map(|got| (got.flow, got.number)).collect();
        assert_eq!(delivered.len(), run.delivered.len(), "{context}: a packet arrived twice");
        let counts = run.delivery_counts(4, at(7_600), at(12_000));
        assert!(
            counts.keys().any(|delivery| *delivery != Delivery::Direct),
            "{context}, a new flow: {counts:?}"
        );
    }
}

/// A relay stops at 5 s and restarts later without state.
fn restarted(service: Service, relay: usize, after: Duration) -> Run {
    let (mut world, mut run) = Plan::pairs(4, service).losing_in_turn().build();
    Run::schedule(&mut world, at(5_000), move |run, world| world.stop(run.relays[relay]));
    Run::schedule(&mut world, at(5_000) + after, move |run, world| run.restart_relay(relay, world));
    run.finish(&mut world);
    run
}

#[test]
fn a_relay_that_restarts_with_nothing_in_its_memory_is_of_use_again_within_a_second_and_a_round_trip() {
    for service in [Service::Coding, Service::Caching, Service::Forwarding, Service::Both] {
        for relay in [0, 1] {
            for after in [ms(20), ms(300), ms(2_400)] {
                let run = restarted(service, relay, after);
                let context = format!("{service:?}, relay {relay}, back after {after}");
                let back = at(5_000) + after + secs(1) + ms(100);
                assert_eq!(run.all_missing(at(2_500), at(4_800)), 0, "{context}");
                assert!(run.all_missing(at(4_800), back) > 0, "{context}");
                assert_eq!(run.all_missing(back, at(11_700)), 0, "{context}");
                let counts = run.delivery_counts(0, back, at(12_000));
                let is_used = counts.keys().any(|delivery| *delivery != Delivery::Direct);
                assert!(is_used, "{context}: {counts:?}");
            }
        }
    }
}

#[test]
fn a_relay_that_knows_grants_only_takes_its_agents_back_after_a_restart() {
    for relay in [0, 1] {
        let mut plan = Plan::pairs(4, Service::Caching).losing_in_turn();
        plan.has_controller = true;
        let (mut world, mut run) = plan.build();
        Run::schedule(&mut world, at(5_000), move |run, world| world.stop(run.relays[relay]));
        Run::schedule(&mut world, at(5_300), move |run, world| run.restart_relay(relay, world));
        run.finish(&mut world);
        assert_eq!(run.all_missing(at(2_500), at(4_800)), 0, "relay {relay}");
        assert_eq!(run.all_missing(at(6_600), at(11_700)), 0, "relay {relay}");
    }
}

#[test]
fn a_flow_returns_to_its_first_path_once_that_has_worked_for_a_while() {
    for service in [Service::Forwarding, Service::Caching, Service::Coding] {
        for relay in [0, 1] {
            let plan = Plan::pairs(4, service).with_standby_relays().losing_in_turn();
            let (mut world, mut run) = plan.each_flow(|flow| flow.length = secs(16)).build();
            Run::schedule(&mut world, at(6_000), move |run, world| world.stop(run.relays[relay]));
            Run::schedule(&mut world, at(8_000), move |run, world| run.restart_relay(relay, world));
            run.finish(&mut world);
            let paths: Vec<(u64, usize)> = changes(&run)
                .into_iter()
                .map(|(time, path)| (time.saturating_since(at(6_000)).as_millis() / 1_000, path))
                .collect();
            assert_eq!(
                paths,
                [(0, 1), (0, 1), (0, 1), (0, 1), (5, 0), (5, 0), (5, 0), (5, 0)],
                "{service:?}"
            );
            // In each coding group, one batch is never completed.
            let missing = run.all_missing(at(6_600), at(17_700));
            assert!(missing <= if service == Service::Coding { 2 } else { 0 }, "{service:?}: {missing}");
        }
    }
}

#[test]
fn a_way_between_relays_that_comes_and_goes_is_left_alone_until_it_settles() {
    for (one, other) in [(0, 1), (1, 0)] {
        let plan = Plan::pairs(2, Service::Forwarding).with_standby_relays();
        let (mut world, mut run) = plan.each_flow(|flow| flow.length = secs(24)).build();
        for second in 6..16 {
            // An outage in one direction only.
            let loss = if second % 2 == 0 { 1.0 } else { 0.0 };
            Run::schedule(&mut world, at(second * 1_000), move |run, world| {
                let link = Link { loss: vec![Loss::Independent(share(loss))], ..run.plan.between.clone() };
                world.connect(run.relays[one], run.relays[other], link);
            });
        }
        run.finish(&mut world);
        let changes = changes(&run);
        let seconds: Vec<_> = changes
            .iter()
            .map(|(time, path)| (time.saturating_since(Time::START).as_millis() / 1_000, *path))
            .collect();
        assert_eq!(seconds.len(), 4, "{changes:?}");
        assert!(seconds[..2].iter().all(|change| *change == (6, 1)), "{changes:?}");
        assert!(
            seconds[2..].iter().all(|(second, path)| (15..20).contains(second) && *path == 0),
            "{changes:?}"
        );
        assert_eq!(run.all_missing(at(6_600), Time::MAX), 0);
    }
}

#[test]
fn a_relay_that_freezes_is_left_within_600_ms_and_what_it_held_is_delivered_once() {
    for relay in [0, 1] {
        let (mut world, mut run) = Plan::pairs(2, Service::Forwarding).with_standby_relays().build();
        Run::schedule(&mut world, at(6_000), move |run, world| {
            world.freeze(run.relays[relay], Freeze::Buffer);
        });
        Run::schedule(&mut world, at(7_000), move |run, world| world.resume(run.relays[relay]));
        run.finish(&mut world);
        assert_eq!(run.all_missing(at(6_600), Time::MAX), 0, "relay {relay}");
    }
}

#[test]
fn a_flow_without_another_path_goes_on_as_soon_as_its_relays_reach_each_other() {
    let late: Vec<usize> = (1..=8)
        .map(|seed| {
            let mut plan = Plan::pairs(2, Service::Forwarding);
            plan.seed = seed;
            (0..2).for_each(|flow| plan.add_outage(flow, at(4_900), secs(20)));
            let (mut world, mut run) = plan.build();
            Run::schedule(&mut world, at(5_000), |run, world| {
                let outage = Link { loss: vec![Loss::Independent(share(1.0))], ..run.plan.between.clone() };
                world.connect_both(run.relays[0], run.relays[1], &outage);
            });
            Run::schedule(&mut world, at(9_000), |run, world| {
                world.connect_both(run.relays[0], run.relays[1], &run.plan.between);
            });
            run.finish(&mut world);
            assert!(run.all_missing(at(5_000), at(9_000)) > 700);
            run.all_missing(at(9_000), Time::MAX)
        })
        .collect();
    assert!(late.iter().all(|late| *late == 0), "{late:?}");
}

#[test]
fn copies_are_not_wasted_on_a_relay_that_cannot_pass_them_on() {
    let (mut world, mut run) = Plan::pairs(2, Service::Caching).losing_in_turn().build();
    Run::schedule(&mut world, at(5_000), |run, world| world.stop(run.relays[1]));
    Run::schedule(&mut world, at(9_000), |run, world| run.restart_relay(1, world));
    run.finish(&mut world);
    for agent in [0, 2] {
        let counters = *world.host(run.agents[agent]).agent().counters();
        assert!((350..500).contains(&counters.copies_suppressed), "{counters:?}");
        assert_eq!(counters.copies + counters.copies_suppressed, 1_000, "{counters:?}");
    }
    assert_eq!(run.all_missing(at(10_100), at(11_700)), 0);
}

/// A flow whose link to its first relay loses a fifth from 4 s on.
fn over_lossy_access(plan: Plan) -> Run {
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(4_000), |run, world| {
        let (relay, access) = run.plan.agents[0].relays[0].clone();
        let link = Link { loss: vec![Loss::Independent(share(0.2))], ..access };
        world.connect(run.agents[0], run.relays[relay], link);
    });
    run.finish(&mut world);
    run
}

#[test]
fn packets_without_another_way_are_sent_however_many_are_lost() {
    let run = over_lossy_access(Plan::pairs(1, Service::Forwarding));
    let missing = run.all_missing(at(4_000), Time::MAX);
    // A copy that the relay misses is sent again: both are lost in one of 25 cases.
    assert!((1..80).contains(&missing), "{missing} of 800");
}

#[test]
fn packets_that_need_a_relay_take_the_one_that_loses_less() {
    let run = over_lossy_access(Plan::pairs(1, Service::Forwarding).with_standby_relays());
    let changes = changes(&run);
    assert!(changes[0].1 == 1 && changes[0].0 < at(6_000), "{changes:?}");
    assert_eq!(run.all_missing(at(6_000), at(9_000)), 0);
    // The flow tried the relays again after a pause, and left them again.
    assert!(changes.len() == 3 && changes[2].1 == 1 && changes[2].0 - changes[1].0 < ms(500), "{changes:?}");
}

#[test]
fn agents_that_only_relays_connect_change_keys_through_the_standby_when_a_relay_is_dead() {
    for relay in [0, 1] {
        let mut plan = only_relays(Plan::pairs(1, Service::Forwarding).with_standby_relays());
        plan.flows[0].sending = SendSchedule::Paced(ms(100));
        plan.flows[0].length = secs(250);
        let (mut world, mut run) = plan.build();
        Run::schedule(&mut world, at(60_000), move |run, world| world.stop(run.relays[relay]));
        run.finish(&mut world);
        // Without the next epoch, no packet could be sealed after three minutes.
        assert_eq!(run.all_missing(at(60_600), Time::MAX), 0, "relay {relay}");
    }
}

/// Only relays connect the agents.
fn only_relays(mut plan: Plan) -> Plan {
    plan.agents.iter_mut().for_each(|agent| agent.is_known = false);
    for flow in &mut plan.flows {
        flow.direct.outages.push(Span::new(at(0), secs(1_000)));
        flow.back.outages.push(Span::new(at(0), secs(1_000)));
    }
    plan
}

/// A flow without packets from 4 to 20 s; its receiver's relay restarts when the receiver has sent
/// no requests for a while.
fn with_idle_receiver(mut plan: Plan) -> (OverlayWorld, Run) {
    for flow in &mut plan.flows {
        flow.length = secs(22);
        flow.pauses.push(Span::new(at(4_000), secs(16)));
    }
    let (mut world, mut run) = plan.losing_in_turn().build();
    Run::schedule(&mut world, at(17_000), |run, world| run.restart_relay(1, world));
    run.finish(&mut world);
    (world, run)
}

#[test]
fn an_idle_receiver_learns_of_its_relays_restart_as_soon_as_something_is_sent_to_it() {
    for service in [Service::Forwarding, Service::Caching, Service::Coding] {
        let (_, run) = with_idle_receiver(Plan::pairs(2, service));
        let is_shown = run.all_missing(at(20_000), at(20_500)) > 0;
        assert!(is_shown || service != Service::Forwarding, "the restart shows");
        assert_eq!(run.all_missing(at(20_500), at(23_700)), 0, "{service:?}");
    }
}

#[test]
fn an_idle_receiver_whose_relay_restarted_is_reached_through_the_standby_at_once() {
    let plan = only_relays(Plan::pairs(2, Service::Forwarding).with_standby_relays());
    let (_, run) = with_idle_receiver(plan);
    assert_eq!(run.all_missing(at(2_000), Time::MAX), 0);
}

#[test]
fn an_agent_that_was_away_for_five_minutes_is_served_as_before() {
    for agent in [0, 1] {
        let away = Span::new(at(10_000), secs(300));
        let mut plan = Plan::pairs(2, Service::Caching).each_flow(|flow| {
            flow.length = secs(330);
            flow.direct.loss = vec![Loss::Independent(share(0.02))];
        });
        plan.agents[agent].relays[0].1.outages.push(away);
        let (world, run) = plan.run();
        let fate = &run.fates(&world)[0];
        assert!(fate.missing > 400, "nothing is repaired meanwhile: {fate:?}");
        assert_eq!(run.missing(0, at(312_500), at(331_000)).len(), 0, "agent {agent}: {fate:?}");
        assert!(run.delivery_counts(0, at(312_500), at(331_000))[&Delivery::Cached] > 20);
        assert!(run.fates(&world)[1].missing < 5);
    }
}
