//! Checks of the addresses in queries and registrations.

use std::net::{IpAddr, SocketAddr};

use byway_api::FlowTuple;
use byway_state::Direction;

use super::refusal::FeedRefusal;

/// Two endpoints, whichever of them sends. The application of a registered flow sees both
/// directions, because it needs both for its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AddressPair([IpAddr; 2]);

impl AddressPair {
    /// Creates the pair of the endpoints of a direction.
    pub(super) fn of(direction: Direction) -> Self {
        let Direction { from, to } = direction;
        Self([from.min(to), from.max(to)])
    }

    /// Creates the pair of the endpoints of a flow.
    pub(super) fn of_tuple(tuple: &FlowTuple) -> Self {
        Self::of(Direction { from: tuple.from.ip(), to: tuple.to.ip() })
    }
}

/// Returns the direction between two endpoints. An IPv4 address that is mapped to IPv6 counts as
/// the IPv4 address.
pub(super) fn checked_direction(from: IpAddr, to: IpAddr) -> Result<Direction, FeedRefusal> {
    let (from, to) = (unicast(from)?, unicast(to)?);
    if from.is_ipv4() != to.is_ipv4() {
        return Err(FeedRefusal::Families { from, to });
    }
    if from == to {
        return Err(FeedRefusal::SameEnds(from));
    }
    Ok(Direction { from, to })
}

/// Returns a flow, whose endpoints are checked like those of a direction.
pub(super) fn checked_tuple(tuple: &FlowTuple) -> Result<FlowTuple, FeedRefusal> {
    for end in [tuple.from, tuple.to] {
        if let SocketAddr::V6(v6) = end
            && v6.scope_id() != 0
        {
            return Err(FeedRefusal::Zone(end));
        }
    }
    let Direction { from, to } = checked_direction(tuple.from.ip(), tuple.to.ip())?;
    if tuple.from.port() == 0 || tuple.to.port() == 0 {
        return Err(FeedRefusal::NoPort(*tuple));
    }
    Ok(FlowTuple {
        from: SocketAddr::new(from, tuple.from.port()),
        to: SocketAddr::new(to, tuple.to.port()),
        protocol: tuple.protocol,
    })
}

fn unicast(address: IpAddr) -> Result<IpAddr, FeedRefusal> {
    let address = address.to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || is_broadcast {
        return Err(FeedRefusal::Address(address));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use byway_api::FlowProtocol;

    use super::*;

    fn direction(from: &str, to: &str) -> Result<Direction, FeedRefusal> {
        checked_direction(ip(from), ip(to))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn tuple(from: &str, to: &str) -> FlowTuple {
        let [from, to] = [from, to].map(|text| text.parse().expect("an endpoint"));
        FlowTuple { from, to, protocol: FlowProtocol::Udp }
    }

    #[test]
    fn addresses_of_one_machine_each_and_of_one_family_are_a_direction() {
        let expected = Direction { from: ip("10.0.0.2"), to: ip("198.51.100.7") };
        assert_eq!(direction("10.0.0.2", "198.51.100.7"), Ok(expected));
        assert_eq!(direction("::ffff:10.0.0.2", "::ffff:198.51.100.7"), Ok(expected), "mapped");
        assert_eq!(direction("10.0.0.2", "::ffff:198.51.100.7"), Ok(expected), "one is mapped");
        assert!(direction("2001:db8::1", "2001:db8::2").is_ok());
    }

    #[test]
    fn other_addresses_are_refused() {
        for bad in ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:255.255.255.255"] {
            let refused = Err(FeedRefusal::Address(ip(bad).to_canonical()));
            assert_eq!((direction(bad, "10.0.0.2"), direction("10.0.0.2", bad)), (refused.clone(), refused));
        }
        let families = FeedRefusal::Families { from: ip("10.0.0.2"), to: ip("2001:db8::1") };
        assert_eq!(direction("10.0.0.2", "2001:db8::1"), Err(families));
        let same = Err(FeedRefusal::SameEnds(ip("10.0.0.2")));
        assert_eq!(direction("10.0.0.2", "10.0.0.2"), same);
        assert_eq!(direction("10.0.0.2", "::ffff:10.0.0.2"), same);
    }

    #[test]
    fn flows_need_ports_and_no_zone() {
        let good = tuple("10.0.0.2:4433", "198.51.100.7:50112");
        assert_eq!(checked_tuple(&good), Ok(good));
        assert_eq!(checked_tuple(&tuple("[::ffff:10.0.0.2]:4433", "198.51.100.7:50112")), Ok(good));
        for bad in [tuple("10.0.0.2:0", "198.51.100.7:1"), tuple("10.0.0.2:1", "198.51.100.7:0")] {
            assert_eq!(checked_tuple(&bad), Err(FeedRefusal::NoPort(bad)));
        }
        let zone = tuple("[fe80::1%7]:4433", "[fe80::2]:4433");
        assert_eq!(checked_tuple(&zone), Err(FeedRefusal::Zone(zone.from)));
        assert!(matches!(checked_tuple(&tuple("10.0.0.2:1", "10.0.0.2:2")), Err(FeedRefusal::SameEnds(_))));
    }

    #[test]
    fn both_directions_are_one_pair() {
        let there = Direction { from: ip("10.0.0.2"), to: ip("198.51.100.7") };
        let back = Direction { from: there.to, to: there.from };
        assert_eq!(AddressPair::of(there), AddressPair::of(back));
        assert_eq!(AddressPair::of_tuple(&tuple("198.51.100.7:1", "10.0.0.2:2")), AddressPair::of(there));
        assert_ne!(AddressPair::of(Direction { to: ip("10.0.0.3"), ..there }), AddressPair::of(there));
    }
}
