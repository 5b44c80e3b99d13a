//! What the receiver makes of what comes.

use super::*;
use crate::limits::{FLOW_REST, RECEIVER_BLOCKS_MAX};

#[test]
fn what_comes_twice_is_delivered_once() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(5);
    hall.run(ms(50));
    let original =
        hall.sent.iter().find(|datagram| datagram.original() == Some(2)).cloned().expect("it was sent");
    hall.arrive(original);
    let coded = hall.copy(3);
    hall.gives(EnvelopeRole::CachedRepair, 3, &coded);
    hall.gives(EnvelopeRole::Forwarded, 4, &coded);
    hall.run(ms(50));
    assert_eq!((hall.got.len(), hall.statistics().duplicates), (5, 3));
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
            let mut hall = Hall::new(&settings(Service::Coding));
            hall.loses_originals([1]);
            hall.stream(1);
            hall.send_as(&[1; 50], ecn, false);
            hall.run(ms(15));
            let coded = hall.copy(1);
            hall.gives(role, 1, &coded);
            hall.run(ms(15));
            assert_eq!(hall.got.last().map(|got| (got.bytes[0], got.ecn)), Some((1, expected)));
        }
    }
}

#[test]
fn a_forwarded_packet_keeps_its_ecn_field() {
    let mut hall = Hall::new(&settings(Service::Both));
    hall.loses_originals([0]);
    hall.send_as(&[1; 50], Ecn::Capable0, false);
    hall.run(ms(15));
    let coded = hall.copy(0);
    hall.gives(EnvelopeRole::Forwarded, 0, &coded);
    hall.run(ms(15));
    assert_eq!(
        hall.got,
        [Got { bytes: alloc::vec![1; 50], ecn: Ecn::Capable0, delivery: Delivery::Forwarded }]
    );
}

#[test]
fn a_late_repair_is_counted_and_not_delivered() {
    // A budget of 250 ms, of which 30 ms are the way: 220 ms remain.
    for (wait, is_late) in [(190, false), (230, true)] {
        let mut hall = Hall::new(&settings(Service::Coding));
        hall.stream(100);
        hall.loses_originals([100]);
        hall.send(&[77; 50]);
        let sent = hall.now;
        hall.run(ms(15));
        let coded = hall.copy(100);
        hall.run((sent + ms(30 + wait - 10)).saturating_since(hall.now));
        hall.gives(EnvelopeRole::CooperativeRepair, 100, &coded);
        hall.run(ms(15));
        let statistics = hall.statistics();
        let repaired = usize::from(!is_late);
        assert_eq!(
            (hall.delivered(Delivery::Cooperative).len(), statistics.late),
            (repaired, u64::from(is_late)),
            "{wait}"
        );
        assert_eq!(statistics.cooperative, repaired as u64);
    }
}

#[test]
fn what_does_not_open_is_delivered_to_nobody() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([2, 3]);
    hall.stream(6);
    hall.run(ms(50));
    let mut false_repair = hall.copy(2);
    false_repair[10] ^= 1;
    hall.gives(EnvelopeRole::CooperativeRepair, 2, &false_repair);
    // A genuine packet, under another's number.
    let other = hall.copy(4);
    hall.gives(EnvelopeRole::CachedRepair, 3, &other);
    hall.gives(EnvelopeRole::CachedRepair, 3, &[0; 3]);
    hall.run(ms(15));
    assert_eq!((hall.got.len(), hall.statistics().false_repairs), (4, 2));
    assert_eq!(hall.agents[RECEIVER].session_counters().malformed, 1, "shorter than any packet");
    let mut forged =
        hall.sent.iter().find(|datagram| datagram.original() == Some(2)).cloned().expect("it was sent");
    forged.bytes[20] ^= 1;
    hall.arrive(forged);
    assert_eq!((hall.got.len(), hall.statistics().forged), (4, 1));
    // The genuine one is as welcome as before.
    let genuine = hall.copy(2);
    hall.gives(EnvelopeRole::CooperativeRepair, 2, &genuine);
    hall.run(ms(15));
    assert_eq!(hall.delivered(Delivery::Cooperative), [2]);
}

#[test]
fn a_repair_packet_of_the_flow_restores_the_packet_that_is_missing() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([3]);
    hall.stream(5);
    hall.run(ms(50));
    hall.gives_own_repair(0, 5);
    hall.run(ms(15));
    assert_eq!(hall.delivered(Delivery::InStream), [3]);
    assert_eq!(hall.statistics().in_stream, 1);
}

#[test]
fn a_repair_packet_that_does_not_suffice_waits_for_another_packet() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([1, 3]);
    hall.stream(5);
    hall.run(ms(50));
    hall.gives_own_repair(0, 5);
    hall.run(ms(15));
    assert_eq!(hall.delivered(Delivery::InStream), []);
    let coded = hall.copy(1);
    hall.gives(EnvelopeRole::CooperativeRepair, 1, &coded);
    hall.run(ms(15));
    assert_eq!(
        (hall.delivered(Delivery::Cooperative), hall.delivered(Delivery::InStream)),
        (alloc::vec![1], alloc::vec![3])
    );
}

#[test]
fn only_so_many_blocks_wait() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let blocks = u32::try_from(RECEIVER_BLOCKS_MAX).expect("few") + 1;
    hall.loses_originals((0..blocks).flat_map(|block| [block * 4 + 1, block * 4 + 2]));
    hall.stream(u8::try_from(blocks * 4 + 1).expect("few"));
    hall.run(ms(50));
    (0..blocks).for_each(|block| hall.gives_own_repair(block * 4, 4));
    for block in 0..blocks {
        let coded = hall.copy(block * 4 + 1);
        hall.gives(EnvelopeRole::CooperativeRepair, block * 4 + 1, &coded);
    }
    hall.run(ms(15));
    assert_eq!(hall.delivered(Delivery::InStream), [6, 10, 14, 18], "the oldest gave way");
}

#[test]
fn two_pieces_are_joined_whichever_way_they_come() {
    for lost in [0, 1] {
        let mut hall = Hall::new(&settings(Service::Coding));
        hall.loses_originals([lost]);
        let datagram: Vec<u8> =
            (0..1_500_u32).map(|place| u8::try_from(place % 251).expect("reduced")).collect();
        hall.send_as(&datagram, Ecn::Capable0, false);
        hall.run(ms(50));
        assert_eq!(hall.got, []);
        let coded = hall.copy(lost);
        hall.gives(EnvelopeRole::CachedRepair, lost, &coded);
        hall.run(ms(15));
        assert_eq!(
            hall.got,
            [Got { bytes: datagram, ecn: Ecn::CongestionExperienced, delivery: Delivery::Cached }]
        );
    }
}

#[test]
fn nothing_is_delivered_twice_across_a_rest() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(5);
    hall.run(FLOW_REST + ms(500));
    let original =
        hall.sent.iter().find(|datagram| datagram.original() == Some(2)).cloned().expect("it was sent");
    hall.arrive(original);
    assert_eq!((hall.got.len(), hall.statistics().duplicates), (5, 1));
    hall.stream(5);
    hall.run(ms(50));
    assert_eq!(hall.got.len(), 10);
}

#[test]
fn a_sender_that_restarts_begins_with_its_first_number_again() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(5);
    hall.run(ms(500));
    hall.agents[SENDER] = agent(SENDER, 99, 60_000_000_000, hall.now);
    hall.flow = hall.agents[SENDER]
        .open_flow(key(), settings(Service::Coding), hall.now)
        .expect("the peer was added");
    hall.drain(SENDER);
    hall.run(ms(500));
    hall.stream(5);
    hall.run(ms(50));
    assert_eq!((hall.got.len(), hall.statistics().duplicates), (10, 0));
}

#[test]
fn the_sender_learns_the_true_loss() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses_originals([10, 11, 12]);
    hall.stream(13);
    hall.run(ms(15));
    for number in [10, 11, 12] {
        let coded = hall.copy(number);
        hall.gives(EnvelopeRole::CooperativeRepair, number, &coded);
    }
    hall.stream(10);
    hall.run(ms(1_100));
    let report = hall.agents[SENDER].report(hall.flow).expect("the receiver reported");
    assert_eq!((report.direct, report.lost, report.repaired.cooperative), (20, 3, 3));
    assert_eq!((report.bursts, report.longest_burst), (1, 3));
    assert_eq!(hall.delivered(Delivery::Direct).len(), 20);
}

#[test]
fn delays_are_those_of_the_last_second_in_which_packets_came() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let p99 = |hall: &Hall| {
        let report = hall.agents[SENDER].report(hall.flow).expect("the receiver reported");
        report.delay.p99.duration()
    };
    hall.stream(50);
    hall.direct = ms(70);
    hall.stream(50);
    hall.run(ms(200));
    assert_eq!(p99(&hall), ms(40));
    hall.direct = ms(30);
    // A second with packets, after which a count ends; and seconds without any, in which it stands.
    hall.stream(250);
    hall.run(ms(3_000));
    assert_eq!(p99(&hall), Duration::ZERO);
}

#[test]
fn garbage_of_a_relay_before_the_first_packet_costs_none_of_the_direct_path() {
    let mut hall = Hall::new(&settings(Service::Caching));
    hall.gives(EnvelopeRole::CachedRepair, 0, &[0; 60]);
    hall.run(ms(15));
    hall.stream(3);
    hall.run(ms(50));
    assert_eq!((hall.got.len(), hall.statistics().false_repairs), (3, 1));
}

#[test]
fn forged_packets_before_the_first_packets_of_a_flow_cost_none_of_them() {
    let mut hall = Hall::new(&settings(Service::Internet));
    for number in 0..5 {
        hall.send(&[number; 50]);
        let sealed = hall.sent.iter().rev().find(|datagram| datagram.original().is_some());
        let mut forged = sealed.expect("an original was sent").clone();
        let last = forged.bytes.len() - 1;
        forged.bytes[last] ^= 1;
        // It overtakes the original.
        for _ in 0..=number {
            hall.arrive(forged.clone());
        }
        hall.run(ms(40));
    }
    assert_eq!(hall.delivered(Delivery::Direct), [0, 1, 2, 3, 4]);
    assert!(hall.statistics().forged > 0);
}

#[test]
fn a_receiver_that_joins_a_flow_of_many_months_finds_its_numbers() {
    for high_bits in [1, 5, u64::from(crate::limits::HIGH_BITS_TRIED) - 1] {
        let mut hall = Hall::new(&settings(Service::Internet));
        hall.agents[SENDER].senders[0].next = SequenceNumber::new(high_bits << 32 | 7);
        hall.stream(150);
        hall.run(ms(100));
        let unopened = 2 * high_bits - 1;
        let delivered = 150 - usize::try_from(unopened).expect("few");
        assert_eq!((hall.got.len(), hall.statistics().forged), (delivered, unopened));
    }
}
