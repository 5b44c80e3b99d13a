//! Packets that go with their flow's offer.

use byway_wire::messages::{CooperativeRequest, EarlyPacket};
use byway_wire::packets::MESSAGE_OVERHEAD;
use byway_wire::{Microseconds, Piece, Plaintext, Timestamp, Uncopied};

use super::*;
use crate::agent::OfferRefusal;
use crate::limits::{
    EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX, EARLY_DATAGRAMS_PER_PEER_MAX,
    EARLY_RELAYED_BURST, EARLY_RELAYED_RATE, MESSAGES_BYTES_MAX,
};
use crate::parts::loss_timer::{LossTimer, TwoState};

/// A number that the sender may offer, as it is the one with the smaller number.
const FLOW: FlowId = FlowId::new(4);

fn offered(flow: FlowId) -> FlowKey {
    flow_between(number(SENDER), number(RECEIVER), flow)
}

fn flow_settings() -> FlowSettings {
    FlowSettings { latency_budget: ms(200), ..settings(Service::Caching) }
}

impl Hall {
    /// The sender opens a flow and offers it.
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

    /// The receiver's driver answers; what it accepts, it opens before.
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

    /// The peer, which keeps to no rules, sends an early packet.
    fn says_early(&mut self, flow: FlowId, sequence: u64, datagram: &[u8]) {
        let session = self.agents[SENDER].peers[&number(RECEIVER)];
        let (sent, traffic_class, uncopied) =
            (Timestamp::at(self.now), TrafficClass::DEFAULT, Uncopied::NONE);
        let plaintext = Plaintext { sent, traffic_class, uncopied, datagram };
        let (sequence, waited) = (SequenceNumber::new(sequence), Microseconds::new(0));
        let packet = EarlyPacket { flow, sequence, piece: Piece::Whole, waited, plaintext };
        let sessions = &mut self.agents[SENDER].sessions;
        sessions.send_alone(session, &Message::EarlyPacket(packet), Urgency::Original, self.now);
        self.drain(SENDER);
    }

    /// The relay requests packets of the receiver for others; returns the numbers of the answers.
    fn requests(&mut self, numbers: impl IntoIterator<Item = u64>) -> Vec<u32> {
        let (numbers, patience) = (ranges(numbers), Microseconds::from_duration(ms(200)));
        let request = CooperativeRequest { alias: alias_of(RECEIVER), patience, ranges: numbers.ranges() };
        self.relay_says(RECEIVER, &Message::CooperativeRequest(request));
        self.run(ms(25));
        self.enveloped(EnvelopeRole::CooperativeAnswer)
    }

    /// Datagrams, and their bytes, that the receiver holds.
    fn held(&self) -> (usize, usize) {
        let size = self.agents[RECEIVER].early_buffer.size();
        (size.packets, size.bytes)
    }
}

#[test]
fn an_early_datagram_arrives_with_its_offer_and_is_delivered_on_consent() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first") && hall.sends_early(flow, &[7; 1_472]));
    hall.run(ms(31));
    assert_eq!((hall.offers.len(), hall.got_bytes()), (1, alloc::vec![]));
    hall.consents(FLOW, Ok(()));
    assert_eq!(hall.got_bytes(), [&b"first"[..], &[7; 1_472]], "one way after they were sent");
    assert!(hall.sends_early(flow, b"third"), "the answer has not come yet");
    hall.run(ms(31));
    assert!(!hall.sends_early(flow, b"fourth"), "the answer has come");
    hall.run(ms(1_000));
    assert_eq!(hall.got.len(), 3, "nothing is delivered twice");
    let sent = hall.agents[SENDER].senders[flow.0 as usize].next;
    assert_eq!(sent, SequenceNumber::new(SequenceNumber::FIRST.number() + 4), "two pieces have two numbers");
}

#[test]
fn an_early_datagram_keeps_its_dscp_as_an_early_packet_and_as_a_source_packet() {
    let ef = TrafficClass::from_bits(46 << 2);
    for is_lost in [false, true] {
        let mut hall = Hall::new(&settings(Service::Internet));
        let flow = hall.begins(FLOW);
        if is_lost {
            hall.run(ms(31));
            hall.loses(|datagram| datagram.from == SENDER);
        }
        for datagram in [&b"first"[..], &[7; 1_169], &[7; 1_500]] {
            assert!(hall.sends_early_as(flow, datagram, ef));
        }
        hall.run(ms(31));
        hall.loses(|_| false);
        hall.consents(FLOW, Ok(()));
        hall.run(ms(100));
        let lengths: Vec<usize> = hall.got.iter().map(|got| got.bytes.len()).collect();
        assert_eq!((lengths, &hall.dscps[..]), (alloc::vec![5, 1_169, 1_500], &[46; 3][..]), "{is_lost}");
    }
}

#[test]
fn a_flow_goes_on_in_order_behind_its_early_datagrams() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.flow = hall.begins(FLOW);
    let flow = hall.flow;
    assert!(hall.sends_early(flow, &[0]));
    hall.send(&[1]);
    hall.run(ms(31));
    hall.consents(FLOW, Ok(()));
    hall.run(ms(40));
    hall.send(&[2]);
    hall.run(ms(1_000));
    assert_eq!(hall.got_bytes(), [[0], [1], [2]]);
    assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 0);
}

#[test]
fn early_datagrams_that_are_lost_are_repeated_with_the_offer_after_100_ms() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses(|datagram| datagram.from == SENDER);
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.run(ms(10));
    hall.loses(|_| false);
    hall.run(ms(125));
    hall.consents(FLOW, Ok(()));
    assert_eq!(hall.got_bytes(), [b"first"]);
}

#[test]
fn a_flow_that_is_refused_delivers_nothing_and_counts_what_was_dropped() {
    for refusal in [OfferRefusal::UnknownSubject, OfferRefusal::NoRoom] {
        let mut hall = Hall::new(&settings(Service::Internet));
        let flow = hall.begins(FLOW);
        assert!(hall.sends_early(flow, b"first") && hall.sends_early(flow, b"second"));
        hall.run(ms(31));
        hall.consents(FLOW, Err(refusal));
        assert_eq!(hall.held(), (0, 0));
        hall.run(ms(5_000));
        assert_eq!(hall.got_bytes(), [] as [&[u8]; 0]);
        assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 2);
        assert!(!hall.sends_early(flow, b"third"));
    }
}

#[test]
fn an_early_datagram_that_waited_beyond_the_budget_is_late_and_follows_as_source_packet() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    // The driver takes its time.
    hall.run(ms(250));
    hall.consents(FLOW, Ok(()));
    assert_eq!((hall.got_bytes(), hall.late()), (alloc::vec![], 1));
    hall.run(ms(100));
    assert_eq!(hall.got_bytes(), [b"first"]);
    assert_eq!(hall.agents[SENDER].counters().datagrams_late, 1);
}

#[test]
fn early_datagrams_that_are_out_of_date_at_the_answer_are_dropped_and_counted() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.run(ms(1_500));
    assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 1, "at its time");
    assert!(hall.sends_early(flow, b"second"));
    hall.run(ms(31));
    hall.consents(FLOW, Ok(()));
    hall.run(ms(1_000));
    assert_eq!(hall.got_bytes(), [b"second"]);
    assert_eq!((hall.agents[SENDER].counters().datagrams_unsendable, hall.late()), (1, 1));
}

#[test]
fn a_datagram_that_comes_by_several_ways_is_delivered_once() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    for _ in 0..3 {
        hall.says_early(FLOW, 1, b"first");
    }
    hall.run(ms(31));
    assert_eq!(hall.held(), (1, 5));
    hall.consents(FLOW, Ok(()));
    hall.says_early(FLOW, 1, b"again");
    hall.run(ms(100));
    assert!(!hall.sends_early(flow, b"late"));
    assert_eq!(hall.got_bytes(), [b"first"]);
}

#[test]
fn early_packets_of_flows_that_nobody_offered_are_dropped() {
    let mut hall = Hall::new(&settings(Service::Internet));
    for flow in (2..200).map(FlowId::new) {
        hall.says_early(flow, 1, &[7; 500]);
    }
    hall.run(ms(100));
    assert_eq!((hall.held(), hall.got.len()), ((0, 0), 0));
    assert_eq!(hall.agents[RECEIVER].counters().flows_unknown, 198);
}

#[test]
fn numbers_beyond_all_reason_are_not_taken() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.begins(FLOW);
    hall.says_early(FLOW, u64::MAX, b"far");
    hall.run(ms(31));
    hall.consents(FLOW, Ok(()));
    hall.says_early(FLOW, 1, b"first");
    hall.says_early(FLOW, 1 << 33, b"far");
    hall.run(ms(100));
    assert_eq!(hall.got_bytes(), [b"first"]);
    assert_eq!(hall.agents[RECEIVER].counters().malformed, 2);
}

#[test]
fn early_packets_of_another_offer_of_the_number_of_an_open_flow_wait_for_consent() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.begins(FLOW);
    hall.run(ms(31));
    hall.consents(FLOW, Ok(()));
    hall.run(ms(31));
    let offers = |hall: &mut Hall, subject: &[u8]| {
        let (now, offer) = (hall.now, Offer { subject: subject.to_vec(), ..Offer::default() });
        assert!(hall.agents[SENDER].offer(number(RECEIVER), FLOW, offer, now));
        hall.drain(SENDER);
    };
    offers(&mut hall, b"audio");
    hall.says_early(FLOW, 1, b"for audio");
    hall.run(ms(31));
    assert_eq!((hall.got.len(), hall.held()), (0, (1, 9)), "the open flow is of the offer before");
    offers(&mut hall, b"text");
    hall.run(ms(31));
    assert_eq!((hall.got.len(), hall.held()), (0, (0, 0)), "nor is it meant for the offer after");
}

#[test]
fn a_peer_that_keeps_to_no_limits_is_held_to_them() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flows: Vec<FlowId> = (2..12).map(|half| FlowId::new(2 * half)).collect();
    for flow in &flows {
        hall.begins(*flow);
    }
    hall.run(ms(40));
    for flow in &flows {
        for sequence in 1..100 {
            hall.says_early(*flow, sequence, &[7; 1_000]);
        }
    }
    hall.run(ms(31));
    let (packets, bytes) = hall.held();
    assert!(bytes <= EARLY_BYTES_PER_PEER_MAX && packets <= 2 * EARLY_DATAGRAMS_PER_PEER_MAX);
    assert_eq!(hall.agents[RECEIVER].counters().early_dropped, 990 - packets as u64);
    for flow in &flows {
        hall.consents(*flow, Err(OfferRefusal::NoRoom));
    }
    assert_eq!(hall.held(), (0, 0));
}

#[test]
fn a_sender_s_early_datagrams_are_bounded_by_flow_and_by_peer() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses(|datagram| datagram.from == RECEIVER);
    let flow = hall.begins(FLOW);
    let sent = (0..100).filter(|_| hall.sends_early(flow, &[1])).count();
    assert_eq!(sent, EARLY_DATAGRAMS_MAX);
    let other = hall.begins(FlowId::new(6));
    let sent = (0..100).filter(|_| hall.sends_early(other, &[1; 1_000])).count();
    assert_eq!(sent, EARLY_BYTES_MAX / 1_000);
    let third = hall.begins(FlowId::new(8));
    let sent = (0..100).filter(|_| hall.sends_early(third, &[1])).count();
    assert_eq!(sent, EARLY_DATAGRAMS_PER_PEER_MAX - EARLY_DATAGRAMS_MAX - EARLY_BYTES_MAX / 1_000);
    hall.agents[SENDER].close_flow(flow, hall.now);
    hall.drain(SENDER);
    assert!(hall.sends_early(third, &[1]), "a flow that is closed makes room");
}

#[test]
fn a_flow_that_is_closed_uses_no_number_twice() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.run(ms(31));
    hall.consents(FLOW, Ok(()));
    hall.agents[SENDER].withdraw_offer(number(RECEIVER), FLOW);
    hall.agents[SENDER].close_flow(flow, hall.now);
    let flow = hall.begins(FLOW);
    hall.run(ms(1_000));
    assert_eq!(hall.got_bytes(), [b"first"]);
    let next = hall.agents[SENDER].senders[flow.0 as usize].next;
    assert_eq!(next, SequenceNumber::FIRST.next());
}

#[test]
fn agents_without_a_session_send_their_first_packet_behind_the_handshake() {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    let begun = hall.now;
    while hall.offers.is_empty() {
        hall.run(ms(1));
    }
    hall.consents(FLOW, Ok(()));
    assert_eq!(hall.got_bytes(), [b"first"]);
    assert!(hall.now.saturating_since(begun) <= ms(91), "a round trip, and one way");
}

#[test]
fn early_datagrams_that_no_session_came_for_are_dropped_and_counted() {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    hall.loses(|_| true);
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.run(ms(1_300));
    assert!(hall.sends_early(flow, b"second"));
    assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 1);
    hall.agents[SENDER].close(hall.now);
    assert_eq!(hall.agents[SENDER].counters().datagrams_unsendable, 2);
}

/// The sender's first five packets of ten go early. The originals with the numbers `lost` are lost.
fn coded_beginning(lost: impl IntoIterator<Item = u32>) -> Hall {
    let mut hall = Hall::new(&settings(Service::Internet));
    let coding = FlowSettings { service: Service::Coding, ..flow_settings() };
    let (now, sender) = (hall.now, &mut hall.agents[SENDER]);
    hall.flow = sender.open_flow(offered(FLOW), coding.clone(), now).expect("it is new");
    assert!(sender.offer(number(RECEIVER), FLOW, Offer::default(), now));
    hall.drain(SENDER);
    // Accepted at once, to be registered with the relay before the packets come.
    hall.received = hall.agents[RECEIVER].accept_flow(offered(FLOW), coding, now).expect("it is new");
    hall.drain(RECEIVER);
    hall.loses_originals(lost);
    let flow = hall.flow;
    for number in 0..5 {
        assert!(hall.sends_early(flow, &[number; 50]));
    }
    hall.run(ms(31));
    hall.agents[RECEIVER].answer_offer(number(SENDER), FLOW, Ok(()), hall.now);
    hall.drain(RECEIVER);
    assert_eq!(hall.got.len(), 5);
    hall.run(ms(40));
    for number in 5..10 {
        hall.send(&[number; 50]);
        hall.run(ms(10));
    }
    hall.run(ms(100));
    hall
}

#[test]
fn a_block_that_begins_with_early_packets_restores_a_loss() {
    let first = u32::try_from(SequenceNumber::FIRST.number()).expect("a small number");
    for lost in [first + 7, first + 9] {
        let mut hall = coded_beginning([lost]);
        assert_eq!(hall.got.len(), 9);
        hall.gives_own_repair(first, 10);
        hall.run(ms(15));
        assert_eq!(hall.delivered(Delivery::InStream), [u8::try_from(lost - first).expect("below ten")]);
    }
}

#[test]
fn a_block_restores_the_coded_bytes_of_an_early_packet_without_delivering_it_again() {
    let first = u32::try_from(SequenceNumber::FIRST.number()).expect("a small number");
    let mut hall = coded_beginning([first + 2]);
    assert_eq!(hall.got.len(), 10);
    hall.gives_own_repair(first, 10);
    hall.run(ms(15));
    assert_eq!(hall.got.len(), 10);
    let requested = hall.requests([u64::from(first) + 2]);
    assert_eq!(requested, [first + 2]);
}

#[test]
fn early_packets_are_given_to_others_once_their_source_packets_came() {
    let mut hall = coded_beginning([]);
    let first = SequenceNumber::FIRST.number();
    let requested = hall.requests([first, first + 4, first + 6]);
    assert_eq!(requested.iter().map(|low| u64::from(*low) - first).collect::<Vec<_>>(), [0, 4, 6]);
    assert_eq!(hall.got.len(), 10, "nothing is delivered twice");
}

#[test]
fn an_early_packet_whose_source_packet_was_lost_is_said_to_be_lost() {
    let first = u32::try_from(SequenceNumber::FIRST.number()).expect("a small number");
    let mut hall = coded_beginning([first + 2]);
    assert_eq!(hall.requests([u64::from(first) + 2]), []);
    assert!(hall.words(RECEIVER).contains(&Said::Lost(alloc::vec![(first + 2, 1)])));
    let coded = hall.copy(first + 2);
    hall.gives(EnvelopeRole::CooperativeRepair, first + 2, &coded);
    hall.run(ms(25));
    assert_eq!(hall.enveloped(EnvelopeRole::CooperativeAnswer), [first + 2]);
    assert_eq!(hall.got.len(), 10, "nothing is delivered twice");
}

#[test]
fn a_burst_that_consent_releases_teaches_the_loss_timer_no_gap() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    for number in 0..8 {
        assert!(hall.sends_early(flow, &[number]));
    }
    hall.run(ms(31));
    hall.consents(FLOW, Ok(()));
    assert_eq!(hall.got.len(), 8);
    let receiver = &hall.agents[RECEIVER];
    let id = receiver.received_by_key[&offered(FLOW)];
    let active = receiver.receivers[id.0 as usize].active().expect("packets arrived");
    let round_trip = receiver.sessions.round_trip(receiver.peers[&number(SENDER)]);
    let mut untaught = TwoState::new(round_trip);
    untaught.arrival(false, hall.now);
    assert_eq!(active.timer.timeout(), untaught.timeout());
}

#[test]
fn a_stale_datagram_that_was_never_sent_uses_no_number() {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    hall.loses(|_| true);
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.run(ms(1_300));
    let sender = &hall.agents[SENDER];
    assert_eq!(sender.counters().datagrams_unsendable, 1);
    assert_eq!(sender.senders[flow.0 as usize].next, SequenceNumber::FIRST);
    assert!(!sender.has_early(flow), "nothing is left of it");
}

#[test]
fn a_datagram_behind_a_stale_one_that_was_never_sent_follows_no_gap() {
    let mut hall = Hall::unregistered(&settings(Service::Internet));
    hall.loses(|_| true);
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.run(ms(1_200));
    assert!(hall.sends_early(flow, b"second"));
    hall.loses(|_| false);
    while hall.offers.is_empty() {
        hall.run(ms(1));
    }
    hall.consents(FLOW, Ok(()));
    hall.run(ms(200));
    let receiver = &hall.agents[RECEIVER];
    let id = receiver.received_by_key[&offered(FLOW)];
    let statistics = &receiver.receivers[id.0 as usize].statistics;
    assert_eq!((statistics.bursts, receiver.backlog().missing), (0, 0));
    assert_eq!(hall.agents[SENDER].senders[flow.0 as usize].next, SequenceNumber::FIRST.next());
}

#[test]
fn early_datagrams_for_a_peer_that_is_gone_are_dropped_at_their_time() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flow = hall.begins(FLOW);
    assert!(hall.sends_early(flow, b"first"));
    hall.loses(|_| true);
    assert!(hall.sends_early(flow, b"second"));
    hall.run(ms(1_260));
    let sender = &hall.agents[SENDER];
    assert!(!sender.has_early(flow) && sender.early.deadline().is_none());
    assert_eq!(sender.counters().datagrams_unsendable, 2);
    assert_eq!(sender.senders[flow.0 as usize].next, SequenceNumber::FIRST.plus(2), "they went out");
}

/// Datagrams of the sender that are so long, to one of the others.
fn long_ones(hall: &Hall, to: usize) -> Vec<&Datagram> {
    let is_meant =
        |datagram: &&Datagram| (datagram.from, datagram.to) == (SENDER, to) && datagram.bytes.len() > 1_000;
    hall.sent.iter().filter(is_meant).collect()
}

#[test]
fn early_datagrams_go_through_relays_twice_and_on_the_direct_path_with_every_offer() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses(|datagram| datagram.from == RECEIVER);
    let flow = hall.begins(FLOW);
    hall.forget();
    assert!(hall.sends_early(flow, &[7; 1_000]));
    hall.run(ms(190));
    assert_eq!((long_ones(&hall, RELAY).len(), long_ones(&hall, RECEIVER).len()), (2, 2));
    hall.run(ms(15));
    assert_eq!((long_ones(&hall, RELAY).len(), long_ones(&hall, RECEIVER).len()), (2, 3));
}

#[test]
fn early_data_leaves_half_of_what_relays_pass_on_to_offers() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses(|datagram| datagram.from == RECEIVER);
    hall.forget();
    for half in 2..6 {
        let flow = hall.begins(FlowId::new(2 * half));
        (0..16).for_each(|_| assert_eq!(hall.sends_early(flow, &[7; 1_000]), half < 4));
    }
    hall.run(ms(500));
    let bytes: usize = long_ones(&hall, RELAY).iter().map(|datagram| datagram.bytes.len()).sum();
    let budget = EARLY_RELAYED_BURST + EARLY_RELAYED_RATE.bytes_in(ms(500)).expect("it fits");
    let (bytes, budget) = (bytes as u64, budget.count());
    assert!(bytes > EARLY_RELAYED_BURST.count() && bytes <= budget + budget / 10, "{bytes} of {budget}");
    let all = long_ones(&hall, RECEIVER).len();
    assert!(all >= 64, "{all} on the direct path");
}

#[test]
fn early_packets_that_are_refused_leave_no_entry() {
    let mut hall = Hall::new(&settings(Service::Internet));
    let flows: Vec<FlowId> = (2..12).map(|half| FlowId::new(2 * half)).collect();
    for flow in &flows {
        hall.begins(*flow);
    }
    hall.run(ms(40));
    // Two flows take all that the peer may have waiting.
    for flow in &flows {
        for sequence in 1..=16 {
            hall.says_early(*flow, sequence, &[7; 1_024]);
        }
    }
    hall.run(ms(31));
    let buffer = &hall.agents[RECEIVER].early_buffer;
    assert_eq!((hall.held(), buffer.flows()), ((32, EARLY_BYTES_PER_PEER_MAX), 2));
    assert_eq!(hall.agents[RECEIVER].counters().early_dropped, 128);
    hall.says_early(flows[0], 1, &[7; 1_024]);
    hall.run(ms(31));
    assert_eq!(hall.agents[RECEIVER].counters().early_dropped, 128, "a duplicate is none too many");
    for flow in &flows {
        hall.consents(*flow, Err(OfferRefusal::NoRoom));
    }
    assert_eq!((hall.held(), hall.agents[RECEIVER].early_buffer.flows()), ((0, 0), 0));
}

#[test]
fn an_offer_that_grew_leaves_no_packet_that_is_too_long() {
    let mut hall = Hall::new(&settings(Service::Internet));
    hall.loses(|datagram| datagram.from == RECEIVER);
    let flow = hall.begins(FLOW);
    let mut length = 1_200;
    while !hall.sends_early(flow, &alloc::vec![7; length]) {
        length -= 1;
    }
    assert!(hall.sends_early(flow, &[8; 1_100]));
    hall.forget();
    let offer = Offer { subject: alloc::vec![7; 100], ..Offer::default() };
    assert!(hall.agents[SENDER].offer(number(RECEIVER), FLOW, offer, hall.now));
    hall.drain(SENDER);
    hall.run(ms(150));
    let longest =
        hall.sent.iter().filter(|datagram| datagram.to == RECEIVER).map(|sent| sent.bytes.len()).max();
    assert!(longest <= Some(MESSAGES_BYTES_MAX + MESSAGE_OVERHEAD), "{longest:?}");
}
