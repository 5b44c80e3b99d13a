//! Conversion from the clock of QUIC libraries to that of `byway-state`.

use std::time::Instant;

use byway_units::{Duration, Time};

use crate::limits::CLOCK_ORIGIN;

/// Clock of one controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    begun_at: Instant,
}

impl Clock {
    pub(crate) const fn new(begun_at: Instant) -> Self {
        Self { begun_at }
    }

    /// Returns the time of an instant, which may be earlier than the controller.
    pub(crate) fn time(self, at: Instant) -> Time {
        match at.checked_duration_since(self.begun_at) {
            Some(since) => CLOCK_ORIGIN.saturating_add(duration(since)),
            None => CLOCK_ORIGIN.saturating_sub(duration(self.begun_at.saturating_duration_since(at))),
        }
    }
}

/// Returns the same duration, or the longest one.
pub(crate) fn duration(of: std::time::Duration) -> Duration {
    Duration::try_from(of).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_clock::{at, begin};

    #[test]
    fn instants_before_and_after_the_beginning_have_a_time() {
        let start = begin();
        let clock = Clock::new(at(start, 5_000));
        assert_eq!(clock.time(at(start, 5_000)), CLOCK_ORIGIN);
        assert_eq!(clock.time(at(start, 7_000)), CLOCK_ORIGIN + Duration::from_secs(2));
        assert_eq!(clock.time(start), CLOCK_ORIGIN - Duration::from_secs(5));
    }
}
