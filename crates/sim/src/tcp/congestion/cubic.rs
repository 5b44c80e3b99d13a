//! CUBIC: a window that grows as a cubic function of the time since the last congestion (RFC 9438).

use byway_units::{Bytes, Duration, Time};

use super::{AckSample, CongestionControl, slow_start_increase};

/// C, in segments per second cubed (RFC 9438, 5).
const SCALE: f64 = 0.4;

/// The factor by which congestion reduces the window, beta (RFC 9438, 4.6).
const DECREASE: f64 = 0.7;

/// The increase per window of an additive increase that is as fair as `NewReno`'s with this
/// decrease, alpha (RFC 9438, 4.3).
const FAIR_INCREASE: f64 = 3.0 * (1.0 - DECREASE) / (1.0 + DECREASE);

/// The largest target of one round trip, as a multiple of the window (RFC 9438, 4.2).
const TARGET_RATIO_MAX: f64 = 1.5;

/// Congestion control of RFC 9438, with fast convergence. Windows are in segments, as in the RFC.
#[derive(Clone, Debug)]
pub struct Cubic {
    /// Payload of a full segment (SMSS).
    segment: Bytes,
    initial: f64,
    /// Congestion window, cwnd.
    window: f64,
    /// Slow-start threshold, ssthresh.
    threshold: Option<f64>,
    /// Window at which growth levels off, `W_max`; zero if there is no such window.
    plateau: f64,
    /// The window just before the last congestion, `cwnd_prior`.
    prior: f64,
    epoch: Option<Epoch>,
}

/// Stage of congestion avoidance in CUBIC, from one congestion event to the next.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    /// Seconds from the stage's start until the window reaches the plateau, K.
    rise: f64,
    /// Window that `NewReno` would have, `W_est`.
    fair: f64,
}

impl Cubic {
    /// Creates a controller for segments of this many bytes of payload, with this initial window.
    #[must_use]
    pub fn new(segment: Bytes, initial: Bytes) -> Self {
        let initial = ratio(initial, segment);
        Self { segment, initial, window: initial, threshold: None, plateau: 0.0, prior: 0.0, epoch: None }
    }

    fn begin_epoch(&mut self, now: Time) -> Epoch {
        // Without a plateau above it, the window is the plateau (RFC 9438, 4.2 and 4.8).
        self.plateau = self.plateau.max(self.window);
        self.prior = self.prior.max(self.window);
        let rise = libm::cbrt((self.plateau - self.window) / SCALE);
        *self.epoch.insert(Epoch { start: now, rise, fair: self.window })
    }

    /// Returns `W_cubic` of a time since the start of the epoch (RFC 9438, equation 1).
    fn cubic(&self, epoch: &Epoch, since: Duration) -> f64 {
        let distance = since.as_secs_f64() - epoch.rise;
        SCALE * distance * distance * distance + self.plateau
    }

    fn avoid_congestion(&mut self, segments: f64, round_trip: Duration, now: Time) {
        let mut epoch = self.epoch.unwrap_or_else(|| self.begin_epoch(now));
        let since = now.saturating_since(epoch.start);
        // At the window before the congestion, it has caught up with `NewReno`, and grows like that
        // (RFC 9438, 4.3).
        let increase = if epoch.fair < self.prior { FAIR_INCREASE } else { 1.0 };
        epoch.fair += increase * segments / self.window;
        self.epoch = Some(epoch);
        if self.cubic(&epoch, since) < epoch.fair {
            self.window = self.window.max(epoch.fair);
            return;
        }
        let target = self.cubic(&epoch, since + round_trip);
        let target = target.clamp(self.window, self.window * TARGET_RATIO_MAX);
        self.window += (target - self.window) / self.window * segments;
    }

    /// Reduces the threshold, and stores the plateau (RFC 9438, 4.6 and 4.7).
    fn reduce(&mut self, in_flight: Bytes) {
        // A window that did not reach its plateau again releases bandwidth to others: fast
        // convergence.
        let is_lower = self.window < self.plateau;
        self.plateau = if is_lower { self.window * f64::midpoint(1.0, DECREASE) } else { self.window };
        self.prior = self.window;
        self.threshold = Some((ratio(in_flight, self.segment) * DECREASE).max(2.0));
        self.epoch = None;
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, progress: AckSample, now: Time) {
        if self.threshold.is_none_or(|threshold| self.window < threshold) {
            self.window += ratio(slow_start_increase(progress.bytes, self.segment), self.segment);
        } else {
            self.avoid_congestion(ratio(progress.bytes, self.segment), progress.round_trip, now);
        }
    }

    fn on_congestion_event(&mut self, in_flight: Bytes, _now: Time) {
        self.reduce(in_flight);
        self.window = self.threshold.unwrap_or(self.window);
    }

    fn on_retransmission_timeout(&mut self, in_flight: Bytes, _now: Time) {
        self.reduce(in_flight);
        self.window = 1.0;
        // The next stage starts on its plateau (RFC 9438, 4.8).
        (self.plateau, self.prior) = (0.0, 0.0);
    }

    fn on_idle(&mut self, idle: Duration) {
        self.window = self.window.min(self.initial);
        // Idle time does not count (RFC 9438, 4.2).
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start.saturating_add(idle);
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a window is positive, is far below 2^53 bytes, and whole bytes are enough of it"
    )]
    fn window(&self) -> Bytes {
        Bytes::new((self.window * self.segment.count() as f64) as u64)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a threshold is positive, is far below 2^53 bytes, and whole bytes are enough of it"
    )]
    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.threshold.map(|threshold| Bytes::new((threshold * self.segment.count() as f64) as u64))
    }
}

#[allow(clippy::cast_precision_loss, reason = "windows are far below 2^53 bytes")]
fn ratio(bytes: Bytes, segment: Bytes) -> f64 {
    bytes.count() as f64 / segment.count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes::new(1_000);
    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn segments(count: u64) -> Bytes {
        SEGMENT * count
    }

    /// Acknowledges whole windows, segment by segment and evenly, for this time.
    fn run(control: &mut Cubic, from: Time, time: Duration, round_trip: Duration) -> Time {
        let mut now = from;
        while now < from + time {
            let window = control.window().count() / SEGMENT.count();
            for _ in 0..window {
                now += round_trip / window;
                control.on_ack(AckSample { bytes: SEGMENT, round_trip }, now);
            }
        }
        now
    }

    #[test]
    fn congestion_leaves_seven_tenths() {
        let mut control = Cubic::new(SEGMENT, segments(1_000));
        control.on_congestion_event(segments(1_000), Time::START);
        assert_eq!(control.window(), segments(700));
        assert_eq!(control.slow_start_threshold(), Some(segments(700)));
    }

    #[test]
    fn the_window_is_back_at_its_plateau_after_the_rise() {
        let mut control = Cubic::new(SEGMENT, segments(1_000));
        control.on_congestion_event(segments(1_000), Time::START);
        // K = cbrt(1,000 * 0.3 / 0.4) = 9.086 s.
        run(&mut control, Time::START, Duration::from_millis(9_086), ROUND_TRIP);
        let window = control.window().count();
        assert!((995_000..=1_000_500).contains(&window), "{window}");
    }

    #[test]
    fn a_window_that_does_not_come_back_gives_up_its_plateau() {
        let mut control = Cubic::new(SEGMENT, segments(1_000));
        control.on_congestion_event(segments(1_000), Time::START);
        control.on_congestion_event(segments(700), Time::START);
        // 700 < 1,000: the plateau is 700 * (1 + 0.7) / 2 = 595.
        assert!((control.plateau - 595.0).abs() < 1e-9, "{}", control.plateau);
    }

    #[test]
    fn on_a_short_path_it_grows_as_new_reno_would() {
        let mut control = Cubic::new(SEGMENT, segments(10));
        control.on_congestion_event(segments(10), Time::START);
        // After 100 round trips of 1 ms, the cubic function has hardly moved. Alpha is 9/17 up to
        // the 10 segments before the congestion, 5.7 round trips later, and one after that.
        run(&mut control, Time::START, Duration::from_millis(100), Duration::from_millis(1));
        let window = control.window().count();
        assert!((100_000..=105_500).contains(&window), "{window}");
    }

    #[test]
    fn after_a_timeout_growth_starts_on_the_plateau() {
        let mut control = Cubic::new(SEGMENT, segments(100));
        control.on_retransmission_timeout(segments(100), Time::START);
        assert_eq!((control.window(), control.slow_start_threshold()), (segments(1), Some(segments(70))));
        let later = run(&mut control, Time::START, Duration::from_millis(650), ROUND_TRIP);
        control.on_ack(AckSample { bytes: SEGMENT, round_trip: ROUND_TRIP }, later);
        let rise = control.epoch.map(|epoch| epoch.rise);
        assert_eq!((rise, control.plateau >= 70.0), (Some(0.0), true));
    }
}
