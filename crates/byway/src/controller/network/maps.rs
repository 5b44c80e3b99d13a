//! Maps of members: each contains the part of the network that one node needs.

use std::collections::BTreeSet;

use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard, Role};
use byway_proto::conventions::shard_of;
use byway_wire::Services;
use data_encoding::HEXLOWER;

use super::grants::{GrantPath, INTERNET_ONLY};
use super::plan::PlannedPath;
use super::{GrantIssuer, Network, NodeRecord, PathPlan};

/// Content of a node's map, without the revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MapContents {
    /// Map with revision 0, because signing assigns the revision.
    pub(crate) map: NetworkMap,
    /// Time at which the first grant in the map is renewed, in seconds of Unix time.
    pub(crate) renewed_at: u64,
}

impl Network {
    /// Returns the current content of a node's map. A relay's map lists the relays that it
    /// exchanges packets with: those of paths, and those that pass on packets. An agent's map lists
    /// its peers, all relays, and the granted paths. The map of a link is empty.
    pub(crate) fn contents(
        &self,
        node: &NodeRecord,
        plan: &PathPlan,
        issuer: &mut GrantIssuer,
        now_unix_seconds: u64,
    ) -> MapContents {
        match node.role {
            Role::Relay => {
                let relays = self.relays_of(node, plan).map(relay_entry);
                let map = NetworkMap { relays: relays.collect(), ..NetworkMap::default() };
                MapContents { map, renewed_at: u64::MAX }
            }
            Role::Agent => {
                let mut writer =
                    MapWriter { network: self, plan, issuer, now_unix_seconds, renewed_at: u64::MAX };
                let map = writer.agent_map(node);
                MapContents { map, renewed_at: writer.renewed_at }
            }
            // They exchange no packets of the overlay.
            Role::Link | Role::Application => {
                MapContents { map: NetworkMap::default(), renewed_at: u64::MAX }
            }
        }
    }

    /// Returns the relays with which a relay exchanges packets. Those that pass on packets exchange
    /// some with all others, to measure the paths.
    fn relays_of(&self, node: &NodeRecord, plan: &PathPlan) -> impl Iterator<Item = &NodeRecord> {
        let linked: BTreeSet<u32> = plan.links(node.number).collect();
        let (number, transit) = (node.number, node.transit);
        let others = self.relays().filter(move |relay| relay.number != number);
        others.filter(move |relay| transit || relay.transit || linked.contains(&relay.number))
    }
}

/// Writer of an agent's map, which notes the first renewal among the grants.
struct MapWriter<'a> {
    network: &'a Network,
    plan: &'a PathPlan,
    issuer: &'a mut GrantIssuer,
    now_unix_seconds: u64,
    renewed_at: u64,
}

impl MapWriter<'_> {
    fn agent_map(&mut self, agent: &NodeRecord) -> NetworkMap {
        let network = self.network;
        let partners: Vec<_> =
            network.partners(agent.number).filter_map(|partner| network.node(partner)).collect();
        let mut pairings = vec![self.own_pairing(agent)];
        for partner in &partners {
            pairings.push(self.pairing(agent, partner));
            pairings.push(self.pairing(partner, agent));
        }
        NetworkMap {
            revision: 0,
            relays: network.relays().map(relay_entry).collect(),
            agents: partners.into_iter().map(agent_entry).collect(),
            pairings,
        }
    }

    fn pairing(&mut self, sender: &NodeRecord, receiver: &NodeRecord) -> Pairing {
        let planned = self.plan.paths(sender.number, receiver.number);
        let paths = planned.iter().filter_map(|path| self.path(sender, receiver, *path));
        Pairing { sender: sender.number, receiver: receiver.number, paths: paths.collect() }
    }

    fn path(&mut self, sender: &NodeRecord, receiver: &NodeRecord, path: PlannedPath) -> Option<PairingPath> {
        let shard_at = |relay| {
            let shard = shard_of(self.network.node(relay)?.shards, path.group);
            Some(RelayShard { relay, shard: shard.number() })
        };
        let (ingress, egress) = (shard_at(path.ingress)?, shard_at(path.egress)?);
        Some(self.grant(&GrantPath {
            sender,
            receiver,
            ingress,
            egress,
            group: path.group,
            sharing: self.network.shares_coding(sender),
            services: Services::ALL,
            has_coding_peers: self.plan.has_coding_peers(path.group),
        }))
    }

    /// Returns the pairing of an agent with itself. Its grants permit a session with each relay, to
    /// measure the round trip.
    fn own_pairing(&mut self, agent: &NodeRecord) -> Pairing {
        let paths = self.network.relays().map(|relay| {
            let relay_shard = RelayShard { relay: relay.number, shard: 0 };
            let services = INTERNET_ONLY;
            self.grant(&GrantPath {
                sender: agent,
                receiver: agent,
                ingress: relay_shard,
                egress: relay_shard,
                group: 0,
                sharing: false,
                services,
                has_coding_peers: false,
            })
        });
        Pairing { sender: agent.number, receiver: agent.number, paths: paths.collect() }
    }

    fn grant(&mut self, grant_path: &GrantPath<'_>) -> PairingPath {
        let (path, renewed_at) = self.issuer.grant(grant_path, self.now_unix_seconds);
        self.renewed_at = self.renewed_at.min(renewed_at);
        path
    }
}

fn relay_entry(relay: &NodeRecord) -> RelayEntry {
    RelayEntry {
        number: relay.number,
        name: relay.name.clone(),
        key: HEXLOWER.encode(&relay.key.0),
        addresses: relay.addresses.clone(),
        shards: relay.shards,
        prices: None,
    }
}

fn agent_entry(agent: &NodeRecord) -> AgentEntry {
    AgentEntry {
        number: agent.number,
        name: agent.name.clone(),
        key: HEXLOWER.encode(&agent.key.0),
        addresses: agent.addresses.clone(),
    }
}
