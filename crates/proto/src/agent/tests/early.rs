//! Tests of early packets: those sent with their flow's offer.

use byway_wire::messages::{CooperativeRequest, EarlyPacket};
use byway_wire::packets::MESSAGE_OVERHEAD;
use byway_wire::{Fragment, Microseconds, Plaintext, Timestamp, UnprotectedMask};

use super::*;
use crate::agent::OfferRefusal;
use crate::limits::{
    EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX, EARLY_DATAGRAMS_PER_PEER_MAX,
    EARLY_RELAYED_BURST, EARLY_RELAYED_RATE, MESSAGES_BYTES_MAX,
};
use crate::parts::loss_timer::{LossTimer, TwoState};

/// Flow number that the sender may offer, because its agent number is smaller.
const FLOW: FlowId = FlowId::new(4);

fn offered(flow: FlowId) -> FlowKey {
    flow_between(number(SENDER), number(RECEIVER), flow)
}

fn flow_settings() -> FlowSettings {
    FlowSettings { latency_budget: ms(200), ..settings(Service::Caching) }
}

impl TestNetwork {
    /// Opens a flow at the sender, and offers it.
    fn begins(&mut self, flow: FlowId) -> SendFlowId {
        let (now, sender) = (self.now, &mut self.agents[SENDER]);
        let sent = sender.open_flow(offered(flow), flow_settings(), now).expect("it is new");
        let offer = Offer { subject: b"video".to_vec(), ..Offer::default() };
        assert!(sender.offer(number(RECEIVER), flow, offer, now));
        self.drain(SENDER);
        sent
    }

    fn sends_early(&mut self, flow: SendFlowId, datagram: &[u8]) -> bool {
        self.sends_early_as(flow, datagram, TrafficClass::DEFAULT)
    }

    fn sends_early_as(&mut self, flow: SendFlowId, datagram: &[u8], traffic_class: TrafficClass) -> bool {
        let is_sent = self.agents[SENDER].send_early(flow, datagram, traffic_class, false, self.now);
        self.drain(SENDER);
        is_sent
    }

    /// Answers an offer as the receiver's driver, which opens an accepted flow first.
    fn consents(&mut self, flow: FlowId, outcome: Result<(), OfferRefusal>) {
        let (now, receiver) = (self.now, &mut self.agents[RECEIVER]);
        if outcome.is_ok() {
            receiver.accept_flow(offered(flow), flow_settings(), now).expect("it is new");
        }
        receiver.answer_offer(number(SENDER), flow, outcome, now);
        self.drain(RECEIVER);
    }

    fn got_bytes(&self) -> Vec<&[u8]> {
        self.got.iter().map(|got| got.bytes.as_slice()).collect()
    }

    fn late(&self) -> u64 {
        let receiver = &self.agents[RECEIVER];
        receiver
            .received_by_key
            .get(&offered(FLOW))
            .map_or(0, |id| receiver.receivers[id.0 as usize].statistics.late)
    }

    /// Sends an early packet of a peer that follows no rules.
    fn inject_early_packet(&mut self, flow: FlowId, sequence: u64, datagram: &[u8]) {
        let session = self.agents[SENDER].peers[&number(RECEIVER)];
        let (sent, traffic_class, unprotected) =
            (Timestamp::at(self.now), TrafficClass::DEFAULT, UnprotectedMask::NONE);
        let plaintext = Plaintext { sent, traffic_class, unprotected, datagram };
        let (sequence, waited) = (SequenceNumber::new(sequence), Microseconds::new(0));
        let packet = EarlyPacket { flow, sequence, fragment: Fragment::Whole, waited, plaintext };
        let sessions = &mut self.agents[SENDER].sessions;
        sessions.send_alone(session, &Message::EarlyPacket(packet), Priority::Source, self.now);
        self.drain(SENDER);
    }

    /// Requests packets of the receiver for others, as the relay; returns the numbers of the
    /// answers.
    fn requests(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<u32> {
        let (numbers, repair_lifetime) = (ranges(numbers), Microseconds::from_duration(ms(200)));
        let request =
            CooperativeRequest { alias: alias_of(RECEIVER), repair_lifetime, ranges: numbers.ranges() };
        self.send_from_relay(RECEIVER, &Message::CooperativeRequest(request));
        self.run(ms(25));
        self.enveloped(EnvelopeRole::CooperativeAnswer)
    }

    /// Returns the datagrams that the receiver buffers, and their bytes.
    fn early_size(&self) -> (usize, usize) {
        let size = self.agents[RECEIVER].early_buffer.size();
        (size.packets, size.bytes)
    }
}

#[test]
fn an_early_datagram_arrives_with_its_offer_and_is_delivered_on_consent() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first") && network.sends_early(flow, &[7; 1_472]));
    network.run(ms(31));
    assert_eq!((network.offers.len(), network.got_bytes()), (1, alloc::vec![]));
    network.consents(FLOW, Ok(()));
    assert_eq!(
        network.got_bytes(),
        [&b"first"[..], &[7; 1_472]],
        "they arrive one one-way delay after sending"
    );
    assert!(network.sends_early(flow, b"third"), "the answer has not come yet");
    network.run(ms(31));
    assert!(!network.sends_early(flow, b"fourth"), "the answer has come");
    network.run(ms(1_000));
    assert_eq!(network.got.len(), 3, "nothing is delivered twice");
    let sent = network.agents[SENDER].senders[flow.0 as usize].next;
    assert_eq!(
        sent,
        SequenceNumber::new(SequenceNumber::FIRST.number() + 4),
        "two fragments have two numbers"
    );
}

#[test]
fn an_early_datagram_keeps_its_dscp_as_an_early_packet_and_as_a_source_packet() {
    let ef = TrafficClass::from_bits(46 << 2);
    for is_lost in [false, true] {
        let mut network = TestNetwork::new(&settings(Service::Internet));
        let flow = network.begins(FLOW);
        if is_lost {
            network.run(ms(31));
            network.loses(|datagram| datagram.from == SENDER);
        }
        for datagram in [&b"first"[..], &[7; 1_169], &[7; 1_500]] {
            assert!(network.sends_early_as(flow, datagram, ef));
        }
        network.run(ms(31));
        network.loses(|_| false);
        network.consents(FLOW, Ok(()));
        network.run(ms(100));
        let lengths: Vec<usize> = network.got.iter().map(|got| got.bytes.len()).collect();
        assert_eq!((lengths, &network.dscps[..]), (alloc::vec![5, 1_169, 1_500], &[46; 3][..]), "{is_lost}");
    }
}

#[test]
fn a_flow_goes_on_in_order_behind_its_early_datagrams() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.flow = network.begins(FLOW);
    let flow = network.flow;
    assert!(network.sends_early(flow, &[0]));
    network.send(&[1]);
    network.run(ms(31));
    network.consents(FLOW, Ok(()));
    network.run(ms(40));
    network.send(&[2]);
    network.run(ms(1_000));
    assert_eq!(network.got_bytes(), [[0], [1], [2]]);
    assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 0);
}

#[test]
fn early_datagrams_that_are_lost_are_repeated_with_the_offer_after_100_ms() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.loses(|datagram| datagram.from == SENDER);
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.run(ms(10));
    network.loses(|_| false);
    network.run(ms(125));
    network.consents(FLOW, Ok(()));
    assert_eq!(network.got_bytes(), [b"first"]);
}

#[test]
fn a_flow_that_is_refused_delivers_nothing_and_counts_what_was_dropped() {
    for refusal in [OfferRefusal::UnknownSubject, OfferRefusal::Full] {
        let mut network = TestNetwork::new(&settings(Service::Internet));
        let flow = network.begins(FLOW);
        assert!(network.sends_early(flow, b"first") && network.sends_early(flow, b"second"));
        network.run(ms(31));
        network.consents(FLOW, Err(refusal));
        assert_eq!(network.early_size(), (0, 0));
        network.run(ms(5_000));
        assert_eq!(network.got_bytes(), [] as [&[u8]; 0]);
        assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 2);
        assert!(!network.sends_early(flow, b"third"));
    }
}

#[test]
fn an_early_datagram_that_waited_beyond_the_budget_is_late_and_follows_as_source_packet() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    // The driver answers late.
    network.run(ms(250));
    network.consents(FLOW, Ok(()));
    assert_eq!((network.got_bytes(), network.late()), (alloc::vec![], 1));
    network.run(ms(100));
    assert_eq!(network.got_bytes(), [b"first"]);
    assert_eq!(network.agents[SENDER].counters().datagrams_late, 1);
}

#[test]
fn early_datagrams_that_are_out_of_date_at_the_answer_are_dropped_and_counted() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.run(ms(1_500));
    assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 1, "at its time");
    assert!(network.sends_early(flow, b"second"));
    network.run(ms(31));
    network.consents(FLOW, Ok(()));
    network.run(ms(1_000));
    assert_eq!(network.got_bytes(), [b"second"]);
    assert_eq!((network.agents[SENDER].counters().datagrams_unsendable, network.late()), (1, 1));
}

#[test]
fn a_datagram_that_comes_by_several_ways_is_delivered_once() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    for _ in 0..3 {
        network.inject_early_packet(FLOW, 1, b"first");
    }
    network.run(ms(31));
    assert_eq!(network.early_size(), (1, 5));
    network.consents(FLOW, Ok(()));
    network.inject_early_packet(FLOW, 1, b"again");
    network.run(ms(100));
    assert!(!network.sends_early(flow, b"late"));
    assert_eq!(network.got_bytes(), [b"first"]);
}

#[test]
fn early_packets_of_flows_that_nobody_offered_are_dropped() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    for flow in (2..200).map(FlowId::new) {
        network.inject_early_packet(flow, 1, &[7; 500]);
    }
    network.run(ms(100));
    assert_eq!((network.early_size(), network.got.len()), ((0, 0), 0));
    assert_eq!(network.agents[RECEIVER].counters().flows_unknown, 198);
}

#[test]
fn numbers_beyond_all_reason_are_not_taken() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.begins(FLOW);
    network.inject_early_packet(FLOW, u64::MAX, b"far");
    network.run(ms(31));
    network.consents(FLOW, Ok(()));
    network.inject_early_packet(FLOW, 1, b"first");
    network.inject_early_packet(FLOW, 1 << 33, b"far");
    network.run(ms(100));
    assert_eq!(network.got_bytes(), [b"first"]);
    assert_eq!(network.agents[RECEIVER].counters().malformed, 2);
}

#[test]
fn early_packets_of_another_offer_of_the_number_of_an_open_flow_wait_for_consent() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.begins(FLOW);
    network.run(ms(31));
    network.consents(FLOW, Ok(()));
    network.run(ms(31));
    let offers = |network: &mut TestNetwork, subject: &[u8]| {
        let (now, offer) = (network.now, Offer { subject: subject.to_vec(), ..Offer::default() });
        assert!(network.agents[SENDER].offer(number(RECEIVER), FLOW, offer, now));
        network.drain(SENDER);
    };
    offers(&mut network, b"audio");
    network.inject_early_packet(FLOW, 1, b"for audio");
    network.run(ms(31));
    assert_eq!((network.got.len(), network.early_size()), (0, (1, 9)), "the flow is of the offer before");
    offers(&mut network, b"text");
    network.run(ms(31));
    assert_eq!((network.got.len(), network.early_size()), (0, (0, 0)), "nor is it for the offer after");
}

#[test]
fn a_peer_that_keeps_to_no_limits_is_held_to_them() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flows: Vec<FlowId> = (2..12).map(|half| FlowId::new(2 * half)).collect();
    for flow in &flows {
        network.begins(*flow);
    }
    network.run(ms(40));
    for flow in &flows {
        for sequence in 1..100 {
            network.inject_early_packet(*flow, sequence, &[7; 1_000]);
        }
    }
    network.run(ms(31));
    let (packets, bytes) = network.early_size();
    assert!(bytes <= EARLY_BYTES_PER_PEER_MAX && packets <= 2 * EARLY_DATAGRAMS_PER_PEER_MAX);
    assert_eq!(network.agents[RECEIVER].counters().early_dropped, 990 - packets as u64);
    for flow in &flows {
        network.consents(*flow, Err(OfferRefusal::Full));
    }
    assert_eq!(network.early_size(), (0, 0));
}

#[test]
fn a_sender_s_early_datagrams_are_bounded_by_flow_and_by_peer() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.loses(|datagram| datagram.from == RECEIVER);
    let flow = network.begins(FLOW);
    let sent = (0..100).filter(|_| network.sends_early(flow, &[1])).count();
    assert_eq!(sent, EARLY_DATAGRAMS_MAX);
    let other = network.begins(FlowId::new(6));
    let sent = (0..100).filter(|_| network.sends_early(other, &[1; 1_000])).count();
    assert_eq!(sent, EARLY_BYTES_MAX / 1_000);
    let third = network.begins(FlowId::new(8));
    let sent = (0..100).filter(|_| network.sends_early(third, &[1])).count();
    assert_eq!(sent, EARLY_DATAGRAMS_PER_PEER_MAX - EARLY_DATAGRAMS_MAX - EARLY_BYTES_MAX / 1_000);
    network.agents[SENDER].close_flow(flow, network.now);
    network.drain(SENDER);
    assert!(network.sends_early(third, &[1]), "a closed flow frees its part of the limit");
}

#[test]
fn a_flow_that_is_closed_uses_no_number_twice() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.run(ms(31));
    network.consents(FLOW, Ok(()));
    network.agents[SENDER].withdraw_offer(number(RECEIVER), FLOW);
    network.agents[SENDER].close_flow(flow, network.now);
    let flow = network.begins(FLOW);
    network.run(ms(1_000));
    assert_eq!(network.got_bytes(), [b"first"]);
    let next = network.agents[SENDER].senders[flow.0 as usize].next;
    assert_eq!(next, SequenceNumber::FIRST.next());
}

#[test]
fn agents_without_a_session_send_their_first_packet_behind_the_handshake() {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    let begun = network.now;
    while network.offers.is_empty() {
        network.run(ms(1));
    }
    network.consents(FLOW, Ok(()));
    assert_eq!(network.got_bytes(), [b"first"]);
    assert!(network.now.saturating_since(begun) <= ms(91), "a round trip, and a one-way delay");
}

#[test]
fn early_datagrams_that_no_session_came_for_are_dropped_and_counted() {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    network.loses(|_| true);
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.run(ms(1_300));
    assert!(network.sends_early(flow, b"second"));
    assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 1);
    network.agents[SENDER].close(network.now);
    assert_eq!(network.agents[SENDER].counters().datagrams_unsendable, 2);
}

/// Returns a network in which the sender's first five packets of ten are sent early. The source
/// packets with the numbers `lost` are lost.
fn coded_beginning(lost: impl IntoIterator<Item = u32>) -> TestNetwork {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let coding = FlowSettings { service: Service::Coding, ..flow_settings() };
    let (now, sender) = (network.now, &mut network.agents[SENDER]);
    network.flow = sender.open_flow(offered(FLOW), coding.clone(), now).expect("it is new");
    assert!(sender.offer(number(RECEIVER), FLOW, Offer::default(), now));
    network.drain(SENDER);
    // The receiver accepts at once, so the relay registers it before the packets arrive.
    network.received = network.agents[RECEIVER].accept_flow(offered(FLOW), coding, now).expect("it is new");
    network.drain(RECEIVER);
    network.lose_source_packets(lost);
    let flow = network.flow;
    for number in 0..5 {
        assert!(network.sends_early(flow, &[number; 50]));
    }
    network.run(ms(31));
    network.agents[RECEIVER].answer_offer(number(SENDER), FLOW, Ok(()), network.now);
    network.drain(RECEIVER);
    assert_eq!(network.got.len(), 5);
    network.run(ms(40));
    for number in 5..10 {
        network.send(&[number; 50]);
        network.run(ms(10));
    }
    network.run(ms(100));
    network
}

#[test]
fn a_block_that_begins_with_early_packets_restores_a_loss() {
    let first = u32::try_from(SequenceNumber::FIRST.number()).expect("a small number");
    for lost in [first + 7, first + 9] {
        let mut network = coded_beginning([lost]);
        assert_eq!(network.got.len(), 9);
        network.send_in_stream_repair(first, 10);
        network.run(ms(15));
        assert_eq!(network.delivered(Delivery::InStream), [u8::try_from(lost - first).expect("below ten")]);
    }
}

#[test]
fn a_block_restores_the_coded_bytes_of_an_early_packet_without_delivering_it_again() {
    let first = u32::try_from(SequenceNumber::FIRST.number()).expect("a small number");
    let mut network = coded_beginning([first + 2]);
    assert_eq!(network.got.len(), 10);
    network.send_in_stream_repair(first, 10);
    network.run(ms(15));
    assert_eq!(network.got.len(), 10);
    let requested = network.requests([u64::from(first) + 2]);
    assert_eq!(requested, [first + 2]);
}

#[test]
fn early_packets_are_given_to_others_once_their_source_packets_came() {
    let mut network = coded_beginning([]);
    let first = SequenceNumber::FIRST.number();
    let requested = network.requests([first, first + 4, first + 6]);
    assert_eq!(requested.iter().map(|low| u64::from(*low) - first).collect::<Vec<_>>(), [0, 4, 6]);
    assert_eq!(network.got.len(), 10, "nothing is delivered twice");
}

#[test]
fn an_early_packet_whose_source_packet_was_lost_is_said_to_be_lost() {
    let first = u32::try_from(SequenceNumber::FIRST.number()).expect("a small number");
    let mut network = coded_beginning([first + 2]);
    assert_eq!(network.requests([u64::from(first) + 2]), []);
    assert!(
        network
            .observed_messages(RECEIVER)
            .contains(&ObservedMessage::CooperativeRefusal(alloc::vec![(first + 2, 1)]))
    );
    let coded = network.copy(first + 2);
    network.send_envelope_from_relay(EnvelopeRole::CooperativeRepair, first + 2, &coded);
    network.run(ms(25));
    assert_eq!(network.enveloped(EnvelopeRole::CooperativeAnswer), [first + 2]);
    assert_eq!(network.got.len(), 10, "nothing is delivered twice");
}

#[test]
fn a_burst_that_consent_releases_teaches_the_loss_timer_no_gap() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    for number in 0..8 {
        assert!(network.sends_early(flow, &[number]));
    }
    network.run(ms(31));
    network.consents(FLOW, Ok(()));
    assert_eq!(network.got.len(), 8);
    let receiver = &network.agents[RECEIVER];
    let id = receiver.received_by_key[&offered(FLOW)];
    let active = receiver.receivers[id.0 as usize].active().expect("packets arrived");
    let round_trip = receiver.sessions.round_trip(receiver.peers[&number(SENDER)]);
    let mut untaught = TwoState::new(round_trip);
    untaught.on_packet(false, network.now);
    assert_eq!(active.loss_timer.timeout(), untaught.timeout());
}

#[test]
fn a_stale_datagram_that_was_never_sent_uses_no_number() {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    network.loses(|_| true);
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.run(ms(1_300));
    let sender = &network.agents[SENDER];
    assert_eq!(sender.counters().datagrams_unsendable, 1);
    assert_eq!(sender.senders[flow.0 as usize].next, SequenceNumber::FIRST);
    assert!(!sender.has_early(flow), "nothing is left of it");
}

#[test]
fn a_datagram_behind_a_stale_one_that_was_never_sent_follows_no_gap() {
    let mut network = TestNetwork::unregistered(&settings(Service::Internet));
    network.loses(|_| true);
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.run(ms(1_200));
    assert!(network.sends_early(flow, b"second"));
    network.loses(|_| false);
    while network.offers.is_empty() {
        network.run(ms(1));
    }
    network.consents(FLOW, Ok(()));
    network.run(ms(200));
    let receiver = &network.agents[RECEIVER];
    let id = receiver.received_by_key[&offered(FLOW)];
    let statistics = &receiver.receivers[id.0 as usize].statistics;
    assert_eq!((statistics.bursts, receiver.backlog().missing), (0, 0));
    assert_eq!(network.agents[SENDER].senders[flow.0 as usize].next, SequenceNumber::FIRST.next());
}

#[test]
fn early_datagrams_for_a_peer_that_is_gone_are_dropped_at_their_time() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flow = network.begins(FLOW);
    assert!(network.sends_early(flow, b"first"));
    network.loses(|_| true);
    assert!(network.sends_early(flow, b"second"));
    network.run(ms(1_260));
    let sender = &network.agents[SENDER];
    assert!(!sender.has_early(flow) && sender.early.deadline().is_none());
    assert_eq!(sender.counters().datagrams_unsendable, 2);
    assert_eq!(sender.senders[flow.0 as usize].next, SequenceNumber::FIRST.plus(2), "both packets were sent");
}

/// Returns the sender's datagrams of more than 1,000 bytes to one of the others.
fn long_ones(network: &TestNetwork, to: usize) -> Vec<&Datagram> {
    let is_selected =
        |datagram: &&Datagram| (datagram.from, datagram.to) == (SENDER, to) && datagram.bytes.len() > 1_000;
    network.sent.iter().filter(is_selected).collect()
}

#[test]
fn early_datagrams_go_through_relays_twice_and_on_the_direct_path_with_every_offer() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.loses(|datagram| datagram.from == RECEIVER);
    let flow = network.begins(FLOW);
    network.forget();
    assert!(network.sends_early(flow, &[7; 1_000]));
    network.run(ms(190));
    assert_eq!((long_ones(&network, RELAY).len(), long_ones(&network, RECEIVER).len()), (2, 2));
    network.run(ms(15));
    assert_eq!((long_ones(&network, RELAY).len(), long_ones(&network, RECEIVER).len()), (2, 3));
}

#[test]
fn early_data_leaves_half_of_what_relays_pass_on_to_offers() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.loses(|datagram| datagram.from == RECEIVER);
    network.forget();
    for half in 2..6 {
        let flow = network.begins(FlowId::new(2 * half));
        (0..16).for_each(|_| assert_eq!(network.sends_early(flow, &[7; 1_000]), half < 4));
    }
    network.run(ms(500));
    let bytes: usize = long_ones(&network, RELAY).iter().map(|datagram| datagram.bytes.len()).sum();
    let budget = EARLY_RELAYED_BURST + EARLY_RELAYED_RATE.bytes_in(ms(500)).expect("it fits");
    let (bytes, budget) = (bytes as u64, budget.count());
    assert!(bytes > EARLY_RELAYED_BURST.count() && bytes <= budget + budget / 10, "{bytes} of {budget}");
    let all = long_ones(&network, RECEIVER).len();
    assert!(all >= 64, "{all} on the direct path");
}

#[test]
fn early_packets_that_are_refused_leave_no_entry() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    let flows: Vec<FlowId> = (2..12).map(|half| FlowId::new(2 * half)).collect();
    for flow in &flows {
        network.begins(*flow);
    }
    network.run(ms(40));
    // Two flows use up the peer's limit.
    for flow in &flows {
        for sequence in 1..=16 {
            network.inject_early_packet(*flow, sequence, &[7; 1_024]);
        }
    }
    network.run(ms(31));
    let buffer = &network.agents[RECEIVER].early_buffer;
    assert_eq!((network.early_size(), buffer.flows()), ((32, EARLY_BYTES_PER_PEER_MAX), 2));
    assert_eq!(network.agents[RECEIVER].counters().early_dropped, 128);
    network.inject_early_packet(flows[0], 1, &[7; 1_024]);
    network.run(ms(31));
    assert_eq!(network.agents[RECEIVER].counters().early_dropped, 128, "a duplicate is none too many");
    for flow in &flows {
        network.consents(*flow, Err(OfferRefusal::Full));
    }
    assert_eq!((network.early_size(), network.agents[RECEIVER].early_buffer.flows()), ((0, 0), 0));
}

#[test]
fn an_offer_that_grew_leaves_no_packet_that_is_too_long() {
    let mut network = TestNetwork::new(&settings(Service::Internet));
    network.loses(|datagram| datagram.from == RECEIVER);
    let flow = network.begins(FLOW);
    let mut length = 1_200;
    while !network.sends_early(flow, &alloc::vec![7; length]) {
        length -= 1;
    }
    assert!(network.sends_early(flow, &[8; 1_100]));
    network.forget();
    let offer = Offer { subject: alloc::vec![7; 100], ..Offer::default() };
    assert!(network.agents[SENDER].offer(number(RECEIVER), FLOW, offer, network.now));
    network.drain(SENDER);
    network.run(ms(150));
    let longest =
        network.sent.iter().filter(|datagram| datagram.to == RECEIVER).map(|sent| sent.bytes.len()).max();
    assert!(longest <= Some(MESSAGES_BYTES_MAX + MESSAGE_OVERHEAD), "{longest:?}");
}
