//! Tests of in-order delivery: packets behind a gap wait as long as necessary, and no longer.

use super::*;
use crate::agent::{Duplication, Traffic};
use byway_wire::messages::Confirm;

/// Quarter of the round trip between the agents.
const QUARTER: Duration = ms(15);

/// Time from the arrival of a packet that reveals a gap to the relay's receipt of the NACK.
const NACK_DELAY: Duration = ms(5);

fn ordered(service: Service) -> FlowSettings {
    FlowSettings {
        traffic: Traffic::CongestionControlled,
        duplication: Duplication::All,
        ..settings(service)
    }
}

/// Returns a network with a near relay: a repair arrives within a quarter of the round trip.
fn near(settings: &FlowSettings) -> TestNetwork {
    let mut network = TestNetwork::unregistered(settings);
    network.relayed = ms(2);
    network.run(ms(500));
    network.forget();
    network
}

/// Streams packets 0 to 4 without 3, until 4 arrives.
fn with_a_gap(network: &mut TestNetwork) {
    network.lose_source_packets([3]);
    network.stream(4);
    network.send(&[4; 50]);
    network.run(network.direct);
}

fn got(network: &TestNetwork) -> Vec<u8> {
    network.got.iter().map(|got| got.bytes[0]).collect()
}

fn holds_nothing(network: &TestNetwork) -> bool {
    network.agents[RECEIVER].receivers[0].active().is_none_or(|active| active.reorder_buffer.is_none())
}

#[test]
fn what_follows_a_gap_is_delivered_after_its_repair() {
    let mut network = near(&ordered(Service::Caching));
    with_a_gap(&mut network);
    assert_eq!(got(&network), [0, 1, 2]);
    network.run(NACK_DELAY);
    assert_eq!(
        (network.observed_messages(RECEIVER), network.relay.repair_lifetime),
        (alloc::vec![nack(&[(3, 1)])], QUARTER)
    );
    let coded = network.copy(3);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &coded);
    network.run(ms(2));
    assert_eq!(got(&network), [0, 1, 2, 3, 4]);
    assert_eq!((network.statistics().reordering_buffered, network.statistics().gaps_passed), (1, 0));
    assert!(holds_nothing(&network));
}

#[test]
fn no_packet_waits_for_longer_than_a_quarter_of_the_round_trip() {
    let mut network = near(&ordered(Service::Caching));
    with_a_gap(&mut network);
    network.run(QUARTER - ms(1));
    assert_eq!(got(&network), [0, 1, 2]);
    network.run(ms(2));
    assert_eq!(got(&network), [0, 1, 2, 4]);
    assert_eq!((network.statistics().reordering_buffered, network.statistics().gaps_passed), (1, 1));
    assert!(holds_nothing(&network));
    // Later packets pass at once, without another NACK.
    network.send(&[5; 50]);
    network.run(ms(30));
    assert_eq!(got(&network), [0, 1, 2, 4, 5]);
    let third = ranges([3]);
    let confirm = Confirm { alias: alias_of(RECEIVER), ranges: third.ranges() };
    network.send_from_relay(RECEIVER, &Message::Confirm(confirm));
    network.run(ms(50));
    // The receiver requests it once, and again after one and a half round trips of 4 ms. The
    // open-ended NACK is separate.
    let asked = network.observed_messages(RECEIVER).into_iter();
    let asked = asked.filter(
        |message| matches!(message, ObservedMessage::Nack { ranges, .. } if ranges.contains(&(3, 1))),
    );
    assert_eq!(asked.collect::<Vec<_>>(), [nack(&[(3, 1)]), nack(&[(3, 1)])]);
}

#[test]
fn a_repair_that_comes_too_late_for_the_order_is_not_delivered_and_the_original_is() {
    let mut network = near(&ordered(Service::Caching));
    with_a_gap(&mut network);
    network.run(QUARTER + ms(1));
    let coded = network.copy(3);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &coded);
    network.run(ms(2));
    assert_eq!((got(&network), network.statistics().late), (alloc::vec![0, 1, 2, 4], 1));
    let source_packet = network.sent.iter().find(|sent| sent.source_sequence() == Some(3)).cloned();
    network.arrive(source_packet.expect("it was sent"));
    assert_eq!(got(&network), [0, 1, 2, 4, 3]);
}

#[test]
fn where_no_repair_can_come_in_time_nothing_waits_and_nothing_is_repaired() {
    // The round trip to the relay is 20 ms.
    let mut network = TestNetwork::new(&ordered(Service::Caching));
    with_a_gap(&mut network);
    assert_eq!(got(&network), [0, 1, 2, 4]);
    network.run(ms(10));
    assert_eq!(network.observed_messages(RECEIVER), []);
    let coded = network.copy(3);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &coded);
    network.run(ms(10));
    assert_eq!((got(&network), network.statistics().reordering_buffered), (alloc::vec![0, 1, 2, 4], 0));
}

#[test]
fn help_of_others_takes_twice_as_long_as_what_the_relay_has() {
    let mut rates = ordered(Service::Coding);
    for (in_stream, relayed, waits) in [(true, 5, true), (false, 5, false), (false, 2, true)] {
        if !in_stream {
            rates.rates.in_stream = None;
        }
        let mut network = TestNetwork::unregistered(&rates);
        network.relayed = ms(relayed);
        network.run(ms(500));
        network.forget();
        with_a_gap(&mut network);
        assert_eq!(network.statistics().reordering_buffered, u64::from(waits), "{in_stream} {relayed}");
    }
}

#[test]
fn the_end_of_a_burst_is_asked_for_however_far_the_relay_is() {
    let mut network = TestNetwork::new(&ordered(Service::Caching));
    network.lose_source_packets([8, 9]);
    network.stream(10);
    network.run(ms(200));
    assert!(
        network
            .observed_messages(RECEIVER)
            .iter()
            .any(|message| matches!(message, ObservedMessage::Nack { open_from: Some(8), .. }))
    );
    assert_eq!(network.relay.repair_lifetime, ms(250 - 30), "what nothing follows is of use for longer");
    for number in [8, 9] {
        let coded = network.copy(number);
        network.send_envelope_from_relay(EnvelopeRole::CachedRepair, number, &coded);
    }
    network.run(ms(20));
    assert_eq!(got(&network), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_dead_relay_keeps_nothing_waiting() {
    let mut network = near(&ordered(Service::Caching));
    network.stream(10);
    network.loses(|datagram| datagram.from == RELAY || datagram.to == RELAY);
    network.stream(200);
    network.loses(|datagram| {
        datagram.from == RELAY || datagram.to == RELAY || datagram.source_sequence() == Some(215)
    });
    network.stream(20);
    network.run(ms(100));
    assert_eq!((network.got.len(), network.statistics().reordering_buffered), (229, 0));
}

#[test]
fn datagrams_are_delivered_as_they_come() {
    let mut network = near(&settings(Service::Caching));
    with_a_gap(&mut network);
    assert_eq!(got(&network), [0, 1, 2, 4]);
    network.run(QUARTER + NACK_DELAY);
    let coded = network.copy(3);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &coded);
    network.run(ms(2));
    assert_eq!((got(&network), network.statistics().reordering_buffered), (alloc::vec![0, 1, 2, 4, 3], 0));
}

#[test]
fn bulk_data_is_neither_copied_nor_waited_nor_asked_for_but_what_is_marked_is() {
    let usual = FlowSettings { duplication: Duplication::Usual, ..ordered(Service::Caching) };
    for marked in [false, true] {
        let mut network = near(&usual);
        network.lose_source_packets([3]);
        for number in 0..5 {
            network.send_as(&[number; 50], Ecn::NotCapable, marked && number == 3);
            network.run(ms(2));
        }
        let copies = if marked { alloc::vec![3] } else { alloc::vec![] };
        assert_eq!(network.enveloped(EnvelopeRole::Copy), copies);
        network.run(ms(28));
        assert_eq!(network.statistics().reordering_buffered, u64::from(marked));
        network.run(ms(10));
        assert_eq!(network.observed_messages(RECEIVER).contains(&nack(&[(3, 1)])), marked);
    }
}

#[test]
fn datagrams_that_were_not_copied_are_not_asked_for() {
    let marked = FlowSettings { duplication: Duplication::Marked, ..settings(Service::Caching) };
    let mut network = near(&marked);
    network.lose_source_packets([3, 6]);
    for number in 0..12 {
        network.send_as(&[number; 50], Ecn::NotCapable, number == 6);
        network.run(ms(10));
    }
    network.run(ms(40));
    let asked: Vec<ObservedMessage> = network
        .observed_messages(RECEIVER)
        .into_iter()
        .filter(|message| *message == nack(&[(3, 1)]) || *message == nack(&[(6, 1)]))
        .collect();
    assert!(asked.len() > 1 && asked.iter().all(|message| *message == nack(&[(6, 1)])), "{asked:?}");
}

#[test]
fn what_waits_when_the_sender_begins_anew_is_delivered_first() {
    let mut network = near(&ordered(Service::Caching));
    with_a_gap(&mut network);
    let now = network.now;
    let mut fresh = agent(SENDER, 90, 2_000, now);
    network.flow = fresh.open_flow(key(), ordered(Service::Caching), now).expect("the peer was added");
    network.agents[SENDER] = fresh;
    // The handshake ends before the wait does.
    network.direct = ms(3);
    network.drain(SENDER);
    network.run(QUARTER - ms(2));
    assert_eq!(got(&network), [0, 1, 2, 4]);
}

#[test]
fn a_packet_without_a_mark_of_its_own_is_not_delivered_with_one() {
    use Ecn::{Capable0, Capable1, CongestionExperienced as Ce, NotCapable};
    for (inner, outer, expected) in [
        (NotCapable, NotCapable, Some(NotCapable)),
        (NotCapable, Capable0, Some(NotCapable)),
        (NotCapable, Ce, None),
        (Capable0, Capable0, Some(Capable0)),
        (Capable0, Ce, Some(Ce)),
        (Capable0, Capable1, Some(Capable1)),
        (Capable1, Ce, Some(Ce)),
        (Ce, NotCapable, Some(Ce)),
    ] {
        let mut network = TestNetwork::new(&settings(Service::Coding));
        network.send_as(&[1; 50], inner, false);
        for datagram in network.flying.values_mut().filter(|datagram| datagram.source_sequence().is_some()) {
            datagram.ecn = outer;
        }
        network.run(ms(30));
        assert_eq!(network.got.first().map(|got| got.ecn), expected, "{inner} in {outer}");
        assert_eq!(network.statistics().marked_dropped, u64::from(expected.is_none()));
        // The dropped packet has arrived: a repair would hide the congestion.
        network.stream(5);
        network.run(ms(30));
        assert_eq!((network.observed_messages(RECEIVER), network.statistics().direct), (alloc::vec![], 6));
    }
}

#[test]
fn marks_of_the_overlay_count_where_it_is_the_way() {
    for (service, expected) in [(Service::Forwarding, Ecn::Capable0), (Service::Both, Ecn::NotCapable)] {
        let mut network = TestNetwork::new(&settings(service));
        network.send_as(&[1; 50], Ecn::Capable0, false);
        network.run(ms(10));
        let copy = network.sent.iter().find(|one| one.bytes[0] == 9).expect("a copy was sent");
        assert_eq!(copy.ecn, expected, "{service:?}");
    }
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    network.send_as(&[1; 50], Ecn::Capable0, false);
    network.run(ms(10));
    let coded = network.copy(0);
    network.send_envelope_from_relay(EnvelopeRole::Forwarded, 0, &coded);
    network.flying.values_mut().for_each(|datagram| datagram.ecn = Ecn::CongestionExperienced);
    network.run(ms(10));
    assert_eq!(network.got.first().map(|got| got.ecn), Some(Ecn::CongestionExperienced));
}
