//! Originals first, copies behind them, within what the way to the relay bears.

use super::*;
use crate::agent::Duplication;
use crate::limits::{COPY_DEPTH, RESEND_REACH, STANDBY_FOR, WAITING_COPIES_MAX};
use byway_wire::messages::CopyNack;

#[test]
fn a_datagram_travels_directly_and_a_copy_of_it_to_the_relay() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.send(b"hello");
    hall.run(ms(100));
    assert_eq!(
        hall.got,
        [Got { bytes: b"hello".to_vec(), ecn: Ecn::NotCapable, delivery: Delivery::Direct }]
    );
    let original = hall.sent.iter().find(|datagram| datagram.original() == Some(0)).expect("it was sent");
    // The same coded bytes: what follows the header, from the flags on.
    assert_eq!(original.bytes[11..], hall.copy(0));
    assert_eq!((hall.agents[SENDER].counters().originals, hall.agents[SENDER].counters().copies), (1, 1));
}

#[test]
fn originals_go_before_copies() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.send(&[7; 1_472]);
    let now = hall.now;
    let at_once: Vec<Urgency> =
        hall.sent.iter().filter(|datagram| datagram.at == now).map(|datagram| datagram.urgency).collect();
    assert_eq!(at_once, [Urgency::Original, Urgency::Original, Urgency::Scavenger, Urgency::Scavenger]);
}

/// Sends long datagrams for so long, ten a second.
fn send_long(hall: &mut Hall, bytes: usize, time: Duration) {
    let end = hall.now + time;
    while hall.now < end {
        hall.send(&alloc::vec![7; bytes]);
        hall.run(ms(100));
    }
}

/// As how many packets the last datagram was sent.
fn pieces(hall: &Hall) -> usize {
    hall.sent.iter().filter(|datagram| datagram.original().is_some()).count()
}

#[test]
fn a_datagram_of_any_length_up_to_1500_bytes_arrives_whole() {
    let mut hall = Hall::new(&settings(Service::Coding));
    for expected in [[1, 1, 1, 2, 2, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]] {
        let mut found = Vec::new();
        for length in [0, 1, 1_169, 1_170, 1_354, 1_355, 1_452, 1_472, 1_499, 1_500] {
            hall.forget();
            let datagram: Vec<u8> =
                (0..length).map(|place| u8::try_from(place % 251).expect("reduced")).collect();
            hall.send(&datagram);
            found.push(pieces(&hall));
            hall.run(ms(35));
            assert_eq!(hall.got, [Got { bytes: datagram, ecn: Ecn::NotCapable, delivery: Delivery::Direct }]);
        }
        assert_eq!(found, expected);
        // Meanwhile, it is found out what the paths carry.
        send_long(&mut hall, 1_500, ms(1_000));
    }
}

/// What is sent over ways that carry so much: the direct path, and that to the relay.
fn over_narrow_ways(settings: &FlowSettings, direct: usize, relay: usize) -> Hall {
    let mut hall = Hall::new(settings);
    hall.loses(move |datagram| datagram.bytes.len() > if datagram.to == RELAY { relay } else { direct });
    send_long(&mut hall, 1_354, ms(8_000));
    hall
}

#[test]
fn no_packet_is_longer_than_the_direct_path_carries() {
    let mut hall = over_narrow_ways(&settings(Service::Coding), 1_380, 1_500);
    assert_eq!(hall.delivered(Delivery::Direct).len(), 80, "none was lost");
    let counters = *hall.agents[SENDER].counters();
    assert_eq!(
        (counters.originals, counters.copies, counters.copies_held),
        (160, 160, 0),
        "each in two pieces"
    );
    for (bytes, expected) in [(1_309, 1), (1_310, 2)] {
        hall.forget();
        hall.send(&alloc::vec![7; bytes]);
        assert_eq!(pieces(&hall), expected);
    }
    let (flow, now) = (hall.flow, hall.now);
    assert_eq!(hall.agents[SENDER].datagram_bytes_whole(flow, now), Some(1_309));
}

#[test]
fn a_path_that_carries_less_all_at_once_is_noticed_in_two_round_trips_and_100_ms() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let send = |hall: &mut Hall, count: usize| {
        for _ in 0..count {
            hall.forget();
            hall.send(&[7; 1_354]);
            hall.send(&[7; 1_354]);
            hall.send(b"short");
            hall.run(ms(100));
        }
        pieces(hall)
    };
    assert_eq!(send(&mut hall, 10), 3);
    hall.loses(|datagram| datagram.to != RELAY && datagram.bytes.len() > 1_300);
    assert_eq!(send(&mut hall, 1), 3);
    assert_eq!(send(&mut hall, 20), 5, "the long ones are in two pieces");
    let lost = hall.agents[RECEIVER].statistics(hall.received).map_or(0, |statistics| statistics.lost);
    assert!((2..=4).contains(&lost), "{lost} packets were lost meanwhile");
    let counters = hall.agents[SENDER].counters();
    assert_eq!((counters.paths_narrowed, counters.datagrams_too_long_for_path), (1, lost));
}

#[test]
fn a_narrow_way_to_the_relay_is_no_matter_for_originals_and_takes_the_copies_that_fit() {
    let mut hall = over_narrow_ways(&settings(Service::Coding), 1_500, 1_360);
    hall.forget();
    let before = *hall.agents[SENDER].counters();
    for bytes in [1_354, 1_298, 1_299] {
        hall.send(&alloc::vec![7; bytes]);
        hall.run(ms(50));
    }
    assert_eq!(pieces(&hall), 3, "each is one packet");
    let after = hall.agents[SENDER].counters();
    assert_eq!((after.copies - before.copies, after.copies_held - before.copies_held), (1, 2));
}

#[test]
fn of_a_flow_that_relays_deliver_no_packet_is_longer_than_the_way_there_carries() {
    let mut settings = settings(Service::Forwarding);
    settings.duplication = Duplication::ByRelay;
    let mut hall = Hall::new(&settings);
    hall.loses(|datagram| datagram.bytes.len() > 1_360);
    for _ in 0..20 {
        hall.send(&alloc::vec![7; 1_354]);
        hall.run(ms(50));
        hall.forward_copies(2);
        hall.run(ms(1_950));
    }
    let lost = hall.sent.iter().filter(|datagram| datagram.bytes[0] == 9 && datagram.bytes.len() > 1_360);
    assert_eq!(lost.count(), 0);
    assert!(hall.agents[SENDER].counters().copies >= 40, "{:?}", hall.agents[SENDER].counters());
}

#[test]
fn a_longer_datagram_is_refused_and_counted() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.send(&[7; 1_501]);
    hall.run(ms(100));
    assert_eq!((hall.got.len(), hall.agents[SENDER].counters().datagrams_too_long), (0, 1));
    assert_eq!(hall.agents[SENDER].counters().originals, 0);
}

#[test]
fn no_datagram_makes_a_packet_longer_than_the_path_bears() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.send(&[7; 1_354]);
    hall.send(&[7; 1_500]);
    hall.run(ms(100));
    assert!(hall.sent.iter().all(|datagram| datagram.bytes.len() <= 1_472));
}

#[test]
fn what_cannot_be_sealed_is_counted() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.loses(|_| true);
    hall.send(b"too early");
    assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 0, "it waits for a session");
    hall.run(ms(1_500));
    assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 1);
    hall.flow = SendFlowId(7);
    hall.send(b"no such flow");
    assert_eq!(hall.agents[SENDER].counters().flows_unknown, 1);
}

#[test]
fn copies_are_paced() {
    let mut hall = Hall::new(&settings(Service::Coding));
    (0..30).for_each(|number| hall.send(&[number; 1_000]));
    let began = hall.now;
    hall.run(ms(100));
    let originals = hall.sent.iter().filter(|datagram| datagram.original().is_some());
    assert!(originals.clone().count() == 30 && originals.clone().all(|datagram| datagram.at == began));
    let copies: Vec<&Datagram> = hall.sent.iter().filter(|datagram| datagram.bytes[0] == 9).collect();
    assert_eq!(copies.len(), 30);
    // Eight times 2 Mbit/s: 2,000 bytes in a millisecond.
    for (place, copy) in copies.iter().enumerate() {
        let bytes: usize = copies[..=place].iter().map(|copy| copy.bytes.len()).sum();
        let allowed = COPY_DEPTH + copy.at.saturating_since(began).as_micros() * 2 + 2;
        assert!(bytes as u64 <= allowed, "{place}: {bytes} of {allowed}");
    }
    assert!(copies[29].at.saturating_since(began) <= ms(20), "and not slower than need be");
}

#[test]
fn only_so_many_copies_wait_and_originals_do_not_care() {
    let mut hall = Hall::new(&settings(Service::Coding));
    (0..700_u16).for_each(|number| hall.send(&[number.to_be_bytes()[1]; 1_000]));
    let counters = *hall.agents[SENDER].counters();
    assert_eq!(counters.originals, 700);
    assert_eq!(counters.copies_held, 700 - WAITING_COPIES_MAX as u64 - counters.copies);
    hall.run(ms(1_000));
    assert_eq!(hall.agents[SENDER].counters().copies + counters.copies_held, 700);
}

#[test]
fn copies_are_held_back_when_they_do_not_arrive() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.loses(|datagram| datagram.bytes[0] == 9);
    for _ in 0..10 {
        hall.stream(100);
    }
    let counters = *hall.agents[SENDER].counters();
    assert_eq!(counters.originals, 1_000);
    assert!(counters.copies < 250 && counters.copies_held > 750, "{counters:?}");
    assert_eq!(hall.got.len(), 1_000 - 2, "two are on their way");
    hall.loses(|_| false);
    for _ in 0..20 {
        hall.stream(100);
    }
    let later = *hall.agents[SENDER].counters();
    assert!(later.copies - counters.copies > 700, "{later:?}");
}

#[test]
fn copies_are_held_back_while_they_queue() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(100);
    assert_eq!(hall.agents[SENDER].counters().copies_held, 0);
    hall.relayed = ms(45);
    (0..3).for_each(|_| hall.stream(100));
    let held = hall.agents[SENDER].counters().copies_held;
    assert!(held > 100, "{held}");
    hall.relayed = ms(10);
    hall.stream(100);
    let held = hall.agents[SENDER].counters().copies_held;
    hall.stream(100);
    assert_eq!(hall.agents[SENDER].counters().copies_held, held);
}

#[test]
fn a_copy_that_the_relay_misses_is_sent_again() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(10);
    let missed = ranges([3, 5]);
    hall.relay_says(
        SENDER,
        &Message::CopyNack(CopyNack { alias: alias_of(SENDER), ranges: missed.ranges() }),
    );
    hall.run(ms(50));
    assert_eq!(hall.enveloped(EnvelopeRole::ResentCopy), [3, 5]);
    assert_eq!(hall.agents[SENDER].counters().copies_resent, 2);
}

#[test]
fn copies_that_are_not_kept_any_more_are_counted() {
    let mut hall = Hall::new(&settings(Service::Coding));
    let sent = RESEND_REACH as u64 + 50;
    for _ in 0..sent {
        hall.send(b"x");
        hall.run(ms(1));
    }
    let missed = ranges([10, sent - 1, sent + 10]);
    hall.relay_says(
        SENDER,
        &Message::CopyNack(CopyNack { alias: alias_of(SENDER), ranges: missed.ranges() }),
    );
    hall.run(ms(50));
    assert_eq!(hall.enveloped(EnvelopeRole::ResentCopy), [u32::try_from(sent - 1).expect("small")]);
    assert_eq!(hall.agents[SENDER].counters().copies_gone, 2);
}

#[test]
fn a_copy_nack_of_everything_costs_no_more_than_is_kept() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.stream(20);
    let missed = ranges(0..8_000);
    hall.relay_says(
        SENDER,
        &Message::CopyNack(CopyNack { alias: alias_of(SENDER), ranges: missed.ranges() }),
    );
    hall.run(ms(50));
    let counters = hall.agents[SENDER].counters();
    assert_eq!((counters.copies_resent, counters.copies_gone), (20, RESEND_REACH as u64 - 20));
}

#[test]
fn a_flow_on_standby_copies_from_its_first_losses_on() {
    let mut hall = Hall::new(&FlowSettings { standby: true, ..settings(Service::Coding) });
    hall.loses_originals([60]);
    hall.stream(60);
    let at_first = hall.agents[SENDER].counters().copies;
    assert!((1..=20).contains(&at_first), "{at_first} before the first report");
    assert_eq!(hall.got.len(), 58);
    hall.stream(40);
    let copies = hall.agents[SENDER].counters().copies - at_first;
    assert!(copies >= 20, "{copies} of the 39 packets after the loss: seen, reported and heard of in 150 ms");
    hall.run(STANDBY_FOR);
    let copies = hall.agents[SENDER].counters().copies;
    hall.stream(10);
    assert_eq!(hall.agents[SENDER].counters().copies, copies, "asleep again");
}

#[test]
fn a_flow_that_copies_some_packets_says_so_and_copies_those() {
    let marked = FlowSettings { duplication: Duplication::Marked, ..settings(Service::Coding) };
    let mut hall = Hall::unregistered(&marked);
    hall.run(ms(500));
    assert!(
        hall.relay
            .heard
            .iter()
            .any(|(_, _, said)| *said == Said::Register { role: FlowRole::Sender, selective: true })
    );
    hall.forget();
    for number in 0..10 {
        hall.send_as(b"x", Ecn::NotCapable, number % 4 == 0);
    }
    hall.run(ms(50));
    assert_eq!(hall.enveloped(EnvelopeRole::Copy), [0, 4, 8]);
    let chosen =
        FlowSettings { duplication: Duplication::Chosen(|bytes| bytes[0] == 3), ..settings(Service::Coding) };
    let mut hall = Hall::new(&chosen);
    hall.stream(10);
    hall.run(ms(50));
    assert_eq!(hall.enveloped(EnvelopeRole::Copy), [3]);
}

#[test]
fn the_internet_service_copies_nothing_and_forwarding_sends_no_originals() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.stream(5);
    assert_eq!((hall.agents[SENDER].counters().originals, hall.agents[SENDER].counters().copies), (5, 0));
    let mut hall = Hall::new(&settings(Service::Forwarding));
    hall.stream(5);
    assert_eq!((hall.agents[SENDER].counters().originals, hall.agents[SENDER].counters().copies), (0, 5));
}

#[test]
fn the_ecn_field_of_the_application_goes_with_its_packet() {
    let mut hall = Hall::new(&settings(Service::Coding));
    hall.send_as(b"x", Ecn::Capable0, false);
    hall.run(ms(50));
    assert_eq!(hall.got[0].ecn, Ecn::Capable0);
    let ecn: Vec<Ecn> =
        hall.sent.iter().filter(|one| matches!(one.bytes[0], 7 | 9)).map(|one| one.ecn).collect();
    assert_eq!(ecn, [Ecn::Capable0, Ecn::NotCapable], "the copy is not ECN-capable");
}

#[test]
fn own_repair_packets_of_a_flow_on_standby_cover_what_leaves_while_it_is_awake() {
    let mut settings = settings(Service::Coding);
    (settings.duplication, settings.standby) = (Duplication::OwnRepairs, true);
    settings.rates.batch = None;
    let mut hall = Hall::new(&settings);
    hall.stream(20);
    hall.run(ms(300));
    let (now, before) = (hall.now, hall.agents[SENDER].counters().own_repairs);
    assert!(!hall.agents[SENDER].senders[0].is_awake(now), "the direct path delivers");
    hall.agents[SENDER].senders[0].copies_until = now + ms(15);
    hall.stream(2);
    assert!(hall.agents[SENDER].senders[0].block.is_some(), "a block has begun");
    // Too many for any block leave before it is closed.
    (0..40).for_each(|number| hall.send(&[number; 50]));
    hall.agents[SENDER].senders[0].copies_until = hall.now + ms(10_000);
    hall.stream(10);
    hall.run(ms(200));
    assert_eq!(
        hall.agents[SENDER].counters().own_repairs - before,
        3,
        "of the first block, and of two of five"
    );
}
