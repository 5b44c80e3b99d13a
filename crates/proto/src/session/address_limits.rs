//! How many initiations an address may send before it has to show a cookie, and how many with one.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use byway_units::{Duration, Time};
use byway_wire::Address;
use siphasher::sip::SipHasher13;

use crate::limits::{ADDRESS_BUCKETS, ADDRESS_HANDSHAKE_BURST, ADDRESS_HANDSHAKES_PER_SECOND};

/// A fixed table of token buckets, one for each hash of who asks.
///
/// Before the cookie, that is a network: /32 for IPv4, /64 for IPv6. With one, it is an address and a port, since many
/// agents share an address. Those who share a bucket share its tokens: they need a cookie sooner, or try again later.
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

    /// Takes a token of the network that the address is in, if there is one.
    pub(super) fn admits_network(&mut self, address: SocketAddr, now: Time) -> bool {
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => self.admits(&ip.octets(), now),
            IpAddr::V6(ip) => self.admits(&ip.octets()[..8], now),
        }
    }

    /// Takes a token of this address and port, if there is one.
    pub(super) fn admits_host(&mut self, address: Address, now: Time) -> bool {
        self.admits(&address.mapped(), now)
    }

    fn admits(&mut self, who: &[u8], now: Time) -> bool {
        let bucket = self.bucket(who);
        let full_at = self.full_at[bucket].max(now);
        if full_at.saturating_since(now) > INTERVAL * (ADDRESS_HANDSHAKE_BURST - 1) {
            return false;
        }
        self.full_at[bucket] = full_at + INTERVAL;
        true
    }

    fn bucket(&self, who: &[u8]) -> usize {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(who);
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
        let admitted = (0..100).filter(|_| limits.admits_network(v4(1), Time::START)).count();
        assert_eq!(admitted, 5);
        let later = Time::START + Duration::from_secs(1);
        // In a second the bucket fills to its brim of 5, not to 20.
        assert_eq!((0..100).filter(|_| limits.admits_network(v4(1), later)).count(), 5);
        let steady = (0..1_000).filter(|ms| limits.admits_network(v4(1), later + Duration::from_millis(*ms)));
        assert_eq!(steady.count(), 19);
    }

    #[test]
    fn other_addresses_are_not_affected() {
        let mut limits = AddressLimits::new([1; 16]);
        while limits.admits_network(v4(1), Time::START) {}
        assert!(limits.admits_network(v4(2), Time::START));
    }

    #[test]
    fn a_million_addresses_take_no_more_memory_and_no_more_tokens_than_there_are_buckets() {
        let mut limits = AddressLimits::new([1; 16]);
        let address = |number| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(number)), 4_600);
        let admitted =
            (0..1_000_000).filter(|number| limits.admits_network(address(*number), Time::START)).count();
        assert_eq!(limits.full_at.len(), ADDRESS_BUCKETS);
        assert_eq!(admitted as u64, ADDRESS_BUCKETS as u64 * ADDRESS_HANDSHAKE_BURST);
    }

    #[test]
    fn who_shows_a_cookie_is_told_from_others_behind_the_same_address() {
        let mut limits = AddressLimits::new([1; 16]);
        let host = |port| Address { ip: Ipv4Addr::new(192, 0, 2, 1).into(), port };
        assert_eq!((0..100).filter(|_| limits.admits_host(host(1), Time::START)).count(), 5);
        assert!(limits.admits_host(host(2), Time::START));
    }

    #[test]
    fn one_ipv6_network_is_one_address() {
        let mut limits = AddressLimits::new([1; 16]);
        let host =
            |last| SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last)), 4_600);
        assert_eq!(
            (0..100).filter(|host_number| limits.admits_network(host(*host_number), Time::START)).count(),
            5
        );
    }
}
