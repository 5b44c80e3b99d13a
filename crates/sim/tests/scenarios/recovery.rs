//! Tests of recovery: each kind of repair alone restores losses, in any pattern.

use byway_proto::agent::Delivery;
use byway_sim::overlay::SendSchedule;
use byway_sim::{GilbertElliott, Jitter, Link, Loss, Span};
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::support::{FlowSummary, Plan, Run, at, ms, secs, share};

/// Coding across flows only: no flow has repair packets of its own.
fn cross_stream(pairs: usize) -> Plan {
    Plan::pairs(pairs, Service::Coding).each_flow(|flow| flow.settings.rates.in_stream = None)
}

/// Coding within each flow only.
fn in_stream(pairs: usize) -> Plan {
    Plan::pairs(pairs, Service::Coding).each_flow(|flow| flow.settings.rates.batch = None)
}

/// Returns the longest time from the expected arrival of a direct copy to its repair.
fn slowest_repair(run: &Run, flow: usize) -> Duration {
    let lateness =
        run.delivered.iter().filter(|got| got.flow == flow && got.delivery.is_repair()).map(|got| {
            let due = run.plan.sends_at(flow, got.number) + run.plan.flows[flow].direct.delay;
            got.at.saturating_since(due)
        });
    lateness.max().expect("something was repaired")
}

fn assert_all_repaired(fate: &FlowSummary, lost: u64) {
    assert_eq!((fate.lost, fate.repaired, fate.missing), (lost, lost, 0), "{fate:?}");
}

#[test]
fn in_stream_repair_packets_alone_bring_back_single_losses() {
    let mut plan = in_stream(2);
    for nth in 0..20 {
        plan.lose(0, 20 + nth * 40 + nth % 5, 1);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_all_repaired(&fate, 20);
    assert_eq!(fate.by(Delivery::InStream), 20, "{fate:?}");
    assert!(slowest_repair(&run, 0) < ms(120), "{}", slowest_repair(&run, 0));
}

#[test]
fn in_stream_repair_packets_are_of_no_use_against_bursts() {
    let mut plan = in_stream(2);
    plan.lose(0, 100, 10);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    // Except for the first and the last packet, which may be the only missing ones of their blocks.
    assert!(fate.lost == 10 && fate.repaired <= 2, "{fate:?}");
}

#[test]
fn other_receivers_alone_bring_back_single_losses() {
    let mut plan = cross_stream(8);
    for nth in 0..20 {
        plan.lose(usize::try_from(nth % 8).unwrap(), 20 + nth * 40, 1);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_all_repaired(&fate, 20);
    assert_eq!(fate.by(Delivery::Cooperative), 20, "{fate:?}");
    assert!(slowest_repair(&run, 0) < ms(120), "{}", slowest_repair(&run, 0));
}

#[test]
fn other_receivers_bring_back_bursts_of_any_length() {
    let mut plan = cross_stream(8);
    for length in 2..=14 {
        plan.lose(usize::try_from(length % 8).unwrap(), length * 60, length);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_all_repaired(&fate, (2..=14).sum());
    assert_eq!(fate.by(Delivery::Cooperative), (2..=14).sum::<u64>());
}

#[test]
fn an_open_ended_request_brings_back_outages_of_seconds() {
    for seconds in 1..=3 {
        let mut plan = cross_stream(8);
        plan.add_outage(0, at(5_000), secs(seconds));
        let (world, run) = plan.run();
        let fate = &run.fates(&world)[0];
        assert!(fate.lost >= 100 * seconds - 1, "{fate:?}");
        assert!(fate.repaired * 100 >= fate.lost * 98, "{seconds} s: {fate:?}, {:?}", run.egress(1, &world));
        // Only an open-ended NACK can request the middle of an outage: no later packet shows that
        // it is missing.
        assert!(run.statistics(0, &world).open_ended_nacks > 0);
    }
}

#[test]
fn the_cache_brings_back_single_losses_bursts_and_outages() {
    let mut plan = Plan::pairs(2, Service::Caching);
    plan.lose(0, 50, 1);
    for length in 2..=14 {
        plan.lose(1, length * 60, length);
    }
    plan.add_outage(0, at(5_000), secs(2));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost >= 1 + (2..=14).sum::<u64>() + 199, "{fate:?}");
    assert!(fate.repaired + 4 >= fate.lost, "{fate:?}");
    assert_eq!(fate.by(Delivery::Cached), fate.lost - fate.missing, "{fate:?}");
}

#[test]
fn the_second_copy_of_the_service_both_bridges_an_outage() {
    let mut plan = Plan::pairs(1, Service::Both);
    plan.add_outage(0, at(5_000), secs(3));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost >= 299, "{fate:?}");
    assert_eq!((fate.repaired, fate.missing), (fate.lost, 0), "{fate:?}");
}

#[test]
fn losses_in_two_flows_at_once_come_back() {
    let mut plan = cross_stream(8);
    for nth in 0..10 {
        plan.lose(0, 40 + nth * 80, 5);
        plan.lose(5, 40 + nth * 80, 5);
    }
    let (world, run) = plan.run();
    assert_all_repaired(&run.fate(&world), 100);
}

#[test]
fn two_outages_at_once_come_back() {
    let mut plan = cross_stream(8);
    plan.add_outage(2, at(5_000), secs(1));
    plan.add_outage(6, at(5_000), secs(1));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost >= 199 && fate.repaired * 100 >= fate.lost * 95, "{fate:?}");
}

#[test]
fn two_flows_to_one_receiver_that_lose_together_come_back() {
    let mut plan = cross_stream(8);
    plan.flows[1].to = plan.flows[0].to;
    for nth in 0..10 {
        plan.lose(0, 40 + nth * 80, 6);
        plan.lose(1, 40 + nth * 80, 6);
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_all_repaired(&fate, 120);
    assert_eq!(fate.by(Delivery::Cooperative), 120);
}

#[test]
fn video_senders_that_send_frames_get_their_losses_back() {
    let plan = Plan::pairs(8, Service::Coding).each_flow(|flow| {
        flow.sending = SendSchedule::Frames { interval: ms(33), packets_max: 6 };
        flow.datagram_bytes = 900;
        flow.settings.rate = byway_units::Rate::from_megabits_per_second(2);
        flow.direct.loss = vec![Loss::Independent(share(0.01))];
    });
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost > 60, "{fate:?}");
    assert!(fate.repaired * 100 >= fate.lost * 90, "{fate:?}");
}

#[test]
fn bursty_losses_on_all_paths_come_back_even_if_the_overlay_loses_packets_too() {
    let plan = Plan::pairs(8, Service::Coding).each_flow(|flow| {
        let bursts = GilbertElliott::bursts(share(0.01), 3.0, ms(10)).expect("bursts");
        flow.direct.loss = vec![Loss::GilbertElliott(bursts)];
    });
    let mut plan = plan;
    plan.between.loss = vec![Loss::Independent(share(0.002))];
    for agent in &mut plan.agents {
        agent.relays[0].1.loss = vec![Loss::Independent(share(0.002))];
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost > 60, "{fate:?}");
    assert!(fate.repaired * 100 >= fate.lost * 93, "{fate:?} {:?}", run.egress(1, &world));
}

/// Number of lost packets of flow 0 in the tests of cooperative recovery.
const LOST: u64 = 50;

fn with_losses(mut plan: Plan) -> Plan {
    for nth in 0..LOST / 5 {
        plan.lose(0, 40 + nth * 80, 5);
    }
    plan
}

#[test]
fn a_straggler_is_not_waited_for() {
    let mut plan = with_losses(cross_stream(8));
    plan.agents[15].relays[0].1.delay = ms(200);
    let (world, run) = plan.run();
    assert_all_repaired(&run.fate(&world), LOST);
    assert!(slowest_repair(&run, 0) < ms(150), "{}", slowest_repair(&run, 0));
    assert!(run.egress(1, &world).answers_unsolicited > 0, "the straggler's answers come, too late");
}

#[test]
fn a_cooperating_receiver_that_died_is_done_without() {
    let (mut world, mut run) = with_losses(cross_stream(8)).build();
    Run::schedule(&mut world, at(2_100), |run, world| world.stop(run.agents[9]));
    run.finish(&mut world);
    let fate = &run.fates(&world)[0];
    assert_eq!((fate.lost, fate.repaired), (LOST, LOST), "{fate:?}");
}

#[test]
fn where_receivers_gave_what_they_consented_to_the_relay_near_the_sender_is_asked() {
    let mut plan = cross_stream(8);
    for flow in 1..8 {
        plan.flows[flow].settings.consent =
            byway_wire::messages::Consent { burst_percent: 0, average_per_mille: 0, seconds: 30 };
    }
    plan.lose(0, 100, 5);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired), (5, 5), "{fate:?}");
    assert_eq!(fate.by.get(&Delivery::Cached), Some(&5), "{fate:?}");
    assert_eq!(run.egress(1, &world).fetched, 5);
    assert_eq!((0..8).map(|flow| run.statistics(flow, &world).lent).sum::<u64>(), 0);
    assert!(run.egress(1, &world).requests_beyond_consent > 0);
}

/// A relay path so long that requests arrive before the repair packets that answer them.
fn slow_overlay() -> Plan {
    let mut plan = cross_stream(8).each_flow(|flow| flow.settings.latency_budget = ms(500));
    plan.between = Link { delay: ms(150), ..Link::default() };
    plan
}

#[test]
fn a_request_that_comes_before_its_batch_is_answered_when_the_batch_comes() {
    let mut plan = slow_overlay();
    plan.lose(0, 100, 1);
    plan.lose(0, 200, 9);
    let (world, run) = plan.run();
    assert_all_repaired(&run.fate(&world), 10);
    assert_eq!(run.egress(1, &world).cooperative, 10, "{:?}", run.egress(1, &world));
}

#[test]
fn a_timer_that_was_right_is_confirmed_before_its_packets_are_repaired() {
    let mut plan = slow_overlay();
    plan.add_outage(0, at(5_000), secs(1));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost >= 99 && fate.repaired * 100 >= fate.lost * 90, "{fate:?} {:?}", run.egress(1, &world));
    assert!(run.egress(1, &world).confirms > 0);
}

#[test]
fn a_timer_that_was_wrong_starts_no_round() {
    let mut plan = slow_overlay();
    plan.flows[0].pauses = Span::repeated(at(4_000), ms(600), ms(1_500), 4);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.missing), (0, 0));
    assert!(run.statistics(0, &world).open_ended_nacks >= 4, "the pauses look like outages");
    let egress = run.egress(1, &world);
    assert_eq!((egress.decode_attempts, egress.requests, egress.cooperative), (0, 0, 0), "{egress:?}");
}

#[test]
fn a_timer_that_was_wrong_costs_little_if_the_overlay_is_faster_than_the_direct_path() {
    let mut plan = cross_stream(8);
    plan.between = Link { delay: ms(15), ..Link::default() };
    plan.flows[0].pauses = Span::repeated(at(4_000), ms(600), ms(1_500), 4);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.missing), (0, 0));
    assert!(run.statistics(0, &world).open_ended_nacks >= 4);
    let egress = run.egress(1, &world);
    assert!(egress.cooperative <= 20, "each pause ends with a few packets sent twice at most: {egress:?}");
}

#[test]
fn jitter_that_reorders_is_no_loss() {
    let plan = cross_stream(8).each_flow(|flow| {
        flow.direct.jitter = Jitter { max: ms(12), may_reorder: true };
    });
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.missing), (0, 0));
    let egress = run.egress(1, &world);
    assert!(egress.packets_nacked < 100, "of 8,000 packets: {egress:?}");
}

/// A flow's packets that were repaired in a span of time.
fn repaired_in(run: &Run, flow: usize, from: Time, until: Time) -> u64 {
    run.delivery_counts(flow, from, until)
        .iter()
        .filter(|(delivery, _)| delivery.is_repair())
        .map(|(_, count)| count)
        .sum()
}

#[test]
fn repair_goes_on_after_a_rest_of_the_flow() {
    let mut plan = cross_stream(8).each_flow(|flow| {
        flow.pauses = vec![Span::new(at(4_000), secs(12))];
        flow.length = secs(20);
    });
    // The outages are set by time: after the pause, sequence numbers are lower than the plan says.
    plan.flows[0].direct.outages.push(Span::new(at(3_000), ms(35)));
    plan.flows[0].direct.outages.push(Span::new(at(18_000), ms(35)));
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost >= 6, "{fate:?}");
    assert_eq!((fate.repaired, fate.missing), (fate.lost, 0), "{fate:?}");
    assert!(repaired_in(&run, 0, at(2_900), at(4_000)) >= 3);
    assert!(repaired_in(&run, 0, at(17_900), at(19_000)) >= 3);
}

/// The first paths have an outage of half a minute, in both directions.
fn with_long_outage(plan: Plan, flows: usize) -> Plan {
    let mut plan = plan.each_flow(|flow| flow.length = secs(45));
    for flow in 0..flows {
        plan.flows[flow].direct.outages.push(Span::new(at(5_000), secs(30)));
        plan.flows[flow].back.outages.push(Span::new(at(5_000), secs(30)));
    }
    plan
}

#[test]
fn what_others_restore_is_not_delivered_by_relays() {
    for plan in [cross_stream(8), Plan::pairs(8, Service::Coding)] {
        let (world, run) = with_long_outage(plan, 1).run();
        let fate = run.fate(&world);
        assert!(fate.lost >= 2_990 && fate.repaired * 1_000 >= fate.lost * 990, "{fate:?}");
        let (ingress, egress) = (run.ingress(0, &world), run.egress(1, &world));
        assert_eq!((ingress.copies_relayed, egress.forwarded), (0, 0));
        assert!(run.reported(0, &world).cooperative >= 2_900, "the sender knows what became of its packets");
    }
}

#[test]
fn what_nobody_helps_to_restore_is_carried_and_then_delivered_by_relays() {
    let (world, run) = with_long_outage(Plan::pairs(1, Service::Coding), 1).run();
    let fate = run.fate(&world);
    assert!(
        run.ingress(0, &world).copies_relayed >= 900 && run.egress(1, &world).forwarded >= 1_900,
        "{fate:?}"
    );
    assert!(fate.missing <= 60, "{fate:?}");
}

#[test]
fn what_others_cannot_restore_is_carried_and_then_delivered_by_relays() {
    let (world, run) = with_long_outage(cross_stream(8), 3).run();
    let fates = run.fates(&world);
    let (ingress, egress) = (run.ingress(0, &world), run.egress(1, &world));
    assert!(ingress.copies_relayed >= 8_000, "{ingress:?}");
    assert!(egress.forwarded >= 5_000, "{egress:?}");
    for fate in &fates[..3] {
        let arrived = fate.repaired + fate.by(Delivery::Forwarded);
        assert!(fate.missing <= 30 && arrived >= 2_900, "{fate:?}");
    }
}

#[test]
fn what_others_restore_no_longer_is_carried_or_delivered_by_relays() {
    let mut plan = with_long_outage(cross_stream(8), 1);
    for flow in 1..8 {
        plan.flows[flow].settings.consent =
            byway_wire::messages::Consent { burst_percent: 100, average_per_mille: 0, seconds: 2 };
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    let egress = run.egress(1, &world);
    assert!(egress.cooperative >= 400 && egress.cached >= 400 && egress.forwarded >= 1_000, "{egress:?}");
    assert!(fate.missing <= 30, "{fate:?}");
}

/// Flows of `per_second` packets a second and a budget of 50 ms, over paths of 10 ms, that lose one
/// packet in ten. Their packets come to the relay in turn.
fn short_budget(plan: Plan, per_second: u64) -> Plan {
    let mut plan = plan.each_flow(|flow| {
        flow.sending = SendSchedule::Paced(secs(1) / per_second);
        flow.settings.latency_budget = ms(50);
        flow.direct.delay = ms(10);
        flow.back.delay = ms(10);
        flow.long_from = 2 * per_second;
    });
    plan.between.delay = ms(8);
    for agent in &mut plan.agents {
        agent.relays[0].1.delay = ms(2);
    }
    for number in (3 * per_second..9 * per_second).step_by(10) {
        plan.lose(0, number, 1);
    }
    plan
}

/// Returns the losses of flow 0, and those delivered within its budget.
fn in_time(plan: Plan) -> (u64, u64) {
    let (world, run) = plan.run();
    let fate = &run.fates(&world)[0];
    let budget = run.plan.flows[0].settings.latency_budget;
    let repairs = run.delivered.iter().filter(|got| got.flow == 0 && got.delivery.is_repair());
    let in_time = repairs
        .filter(|got| got.at <= run.sent[0][usize::try_from(got.number).expect("few packets")] + budget);
    (fate.lost, in_time.count() as u64)
}

#[test]
fn flows_of_few_packets_and_a_short_budget_are_repaired_in_time_with_others() {
    for per_second in [20, 30, 60] {
        let (lost, in_time) = in_time(short_budget(cross_stream(8), per_second));
        assert!(
            lost >= 6 * per_second / 10 && in_time * 100 >= lost * 95,
            "{per_second}: {in_time} of {lost}"
        );
    }
}

#[test]
fn flows_of_few_packets_and_a_short_budget_are_repaired_in_time_alone() {
    for per_second in [20, 30, 60] {
        let (lost, in_time) = in_time(short_budget(in_stream(1), per_second));
        assert!(
            lost >= 6 * per_second / 10 && in_time * 100 >= lost * 95,
            "{per_second}: {in_time} of {lost}"
        );
    }
}
