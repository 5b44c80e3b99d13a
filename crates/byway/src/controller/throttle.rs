//! How often one source may ask.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{NETWORK_FACTOR, THROTTLED_MAX};
use crate::connections::Source;

/// Counts the requests of each source: so many at once, and so many per minute.
#[derive(Debug)]
pub(crate) struct Throttle<K> {
    burst: u32,
    every: Duration,
    /// When each source will have its whole burst again.
    full_at: BTreeMap<K, Instant>,
}

impl<K: Ord + Copy> Throttle<K> {
    /// Lets `burst` requests through at once, and `per_minute` after that.
    pub(crate) const fn new(burst: u32, per_minute: u32) -> Self {
        let every = Duration::from_millis(60_000 / per_minute as u64);
        Self { burst, every, full_at: BTreeMap::new() }
    }

    /// A request. An error says how many seconds to wait.
    pub(crate) fn take(&mut self, source: K, now: Instant) -> Result<(), u64> {
        let full_at = self.full_at.get(&source).copied().unwrap_or(now).max(now) + self.every;
        let excess = full_at.duration_since(now).saturating_sub(self.every * self.burst);
        if !excess.is_zero() {
            return Err(excess.as_secs() + 1);
        }
        self.make_room(now);
        self.full_at.insert(source, full_at);
        Ok(())
    }

    /// Forgets those that have their whole burst anyway, else the one that is nearest to it.
    fn make_room(&mut self, now: Instant) {
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

/// Counts the requests of each address, and of each network, which may ask [`NETWORK_FACTOR`] times as often.
#[derive(Debug)]
pub(crate) struct SourceThrottle {
    addresses: Throttle<IpAddr>,
    networks: Throttle<IpAddr>,
}

impl SourceThrottle {
    /// Lets `burst` requests of an address through at once, and `per_minute` after that.
    pub(crate) const fn new(burst: u32, per_minute: u32) -> Self {
        let networks = Throttle::new(burst * NETWORK_FACTOR, per_minute * NETWORK_FACTOR);
        Self { addresses: Throttle::new(burst, per_minute), networks }
    }

    /// Counts a request. An error says how many seconds to wait.
    pub(crate) fn take(&mut self, ip: IpAddr, now: Instant) -> Result<(), u64> {
        let Source { address, network } = Source::of(ip);
        self.addresses.take(address, now)?;
        self.networks.take(network, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut throttle = Throttle::new(3, 60);
        let now = Instant::now();
        for _ in 0..3 {
            assert_eq!(throttle.take(1, now), Ok(()));
        }
        assert_eq!(throttle.take(1, now), Err(2));
        assert_eq!(throttle.take(2, now), Ok(()), "others are counted apart");
        assert_eq!(throttle.take(1, now + Duration::from_secs(1)), Ok(()));
        assert!(throttle.take(1, now + Duration::from_secs(1)).is_err());
        assert_eq!(throttle.take(1, now + Duration::from_secs(3)), Ok(()));
    }

    #[test]
    fn the_table_is_bounded() {
        let mut throttle = Throttle::new(3, 60);
        let now = Instant::now();
        for source in 0..2 * THROTTLED_MAX {
            assert_eq!(throttle.take(source, now), Ok(()));
        }
        assert_eq!(throttle.full_at.len(), THROTTLED_MAX);
    }

    #[test]
    fn addresses_of_one_network_share_a_multiple_of_what_one_gets() {
        let mut throttle = SourceThrottle::new(3, 60);
        let now = Instant::now();
        let mut take = |link: u16| {
            let ip: IpAddr = format!("2001:db8:0:{link:x}::1").parse().expect("an address");
            throttle.take(ip, now).is_ok()
        };
        assert_eq!((0..4).filter(|_| take(0)).count(), 3);
        assert_eq!((1..100).filter(|link| take(*link)).count(), 9);
        assert!(throttle.take(IpAddr::from([192, 0, 2, 1]), now).is_ok(), "others are counted apart");
    }
}
