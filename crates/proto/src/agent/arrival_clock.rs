//! When packets were due, by the clock of the receiver.

use byway_units::{Duration, Time};
use byway_wire::{SequenceNumber, Timestamp};

use crate::limits::BASE_WINDOW;

/// Maps the sender's clock to the receiver's, by the fastest packets of the direct path.
///
/// The least difference between arrival and sending, over the last one to two windows, stands for a packet that
/// met no queue: what takes longer is late by as much. Clocks that drift apart are followed as old windows are
/// forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArrivalClock {
    current: Option<(u32, Time)>,
    previous: Option<u32>,
    /// One more than the highest number of a packet that came too late to be of use.
    late_below: u64,
}

impl ArrivalClock {
    /// Takes note of a packet of the direct path; how much later it came than the fastest.
    pub(crate) fn arrived(&mut self, sent: Timestamp, now: Time) -> Duration {
        let difference = difference(sent, now);
        match &mut self.current {
            Some((least, since)) if now.saturating_since(*since) < BASE_WINDOW => {
                if is_less(difference, *least) {
                    *least = difference;
                }
            }
            current => {
                self.previous = current.map(|(least, _)| least);
                *current = Some((difference, now));
            }
        }
        self.lateness(sent, now)
    }

    /// How much later than the direct path's fastest a packet that was sent then is now.
    pub(crate) fn lateness(&self, sent: Timestamp, now: Time) -> Duration {
        let Some(base) = self.base() else {
            return Duration::ZERO;
        };
        let late = difference(sent, now).wrapping_sub(base).cast_signed().max(0);
        Duration::from_micros(u64::from(late.unsigned_abs()))
    }

    /// Notes that a packet came too late to be of use.
    pub(crate) fn note_late(&mut self, sequence: SequenceNumber) {
        self.late_below = self.late_below.max(sequence.number().saturating_add(1));
    }

    /// Returns true if a packet cannot be of use any more: one that was sent no sooner was too late.
    pub(crate) const fn is_late(&self, number: u64) -> bool {
        number < self.late_below
    }

    /// Whether a packet of the direct path has shown when others are due.
    pub(crate) const fn is_set(&self) -> bool {
        self.current.is_some()
    }

    fn base(&self) -> Option<u32> {
        let (current, _) = self.current?;
        let older = self.previous.filter(|previous| is_less(*previous, current));
        Some(older.unwrap_or(current))
    }
}

/// Arrival minus sending, in microseconds modulo 2^32: the delay and the clocks' offset.
fn difference(sent: Timestamp, now: Time) -> u32 {
    Timestamp::at(now).micros().wrapping_sub(sent.micros())
}

const fn is_less(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// A sender's clock that is near its wrap.
    fn sent(ms: u32) -> Timestamp {
        Timestamp::new((u32::MAX - 500_000).wrapping_add(ms * 1_000))
    }

    #[test]
    fn lateness_counts_from_the_fastest_packet() {
        let mut clock = ArrivalClock::default();
        assert_eq!(clock.lateness(sent(0), at(70)), Duration::ZERO);
        assert_eq!(clock.arrived(sent(0), at(55)), Duration::ZERO);
        assert_eq!(clock.arrived(sent(10), at(60)), Duration::ZERO);
        assert_eq!(clock.lateness(sent(0), at(55)), Duration::from_millis(5));
        // Across the wrap of the sender's clock.
        assert_eq!(clock.lateness(sent(900), at(1_050)), Duration::from_millis(100));
    }

    #[test]
    fn a_path_that_became_longer_is_believed_after_two_windows() {
        let mut clock = ArrivalClock::default();
        clock.arrived(sent(0), at(50));
        let window = u32::try_from(BASE_WINDOW.as_millis()).expect("a window is short");
        for windows in 1..=3 {
            let millis = windows * window;
            clock.arrived(sent(millis), at(u64::from(millis) + 80));
        }
        let millis = 3 * window + 10;
        assert_eq!(clock.lateness(sent(millis), at(u64::from(millis) + 80)), Duration::ZERO);
    }
}
