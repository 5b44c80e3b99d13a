//! What an agent knows of its network.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard};
use byway_proto::agent::{Agent, FORMER_PEERS, Peer, RelayPath, RelayPeer};
use byway_proto::conventions::Acquaintance;
use byway_units::{AgentId, RelayId, Time};
use byway_wire::Shard;
use byway_wire::seal::PreSharedKey;
use data_encoding::BASE64;

use super::role::Seen;

/// The map, and who the agent is on it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    number: AgentId,
    map: NetworkMap,
    /// The families of addresses that it can send to.
    families: Families,
}

/// Who is not on a newer map any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) agents: Vec<AgentId>,
    pub(super) relays: Vec<(RelayId, Shard)>,
}

/// The families of addresses that a node has sockets for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Families {
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
}

impl Families {
    /// Those of some bound sockets.
    pub(super) fn of(addresses: &[SocketAddr]) -> Self {
        Self {
            ipv4: addresses.iter().any(SocketAddr::is_ipv4),
            ipv6: addresses.iter().any(SocketAddr::is_ipv6),
        }
    }

    const fn reach(self, address: SocketAddr) -> bool {
        if address.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }
}

impl Known {
    pub(super) fn new(number: AgentId, map: NetworkMap, families: Families) -> Self {
        Self { number, map, families }
    }

    /// The agent's own number.
    pub(super) const fn number(&self) -> AgentId {
        self.number
    }

    pub(super) const fn map(&self) -> &NetworkMap {
        &self.map
    }

    /// Takes a newer map; who is not on it any more.
    pub(super) fn take(&mut self, map: &NetworkMap) -> Gone {
        let (agents, relays) = (self.agents(), self.near_relays());
        self.map = map.clone();
        let (new_agents, new_relays) = (self.agents(), self.near_relays());
        Gone {
            agents: agents.into_iter().filter(|agent| !new_agents.contains(agent)).collect(),
            relays: relays.into_iter().filter(|relay| !new_relays.contains(relay)).collect(),
        }
    }

    fn agents(&self) -> Vec<AgentId> {
        self.map.agents.iter().map(|agent| AgentId::new(agent.number)).collect()
    }

    /// The number of a peer.
    pub(super) fn peer(&self, name: &str) -> Option<AgentId> {
        let agent = self.map.agents.iter().find(|agent| agent.name == name)?;
        Some(AgentId::new(agent.number))
    }

    /// The name that a peer goes by now; `None` if it is not on the map any more.
    pub(super) fn name_on_map(&self, peer: AgentId) -> Option<&str> {
        let agent = self.map.agents.iter().find(|agent| agent.number == peer.number())?;
        Some(agent.name.as_str())
    }

    /// The name of a peer, for people.
    pub(super) fn name_of(&self, peer: AgentId) -> String {
        if peer == FORMER_PEERS {
            // No agent may be called so.
            return "(former)".to_owned();
        }
        self.name_on_map(peer).map_or_else(|| peer.to_string(), str::to_owned)
    }

    /// The ways through relays from one agent to another.
    pub(super) fn paths(&self, sender: AgentId, receiver: AgentId) -> Vec<RelayPath> {
        let of_pair =
            |pairing: &&Pairing| (pairing.sender, pairing.receiver) == (sender.number(), receiver.number());
        let pairing = self.map.pairings.iter().find(of_pair);
        pairing.into_iter().flat_map(|pairing| &pairing.paths).filter_map(relay_path).collect()
    }

    /// The other agents, and the ways to them and from them.
    pub(super) fn acquainted(&self) -> Vec<Acquaintance> {
        let own = self.number;
        let agents = self.map.agents.iter().map(|entry| AgentId::new(entry.number));
        agents
            .map(|peer| Acquaintance { peer, forth: self.paths(own, peer), back: self.paths(peer, own) })
            .collect()
    }

    /// Whether no other pairing is coded together with this one.
    pub(super) fn is_alone(&self, sender: AgentId, receiver: AgentId) -> bool {
        let of_pair =
            |pairing: &&Pairing| (pairing.sender, pairing.receiver) == (sender.number(), receiver.number());
        let mut paths = self.map.pairings.iter().filter(of_pair).flat_map(|pairing| &pairing.paths);
        paths.all(|path| !path.has_company)
    }

    /// Makes the relays and peers of the map known to the agent, and has it measure what it may.
    pub(super) fn introduce(&self, agent: &mut Agent, now: Time) {
        for (relay, shard) in self.near_relays() {
            if let Some(peer) = self.relay_peer(relay, shard) {
                agent.add_relay(&peer, now);
            }
        }
        for peer in self.map.agents.iter().filter_map(|entry| self.agent_peer(entry)) {
            agent.add_peer(peer, now);
        }
        for path in self.paths(self.number, self.number) {
            agent.visit(path, now);
        }
    }

    /// The relay shards with which this agent speaks: those near it.
    pub(super) fn near_relays(&self) -> Vec<(RelayId, Shard)> {
        let own = self.number.number();
        let sending = self.map.pairings.iter().filter(|pairing| pairing.sender == own);
        let receiving = self.map.pairings.iter().filter(|pairing| pairing.receiver == own);
        let ingress = sending.flat_map(|pairing| &pairing.paths).map(|path| path.ingress);
        let egress = receiving.flat_map(|pairing| &pairing.paths).map(|path| path.egress);
        let mut places: Vec<_> = ingress.chain(egress).map(place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn relay(&self, number: RelayId) -> Option<&RelayEntry> {
        self.map.relays.iter().find(|relay| relay.number == number.number())
    }

    /// The name of a relay, for people.
    pub(super) fn relay_name(&self, number: RelayId) -> String {
        self.relay(number).map_or_else(|| number.to_string(), |entry| entry.name.clone())
    }

    fn relay_peer(&self, number: RelayId, shard: Shard) -> Option<RelayPeer> {
        let entry = self.relay(number)?;
        let address = *entry.addresses.iter().find(|address| self.families.reach(**address))?;
        Some(RelayPeer { number, shard, key: entry.key.parse().ok()?, address })
    }

    fn agent_peer(&self, entry: &AgentEntry) -> Option<Peer> {
        let reachable = entry.addresses.iter().copied().filter(|address| self.families.reach(*address));
        Some(Peer {
            number: AgentId::new(entry.number),
            key: entry.key.parse().ok()?,
            pre_shared: PreSharedKey::default(),
            addresses: reachable.collect(),
        })
    }

    /// What a controller is told.
    pub(super) fn seen(&self, agent: &Agent, now: Time) -> Seen {
        let round_trip = |(relay, shard): (RelayId, Shard)| {
            let status = agent.relay_status(relay, shard, now)?;
            Some((relay.number(), status.round_trip?.as_micros()))
        };
        let round_trips: BTreeMap<u32, u64> = self.near_relays().into_iter().filter_map(round_trip).collect();
        Seen { addresses: agent.reflexive_addresses().to_vec(), round_trips_us: round_trips }
    }
}

const fn place(relay: RelayShard) -> (RelayId, Shard) {
    (RelayId::new(relay.relay), Shard::new(relay.shard))
}

/// A way as the protocol has it; `None` if its grant is not Base64, and so no way at all.
fn relay_path(path: &PairingPath) -> Option<RelayPath> {
    let grant = BASE64.decode(path.grant.as_bytes()).ok()?;
    Some(RelayPath { ingress: place(path.ingress), egress: place(path.egress), grant })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(agents: &[u32]) -> NetworkMap {
        let agent = |number: &u32| AgentEntry {
            number: *number,
            name: format!("peer-{number}"),
            key: String::new(),
            addresses: vec![],
        };
        NetworkMap { agents: agents.iter().map(agent).collect(), ..NetworkMap::default() }
    }

    #[test]
    fn who_is_not_on_a_newer_map_is_gone() {
        let families = Families { ipv4: true, ipv6: true };
        let mut known = Known::new(AgentId::new(1), map(&[2, 3]), families);
        let gone = known.take(&map(&[3, 4]));
        assert_eq!(gone, Gone { agents: vec![AgentId::new(2)], relays: vec![] });
        assert_eq!(known.name_of(AgentId::new(4)), "peer-4");
        assert_eq!(known.name_of(AgentId::new(2)), "agent 2");
        assert_eq!(known.name_of(FORMER_PEERS), "(former)");
    }
}
