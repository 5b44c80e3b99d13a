//! The retransmission timeout, from measured round-trip times (RFC 6298).

use byway_units::Duration;

use super::limits::{RTO_INITIAL, RTO_MAX};

/// RTT estimator of a connection, and the backoff of its retransmission timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RttEstimator {
    margin_min: Duration,
    initial: Duration,
    estimate: Option<Estimate>,
    /// Number of doublings of the timeout since the last measurement.
    doublings: u32,
}

#[derive(Clone, Copy, Debug)]
struct Estimate {
    /// Smoothed round-trip time (SRTT).
    smoothed: Duration,
    /// Mean deviation of the round-trip time (RTTVAR).
    variation: Duration,
}

impl RttEstimator {
    pub(crate) const fn new(margin_min: Duration) -> Self {
        Self { margin_min, initial: RTO_INITIAL, estimate: None, doublings: 0 }
    }

    /// Sets the retransmission timeout that applies before the first measurement.
    pub(crate) const fn begin_with(&mut self, initial: Duration) {
        self.initial = initial;
        self.doublings = 0;
    }

    /// Adds a measurement, and resets the doublings (RFC 6298, 2.2 and 2.3).
    pub(crate) fn on_rtt_sample(&mut self, sample: Duration) {
        self.doublings = 0;
        let estimate = match self.estimate {
            None => Estimate { smoothed: sample, variation: sample / 2 },
            Some(Estimate { smoothed, variation }) => {
                let deviation = smoothed.saturating_sub(sample) + sample.saturating_sub(smoothed);
                Estimate { smoothed: (smoothed * 7 + sample) / 8, variation: (variation * 3 + deviation) / 4 }
            }
        };
        self.estimate = Some(estimate);
    }

    /// Returns the smoothed round-trip time; `None` before a measurement.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|estimate| estimate.smoothed)
    }

    /// Doubles the timeout after its expiry (RFC 6298, 5.5).
    pub(crate) const fn back_off(&mut self) {
        self.doublings += 1;
    }

    /// Returns the current retransmission timeout, with its doublings.
    pub(crate) fn retransmission_timeout(&self) -> Duration {
        let timeout = self.estimate.map_or(self.initial, |estimate| {
            estimate.smoothed.saturating_add((estimate.variation * 4).max(self.margin_min))
        });
        let factor = 1_u64.checked_shl(self.doublings).unwrap_or(u64::MAX);
        timeout.checked_mul(factor).unwrap_or(RTO_MAX).min(RTO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::limits::RTO_MARGIN_MIN;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_measurement_gives_three_times_itself() {
        let mut round_trip = RttEstimator::new(RTO_MARGIN_MIN);
        assert_eq!(round_trip.retransmission_timeout(), Duration::from_secs(1));
        round_trip.on_rtt_sample(millis(200));
        assert_eq!(
            (round_trip.smoothed(), round_trip.retransmission_timeout()),
            (Some(millis(200)), millis(600))
        );
        // The deviation is 80 ms: RTTVAR = 3/4 * 100 + 1/4 * 80 = 95 ms, SRTT = 7/8 * 200 + 1/8 *
        // 280 = 210 ms.
        round_trip.on_rtt_sample(millis(280));
        assert_eq!(
            (round_trip.smoothed(), round_trip.retransmission_timeout()),
            (Some(millis(210)), millis(210 + 4 * 95))
        );
    }

    #[test]
    fn a_steady_path_keeps_the_margin() {
        let mut round_trip = RttEstimator::new(RTO_MARGIN_MIN);
        (0..100).for_each(|_| round_trip.on_rtt_sample(millis(100)));
        assert_eq!(round_trip.retransmission_timeout(), millis(300));
    }

    #[test]
    fn the_timeout_doubles_up_to_its_bound_until_there_is_a_measurement() {
        let mut round_trip = RttEstimator::new(RTO_MARGIN_MIN);
        let mut timeouts = [0; 9];
        for timeout in &mut timeouts {
            *timeout = round_trip.retransmission_timeout().as_millis() / 1_000;
            round_trip.back_off();
        }
        assert_eq!(timeouts, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
        (0..100).for_each(|_| round_trip.back_off());
        assert_eq!(round_trip.retransmission_timeout(), RTO_MAX);
        round_trip.on_rtt_sample(millis(100));
        assert_eq!(round_trip.retransmission_timeout(), millis(300));
    }
}
