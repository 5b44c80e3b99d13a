//! Plan of a test: relays, agents, flows and the links between them.

use byway_code::Engine;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, RedundancyMode, RelayPath, flow_between};
use byway_proto::conventions::relay_paths;
use byway_proto::relay::{Authority, Relay, RelaySettings};
use byway_proto::{CodingRates, Uplinks};
use byway_sim::overlay::SendSchedule;
use byway_sim::overlay::topology::{self, AgentNode, address, secret_bytes};
use byway_sim::{Jitter, Link, Seed, Span};
use byway_units::{Duration, FlowId, Rate, Time};
use byway_wire::seal::{PortableProvider, Provider, SigningKey, Statement, Suite};
use byway_wire::{
    BlockShape, Ecn, FlowKey, Grant, KilobitsPerSecond, SIGNATURE_BYTES, Service, Services, TenantId,
};

use super::faulty_relay::{FaultyProvider, Misbehaviour};
use super::hostile::HostileTenant;
use super::identities::{AGENTS, agent_number, agent_secret, relay_node};
use super::recording_ciphers::RecordingProvider;
use super::{ms, secs};

/// The direct path: 50 ms.
pub(crate) fn direct() -> Link {
    Link { delay: ms(50), ..Link::default() }
}

/// Link between an agent and its relay: 7.5 ms and a little jitter that preserves the order.
pub(crate) fn access() -> Link {
    let jitter = Jitter { max: ms(1), may_reorder: false };
    Link { delay: Duration::from_micros(7_500), jitter, ..Link::default() }
}

/// An arrangement of relays, by its name.
type Arrangement = (&'static str, fn(Plan) -> Plan);

/// Arrangements of one relay, of one near each end, of both for each agent, of three, and of two
/// pairs.
pub(crate) const ARRANGEMENTS: [Arrangement; 6] = [
    ("one relay", Plan::with_one_relay),
    ("two relays", |plan| plan),
    ("two relays for each agent", Plan::with_both_relays),
    ("a common relay beside two", Plan::with_common_relay),
    ("three relays for each agent", Plan::with_three_relays),
    ("four relays", Plan::with_standby_relays),
];

/// Link between relays: 35 ms, which makes the relay path as long as the direct path.
pub(crate) fn between() -> Link {
    Link { delay: ms(35), ..Link::default() }
}

#[derive(Clone, Debug)]
pub(crate) struct AgentPlan {
    /// Relays that it knows, with the links to them.
    pub(crate) relays: Vec<(usize, Link)>,
    /// Its uplinks: of two, it prefers the second one for packets to relays.
    pub(crate) uplinks: Uplinks,
    /// Network of its address.
    pub(crate) network: u8,
    /// True if the others know its address.
    pub(crate) is_known: bool,
    /// The agent whose number it uses, if not its own.
    pub(crate) number_of: Option<usize>,
    /// The agent whose secret it uses, if not its own.
    pub(crate) secret_of: Option<usize>,
}

impl AgentPlan {
    pub(crate) fn at(relay: usize) -> Self {
        let relays = vec![(relay, access())];
        let uplinks = Uplinks::One;
        Self { relays, uplinks, network: AGENTS, is_known: true, number_of: None, secret_of: None }
    }
}

/// Terms of a flow's grant, without its parties.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GrantTerms {
    pub(crate) tenant: TenantId,
    /// True if the tenant permits coding with others.
    pub(crate) sharing: bool,
    /// True if the flow's settings permit it, too.
    pub(crate) is_shared: bool,
    pub(crate) rate: KilobitsPerSecond,
    pub(crate) services: Services,
    /// Last second of Unix time, which begins with the run. It matters only if a controller signs
    /// grants.
    pub(crate) not_after_unix_seconds: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    pub(crate) terms: GrantTerms,
    /// The flow whose number it uses, if not its own.
    pub(crate) number_of: Option<usize>,
    /// True if its sender, or its receiver, does not use the overlay.
    pub(crate) sends_alone: bool,
    pub(crate) receives_alone: bool,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The ingress and the egress relay of each path, best first.
    pub(crate) paths: Vec<(usize, usize)>,
    /// Settings of the flow; the plan adds the paths.
    pub(crate) settings: FlowSettings,
    /// Direct path from sender to receiver, and back.
    pub(crate) direct: Link,
    pub(crate) back: Link,
    pub(crate) sending: SendSchedule,
    /// Spans in which the application sends nothing.
    pub(crate) pauses: Vec<Span>,
    pub(crate) datagram_bytes: usize,
    /// Datagrams before this one, except the first two, are short: in that time, the sender
    /// discovers the path MTU of all paths.
    pub(crate) long_from: u64,
    /// ECN field of the application's datagrams, and the interval at which it marks a packet for a
    /// copy.
    pub(crate) ecn: Ecn,
    pub(crate) marks_one_in: Option<u64>,
    pub(crate) begin: Duration,
    pub(crate) length: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) relays: usize,
    /// The relay that passes on packets of other relays, if any.
    pub(crate) transit: Option<usize>,
    /// True if a controller signs grants; otherwise, the relays have a list of them.
    pub(crate) has_controller: bool,
    pub(crate) between: Link,
    pub(crate) agents: Vec<AgentPlan>,
    pub(crate) flows: Vec<FlowPlan>,
    /// Recorders of the secrets of relays and agents, if any.
    pub(crate) recorders: Option<CipherRecorders>,
    /// Ciphers of misbehaving nodes.
    pub(crate) faulty_relay: Option<FaultyProvider>,
    /// The agent that misbehaves instead of all relays.
    pub(crate) lying_agent: Option<usize>,
    /// Tenant whose members attack the relays, if any.
    pub(crate) hostile: Option<HostileTenant>,
}

/// A recorder for every relay and every agent.
#[derive(Clone, Debug)]
pub(crate) struct CipherRecorders {
    pub(crate) relays: Vec<&'static RecordingProvider>,
    pub(crate) agents: Vec<&'static RecordingProvider>,
}

impl Plan {
    /// Creates a plan with `pairs` senders and receivers: sender p is agent 2p, its receiver agent
    /// 2p + 1, their flow is flow p. The ingress relay is relay 0, the egress relay relay 1.
    pub(crate) fn pairs(pairs: usize, service: Service) -> Self {
        let flow = |pair: usize| FlowPlan {
            terms: GrantTerms {
                tenant: TenantId::new(1),
                sharing: false,
                is_shared: false,
                rate: KilobitsPerSecond::new(100_000),
                services: Services::ALL,
                not_after_unix_seconds: u64::MAX,
            },
            number_of: None,
            sends_alone: false,
            receives_alone: false,
            from: 2 * pair,
            to: 2 * pair + 1,
            paths: if service == Service::Internet { vec![] } else { vec![(0, 1)] },
            settings: FlowSettings {
                service,
                rates: CodingRates { in_stream: BlockShape::new(5, 1), batch: BlockShape::new(8, 2) },
                redundancy: RedundancyMode::Fixed,
                rate: Rate::from_kilobits_per_second(800),
                latency_budget: ms(300),
                ..FlowSettings::default()
            },
            direct: direct(),
            back: direct(),
            sending: SendSchedule::Paced(ms(10)),
            pauses: Vec::new(),
            datagram_bytes: 300,
            long_from: 0,
            ecn: Ecn::NotCapable,
            marks_one_in: None,
            begin: secs(2),
            length: secs(10),
        };
        Self {
            seed: 1,
            relays: 2,
            transit: None,
            has_controller: false,
            between: between(),
            agents: (0..pairs).flat_map(|_| [AgentPlan::at(0), AgentPlan::at(1)]).collect(),
            flows: (0..pairs).map(flow).collect(),
            recorders: None,
            faulty_relay: None,
            lying_agent: None,
            hostile: None,
        }
    }

    /// Records the secrets of relays and agents.
    pub(crate) fn with_recorders(mut self) -> Self {
        let spies = |count| (0..count).map(|_| RecordingProvider::forever()).collect();
        self.recorders =
            Some(CipherRecorders { relays: spies(self.relays), agents: spies(self.agents.len()) });
        self
    }

    /// Makes all relays misbehave.
    pub(crate) fn lying(mut self, lie: Misbehaviour) -> Self {
        self.faulty_relay = Some(FaultyProvider::new(lie, self.seed()));
        self
    }

    /// An agent misbehaves toward its relays.
    pub(crate) fn with_lying_agent(mut self, agent: usize, lie: Misbehaviour) -> Self {
        self.lying_agent = Some(agent);
        self.lying(lie)
    }

    /// Returns the ciphers of misbehaving relays.
    pub(crate) fn lying_relays(&self) -> Option<&FaultyProvider> {
        self.faulty_relay.as_ref().filter(|_| self.lying_agent.is_none())
    }

    /// Returns the ciphers of a misbehaving agent.
    pub(crate) fn lying_agent(&self, agent: usize) -> Option<&FaultyProvider> {
        self.faulty_relay.as_ref().filter(|_| self.lying_agent == Some(agent))
    }

    /// Makes relay 0 both relays of every flow.
    pub(crate) fn with_one_relay(mut self) -> Self {
        self.relays = 1;
        for agent in &mut self.agents {
            for (relay, _) in &mut agent.relays {
                *relay = 0;
            }
        }
        for path in self.flows.iter_mut().flat_map(|flow| &mut flow.paths) {
            *path = (0, 0);
        }
        self
    }

    /// Adds relays 2 and 3 to every flow as a standby path, which is unused as long as relays 0 and
    /// 1 work.
    pub(crate) fn with_standby_relays(mut self) -> Self {
        self.relays = 4;
        for agent in &mut self.agents {
            let (near, link) = agent.relays[0].clone();
            agent.relays.push((near + 2, link));
        }
        for flow in &mut self.flows {
            flow.paths.push((2, 3));
        }
        self
    }

    /// Every agent knows both relays, the other end's over half the delay between them. Every flow
    /// has the paths that two agents with both relays get.
    pub(crate) fn with_both_relays(mut self) -> Self {
        let far = Link { delay: access().delay + between().delay, ..access() };
        for agent in &mut self.agents {
            let near = agent.relays[0].0;
            agent.relays.push((1 - near, far.clone()));
        }
        self.with_paths()
    }

    /// Relay 2 is in the middle between both ends. Every agent knows it besides the one near it,
    /// and every flow may use it alone.
    pub(crate) fn with_common_relay(mut self) -> Self {
        self.relays = 3;
        let half = Link { delay: direct().delay / 2, ..access() };
        for agent in &mut self.agents {
            agent.relays.push((2, half.clone()));
        }
        for flow in &mut self.flows {
            flow.paths.push((2, 2));
        }
        self
    }

    /// Relay 2 passes on packets between relays 0 and 1. Agents do not know it.
    pub(crate) fn with_third_relay(mut self) -> Self {
        self.relays = 3;
        self.transit = Some(2);
        self
    }

    /// Every agent knows the relays near both ends, and relay 2 in the middle between them.
    pub(crate) fn with_three_relays(self) -> Self {
        self.with_both_relays().with_common_relay().with_paths()
    }

    /// Gives every flow the paths that two agents with these relays get.
    fn with_paths(mut self) -> Self {
        for flow in &mut self.flows {
            let near =
                |agent: usize| self.agents[agent].relays.iter().map(|(relay, _)| *relay).collect::<Vec<_>>();
            flow.paths = relay_paths(&near(flow.from), &near(flow.to));
        }
        self
    }

    pub(crate) fn each_flow(mut self, change: impl Fn(&mut FlowPlan)) -> Self {
        self.flows.iter_mut().for_each(change);
        self
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed::new(self.seed)
    }

    /// Returns the time at which flow `flow` sends its packet (or frame) `number`. The flows take
    /// turns within an interval.
    pub(crate) fn sends_at(&self, flow: usize, number: u64) -> Time {
        let plan = &self.flows[flow];
        let interval = plan.sending.interval();
        let phase = interval / self.flows.len() as u64 * flow as u64;
        Time::START + plan.begin + phase + interval * number
    }

    /// Adds losses of these consecutive packets (or frames) to the direct path.
    pub(crate) fn lose(&mut self, flow: usize, first: u64, count: u64) {
        let margin = Duration::from_micros(200);
        let from = self.sends_at(flow, first).saturating_sub(margin);
        let until = self.sends_at(flow, first + count - 1) + margin;
        self.flows[flow].direct.outages.push(Span { from, until });
    }

    /// Adds a loss of every 16th packet of each flow, one flow after the other.
    pub(crate) fn losing_in_turn(mut self) -> Self {
        for flow in 0..self.flows.len() {
            let packets = self.flows[flow].length.as_millis() / 10;
            for number in (20 + 4 * flow as u64..packets).step_by(16) {
                self.lose(flow, number, 1);
            }
        }
        self
    }

    /// Adds an outage of the direct path.
    pub(crate) fn add_outage(&mut self, flow: usize, from: Time, length: Duration) {
        self.flows[flow].direct.outages.push(Span::new(from, length));
    }

    pub(crate) fn key(&self, flow: usize) -> FlowKey {
        let plan = &self.flows[flow];
        let number = u16::try_from(plan.number_of.unwrap_or(flow) + 1).expect("there are few flows");
        flow_between(self.agent_node(plan.from).number, self.agent_node(plan.to).number, FlowId::new(number))
    }

    /// Returns the record of an agent, with the identity that it claims.
    fn agent_node(&self, agent: usize) -> AgentNode {
        let plan = &self.agents[agent];
        AgentNode {
            number: agent_number(plan.number_of.unwrap_or(agent)),
            secret: agent_secret(self.seed(), plan.secret_of.unwrap_or(agent)),
            address: plan.is_known.then(|| address(plan.network, agent)),
        }
    }

    /// Returns the settings of one end of a flow.
    pub(crate) fn settings(&self, flow: usize, sends: bool) -> FlowSettings {
        let plan = &self.flows[flow];
        if if sends { plan.sends_alone } else { plan.receives_alone } {
            return FlowSettings { service: Service::Internet, paths: Vec::new(), ..plan.settings.clone() };
        }
        let path = |(ingress, egress): &(usize, usize)| RelayPath {
            grant: if self.has_controller { self.signed_grant(flow, *ingress, *egress) } else { Vec::new() },
            ..topology::path(&relay_node(self.seed(), *ingress), &relay_node(self.seed(), *egress))
        };
        FlowSettings {
            paths: plan.paths.iter().map(path).collect(),
            shares: plan.terms.is_shared,
            ..plan.settings.clone()
        }
    }

    fn controller(&self) -> SigningKey {
        SigningKey::from_seed(&secret_bytes(self.seed(), "controller", 0))
    }

    fn signed_grant(&self, flow: usize, ingress: usize, egress: usize) -> Vec<u8> {
        let mut grant = self.grant(flow, ingress, egress);
        let fields = &grant.to_bytes()[..Grant::BYTES - SIGNATURE_BYTES];
        grant.signature = self.controller().sign(Statement::Grant, fields);
        grant.to_bytes().to_vec()
    }

    fn grant(&self, flow: usize, ingress: usize, egress: usize) -> Grant {
        let plan = &self.flows[flow];
        let GrantTerms { tenant, sharing, rate, services, not_after_unix_seconds, .. } = plan.terms;
        let number = self.key(flow).flow();
        let relays = (&relay_node(self.seed(), ingress), &relay_node(self.seed(), egress));
        let any = topology::grant(
            (&self.agent_node(plan.from), &self.agent_node(plan.to)),
            relays,
            number..=number,
        );
        Grant { tenant, sharing, rate, services, not_after_unix_seconds, ..any }
    }

    fn grants(&self) -> Vec<Grant> {
        let paths = |flow: usize| self.flows[flow].paths.iter().map(move |path| (flow, *path));
        (0..self.flows.len())
            .flat_map(paths)
            .map(|(flow, (ingress, egress))| self.grant(flow, ingress, egress))
            .chain(self.hostile.into_iter().flat_map(|tenant| tenant.grants(self.seed())))
            .collect()
    }

    /// Creates a relay without state. Of two with the same index, the later has the higher `life`.
    pub(crate) fn relay(&self, relay: usize, life: u64, now: Time) -> Relay {
        let seed = self.seed();
        let authority = if self.has_controller {
            Authority::Controller(self.controller().verifying_key())
        } else {
            Authority::Static(self.grants())
        };
        let others = (0..self.relays).filter(|known| *known != relay);
        let others = others.map(|other| relay_node(seed, other).peer_relay()).collect();
        let settings = RelaySettings {
            started_unix_nanos: 1 + life,
            transit: self.transit == Some(relay),
            ..relay_node(seed, relay).settings(Suite::Aes256Gcm, authority, others)
        };
        let own_seed = secret_bytes(seed.numbered(life), "relay's seed", relay);
        let provider = match self.lying_relays() {
            Some(faulty_relay) => faulty_relay.forever(),
            None => provider(self.recorders.as_ref().map(|spies| spies.relays[relay])),
        };
        Relay::new(settings, Engine::fastest(), provider, own_seed, now)
    }

    /// Creates an agent with records of its relays and its peers, without flows yet.
    pub(crate) fn agent(&self, agent: usize, life: u64, now: Time) -> Agent {
        let seed = self.seed();
        let identity = AgentIdentity {
            started_unix_nanos: 1 + life,
            ..self.agent_node(agent).identity(Suite::Aes256Gcm)
        };
        let own_seed = secret_bytes(seed.numbered(life), "agent's seed", agent);
        let provider = match self.lying_agent(agent) {
            Some(faulty_relay) => faulty_relay.forever(),
            None => provider(self.recorders.as_ref().map(|spies| spies.agents[agent])),
        };
        let mut host = Agent::new(identity, Engine::fastest(), provider, own_seed, now);
        host.set_uplinks(self.agents[agent].uplinks);
        for (relay, _) in &self.agents[agent].relays {
            host.add_relay(&relay_node(seed, *relay).relay_peer(), now);
        }
        for other in self.peers(agent) {
            host.add_peer(self.agent_node(other).peer(), now);
        }
        host
    }

    fn peers(&self, agent: usize) -> impl Iterator<Item = usize> + '_ {
        self.flows.iter().filter_map(move |flow| match (flow.from == agent, flow.to == agent) {
            (true, _) => Some(flow.to),
            (_, true) => Some(flow.from),
            _ => None,
        })
    }
}

/// Returns the ciphers of a node, recorded if it has a recorder.
fn provider(spy: Option<&'static RecordingProvider>) -> &'static (dyn Provider + Sync) {
    spy.map_or(&PortableProvider, |spy| spy as &(dyn Provider + Sync))
}
