//! The demo's network: nodes, delays and losses.

use std::net::{Ipv4Addr, SocketAddr};

use super::limits::PAIRS_MAX;
use super::media::Video;
use super::wan::{BurstDescription, Description, LinkDescription, NodeDescription};

/// Pair whose direct path has the outage, and whose video is scored.
pub(crate) const MEASURED_PAIR: usize = 0;

/// Round trip between sender and receiver on the direct path, without jitter.
pub(crate) const ROUND_TRIP_MS: u64 = 100;

/// Latency budget of the viewer, in milliseconds from sending to delivery.
pub(crate) const DEADLINE_MS: u64 = 200;

const DIRECT_US: u64 = ROUND_TRIP_MS * 1_000 / 2;

/// Range of the one-way delay between an agent and its near relay, in microseconds. Round trips of
/// access links are 10 to 20 ms.
const ACCESS_US_MIN: u64 = 5_000;
const ACCESS_US_MAX: u64 = 10_000;

/// One-way delay between the relays. It is a little less than the rest of the direct path, because
/// data centres are well connected.
const BETWEEN_RELAYS_US: u64 = 40_000;

const JITTER_US: u64 = 5_000;

/// Loss rate of every segment except direct paths.
const SEGMENT_LOSS: f64 = 0.001;

/// Loss rate of direct paths, and the mean length of their loss bursts in packets.
const DIRECT_LOSS: f64 = 0.01;
const BURST_PACKETS: f64 = 3.0;

/// Node of the demo. Nodes of a [`Description`] have this order: both relays first, then sender and
/// receiver of each pair in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DemoNode {
    IngressRelay,
    EgressRelay,
    Sender(usize),
    Receiver(usize),
}

impl DemoNode {
    /// Returns the node's index in [`Description::nodes`].
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::IngressRelay => 0,
            Self::EgressRelay => 1,
            Self::Sender(pair) => 2 + 2 * pair,
            Self::Receiver(pair) => 3 + 2 * pair,
        }
    }

    /// Returns the node with this index in [`Description::nodes`].
    pub(crate) const fn from_index(index: usize) -> Self {
        match index {
            0 => Self::IngressRelay,
            1 => Self::EgressRelay,
            _ if index.is_multiple_of(2) => Self::Sender(index / 2 - 1),
            _ => Self::Receiver(index / 2 - 1),
        }
    }

    /// Returns the node's name in configuration files.
    pub(crate) fn name(self) -> String {
        match self {
            Self::IngressRelay => "ingress".into(),
            Self::EgressRelay => "egress".into(),
            Self::Sender(pair) => format!("sender-{}", pair + 1),
            Self::Receiver(pair) => format!("receiver-{}", pair + 1),
        }
    }
}

/// Impairments of a run's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Impairments {
    /// Delay and jitter, without losses.
    DelayOnly,
    /// All losses, and the outage.
    LossAndOutage,
}

/// Network of one run: its addresses, seed and outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DemoPlan {
    /// Second byte of all loopback addresses of the demo, because several demos may run on one
    /// machine.
    pub(crate) net: u8,
    pub(crate) pairs: usize,
    pub(crate) seed: u64,
    /// Outage of the measured pair's direct path, in milliseconds since the start: begin, end.
    pub(crate) outage_ms: (u64, u64),
}

impl DemoPlan {
    /// Returns the address at which the program of a node listens.
    pub(crate) fn real(&self, node: DemoNode) -> SocketAddr {
        self.address(1, node.index(), 4600)
    }

    /// Returns the public address of a node: a socket of the emulator, which forwards to the node's
    /// real address.
    pub(crate) fn public(&self, node: DemoNode) -> SocketAddr {
        self.address(2, node.index(), 4600)
    }

    /// Returns the address at which a sending agent receives datagrams from its application.
    pub(crate) fn forward(&self, pair: usize) -> SocketAddr {
        self.address(3, pair, 5000)
    }

    /// Returns the address to which a receiving agent delivers datagrams.
    pub(crate) fn target(&self, pair: usize) -> SocketAddr {
        self.address(4, pair, 6000)
    }

    /// Returns the address at which a node serves its status and metrics.
    pub(crate) fn observe(&self, node: DemoNode) -> SocketAddr {
        self.address(5, node.index(), 4680)
    }

    /// Returns the address from which the application of a sending agent sends.
    pub(crate) fn application(&self, pair: usize) -> SocketAddr {
        self.address(6, pair, 0)
    }

    /// Returns the address at which the controller listens.
    pub(crate) fn controller(&self) -> SocketAddr {
        self.address(7, 0, 4443)
    }

    /// Returns the address at which the controller serves its status and metrics.
    pub(crate) fn observe_controller(&self) -> SocketAddr {
        self.address(7, 0, 4680)
    }

    fn address(&self, purpose: u8, number: usize, port: u16) -> SocketAddr {
        assert!(self.pairs <= PAIRS_MAX, "the plan has addresses for {PAIRS_MAX} pairs");
        let last = u8::try_from(number + 1).unwrap_or(u8::MAX);
        (Ipv4Addr::new(127, self.net, purpose, last), port).into()
    }

    /// Lists all nodes, in the order of their indices.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = DemoNode> {
        (0..2 + 2 * self.pairs).map(DemoNode::from_index)
    }

    /// Returns the one-way delay from a sender to the ingress relay, spread evenly over the pairs.
    fn sender_access_us(&self, pair: usize) -> u64 {
        self.spread(pair)
    }

    /// Returns the one-way delay from the egress relay to a receiver, spread evenly in another
    /// order, because far senders should not always have far receivers.
    fn receiver_access_us(&self, pair: usize) -> u64 {
        self.spread(if self.pairs.is_multiple_of(3) { self.pairs - 1 - pair } else { pair * 3 % self.pairs })
    }

    fn spread(&self, step: usize) -> u64 {
        let steps = (self.pairs as u64).saturating_sub(1).max(1);
        ACCESS_US_MIN + (ACCESS_US_MAX - ACCESS_US_MIN) * step as u64 / steps
    }

    /// Returns the least time that a cooperative repair takes, in milliseconds, as the mean over
    /// all pairs. It consists of the gap that reveals the loss, a round trip between receiver and
    /// egress relay, and one to the farthest helper.
    pub(crate) fn floor_ms(&self) -> f64 {
        let farthest = (0..self.pairs).map(|pair| self.receiver_access_us(pair)).max().unwrap_or_default();
        let own: u64 = (0..self.pairs).map(|pair| self.receiver_access_us(pair)).sum();
        let trips_us = 2.0 * own as f64 / self.pairs as f64 + 2.0 * farthest as f64;
        Video::INTERVAL_NANOS as f64 / 1e6 + trips_us / 1e3
    }

    /// Returns the description of the network for the emulator.
    pub(crate) fn description(&self, impairments: Impairments) -> Description {
        let nodes = self.nodes().map(|node| NodeDescription {
            name: node.name(),
            real: self.real(node),
            public: self.public(node),
        });
        let mut links =
            Self::both_directions(DemoNode::IngressRelay, DemoNode::EgressRelay, BETWEEN_RELAYS_US);
        for pair in 0..self.pairs {
            let (sender, receiver) = (DemoNode::Sender(pair), DemoNode::Receiver(pair));
            let (near, far) = (self.sender_access_us(pair), self.receiver_access_us(pair));
            links.extend(Self::both_directions(sender, DemoNode::IngressRelay, near));
            links.extend(Self::both_directions(sender, DemoNode::EgressRelay, BETWEEN_RELAYS_US + near));
            links.extend(Self::both_directions(receiver, DemoNode::EgressRelay, far));
            links.extend(Self::both_directions(receiver, DemoNode::IngressRelay, BETWEEN_RELAYS_US + far));
            links.extend(Self::both_directions(sender, receiver, DIRECT_US));
        }
        if impairments == Impairments::LossAndOutage {
            for link in &mut links {
                self.impair(link);
            }
        }
        Description { seed: self.seed, nodes: nodes.collect(), links }
    }

    fn both_directions(one: DemoNode, other: DemoNode, delay_us: u64) -> Vec<LinkDescription> {
        let directions = [(one, other), (other, one)];
        let link = |(from, to): (DemoNode, DemoNode)| {
            LinkDescription::clean(from.index(), to.index(), delay_us, JITTER_US)
        };
        directions.map(link).into()
    }

    fn impair(&self, link: &mut LinkDescription) {
        let ends = (DemoNode::from_index(link.from), DemoNode::from_index(link.to));
        let ((DemoNode::Sender(pair), DemoNode::Receiver(_))
        | (DemoNode::Receiver(pair), DemoNode::Sender(_))) = ends
        else {
            link.loss = SEGMENT_LOSS;
            return;
        };
        link.bursts = Some(BurstDescription {
            loss: DIRECT_LOSS,
            mean_packets: BURST_PACKETS,
            interval_us: Video::INTERVAL_NANOS / 1_000,
        });
        if pair == MEASURED_PAIR && self.outage_ms.0 < self.outage_ms.1 {
            link.outages_ms = vec![self.outage_ms];
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const PLAN: DemoPlan = DemoPlan { net: 77, pairs: 8, seed: 1, outage_ms: (4_000, 9_000) };

    #[test]
    fn places_are_numbered_without_gaps_and_known_again() {
        for (number, node) in PLAN.nodes().enumerate() {
            assert_eq!((node.index(), DemoNode::from_index(number)), (number, node));
        }
        assert_eq!(PLAN.nodes().count(), 18);
    }

    #[test]
    fn no_two_addresses_are_the_same_and_all_are_of_the_loopback() {
        let mut all = vec![PLAN.controller()];
        for node in PLAN.nodes() {
            all.extend([PLAN.real(node), PLAN.public(node), PLAN.observe(node)]);
        }
        for pair in 0..PLAN.pairs {
            all.extend([PLAN.forward(pair), PLAN.target(pair), PLAN.application(pair)]);
        }
        assert_eq!(all.iter().map(SocketAddr::ip).collect::<BTreeSet<_>>().len(), all.len());
        assert!(all.iter().all(|address| address.ip().is_loopback()));
    }

    #[test]
    fn only_the_measured_pairs_path_goes_dark_and_only_direct_paths_lose_bursts() {
        let description = PLAN.description(Impairments::LossAndOutage);
        let with_outage: Vec<_> = description
            .links
            .iter()
            .filter(|link| !link.outages_ms.is_empty())
            .map(|link| (link.from, link.to))
            .collect();
        let (sender, receiver) = (DemoNode::Sender(0).index(), DemoNode::Receiver(0).index());
        assert_eq!(with_outage, [(sender, receiver), (receiver, sender)]);
        assert_eq!(description.links.iter().filter(|link| link.bursts.is_some()).count(), 16);
        assert!(description.links.iter().all(|link| (link.loss > 0.0) != link.bursts.is_some()));
        let fair = PLAN.description(Impairments::DelayOnly);
        assert!(
            fair.links
                .iter()
                .all(|link| link.loss == 0.0 && link.bursts.is_none() && link.outages_ms.is_empty())
        );
    }

    #[test]
    fn access_round_trips_are_ten_to_twenty_milliseconds() {
        for access in [DemoPlan::sender_access_us, DemoPlan::receiver_access_us] {
            let delays: BTreeSet<_> = (0..8).map(|pair| access(&PLAN, pair)).collect();
            assert_eq!((delays.first(), delays.last(), delays.len()), (Some(&5_000), Some(&10_000), 8));
        }
        assert!((PLAN.floor_ms() - (7.018 + 15.0 + 20.0)).abs() < 0.1, "{}", PLAN.floor_ms());
    }
}
