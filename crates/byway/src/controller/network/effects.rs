//! Effects of changes on maps: which members' maps a change of the network may alter.
//!
//! Most changes are round trips that agents report, and most of these alter no map. Comparing the
//! maps of all members after each of them would cost far more than the changes themselves.

use std::collections::BTreeSet;

use byway_api::Role;
use byway_proto::conventions::relay_paths;

use super::{Change, Network, NodeRecord, PathPlan};

/// Members whose maps a change of the network may alter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AffectedMembers {
    /// All members, because the maps of all agents list the relays.
    All,
    /// Members with these numbers; none if no map differs.
    Only(BTreeSet<u32>),
}

impl AffectedMembers {
    /// True if no map differs.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::Only(BTreeSet::new())
    }

    fn add(&mut self, more: Self) {
        match (self, more) {
            (Self::All, _) => {}
            (Self::Only(members), Self::Only(more)) => members.extend(more),
            (all, Self::All) => *all = Self::All,
        }
    }
}

/// Applies changes to a network and to the plan of its paths. Returns the members whose maps may
/// differ from then on.
pub(crate) fn apply(network: &mut Network, plan: &mut PathPlan, changes: &[Change]) -> AffectedMembers {
    let mut affected = AffectedMembers::Only(BTreeSet::new());
    let mut is_planned = true;
    for change in changes {
        affected.add(described_to(network, change));
        is_planned &= plan.survives(change, network);
        network.apply(std::slice::from_ref(change));
    }
    if !is_planned {
        let former = std::mem::replace(plan, PathPlan::of(network));
        affected.add(AffectedMembers::Only(plan.members_with_other_paths(&former)));
    }
    affected
}

/// Returns the members whose maps describe what a change alters, besides paths. The change is not
/// applied yet.
fn described_to(network: &Network, change: &Change) -> AffectedMembers {
    match change {
        Change::Counters(_) | Change::Tenant(_) | Change::Token(_) | Change::NoToken(_) => {
            AffectedMembers::Only(BTreeSet::new())
        }
        Change::Pair(pair) | Change::NoPair(pair) => AffectedMembers::Only(pair.agents().into()),
        Change::Node(node) => match network.node(node.number) {
            Some(known) if known.is_same_in_maps(node) => AffectedMembers::Only(BTreeSet::new()),
            _ => described_member(network, node),
        },
        Change::NoNode(number) => {
            network.node(*number).map_or(AffectedMembers::All, |node| described_member(network, node))
        }
    }
}

/// Returns the members whose maps describe this one: all for a relay.
fn described_member(network: &Network, node: &NodeRecord) -> AffectedMembers {
    match node.role {
        Role::Relay => AffectedMembers::All,
        Role::Agent => AffectedMembers::Only(network.partners(node.number).chain([node.number]).collect()),
        Role::Link | Role::Application => AffectedMembers::Only([node.number].into()),
    }
}

impl PathPlan {
    /// True if a change of the network, which is not applied yet, leaves this plan as it is.
    fn survives(&self, change: &Change, network: &Network) -> bool {
        match change {
            Change::Counters(_) | Change::Tenant(_) | Change::Token(_) | Change::NoToken(_) => true,
            Change::Node(node) => match network.node(node.number) {
                // A new agent has no pairs, and a link has no paths of the overlay.
                None => node.role != Role::Relay,
                Some(known) => known.is_same_in_maps(node) && self.has_paths_of(node, network),
            },
            Change::NoNode(_) | Change::Pair(_) | Change::NoPair(_) => false,
        }
    }

    /// True if the pairs of an agent with this record use the relays of this plan.
    fn has_paths_of(&self, agent: &NodeRecord, network: &Network) -> bool {
        let own = network.relays_by_distance(agent);
        let mut partners = network.partners(agent.number).filter_map(|partner| network.node(partner));
        partners.all(|partner| {
            let others = network.relays_by_distance(partner);
            let is_planned = |sender: u32, receiver: u32, orders: [&[u32]; 2]| {
                let planned = self.paths(sender, receiver).iter().map(|path| (path.ingress, path.egress));
                planned.eq(relay_paths(orders[0], orders[1]))
            };
            is_planned(agent.number, partner.number, [&own, &others])
                && is_planned(partner.number, agent.number, [&others, &own])
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use byway_api::SelfUpdate;
    use byway_units::Rate;
    use byway_wire::seal::SigningKey;
    use proptest::prelude::*;

    use super::super::{Digest, GrantIssuer, GrantSettings, Pair};
    use super::*;

    const NOW: u64 = 1_800_000_000;

    /// Numbers of agents and relays in tests.
    const AGENTS: std::ops::Range<u32> = 1..7;
    const RELAYS: std::ops::Range<u32> = 11..15;

    fn node(number: u32) -> NodeRecord {
        let role = if RELAYS.contains(&number) { Role::Relay } else { Role::Agent };
        NodeRecord {
            number,
            role,
            tenant: (role == Role::Agent).then_some(1),
            name: format!("{role}-{number}"),
            key: Digest([u8::try_from(number).expect("few nodes"); 32]),
            addresses: vec!["192.0.2.1:4600".parse().expect("an address")],
            shards: 1,
            bearer: Digest([0; 32]),
            token: 1,
            round_trips: BTreeMap::new(),
            nearest: None,
            relay: None,
            transit: false,
        }
    }

    /// Network and its plan, and an issuer, which remembers its signatures.
    struct Planned {
        network: Network,
        plan: PathPlan,
        issuer: GrantIssuer,
    }

    impl Planned {
        /// Creates a network of all agents and relays, whose round trips differ.
        fn new() -> Self {
            let settings = GrantSettings {
                lifetime: Duration::from_secs(172_800),
                rate: Rate::from_megabits_per_second(100),
            };
            let issuer = GrantIssuer::new(SigningKey::from_seed(&[5; 32]), settings);
            let mut planned = Self { network: Network::default(), plan: PathPlan::default(), issuer };
            for number in RELAYS.chain(AGENTS) {
                let mut node = node(number);
                if node.role == Role::Agent {
                    let round_trip = |relay: u32| 10_000 + u64::from(relay * 7_919 * number % 997) * 100;
                    node.round_trips = RELAYS.map(|relay| (relay, round_trip(relay))).collect();
                }
                planned.apply(Change::Node(Box::new(node)));
            }
            planned
        }

        fn apply(&mut self, change: Change) -> AffectedMembers {
            apply(&mut self.network, &mut self.plan, &[change])
        }

        /// Applies the change of a node's record.
        fn alter(&mut self, number: u32, alter: impl FnOnce(&mut NodeRecord)) -> AffectedMembers {
            let mut node = self.network.node(number).cloned().unwrap_or_else(|| node(number));
            alter(&mut node);
            self.apply(Change::Node(Box::new(node)))
        }

        /// Returns the maps of all members, with a new plan.
        fn maps(&mut self) -> BTreeMap<u32, byway_api::NetworkMap> {
            let Self { network, issuer, .. } = self;
            let plan = PathPlan::of(network);
            let map = |node: &NodeRecord| (node.number, network.contents(node, &plan, issuer, NOW).map);
            network.nodes().map(map).collect()
        }
    }

    /// Kinds of changes, with two numbers and a round trip to choose their details.
    fn change(kind: u8, [one, other]: [u32; 2], round_trip: u64, planned: &mut Planned) -> AffectedMembers {
        let [agent, peer] = [one, other].map(|number| AGENTS.start + number % (AGENTS.end - AGENTS.start));
        let relay = RELAYS.start + other % (RELAYS.end - RELAYS.start);
        let has_agents = [agent, peer].iter().all(|number| planned.network.node(*number).is_some());
        match kind {
            0 if agent != peer && has_agents => planned.apply(Change::Pair(Pair::new(agent, peer))),
            1 => planned.apply(Change::NoPair(Pair::new(agent, peer))),
            2 => planned.alter(relay, |node| node.shards = u16::try_from(round_trip % 4 + 1).expect("few")),
            3 => planned.apply(Change::NoNode(relay)),
            4 => planned.alter(agent, |node| node.addresses[0].set_port(one.to_be_bytes()[3].into())),
            5 => planned.alter(agent, |node| node.relay = Some(format!("relay-{relay}"))),
            6 => planned.alter(agent, |node| node.bearer = Digest([1; 32])),
            7 => planned.alter(relay, |node| node.transit = round_trip.is_multiple_of(2)),
            _ => planned.alter(agent, |node| {
                node.round_trips.insert(relay, round_trip);
            }),
        }
    }

    /// Returns the relays on a relay's map.
    fn relays_of(planned: &mut Planned, relay: u32) -> Vec<u32> {
        planned.maps()[&relay].relays.iter().map(|entry| entry.number).collect()
    }

    #[test]
    fn a_relay_that_passes_on_packets_and_all_others_have_each_other_on_their_maps() {
        let mut planned = Planned::new();
        let update = SelfUpdate { transit: Some(true), ..SelfUpdate::default() };
        let report = |planned: &mut Planned, number: u32, update: &SelfUpdate| {
            let decision = planned.network.update(number, update).expect("it is a member");
            decision.changes.into_iter().map(|change| planned.apply(change)).collect::<Vec<_>>()
        };
        assert_eq!(relays_of(&mut planned, 11), [0_u32; 0]);
        assert_eq!(report(&mut planned, 13, &update), [AffectedMembers::All]);
        assert_eq!(report(&mut planned, 13, &update), [], "it is so already");
        assert_eq!(report(&mut planned, 1, &update), [], "an agent passes on nothing");
        assert_eq!((relays_of(&mut planned, 11), relays_of(&mut planned, 12)), (vec![13], vec![13]));
        assert_eq!(relays_of(&mut planned, 13), [11, 12, 14]);
        let update = SelfUpdate { transit: Some(false), ..update };
        assert_eq!(report(&mut planned, 13, &update), [AffectedMembers::All]);
        assert_eq!((relays_of(&mut planned, 11), relays_of(&mut planned, 13)), (vec![], vec![]));
    }

    proptest! {
        #[test]
        fn the_maps_of_members_that_are_not_affected_stay_as_they_are(
            changes in proptest::collection::vec((0..12_u8, any::<[u32; 2]>(), 1..100_000_u64), 1..60),
        ) {
            let mut planned = Planned::new();
            for pair in [[1, 2], [2, 3], [3, 4], [1, 5]] {
                planned.apply(Change::Pair(Pair::new(pair[0], pair[1])));
            }
            for (kind, numbers, round_trip) in changes {
                let before = planned.maps();
                let affected = change(kind, numbers, round_trip, &mut planned);
                prop_assert_eq!(&planned.plan, &PathPlan::of(&planned.network), "{}", kind);
                if let AffectedMembers::Only(affected) = affected {
                    for (number, map) in planned.maps() {
                        let is_same = before.get(&number).is_none_or(|before| *before == map);
                        prop_assert!(is_same || affected.contains(&number), "{number} by {kind}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_round_trip_that_changes_no_path_affects_nobody_and_one_that_does_affects_both_ends() {
        let mut planned = Planned::new();
        for pair in [[1, 2], [3, 4], [5, 6]] {
            planned.apply(Change::Pair(Pair::new(pair[0], pair[1])));
        }
        let [nearest, .., farthest] = planned.network.relays_by_distance(&planned.network.nodes[&1])[..]
        else {
            panic!("there are several relays")
        };
        let moved_from = |relay: u32| {
            move |node: &mut NodeRecord| {
                node.round_trips.insert(relay, 900_000);
            }
        };
        assert!(planned.alter(1, moved_from(farthest)).is_none());
        let affected = planned.alter(1, moved_from(nearest));
        let AffectedMembers::Only(members) = &affected else { panic!("{affected:?}") };
        assert!(members.contains(&1) && members.contains(&2), "{affected:?}");
        assert!(members.len() < AGENTS.len(), "{affected:?}");
        assert_eq!(planned.alter(farthest, |node| node.shards = 2), AffectedMembers::All);
    }
}
