//! The shortest ways through routers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use byway_units::Duration;

/// A network as a graph: who is linked with whom, and how far away that is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// By node, its neighbours.
    links: Vec<BTreeMap<usize, Duration>>,
    passes_on: Vec<PassesOn>,
}

/// What a machine passes on of what is for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PassesOn {
    /// Nothing.
    Nothing,
    /// Everything.
    All,
    /// What is from these, and for them.
    Of(BTreeSet<usize>),
}

/// The shortest ways from one node.
#[derive(Clone, Debug)]
pub(crate) struct Ways {
    from: usize,
    /// By node: how far it is, and the one before it on the way.
    reached: Vec<Option<(Duration, usize)>>,
}

impl Graph {
    /// A network of machines, of which some pass on what is for others.
    pub(crate) fn new(passes_on: Vec<PassesOn>) -> Self {
        Self { links: vec![BTreeMap::new(); passes_on.len()], passes_on }
    }

    pub(crate) fn link(&mut self, from: usize, to: usize, delay: Duration) {
        self.links[from].insert(to, delay);
    }

    /// The shortest ways from a node (Dijkstra). Who is linked directly is reached directly.
    pub(crate) fn ways(&self, from: usize) -> Ways {
        let mut reached: Vec<Option<(Duration, usize)>> = vec![None; self.links.len()];
        let mut next = BinaryHeap::from([Reverse((Duration::ZERO, from, from))]);
        while let Some(Reverse((distance, node, before))) = next.pop() {
            if reached[node].is_some() {
                continue;
            }
            reached[node] = Some((distance, before));
            for (to, delay) in &self.links[node] {
                let is_neighbour = node != from && self.links[from].contains_key(to);
                if reached[*to].is_none() && !is_neighbour && self.passes(from, node, *to) {
                    next.push(Reverse((distance + *delay, *to, node)));
                }
            }
        }
        Ways { from, reached }
    }
}

impl Graph {
    /// Whether what is from a node goes on from another one to a third.
    fn passes(&self, from: usize, at: usize, to: usize) -> bool {
        match &self.passes_on[at] {
            _ if at == from => true,
            PassesOn::Nothing => false,
            PassesOn::All => true,
            PassesOn::Of(inside) => inside.contains(&from) || inside.contains(&to),
        }
    }
}

impl Ways {
    /// Where they begin.
    pub(crate) const fn from(&self) -> usize {
        self.from
    }

    /// How far away a node is; `None` if no way leads there.
    pub(crate) fn distance(&self, to: usize) -> Option<Duration> {
        self.reached[to].map(|(distance, _)| distance)
    }

    /// The nodes on the way, both ends included; `None` if no way leads there.
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
        let passes_on = |node| if routers.contains(&node) { PassesOn::All } else { PassesOn::Nothing };
        let mut graph = Graph::new((0..6).map(passes_on).collect());
        for (from, to, delay) in links {
            graph.link(*from, *to, Duration::from_millis(*delay));
        }
        graph
    }

    #[test]
    fn ways_are_the_shortest_and_lead_through_routers_only() {
        let links = [(0, 1, 1), (1, 5, 1), (0, 2, 5), (2, 3, 1), (3, 5, 1), (0, 3, 9)];
        let found = graph(&[2, 3], &links).ways(0);
        assert_eq!(found.path(5), Some(vec![0, 3, 5]), "node 1 passes nothing on, and 3 is a neighbour");
        assert_eq!(found.distance(5), Some(Duration::from_millis(10)));
        assert_eq!(found.path(4), None);
        let through_all = graph(&[1, 2, 3], &links).ways(0);
        assert_eq!(through_all.path(5), Some(vec![0, 1, 5]));
    }

    #[test]
    fn a_router_of_some_passes_on_what_is_from_them_or_for_them() {
        // 0 and 1 are behind 2, which is the short way between 3 and 4.
        let links = [(0, 2, 1), (1, 2, 1), (2, 3, 1), (2, 4, 1), (3, 5, 9), (5, 4, 9)];
        let both_ways: Vec<_> =
            links.iter().flat_map(|(from, to, delay)| [(*from, *to, *delay), (*to, *from, *delay)]).collect();
        let mut graph = graph(&[5], &both_ways);
        graph.passes_on[2] = PassesOn::Of([0, 1].into());
        assert_eq!(graph.ways(0).path(4), Some(vec![0, 2, 4]));
        assert_eq!(graph.ways(0).path(1), Some(vec![0, 2, 1]));
        assert_eq!(graph.ways(3).path(1), Some(vec![3, 2, 1]));
        assert_eq!(graph.ways(3).path(4), Some(vec![3, 5, 4]));
    }
}
