//! Choice between sleeping and spinning until the emulator's next event.

use byway_units::{Duration, Time};

/// Time before an event at which the thread stops sleeping, because the kernel may wake it up late
/// by about this time.
const SPIN_TIME: Duration = Duration::from_micros(60);

/// Interval over which the time is measured that the thread does not sleep.
const INTERVAL: Duration = Duration::from_millis(10);

/// Longest time in an interval that the thread may spin; afterwards it sleeps whenever it has no
/// work. If a real-time thread never sleeps, the kernel stops it for 50 ms of each second:
/// `sched_rt_runtime_us`, or the fair server in its place.
const AWAKE_MAX: Duration = Duration::from_millis(5);

/// Estimator that decides whether the emulator's thread sleeps or spins: begin of the present
/// interval, and the time slept in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeupEstimator {
    since: Time,
    slept: Duration,
}

impl WakeupEstimator {
    pub(crate) const fn new(now: Time) -> Self {
        Self { since: now, slept: Duration::ZERO }
    }

    /// Records that the thread slept from one instant to another.
    pub(crate) fn note_sleep(&mut self, from: Time, until: Time) {
        self.slept += until.saturating_since(from.max(self.since));
    }

    /// Returns the time that the thread sleeps before the next event, which is due in `until_due`;
    /// it spins for the rest.
    pub(crate) fn sleep_time(&mut self, until_due: Duration, now: Time) -> Duration {
        if now.saturating_since(self.since) >= INTERVAL {
            *self = Self::new(now);
        }
        let awake = now.saturating_since(self.since).saturating_sub(self.slept);
        if awake < AWAKE_MAX { until_due.saturating_sub(SPIN_TIME) } else { until_due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of a second that a thread sleeps if it has work at this interval, each
    /// time for this long.
    fn slept(every: Duration, works: Duration) -> f64 {
        let second = Duration::from_secs(1);
        let (mut now, mut due, mut slept) = (Time::START, Time::START + every, Duration::ZERO);
        let mut estimator = WakeupEstimator::new(now);
        while now < Time::START + second {
            if due <= now {
                (now, due) = (now + works, due + every);
                continue;
            }
            let sleep = estimator.sleep_time(due.saturating_since(now), now);
            let until = now + sleep.max(Duration::from_micros(1));
            if !sleep.is_zero() {
                estimator.note_sleep(now, until);
                slept += sleep;
            }
            now = until;
        }
        slept.as_secs_f64() / second.as_secs_f64()
    }

    #[test]
    fn it_is_awake_before_what_is_due_while_there_is_little_of_it() {
        let share = slept(Duration::from_millis(1), Duration::from_micros(10));
        assert!((0.92..=0.94).contains(&share), "all but 70 us of each millisecond: {share}");
    }

    #[test]
    fn it_sleeps_whenever_it_can_where_it_would_otherwise_never_sleep() {
        for every in [20, 40, 60] {
            let share = slept(Duration::from_micros(every), Duration::from_micros(every * 7 / 10));
            assert!(share > 0.1, "others are to have a part: {share} with something each {every} us");
        }
    }
}
