//! Copies leave once the uplink is known to bear them, and not before.

use super::*;
use crate::agent::{AgentCounters, Duplication};

/// What the packets of `stream` take of the line, all originals together: 112 bytes each 10 ms.
const ORIGINALS: Rate = Rate::from_bits_per_second(89_600);

fn uplink(tenths: u64) -> Rate {
    Rate::from_bits_per_second(ORIGINALS.bits_per_second() * tenths / 10)
}

/// A flow over an uplink so many tenths as fast as the flow.
fn over_uplink(settings: &FlowSettings, tenths: u64) -> Hall {
    let mut hall = Hall::unregistered(settings);
    hall.uplink = Some(uplink(tenths));
    hall.run(ms(3_000));
    hall.forget();
    hall
}

fn counters(hall: &Hall) -> AgentCounters {
    *hall.agents[SENDER].counters()
}

/// How much of the coming second's packets is copied, in percent.
fn copied_of_a_second(hall: &mut Hall) -> u64 {
    let before = counters(hall).copies;
    hall.stream(100);
    counters(hall).copies - before
}

/// The longest that the packets of the coming second wait for others that left by the line.
fn longest_wait(hall: &mut Hall) -> Duration {
    let mut longest = Duration::ZERO;
    for number in 0..100 {
        longest = longest.max(hall.busy_until.saturating_since(hall.now));
        hall.send(&[number; 50]);
        hall.run(ms(10));
    }
    longest
}

/// The bytes of trains to the relay, as the line carries them.
fn weighing_bytes(hall: &Hall) -> u64 {
    let trains = hall.sent.iter().filter(|datagram| {
        datagram.from == SENDER && datagram.urgency == Urgency::Scavenger && datagram.bytes[0] != 9
    });
    trains.map(|datagram| on_the_line(datagram.bytes.len()).count()).sum()
}

#[test]
fn on_an_uplink_that_bears_them_every_packet_is_copied() {
    for tenths in [30, 100, 10_000] {
        let mut hall = over_uplink(&settings(Service::Coding), tenths);
        assert!(copied_of_a_second(&mut hall) >= 95, "{tenths}");
        assert_eq!(copied_of_a_second(&mut hall), 100, "{tenths}");
        assert_eq!(weighing_bytes(&hall), 0, "all is known before the first packet");
    }
}

#[test]
fn on_an_uplink_that_does_not_bear_them_copies_never_fill_it() {
    for tenths in [11, 15, 19] {
        let mut hall = over_uplink(&settings(Service::Coding), tenths);
        let waits: Vec<Duration> = (0..60).map(|_| longest_wait(&mut hall)).collect();
        assert!(counters(&hall).copies <= 2, "{tenths}: {:?}", counters(&hall));
        assert!(waits[0] <= ms(22) && waits[1..].iter().all(|wait| *wait <= ms(12)), "{tenths}: {waits:?}");
        assert!(!hall.said(SENDER).iter().any(|(_, said)| *said == Said::Other), "nor are there probes");
    }
}

#[test]
fn a_flow_that_begins_at_once_waits_for_one_train_and_its_answer() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.uplink = Some(uplink(100));
    hall.stream(100);
    let copied = hall.enveloped(EnvelopeRole::Copy);
    // Registered after two round trips of 20 ms, weighed after one more and 18 ms.
    assert!(copied[0] <= 10 && copied.len() >= 85, "{copied:?}");
}

#[test]
fn a_train_leaves_behind_the_original_that_is_one_too_many() {
    let mut hall = over_uplink(&settings(Service::Coding), 10_000);
    // At 95 Mbit/s, 20 ms of the line: half of it for copies.
    (0..120).for_each(|_| hall.send(&[7; 1_000]));
    let is_train = |datagram: &Datagram| {
        datagram.to == RELAY && datagram.urgency == Urgency::Scavenger && datagram.bytes[0] != 9
    };
    let first = hall.sent.iter().position(is_train).expect("so much was not expected");
    assert!(hall.sent[first - 1].original().is_some());
    assert!(hall.sent[..first].iter().filter(|datagram| datagram.original().is_some()).count() > 60);
}

#[test]
fn without_answers_nothing_is_copied_and_trains_are_rare() {
    let mut hall = Hall::unregistered(&settings(Service::Coding));
    hall.loses(|datagram| {
        datagram.from == SENDER && datagram.to == RELAY && datagram.urgency == Urgency::Scavenger
    });
    for _ in 0..60 {
        hall.stream(100);
    }
    assert_eq!(counters(&hall).copies, 0);
    let bytes = weighing_bytes(&hall);
    assert!((2_120 * 4..2_120 * 12).contains(&bytes), "{bytes}");
}

#[test]
fn copies_come_back_when_packets_are_lost_and_the_uplink_has_become_faster() {
    let mut hall = over_uplink(&settings(Service::Coding), 15);
    assert!(copied_of_a_second(&mut hall) <= 2);
    hall.uplink = Some(uplink(50));
    assert_eq!(copied_of_a_second(&mut hall), 0, "nobody needs them");
    hall.loses_originals([250]);
    hall.stream(100);
    assert_eq!(copied_of_a_second(&mut hall), 100);
}

#[test]
fn copies_stop_when_the_uplink_becomes_slower() {
    let mut hall = over_uplink(&settings(Service::Coding), 50);
    assert_eq!(copied_of_a_second(&mut hall), 100);
    hall.uplink = Some(uplink(15));
    (0..3).for_each(|_| hall.stream(100));
    assert_eq!(copied_of_a_second(&mut hall), 0);
    let wait = longest_wait(&mut hall);
    assert!(wait <= ms(12), "{wait} {:?}", counters(&hall));
}

#[test]
fn where_packets_are_lost_a_narrow_uplink_helps_with_what_it_has_to_spare() {
    let mut hall = over_uplink(&settings(Service::Coding), 17);
    hall.loses(|datagram| datagram.original().is_some_and(|number| number % 50 == 0));
    (0..5).for_each(|_| hall.stream(100));
    let copied = copied_of_a_second(&mut hall);
    // 4/5 of 1.7 less the originals are 0.36 times the flow.
    assert!((20..40).contains(&copied), "{copied}");
    hall.uplink = Some(uplink(12));
    (0..60).for_each(|_| hall.stream(100));
    assert_eq!(copied_of_a_second(&mut hall), 0);
}

/// Of so many tenths of what a flow needs, how many probes the sender sends in a second, and how many of them behind packets.
fn probes_of_a_second(tenths: u64) -> (usize, usize) {
    let mut hall = over_uplink(&settings(Service::Coding), tenths);
    (0..3).for_each(|_| hall.stream(100));
    hall.forget();
    hall.stream(100);
    let of_sender = || hall.sent.iter().filter(|datagram| datagram.from == SENDER);
    let probes = || of_sender().filter(|datagram| datagram.bytes[0] == 8);
    let is_behind = |probe: &&Datagram| of_sender().any(|one| one.original().is_some() && one.at == probe.at);
    (probes().count(), probes().filter(is_behind).count())
}

#[test]
fn by_a_narrow_uplink_probes_go_behind_packets() {
    let (all, behind) = probes_of_a_second(15);
    assert!(
        (4..=7).contains(&all) && behind == all,
        "five to the receiver, as nothing is copied: {behind} of {all}"
    );
    let (all, behind) = probes_of_a_second(50);
    assert!((10..=14).contains(&all) && behind < all, "five to each of two others: {behind} of {all}");
}

#[test]
fn what_is_copied_now_and_then_is_copied_by_any_uplink() {
    let marked = FlowSettings { duplication: Duplication::Marked, ..settings(Service::Coding) };
    let mut hall = over_uplink(&marked, 12);
    for number in 0..200 {
        hall.send_as(&[7; 50], Ecn::NotCapable, number % 20 == 0);
        hall.run(ms(10));
    }
    assert_eq!(counters(&hall).copies, 10);
}

#[test]
fn repair_packets_from_here_need_less_of_an_uplink_than_copies() {
    let own = FlowSettings { duplication: Duplication::OwnRepairs, ..settings(Service::Coding) };
    let made = [12, 15].map(|tenths| {
        let mut hall = over_uplink(&own, tenths);
        (0..2).for_each(|_| hall.stream(100));
        let before = counters(&hall).own_repairs;
        hall.stream(100);
        counters(&hall).own_repairs - before
    });
    assert_eq!(made, [0, 20]);
}
