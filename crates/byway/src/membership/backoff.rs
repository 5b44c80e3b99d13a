//! How long to wait before something is tried again.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use super::limits::{COLLECTED_FOR, RETRY_MAX, RETRY_MIN};
use super::{MembershipError, random};

/// How fast things are tried again and sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) retry_min: Duration,
    pub(super) retry_max: Duration,
    pub(super) collected_for: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { retry_min: RETRY_MIN, retry_max: RETRY_MAX, collected_for: COLLECTED_FOR }
    }
}

/// Waits longer with each failure, and never as long as others do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    pace: Pace,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new(pace: Pace) -> Self {
        Self { pace, failures: 0 }
    }

    /// The time until the next attempt: half to all of what doubles with each failure. If the controller asked for more, that
    /// and up to as much again, so that those who were sent away together do not come back together.
    pub(super) fn next(&mut self, asked: Option<Duration>, random: u32) -> Duration {
        let part = f64::from(random) / f64::from(u32::MAX);
        let doubled =
            self.pace.retry_min.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        let most = doubled.min(self.pace.retry_max);
        self.failures = self.failures.saturating_add(1);
        let least = asked.unwrap_or_default().min(self.pace.retry_max).max(most / 2);
        least + least.mul_f64(part)
    }

    /// Waits after an error.
    pub(super) async fn wait(&mut self, error: &MembershipError) {
        sleep(self.next(error.retry_after(), u32::from_ne_bytes(random::bytes()))).await;
    }

    pub(super) const fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// What `ask` comes to, which is asked again as long as the controller has too many requests.
pub(super) async fn in_turn<T, F: Future<Output = Result<T, MembershipError>>>(
    pace: Pace,
    ask: impl Fn() -> F,
) -> Result<T, MembershipError> {
    let mut backoff = Backoff::new(pace);
    loop {
        match ask().await {
            Err(error @ MembershipError::TooManyRequests { .. }) => {
                tracing::warn!("{error}; the node waits, and tries again");
                backoff.wait(&error).await;
            }
            answered => return answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn attempts_follow_at_growing_distances_that_differ() {
        let mut backoff = Backoff::new(Pace::default());
        let soonest: Vec<_> = (0..8).map(|_| backoff.next(None, 0).as_millis()).collect();
        assert_eq!(soonest, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        backoff.succeeded();
        assert_eq!(backoff.next(None, u32::MAX), Duration::from_secs(1));
        backoff.failures = u32::MAX;
        assert_eq!(backoff.next(None, u32::MAX), Duration::from_secs(60));
    }

    #[test]
    fn what_the_controller_asks_for_is_waited_for_within_limits() {
        let mut backoff = Backoff::new(Pace::default());
        let asked = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(backoff.next(asked(3), 0), Duration::from_secs(3));
        assert_eq!(backoff.next(asked(3), u32::MAX), Duration::from_secs(6));
        assert_eq!(backoff.next(asked(u64::MAX), 0), RETRY_MAX);
        assert_eq!(backoff.next(asked(0), 0), Duration::from_secs(4), "no time at all would be a flood");
    }

    #[tokio::test]
    async fn who_is_sent_away_comes_again_and_who_is_refused_does_not() {
        let zero = Duration::ZERO;
        let pace = Pace { retry_min: zero, retry_max: zero, collected_for: zero };
        let asked = Cell::new(0);
        let ask = |full: u32| {
            asked.set(asked.get() + 1);
            let message = String::new();
            let answer = if asked.get() <= full {
                Err(MembershipError::TooManyRequests { message, retry_after: None })
            } else {
                Err::<(), _>(MembershipError::Token(message))
            };
            async { answer }
        };
        let error = in_turn(pace, || ask(3)).await.expect_err("it is refused in the end");
        assert!(matches!(error, MembershipError::Token(_)), "{error}");
        assert_eq!(asked.get(), 4);
    }
}
