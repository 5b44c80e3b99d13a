//! Topology of a network, as the settings have it: networks of tenants, links, and paths.

use std::net::IpAddr;

use byway_state::{Direction, LinkId, NetworkId, Path};
use ipnet::IpNet;

/// Networks of tenants, links that report, and the links of each path. The settings are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Addresses of tenants. Prefixes of different tenants do not overlap.
    pub(crate) networks: Vec<TenantNetwork>,
    /// Links, by the numbers of their [`LinkId`]s.
    pub(crate) links: Vec<ReportedLink>,
    /// Paths. No two have the same prefixes.
    pub(crate) paths: Vec<RoutedPath>,
}

/// Addresses of one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TenantNetwork {
    /// Name of the tenant.
    pub(crate) tenant: String,
    /// Prefixes of the tenant's machines.
    pub(crate) prefixes: Vec<IpNet>,
}

/// Link, and the node that reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportedLink {
    /// Name of the link.
    pub(crate) name: String,
    /// Name of the relay or link that reports it.
    pub(crate) node: String,
}

/// Links between two networks, in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutedPath {
    /// Addresses of endpoints that send.
    pub(crate) from: IpNet,
    /// Addresses of endpoints that receive.
    pub(crate) to: IpNet,
    /// Links that packets pass.
    pub(crate) path: Path,
}

impl Topology {
    /// This network, in the names of links.
    const NETWORK: NetworkId = NetworkId::new(0);

    /// Returns the name of the link of this number.
    pub(crate) const fn link_id(number: u32) -> LinkId {
        LinkId::new(Self::NETWORK, number)
    }

    /// Returns the link of this name in the settings.
    pub(super) fn link(&self, id: LinkId) -> Option<&ReportedLink> {
        self.links.get(usize::try_from(id.number).ok()?)
    }

    /// True if the address belongs to the tenant.
    pub(super) fn is_of_tenant(&self, tenant: &str, address: IpAddr) -> bool {
        let mut networks = self.networks.iter().filter(|network| network.tenant == tenant);
        networks.any(|network| network.prefixes.iter().any(|prefix| prefix.contains(&address)))
    }

    /// Returns the index of the path of a direction: the one with the longest prefix of the sending
    /// endpoint, and then of the receiving one.
    pub(super) fn path_of(&self, direction: Direction) -> Option<usize> {
        let has_path =
            |path: &RoutedPath| path.from.contains(&direction.from) && path.to.contains(&direction.to);
        let found = self.paths.iter().enumerate().filter(|(_, path)| has_path(path));
        let longest = found.max_by_key(|(_, path)| (path.from.prefix_len(), path.to.prefix_len()));
        longest.map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> IpNet {
        text.parse().expect("a prefix")
    }

    fn path(from: &str, to: &str) -> RoutedPath {
        let path = Path::new([Topology::link_id(0)]).expect("a path");
        RoutedPath { from: prefix(from), to: prefix(to), path }
    }

    fn direction(from: &str, to: &str) -> Direction {
        Direction { from: from.parse().expect("an address"), to: to.parse().expect("an address") }
    }

    #[test]
    fn the_path_with_the_longest_prefixes_is_the_one_of_a_direction() {
        let paths = vec![
            path("10.0.0.0/8", "0.0.0.0/0"),
            path("10.0.0.0/8", "198.51.100.0/24"),
            path("10.0.0.2/32", "0.0.0.0/0"),
            path("2001:db8::/32", "::/0"),
        ];
        let topology = Topology { paths, ..Topology::default() };
        for (from, to, index) in [
            ("10.1.0.1", "203.0.113.1", Some(0)),
            ("10.1.0.1", "198.51.100.7", Some(1)),
            ("10.0.0.2", "198.51.100.7", Some(2)),
            ("198.51.100.7", "10.0.0.2", None),
            ("2001:db8::1", "2001:db8:1::1", Some(3)),
            ("2001:db8::1", "198.51.100.7", None),
        ] {
            assert_eq!(topology.path_of(direction(from, to)), index, "{from} {to}");
        }
    }

    #[test]
    fn addresses_belong_to_tenants_by_prefix() {
        let network = |tenant: &str, prefixes: &[&str]| TenantNetwork {
            tenant: tenant.to_owned(),
            prefixes: prefixes.iter().map(|text| prefix(text)).collect(),
        };
        let networks =
            vec![network("lab", &["10.0.0.0/24", "2001:db8::/64"]), network("office", &["10.0.1.0/24"])];
        let topology = Topology { networks, ..Topology::default() };
        for (tenant, address, expected) in [
            ("lab", "10.0.0.2", true),
            ("lab", "2001:db8::2", true),
            ("lab", "10.0.1.2", false),
            ("office", "10.0.1.2", true),
            ("default", "10.0.0.2", false),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(topology.is_of_tenant(tenant, address), expected, "{tenant} {address}");
        }
    }
}
