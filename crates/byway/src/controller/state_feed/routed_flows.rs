//! Registered flows by path, for the links on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use byway_api::FlowTuple;
use byway_state::Direction;

use super::topology::Topology;

/// Registered flows by path. A flow's packets take the path of its direction, and its
/// acknowledgments that of the return direction: both are interactive.
#[derive(Debug, Default)]
pub(super) struct RoutedFlows {
    topology: Arc<Topology>,
    /// Flows as each tenant has registered them. Tenants may use different paths.
    registered: BTreeMap<(Arc<str>, FlowTuple), RoutedFlow>,
    /// Flows by the index of their path.
    paths: BTreeMap<usize, PathFlows>,
}

#[derive(Debug)]
struct RoutedFlow {
    /// Number of leases with the flow.
    leases: usize,
    /// Directions that have a path of the tenant, with its index.
    directions: Vec<(usize, FlowTuple)>,
}

#[derive(Debug, Default)]
struct PathFlows {
    /// Number of changes so far.
    revision: u64,
    /// Flows of the path's direction, with the number of registered flows that they belong to: a
    /// flow and its return direction may both be registered.
    flows: BTreeMap<FlowTuple, usize>,
}

impl RoutedFlows {
    /// Creates the table of a topology without registered flows.
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        Self { topology, ..Self::default() }
    }

    /// Adds a flow of a tenant's lease, to the paths that the tenant may use.
    pub(super) fn add(&mut self, tenant: &Arc<str>, tuple: &FlowTuple) {
        let key = (Arc::clone(tenant), *tuple);
        if let Some(flow) = self.registered.get_mut(&key) {
            flow.leases += 1;
            return;
        }
        let directions: Vec<(usize, FlowTuple)> = [*tuple, reversed(tuple)]
            .into_iter()
            .filter_map(|tuple| {
                let direction = Direction { from: tuple.from.ip(), to: tuple.to.ip() };
                self.topology.path_for(tenant, direction).map(|path| (path, tuple))
            })
            .collect();
        for (path, tuple) in &directions {
            let path = self.paths.entry(*path).or_default();
            path.revision += 1;
            *path.flows.entry(*tuple).or_default() += 1;
        }
        self.registered.insert(key, RoutedFlow { leases: 1, directions });
    }

    /// Removes a flow of a tenant's lease.
    pub(super) fn remove(&mut self, tenant: &Arc<str>, tuple: &FlowTuple) {
        let key = (Arc::clone(tenant), *tuple);
        let Some(flow) = self.registered.get_mut(&key) else { return };
        flow.leases -= 1;
        if flow.leases > 0 {
            return;
        }
        let directions = self.registered.remove(&key).map(|flow| flow.directions).unwrap_or_default();
        for (path, tuple) in directions {
            let Some(path) = self.paths.get_mut(&path) else { continue };
            path.revision += 1;
            let count = path.flows.remove(&tuple).unwrap_or_default();
            if count > 1 {
                path.flows.insert(tuple, count - 1);
            }
        }
    }

    /// Returns a number that changes with each change of the flows of some paths.
    pub(super) fn revision(&self, paths: &[usize]) -> u64 {
        paths.iter().filter_map(|path| self.paths.get(path)).map(|path| path.revision).sum()
    }

    /// Returns the flows of some paths, at most `max` of them.
    pub(super) fn of_paths(&self, paths: &[usize], max: usize) -> BTreeSet<FlowTuple> {
        let flows = paths.iter().filter_map(|path| self.paths.get(path)).flat_map(|path| path.flows.keys());
        flows.take(max).copied().collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.registered.is_empty() && self.paths.values().all(|path| path.flows.is_empty())
    }
}

/// Returns the flow of the return direction.
const fn reversed(tuple: &FlowTuple) -> FlowTuple {
    FlowTuple { from: tuple.to, to: tuple.from, protocol: tuple.protocol }
}

#[cfg(test)]
mod tests {
    use byway_api::FlowProtocol;

    use super::super::tests::topology;
    use super::*;

    fn tuple(from: &str, to: &str) -> FlowTuple {
        let [from, to] = [from, to].map(|text| text.parse().expect("an endpoint"));
        FlowTuple { from, to, protocol: FlowProtocol::Udp }
    }

    fn lab() -> Arc<str> {
        "lab".into()
    }

    fn of_path(flows: &RoutedFlows, path: usize) -> Vec<FlowTuple> {
        flows.of_paths(&[path], 100).into_iter().collect()
    }

    #[test]
    fn a_flow_is_on_the_paths_of_both_directions_while_a_lease_has_it() {
        let mut flows = RoutedFlows::new(Arc::new(topology()));
        let flow = tuple("10.0.0.2:4433", "198.51.100.7:50112");
        let back = reversed(&flow);
        flows.add(&lab(), &flow);
        flows.add(&lab(), &flow);
        assert_eq!((of_path(&flows, 0), of_path(&flows, 1)), (vec![flow], vec![back]));
        let revision = flows.revision(&[0]);
        // The other end registers what it sends.
        flows.add(&lab(), &back);
        assert_eq!(flows.of_paths(&[0, 1], 100).len(), 2);
        flows.remove(&lab(), &flow);
        assert_eq!(of_path(&flows, 0), [flow]);
        flows.remove(&lab(), &flow);
        assert_eq!(of_path(&flows, 0), [flow], "it is the return direction of another one");
        assert_ne!(flows.revision(&[0]), revision);
        flows.remove(&lab(), &back);
        flows.remove(&lab(), &back);
        assert!(flows.is_empty());
    }

    #[test]
    fn flows_without_a_path_are_on_none_and_answers_are_bounded() {
        let mut flows = RoutedFlows::new(Arc::new(topology()));
        flows.add(&lab(), &tuple("10.0.0.2:1", "192.0.2.1:2"));
        assert!(of_path(&flows, 0).is_empty() && of_path(&flows, 1).is_empty());
        for port in 1..=9 {
            flows.add(&lab(), &tuple(&format!("10.0.0.2:{port}"), "198.51.100.7:9"));
        }
        assert_eq!(flows.of_paths(&[0, 1], 100).len(), 18);
        assert_eq!(flows.of_paths(&[0, 1], 7).len(), 7);
    }

    #[test]
    fn flows_of_each_tenant_are_on_its_own_paths_only() {
        let mut flows = RoutedFlows::new(Arc::new(topology()));
        let office: Arc<str> = "office".into();
        let flow = tuple("10.0.0.2:4433", "198.51.100.7:50112");
        flows.add(&office, &flow);
        assert!(flows.of_paths(&[0, 1, 2, 3], 100).is_empty(), "its end belongs to another tenant");
        flows.add(&lab(), &flow);
        assert_eq!(of_path(&flows, 0), [flow]);
        flows.remove(&office, &flow);
        assert_eq!(of_path(&flows, 0), [flow], "the other tenant's is not removed");
        flows.remove(&lab(), &flow);
        assert!(flows.is_empty());
    }
}
