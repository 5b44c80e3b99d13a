//! Retransmissions of a flow's latest packets: how often each was sent again, and when last.

use alloc::boxed::Box;

use byway_units::{Duration, Time};

use super::retry::may_be_in_flight;
use super::sequence_ring::SequenceRing;

/// Retransmissions of one packet.
#[derive(Clone, Copy, Debug)]
struct Record {
    count: u8,
    last: Time,
}

/// Decision on a request for one packet that the node has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetransmitDecision {
    /// The packet is sent again. The caller records it by [`Retransmissions::record`].
    Retransmit,
    /// An earlier transmission may still be in flight.
    InFlight,
    /// The packet was sent again as often as allowed, or there is no memory to record another time.
    Refused,
}

/// Retransmissions of the latest packets of one flow. Few packets have any.
#[derive(Debug)]
pub struct Retransmissions {
    /// Allocated at the first retransmission.
    records: Option<Box<SequenceRing<Record>>>,
    reach: usize,
    /// Time after which a record may be overwritten.
    retention: Duration,
}

impl Retransmissions {
    /// Creates a record of no retransmissions, for the `reach` latest packets of a flow (a power of
    /// two from 8 to 65,536). Requests for a packet come within `retention`.
    #[must_use]
    pub const fn new(reach: usize, retention: Duration) -> Self {
        Self { records: None, reach, retention }
    }

    /// Returns the memory of the records, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.records.as_ref().map_or(0, |records| size_of_val(&**records) as u64 + records.bytes())
    }

    /// Decides if a packet is sent again to a node at this round trip, at most `count_max` times.
    ///
    /// `sent_at` is the time of its first transmission to that node; `None` if there was none. With
    /// `has_capacity`, the records may use more memory.
    #[must_use]
    pub fn decide(
        &self,
        number: u64,
        sent_at: Option<Time>,
        round_trip: Duration,
        (count_max, has_capacity): (u8, bool),
        now: Time,
    ) -> RetransmitDecision {
        let record = self.records.as_ref().and_then(|records| records.get(number));
        let last = record.map(|record| record.last).or(sent_at);
        if last.is_some_and(|last| may_be_in_flight(last, round_trip, now)) {
            return RetransmitDecision::InFlight;
        }
        let is_past = |record: Record| record.last + self.retention < now;
        let can_record =
            has_capacity || self.records.as_ref().is_some_and(|records| records.has_slot(number, is_past));
        if !can_record || record.map_or(0, |record| record.count) >= count_max {
            return RetransmitDecision::Refused;
        }
        RetransmitDecision::Retransmit
    }

    /// True if the packet was sent again before.
    #[must_use]
    pub fn was_resent(&self, number: u64) -> bool {
        self.records.as_ref().is_some_and(|records| records.get(number).is_some())
    }

    /// Records that a packet was sent again.
    pub fn record(&mut self, number: u64, now: Time) {
        let retention = self.retention;
        let records = self.records.get_or_insert_with(|| Box::new(SequenceRing::new(self.reach)));
        let count = records.get(number).map_or(0, |record| record.count).saturating_add(1);
        records.insert_over(number, Record { count, last: now }, |record| record.last + retention < now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(80);

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn a_packet_is_sent_again_once_in_seven_eighths_of_a_round_trip_and_so_often() {
        let mut sent = Retransmissions::new(64, Duration::from_secs(1));
        let decide =
            |sent: &Retransmissions, now| sent.decide(5, Some(at(0)), ROUND_TRIP, (2, true), at(now));
        assert_eq!(decide(&sent, 69), RetransmitDecision::InFlight);
        assert_eq!(decide(&sent, 70), RetransmitDecision::Retransmit);
        sent.record(5, at(70));
        assert_eq!(decide(&sent, 139), RetransmitDecision::InFlight);
        assert_eq!(decide(&sent, 140), RetransmitDecision::Retransmit);
        sent.record(5, at(140));
        assert_eq!(decide(&sent, 300), RetransmitDecision::Refused);
        assert_eq!(sent.decide(6, None, ROUND_TRIP, (2, true), at(0)), RetransmitDecision::Retransmit);
    }

    #[test]
    fn without_memory_only_old_records_are_overwritten() {
        let mut sent = Retransmissions::new(8, Duration::from_secs(1));
        let decide =
            |sent: &Retransmissions, number, now| sent.decide(number, None, ROUND_TRIP, (2, false), at(now));
        assert_eq!(decide(&sent, 5, 0), RetransmitDecision::Refused);
        sent.record(5, at(0));
        assert_eq!(decide(&sent, 13, 1_000), RetransmitDecision::Refused);
        assert_eq!(decide(&sent, 13, 1_001), RetransmitDecision::Retransmit);
        assert!(sent.bytes() > 0);
    }
}
