//! How often one source may ask.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::THROTTLED_MAX;

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

/// What of an address stands for one source: of IPv6, the network of 64 bits that a site has.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
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
    fn a_site_is_one_source() {
        let [one, other, apart] = ["2001:db8::1", "2001:db8::2:0:0:3", "2001:db8:0:1::1"]
            .map(|ip| source(ip.parse().expect("an address")));
        assert_eq!(one, other);
        assert_ne!(one, apart);
        assert_eq!(source("::ffff:192.0.2.1".parse().expect("an address")), IpAddr::from([192, 0, 2, 1]));
    }
}
