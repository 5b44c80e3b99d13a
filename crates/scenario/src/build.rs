//! Construction of a world from a scenario and a seed.

pub(crate) mod addresses;
mod links;
mod relay_pairs;

use std::collections::{BTreeMap, BTreeSet};

use byway_code::Engine;
use byway_config_types::RedundancySetting;
use byway_plan::RelayPriceTable;
use byway_proto::CodingRates;
use byway_proto::agent::{
    Agent, Duplication, FlowSettings, ReceiveFlowId, RedundancyMode, SendFlowId, Traffic as TrafficKind,
    flow_between,
};
use byway_proto::relay::{Authority, Relay, RelaySettings};
use byway_sim::overlay::topology::{self, AgentNode, RelayNode};
use byway_sim::overlay::{Checksums, OverlayHost};
use byway_sim::{Link, Seed, World};
use byway_units::{Duration, FlowId, Time};
use byway_wire::seal::{StaticSecret, Suite};
use byway_wire::{FlowKey, Grant, Service};
use thiserror::Error;

use self::addresses::{AGENT_NETWORK, agent_address, agent_number, relay_address, relay_number};
pub(crate) use self::links::ResolvedLink;
use self::links::{Direction, sampled_link};
use self::relay_pairs::{JoinedRelay, relay_pairs};

use crate::costs::relay_prices;
use crate::flow_service::FlowService;
use crate::machine::{BareHost, Machine};
use crate::observer::RunObserver;
use crate::record::{DeliveryTerms, OverlayDelays};
use crate::routes::{Graph, RouteCache};
use crate::run::Run;
use crate::scenario::{
    CopyPolicy, FlowPlan, LinkChange, LinkPlan, Load, Node, Role, Scenario, Segments, Tunnel,
};
use crate::send_schedule::SendSchedule;

/// Error of a scenario that cannot become a world.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// No route exists between two machines that exchange packets.
    #[error("{location}no route from {from} to {to}: join them by links, or by routers with links")]
    NoRoute {
        /// Location of the flow between them in the scenario file, as a prefix of the message.
        location: String,
        /// Machine that sends the packets.
        from: String,
        /// Machine that receives the packets.
        to: String,
    },
    /// A flow whose packets come from a program cannot run in the simulator, only in a lab.
    #[error("{location}flow {flow:?} is sent by a program, which only a lab runs: use byway lab run")]
    Programs {
        /// Location of the flow in the scenario file, as a prefix of the message.
        location: String,
        /// Name of the flow.
        flow: String,
    },
    /// The router translates addresses (NAT), which only a lab supports.
    #[error(
        "{location}{router} translates addresses, which only a lab supports: use byway lab run, or omit `nat`"
    )]
    Translates {
        /// Location of the router in the scenario file, as a prefix of the message.
        location: String,
        /// Name of the router.
        router: String,
    },
    /// Applications send more datagrams than the list of a network may have.
    #[error("applications send more than {max} datagrams: reduce the flows, or the length of the scenario")]
    TooMuch {
        /// Most datagrams in a list.
        max: usize,
    },
    /// The machine runs no Byway, which only the simulator supports.
    #[error("{location}{machine} runs no Byway, which only the simulator supports: omit `bare`")]
    Bare {
        /// Location of the machine in the scenario file, as a prefix of the message.
        location: String,
        /// Name of the machine.
        machine: String,
    },
    /// The link to capture does not exist.
    #[error("no link between {from} and {to}: name two machines that a link joins")]
    NoLink {
        /// Machine at one end of the link.
        from: String,
        /// Machine at the other end of the link.
        to: String,
    },
    /// The flow needs a relay, and its machine has none.
    #[error("{location}no relay near {machine}: add a link to one, or use service \"internet\"")]
    NoRelay {
        /// Location of the flow in the scenario file, as a prefix of the message.
        location: String,
        /// Machine without a relay.
        machine: String,
    },
}

/// Flow of a scenario, with its overlay key, relays and delays for one seed.
#[derive(Clone, Debug)]
pub(crate) struct FlowSetup {
    pub(crate) key: FlowKey,
    pub(crate) settings: FlowSettings,
    pub(crate) terms: DeliveryTerms,
    /// Delays of the flow's relay path; `None` if it has none.
    pub(crate) overlay: Option<OverlayDelays>,
    /// Indexes of the flow's relays near sender and receiver; `None` if it has none.
    pub(crate) relays: Option<(usize, usize)>,
}

/// Identity of a machine in the overlay, and the records of it at others.
#[derive(Debug)]
enum MachineIdentity {
    Agent(AgentNode),
    Relay(RelayNode),
    Router,
}

impl MachineIdentity {
    fn of(role: Role, node: usize, seed: Seed) -> Self {
        let secret = |name| StaticSecret::from_bytes(topology::secret_bytes(seed, name, node));
        match role {
            Role::Agent => Self::Agent(AgentNode {
                number: agent_number(node),
                secret: secret("agent"),
                address: Some(agent_address(node)),
            }),
            Role::Relay => Self::Relay(RelayNode {
                number: relay_number(node),
                secret: secret("relay"),
                address: relay_address(node),
            }),
            Role::Router => Self::Router,
        }
    }
}

/// Scenario with all random values drawn from a seed.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) scenario: &'a Scenario,
    seed: Seed,
    links: Vec<(LinkPlan, Link)>,
    graph: Graph,
    /// Overlay identity of each machine, computed once because each public key takes a
    /// multiplication on a curve.
    identities: Vec<MachineIdentity>,
    pub(crate) flow_setups: Vec<FlowSetup>,
    /// Relays that each agent uses, by the agent's index.
    relays_of: BTreeMap<usize, Vec<usize>>,
    /// Agents with which each agent exchanges flows, by the agent's index.
    peers_of: BTreeMap<usize, Vec<usize>>,
    /// Pairs of relays that exchange packets, in both orders.
    relay_pairs: BTreeSet<(usize, usize)>,
    /// Prices of the next bytes of all relays that have prices.
    pub(crate) relay_prices: RelayPriceTable,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(scenario: &'a Scenario, seed: Seed) -> Result<Self, BuildError> {
        let mut graph = Graph::new(scenario.forwarding_policies());
        let mut links = Vec::new();
        for plan in &scenario.links {
            let own = seed.named("drawn").numbered(plan.shape as u64).numbered(plan.member.into());
            let link = sampled_link(&scenario.shapes[plan.shape], plan, scenario.length, own);
            let delay = link.delay + link.jitter.max / 2;
            graph.link(plan.from, plan.to, delay);
            if plan.is_bidirectional {
                graph.link(plan.to, plan.from, delay);
            }
            links.push((*plan, link));
        }
        let (relays_of, peers_of, flow_setups) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let relay_pairs = BTreeSet::new();
        let nodes = scenario.nodes.iter().enumerate();
        let identities = nodes.map(|(index, node)| MachineIdentity::of(node.role, index, seed)).collect();
        let nodes = scenario.nodes.iter().enumerate();
        let sheets = nodes.filter_map(|(node, plan)| Some((node, scenario.prices.sheet(&plan.name)?)));
        let relay_prices = relay_prices(sheets);
        let mut plan = Self {
            scenario,
            seed,
            links,
            graph,
            identities,
            flow_setups,
            relays_of,
            peers_of,
            relay_pairs,
            relay_prices,
        };
        plan.set_up_flows()?;
        Ok(plan)
    }

    /// Selects the relays of all flows, and checks the routes between their machines.
    fn set_up_flows(&mut self) -> Result<(), BuildError> {
        let scenario = self.scenario;
        let mut known = RouteCache::new(&self.graph);
        let mut ends: Vec<[Option<usize>; 2]> = Vec::new();
        for flow in &self.scenario.flows {
            ends.push([self.relay_near(flow, flow.from, &mut known, true)?, None]);
        }
        for (flow, ends) in self.scenario.flows.iter().zip(&mut ends) {
            ends[1] = self.relay_near(flow, flow.to, &mut known, false)?;
        }
        for (flow, [ingress, egress]) in self.scenario.flows.iter().zip(ends) {
            let relays = ingress.zip(egress);
            let mut distance = |from, to| self.distance(flow, &mut known, from, to);
            let due = distance(flow.from, flow.to)?;
            let terms =
                DeliveryTerms { budget: flow.budget, due, round_trip: due + distance(flow.to, flow.from)? };
            let mut overlay = None;
            if let Some((ingress, egress)) = relays {
                for (one, other) in [(flow.from, ingress), (ingress, egress), (egress, flow.to)] {
                    distance(one, other)?;
                    distance(other, one)?;
                }
                let name = |relay: usize| scenario.nodes[relay].name.clone();
                overlay = Some(OverlayDelays {
                    ingress: name(ingress),
                    egress: name(egress),
                    sender_to_ingress: distance(flow.from, ingress)?,
                    ingress_to_egress: distance(ingress, egress)?,
                    egress_to_receiver: distance(egress, flow.to)?,
                });
            }
            let setup = self.flow_setup(flow, relays, terms, overlay);
            self.flow_setups.push(setup);
        }
        self.share_tunnels();
        self.note_neighbours();
        self.relay_pairs = self.find_relay_pairs();
        Ok(())
    }

    /// Gives all flows of a tunnel the settings of its first one, and the sum of their rates.
    fn share_tunnels(&mut self) {
        let mut shared: BTreeMap<FlowKey, FlowSettings> = BTreeMap::new();
        let members = || self.scenario.flows.iter().enumerate().filter(|(_, flow)| flow.tunnel.is_some());
        for (index, _) in members() {
            let FlowSetup { key, settings, .. } = &self.flow_setups[index];
            match shared.get_mut(key) {
                Some(tunnel) => tunnel.rate = tunnel.rate.saturating_add(settings.rate),
                None => drop(shared.insert(*key, settings.clone())),
            }
        }
        for (index, _) in members() {
            let setup = &mut self.flow_setups[index];
            setup.settings.clone_from(&shared[&setup.key]);
        }
    }

    fn note_neighbours(&mut self) {
        for (flow, setup) in self.scenario.flows.iter().zip(&self.flow_setups) {
            let ends = setup.relays.map_or([None; 2], |(ingress, egress)| [Some(ingress), Some(egress)]);
            for (agent, peer, relay) in [(flow.from, flow.to, ends[0]), (flow.to, flow.from, ends[1])] {
                note(&mut self.peers_of, agent, peer);
                if let Some(relay) = relay {
                    note(&mut self.relays_of, agent, relay);
                }
            }
        }
    }

    fn find_relay_pairs(&self) -> BTreeSet<(usize, usize)> {
        let nodes = self.scenario.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Relay);
        let relays: Vec<_> = nodes.map(|(node, plan)| JoinedRelay { node, transit: plan.transit }).collect();
        let mut known = RouteCache::new(&self.graph);
        let has_route = |from, to| known.routes_from(from).distance(to).is_some();
        relay_pairs(self.flow_setups.iter().filter_map(|setup| setup.relays), &relays, has_route)
    }

    fn distance(
        &self,
        flow: &FlowPlan,
        known: &mut RouteCache<'_>,
        from: usize,
        to: usize,
    ) -> Result<Duration, BuildError> {
        known.routes_from(from).distance(to).ok_or_else(|| BuildError::NoRoute {
            location: flow.location.clone(),
            from: self.scenario.nodes[from].name.clone(),
            to: self.scenario.nodes[to].name.clone(),
        })
    }

    /// Returns the relay that a flow names for this end, or the nearest one; `None` if the flow
    /// needs none.
    fn relay_near(
        &self,
        flow: &FlowPlan,
        end: usize,
        known: &mut RouteCache<'_>,
        is_sender: bool,
    ) -> Result<Option<usize>, BuildError> {
        if flow.service == FlowService::Named(Service::Internet) {
            return Ok(None);
        }
        if let Some((ingress, egress)) = flow.via {
            return Ok(Some(if is_sender { ingress } else { egress }));
        }
        let routes = known.routes_from(end);
        let nodes = self.scenario.nodes.iter().enumerate();
        let relays = nodes.filter(|(_, node)| node.role == Role::Relay);
        let reached = relays.filter_map(|(relay, _)| Some((routes.distance(relay)?, relay)));
        let nearest = reached.min().ok_or_else(|| BuildError::NoRelay {
            location: flow.location.clone(),
            machine: self.scenario.nodes[end].name.clone(),
        });
        nearest.map(|(_, relay)| Some(relay))
    }

    fn flow_setup(
        &self,
        flow: &FlowPlan,
        relays: Option<(usize, usize)>,
        terms: DeliveryTerms,
        overlay: Option<OverlayDelays>,
    ) -> FlowSetup {
        let path =
            relays.map(|(ingress, egress)| topology::path(self.relay_node(ingress), self.relay_node(egress)));
        let usual = FlowSettings::default();
        let (traffic, duplication) = (traffic_kind(flow), duplication(flow));
        let settings = FlowSettings {
            consent: flow.coding.consent.unwrap_or(usual.consent),
            service: flow.service.initial(traffic, duplication),
            automatic_service: flow.service.is_automatic(),
            rates: CodingRates { in_stream: flow.in_stream, batch: flow.batch },
            redundancy: match flow.coding.redundancy {
                RedundancySetting::Adaptive => RedundancyMode::Adaptive,
                RedundancySetting::Fixed => RedundancyMode::Fixed,
            },
            rate: flow.load.rate(),
            duplication,
            traffic,
            latency_budget: flow.budget,
            paths: path.into_iter().collect(),
            ..usual
        };
        let key = flow_between(agent_number(flow.from), agent_number(flow.to), flow.number);
        FlowSetup { key, settings, terms, overlay, relays }
    }

    fn relay_node(&self, node: usize) -> &RelayNode {
        match &self.identities[node] {
            MachineIdentity::Relay(card) => card,
            MachineIdentity::Agent(_) | MachineIdentity::Router => {
                unreachable!("flows name relays, as was checked")
            }
        }
    }

    fn agent_node(&self, node: usize) -> &AgentNode {
        match &self.identities[node] {
            MachineIdentity::Agent(card) => card,
            MachineIdentity::Relay(_) | MachineIdentity::Router => {
                unreachable!("flows are between agents, as was checked")
            }
        }
    }

    /// Returns the grants of flows that use a relay.
    fn grants(&self, relay: usize) -> Vec<Grant> {
        let mut grants: BTreeMap<(usize, usize, usize, usize), FlowId> = BTreeMap::new();
        for (flow, setup) in self.scenario.flows.iter().zip(&self.flow_setups) {
            let Some((ingress, egress)) = setup.relays.filter(|ends| ends.0 == relay || ends.1 == relay)
            else {
                continue;
            };
            let last = grants.entry((flow.from, flow.to, ingress, egress)).or_insert(flow.number);
            *last = flow.number.max(*last);
        }
        let grant = |((from, to, ingress, egress), last)| {
            let agents = (self.agent_node(from), self.agent_node(to));
            let relays = (self.relay_node(ingress), self.relay_node(egress));
            topology::grant(agents, relays, FlowId::new(0)..=last)
        };
        grants.into_iter().map(grant).collect()
    }

    fn relay(&self, node: usize, now: Time) -> Relay {
        let others = self.relay_pairs.range((node, 0)..=(node, usize::MAX));
        let others = others.map(|(_, relay)| self.relay_node(*relay).peer_relay()).collect();
        let authority = Authority::Static(self.grants(node));
        let settings = self.relay_node(node).settings(Suite::Aes256Gcm, authority, others);
        let Node { follows_up, transit, ref uplink, .. } = self.scenario.nodes[node];
        let uplink = uplink.as_ref();
        let uplink = uplink.map(|uplink| uplink.settings(1).expect("it was checked when it was read"));
        let settings = RelaySettings { follows_up, transit, uplink, ..settings };
        let own_seed = topology::secret_bytes(self.seed.numbered(now.as_nanos()), "relay's seed", node);
        Relay::new(settings, Engine::fastest(), &Checksums, own_seed, now)
    }

    fn agent(&self, node: usize, now: Time) -> Agent {
        let identity = self.agent_node(node).identity(Suite::Aes256Gcm);
        let own_seed = topology::secret_bytes(self.seed.numbered(now.as_nanos()), "agent's seed", node);
        let mut agent = Agent::new(identity, Engine::fastest(), &Checksums, own_seed, now);
        agent.set_relay_prices(self.relay_prices.clone());
        for relay in self.relays_of.get(&node).into_iter().flatten() {
            agent.add_relay(&self.relay_node(*relay).relay_peer(), now);
        }
        for peer in self.peers_of.get(&node).into_iter().flatten() {
            agent.add_peer(self.agent_node(*peer).peer(), now);
        }
        agent
    }

    /// Creates a machine with its keys, without flows.
    pub(crate) fn machine(&self, node: usize, now: Time) -> Machine {
        match self.scenario.nodes[node].role {
            Role::Router => Machine::Router,
            Role::Relay => Machine::Overlay(OverlayHost::relay(self.relay(node, now))),
            Role::Agent if self.scenario.nodes[node].bare.is_some() => Machine::Bare(BareHost::default()),
            Role::Agent => Machine::Overlay(OverlayHost::agent(self.agent(node, now))),
        }
    }

    /// Opens the flows that begin at an agent, and accepts those that end there. Returns their
    /// identifiers at the agent.
    pub(crate) fn open_flows(
        &self,
        agent: &mut Agent,
        flows: impl Iterator<Item = usize>,
        node: usize,
        now: Time,
    ) -> Vec<(usize, FlowEnd)> {
        let mut ends = Vec::new();
        let mut tunnels = BTreeMap::new();
        for index in flows {
            let (flow, setup) = (&self.scenario.flows[index], &self.flow_setups[index]);
            if let Some(end) = tunnels.get(&setup.key) {
                ends.push((index, *end));
                continue;
            }
            let settings = setup.settings.clone();
            let end = if flow.from == node {
                agent.open_flow(setup.key, settings, now).map(FlowEnd::Sent)
            } else {
                agent.accept_flow(setup.key, settings, now).map(FlowEnd::Received)
            };
            let end = end.expect("each flow has a number of its own, and a peer that was added");
            if flow.tunnel.is_some() {
                tunnels.insert(setup.key, end);
            }
            ends.push((index, end));
        }
        ends
    }

    /// Creates the world with its machines and links.
    pub(crate) fn build(&self) -> World<Run<'a>> {
        let nodes = self.scenario.nodes.iter().enumerate();
        let bare = nodes.filter(|(_, node)| node.bare.is_some()).map(|(node, _)| agent_address(node));
        let mut world = World::new(self.seed, RunObserver::new(bare.collect()));
        for (node, plan) in self.scenario.nodes.iter().enumerate() {
            let network = match plan.role {
                Role::Relay => 1,
                Role::Agent => AGENT_NETWORK,
                Role::Router => 3,
            };
            world.add(self.machine(node, Time::START), topology::address(network, node));
        }
        for ((from, to), resolved) in self.links() {
            let (from, to) = (world.node(from), world.node(to));
            world.connect(from, to, resolved.link);
        }
        self.route(&mut world);
        world
    }

    /// Returns the links between machines, in each direction, by their ends.
    pub(crate) fn links(&self) -> BTreeMap<(usize, usize), ResolvedLink<'a>> {
        let mut links = BTreeMap::new();
        for (plan, link) in &self.links {
            let shape = &self.scenario.shapes[plan.shape];
            let of = |direction| ResolvedLink::new(link, shape, plan, direction, self.seed);
            links.insert((plan.from, plan.to), of(Direction::Forth));
            if plan.is_bidirectional {
                links.insert((plan.to, plan.from), of(Direction::Back));
            }
        }
        links
    }

    /// Applies a step's change to a link.
    pub(crate) fn change(&self, resolved: &mut ResolvedLink<'_>, change: &LinkChange, step: usize) {
        resolved.change(change, self.seed.named("change").numbered(step as u64));
    }

    /// Sets routes between machines without a direct link.
    fn route(&self, world: &mut World<Run<'a>>) {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (agent, others) in self.peers_of.iter().chain(&self.relays_of) {
            pairs.extend(others.iter().flat_map(|other| [(*agent, *other), (*other, *agent)]));
        }
        pairs.extend(&self.relay_pairs);
        pairs.sort_unstable();
        pairs.dedup();
        let mut known = RouteCache::new(&self.graph);
        for (from, to) in pairs {
            let path =
                known.routes_from(from).path(to).expect("all pairs were looked for when flows were wired");
            // A direct link needs no route.
            let hops = path.windows(2).filter(|_| path.len() > 2);
            for hop in hops {
                let [at, to, next] = [hop[0], to, hop[1]].map(|node| world.node(node));
                world.route(at, to, next);
            }
        }
    }
}

impl Plan<'_> {
    /// Returns the send schedule of a flow's application; `None` for TCP and programs.
    pub(crate) fn send_schedule(&self, index: usize) -> Option<SendSchedule> {
        let flows = &self.scenario.flows;
        let Load::Datagrams(traffic) = &flows[index].load else {
            return None;
        };
        let before = index.checked_sub(1).map(|before| flows[before].group);
        let is_first = before != Some(flows[index].group);
        Some(SendSchedule::new(traffic.clone(), is_first, self.application_seed(index)))
    }

    /// Returns the seed of a flow's application.
    pub(crate) fn application_seed(&self, index: usize) -> Seed {
        self.seed.named("application").numbered(index as u64)
    }

    /// Returns the next hops between all machines with addresses, by current machine and
    /// destination.
    pub(crate) fn next_hops(&self) -> BTreeMap<(usize, usize), usize> {
        let nodes = self.scenario.nodes.iter().enumerate();
        let has_address = |node: &Node| node.role != Role::Router || node.nat.is_some();
        let ends: Vec<usize> = nodes.filter(|(_, node)| has_address(node)).map(|(index, _)| index).collect();
        let mut next_hops = BTreeMap::new();
        let mut known = RouteCache::new(&self.graph);
        for from in &ends {
            let paths = ends.iter().filter_map(|to| known.routes_from(*from).path(*to));
            for path in paths.collect::<Vec<_>>() {
                let to = path[path.len() - 1];
                next_hops.extend(path.windows(2).map(|hop| ((hop[0], to), hop[1])));
            }
        }
        next_hops
    }
}

/// Identifier of a flow at one of its agents.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlowEnd {
    Sent(SendFlowId),
    Received(ReceiveFlowId),
}

fn note(table: &mut BTreeMap<usize, Vec<usize>>, key: usize, value: usize) {
    let values = table.entry(key).or_default();
    if !values.contains(&value) {
        values.push(value);
    }
}

const fn duplication(flow: &FlowPlan) -> Duplication {
    match (&flow.tunnel, &flow.load) {
        (Some(Tunnel { is_mixture: false, .. }), _)
        | (None, Load::Segments(Segments { copy_policy: CopyPolicy::All, .. })) => Duplication::All,
        (None, Load::Segments(Segments { copy_policy: CopyPolicy::Marked(_), .. })) => Duplication::Marked,
        _ => Duplication::Usual,
    }
}

const fn traffic_kind(flow: &FlowPlan) -> TrafficKind {
    match (&flow.tunnel, &flow.load) {
        (Some(Tunnel { is_mixture: true, .. }), _) => TrafficKind::Mixture,
        (Some(Tunnel { is_mixture: false, .. }), _) | (None, Load::Segments(_)) => {
            TrafficKind::CongestionControlled
        }
        _ => TrafficKind::Datagrams,
    }
}
