//! Tests of the packets that also use the direct path while relays alone forward a flow.
//!
//! The delay is 30 ms on the direct path, and 50 ms through relays.

use super::*;

/// Returns a network with a flow that relays alone forward, and whose sender selects the service.
fn selected() -> TestNetwork {
    TestNetwork::new(&FlowSettings { automatic_service: true, ..settings(Service::Forwarding) })
}

/// Streams the packets from one number to before another; the relay forwards each 40 ms after its
/// sending, if it `forwards`.
fn stream(network: &mut TestNetwork, (from, until): (u32, u32), forwards: bool) {
    for number in from..until + 4 {
        if number < until {
            network.send(&[u8::try_from(number % 251).expect("a byte"); 50]);
        }
        let earlier = number.checked_sub(4).filter(|earlier| forwards && *earlier >= from);
        if let Some(earlier) = earlier {
            let coded = network.copy(earlier);
            network.send_envelope_from_relay(EnvelopeRole::Forwarded, earlier, &coded);
        }
        network.run(ms(10));
    }
    network.run(ms(100));
}

fn nacked_gaps(network: &TestNetwork) -> usize {
    let messages = network.observed_messages(RECEIVER);
    let gaps = messages.iter().map(|message| match message {
        ObservedMessage::Nack { ranges, .. } => ranges.len(),
        _ => 0,
    });
    gaps.sum()
}

#[test]
fn one_packet_in_sixteen_also_uses_the_direct_path_and_is_delivered_once() {
    let mut network = selected();
    stream(&mut network, (0, 100), true);
    // 0, 16, and so on until 96.
    assert_eq!(network.agents[SENDER].counters().source_packets, 7);
    let statistics = network.statistics();
    assert_eq!((statistics.direct, statistics.forwarded, statistics.covered), (7, 93, 0), "{statistics:?}");
    assert_eq!((network.got.len(), statistics.lost, statistics.bursts), (100, 0, 0), "{statistics:?}");
    assert_eq!(nacked_gaps(&network), 0, "the packets before a sample arrive 20 ms later");
}

#[test]
fn samples_that_the_direct_path_loses_are_counted() {
    let mut network = selected();
    network.lose_source_packets([16, 32]);
    stream(&mut network, (0, 140), true);
    let statistics = network.statistics();
    // Four samples after them show that they are lost.
    assert_eq!((statistics.direct, statistics.forwarded, statistics.covered), (7, 133, 2), "{statistics:?}");
    assert_eq!((network.got.len(), statistics.lost, statistics.bursts), (140, 0, 0), "{statistics:?}");
}

#[test]
fn a_flow_whose_service_the_settings_name_has_no_samples() {
    let mut network = TestNetwork::new(&settings(Service::Forwarding));
    stream(&mut network, (0, 100), true);
    assert_eq!(network.agents[SENDER].counters().source_packets, 0);
}

#[test]
fn samples_hide_no_failure_of_the_relays() {
    let mut network = selected();
    stream(&mut network, (0, 200), true);
    stream(&mut network, (200, 300), false);
    let status = network.agents[SENDER].flow_status(network.flow).expect("the flow is open");
    assert_eq!(status.service, Service::Both);
    let before = network.got.len();
    stream(&mut network, (300, 400), false);
    assert_eq!(network.got.len() - before, 100, "by the direct path");
}
