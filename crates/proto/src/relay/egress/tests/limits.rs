//! Every limit is reached, and nothing breaks.

use super::*;
use crate::limits::{
    BATCH_REPAIRS_MAX, BATCHES_MAX, BLOCK_REPAIRS_MAX, BLOCKS_MAX, CODED_BYTES_MAX, COVERED_PACKETS_MAX,
    EGRESS_FLOWS_MAX, FLOW_REST, MISSING_PACKETS_MAX, NACK_REACH, OPEN_END_BACKLOG_MAX,
    REPAIRS_PER_PACKET_MAX, ROUNDS_MAX,
};
use crate::relay::RelayBacklog;

#[test]
fn a_question_too_far_from_what_was_sent_is_refused() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 20_000), (a, 0)], 1);
    talk.nack(flow, 20_000 + NACK_REACH, 20_000 + NACK_REACH);
    talk.nack(flow, 20_000 - NACK_REACH, 20_000 - NACK_REACH);
    assert_eq!(talk.egress.counters.refused_range, 0);
    talk.nack(flow, 20_001 + NACK_REACH, 20_001 + NACK_REACH);
    talk.nack(flow, 19_999 - NACK_REACH, 19_999 - NACK_REACH);
    assert_eq!(talk.egress.counters.refused_range, 2);
    assert_eq!(talk.said(), []);
}

#[test]
fn an_open_end_brings_back_no_more_than_its_backlog() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.block(flow, 10_000, 5, 1);
    talk.open(flow, 0);
    assert_eq!(talk.egress.counters.asked, OPEN_END_BACKLOG_MAX + 1);
}

#[test]
fn only_so_many_packets_of_a_flow_are_worked_on() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    (0..2_000).for_each(|sequence| talk.carried(flow, sequence));
    talk.nack(flow, 0, 1_999);
    assert_eq!(talk.egress.counters.refused_room, 2_000 - MISSING_PACKETS_MAX as u64);
    assert_eq!(talk.said().len(), MISSING_PACKETS_MAX, "what was taken is repaired all the same");
    talk.wait(221);
    talk.sweep();
    talk.nack(flow, 1_999, 1_999);
    assert_eq!(talk.said(), [cached(flow, 1_999)], "there is room again");
}

#[test]
fn numbers_of_which_nothing_is_known_wait_together_for_what_repairs_them() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    talk.nack(flow, 1, 2_000);
    assert_eq!((talk.egress.work.numbers, talk.egress.backlog().missing), (0, 2_000));
    talk.carried(flow, 7);
    assert_eq!(talk.said(), [cached(flow, 7)]);
    talk.wait(221);
    talk.sweep();
    assert_eq!((talk.egress.counters.given_up, talk.egress.backlog().missing), (1_999, 0));
    talk.carried(flow, 8);
    assert_eq!(talk.said(), [], "late is lost");
}

#[test]
fn what_was_asked_for_within_a_round_trip_is_not_looked_at_again() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.egress.set_round_trip(flow, ms(40));
    (0..100).for_each(|sequence| talk.carried(flow, sequence));
    talk.nack(flow, 0, 99);
    assert_eq!(talk.said().len(), 100);
    let work = talk.egress.work.numbers;
    talk.wait(39);
    talk.nack(flow, 10, 99);
    assert_eq!((talk.egress.work.numbers, talk.egress.counters.refused_early), (work, 90));
    talk.wait(1);
    talk.nack(flow, 10, 99);
    assert_eq!(talk.said().len(), 90, "the repairs may be lost");
}

#[test]
fn a_receiver_that_now_knows_is_heard_though_its_timer_ran_out_a_moment_ago() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.nack_by_timer(flow, 4, 40);
    talk.nack(flow, 4, 40);
    talk.batch(0, &[(flow, 4), (a, 9)], 1);
    assert_eq!(talk.said(), [asked(a, 9)], "and not asked whether it still misses the packet");
}

/// A pool of so many bytes, and flows of two sessions.
fn crowded(bytes: u64, flows: usize) -> (Talk, [Vec<FlowSlot>; 2]) {
    let mut talk = Talk::new();
    talk.egress = Egress::new(Engine::fastest(), true, LOG, Bytes::new(bytes));
    let sessions = [1, 2].map(|session| {
        let holder = talk.egress.holder(session, TenantId::new(session));
        let number = |nth: usize| FlowId::new(u16::try_from(nth).expect("few"));
        let receiver = Receiver::Agent(AgentId::new(session));
        let flow = |nth| FlowKey::new(AgentId::new(9), receiver, number(nth));
        let keys: Vec<FlowKey> = (0..flows).map(flow).collect();
        let now = talk.now;
        keys.into_iter()
            .map(|key| talk.egress.register((key, holder), Service::Caching, RATE, CONSENT, now))
            .collect()
    });
    (talk, sessions)
}

#[test]
fn sparse_numbers_of_many_flows_take_no_more_than_the_share_of_their_session() {
    let pool = 4 << 20;
    let (mut talk, [greedy, modest]) = crowded(pool, 1_000);
    // Two numbers so far apart take a table of all between them.
    for flow in &greedy {
        talk.carried(*flow, 0);
        talk.carried(*flow, 1_024);
        talk.nack(*flow, 0, 2_047);
    }
    let held = talk.egress.flows_held().count();
    // Beside its share, each flow has its first kibibyte.
    let share = pool / 2 + 1_024 * greedy.len() as u64;
    assert!((pool / 3..=share).contains(&held), "{held}");
    talk.actions.clear();
    // Others have their packets repaired, of which they have many.
    for flow in &modest[..20] {
        (0..200).for_each(|sequence| talk.carried(*flow, sequence));
        talk.nack(*flow, 0, 199);
        assert_eq!(talk.said().len(), 200);
    }
    assert!(talk.egress.flows_held().count() <= pool);
    for flow in greedy.iter().chain(&modest) {
        talk.egress.unregister(*flow);
    }
    assert_eq!(talk.egress.flows_held(), Bytes::ZERO);
}

#[test]
fn a_flow_beyond_the_share_of_its_session_keeps_its_newest_packets() {
    let (mut talk, [greedy, _]) = crowded(1 << 20, 1_000);
    for flow in &greedy {
        (0..100).for_each(|sequence| talk.carried(*flow, sequence));
    }
    let last = *greedy.last().expect("there are some");
    talk.nack(last, 92, 99);
    assert_eq!(talk.said(), (92..100).map(|sequence| cached(last, sequence)).collect::<Vec<_>>());
}

#[test]
fn flows_at_rest_hold_no_memory_of_the_pool() {
    let (mut talk, [flows, _]) = crowded(4 << 20, 10);
    for flow in &flows {
        talk.carried(*flow, 0);
        talk.carried(*flow, 256);
        talk.nack(*flow, 1, 100);
    }
    assert!(talk.egress.flows_held().count() > 1_000);
    talk.now += FLOW_REST;
    talk.sweep();
    talk.wait(20);
    talk.sweep();
    assert_eq!(talk.egress.flows_held(), Bytes::ZERO);
}

#[test]
fn nacks_of_a_flow_that_relays_do_not_carry_leave_nothing_behind() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Internet);
    talk.nack(flow, 0, 1_000);
    talk.open(flow, 0);
    assert_eq!((talk.egress.counters.refused_service, talk.egress.work.units()), (2, 0));
    assert_eq!((talk.egress.backlog(), talk.egress.deadline()), (RelayBacklog::default(), None));
}

#[test]
fn only_so_many_rounds_are_under_way() {
    let mut talk = Talk::new();
    let [a] = talk.flows();
    let losers: Vec<FlowSlot> =
        (0..=ROUNDS_MAX.div_ceil(1_000)).map(|_| talk.flow(Service::Coding)).collect();
    let packets = losers.iter().flat_map(|flow| (0..1_000).map(move |sequence| (*flow, sequence)));
    for (number, (flow, sequence)) in (0_u32..).zip(packets) {
        talk.batch(number, &[(flow, sequence), (a, 0)], 1);
    }
    for flow in &losers {
        talk.nack(*flow, 0, 999);
    }
    assert_eq!(talk.egress.rounds.under_way(), ROUNDS_MAX);
    let asked = losers.len() as u64 * 1_000;
    assert_eq!(talk.egress.counters.rounds_refused, asked - ROUNDS_MAX as u64);
    talk.wait(250);
    talk.sweep();
    assert_eq!(talk.egress.rounds.under_way(), 0);
    assert_eq!(talk.egress.counters.rounds_expired, ROUNDS_MAX as u64);
}

#[test]
fn the_oldest_batches_give_way() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    let newest = BATCHES_MAX as u64 + 10;
    for number in 0..newest {
        talk.batch(u32::try_from(number).expect("small"), &[(flow, number), (a, number)], 1);
    }
    let batches = &talk.egress.batches[0];
    assert!(batches.get(9).is_none() && batches.get(10).is_some());
    talk.nack(flow, newest - 1, newest - 1);
    assert_eq!(talk.said(), [asked(a, newest - 1)]);
    // Nothing tells any more what covers the first packet.
    talk.nack(flow, 10, 10);
    assert_eq!(talk.said(), []);
}

#[test]
fn batches_of_the_largest_size_crowd_out_their_elders() {
    let mut talk = Talk::new();
    let flows: [FlowSlot; 32] = talk.flows();
    for number in 0..BATCHES_MAX as u64 {
        let packets = flows.map(|flow| (flow, number));
        talk.batch(u32::try_from(number).expect("small"), &packets, 1);
    }
    talk.nack(flows[0], 0, 0);
    talk.nack(flows[1], 7_000, 7_000);
    assert_eq!(talk.said().len(), 31, "of the younger one only it is known what it covers");
}

#[test]
fn the_numbers_of_batches_may_begin_anew() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    for number in 0..20_u32 {
        let sequence = u64::from(number);
        talk.batch((u32::MAX - 9).wrapping_add(number), &[(flow, sequence), (a, sequence)], 1);
    }
    talk.nack(flow, 9, 10);
    assert_eq!(talk.said(), [asked(a, 9), asked(a, 10)]);
}

#[test]
fn the_batches_of_a_relay_that_restarted_do_not_mix_with_those_before() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(20_000, &[(flow, 3), (a, 1)], 1);
    talk.batch(0, &[(flow, 4), (a, 2)], 1);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [], "too old to be true");
    talk.egress.forget_ingress(0);
    talk.batch(0, &[(flow, 5), (b, 2)], 1);
    talk.nack(flow, 3, 3);
    talk.nack(flow, 5, 5);
    assert_eq!(talk.said(), [asked(b, 2)]);
}

#[test]
fn the_oldest_blocks_give_way() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    for block in 0..=BLOCKS_MAX as u64 {
        talk.block(flow, block * 5, 5, 1);
    }
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), []);
    talk.nack(flow, 5, 5);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 5 }]);
}

#[test]
fn surplus_and_repeated_repair_packets_are_counted() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    let coded = code(&[(flow, 0), (a, 0)], BATCH_REPAIRS_MAX + 1);
    for index in 0..=BATCH_REPAIRS_MAX {
        talk.repair(0, &coded, index);
    }
    talk.repair(0, &coded, 0);
    assert_eq!(
        (talk.egress.counters.repairs_kept, talk.egress.counters.repairs_surplus),
        (BATCH_REPAIRS_MAX as u64, 2)
    );
    // Of another batch by the same number, whatever it is.
    talk.repair(0, &code(&[(flow, 0), (a, 0), (a, 1)], 1), 0);
    assert_eq!(talk.egress.counters.repairs_surplus, 3);
}

#[test]
fn a_block_keeps_so_many_repair_packets() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.block(flow, 0, 8, BLOCK_REPAIRS_MAX + 1);
    talk.nack(flow, 0, 7);
    assert_eq!(talk.said(), [], "eight losses are beyond repair");
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.block(flow, 0, 8, BLOCK_REPAIRS_MAX + 1);
    talk.nack(flow, 0, 3);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 0 }; BLOCK_REPAIRS_MAX]);
}

#[test]
fn a_multiple_of_the_flows_rate_is_not_repaired() {
    let mut talk = Talk::new();
    // 8 kbit/s: a thousand bytes a second, and two thousand at once.
    let flow = talk.flow_of(Service::Caching, Rate::from_kilobits_per_second(8), CONSENT);
    for sequence in 0..100 {
        talk.carried(flow, sequence);
    }
    talk.nack(flow, 0, 99);
    let repaired = talk.said();
    let bytes: usize = (0..).zip(&repaired).map(|(sequence, _)| packet(flow, sequence).len()).sum();
    assert!((1_900..=2_000).contains(&bytes), "{bytes}");
    assert_eq!(talk.egress.counters.refused_budget, 100 - repaired.len() as u64);
}

#[test]
fn own_repair_packets_are_paid_for_from_the_same_budget() {
    let mut talk = Talk::new();
    let flow = talk.flow_of(Service::Coding, Rate::from_kilobits_per_second(8), CONSENT);
    for block in 0..60 {
        talk.block(flow, block * 5, 5, 1);
        talk.nack(flow, block * 5, block * 5);
        talk.sweep();
    }
    let sent = talk.said().len();
    assert!((20..30).contains(&sent), "{sent} of up to 99 bytes are two thousand");
    assert_eq!(talk.egress.counters.in_stream, sent as u64);
    assert_eq!(talk.egress.counters.refused_budget, 60 - sent as u64);
}

#[test]
fn a_full_log_gives_up_its_oldest_packets_and_repairs_the_others() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    // Each takes 64 or 128 bytes of the log.
    let sent = LOG.count() / 96;
    for sequence in 0..sent {
        talk.carried(flow, sequence);
    }
    assert!(talk.egress.log.held().count() <= LOG.count());
    talk.nack(flow, sent - 1, sent - 1);
    assert_eq!(talk.said(), [cached(flow, sent - 1)]);
    assert!(talk.egress.log.counters().evicted_early > 1_000);
}

#[test]
fn a_flow_at_rest_gives_its_memory_back() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 0)], 1);
    talk.now += FLOW_REST;
    talk.batch(1, &[(flow, 1)], 1);
    talk.sweep();
    let is_active = |talk: &Talk, flow| talk.egress.flow(flow).is_some_and(|flow| flow.active().is_some());
    assert!(is_active(&talk, flow) && !is_active(&talk, a));
    talk.now += FLOW_REST;
    talk.sweep();
    assert!(!is_active(&talk, flow));
    assert_eq!(talk.egress.deadline(), None, "and nothing is left to be looked for");
}

#[test]
fn a_flow_that_rested_may_ask_before_its_next_repair_packet_comes() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 100_000), (a, 0)], 1);
    talk.now += FLOW_REST;
    talk.now += FLOW_REST;
    talk.sweep();
    talk.nack(flow, 100_001, 100_001);
    talk.batch(1, &[(flow, 100_001), (a, 1)], 1);
    assert_eq!(talk.said(), [asked(a, 1)]);
}

#[test]
fn a_question_that_has_run_out_does_not_make_a_packet_another_one() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    talk.carried(flow, 1);
    talk.patience = Duration::ZERO;
    for _ in 0..20 {
        talk.nack(flow, 0, 0);
        talk.wait(21);
        talk.sweep();
    }
    assert_eq!(talk.said(), [cached(flow, 0); REPAIRS_PER_PACKET_MAX as usize]);
    assert_eq!(talk.egress.counters.refused_repeated, 20 - u64::from(REPAIRS_PER_PACKET_MAX));
    talk.nack(flow, 1, 1);
    assert_eq!(talk.said(), [cached(flow, 1)], "others are repaired all the same");
}

#[test]
fn what_is_longer_than_any_packet_is_not_kept() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    let cached_flow = talk.flow(Service::Caching);
    let long = alloc::vec![7; CODED_BYTES_MAX + 1];
    let ecn = Ecn::NotCapable;
    let carried = CarriedCopy { sequence_low: 0, coded: &long, ecn, is_forwarded: false, feed: None };
    talk.egress.carried(&[cached_flow], &carried, talk.now, &mut talk.actions);
    let carried = CarriedCopy { sequence_low: 1, coded: &long[1..], ecn, is_forwarded: false, feed: None };
    talk.egress.carried(&[cached_flow], &carried, talk.now, &mut talk.actions);
    talk.ask(cached_flow, &[(0, 0)], None, true);
    assert_eq!(talk.said(), []);
    talk.ask(cached_flow, &[(1, 1)], None, true);
    assert_eq!(talk.actions.drain(..).count(), 1, "the longest is kept");
    let mut coded = code(&[(flow, 0), (a, 0)], 1);
    let good = core::mem::replace(&mut coded.repairs[0].1, long.clone());
    talk.repair(0, &coded, 0);
    talk.nack(flow, 0, 0);
    assert_eq!((talk.said(), talk.egress.counters.too_long), (Vec::new(), 2));
    coded.repairs[0].1 = good;
    talk.repair(0, &coded, 0);
    assert_eq!(talk.said(), [asked(a, 0)]);
    talk.answer_with(a, 0, &long);
    assert_eq!((talk.said(), talk.egress.counters.too_long), (Vec::new(), 3));
    talk.answer(a, 0);
    assert_eq!(talk.said(), [cooperative(flow, 0)]);
    talk.block_of(flow, 5, &long);
    assert_eq!((talk.egress.counters.repairs_kept, talk.egress.counters.too_long), (1, 4));
}

#[test]
fn only_so_many_packets_of_a_flow_are_known() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    for sequence in 0..=COVERED_PACKETS_MAX as u64 {
        talk.carried(flow, sequence);
    }
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said(), []);
    talk.nack(flow, 1, 1);
    assert_eq!(talk.said(), [cached(flow, 1)]);
}

#[test]
fn only_so_many_flows_are_registered() {
    let mut talk = Talk::new();
    let first = talk.flow(Service::Caching);
    let key = talk.egress.key(first).expect("it is registered");
    for _ in 1..EGRESS_FLOWS_MAX {
        assert!(talk.egress.has_room());
        talk.egress.register((key, Holder::default()), Service::Caching, RATE, CONSENT, talk.now);
    }
    assert!(!talk.egress.has_room());
    talk.carried(first, 0);
    talk.nack(first, 0, 0);
    assert_eq!(talk.said(), [cached(first, 0)]);
    talk.egress.unregister(first);
    assert!(talk.egress.has_room());
}
