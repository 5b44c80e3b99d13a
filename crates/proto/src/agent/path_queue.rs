//! Queue of a received flow's direct path: of mixed traffic, whether its losses are congestion; of
//! coded flows, whether it grows, as NACKs report it to relays.

use alloc::boxed::Box;

use byway_units::{Duration, Time};
use byway_wire::{Service, Timestamp};

use crate::limits::QUEUE_GROWTH_MIN;
use crate::parts::loss_cause::LossCause;
use crate::parts::queue_delay::QueueDelay;

/// Queueing delay of a received flow's direct path. Allocated for mixed traffic and coded flows
/// only.
#[derive(Clone, Debug, Default)]
pub(super) struct PathQueue {
    cause: Option<Box<LossCause>>,
    growth: Option<Box<QueueDelay<GROWTH_SPANS, GROWTH_SPAN_MILLIS>>>,
}

/// Window of a queue's growth: a second. A path whose delay has changed for good, because its route
/// has, grows for that second only.
const GROWTH_SPANS: usize = 4;
const GROWTH_SPAN_MILLIS: u64 = 250;

/// Least silence that shows an outage of a path whose losses are congestion. A full queue drops
/// whole ends of bursts, and the packets of a call between them. Linux retransmits after 200 ms at
/// the earliest.
const CONGESTED_SILENCE_MIN: Duration = Duration::from_millis(100);

impl PathQueue {
    /// Records a packet of the direct path, by its time of sending. `is_mixture` is true if its
    /// flow may be a mixture.
    pub(super) fn sample(&mut self, (is_mixture, service): (bool, Service), sent: Timestamp, now: Time) {
        if is_mixture {
            self.sample_cause(sent, now);
        }
        if service == Service::Coding {
            self.sample_growth(sent, now);
        }
    }

    /// Updates the cause of losses with a packet of the direct path, by its time of sending.
    fn sample_cause(&mut self, sent: Timestamp, now: Time) {
        let cause = self.cause.get_or_insert_with(|| Box::new(LossCause::new()));
        cause.on_packet(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Updates the growth of the queue with a packet of the direct path, by its time of sending.
    fn sample_growth(&mut self, sent: Timestamp, now: Time) {
        let growth = self.growth.get_or_insert_default();
        growth.sample(sent.micros(), Timestamp::at(now).micros(), now);
    }

    /// Records a loss before the latest packet; returns true if it is congestion. `false` before
    /// the first packets.
    pub(super) fn on_loss(&mut self, now: Time) -> bool {
        self.cause.as_mut().is_some_and(|cause| cause.on_loss(now))
    }

    /// Returns the least silence that shows an outage, and not a full queue alone. Zero if the
    /// path's losses are not congestion.
    #[inline]
    pub(super) fn silence_min(&self) -> Duration {
        let is_congested = self.cause.as_ref().is_some_and(|cause| cause.has_congestion_losses());
        if is_congested { CONGESTED_SILENCE_MIN } else { Duration::ZERO }
    }

    /// Returns true if packets queue on the path, so a loss is likely a drop at a full queue.
    /// `false` before the first packets.
    pub(super) fn is_standing(&self) -> bool {
        self.cause.as_ref().is_some_and(|cause| cause.has_standing_queue())
    }

    /// Returns true if the queue grows, so a loss is likely a sign of congestion.
    pub(super) fn grows(&self) -> bool {
        let growth = self.growth.as_ref().and_then(|growth| growth.delay());
        growth.is_some_and(|growth| growth >= QUEUE_GROWTH_MIN)
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
        let mut growth = PathQueue::default();
        let mut growing = Vec::new();
        for (millis, delay) in (0..).step_by(20).zip(delays_millis) {
            let now = Time::START + Duration::from_millis(millis.into());
            growth.sample_growth(Timestamp::at(now), now + Duration::from_millis(50 + u64::from(delay)));
            growing.extend(growth.grows().then_some(millis));
        }
        growing
    }

    #[test]
    fn where_a_queue_drops_a_short_silence_is_no_outage() {
        let mut queue = PathQueue::default();
        assert_eq!(queue.silence_min(), Duration::ZERO);
        for number in 0..3_000_u64 {
            let (now, delay) = (Time::START + Duration::from_millis(10 * number), number % 11);
            if delay == 10 {
                continue;
            }
            queue.sample_cause(Timestamp::at(now), now + Duration::from_millis(50 + delay));
            if delay == 0 && number > 0 {
                queue.on_loss(now);
            }
        }
        assert_eq!(queue.silence_min(), CONGESTED_SILENCE_MIN);
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
        assert_eq!((growing.first(), growing.last()), (Some(&1_060), Some(&1_900)));
    }
}
