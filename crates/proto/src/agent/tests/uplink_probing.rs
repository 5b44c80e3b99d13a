//! Tests of uplink probing: copies leave only if the uplink is known to sustain them.

use super::*;
use crate::agent::{AgentCounters, Duplication};

/// Uplink rate of the source packets of `stream`: 112 bytes every 10 ms.
const SOURCE_RATE: Rate = Rate::from_bits_per_second(89_600);

fn uplink(tenths: u64) -> Rate {
    Rate::from_bits_per_second(SOURCE_RATE.bits_per_second() * tenths / 10)
}

/// Returns a network whose uplink has `tenths` tenths of the flow's rate.
fn over_uplink(settings: &FlowSettings, tenths: u64) -> TestNetwork {
    let mut network = TestNetwork::unregistered(settings);
    network.uplink = Some(uplink(tenths));
    network.run(ms(3_000));
    network.forget();
    network
}

fn counters(network: &TestNetwork) -> AgentCounters {
    *network.agents[SENDER].counters()
}

/// Streams for a second; returns the percentage of packets that were copied.
fn copied_of_a_second(network: &mut TestNetwork) -> u64 {
    let before = counters(network).copies;
    network.stream(100);
    counters(network).copies - before
}

/// Streams for a second; returns the longest queueing delay at the uplink.
fn longest_wait(network: &mut TestNetwork) -> Duration {
    let mut longest = Duration::ZERO;
    for number in 0..100 {
        longest = longest.max(network.busy_until.saturating_since(network.now));
        network.send(&[number; 50]);
        network.run(ms(10));
    }
    longest
}

/// Returns the bytes of probe trains to the relay on the uplink.
fn probe_train_bytes(network: &TestNetwork) -> u64 {
    let trains = network.sent.iter().filter(|datagram| {
        datagram.from == SENDER && datagram.priority == Priority::Scavenger && datagram.bytes[0] != 9
    });
    trains.map(|datagram| uplink_bytes(datagram.bytes.len()).count()).sum()
}

#[test]
fn on_an_uplink_that_bears_them_every_packet_is_copied() {
    for tenths in [30, 100, 10_000] {
        let mut network = over_uplink(&settings(Service::Coding), tenths);
        assert!(copied_of_a_second(&mut network) >= 95, "{tenths}");
        assert_eq!(copied_of_a_second(&mut network), 100, "{tenths}");
        assert_eq!(probe_train_bytes(&network), 0, "all is known before the first packet");
    }
}

#[test]
fn on_an_uplink_that_does_not_bear_them_copies_never_fill_it() {
    for tenths in [11, 15, 19] {
        let mut network = over_uplink(&settings(Service::Coding), tenths);
        let waits: Vec<Duration> = (0..60).map(|_| longest_wait(&mut network)).collect();
        assert!(counters(&network).copies <= 2, "{tenths}: {:?}", counters(&network));
        assert!(waits[0] <= ms(22) && waits[1..].iter().all(|wait| *wait <= ms(12)), "{tenths}: {waits:?}");
        assert!(
            !network.observed(SENDER).iter().any(|(_, message)| *message == ObservedMessage::Other),
            "nor are there probes"
        );
    }
}

#[test]
fn a_flow_that_begins_at_once_waits_for_one_train_and_its_answer() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.uplink = Some(uplink(100));
    network.stream(100);
    let copied = network.enveloped(EnvelopeRole::Copy);
    // The flow is registered after two round trips of 20 ms. The uplink is measured after one more
    // and 18 ms.
    assert!(copied[0] <= 10 && copied.len() >= 85, "{copied:?}");
}

#[test]
fn a_train_leaves_behind_the_original_that_is_one_too_many() {
    let mut network = over_uplink(&settings(Service::Coding), 10_000);
    // At 95 Mbit/s, 20 ms of the uplink: half of it for copies.
    (0..120).for_each(|_| network.send(&[7; 1_000]));
    let is_train = |datagram: &Datagram| {
        datagram.to == RELAY && datagram.priority == Priority::Scavenger && datagram.bytes[0] != 9
    };
    let first = network.sent.iter().position(is_train).expect("so much was not expected");
    assert!(network.sent[first - 1].source_sequence().is_some());
    assert!(
        network.sent[..first].iter().filter(|datagram| datagram.source_sequence().is_some()).count() > 60
    );
}

#[test]
fn without_answers_nothing_is_copied_and_trains_are_rare() {
    let mut network = TestNetwork::unregistered(&settings(Service::Coding));
    network.loses(|datagram| {
        datagram.from == SENDER && datagram.to == RELAY && datagram.priority == Priority::Scavenger
    });
    for _ in 0..60 {
        network.stream(100);
    }
    assert_eq!(counters(&network).copies, 0);
    let bytes = probe_train_bytes(&network);
    assert!((2_120 * 4..2_120 * 12).contains(&bytes), "{bytes}");
}

#[test]
fn copies_come_back_when_packets_are_lost_and_the_uplink_has_become_faster() {
    let mut network = over_uplink(&settings(Service::Coding), 15);
    assert!(copied_of_a_second(&mut network) <= 2);
    network.uplink = Some(uplink(50));
    assert_eq!(copied_of_a_second(&mut network), 0, "nobody needs them");
    network.lose_source_packets([250]);
    network.stream(100);
    assert_eq!(copied_of_a_second(&mut network), 100);
}

#[test]
fn copies_stop_when_the_uplink_becomes_slower() {
    let mut network = over_uplink(&settings(Service::Coding), 50);
    assert_eq!(copied_of_a_second(&mut network), 100);
    network.uplink = Some(uplink(15));
    (0..3).for_each(|_| network.stream(100));
    assert_eq!(copied_of_a_second(&mut network), 0);
    let wait = longest_wait(&mut network);
    assert!(wait <= ms(12), "{wait} {:?}", counters(&network));
}

#[test]
fn where_packets_are_lost_a_narrow_uplink_helps_with_what_it_has_to_spare() {
    let mut network = over_uplink(&settings(Service::Coding), 17);
    network.loses(|datagram| datagram.source_sequence().is_some_and(|number| number % 50 == 0));
    (0..5).for_each(|_| network.stream(100));
    let copied = copied_of_a_second(&mut network);
    // 4/5 of 1.7 minus the source packets are 0.36 times the flow.
    assert!((20..40).contains(&copied), "{copied}");
    network.uplink = Some(uplink(12));
    (0..60).for_each(|_| network.stream(100));
    assert_eq!(copied_of_a_second(&mut network), 0);
}

/// Streams for a second over an uplink of `tenths` tenths of the flow's rate. Returns the probes
/// that the sender sends, and those of them directly behind packets.
fn probes_of_a_second(tenths: u64) -> (usize, usize) {
    let mut network = over_uplink(&settings(Service::Coding), tenths);
    (0..3).for_each(|_| network.stream(100));
    network.forget();
    network.stream(100);
    let of_sender = || network.sent.iter().filter(|datagram| datagram.from == SENDER);
    let probes = || of_sender().filter(|datagram| datagram.bytes[0] == 8);
    let is_behind =
        |probe: &&Datagram| of_sender().any(|one| one.source_sequence().is_some() && one.at == probe.at);
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
    let mut network = over_uplink(&marked, 12);
    for number in 0..200 {
        network.send_as(&[7; 50], Ecn::NotCapable, number % 20 == 0);
        network.run(ms(10));
    }
    assert_eq!(counters(&network).copies, 10);
}

#[test]
fn repair_packets_from_here_need_less_of_an_uplink_than_copies() {
    let own = FlowSettings { duplication: Duplication::SenderFec, ..settings(Service::Coding) };
    let made = [12, 15].map(|tenths| {
        let mut network = over_uplink(&own, tenths);
        (0..2).for_each(|_| network.stream(100));
        let before = counters(&network).sender_fec_repairs;
        network.stream(100);
        counters(&network).sender_fec_repairs - before
    });
    assert_eq!(made, [0, 20]);
}
