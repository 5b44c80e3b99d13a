//! Tests of mixed traffic: congestion losses are not repaired, all others are.

use super::*;
use crate::agent::Traffic;
use byway_wire::messages::Confirm;

fn mixture() -> FlowSettings {
    FlowSettings { traffic: Traffic::Mixture, ..settings(Service::Caching) }
}

/// Streams packets 0 to 11 without 10. Packets from 5 on wait in a queue for this time.
fn with_a_loss_in_a_queue(waits: Duration) -> TestNetwork {
    let mut network = TestNetwork::new(&mixture());
    network.lose_source_packets([10]);
    network.stream(5);
    network.direct += waits;
    network.stream(15);
    network.run(ms(30));
    network
}

/// Returns true if a NACK requested the lost packet.
fn is_asked_for(network: &TestNetwork, number: u32) -> bool {
    let has = |message: &ObservedMessage| matches!(message, ObservedMessage::Nack { ranges, .. } if ranges.contains(&(number, 1)));
    network.observed_messages(RECEIVER).iter().any(has)
}

#[test]
fn all_of_a_mixture_is_copied_and_delivered_as_it_comes() {
    let network = with_a_loss_in_a_queue(Duration::ZERO);
    assert_eq!(network.enveloped(EnvelopeRole::Copy).len(), 20);
    assert_eq!((network.got.len(), network.statistics().reordering_buffered), (19, 0));
}

#[test]
fn a_loss_on_an_empty_path_is_asked_for_and_one_in_a_standing_queue_is_not() {
    for (waits, left) in [(0, 0), (5, 0), (20, 1), (80, 1)] {
        let mut network = with_a_loss_in_a_queue(ms(waits));
        assert_eq!(
            (is_asked_for(&network, 10), network.statistics().congestion_losses),
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
        assert_eq!(is_asked_for(&network, 10), left == 0, "{waits} ms, later");
    }
}

#[test]
fn what_an_outage_takes_is_asked_for_whatever_queued_before() {
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
fn a_loss_of_datagrams_is_asked_for_whatever_queues() {
    let mut network = TestNetwork::new(&settings(Service::Caching));
    network.lose_source_packets([10]);
    network.stream(5);
    network.direct += ms(80);
    network.stream(15);
    network.run(ms(100));
    assert!(is_asked_for(&network, 10) && network.statistics().congestion_losses == 0);
}
