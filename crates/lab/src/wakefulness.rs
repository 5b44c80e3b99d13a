//! How long the carrier may stay awake between what is due, instead of having itself woken up.

use byway_units::{Duration, Time};

/// So long before something is due the thread no longer sleeps: the kernel wakes it up late by some of that.
const SPINS_FOR: Duration = Duration::from_micros(60);

/// What is looked at as one.
const INTERVAL: Duration = Duration::from_millis(10);

/// After so much of an interval awake, it only works in the rest. A thread before all others that never sleeps is stopped by the kernel
/// for 50 ms of each second, so that others run, too: `sched_rt_runtime_us`, and the fair server in its place.
const AWAKE_AT_MOST: Duration = Duration::from_millis(5);

/// What there was of it in the present interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakefulness {
    since: Time,
    slept: Duration,
}

impl Wakefulness {
    pub(crate) const fn new(now: Time) -> Self {
        Self { since: now, slept: Duration::ZERO }
    }

    /// It has slept from one instant to another.
    pub(crate) fn note_sleep(&mut self, from: Time, until: Time) {
        self.slept += until.saturating_since(from.max(self.since));
    }

    /// How long it sleeps of the time until something is due.
    pub(crate) fn sleep(&mut self, until_due: Duration, now: Time) -> Duration {
        if now.saturating_since(self.since) >= INTERVAL {
            *self = Self::new(now);
        }
        let awake = now.saturating_since(self.since).saturating_sub(self.slept);
        if awake < AWAKE_AT_MOST { until_due.saturating_sub(SPINS_FOR) } else { until_due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a second that a thread sleeps which has something to do every so often, each time for so long.
    fn slept(every: Duration, works: Duration) -> f64 {
        let second = Duration::from_secs(1);
        let (mut now, mut due, mut slept) = (Time::START, Time::START + every, Duration::ZERO);
        let mut wakefulness = Wakefulness::new(now);
        while now < Time::START + second {
            if due <= now {
                (now, due) = (now + works, due + every);
                continue;
            }
            let sleep = wakefulness.sleep(due.saturating_since(now), now);
            let until = now + sleep.max(Duration::from_micros(1));
            if !sleep.is_zero() {
                wakefulness.note_sleep(now, until);
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
