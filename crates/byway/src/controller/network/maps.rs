//! Maps: what one node has to know of the network.

use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard, Role};
use byway_proto::conventions::shard_of;
use data_encoding::HEXLOWER;

use super::grants::{ALL_SERVICES, INTERNET_ONLY, Way};
use super::plan::PlannedPath;
use super::{Issuer, Network, Node, Plan};

/// What is in a node's map, whatever its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The map, with revision 0.
    pub(crate) map: NetworkMap,
    /// When the first of its grants is renewed, in seconds of Unix time.
    pub(crate) renewed_at: u64,
}

impl Network {
    /// What a node has to know now.
    pub(crate) fn contents(
        &self,
        node: &Node,
        plan: &Plan,
        issuer: &mut Issuer,
        now_unix_seconds: u64,
    ) -> Contents {
        match node.role {
            Role::Relay => {
                let relays = plan.links(node.number).filter_map(|relay| self.node(relay)).map(relay_entry);
                let map = NetworkMap { relays: relays.collect(), ..NetworkMap::default() };
                Contents { map, renewed_at: u64::MAX }
            }
            Role::Agent => {
                let mut writer =
                    Writer { network: self, plan, issuer, now_unix_seconds, renewed_at: u64::MAX };
                let map = writer.agents_map(node);
                Contents { map, renewed_at: writer.renewed_at }
            }
        }
    }
}

/// Writes the map of an agent.
struct Writer<'a> {
    network: &'a Network,
    plan: &'a Plan,
    issuer: &'a mut Issuer,
    now_unix_seconds: u64,
    renewed_at: u64,
}

impl Writer<'_> {
    fn agents_map(&mut self, agent: &Node) -> NetworkMap {
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

    fn pairing(&mut self, sender: &Node, receiver: &Node) -> Pairing {
        let planned = self.plan.paths(sender.number, receiver.number);
        let paths = planned.iter().filter_map(|path| self.path(sender, receiver, *path));
        Pairing { sender: sender.number, receiver: receiver.number, paths: paths.collect() }
    }

    fn path(&mut self, sender: &Node, receiver: &Node, path: PlannedPath) -> Option<PairingPath> {
        let place = |relay| {
            let shard = shard_of(self.network.node(relay)?.shards, path.group);
            Some(RelayShard { relay, shard: shard.number() })
        };
        let (ingress, egress) = (place(path.ingress)?, place(path.egress)?);
        let (group, services) = (path.group, ALL_SERVICES);
        let has_company = self.plan.has_company(group);
        let way = Way { sender, receiver, ingress, egress, group, services, has_company };
        Some(self.grant(&way))
    }

    /// What lets an agent have a session with each relay, to measure the round trip.
    fn own_pairing(&mut self, agent: &Node) -> Pairing {
        let paths = self.network.relays().map(|relay| {
            let place = RelayShard { relay: relay.number, shard: 0 };
            let services = INTERNET_ONLY;
            self.grant(&Way {
                sender: agent,
                receiver: agent,
                ingress: place,
                egress: place,
                group: 0,
                services,
                has_company: false,
            })
        });
        Pairing { sender: agent.number, receiver: agent.number, paths: paths.collect() }
    }

    fn grant(&mut self, way: &Way<'_>) -> PairingPath {
        let (path, renewed_at) = self.issuer.grant(way, self.now_unix_seconds);
        self.renewed_at = self.renewed_at.min(renewed_at);
        path
    }
}

fn relay_entry(relay: &Node) -> RelayEntry {
    RelayEntry {
        number: relay.number,
        name: relay.name.clone(),
        key: HEXLOWER.encode(&relay.key.0),
        addresses: relay.addresses.clone(),
        shards: relay.shards,
    }
}

fn agent_entry(agent: &Node) -> AgentEntry {
    AgentEntry {
        number: agent.number,
        name: agent.name.clone(),
        key: HEXLOWER.encode(&agent.key.0),
        addresses: agent.addresses.clone(),
    }
}
