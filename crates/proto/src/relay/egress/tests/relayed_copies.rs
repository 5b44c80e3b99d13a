//! NACKs for gaps in the relayed copies, and repairs of forwarded packets.

use super::*;
use crate::limits::{
    COPY_REORDERING, OUTAGE_AFTER, OUTAGE_BELIEVED_FOR, RELAYED_COPY_GAP_MAX, RELAYED_COPY_GAPS_MAX,
};

pub(super) const COPY_SOURCE: CopySource = CopySource { ingress: 3, alias: ALIAS };
const ROUND_TRIP: Duration = ms(80);

impl EgressHarness {
    fn relay_copies(&mut self, flow: FlowSlot, sequences: impl IntoIterator<Item = u64>) {
        for sequence in sequences {
            self.relay_copy_from(Some(COPY_SOURCE), flow, sequence);
        }
    }

    /// Returns the copies requested from ingress relays now.
    pub(super) fn copy_nacks(&mut self) -> Vec<(CopySource, Vec<u32>)> {
        let mut all = Vec::new();
        while let Some(request) = self.egress.next_copy_request(self.now) {
            all.push((request.source, request.missing.ranges().numbers_low().collect()));
            self.egress.schedule_copy_retry(&request, ROUND_TRIP, self.now);
        }
        all
    }

    fn wait_for_reordering(&mut self) {
        self.now += COPY_REORDERING;
    }
}

#[test]
fn a_gap_in_relayed_copies_is_nacked_after_the_tolerance_and_once_more() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copies(flow, [0, 1, 4]);
    assert_eq!(
        (harness.copy_nacks(), harness.egress.copy_nack_at()),
        (Vec::new(), Some(harness.now + COPY_REORDERING))
    );
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [(COPY_SOURCE, alloc::vec![2, 3])]);
    harness.relay_copies(flow, [3]);
    harness.now += ROUND_TRIP + ROUND_TRIP / 2 + COPY_REORDERING;
    assert_eq!(harness.copy_nacks(), [(COPY_SOURCE, alloc::vec![2])]);
    harness.advance(10_000);
    assert_eq!((harness.copy_nacks(), harness.egress.copy_nack_at()), (Vec::new(), None));
    assert_eq!(harness.egress.counters.copies_nacked, 3);
}

#[test]
fn of_a_coded_flow_only_what_is_missing_within_an_outage_is_asked_for() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    let other = harness.flow_of(Service::Coding, RATE, NOTHING);
    harness.relay_copies(flow, [30, 32]);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [], "its path has no outage");
    for (batch, sequence) in (0..).zip(34..50) {
        harness.batch(batch, &[(flow, sequence), (other, sequence)], 1);
    }
    harness.nack_open_ended(flow, 34);
    harness.now += OUTAGE_AFTER;
    harness.batch(20, &[(flow, 50), (other, 50)], 1);
    harness.copy_nacks();
    harness.relay_copies(flow, [50, 51, 54, 200, 201, 203]);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [(COPY_SOURCE, alloc::vec![52, 53]), (COPY_SOURCE, alloc::vec![202])]);
    harness.ack(flow, 204);
    harness.relay_copies(flow, [206]);
    harness.wait_for_reordering();
    assert_eq!(
        harness.copy_nacks(),
        [(COPY_SOURCE, alloc::vec![204, 205])],
        "copies in flight when the outage ended"
    );
    harness.now += OUTAGE_BELIEVED_FOR;
    harness.copy_nacks();
    harness.relay_copies(flow, [210]);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [], "one that was fetched");
    let begins = harness.flow(Service::Coding);
    harness.relay_copies(begins, [3]);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), []);
}

#[test]
fn what_comes_late_is_not_asked_for() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Forwarding);
    harness.relay_copies(flow, [0, 3, 1, 2, 4]);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), []);
}

#[test]
fn the_first_packets_of_a_flow_are_missed_and_those_before_a_relay_joined_it_are_not() {
    let mut harness = EgressHarness::new();
    let [begins, joins] = [0; 2].map(|_| harness.flow(Service::Caching));
    harness.relay_copies(begins, [2]);
    harness.relay_copies(joins, [2_000]);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [(COPY_SOURCE, alloc::vec![0, 1])]);
}

#[test]
fn a_flow_that_comes_from_another_relay_or_begins_anew_is_counted_anew() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copies(flow, [1_000]);
    let other = CopySource { ingress: 4, ..COPY_SOURCE };
    harness.relay_copy_from(Some(other), flow, 1_010);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [], "the other relay does not miss the first one's copies");
    harness.relay_copy_from(Some(other), flow, 1_012);
    harness.wait_for_reordering();
    assert_eq!(harness.copy_nacks(), [(other, alloc::vec![1_011])]);
    harness.relay_copy_from(Some(other), flow, 100_000);
    harness.relay_copy_from(Some(other), flow, 5_000);
    harness.relay_copy_from(Some(other), flow, 5_002);
    harness.advance(1_000);
    assert!(harness.copy_nacks().contains(&(other, alloc::vec![5_001])));
}

#[test]
fn gaps_of_senders_that_copy_only_some_packets_are_no_losses() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    harness.relay_copy(flow, 5);
    harness.wait_for_reordering();
    assert_eq!((harness.copy_nacks(), harness.egress.copy_nack_at()), (Vec::new(), None));
}

#[test]
fn a_leap_asks_for_no_more_than_a_burst_can_take_and_few_gaps_are_watched() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copies(flow, [0, 100_000]);
    harness.wait_for_reordering();
    let asked = harness.copy_nacks();
    assert_eq!(asked[0].1.len() as u64, RELAYED_COPY_GAP_MAX);
    assert_eq!(asked[0].1.last(), Some(&99_999));
    let flow = harness.flow(Service::Caching);
    harness.relay_copies(flow, (0..3 * RELAYED_COPY_GAPS_MAX as u64).map(|number| 2 * number));
    let other = harness.flow(Service::Caching);
    harness.relay_copies(other, [0, 5]);
    assert!(harness.egress.counters.refused_capacity > 0);
    harness.wait_for_reordering();
    let nacks = harness.copy_nacks();
    assert!(nacks.len() <= RELAYED_COPY_GAPS_MAX / 4);
    assert!(nacks.iter().any(|(_, numbers)| *numbers == [1, 2, 3, 4]), "another flow has its share");
}

#[test]
fn gaps_that_ended_make_room_for_later_ones() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    for round in 0..20 {
        let first = round * RELAYED_COPY_GAPS_MAX as u64 / 4;
        let numbers = first..first + RELAYED_COPY_GAPS_MAX as u64 / 4;
        harness.relay_copies(flow, numbers.clone().step_by(2));
        harness.wait_for_reordering();
        assert!(!harness.copy_nacks().is_empty(), "{round}");
        harness.relay_copies(flow, numbers);
        harness.now += ROUND_TRIP * 2;
        assert_eq!(harness.copy_nacks(), [], "{round}");
    }
    assert_eq!(harness.egress.counters.refused_capacity, 0);
}

#[test]
fn what_comes_twice_is_forwarded_once_but_another_packet_with_its_number_is_not_held_back() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Forwarding);
    harness.relay_copies(flow, [0, 0]);
    assert_eq!((harness.actions.len(), harness.egress.counters.copies_duplicate), (1, 1));
    let (ecn, source) = (Ecn::NotCapable, Some(COPY_SOURCE));
    let restarted = RelayedCopy {
        sequence_low: 0,
        coded: b"begun anew",
        ecn,
        is_forwarded: false,
        is_resent: false,
        source,
    };
    harness.egress.on_relayed_copy(&[flow], &restarted, harness.now, &mut harness.actions);
    assert_eq!((harness.actions.len(), harness.egress.counters.copies_duplicate), (2, 1));
}

#[test]
fn what_the_last_hop_lost_of_a_forwarded_flow_comes_from_the_cache() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Forwarding);
    harness.egress.set_round_trip(flow, ms(20));
    let forwarded = |sequence| TestAction::SendRepair { flow, sequence, source: RepairSource::Forwarded };
    for sequence in 0..5 {
        harness.relay_copies(flow, [sequence]);
        harness.advance(10);
    }
    assert_eq!(harness.drain_actions(), [0, 1, 2, 3, 4].map(forwarded));
    harness.nack(flow, 1, 1);
    assert_eq!(harness.drain_actions(), [cached(flow, 1)]);
    // The relay sent the last packet 10 ms ago: the NACK of a receiver 10 ms away may have crossed
    // it.
    harness.nack_open_ended(flow, 3);
    assert_eq!(harness.drain_actions(), [cached(flow, 3)]);
    harness.advance(10);
    harness.nack_open_ended(flow, 3);
    assert_eq!(harness.drain_actions(), [cached(flow, 4)]);
}

#[test]
fn what_a_receiver_asked_for_before_it_came_is_forwarded_and_not_repaired_too() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Forwarding);
    harness.relay_copies(flow, [0, 2]);
    harness.drain_actions();
    harness.nack(flow, 1, 1);
    harness.advance(50);
    harness.relay_copies(flow, [1]);
    assert_eq!(
        harness.drain_actions(),
        [TestAction::SendRepair { flow, sequence: 1, source: RepairSource::Forwarded }]
    );
    harness.nack(flow, 1, 1);
    assert_eq!(harness.drain_actions(), []);
    harness.advance(300);
    harness.sweep();
    assert_eq!(harness.egress.counters.abandoned, 0);
}

/// The ACK that ends an open-ended NACK may be lost, or may overtake the NACK. The relay then
/// considers all later packets lost.
#[test]
fn packets_forwarded_after_an_open_ended_nack_are_repaired_only_if_a_range_names_them() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Forwarding);
    harness.relay_copies(flow, 0..3);
    harness.advance(100);
    harness.drain_actions();
    harness.nack_open_ended(flow, 2);
    assert_eq!(harness.drain_actions(), [cached(flow, 2)], "forwarded before");
    for sequence in 3..200 {
        harness.advance(10);
        harness.relay_copies(flow, [sequence]);
    }
    harness.drain_actions();
    harness.ack(flow, 200);
    assert_eq!(harness.drain_actions(), []);
    harness.advance(100);
    harness.nack(flow, 150, 151);
    assert_eq!(harness.drain_actions(), [150, 151].map(|sequence| cached(flow, sequence)));
}
