//! Tail-loss hints: a relay reports the last sequence number of a burst, because no later packet
//! could reveal its loss.
//!
//! If the relay path is faster than the direct path, hints name packets that are still in flight on
//! the direct path. The receiver learns by how much hints precede packets, and delays its NACK by
//! that time. So it sends one NACK for a packet, not one for each hint.

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::REORDERING_TIME;

/// Latest tail-loss hint of a relay for a received flow, and the learned time from a hint to its
/// packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BurstEnd {
    hint: Option<TailLossHint>,
    /// Longest recent time from a relay's hint to the arrival of the named packet by the direct
    /// path.
    hint_lead: Duration,
}

/// Sequence number of the last packet before a pause, which a relay has reported.
#[derive(Clone, Copy, Debug)]
struct TailLossHint {
    last: SequenceNumber,
    at: Time,
    /// True until a NACK is sent for this hint.
    is_pending: bool,
}

impl BurstEnd {
    /// Records a relay's hint about a packet that has not arrived, unless an earlier hint names a
    /// later packet.
    pub(super) fn on_hint(&mut self, last: SequenceNumber, now: Time) {
        if self.hint.is_none_or(|hint| last > hint.last) {
            self.hint = Some(TailLossHint { last, at: now, is_pending: true });
        }
    }

    /// Shortens the expected time from hint to packet by an eighth, because a hint named a packet
    /// that had already arrived.
    pub(super) fn on_confirmed(&mut self) {
        self.hint_lead -= self.hint_lead / 8;
    }

    /// Handles an arrived source packet: if the hint names it or an earlier one, ends the hint and
    /// updates the time from hint to packet.
    pub(super) fn on_packet(&mut self, sequence: SequenceNumber, now: Time) {
        if let Some(hint) = self.hint.filter(|hint| sequence >= hint.last) {
            let behind = if sequence == hint.last { now.saturating_since(hint.at) } else { Duration::ZERO };
            self.hint_lead = self.hint_lead.max(behind);
            self.hint = None;
        }
    }

    /// Returns the time at which a NACK for the packets up to the hint's is due; `None` without a
    /// pending hint.
    pub(super) fn nack_at(&self) -> Option<Time> {
        let hint = self.hint.filter(|hint| hint.is_pending)?;
        Some(hint.at + self.hint_lead + REORDERING_TIME)
    }

    /// Returns true, once for each hint, if a NACK for everything after `highest`, the highest
    /// number received, is due now.
    pub(super) fn poll_nack(&mut self, highest: Option<SequenceNumber>, now: Time) -> bool {
        let is_due = self.nack_at().is_some_and(|at| at <= now);
        let Some(hint) = self.hint.as_mut().filter(|_| is_due) else {
            return false;
        };
        hint.is_pending = false;
        highest.is_none_or(|highest| highest < hint.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    const fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn what_was_spoken_of_is_asked_for_once() {
        let mut burst_end = BurstEnd::default();
        burst_end.on_hint(number(4), at(0));
        assert!(!burst_end.poll_nack(None, at(2)));
        assert_eq!(burst_end.nack_at(), Some(at(3)));
        assert!(burst_end.poll_nack(None, at(3)));
        burst_end.on_hint(number(4), at(10));
        assert_eq!(burst_end.nack_at(), None);
        burst_end.on_hint(number(5), at(20));
        assert_eq!(burst_end.nack_at(), Some(at(23)));
    }

    #[test]
    fn what_comes_on_its_own_is_not_asked_for() {
        let mut burst_end = BurstEnd::default();
        burst_end.on_hint(number(4), at(0));
        burst_end.on_packet(number(3), at(1));
        assert_eq!(burst_end.nack_at(), Some(at(3)), "a packet below the hint does not end it");
        burst_end.on_packet(number(4), at(2));
        assert_eq!(burst_end.nack_at(), None);
    }

    #[test]
    fn what_a_repair_brought_is_not_asked_for() {
        let mut burst_end = BurstEnd::default();
        burst_end.on_hint(number(4), at(0));
        assert!(!burst_end.poll_nack(Some(number(4)), at(3)));
        burst_end.on_hint(number(6), at(10));
        assert!(burst_end.poll_nack(Some(number(5)), at(13)));
    }

    #[test]
    fn a_relay_that_is_ahead_is_believed_later() {
        let mut burst_end = BurstEnd::default();
        burst_end.on_hint(number(0), at(0));
        assert!(burst_end.poll_nack(None, at(3)));
        burst_end.on_packet(number(0), at(40));
        burst_end.on_hint(number(1), at(100));
        assert_eq!(burst_end.nack_at(), Some(at(143)));
        burst_end.on_packet(number(1), at(130));
        burst_end.on_confirmed();
        burst_end.on_hint(number(2), at(200));
        assert_eq!(
            burst_end.nack_at(),
            Some(at(238)),
            "the lead decays after hints about packets that arrived"
        );
    }
}
