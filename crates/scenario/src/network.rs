//! A scenario's network, for worlds that carry the packets of real programs.

use std::collections::BTreeMap;

use byway_sim::{Link, Seed, Span};
use byway_units::{Duration, Rate, Time};
use byway_wire::{BlockShape, Service};

use crate::Scenario;
use crate::applications::Calendar;
use crate::build::{BuildError, Laid, Plan};
use crate::limits::NETWORK_DATAGRAMS_MAX;
use crate::record::Terms;
use crate::scenario::{Action, CapturedTraffic, Load, ProgramEnds, Role};
use crate::uplink::TypedUplink;

/// What a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineRole {
    /// Sends and receives for applications.
    Agent,
    /// Codes, caches and forwards.
    Relay,
    /// Passes on what is not for it.
    Router,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMachine {
    /// What the scenario calls it; of several of a kind, with its number.
    pub name: String,
    /// What it does.
    pub role: MachineRole,
    /// The place of the router that translates its address; `None` if none does.
    pub behind: Option<usize>,
    /// Of a relay, what it sends at most.
    pub uplink: Option<TypedUplink>,
}

/// One direction of what is between two machines, by their places.
#[derive(Clone, Debug)]
pub struct NetworkLink {
    /// Where it begins.
    pub from: usize,
    /// Where it ends.
    pub to: usize,
    /// What it is like.
    pub link: Link,
}

/// Something that happens in a network.
#[derive(Clone, Debug)]
pub struct NetworkStep {
    /// How long after the begin.
    pub at: Duration,
    /// What.
    pub change: NetworkChange,
    /// In the words of the scenario; empty if it has none.
    pub description: String,
}

/// What may happen, to a machine by its place or to links.
#[derive(Clone, Debug)]
pub enum NetworkChange {
    /// The programs of a machine end at once.
    Stop(usize),
    /// They begin anew.
    Start(usize),
    /// They do nothing any more.
    Hang(usize),
    /// They go on where they were.
    Resume(usize),
    /// These links are so from now on.
    Links(Vec<NetworkLink>),
}

/// A flow, and what its application sends.
#[derive(Clone, Debug)]
pub struct NetworkFlow {
    /// The name that it shares with others.
    pub name: String,
    /// The sender's machine.
    pub from: usize,
    /// The receiver's machine.
    pub to: usize,
    /// The relays near its sender and its receiver, if it needs any.
    pub relays: Option<(usize, usize)>,
    /// What relays do for it.
    pub service: Service,
    /// Repair packets within it.
    pub in_stream: Option<BlockShape>,
    /// Repair packets across flows.
    pub batch: Option<BlockShape>,
    /// Whether copies wait for the first losses.
    pub is_on_standby: bool,
    /// What it sends at most.
    pub rate: Rate,
    /// When a packet counts.
    pub terms: Terms,
    /// What it carries.
    pub traffic: NetworkTraffic,
}

/// What a flow carries.
#[derive(Clone, Debug)]
pub enum NetworkTraffic {
    /// What its application sends, in the order of time.
    Datagrams(Vec<NetworkDatagram>),
    /// One direction of simulated TCP.
    Tcp,
    /// Whatever programs send.
    Programs(ProgramEnds),
    /// What is captured of what they send.
    Captured(CapturedTraffic),
}

impl NetworkTraffic {
    /// Whether programs send it, and are answered.
    #[must_use]
    pub const fn is_of_programs(&self) -> bool {
        matches!(self, Self::Programs(_) | Self::Captured(_))
    }

    /// What an application sends, in the order of time; nothing where no calendar says it.
    #[must_use]
    pub fn datagrams(&self) -> &[NetworkDatagram] {
        match self {
            Self::Datagrams(datagrams) => datagrams,
            Self::Tcp | Self::Programs(_) | Self::Captured(_) => &[],
        }
    }
}

/// A datagram of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkDatagram {
    /// How long after the begin.
    pub at: Duration,
    /// How long it is.
    pub bytes: usize,
}

/// A scenario's machines and links as a seed makes them, the ways between them, and what happens.
#[derive(Clone, Debug)]
pub struct Network {
    /// How long all lasts.
    pub length: Duration,
    /// The flows.
    pub flows: Vec<NetworkFlow>,
    /// The machines; others name them by their places.
    pub machines: Vec<NetworkMachine>,
    /// What is between them, in both directions.
    pub links: Vec<NetworkLink>,
    /// What happens, in the order of time.
    pub steps: Vec<NetworkStep>,
    next_hops: BTreeMap<(usize, usize), usize>,
}

impl Network {
    /// The same machines and links, for who carries packets and does not send any.
    #[must_use]
    pub fn without_flows(&self) -> Self {
        let Self { length, machines, links, steps, next_hops, .. } = self;
        Self {
            length: *length,
            flows: Vec::new(),
            machines: machines.clone(),
            links: links.clone(),
            steps: steps.clone(),
            next_hops: next_hops.clone(),
        }
    }

    /// Where a packet goes next that is at one machine and for another; `None` if no way leads there.
    #[must_use]
    pub fn next_hop(&self, at: usize, to: usize) -> Option<usize> {
        self.next_hops.get(&(at, to)).copied()
    }
}

impl Scenario {
    /// The network that a seed makes of the scenario: of the same links with the same chance as in [`Scenario::run`].
    ///
    /// # Errors
    /// If machines that speak with each other are not joined, or if applications send more than
    /// [`NETWORK_DATAGRAMS_MAX`](crate::limits::NETWORK_DATAGRAMS_MAX) datagrams.
    pub fn network(&self, seed: u64) -> Result<Network, BuildError> {
        let plan = Plan::new(self, Seed::new(seed))?;
        let machines = self.nodes.iter().map(|node| NetworkMachine {
            name: node.name.clone(),
            role: match node.role {
                Role::Agent => MachineRole::Agent,
                Role::Relay => MachineRole::Relay,
                Role::Router => MachineRole::Router,
            },
            behind: node.behind,
            uplink: node.uplink.clone(),
        });
        let mut laid = plan.links();
        let links = laid.iter().map(|(ends, laid)| placed(*ends, &laid.link)).collect();
        let mut steps: Vec<_> = self.steps.iter().enumerate().collect();
        steps.sort_by_key(|(_, step)| step.at);
        let steps = steps.into_iter().map(|(place, step)| NetworkStep {
            at: step.at,
            change: change(&plan, place, &step.action, step.at, &mut laid),
            description: step.description.clone(),
        });
        let steps = steps.collect();
        let mut left = NETWORK_DATAGRAMS_MAX;
        let flows = (0..self.flows.len()).map(|place| {
            let flow = self.network_flow(&plan, place, left)?;
            left -= flow.traffic.datagrams().len();
            Ok(flow)
        });
        let flows = flows.collect::<Result<_, BuildError>>()?;
        let (machines, next_hops) = (machines.collect(), plan.next_hops());
        Ok(Network { length: self.length, machines, links, flows, steps, next_hops })
    }

    /// A flow that sends so many datagrams at most.
    fn network_flow(&self, plan: &Plan<'_>, place: usize, most: usize) -> Result<NetworkFlow, BuildError> {
        let (flow, wiring) = (&self.flows[place], &plan.wirings[place]);
        let traffic = match (&flow.load, plan.calendar(place)) {
            (Load::Programs(ends), _) => NetworkTraffic::Programs(*ends),
            (Load::Captured(captured), _) => NetworkTraffic::Captured(captured.clone()),
            (_, Some(calendar)) => NetworkTraffic::Datagrams(datagrams(calendar, self.length, most)?),
            (_, None) => NetworkTraffic::Tcp,
        };
        Ok(NetworkFlow {
            name: flow.name.clone(),
            from: flow.from,
            to: flow.to,
            relays: wiring.relays,
            service: flow.service,
            in_stream: flow.in_stream,
            batch: flow.batch,
            is_on_standby: flow.is_on_standby,
            rate: flow.load.rate(),
            terms: wiring.terms,
            traffic,
        })
    }
}

/// What an application sends in so much time.
fn datagrams(
    mut calendar: Calendar,
    length: Duration,
    most: usize,
) -> Result<Vec<NetworkDatagram>, BuildError> {
    let mut datagrams = Vec::new();
    while let Some(burst) = calendar.next() {
        let at = burst.at.saturating_since(Time::START);
        if at >= length {
            break;
        }
        if datagrams.len() + burst.packets as usize > most {
            return Err(BuildError::TooMuch { max: NETWORK_DATAGRAMS_MAX });
        }
        let usual = NetworkDatagram { at, bytes: calendar.bytes() };
        datagrams.extend((1..burst.packets).map(|_| usual));
        datagrams.push(NetworkDatagram { at, bytes: burst.last_bytes });
    }
    Ok(datagrams)
}

fn placed((from, to): (usize, usize), link: &Link) -> NetworkLink {
    NetworkLink { from, to, link: link.clone() }
}

/// What a step comes to, after those before it.
fn change(
    plan: &Plan<'_>,
    place: usize,
    action: &Action,
    at: Duration,
    laid: &mut BTreeMap<(usize, usize), Laid<'_>>,
) -> NetworkChange {
    match action {
        Action::Stop(node) => NetworkChange::Stop(*node),
        Action::Start(node) => NetworkChange::Start(*node),
        Action::Hang(node) => NetworkChange::Hang(*node),
        Action::Resume(node) => NetworkChange::Resume(*node),
        Action::Cut(links) => {
            let dark = Span { from: Time::START + at, until: Time::MAX };
            let cut = |ends| Link { outages: vec![dark], ..laid[ends].link.clone() };
            NetworkChange::Links(links.iter().map(|ends| placed(*ends, &cut(ends))).collect())
        }
        Action::Mend(links) => {
            NetworkChange::Links(links.iter().map(|ends| placed(*ends, &laid[ends].link)).collect())
        }
        Action::Change(links, change) => {
            for ends in links {
                if let Some(laid) = laid.get_mut(ends) {
                    plan.change(laid, change, place);
                }
            }
            NetworkChange::Links(links.iter().map(|ends| placed(*ends, &laid[ends].link)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two calls by way of a router, of which one path is cut for a second.
    const SCENARIO: &str = r#"
title = "Calls"
length = "10 s"
node = [
    { name = "alice", role = "agent", count = 2 },
    { name = "bob", role = "agent" },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "gate"], delay = "10 ms" },
    { between = ["gate", "bob"], delay = "20 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "internet", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
step = [
    { at = "5 s", do = "mend", between = ["alice.1", "gate"] },
    { at = "4 s", do = "cut", between = ["alice.1", "gate"] },
    { at = "6 s", do = "stop", node = "bob" },
]
"#;

    #[test]
    fn ways_lead_through_routers_and_links_have_both_directions() {
        let network = Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("all are joined");
        let names: Vec<&str> = network.machines.iter().map(|machine| machine.name.as_str()).collect();
        assert_eq!(names, ["alice.1", "alice.2", "bob", "gate"]);
        assert_eq!((network.next_hop(0, 2), network.next_hop(3, 2)), (Some(3), Some(2)));
        assert_eq!((network.next_hop(2, 1), network.next_hop(3, 1)), (Some(3), Some(1)));
        assert_eq!((network.links.len(), network.next_hop(0, 3)), (6, None), "nobody speaks to a router");
    }

    #[test]
    fn steps_come_in_the_order_of_time_with_what_they_come_to() {
        let network = Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("all are joined");
        let dark: Vec<Option<bool>> = network
            .steps
            .iter()
            .map(|step| match &step.change {
                NetworkChange::Links(links) => Some(links.iter().all(|link| !link.link.outages.is_empty())),
                _ => None,
            })
            .collect();
        assert_eq!(dark, [Some(true), Some(false), None]);
    }

    #[test]
    fn applications_send_what_they_send_in_a_run_and_no_more_than_is_bounded() {
        let scenario = Scenario::parse(SCENARIO).expect("a scenario");
        let network = scenario.network(1).expect("all are joined");
        let sent: usize = network.flows.iter().map(|flow| flow.traffic.datagrams().len()).sum();
        let simulated: u64 =
            scenario.run(1).expect("all are joined").flows.iter().map(|flow| flow.sent).sum();
        assert_eq!(sent as u64, simulated);
        let text = SCENARIO
            .replace("\"10 ms\", bytes", "\"2 us\", bytes")
            .replace("length = \"10 s\"", "length = \"60 s\"");
        let much = Scenario::parse(&text).expect("a scenario").network(1).expect_err("30 million");
        assert!(matches!(much, BuildError::TooMuch { .. }), "{much}");
    }
}
