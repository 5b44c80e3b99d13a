//! Tests of cooperative recovery: packets for other receivers.

use super::*;
use crate::limits::{AGENT_BUFFER_BYTES, COOPERATION_BUFFER_REACH, REPAIR_LIFETIME_MAX, REQUESTS_MAX};
use byway_wire::Microseconds;
use byway_wire::messages::{Consent, CooperativeRequest};

fn request(network: &mut TestNetwork, numbers: impl IntoIterator<Item = u64>, repair_lifetime: Duration) {
    let numbers = ranges(numbers);
    let repair_lifetime = Microseconds::from_duration(repair_lifetime);
    let request = CooperativeRequest { alias: alias_of(RECEIVER), repair_lifetime, ranges: numbers.ranges() };
    network.send_from_relay(RECEIVER, &Message::CooperativeRequest(request));
}

fn answers(network: &TestNetwork) -> Vec<u32> {
    network.enveloped(EnvelopeRole::CooperativeAnswer)
}

#[test]
fn a_packet_at_hand_is_given_at_once_as_it_was_sealed() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(10);
    network.run(ms(50));
    request(&mut network, [4, 7], ms(200));
    network.run(ms(20));
    assert_eq!(answers(&network), [4, 7]);
    let given = ObservedMessage::Envelope {
        role: EnvelopeRole::CooperativeAnswer,
        sequence: 4,
        coded: network.copy(4),
    };
    assert!(network.observed_messages(RECEIVER).contains(&given));
    assert_eq!(network.statistics().lent, 2);
}

#[test]
fn a_packet_that_is_still_expected_is_given_when_it_comes() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(10);
    network.send(&[10; 50]);
    request(&mut network, [10], ms(200));
    network.run(ms(25));
    assert_eq!(answers(&network), []);
    network.run(ms(20));
    assert_eq!(answers(&network), [10]);
    assert!(
        !network
            .observed_messages(RECEIVER)
            .iter()
            .any(|message| matches!(message, ObservedMessage::CooperativeRefusal(_)))
    );
}

#[test]
fn a_packet_that_comes_too_late_to_be_of_use_is_not_given() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(10);
    network.send(&[10; 50]);
    request(&mut network, [10], ms(15));
    network.run(ms(60));
    assert_eq!(answers(&network), []);
}

#[test]
fn a_packet_that_is_lost_here_too_is_said_to_be_and_given_after_its_own_repair() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.lose_source_packets([5]);
    network.stream(8);
    network.run(ms(40));
    request(&mut network, [5], ms(500));
    network.run(ms(20));
    assert!(
        network
            .observed_messages(RECEIVER)
            .contains(&ObservedMessage::CooperativeRefusal(alloc::vec![(5, 1)]))
    );
    assert_eq!(answers(&network), []);
    let coded = network.copy(5);
    network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, 5, &coded);
    network.run(ms(25));
    assert_eq!(answers(&network), [5]);
}

#[test]
fn it_is_said_to_be_lost_when_this_receiver_finds_out() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(10);
    network.lose_source_packets([10]);
    network.send(&[10; 50]);
    request(&mut network, [10], ms(500));
    network.run(ms(5));
    network.stream(2);
    network.run(ms(45));
    let lost: Vec<ObservedMessage> = network
        .observed_messages(RECEIVER)
        .into_iter()
        .filter(|message| matches!(message, ObservedMessage::CooperativeRefusal(_)))
        .collect();
    assert_eq!(lost, [ObservedMessage::CooperativeRefusal(alloc::vec![(10, 1)])], "once");
}

#[test]
fn a_receiver_gives_what_it_consented_to_and_no_more() {
    let unwilling = Consent { burst_percent: 0, average_per_mille: 0, seconds: 0 };
    let mut network = TestNetwork::new(&FlowSettings { consent: unwilling, ..settings(Service::Coding) });
    network.stream(10);
    network.run(ms(50));
    request(&mut network, [4], ms(200));
    network.run(ms(20));
    assert_eq!((answers(&network).len(), network.statistics().beyond_consent), (0, 1));
    // 1 % of 250,000 bytes.
    let sparing = Consent { burst_percent: 1, average_per_mille: 0, seconds: 1 };
    let mut network = TestNetwork::new(&FlowSettings { consent: sparing, ..settings(Service::Coding) });
    network.stream(100);
    network.run(ms(50));
    request(&mut network, 50..100, ms(200));
    network.run(ms(20));
    let statistics = network.statistics();
    assert!((2_400..=2_500).contains(&statistics.lent_bytes), "{statistics:?}");
    assert_eq!(statistics.lent + statistics.beyond_consent, 50);
}

#[test]
fn only_so_many_requests_are_looked_at_and_wait() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(1);
    network.run(ms(50));
    request(&mut network, 1..2_000, ms(2_000));
    request(&mut network, 1_000..1_010, ms(2_000));
    network.run(ms(20));
    // The last ten requests replaced the first ten.
    for _ in 0..REQUESTS_MAX {
        network.send(&[1; 50]);
        network.run(ms(1));
    }
    network.run(ms(50));
    let answered = answers(&network);
    assert_eq!(answered.len(), REQUESTS_MAX - 10);
    assert_eq!(answered.first(), Some(&11));
}

#[test]
fn nobody_is_answered_but_a_relay_that_was_told_of_the_flow() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    network.stream(3);
    network.run(ms(50));
    let numbers = ranges([1]);
    let request = CooperativeRequest {
        alias: Alias::new(77).expect("not zero"),
        repair_lifetime: Microseconds::from_duration(ms(200)),
        ranges: numbers.ranges(),
    };
    network.send_from_relay(RECEIVER, &Message::CooperativeRequest(request));
    network.run(ms(20));
    assert_eq!((answers(&network).len(), network.agents[RECEIVER].counters().flows_unknown), (0, 1));
}

#[test]
fn a_request_waits_for_two_seconds_whatever_it_says() {
    let waits_for = |time: Duration| {
        let mut network = TestNetwork::new(&settings(Service::Coding));
        network.stream(10);
        request(&mut network, [10], ms(3_600_000));
        network.run(time);
        network.send(&[10; 50]);
        network.run(ms(50));
        answers(&network)
    };
    // The request needs 10 ms to the receiver, the packet 30 ms.
    assert_eq!(waits_for(REPAIR_LIFETIME_MAX - ms(21)), [10]);
    assert_eq!(waits_for(REPAIR_LIFETIME_MAX - ms(19)), []);
}

#[test]
fn only_so_many_packets_are_kept_for_others() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    for number in 0..=COOPERATION_BUFFER_REACH {
        network.send(&[number.to_be_bytes()[7]; 50]);
    }
    network.run(ms(50));
    request(&mut network, [0, 1, COOPERATION_BUFFER_REACH as u64], ms(200));
    network.run(ms(50));
    assert_eq!(answers(&network), [1, u32::try_from(COOPERATION_BUFFER_REACH).expect("small")]);
}

#[test]
fn what_is_kept_of_long_packets_takes_only_so_much_memory_and_all_are_delivered() {
    let mut network = TestNetwork::new(&settings(Service::Coding));
    let count = 2 * usize::try_from(AGENT_BUFFER_BYTES).expect("small") / 1_300;
    for number in 0..count {
        network.send(&[number.to_be_bytes()[7]; 1_300]);
        if number % 64 == 63 {
            network.run(ms(1));
        }
    }
    for agent in &network.agents {
        assert!(agent.packets_held().count() <= 2 * AGENT_BUFFER_BYTES, "{}", agent.packets_held());
    }
    network.run(ms(100));
    assert_eq!(network.got.len(), count);
    assert!(
        network.agents[RECEIVER].packets_held().count() > AGENT_BUFFER_BYTES / 2,
        "the limit was reached"
    );
}
