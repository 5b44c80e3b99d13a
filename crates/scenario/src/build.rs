//! From a scenario and a seed to a world.

mod links;

use std::collections::BTreeMap;

use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::{
    Agent, Duplication, FlowSettings, ReceiveFlowId, SendFlowId, Traffic as Carried, flow_between,
};
use byway_proto::relay::{Authority, Relay, RelaySettings};
use byway_sim::overlay::cast::{self, AgentCard, RelayCard};
use byway_sim::overlay::{Checksums, OverlayHost};
use byway_sim::{Link, Seed, World};
use byway_units::{AgentId, Duration, FlowId, RelayId, Time};
use byway_wire::seal::{StaticSecret, Suite};
use byway_wire::{FlowKey, Grant, Service};
use thiserror::Error;

pub(crate) use self::links::Laid;
use self::links::{Direction, drawn_link};

use crate::applications::Calendar;
use crate::machine::Machine;
use crate::record::{OverlayDelays, Terms};
use crate::routes::{Graph, Ways};
use crate::run::Run;
use crate::scenario::{Copied, FlowPlan, LinkChange, LinkPlan, Load, Node, Role, Scenario, Segments};

/// Why a scenario makes no world.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BuildError {
    /// Two machines that have to reach each other.
    #[error("{place}no way leads from {from} to {to}: join them by links, or by routers with links")]
    NoWay {
        /// Where the flow that needs it stands in its file.
        place: String,
        /// The machine from which there is none.
        from: String,
        /// The machine to which there is none.
        to: String,
    },
    /// A flow that nothing simulated sends.
    #[error("{place}flow {flow:?} is sent by a program, which only a lab has: use byway lab run")]
    Programs {
        /// Where it stands in its file.
        place: String,
        /// Its name.
        flow: String,
    },
    /// A router of which nothing simulated knows what it does.
    #[error(
        "{place}{router} translates addresses, which only a lab has: use byway lab run, or leave `nat` out"
    )]
    Translates {
        /// Where it stands in its file.
        place: String,
        /// Its name.
        router: String,
    },
    /// Applications send too much for it to be listed.
    #[error("applications send more than {max} datagrams: have fewer flows, or a shorter scenario")]
    TooMuch {
        /// Most that are listed.
        max: usize,
    },
    /// A link that is to be captured.
    #[error("no link joins {from} and {to}: name two machines that one does")]
    NoLink {
        /// A machine.
        from: String,
        /// Another one.
        to: String,
    },
    /// A flow without relays.
    #[error("{place}no relay is near {machine}: join it with one, or use service \"internet\"")]
    NoRelay {
        /// Where the flow that needs one stands in its file.
        place: String,
        /// The machine.
        machine: String,
    },
}

/// The shortest ways from one machine at a time: those from all would take too much room.
struct Known<'a> {
    graph: &'a Graph,
    ways: Option<Ways>,
}

impl Known<'_> {
    fn ways(&mut self, from: usize) -> &Ways {
        let graph = self.graph;
        match &mut self.ways {
            Some(ways) if ways.from() == from => {}
            other => *other = Some(graph.ways(from)),
        }
        self.ways.as_ref().expect("it was just found")
    }
}

/// A flow with what the seed makes of it.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    pub(crate) key: FlowKey,
    pub(crate) settings: FlowSettings,
    pub(crate) terms: Terms,
    /// Its ways over relays.
    pub(crate) overlay: Option<OverlayDelays>,
    /// Its relays near sender and receiver.
    pub(crate) relays: Option<(usize, usize)>,
}

/// What a machine has, and others know of it.
#[derive(Debug)]
enum Card {
    Agent(AgentCard),
    Relay(RelayCard),
    Router,
}

impl Card {
    fn of(role: Role, node: usize, seed: Seed) -> Self {
        let secret = |name| StaticSecret::from_bytes(cast::bytes(seed, name, node));
        match role {
            Role::Agent => Self::Agent(AgentCard {
                number: agent_number(node),
                secret: secret("agent"),
                address: Some(cast::address(2, node)),
            }),
            Role::Relay => Self::Relay(RelayCard {
                number: RelayId::new(number(node)),
                secret: secret("relay"),
                address: cast::address(1, node),
            }),
            Role::Router => Self::Router,
        }
    }
}

/// What a seed makes of a scenario.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) scenario: &'a Scenario,
    seed: Seed,
    links: Vec<(LinkPlan, Link)>,
    graph: Graph,
    /// By machine: each public key takes a multiplication on a curve.
    cards: Vec<Card>,
    pub(crate) wirings: Vec<Wiring>,
    /// By agent, the relays that it speaks with.
    relays_of: BTreeMap<usize, Vec<usize>>,
    /// By agent, the agents that it exchanges flows with.
    peers_of: BTreeMap<usize, Vec<usize>>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(scenario: &'a Scenario, seed: Seed) -> Result<Self, BuildError> {
        let mut graph = Graph::new(scenario.passes_on());
        let mut links = Vec::new();
        for plan in &scenario.links {
            let own = seed.named("drawn").numbered(plan.shape as u64).numbered(plan.member.into());
            let link = drawn_link(&scenario.shapes[plan.shape], plan, scenario.length, own);
            let delay = link.delay + link.jitter.max / 2;
            graph.link(plan.from, plan.to, delay);
            if plan.is_both_ways {
                graph.link(plan.to, plan.from, delay);
            }
            links.push((*plan, link));
        }
        let (relays_of, peers_of, wirings) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let nodes = scenario.nodes.iter().enumerate();
        let cards = nodes.map(|(place, node)| Card::of(node.role, place, seed)).collect();
        let mut plan = Self { scenario, seed, links, graph, cards, wirings, relays_of, peers_of };
        plan.wire()?;
        Ok(plan)
    }

    /// Finds the relays of all flows, and that all who have to reach each other do.
    fn wire(&mut self) -> Result<(), BuildError> {
        let scenario = self.scenario;
        let mut known = Known { graph: &self.graph, ways: None };
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
            let terms = Terms { budget: flow.budget, due, round_trip: due + distance(flow.to, flow.from)? };
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
            let wiring = self.wiring(flow, relays, terms, overlay);
            self.wirings.push(wiring);
        }
        self.note_neighbours();
        Ok(())
    }

    fn note_neighbours(&mut self) {
        for (flow, wiring) in self.scenario.flows.iter().zip(&self.wirings) {
            let ends = wiring.relays.map_or([None; 2], |(ingress, egress)| [Some(ingress), Some(egress)]);
            for (agent, peer, relay) in [(flow.from, flow.to, ends[0]), (flow.to, flow.from, ends[1])] {
                note(&mut self.peers_of, agent, peer);
                if let Some(relay) = relay {
                    note(&mut self.relays_of, agent, relay);
                }
            }
        }
    }

    fn distance(
        &self,
        flow: &FlowPlan,
        known: &mut Known<'_>,
        from: usize,
        to: usize,
    ) -> Result<Duration, BuildError> {
        known.ways(from).distance(to).ok_or_else(|| BuildError::NoWay {
            place: flow.place.clone(),
            from: self.scenario.nodes[from].name.clone(),
            to: self.scenario.nodes[to].name.clone(),
        })
    }

    /// The relay that a flow names for this end, or the nearest one; none if it needs none.
    fn relay_near(
        &self,
        flow: &FlowPlan,
        end: usize,
        known: &mut Known<'_>,
        is_sender: bool,
    ) -> Result<Option<usize>, BuildError> {
        if flow.service == Service::Internet {
            return Ok(None);
        }
        if let Some((ingress, egress)) = flow.via {
            return Ok(Some(if is_sender { ingress } else { egress }));
        }
        let ways = known.ways(end);
        let nodes = self.scenario.nodes.iter().enumerate();
        let relays = nodes.filter(|(_, node)| node.role == Role::Relay);
        let reached = relays.filter_map(|(relay, _)| Some((ways.distance(relay)?, relay)));
        let nearest = reached.min().ok_or_else(|| BuildError::NoRelay {
            place: flow.place.clone(),
            machine: self.scenario.nodes[end].name.clone(),
        });
        nearest.map(|(_, relay)| Some(relay))
    }

    fn wiring(
        &self,
        flow: &FlowPlan,
        relays: Option<(usize, usize)>,
        terms: Terms,
        overlay: Option<OverlayDelays>,
    ) -> Wiring {
        let path =
            relays.map(|(ingress, egress)| cast::path(self.relay_card(ingress), self.relay_card(egress)));
        let usual = FlowSettings::default();
        let settings = FlowSettings {
            consent: flow.consent.unwrap_or(usual.consent),
            service: flow.service,
            rates: CodingRates { in_stream: flow.in_stream, batch: flow.batch },
            rate: flow.load.rate(),
            duplication: duplication(&flow.load),
            traffic: carried(&flow.load),
            latency_budget: flow.budget,
            paths: path.into_iter().collect(),
            standby: flow.is_on_standby,
            ..usual
        };
        let key = flow_between(agent_number(flow.from), agent_number(flow.to), flow.number);
        Wiring { key, settings, terms, overlay, relays }
    }

    fn relay_card(&self, node: usize) -> &RelayCard {
        match &self.cards[node] {
            Card::Relay(card) => card,
            Card::Agent(_) | Card::Router => unreachable!("flows name relays, as was checked"),
        }
    }

    fn agent_card(&self, node: usize) -> &AgentCard {
        match &self.cards[node] {
            Card::Agent(card) => card,
            Card::Relay(_) | Card::Router => unreachable!("flows are between agents, as was checked"),
        }
    }

    /// What lets flows use a relay.
    fn grants(&self, relay: usize) -> Vec<Grant> {
        let mut grants: BTreeMap<(usize, usize, usize, usize), FlowId> = BTreeMap::new();
        for (flow, wiring) in self.scenario.flows.iter().zip(&self.wirings) {
            let Some((ingress, egress)) = wiring.relays.filter(|ends| ends.0 == relay || ends.1 == relay)
            else {
                continue;
            };
            let last = grants.entry((flow.from, flow.to, ingress, egress)).or_insert(flow.number);
            *last = flow.number.max(*last);
        }
        let grant = |((from, to, ingress, egress), last)| {
            let agents = (self.agent_card(from), self.agent_card(to));
            let relays = (self.relay_card(ingress), self.relay_card(egress));
            cast::grant(agents, relays, FlowId::new(0)..=last)
        };
        grants.into_iter().map(grant).collect()
    }

    fn relay(&self, node: usize, now: Time) -> Relay {
        let partners = self.wirings.iter().filter_map(|wiring| match wiring.relays? {
            (ingress, egress) if ingress == node && egress != node => Some(egress),
            (ingress, egress) if egress == node && ingress != node => Some(ingress),
            _ => None,
        });
        let mut partners: Vec<usize> = partners.collect();
        partners.sort_unstable();
        partners.dedup();
        let others = partners.into_iter().map(|relay| self.relay_card(relay).for_relays()).collect();
        let authority = Authority::Static(self.grants(node));
        let follows_up = self.scenario.nodes[node].follows_up;
        let settings = self.relay_card(node).settings(Suite::Aes256Gcm, authority, others);
        let uplink = self.scenario.nodes[node].uplink.as_ref();
        let uplink = uplink.map(|uplink| uplink.settings(1).expect("it was checked when it was read"));
        let settings = RelaySettings { follows_up, uplink, ..settings };
        let own_seed = cast::bytes(self.seed.numbered(now.as_nanos()), "relay's seed", node);
        Relay::new(settings, Engine::fastest(), &Checksums, own_seed, now)
    }

    fn agent(&self, node: usize, now: Time) -> Agent {
        let identity = self.agent_card(node).identity(Suite::Aes256Gcm);
        let own_seed = cast::bytes(self.seed.numbered(now.as_nanos()), "agent's seed", node);
        let mut agent = Agent::new(identity, Engine::fastest(), &Checksums, own_seed, now);
        for relay in self.relays_of.get(&node).into_iter().flatten() {
            agent.add_relay(&self.relay_card(*relay).for_agents(), now);
        }
        for peer in self.peers_of.get(&node).into_iter().flatten() {
            agent.add_peer(self.agent_card(*peer).for_peers(), now);
        }
        agent
    }

    /// A machine that knows its keys, and of its flows, where they are in it.
    pub(crate) fn machine(&self, node: usize, now: Time) -> Machine {
        match self.scenario.nodes[node].role {
            Role::Router => Machine::Router,
            Role::Relay => Machine::Overlay(OverlayHost::relay(self.relay(node, now))),
            Role::Agent => Machine::Overlay(OverlayHost::agent(self.agent(node, now))),
        }
    }

    /// Opens the flows that begin at an agent, and accepts those that end there; by flow, its number there.
    pub(crate) fn open_flows(
        &self,
        agent: &mut Agent,
        flows: impl Iterator<Item = usize>,
        node: usize,
        now: Time,
    ) -> Vec<(usize, FlowEnd)> {
        let mut ends = Vec::new();
        for place in flows {
            let (flow, wiring) = (&self.scenario.flows[place], &self.wirings[place]);
            let settings = wiring.settings.clone();
            let end = if flow.from == node {
                agent.open_flow(wiring.key, settings, now).map(FlowEnd::Sent)
            } else {
                agent.accept_flow(wiring.key, settings, now).map(FlowEnd::Received)
            };
            ends.push((place, end.expect("each flow has a number of its own, and a peer that was added")));
        }
        ends
    }

    /// The machines, and what is between them.
    pub(crate) fn build(&self) -> World<Run<'a>> {
        let mut world = World::new(self.seed, crate::watch::Watch::default());
        for (node, plan) in self.scenario.nodes.iter().enumerate() {
            let network = match plan.role {
                Role::Relay => 1,
                Role::Agent => 2,
                Role::Router => 3,
            };
            world.add(self.machine(node, Time::START), cast::address(network, node));
        }
        for ((from, to), laid) in self.links() {
            let (from, to) = (world.node(from), world.node(to));
            world.connect(from, to, laid.link);
        }
        self.route(&mut world);
        world
    }

    /// What is between machines, in each direction, by its ends.
    pub(crate) fn links(&self) -> BTreeMap<(usize, usize), Laid<'a>> {
        let mut links = BTreeMap::new();
        for (plan, link) in &self.links {
            let shape = &self.scenario.shapes[plan.shape];
            let of = |direction| Laid::new(link, shape, plan, direction, self.seed);
            links.insert((plan.from, plan.to), of(Direction::Forth));
            if plan.is_both_ways {
                links.insert((plan.to, plan.from), of(Direction::Back));
            }
        }
        links
    }

    /// What a step changes about a link is so from now on.
    pub(crate) fn change(&self, laid: &mut Laid<'_>, change: &LinkChange, step: usize) {
        laid.change(change, self.seed.named("change").numbered(step as u64));
    }

    /// Routes what machines say to each other that are not linked.
    fn route(&self, world: &mut World<Run<'a>>) {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (agent, others) in self.peers_of.iter().chain(&self.relays_of) {
            pairs.extend(others.iter().flat_map(|other| [(*agent, *other), (*other, *agent)]));
        }
        for (ingress, egress) in self.wirings.iter().filter_map(|wiring| wiring.relays) {
            pairs.extend([(ingress, egress), (egress, ingress)]);
        }
        pairs.sort_unstable();
        pairs.dedup();
        let mut known = Known { graph: &self.graph, ways: None };
        for (from, to) in pairs {
            let path = known.ways(from).path(to).expect("all pairs were looked for when flows were wired");
            // Neighbours need no route.
            let hops = path.windows(2).filter(|_| path.len() > 2);
            for hop in hops {
                let [at, to, next] = [hop[0], to, hop[1]].map(|node| world.node(node));
                world.route(at, to, next);
            }
        }
    }
}

impl Plan<'_> {
    /// When the application of a flow sends; `None` of TCP and programs.
    pub(crate) fn calendar(&self, place: usize) -> Option<Calendar> {
        let flows = &self.scenario.flows;
        let Load::Datagrams(traffic) = &flows[place].load else {
            return None;
        };
        let before = place.checked_sub(1).map(|before| flows[before].group);
        let is_first = before != Some(flows[place].group);
        Some(Calendar::new(traffic.clone(), is_first, self.application_seed(place)))
    }

    /// What the chance of a flow's application begins with.
    pub(crate) fn application_seed(&self, place: usize) -> Seed {
        self.seed.named("application").numbered(place as u64)
    }

    /// Where packets go next, by where they are and whom they are for, between all machines that have addresses.
    pub(crate) fn next_hops(&self) -> BTreeMap<(usize, usize), usize> {
        let nodes = self.scenario.nodes.iter().enumerate();
        let has_address = |node: &Node| node.role != Role::Router || node.nat.is_some();
        let ends: Vec<usize> = nodes.filter(|(_, node)| has_address(node)).map(|(place, _)| place).collect();
        let mut next_hops = BTreeMap::new();
        let mut known = Known { graph: &self.graph, ways: None };
        for from in &ends {
            let paths = ends.iter().filter_map(|to| known.ways(*from).path(*to));
            for path in paths.collect::<Vec<_>>() {
                let to = path[path.len() - 1];
                next_hops.extend(path.windows(2).map(|hop| ((hop[0], to), hop[1])));
            }
        }
        next_hops
    }
}

/// Where a flow is in one of its agents.
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

fn number(node: usize) -> u32 {
    u32::try_from(node + 1).expect("there are few machines")
}

fn agent_number(node: usize) -> AgentId {
    AgentId::new(number(node))
}

const fn duplication(load: &Load) -> Duplication {
    match load {
        Load::Datagrams(_) | Load::Programs(_) | Load::Captured(_) => Duplication::Usual,
        Load::Segments(Segments { copied: Copied::All, .. }) => Duplication::All,
        Load::Segments(Segments { copied: Copied::Marked(_), .. }) => Duplication::Marked,
    }
}

const fn carried(load: &Load) -> Carried {
    match load {
        Load::Datagrams(_) | Load::Programs(_) | Load::Captured(_) => Carried::Datagrams,
        Load::Segments(_) => Carried::CongestionControlled,
    }
}
