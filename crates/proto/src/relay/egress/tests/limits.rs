//! Limits of the egress half: each one is reached without harm to other flows.

use super::*;
use crate::limits::{
    BATCH_REPAIRS_MAX, BATCHES_MAX, BLOCK_REPAIRS_MAX, BLOCKS_MAX, CODED_BYTES_MAX, COVERED_PACKETS_MAX,
    DECODE_ATTEMPTS_MAX, EGRESS_FLOWS_MAX, FLOW_IDLE_TIMEOUT, MISSING_PACKETS_MAX, NACK_REACH,
    OPEN_ENDED_BACKLOG_MAX, REPAIRS_PER_PACKET_MAX,
};
use crate::relay::RelayBacklog;

#[test]
fn a_question_too_far_from_what_was_sent_is_refused() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 20_000), (a, 0)], 1);
    harness.nack(flow, 20_000 + NACK_REACH, 20_000 + NACK_REACH);
    harness.nack(flow, 20_000 - NACK_REACH, 20_000 - NACK_REACH);
    assert_eq!(harness.egress.counters.refused_range, 0);
    harness.nack(flow, 20_001 + NACK_REACH, 20_001 + NACK_REACH);
    harness.nack(flow, 19_999 - NACK_REACH, 19_999 - NACK_REACH);
    assert_eq!(harness.egress.counters.refused_range, 2);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn an_outage_brings_back_no_more_than_its_backlog() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.block(flow, 10_000, 5, 1);
    harness.nack_open_ended(flow, 0);
    assert_eq!(harness.egress.counters.packets_nacked, OPEN_ENDED_BACKLOG_MAX + 1);
}

#[test]
fn only_so_many_packets_of_a_flow_are_worked_on() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    (0..2_000).for_each(|sequence| harness.relay_copy(flow, sequence));
    harness.nack(flow, 0, 1_999);
    assert_eq!(harness.egress.counters.refused_capacity, 2_000 - MISSING_PACKETS_MAX as u64);
    assert_eq!(
        harness.drain_actions().len(),
        MISSING_PACKETS_MAX,
        "the recorded packets are repaired all the same"
    );
    harness.advance(221);
    harness.sweep();
    harness.nack(flow, 1_999, 1_999);
    assert_eq!(harness.drain_actions(), [cached(flow, 1_999)], "there is capacity again");
}

#[test]
fn numbers_of_which_nothing_is_known_wait_together_for_what_repairs_them() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    harness.nack(flow, 1, 2_000);
    assert_eq!((harness.egress.work.numbers, harness.egress.backlog().missing), (0, 2_000));
    harness.relay_copy(flow, 7);
    assert_eq!(harness.drain_actions(), [cached(flow, 7)]);
    harness.advance(221);
    harness.sweep();
    assert_eq!((harness.egress.counters.abandoned, harness.egress.backlog().missing), (1_999, 0));
    harness.relay_copy(flow, 8);
    assert_eq!(harness.drain_actions(), [], "late is lost");
}

#[test]
fn what_was_asked_for_within_a_round_trip_is_not_looked_at_again() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.egress.set_round_trip(flow, ms(40));
    (0..100).for_each(|sequence| harness.relay_copy(flow, sequence));
    harness.nack(flow, 0, 99);
    assert_eq!(harness.drain_actions().len(), 100);
    let work = harness.egress.work.numbers;
    harness.advance(39);
    harness.nack(flow, 10, 99);
    assert_eq!((harness.egress.work.numbers, harness.egress.counters.refused_early), (work, 90));
    harness.advance(1);
    harness.nack(flow, 10, 99);
    assert_eq!(harness.drain_actions().len(), 90, "the repairs may be lost");
}

#[test]
fn a_receiver_that_now_knows_is_heard_though_its_timer_ran_out_a_moment_ago() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.nack_by_timer(flow, 4, 40);
    harness.nack(flow, 4, 40);
    harness.batch(0, &[(flow, 4), (a, 9)], 1);
    assert_eq!(harness.drain_actions(), [requested(a, 9)], "without a confirm");
}

/// Egress half with a memory pool of this size, and the flows of two sessions.
fn crowded(bytes: u64, flows: usize) -> (EgressHarness, [Vec<FlowSlot>; 2]) {
    let mut harness = EgressHarness::new();
    harness.egress = Egress::new(Engine::fastest(), true, LOG, Bytes::new(bytes));
    let sessions = [1, 2].map(|session| {
        let holder = harness.egress.holder(session, TenantId::new(session));
        let number = |nth: usize| FlowId::new(u16::try_from(nth).expect("few"));
        let receiver = Receiver::Agent(AgentId::new(session));
        let flow = |nth| FlowKey::new(AgentId::new(9), receiver, number(nth));
        let keys: Vec<FlowKey> = (0..flows).map(flow).collect();
        let now = harness.now;
        keys.into_iter()
            .map(|key| harness.egress.register((key, holder), Service::Caching, RATE, CONSENT, now))
            .collect()
    });
    (harness, sessions)
}

#[test]
fn sparse_numbers_of_many_flows_take_no_more_than_the_share_of_their_session() {
    let pool = 4 << 20;
    let (mut harness, [greedy, modest]) = crowded(pool, 1_000);
    // Two sequence numbers this far apart need a ring with all between them.
    for flow in &greedy {
        harness.relay_copy(*flow, 0);
        harness.relay_copy(*flow, 1_024);
        harness.nack(*flow, 0, 2_047);
    }
    let used = harness.egress.flow_state_bytes().count();
    // Each flow has its first kibibyte beyond the share.
    let share = pool / 2 + 1_024 * greedy.len() as u64;
    assert!((pool / 3..=share).contains(&used), "{used}");
    harness.actions.clear();
    // Another session's flows get many packets repaired.
    for flow in &modest[..20] {
        (0..200).for_each(|sequence| harness.relay_copy(*flow, sequence));
        harness.nack(*flow, 0, 199);
        assert_eq!(harness.drain_actions().len(), 200);
    }
    assert!(harness.egress.flow_state_bytes().count() <= pool);
    for flow in greedy.iter().chain(&modest) {
        harness.egress.unregister(*flow);
    }
    assert_eq!(harness.egress.flow_state_bytes(), Bytes::ZERO);
}

#[test]
fn a_flow_beyond_the_share_of_its_session_keeps_its_newest_packets() {
    let (mut harness, [greedy, _]) = crowded(1 << 20, 1_000);
    for flow in &greedy {
        (0..100).for_each(|sequence| harness.relay_copy(*flow, sequence));
    }
    let last = *greedy.last().expect("there are some");
    harness.nack(last, 92, 99);
    assert_eq!(harness.drain_actions(), (92..100).map(|sequence| cached(last, sequence)).collect::<Vec<_>>());
}

#[test]
fn flows_at_rest_hold_no_memory_of_the_pool() {
    let (mut harness, [flows, _]) = crowded(4 << 20, 10);
    for flow in &flows {
        harness.relay_copy(*flow, 0);
        harness.relay_copy(*flow, 256);
        harness.nack(*flow, 1, 100);
    }
    assert!(harness.egress.flow_state_bytes().count() > 1_000);
    harness.now += FLOW_IDLE_TIMEOUT;
    harness.sweep();
    harness.advance(20);
    harness.sweep();
    assert_eq!(harness.egress.flow_state_bytes(), Bytes::ZERO);
}

#[test]
fn nacks_of_a_flow_that_relays_do_not_carry_leave_nothing_behind() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Internet);
    harness.nack(flow, 0, 1_000);
    harness.nack_open_ended(flow, 0);
    assert_eq!((harness.egress.counters.refused_service, harness.egress.work.units()), (2, 0));
    assert_eq!((harness.egress.backlog(), harness.egress.deadline()), (RelayBacklog::default(), None));
}

#[test]
fn only_so_many_decode_attempts_are_active() {
    let mut harness = EgressHarness::new();
    let [a] = harness.flows();
    let losers: Vec<FlowSlot> =
        (0..=DECODE_ATTEMPTS_MAX.div_ceil(1_000)).map(|_| harness.flow(Service::Coding)).collect();
    let packets = losers.iter().flat_map(|flow| (0..1_000).map(move |sequence| (*flow, sequence)));
    for (number, (flow, sequence)) in (0_u32..).zip(packets) {
        harness.batch(number, &[(flow, sequence), (a, 0)], 1);
    }
    for flow in &losers {
        harness.nack(*flow, 0, 999);
    }
    assert_eq!(harness.egress.attempts.active_count(), DECODE_ATTEMPTS_MAX);
    let attempts = losers.len() as u64 * 1_000;
    assert_eq!(harness.egress.counters.decode_attempts_refused, attempts - DECODE_ATTEMPTS_MAX as u64);
    harness.advance(250);
    harness.sweep();
    assert_eq!(harness.egress.attempts.active_count(), 0);
    assert_eq!(harness.egress.counters.decode_attempts_expired, DECODE_ATTEMPTS_MAX as u64);
}

#[test]
fn the_oldest_batches_give_way() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    let newest = BATCHES_MAX as u64 + 10;
    for number in 0..newest {
        harness.batch(u32::try_from(number).expect("small"), &[(flow, number), (a, number)], 1);
    }
    let batches = &harness.egress.batches[0];
    assert!(batches.get(9).is_none() && batches.get(10).is_some());
    harness.nack(flow, newest - 1, newest - 1);
    assert_eq!(harness.drain_actions(), [requested(a, newest - 1)]);
    // The batch of the first packet is no longer stored.
    harness.nack(flow, 10, 10);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn batches_of_the_largest_size_crowd_out_their_elders() {
    let mut harness = EgressHarness::new();
    let flows: [FlowSlot; 32] = harness.flows();
    for number in 0..BATCHES_MAX as u64 {
        let packets = flows.map(|flow| (flow, number));
        harness.batch(u32::try_from(number).expect("small"), &packets, 1);
    }
    harness.nack(flows[0], 0, 0);
    harness.nack(flows[1], 7_000, 7_000);
    assert_eq!(harness.drain_actions().len(), 31, "only the younger batch's entries are stored");
}

#[test]
fn the_numbers_of_batches_may_begin_anew() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    for number in 0..20_u32 {
        let sequence = u64::from(number);
        harness.batch((u32::MAX - 9).wrapping_add(number), &[(flow, sequence), (a, sequence)], 1);
    }
    harness.nack(flow, 9, 10);
    assert_eq!(harness.drain_actions(), [requested(a, 9), requested(a, 10)]);
}

#[test]
fn the_batches_of_a_relay_that_restarted_do_not_mix_with_those_before() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(20_000, &[(flow, 3), (a, 1)], 1);
    harness.batch(0, &[(flow, 4), (a, 2)], 1);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [], "too old to be true");
    harness.egress.reset_ingress(0);
    harness.batch(0, &[(flow, 5), (b, 2)], 1);
    harness.nack(flow, 3, 3);
    harness.nack(flow, 5, 5);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
}

#[test]
fn the_oldest_blocks_give_way() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    for block in 0..=BLOCKS_MAX as u64 {
        harness.block(flow, block * 5, 5, 1);
    }
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), []);
    harness.nack(flow, 5, 5);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 5 }]);
}

#[test]
fn surplus_and_repeated_repair_packets_are_counted() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    let coded = code(&[(flow, 0), (a, 0)], BATCH_REPAIRS_MAX + 1);
    for index in 0..=BATCH_REPAIRS_MAX {
        harness.repair(0, &coded, index);
    }
    harness.repair(0, &coded, 0);
    assert_eq!(
        (harness.egress.counters.repairs_stored, harness.egress.counters.repairs_surplus),
        (BATCH_REPAIRS_MAX as u64, 2)
    );
    // A repair packet of another batch with the same number is surplus.
    harness.repair(0, &code(&[(flow, 0), (a, 0), (a, 1)], 1), 0);
    assert_eq!(harness.egress.counters.repairs_surplus, 3);
}

#[test]
fn a_block_keeps_so_many_repair_packets() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.block(flow, 0, 8, BLOCK_REPAIRS_MAX + 1);
    harness.nack(flow, 0, 7);
    assert_eq!(harness.drain_actions(), [], "eight losses are beyond repair");
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.block(flow, 0, 8, BLOCK_REPAIRS_MAX + 1);
    harness.nack(flow, 0, 3);
    assert_eq!(
        harness.drain_actions(),
        [TestAction::SendInStreamRepair { flow, first: 0 }; BLOCK_REPAIRS_MAX]
    );
}

#[test]
fn a_multiple_of_the_flows_rate_is_not_repaired() {
    let mut harness = EgressHarness::new();
    // 8 kbit/s are a thousand bytes a second; the burst is two thousand.
    let flow = harness.flow_of(Service::Caching, Rate::from_kilobits_per_second(8), CONSENT);
    for sequence in 0..100 {
        harness.relay_copy(flow, sequence);
    }
    harness.nack(flow, 0, 99);
    let repaired = harness.drain_actions();
    let bytes: usize = (0..).zip(&repaired).map(|(sequence, _)| packet(flow, sequence).len()).sum();
    assert!((1_900..=2_000).contains(&bytes), "{bytes}");
    assert_eq!(harness.egress.counters.refused_budget, 100 - repaired.len() as u64);
}

#[test]
fn in_stream_repair_packets_are_paid_for_from_the_same_budget() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow_of(Service::Coding, Rate::from_kilobits_per_second(8), CONSENT);
    for block in 0..60 {
        harness.block(flow, block * 5, 5, 1);
        harness.nack(flow, block * 5, block * 5);
        harness.sweep();
    }
    let sent = harness.drain_actions().len();
    assert!((20..30).contains(&sent), "{sent} of up to 99 bytes are two thousand");
    assert_eq!(harness.egress.counters.in_stream, sent as u64);
    assert_eq!(harness.egress.counters.refused_budget, 60 - sent as u64);
}

#[test]
fn a_full_log_gives_up_its_oldest_packets_and_repairs_the_others() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    // Each packet uses 64 or 128 bytes of the log.
    let sent = LOG.count() / 96;
    for sequence in 0..sent {
        harness.relay_copy(flow, sequence);
    }
    assert!(harness.egress.log.memory_bytes().count() <= LOG.count());
    harness.nack(flow, sent - 1, sent - 1);
    assert_eq!(harness.drain_actions(), [cached(flow, sent - 1)]);
    assert!(harness.egress.log.counters().evicted_early > 1_000);
}

#[test]
fn a_flow_at_rest_gives_its_memory_back() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 0)], 1);
    harness.now += FLOW_IDLE_TIMEOUT;
    harness.batch(1, &[(flow, 1)], 1);
    harness.sweep();
    let is_active =
        |harness: &EgressHarness, flow| harness.egress.flow(flow).is_some_and(|flow| flow.active().is_some());
    assert!(is_active(&harness, flow) && !is_active(&harness, a));
    harness.now += FLOW_IDLE_TIMEOUT;
    harness.sweep();
    assert!(!is_active(&harness, flow));
    assert_eq!(harness.egress.deadline(), None, "no timer is left");
}

#[test]
fn a_flow_that_rested_may_ask_before_its_next_repair_packet_comes() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 100_000), (a, 0)], 1);
    harness.now += FLOW_IDLE_TIMEOUT;
    harness.now += FLOW_IDLE_TIMEOUT;
    harness.sweep();
    harness.nack(flow, 100_001, 100_001);
    harness.batch(1, &[(flow, 100_001), (a, 1)], 1);
    assert_eq!(harness.drain_actions(), [requested(a, 1)]);
}

#[test]
fn a_question_that_has_run_out_does_not_make_a_packet_another_one() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    harness.relay_copy(flow, 1);
    harness.repair_lifetime = Duration::ZERO;
    for _ in 0..20 {
        harness.nack(flow, 0, 0);
        harness.advance(21);
        harness.sweep();
    }
    assert_eq!(harness.drain_actions(), [cached(flow, 0); REPAIRS_PER_PACKET_MAX as usize]);
    assert_eq!(harness.egress.counters.refused_repeated, 20 - u64::from(REPAIRS_PER_PACKET_MAX));
    harness.nack(flow, 1, 1);
    assert_eq!(harness.drain_actions(), [cached(flow, 1)], "other packets are repaired all the same");
}

#[test]
fn what_is_longer_than_any_packet_is_not_kept() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    let cached_flow = harness.flow(Service::Caching);
    let long = alloc::vec![7; CODED_BYTES_MAX + 1];
    let ecn = Ecn::NotCapable;
    let copy = RelayedCopy {
        sequence_low: 0,
        coded: &long,
        ecn,
        is_forwarded: false,
        is_resent: false,
        source: None,
    };
    harness.egress.on_relayed_copy(&[cached_flow], &copy, harness.now, &mut harness.actions);
    let copy = RelayedCopy {
        sequence_low: 1,
        coded: &long[1..],
        ecn,
        is_forwarded: false,
        is_resent: false,
        source: None,
    };
    harness.egress.on_relayed_copy(&[cached_flow], &copy, harness.now, &mut harness.actions);
    harness.send_nack(cached_flow, &[(0, 0)], None, true);
    assert_eq!(harness.drain_actions(), []);
    harness.send_nack(cached_flow, &[(1, 1)], None, true);
    assert_eq!(harness.actions.drain(..).count(), 1, "the longest packet is stored");
    let mut coded = code(&[(flow, 0), (a, 0)], 1);
    let good = core::mem::replace(&mut coded.repairs[0].1, long.clone());
    harness.repair(0, &coded, 0);
    harness.nack(flow, 0, 0);
    assert_eq!((harness.drain_actions(), harness.egress.counters.too_long), (Vec::new(), 2));
    coded.repairs[0].1 = good;
    harness.repair(0, &coded, 0);
    assert_eq!(harness.drain_actions(), [requested(a, 0)]);
    harness.answer_with(a, 0, &long);
    assert_eq!((harness.drain_actions(), harness.egress.counters.too_long), (Vec::new(), 3));
    harness.answer(a, 0);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 0)]);
    harness.block_of(flow, 5, &long);
    assert_eq!((harness.egress.counters.repairs_stored, harness.egress.counters.too_long), (1, 4));
}

#[test]
fn only_so_many_packets_of_a_flow_are_known() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    for sequence in 0..=COVERED_PACKETS_MAX as u64 {
        harness.relay_copy(flow, sequence);
    }
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions(), []);
    harness.nack(flow, 1, 1);
    assert_eq!(harness.drain_actions(), [cached(flow, 1)]);
}

#[test]
fn only_so_many_flows_are_registered() {
    let mut harness = EgressHarness::new();
    let first = harness.flow(Service::Caching);
    let key = harness.egress.key(first).expect("it is registered");
    for _ in 1..EGRESS_FLOWS_MAX {
        assert!(harness.egress.has_capacity());
        harness.egress.register((key, Holder::default()), Service::Caching, RATE, CONSENT, harness.now);
    }
    assert!(!harness.egress.has_capacity());
    harness.relay_copy(first, 0);
    harness.nack(first, 0, 0);
    assert_eq!(harness.drain_actions(), [cached(first, 0)]);
    harness.egress.unregister(first);
    assert!(harness.egress.has_capacity());
}
