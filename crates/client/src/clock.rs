//! The only place that reads clocks.

use byway_units::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A clock that goes on while the machine sleeps, where there is one: keys age in that time, and peers give up on us.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// The clock of one run; copies of it agree. It never jumps, whatever happens to the date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_nanos: u64,
    started_unix_nanos: u64,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start_nanos: nanos(clock_gettime(STEADY)),
            started_unix_nanos: nanos(clock_gettime(ClockId::Realtime)),
        }
    }

    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos(nanos(clock_gettime(STEADY)).saturating_sub(self.start_nanos))
    }

    /// The start in nanoseconds of Unix time.
    #[must_use]
    pub const fn started_unix_nanos(&self) -> u64 {
        self.started_unix_nanos
    }
}

/// A date before 1970 counts as the first instant.
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
