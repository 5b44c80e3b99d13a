//! What is missing is asked for: when, how often, until when.

use super::*;
use crate::limits::ASKS_MAX;
use byway_wire::messages::Confirm;

/// Streams as many, and waits until all of it has been heard of.
fn streamed(lost: impl IntoIterator<Item = u32>, count: u8) -> Hall {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals(lost);
    hall.stream(count);
    hall.run(ms(60));
    hall
}

#[test]
fn a_gap_is_asked_for_once_it_is_no_reordering() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([5]);
    hall.stream(12);
    let mut said = hall.said(RECEIVER);
    said.retain(|(_, said)| *said == nack(&[(5, 1)]));
    // Packet 6 shows the gap, sent 60 ms after the first and 30 ms on its way; 3 ms later the question leaves.
    let began = hall.sent.iter().find(|datagram| datagram.original() == Some(6)).expect("it was sent").at;
    assert_eq!(said[0].0, began + ms(30 + 3 + 10));
}

#[test]
fn packets_in_disorder_are_not_asked_for() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(5);
    hall.run(ms(25));
    hall.forget();
    hall.loses(|datagram| datagram.original().is_some());
    (5..8).for_each(|number| hall.send(&[number; 50]));
    let originals: Vec<Datagram> =
        hall.sent.iter().filter(|datagram| datagram.original().is_some()).cloned().collect();
    for place in [2, 0, 1] {
        hall.arrive(originals[place].clone());
        hall.run(ms(1));
    }
    hall.run(ms(5));
    assert_eq!((hall.got.len(), hall.words(RECEIVER)), (3, Vec::new()));
}

#[test]
fn losses_seen_together_are_asked_for_together() {
    let hall = streamed([4, 6, 7], 12);
    let words = hall.words(RECEIVER);
    assert!(words.contains(&nack(&[(4, 1)])) && words.contains(&nack(&[(6, 2)])), "{words:?}");
}

#[test]
fn what_does_not_come_is_asked_for_again_after_one_and_a_half_round_trips_and_twice_as_late_each_time() {
    let mut hall = Hall::new(&FlowSettings { latency_budget: ms(1_000), ..settings(Service::Coding) });
    hall.loses_originals([20]);
    hall.stream(100);
    let asked: Vec<Time> =
        hall.said(RECEIVER).iter().filter(|(_, said)| *said == nack(&[(20, 1)])).map(|(at, _)| *at).collect();
    assert_eq!(asked.len(), usize::from(ASKS_MAX));
    // The relay is 20 ms away and back.
    let waited: Vec<_> = asked.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
    assert_eq!(waited, [ms(30), ms(60), ms(120), ms(240)]);
}

#[test]
fn what_came_is_asked_for_no_more() {
    let mut hall = streamed([5], 8);
    let coded = hall.copy(5);
    hall.gives(EnvelopeRole::CooperativeRepair, 5, &coded);
    hall.run(ms(15));
    hall.forget();
    hall.stream(20);
    let asks = |said: &Said| matches!(said, Said::Nack { ranges, .. } if !ranges.is_empty());
    assert!(!hall.words(RECEIVER).iter().any(asks));
}

#[test]
fn a_packet_for_which_every_repair_is_late_is_lost() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([5]);
    hall.stream(20);
    assert_eq!(hall.statistics().lost, 0);
    hall.stream(30);
    assert_eq!(hall.statistics().lost, 1);
}

#[test]
fn what_was_sent_before_a_packet_whose_repair_is_late_is_asked_for_no_more() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(100);
    hall.loses_originals(100..140);
    hall.stream(45);
    hall.run(ms(10));
    let coded = hall.copy(110);
    hall.gives(EnvelopeRole::CachedRepair, 110, &coded);
    hall.run(ms(10));
    assert_eq!(hall.statistics().late, 1);
    hall.forget();
    hall.stream(20);
    let ranges = |said: Said| if let Said::Nack { ranges, .. } = said { ranges } else { Vec::new() };
    let asked: Vec<_> = hall.words(RECEIVER).into_iter().flat_map(ranges).collect();
    assert_eq!(asked.first(), Some(&(111, 29)), "{asked:?}");
    assert!(asked.iter().all(|(first, _)| *first > 110), "{asked:?}");
}

#[test]
fn after_a_silence_all_that_follows_is_asked_for_until_the_path_delivers_again() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(100);
    hall.forget();
    hall.loses_originals(100..150);
    hall.stream(60);
    let said = hall.said(RECEIVER);
    let open = Said::Nack { open_from: Some(100), by_timer: true, confirms: false, ranges: Vec::new() };
    assert_eq!(said[0].1, open);
    // Due after 100 + 30 ms of delay at a rhythm of 10 ms, and not long after that.
    let last = hall.sent.iter().find(|datagram| datagram.original() == Some(100)).expect("it was sent").at;
    let noticed = said[0].0.saturating_since(last + ms(30 + 10));
    assert!(noticed <= ms(20), "{noticed:?}");
    let acks: Vec<&Said> =
        said.iter().map(|(_, said)| said).filter(|said| matches!(said, Said::Ack(_))).collect();
    assert_eq!(acks, [&Said::Ack(150)]);
    assert_eq!((hall.statistics().acks, hall.statistics().longest_burst), (1, 50));
}

#[test]
fn the_open_question_ends_where_the_direct_path_delivers_after_the_repairs() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.stream(100);
    hall.forget();
    hall.loses_originals(100..110);
    hall.stream(10);
    for number in 110..120 {
        hall.send(&[0; 50]);
        hall.run(ms(10));
        let coded = hall.copy(number);
        hall.gives(EnvelopeRole::CachedRepair, number, &coded);
    }
    hall.run(ms(10));
    assert!(hall.delivered(Delivery::Cached).len() >= 8, "the repairs came first");
    let words = hall.words(RECEIVER);
    let acked = words.iter().position(|said| *said == Said::Ack(110)).expect("the path delivers again");
    let asks = |said: &Said| matches!(said, Said::Nack { open_from: Some(_), .. });
    assert!(!words[acked..].iter().any(asks), "{words:?}");
}

#[test]
fn an_open_question_is_repeated_ever_more_rarely() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(100);
    hall.run(ms(9_000));
    let asked = hall.statistics().open_nacks;
    // Three times in a row, as the first may be lost, and then after ever longer silences.
    assert!((4..=10).contains(&asked), "{asked}");
    assert!(hall.words(RECEIVER).iter().all(|said| matches!(said, Said::Nack { open_from: Some(100), .. })));
}

#[test]
fn packets_that_the_open_question_covers_are_not_asked_for_one_by_one_at_once() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(100);
    hall.forget();
    hall.loses_originals(100..110);
    hall.stream(14);
    hall.run(ms(15));
    let ranges = hall
        .words(RECEIVER)
        .into_iter()
        .filter(|said| matches!(said, Said::Nack { ranges, .. } if !ranges.is_empty()));
    assert_eq!(ranges.count(), 0);
    hall.run(ms(60));
    assert!(hall.words(RECEIVER).contains(&nack(&[(100, 10)])), "but when their repairs had time to come");
}

#[test]
fn a_confirm_is_answered_if_packets_are_still_missing_and_only_then() {
    let mut hall = streamed([5], 8);
    hall.forget();
    let (here, missing) = (ranges([3, 4]), ranges([4, 5, 6]));
    hall.relay_says(
        RECEIVER,
        &Message::Confirm(Confirm { alias: alias_of(RECEIVER), ranges: here.ranges() }),
    );
    hall.run(ms(25));
    let confirms = |said: &Said| matches!(said, Said::Nack { confirms: true, .. });
    assert!(!hall.words(RECEIVER).iter().any(confirms));
    hall.relay_says(
        RECEIVER,
        &Message::Confirm(Confirm { alias: alias_of(RECEIVER), ranges: missing.ranges() }),
    );
    hall.run(ms(25));
    let words = hall.words(RECEIVER);
    let answers: Vec<&Said> = words.iter().filter(|said| confirms(said)).collect();
    // What follows the last packet is asked for by now.
    let answer =
        Said::Nack { open_from: Some(8), by_timer: false, confirms: true, ranges: alloc::vec![(5, 1)] };
    assert_eq!(answers, [&answer]);
}

#[test]
fn a_confirm_of_what_the_open_question_covers_is_answered_with_it() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(100);
    hall.run(ms(100));
    hall.forget();
    let covered = ranges([100, 101]);
    hall.relay_says(
        RECEIVER,
        &Message::Confirm(Confirm { alias: alias_of(RECEIVER), ranges: covered.ranges() }),
    );
    hall.run(ms(25));
    let answer =
        Said::Nack { open_from: Some(100), by_timer: false, confirms: true, ranges: alloc::vec![(100, 2)] };
    assert!(hall.words(RECEIVER).contains(&answer));
}

#[test]
fn a_flow_without_relays_asks_for_nothing() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses_originals([5, 6]);
    hall.stream(10);
    hall.run(ms(2_000));
    assert_eq!(hall.words(RECEIVER), []);
}

/// Streams as many; the relay forwards each packet 40 ms after it was sent, but these.
fn forwarded(service: Service, count: u8, unforwarded: &[u32], lost: &[u32]) -> Hall {
    let mut hall = Hall::new(&settings(service));
    hall.loses_originals(lost.iter().copied());
    for number in 0..u32::from(count) + 4 {
        if number < count.into() {
            hall.send(&[u8::try_from(number).expect("few"); 50]);
        }
        if let Some(number) = number.checked_sub(4).filter(|number| !unforwarded.contains(number)) {
            let coded = hall.copy(number);
            hall.gives(EnvelopeRole::Forwarded, number, &coded);
        }
        hall.run(ms(10));
    }
    hall
}

#[test]
fn what_relays_alone_deliver_is_asked_for_where_it_does_not_come() {
    let mut hall = forwarded(Service::Forwarding, 20, &[9], &[]);
    let said = hall.said(RECEIVER);
    // Packet 10 shows the gap, 150 ms after the first was sent.
    let asked: Vec<_> = said.iter().filter(|(_, said)| *said == nack(&[(9, 1)])).map(|(at, _)| *at).collect();
    assert_eq!(asked[0], Time::START + ms(500) + ms(140 + 10 + 3 + 10), "{said:?}");
    let coded = hall.copy(9);
    hall.gives(EnvelopeRole::CachedRepair, 9, &coded);
    hall.run(ms(11));
    assert_eq!(hall.delivered(Delivery::Cached), [9]);
    let statistics = hall.statistics();
    assert_eq!((statistics.forwarded, statistics.cached, statistics.lost, statistics.bursts), (19, 1, 1, 1));
}

#[test]
fn a_silence_of_what_relays_deliver_is_noticed_and_ended() {
    let mut hall = forwarded(Service::Forwarding, 60, &[], &[]);
    assert_eq!(hall.words(RECEIVER), []);
    hall.run(ms(30));
    let open = Said::Nack { open_from: Some(60), by_timer: true, confirms: false, ranges: Vec::new() };
    assert_eq!(hall.words(RECEIVER), [open]);
    hall.send(&[60; 50]);
    hall.run(ms(20));
    let coded = hall.copy(60);
    hall.gives(EnvelopeRole::Forwarded, 60, &coded);
    hall.run(ms(30));
    assert_eq!(hall.words(RECEIVER).last(), Some(&Said::Ack(60)));
}

#[test]
fn of_what_comes_on_two_ways_only_that_is_asked_for_which_came_on_neither() {
    // The direct path takes 30 ms, the relays 50 ms.
    let hall = forwarded(Service::Both, 60, &[], &[20, 21, 30]);
    assert_eq!(hall.words(RECEIVER), [], "the slower way brings what the faster one lost");
    let hall = forwarded(Service::Both, 60, &[20, 21, 30], &[]);
    assert_eq!(hall.words(RECEIVER), []);
    let hall = forwarded(Service::Both, 60, &[30], &[30]);
    let asked = hall.said(RECEIVER).into_iter().find(|(_, said)| *said == nack(&[(30, 1)]));
    // Packet 31 shows it, and its copy comes 20 ms later.
    let when = Time::START + ms(500) + ms(310 + 30 + 20 + 3 + 10);
    assert_eq!(asked.map(|(at, _)| at), Some(when));
}

#[test]
fn of_what_comes_on_two_ways_nothing_is_missing_when_one_goes_dark() {
    let dark: Vec<u32> = (20..60).collect();
    let hall = forwarded(Service::Both, 60, &[], &dark);
    assert_eq!(hall.words(RECEIVER), []);
    let hall = forwarded(Service::Both, 60, &dark, &[]);
    assert_eq!(hall.words(RECEIVER), []);
}

#[test]
fn more_gaps_than_a_nack_holds_go_into_several() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(2);
    hall.run(ms(25));
    hall.forget();
    hall.loses(|datagram| datagram.original().is_some());
    (0..200).for_each(|_| hall.send(&[0; 50]));
    let originals: Vec<Datagram> =
        hall.sent.iter().filter(|datagram| datagram.original().is_some()).cloned().collect();
    originals.into_iter().skip(1).step_by(2).for_each(|datagram| hall.arrive(datagram));
    hall.run(ms(20));
    let asked: usize = hall
        .words(RECEIVER)
        .iter()
        .map(|said| match said {
            Said::Nack { ranges, .. } => {
                assert!(ranges.len() <= crate::limits::RANGES_MAX);
                ranges.len()
            }
            _ => 0,
        })
        .sum();
    assert_eq!(asked, 100);
}
