//! Tests of the redundancy against a list of all events.

extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

/// Redundancy of batches of 8 packets with 2 repair packets.
fn redundancy() -> Redundancy {
    Redundancy::new(8, 2)
}

/// Sends `packets` packets in each 100 ms of a span, with these losses.
fn run(redundancy: &mut Redundancy, span: core::ops::Range<u64>, losses: LossesByBatch) {
    for tick in span.start * 10..span.end * 10 {
        (0..40).for_each(|_| redundancy.on_packet(at(100 * tick)));
        redundancy.on_losses(0, losses, false, at(100 * tick));
    }
}

#[test]
fn new_flows_have_the_registered_redundancy_for_five_seconds() {
    let mut redundancy = redundancy();
    assert_eq!(redundancy.repairs(at(0)), 2);
    run(&mut redundancy, 0..6, [0; 4]);
    let new = [1_000, 4_999, 5_000].map(|millis| redundancy.clone().repairs(at(millis)));
    assert_eq!((new, redundancy.repairs(at(5_900))), ([2, 2, 0], 0));
    run(&mut redundancy, 40..41, [0; 4]);
    assert_eq!(redundancy.repairs(at(41_000)), 2, "after half a minute, the flows are new again");
}

#[test]
fn losses_raise_the_redundancy_at_once_and_leave_it_within_the_window() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0; 4]);
    assert_eq!(redundancy.repairs(at(10_000)), 0);
    redundancy.on_losses(0, [0, 60, 0, 0], false, at(10_000));
    assert_eq!(redundancy.repairs(at(10_000)), 2);
    run(&mut redundancy, 10..40, [0; 4]);
    assert_eq!(redundancy.repairs(at(39_900)), 2, "60 of 20,000 packets, by their weights");
    run(&mut redundancy, 40..41, [0; 4]);
    assert_eq!(redundancy.repairs(at(41_000)), 0);
}

#[test]
fn the_latest_five_seconds_weigh_as_much_as_the_rest() {
    let mut recent = redundancy();
    run(&mut recent, 0..30, [0; 4]);
    let mut old = recent.clone();
    // 20 of 12,000 packets.
    recent.on_losses(0, [20, 0, 0, 0], false, at(29_900));
    assert_eq!(recent.repairs(at(29_900)), 1);
    run(&mut recent, 30..36, [0; 4]);
    assert_eq!(recent.repairs(at(35_999)), 0, "20 of 20,000");
    old.on_losses(0, [12, 0, 0, 0], false, at(29_900));
    assert_eq!(old.repairs(at(29_900)), 1);
}

#[test]
fn losses_of_a_batch_that_loses_another_packet_move_on() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0; 4]);
    redundancy.on_losses(0, [100, 0, 0, 0], false, at(10_000));
    assert_eq!(redundancy.repairs(at(10_000)), 1);
    redundancy.on_losses(0, [-100, 200, 0, 0], false, at(10_000));
    assert_eq!(redundancy.repairs(at(10_000)), 2);
    redundancy.on_losses(0, [0, 0, 0, 400], false, at(10_000));
    assert_eq!(redundancy.repairs(at(10_000)), 4, "half of the batch at most");
}

#[test]
fn an_open_ended_nack_raises_the_redundancy_at_once_for_a_second() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0; 4]);
    redundancy.on_open_ended_nack(at(10_000));
    assert_eq!(redundancy.repairs(at(10_000)), 2);
    assert_eq!((redundancy.repairs(at(10_999)), redundancy.repairs(at(11_000))), (2, 0));
}

#[test]
fn while_queues_grow_the_redundancy_falls_and_does_not_rise() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0, 2, 2, 0]);
    assert_eq!(redundancy.repairs(at(10_000)), 3);
    let mut repairs = Vec::new();
    for tick in 100..150 {
        redundancy.on_losses(0, [0; 4], true, at(100 * tick));
        repairs.push(redundancy.repairs(at(100 * tick)));
    }
    assert_eq!([0, 9, 10, 20, 30, 49].map(|tick| repairs[tick]), [2, 2, 1, 0, 0, 0]);
    assert!(repairs.is_sorted_by(|before, after| before >= after), "{repairs:?}");
    assert_eq!(redundancy.repairs(at(15_900)), 3, "a second later, losses count again");
}

#[test]
fn one_receiver_whose_queue_grows_lowers_nothing_for_others_that_lose_packets() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0, 2, 2, 0]);
    for tick in 100..150 {
        if tick % 50 == 0 {
            redundancy.on_losses(0, [0, 1, 1, 0], false, at(100 * tick));
        }
        redundancy.on_losses(1, [0; 4], true, at(100 * tick));
        assert_eq!(redundancy.repairs(at(100 * tick)), 3, "{tick}");
    }
}

#[test]
fn small_batches_have_the_repair_packets_of_their_losses_up_to_half_of_them() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0, 2, 2, 0]);
    let of_size = [8, 5, 4, 2, 1].map(|size| redundancy.repairs_of(size, at(10_000)));
    assert_eq!(of_size, [3, 3, 2, 1, 1]);
    let mut registered = Redundancy::new(4, 3);
    assert_eq!([4, 3, 2].map(|size| registered.repairs_of(size, at(0))), [3, 3, 2], "more than half");
    (0..4).for_each(|_| redundancy.on_batch(1));
    assert_eq!(redundancy.repairs_of(1, at(10_000)), 0, "blocks repair what is alone");
}

#[test]
fn blocks_have_repair_packets_if_flows_are_alone_and_lose_packets() {
    let mut redundancy = redundancy();
    run(&mut redundancy, 0..10, [0; 4]);
    (0..4).for_each(|_| redundancy.on_batch(1));
    assert!(!redundancy.repairs_blocks(at(10_000)));
    run(&mut redundancy, 10..11, [1, 0, 0, 0]);
    assert!(redundancy.repairs_blocks(at(11_000)));
    (0..4).for_each(|_| redundancy.on_batch(8));
    assert!(!redundancy.repairs_blocks(at(11_000)));
}

#[test]
fn a_pair_of_packets_has_one_repair_packet_at_most() {
    let limits = [(2, 1), (3, 1), (8, 2), (20, 2), (2, 2)];
    assert_eq!(limits.map(|(k, r)| Redundancy::max_repairs(k, r)), [1, 2, 4, 4, 2]);
}

/// An event: milliseconds since the one before, packets, and losses.
type Event = (u64, u32, LossesByBatch);

/// Returns the redundancy by its definition, from the list of all events with their seconds.
fn naive(events: &[(u64, u32, LossesByBatch)], second: u64) -> u8 {
    let weight = |then: u64| match second - then {
        0..5 => 5,
        5..30 => 1,
        _ => 0,
    };
    let packets: i64 = events.iter().map(|(then, packets, _)| weight(*then) * i64::from(*packets)).sum();
    let lost = |class: usize| -> i64 {
        let sum: i64 = events.iter().map(|(then, _, losses)| weight(*then) * i64::from(losses[class])).sum();
        sum.max(0)
    };
    let is_within = |repairs: &u8| (usize::from(*repairs)..4).map(lost).sum::<i64>() * 1_000 <= packets;
    (0..4).find(is_within).unwrap_or(4)
}

proptest! {
    #[test]
    fn the_redundancy_is_that_of_the_whole_list(
        events in prop::collection::vec(
            (0..3_000_u64, 0..200_u32, prop::array::uniform4(-2..6_i16)),
            1..120,
        ),
    ) {
        let mut redundancy = redundancy();
        let (mut now, mut past) = (Time::START, Vec::<Event>::new());
        for (gap, packets, losses) in events {
            now += Duration::from_millis(gap);
            (0..packets).for_each(|_| redundancy.on_packet(now));
            redundancy.on_losses(0, losses, false, now);
            let second = now.as_nanos() / 1_000_000_000;
            past.push((second, packets, losses));
            let expected = naive(&past, second);
            let found = redundancy.repairs(now);
            if redundancy.is_new(now) {
                prop_assert_eq!(found, expected.max(2));
            } else {
                prop_assert_eq!(found, expected);
            }
        }
    }
}
