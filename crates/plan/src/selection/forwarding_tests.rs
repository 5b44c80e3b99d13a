//! Tests of the changes between both paths and forwarding.
//!
//! The budget of 80 ms leaves no time for repairs, and relays deliver in 70 ms.

use alloc::vec::Vec;

use super::harness::{ALL, Harness, ms};
use super::history::RECENT;
use super::*;
use crate::choice::Rejection;

/// Packets that the flow sends in a second.
const PACKETS: u64 = 480;

/// Interval of the packets that also use the direct path while relays alone forward the flow.
const SAMPLE_INTERVAL: u64 = 16;

/// Packets that a bad direct path loses in a second: a third.
const BAD: u64 = 160;

fn second(number: u64) -> Time {
    Time::START + Duration::from_secs(number)
}

fn harness() -> Harness {
    let mut harness = Harness::new(80);
    harness.allowed = ALL.with(Service::Forwarding);
    harness
}

/// Lets the flow send for `seconds`. In each, the direct path loses `lost` packets, and relays lose
/// `missed` packets; while both paths carry the flow, only of those that the direct path loses.
fn run(harness: &mut Harness, seconds: u64, (lost, missed): (u64, u64)) {
    for _ in 0..seconds {
        harness.now += ms(1_000);
        let observation = &mut harness.observation;
        observation.direct_sample_interval = 1;
        match harness.service {
            Service::Both => {
                let missed = missed.min(lost);
                observation.direct += PACKETS - lost;
                observation.forwarded += lost - missed;
                observation.covered += lost - missed;
                observation.lost += missed;
            }
            Service::Forwarding => {
                observation.direct_sample_interval = SAMPLE_INTERVAL;
                observation.forwarded += PACKETS - missed;
                observation.covered += lost / SAMPLE_INTERVAL;
                observation.lost += missed;
            }
            _ => {
                observation.direct += PACKETS - lost;
                observation.lost += lost;
            }
        }
        harness.select();
    }
}

/// Returns a harness of a flow that relays alone forward, because the direct path is bad.
fn forwarded() -> Harness {
    let mut harness = harness();
    run(&mut harness, 60, (BAD, 0));
    assert_eq!(harness.services(), [Service::Both, Service::Forwarding]);
    harness
}

/// Returns the reason for which forwarding was rejected at last.
fn rejection(harness: &Harness) -> Option<Rejection> {
    let latest = harness.selector.log().latest().expect("it has evaluated");
    let known = latest.choice.candidates.iter().find(|known| known.cost.service == Service::Forwarding);
    known.expect("it is a candidate").rejected
}

#[test]
fn relays_alone_follow_both_paths_half_a_minute_after_their_loss_is_measured() {
    let harness = forwarded();
    // Seven seconds after the overlap of the first change, 1,120 packets show the loss.
    let changed = harness.changes[1].0;
    assert!((second(38)..=second(45)).contains(&changed), "{:?}", harness.changes);
    assert_eq!(rejection(&harness), None);
}

#[test]
fn without_enough_losses_of_the_direct_path_relays_are_not_relied_on() {
    let mut harness = harness();
    run(&mut harness, 300, (2, 0));
    assert_eq!((harness.service, rejection(&harness)), (Service::Both, Some(Rejection::NotMeasured)));
}

#[test]
fn relays_that_lose_more_than_the_target_are_not_relied_on() {
    let mut harness = harness();
    run(&mut harness, 300, (BAD, 1));
    let expected = (Service::Both, Some(Rejection::RelaysLoseTooMuch));
    assert_eq!((harness.service, rejection(&harness)), expected, "one of 160 packets");
}

#[test]
fn with_another_service_in_between_the_loss_of_relays_is_measured_anew() {
    let mut harness = harness();
    harness.allowed = ALL;
    run(&mut harness, 60, (BAD, 0));
    assert_eq!(harness.services(), [Service::Both]);
    harness.service = Service::Caching;
    run(&mut harness, 1, (BAD, 0));
    harness.allowed = ALL.with(Service::Forwarding);
    run(&mut harness, 5, (BAD, 0));
    assert_eq!((harness.service, rejection(&harness)), (Service::Both, Some(Rejection::NotMeasured)));
}

#[test]
fn a_clean_direct_path_is_returned_to_over_both_paths() {
    let mut harness = forwarded();
    run(&mut harness, 150, (0, 0));
    let expected = [Service::Both, Service::Forwarding, Service::Both, Service::Retransmission];
    assert_eq!(harness.services(), expected);
    let reasons: Vec<Reason> = harness.selector.log().changes().map(|change| change.reason).collect();
    assert_eq!((reasons.len(), reasons[2]), (4, Reason::BetweenServices));
    // The latest minute, and the wait.
    let left = harness.changes[2].0;
    assert!((second(148)..=second(155)).contains(&left), "{:?}", harness.changes);
}

#[test]
fn relays_that_begin_to_lose_are_left_for_both_paths_within_two_seconds() {
    let mut harness = forwarded();
    let began = harness.now;
    run(&mut harness, 4, (BAD, 20));
    assert_eq!(harness.services(), [Service::Both, Service::Forwarding, Service::Both]);
    assert!(harness.changes[2].0 <= began + ms(2_000), "{:?}", harness.changes);
    assert_eq!(harness.selector.selection().map(|selection| selection.service), Some(Service::Both));
    // Of 40 missed packets, three halvings leave few enough.
    run(&mut harness, 400, (BAD, 0));
    assert_eq!(harness.service, Service::Forwarding, "they deliver again");
    assert!(harness.changes[3].0 >= began + DOWNGRADE_AFTER, "{:?}", harness.changes);
}

#[test]
fn relays_that_begin_to_lose_just_after_the_change_to_them_are_left_within_two_seconds() {
    let mut harness = harness();
    while harness.service != Service::Forwarding {
        run(&mut harness, 1, (BAD, 0));
        assert!(harness.now < second(60), "{:?}", harness.changes);
    }
    let began = harness.now;
    run(&mut harness, 4, (BAD, 40));
    assert_eq!(harness.services(), [Service::Both, Service::Forwarding, Service::Both]);
    assert!(harness.changes[2].0 <= began + OVERLAP, "{:?}", harness.changes);
}

#[test]
fn losses_just_after_a_change_of_path_are_not_those_of_the_new_relays() {
    let mut harness = harness();
    run(&mut harness, 20, (BAD, 0));
    harness.observation.path = Some(1);
    run(&mut harness, 2, (BAD, 5));
    run(&mut harness, 12, (BAD, 0));
    assert_eq!((harness.service, rejection(&harness)), (Service::Both, None));
}

#[test]
fn reports_after_a_gap_show_no_loss_of_relays() {
    let mut harness = harness();
    run(&mut harness, 20, (BAD, 0));
    assert_eq!((harness.service, rejection(&harness)), (Service::Both, None));
    harness.now += RECENT;
    run(&mut harness, 1, (BAD, 40));
    run(&mut harness, 2, (BAD, 0));
    assert_eq!((harness.service, rejection(&harness)), (Service::Both, None));
}

#[test]
fn an_outage_is_no_time_in_which_relays_alone_suffice() {
    let mut harness = harness();
    run(&mut harness, 30, (BAD, 0));
    let delays = harness.observation.delays.take();
    run(&mut harness, 60, (BAD, 0));
    harness.observation.delays = delays;
    let began = harness.now;
    run(&mut harness, 40, (BAD, 0));
    assert_eq!(harness.services(), [Service::Both, Service::Forwarding]);
    assert!(harness.changes[1].0 >= began + DOWNGRADE_AFTER, "{:?}", harness.changes);
}

#[test]
fn another_relay_path_has_to_show_what_it_loses() {
    let mut harness = forwarded();
    harness.observation.path = Some(1);
    run(&mut harness, 3, (BAD, 0));
    assert_eq!(harness.services(), [Service::Both, Service::Forwarding, Service::Both]);
}

#[test]
fn losses_that_samples_do_not_show_cause_fewer_and_fewer_attempts() {
    let mut harness = harness();
    // Of three packets in 480, no sample is lost.
    run(&mut harness, 3_600, (3, 0));
    let attempts: Vec<Time> = harness.changes.iter().skip(2).step_by(2).map(|(at, _)| *at).collect();
    let between = |nth: usize| attempts[nth + 1] - attempts[nth];
    assert!(attempts.len() <= 12, "{:?}", harness.changes);
    // The wait doubles until the flow has kept forwarding for so long that it is trusted again.
    assert!(between(4) >= between(0) * 3, "{:?}", harness.changes);
    let steps = harness.changes.windows(2).map(|pair| pair[1].0 - pair[0].0);
    assert!(steps.min() >= Some(CHANGE_INTERVAL), "{:?}", harness.changes);
}

#[test]
fn a_burst_of_losses_counts_however_many_packets_relays_have_delivered() {
    // After 77 s, 12,560 packets of the relay path count, and one second later 480 more: 12 are
    // fewer than 0.1 %. Of the 2,400 in five seconds, 2.4 may be missed. Three more are one burst,
    // and 6.2 are four standard deviations.
    for (missed, expected) in [(11, Service::Forwarding), (12, Service::Both)] {
        let mut harness = forwarded();
        run(&mut harness, 17, (BAD, 0));
        run(&mut harness, 1, (BAD, missed));
        assert_eq!(harness.service, expected, "{missed}");
    }
}

#[test]
fn each_failure_of_relays_in_ten_minutes_doubles_the_wait_for_them() {
    let mut harness = forwarded();
    let mut waits = Vec::new();
    for failure in 1..=7 {
        // Another relay path has to show anew what it loses.
        harness.observation.path = Some(failure);
        run(&mut harness, 3, (BAD, 0));
        assert_eq!(harness.service, Service::Both);
        let left = harness.now;
        while harness.service == Service::Both {
            run(&mut harness, 1, (BAD, 0));
            assert!(harness.now < left + UPGRADE_REMEMBERED * 2, "{:?}", harness.changes);
        }
        waits.push((harness.now - left).as_millis() / 1_000);
        run(&mut harness, 10, (BAD, 0));
    }
    // The path has delivered 480 packets when it is left, and 160 in each second from the second
    // one on: a thousand after five seconds. The sixth wait ends once its failure is forgotten, so
    // the seventh is as the first.
    assert_eq!(waits, [5 + 30, 5 + 60, 5 + 120, 5 + 240, 5 + 480, 600, 5 + 30]);
}

#[test]
fn relays_alone_are_no_first_choice_even_of_a_flow_that_has_measured_them() {
    let mut harness = harness();
    harness.service = Service::Both;
    for _ in 0..60 {
        harness.now += ms(1_000);
        // In the third second, 1,600 packets show what relays lose.
        let is_both = harness.service == Service::Both;
        let observation = &mut harness.observation;
        observation.direct += if is_both { 3_200 } else { 0 };
        observation.forwarded += if is_both { 1_600 } else { 4_800 };
        observation.covered += if is_both { 1_600 } else { 100 };
        observation.direct_sample_interval = if is_both { 1 } else { SAMPLE_INTERVAL };
        harness.select();
    }
    assert_eq!(harness.changes, [(second(3) + DOWNGRADE_AFTER, Service::Forwarding)]);
}

#[test]
fn what_relays_lose_is_no_loss_of_the_direct_path() {
    let mut harness = forwarded();
    // One of 2,400 packets: fewer than the target, and more than a clean direct path loses.
    for _ in 0..30 {
        run(&mut harness, 1, (0, 1));
        run(&mut harness, 4, (0, 0));
    }
    let expected = [Service::Both, Service::Forwarding, Service::Both, Service::Retransmission];
    assert_eq!(harness.services(), expected, "{:?}", harness.changes);
}

#[test]
fn a_time_in_which_relays_may_not_be_relied_on_begins_the_wait_anew() {
    let changes = |entered| [(second(3), Service::Both), (second(entered), Service::Forwarding)];
    // After 36 s, 5 of 5,120 packets are within the target, but not with a margin of a fifth. That
    // takes 6,250 packets, of which the last ones are sent after 44 s.
    let mut losing = harness();
    run(&mut losing, 35, (BAD, 0));
    run(&mut losing, 1, (BAD, 5));
    run(&mut losing, 60, (BAD, 0));
    assert_eq!(losing.changes, changes(44 + 30));
    let mut metered = harness();
    run(&mut metered, 35, (BAD, 0));
    metered.allowed = ALL;
    run(&mut metered, 1, (BAD, 0));
    metered.allowed = ALL.with(Service::Forwarding);
    run(&mut metered, 60, (BAD, 0));
    assert_eq!(metered.changes, changes(37 + 30));
}

#[test]
fn behind_an_uplink_too_narrow_for_copies_packets_keep_both_paths() {
    // Relays have none of the lost packets, or spare copies of a tenth.
    for missed in [BAD, BAD - BAD / 10] {
        let mut harness = harness();
        run(&mut harness, 300, (BAD, missed));
        assert_eq!(harness.services(), [Service::Both], "{missed}");
        assert_eq!(rejection(&harness), Some(Rejection::RelaysLoseTooMuch), "{missed}");
    }
    // Where nothing is lost, nothing shows what relays deliver.
    let mut clean = harness();
    run(&mut clean, 300, (0, 0));
    assert_eq!(clean.services(), [Service::Both, Service::Retransmission]);
    assert_eq!(rejection(&clean), Some(Rejection::NotMeasured));
}

#[test]
fn a_flow_that_relays_alone_may_not_forward_keeps_both_paths() {
    let mut harness = harness();
    harness.allowed = ALL;
    run(&mut harness, 300, (BAD, 0));
    assert_eq!(harness.services(), [Service::Both]);
    assert_eq!(rejection(&harness), Some(Rejection::NotAllowed));
}

#[test]
fn relays_that_may_not_forward_a_flow_alone_any_more_are_left_with_the_next_report() {
    let mut harness = harness();
    while harness.service != Service::Forwarding {
        run(&mut harness, 1, (BAD, 0));
        assert!(harness.now < second(60), "{:?}", harness.changes);
    }
    harness.allowed = ALL;
    run(&mut harness, 1, (BAD, 0));
    assert_eq!(harness.services(), [Service::Both, Service::Forwarding, Service::Both]);
}
