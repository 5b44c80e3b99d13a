//! Tests of NACKs: their times, repetitions and deadlines.

use super::*;
use crate::limits::NACKS_PER_PACKET_MAX;
use byway_wire::messages::Confirm;

/// Streams `count` packets, and waits until all NACKs have arrived.
fn streamed(lost: impl IntoIterator<Item = u32>, count: u8) -> TestNetwork {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets(lost);
    network.stream(count);
    network.run(ms(60));
    network
}

#[test]
fn a_gap_is_asked_for_once_it_is_no_reordering() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([5]);
    network.stream(12);
    let mut messages = network.observed(RECEIVER);
    messages.retain(|(_, message)| *message == nack(&[(5, 1)]));
    // Packet 6 reveals the gap, sent 60 ms after the first, with a delay of 30 ms. The NACK leaves
    // 3 ms later.
    let began =
        network.sent.iter().find(|datagram| datagram.source_sequence() == Some(6)).expect("it was sent").at;
    assert_eq!(messages[0].0, began + ms(30 + 3 + 10));
}

#[test]
fn packets_in_disorder_are_not_asked_for() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(5);
    network.run(ms(25));
    network.forget();
    network.loses(|datagram| datagram.source_sequence().is_some());
    (5..8).for_each(|number| network.send(&[number; 50]));
    let source_packets: Vec<Datagram> =
        network.sent.iter().filter(|datagram| datagram.source_sequence().is_some()).cloned().collect();
    for index in [2, 0, 1] {
        network.arrive(source_packets[index].clone());
        network.run(ms(1));
    }
    network.run(ms(5));
    assert_eq!((network.got.len(), network.observed_messages(RECEIVER)), (3, Vec::new()));
}

#[test]
fn losses_seen_together_are_asked_for_together() {
    let network = streamed([4, 6, 7], 12);
    let messages = network.observed_messages(RECEIVER);
    assert!(messages.contains(&nack(&[(4, 1)])) && messages.contains(&nack(&[(6, 2)])), "{messages:?}");
}

#[test]
fn what_does_not_come_is_asked_for_again_after_one_and_a_half_round_trips_and_twice_as_late_each_time() {
    let mut network =
        TestNetwork::new(&FlowSettings { latency_budget: ms(1_000), ..settings(Service::Coding) });
    network.lose_source_packets([20]);
    network.stream(100);
    let asked: Vec<Time> = network
        .observed(RECEIVER)
        .iter()
        .filter(|(_, message)| *message == nack(&[(20, 1)]))
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(asked.len(), usize::from(NACKS_PER_PACKET_MAX));
    // The round trip to the relay is 20 ms.
    let waited: Vec<_> = asked.windows(2).map(|pair| pair[1].saturating_since(pair[0])).collect();
    assert_eq!(waited, [ms(30), ms(60), ms(120), ms(240)]);
}

#[test]
fn what_came_is_asked_for_no_more() {
    let mut network = streamed([5], 8);
    let coded = network.copy(5);
    network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, 5, &coded);
    network.run(ms(15));
    network.forget();
    network.stream(20);
    let asks = |message: &ObservedMessage| matches!(message, ObservedMessage::Nack { ranges, .. } if !ranges.is_empty());
    assert!(!network.observed_messages(RECEIVER).iter().any(asks));
}

#[test]
fn a_packet_for_which_every_repair_is_late_is_lost() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([5]);
    network.stream(20);
    assert_eq!(network.statistics().lost, 0);
    network.stream(30);
    assert_eq!(network.statistics().lost, 1);
}

#[test]
fn packets_sent_before_one_whose_repair_is_late_are_not_requested_again() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(100);
    network.lose_source_packets(100..140);
    network.stream(45);
    network.run(ms(10));
    let coded = network.copy(110);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 110, &coded);
    network.run(ms(10));
    assert_eq!(network.statistics().late, 1);
    network.forget();
    network.stream(20);
    let ranges = |message: ObservedMessage| match message {
        ObservedMessage::Nack { ranges, .. } => ranges,
        _ => Vec::new(),
    };
    let requested: Vec<_> = network.observed_messages(RECEIVER).into_iter().flat_map(ranges).collect();
    assert_eq!(requested.first(), Some(&(111, 29)), "{requested:?}");
    assert!(requested.iter().all(|(first, _)| *first > 110), "{requested:?}");
}

#[test]
fn after_a_silence_all_that_follows_is_asked_for_until_the_path_delivers_again() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(100);
    network.forget();
    network.lose_source_packets(100..150);
    network.stream(60);
    let messages = network.observed(RECEIVER);
    let open =
        ObservedMessage::Nack { open_from: Some(100), by_timer: true, confirms: false, ranges: Vec::new() };
    assert_eq!(messages[0].1, open);
    // The packet is due after 100 + 30 ms of delay at an interval of 10 ms, and not long after
    // that.
    let last =
        network.sent.iter().find(|datagram| datagram.source_sequence() == Some(100)).expect("it was sent").at;
    let noticed = messages[0].0.saturating_since(last + ms(30 + 10));
    assert!(noticed <= ms(20), "{noticed:?}");
    let acks: Vec<&ObservedMessage> = messages
        .iter()
        .map(|(_, message)| message)
        .filter(|message| matches!(message, ObservedMessage::Ack(_)))
        .collect();
    assert_eq!(acks, [&ObservedMessage::Ack(150)]);
    assert_eq!((network.statistics().acks, network.statistics().longest_burst), (1, 50));
}

#[test]
fn a_relay_that_confirms_what_has_arrived_after_an_outage_gets_the_ack_again() {
    let mut network = TestNetwork::new(&settings(Service::Pull));
    let confirm = |network: &mut TestNetwork, number: u64| {
        network.forget();
        let one = ranges([number]);
        let confirm = Confirm { alias: alias_of(RECEIVER), ranges: one.ranges() };
        network.send_from_relay(RECEIVER, &Message::Confirm(confirm));
        network.stream(3);
        let messages = network.observed_messages(RECEIVER);
        messages.into_iter().filter(|message| matches!(message, ObservedMessage::Ack(_))).collect::<Vec<_>>()
    };
    network.stream(100);
    assert_eq!(confirm(&mut network, 90), [], "nothing was silent");
    network.lose_source_packets(103..150);
    network.stream(100);
    assert!(network.observed_messages(RECEIVER).contains(&ObservedMessage::Ack(150)));
    network.stream(100);
    assert_eq!(confirm(&mut network, 290), [ObservedMessage::Ack(150)], "not that of a later packet");
    let repeated = (0..8).map(|_| {
        network.stream(140);
        confirm(&mut network, 290).len()
    });
    assert_eq!(repeated.collect::<Vec<_>>(), [1, 1, 1, 1, 1, 0, 0, 0], "not of an outage of long ago");
    network.lose_source_packets(1_450..1_480);
    network.stream(100);
    assert!(network.observed_messages(RECEIVER).contains(&ObservedMessage::Ack(1_480)));
    network.stream(50);
    let hint = confirm(&mut network, 1_700);
    assert!(!hint.contains(&ObservedMessage::Ack(1_480)), "it has not arrived: {hint:?}");
}

#[test]
fn the_open_question_ends_where_the_direct_path_delivers_after_the_repairs() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.stream(100);
    network.forget();
    network.lose_source_packets(100..110);
    network.stream(10);
    for number in 110..120 {
        network.send(&[0; 50]);
        network.run(ms(10));
        let coded = network.copy(number);
        network.send_envelope_from_relay(EnvelopeRole::CachedRepair, number, &coded);
    }
    network.run(ms(10));
    assert!(network.delivered(Delivery::Cached).len() >= 8, "the repairs arrived first");
    let messages = network.observed_messages(RECEIVER);
    let acked = messages
        .iter()
        .position(|message| *message == ObservedMessage::Ack(110))
        .expect("the path delivers again");
    let asks =
        |message: &ObservedMessage| matches!(message, ObservedMessage::Nack { open_from: Some(_), .. });
    assert!(!messages[acked..].iter().any(asks), "{messages:?}");
}

#[test]
fn an_open_question_is_repeated_ever_more_rarely() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(100);
    network.run(ms(9_000));
    let asked = network.statistics().open_ended_nacks;
    // The receiver repeats its NACK three times, because the first may be lost, and then after
    // increasing silences.
    assert!((4..=10).contains(&asked), "{asked}");
    assert!(
        network
            .observed_messages(RECEIVER)
            .iter()
            .all(|message| matches!(message, ObservedMessage::Nack { open_from: Some(100), .. }))
    );
}

#[test]
fn packets_that_the_open_question_covers_are_not_asked_for_one_by_one_at_once() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(100);
    network.forget();
    network.lose_source_packets(100..110);
    network.stream(14);
    network.run(ms(15));
    let ranges = network
        .observed_messages(RECEIVER)
        .into_iter()
        .filter(|message| matches!(message, ObservedMessage::Nack { ranges, .. } if !ranges.is_empty()));
    assert_eq!(ranges.count(), 0);
    network.run(ms(60));
    assert!(
        network.observed_messages(RECEIVER).contains(&nack(&[(100, 10)])),
        "but when their repairs had time to come"
    );
}

#[test]
fn a_confirm_is_answered_if_packets_are_still_missing_and_only_then() {
    let mut network = streamed([5], 8);
    network.forget();
    let (here, missing) = (ranges([3, 4]), ranges([4, 5, 6]));
    network.send_from_relay(
        RECEIVER,
        &Message::Confirm(Confirm { alias: alias_of(RECEIVER), ranges: here.ranges() }),
    );
    network.run(ms(25));
    let confirms =
        |message: &ObservedMessage| matches!(message, ObservedMessage::Nack { confirms: true, .. });
    assert!(!network.observed_messages(RECEIVER).iter().any(confirms));
    network.send_from_relay(
        RECEIVER,
        &Message::Confirm(Confirm { alias: alias_of(RECEIVER), ranges: missing.ranges() }),
    );
    network.run(ms(25));
    let messages = network.observed_messages(RECEIVER);
    let answers: Vec<&ObservedMessage> = messages.iter().filter(|message| confirms(message)).collect();
    // By now, an open-ended NACK covers everything after the last packet.
    let answer = ObservedMessage::Nack {
        open_from: Some(8),
        by_timer: false,
        confirms: true,
        ranges: alloc::vec![(5, 1)],
    };
    assert_eq!(answers, [&answer]);
}

#[test]
fn a_confirm_of_what_the_open_question_covers_is_answered_with_it() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(100);
    network.run(ms(100));
    network.forget();
    let covered = ranges([100, 101]);
    network.send_from_relay(
        RECEIVER,
        &Message::Confirm(Confirm { alias: alias_of(RECEIVER), ranges: covered.ranges() }),
    );
    network.run(ms(25));
    let answer = ObservedMessage::Nack {
        open_from: Some(100),
        by_timer: false,
        confirms: true,
        ranges: alloc::vec![(100, 2)],
    };
    assert!(network.observed_messages(RECEIVER).contains(&answer));
}

#[test]
fn a_flow_without_relays_asks_for_nothing() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.lose_source_packets([5, 6]);
    network.stream(10);
    network.run(ms(2_000));
    assert_eq!(network.observed_messages(RECEIVER), []);
}

/// Streams `count` packets; the relay forwards each 40 ms after its sending, except `unforwarded`.
fn forwarded(service: Service, count: u8, unforwarded: &[u32], lost: &[u32]) -> TestNetwork {
    let mut network = TestNetwork::new(&settings(service));
    network.lose_source_packets(lost.iter().copied());
    for number in 0..u32::from(count) + 4 {
        if number < count.into() {
            network.send(&[u8::try_from(number).expect("few"); 50]);
        }
        if let Some(number) = number.checked_sub(4).filter(|number| !unforwarded.contains(number)) {
            let coded = network.copy(number);
            network.send_envelope_from_relay(EnvelopeRole::Forwarded, number, &coded);
        }
        network.run(ms(10));
    }
    network
}

#[test]
fn what_relays_alone_deliver_is_asked_for_where_it_does_not_come() {
    let mut network = forwarded(Service::Forwarding, 20, &[9], &[]);
    let messages = network.observed(RECEIVER);
    // Packet 10 reveals the gap, 150 ms after the first was sent.
    let asked: Vec<_> =
        messages.iter().filter(|(_, message)| *message == nack(&[(9, 1)])).map(|(at, _)| *at).collect();
    assert_eq!(asked[0], Time::START + ms(500) + ms(140 + 10 + 3 + 10), "{messages:?}");
    let coded = network.copy(9);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 9, &coded);
    network.run(ms(11));
    assert_eq!(network.delivered(Delivery::Cached), [9]);
    let statistics = network.statistics();
    assert_eq!((statistics.forwarded, statistics.cached, statistics.lost, statistics.bursts), (19, 1, 1, 1));
}

#[test]
fn a_silence_of_what_relays_deliver_is_noticed_and_ended() {
    let mut network = forwarded(Service::Forwarding, 60, &[], &[]);
    assert_eq!(network.observed_messages(RECEIVER), []);
    network.run(ms(30));
    let open =
        ObservedMessage::Nack { open_from: Some(60), by_timer: true, confirms: false, ranges: Vec::new() };
    assert_eq!(network.observed_messages(RECEIVER), [open]);
    network.send(&[60; 50]);
    network.run(ms(20));
    let coded = network.copy(60);
    network.send_envelope_from_relay(EnvelopeRole::Forwarded, 60, &coded);
    network.run(ms(30));
    assert_eq!(network.observed_messages(RECEIVER).last(), Some(&ObservedMessage::Ack(60)));
}

#[test]
fn of_what_comes_on_two_ways_only_that_is_asked_for_which_came_on_neither() {
    // The delay is 30 ms on the direct path, and 50 ms through relays.
    let network = forwarded(Service::Both, 120, &[], &[20, 21, 30]);
    assert_eq!(
        network.observed_messages(RECEIVER),
        [],
        "the slower path delivers the losses of the faster one"
    );
    assert_eq!((network.statistics().forwarded, network.statistics().covered), (3, 3));
    let network = forwarded(Service::Both, 120, &[20, 21, 30], &[]);
    assert_eq!(network.observed_messages(RECEIVER), []);
    assert_eq!((network.statistics().forwarded, network.statistics().covered), (0, 0));
    let network = forwarded(Service::Both, 60, &[30], &[30]);
    let asked = network.observed(RECEIVER).into_iter().find(|(_, message)| *message == nack(&[(30, 1)]));
    // Packet 31 reveals it, and its copy arrives 20 ms later.
    let when = Time::START + ms(500) + ms(310 + 30 + 20 + 3 + 10);
    assert_eq!(asked.map(|(at, _)| at), Some(when));
}

#[test]
fn what_faster_relays_deliver_first_is_lost_only_if_the_direct_path_never_delivers_it() {
    let mut network = TestNetwork::new(&settings(Service::Both));
    network.lose_source_packets([20, 21, 30]);
    for number in 0..120 {
        network.send(&[u8::try_from(number).expect("few"); 50]);
        network.run(ms(10));
        let coded = network.copy(number);
        network.send_envelope_from_relay(EnvelopeRole::Forwarded, number, &coded);
    }
    network.run(ms(100));
    let statistics = network.statistics();
    assert_eq!((statistics.direct, statistics.forwarded, statistics.covered), (0, 120, 3), "{statistics:?}");
}

#[test]
fn of_what_comes_on_two_ways_nothing_is_missing_when_one_goes_dark() {
    let lost: Vec<u32> = (20..60).collect();
    let network = forwarded(Service::Both, 60, &[], &lost);
    assert_eq!(network.observed_messages(RECEIVER), []);
    let network = forwarded(Service::Both, 60, &lost, &[]);
    assert_eq!(network.observed_messages(RECEIVER), []);
}

#[test]
fn more_gaps_than_a_nack_holds_go_into_several() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(2);
    network.run(ms(25));
    network.forget();
    network.loses(|datagram| datagram.source_sequence().is_some());
    (0..200).for_each(|_| network.send(&[0; 50]));
    let source_packets: Vec<Datagram> =
        network.sent.iter().filter(|datagram| datagram.source_sequence().is_some()).cloned().collect();
    source_packets.into_iter().skip(1).step_by(2).for_each(|datagram| network.arrive(datagram));
    network.run(ms(20));
    let asked: usize = network
        .observed_messages(RECEIVER)
        .iter()
        .map(|message| match message {
            ObservedMessage::Nack { ranges, .. } => {
                assert!(ranges.len() <= crate::limits::RANGES_MAX);
                ranges.len()
            }
            _ => 0,
        })
        .sum();
    assert_eq!(asked, 100);
}
