//! Networks, links and paths whose state a controller's applications may read.

use byway_api::checked_name;
use byway_config_types::{KeyPath, Problem, Source};
use byway_state::{Path, PathError};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Deserialize;

use super::selectors::PrefixSetting;
use crate::controller::{
    ReportedLink, RoutedPath, STATE_LINKS_MAX, STATE_PATH_LINKS_MAX, STATE_PATHS_MAX, STATE_PREFIXES_MAX,
    TenantNetwork, Topology,
};

/// Addresses of one tenant.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTenantNetwork {
    /// Name of the tenant.
    pub(crate) tenant: String,
    /// Addresses of the tenant's machines, as in `["10.1.0.0/16"]`. Prefixes of different tenants
    /// may not overlap.
    pub(crate) prefixes: Vec<PrefixSetting>,
}

/// A link that reports its state.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawReportedLink {
    /// Name of the link. A link has one direction: name both directions of a cable.
    pub(crate) name: String,
    /// Node that reports it, by name: a relay, or a node that joined with a token of
    /// `--role link`. Default: the link's name.
    pub(crate) node: Option<String>,
}

/// Links between two networks, in one direction.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRoutedPath {
    /// Addresses of the machines that send: a prefix, or one address. Of several paths, the one
    /// with the longest prefix here is used, and then the one with the longest in `to`.
    pub(crate) from: PrefixSetting,
    /// Addresses of the machines that receive, of the same family.
    pub(crate) to: PrefixSetting,
    /// Links that packets pass, in this order, by name: 1 to 64. Links that never queue can be
    /// omitted.
    pub(crate) links: Vec<String>,
}

/// Validates the tables `networks`, `links` and `paths` of the table at the path `root` of the
/// file.
pub(super) fn topology(
    root: &KeyPath,
    networks: &[RawTenantNetwork],
    links: &[RawReportedLink],
    paths: &[RawRoutedPath],
    source: &Source,
) -> Result<Topology, Problem> {
    let networks = tenant_networks(&root.key("networks"), networks, source)?;
    let links = reported_links(&root.key("links"), links, source)?;
    let paths = routed_paths(&root.key("paths"), paths, &links, source)?;
    Ok(Topology { networks, links, paths })
}

fn tenant_networks(
    root: &KeyPath,
    raw: &[RawTenantNetwork],
    source: &Source,
) -> Result<Vec<TenantNetwork>, Problem> {
    let mut networks: Vec<TenantNetwork> = Vec::new();
    for (index, network) in raw.iter().enumerate() {
        let path = root.index(index);
        checked_name(&network.tenant).map_err(|error| source.problem(&path.key("tenant"), error))?;
        if networks.iter().any(|known| known.tenant == network.tenant) {
            let message = "duplicate tenant: name all of its prefixes in one table";
            return Err(source.problem(&path.key("tenant"), message));
        }
        let prefixes: Vec<IpNet> = network.prefixes.iter().map(|prefix| prefix.0).collect();
        for (position, prefix) in prefixes.iter().enumerate() {
            let is_shared = |other: &IpNet| other.contains(prefix) || prefix.contains(other);
            if let Some(known) = networks.iter().find(|known| known.prefixes.iter().any(is_shared)) {
                let message = format!("overlaps with a prefix of tenant {:?}: correct one", known.tenant);
                return Err(source.problem(&path.key("prefixes").index(position), message));
            }
        }
        networks.push(TenantNetwork { tenant: network.tenant.clone(), prefixes });
    }
    let count: usize = networks.iter().map(|network| network.prefixes.len()).sum();
    if count > STATE_PREFIXES_MAX {
        let message = format!("{count} prefixes are too many: name at most {STATE_PREFIXES_MAX}");
        return Err(source.problem(root, message));
    }
    Ok(networks)
}

fn reported_links(
    root: &KeyPath,
    raw: &[RawReportedLink],
    source: &Source,
) -> Result<Vec<ReportedLink>, Problem> {
    if raw.len() > STATE_LINKS_MAX {
        let message = format!("{} links are too many: name at most {STATE_LINKS_MAX}", raw.len());
        return Err(source.problem(root, message));
    }
    let mut links: Vec<ReportedLink> = Vec::new();
    for (index, link) in raw.iter().enumerate() {
        let path = root.index(index);
        let node = link.node.as_ref().unwrap_or(&link.name);
        checked_name(&link.name).map_err(|error| source.problem(&path.key("name"), error))?;
        checked_name(node).map_err(|error| source.problem(&path.key("node"), error))?;
        if links.iter().any(|known| known.name == link.name) {
            return Err(source.problem(&path.key("name"), "duplicate link: name each link once"));
        }
        links.push(ReportedLink { name: link.name.clone(), node: node.clone() });
    }
    Ok(links)
}

fn routed_paths(
    root: &KeyPath,
    raw: &[RawRoutedPath],
    links: &[ReportedLink],
    source: &Source,
) -> Result<Vec<RoutedPath>, Problem> {
    if raw.len() > STATE_PATHS_MAX {
        let message = format!("{} paths are too many: name at most {STATE_PATHS_MAX}", raw.len());
        return Err(source.problem(root, message));
    }
    let mut paths: Vec<RoutedPath> = Vec::new();
    for (index, routed) in raw.iter().enumerate() {
        let location = root.index(index);
        let (from, to) = (routed.from.0, routed.to.0);
        if from.addr().is_ipv4() != to.addr().is_ipv4() {
            let message = "has another address family than `from`: name both as IPv4 or both as IPv6";
            return Err(source.problem(&location.key("to"), message));
        }
        if paths.iter().any(|known| (known.from, known.to) == (from, to)) {
            return Err(source.problem(&location, "duplicate path: name each pair of prefixes once"));
        }
        paths.push(RoutedPath { from, to, path: checked_links(&location, &routed.links, links, source)? });
    }
    let count: usize = paths.iter().map(|path| path.path.links().len()).sum();
    if count > STATE_PATH_LINKS_MAX {
        let message = format!("all paths have {count} links together: name at most {STATE_PATH_LINKS_MAX}");
        return Err(source.problem(root, message));
    }
    Ok(paths)
}

/// Validates the links of one path, by their names.
fn checked_links(
    location: &KeyPath,
    names: &[String],
    links: &[ReportedLink],
    source: &Source,
) -> Result<Path, Problem> {
    let root = location.key("links");
    let mut numbers = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let known = (0..).zip(links).find(|(_, link)| link.name == *name);
        let (number, _) = known.ok_or_else(|| {
            let message = format!("link {name:?} not found: add it to [[controller.links]]");
            source.problem(&root.index(index), message)
        })?;
        numbers.push(Topology::link_id(number));
    }
    Path::new(numbers).map_err(|error| match error {
        PathError::LinkAgain(link) => {
            let index = usize::try_from(link.number).unwrap_or(usize::MAX);
            let name = links.get(index).map_or("", |link| link.name.as_str());
            source.problem(&root, format!("link {name:?} occurs twice: a path has each link once"))
        }
        error @ (PathError::Length(_) | PathError::NetworkAgain(_)) => source.problem(&root, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct RawTopology {
        #[serde(default)]
        networks: Vec<RawTenantNetwork>,
        #[serde(default)]
        links: Vec<RawReportedLink>,
        #[serde(default)]
        paths: Vec<RawRoutedPath>,
    }

    fn read(text: &str) -> Result<Topology, String> {
        let raw: RawTopology = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let root = KeyPath::of("controller");
        let topology = topology(&root, &raw.networks, &raw.links, &raw.paths, &Source::default());
        topology.map_err(|problem| problem.to_string())
    }

    const LINKS: &str = "[[links]]\nname = \"core-1\"\nnode = \"edge\"\n[[links]]\nname = \"fra\"\n";

    fn path(from: &str, to: &str, links: &[&str]) -> String {
        format!("[[paths]]\nfrom = {from:?}\nto = {to:?}\nlinks = {links:?}\n")
    }

    fn network(tenant: &str, prefixes: &[&str]) -> String {
        format!("[[networks]]\ntenant = {tenant:?}\nprefixes = {prefixes:?}\n")
    }

    #[test]
    fn names_become_links_of_paths_in_their_order() {
        let text = LINKS.to_owned()
            + &path("10.0.0.0/8", "198.51.100.7", &["fra", "core-1"])
            + &network("lab", &["10.0.0.0/24", "2001:db8::/64"]);
        let topology = read(&text).expect("it is valid");
        assert_eq!((topology.links[0].node.as_str(), topology.links[1].node.as_str()), ("edge", "fra"));
        assert_eq!(topology.paths[0].path.links(), [1, 0].map(Topology::link_id));
        assert_eq!(topology.paths[0].to.prefix_len(), 32);
        assert_eq!((topology.networks[0].tenant.as_str(), topology.networks[0].prefixes.len()), ("lab", 2));
        assert_eq!(read(""), Ok(Topology::default()));
    }

    #[test]
    fn errors_name_the_table_the_key_and_the_remedy() {
        let with_links = |more: &str| LINKS.to_owned() + more;
        let many: Vec<String> = (0..65).map(|link| format!("link-{link}")).collect();
        let many_names: Vec<&str> = many.iter().map(String::as_str).collect();
        let many_links: Vec<_> = many.iter().map(|link| format!("[[links]]\nname = {link:?}\n")).collect();
        let many_links = many_links.concat();
        for (text, expected) in [
            (with_links("[[links]]\nname = \"fra\"\n"), "controller.links[2].name: duplicate link"),
            (with_links("[[links]]\nname = \"a b\"\n"), "controller.links[2].name: invalid name \"a b\""),
            (
                with_links("[[links]]\nname = \"a\"\nnode = \"\"\n"),
                "controller.links[2].node: invalid name \"\"",
            ),
            (
                with_links(&path("10.0.0.0/8", "10.1.0.1", &["fra", "ber"])),
                "controller.paths[0].links[1]: link \"ber\" not found: add it to [[controller.links]]",
            ),
            (
                with_links(&path("10.0.0.0/8", "10.1.0.1", &["fra", "core-1", "fra"])),
                "controller.paths[0].links: link \"fra\" occurs twice",
            ),
            (
                with_links(&path("10.0.0.0/8", "10.1.0.1", &[])),
                "controller.paths[0].links: path invalid: it has no",
            ),
            (
                many_links + &path("10.0.0.0/8", "10.1.0.1", &many_names),
                "controller.paths[0].links: path invalid: it has more than 64 links",
            ),
            (
                with_links(&path("10.0.0.0/8", "2001:db8::/32", &["fra"])),
                "controller.paths[0].to: has another address family",
            ),
            (
                with_links(&path("10.0.0.0/8", "10.1.0.1", &["fra"]).repeat(2)),
                "controller.paths[1]: duplicate path",
            ),
            (
                network("lab", &["10.0.0.0/24"]) + &network("lab", &["10.0.1.0/24"]),
                "controller.networks[1].tenant: duplicate tenant",
            ),
            (
                network("lab", &["10.0.0.0/8"]) + &network("office", &["192.0.2.0/24", "10.0.1.0/24"]),
                "controller.networks[1].prefixes[1]: overlaps with a prefix of tenant \"lab\"",
            ),
            (
                network("lab", &["10.0.1.7"]) + &network("office", &["10.0.0.0/8"]),
                "controller.networks[1].prefixes[0]: overlaps with a prefix of tenant \"lab\"",
            ),
            (network("a b", &[]), "controller.networks[0].tenant: invalid name"),
            (network("lab", &["10.0.0.1/8"]), "invalid prefix \"10.0.0.1/8\""),
        ] {
            let problem = read(&text).expect_err(expected);
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn tables_are_bounded() {
        let links = |count: usize| {
            (0..count).fold(String::new(), |text, link| text + &format!("[[links]]\nname = \"l{link}\"\n"))
        };
        assert!(read(&links(STATE_LINKS_MAX)).is_ok());
        let problem = read(&links(STATE_LINKS_MAX + 1)).expect_err("too many");
        assert!(problem.contains("controller.links: 1025 links are too many"), "{problem}");
        let names: Vec<String> = (0..64).map(|link| format!("l{link}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let paths = |count: u32, links: &[&str]| {
            let from = |number: u32| std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).to_string();
            (0..count).fold(String::new(), |text, number| text + &path(&from(number), "192.0.2.1", links))
        };
        assert!(read(&(links(64) + &paths(128, &names))).is_ok());
        let problem = read(&(links(64) + &paths(129, &names))).expect_err("too many");
        assert!(problem.contains("controller.paths: all paths have 8256 links together"), "{problem}");
        let problem = read(&(links(1) + &paths(513, &["l0"]))).expect_err("too many");
        assert!(problem.contains("controller.paths: 513 paths are too many"), "{problem}");
        let prefixes: Vec<String> =
            (0..=4_096_u32).map(|number| std::net::Ipv4Addr::from_bits(number << 8).to_string()).collect();
        let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
        let problem = read(&network("lab", &prefixes)).expect_err("too many");
        assert!(problem.contains("controller.networks: 4097 prefixes are too many"), "{problem}");
    }
}
