//! Tests of mixed traffic: congestion losses are not repaired, all others are.

use super::*;
use crate::agent::Traffic;
use byway_wire::messages::Confirm;

fn mixture() -> FlowSettings {
    FlowSettings { traffic: Traffic::Mixture, ..settings(Service::Caching) }
}

/// Returns a network of a mixture with a relay so near that repairs arrive within a quarter of the
/// round trip of 60 ms.
fn near(settings: &FlowSettings) -> TestNetwork {
    let mut network = TestNetwork::unregistered(settings);
    network.relayed = ms(2);
    network.run(ms(500));
    network.forget();
    network
}

/// Streams packets 0 to 19 without 10. Packets from 5 on wait in a queue for this time.
fn with_a_loss_in_a_queue(waits: Duration) -> TestNetwork {
    let mut network = near(&mixture());
    network.lose_source_packets([10]);
    network.stream(5);
    network.direct += waits;
    network.stream(15);
    network.run(ms(60));
    network
}

/// Returns true if a NACK requested the lost packet.
fn is_requested(network: &TestNetwork, number: u32) -> bool {
    let has = |message: &ObservedMessage| matches!(message, ObservedMessage::Nack { ranges, .. } if ranges.contains(&(number, 1)));
    network.observed_messages(RECEIVER).iter().any(has)
}

#[test]
fn all_packets_of_a_mixture_are_copied() {
    let network = with_a_loss_in_a_queue(Duration::ZERO);
    assert_eq!(network.enveloped(EnvelopeRole::Copy).len(), 20);
    assert_eq!(network.got.len(), 19);
}

#[test]
fn packets_behind_a_loss_on_an_empty_path_wait_for_a_quarter_of_the_round_trip() {
    let mut network = near(&mixture());
    network.lose_source_packets([3]);
    network.stream(4);
    network.send(&[4; 50]);
    network.run(network.direct);
    assert_eq!(network.got.len(), 3);
    network.run(ms(14));
    assert_eq!(network.got.len(), 3);
    network.run(ms(2));
    assert_eq!((network.got.len(), network.statistics().gaps_passed), (4, 1));
    // A call in the tunnel can still use a later repair.
    let coded = network.copy(3);
    network.send_envelope_from_relay(EnvelopeRole::CachedRepair, 3, &coded);
    network.run(ms(2));
    assert_eq!((network.got.len(), network.statistics().late), (5, 0));
}

#[test]
fn packets_behind_a_congestion_loss_do_not_wait() {
    let network = with_a_loss_in_a_queue(ms(20));
    assert_eq!((network.got.len(), network.statistics().reordering_buffered), (19, 0));
}

#[test]
fn a_loss_that_no_relay_can_repair_in_time_is_left_to_congestion_control() {
    // The round trip to the relay is 20 ms, and a quarter of that to the sender 15 ms.
    let mut network = TestNetwork::new(&mixture());
    network.lose_source_packets([3]);
    network.stream(10);
    network.run(ms(30));
    assert!(!is_requested(&network, 3));
    let statistics = network.statistics();
    assert_eq!((statistics.congestion_losses, statistics.reordering_buffered), (1, 0));
}

#[test]
fn a_loss_on_an_empty_path_is_requested_and_one_in_a_standing_queue_is_not() {
    for (waits, left) in [(0, 0), (1, 0), (5, 1), (20, 1), (80, 1)] {
        let mut network = with_a_loss_in_a_queue(ms(waits));
        assert_eq!(
            (is_requested(&network, 10), network.statistics().congestion_losses),
            (left == 0, left),
            "{waits} ms"
        );
        // The receiver sends no NACK for it later either, after the queue has drained, or if a
        // relay has it.
        network.direct = ms(30);
        let tenth = ranges([10]);
        let confirm = Confirm { alias: alias_of(RECEIVER), ranges: tenth.ranges() };
        network.send_from_relay(RECEIVER, &Message::Confirm(confirm));
        network.stream(10);
        network.run(ms(100));
        assert_eq!(is_requested(&network, 10), left == 0, "{waits} ms, later");
    }
}

#[test]
fn what_an_outage_takes_is_requested_whatever_queued_before() {
    let mut network = with_a_loss_in_a_queue(ms(40));
    network.loses(|datagram| datagram.source_sequence().is_some());
    network.stream(100);
    let is_open =
        |message: &ObservedMessage| matches!(message, ObservedMessage::Nack { open_from: Some(20), .. });
    assert!(
        network.observed_messages(RECEIVER).iter().any(is_open),
        "{:?}",
        network.observed_messages(RECEIVER)
    );
}

#[test]
fn a_loss_of_datagrams_is_requested_whatever_queues() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.lose_source_packets([10]);
    network.stream(5);
    network.direct += ms(80);
    network.stream(15);
    network.run(ms(100));
    assert!(is_requested(&network, 10) && network.statistics().congestion_losses == 0);
}
