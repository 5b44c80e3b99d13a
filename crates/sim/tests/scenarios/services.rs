//! Tests of each service, with and without losses.

use byway_proto::agent::{Delivery, Duplication, REPAIR_TIME_BOUNDS_MS, RepairTimes};
use byway_sim::{Jitter, Link, Loss, Span};
use byway_units::Duration;
use byway_wire::{Microseconds, Service};

use crate::support::{Plan, at, ms, secs, share};

/// Four flows, each with occasional single losses.
fn lossy(service: Service) -> Plan {
    let mut plan = Plan::pairs(4, service);
    for flow in 0..4 {
        for nth in 0..15 {
            plan.lose(flow, 20 + nth * 60 + flow as u64 * 13, 1);
        }
    }
    plan
}

#[test]
fn the_internet_service_delivers_what_the_direct_path_does_and_costs_nothing() {
    let (world, run) = lossy(Service::Internet).run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.lost, fate.repaired, fate.missing), (4_000, 60, 0, 60));
    assert_eq!(fate.by(Delivery::Direct), 3_940);
    for agent in &run.agents {
        assert_eq!(world.host(*agent).agent().counters().copies, 0);
    }
}

#[test]
fn the_coding_service_repairs_from_repair_packets_alone() {
    let (world, run) = lossy(Service::Coding).run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.lost, fate.missing), (4_000, 60, 0), "{fate:?}");
    assert_eq!(fate.repaired, 60, "{fate:?}");
    assert_eq!(fate.by(Delivery::InStream) + fate.by(Delivery::Cooperative), 60, "{fate:?}");
    assert_eq!(run.ingress(0, &world).copies_relayed, 0);
}

#[test]
fn the_caching_service_repairs_from_the_cache_alone() {
    let (world, run) = lossy(Service::Caching).run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.missing), (60, 60, 0), "{fate:?}");
    assert_eq!(fate.by(Delivery::Cached), 60, "{fate:?}");
    assert_eq!(run.ingress(0, &world).cross_stream + run.ingress(0, &world).in_stream, 0);
}

#[test]
fn the_forwarding_service_needs_no_direct_path() {
    let mut plan = lossy(Service::Forwarding);
    for flow in 0..4 {
        plan.add_outage(flow, at(1_500), secs(20));
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.missing), (4_000, 0), "{fate:?}");
    assert_eq!(fate.by(Delivery::Forwarded), 4_000);
    assert_eq!(world.observer().direct, [], "nothing was sent on the direct path");
}

#[test]
fn with_both_services_the_first_copy_counts_and_the_second_fills_in() {
    let (world, run) = lossy(Service::Both).run();
    let fate = run.fate(&world);
    assert_eq!((fate.sent, fate.lost, fate.repaired, fate.missing), (4_000, 60, 60, 0), "{fate:?}");
    assert!(fate.by(Delivery::Forwarded) >= 60, "{fate:?}");
    // Here the relay path has about the delay of the direct path; a longer one delivers second.
    let mut far = lossy(Service::Both);
    far.between = Link { delay: ms(60), ..Link::default() };
    let (world, run) = far.run();
    let fate = run.fate(&world);
    assert_eq!((fate.by(Delivery::Direct), fate.by(Delivery::Forwarded)), (3_940, 60));
    let duplicates: u64 = (0..4).map(|flow| run.statistics(flow, &world).duplicates).sum();
    assert_eq!(duplicates, 3_940);
}

#[test]
fn one_relay_can_be_ingress_and_egress_for_every_service() {
    for service in [Service::Coding, Service::Caching, Service::Forwarding, Service::Both] {
        let (world, run) = lossy(service).with_one_relay().run();
        let fate = run.fate(&world);
        assert_eq!((fate.sent, fate.missing), (4_000, 0), "{service:?}: {fate:?}");
        let repair_count: u64 = match service {
            // A flow's first packets are fetched as copies, because there is no batch yet.
            Service::Coding => fate.repaired - fate.by(Delivery::Forwarded),
            Service::Caching => fate.by(Delivery::Cached),
            _ => fate.by(Delivery::Forwarded),
        };
        assert!(repair_count >= 60, "{service:?}: {fate:?}");
    }
}

#[test]
fn a_lone_flow_is_coded_with_itself_and_repeated() {
    let mut plan = Plan::pairs(1, Service::Coding);
    for nth in 0..15 {
        plan.lose(0, 20 + nth * 60, 1);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.missing), (15, 15, 0), "{fate:?}");
    assert!(fate.by(Delivery::InStream) > 0, "{fate:?}");
    assert!(run.ingress(0, &world).uncovered_budget + run.ingress(0, &world).uncovered_alone > 0);
}

#[test]
fn a_lone_flow_is_cached() {
    let mut plan = Plan::pairs(1, Service::Caching);
    plan.lose(0, 100, 7);
    plan.lose(0, 300, 1);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.by(Delivery::Cached)), (8, 8, 8), "{fate:?}");
}

#[test]
fn a_sender_with_a_narrow_uplink_makes_its_repair_packets_itself() {
    let mut plan = Plan::pairs(2, Service::Coding).each_flow(|flow| {
        flow.settings.duplication = Duplication::SenderFec;
        flow.settings.rates.batch = None;
    });
    (10..30).for_each(|nth| plan.lose(0, nth * 30, 1));
    // A timer closes the last block, and it restores one of its two packets.
    let pause = Span::new(plan.sends_at(0, 912), Duration::from_millis(500));
    plan.flows[0].pauses.push(pause);
    plan.lose(0, 911, 1);
    let (world, run) = plan.run();
    let fates = run.fates(&world);
    assert_eq!((fates[0].lost, fates[0].by(Delivery::InStream), fates[0].missing), (21, 21, 0), "{fates:?}");
    assert_eq!((fates[1].lost, fates[1].missing), (0, 0));
    for sender in [0, 2] {
        let counters = world.host(run.agents[sender]).agent().counters();
        assert_eq!((counters.copies, counters.sender_fec_suppressed), (0, 0));
        assert!(counters.sender_fec_repairs * 5 <= counters.source_packets + 10, "{counters:?}");
    }
    assert_eq!(run.ingress(0, &world).in_stream, 0);
    assert!(run.ingress(0, &world).sender_fec > 350);
}

#[test]
fn a_long_datagram_travels_in_two_pieces_and_is_repaired() {
    let plan = Plan::pairs(4, Service::Coding).each_flow(|flow| {
        flow.datagram_bytes = 1_500;
        flow.settings.rate = byway_units::Rate::from_megabits_per_second(2);
        flow.direct.loss = vec![Loss::Independent(share(0.01))];
    });
    let (world, run) = plan.run();
    let counters = run.deliveries.counters();
    let lost = world.observer().lost.len();
    assert!(lost >= 40, "{lost} of 8,000 pieces");
    assert_eq!(counters.sent, 4_000);
    assert!(counters.missing() <= 2, "{counters:?} of {lost} lost pieces");
    assert!(run.delivered.iter().any(|got| got.delivery != Delivery::Direct));
    let latest = run.delivered.iter().map(|got| got.at).max().expect("something was delivered");
    assert!(latest < run.end() + Duration::from_millis(300));
}

#[test]
fn paths_that_carry_less_than_an_ethernet_lose_no_datagram_for_that() {
    let mut plan = Plan::pairs(4, Service::Coding).each_flow(|flow| {
        flow.datagram_bytes = 1_354;
        flow.settings.rate = byway_units::Rate::from_megabits_per_second(2);
        flow.direct.ip_bytes_max = Some(byway_units::Bytes::new(1_420));
    });
    plan.lose(0, 600, 3);
    let (world, run) = plan.run();
    let counters = run.deliveries.counters();
    assert_eq!((counters.sent, counters.missing()), (4_000, 0));
    let other_ways: Vec<usize> =
        run.delivered.iter().filter(|got| got.delivery != Delivery::Direct).map(|got| got.flow).collect();
    assert!(!other_ways.is_empty() && other_ways.iter().all(|flow| *flow == 0), "{other_ways:?}");
    for flow in 0..4 {
        let source_packets = world.host(run.agents[2 * flow]).agent().counters().source_packets;
        assert_eq!(source_packets, 2_000, "each datagram is longer than a fragment on such a path");
    }
}

#[test]
fn a_sender_is_told_the_losses_that_repairs_hide() {
    let (world, run) = lossy(Service::Coding).run();
    for flow in 0..4 {
        let sender = world.host(run.agents[2 * flow]).agent();
        let report = sender.report(run.sending[flow].expect("the flow was opened")).expect("a report came");
        assert_eq!((report.lost, report.bursts, report.longest_burst), (15, 15, 1), "{report:?}");
        assert_eq!(report.repaired.in_stream + report.repaired.cooperative, 15, "{report:?}");
    }
}

#[test]
fn a_sender_is_told_how_late_packets_are() {
    let mut plan = Plan::pairs(2, Service::Caching);
    // One packet in ten is restored from the cache, which takes 20 to 30 ms longer.
    for nth in 0..100 {
        plan.lose(0, 10 * nth, 1);
    }
    plan.flows[1].direct.jitter = Jitter { max: ms(8), may_reorder: true };
    let (world, run) = plan.run();
    let delays = |flow: usize| {
        let sender = world.host(run.agents[2 * flow]).agent();
        let report = sender.report(run.sending[flow].expect("the flow was opened")).expect("a report came");
        let delay = report.delay;
        [delay.p50, delay.p95, delay.p99].map(Microseconds::duration)
    };
    let [p50, p95, p99] = delays(0);
    assert!(p50 < ms(1) && p95 > ms(15) && p99 >= p95 && p99 < ms(40), "{p50} {p95} {p99}");
    let [p50, p95, p99] = delays(1);
    assert!(p50 > ms(3) && p50 < ms(5) && p95 > ms(7) && p99 >= p95 && p99 < ms(9), "{p50} {p95} {p99}");
}

#[test]
fn where_the_relay_sends_in_the_senders_stead_the_receiver_gets_it_whether_there_are_one_or_two() {
    for service in [Service::Caching, Service::Coding] {
        for plan in [Plan::pairs(2, service).with_one_relay(), Plan::pairs(2, service).with_both_relays()] {
            let (world, run) = plan.each_flow(|flow| flow.settings.duplication = Duplication::ByRelay).run();
            let (fate, ingress) = (run.fate(&world), run.ingress(0, &world));
            let context = format!("{service:?}: {fate:?}");
            // The first few packets may arrive before the ingress relay knows the receiver, and are
            // repaired.
            assert!(fate.missing == 0 && fate.by(Delivery::Forwarded) > 1_980, "{context}");
            assert_eq!(ingress.duplicated, fate.by(Delivery::Forwarded), "{context}");
        }
    }
}

#[test]
fn repair_times_and_bytes_are_counted_where_packets_are() {
    for service in [Service::Caching, Service::Coding] {
        let (world, run) = Plan::pairs(4, service).losing_in_turn().run();
        for flow in 0..4 {
            let statistics = run.statistics(flow, &world);
            let times = statistics.repair_times.all();
            let repaired =
                [statistics.in_stream, statistics.cooperative, statistics.cached, statistics.resent];
            assert_eq!(times.map(RepairTimes::count), repaired);
            assert!(repaired.iter().sum::<u64>() > 40, "{statistics:?}");
            let slowest = times.map(|times| times.counts()[REPAIR_TIME_BOUNDS_MS.len()]);
            assert_eq!(slowest, [0; 4], "none is above the latency budget");
            // A loss is detected three packets later, and the relay is a round trip of 17 ms away.
            let sum = times.iter().map(|times| times.sum()).fold(Duration::ZERO, |sum, next| sum + next);
            let mean = sum / repaired.iter().sum::<u64>();
            assert!(mean > ms(17) && mean <= statistics.repair_times.lateness_max, "{mean:?}");
        }
        let (ingress, egress) = (run.ingress(0, &world), run.egress(1, &world));
        let coded = 300 + byway_wire::CODED_OVERHEAD as u64;
        assert_eq!(ingress.copies_bytes, ingress.copies * coded);
        assert_eq!(ingress.copies_relayed_bytes, ingress.copies_relayed * coded);
        // Repair packets are as long as their source packets.
        assert_eq!(ingress.cross_stream_bytes, ingress.cross_stream * coded);
        assert_eq!(ingress.in_stream_bytes, ingress.in_stream * coded);
        assert_eq!(egress.cached_bytes, egress.cached * coded);
        assert_eq!(egress.cooperative_bytes, egress.cooperative * coded);
        assert_eq!(egress.in_stream_bytes, egress.in_stream * coded);
        assert!(egress.cached + egress.cooperative + egress.in_stream > 160);
    }
}

#[test]
fn bytes_that_are_delivered_by_relays_are_counted() {
    let (world, run) = Plan::pairs(2, Service::Forwarding).run();
    let egress = run.egress(1, &world);
    let coded = 300 + byway_wire::CODED_OVERHEAD as u64;
    assert_eq!((egress.forwarded, egress.forwarded_bytes), (2_000, 2_000 * coded));
    let plan = Plan::pairs(2, Service::Caching).with_one_relay();
    let (world, run) = plan.each_flow(|flow| flow.settings.duplication = Duplication::ByRelay).run();
    let ingress = run.ingress(0, &world);
    assert_eq!((ingress.duplicated, ingress.duplicated_bytes), (2_000, 2_000 * coded));
}
