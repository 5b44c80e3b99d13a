//! What follows a gap waits, where it has to and no longer.

use super::*;
use crate::agent::{Duplication, Traffic};
use byway_wire::messages::Confirm;

/// A quarter of the round trip between the agents.
const QUARTER: Duration = ms(15);

/// From when a packet arrives that shows a gap: until the relay hears of it.
const NACK_TAKES: Duration = ms(5);

fn ordered(service: Service) -> FlowSettings {
    FlowSettings {
        traffic: Traffic::CongestionControlled,
        duplication: Duplication::All,
        ..settings(service)
    }
}

/// The relay is so near that a repair comes within a quarter of the round trip.
fn near(settings: &FlowSettings) -> Hall {
    let mut hall = Hall::unregistered(settings);
    hall.relayed = ms(2);
    hall.run(ms(500));
    hall.forget();
    hall
}

/// Packets 0 to 4, of which 3 is lost, until 4 arrives.
fn with_a_gap(hall: &mut Hall) {
    hall.loses_originals([3]);
    hall.stream(4);
    hall.send(&[4; 50]);
    hall.run(hall.direct);
}

fn got(hall: &Hall) -> Vec<u8> {
    hall.got.iter().map(|got| got.bytes[0]).collect()
}

fn holds_nothing(hall: &Hall) -> bool {
    hall.agents[RECEIVER].receivers[0].active().is_none_or(|active| active.order.is_none())
}

#[test]
fn what_follows_a_gap_is_delivered_after_its_repair() {
    let mut hall = near(&ordered(Service::Caching));
    with_a_gap(&mut hall);
    assert_eq!(got(&hall), [0, 1, 2]);
    hall.run(NACK_TAKES);
    assert_eq!((hall.words(RECEIVER), hall.relay.patience), (alloc::vec![nack(&[(3, 1)])], QUARTER));
    let coded = hall.copy(3);
    hall.gives(EnvelopeRole::CachedRepair, 3, &coded);
    hall.run(ms(2));
    assert_eq!(got(&hall), [0, 1, 2, 3, 4]);
    assert_eq!((hall.statistics().held, hall.statistics().gaps_passed), (1, 0));
    assert!(holds_nothing(&hall));
}

#[test]
fn no_packet_waits_for_longer_than_a_quarter_of_the_round_trip() {
    let mut hall = near(&ordered(Service::Caching));
    with_a_gap(&mut hall);
    hall.run(QUARTER - ms(1));
    assert_eq!(got(&hall), [0, 1, 2]);
    hall.run(ms(2));
    assert_eq!(got(&hall), [0, 1, 2, 4]);
    assert_eq!((hall.statistics().held, hall.statistics().gaps_passed), (1, 1));
    assert!(holds_nothing(&hall));
    // Afterwards packets pass at once, and nobody asks any more.
    hall.send(&[5; 50]);
    hall.run(ms(30));
    assert_eq!(got(&hall), [0, 1, 2, 4, 5]);
    let third = ranges([3]);
    let confirm = Confirm { alias: alias_of(RECEIVER), ranges: third.ranges() };
    hall.relay_says(RECEIVER, &Message::Confirm(confirm));
    hall.run(ms(50));
    // Once, and again after one and a half round trips of 4 ms; the open end is another matter.
    let asked = hall.words(RECEIVER).into_iter();
    let asked = asked.filter(|said| matches!(said, Said::Nack { ranges, .. } if ranges.contains(&(3, 1))));
    assert_eq!(asked.collect::<Vec<_>>(), [nack(&[(3, 1)]), nack(&[(3, 1)])]);
}

#[test]
fn a_repair_that_comes_too_late_for_the_order_is_not_delivered_and_the_original_is() {
    let mut hall = near(&ordered(Service::Caching));
    with_a_gap(&mut hall);
    hall.run(QUARTER + ms(1));
    let coded = hall.copy(3);
    hall.gives(EnvelopeRole::CachedRepair, 3, &coded);
    hall.run(ms(2));
    assert_eq!((got(&hall), hall.statistics().late), (alloc::vec![0, 1, 2, 4], 1));
    let original = hall.sent.iter().find(|sent| sent.original() == Some(3)).cloned();
    hall.arrive(original.expect("it was sent"));
    assert_eq!(got(&hall), [0, 1, 2, 4, 3]);
}

#[test]
fn where_no_repair_can_come_in_time_nothing_waits_and_nothing_is_repaired() {
    // The relay is 20 ms away and back.
    let mut hall = Hall::new(&ordered(Service::Caching));
    with_a_gap(&mut hall);
    assert_eq!(got(&hall), [0, 1, 2, 4]);
    hall.run(ms(10));
    assert_eq!(hall.words(RECEIVER), []);
    let coded = hall.copy(3);
    hall.gives(EnvelopeRole::CachedRepair, 3, &coded);
    hall.run(ms(10));
    assert_eq!((got(&hall), hall.statistics().held), (alloc::vec![0, 1, 2, 4], 0));
}

#[test]
fn help_of_others_takes_twice_as_long_as_what_the_relay_has() {
    let mut rates = ordered(Service::Coding);
    for (in_stream, relayed, waits) in [(true, 5, true), (false, 5, false), (false, 2, true)] {
        if !in_stream {
            rates.rates.in_stream = None;
        }
        let mut hall = Hall::unregistered(&rates);
        hall.relayed = ms(relayed);
        hall.run(ms(500));
        hall.forget();
        with_a_gap(&mut hall);
        assert_eq!(hall.statistics().held, u64::from(waits), "{in_stream} {relayed}");
    }
}

#[test]
fn the_end_of_a_burst_is_asked_for_however_far_the_relay_is() {
    let mut hall = Hall::new(&ordered(Service::Caching));
    hall.loses_originals([8, 9]);
    hall.stream(10);
    hall.run(ms(200));
    assert!(hall.words(RECEIVER).iter().any(|said| matches!(said, Said::Nack { open_from: Some(8), .. })));
    assert_eq!(hall.relay.patience, ms(250 - 30), "what nothing follows is of use for longer");
    for number in [8, 9] {
        let coded = hall.copy(number);
        hall.gives(EnvelopeRole::CachedRepair, number, &coded);
    }
    hall.run(ms(20));
    assert_eq!(got(&hall), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn a_dead_relay_keeps_nothing_waiting() {
    let mut hall = near(&ordered(Service::Caching));
    hall.stream(10);
    hall.loses(|datagram| datagram.from == RELAY || datagram.to == RELAY);
    hall.stream(200);
    hall.loses(|datagram| datagram.from == RELAY || datagram.to == RELAY || datagram.original() == Some(215));
    hall.stream(20);
    hall.run(ms(100));
    assert_eq!((hall.got.len(), hall.statistics().held), (229, 0));
}

#[test]
fn datagrams_are_delivered_as_they_come() {
    let mut hall = near(&settings(Service::Caching));
    with_a_gap(&mut hall);
    assert_eq!(got(&hall), [0, 1, 2, 4]);
    hall.run(QUARTER + NACK_TAKES);
    let coded = hall.copy(3);
    hall.gives(EnvelopeRole::CachedRepair, 3, &coded);
    hall.run(ms(2));
    assert_eq!((got(&hall), hall.statistics().held), (alloc::vec![0, 1, 2, 4, 3], 0));
}

#[test]
fn bulk_data_is_neither_copied_nor_waited_nor_asked_for_but_what_is_marked_is() {
    let usual = FlowSettings { duplication: Duplication::Usual, ..ordered(Service::Caching) };
    for marked in [false, true] {
        let mut hall = near(&usual);
        hall.loses_originals([3]);
        for number in 0..5 {
            hall.send_as(&[number; 50], Ecn::NotCapable, marked && number == 3);
            hall.run(ms(2));
        }
        let copies = if marked { alloc::vec![3] } else { alloc::vec![] };
        assert_eq!(hall.enveloped(EnvelopeRole::Copy), copies);
        hall.run(ms(28));
        assert_eq!(hall.statistics().held, u64::from(marked));
        hall.run(ms(10));
        assert_eq!(hall.words(RECEIVER).contains(&nack(&[(3, 1)])), marked);
    }
}

#[test]
fn datagrams_that_were_not_copied_are_not_asked_for() {
    let marked = FlowSettings { duplication: Duplication::Marked, ..settings(Service::Caching) };
    let mut hall = near(&marked);
    hall.loses_originals([3, 6]);
    for number in 0..12 {
        hall.send_as(&[number; 50], Ecn::NotCapable, number == 6);
        hall.run(ms(10));
    }
    hall.run(ms(40));
    let asked: Vec<Said> = hall
        .words(RECEIVER)
        .into_iter()
        .filter(|said| *said == nack(&[(3, 1)]) || *said == nack(&[(6, 1)]))
        .collect();
    assert!(asked.len() > 1 && asked.iter().all(|said| *said == nack(&[(6, 1)])), "{asked:?}");
}

#[test]
fn what_waits_when_the_sender_begins_anew_is_delivered_first() {
    let mut hall = near(&ordered(Service::Caching));
    with_a_gap(&mut hall);
    let now = hall.now;
    let mut fresh = agent(SENDER, 90, 2_000, now);
    hall.flow = fresh.open_flow(key(), ordered(Service::Caching), now).expect("the peer was added");
    hall.agents[SENDER] = fresh;
    // The handshake is over before the wait is.
    hall.direct = ms(3);
    hall.drain(SENDER);
    hall.run(QUARTER - ms(2));
    assert_eq!(got(&hall), [0, 1, 2, 4]);
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
        let mut hall = Hall::new(&settings(Service::Coding));
        hall.send_as(&[1; 50], inner, false);
        for datagram in hall.flying.values_mut().filter(|datagram| datagram.original().is_some()) {
            datagram.ecn = outer;
        }
        hall.run(ms(30));
        assert_eq!(hall.got.first().map(|got| got.ecn), expected, "{inner} in {outer}");
        assert_eq!(hall.statistics().marked_dropped, u64::from(expected.is_none()));
        // What was dropped has arrived: a repair would hide the congestion.
        hall.stream(5);
        hall.run(ms(30));
        assert_eq!((hall.words(RECEIVER), hall.statistics().direct), (alloc::vec![], 6));
    }
}

#[test]
fn marks_of_the_overlay_count_where_it_is_the_way() {
    for (service, expected) in [(Service::Forwarding, Ecn::Capable0), (Service::Both, Ecn::NotCapable)] {
        let mut hall = Hall::new(&settings(service));
        hall.send_as(&[1; 50], Ecn::Capable0, false);
        hall.run(ms(10));
        let copy = hall.sent.iter().find(|one| one.bytes[0] == 9).expect("a copy was sent");
        assert_eq!(copy.ecn, expected, "{service:?}");
    }
    let mut hall = Hall::new(&settings(Service::Forwarding));
    hall.send_as(&[1; 50], Ecn::Capable0, false);
    hall.run(ms(10));
    let coded = hall.copy(0);
    hall.gives(EnvelopeRole::Forwarded, 0, &coded);
    hall.flying.values_mut().for_each(|datagram| datagram.ecn = Ecn::CongestionExperienced);
    hall.run(ms(10));
    assert_eq!(hall.got.first().map(|got| got.ecn), Some(Ecn::CongestionExperienced));
}
