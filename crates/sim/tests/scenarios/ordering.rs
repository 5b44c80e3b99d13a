//! Tests of congestion-controlled traffic: it stays in order, or its losses show in time; ECN marks
//! reach the application.

use byway_proto::agent::{Delivery, Duplication, Traffic};
use byway_sim::Loss;
use byway_units::Duration;
use byway_wire::{BlockShape, Ecn, Service};

use crate::support::{Plan, Run, ms, share};

/// A quarter of the round trip of the direct path.
const QUARTER: Duration = Duration::from_millis(25);

/// Two flows of TCP, with copies of all packets.
fn ordered(service: Service) -> Plan {
    Plan::pairs(2, service).each_flow(|flow| {
        flow.settings.traffic = Traffic::CongestionControlled;
        flow.settings.duplication = Duplication::All;
    })
}

/// Loses single packets of flow 0, far enough apart to be independent of each other.
fn with_single_losses(mut plan: Plan) -> Plan {
    for nth in 0..20 {
        plan.lose(0, 20 + nth * 40 + nth % 5, 1);
    }
    plan
}

/// Returns the number of a flow's packets delivered after later ones.
fn out_of_order(run: &Run, flow: usize) -> usize {
    let numbers: Vec<u64> =
        run.delivered.iter().filter(|got| got.flow == flow).map(|got| got.number).collect();
    numbers.windows(2).filter(|pair| pair[0] > pair[1]).count()
}

/// Returns the longest time for which a packet that arrived on the direct path was not delivered.
fn longest_reordering_delay(run: &Run, flow: usize) -> Duration {
    let waits =
        run.delivered.iter().filter(|got| got.flow == flow && got.delivery == Delivery::Direct).map(|got| {
            let arrived =
                run.sent[flow][usize::try_from(got.number).expect("few")] + run.plan.flows[flow].direct.delay;
            got.at.saturating_since(arrived)
        });
    waits.max().expect("something was delivered")
}

#[test]
fn the_order_is_kept_under_single_losses_and_all_of_them_are_repaired() {
    let (world, run) = with_single_losses(ordered(Service::Caching)).run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.missing), (20, 20, 0), "{fate:?}");
    assert_eq!((out_of_order(&run, 0), out_of_order(&run, 1)), (0, 0));
    assert!(run.statistics(0, &world).reordering_buffered >= 20, "{:?}", run.statistics(0, &world));
    assert!(longest_reordering_delay(&run, 0) <= QUARTER + ms(1), "{}", longest_reordering_delay(&run, 0));
    assert_eq!(
        (longest_reordering_delay(&run, 1), run.statistics(1, &world).reordering_buffered),
        (Duration::ZERO, 0)
    );
}

#[test]
fn the_order_is_kept_where_some_repairs_come_in_time_and_some_do_not() {
    let plan = ordered(Service::Coding).each_flow(|flow| {
        // Packets lost early in a block of five would wait too long for its end.
        flow.settings.rates.in_stream = BlockShape::new(5, 1);
        flow.settings.rates.batch = None;
    });
    let (world, run) = with_single_losses(plan).run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, out_of_order(&run, 0)), (20, 0), "{fate:?}");
    let passed = run.statistics(0, &world).gaps_passed;
    assert!(fate.repaired >= 5 && passed >= 3, "{passed} gaps passed, {fate:?}");
    assert!(longest_reordering_delay(&run, 0) <= QUARTER + ms(1), "{}", longest_reordering_delay(&run, 0));
}

#[test]
fn blocks_of_two_repair_in_time_whatever_they_lose() {
    let plan = ordered(Service::Coding).each_flow(|flow| {
        flow.settings.rates.in_stream = BlockShape::new(2, 1);
        flow.settings.rates.batch = None;
    });
    let (world, run) = with_single_losses(plan).run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, out_of_order(&run, 0)), (20, 20, 0), "{fate:?}");
}

#[test]
fn other_flows_are_delivered_as_their_packets_come() {
    let plan = with_single_losses(ordered(Service::Caching));
    let (world, run) = plan.each_flow(|flow| flow.settings.traffic = Traffic::Datagrams).run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, out_of_order(&run, 0)), (20, 20, 20), "{fate:?}");
    assert_eq!(
        (longest_reordering_delay(&run, 0), run.statistics(0, &world).reordering_buffered),
        (Duration::ZERO, 0)
    );
}

#[test]
fn a_gap_that_is_never_repaired_is_passed_after_a_quarter_of_the_round_trip() {
    let mut plan = with_single_losses(ordered(Service::Caching));
    // The copies are lost too, at each request.
    plan.agents[0].relays[0].1.outages = plan.flows[0].direct.outages.clone();
    for outage in &mut plan.agents[0].relays[0].1.outages {
        outage.until += ms(60);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost == 20 && fate.repaired == 0, "{fate:?}");
    assert_eq!(out_of_order(&run, 0), 0);
    let wait = longest_reordering_delay(&run, 0);
    assert!(wait > QUARTER - ms(1) && wait <= QUARTER + ms(1), "{wait}");
    assert_eq!(run.statistics(0, &world).gaps_passed, 20);
}

#[test]
fn where_the_relay_is_too_far_away_losses_are_shown_at_once() {
    let mut plan = with_single_losses(ordered(Service::Caching));
    plan.agents[1].relays[0].1.delay = ms(15);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired), (20, 0), "{fate:?}");
    assert_eq!((longest_reordering_delay(&run, 0), run.statistics(0, &world).nacks), (Duration::ZERO, 0));
}

#[test]
fn bulk_data_is_left_alone_and_what_the_application_marks_is_protected() {
    let plan = Plan::pairs(2, Service::Caching).each_flow(|flow| {
        flow.settings.traffic = Traffic::CongestionControlled;
        flow.marks_one_in = Some(10);
        flow.direct.loss = vec![Loss::Independent(share(0.05))];
    });
    let (world, run) = plan.run();
    let mut repaired = 0;
    for (flow, lost) in &world.observer().lost {
        let arrived = run.delivered.iter().any(|got| got.flow == *flow && got.number == *lost);
        assert!(!arrived || lost % 10 == 0, "{lost} was not copied");
        repaired += u64::from(arrived);
    }
    assert!(repaired >= 5, "{repaired}");
    let copies = world.host(run.agents[0]).agent().counters().copies;
    assert_eq!(copies, 100, "one in ten");
    // Except for a few whose next packets were lost too, no receiver requests packets that no node
    // has.
    let nacked = run.egress(1, &world).packets_nacked;
    assert!(nacked <= 3 * repaired, "{nacked} for {repaired}");
}

/// The ECN fields of a flow's delivered packets, without repetition.
fn ecn_fields(run: &Run, flow: usize) -> Vec<Ecn> {
    let mut fields: Vec<Ecn> =
        run.delivered.iter().filter(|got| got.flow == flow).map(|got| got.ecn).collect();
    fields.sort_unstable();
    fields.dedup();
    fields
}

#[test]
fn congestion_on_the_direct_path_is_told_to_whom_understands_it() {
    let mut plan = Plan::pairs(2, Service::Coding).each_flow(|flow| flow.direct.marks_congestion = true);
    plan.flows[0].ecn = Ecn::Capable0;
    let (world, run) = plan.run();
    assert_eq!(ecn_fields(&run, 0), [Ecn::CongestionExperienced]);
    assert_eq!(ecn_fields(&run, 1), [Ecn::NotCapable]);
    assert_eq!(run.fate(&world).missing, 0);
}

#[test]
fn congestion_on_the_overlay_is_told_where_the_overlay_is_the_way() {
    for (index, name) in ["sender", "between", "receiver", "nowhere"].into_iter().enumerate() {
        let mut plan = Plan::pairs(1, Service::Forwarding).each_flow(|flow| flow.ecn = Ecn::Capable0);
        match index {
            0 => plan.agents[0].relays[0].1.marks_congestion = true,
            1 => plan.between.marks_congestion = true,
            2 => plan.agents[1].relays[0].1.marks_congestion = true,
            _ => {}
        }
        let expected = if index == 3 { Ecn::Capable0 } else { Ecn::CongestionExperienced };
        for plan in [plan.clone(), plan.with_one_relay()] {
            if plan.relays == 1 && index == 1 {
                continue;
            }
            let (world, run) = plan.run();
            assert_eq!((ecn_fields(&run, 0), run.fate(&world).missing), (vec![expected], 0), "{name}");
        }
    }
}

#[test]
fn a_relay_that_duplicates_passes_marks_on() {
    let mut plan = Plan::pairs(1, Service::Coding).with_one_relay().each_flow(|flow| {
        flow.ecn = Ecn::Capable0;
        flow.settings.duplication = Duplication::ByRelay;
    });
    plan.agents[0].relays[0].1.marks_congestion = true;
    let (world, run) = plan.run();
    assert_eq!((ecn_fields(&run, 0), run.fate(&world).missing), (vec![Ecn::CongestionExperienced], 0));
}
