//! Retransmission: what the sender sends again at its receiver's requests, and how much at most.

use byway_units::Rate;
use byway_wire::messages::{ProbeReply, Silence, SourceNack};
use byway_wire::packets::SOURCE_OVERHEAD;
use byway_wire::{Microseconds, RangeSet, Timestamp};

use super::*;
use crate::agent::Duplication;
use crate::limits::{CARRIED_AFTER, COPIES_ONLY_AFTER, OUTAGE_FORWARDING_MAX, RESENDS_PER_PACKET_MAX};
use crate::session::ProbeContext;

impl TestNetwork {
    /// Returns a network whose flow has retransmission, after its first report.
    fn resending(settings: &FlowSettings) -> Self {
        let mut network = Self::new(settings);
        network.stream(40);
        network.run(ms(300));
        network.forget();
        network
    }

    fn send_source_nack(&mut self, missing: core::ops::Range<u64>) {
        let session = self.agents[SENDER].peers[&number(RECEIVER)];
        let mut ranges = RangeSet::new();
        assert!(missing.map(SequenceNumber::new).all(|sequence| ranges.insert(sequence)));
        let nack = SourceNack { flow_key: key(), ranges: ranges.ranges() };
        self.agents[SENDER].on_source_nack(session, &nack, self.now);
        self.drain(SENDER);
    }

    fn send_silence(&mut self, from: u64, elapsed: Duration) {
        let session = self.agents[SENDER].peers[&number(RECEIVER)];
        let (from_low, elapsed) = (SequenceNumber::new(from).low(), Microseconds::from_duration(elapsed));
        let silence = Silence { flow_key: key(), from_low, elapsed, direct: u32::MAX };
        self.agents[SENDER].on_silence(session, &silence, self.now);
        self.drain(SENDER);
    }

    /// Returns the numbers of the packets that the relay received with this role.
    fn at_relay(&self, wanted: EnvelopeRole) -> Vec<u32> {
        let numbers = self.relay.observed.iter().filter_map(|(_, _, observed)| match observed {
            ObservedMessage::Envelope { role, sequence, .. } if *role == wanted => Some(*sequence),
            _ => None,
        });
        numbers.collect()
    }

    fn source_packets(&self) -> usize {
        self.sent.iter().filter(|datagram| datagram.source_sequence().is_some()).count()
    }
}

fn resent_settings() -> FlowSettings {
    FlowSettings { rate: Rate::from_megabits_per_second(10), ..settings(Service::Retransmission) }
}

#[test]
fn a_packet_is_sent_again_once_in_a_round_trip_and_three_times_at_most() {
    let mut network = TestNetwork::resending(&FlowSettings { latency_budget: ms(900), ..resent_settings() });
    for repeated in [0, 20, 60, 120, 180, 240] {
        network.send_source_nack(38..40);
        network.run(ms(60 * u64::from(repeated > 0)) + ms(1));
    }
    network.run(ms(50));
    let resent = network.at_relay(EnvelopeRole::ResentCopy);
    assert_eq!(resent.len(), 2 * usize::from(RESENDS_PER_PACKET_MAX), "{resent:?}");
    assert_eq!(network.at_relay(EnvelopeRole::Copy), [] as [u32; 0]);
}

#[test]
fn what_cannot_be_in_time_is_not_sent_again() {
    let mut network = TestNetwork::resending(&resent_settings());
    network.send_source_nack(0..10);
    network.run(ms(50));
    assert_eq!(network.at_relay(EnvelopeRole::ResentCopy), [] as [u32; 0]);
    assert_eq!(network.agents[SENDER].counters().copies_expired, 10);
}

#[test]
fn a_receiver_that_requests_everything_gets_the_flows_rate() {
    let rate = Rate::from_kilobits_per_second(100);
    let mut network = TestNetwork::resending(&FlowSettings { rate, ..resent_settings() });
    let began = network.now;
    let mut bytes = 0;
    for _ in 0..300 {
        network.stream(1);
        let next = network.agents[SENDER].senders[0].next.number();
        network.send_source_nack(next.saturating_sub(30)..next);
    }
    network.run(ms(50));
    for (_, _, observed) in &network.relay.observed {
        if let ObservedMessage::Envelope { role: EnvelopeRole::ResentCopy, coded, .. } = observed {
            bytes += coded.len();
        }
    }
    let elapsed = network.now - began + crate::limits::COPY_BURST;
    let most = rate.bytes_in(elapsed).expect("it is a short time").count();
    assert!(bytes as u64 <= most + 2_000 && bytes as u64 >= most / 2, "{bytes} of {most}");
}

#[test]
fn a_short_silence_costs_the_packets_that_should_have_arrived() {
    let mut network = TestNetwork::resending(&resent_settings());
    network.stream(30);
    let next = network.agents[SENDER].senders[0].next.number();
    network.forget();
    network.send_silence(next - 20, ms(40));
    network.run(ms(30));
    let resent = network.at_relay(EnvelopeRole::ResentCopy);
    assert!(!resent.is_empty() && resent.len() < 20, "{resent:?}");
    network.stream(5);
    assert_eq!(network.at_relay(EnvelopeRole::Copy), [] as [u32; 0], "no outage yet");
}

#[test]
fn in_an_outage_relays_get_everything_until_the_ack_and_the_direct_path_a_part() {
    let mut network = TestNetwork::resending(&resent_settings());
    network.stream(20);
    network.loses = Box::new(|datagram| datagram.source_sequence().is_some());
    network.stream(200);
    assert!(network.at_relay(EnvelopeRole::ResentCopy).len() >= 90, "those of the first second");
    network.forget();
    network.stream(40);
    assert_eq!(network.at_relay(EnvelopeRole::Copy).len(), 40);
    assert!((5..=10).contains(&network.source_packets()), "{}", network.source_packets());
    network.loses = Box::new(|_| false);
    network.stream(30);
    network.run(ms(50));
    network.forget();
    network.stream(40);
    network.run(ms(50));
    assert_eq!((network.at_relay(EnvelopeRole::Copy).len(), network.source_packets()), (0, 40));
    assert_eq!(network.got.len(), 40);
}

/// Loses this number of source packets, 10 ms apart, from the direct path; returns the number of
/// copies that the relay then received, until long after the last of them.
fn copies_of_a_burst(network: &mut TestNetwork, lost: u8) -> usize {
    network.stream(20);
    network.forget();
    network.loses = Box::new(|datagram| datagram.source_sequence().is_some());
    network.stream(lost);
    network.loses = Box::new(|_| false);
    network.stream(60);
    network.run(ms(300));
    network.at_relay(EnvelopeRole::Copy).len()
}

#[test]
fn until_a_burst_of_losses_is_an_outage_only_its_packets_are_sent_again() {
    for lost in [1, 3, 12, 40] {
        let mut network = TestNetwork::resending(&resent_settings());
        assert_eq!(copies_of_a_burst(&mut network, lost), 0, "{lost}");
        let resent = network.at_relay(EnvelopeRole::ResentCopy);
        assert_eq!(resent.iter().collect::<BTreeSet<_>>().len(), usize::from(lost), "{lost}: {resent:?}");
    }
}

#[test]
fn a_budget_without_time_for_notices_sends_all_packets_through_relays_at_once() {
    for (budget, copied) in [(100, true), (160, false)] {
        let mut network =
            TestNetwork::resending(&FlowSettings { latency_budget: ms(budget), ..resent_settings() });
        assert_eq!(copies_of_a_burst(&mut network, 20) > 0, copied, "{budget}");
    }
}

#[test]
fn a_flow_whose_latest_packets_are_all_in_flight_goes_through_relays_at_once() {
    let rate = Rate::from_megabits_per_second(50);
    let mut network = TestNetwork::resending(&FlowSettings { rate, ..resent_settings() });
    network.loses = Box::new(|datagram| datagram.source_sequence().is_some());
    for _ in 0..200 {
        (0..8).for_each(|number| network.send(&[number; 50]));
        network.run(ms(1));
    }
    assert!(network.at_relay(EnvelopeRole::Copy).len() > 100, "256 packets are 32 ms");
}

#[test]
fn a_narrow_uplink_is_relieved_of_lost_packets_early() {
    for (elapsed, copied) in [(ms(90), false), (COPIES_ONLY_AFTER, true)] {
        let mut network = TestNetwork::resending(&resent_settings());
        network.stream(20);
        let load = network.agents[SENDER].uplink.load.measured().source_packets;
        network.agents[SENDER].relays[0]
            .capacity_probe
            .assume_capacity(Some(load + Rate::from_bits_per_second(load.bits_per_second() / 2)));
        let next = network.agents[SENDER].senders[0].next.number();
        network.send_silence(next - 5, elapsed);
        network.forget();
        network.stream(10);
        assert_eq!(!network.at_relay(EnvelopeRole::Copy).is_empty(), copied, "{elapsed:?}");
    }
}

/// Returns a network whose uplink has this many tenths of the flow's rate, and whose latency budget
/// has no time to wait for a second notice of silence.
fn over_narrow_uplink(tenths: u64) -> TestNetwork {
    let source = uplink_bytes(50 + SOURCE_OVERHEAD);
    let rate = Rate::over(source, ms(10)).expect("ten milliseconds").bits_per_second();
    let settings = FlowSettings { latency_budget: ms(110), ..resent_settings() };
    let mut network = TestNetwork::unregistered(&settings);
    network.uplink = Some(Rate::from_bits_per_second(rate * tenths / 10));
    network.run(ms(3_000));
    network.stream(200);
    network.forget();
    network
}

#[test]
fn in_an_outage_lost_packets_leave_by_a_narrow_uplink_without_filling_its_buffer() {
    let mut network = over_narrow_uplink(20);
    network.loses(|datagram| datagram.source_sequence().is_some());
    let mut longest = Duration::ZERO;
    for number in 0..100 {
        network.send(&[number; 50]);
        network.run(ms(10));
        longest = longest.max(network.busy_until.saturating_since(network.now));
    }
    assert!((ms(10)..=ms(90)).contains(&longest), "{longest:?}");
    let (copies, resent) = (network.at_relay(EnvelopeRole::Copy), network.at_relay(EnvelopeRole::ResentCopy));
    assert!(copies.len() >= 85, "{}", copies.len());
    assert!(resent.iter().collect::<BTreeSet<_>>().len() >= 3, "{resent:?}");
    assert!(network.source_packets() <= 30, "{}", network.source_packets());
}

#[test]
fn after_a_pause_packets_use_the_direct_path_behind_a_narrow_uplink_too() {
    let mut network = over_narrow_uplink(20);
    network.run(ms(400));
    network.forget();
    network.stream(5);
    assert_eq!(network.source_packets(), 5);
}

#[test]
fn the_uplink_of_a_flow_that_begins_at_once_is_measured_before_an_outage() {
    let mut network = TestNetwork::unregistered(&resent_settings());
    network.uplink = Some(Rate::from_kilobits_per_second(160));
    network.stream(250);
    let capacity = network.agents[SENDER].relays[0].capacity_probe.capacity().expect("it was measured");
    assert!(capacity < Rate::from_kilobits_per_second(200), "{capacity:?}");
    network.forget();
    network.stream(250);
    assert!(network.at_relay(EnvelopeRole::Copy).is_empty());
}

#[test]
fn repairs_of_bursts_watch_relays_and_an_outage_uses_them() {
    let is_in_use = |network: &TestNetwork, who: usize| {
        let relay = network.agents[who].relays[0].session;
        network.agents[who].sessions.get(relay).is_some_and(|session| session.is_in_use(network.now))
    };
    let mut network = TestNetwork::resending(&resent_settings());
    network.run(ms(1_500));
    copies_of_a_burst(&mut network, 3);
    assert!(!network.at_relay(EnvelopeRole::ResentCopy).is_empty());
    assert!(!is_in_use(&network, SENDER) && !is_in_use(&network, RECEIVER));
    network.loses = Box::new(|datagram| datagram.source_sequence().is_some());
    network.stream(130);
    assert!(is_in_use(&network, SENDER) && is_in_use(&network, RECEIVER));
}

#[test]
fn a_claimed_outage_costs_a_quarter_of_a_minute() {
    let mut network = TestNetwork::resending(&resent_settings());
    let began = network.now;
    let mut copied = 0;
    while network.now < began + ms(50_000) {
        let next = network.agents[SENDER].senders[0].next.number();
        network.send_silence(next, CARRIED_AFTER);
        network.forget();
        network.stream(20);
        copied += network.at_relay(EnvelopeRole::Copy).len() as u64;
    }
    let most = OUTAGE_FORWARDING_MAX.as_millis() / 10;
    assert!((most / 2..=most + 40).contains(&copied), "{copied} of {most}");
}

#[test]
fn a_notice_of_silence_that_the_acks_overtook_leaves_nothing_to_relays() {
    let mut network = TestNetwork::resending(&resent_settings());
    network.stream(20);
    network.loses = Box::new(|datagram| datagram.source_sequence().is_some());
    let silent_from = network.agents[SENDER].senders[0].next.number();
    network.stream(40);
    network.loses = Box::new(|_| false);
    network.stream(30);
    network.run(ms(50));
    network.send_silence(silent_from, CARRIED_AFTER);
    network.forget();
    network.stream(40);
    network.run(ms(50));
    assert_eq!((network.at_relay(EnvelopeRole::Copy).len(), network.source_packets()), (0, 40));
    let next = network.agents[SENDER].senders[0].next.number();
    network.send_silence(next, CARRIED_AFTER);
    network.stream(40);
    assert!(!network.at_relay(EnvelopeRole::Copy).is_empty(), "a later silence counts");
}

#[test]
fn without_a_relay_that_answers_a_lost_packet_is_sent_again_on_the_direct_path() {
    let mut network = TestNetwork::resending(&resent_settings());
    network.loses = Box::new(|datagram| datagram.from == RELAY || datagram.to == RELAY);
    network.stream(100);
    assert!(network.agents[SENDER].relays[0].is_dead);
    network.forget();
    let next = network.agents[SENDER].senders[0].next.number();
    network.send_source_nack(next - 3..next - 1);
    network.run(ms(50));
    assert_eq!((network.source_packets(), network.at_relay(EnvelopeRole::ResentCopy)), (2, Vec::new()));
}

#[test]
fn a_relay_that_duplicates_for_the_sender_gets_every_packet_of_any_service() {
    let settings = FlowSettings { duplication: Duplication::ByRelay, ..resent_settings() };
    let mut network = TestNetwork::new(&settings);
    network.forget();
    network.stream(5);
    network.run(ms(20));
    assert_eq!(network.at_relay(EnvelopeRole::Copy).len(), 5);
}

#[test]
fn in_a_certain_outage_relays_get_everything_although_they_lose_some_of_it() {
    let mut network = TestNetwork::resending(&resent_settings());
    network.loses = Box::new(|datagram| datagram.source_sequence().is_some());
    network.stream(130);
    let sent = Timestamp::at(network.now);
    for nth in 0..5 {
        let address = address(SENDER).into();
        let reply = ProbeReply {
            number: 0,
            sent,
            received: sent,
            envelopes: nth * 50,
            address,
            long_packets: 0,
            transit_packets: 0,
        };
        let before = ProbeContext { envelopes: nth * 100, ..ProbeContext::default() };
        network.agents[SENDER].relays[0].on_probe_reply(&reply, before, Rate::ZERO, network.now);
    }
    assert!(network.agents[SENDER].relays[0].shut_until(network.now).is_some(), "the breaker tripped");
    network.forget();
    network.stream(40);
    assert_eq!(network.at_relay(EnvelopeRole::Copy).len(), 40);
}
