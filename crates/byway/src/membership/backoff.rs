//! Backoff between a node's attempts to reach its controller.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use super::limits::{REPORT_BATCH_DELAY, RETRY_MAX, RETRY_MIN};
use super::{MembershipError, random};

/// Intervals between a node's attempts, and between its reports to the controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    pub(super) retry_min: Duration,
    pub(super) retry_max: Duration,
    pub(super) batch_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retry_min: RETRY_MIN, retry_max: RETRY_MAX, batch_delay: REPORT_BATCH_DELAY }
    }
}

/// Exponential backoff with jitter, which separates the attempts of several nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    policy: RetryPolicy,
    failures: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(RetryPolicy::default())
    }
}

impl Backoff {
    pub(super) const fn new(policy: RetryPolicy) -> Self {
        Self { policy, failures: 0 }
    }

    /// Returns the time until the next attempt: between half and all of a base that doubles with
    /// each failure. If the controller asks for a longer pause, the time is between that pause and
    /// its double. The random part spreads nodes that were refused at the same time.
    pub(super) fn next(&mut self, retry_after: Option<Duration>, random: u32) -> Duration {
        let part = f64::from(random) / f64::from(u32::MAX);
        let doubled =
            self.policy.retry_min.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        let most = doubled.min(self.policy.retry_max);
        self.failures = self.failures.saturating_add(1);
        let least = retry_after.unwrap_or_default().min(self.policy.retry_max).max(most / 2);
        least + least.mul_f64(part)
    }

    /// Waits until the next attempt is due, after the error of the previous one.
    pub(crate) async fn wait(&mut self, error: &MembershipError) {
        sleep(self.next(error.retry_after(), u32::from_ne_bytes(random::bytes()))).await;
    }

    /// Begins anew with the shortest interval.
    pub(crate) const fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// Sends the request `ask`, and repeats it while the controller's rate limit refuses it. Returns
/// the first other result.
pub(super) async fn retry_if_throttled<T, F: Future<Output = Result<T, MembershipError>>>(
    policy: RetryPolicy,
    send: impl Fn() -> F,
) -> Result<T, MembershipError> {
    let mut backoff = Backoff::new(policy);
    loop {
        match send().await {
            Err(error @ MembershipError::TooManyRequests { .. }) => {
                tracing::warn!("{error}; retrying later");
                backoff.wait(&error).await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn attempts_follow_at_growing_distances_that_differ() {
        let mut backoff = Backoff::new(RetryPolicy::default());
        let soonest: Vec<_> = (0..8).map(|_| backoff.next(None, 0).as_millis()).collect();
        assert_eq!(soonest, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        backoff.succeeded();
        assert_eq!(backoff.next(None, u32::MAX), Duration::from_secs(1));
        backoff.failures = u32::MAX;
        assert_eq!(backoff.next(None, u32::MAX), Duration::from_secs(60));
    }

    #[test]
    fn what_the_controller_asks_for_is_waited_for_within_limits() {
        let mut backoff = Backoff::new(RetryPolicy::default());
        let pause = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(backoff.next(pause(3), 0), Duration::from_secs(3));
        assert_eq!(backoff.next(pause(3), u32::MAX), Duration::from_secs(6));
        assert_eq!(backoff.next(pause(u64::MAX), 0), RETRY_MAX);
        assert_eq!(backoff.next(pause(0), 0), Duration::from_secs(4), "no time at all would be a flood");
    }

    #[tokio::test]
    async fn who_is_sent_away_comes_again_and_who_is_refused_does_not() {
        let zero = Duration::ZERO;
        let policy = RetryPolicy { retry_min: zero, retry_max: zero, batch_delay: zero };
        let attempts = Cell::new(0);
        let send = |full: u32| {
            attempts.set(attempts.get() + 1);
            let message = String::new();
            let answer = if attempts.get() <= full {
                Err(MembershipError::TooManyRequests { message, retry_after: None })
            } else {
                Err::<(), _>(MembershipError::Token(message))
            };
            async { answer }
        };
        let error = retry_if_throttled(policy, || send(3)).await.expect_err("it is refused in the end");
        assert!(matches!(error, MembershipError::Token(_)), "{error}");
        assert_eq!(attempts.get(), 4);
    }
}
