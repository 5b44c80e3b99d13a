//! Growth of the queueing delay of a path.

use byway_units::{Duration, Time};

use super::queue_delay::QueueDelay;
use crate::limits::QUEUE_GROWTH_MIN;

/// Queueing delay of a path, and its growth within the last second.
///
/// A path whose delay has changed for good, because its route has, grows for that second only.
#[derive(Clone, Debug, Default)]
pub struct QueueGrowth {
    queue: QueueDelay,
    /// Queueing delays of the last second, the latest first; spans without a packet are `None`.
    before: [Option<Duration>; SPANS],
    span_end: Time,
}

/// Spans of the last second.
const SPANS: usize = 4;
const SPAN: Duration = Duration::from_millis(250);

impl QueueGrowth {
    /// Records a packet; both times are in microseconds modulo 2^32, each by the clock of its side.
    pub fn sample(&mut self, sent_micros: u32, received_micros: u32, now: Time) {
        let mut begun = 0;
        while now >= self.span_end && begun < SPANS {
            self.before.rotate_right(1);
            self.before[0] = None;
            self.span_end = self.span_end.saturating_add(SPAN);
            begun += 1;
        }
        if now >= self.span_end {
            self.span_end = now.saturating_add(SPAN);
        }
        self.queue.sample(sent_micros, received_micros, now);
        let delay = self.queue.delay();
        self.before[0] = self.before[0].into_iter().chain(delay).min();
    }

    /// True if the queueing delay has grown by [`QUEUE_GROWTH_MIN`] within the last second.
    #[must_use]
    pub fn grows(&self) -> bool {
        let least = self.before.iter().flatten().min();
        self.queue.delay().zip(least).is_some_and(|(delay, least)| delay >= *least + QUEUE_GROWTH_MIN)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// Samples a path each 20 ms, with the queueing delays in milliseconds. Returns the times at
    /// which the queue grew, in milliseconds.
    fn growing(delays_millis: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let mut growth = QueueGrowth::default();
        let mut growing = Vec::new();
        for (millis, delay) in (0..).step_by(20).zip(delays_millis) {
            let now = Time::START + Duration::from_millis(millis.into());
            growth.sample(millis * 1_000, millis * 1_000 + 50_000 + delay * 1_000, now);
            growing.extend(growth.grows().then_some(millis));
        }
        growing
    }

    #[test]
    fn jitter_is_no_growth() {
        assert_eq!(growing((0..500).map(|nth| nth * 7 % 30)), []);
    }

    #[test]
    fn a_queue_that_fills_grows_until_it_is_full() {
        let delays = (0..50).map(|_| 0).chain((0..100).map(|nth| nth * 2)).chain((0..100).map(|_| 200));
        let growing = growing(delays);
        assert_eq!((growing.first(), growing.last()), (Some(&1_160), Some(&3_740)));
    }

    #[test]
    fn another_route_is_growth_for_a_second() {
        let growing = growing((0..50).map(|_| 0).chain((0..200).map(|_| 40)));
        assert_eq!((growing.first(), growing.last()), (Some(&1_060), Some(&1_980)));
    }
}
