//! Sources of connections and requests, by which they are limited: an address, and the network
//! around it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use byway_wire::{IPV4_NETWORK_BITS, IPV6_NETWORK_BITS};

/// Prefix length by which IPv6 addresses count as one address: a link has 64 bits for its hosts
/// (RFC 4291, section 2.5.4).
const IPV6_ADDRESS_BITS: u32 = 64;

/// Source of a connection or a request, by which it is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    /// Address of the network: a /24 of IPv4, a /48 of IPv6.
    pub(crate) network: IpAddr,
    /// Address of the source itself: a /32 of IPv4, a /64 of IPv6.
    pub(crate) address: IpAddr,
}

impl Source {
    /// Returns the source that an address belongs to.
    pub(crate) fn of(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let network = Ipv4Addr::from_bits(ip.to_bits() & (u32::MAX << (32 - IPV4_NETWORK_BITS)));
                Self { network: network.into(), address: ip.into() }
            }
            IpAddr::V6(ip) => {
                let prefix =
                    |bits: u32| IpAddr::from(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - bits))));
                Self { network: prefix(IPV6_NETWORK_BITS), address: prefix(IPV6_ADDRESS_BITS) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(ip: &str) -> Source {
        Source::of(ip.parse().expect("an address"))
    }

    #[test]
    fn a_link_is_one_address_and_a_site_one_network() {
        let [one, other, apart, away] =
            ["2001:db8::1", "2001:db8::2:0:0:3", "2001:db8:0:1::1", "2001:db8:1::1"].map(source);
        assert_eq!(one, other);
        assert!(one.address != apart.address && one.network == apart.network);
        assert_ne!(one.network, away.network);
    }

    #[test]
    fn ipv4_counts_by_address_and_by_24_bits_also_where_it_is_mapped() {
        let [one, near, away] = ["192.0.2.1", "192.0.2.200", "192.0.3.1"].map(source);
        assert!(one.address != near.address && one.network == near.network);
        assert_ne!(one.network, away.network);
        assert_eq!(source("::ffff:192.0.2.1"), one);
    }
}
