//! The static network, and one agent's view of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_proto::agent::{Agent, Peer, RelayPath, RelayPeer};
use byway_proto::conventions::{ContactPeer, relay_paths, shard_of};
use byway_units::{AgentId, RelayId, Time};
use byway_wire::seal::{PreSharedKey, PublicKey};
use thiserror::Error;

use crate::limits::{NODES_MAX, PAIRS_MAX};

/// A static network: the `[network]` table in the files of all its nodes.
///
/// `relays` are `[[network.relays]]`, `agents` are `[[network.agents]]`, `pairs` are
/// `[[network.pairs]]`, and fields have the names of the keys. A pair's `rate` is absent, because
/// only relays use it. All nodes must agree on the other values.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Relays of the network.
    pub relays: Vec<NetworkRelay>,
    /// Agents, including the application's own.
    pub agents: Vec<NetworkAgent>,
    /// Pairs of agents that may exchange flows.
    pub pairs: Vec<NetworkPair>,
}

/// Relay of a static network.
#[derive(Clone, Debug)]
pub struct NetworkRelay {
    /// Name of the relay.
    pub name: String,
    /// Number of the relay, 1 to 2,147,483,647.
    pub number: u32,
    /// Public key of the relay.
    pub key: PublicKey,
    /// Addresses of the relay. Only the first is used; the application's sockets must be able to
    /// send to it.
    pub addresses: Vec<SocketAddr>,
    /// Number of shards, 1 to 256. The default in files is 1.
    pub shards: u16,
}

/// Agent of a static network: a `byway agent`, or an application with this library.
#[derive(Clone, Debug)]
pub struct NetworkAgent {
    /// Name of the agent.
    pub name: String,
    /// Number of the agent, 1 to 2,147,483,647.
    pub number: u32,
    /// Public key of the agent.
    pub key: PublicKey,
    /// Known addresses of the agent for the direct path. The application's sockets must be able to
    /// send to them.
    pub addresses: Vec<SocketAddr>,
    /// Names of the relays near the agent, the nearest first. If there are none, the agent uses
    /// those of its peers.
    pub relays: Vec<String>,
}

/// Two agents that may exchange flows.
#[derive(Clone, Debug)]
pub struct NetworkPair {
    /// Names of both agents.
    pub agents: [String; 2],
    /// Coding group of the pair. Relays code flows of pairs in one group together, if they share
    /// relays. The default in files is 1.
    pub group: u32,
}

/// Reason for which a static network is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The network has more agents, relays or pairs than the limits permit.
    #[error(
        "network too large: a static network has at most {NODES_MAX} agents, as many relays, and \
        {PAIRS_MAX} pairs"
    )]
    TooLarge,
    /// A name, a number or a key occurs twice among agents or relays.
    #[error("name, number or key of {0} already in use: give each node its own")]
    Twice(String),
    /// A number or a count of shards is out of range.
    #[error("number of {0} out of 1 to 2147483647, or its shards out of 1 to 256")]
    OutOfRange(String),
    /// A relay has no address.
    #[error("relay {0} without an address: name one that the sockets can send to")]
    NoAddress(String),
    /// A named relay does not exist, or one agent names it twice.
    #[error("agent {agent} names the relay {relay}, which is not in the network, or a duplicate")]
    BadRelay {
        /// Name of the agent.
        agent: String,
        /// Name of the relay.
        relay: String,
    },
    /// A named agent does not exist.
    #[error("agent {0} not found in the network: add it to its agents")]
    NoAgent(String),
    /// A pair has only one agent, or occurs twice.
    #[error("invalid pair {0} and {1}: name two different agents, and each pair once")]
    BadPair(String, String),
    /// The network has another public key for the application's agent than its secret has.
    #[error("the network's key for {0} does not match the secret: use the secret of that key")]
    OtherKey(String),
}

/// Direction of a pair of agents, with the relay paths from sender to receiver.
#[derive(Clone, Debug)]
struct Direction {
    sender: AgentId,
    receiver: AgentId,
    paths: Vec<RelayPath>,
}

/// Checked static network, from the view of one of its agents.
#[derive(Debug)]
pub(crate) struct NetworkView {
    own: AgentId,
    relays: Vec<NetworkRelay>,
    agents: Vec<NetworkAgent>,
    /// Directions of pairs that begin or end at the agent.
    directions: Vec<Direction>,
}

impl NetworkView {
    pub(crate) fn new(network: &Network, own: &str, key: &PublicKey) -> Result<Self, NetworkError> {
        check_nodes(network)?;
        let own_entry = network.agents.iter().find(|agent| agent.name == own);
        let own = own_entry.ok_or_else(|| NetworkError::NoAgent(own.into()))?;
        if own.key != *key {
            return Err(NetworkError::OtherKey(own.name.clone()));
        }
        let all = directions(network)?;
        let number = AgentId::new(own.number);
        let is_own = |direction: &Direction| direction.sender == number || direction.receiver == number;
        Ok(Self {
            own: number,
            relays: network.relays.clone(),
            agents: network.agents.clone(),
            directions: all.into_iter().filter(is_own).collect(),
        })
    }

    /// Returns the agent's own number.
    pub(crate) const fn own_agent(&self) -> AgentId {
        self.own
    }

    fn peers(&self) -> impl Iterator<Item = &NetworkAgent> {
        let sent = self.directions.iter().filter(|direction| direction.sender == self.own);
        sent.filter_map(|direction| {
            self.agents.iter().find(|agent| AgentId::new(agent.number) == direction.receiver)
        })
    }

    /// Returns the number of the peer with this name; `None` if no such agent is paired with this
    /// one.
    pub(crate) fn peer(&self, name: &str) -> Option<AgentId> {
        self.peers().find(|agent| agent.name == name).map(|agent| AgentId::new(agent.number))
    }

    /// Returns the name of a peer; `None` if the agent is not paired with this one.
    pub(crate) fn name_of(&self, peer: AgentId) -> Option<&str> {
        self.peers().find(|agent| agent.number == peer.number()).map(|agent| agent.name.as_str())
    }

    fn direction(&self, sender: AgentId, receiver: AgentId) -> Option<&Direction> {
        self.directions.iter().find(|direction| (direction.sender, direction.receiver) == (sender, receiver))
    }

    /// Returns the relay paths from one agent to another, of which one must be this agent.
    pub(crate) fn paths(&self, sender: AgentId, receiver: AgentId) -> Vec<RelayPath> {
        self.direction(sender, receiver).map(|direction| direction.paths.clone()).unwrap_or_default()
    }

    /// Returns the peers of this agent, with the relay paths to and from them.
    pub(crate) fn contacts(&self) -> Vec<ContactPeer> {
        let peers = self.peers().map(|agent| AgentId::new(agent.number));
        peers
            .map(|peer| ContactPeer {
                peer,
                forth: self.paths(self.own, peer),
                back: self.paths(peer, self.own),
            })
            .collect()
    }

    /// Adds the peers of this agent, and the relays near it, to its state machine.
    pub(crate) fn register_peers(&self, agent: &mut Agent, now: Time) {
        let near = self.directions.iter().flat_map(|direction| {
            let is_sent = direction.sender == self.own;
            direction.paths.iter().map(move |path| if is_sent { path.ingress } else { path.egress })
        });
        for (number, shard) in near.collect::<BTreeSet<_>>() {
            let relay = self.relays.iter().find(|relay| relay.number == number.number());
            if let Some((relay, address)) = relay.and_then(|relay| Some((relay, *relay.addresses.first()?))) {
                agent.add_relay(&RelayPeer { number, shard, key: relay.key, address }, now);
            }
        }
        for peer in self.peers() {
            let NetworkAgent { number, key, addresses, .. } = peer;
            let pre_shared = PreSharedKey::default();
            let (number, addresses) = (AgentId::new(*number), addresses.clone());
            agent.add_peer(Peer { number, key: *key, pre_shared, addresses }, now);
        }
    }
}

/// Checks that names, numbers and keys of agents and relays are unique, and that numbers are in
/// range.
fn check_nodes(network: &Network) -> Result<(), NetworkError> {
    let Network { relays, agents, pairs } = network;
    if relays.len() > NODES_MAX || agents.len() > NODES_MAX || pairs.len() > PAIRS_MAX {
        return Err(NetworkError::TooLarge);
    }
    distinct(relays.iter().map(|relay| (relay.name.as_str(), relay.number, &relay.key)))?;
    distinct(agents.iter().map(|agent| (agent.name.as_str(), agent.number, &agent.key)))?;
    for relay in relays {
        if !(1..=256).contains(&relay.shards) {
            return Err(NetworkError::OutOfRange(relay.name.clone()));
        }
        if relay.addresses.is_empty() {
            return Err(NetworkError::NoAddress(relay.name.clone()));
        }
    }
    Ok(())
}

fn distinct<'a>(nodes: impl Iterator<Item = (&'a str, u32, &'a PublicKey)>) -> Result<(), NetworkError> {
    let (mut names, mut numbers, mut keys) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (name, number, key) in nodes {
        if !(1..=i32::MAX.unsigned_abs()).contains(&number) {
            return Err(NetworkError::OutOfRange(name.into()));
        }
        if !names.insert(name) || !numbers.insert(number) || !keys.insert(*key.bytes()) {
            return Err(NetworkError::Twice(name.into()));
        }
    }
    Ok(())
}

/// Returns both directions of all pairs of agents, with their relay paths.
fn directions(network: &Network) -> Result<Vec<Direction>, NetworkError> {
    let relays: BTreeMap<&str, &NetworkRelay> =
        network.relays.iter().map(|relay| (relay.name.as_str(), relay)).collect();
    let agents: BTreeMap<&str, &NetworkAgent> =
        network.agents.iter().map(|agent| (agent.name.as_str(), agent)).collect();
    let mut near = BTreeMap::new();
    for agent in &network.agents {
        near.insert(agent.name.as_str(), relays_near(agent, &relays)?);
    }
    let mut seen_pairs = BTreeSet::new();
    let mut found = Vec::new();
    for NetworkPair { agents: [one, other], group } in &network.pairs {
        let number = |name: &String| {
            agents.get(name.as_str()).map(|agent| agent.number).ok_or(NetworkError::NoAgent(name.clone()))
        };
        let numbers = [number(one)?, number(other)?];
        if numbers[0] == numbers[1]
            || !seen_pairs.insert([numbers[0].min(numbers[1]), numbers[0].max(numbers[1])])
        {
            return Err(NetworkError::BadPair(one.clone(), other.clone()));
        }
        let shard_id = |relay: &NetworkRelay| (RelayId::new(relay.number), shard_of(relay.shards, *group));
        for ([sender, receiver], [from, to]) in [([one, other], [0, 1]), ([other, one], [1, 0])] {
            let shard_ids =
                |agent: &String| near[agent.as_str()].iter().map(|relay| shard_id(relay)).collect::<Vec<_>>();
            let paths = relay_paths(&shard_ids(sender), &shard_ids(receiver)).into_iter();
            found.push(Direction {
                sender: AgentId::new(numbers[from]),
                receiver: AgentId::new(numbers[to]),

                paths: paths
                    .map(|(ingress, egress)| RelayPath { ingress, egress, grant: Vec::new() })
                    .collect(),
            });
        }
    }
    Ok(found)
}

fn relays_near<'a>(
    agent: &NetworkAgent,
    relays: &BTreeMap<&str, &'a NetworkRelay>,
) -> Result<Vec<&'a NetworkRelay>, NetworkError> {
    let mut names = BTreeSet::new();
    let found = agent.relays.iter().map(|name| {
        let is_new = names.insert(name.as_str());
        let relay = relays.get(name.as_str()).copied().filter(|_| is_new);
        relay.ok_or_else(|| NetworkError::BadRelay { agent: agent.name.clone(), relay: name.clone() })
    });
    found.collect()
}
