//! Quality of a call: the E-model (ITU-T G.107) with its default values, for the impairments of a
//! network.

use crate::findings::{quantile, share};

/// A call after its transport over a network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Call {
    /// Mouth-to-ear delay of the call in milliseconds.
    pub(crate) delay_ms: f64,
    /// Share of packets that are lost or late.
    pub(crate) loss: f64,
    /// Mean length of loss bursts, relative to independent losses (`BurstR`); at least 1.
    pub(crate) burst_ratio: f64,
}

impl Call {
    /// Returns the call with the best score that a receiver can play, from its packets' delays in
    /// milliseconds, `None` for lost ones. The receiver plays each packet a fixed time after it was
    /// spoken; a shorter time loses late packets, a longer one adds delay.
    pub(crate) fn of(delays: &[Option<f64>]) -> Self {
        let mut arrived: Vec<f64> = delays.iter().copied().flatten().collect();
        let played = PLAYOUT_QUANTILES.iter().filter_map(|share| quantile(&mut arrived, *share));
        let calls = played.map(|plays_after| played_call(delays, plays_after));
        let silence = Self { delay_ms: 0.0, loss: 1.0, burst_ratio: 1.0 };
        calls.max_by(|one, other| mean_opinion(one).total_cmp(&mean_opinion(other))).unwrap_or(silence)
    }
}

/// Delay of a call besides the network: the packet of 20 ms, and the codec's look-ahead of 5 ms
/// (RFC 3267).
const CODEC_DELAY_MS: f64 = 25.0;

/// Quantiles of the delays that a receiver may choose as playout delay.
const PLAYOUT_QUANTILES: [f64; 4] = [0.95, 0.99, 0.999, 1.0];

/// Impairment of the codec itself, for AMR at 12.2 kbit/s (G.113, table I.4: as GSM-EFR).
const CODEC_IMPAIRMENT: f64 = 5.0;
/// Packet-loss robustness of the codec AMR at 12.2 kbit/s (G.113, table I.4).
const CODEC_ROBUSTNESS: f64 = 10.0;

/// Rating of a call without delay and losses, with G.107's default values.
const BEST: f64 = 93.2;
/// Rating without impairments simultaneous with speech (Ro).
const SIGNAL_TO_NOISE: f64 = 94.77;
/// Rating of talker echo without delay: -1.5·(No - RLR), with No = -61.18 dBm0p and RLR = 2 dB.
const ECHO_REFERENCE: f64 = 94.77;
/// Loudness of the talker's echo (TELR), in dB.
const TALKER_ECHO: f64 = 65.0;
/// Weighted echo path loss (WEPL), in dB.
const ECHO_PATH_LOSS: f64 = 110.0;

/// Returns the quality of a call whose receiver plays each packet `plays_after` milliseconds after
/// the packet was spoken. Packets with a longer delay are lost.
fn played_call(delays: &[Option<f64>], plays_after: f64) -> Call {
    let is_played: Vec<bool> =
        delays.iter().map(|delay| delay.is_some_and(|delay| delay <= plays_after)).collect();
    let missing = is_played.iter().filter(|played| !**played).count() as u64;
    let bursts = is_played.chunk_by(|one, next| one == next).filter(|run| !run[0]).count() as u64;
    let loss = share(missing, is_played.len() as u64).unwrap_or(1.0);
    // Mean burst length divided by that of independent losses, 1/(1 - p) (G.107, section 7.5).
    let burst_ratio = share(missing, bursts).map_or(1.0, |mean| mean * (1.0 - loss));
    Call { delay_ms: plays_after + CODEC_DELAY_MS, loss, burst_ratio: burst_ratio.max(1.0) }
}

/// Returns the mean opinion score of a call, 1 to 4.5.
pub(crate) fn mean_opinion(call: &Call) -> f64 {
    let rating = rating(call);
    if rating <= 0.0 {
        return 1.0;
    }
    let rating = rating.min(100.0);
    // G.107, equation B-4.
    (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
}

/// Returns the rating R of a call (G.107, equation 7-1).
fn rating(call: &Call) -> f64 {
    BEST - delay_impairment(call.delay_ms) - equipment_impairment(call)
}

/// Returns the delay impairment Id: talker echo, listener echo, and absolute delay (G.107, section
/// 7.4).
fn delay_impairment(delay: f64) -> f64 {
    talker_echo(delay) + listener_echo(2.0 * delay) + absolute_delay(delay)
}

fn talker_echo(delay: f64) -> f64 {
    let loudness = TALKER_ECHO - 40.0 * libm::log10((1.0 + delay / 10.0) / (1.0 + delay / 150.0))
        + 6.0 * libm::exp(-0.3 * delay * delay);
    let echo = 80.0 + 2.5 * (loudness - 14.0);
    let half = (ECHO_REFERENCE - echo) / 2.0;
    (half + libm::sqrt(half * half + 100.0) - 1.0) * (1.0 - libm::exp(-delay))
}

fn listener_echo(round_trip: f64) -> f64 {
    let echo = 10.5 * (ECHO_PATH_LOSS + 7.0) * libm::pow(round_trip + 1.0, -0.25);
    let half = (SIGNAL_TO_NOISE - echo) / 2.0;
    half + libm::sqrt(half * half + 169.0)
}

fn absolute_delay(delay: f64) -> f64 {
    if delay <= 100.0 {
        return 0.0;
    }
    let doublings = libm::log2(delay / 100.0);
    let root = |x: f64| libm::pow(1.0 + libm::pow(x, 6.0), 1.0 / 6.0);
    25.0 * (root(doublings) - 3.0 * root(doublings / 3.0) + 2.0)
}

/// Returns the effective equipment impairment Ie,eff (G.107, equation 7-29).
fn equipment_impairment(call: &Call) -> f64 {
    let percent = call.loss * 100.0;
    let felt = percent / (percent / call.burst_ratio.max(1.0) + CODEC_ROBUSTNESS);
    CODEC_IMPAIRMENT + (95.0 - CODEC_IMPAIRMENT) * felt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(delay_ms: f64, loss: f64) -> Call {
        Call { delay_ms, loss, burst_ratio: 1.0 }
    }

    fn near(found: f64, wanted: f64, by: f64) {
        assert!((found - wanted).abs() <= by, "{found} instead of {wanted}");
    }

    #[test]
    fn without_delay_and_loss_the_codec_is_all_that_impairs() {
        near(rating(&call(0.0, 0.0)), 88.2, 0.3);
        near(mean_opinion(&call(0.0, 0.0)), 4.29, 0.01);
    }

    #[test]
    fn delays_impair_as_the_recommendation_shows() {
        // In G.107's figure, R with perfect echo cancelling falls by a few points until 150 ms,
        // then steeply. The published approximation (Cole and Rosenbluth, 2001) is 0.024·d +
        // 0.11·(d - 177.3).
        let approximation = |delay: f64| 0.024 * delay + 0.11 * (delay - 177.3).max(0.0);
        for delay in [50.0, 100.0, 150.0, 250.0, 400.0] {
            near(delay_impairment(delay), approximation(delay), 3.0);
        }
        assert!(delay_impairment(400.0) > delay_impairment(250.0) + 10.0);
    }

    #[test]
    fn losses_impair_and_bursts_impair_more() {
        // 5 + 90·1/(1 + 10) = 13.2 and 5 + 90·10/(10 + 10) = 50.
        near(equipment_impairment(&call(0.0, 0.01)), 13.18, 0.01);
        near(equipment_impairment(&call(0.0, 0.1)), 50.0, 0.01);
        let in_bursts = Call { burst_ratio: 2.0, ..call(0.0, 0.1) };
        assert!(equipment_impairment(&in_bursts) > 60.0);
        assert!(mean_opinion(&call(1_000.0, 0.9)) >= 1.0);
    }
}
