//! Clock of the process; no other module reads clocks.

use byway_units::Time;
use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Clock of one run of the program; copies of it agree.
///
/// It includes the time in which the machine sleeps (`CLOCK_BOOTTIME`). Keys age, grants end and
/// peers give up in that time, so a laptop has to know for how long it slept. It never jumps,
/// whatever happens to the date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Time on the kernel's clock at which this clock started, in nanoseconds.
    start_nanos: u64,
    started_unix_nanos: u64,
}

impl Clock {
    /// Creates a clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start_nanos: nanos(clock_gettime(ClockId::Boottime)),
            started_unix_nanos: nanos(clock_gettime(ClockId::Realtime)),
        }
    }

    /// Returns the time since the clock's start.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos(nanos(clock_gettime(ClockId::Boottime)) - self.start_nanos)
    }

    /// Returns the Unix time at the clock's start, in nanoseconds.
    #[must_use]
    pub const fn started_unix_nanos(&self) -> u64 {
        self.started_unix_nanos
    }

    /// Converts an instant of this clock to the kernel's clock, for timers.
    pub(crate) fn on_kernels_clock(&self, time: Time) -> Timespec {
        let nanos = self.start_nanos.saturating_add(time.as_nanos());
        let part = |nanos: u64| i64::try_from(nanos).expect("less than 2^64 / 10^9");
        Timespec { tv_sec: part(nanos / NANOS_PER_SECOND), tv_nsec: part(nanos % NANOS_PER_SECOND) }
    }
}

/// Converts a time of the kernel to nanoseconds; one before 1970, which is wrong, becomes zero.
fn nanos(time: Timespec) -> u64 {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * NANOS_PER_SECOND + part(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    #[test]
    fn copies_agree_and_time_does_not_go_back() {
        let clock = Clock::start();
        let copy = clock;
        let times = [clock.now(), copy.now(), clock.now()];
        assert!(times.is_sorted());
        assert_eq!(clock.started_unix_nanos(), copy.started_unix_nanos());
    }

    #[test]
    fn an_instant_is_found_again_on_the_kernels_clock() {
        let clock = Clock { start_nanos: 3_999_999_999, started_unix_nanos: 0 };
        let found = clock.on_kernels_clock(Time::START + Duration::from_nanos(2));
        assert_eq!((found.tv_sec, found.tv_nsec), (4, 1));
        assert!(clock.on_kernels_clock(Time::MAX).tv_sec > 18_000_000_000);
    }
}
