//! The demo's network: who is where, how far apart, and what is lost between them.

use std::net::{Ipv4Addr, SocketAddr};

use super::limits::PAIRS_MAX;
use super::media::Video;
use super::wan::{BurstDescription, Description, LinkDescription, NodeDescription};

/// The pair whose path goes dark, and whose video is looked at.
pub(crate) const MEASURED_PAIR: usize = 0;

/// The round trip between sender and receiver, without jitter.
pub(crate) const ROUND_TRIP_MS: u64 = 100;

/// What comes later than this after it was sent is of no use to the viewer.
pub(crate) const DEADLINE_MS: u64 = 200;

const DIRECT_US: u64 = ROUND_TRIP_MS * 1_000 / 2;

/// From agent to its near relay: between these, one way; access round trips are 10 to 20 ms.
const ACCESS_US_MIN: u64 = 5_000;
const ACCESS_US_MAX: u64 = 10_000;

/// From relay to relay: a little less than what is left of the direct path, as data centres are well connected.
const BETWEEN_RELAYS_US: u64 = 40_000;

const JITTER_US: u64 = 5_000;

/// What every segment loses but direct paths.
const SEGMENT_LOSS: f64 = 0.001;

/// What direct paths lose, and in bursts of what mean length.
const DIRECT_LOSS: f64 = 0.01;
const BURST_PACKETS: f64 = 3.0;

/// Who runs where. The places of a description are in this order: relays first, then sender and receiver in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    IngressRelay,
    EgressRelay,
    Sender(usize),
    Receiver(usize),
}

impl Node {
    /// Its place in the description.
    pub(crate) const fn place(self) -> usize {
        match self {
            Self::IngressRelay => 0,
            Self::EgressRelay => 1,
            Self::Sender(pair) => 2 + 2 * pair,
            Self::Receiver(pair) => 3 + 2 * pair,
        }
    }

    /// Who is at this place.
    pub(crate) const fn at(place: usize) -> Self {
        match place {
            0 => Self::IngressRelay,
            1 => Self::EgressRelay,
            _ if place.is_multiple_of(2) => Self::Sender(place / 2 - 1),
            _ => Self::Receiver(place / 2 - 1),
        }
    }

    /// Its name in configuration files.
    pub(crate) fn name(self) -> String {
        match self {
            Self::IngressRelay => "ingress".into(),
            Self::EgressRelay => "egress".into(),
            Self::Sender(pair) => format!("sender-{}", pair + 1),
            Self::Receiver(pair) => format!("receiver-{}", pair + 1),
        }
    }
}

/// What a run's network does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Delay and jitter only.
    Fair,
    /// All losses, and the outage.
    Foul,
}

/// The network of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The second byte of all addresses: several demos may run on one machine.
    pub(crate) net: u8,
    pub(crate) pairs: usize,
    pub(crate) seed: u64,
    /// When the measured pair's path is dark, in milliseconds since the start: from, until.
    pub(crate) outage_ms: (u64, u64),
}

impl Plan {
    /// Where the program of a node listens.
    pub(crate) fn real(&self, node: Node) -> SocketAddr {
        self.address(1, node.place(), 4600)
    }

    /// By which address others know it: one of the emulator's.
    pub(crate) fn public(&self, node: Node) -> SocketAddr {
        self.address(2, node.place(), 4600)
    }

    /// Where a sending agent takes datagrams from its application.
    pub(crate) fn forward(&self, pair: usize) -> SocketAddr {
        self.address(3, pair, 5000)
    }

    /// Where a receiving agent delivers them.
    pub(crate) fn target(&self, pair: usize) -> SocketAddr {
        self.address(4, pair, 6000)
    }

    /// Where a node tells how it is.
    pub(crate) fn observe(&self, node: Node) -> SocketAddr {
        self.address(5, node.place(), 4680)
    }

    /// From where the application of a sending agent sends.
    pub(crate) fn application(&self, pair: usize) -> SocketAddr {
        self.address(6, pair, 0)
    }

    /// Where the controller listens.
    pub(crate) fn controller(&self) -> SocketAddr {
        self.address(7, 0, 4443)
    }

    /// Where the controller tells how it is.
    pub(crate) fn observe_controller(&self) -> SocketAddr {
        self.address(7, 0, 4680)
    }

    fn address(&self, purpose: u8, number: usize, port: u16) -> SocketAddr {
        assert!(self.pairs <= PAIRS_MAX, "the plan has addresses for {PAIRS_MAX} pairs");
        let last = u8::try_from(number + 1).unwrap_or(u8::MAX);
        (Ipv4Addr::new(127, self.net, purpose, last), port).into()
    }

    /// All nodes, in the order of their places.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        (0..2 + 2 * self.pairs).map(Node::at)
    }

    /// One way from a sender to the ingress relay: spread evenly.
    fn sender_access_us(&self, pair: usize) -> u64 {
        self.spread(pair)
    }

    /// One way from the egress relay to a receiver: spread evenly in another order, so that far senders do not always have
    /// far receivers.
    fn receiver_access_us(&self, pair: usize) -> u64 {
        self.spread(if self.pairs.is_multiple_of(3) { self.pairs - 1 - pair } else { pair * 3 % self.pairs })
    }

    fn spread(&self, step: usize) -> u64 {
        let steps = (self.pairs as u64).saturating_sub(1).max(1);
        ACCESS_US_MIN + (ACCESS_US_MAX - ACCESS_US_MIN) * step as u64 / steps
    }

    /// The least time that a cooperative repair takes, in milliseconds: the gap that betrays a loss, a round trip between
    /// receiver and egress relay, and one to the farthest of those who help. The mean over all pairs.
    pub(crate) fn floor_ms(&self) -> f64 {
        let farthest = (0..self.pairs).map(|pair| self.receiver_access_us(pair)).max().unwrap_or_default();
        let own: u64 = (0..self.pairs).map(|pair| self.receiver_access_us(pair)).sum();
        let trips_us = 2.0 * own as f64 / self.pairs as f64 + 2.0 * farthest as f64;
        Video::INTERVAL_NANOS as f64 / 1e6 + trips_us / 1e3
    }

    /// What the emulator is told.
    pub(crate) fn description(&self, weather: Weather) -> Description {
        let nodes = self.nodes().map(|node| NodeDescription {
            name: node.name(),
            real: self.real(node),
            public: self.public(node),
        });
        let mut links = Self::both_ways(Node::IngressRelay, Node::EgressRelay, BETWEEN_RELAYS_US);
        for pair in 0..self.pairs {
            let (sender, receiver) = (Node::Sender(pair), Node::Receiver(pair));
            let (near, far) = (self.sender_access_us(pair), self.receiver_access_us(pair));
            links.extend(Self::both_ways(sender, Node::IngressRelay, near));
            links.extend(Self::both_ways(sender, Node::EgressRelay, BETWEEN_RELAYS_US + near));
            links.extend(Self::both_ways(receiver, Node::EgressRelay, far));
            links.extend(Self::both_ways(receiver, Node::IngressRelay, BETWEEN_RELAYS_US + far));
            links.extend(Self::both_ways(sender, receiver, DIRECT_US));
        }
        if weather == Weather::Foul {
            for link in &mut links {
                self.spoil(link);
            }
        }
        Description { seed: self.seed, nodes: nodes.collect(), links }
    }

    fn both_ways(one: Node, other: Node, delay_us: u64) -> Vec<LinkDescription> {
        let ways = [(one, other), (other, one)];
        let link =
            |(from, to): (Node, Node)| LinkDescription::clean(from.place(), to.place(), delay_us, JITTER_US);
        ways.map(link).into()
    }

    fn spoil(&self, link: &mut LinkDescription) {
        let ends = (Node::at(link.from), Node::at(link.to));
        let ((Node::Sender(pair), Node::Receiver(_)) | (Node::Receiver(pair), Node::Sender(_))) = ends else {
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

    const PLAN: Plan = Plan { net: 77, pairs: 8, seed: 1, outage_ms: (4_000, 9_000) };

    #[test]
    fn places_are_numbered_without_gaps_and_known_again() {
        for (place, node) in PLAN.nodes().enumerate() {
            assert_eq!((node.place(), Node::at(place)), (place, node));
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
        let description = PLAN.description(Weather::Foul);
        let dark: Vec<_> = description
            .links
            .iter()
            .filter(|link| !link.outages_ms.is_empty())
            .map(|link| (link.from, link.to))
            .collect();
        let (sender, receiver) = (Node::Sender(0).place(), Node::Receiver(0).place());
        assert_eq!(dark, [(sender, receiver), (receiver, sender)]);
        assert_eq!(description.links.iter().filter(|link| link.bursts.is_some()).count(), 16);
        assert!(description.links.iter().all(|link| (link.loss > 0.0) != link.bursts.is_some()));
        let fair = PLAN.description(Weather::Fair);
        assert!(
            fair.links
                .iter()
                .all(|link| link.loss == 0.0 && link.bursts.is_none() && link.outages_ms.is_empty())
        );
    }

    #[test]
    fn access_round_trips_are_ten_to_twenty_milliseconds() {
        for access in [Plan::sender_access_us, Plan::receiver_access_us] {
            let delays: BTreeSet<_> = (0..8).map(|pair| access(&PLAN, pair)).collect();
            assert_eq!((delays.first(), delays.last(), delays.len()), (Some(&5_000), Some(&10_000), 8));
        }
        assert!((PLAN.floor_ms() - (7.018 + 15.0 + 20.0)).abs() < 0.1, "{}", PLAN.floor_ms());
    }
}
