//! The clock of drivers. Only this module reads clocks.

use byway_units::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Clock of the system that continues during suspend, if it has one: keys age in that time, and
/// peers close their sessions.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// Monotonic clock of one run of a client. Copies of it agree, and changes of the date do not
/// affect it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    started_unix_nanos: u64,
}

impl Clock {
    /// Starts a clock at time zero, and records the Unix time of its start.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start_nanos: nanos(clock_gettime(STEADY)),
            started_unix_nanos: nanos(clock_gettime(ClockId::Realtime)),
        }
    }

    /// Returns the time since the clock's start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos(nanos(clock_gettime(STEADY)).saturating_sub(self.start_nanos))
    }

    /// Returns the Unix time of the clock's start, in nanoseconds.
    #[must_use]
    pub const fn started_unix_nanos(&self) -> u64 {
        self.started_unix_nanos
    }
}

/// Converts a time to nanoseconds. Dates before 1970 become 0.
fn nanos(time: Timespec) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec).saturating_mul(1_000_000_000).saturating_add(part(time.tv_nsec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_agree_and_time_does_not_go_back() {
        let clock = Clock::start();
        let copy = clock;
        assert!([clock.now(), copy.now(), clock.now()].is_sorted());
        assert_eq!(clock.started_unix_nanos(), copy.started_unix_nanos());
    }
}
