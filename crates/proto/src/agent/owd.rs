//! Base one-way delay of the direct path, and the lateness of packets, by the sender's timestamps
//! and the receiver's clock.

use byway_units::{Duration, Time};
use byway_wire::{SequenceNumber, Timestamp};

use crate::limits::BASE_WINDOW;

/// Filter for the least one-way delay of a flow's direct path (base delay, RFC 6817).
///
/// It maps the sender's clock to the receiver's: the least difference between arrival and sending,
/// over the last one to two windows, belongs to a packet that met no queue. A packet with a greater
/// difference is late by the excess. Clock drift is followed because old windows are forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneWayDelayBaseline {
    /// Least difference of the current window.
    current: Option<u32>,
    /// Least difference of the window before.
    previous: Option<u32>,
    /// Start of the current window.
    window_start: Time,
    /// Highest sequence number of a packet that arrived after its deadline, plus 1.
    late_below: u64,
}

impl OneWayDelayBaseline {
    /// Returns the lateness of an arriving packet. Only source packets of the direct path change
    /// the base delay.
    #[inline]
    pub(crate) fn on_arrival(&mut self, sent: Timestamp, is_source_packet: bool, now: Time) -> Duration {
        if is_source_packet { self.on_packet(sent, now) } else { self.lateness(sent, now) }
    }

    /// Updates the base delay with a packet of the direct path; returns the packet's lateness.
    pub(crate) fn on_packet(&mut self, sent: Timestamp, now: Time) -> Duration {
        let difference = relative_delay(sent, now);
        match &mut self.current {
            Some(least) if now.saturating_since(self.window_start) < BASE_WINDOW => {
                if is_less(difference, *least) {
                    *least = difference;
                }
            }
            current => {
                self.previous = current.replace(difference);
                self.window_start = now;
            }
        }
        self.lateness(sent, now)
    }

    /// Returns the lateness of a packet that arrives now: its delay beyond the base delay of the
    /// direct path. Zero before the first packet of that path.
    pub(crate) fn lateness(&self, sent: Timestamp, now: Time) -> Duration {
        let Some(base) = self.base() else {
            return Duration::ZERO;
        };
        let late = relative_delay(sent, now).wrapping_sub(base).cast_signed().max(0);
        Duration::from_micros(u64::from(late.unsigned_abs()))
    }

    /// Records that a packet arrived after its deadline, so earlier ones are past theirs too.
    pub(crate) fn on_late(&mut self, sequence: SequenceNumber) {
        self.late_below = self.late_below.max(sequence.number().saturating_add(1));
    }

    /// Returns true if a missing packet is past its deadline, because one that was sent no earlier
    /// arrived too late.
    pub(crate) const fn is_late(&self, number: u64) -> bool {
        number < self.late_below
    }

    /// Returns true if a packet of the direct path has arrived, so there is a base delay.
    pub(crate) const fn is_set(&self) -> bool {
        self.current.is_some()
    }

    fn base(&self) -> Option<u32> {
        let current = self.current?;
        let older = self.previous.filter(|previous| is_less(*previous, current));
        Some(older.unwrap_or(current))
    }
}

/// Returns arrival minus sending, in microseconds modulo 2^32: the one-way delay plus the offset of
/// the clocks.
pub(super) fn relative_delay(sent: Timestamp, now: Time) -> u32 {
    Timestamp::at(now).micros().wrapping_sub(sent.micros())
}

/// Returns true if a difference of the clocks is less than another, across the wrap.
pub(super) const fn is_less(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// Returns a sender's timestamp near the clock's wrap.
    fn timestamp(ms: u32) -> Timestamp {
        Timestamp::new((u32::MAX - 500_000).wrapping_add(ms * 1_000))
    }

    #[test]
    fn lateness_counts_from_the_fastest_packet() {
        let mut baseline = OneWayDelayBaseline::default();
        assert_eq!(baseline.lateness(timestamp(0), at(70)), Duration::ZERO);
        assert_eq!(baseline.on_packet(timestamp(0), at(55)), Duration::ZERO);
        assert_eq!(baseline.on_packet(timestamp(10), at(60)), Duration::ZERO);
        assert_eq!(baseline.lateness(timestamp(0), at(55)), Duration::from_millis(5));
        // Across the wrap of the sender's clock.
        assert_eq!(baseline.lateness(timestamp(900), at(1_050)), Duration::from_millis(100));
    }

    #[test]
    fn a_path_that_became_longer_is_believed_after_two_windows() {
        let mut baseline = OneWayDelayBaseline::default();
        baseline.on_packet(timestamp(0), at(50));
        let window = u32::try_from(BASE_WINDOW.as_millis()).expect("a window is short");
        for windows in 1..=3 {
            let millis = windows * window;
            baseline.on_packet(timestamp(millis), at(u64::from(millis) + 80));
        }
        let millis = 3 * window + 10;
        assert_eq!(baseline.lateness(timestamp(millis), at(u64::from(millis) + 80)), Duration::ZERO);
    }
}
