//! How many initiations an address may send before it has to show a cookie.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use byway_units::{Duration, Time};
use siphasher::sip::SipHasher13;

use crate::limits::{ADDRESS_BUCKETS, ADDRESS_HANDSHAKE_BURST, ADDRESS_HANDSHAKES_PER_SECOND};

/// A fixed table of token buckets, one for each hash of a network: /32 for IPv4, /64 for IPv6.
///
/// Networks that share a bucket share its tokens; all they lose is that they need a cookie sooner.
#[derive(Debug)]
pub(super) struct AddressLimits {
    key: [u8; 16],
    /// When each bucket will be full again.
    full_at: Vec<Time>,
}

/// What one initiation takes.
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / ADDRESS_HANDSHAKES_PER_SECOND);

impl AddressLimits {
    /// An empty table; `key` keeps strangers from choosing whom they share a bucket with.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key, full_at: vec![Time::START; ADDRESS_BUCKETS] }
    }

    /// Takes a token of the address, if there is one.
    pub(super) fn admits(&mut self, address: SocketAddr, now: Time) -> bool {
        let bucket = self.bucket(address);
        let full_at = self.full_at[bucket].max(now);
        if full_at.saturating_since(now) > INTERVAL * (ADDRESS_HANDSHAKE_BURST - 1) {
            return false;
        }
        self.full_at[bucket] = full_at + INTERVAL;
        true
    }

    fn bucket(&self, address: SocketAddr) -> usize {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        match address.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()[..8]),
        }
        let buckets = self.full_at.len() as u64;
        usize::try_from(hasher.finish() % buckets).expect("a remainder is below the number of buckets")
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn v4(last: u8) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600)
    }

    #[test]
    fn an_address_gets_its_burst_and_then_its_rate() {
        let mut limits = AddressLimits::new([1; 16]);
        let admitted = (0..100).filter(|_| limits.admits(v4(1), Time::START)).count();
        assert_eq!(admitted, 5);
        let later = Time::START + Duration::from_secs(1);
        // In a second the bucket fills to its brim of 5, not to 20.
        assert_eq!((0..100).filter(|_| limits.admits(v4(1), later)).count(), 5);
        let steady = (0..1_000).filter(|ms| limits.admits(v4(1), later + Duration::from_millis(*ms)));
        assert_eq!(steady.count(), 19);
    }

    #[test]
    fn other_addresses_are_not_affected() {
        let mut limits = AddressLimits::new([1; 16]);
        while limits.admits(v4(1), Time::START) {}
        assert!(limits.admits(v4(2), Time::START));
    }

    #[test]
    fn a_million_addresses_take_no_more_memory_and_no_more_tokens_than_there_are_buckets() {
        let mut limits = AddressLimits::new([1; 16]);
        let address = |number| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(number)), 4_600);
        let admitted = (0..1_000_000).filter(|number| limits.admits(address(*number), Time::START)).count();
        assert_eq!(limits.full_at.len(), ADDRESS_BUCKETS);
        assert_eq!(admitted as u64, ADDRESS_BUCKETS as u64 * ADDRESS_HANDSHAKE_BURST);
    }

    #[test]
    fn one_ipv6_network_is_one_address() {
        let mut limits = AddressLimits::new([1; 16]);
        let host =
            |last| SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last)), 4_600);
        assert_eq!((0..100).filter(|host_number| limits.admits(host(*host_number), Time::START)).count(), 5);
    }
}
