//! Validated static network, whose members come from the configuration file alone.

use std::collections::{BTreeMap, BTreeSet};

use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayPrices, RelayShard, Role};
use byway_proto::conventions::{relay_paths, shard_of};
use byway_units::{AgentId, FlowId, Rate, RelayId};
use byway_wire::seal::PublicKey;
use byway_wire::{
    CodingGroupId, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Services, Shard,
    TenantId,
};

use super::endpoint::Endpoint;
use super::overlay::OtherAgent;
use super::prices::entries;
use super::raw::{RawNetwork, RawPair};
use super::validated::{checked_shards, validated_name};
use crate::controller::ControllerSettings;
use crate::cost::PricedRelays;
use crate::name_resolution::ResolvedNames;
use byway_config_types::{KeyPath, PriceSheets, Problem, Source};

/// Validated static network of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticNetwork {
    relays: Vec<StaticRelay>,
    agents: Vec<StaticAgent>,
    pairs: Vec<StaticPair>,
    prices: PriceSheets,
}

/// Relay of a static network. Its map entry has no addresses until its endpoints are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StaticRelay {
    entry: RelayEntry,
    addresses: Vec<Endpoint>,
}

/// Agent of a static network. Its map entry has no addresses until its endpoints are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StaticAgent {
    entry: AgentEntry,
    addresses: Vec<Endpoint>,
    key: PublicKey,
    /// Indices of the relays near the agent, best first.
    relays: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StaticPair {
    /// Indices of the pair's two agents.
    agents: [usize; 2],
    group: u32,
    rate: Rate,
}

/// One direction of a pair: from a sender to a receiver.
#[derive(Clone, Copy, Debug)]
struct Direction<'a> {
    sender: &'a StaticAgent,
    receiver: &'a StaticAgent,
    pair: &'a StaticPair,
}

impl StaticNetwork {
    /// Validates the `[network]` tables of a file.
    ///
    /// # Errors
    /// If a name, number or key is ambiguous, a name is unknown, or a value is out of its range.
    pub(crate) fn check(typed: &RawNetwork, source: &Source) -> Result<Self, Problem> {
        let checker = Checker { source, root: KeyPath::of("network") };
        let mut relays = checker.relays(typed)?;
        let prices = checker.prices(typed)?;
        let numbers = relays.iter().map(|relay| (relay.entry.name.as_str(), relay.entry.number)).collect();
        let mut entries = entries(&prices, &numbers, |_, sheet| sheet.marginal_as_expected());
        for relay in &mut relays {
            relay.entry.prices = entries.remove(&relay.entry.number);
        }
        let relay_indices = index_by_name(relays.iter().map(|relay| relay.entry.name.clone()));
        let agents = checker.agents(typed, &relay_indices)?;
        let agent_indices = index_by_name(agents.iter().map(|agent| agent.entry.name.clone()));
        let pairs = checker.pairs(typed, &agent_indices)?;
        Ok(Self { relays, agents, pairs, prices })
    }

    /// Returns the network without the prices of its relays, which a running node can change.
    pub(crate) fn without_prices(&self) -> Self {
        let mut network = Self { prices: PriceSheets::default(), ..self.clone() };
        for relay in &mut network.relays {
            relay.entry.prices = None;
        }
        network
    }

    /// Returns the relays by number, with their prices.
    pub(crate) fn priced_relays(&self) -> PricedRelays<'_> {
        let entries = self.relays.iter().map(|relay| &relay.entry);
        let names = entries.map(|entry| (entry.number, entry.name.as_str())).collect();
        PricedRelays { names, prices: &self.prices }
    }

    /// Returns the prices of the relays' next bytes, by the relay's number.
    pub(crate) fn price_entries(&self) -> BTreeMap<u32, RelayPrices> {
        let entries = self.relays.iter().map(|relay| &relay.entry);
        entries.filter_map(|entry| Some((entry.number, entry.prices.clone()?))).collect()
    }

    /// Returns the number and the public key of the agent with this name.
    pub(crate) fn agent(&self, name: &str) -> Option<(AgentId, PublicKey)> {
        let agent = self.agents.iter().find(|agent| agent.entry.name == name)?;
        Some((AgentId::new(agent.entry.number), agent.key))
    }

    /// True if the network has a node of this role and name.
    pub(crate) fn has(&self, role: Role, name: &str) -> bool {
        match role {
            Role::Agent => self.agent(name).is_some(),
            Role::Relay => self.relay(name).is_some(),
            // Static networks have none.
            Role::Link | Role::Application => false,
        }
    }

    /// Returns the agents with which the agent of this name is paired.
    pub(crate) fn others(&self, name: &str) -> Vec<OtherAgent> {
        let of_pair = self.pairs.iter().filter_map(|pair| {
            let [one, other] = pair.agents.map(|index| &self.agents[index]);
            if one.entry.name == name { Some(other) } else { (other.entry.name == name).then_some(one) }
        });
        of_pair.map(|agent| OtherAgent { name: agent.entry.name.clone() }).collect()
    }

    /// Returns the map entry of the relay with this name, without addresses.
    pub(crate) fn relay(&self, name: &str) -> Option<&RelayEntry> {
        self.relays.iter().map(|relay| &relay.entry).find(|relay| relay.name == name)
    }

    /// Returns the DNS names in the addresses of all relays and agents.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let relays = self.relays.iter().flat_map(|relay| &relay.addresses);
        let agents = self.agents.iter().flat_map(|agent| &agent.addresses);
        relays.chain(agents).filter_map(Endpoint::host).map(str::to_owned).collect()
    }

    /// Returns the DNS names in the addresses of all relays.
    pub(crate) fn hosts_of_relays(&self) -> BTreeSet<String> {
        let addresses = self.relays.iter().flat_map(|relay| &relay.addresses);
        addresses.filter_map(Endpoint::host).map(str::to_owned).collect()
    }

    /// Returns the DNS names in the addresses of the node of this role and name.
    pub(crate) fn hosts_of(&self, role: Role, name: &str) -> BTreeSet<String> {
        let of_relays = self.relays.iter().filter(|relay| role == Role::Relay && relay.entry.name == name);
        let of_agents = self.agents.iter().filter(|agent| role == Role::Agent && agent.entry.name == name);
        let addresses =
            of_relays.flat_map(|relay| &relay.addresses).chain(of_agents.flat_map(|agent| &agent.addresses));
        addresses.filter_map(Endpoint::host).map(str::to_owned).collect()
    }

    /// Returns the map of the agent with this number: its peers, all relays, and its pairings. The
    /// revision grows with each change of resolved addresses.
    pub(crate) fn map_for_agent(&self, number: AgentId, names: &ResolvedNames) -> NetworkMap {
        let own = |agent: &StaticAgent| agent.entry.number == number.number();
        let directions: Vec<_> =
            self.directions().filter(|direction| own(direction.sender) || own(direction.receiver)).collect();
        let agents = directions.iter().flat_map(|direction| [direction.sender, direction.receiver]);
        let agents: BTreeMap<u32, &StaticAgent> =
            agents.filter(|agent| !own(agent)).map(|agent| (agent.entry.number, agent)).collect();
        NetworkMap {
            revision: 1 + names.changes(),
            relays: self.relays.iter().map(|relay| relay.entry(names)).collect(),
            agents: agents.into_values().map(|agent| agent.entry(names)).collect(),
            pairings: directions.iter().map(|direction| self.pairing(*direction)).collect(),
        }
    }

    /// Returns the map of the relay with this number, which lists all other relays.
    pub(crate) fn map_for_relay(&self, number: RelayId, names: &ResolvedNames) -> NetworkMap {
        let others = self.relays.iter().filter(|relay| relay.entry.number != number.number());
        let relays = others.map(|relay| RelayEntry { prices: None, ..relay.entry(names) }).collect();
        NetworkMap { revision: 1 + names.changes(), relays, ..NetworkMap::default() }
    }

    /// Returns the grants of all pairs, which relays of a static network take from their own files.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let grants_of = |direction| {
            self.relay_paths(direction)
                .into_iter()
                .map(move |(ingress, egress)| grant(direction, ingress, egress))
        };
        self.directions().flat_map(grants_of).collect()
    }

    fn directions(&self) -> impl Iterator<Item = Direction<'_>> + use<'_> {
        self.pairs.iter().flat_map(|pair| {
            let [one, other] = pair.agents.map(|index| &self.agents[index]);
            [
                Direction { sender: one, receiver: other, pair },
                Direction { sender: other, receiver: one, pair },
            ]
        })
    }

    /// Returns the ingress and the egress relay of each relay path in a direction of a pair, best
    /// first.
    fn relay_paths(&self, direction: Direction<'_>) -> Vec<(RelayShard, RelayShard)> {
        let shard_at = |relay: usize| {
            let relay = &self.relays[relay].entry;
            let shard = shard_of(relay.shards, direction.pair.group);
            RelayShard { relay: relay.number, shard: shard.number() }
        };
        let paths = relay_paths(&direction.sender.relays, &direction.receiver.relays).into_iter();
        paths.map(|(ingress, egress)| (shard_at(ingress), shard_at(egress))).collect()
    }

    /// Returns the number of pairings in a coding group whose paths use these relays, as ingress
    /// and egress.
    fn pairings_of(&self, group: u32, relays: (RelayShard, RelayShard)) -> usize {
        let of_group = self.directions().filter(|direction| direction.pair.group == group);
        of_group.filter(|direction| self.relay_paths(*direction).contains(&relays)).count()
    }

    fn pairing(&self, direction: Direction<'_>) -> Pairing {
        let path = |(ingress, egress)| PairingPath {
            ingress,
            egress,
            grant: String::new(),
            expires_unix_seconds: None,
            has_coding_peers: self.pairings_of(direction.pair.group, (ingress, egress)) > 1,
        };
        Pairing {
            sender: direction.sender.entry.number,
            receiver: direction.receiver.entry.number,
            paths: self.relay_paths(direction).into_iter().map(path).collect(),
        }
    }
}

impl StaticRelay {
    fn entry(&self, names: &ResolvedNames) -> RelayEntry {
        let addresses = self.addresses.iter().flat_map(|endpoint| names.addresses(endpoint)).collect();
        RelayEntry { addresses, ..self.entry.clone() }
    }
}

impl StaticAgent {
    fn entry(&self, names: &ResolvedNames) -> AgentEntry {
        let addresses = self.addresses.iter().flat_map(|endpoint| names.addresses(endpoint)).collect();
        AgentEntry { addresses, ..self.entry.clone() }
    }
}

/// Returns the grant for one direction of a pair and one relay path. It permits all services and
/// flow numbers, and never ends.
fn grant(direction: Direction<'_>, ingress: RelayShard, egress: RelayShard) -> Grant {
    let granted =
        |relay: RelayShard| GrantedRelay { relay: RelayId::new(relay.relay), shard: Shard::new(relay.shard) };
    Grant {
        services: Services::ALL,
        sharing: false,
        ingress: granted(ingress),
        egress: granted(egress),
        first_flow: FlowId::new(0),
        last_flow: FlowId::new(u16::MAX),
        sender: AgentId::new(direction.sender.entry.number),
        receiver: Receiver::Agent(AgentId::new(direction.receiver.entry.number)),
        coding_group: CodingGroupId::new(direction.pair.group),
        tenant: TenantId::new(1),
        rate: KilobitsPerSecond::from_rate(direction.pair.rate),
        not_after_unix_seconds: u64::MAX,
        sender_key: *direction.sender.key.bytes(),
        receiver_key: *direction.receiver.key.bytes(),
        signature: [0; SIGNATURE_BYTES],
    }
}

fn index_by_name(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    names.enumerate().map(|(index, name)| (name, index)).collect()
}

/// Validator of the `[network]` tables, which reports the location of an error.
struct Checker<'a> {
    source: &'a Source,
    root: KeyPath,
}

impl Checker<'_> {
    fn relays(&self, typed: &RawNetwork) -> Result<Vec<StaticRelay>, Problem> {
        let root = self.root.key("relays");
        self.distinct(&root, typed.relays.iter().map(|relay| (&relay.name, relay.number, &relay.key)))?;
        let entries = typed.relays.iter().enumerate().map(|(index, relay)| {
            let here = root.index(index);
            self.key(&here, &relay.key)?;
            if relay.addresses.is_empty() {
                return Err(self.source.problem(&here.key("addresses"), "no address: name at least one"));
            }
            let shards = checked_shards(&here, relay.shards.unwrap_or(1), self.source)?;
            let entry = RelayEntry {
                number: relay.number,
                name: relay.name.clone(),
                key: relay.key.clone(),
                addresses: Vec::new(),
                shards: u16::from(shards),
                prices: None,
            };
            Ok(StaticRelay { entry, addresses: self.addresses(&here, &relay.addresses)? })
        });
        entries.collect()
    }

    fn prices(&self, typed: &RawNetwork) -> Result<PriceSheets, Problem> {
        let root = self.root.key("relays");
        let priced = typed.relays.iter().enumerate().filter_map(|(index, relay)| {
            Some((root.index(index).key("prices"), relay.name.as_str(), relay.prices.as_ref()?))
        });
        PriceSheets::check(priced, self.source)
    }

    fn agents(
        &self,
        typed: &RawNetwork,
        relays: &BTreeMap<String, usize>,
    ) -> Result<Vec<StaticAgent>, Problem> {
        let root = self.root.key("agents");
        self.distinct(&root, typed.agents.iter().map(|agent| (&agent.name, agent.number, &agent.key)))?;
        let entries = typed.agents.iter().enumerate().map(|(index, agent)| {
            let here = root.index(index);
            let key = self.key(&here, &agent.key)?;
            let near = agent.relays.iter().enumerate().map(|(number, name)| {
                let path = here.key("relays").index(number);
                relays.get(name).copied().ok_or_else(|| self.unknown(&path, "relay", name, relays))
            });
            Ok(StaticAgent {
                entry: AgentEntry {
                    number: agent.number,
                    name: agent.name.clone(),
                    key: agent.key.clone(),
                    addresses: Vec::new(),
                },
                addresses: self.addresses(&here, &agent.addresses)?,
                key,
                relays: self.check_unique(&here.key("relays"), near.collect::<Result<_, _>>()?)?,
            })
        });
        entries.collect()
    }

    fn pairs(
        &self,
        typed: &RawNetwork,
        agents: &BTreeMap<String, usize>,
    ) -> Result<Vec<StaticPair>, Problem> {
        let root = self.root.key("pairs");
        let mut found: Vec<StaticPair> = Vec::new();
        for (index, pair) in typed.pairs.iter().enumerate() {
            let checked = self.pair(&root.index(index), pair, agents)?;
            let same = |known: &StaticPair| {
                known.agents == checked.agents || known.agents == [checked.agents[1], checked.agents[0]]
            };
            if found.iter().any(same) {
                let path = root.index(index).key("agents");
                return Err(self.source.problem(&path, "duplicate pair: delete one of the entries"));
            }
            found.push(checked);
        }
        Ok(found)
    }

    fn pair(
        &self,
        here: &KeyPath,
        pair: &RawPair,
        agents: &BTreeMap<String, usize>,
    ) -> Result<StaticPair, Problem> {
        let agent_index = |number: usize| {
            let (path, name) = (here.key("agents").index(number), &pair.agents[number]);
            agents.get(name).copied().ok_or_else(|| self.unknown(&path, "agent", name, agents))
        };
        let agents = [agent_index(0)?, agent_index(1)?];
        if agents[0] == agents[1] {
            return Err(self
                .source
                .problem(&here.key("agents"), "pair of an agent with itself: name two different agents"));
        }
        Ok(StaticPair {
            agents,
            group: pair.group.unwrap_or(1),
            rate: pair.rate.map_or(ControllerSettings::RATE, |rate| rate.0),
        })
    }

    /// Returns the addresses of a node. Fails if others cannot send to one of them.
    fn addresses(&self, here: &KeyPath, typed: &[Endpoint]) -> Result<Vec<Endpoint>, Problem> {
        let path = here.key("addresses");
        let problem =
            typed.iter().enumerate().find_map(|(index, endpoint)| Some((index, endpoint.problem()?)));
        match problem {
            Some((index, problem)) => Err(self.source.problem(&path.index(index), problem)),
            None => Ok(typed.to_vec()),
        }
    }

    /// Returns the indices of an agent's relays. Fails if one occurs twice.
    fn check_unique(&self, path: &KeyPath, indices: Vec<usize>) -> Result<Vec<usize>, Problem> {
        let again = (0..indices.len()).find(|number| indices[..*number].contains(&indices[*number]));
        match again {
            Some(number) => {
                Err(self.source.problem(&path.index(number), "duplicate relay: name each relay once"))
            }
            None => Ok(indices),
        }
    }

    fn key(&self, here: &KeyPath, key: &str) -> Result<PublicKey, Problem> {
        key.parse().map_err(|error| self.source.problem(&here.key("key"), error))
    }

    fn unknown(&self, path: &KeyPath, what: &str, name: &str, known: &BTreeMap<String, usize>) -> Problem {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let message = format!("{what} {name:?} not found in [network], only: {}", names.join(", "));
        self.source.problem(path, message)
    }

    /// Checks that the names, numbers and keys of a table's entries are valid, and that none occurs
    /// twice.
    fn distinct<'a>(
        &self,
        root: &KeyPath,
        entries: impl Iterator<Item = (&'a String, u32, &'a String)>,
    ) -> Result<(), Problem> {
        let mut known: [BTreeMap<String, usize>; 3] = Default::default();
        for (index, (name, number, key)) in entries.enumerate() {
            let here = root.index(index);
            validated_name(&here.key("name"), name.clone(), self.source)?;
            if !(1..=i32::MAX.unsigned_abs()).contains(&number) {
                return Err(self
                    .source
                    .problem(&here.key("number"), format!("{number} is out of range: 1 to 2147483647")));
            }
            let values = [("name", name.clone()), ("number", number.to_string()), ("key", key.clone())];
            for (known, (field, value)) in known.iter_mut().zip(values) {
                if let Some(other) = known.insert(value.clone(), index) {
                    let message = format!("{value} already used by {root}[{other}]: each needs its own");
                    return Err(self.source.problem(&here.key(field), message));
                }
            }
        }
        Ok(())
    }
}
