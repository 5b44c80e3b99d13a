//! Quantile of the delays around losses among all delays of a path.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

/// Quantiles of losses among the delays of a path: from 0, for the least delay, to 1, for the
/// greatest. The quantile of a loss is that of the greater one of the delays before and after it.
///
/// A queue drops packets when it is full, however short it is, so losses of congestion have high
/// quantiles. Losses of a lossy path occur at any delay, so their mean quantile is two thirds at
/// most, however much the delays vary. Quantiles need no threshold of the delay, so they show a
/// queue of a few packets, unlike [`LossCause`](super::loss_cause::LossCause) alone. They need a
/// few losses.
///
/// Delays are one-way delays in microseconds modulo 2^32, with the offset of the clocks.
#[derive(Clone, Debug)]
pub struct LossQuantile {
    /// Delays of a few of the latest packets, in no order.
    samples: ArrayVec<u32, SAMPLES>,
    /// Index of the sample that the next one replaces.
    next: usize,
    due: Time,
    /// Number of packets without a sample after the time for one.
    skips: usize,
    /// Delays of the latest two packets: those before and after a loss that the latest one shows.
    around: [u32; 2],
    /// Mean quantile of the latest losses.
    mean: f64,
    losses: u32,
    /// Time of the latest loss.
    loss_at: Time,
}

/// Number of samples, and the time between two. They cover eight seconds: several periods of a
/// transfer at a short queue, and less than a clock drift of 100 ppm needs for a millisecond.
const SAMPLES: usize = 32;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Least number of samples for a quantile.
const SAMPLES_MIN: usize = 8;

/// Number of packets that are skipped before a sample, at most, plus 1. It changes with each
/// sample, because the first packet of a burst waits less than the others.
const SKIPS: usize = 16;

/// Step of the number of skipped packets. It has no divisor in common with [`SKIPS`].
const SKIP_STEP: usize = 7;

/// Number of losses over which the mean is formed, approximately.
const LOSSES_MAX: u32 = 12;

/// Time without losses after which the former ones do not count. CUBIC takes 10 s from one loss to
/// the next at 100 Mbit/s and a round trip of 80 ms.
const LOSSES_REMEMBERED: Duration = Duration::from_secs(30);

/// Mean quantile before the first loss: that of losses at any delay. It counts as one loss.
const MEAN_AT_FIRST: f64 = 2.0 / 3.0;

/// Mean quantile from which on losses are congestion. Of losses at any delay, quantiles have a
/// standard deviation of 0.24, and their mean has 0.05. The threshold is four deviations above two
/// thirds. In simulations of CUBIC at queues of 5 to 80 ms, the mean was 0.93 and more.
const CONGESTION_FROM: f64 = 0.85;

/// Least quantile of a loss by congestion. A lossy path with a queue has losses at lower delays,
/// too.
const QUANTILE_MIN: f64 = 0.75;

impl Default for LossQuantile {
    fn default() -> Self {
        Self::new()
    }
}

impl LossQuantile {
    /// Creates the state of an unknown path.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            samples: ArrayVec::new_const(),
            next: 0,
            due: Time::START,
            skips: 0,
            around: [0; 2],
            mean: MEAN_AT_FIRST,
            losses: 0,
            loss_at: Time::START,
        }
    }

    /// Records a packet of the direct path with its delay.
    pub fn on_packet(&mut self, delay_micros: u32, now: Time) {
        self.around = [self.around[1], delay_micros];
        if now < self.due {
            return;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return;
        }
        if now.saturating_since(self.loss_at) >= LOSSES_REMEMBERED {
            (self.mean, self.losses) = (MEAN_AT_FIRST, 0);
        }
        match self.samples.get_mut(self.next) {
            Some(sample) => *sample = delay_micros,
            None => self.samples.push(delay_micros),
        }
        self.next = (self.next + 1) % SAMPLES;
        self.skips = self.next * SKIP_STEP % SKIPS;
        self.due = now.saturating_add(SAMPLE_INTERVAL);
    }

    /// Records a loss between the latest two packets. Returns true if it is congestion, because
    /// losses occur at great delays, and this one does. `false` until the delays of the path are
    /// known.
    pub fn on_loss(&mut self, now: Time) -> bool {
        self.loss_at = now;
        if self.samples.len() < SAMPLES_MIN {
            return false;
        }
        let [before, after] = self.around.map(|delay| self.quantile(delay));
        let quantile = before.max(after);
        self.losses = (self.losses + 1).min(LOSSES_MAX);
        self.mean += (quantile - self.mean) / f64::from(1 + self.losses);
        self.has_congestion_losses() && quantile >= QUANTILE_MIN
    }

    /// Returns true if the mean quantile of the latest losses is at least 0.85.
    #[must_use]
    pub const fn has_congestion_losses(&self) -> bool {
        self.mean >= CONGESTION_FROM
    }

    /// Returns the share of samples below a delay. Equal ones count half.
    #[allow(clippy::cast_precision_loss, reason = "there are few samples")]
    fn quantile(&self, delay: u32) -> f64 {
        let doubled = |sample: &u32| match delay.wrapping_sub(*sample).cast_signed() {
            1.. => 2,
            0 => 1,
            _ => 0_usize,
        };
        let below: usize = self.samples.iter().map(doubled).sum();
        below as f64 / (2 * self.samples.len()) as f64
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    /// Passes packets 10 ms apart with these delays in microseconds; those with `true` are lost.
    /// Returns for each loss whether it is congestion.
    fn losses(packets: impl IntoIterator<Item = (u32, bool)>) -> Vec<bool> {
        let (mut quantiles, mut follows_loss, mut found) = (LossQuantile::new(), false, Vec::new());
        for (millis, (delay, is_lost)) in (0..).step_by(10).zip(packets) {
            if is_lost {
                follows_loss = true;
                continue;
            }
            // The clocks differ so that some delays are below the wrap, and some above.
            let now = Time::START + Duration::from_millis(millis);
            quantiles.on_packet(delay.wrapping_sub(2_000), now);
            if core::mem::take(&mut follows_loss) {
                found.push(quantiles.on_loss(now));
            }
        }
        found
    }

    #[test]
    fn losses_of_a_queue_of_ten_packets_are_congestion() {
        // The queue fills by a packet of a millisecond each time, drops the eleventh, and drains.
        let found = losses((0..6_000).map(|number| (number % 11 * 1_000, number % 11 == 10)));
        // Eight samples take 1.75 s at least, in which 15 packets are lost.
        assert!(!found[..15].contains(&true), "{found:?}");
        // Of ten delays, the greatest has a quantile of 0.95.
        assert!(found[60..].iter().all(|is_congestion| *is_congestion), "{found:?}");
    }

    #[test]
    fn losses_at_any_delay_are_none() {
        // Delays take 97 values, and losses come after each of them: 31 has no divisor in common.
        let found = losses((0..20_000_u32).map(|number| (number * 37 % 97 * 300, number % 31 == 30)));
        assert!(found.len() > 600);
        assert!(!found.contains(&true));
    }

    #[test]
    fn of_a_lossy_path_with_a_queue_losses_at_low_delays_are_none() {
        // Of 25 losses, one follows an empty queue, and the others are at its top.
        let packets = (0..60_000).map(|number| {
            let phase = number % 10;
            (phase * 1_000, number % 240 == 1 || phase == 9)
        });
        let found = losses(packets);
        let is_low = |index: &usize| index.is_multiple_of(25);
        assert!((0..found.len()).filter(is_low).all(|index| !found[index]));
        let high = (60..found.len()).filter(|index| !is_low(index));
        let (count, congestion) = (high.clone().count(), high.filter(|index| found[*index]).count());
        assert!(congestion * 10 >= count * 9, "{congestion} of {count}");
    }

    #[test]
    fn losses_at_equal_delays_are_none() {
        let found = losses((0..=10_000).map(|number| (40_000, number % 100 == 99)));
        assert_eq!(found.len(), 100);
        assert!(!found.contains(&true));
    }

    #[test]
    fn half_a_minute_without_losses_forgets_congestion() {
        let (mut quantiles, mut now) = (LossQuantile::new(), Time::START);
        for number in 0..6_000 {
            now += Duration::from_millis(10);
            let phase = number % 11;
            if phase < 10 {
                quantiles.on_packet(phase * 1_000, now);
            }
            if phase == 0 && number > 0 {
                quantiles.on_loss(now);
            }
        }
        assert!(quantiles.has_congestion_losses());
        for seconds in 1..=31 {
            quantiles.on_packet(0, now + Duration::from_secs(seconds));
            // Samples are skipped between.
            (0..16).for_each(|_| quantiles.on_packet(0, now + Duration::from_secs(seconds)));
            assert_eq!(quantiles.has_congestion_losses(), seconds < 30, "{seconds}");
        }
    }

    #[test]
    fn a_path_without_known_delays_has_no_congestion() {
        assert!(!LossQuantile::new().on_loss(Time::START));
    }
}
