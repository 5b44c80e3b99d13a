//! Rate limits of requests by source.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{NETWORK_FACTOR, THROTTLED_MAX};
use crate::connections::Source;

/// Rate limiter of requests by source: each source has a burst, and then a rate per minute.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    burst: u32,
    every: Duration,
    /// Time at which each source will have its whole burst again. Sources that have it are absent.
    full_at: BTreeMap<K, Instant>,
}

impl<K: Ord + Copy> RateLimiter<K> {
    /// Creates a limiter with this burst and this rate for each source.
    pub(crate) const fn new(burst: u32, per_minute: u32) -> Self {
        let every = Duration::from_millis(60_000 / per_minute as u64);
        Self { burst, every, full_at: BTreeMap::new() }
    }

    /// Counts a request of a source, and permits it. Beyond the limit, counts nothing; the error is
    /// the number of seconds to wait.
    pub(crate) fn try_acquire(&mut self, source: K, now: Instant) -> Result<(), u64> {
        let full_at = self.full_at.get(&source).copied().unwrap_or(now).max(now) + self.every;
        let excess = full_at.duration_since(now).saturating_sub(self.every * self.burst);
        if !excess.is_zero() {
            return Err(excess.as_secs() + 1);
        }
        self.evict_one(now);
        self.full_at.insert(source, full_at);
        Ok(())
    }

    /// At [`THROTTLED_MAX`] sources, removes those that have their whole burst again. If none has,
    /// removes the one that is nearest to it.
    fn evict_one(&mut self, now: Instant) {
        if self.full_at.len() < THROTTLED_MAX {
            return;
        }
        self.full_at.retain(|_, full_at| *full_at > now);
        let nearest = self.full_at.iter().min_by_key(|(_, full_at)| **full_at).map(|(source, _)| *source);
        if let Some(nearest) = nearest.filter(|_| self.full_at.len() >= THROTTLED_MAX) {
            self.full_at.remove(&nearest);
        }
    }
}

/// Rate limiter of requests by address, and by the network around it. A network may send
/// [`NETWORK_FACTOR`] times as many as an address.
#[derive(Debug)]
pub(crate) struct SourceRateLimiter {
    addresses: RateLimiter<IpAddr>,
    networks: RateLimiter<IpAddr>,
}

impl SourceRateLimiter {
    /// Creates a limiter with this burst and this rate for each address.
    pub(crate) const fn new(burst: u32, per_minute: u32) -> Self {
        let networks = RateLimiter::new(burst * NETWORK_FACTOR, per_minute * NETWORK_FACTOR);
        Self { addresses: RateLimiter::new(burst, per_minute), networks }
    }

    /// Counts a request of an address and its network, and permits it. Beyond either limit, the
    /// error is the number of seconds to wait.
    pub(crate) fn try_acquire(&mut self, ip: IpAddr, now: Instant) -> Result<(), u64> {
        let Source { address, network } = Source::of(ip);
        self.addresses.try_acquire(address, now)?;
        self.networks.try_acquire(network, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut throttle = RateLimiter::new(3, 60);
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(throttle.try_acquire(1, now), Ok(()));
        }
        assert_eq!(throttle.try_acquire(1, now), Err(2));
        assert_eq!(throttle.try_acquire(2, now), Ok(()), "others are counted apart");
        assert_eq!(throttle.try_acquire(1, now + Duration::from_secs(1)), Ok(()));
        assert!(throttle.try_acquire(1, now + Duration::from_secs(1)).is_err());
        assert_eq!(throttle.try_acquire(1, now + Duration::from_secs(3)), Ok(()));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut throttle = RateLimiter::new(3, 60);
        let now = Instant::now();
        for source in 0..2 * THROTTLED_MAX {
            assert_eq!(throttle.try_acquire(source, now), Ok(()));
        }
        assert_eq!(throttle.full_at.len(), THROTTLED_MAX);
    }

    #[test]
    fn addresses_of_one_network_share_a_multiple_of_what_one_gets() {
        let mut throttle = SourceRateLimiter::new(3, 60);
        let now = Instant::now();
        let mut take = |link: u16| {
            let ip: IpAddr = format!("2001:db8:0:{link:x}::1").parse().expect("an address");
            throttle.try_acquire(ip, now).is_ok()
        };
        assert_eq!((0..4).filter(|_| take(0)).count(), 3);
        assert_eq!((1..100).filter(|link| take(*link)).count(), 9);
        assert!(throttle.try_acquire(IpAddr::from([192, 0, 2, 1]), now).is_ok(), "others are counted apart");
    }
}
