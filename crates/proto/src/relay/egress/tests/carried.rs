//! Carried copies that did not come are asked for; forwarded ones are repaired.

use super::*;
use crate::limits::{CARRIED_GAP_MAX, CARRIED_GAPS_MAX, COPY_REORDERING, OUTAGE_AFTER, OUTAGE_BELIEVED_FOR};

const FEED: Feed = Feed { ingress: 3, alias: ALIAS };
const ROUND_TRIP: Duration = ms(80);

impl Talk {
    fn carries(&mut self, flow: FlowSlot, sequences: impl IntoIterator<Item = u64>) {
        for sequence in sequences {
            self.carried_from(Some(FEED), flow, sequence);
        }
    }

    /// What ingress relays are asked for now.
    fn asked_for(&mut self) -> Vec<(Feed, Vec<u32>)> {
        let mut all = Vec::new();
        while let Some(asked) = self.egress.next_asked(self.now) {
            all.push((asked.feed, asked.absent.ranges().numbers_low().collect()));
            self.egress.ask_again(&asked, ROUND_TRIP, self.now);
        }
        all
    }

    fn wait_for_reordering(&mut self) {
        self.now += COPY_REORDERING;
    }
}

#[test]
fn a_gap_in_carried_copies_is_asked_for_after_the_tolerance_and_once_more() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carries(flow, [0, 1, 4]);
    assert_eq!((talk.asked_for(), talk.egress.asks_at()), (Vec::new(), Some(talk.now + COPY_REORDERING)));
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [(FEED, alloc::vec![2, 3])]);
    talk.carries(flow, [3]);
    talk.now += ROUND_TRIP + ROUND_TRIP / 2 + COPY_REORDERING;
    assert_eq!(talk.asked_for(), [(FEED, alloc::vec![2])]);
    talk.wait(10_000);
    assert_eq!((talk.asked_for(), talk.egress.asks_at()), (Vec::new(), None));
    assert_eq!(talk.egress.counters.carried_asked, 3);
}

#[test]
fn of_a_coded_flow_only_what_is_missing_within_an_outage_is_asked_for() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    let other = talk.flow_of(Service::Coding, RATE, NOTHING);
    talk.carries(flow, [30, 32]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [], "its path is not dark");
    for (batch, sequence) in (0..).zip(34..50) {
        talk.batch(batch, &[(flow, sequence), (other, sequence)], 1);
    }
    talk.open(flow, 34);
    talk.now += OUTAGE_AFTER;
    talk.batch(20, &[(flow, 50), (other, 50)], 1);
    talk.asked_for();
    talk.carries(flow, [50, 51, 54, 200, 201, 203]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [(FEED, alloc::vec![52, 53]), (FEED, alloc::vec![202])]);
    talk.ack(flow, 204);
    talk.carries(flow, [206]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [(FEED, alloc::vec![204, 205])], "what was under way when the outage ended");
    talk.now += OUTAGE_BELIEVED_FOR;
    talk.asked_for();
    talk.carries(flow, [210]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [], "one that was fetched");
    let begins = talk.flow(Service::Coding);
    talk.carries(begins, [3]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), []);
}

#[test]
fn what_comes_late_is_not_asked_for() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Forwarding);
    talk.carries(flow, [0, 3, 1, 2, 4]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), []);
}

#[test]
fn the_first_packets_of_a_flow_are_missed_and_those_before_a_relay_joined_it_are_not() {
    let mut talk = Talk::new();
    let [begins, joins] = [0; 2].map(|_| talk.flow(Service::Caching));
    talk.carries(begins, [2]);
    talk.carries(joins, [2_000]);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [(FEED, alloc::vec![0, 1])]);
}

#[test]
fn a_flow_that_comes_from_another_relay_or_begins_anew_is_counted_anew() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carries(flow, [1_000]);
    let other = Feed { ingress: 4, ..FEED };
    talk.carried_from(Some(other), flow, 1_010);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [], "the other relay has not missed what the first one carried");
    talk.carried_from(Some(other), flow, 1_012);
    talk.wait_for_reordering();
    assert_eq!(talk.asked_for(), [(other, alloc::vec![1_011])]);
    talk.carried_from(Some(other), flow, 100_000);
    talk.carried_from(Some(other), flow, 5_000);
    talk.carried_from(Some(other), flow, 5_002);
    talk.wait(1_000);
    assert!(talk.asked_for().contains(&(other, alloc::vec![5_001])));
}

#[test]
fn gaps_of_senders_that_copy_only_some_packets_are_no_losses() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    talk.carried(flow, 5);
    talk.wait_for_reordering();
    assert_eq!((talk.asked_for(), talk.egress.asks_at()), (Vec::new(), None));
}

#[test]
fn a_leap_asks_for_no_more_than_a_burst_can_take_and_few_gaps_are_watched() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carries(flow, [0, 100_000]);
    talk.wait_for_reordering();
    let asked = talk.asked_for();
    assert_eq!(asked[0].1.len() as u64, CARRIED_GAP_MAX);
    assert_eq!(asked[0].1.last(), Some(&99_999));
    let flow = talk.flow(Service::Caching);
    talk.carries(flow, (0..3 * CARRIED_GAPS_MAX as u64).map(|number| 2 * number));
    talk.wait_for_reordering();
    assert!(talk.asked_for().len() <= CARRIED_GAPS_MAX);
}

#[test]
fn what_comes_twice_is_forwarded_once_but_another_packet_with_its_number_is_not_held_back() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Forwarding);
    talk.carries(flow, [0, 0]);
    assert_eq!((talk.actions.len(), talk.egress.counters.carried_repeated), (1, 1));
    let (ecn, feed) = (Ecn::NotCapable, Some(FEED));
    let anew = CarriedCopy { sequence_low: 0, coded: b"begun anew", ecn, is_forwarded: false, feed };
    talk.egress.carried(&[flow], &anew, talk.now, &mut talk.actions);
    assert_eq!((talk.actions.len(), talk.egress.counters.carried_repeated), (2, 1));
}

#[test]
fn what_the_last_hop_lost_of_a_forwarded_flow_comes_from_the_cache() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Forwarding);
    talk.egress.set_round_trip(flow, ms(20));
    let forwarded = |sequence| Said::Give { flow, sequence, given: Given::Forwarded };
    for sequence in 0..5 {
        talk.carries(flow, [sequence]);
        talk.wait(10);
    }
    assert_eq!(talk.said(), [0, 1, 2, 3, 4].map(forwarded));
    talk.nack(flow, 1, 1);
    assert_eq!(talk.said(), [cached(flow, 1)]);
    // The last packet left 10 ms ago: whoever is 10 ms away asked before it could be there.
    talk.open(flow, 3);
    assert_eq!(talk.said(), [cached(flow, 3)]);
    talk.wait(10);
    talk.open(flow, 3);
    assert_eq!(talk.said(), [cached(flow, 4)]);
}

#[test]
fn what_a_receiver_asked_for_before_it_came_is_forwarded_and_not_repaired_too() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Forwarding);
    talk.carries(flow, [0, 2]);
    talk.said();
    talk.nack(flow, 1, 1);
    talk.wait(50);
    talk.carries(flow, [1]);
    assert_eq!(talk.said(), [Said::Give { flow, sequence: 1, given: Given::Forwarded }]);
    talk.nack(flow, 1, 1);
    assert_eq!(talk.said(), []);
    talk.wait(300);
    talk.sweep();
    assert_eq!(talk.egress.counters.given_up, 0);
}

/// The ACK that ends an open-ended NACK may be lost, or overtake it: then the relay takes all that follows for missing.
#[test]
fn what_is_forwarded_after_an_open_ended_nack_is_repaired_only_if_it_is_asked_for_by_number() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Forwarding);
    talk.carries(flow, 0..3);
    talk.wait(100);
    talk.said();
    talk.open(flow, 2);
    assert_eq!(talk.said(), [cached(flow, 2)], "forwarded before");
    for sequence in 3..200 {
        talk.wait(10);
        talk.carries(flow, [sequence]);
    }
    talk.said();
    talk.ack(flow, 200);
    assert_eq!(talk.said(), []);
    talk.wait(100);
    talk.nack(flow, 150, 151);
    assert_eq!(talk.said(), [150, 151].map(|sequence| cached(flow, sequence)));
}
