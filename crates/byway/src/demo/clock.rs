//! The clock that all processes of the demo share.

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// How early to wake up and spin: what a wake-up is late on an ordinary kernel, with the timer slack at its least.
const SPIN_NANOS: u64 = 60_000;

/// An instant of `CLOCK_MONOTONIC` in nanoseconds: it is the same clock in all processes of a machine.
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

/// Has this thread's timers fire when they are due, not up to 50 microseconds later.
pub(crate) fn sharpen_timers() {
    // Without it, timers are merely less sharp, and the lateness that is reported shows it.
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
}

/// Waits until this instant, to a few microseconds.
pub(crate) fn wait_until(instant: Instant) {
    let early = timespec(instant.0.saturating_sub(SPIN_NANOS));
    // A signal may end the sleep early; the loop below sleeps on.
    let _ = clock_nanosleep_absolute(ClockId::Monotonic, &early);
    while Instant::now() < instant {
        core::hint::spin_loop();
    }
}

/// How long to sleep for something that is due at `instant`, so as to be awake for it.
pub(crate) fn sleep_before(instant: Instant, now: Instant) -> Timespec {
    timespec(instant.nanos_since(now).saturating_sub(SPIN_NANOS))
}

/// Translates the kernel's receive times, which are in Unix time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnixClock {
    monotonic_behind_nanos: u64,
}

impl UnixClock {
    pub(crate) fn now() -> Self {
        let unix = nanos_of(clock_gettime(ClockId::Realtime));
        Self { monotonic_behind_nanos: unix.saturating_sub(Instant::now().0) }
    }

    /// The instant of a time since 1970, never in the future.
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
