//! Network of a scenario for the lab, where links transmit the packets of real programs.

use std::collections::BTreeMap;

use byway_config_types::RedundancySetting;
use byway_sim::{Link, Seed, Span};
use byway_units::{Duration, Rate, Time};
use byway_wire::BlockShape;

use crate::Scenario;
use crate::build::{BuildError, Plan, ResolvedLink};
use crate::flow_service::FlowService;
use crate::limits::NETWORK_DATAGRAMS_MAX;
use crate::record::DeliveryTerms;
use crate::scenario::{Action, CapturedTraffic, Load, ProgramEnds, Role};
use crate::send_schedule::SendSchedule;
use crate::uplink::UplinkSetting;

/// Role of a machine in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineRole {
    /// Agent: sends and receives for applications.
    Agent,
    /// Relay: codes, caches and forwards.
    Relay,
    /// Router: forwards packets of other machines.
    Router,
}

/// Machine of a [`Network`].
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkMachine {
    /// Name of the machine in the scenario; with its number if it is one of several.
    pub name: String,
    /// Role of the machine.
    pub role: MachineRole,
    /// Index of the router that translates the machine's address; `None` without one.
    pub behind: Option<usize>,
    /// Uplink settings of a relay; `None` for other machines, and without a limit.
    pub uplink: Option<UplinkSetting>,
    /// True if a relay passes on packets between others.
    pub transit: bool,
}

/// One direction of a link between two machines, by their indexes.
#[derive(Clone, Debug)]
pub struct NetworkLink {
    /// Index of the machine at which the link begins.
    pub from: usize,
    /// Index of the machine at which the link ends.
    pub to: usize,
    /// Properties of the link.
    pub link: Link,
}

/// Change of a [`Network`] at a fixed time.
#[derive(Clone, Debug)]
pub struct NetworkStep {
    /// Time of the change, relative to the scenario's beginning.
    pub at: Duration,
    /// Affected machine or links.
    pub change: NetworkChange,
    /// Description of the step in the scenario; empty if it has none.
    pub description: String,
}

/// Change of a machine, by its index, or of links.
#[derive(Clone, Debug)]
pub enum NetworkChange {
    /// The programs of a machine end at once.
    Stop(usize),
    /// The programs of a machine start again without state.
    Start(usize),
    /// The programs of a machine freeze.
    Freeze(usize),
    /// The frozen programs of a machine resume.
    Resume(usize),
    /// These links get new properties.
    Links(Vec<NetworkLink>),
}

/// Flow of a [`Network`], with its overlay settings and its traffic.
#[derive(Clone, Debug)]
pub struct NetworkFlow {
    /// Name of the flow, which several flows may share.
    pub name: String,
    /// Index of the sender's machine.
    pub from: usize,
    /// Index of the receiver's machine.
    pub to: usize,
    /// Indexes of the relays near sender and receiver; `None` if the flow needs none.
    pub relays: Option<(usize, usize)>,
    /// Overlay service of the flow.
    pub service: FlowService,
    /// Shape of blocks, whose repair packets combine packets of this flow alone; `None` without
    /// them.
    pub in_stream: Option<BlockShape>,
    /// Shape of batches, whose repair packets combine packets of several flows; `None` without
    /// them.
    pub batch: Option<BlockShape>,
    /// Rule for the number of repair packets of a batch or block.
    pub redundancy: RedundancySetting,
    /// Rate at which the flow is registered at its relays.
    pub rate: Rate,
    /// Delays and latency budget by which deliveries are judged.
    pub terms: DeliveryTerms,
    /// Source and content of the flow's packets.
    pub traffic: NetworkTraffic,
}

/// Source and content of a flow's packets.
#[derive(Clone, Debug)]
pub enum NetworkTraffic {
    /// Datagrams of a simulated application, in the order of time.
    Datagrams(Vec<NetworkDatagram>),
    /// Segments of simulated TCP in one direction.
    Tcp,
    /// Traffic of programs, which a forward of the sender's agent accepts.
    Programs(ProgramEnds),
    /// Traffic of unmodified programs, which agents capture.
    Captured(CapturedTraffic),
}

impl NetworkTraffic {
    /// True if programs send the traffic, and receive answers.
    #[must_use]
    pub const fn is_of_programs(&self) -> bool {
        matches!(self, Self::Programs(_) | Self::Captured(_))
    }

    /// Returns the datagrams of an application, in the order of time; empty without a send
    /// schedule.
    #[must_use]
    pub fn datagrams(&self) -> &[NetworkDatagram] {
        match self {
            Self::Datagrams(datagrams) => datagrams,
            Self::Tcp | Self::Programs(_) | Self::Captured(_) => &[],
        }
    }
}

/// Datagram that a simulated application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkDatagram {
    /// Time of sending, relative to the scenario's beginning.
    pub at: Duration,
    /// Length of the datagram, in bytes.
    pub bytes: usize,
}

/// A scenario's machines, links, routes and steps, with random values drawn from a seed.
#[derive(Clone, Debug)]
pub struct Network {
    /// Duration of the scenario.
    pub length: Duration,
    /// Flows between the machines.
    pub flows: Vec<NetworkFlow>,
    /// Machines; other fields refer to them by index.
    pub machines: Vec<NetworkMachine>,
    /// Links between machines, an entry for each direction.
    pub links: Vec<NetworkLink>,
    /// Changes of machines and links, in the order of time.
    pub steps: Vec<NetworkStep>,
    next_hops: BTreeMap<(usize, usize), usize>,
}

impl Network {
    /// Returns the same network without flows, for a machine that only transmits packets.
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

    /// Returns the next hop from one machine to another; `None` without a route.
    #[must_use]
    pub fn next_hop(&self, at: usize, to: usize) -> Option<usize> {
        self.next_hops.get(&(at, to)).copied()
    }
}

impl Scenario {
    /// Returns the network of the scenario with random values from a seed: its links have the same
    /// random events as in [`Scenario::run`].
    ///
    /// # Errors
    /// If machines that exchange packets have no route, or if applications send more than
    /// [`NETWORK_DATAGRAMS_MAX`](crate::limits::NETWORK_DATAGRAMS_MAX) datagrams.
    pub fn network(&self, seed: u64) -> Result<Network, BuildError> {
        if let Some((location, machine)) =
            self.nodes.iter().find_map(|node| Some((node.bare.clone()?, node.name.clone())))
        {
            return Err(BuildError::Bare { location, machine });
        }
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
            transit: node.transit,
        });
        let mut resolved = plan.links();
        let links = resolved.iter().map(|(ends, resolved)| network_link(*ends, &resolved.link)).collect();
        let mut steps: Vec<_> = self.steps.iter().enumerate().collect();
        steps.sort_by_key(|(_, step)| step.at);
        let steps = steps.into_iter().map(|(index, step)| NetworkStep {
            at: step.at,
            change: change(&plan, index, &step.action, step.at, &mut resolved),
            description: step.description.clone(),
        });
        let steps = steps.collect();
        let mut left = NETWORK_DATAGRAMS_MAX;
        let flows = (0..self.flows.len()).map(|index| {
            let flow = self.network_flow(&plan, index, left)?;
            left -= flow.traffic.datagrams().len();
            Ok(flow)
        });
        let flows = flows.collect::<Result<_, BuildError>>()?;
        let (machines, next_hops) = (machines.collect(), plan.next_hops());
        Ok(Network { length: self.length, machines, links, flows, steps, next_hops })
    }

    /// Returns a flow with at most this many datagrams.
    fn network_flow(&self, plan: &Plan<'_>, index: usize, most: usize) -> Result<NetworkFlow, BuildError> {
        let (flow, setup) = (&self.flows[index], &plan.flow_setups[index]);
        let traffic = match (&flow.load, plan.send_schedule(index)) {
            (Load::Programs(ends), _) => NetworkTraffic::Programs(*ends),
            (Load::Captured(captured), _) => NetworkTraffic::Captured(captured.clone()),
            (_, Some(schedule)) => NetworkTraffic::Datagrams(datagrams(schedule, self.length, most)?),
            (_, None) => NetworkTraffic::Tcp,
        };
        Ok(NetworkFlow {
            name: flow.name.clone(),
            from: flow.from,
            to: flow.to,
            relays: setup.relays,
            service: flow.service,
            in_stream: flow.in_stream,
            batch: flow.batch,
            redundancy: flow.coding.redundancy,
            rate: flow.load.rate(),
            terms: setup.terms,
            traffic,
        })
    }
}

/// Returns the datagrams that a send schedule's application sends until this time.
fn datagrams(
    mut schedule: SendSchedule,
    length: Duration,
    most: usize,
) -> Result<Vec<NetworkDatagram>, BuildError> {
    let mut datagrams = Vec::new();
    while let Some(burst) = schedule.next() {
        let at = burst.at.saturating_since(Time::START);
        if at >= length {
            break;
        }
        if datagrams.len() + burst.packets as usize > most {
            return Err(BuildError::TooMuch { max: NETWORK_DATAGRAMS_MAX });
        }
        let usual = NetworkDatagram { at, bytes: schedule.bytes() };
        datagrams.extend((1..burst.packets).map(|_| usual));
        datagrams.push(NetworkDatagram { at, bytes: burst.last_bytes });
    }
    Ok(datagrams)
}

fn network_link((from, to): (usize, usize), link: &Link) -> NetworkLink {
    NetworkLink { from, to, link: link.clone() }
}

/// Converts a step of the scenario to a change of machines or links. Changes of links build on
/// earlier steps.
fn change(
    plan: &Plan<'_>,
    index: usize,
    action: &Action,
    at: Duration,
    resolved: &mut BTreeMap<(usize, usize), ResolvedLink<'_>>,
) -> NetworkChange {
    match action {
        Action::Stop(node) => NetworkChange::Stop(*node),
        Action::Start(node) => NetworkChange::Start(*node),
        Action::Freeze(node) => NetworkChange::Freeze(*node),
        Action::Resume(node) => NetworkChange::Resume(*node),
        Action::Cut(links) => {
            let outage = Span { from: Time::START + at, until: Time::MAX };
            let cut = |ends| Link { outages: vec![outage], ..resolved[ends].link.clone() };
            NetworkChange::Links(links.iter().map(|ends| network_link(*ends, &cut(ends))).collect())
        }
        Action::Mend(links) => {
            NetworkChange::Links(links.iter().map(|ends| network_link(*ends, &resolved[ends].link)).collect())
        }
        Action::Change(links, change) => {
            for ends in links {
                if let Some(resolved) = resolved.get_mut(ends) {
                    plan.change(resolved, change, index);
                }
            }
            NetworkChange::Links(links.iter().map(|ends| network_link(*ends, &resolved[ends].link)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two calls through a router; one path is cut for a second.
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
        let has_outages: Vec<Option<bool>> = network
            .steps
            .iter()
            .map(|step| match &step.change {
                NetworkChange::Links(links) => Some(links.iter().all(|link| !link.link.outages.is_empty())),
                _ => None,
            })
            .collect();
        assert_eq!(has_outages, [Some(true), Some(false), None]);
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
