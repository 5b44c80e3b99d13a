//! A static network: who is who by the file alone.

use std::collections::{BTreeMap, BTreeSet};

use byway_api::{AgentEntry, NetworkMap, Pairing, PairingPath, RelayEntry, RelayShard, Role};
use byway_proto::conventions::{relay_paths, shard_of};
use byway_units::{AgentId, FlowId, Rate, RelayId};
use byway_wire::seal::PublicKey;
use byway_wire::{
    CodingGroupId, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Service, Services,
    Shard, TenantId,
};

use super::additions::Other;
use super::endpoint::Endpoint;
use super::meaning::{checked_shards, named_as};
use super::typed::{TypedNetwork, TypedPair};
use crate::controller::ControllerSettings;
use crate::names::Resolved;
use byway_typed::{KeyPath, Problem, Source};

/// A network that is written down in a file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StaticNetwork {
    relays: Vec<StaticRelay>,
    agents: Vec<StaticAgent>,
    pairs: Vec<StaticPair>,
}

/// A relay whose entry has no addresses yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StaticRelay {
    entry: RelayEntry,
    addresses: Vec<Endpoint>,
}

/// An agent whose entry has no addresses yet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StaticAgent {
    entry: AgentEntry,
    addresses: Vec<Endpoint>,
    key: PublicKey,
    /// Places of its relays.
    relays: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct StaticPair {
    /// Places of the two agents.
    agents: [usize; 2],
    group: u32,
    rate: Rate,
}

/// One direction of a pair, by places.
#[derive(Clone, Copy, Debug)]
struct Direction<'a> {
    sender: &'a StaticAgent,
    receiver: &'a StaticAgent,
    pair: &'a StaticPair,
}

impl StaticNetwork {
    /// Checks what was typed.
    ///
    /// # Errors
    /// If a name, number or key stands for two, a name for nobody, or a value is out of its range.
    pub(crate) fn check(typed: &TypedNetwork, source: &Source) -> Result<Self, Problem> {
        let at = Checker { source, root: KeyPath::of("network") };
        let relays = at.relays(typed)?;
        let relay_places = places(relays.iter().map(|relay| relay.entry.name.clone()));
        let agents = at.agents(typed, &relay_places)?;
        let agent_places = places(agents.iter().map(|agent| agent.entry.name.clone()));
        let pairs = at.pairs(typed, &agent_places)?;
        Ok(Self { relays, agents, pairs })
    }

    /// The number and the key that the file has for an agent.
    pub(crate) fn agent(&self, name: &str) -> Option<(AgentId, PublicKey)> {
        let agent = self.agents.iter().find(|agent| agent.entry.name == name)?;
        Some((AgentId::new(agent.entry.number), agent.key))
    }

    /// Whether the file has a node of this role and name.
    pub(crate) fn has(&self, role: Role, name: &str) -> bool {
        match role {
            Role::Agent => self.agent(name).is_some(),
            Role::Relay => self.relay(name).is_some(),
        }
    }

    /// The agents that are paired with one.
    pub(crate) fn others(&self, name: &str) -> Vec<Other> {
        let of_pair = self.pairs.iter().filter_map(|pair| {
            let [one, other] = pair.agents.map(|place| &self.agents[place]);
            if one.entry.name == name { Some(other) } else { (other.entry.name == name).then_some(one) }
        });
        of_pair.map(|agent| Other { name: agent.entry.name.clone() }).collect()
    }

    /// A relay of the file.
    pub(crate) fn relay(&self, name: &str) -> Option<&RelayEntry> {
        self.relays.iter().map(|relay| &relay.entry).find(|relay| relay.name == name)
    }

    /// Returns the DNS names of all relays and agents.
    pub(crate) fn hosts(&self) -> BTreeSet<String> {
        let relays = self.relays.iter().flat_map(|relay| &relay.addresses);
        let agents = self.agents.iter().flat_map(|agent| &agent.addresses);
        relays.chain(agents).filter_map(Endpoint::host).map(str::to_owned).collect()
    }

    /// Returns the DNS names of all relays.
    pub(crate) fn hosts_of_relays(&self) -> BTreeSet<String> {
        let addresses = self.relays.iter().flat_map(|relay| &relay.addresses);
        addresses.filter_map(Endpoint::host).map(str::to_owned).collect()
    }

    /// Returns the DNS names of a relay, or of an agent.
    pub(crate) fn hosts_of(&self, role: Role, name: &str) -> BTreeSet<String> {
        let of_relays = self.relays.iter().filter(|relay| role == Role::Relay && relay.entry.name == name);
        let of_agents = self.agents.iter().filter(|agent| role == Role::Agent && agent.entry.name == name);
        let addresses =
            of_relays.flat_map(|relay| &relay.addresses).chain(of_agents.flat_map(|agent| &agent.addresses));
        addresses.filter_map(Endpoint::host).map(str::to_owned).collect()
    }

    /// What an agent has to know.
    pub(crate) fn map_for_agent(&self, number: AgentId, names: &Resolved) -> NetworkMap {
        let own = |agent: &StaticAgent| agent.entry.number == number.number();
        let directions: Vec<_> =
            self.directions().filter(|way| own(way.sender) || own(way.receiver)).collect();
        let agents = directions.iter().flat_map(|way| [way.sender, way.receiver]);
        let agents: BTreeMap<u32, &StaticAgent> =
            agents.filter(|agent| !own(agent)).map(|agent| (agent.entry.number, agent)).collect();
        NetworkMap {
            revision: 1 + names.changes(),
            relays: self.relays.iter().map(|relay| relay.entry(names)).collect(),
            agents: agents.into_values().map(|agent| agent.entry(names)).collect(),
            pairings: directions.iter().map(|way| self.pairing(*way)).collect(),
        }
    }

    /// What a relay has to know: all others.
    pub(crate) fn map_for_relay(&self, number: RelayId, names: &Resolved) -> NetworkMap {
        let others = self.relays.iter().filter(|relay| relay.entry.number != number.number());
        let relays = others.map(|relay| relay.entry(names)).collect();
        NetworkMap { revision: 1 + names.changes(), relays, ..NetworkMap::default() }
    }

    /// What the file lets agents do at relays.
    pub(crate) fn grants(&self) -> Vec<Grant> {
        let grants_of =
            |way| self.ways(way).into_iter().map(move |(ingress, egress)| grant(way, ingress, egress));
        self.directions().flat_map(grants_of).collect()
    }

    fn directions(&self) -> impl Iterator<Item = Direction<'_>> + use<'_> {
        self.pairs.iter().flat_map(|pair| {
            let [one, other] = pair.agents.map(|place| &self.agents[place]);
            [
                Direction { sender: one, receiver: other, pair },
                Direction { sender: other, receiver: one, pair },
            ]
        })
    }

    /// Ingress and egress relays of each way.
    fn ways(&self, way: Direction<'_>) -> Vec<(RelayShard, RelayShard)> {
        let place = |relay: usize| {
            let relay = &self.relays[relay].entry;
            let shard = shard_of(relay.shards, way.pair.group);
            RelayShard { relay: relay.number, shard: shard.number() }
        };
        let paths = relay_paths(&way.sender.relays, &way.receiver.relays).into_iter();
        paths.map(|(ingress, egress)| (place(ingress), place(egress))).collect()
    }

    /// How many pairings of a group use these relays in this order.
    fn pairings_of(&self, group: u32, relays: (RelayShard, RelayShard)) -> usize {
        let of_group = self.directions().filter(|way| way.pair.group == group);
        of_group.filter(|way| self.ways(*way).contains(&relays)).count()
    }

    fn pairing(&self, way: Direction<'_>) -> Pairing {
        let path = |(ingress, egress)| PairingPath {
            ingress,
            egress,
            grant: String::new(),
            expires_unix_seconds: None,
            has_company: self.pairings_of(way.pair.group, (ingress, egress)) > 1,
        };
        Pairing {
            sender: way.sender.entry.number,
            receiver: way.receiver.entry.number,
            paths: self.ways(way).into_iter().map(path).collect(),
        }
    }
}

impl StaticRelay {
    fn entry(&self, names: &Resolved) -> RelayEntry {
        let addresses = self.addresses.iter().flat_map(|endpoint| names.addresses(endpoint)).collect();
        RelayEntry { addresses, ..self.entry.clone() }
    }
}

impl StaticAgent {
    fn entry(&self, names: &Resolved) -> AgentEntry {
        let addresses = self.addresses.iter().flat_map(|endpoint| names.addresses(endpoint)).collect();
        AgentEntry { addresses, ..self.entry.clone() }
    }
}

/// What the file implies for one direction of a pair and one way: all services and flow numbers, for ever.
fn grant(way: Direction<'_>, ingress: RelayShard, egress: RelayShard) -> Grant {
    let granted =
        |relay: RelayShard| GrantedRelay { relay: RelayId::new(relay.relay), shard: Shard::new(relay.shard) };
    let services = [Service::Internet, Service::Coding, Service::Caching, Service::Forwarding, Service::Both];
    Grant {
        services: services.into_iter().fold(Services::NONE, Services::with),
        sharing: false,
        ingress: granted(ingress),
        egress: granted(egress),
        first_flow: FlowId::new(0),
        last_flow: FlowId::new(u16::MAX),
        sender: AgentId::new(way.sender.entry.number),
        receiver: Receiver::Agent(AgentId::new(way.receiver.entry.number)),
        coding_group: CodingGroupId::new(way.pair.group),
        tenant: TenantId::new(1),
        rate: KilobitsPerSecond::from_rate(way.pair.rate),
        not_after_unix_seconds: u64::MAX,
        sender_key: *way.sender.key.bytes(),
        receiver_key: *way.receiver.key.bytes(),
        signature: [0; SIGNATURE_BYTES],
    }
}

fn places(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    names.enumerate().map(|(place, name)| (name, place)).collect()
}

/// Checks the tables of a network, and says where something is wrong.
struct Checker<'a> {
    source: &'a Source,
    root: KeyPath,
}

impl Checker<'_> {
    fn relays(&self, typed: &TypedNetwork) -> Result<Vec<StaticRelay>, Problem> {
        let root = self.root.key("relays");
        self.distinct(&root, typed.relays.iter().map(|relay| (&relay.name, relay.number, &relay.key)))?;
        let entries = typed.relays.iter().enumerate().map(|(place, relay)| {
            let here = root.place(place);
            self.key(&here, &relay.key)?;
            if relay.addresses.is_empty() {
                return Err(self.source.problem(&here.key("addresses"), "name at least one address"));
            }
            let shards = checked_shards(&here, relay.shards.unwrap_or(1), self.source)?;
            let entry = RelayEntry {
                number: relay.number,
                name: relay.name.clone(),
                key: relay.key.clone(),
                addresses: Vec::new(),
                shards: u16::from(shards),
            };
            Ok(StaticRelay { entry, addresses: self.addresses(&here, &relay.addresses)? })
        });
        entries.collect()
    }

    fn agents(
        &self,
        typed: &TypedNetwork,
        relays: &BTreeMap<String, usize>,
    ) -> Result<Vec<StaticAgent>, Problem> {
        let root = self.root.key("agents");
        self.distinct(&root, typed.agents.iter().map(|agent| (&agent.name, agent.number, &agent.key)))?;
        let entries = typed.agents.iter().enumerate().map(|(place, agent)| {
            let here = root.place(place);
            let key = self.key(&here, &agent.key)?;
            let near = agent.relays.iter().enumerate().map(|(number, name)| {
                let path = here.key("relays").place(number);
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
                relays: self.once(&here.key("relays"), near.collect::<Result<_, _>>()?)?,
            })
        });
        entries.collect()
    }

    fn pairs(
        &self,
        typed: &TypedNetwork,
        agents: &BTreeMap<String, usize>,
    ) -> Result<Vec<StaticPair>, Problem> {
        let root = self.root.key("pairs");
        let mut found: Vec<StaticPair> = Vec::new();
        for (place, pair) in typed.pairs.iter().enumerate() {
            let checked = self.pair(&root.place(place), pair, agents)?;
            let same = |known: &StaticPair| {
                known.agents == checked.agents || known.agents == [checked.agents[1], checked.agents[0]]
            };
            if found.iter().any(same) {
                let path = root.place(place).key("agents");
                return Err(self
                    .source
                    .problem(&path, "these two are a pair already: delete one of the entries"));
            }
            found.push(checked);
        }
        Ok(found)
    }

    fn pair(
        &self,
        here: &KeyPath,
        pair: &TypedPair,
        agents: &BTreeMap<String, usize>,
    ) -> Result<StaticPair, Problem> {
        let place = |number: usize| {
            let (path, name) = (here.key("agents").place(number), &pair.agents[number]);
            agents.get(name).copied().ok_or_else(|| self.unknown(&path, "agent", name, agents))
        };
        let agents = [place(0)?, place(1)?];
        if agents[0] == agents[1] {
            return Err(self.source.problem(&here.key("agents"), "name two different agents"));
        }
        Ok(StaticPair {
            agents,
            group: pair.group.unwrap_or(1),
            rate: pair.rate.map_or(ControllerSettings::RATE, |rate| rate.0),
        })
    }

    /// The addresses of a node, if others can send to each.
    fn addresses(&self, here: &KeyPath, typed: &[Endpoint]) -> Result<Vec<Endpoint>, Problem> {
        let path = here.key("addresses");
        let problem =
            typed.iter().enumerate().find_map(|(place, endpoint)| Some((place, endpoint.problem()?)));
        match problem {
            Some((place, problem)) => Err(self.source.problem(&path.place(place), problem)),
            None => Ok(typed.to_vec()),
        }
    }

    /// The places of an agent's relays, if none stands there twice.
    fn once(&self, path: &KeyPath, places: Vec<usize>) -> Result<Vec<usize>, Problem> {
        let again = (0..places.len()).find(|number| places[..*number].contains(&places[*number]));
        match again {
            Some(number) => {
                Err(self.source.problem(&path.place(number), "is named before: name each relay once"))
            }
            None => Ok(places),
        }
    }

    fn key(&self, here: &KeyPath, key: &str) -> Result<PublicKey, Problem> {
        key.parse().map_err(|error| self.source.problem(&here.key("key"), error))
    }

    fn unknown(&self, path: &KeyPath, what: &str, name: &str, known: &BTreeMap<String, usize>) -> Problem {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let message = format!("there is no {what} {name:?} in [network]; there are: {}", names.join(", "));
        self.source.problem(path, message)
    }

    /// That names, numbers and keys are there, and stand for one each.
    fn distinct<'a>(
        &self,
        root: &KeyPath,
        entries: impl Iterator<Item = (&'a String, u32, &'a String)>,
    ) -> Result<(), Problem> {
        let mut known: [BTreeMap<String, usize>; 3] = Default::default();
        for (place, (name, number, key)) in entries.enumerate() {
            let here = root.place(place);
            named_as(&here.key("name"), name.clone(), self.source)?;
            if !(1..=i32::MAX.unsigned_abs()).contains(&number) {
                return Err(self
                    .source
                    .problem(&here.key("number"), format!("{number} is out of range: 1 to 2147483647")));
            }
            let values = [("name", name.clone()), ("number", number.to_string()), ("key", key.clone())];
            for (known, (field, value)) in known.iter_mut().zip(values) {
                if let Some(other) = known.insert(value.clone(), place) {
                    let message = format!("{value} is that of {root}[{other}] too: each needs its own");
                    return Err(self.source.problem(&here.key(field), message));
                }
            }
        }
        Ok(())
    }
}
