//! How far apart the two ways of a flow are, on both of which all of its packets come.

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::SECOND_WAY_WITHIN;

/// What is known of the slower of two ways: by how much later it brings what the faster one has brought.
///
/// One packet at a time is watched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TwoWays {
    watched: Option<(SequenceNumber, Time)>,
    behind: Duration,
    /// When relays brought something last, be it for the second time.
    relayed: Option<Time>,
}

impl TwoWays {
    /// Relays brought a packet.
    pub(super) const fn relayed(&mut self, now: Time) {
        self.relayed = Some(now);
    }

    /// Returns the time of the latest packet from relays.
    pub(super) const fn last_relayed(&self) -> Option<Time> {
        self.relayed
    }

    /// Whether relays brought something within such a time.
    pub(super) fn are_relaying(&self, within: Duration, now: Time) -> bool {
        self.relayed.is_some_and(|at| now.saturating_since(at) < within)
    }

    /// A packet came for the first time.
    pub(super) fn first(&mut self, sequence: SequenceNumber, now: Time) {
        if self.watched.is_none_or(|(_, since)| now.saturating_since(since) > SECOND_WAY_WITHIN) {
            self.watched = Some((sequence, now));
        }
    }

    /// A packet came for the second time; how far behind its way is, if that is measured anew. What is longer counts at
    /// once, what is shorter little by little: who waits too short asks for what is on its way.
    pub(super) fn second(&mut self, sequence: SequenceNumber, now: Time) -> Option<Duration> {
        let (_, since) = self.watched.take_if(|(watched, _)| *watched == sequence)?;
        let measured = now.saturating_since(since);
        let shorter = self.behind.saturating_sub(measured) / 8;
        self.behind = measured.max(self.behind - shorter);
        Some(self.behind)
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
        let mut ways = TwoWays::default();
        for (sent, behind, believed) in [(0, 20, 20), (100, 60, 60), (200, 20, 55), (300, 55, 55)] {
            ways.first(number(sent), at(sent));
            // While one packet is watched, others are not.
            ways.first(number(sent + 1), at(sent + 1));
            assert_eq!(ways.second(number(sent + 1), at(sent + 2)), None);
            assert_eq!(ways.second(number(sent), at(sent + behind)), Some(ms(believed)));
        }
        assert_eq!(ways.second(number(300), at(400)), None, "a third time");
    }

    #[test]
    fn a_packet_that_the_second_way_lost_is_watched_no_longer() {
        let mut ways = TwoWays::default();
        ways.first(number(1), at(0));
        ways.first(number(2), at(0) + SECOND_WAY_WITHIN);
        assert_eq!(ways.second(number(2), at(5_000)), None);
        ways.first(number(3), at(5_000));
        assert_eq!(ways.second(number(3), at(5_010)), Some(ms(10)));
    }
}
