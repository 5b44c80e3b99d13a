//! Cause of a loss: congestion, or a lossy path.

use byway_units::{Duration, Time};

use super::loss_quantile::LossQuantile;
use super::queue_delay::QueueDelay;

/// Classifier of losses by the queueing delay around them.
///
/// A full queue drops packets, so a loss while packets queue is congestion. This is the *spike*
/// scheme (Cen, Cosman and Voelker, IEEE/ACM Transactions on Networking 11(5), 2003): packets queue
/// if their delay exceeds half of the range that the path has shown. The range adapts the threshold
/// to short queues. An upper bound keeps it sensitive to AQM, which drops long before a queue is
/// full. A queue of a few packets varies too fast for the least of four delays, so the
/// [quantile](LossQuantile) of the delays around losses counts as well.
///
/// A path that polices its rate drops without a queue. Its losses count as those of a lossy path.
///
/// There are three verdicts:
///
/// - [`has_standing_queue`](Self::has_standing_queue) is about the present: packets queue, so a
///   loss now is likely a tail drop. It needs no losses.
/// - [`has_congestion_losses`](Self::has_congestion_losses) is about the path: its latest losses
///   occurred at its greatest delays. It holds between the losses too, while the queue is empty.
/// - [`on_loss`](Self::on_loss) is about one loss, by both.
#[derive(Clone, Debug)]
pub struct LossCause {
    queue: QueueDelay<BASE_SPANS>,
    quantile: LossQuantile,
    /// Greatest queueing delays of the present span and of the one before.
    peaks: [Duration; 2],
    span_end: Time,
}

/// Length of a span of peaks. One or two spans cover a period of CUBIC, which takes 10 s from one
/// loss to the next at 100 Mbit/s and a round trip of 80 ms.
const SPAN: Duration = Duration::from_secs(12);

/// Spans of the base delay, as many as of peaks. A clock drift of 80 ppm, or a path that becomes
/// longer, counts as a queue for 24 s at most. A queue that does not drain within that time raises
/// the base delay, but its losses occur at its top.
const BASE_SPANS: usize = 2;

/// Divisor of the range of delays that gives the threshold: half, as published.
const RANGE_PART: u64 = 2;

/// Least queueing delay that counts as a queue: timestamps and schedulers of busy machines err by
/// about a millisecond.
const THRESHOLD_MIN: Duration = Duration::from_millis(2);

/// Queueing delay that always counts as a queue. AQM allows 5 ms (RFC 8289). On a path with 20 ms
/// of jitter and no queue, the least of four delays exceeds 10 ms for one packet in sixteen.
const THRESHOLD_MAX: Duration = Duration::from_millis(10);

impl Default for LossCause {
    fn default() -> Self {
        Self::new()
    }
}

impl LossCause {
    /// Creates the state of an unknown path.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            queue: QueueDelay::new(),
            quantile: LossQuantile::new(),
            peaks: [Duration::ZERO; 2],
            span_end: Time::START,
        }
    }

    /// Records a packet of the direct path; both times are in microseconds modulo 2^32, each by the
    /// clock of its side.
    pub fn on_packet(&mut self, sent_micros: u32, received_micros: u32, now: Time) {
        self.queue.sample(sent_micros, received_micros, now);
        self.quantile.on_packet(received_micros.wrapping_sub(sent_micros), now);
        if now >= self.span_end {
            self.peaks = [Duration::ZERO, self.peaks[0]];
            self.span_end = now.saturating_add(SPAN);
        }
        self.peaks[0] = self.peaks[0].max(self.delay());
    }

    /// Records a loss between the latest two packets. Returns true if it is congestion, because
    /// packets queue, or because the path's losses occur at its greatest delays.
    pub fn on_loss(&mut self, now: Time) -> bool {
        self.quantile.on_loss(now) || self.has_standing_queue()
    }

    /// Returns true if most of the latest losses occurred at great delays of the path, whether or
    /// not packets queue now.
    #[must_use]
    pub const fn has_congestion_losses(&self) -> bool {
        self.quantile.has_congestion_losses()
    }

    /// Returns true if packets queue now, so a loss before the latest packet is congestion. `false`
    /// before the first packet.
    #[must_use]
    pub fn has_standing_queue(&self) -> bool {
        self.delay() >= self.threshold()
    }

    fn threshold(&self) -> Duration {
        let range = self.peaks[0].max(self.peaks[1]);
        (range / RANGE_PART).clamp(THRESHOLD_MIN, THRESHOLD_MAX)
    }

    fn delay(&self) -> Duration {
        self.queue.delay().unwrap_or(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// Passes a packet each millisecond, with these queueing delays in microseconds. Returns after
    /// which of them a loss is congestion.
    fn classify(cause: &mut LossCause, from_millis: u64, delays: impl IntoIterator<Item = u32>) -> Vec<bool> {
        let classify = |(millis, delay): (u64, u32)| {
            let sent = u32::try_from(millis * 1_000).expect("short");
            cause.on_packet(sent, sent + 40_000 + delay, Time::START + Duration::from_millis(millis));
            cause.has_standing_queue()
        };
        (from_millis..).zip(delays).map(classify).collect()
    }

    #[test]
    fn nothing_is_congestion_before_the_first_packet_or_on_an_empty_path() {
        let mut cause = LossCause::new();
        assert!(!cause.has_standing_queue());
        assert!(!classify(&mut cause, 0, [0; 100]).contains(&true));
    }

    #[test]
    fn losses_at_the_top_of_a_queue_are_congestion_whatever_its_length() {
        for length in [4_000, 5_000, 20_000, 80_000] {
            let mut cause = LossCause::new();
            let fills = (0..=100).map(|percent| length / 100 * percent);
            let filled = classify(&mut cause, 0, fills.chain([length; 4]));
            assert_eq!(filled.last(), Some(&true), "{length}");
            let drained = classify(&mut cause, 1_000, [length / 10; 8]);
            assert_eq!(drained.last(), Some(&false), "{length}");
        }
    }

    #[test]
    fn ten_milliseconds_are_a_queue_however_long_another_was() {
        let mut cause = LossCause::new();
        classify(&mut cause, 0, [0, 500_000, 500_000, 500_000, 500_000]);
        assert_eq!(classify(&mut cause, 10, [10_000; 4]).last(), Some(&true));
        assert_eq!(classify(&mut cause, 20, [9_999; 4]).last(), Some(&false));
    }

    #[test]
    fn delays_of_single_packets_are_no_queue() {
        let mut cause = LossCause::new();
        let jitter = (0..1_000).map(|number| if number % 4 == 0 { 0 } else { 15_000 });
        assert!(!classify(&mut cause, 0, jitter).contains(&true));
    }

    #[test]
    fn less_than_two_milliseconds_are_no_queue() {
        let mut cause = LossCause::new();
        let noise = (0..1_000).map(|number| number % 50 * 40);
        assert!(!classify(&mut cause, 0, noise).contains(&true));
    }

    #[test]
    fn a_path_that_becomes_longer_is_a_queue_for_24_s_at_most() {
        let mut cause = LossCause::new();
        classify(&mut cause, 0, [0; 4]);
        assert_eq!(classify(&mut cause, 11_000, [5_000; 4]).last(), Some(&true));
        classify(&mut cause, 13_000, [5_000; 4]);
        assert_eq!(classify(&mut cause, 24_000, [5_000; 4]).last(), Some(&false));
    }

    #[test]
    fn clocks_that_drift_apart_by_80_ppm_are_no_queue() {
        let mut cause = LossCause::new();
        let drift = (0..120_000).map(|millis| millis * 80 / 1_000);
        assert!(!classify(&mut cause, 0, drift).contains(&true));
    }

    #[test]
    fn the_range_is_forgotten_after_two_spans() {
        let mut cause = LossCause::new();
        classify(&mut cause, 0, [0, 0, 0, 0, 18_000, 18_000, 18_000, 18_000]);
        assert_eq!(classify(&mut cause, 11_000, [4_000; 4]).last(), Some(&false));
        classify(&mut cause, 13_000, [0; 4]);
        classify(&mut cause, 26_000, [0; 4]);
        assert_eq!(classify(&mut cause, 26_100, [4_000; 4]).last(), Some(&true));
    }
}
