//! What a test describes: relays, agents, flows and the links between them.

use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, RelayPath, flow_between};
use byway_proto::conventions::relay_paths;
use byway_proto::relay::{Authority, Relay, RelaySettings};
use byway_sim::overlay::Sending;
use byway_sim::overlay::cast::{self, AgentCard, address, bytes};
use byway_sim::{Jitter, Link, Seed, Span};
use byway_units::{Duration, FlowId, Rate, Time};
use byway_wire::seal::{Portable, Provider, SigningKey, Statement, Suite};
use byway_wire::{
    BlockShape, Ecn, FlowKey, Grant, KilobitsPerSecond, SIGNATURE_BYTES, Service, Services, TenantId,
};

use super::hostile::HostileTenant;
use super::identities::{AGENTS, agent_number, agent_secret, relay_card};
use super::liar::{Liar, Lie};
use super::spy::Spy;
use super::{ms, secs};

/// The direct path: 50 ms.
pub(crate) fn direct() -> Link {
    Link { delay: ms(50), ..Link::default() }
}

/// Between an agent and its relay: 7.5 ms and a little jitter that keeps the order.
pub(crate) fn access() -> Link {
    let jitter = Jitter { max: ms(1), may_reorder: false };
    Link { delay: Duration::from_micros(7_500), jitter, ..Link::default() }
}

/// An arrangement of relays, by its name.
type Arrangement = (&'static str, fn(Plan) -> Plan);

/// Arrangements of one relay, of one near each end, of both for each agent, of three, and of two pairs.
pub(crate) const ARRANGEMENTS: [Arrangement; 6] = [
    ("one relay", Plan::with_one_relay),
    ("two relays", |plan| plan),
    ("two relays for each agent", Plan::with_both_relays),
    ("a common relay beside two", Plan::with_common_relay),
    ("three relays for each agent", Plan::with_three_relays),
    ("four relays", Plan::with_standby_relays),
];

/// Between relays: 35 ms, so that the overlay is as long as the direct path.
pub(crate) fn between() -> Link {
    Link { delay: ms(35), ..Link::default() }
}

#[derive(Clone, Debug)]
pub(crate) struct AgentPlan {
    /// The relays it knows, and how it reaches each.
    pub(crate) relays: Vec<(usize, Link)>,
    /// Whether the others know its address.
    pub(crate) is_known: bool,
    /// The agent whose number it bears, if not its own.
    pub(crate) number_of: Option<usize>,
    /// The agent whose secret it has, if not its own.
    pub(crate) secret_of: Option<usize>,
}

impl AgentPlan {
    pub(crate) fn at(relay: usize) -> Self {
        Self { relays: vec![(relay, access())], is_known: true, number_of: None, secret_of: None }
    }
}

/// What the grant of a flow says beside whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) tenant: TenantId,
    /// Whether the tenant agrees to be coded with others.
    pub(crate) sharing: bool,
    pub(crate) rate: KilobitsPerSecond,
    pub(crate) services: Services,
    /// The last second of Unix time, which begins with the run. It counts where a controller signs.
    pub(crate) not_after_unix_seconds: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    pub(crate) terms: Terms,
    /// The flow whose number it bears, if not its own.
    pub(crate) number_of: Option<usize>,
    /// Whether its sender, or its receiver, knows nothing of the overlay.
    pub(crate) sends_alone: bool,
    pub(crate) receives_alone: bool,
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// The ingress and the egress relay of each path, best first.
    pub(crate) paths: Vec<(usize, usize)>,
    /// What the flow asks for; the paths are filled in.
    pub(crate) settings: FlowSettings,
    /// From sender to receiver, and back.
    pub(crate) direct: Link,
    pub(crate) back: Link,
    pub(crate) sending: Sending,
    /// When the application has nothing to say.
    pub(crate) pauses: Vec<Span>,
    pub(crate) datagram_bytes: usize,
    /// Datagrams before this one, but the first two, are short: meanwhile, the sender finds out how long packets may be by all ways.
    pub(crate) long_from: u64,
    /// The ECN field of what the application sends, and how often it marks a packet as worth a copy.
    pub(crate) ecn: Ecn,
    pub(crate) marks_one_in: Option<u64>,
    pub(crate) begin: Duration,
    pub(crate) length: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) relays: usize,
    /// Whether a controller signs grants, or the relays have a list of them.
    pub(crate) has_controller: bool,
    pub(crate) between: Link,
    pub(crate) agents: Vec<AgentPlan>,
    pub(crate) flows: Vec<FlowPlan>,
    /// Who remembers what relays and agents know, if anybody.
    pub(crate) spies: Option<Spies>,
    /// The ciphers of those who lie.
    pub(crate) liar: Option<Liar>,
    /// The agent that lies in place of all relays.
    pub(crate) lying_agent: Option<usize>,
    /// Whose members attack the relays, if anybody's do.
    pub(crate) hostile: Option<HostileTenant>,
}

/// A spy for every relay and every agent.
#[derive(Clone, Debug)]
pub(crate) struct Spies {
    pub(crate) relays: Vec<&'static Spy>,
    pub(crate) agents: Vec<&'static Spy>,
}

impl Plan {
    /// `pairs` senders and receivers: sender p is agent 2p, its receiver agent 2p + 1, their flow is flow p. The
    /// ingress relay is relay 0, the egress relay relay 1.
    pub(crate) fn pairs(pairs: usize, service: Service) -> Self {
        let flow = |pair: usize| FlowPlan {
            terms: Terms {
                tenant: TenantId::new(1),
                sharing: false,
                rate: KilobitsPerSecond::new(100_000),
                services: Services::from_bits(0b1_1111),
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
                rate: Rate::from_kilobits_per_second(800),
                latency_budget: ms(300),
                ..FlowSettings::default()
            },
            direct: direct(),
            back: direct(),
            sending: Sending::Paced(ms(10)),
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
            has_controller: false,
            between: between(),
            agents: (0..pairs).flat_map(|_| [AgentPlan::at(0), AgentPlan::at(1)]).collect(),
            flows: (0..pairs).map(flow).collect(),
            spies: None,
            liar: None,
            lying_agent: None,
            hostile: None,
        }
    }

    /// What relays and agents know is remembered.
    pub(crate) fn spied(mut self) -> Self {
        let spies = |count| (0..count).map(|_| Spy::forever()).collect();
        self.spies = Some(Spies { relays: spies(self.relays), agents: spies(self.agents.len()) });
        self
    }

    /// All relays lie about this.
    pub(crate) fn lying(mut self, lie: Lie) -> Self {
        self.liar = Some(Liar::new(lie, self.seed()));
        self
    }

    /// An agent lies about this to its relays.
    pub(crate) fn with_lying_agent(mut self, agent: usize, lie: Lie) -> Self {
        self.lying_agent = Some(agent);
        self.lying(lie)
    }

    /// Returns the ciphers of relays that lie.
    pub(crate) fn lying_relays(&self) -> Option<&Liar> {
        self.liar.as_ref().filter(|_| self.lying_agent.is_none())
    }

    /// Returns the ciphers of an agent that lies.
    pub(crate) fn lying_agent(&self, agent: usize) -> Option<&Liar> {
        self.liar.as_ref().filter(|_| self.lying_agent == Some(agent))
    }

    /// Both relays of every flow are relay 0.
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

    /// Every flow may also go through relays 2 and 3, which nobody uses as long as relays 0 and 1 work.
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

    /// Every agent knows both relays, the other end's over half the way between them, and every flow has the paths that
    /// two agents get which name both.
    pub(crate) fn with_both_relays(mut self) -> Self {
        let far = Link { delay: access().delay + between().delay, ..access() };
        for agent in &mut self.agents {
            let near = agent.relays[0].0;
            agent.relays.push((1 - near, far.clone()));
        }
        self.with_paths()
    }

    /// Relay 2 is half the way between both ends: every agent knows it beside the one near it, and every flow may go
    /// through it alone.
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

    /// Every agent knows the relays near both ends, and relay 2 half the way between them.
    pub(crate) fn with_three_relays(self) -> Self {
        self.with_both_relays().with_common_relay().with_paths()
    }

    /// Every flow has the paths that two agents get which name these relays.
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

    /// When flow `flow` sends its packet (or frame) `number`. The flows take turns within an interval.
    pub(crate) fn sends_at(&self, flow: usize, number: u64) -> Time {
        let plan = &self.flows[flow];
        let interval = plan.sending.interval();
        let phase = interval / self.flows.len() as u64 * flow as u64;
        Time::START + plan.begin + phase + interval * number
    }

    /// Has the direct path lose these packets (or frames) in a row.
    pub(crate) fn lose(&mut self, flow: usize, first: u64, count: u64) {
        let margin = Duration::from_micros(200);
        let from = self.sends_at(flow, first).saturating_sub(margin);
        let until = self.sends_at(flow, first + count - 1) + margin;
        self.flows[flow].direct.outages.push(Span { from, until });
    }

    /// Each flow loses every 16th packet, one flow after the other.
    pub(crate) fn losing_in_turn(mut self) -> Self {
        for flow in 0..self.flows.len() {
            let packets = self.flows[flow].length.as_millis() / 10;
            for number in (20 + 4 * flow as u64..packets).step_by(16) {
                self.lose(flow, number, 1);
            }
        }
        self
    }

    /// Has the direct path go dark.
    pub(crate) fn darken(&mut self, flow: usize, from: Time, length: Duration) {
        self.flows[flow].direct.outages.push(Span::new(from, length));
    }

    pub(crate) fn key(&self, flow: usize) -> FlowKey {
        let plan = &self.flows[flow];
        let number = u16::try_from(plan.number_of.unwrap_or(flow) + 1).expect("there are few flows");
        flow_between(self.card(plan.from).number, self.card(plan.to).number, FlowId::new(number))
    }

    /// Who an agent is, or says it is.
    fn card(&self, agent: usize) -> AgentCard {
        let plan = &self.agents[agent];
        AgentCard {
            number: agent_number(plan.number_of.unwrap_or(agent)),
            secret: agent_secret(self.seed(), plan.secret_of.unwrap_or(agent)),
            address: plan.is_known.then(|| address(AGENTS, agent)),
        }
    }

    /// What one end of a flow is told.
    pub(crate) fn settings(&self, flow: usize, sends: bool) -> FlowSettings {
        let plan = &self.flows[flow];
        if if sends { plan.sends_alone } else { plan.receives_alone } {
            return FlowSettings { service: Service::Internet, paths: Vec::new(), ..plan.settings.clone() };
        }
        let path = |(ingress, egress): &(usize, usize)| RelayPath {
            grant: if self.has_controller { self.signed_grant(flow, *ingress, *egress) } else { Vec::new() },
            ..cast::path(&relay_card(self.seed(), *ingress), &relay_card(self.seed(), *egress))
        };
        FlowSettings {
            paths: plan.paths.iter().map(path).collect(),
            shares: plan.terms.sharing,
            ..plan.settings.clone()
        }
    }

    fn controller(&self) -> SigningKey {
        SigningKey::from_seed(&bytes(self.seed(), "controller", 0))
    }

    fn signed_grant(&self, flow: usize, ingress: usize, egress: usize) -> Vec<u8> {
        let mut grant = self.grant(flow, ingress, egress);
        let fields = &grant.to_bytes()[..Grant::BYTES - SIGNATURE_BYTES];
        grant.signature = self.controller().sign(Statement::Grant, fields);
        grant.to_bytes().to_vec()
    }

    fn grant(&self, flow: usize, ingress: usize, egress: usize) -> Grant {
        let plan = &self.flows[flow];
        let Terms { tenant, sharing, rate, services, not_after_unix_seconds } = plan.terms;
        let number = self.key(flow).flow();
        let relays = (&relay_card(self.seed(), ingress), &relay_card(self.seed(), egress));
        let any = cast::grant((&self.card(plan.from), &self.card(plan.to)), relays, number..=number);
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

    /// A relay with nothing in its memory. Of two in the same place, the later has the higher `life`.
    pub(crate) fn relay(&self, relay: usize, life: u64, now: Time) -> Relay {
        let seed = self.seed();
        let authority = if self.has_controller {
            Authority::Controller(self.controller().verifying_key())
        } else {
            Authority::Static(self.grants())
        };
        let others = (0..self.relays).filter(|known| *known != relay);
        let others = others.map(|other| relay_card(seed, other).for_relays()).collect();
        let settings = RelaySettings {
            started_unix_nanos: 1 + life,
            ..relay_card(seed, relay).settings(Suite::Aes256Gcm, authority, others)
        };
        let own_seed = bytes(seed.numbered(life), "relay's seed", relay);
        let provider = match self.lying_relays() {
            Some(liar) => liar.forever(),
            None => provider(self.spies.as_ref().map(|spies| spies.relays[relay])),
        };
        Relay::new(settings, Engine::fastest(), provider, own_seed, now)
    }

    /// An agent that knows its relays and all it talks to, without flows yet.
    pub(crate) fn agent(&self, agent: usize, life: u64, now: Time) -> Agent {
        let seed = self.seed();
        let identity =
            AgentIdentity { started_unix_nanos: 1 + life, ..self.card(agent).identity(Suite::Aes256Gcm) };
        let own_seed = bytes(seed.numbered(life), "agent's seed", agent);
        let provider = match self.lying_agent(agent) {
            Some(liar) => liar.forever(),
            None => provider(self.spies.as_ref().map(|spies| spies.agents[agent])),
        };
        let mut host = Agent::new(identity, Engine::fastest(), provider, own_seed, now);
        for (relay, _) in &self.agents[agent].relays {
            host.add_relay(&relay_card(seed, *relay).for_agents(), now);
        }
        for other in self.peers(agent) {
            host.add_peer(self.card(other).for_peers(), now);
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

/// The ciphers of a node that this spy watches, if any does.
fn provider(spy: Option<&'static Spy>) -> &'static (dyn Provider + Sync) {
    spy.map_or(&Portable, |spy| spy as &(dyn Provider + Sync))
}
