//! Topology of a network, as the settings have it: networks of tenants, links, and paths.

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

    /// Returns the index of the path of a direction, if the tenant may use it. One end of the path,
    /// as the settings have it, then lies within a network of the tenant.
    ///
    /// The addresses of a flow are not enough: one of them may belong to a path of another tenant.
    pub(super) fn path_for(&self, tenant: &str, direction: Direction) -> Option<usize> {
        let index = self.path_of(direction)?;
        let path = &self.paths[index];
        let is_own = |prefix: &IpNet| prefix.contains(&path.from) || prefix.contains(&path.to);
        let mut networks = self.networks.iter().filter(|network| network.tenant == tenant);
        networks.any(|network| network.prefixes.iter().any(is_own)).then_some(index)
    }

    /// Returns the index of the path of a direction: the one with the longest prefix of the sending
    /// endpoint, and then of the receiving one.
    fn path_of(&self, direction: Direction) -> Option<usize> {
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
    fn a_path_is_of_the_tenants_whose_networks_have_one_of_its_ends() {
        let network = |tenant: &str, prefixes: &[&str]| TenantNetwork {
            tenant: tenant.to_owned(),
            prefixes: prefixes.iter().map(|text| prefix(text)).collect(),
        };
        let topology = Topology {
            networks: vec![
                network("lab", &["10.0.0.0/24", "2001:db8::/64"]),
                network("office", &["10.0.1.0/24"]),
            ],
            paths: vec![
                path("10.0.0.0/24", "198.51.100.0/24"),
                path("198.51.100.0/24", "10.0.0.0/25"),
                path("10.0.1.0/24", "0.0.0.0/0"),
                path("0.0.0.0/0", "10.0.1.0/24"),
                path("10.0.0.0/16", "192.0.2.0/24"),
                path("2001:db8::/64", "::/0"),
                path("10.0.0.0/24", "10.0.1.0/24"),
            ],
            ..Topology::default()
        };
        for (from, to, lab, office) in [
            ("10.0.0.2", "198.51.100.7", Some(0), None),
            ("198.51.100.7", "10.0.0.2", Some(1), None),
            ("10.0.1.2", "198.51.100.7", None, Some(2)),
            ("203.0.113.1", "10.0.1.2", None, Some(3)),
            // An end of the flow is of `lab`, and no end of the path.
            ("10.0.1.2", "10.0.0.2", None, Some(2)),
            // The path has the networks of several tenants, and is nobody's.
            ("10.0.0.2", "192.0.2.1", None, None),
            ("2001:db8::2", "2001:db8:1::1", Some(5), None),
            // From one tenant to the other, it is both tenants'.
            ("10.0.0.2", "10.0.1.2", Some(6), Some(6)),
        ] {
            let direction = direction(from, to);
            let found = ["lab", "office", "other"].map(|tenant| topology.path_for(tenant, direction));
            assert_eq!(found, [lab, office, None], "{from} {to}");
        }
    }
}
