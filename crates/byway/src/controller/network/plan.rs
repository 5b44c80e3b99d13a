//! Which relays serve whom: paths and coding groups of all pairings.

use std::collections::{BTreeMap, BTreeSet};

use byway_proto::conventions::relay_paths;

use super::{Digest, Network, Node};
use crate::controller::limits::PAIRINGS_PER_GROUP_MAX;

/// A way from one agent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlannedPath {
    /// The number of the relay near the sender.
    pub(crate) ingress: u32,
    /// The number of the relay near the receiver.
    pub(crate) egress: u32,
    /// The coding group.
    pub(crate) group: u32,
}

/// The paths of all pairings, as the network is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    paths: BTreeMap<(u32, u32), Vec<PlannedPath>>,
    links: BTreeMap<u32, BTreeSet<u32>>,
    /// How many pairings are in each coding group.
    sharers: BTreeMap<u32, usize>,
}

impl Plan {
    /// The plan for a network. It depends on nothing else, so that a controller that starts again plans the same.
    pub(crate) fn of(network: &Network) -> Self {
        let mut plan = Self::default();
        let orders: BTreeMap<_, _> =
            network.nodes().map(|node| (node.number, network.relays_by_distance(node))).collect();
        // How many pairings each tenant has between two relays so far: so many share a coding group, in their order.
        let mut sharers: BTreeMap<(u32, u32, u32), usize> = BTreeMap::new();
        let directions = network.pairs().flat_map(|pair| {
            let [one, other] = pair.agents();
            [(one, other), (other, one)]
        });
        for (sender, receiver) in directions {
            let tenant = network.node(sender).and_then(|node| node.tenant).unwrap_or_default();
            let paths = relay_paths(&orders[&sender], &orders[&receiver]);
            let paths = paths.into_iter().map(|(ingress, egress)| {
                let sharers = sharers.entry((tenant, ingress, egress)).or_default();
                let chunk = *sharers / PAIRINGS_PER_GROUP_MAX;
                *sharers += 1;
                PlannedPath { ingress, egress, group: group(tenant, ingress, egress, chunk) }
            });
            plan.add((sender, receiver), paths.collect());
        }
        plan
    }

    fn add(&mut self, direction: (u32, u32), paths: Vec<PlannedPath>) {
        for path in &paths {
            *self.sharers.entry(path.group).or_default() += 1;
        }
        for path in paths.iter().filter(|path| path.ingress != path.egress) {
            self.links.entry(path.ingress).or_default().insert(path.egress);
            self.links.entry(path.egress).or_default().insert(path.ingress);
        }
        self.paths.insert(direction, paths);
    }

    /// The ways from one agent to another, best first.
    pub(crate) fn paths(&self, sender: u32, receiver: u32) -> &[PlannedPath] {
        self.paths.get(&(sender, receiver)).map_or(&[], Vec::as_slice)
    }

    /// Whether several pairings are in a coding group.
    pub(crate) fn has_company(&self, group: u32) -> bool {
        self.sharers.get(&group).is_some_and(|sharers| *sharers > 1)
    }

    /// The relays that a relay exchanges packets with.
    pub(crate) fn links(&self, relay: u32) -> impl Iterator<Item = u32> {
        self.links.get(&relay).into_iter().flatten().copied()
    }
}

impl Network {
    /// The relay near an agent: the one it wants, else the nearest that it measured, else the first.
    pub(crate) fn near_relay(&self, node: &Node) -> Option<u32> {
        self.relays_by_distance(node).first().copied()
    }

    /// All relays, the near one first, then by the round trip, and those that were not measured last.
    fn relays_by_distance(&self, node: &Node) -> Vec<u32> {
        let rank = |relay: &Node| {
            let is_wanted = node.relay.as_ref() == Some(&relay.name);
            let is_nearest = node.nearest == Some(relay.number);
            let round_trip = node.round_trips.get(&relay.number).copied().unwrap_or(u64::MAX);
            (!is_wanted, !is_nearest, round_trip, relay.number)
        };
        let mut ranked: Vec<_> = self.relays().map(rank).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., number)| number).collect()
    }
}

/// The number of a coding group. Numbers that happen to be the same do no harm: relays keep tenants and egress relays
/// apart.
fn group(tenant: u32, ingress: u32, egress: u32, chunk: usize) -> u32 {
    let name = format!("byway coding group\n{tenant}\n{ingress}\n{egress}\n{chunk}");
    let [a, b, c, d, ..] = Digest::of(name.as_bytes()).0;
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_that_of_tenant_relays_and_chunk() {
        let groups = [group(1, 2, 3, 0), group(1, 2, 3, 1), group(1, 3, 2, 0), group(2, 2, 3, 0)];
        assert_eq!(BTreeSet::from(groups).len(), 4);
        assert_eq!(group(1, 2, 3, 0), groups[0]);
    }
}
