//! Losses in bursts: the Gilbert-Elliott model in continuous time (Gilbert, Bell System Technical
//! Journal 39, 1960; Elliott, Bell System Technical Journal 42, 1963).

use byway_units::{Duration, Probability, Time};
use thiserror::Error;

use crate::limits::MEAN_STAY_NANOS_MIN;
use crate::link::Offer;
use crate::random::{Random, Seed};

/// Gilbert-Elliott model of a link: a good and a bad state, and memoryless transitions.
///
/// Transitions depend only on the seed of the link and the time, not on the packets sent: every
/// service meets the same bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GilbertElliott {
    good: ChannelState,
    bad: ChannelState,
}

/// One of the two states of a [`GilbertElliott`] link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelState {
    /// Mean duration of a stay in the state; durations have an exponential distribution.
    pub mean: Duration,
    /// Probability of loss of a packet sent in this state.
    pub loss: Probability,
}

/// Error of a model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
pub enum GilbertElliottError {
    /// A state that ends before anything can be sent.
    #[error(
        "a mean stay of {mean} is too short: give at least {MEAN_STAY_NANOS_MIN} ns, or independent losses"
    )]
    StayTooShort {
        /// Mean stay of that state.
        mean: Duration,
    },
    /// Bursts shorter than those of independent losses.
    #[error(
        "bursts of {burst_packets} packets at {loss} loss are shorter than those of independent losses: give \
         more than 1 / (1 - loss)"
    )]
    BurstTooShort {
        /// Requested mean burst length, in packets.
        burst_packets: f64,
        /// The requested share of lost packets.
        loss: Probability,
    },
}

impl GilbertElliott {
    /// Creates a link with these two states.
    ///
    /// # Errors
    /// If a mean stay is below a microsecond.
    pub fn new(good: ChannelState, bad: ChannelState) -> Result<Self, GilbertElliottError> {
        let too_short = [good, bad].into_iter().find(|stay| stay.mean.as_nanos() < MEAN_STAY_NANOS_MIN);
        match too_short {
            Some(ChannelState { mean, .. }) => Err(GilbertElliottError::StayTooShort { mean }),
            None => Ok(Self { good, bad }),
        }
    }

    /// Creates a link that loses everything while it is bad and nothing while it is good. Packets
    /// sent every `interval` lose the share `loss` of their number, in bursts of `burst_packets` in
    /// the mean. A burst is a run of one or more packets that are all lost.
    ///
    /// With mean stays `G` (good) and `B` (bad), let `s = 1/G + 1/B`. The link is bad for the share
    /// `B / (G + B)` of the time, which must be `loss = p`: hence `1/G = p·s` and
    /// `1/B = (1 - p)·s`. A link that is bad now is bad again after `interval = D` with probability
    /// `p + (1 - p)·e^(-s·D)`. The next packet is not lost with probability
    /// `q = (1 - p)·(1 - e^(-s·D))`, and bursts have a geometric length with mean `1/q`. From
    /// `1/q = burst_packets = L` follows
    ///
    /// ```text
    /// s = -ln(1 - 1 / (L·(1 - p))) / D,   G = 1 / (p·s),   B = 1 / ((1 - p)·s)
    /// ```
    ///
    /// which has a solution if `L > 1 / (1 - p)`, the burst length of independent losses. Packets
    /// sent at other intervals meet the same bad stays, but not the same number of losses in each.
    ///
    /// # Errors
    /// If the bursts are too short for the loss, or the resulting stays are below a microsecond.
    pub fn bursts(
        loss: Probability,
        burst_packets: f64,
        interval: Duration,
    ) -> Result<Self, GilbertElliottError> {
        let share_good = loss.complement().value();
        // Written in this form because it must reject NaN too.
        if !(burst_packets * share_good > 1.0 && burst_packets.is_finite()) {
            return Err(GilbertElliottError::BurstTooShort { burst_packets, loss });
        }
        let change = -libm::log(1.0 - 1.0 / (burst_packets * share_good));
        let stay = |share_of_other: f64| scaled(interval, 1.0 / (share_of_other * change));
        let good = ChannelState { mean: stay(loss.value()), loss: Probability::ZERO };
        let bad = ChannelState { mean: stay(share_good), loss: Probability::ONE };
        Self::new(good, bad)
    }

    /// Returns the long-run share of lost packets.
    #[must_use]
    pub fn loss(&self) -> f64 {
        let (good, bad) = (self.good.mean.as_secs_f64(), self.bad.mean.as_secs_f64());
        (good * self.good.loss.value() + bad * self.bad.loss.value()) / (good + bad)
    }

    fn share_bad(&self) -> Probability {
        let (good, bad) = (self.good.mean.as_secs_f64(), self.bad.mean.as_secs_f64());
        // A quotient of positive numbers whose divisor is not less than the dividend.
        Probability::new(bad / (good + bad)).unwrap_or(Probability::ONE)
    }
}

/// Returns the duration times a factor, saturating at the longest duration (reached if the loss is
/// zero).
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "means need no more than 53 bits; they are never negative, and the cast saturates"
)]
fn scaled(duration: Duration, times: f64) -> Duration {
    Duration::from_nanos((duration.as_nanos() as f64 * times) as u64)
}

/// State of a Gilbert-Elliott link as time advances.
#[derive(Debug)]
pub(crate) struct GilbertElliottProcess {
    model: GilbertElliott,
    is_bad: bool,
    /// End of the current stay in a state.
    until: Time,
    stays: Random,
    losses: Seed,
}

impl GilbertElliottProcess {
    /// Creates the process and draws its initial state from the shares of both states. Stays have
    /// no memory, therefore the process is stationary from the start.
    pub(crate) fn new(model: GilbertElliott, seed: Seed) -> Self {
        let mut stays = seed.named("stays").sequence();
        let is_bad = stays.happens(model.share_bad());
        let mut process = Self { model, is_bad, until: Time::START, stays, losses: seed.named("losses") };
        process.until = process.end_of_stay();
        process
    }

    pub(crate) fn loses(&mut self, offer: &Offer) -> bool {
        // A stay until the latest time has no end.
        while self.until <= offer.time && self.until < Time::MAX {
            self.is_bad = !self.is_bad;
            self.until = self.end_of_stay();
        }
        self.losses.at(offer.time, offer.nth).happens(self.present().loss)
    }

    fn present(&self) -> ChannelState {
        if self.is_bad { self.model.bad } else { self.model.good }
    }

    fn end_of_stay(&mut self) -> Time {
        self.until.saturating_add(self.stays.exponential(self.present().mean))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);
    const PACKETS: u64 = 4_000_000;

    fn share(value: f64) -> Probability {
        Probability::new(value).expect("a probability")
    }

    fn losses(model: GilbertElliott, packets: u64) -> Vec<bool> {
        let mut process = GilbertElliottProcess::new(model, Seed::new(5));
        Offer::regular(INTERVAL, packets).map(|offer| process.loses(&offer)).collect()
    }

    #[allow(clippy::cast_precision_loss, reason = "counts of a test are far below 2^53")]
    fn share_and_burst(lost: &[bool]) -> (f64, f64) {
        let count = lost.iter().filter(|&&is_lost| is_lost).count() as f64;
        let bursts = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
        (count / lost.len() as f64, count / bursts)
    }

    #[test]
    fn losses_and_bursts_are_as_asked() {
        for (loss, burst) in [(0.01, 5.0), (0.0196, 2.0), (0.1, 10.0), (0.4, 3.0)] {
            let model = GilbertElliott::bursts(share(loss), burst, INTERVAL).expect("bursts");
            assert!((model.loss() - loss).abs() < 1e-6, "{model:?}");
            let (found_loss, found_burst) = share_and_burst(&losses(model, PACKETS));
            // 8,000 bursts or more, of a length with a deviation of their mean: 1.1 % for the mean
            // length and, with the gaps, 1.6 % for the loss. Four of each.
            assert!((found_loss / loss - 1.0).abs() < 0.064, "{found_loss} instead of {loss}");
            assert!((found_burst / burst - 1.0).abs() < 0.045, "{found_burst} instead of {burst}");
        }
    }

    #[test]
    fn mean_stays_follow_from_the_formula() {
        // A first loss after a delivery with 0.01 and after a loss with 0.5, per packet: 1/51 lost,
        // in bursts of 2. By hand: s = -ln(1 - 51/100) = 0.713350 per interval; G = 51/s, B =
        // 51/50/s.
        let model = GilbertElliott::bursts(share(1.0 / 51.0), 2.0, INTERVAL).expect("bursts");
        assert_eq!((model.good.mean.as_micros(), model.bad.mean.as_micros()), (714_936, 14_298));
    }

    #[test]
    fn a_state_may_lose_a_part() {
        let good = ChannelState { mean: Duration::from_millis(300), loss: share(0.01) };
        let bad = ChannelState { mean: Duration::from_millis(100), loss: share(0.5) };
        let model = GilbertElliott::new(good, bad).expect("stays");
        assert!((model.loss() - 0.1325).abs() < 1e-9);
        // 100,000 bad stays whose lengths deviate by their mean: 0.4 % with those of the good ones.
        // Four times.
        let (found, _) = share_and_burst(&losses(model, PACKETS));
        assert!((found / 0.1325 - 1.0).abs() < 0.018, "{found}");
    }

    #[test]
    fn the_state_at_an_instant_is_the_same_however_often_it_is_asked_for() {
        let model = GilbertElliott::bursts(share(0.3), 4.0, INTERVAL).expect("bursts");
        let all = losses(model, 10_000);
        let mut process = GilbertElliottProcess::new(model, Seed::new(5));
        for offer in Offer::regular(INTERVAL, 10_000).step_by(7) {
            let index = usize::try_from(offer.ordinal).expect("an index");
            assert_eq!(process.loses(&offer), all[index]);
        }
    }

    #[test]
    fn no_loss_loses_nothing() {
        let model = GilbertElliott::bursts(Probability::ZERO, 2.0, INTERVAL).expect("bursts");
        assert!(!losses(model, 100_000).contains(&true));
        let mut process = GilbertElliottProcess::new(model, Seed::new(5));
        assert!(!process.loses(&Offer::alone(Time::MAX, 0)));
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let bursts = |loss, packets| GilbertElliott::bursts(share(loss), packets, INTERVAL).map(|_| ());
        for (loss, burst_packets) in [(0.5, 2.0), (0.0, 1.0), (1.0, 100.0), (0.1, f64::INFINITY)] {
            let loss_share = share(loss);
            let error = GilbertElliottError::BurstTooShort { burst_packets, loss: loss_share };
            assert_eq!(bursts(loss, burst_packets), Err(error));
        }
        assert!(bursts(0.1, f64::NAN).is_err());
        let stay = |nanos| ChannelState { mean: Duration::from_nanos(nanos), loss: Probability::ZERO };
        let error = GilbertElliott::new(stay(MEAN_STAY_NANOS_MIN), stay(999)).expect_err("too short");
        assert_eq!(
            error.to_string(),
            "a mean stay of 999 ns is too short: give at least 1000 ns, or independent losses"
        );
    }
}
