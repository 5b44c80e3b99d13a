//! Tests of epoch changes and damaged packets: none of them loses, alters or duplicates a delivery.

use byway_sim::overlay::SendSchedule;
use byway_sim::{Jitter, Link, Loss, LossReason, NodeId, Reordering, Span};
use byway_units::Duration;
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, at, ms, secs, share};

/// Two slow flows over six minutes, in which three epochs end.
fn long(service: Service) -> Plan {
    Plan::pairs(2, service).each_flow(|flow| {
        flow.sending = SendSchedule::Paced(ms(100));
        flow.length = secs(360);
        flow.datagram_bytes = 100;
    })
}

fn handshakes(world: &OverlayWorld, node: NodeId) -> u64 {
    match world.host(node).overlay() {
        byway_sim::overlay::OverlayHost::Agent { agent, .. } => agent.session_counters().handshakes,
        byway_sim::overlay::OverlayHost::Relay(relay) => relay.session_counters().handshakes,
    }
}

/// Asserts that no packet was rejected for its keys.
fn assert_nothing_refused(run: &Run, world: &OverlayWorld) {
    for flow in 0..run.plan.flows.len() {
        let statistics = run.statistics(flow, world);
        assert_eq!((statistics.forged, statistics.false_repairs), (0, 0), "{statistics:?}");
    }
    for agent in &run.agents {
        let agent = world.host(*agent).agent();
        assert_eq!(agent.counters().datagrams_unsendable, 0);
        let sessions = agent.session_counters();
        assert_eq!((sessions.forged, sessions.replayed, sessions.too_old), (0, 0, 0), "{sessions:?}");
    }
}

#[test]
fn keys_change_every_two_minutes_and_no_packet_is_lost_to_it() {
    for service in [Service::Internet, Service::Forwarding, Service::Coding] {
        let (world, run) = long(service).run();
        let fate = run.fate(&world);
        assert_eq!((fate.sent, fate.missing), (7_200, 0), "{service:?}: {fate:?}");
        assert_nothing_refused(&run, &world);
        for agent in &run.agents {
            let handshakes = handshakes(&world, *agent);
            assert!(handshakes >= 3, "{service:?}: {handshakes}");
        }
        for relay in run.relays.iter().filter(|_| service != Service::Internet) {
            assert!(handshakes(&world, *relay) >= 6, "{service:?}");
        }
    }
}

#[test]
fn keys_change_under_loss_and_no_packet_is_lost_to_it() {
    let plan = long(Service::Internet).each_flow(|flow| {
        flow.direct.loss = vec![Loss::Independent(share(0.1))];
        flow.back.loss = vec![Loss::Independent(share(0.1))];
    });
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost > 500, "{fate:?}");
    assert_eq!(fate.missing, fate.lost, "what the path did not lose is delivered");
    assert_nothing_refused(&run, &world);
    for agent in &run.agents {
        assert!(handshakes(&world, *agent) >= 3);
    }
}

#[test]
fn keys_change_on_a_slow_path_that_duplicates_and_reorders() {
    let plan = long(Service::Internet).each_flow(|flow| {
        for link in [&mut flow.direct, &mut flow.back] {
            link.delay = ms(400);
            link.duplication = share(0.5);
            link.jitter = Jitter { max: ms(700), may_reorder: true };
        }
    });
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing), (7_200, 0), "{fate:?}");
    for flow in 0..2 {
        let statistics = run.statistics(flow, &world);
        assert_eq!((statistics.forged, statistics.direct), (0, 3_600), "{statistics:?}");
    }
}

#[test]
fn a_rekeying_that_meets_a_dark_path_is_made_up_for_when_the_path_is_back() {
    // From 110 s on, neither the direct path nor the overlay delivers a packet for 20 s.
    let mut plan = long(Service::Coding);
    let outage = Span::new(at(110_000), secs(20));
    plan.between.outages.push(outage);
    for agent in &mut plan.agents {
        agent.relays[0].1.outages.push(outage);
    }
    for flow in &mut plan.flows {
        flow.direct.outages.push(outage);
        flow.back.outages.push(outage);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!(fate.lost, 400);
    for flow in 0..2 {
        assert_eq!(run.missing(flow, at(2_000), at(109_900)), []);
        assert_eq!(run.missing(flow, at(130_000), at(365_000)), [], "the session goes on under the old keys");
    }
    for node in run.agents.iter().chain(&run.relays) {
        assert!(handshakes(&world, *node) >= 3);
    }
    assert_nothing_refused(&run, &world);
}

#[test]
fn sessions_whose_keys_ended_in_the_dark_begin_anew() {
    // From 100 s on, no packet arrives for 100 s: the keys expire after 180 s.
    let mut plan = long(Service::Internet);
    for flow in &mut plan.flows {
        flow.direct.outages.push(Span::new(at(100_000), secs(100)));
        flow.back.outages.push(Span::new(at(100_000), secs(100)));
    }
    let (world, run) = plan.run();
    for flow in 0..2 {
        let sent_again = run.delivered.iter().filter(|got| got.flow == flow && got.at > at(204_000)).count();
        assert!(sent_again >= 1_570, "flow {flow}: {sent_again} in 158 s");
        assert!(run.statistics(flow, &world).forged == 0);
    }
}

/// Four forwarded or coded flows on paths with this damage to packets, in both directions.
fn damaged(service: Service, damage: impl Fn(&mut Link)) -> (OverlayWorld, Run) {
    let mut plan = Plan::pairs(4, service);
    damage(&mut plan.between);
    for agent in &mut plan.agents {
        damage(&mut agent.relays[0].1);
    }
    for flow in &mut plan.flows {
        damage(&mut flow.direct);
        damage(&mut flow.back);
    }
    plan.run()
}

#[test]
fn what_arrives_twice_is_delivered_once() {
    for service in [Service::Internet, Service::Forwarding, Service::Both] {
        let (world, run) = damaged(service, |link| link.duplication = share(0.5));
        let fate = run.fate(&world);
        assert_eq!((fate.sent, fate.missing), (4_000, 0), "{service:?}: {fate:?}");
        if service == Service::Internet {
            for flow in 0..4 {
                let plan = &run.plan.flows[flow];
                let arrivals =
                    world.observer().direct.iter().filter(|(_, known, _)| *known == flow).count() as u64;
                let statistics = run.statistics(flow, &world);
                assert_eq!((statistics.direct, statistics.duplicates), (1_000, arrivals - 1_000));
                assert!(world.counters(run.agents[plan.from], run.agents[plan.to]).unwrap().duplicated > 400);
            }
        }
    }
}

#[test]
fn what_arrives_a_hundred_packets_late_is_delivered_all_the_same() {
    for service in [Service::Internet, Service::Coding, Service::Forwarding] {
        let (world, run) = damaged(service, |link| {
            link.reordering = Reordering { probability: share(0.05), detour: secs(1) };
        });
        let fate = run.fate(&world);
        assert_eq!(fate.sent, 4_000);
        match service {
            // The overlay drops packets after the latency budget; the direct path delivers all
            // packets that arrive.
            Service::Forwarding => assert!(fate.missing < 800, "{fate:?}"),
            _ => assert_eq!(fate.missing, 0, "{service:?}: {fate:?}"),
        }
        for flow in 0..4 {
            let statistics = run.statistics(flow, &world);
            assert_eq!((statistics.forged, statistics.false_repairs), (0, 0), "{statistics:?}");
        }
    }
}

#[test]
fn every_damaged_packet_is_counted_where_it_was_refused() {
    let (world, run) = damaged(Service::Internet, |link| link.corruption = share(0.05));
    let fate = run.fate(&world);
    assert!(fate.missing > 100 && fate.missing < 300, "{fate:?}");
    for flow in 0..4 {
        let (sender, receiver) = (run.agents[2 * flow], run.agents[2 * flow + 1]);
        let sessions = world.host(receiver).agent().session_counters();
        let agent = world.host(receiver).agent().counters();
        let statistics = run.statistics(flow, &world);
        // A flipped bit may cause an unknown kind, index or flow, a wrong sequence number, or a
        // wrong tag.
        let refused = sessions.malformed
            + sessions.unknown_kinds
            + sessions.unknown_index
            + sessions.forged
            + sessions.initiations_refused
            + agent.flows_unknown
            + statistics.forged
            + statistics.duplicates;
        let direct = world.counters(sender, receiver).unwrap();
        let relay = world.counters(run.relays[1], receiver).unwrap();
        // Each of the two sessions also sends one packet that must be rejected.
        let damaged = direct.corrupted + relay.corrupted;
        assert!(
            (damaged..=damaged + 2).contains(&refused),
            "{damaged} {sessions:?} {agent:?} {statistics:?}"
        );
        assert_eq!(direct.lost[LossReason::Random], 0);
    }
}

#[test]
fn damage_on_all_paths_alters_nothing_and_is_repaired() {
    let (world, run) = damaged(Service::Caching, |link| {
        link.corruption = share(0.02);
        link.duplication = share(0.2);
        link.jitter = Jitter { max: ms(3), may_reorder: true };
    });
    // Every delivery is checked for alteration and duplication.
    let fate = run.fate(&world);
    assert!(fate.sent - fate.by(byway_proto::agent::Delivery::Direct) > 40, "{fate:?}");
    assert!(fate.missing <= 8, "{fate:?}");
    let late = run
        .delivered
        .iter()
        .filter(|got| got.at > run.plan.sends_at(got.flow, got.number) + Duration::from_millis(300));
    assert_eq!(late.count(), 0);
}
