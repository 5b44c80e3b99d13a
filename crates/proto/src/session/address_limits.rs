//! Rate limits of handshake initiations by source address, and a memory of addresses with completed
//! handshakes.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};
use core::ops::Bound;

use byway_units::{Duration, Time};
use byway_wire::Address;
use siphasher::sip::SipHasher13;

use crate::limits::{
    ADDRESS_BUCKETS, ADDRESS_HANDSHAKE_BURST, ADDRESS_HANDSHAKES_PER_SECOND, KNOWN_ADDRESSES_MAX,
};

/// One rate limit of initiations by source: token buckets with the same burst, indexed by a keyed
/// hash of the source. Sources in one bucket share its tokens. A node has four such limits. Without
/// a cookie, the source is a network (/32 or /64). With a cookie, there is one of networks, one of
/// addresses with ports, and one of addresses with ports that completed a handshake.
#[derive(Debug)]
pub(super) struct AddressLimits {
    key: [u8; 16],
    burst: u64,
    /// Time at which each bucket is full again; in the past for full buckets.
    full_at: Vec<Time>,
}

/// Time in which a bucket regains the token of one initiation.
const INTERVAL: Duration = Duration::from_nanos(1_000_000_000 / ADDRESS_HANDSHAKES_PER_SECOND);

impl AddressLimits {
    /// Creates full buckets for `burst` initiations each. The random `key` of the hash prevents
    /// that strangers choose with whom they share a bucket.
    pub(super) fn new(key: [u8; 16], burst: u64) -> Self {
        Self { key, burst, full_at: vec![Time::START; ADDRESS_BUCKETS] }
    }

    /// Charges an initiation to the address's network; returns false if its rate is exceeded.
    pub(super) fn admits_network(&mut self, address: SocketAddr, now: Time) -> bool {
        let hash = hash_network(&self.key, address);
        self.admits(hash, now)
    }

    /// Charges an initiation to this address and port; returns false if their rate is exceeded.
    pub(super) fn admits_host(&mut self, address: Address, now: Time) -> bool {
        let hash = hash(&self.key, &address.mapped());
        self.admits(hash, now)
    }

    /// True if the network of the address has a token. The token is not taken.
    pub(super) fn has_token(&self, address: SocketAddr, now: Time) -> bool {
        self.full_after_one(self.bucket(hash_network(&self.key, address)), now).is_some()
    }

    fn admits(&mut self, hash: u64, now: Time) -> bool {
        let bucket = self.bucket(hash);
        let full_at = self.full_after_one(bucket, now);
        self.full_at[bucket] = full_at.unwrap_or(self.full_at[bucket]);
        full_at.is_some()
    }

    fn bucket(&self, hash: u64) -> usize {
        let buckets = self.full_at.len() as u64;
        usize::try_from(hash % buckets).expect("a remainder is below the number of buckets")
    }

    /// Returns the time at which a bucket is full again after one token is taken; `None` if it has
    /// no token.
    fn full_after_one(&self, bucket: usize, now: Time) -> Option<Time> {
        let full_at = self.full_at[bucket].max(now);
        let has_token = full_at.saturating_since(now) <= INTERVAL * (self.burst - 1);
        has_token.then(|| full_at + INTERVAL)
    }
}

/// Addresses, and their networks, with which this node completed handshakes: a bounded set of
/// hashes.
#[derive(Debug)]
pub(super) struct KnownAddresses {
    key: [u8; 16],
    hashes: BTreeSet<u64>,
    limits: AddressLimits,
}

impl KnownAddresses {
    /// Creates an empty set. The random `key` of the hash prevents that strangers choose which
    /// addresses they displace.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key, hashes: BTreeSet::new(), limits: AddressLimits::new(key, ADDRESS_HANDSHAKE_BURST) }
    }

    /// Adds an address and port, and their network. If the set is full, the entry with the next
    /// hash is removed, which is a random one.
    pub(super) fn add(&mut self, address: SocketAddr) {
        for hash in [self.host(address), hash_network(&self.key, address)] {
            if self.hashes.insert(hash) && self.hashes.len() > KNOWN_ADDRESSES_MAX {
                let above = self.hashes.range((Bound::Excluded(hash), Bound::Unbounded)).next();
                let displaced = above.or_else(|| self.hashes.first()).copied();
                self.hashes.remove(&displaced.expect("a set above its limit has another entry"));
            }
        }
    }

    /// Takes a token of a known address and port; returns true if there is one.
    pub(super) fn admits_host(&mut self, address: Address, now: Time) -> bool {
        self.limits.admits_host(address, now)
    }

    /// True if this node completed a handshake with this address and port, and remembers it.
    pub(super) fn has_host(&self, address: SocketAddr) -> bool {
        self.hashes.contains(&self.host(address))
    }

    /// True if this node completed a handshake with an address in the same network, and remembers
    /// it.
    pub(super) fn has_network(&self, address: SocketAddr) -> bool {
        self.hashes.contains(&hash_network(&self.key, address))
    }

    fn host(&self, address: SocketAddr) -> u64 {
        hash(&self.key, &Address::from(address).mapped())
    }
}

/// Returns the keyed hash of an address's network: /32 for IPv4, /64 for IPv6.
fn hash_network(key: &[u8; 16], address: SocketAddr) -> u64 {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => hash(key, &ip.octets()),
        IpAddr::V6(ip) => hash(key, &ip.octets()[..8]),
    }
}

fn hash(key: &[u8; 16], source: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(key);
    hasher.write(source);
    hasher.finish()
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
        let mut limits = AddressLimits::new([1; 16], ADDRESS_HANDSHAKE_BURST);
        let admitted = (0..100).filter(|_| limits.admits_network(v4(1), Time::START)).count();
        assert_eq!(admitted, 5);
        let later = Time::START + Duration::from_secs(1);
        // In a second the bucket fills to its burst of 5, not to 20.
        assert_eq!((0..100).filter(|_| limits.admits_network(v4(1), later)).count(), 5);
        let steady = (0..1_000).filter(|ms| limits.admits_network(v4(1), later + Duration::from_millis(*ms)));
        assert_eq!(steady.count(), 19);
    }

    #[test]
    fn other_addresses_are_not_affected() {
        let mut limits = AddressLimits::new([1; 16], ADDRESS_HANDSHAKE_BURST);
        while limits.admits_network(v4(1), Time::START) {}
        assert!(limits.admits_network(v4(2), Time::START));
    }

    #[test]
    fn a_million_addresses_take_no_more_memory_and_no_more_tokens_than_there_are_buckets() {
        let mut limits = AddressLimits::new([1; 16], ADDRESS_HANDSHAKE_BURST);
        let address = |number| SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(number)), 4_600);
        let admitted =
            (0..1_000_000).filter(|number| limits.admits_network(address(*number), Time::START)).count();
        assert_eq!(limits.full_at.len(), ADDRESS_BUCKETS);
        assert_eq!(admitted as u64, ADDRESS_BUCKETS as u64 * ADDRESS_HANDSHAKE_BURST);
    }

    #[test]
    fn who_shows_a_cookie_is_told_from_others_behind_the_same_address() {
        let mut limits = AddressLimits::new([1; 16], ADDRESS_HANDSHAKE_BURST);
        let host = |port| Address { ip: Ipv4Addr::new(192, 0, 2, 1).into(), port };
        assert_eq!((0..100).filter(|_| limits.admits_host(host(1), Time::START)).count(), 5);
        assert!(limits.admits_host(host(2), Time::START));
    }

    #[test]
    fn one_ipv6_network_is_one_address() {
        let mut limits = AddressLimits::new([1; 16], ADDRESS_HANDSHAKE_BURST);
        let host =
            |last| SocketAddr::new(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last)), 4_600);
        assert_eq!(
            (0..100).filter(|host_number| limits.admits_network(host(*host_number), Time::START)).count(),
            5
        );
    }

    #[test]
    fn who_completed_a_handshake_is_known_and_so_is_its_network() {
        let mut known = KnownAddresses::new([1; 16]);
        assert!(!known.has_host(v4(1)) && !known.has_network(v4(1)));
        known.add(v4(1));
        let other_port = SocketAddr::new(v4(1).ip(), 999);
        assert!(known.has_host(v4(1)) && known.has_network(other_port));
        assert!(!known.has_host(other_port) && !known.has_network(v4(2)));
    }

    #[test]
    fn of_too_many_known_addresses_some_are_forgotten_and_the_newest_is_not() {
        let mut known = KnownAddresses::new([1; 16]);
        for number in 0..KNOWN_ADDRESSES_MAX {
            let bits = u32::try_from(number).expect("there are few");
            let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(bits)), 4_600);
            known.add(address);
            assert!(known.has_network(address));
        }
        assert_eq!(known.hashes.len(), KNOWN_ADDRESSES_MAX);
    }
}
