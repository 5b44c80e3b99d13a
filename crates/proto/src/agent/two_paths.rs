//! The two paths of received flows whose packets all arrive by the direct path and through relays.

use alloc::boxed::Box;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::covered::AwaitedCopies;
use super::path_delays::PathDelayMeter;
use crate::limits::SECOND_PATH_WITHIN;

/// State of the two paths of a received flow. All its packets use both, or a few do as samples of
/// the direct path. The receiver measures the skew, the delay of the slower path behind the faster
/// one, with the two arrivals of one packet at a time.
#[derive(Debug, Default)]
pub(super) struct TwoPaths {
    watched: Option<(SequenceNumber, Time)>,
    skew: Duration,
    /// Arrival of the latest packet from relays, duplicates included.
    last_relayed_at: Option<Time>,
    /// Packets that relays delivered first.
    pub(super) copies: AwaitedCopies,
    /// Delays by path, for reports; allocated at the first one of a flow whose sender compares
    /// them.
    pub(super) delays: Option<Box<PathDelayMeter>>,
    /// Time until which relays may forward packets of a former service that used both paths.
    pub(super) forwarded_until: Time,
}

impl TwoPaths {
    /// Records the arrival of a packet from relays, new or duplicate.
    pub(super) const fn on_relayed(&mut self, now: Time) {
        self.last_relayed_at = Some(now);
    }

    /// Returns the arrival time of the latest packet from relays.
    pub(super) const fn last_relayed(&self) -> Option<Time> {
        self.last_relayed_at
    }

    /// Returns true if the latest packet from relays arrived less than `within` ago.
    pub(super) fn is_relay_active(&self, within: Duration, now: Time) -> bool {
        self.last_relayed_at.is_some_and(|at| now.saturating_since(at) < within)
    }

    /// Records the first arrival of a packet, by the direct path or through relays.
    pub(super) fn on_delivery(&mut self, sequence: SequenceNumber, is_relayed: bool, now: Time) {
        self.on_first_copy(sequence, now);
        if is_relayed {
            self.on_relayed(now);
        }
    }

    /// Starts a measurement with the first arrival of a packet, unless one is running.
    pub(super) fn on_first_copy(&mut self, sequence: SequenceNumber, now: Time) {
        if self.watched.is_none_or(|(_, since)| now.saturating_since(since) > SECOND_PATH_WITHIN) {
            self.watched = Some((sequence, now));
        }
    }

    /// Ends the measurement without a result, because the paths of the flow change.
    pub(super) const fn end_measurement(&mut self) {
        self.watched = None;
    }

    /// Ends the measurement with the second arrival of its packet; returns the new skew, or `None`
    /// for another packet. The skew rises at once and decays by 1/8 per sample. Too small a value
    /// would cause spurious NACKs.
    pub(super) fn on_second_copy(&mut self, sequence: SequenceNumber, now: Time) -> Option<Duration> {
        let (_, since) = self.watched.take_if(|(watched, _)| *watched == sequence)?;
        let measured = now.saturating_since(since);
        let shorter = self.skew.saturating_sub(measured) / 8;
        self.skew = measured.max(self.skew - shorter);
        Some(self.skew)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn the_slower_way_is_followed_up_at_once_and_down_slowly() {
        let mut skew = TwoPaths::default();
        for (sent, behind, believed) in [(0, 20, 20), (100, 60, 60), (200, 20, 55), (300, 55, 55)] {
            skew.on_first_copy(number(sent), at(sent));
            // While one packet is measured, others are ignored.
            skew.on_first_copy(number(sent + 1), at(sent + 1));
            assert_eq!(skew.on_second_copy(number(sent + 1), at(sent + 2)), None);
            assert_eq!(skew.on_second_copy(number(sent), at(sent + behind)), Some(ms(believed)));
        }
        assert_eq!(skew.on_second_copy(number(300), at(400)), None, "a third time");
    }

    #[test]
    fn a_packet_that_the_second_way_lost_is_watched_no_longer() {
        let mut skew = TwoPaths::default();
        skew.on_first_copy(number(1), at(0));
        skew.on_first_copy(number(2), at(0) + SECOND_PATH_WITHIN);
        assert_eq!(skew.on_second_copy(number(2), at(5_000)), None);
        skew.on_first_copy(number(3), at(5_000));
        assert_eq!(skew.on_second_copy(number(3), at(5_010)), Some(ms(10)));
    }
}
