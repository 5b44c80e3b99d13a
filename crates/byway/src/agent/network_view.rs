//! An agent's view of its network: the latest map, with the agent's own number.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayPrices, RelayShard};
use byway_proto::agent::{Agent, FORMER_PEERS, Peer, RelayPath, RelayPeer};
use byway_proto::conventions::ContactPeer;
use byway_units::{AgentId, RelayId, Time};
use byway_wire::Shard;
use byway_wire::seal::PreSharedKey;
use data_encoding::BASE64;

/// Measurements of an agent that it reports to its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Observed {
    /// The agent's addresses as relays observe them.
    pub(super) addresses: Vec<SocketAddr>,
    /// Round trips to relays by number, in microseconds.
    pub(super) round_trips_us: BTreeMap<u32, u64>,
}

/// Agent's view of the network: the latest map, and the agent's own number on it.
#[derive(Clone, Debug)]
pub(super) struct NetworkView {
    number: AgentId,
    map: NetworkMap,
    /// Address families that the agent has sockets for.
    families: Families,
    /// Prices of relays from a reload of the settings, by the relay's number. They replace those of
    /// the map.
    reloaded_prices: Option<BTreeMap<u32, RelayPrices>>,
}

/// Agents and relay shards near this agent that a newer map no longer lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RemovedNodes {
    pub(super) agents: Vec<AgentId>,
    pub(super) relays: Vec<(RelayId, Shard)>,
}

/// Address families that a node has sockets for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Families {
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
}

impl Families {
    /// Returns the address families of a node whose sockets have these addresses.
    pub(super) fn of(addresses: &[SocketAddr]) -> Self {
        Self {
            ipv4: addresses.iter().any(SocketAddr::is_ipv4),
            ipv6: addresses.iter().any(SocketAddr::is_ipv6),
        }
    }

    const fn supports(self, address: SocketAddr) -> bool {
        if address.is_ipv4() { self.ipv4 } else { self.ipv6 }
    }
}

impl NetworkView {
    pub(super) fn new(number: AgentId, map: NetworkMap, families: Families) -> Self {
        Self { number, map, families, reloaded_prices: None }
    }

    /// Replaces the prices of all relays, in a static network.
    pub(super) fn set_prices(&mut self, prices: BTreeMap<u32, RelayPrices>) {
        self.reloaded_prices = Some(prices);
    }

    /// Returns the currency of the relays' prices; `None` if none are known.
    pub(super) fn currency(&self) -> Option<&str> {
        let of_map = || self.map.relays.iter().find_map(|relay| relay.prices.as_ref());
        let any = match &self.reloaded_prices {
            Some(prices) => prices.values().next(),
            None => of_map(),
        };
        any.map(|prices| prices.currency.as_str())
    }

    /// Returns the prices of a relay's next bytes; `None` if they are not known.
    pub(super) fn prices(&self, relay: RelayId) -> Option<&RelayPrices> {
        match &self.reloaded_prices {
            Some(prices) => prices.get(&relay.number()),
            None => self.relay(relay)?.prices.as_ref(),
        }
    }

    /// Returns the agent's own number.
    pub(super) const fn number(&self) -> AgentId {
        self.number
    }

    pub(super) const fn map(&self) -> &NetworkMap {
        &self.map
    }

    /// Applies a newer map; returns the nodes that it no longer lists.
    pub(super) fn update_map(&mut self, map: &NetworkMap) -> RemovedNodes {
        let (agents, relays) = (self.agents(), self.near_relays());
        self.map = map.clone();
        let (new_agents, new_relays) = (self.agents(), self.near_relays());
        RemovedNodes {
            agents: agents.into_iter().filter(|agent| !new_agents.contains(agent)).collect(),
            relays: relays.into_iter().filter(|relay| !new_relays.contains(relay)).collect(),
        }
    }

    fn agents(&self) -> Vec<AgentId> {
        self.map.agents.iter().map(|agent| AgentId::new(agent.number)).collect()
    }

    /// Returns the number of the peer with this name; `None` if the map does not list it.
    pub(super) fn peer(&self, name: &str) -> Option<AgentId> {
        let agent = self.map.agents.iter().find(|agent| agent.name == name)?;
        Some(AgentId::new(agent.number))
    }

    /// Returns the current name of a peer; `None` if the map no longer lists it.
    pub(super) fn name_on_map(&self, peer: AgentId) -> Option<&str> {
        let agent = self.map.agents.iter().find(|agent| agent.number == peer.number())?;
        Some(agent.name.as_str())
    }

    /// Returns the name of a peer for people, or its number if the map no longer lists it.
    pub(super) fn name_of(&self, peer: AgentId) -> String {
        if peer == FORMER_PEERS {
            // No agent may have this name.
            return "(former)".to_owned();
        }
        self.name_on_map(peer).map_or_else(|| peer.to_string(), str::to_owned)
    }

    /// Returns the relay paths from one agent to another.
    pub(super) fn paths(&self, sender: AgentId, receiver: AgentId) -> Vec<RelayPath> {
        let of_pair =
            |pairing: &&Pairing| (pairing.sender, pairing.receiver) == (sender.number(), receiver.number());
        let pairing = self.map.pairings.iter().find(of_pair);
        pairing.into_iter().flat_map(|pairing| &pairing.paths).filter_map(relay_path).collect()
    }

    /// Returns the other agents, with the relay paths to them and from them.
    pub(super) fn peer_paths(&self) -> Vec<ContactPeer> {
        let own = self.number;
        let agents = self.map.agents.iter().map(|entry| AgentId::new(entry.number));
        agents
            .map(|peer| ContactPeer { peer, forth: self.paths(own, peer), back: self.paths(peer, own) })
            .collect()
    }

    /// True if no other pairing is coded together with this one.
    pub(super) fn is_coded_alone(&self, sender: AgentId, receiver: AgentId) -> bool {
        let of_pair =
            |pairing: &&Pairing| (pairing.sender, pairing.receiver) == (sender.number(), receiver.number());
        let mut paths = self.map.pairings.iter().filter(of_pair).flat_map(|pairing| &pairing.paths);
        paths.all(|path| !path.has_coding_peers)
    }

    /// Configures the agent with the relays and peers of the map, and with its permission to
    /// measure.
    pub(super) fn configure_agent(&self, agent: &mut Agent, now: Time) {
        for (relay, shard) in self.near_relays() {
            if let Some(peer) = self.relay_peer(relay, shard) {
                agent.add_relay(&peer, now);
            }
        }
        for peer in self.map.agents.iter().filter_map(|entry| self.agent_peer(entry)) {
            agent.add_peer(peer, now);
        }
        for path in self.paths(self.number, self.number) {
            agent.probe_relay(path, now);
        }
    }

    /// Returns the relay shards near this agent, with which it has sessions.
    pub(super) fn near_relays(&self) -> Vec<(RelayId, Shard)> {
        let own = self.number.number();
        let sending = self.map.pairings.iter().filter(|pairing| pairing.sender == own);
        let receiving = self.map.pairings.iter().filter(|pairing| pairing.receiver == own);
        let ingress = sending.flat_map(|pairing| &pairing.paths).map(|path| path.ingress);
        let egress = receiving.flat_map(|pairing| &pairing.paths).map(|path| path.egress);
        let mut shards: Vec<_> = ingress.chain(egress).map(relay_shard_id).collect();
        shards.sort_unstable();
        shards.dedup();
        shards
    }

    fn relay(&self, number: RelayId) -> Option<&RelayEntry> {
        self.map.relays.iter().find(|relay| relay.number == number.number())
    }

    /// Returns the name of a relay, for people.
    pub(super) fn relay_name(&self, number: RelayId) -> String {
        self.relay(number).map_or_else(|| number.to_string(), |entry| entry.name.clone())
    }

    fn relay_peer(&self, number: RelayId, shard: Shard) -> Option<RelayPeer> {
        let entry = self.relay(number)?;
        let address = *entry.addresses.iter().find(|address| self.families.supports(**address))?;
        Some(RelayPeer { number, shard, key: entry.key.parse().ok()?, address })
    }

    fn agent_peer(&self, entry: &AgentEntry) -> Option<Peer> {
        let reachable = entry.addresses.iter().copied().filter(|address| self.families.supports(*address));
        Some(Peer {
            number: AgentId::new(entry.number),
            key: entry.key.parse().ok()?,
            pre_shared: PreSharedKey::default(),
            addresses: reachable.collect(),
        })
    }

    /// Returns the measurements to report to the controller.
    pub(super) fn observed(&self, agent: &Agent, now: Time) -> Observed {
        let round_trip = |(relay, shard): (RelayId, Shard)| {
            let status = agent.relay_status(relay, shard, now)?;
            Some((relay.number(), status.round_trip?.as_micros()))
        };
        let round_trips: BTreeMap<u32, u64> = self.near_relays().into_iter().filter_map(round_trip).collect();
        Observed { addresses: agent.reflexive_addresses().to_vec(), round_trips_us: round_trips }
    }
}

const fn relay_shard_id(relay: RelayShard) -> (RelayId, Shard) {
    (RelayId::new(relay.relay), Shard::new(relay.shard))
}

/// Converts a path of the map; `None` if its grant is not Base64.
fn relay_path(path: &PairingPath) -> Option<RelayPath> {
    let grant = BASE64.decode(path.grant.as_bytes()).ok()?;
    Some(RelayPath { ingress: relay_shard_id(path.ingress), egress: relay_shard_id(path.egress), grant })
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
        let mut known = NetworkView::new(AgentId::new(1), map(&[2, 3]), families);
        let removed = known.update_map(&map(&[3, 4]));
        assert_eq!(removed, RemovedNodes { agents: vec![AgentId::new(2)], relays: vec![] });
        assert_eq!(known.name_of(AgentId::new(4)), "peer-4");
        assert_eq!(known.name_of(AgentId::new(2)), "agent 2");
        assert_eq!(known.name_of(FORMER_PEERS), "(former)");
    }
}
