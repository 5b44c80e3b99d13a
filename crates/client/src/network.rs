//! Who is who: the network as its file has it, and what one agent makes of it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_proto::agent::{Agent, Peer, RelayPath, RelayPeer};
use byway_proto::conventions::{Acquaintance, relay_paths, shard_of};
use byway_units::{AgentId, RelayId, Time};
use byway_wire::Shard;
use byway_wire::seal::{PreSharedKey, PublicKey};
use thiserror::Error;

use crate::limits::{NODES_MAX, PAIRS_MAX};

/// A static network: what all its nodes have in the `[network]` table of their file.
///
/// `relays` are `[[network.relays]]`, `agents` are `[[network.agents]]`, `pairs` are `[[network.pairs]]`, and fields have the
/// names of the keys. A pair's `rate` is not here: relays go by it, and agents do not. All nodes must agree on the rest.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// The relays.
    pub relays: Vec<NetworkRelay>,
    /// The agents, the application's own among them.
    pub agents: Vec<NetworkAgent>,
    /// Who may talk to whom.
    pub pairs: Vec<NetworkPair>,
}

/// A relay.
#[derive(Clone, Debug)]
pub struct NetworkRelay {
    /// Its name.
    pub name: String,
    /// Its number, 1 to 2,147,483,647.
    pub number: u32,
    /// Its public key.
    pub key: PublicKey,
    /// Where it is. The first is used: name one that the application's sockets can send to.
    pub addresses: Vec<SocketAddr>,
    /// How many shards it has, 1 to 256; as a file has it, 1 unless said otherwise.
    pub shards: u16,
}

/// An agent: a `byway agent`, or an application with this library.
#[derive(Clone, Debug)]
pub struct NetworkAgent {
    /// Its name.
    pub name: String,
    /// Its number, 1 to 2,147,483,647.
    pub number: u32,
    /// Its public key.
    pub key: PublicKey,
    /// Where it may be reached, if that is known: addresses that the application's sockets can send to.
    pub addresses: Vec<SocketAddr>,
    /// The relays near it, by name, the nearest first. Without any, it uses those of the agents that it talks to.
    pub relays: Vec<String>,
}

/// Two agents that may talk to each other.
#[derive(Clone, Debug)]
pub struct NetworkPair {
    /// The two, by name.
    pub agents: [String; 2],
    /// Pairs of one group have their flows coded together where they share relays; as a file has it, 1 unless said otherwise.
    pub group: u32,
}

/// What is wrong with a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// It is too large.
    #[error(
        "a network of more than {NODES_MAX} agents, as many relays or {PAIRS_MAX} pairs is too large for a static one"
    )]
    TooLarge,
    /// A name, a number or a key stands twice among agents or relays.
    #[error("{0} has a name, a number or a key that another one has: each needs its own")]
    Twice(String),
    /// A number or a count of shards is out of range.
    #[error("{0} has a number out of 1 to 2147483647, or shards out of 1 to 256")]
    OutOfRange(String),
    /// A relay has no address.
    #[error("the relay {0} has no address: name one that the sockets can send to")]
    NoAddress(String),
    /// A relay that is named is not there, or is named twice by one agent.
    #[error("the agent {agent} names the relay {relay}, which is not in the network, or named before")]
    BadRelay {
        /// The agent.
        agent: String,
        /// The relay.
        relay: String,
    },
    /// An agent that is named is not there.
    #[error("there is no agent {0} in the network: add it to its agents")]
    NoAgent(String),
    /// A pair is of one agent, or stands twice.
    #[error("{0} and {1} are no pair, or are one already: name two different agents once")]
    BadPair(String, String),
    /// The key of the application's agent is that of another secret.
    #[error(
        "the network has another key for {0} than that of the secret: use the secret that the key was made of"
    )]
    OtherKey(String),
}

/// One direction of a pair.
#[derive(Clone, Debug)]
struct Direction {
    sender: AgentId,
    receiver: AgentId,
    group: u32,
    paths: Vec<RelayPath>,
}

/// A checked network, from the view of one of its agents.
#[derive(Debug)]
pub(crate) struct Known {
    own: AgentId,
    relays: Vec<NetworkRelay>,
    agents: Vec<NetworkAgent>,
    /// The directions of which the agent is one end.
    directions: Vec<Direction>,
    /// How many directions of each group, of all agents, go by each two relays.
    sharers: BTreeMap<(u32, Place, Place), usize>,
}

type Place = (RelayId, Shard);

impl Known {
    pub(crate) fn new(network: &Network, own: &str, key: &PublicKey) -> Result<Self, NetworkError> {
        check_nodes(network)?;
        let found = network.agents.iter().find(|agent| agent.name == own);
        let own = found.ok_or_else(|| NetworkError::NoAgent(own.into()))?;
        if own.key != *key {
            return Err(NetworkError::OtherKey(own.name.clone()));
        }
        let all = directions(network)?;
        let mut sharers = BTreeMap::new();
        for direction in &all {
            for path in &direction.paths {
                *sharers.entry((direction.group, path.ingress, path.egress)).or_default() += 1;
            }
        }
        let number = AgentId::new(own.number);
        let is_own = |direction: &Direction| direction.sender == number || direction.receiver == number;
        Ok(Self {
            own: number,
            relays: network.relays.clone(),
            agents: network.agents.clone(),
            directions: all.into_iter().filter(is_own).collect(),
            sharers,
        })
    }

    /// The agent's own number.
    pub(crate) const fn own(&self) -> AgentId {
        self.own
    }

    fn peers(&self) -> impl Iterator<Item = &NetworkAgent> {
        let sent = self.directions.iter().filter(|way| way.sender == self.own);
        sent.filter_map(|way| self.agents.iter().find(|agent| AgentId::new(agent.number) == way.receiver))
    }

    /// The number of a peer that is paired with this agent.
    pub(crate) fn peer(&self, name: &str) -> Option<AgentId> {
        self.peers().find(|agent| agent.name == name).map(|agent| AgentId::new(agent.number))
    }

    /// What a peer is called.
    pub(crate) fn name_of(&self, peer: AgentId) -> Option<&str> {
        self.peers().find(|agent| agent.number == peer.number()).map(|agent| agent.name.as_str())
    }

    fn direction(&self, sender: AgentId, receiver: AgentId) -> Option<&Direction> {
        self.directions.iter().find(|way| (way.sender, way.receiver) == (sender, receiver))
    }

    /// The ways through relays from one agent to another, of which this is one.
    pub(crate) fn paths(&self, sender: AgentId, receiver: AgentId) -> Vec<RelayPath> {
        self.direction(sender, receiver).map(|way| way.paths.clone()).unwrap_or_default()
    }

    /// Whether flows of others may be coded together with those to a peer, on the first way.
    pub(crate) fn has_company(&self, peer: AgentId) -> bool {
        let Some(way) = self.direction(self.own, peer) else {
            return false;
        };
        let sharers =
            way.paths.first().and_then(|path| self.sharers.get(&(way.group, path.ingress, path.egress)));
        sharers.is_some_and(|sharers| *sharers > 1)
    }

    /// The peers, and the ways to them and from them.
    pub(crate) fn acquainted(&self) -> Vec<Acquaintance> {
        let peers = self.peers().map(|agent| AgentId::new(agent.number));
        peers
            .map(|peer| Acquaintance {
                peer,
                forth: self.paths(self.own, peer),
                back: self.paths(peer, self.own),
            })
            .collect()
    }

    /// Makes the peers and the relays near this agent known to its state machine.
    pub(crate) fn introduce(&self, agent: &mut Agent, now: Time) {
        let near = self.directions.iter().flat_map(|way| {
            let is_sent = way.sender == self.own;
            way.paths.iter().map(move |path| if is_sent { path.ingress } else { path.egress })
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

/// That names, numbers and keys stand for one each, and numbers are in range.
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

/// Both directions of all pairs.
fn directions(network: &Network) -> Result<Vec<Direction>, NetworkError> {
    let relays: BTreeMap<&str, &NetworkRelay> =
        network.relays.iter().map(|relay| (relay.name.as_str(), relay)).collect();
    let agents: BTreeMap<&str, &NetworkAgent> =
        network.agents.iter().map(|agent| (agent.name.as_str(), agent)).collect();
    let mut near = BTreeMap::new();
    for agent in &network.agents {
        near.insert(agent.name.as_str(), relays_near(agent, &relays)?);
    }
    let mut known = BTreeSet::new();
    let mut found = Vec::new();
    for NetworkPair { agents: [one, other], group } in &network.pairs {
        let number = |name: &String| {
            agents.get(name.as_str()).map(|agent| agent.number).ok_or(NetworkError::NoAgent(name.clone()))
        };
        let numbers = [number(one)?, number(other)?];
        if numbers[0] == numbers[1] || !known.insert([numbers[0].min(numbers[1]), numbers[0].max(numbers[1])])
        {
            return Err(NetworkError::BadPair(one.clone(), other.clone()));
        }
        let place = |relay: &NetworkRelay| (RelayId::new(relay.number), shard_of(relay.shards, *group));
        for ([sender, receiver], [from, to]) in [([one, other], [0, 1]), ([other, one], [1, 0])] {
            let places =
                |agent: &String| near[agent.as_str()].iter().map(|relay| place(relay)).collect::<Vec<_>>();
            let paths = relay_paths(&places(sender), &places(receiver)).into_iter();
            found.push(Direction {
                sender: AgentId::new(numbers[from]),
                receiver: AgentId::new(numbers[to]),
                group: *group,
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
