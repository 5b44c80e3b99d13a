//! The clock that all processes of the demo share.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Time before a deadline at which a thread wakes up and spins, in nanoseconds. An ordinary kernel
/// wakes threads this late at the least timer slack.
const SPIN_NANOS: u64 = 60_000;

/// Instant of `CLOCK_MONOTONIC` in nanoseconds, a clock that all processes of a machine share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Instant(u64);

impl Instant {
    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn nanos(self) -> u64 {
        self.0
    }

    pub(crate) fn now() -> Self {
        Self(nanos_of(clock_gettime(ClockId::Monotonic)))
    }

    pub(crate) const fn plus_nanos(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }

    pub(crate) const fn plus_millis(self, millis: u64) -> Self {
        self.plus_nanos(millis * 1_000_000)
    }

    pub(crate) const fn nanos_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Reduces this thread's timer slack to the minimum; the usual slack delays timers by up to 50
/// microseconds.
pub(crate) fn sharpen_timers() {
    // A failure only makes timers less accurate, which the reported lateness shows.
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}

/// Sleeps until shortly before `instant`, and spins for the rest: returns at most some microseconds
/// after `instant`.
pub(crate) fn wait_until(instant: Instant) {
    let early = timespec(instant.0.saturating_sub(SPIN_NANOS));
    // A signal may end the sleep early. The loop below then spins for the rest of the time.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &early);
    while Instant::now() < instant {
        core::hint::spin_loop();
    }
}

/// Returns the length of the sleep from `now` until `SPIN_NANOS` before `instant`; zero if that
/// time has passed.
pub(crate) fn sleep_before(instant: Instant, now: Instant) -> Timespec {
    timespec(instant.nanos_since(now).saturating_sub(SPIN_NANOS))
}

/// Converter of the kernel's receive timestamps, which are in Unix time, into instants of the
/// demo's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnixClock {
    monotonic_behind_nanos: u64,
}

impl UnixClock {
    pub(crate) fn now() -> Self {
        let unix = nanos_of(clock_gettime(ClockId::Realtime));
        Self { monotonic_behind_nanos: unix.saturating_sub(Instant::now().0) }
    }

    /// Converts a Unix time into an instant of the monotonic clock. A result after `now` is reduced
    /// to `now`.
    pub(crate) fn instant(self, unix: core::time::Duration, now: Instant) -> Instant {
        let unix_nanos = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
        Instant(unix_nanos.saturating_sub(self.monotonic_behind_nanos)).min(now)
    }
}

fn nanos_of(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds * NANOS_PER_SECOND + u64::try_from(time.tv_nsec).unwrap_or_default()
}

fn timespec(nanos: u64) -> Timespec {
    let [seconds, nanos] = [nanos / NANOS_PER_SECOND, nanos % NANOS_PER_SECOND];
    Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos).unwrap_or_default(),
    }
}
