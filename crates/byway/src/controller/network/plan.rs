//! Plan of the relay paths and coding groups of all pairings in a network.

use std::collections::{BTreeMap, BTreeSet};

use byway_proto::conventions::relay_paths;

use super::{Digest, Network, NodeRecord};
use crate::controller::limits::PAIRINGS_PER_GROUP_MAX;

/// Number in coding groups for all tenants that share coding. No tenant has it, because tenants are
/// numbered from 1.
const SHARING_TENANTS: u32 = 0;

/// Relay path that the plan gives the flows from one agent to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PlannedPath {
    /// Number of the relay near the sender.
    pub(crate) ingress: u32,
    /// Number of the relay near the receiver.
    pub(crate) egress: u32,
    /// Number of the coding group whose flows may share batches.
    pub(crate) group: u32,
}

/// Relay paths of all pairings of the present network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathPlan {
    paths: BTreeMap<(u32, u32), Vec<PlannedPath>>,
    links: BTreeMap<u32, BTreeSet<u32>>,
    /// Number of pairings of each coding group.
    pairings_per_group: BTreeMap<u32, usize>,
}

impl PathPlan {
    /// Plans the paths of a network. The plan depends on the network's state alone, and is the same
    /// after a restart of the controller.
    pub(crate) fn of(network: &Network) -> Self {
        let mut plan = Self::default();
        let orders: BTreeMap<_, _> =
            network.nodes().map(|node| (node.number, network.relays_by_distance(node))).collect();
        // Pairings of each tenant, or of all that share coding, between two relays so far, and the
        // coding group of the latest.
        // A fixed number of them, in their order, share a coding group.
        let mut latest: BTreeMap<(u32, u32, u32), (usize, u32)> = BTreeMap::new();
        let directions = network.pairs().flat_map(|pair| {
            let [one, other] = pair.agents();
            [(one, other), (other, one)]
        });
        for (sender, receiver) in directions {
            let owner = network.node(sender);
            let tenant = match owner {
                Some(sender) if network.shares_coding(sender) => SHARING_TENANTS,
                _ => owner.and_then(|sender| sender.tenant).unwrap_or_default(),
            };
            let paths = relay_paths(&orders[&sender], &orders[&receiver]);
            let paths = paths.into_iter().map(|(ingress, egress)| {
                let (count, latest_group) = latest.entry((tenant, ingress, egress)).or_default();
                if count.is_multiple_of(PAIRINGS_PER_GROUP_MAX) {
                    *latest_group = group(tenant, ingress, egress, *count / PAIRINGS_PER_GROUP_MAX);
                }
                *count += 1;
                PlannedPath { ingress, egress, group: *latest_group }
            });
            plan.add((sender, receiver), paths.collect());
        }
        plan
    }

    fn add(&mut self, direction: (u32, u32), paths: Vec<PlannedPath>) {
        for path in &paths {
            *self.pairings_per_group.entry(path.group).or_default() += 1;
        }
        for path in paths.iter().filter(|path| path.ingress != path.egress) {
            self.links.entry(path.ingress).or_default().insert(path.egress);
            self.links.entry(path.egress).or_default().insert(path.ingress);
        }
        self.paths.insert(direction, paths);
    }

    /// Returns the relay paths from one agent to another, best first; none if the agents are not
    /// paired.
    pub(crate) fn paths(&self, sender: u32, receiver: u32) -> &[PlannedPath] {
        self.paths.get(&(sender, receiver)).map_or(&[], Vec::as_slice)
    }

    /// True if a coding group has several pairings, whose flows can be coded together.
    pub(crate) fn has_coding_peers(&self, group: u32) -> bool {
        self.pairings_per_group.get(&group).is_some_and(|pairings| *pairings > 1)
    }

    /// Returns the numbers of the members whose paths differ from those of a former plan: agents,
    /// and relays that exchange packets with other relays than before.
    pub(super) fn members_with_other_paths(&self, former: &Self) -> BTreeSet<u32> {
        let (mut members, none) = (BTreeSet::new(), BTreeSet::new());
        for (direction, paths) in &self.paths {
            let is_same =
                |path: &PlannedPath| self.has_coding_peers(path.group) == former.has_coding_peers(path.group);
            if former.paths.get(direction) != Some(paths) || !paths.iter().all(is_same) {
                members.extend(<[u32; 2]>::from(*direction));
            }
        }
        for relay in self.links.keys().chain(former.links.keys()) {
            if self.links.get(relay).unwrap_or(&none) != former.links.get(relay).unwrap_or(&none) {
                members.insert(*relay);
            }
        }
        members
    }

    /// Returns the numbers of the relays with which a relay exchanges packets.
    pub(crate) fn links(&self, relay: u32) -> impl Iterator<Item = u32> {
        self.links.get(&relay).into_iter().flatten().copied()
    }
}

impl Network {
    /// Returns the relay near an agent: the preferred one, otherwise the nearest measured one,
    /// otherwise the first.
    pub(crate) fn near_relay(&self, node: &NodeRecord) -> Option<u32> {
        self.relays_by_distance(node).first().copied()
    }

    /// Returns all relays in the order of their distance from an agent: the preferred and the
    /// nearest one first, then by the round trip, and unmeasured ones last.
    pub(super) fn relays_by_distance(&self, node: &NodeRecord) -> Vec<u32> {
        let rank = |relay: &NodeRecord| {
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

/// Returns the number of a coding group, a hash of its parameters. Two groups with the same number
/// are harmless, because relays separate egress relays, and tenants that do not share coding.
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
