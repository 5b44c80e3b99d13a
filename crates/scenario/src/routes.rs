//! Shortest paths through routers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use byway_units::Duration;

/// Network as a graph of machines, with the delays of its links.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Neighbours of each machine, with the link's delay.
    links: Vec<BTreeMap<usize, Duration>>,
    policies: Vec<ForwardingPolicy>,
}

/// Selection of other machines' packets that a machine forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForwardingPolicy {
    /// The machine forwards no packets.
    Nothing,
    /// The machine forwards all packets.
    All,
    /// The machine forwards packets from and to these machines, which are behind it.
    Of(BTreeSet<usize>),
}

/// Shortest paths from one machine to all others.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    from: usize,
    /// Distance of each machine, and the previous machine on the path; `None` without a path.
    reached: Vec<Option<(Duration, usize)>>,
}

/// Cache of the shortest paths from one machine: those from all machines would take too much
/// memory.
pub(crate) struct RouteCache<'a> {
    graph: &'a Graph,
    routes: Option<Routes>,
}

impl<'a> RouteCache<'a> {
    pub(crate) const fn new(graph: &'a Graph) -> Self {
        Self { graph, routes: None }
    }

    /// Returns the shortest paths from a machine.
    pub(crate) fn routes_from(&mut self, from: usize) -> &Routes {
        let graph = self.graph;
        match &mut self.routes {
            Some(routes) if routes.from == from => {}
            other => *other = Some(graph.routes_from(from)),
        }
        self.routes.as_ref().expect("it was just found")
    }
}

impl Graph {
    /// Creates a network without links, of machines with these forwarding policies.
    pub(crate) fn new(policies: Vec<ForwardingPolicy>) -> Self {
        Self { links: vec![BTreeMap::new(); policies.len()], policies }
    }

    pub(crate) fn link(&mut self, from: usize, to: usize, delay: Duration) {
        self.links[from].insert(to, delay);
    }

    /// Returns the shortest paths from a machine (Dijkstra). A direct link always takes precedence.
    pub(crate) fn routes_from(&self, from: usize) -> Routes {
        let mut reached: Vec<Option<(Duration, usize)>> = vec![None; self.links.len()];
        let mut next = BinaryHeap::from([Reverse((Duration::ZERO, from, from))]);
        while let Some(Reverse((distance, node, before))) = next.pop() {
            if reached[node].is_some() {
                continue;
            }
            reached[node] = Some((distance, before));
            for (to, delay) in &self.links[node] {
                let is_neighbour = node != from && self.links[from].contains_key(to);
                if reached[*to].is_none() && !is_neighbour && self.forwards(from, node, *to) {
                    next.push(Reverse((distance + *delay, *to, node)));
                }
            }
        }
        Routes { from, reached }
    }
}

impl Graph {
    /// True if machine `at` forwards packets from `from` that go to `to`.
    fn forwards(&self, from: usize, at: usize, to: usize) -> bool {
        match &self.policies[at] {
            _ if at == from => true,
            ForwardingPolicy::Nothing => false,
            ForwardingPolicy::All => true,
            ForwardingPolicy::Of(inside) => inside.contains(&from) || inside.contains(&to),
        }
    }
}

impl Routes {
    /// Returns the delay of the path to a machine; `None` without a path.
    pub(crate) fn distance(&self, to: usize) -> Option<Duration> {
        self.reached[to].map(|(distance, _)| distance)
    }

    /// Returns the machines on the path to a machine, both ends included; `None` without a path.
    pub(crate) fn path(&self, to: usize) -> Option<Vec<usize>> {
        let mut path = vec![to];
        let mut node = to;
        while node != self.from {
            node = self.reached[node]?.1;
            path.push(node);
        }
        path.reverse();
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(routers: &[usize], links: &[(usize, usize, u64)]) -> Graph {
        let policy =
            |node| if routers.contains(&node) { ForwardingPolicy::All } else { ForwardingPolicy::Nothing };
        let mut graph = Graph::new((0..6).map(policy).collect());
        for (from, to, delay) in links {
            graph.link(*from, *to, Duration::from_millis(*delay));
        }
        graph
    }

    #[test]
    fn ways_are_the_shortest_and_lead_through_routers_only() {
        let links = [(0, 1, 1), (1, 5, 1), (0, 2, 5), (2, 3, 1), (3, 5, 1), (0, 3, 9)];
        let found = graph(&[2, 3], &links).routes_from(0);
        assert_eq!(found.path(5), Some(vec![0, 3, 5]), "node 1 passes nothing on, and 3 is a neighbour");
        assert_eq!(found.distance(5), Some(Duration::from_millis(10)));
        assert_eq!(found.path(4), None);
        let through_all = graph(&[1, 2, 3], &links).routes_from(0);
        assert_eq!(through_all.path(5), Some(vec![0, 1, 5]));
    }

    #[test]
    fn a_router_of_some_passes_on_what_is_from_them_or_for_them() {
        // 0 and 1 are behind 2, which is on the short path between 3 and 4.
        let links = [(0, 2, 1), (1, 2, 1), (2, 3, 1), (2, 4, 1), (3, 5, 9), (5, 4, 9)];
        let both_ways: Vec<_> =
            links.iter().flat_map(|(from, to, delay)| [(*from, *to, *delay), (*to, *from, *delay)]).collect();
        let mut graph = graph(&[5], &both_ways);
        graph.policies[2] = ForwardingPolicy::Of([0, 1].into());
        assert_eq!(graph.routes_from(0).path(4), Some(vec![0, 2, 4]));
        assert_eq!(graph.routes_from(0).path(1), Some(vec![0, 2, 1]));
        assert_eq!(graph.routes_from(3).path(1), Some(vec![3, 2, 1]));
        assert_eq!(graph.routes_from(3).path(4), Some(vec![3, 5, 4]));
    }
}
