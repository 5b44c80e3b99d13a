//! Tests of received packets.

use super::*;
use crate::limits::{FLOW_IDLE_TIMEOUT, RECEIVER_BLOCKS_MAX};

#[test]
fn what_comes_twice_is_delivered_once() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(5);
    network.run(ms(50));
    let source_packet = network
        .sent
        .iter()
        .find(|datagram| datagram.source_sequence() == Some(2))
        .cloned()
        .expect("it was sent");
    network.arrive(source_packet);
    let coded = network.copy(3);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &coded);
    network.send_envelope_from_relay(EnvelopeRole::Forwarded, 4, &coded);
    network.run(ms(50));
    assert_eq!((network.got.len(), network.statistics().duplicates), (5, 3));
}

#[test]
fn a_repaired_packet_tells_an_ecn_capable_sender_of_congestion_and_no_other() {
    for (ecn, expected) in [
        (Ecn::NotCapable, Ecn::NotCapable),
        (Ecn::Capable0, Ecn::CongestionExperienced),
        (Ecn::Capable1, Ecn::CongestionExperienced),
        (Ecn::CongestionExperienced, Ecn::CongestionExperienced),
    ] {
        for role in [EnvelopeRole::CachedRepair, EnvelopeRole::CooperativeRepair] {
            let mut network = TestNetwork::new(&settings(Service::Coding));
            network.lose_source_packets([1]);
            network.stream(1);
            network.send_as(&[1; 50], ecn, false);
            network.run(ms(15));
            let coded = network.copy(1);
            network.send_envelope_from_relay(role, 1, &coded);
            network.run(ms(15));
            assert_eq!(network.got.last().map(|got| (got.bytes[0], got.ecn)), Some((1, expected)));
        }
    }
}

#[test]
fn a_forwarded_packet_keeps_its_ecn_field() {
    let mut network = TestNetwork::new(&settings(Service::Both));
    network.lose_source_packets([0]);
    network.send_as(&[1; 50], Ecn::Capable0, false);
    network.run(ms(15));
    let coded = network.copy(0);
    network.send_envelope_from_relay(EnvelopeRole::Forwarded, 0, &coded);
    network.run(ms(15));
    assert_eq!(
        network.got,
        [DeliveredDatagram { bytes: alloc::vec![1; 50], ecn: Ecn::Capable0, delivery: Delivery::Forwarded }]
    );
}

#[test]
fn a_late_repair_is_counted_and_not_delivered() {
    // The budget is 250 ms, and the one-way delay 30 ms: 220 ms remain.
    for (wait, is_late) in [(190, false), (230, true)] {
        let mut network = TestNetwork::new(&settings(Service::Coding));
        network.stream(100);
        network.lose_source_packets([100]);
        network.send(&[77; 50]);
        let sent = network.now;
        network.run(ms(15));
        let coded = network.copy(100);
        network.run((sent + ms(30 + wait - 10)).saturating_since(network.now));
        network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, 100, &coded);
        network.run(ms(15));
        let statistics = network.statistics();
        let repaired = usize::from(!is_late);
        assert_eq!(
            (network.delivered(Delivery::Cooperative).len(), statistics.late),
            (repaired, u64::from(is_late)),
            "{wait}"
        );
        assert_eq!(statistics.cooperative, repaired as u64);
    }
}

#[test]
fn what_does_not_open_is_delivered_to_nobody() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([2, 3]);
    network.stream(6);
    network.run(ms(50));
    let mut false_repair = network.copy(2);
    false_repair[10] ^= 1;
    network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, 2, &false_repair);
    // The packet is genuine, but has another's number.
    let other = network.copy(4);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &other);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &[0; 3]);
    network.run(ms(15));
    assert_eq!((network.got.len(), network.statistics().false_repairs), (4, 2));
    assert_eq!(network.agents[RECEIVER].session_counters().malformed, 1, "shorter than any packet");
    let mut forged = network
        .sent
        .iter()
        .find(|datagram| datagram.source_sequence() == Some(2))
        .cloned()
        .expect("it was sent");
    forged.bytes[20] ^= 1;
    network.arrive(forged);
    assert_eq!((network.got.len(), network.statistics().forged), (4, 1));
    // The receiver still accepts the genuine packet.
    let genuine = network.copy(2);
    network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, 2, &genuine);
    network.run(ms(15));
    assert_eq!(network.delivered(Delivery::Cooperative), [2]);
}

#[test]
fn a_repair_packet_of_the_flow_restores_the_packet_that_is_missing() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([3]);
    network.stream(5);
    network.run(ms(50));
    network.send_in_stream_repair(0, 5);
    network.run(ms(15));
    assert_eq!(network.delivered(Delivery::InStream), [3]);
    assert_eq!(network.statistics().in_stream, 1);
}

#[test]
fn a_repair_packet_that_does_not_suffice_waits_for_another_packet() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([1, 3]);
    network.stream(5);
    network.run(ms(50));
    network.send_in_stream_repair(0, 5);
    network.run(ms(15));
    assert_eq!(network.delivered(Delivery::InStream), []);
    let coded = network.copy(1);
    network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, 1, &coded);
    network.run(ms(15));
    assert_eq!(
        (network.delivered(Delivery::Cooperative), network.delivered(Delivery::InStream)),
        (alloc::vec![1], alloc::vec![3])
    );
}

#[test]
fn only_so_many_blocks_wait() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let blocks = u32::try_from(RECEIVER_BLOCKS_MAX).expect("few") + 1;
    network.lose_source_packets((0..blocks).flat_map(|block| [block * 4 + 1, block * 4 + 2]));
    network.stream(u8::try_from(blocks * 4 + 1).expect("few"));
    network.run(ms(50));
    (0..blocks).for_each(|block| network.send_in_stream_repair(block * 4, 4));
    for block in 0..blocks {
        let coded = network.copy(block * 4 + 1);
        network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, block * 4 + 1, &coded);
    }
    network.run(ms(15));
    assert_eq!(network.delivered(Delivery::InStream), [6, 10, 14, 18], "the oldest was dropped");
}

#[test]
fn two_pieces_are_joined_whichever_way_they_come() {
    for lost in [0, 1] {
        let mut network = TestNetwork::new(&settings(Service::Coding));
        network.lose_source_packets([lost]);
        let datagram: Vec<u8> =
            (0..1_500_u32).map(|index| u8::try_from(index % 251).expect("reduced")).collect();
        network.send_as(&datagram, Ecn::Capable0, false);
        network.run(ms(50));
        assert_eq!(network.got, []);
        let coded = network.copy(lost);
        network.send_envelope_from_relay(EnvelopeRole::CachedRepair, lost, &coded);
        network.run(ms(15));
        assert_eq!(
            network.got,
            [DeliveredDatagram {
                bytes: datagram,
                ecn: Ecn::CongestionExperienced,
                delivery: Delivery::Cached
            }]
        );
    }
}

#[test]
fn nothing_is_delivered_twice_across_a_rest() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(5);
    network.run(FLOW_IDLE_TIMEOUT + ms(500));
    let source_packet = network
        .sent
        .iter()
        .find(|datagram| datagram.source_sequence() == Some(2))
        .cloned()
        .expect("it was sent");
    network.arrive(source_packet);
    assert_eq!((network.got.len(), network.statistics().duplicates), (5, 1));
    network.stream(5);
    network.run(ms(50));
    assert_eq!(network.got.len(), 10);
}

#[test]
fn a_sender_that_restarts_begins_with_its_first_number_again() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(5);
    network.run(ms(500));
    network.agents[SENDER] = agent(SENDER, 99, 60_000_000_000, network.now);
    network.flow = network.agents[SENDER]
        .open_flow(key(), settings(Service::Coding), network.now)
        .expect("the peer was added");
    network.drain(SENDER);
    network.run(ms(500));
    network.stream(5);
    network.run(ms(50));
    assert_eq!((network.got.len(), network.statistics().duplicates), (10, 0));
}

#[test]
fn the_sender_learns_the_true_loss() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([10, 11, 12]);
    network.stream(13);
    network.run(ms(15));
    for number in [10, 11, 12] {
        let coded = network.copy(number);
        network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, number, &coded);
    }
    network.stream(10);
    network.run(ms(1_100));
    let report = network.agents[SENDER].report(network.flow).expect("the receiver reported");
    assert_eq!((report.direct, report.lost, report.repaired.cooperative), (20, 3, 3));
    assert_eq!((report.bursts, report.longest_burst), (1, 3));
    assert_eq!(network.delivered(Delivery::Direct).len(), 20);
}

#[test]
fn delays_are_those_of_the_last_second_in_which_packets_came() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let p99 = |network: &TestNetwork| {
        let report = network.agents[SENDER].report(network.flow).expect("the receiver reported");
        report.delay.p99.duration()
    };
    network.stream(50);
    network.direct = ms(70);
    network.stream(50);
    network.run(ms(200));
    assert_eq!(p99(&network), ms(40));
    network.direct = ms(30);
    // A second of packets ends one histogram; seconds without packets do not change the next one.
    network.stream(250);
    network.run(ms(3_000));
    assert_eq!(p99(&network), Duration::ZERO);
}

#[test]
fn garbage_of_a_relay_before_the_first_packet_costs_none_of_the_direct_path() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 0, &[0; 60]);
    network.run(ms(15));
    network.stream(3);
    network.run(ms(50));
    assert_eq!((network.got.len(), network.statistics().false_repairs), (3, 1));
}

#[test]
fn forged_packets_before_the_first_packets_of_a_flow_cost_none_of_them() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    for number in 0..5 {
        network.send(&[number; 50]);
        let sealed = network.sent.iter().rev().find(|datagram| datagram.source_sequence().is_some());
        let mut forged = sealed.expect("a source packet was sent").clone();
        let last = forged.bytes.len() - 1;
        forged.bytes[last] ^= 1;
        // The forged packet overtakes the source packet.
        for _ in 0..=number {
            network.arrive(forged.clone());
        }
        network.run(ms(40));
    }
    assert_eq!(network.delivered(Delivery::Direct), [0, 1, 2, 3, 4]);
    assert!(network.statistics().forged > 0);
}

#[test]
fn a_receiver_that_joins_a_flow_of_many_months_finds_its_numbers() {
    for high_bits in [1, 5, u64::from(crate::limits::HIGH_BITS_TRIED) - 1] {
        let mut network = TestNetwork::new(&settings(Service::Internet));
        network.agents[SENDER].senders[0].next = SequenceNumber::new(high_bits << 32 | 7);
        network.stream(150);
        network.run(ms(100));
        let unopened = 2 * high_bits - 1;
        let delivered = 150 - usize::try_from(unopened).expect("few");
        assert_eq!((network.got.len(), network.statistics().forged), (delivered, unopened));
    }
}
