//! Tests of sending: source packets first, copies behind them, within the path MTU to the relay.

use super::*;
use crate::agent::Duplication;
use crate::limits::{COPY_DEPTH, ENVELOPE_OVERHEAD, PENDING_COPIES_MAX, RESEND_REACH};
use byway_wire::messages::CopyNack;

#[test]
fn a_datagram_travels_directly_and_a_copy_of_it_to_the_relay() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.send(b"hello");
    network.run(ms(100));
    assert_eq!(
        network.got,
        [DeliveredDatagram { bytes: b"hello".to_vec(), ecn: Ecn::NotCapable, delivery: Delivery::Direct }]
    );
    let source_packet =
        network.sent.iter().find(|datagram| datagram.source_sequence() == Some(0)).expect("it was sent");
    // The copy has the same coded bytes: everything after the header, from the flags on.
    assert_eq!(source_packet.bytes[11..], network.copy(0));
    assert_eq!(
        (network.agents[SENDER].counters().source_packets, network.agents[SENDER].counters().copies),
        (1, 1)
    );
}

#[test]
fn sent_packets_are_counted_by_segment_and_by_what_the_relay_does_with_them() {
    for (service, copies, relayed_on) in [
        (Service::Coding, 20, 0),
        (Service::Pull, 20, 0),
        (Service::Caching, 20, 20),
        (Service::Internet, 0, 0),
    ] {
        let mut network = TestNetwork::new(&settings(service));
        let flow = network.flow;
        let before = network.agents[SENDER].sent_usage(flow).expect("it is open");
        assert_eq!(before.began, None);
        let began = network.now;
        for _ in 0..20 {
            network.send(&[7; 500]);
            network.run(ms(20));
        }
        network.run(ms(100));
        let usage = network.agents[SENDER].sent_usage(flow).expect("it is open");
        assert_eq!(usage.began, Some(began));
        let packets =
            [usage.source, usage.direct, usage.to_relays, usage.relayed_on].map(|count| count.packets);
        assert_eq!(packets, [20, 20, copies, relayed_on], "{service:?}");
        let on_direct = network.sent.iter().filter(|datagram| datagram.source_sequence().is_some());
        let bytes: usize = on_direct.map(|datagram| datagram.bytes.len()).sum();
        assert_eq!((usage.source.bytes, usage.direct.bytes), (bytes as u64, bytes as u64));
        let envelopes = copies * (bytes as u64 / 20 - 11 + ENVELOPE_OVERHEAD as u64);
        assert_eq!(usage.to_relays.bytes, envelopes);
    }
}

#[test]
fn originals_go_before_copies() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.send(&[7; 1_472]);
    let now = network.now;
    let at_once: Vec<Priority> =
        network.sent.iter().filter(|datagram| datagram.at == now).map(|datagram| datagram.priority).collect();
    assert_eq!(at_once, [Priority::Source, Priority::Source, Priority::Scavenger, Priority::Scavenger]);
}

/// Sends ten long datagrams a second for this time.
fn send_long(network: &mut TestNetwork, bytes: usize, time: Duration) {
    let end = network.now + time;
    while network.now < end {
        network.send(&alloc::vec![7; bytes]);
        network.run(ms(100));
    }
}

/// Returns the number of packets of the last datagram.
fn fragments(network: &TestNetwork) -> usize {
    network.sent.iter().filter(|datagram| datagram.source_sequence().is_some()).count()
}

#[test]
fn a_datagram_of_any_length_up_to_1500_bytes_arrives_whole() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    for expected in [[1, 1, 1, 2, 2, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]] {
        let mut found = Vec::new();
        for length in [0, 1, 1_169, 1_170, 1_354, 1_355, 1_452, 1_472, 1_499, 1_500] {
            network.forget();
            let datagram: Vec<u8> =
                (0..length).map(|index| u8::try_from(index % 251).expect("reduced")).collect();
            network.send(&datagram);
            found.push(fragments(&network));
            network.run(ms(35));
            assert_eq!(
                network.got,
                [DeliveredDatagram { bytes: datagram, ecn: Ecn::NotCapable, delivery: Delivery::Direct }]
            );
        }
        assert_eq!(found, expected);
        // The agents probe the path MTUs in this time.
        send_long(&mut network, 1_500, ms(1_000));
    }
}

/// Returns a network after a stream over narrow paths, with these UDP payloads on the direct path
/// and to the relay.
fn over_narrow_paths(settings: &FlowSettings, direct: usize, relay: usize) -> TestNetwork {
    let mut network = TestNetwork::new(settings);
    network.loses(move |datagram| datagram.bytes.len() > if datagram.to == RELAY { relay } else { direct });
    send_long(&mut network, 1_354, ms(8_000));
    network
}

#[test]
fn no_packet_is_longer_than_the_direct_path_carries() {
    let mut network = over_narrow_paths(&settings(Service::Coding), 1_380, 1_500);
    assert_eq!(network.delivered(Delivery::Direct).len(), 80, "none was lost");
    let counters = *network.agents[SENDER].counters();
    assert_eq!(
        (counters.source_packets, counters.copies, counters.copies_suppressed),
        (160, 160, 0),
        "each in two fragments"
    );
    for (bytes, expected) in [(1_309, 1), (1_310, 2)] {
        network.forget();
        network.send(&alloc::vec![7; bytes]);
        assert_eq!(fragments(&network), expected);
    }
    let (flow, now) = (network.flow, network.now);
    assert_eq!(network.agents[SENDER].datagram_bytes_unfragmented(flow, now), Some(1_309));
}

#[test]
fn a_path_that_carries_less_all_at_once_is_noticed_in_two_round_trips_and_100_ms() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let send = |network: &mut TestNetwork, count: usize| {
        for _ in 0..count {
            network.forget();
            network.send(&[7; 1_354]);
            network.send(&[7; 1_354]);
            network.send(b"short");
            network.run(ms(100));
        }
        fragments(network)
    };
    assert_eq!(send(&mut network, 10), 3);
    network.loses(|datagram| datagram.to != RELAY && datagram.bytes.len() > 1_300);
    assert_eq!(send(&mut network, 1), 3);
    assert_eq!(send(&mut network, 20), 5, "the long datagrams are sent in two fragments");
    let lost = network.agents[RECEIVER].statistics(network.received).map_or(0, |statistics| statistics.lost);
    assert!((2..=4).contains(&lost), "{lost} packets were lost meanwhile");
    let counters = network.agents[SENDER].counters();
    assert_eq!((counters.paths_narrowed, counters.datagrams_too_long_for_path), (1, lost));
}

#[test]
fn a_narrow_way_to_the_relay_is_no_matter_for_originals_and_takes_the_copies_that_fit() {
    let mut network = over_narrow_paths(&settings(Service::Coding), 1_500, 1_360);
    network.forget();
    let before = *network.agents[SENDER].counters();
    for bytes in [1_354, 1_298, 1_299] {
        network.send(&alloc::vec![7; bytes]);
        network.run(ms(50));
    }
    assert_eq!(fragments(&network), 3, "each is one packet");
    let after = network.agents[SENDER].counters();
    assert_eq!((after.copies - before.copies, after.copies_suppressed - before.copies_suppressed), (1, 2));
}

#[test]
fn of_a_flow_that_relays_deliver_no_packet_is_longer_than_the_way_there_carries() {
    let mut settings = settings(Service::Forwarding);
    settings.duplication = Duplication::ByRelay;
    let mut network = TestNetwork::new(&settings);
    network.loses(|datagram| datagram.bytes.len() > 1_360);
    for _ in 0..20 {
        network.send(&alloc::vec![7; 1_354]);
        network.run(ms(50));
        network.forward_copies(2);
        network.run(ms(1_950));
    }
    let lost = network.sent.iter().filter(|datagram| datagram.bytes[0] == 9 && datagram.bytes.len() > 1_360);
    assert_eq!(lost.count(), 0);
    assert!(network.agents[SENDER].counters().copies >= 40, "{:?}", network.agents[SENDER].counters());
}

#[test]
fn a_longer_datagram_is_refused_and_counted() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.send(&[7; 1_501]);
    network.run(ms(100));
    assert_eq!((network.got.len(), network.agents[SENDER].counters().datagrams_too_long), (0, 1));
    assert_eq!(network.agents[SENDER].counters().source_packets, 0);
}

#[test]
fn no_datagram_makes_a_packet_longer_than_the_path_bears() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.send(&[7; 1_354]);
    network.send(&[7; 1_500]);
    network.run(ms(100));
    assert!(network.sent.iter().all(|datagram| datagram.bytes.len() <= 1_472));
}

#[test]
fn what_cannot_be_sealed_is_counted() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.loses(|_| true);
    network.send(b"too early");
    assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 0, "it waits for a session");
    network.run(ms(1_500));
    assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 1);
    network.flow = SendFlowId(7);
    network.send(b"no such flow");
    assert_eq!(network.agents[SENDER].counters().flows_unknown, 1);
}

#[test]
fn copies_are_paced() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    (0..30).for_each(|number| network.send(&[number; 1_000]));
    let began = network.now;
    network.run(ms(100));
    let source_packets = network.sent.iter().filter(|datagram| datagram.source_sequence().is_some());
    assert!(
        source_packets.clone().count() == 30 && source_packets.clone().all(|datagram| datagram.at == began)
    );
    let copies: Vec<&Datagram> = network.sent.iter().filter(|datagram| datagram.bytes[0] == 9).collect();
    assert_eq!(copies.len(), 30);
    // Eight times 2 Mbit/s are 2,000 bytes in a millisecond.
    for (index, copy) in copies.iter().enumerate() {
        let bytes: usize = copies[..=index].iter().map(|copy| copy.bytes.len()).sum();
        let allowed = COPY_DEPTH + copy.at.saturating_since(began).as_micros() * 2 + 2;
        assert!(bytes as u64 <= allowed, "{index}: {bytes} of {allowed}");
    }
    assert!(copies[29].at.saturating_since(began) <= ms(20), "and not slower than need be");
}

#[test]
fn only_so_many_copies_wait_and_originals_do_not_care() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    (0..700_u16).for_each(|number| network.send(&[number.to_be_bytes()[1]; 1_000]));
    let counters = *network.agents[SENDER].counters();
    assert_eq!(counters.source_packets, 700);
    assert_eq!(counters.copies_suppressed, 700 - PENDING_COPIES_MAX as u64 - counters.copies);
    network.run(ms(1_000));
    assert_eq!(network.agents[SENDER].counters().copies + counters.copies_suppressed, 700);
}

#[test]
fn copies_are_held_back_when_they_do_not_arrive() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.loses(|datagram| datagram.bytes[0] == 9);
    for _ in 0..10 {
        network.stream(100);
    }
    let counters = *network.agents[SENDER].counters();
    assert_eq!(counters.source_packets, 1_000);
    assert!(counters.copies < 250 && counters.copies_suppressed > 750, "{counters:?}");
    assert_eq!(network.got.len(), 1_000 - 2, "two are on their way");
    network.loses(|_| false);
    for _ in 0..20 {
        network.stream(100);
    }
    let later = *network.agents[SENDER].counters();
    assert!(later.copies - counters.copies > 700, "{later:?}");
}

#[test]
fn copies_are_held_back_while_they_queue() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(100);
    assert_eq!(network.agents[SENDER].counters().copies_suppressed, 0);
    network.relayed = ms(45);
    (0..3).for_each(|_| network.stream(100));
    let held = network.agents[SENDER].counters().copies_suppressed;
    assert!(held > 100, "{held}");
    network.relayed = ms(10);
    network.stream(100);
    let held = network.agents[SENDER].counters().copies_suppressed;
    network.stream(100);
    assert_eq!(network.agents[SENDER].counters().copies_suppressed, held);
}

#[test]
fn a_copy_that_the_relay_misses_is_sent_again() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(10);
    let missed = ranges([3, 5]);
    network.send_from_relay(
        SENDER,
        &Message::CopyNack(CopyNack { alias: alias_of(SENDER), ranges: missed.ranges() }),
    );
    network.run(ms(50));
    assert_eq!(network.enveloped(EnvelopeRole::ResentCopy), [3, 5]);
    assert_eq!(network.agents[SENDER].counters().copies_resent, 2);
}

#[test]
fn copies_that_are_not_kept_any_more_are_counted() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let sent = RESEND_REACH as u64 + 50;
    for _ in 0..sent {
        network.send(b"x");
        network.run(ms(1));
    }
    let missed = ranges([10, sent - 1, sent + 10]);
    network.send_from_relay(
        SENDER,
        &Message::CopyNack(CopyNack { alias: alias_of(SENDER), ranges: missed.ranges() }),
    );
    network.run(ms(50));
    assert_eq!(network.enveloped(EnvelopeRole::ResentCopy), [u32::try_from(sent - 1).expect("small")]);
    assert_eq!(network.agents[SENDER].counters().copies_expired, 2);
}

#[test]
fn a_copy_nack_of_everything_costs_no_more_than_is_kept() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(20);
    let missed = ranges(0..8_000);
    network.send_from_relay(
        SENDER,
        &Message::CopyNack(CopyNack { alias: alias_of(SENDER), ranges: missed.ranges() }),
    );
    network.run(ms(50));
    let counters = network.agents[SENDER].counters();
    assert_eq!((counters.copies_resent, counters.copies_expired), (20, RESEND_REACH as u64 - 20));
}

#[test]
fn a_flow_that_copies_some_packets_says_so_and_copies_those() {
    let marked = FlowSettings { duplication: Duplication::Marked, ..settings(Service::Coding) };
    let mut network = TestNetwork::unregistered(&marked);
    network.run(ms(500));
    assert!(
        network.relay.observed.iter().any(|(_, _, message)| *message
            == ObservedMessage::Register { role: FlowRole::Sender, selective: true })
    );
    network.forget();
    for number in 0..10 {
        network.send_as(b"x", Ecn::NotCapable, number % 4 == 0);
    }
    network.run(ms(50));
    assert_eq!(network.enveloped(EnvelopeRole::Copy), [0, 4, 8]);
    let chosen =
        FlowSettings { duplication: Duplication::Chosen(|bytes| bytes[0] == 3), ..settings(Service::Coding) };
    let mut network = TestNetwork::new(&chosen);
    network.stream(10);
    network.run(ms(50));
    assert_eq!(network.enveloped(EnvelopeRole::Copy), [3]);
}

#[test]
fn the_internet_service_copies_nothing_and_forwarding_sends_no_originals() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.stream(5);
    assert_eq!(
        (network.agents[SENDER].counters().source_packets, network.agents[SENDER].counters().copies),
        (5, 0)
    );
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    network.stream(5);
    assert_eq!(
        (network.agents[SENDER].counters().source_packets, network.agents[SENDER].counters().copies),
        (0, 5)
    );
}

#[test]
fn the_ecn_field_of_the_application_goes_with_its_packet() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.send_as(b"x", Ecn::Capable0, false);
    network.run(ms(50));
    assert_eq!(network.got[0].ecn, Ecn::Capable0);
    let ecn: Vec<Ecn> =
        network.sent.iter().filter(|one| matches!(one.bytes[0], 7 | 9)).map(|one| one.ecn).collect();
    assert_eq!(ecn, [Ecn::Capable0, Ecn::NotCapable], "the copy is not ECN-capable");
}
