//! Packets for others.

use super::*;
use crate::limits::{AGENT_LOG_BYTES, KEPT_REACH, PATIENCE_MAX, REQUESTS_MAX};
use byway_wire::Microseconds;
use byway_wire::messages::{Consent, CooperativeRequest};

fn request(hall: &mut Hall, numbers: impl IntoIterator<Item = u64>, patience: Duration) {
    let numbers = ranges(numbers);
    let patience = Microseconds::from_duration(patience);
    let request = CooperativeRequest { alias: alias_of(RECEIVER), patience, ranges: numbers.ranges() };
    hall.relay_says(RECEIVER, &Message::CooperativeRequest(request));
}

fn answers(hall: &Hall) -> Vec<u32> {
    hall.enveloped(EnvelopeRole::CooperativeAnswer)
}

#[test]
fn a_packet_at_hand_is_given_at_once_as_it_was_sealed() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(10);
    hall.run(ms(50));
    request(&mut hall, [4, 7], ms(200));
    hall.run(ms(20));
    assert_eq!(answers(&hall), [4, 7]);
    let given = Said::Envelope { role: EnvelopeRole::CooperativeAnswer, sequence: 4, coded: hall.copy(4) };
    assert!(hall.words(RECEIVER).contains(&given));
    assert_eq!(hall.statistics().given, 2);
}

#[test]
fn a_packet_that_is_still_expected_is_given_when_it_comes() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(10);
    hall.send(&[10; 50]);
    request(&mut hall, [10], ms(200));
    hall.run(ms(25));
    assert_eq!(answers(&hall), []);
    hall.run(ms(20));
    assert_eq!(answers(&hall), [10]);
    assert!(!hall.words(RECEIVER).iter().any(|said| matches!(said, Said::Lost(_))));
}

#[test]
fn a_packet_that_comes_too_late_to_be_of_use_is_not_given() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(10);
    hall.send(&[10; 50]);
    request(&mut hall, [10], ms(15));
    hall.run(ms(60));
    assert_eq!(answers(&hall), []);
}

#[test]
fn a_packet_that_is_lost_here_too_is_said_to_be_and_given_after_its_own_repair() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([5]);
    hall.stream(8);
    hall.run(ms(40));
    request(&mut hall, [5], ms(500));
    hall.run(ms(20));
    assert!(hall.words(RECEIVER).contains(&Said::Lost(alloc::vec![(5, 1)])));
    assert_eq!(answers(&hall), []);
    let coded = hall.copy(5);
    hall.gives(EnvelopeRole::CooperativeRepair, 5, &coded);
    hall.run(ms(25));
    assert_eq!(answers(&hall), [5]);
}

#[test]
fn it_is_said_to_be_lost_when_this_receiver_finds_out() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(10);
    hall.loses_originals([10]);
    hall.send(&[10; 50]);
    request(&mut hall, [10], ms(500));
    hall.run(ms(5));
    hall.stream(2);
    hall.run(ms(45));
    let lost: Vec<Said> =
        hall.words(RECEIVER).into_iter().filter(|said| matches!(said, Said::Lost(_))).collect();
    assert_eq!(lost, [Said::Lost(alloc::vec![(10, 1)])], "once");
}

#[test]
fn a_receiver_gives_what_it_consented_to_and_no_more() {
    let unwilling = Consent { burst_percent: 0, average_per_mille: 0, seconds: 0 };
    let mut hall = Hall::new(&FlowSettings { consent: unwilling, ..settings(Service::Coding) });
    hall.stream(10);
    hall.run(ms(50));
    request(&mut hall, [4], ms(200));
    hall.run(ms(20));
    assert_eq!((answers(&hall).len(), hall.statistics().beyond_consent), (0, 1));
    // A hundredth of 250,000 bytes.
    let sparing = Consent { burst_percent: 1, average_per_mille: 0, seconds: 1 };
    let mut hall = Hall::new(&FlowSettings { consent: sparing, ..settings(Service::Coding) });
    hall.stream(100);
    hall.run(ms(50));
    request(&mut hall, 50..100, ms(200));
    hall.run(ms(20));
    let statistics = hall.statistics();
    assert!((2_400..=2_500).contains(&statistics.given_bytes), "{statistics:?}");
    assert_eq!(statistics.given + statistics.beyond_consent, 50);
}

#[test]
fn only_so_many_requests_are_looked_at_and_wait() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(1);
    hall.run(ms(50));
    request(&mut hall, 1..2_000, ms(2_000));
    request(&mut hall, 1_000..1_010, ms(2_000));
    hall.run(ms(20));
    // The ten came last, and took the place of the first ten.
    for _ in 0..REQUESTS_MAX {
        hall.send(&[1; 50]);
        hall.run(ms(1));
    }
    hall.run(ms(50));
    let answered = answers(&hall);
    assert_eq!(answered.len(), REQUESTS_MAX - 10);
    assert_eq!(answered.first(), Some(&11));
}

#[test]
fn nobody_is_answered_but_a_relay_that_was_told_of_the_flow() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(3);
    hall.run(ms(50));
    let numbers = ranges([1]);
    let request = CooperativeRequest {
        alias: Alias::new(77).expect("not zero"),
        patience: Microseconds::from_duration(ms(200)),
        ranges: numbers.ranges(),
    };
    hall.relay_says(RECEIVER, &Message::CooperativeRequest(request));
    hall.run(ms(20));
    assert_eq!((answers(&hall).len(), hall.agents[RECEIVER].counters().flows_unknown), (0, 1));
}

#[test]
fn a_request_waits_for_two_seconds_whatever_it_says() {
    let waits_for = |time: Duration| {
        let mut hall = Hall::new(&settings(Service::Coding));
        hall.stream(10);
        request(&mut hall, [10], ms(3_600_000));
        hall.run(time);
        hall.send(&[10; 50]);
        hall.run(ms(50));
        answers(&hall)
    };
    // The request takes 10 ms to the receiver, the packet 30 ms.
    assert_eq!(waits_for(PATIENCE_MAX - ms(21)), [10]);
    assert_eq!(waits_for(PATIENCE_MAX - ms(19)), []);
}

#[test]
fn only_so_many_packets_are_kept_for_others() {
    let mut hall = Hall::new(&settings(Service::Coding));
    for number in 0..=KEPT_REACH {
        hall.send(&[number.to_be_bytes()[7]; 50]);
    }
    hall.run(ms(50));
    request(&mut hall, [0, 1, KEPT_REACH as u64], ms(200));
    hall.run(ms(50));
    assert_eq!(answers(&hall), [1, u32::try_from(KEPT_REACH).expect("small")]);
}

#[test]
fn what_is_kept_of_long_packets_takes_only_so_much_memory_and_all_are_delivered() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let count = 2 * usize::try_from(AGENT_LOG_BYTES).expect("small") / 1_300;
    for number in 0..count {
        hall.send(&[number.to_be_bytes()[7]; 1_300]);
        if number % 64 == 63 {
            hall.run(ms(1));
        }
    }
    for agent in &hall.agents {
        assert!(agent.packets_held().count() <= 2 * AGENT_LOG_BYTES, "{}", agent.packets_held());
    }
    hall.run(ms(100));
    assert_eq!(hall.got.len(), count);
    assert!(hall.agents[RECEIVER].packets_held().count() > AGENT_LOG_BYTES / 2, "the limit was reached");
}
