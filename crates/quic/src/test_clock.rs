//! Instants of tests, of which only the first one is real.

use std::time::{Duration, Instant};

/// Returns the beginning of a test.
#[allow(clippy::disallowed_methods, reason = "there is no other source of an instant")]
pub(crate) fn begin() -> Instant {
    Instant::now()
}

/// Returns the instant so many milliseconds after another one.
pub(crate) fn at(start: Instant, millis: u64) -> Instant {
    start + Duration::from_millis(millis)
}
