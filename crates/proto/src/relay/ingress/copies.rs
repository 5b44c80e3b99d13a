//! Copies of one flow: duplicates, gaps and NACKs to the sender, and copies stored for egress
//! relays.

use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{SequenceNumber, Service};

use crate::limits::{
    CODED_RETENTION, COPY_BURST, COPY_NACKS_MAX, COPY_REORDERING, NACKED_COPIES_MAX, RELAYED_COPY_NACKS_MAX,
    RELAYED_COPY_REACH, RELAYED_COPY_RETENTION,
};
use crate::parts::missing_ranges::{Gap, MissingRanges};
use crate::parts::packet_buffer::{Handle, PacketBuffer};
use crate::parts::retransmissions::{Retransmissions, RetransmitDecision};
use crate::parts::retry::{Backoff, RetryPolicy, RetryTimer};
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::pulls;

/// Schedule of the copy NACKs to a sender.
const RETRY_POLICY: RetryPolicy = RetryPolicy { requests_max: COPY_NACKS_MAX, backoff: Backoff::Constant };

/// Status of an arriving copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyStatus {
    New,
    Duplicate,
    TooOld,
}

/// Tracker of one flow's copies: detects duplicates, and gaps for copy NACKs to the sender.
#[derive(Clone, Debug)]
pub(crate) struct CopyTracker {
    highest: Option<SequenceNumber>,
    /// Bit i: the copy of `highest - i` arrived.
    received: u64,
    missing: MissingRanges<NACKED_COPIES_MAX>,
}

const REACH: u64 = u64::BITS as u64;

impl CopyTracker {
    pub(crate) const fn new() -> Self {
        Self { highest: None, received: 0, missing: MissingRanges::new() }
    }

    /// Expands the low bits of a copy's sequence number to the full number.
    pub(crate) fn full_sequence(&self, low: u32) -> SequenceNumber {
        match self.highest {
            Some(highest) => SequenceNumber::nearest(low, highest),
            None => SequenceNumber::new(u64::from(low)),
        }
    }

    /// Records an arriving copy, and returns its status. Only a new copy is used.
    pub(crate) fn on_copy(&mut self, sequence: SequenceNumber, now: Time) -> CopyStatus {
        let Some(highest) = self.highest else {
            self.highest = Some(sequence);
            // Copies from before the registration are no losses.
            self.received = u64::MAX;
            return CopyStatus::New;
        };
        if sequence > highest {
            self.advance(highest, sequence, now);
            return CopyStatus::New;
        }
        let behind = highest.number() - sequence.number();
        if behind >= REACH {
            return CopyStatus::TooOld;
        }
        if self.received & (1 << behind) != 0 {
            return CopyStatus::Duplicate;
        }
        self.received |= 1 << behind;
        self.missing.remove(sequence.number(), now);
        CopyStatus::New
    }

    /// Returns the allocated memory of the tracker, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.missing.bytes()
    }

    /// Forgets which copies are missing or have arrived, because the flow's service has changed.
    pub(crate) fn restart(&mut self) {
        (self.received, self.missing) = (0, MissingRanges::new());
    }

    /// Records the number of a copy of a flow whose copies are no sequence, to expand later ones.
    pub(crate) fn skip_to(&mut self, sequence: SequenceNumber) {
        self.highest = Some(self.highest.map_or(sequence, |highest| highest.max(sequence)));
    }

    fn advance(&mut self, highest: SequenceNumber, sequence: SequenceNumber, now: Time) {
        let ahead = sequence.number() - highest.number();
        let shift = u32::try_from(ahead).unwrap_or(u32::MAX);
        self.received = self.received.checked_shl(shift).unwrap_or(0) | 1;
        self.highest = Some(sequence);
        if ahead == 1 && self.missing.count() == 0 {
            return;
        }
        let oldest = sequence.number().saturating_sub(REACH - 1);
        self.missing.forget_below(oldest);
        let first = oldest.max(highest.number() + 1);
        let retry = RetryTimer::new(now + COPY_REORDERING);
        self.missing.add(Gap::new(first, sequence.number(), now, retry));
    }

    /// Returns the time of the flow's next copy NACK.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.missing.deadline()
    }

    /// Calls `send_nack` for each missing copy whose NACK is due. Each gets [`COPY_NACKS_MAX`]
    /// NACKs at most, at intervals of `again_after`.
    pub(crate) fn poll_nacks(
        &mut self,
        again_after: Duration,
        now: Time,
        mut send_nack: impl FnMut(SequenceNumber),
    ) {
        for range in self.missing.pop_due(RETRY_POLICY, again_after, now) {
            (range.first..range.end()).map(SequenceNumber::new).for_each(&mut send_nack);
        }
    }
}

/// A copy that an egress relay may request. The record is small, because there are many.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferedCopy {
    pub(super) packet: Handle,
    /// True if the relay forwarded the copy when it arrived.
    pub(super) is_relayed: bool,
}

/// Parameters of a copy NACK: the egress relay that sent it, and the flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyRequester {
    /// Round-trip time to the egress relay.
    pub(super) round_trip: Duration,
    /// Number of the flow's next hops.
    pub(super) path_count: u8,
    /// True if the flow may use more memory to record retransmissions.
    pub(super) has_capacity: bool,
}

/// Stored copies of one flow, and their retransmissions to egress relays.
#[derive(Debug)]
pub(crate) struct RelayedCopies {
    pub(super) buffered: SequenceRing<BufferedCopy>,
    retransmissions: Retransmissions,
    /// Retransmission budget, refilled at the flow's rate. It limits an egress relay that requests
    /// everything.
    budget: TokenBucket<Bytes>,
}

impl RelayedCopies {
    pub(super) fn new(rate: Rate, now: Time) -> Self {
        let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
        let budget = TokenBucket::of_bytes(rate, burst, now);
        let retransmissions = Retransmissions::new(RELAYED_COPY_REACH, RELAYED_COPY_RETENTION);
        Self { buffered: SequenceRing::new(RELAYED_COPY_REACH), retransmissions, budget }
    }

    /// Returns the memory of the records of stored copies and retransmissions, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.buffered.bytes() + self.retransmissions.bytes()
    }

    /// Returns a stored copy that may still be useful for an egress relay, and the time at which
    /// the relay forwarded it, if it did.
    pub(super) fn useful_copy(
        &self,
        number: u64,
        (service, useful_for): (Service, Duration),
        log: &PacketBuffer,
        now: Time,
    ) -> Option<(Handle, Option<Time>)> {
        let stored = self.buffered.get(number).filter(|stored| log.get(stored.packet, now).is_some())?;
        let received_at = log.stored_at(stored.packet)?;
        let useful_for = useful_for.min(retention(service, stored.is_relayed));
        let is_useful = received_at.saturating_add(useful_for) >= now;
        is_useful.then_some((stored.packet, stored.is_relayed.then_some(received_at)))
    }

    /// Decides if the relay retransmits a copy to an egress relay. If so, counts the retransmission
    /// and charges it to the budget.
    pub(super) fn decide_retransmit(
        &mut self,
        number: u64,
        (packet, relayed_at): (Handle, Option<Time>),
        requester: CopyRequester,
        now: Time,
    ) -> RetransmitDecision {
        let CopyRequester { round_trip, path_count, has_capacity } = requester;
        let count_max = RELAYED_COPY_NACKS_MAX * path_count;
        let decision =
            self.retransmissions.decide(number, relayed_at, round_trip, (count_max, has_capacity), now);
        if decision != RetransmitDecision::Retransmit {
            return decision;
        }
        if !self.budget.try_consume(Bytes::from(packet.bytes()), now) {
            return RetransmitDecision::Refused;
        }
        self.retransmissions.record(number, now);
        decision
    }
}

/// Returns the time for which a copy is stored for requests of egress relays.
///
/// An egress relay that misses a packet of a coded flow has requested it within a shorter time.
pub(super) const fn retention(service: Service, is_relayed: bool) -> Duration {
    if is_relayed || pulls(service) { RELAYED_COPY_RETENTION } else { CODED_RETENTION }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    const AGAIN: Duration = Duration::from_millis(25);

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    fn due_numbers(copies: &mut CopyTracker, now: Time) -> Vec<u64> {
        let mut nacked = Vec::new();
        copies.poll_nacks(AGAIN, now, |sequence| nacked.push(sequence.number()));
        nacked
    }

    #[test]
    fn a_gap_is_asked_for_after_the_tolerance_and_twice_more() {
        let mut copies = CopyTracker::new();
        copies.on_copy(number(5), at(0));
        assert_eq!(copies.on_copy(number(8), at(10)), CopyStatus::New);
        assert_eq!(due_numbers(&mut copies, at(10)), vec![]);
        let due = copies.deadline().expect("something is missing");
        assert_eq!(due_numbers(&mut copies, due), vec![6, 7]);
        assert_eq!(copies.on_copy(number(6), due), CopyStatus::New);
        assert_eq!(due_numbers(&mut copies, due + AGAIN), vec![7]);
        assert_eq!(due_numbers(&mut copies, due + AGAIN * 2), vec![7]);
        assert_eq!(due_numbers(&mut copies, due + AGAIN * 3), vec![]);
        assert_eq!(copies.deadline(), None);
    }

    #[test]
    fn reordered_copies_are_not_asked_for() {
        let mut copies = CopyTracker::new();
        copies.on_copy(number(0), at(0));
        copies.on_copy(number(2), at(1));
        copies.on_copy(number(1), at(2));
        assert_eq!(copies.deadline(), None);
    }

    #[test]
    fn a_copy_counts_once() {
        let mut copies = CopyTracker::new();
        assert_eq!(copies.on_copy(number(100), at(0)), CopyStatus::New);
        assert_eq!(copies.on_copy(number(100), at(0)), CopyStatus::Duplicate);
        assert_eq!(copies.on_copy(number(164), at(0)), CopyStatus::New);
        assert_eq!(copies.on_copy(number(101), at(0)), CopyStatus::New);
        assert_eq!(copies.on_copy(number(101), at(0)), CopyStatus::Duplicate);
        assert_eq!(copies.on_copy(number(100), at(0)), CopyStatus::TooOld);
    }

    #[test]
    fn a_leap_asks_for_no_more_than_the_window() {
        let mut copies = CopyTracker::new();
        copies.on_copy(number(0), at(0));
        copies.on_copy(number(u64::MAX / 2), at(0));
        let due = copies.deadline().expect("something is missing");
        let nacked = due_numbers(&mut copies, due);
        assert_eq!(nacked.len(), NACKED_COPIES_MAX);
        assert_eq!(nacked.last(), Some(&(u64::MAX / 2 - 1)));
    }
}
