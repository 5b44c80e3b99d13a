//! What the nodes of a run count, also those that end meanwhile.

use std::collections::BTreeMap;

use byway_api::{AgentStatus, FlowReceived, RelayStatus};
use byway_scenario::{MachineRole, Network};
use byway_units::{Bytes, Duration};

use super::configuration::exposed;
use super::nodes::Nodes;
use super::outcome::Counted;

/// How often what happened, by its name.
type Counts = BTreeMap<String, u64>;

/// What agents count of packets that the direct path lost, and of those of them that were repaired.
const LOST: &str = "lost_direct";
const REPAIRED: &str = "repaired";

/// What was counted: by machine, and by flow and the machine at which it ends.
#[derive(Debug)]
pub(super) struct Tally(BTreeMap<(usize, Option<usize>), Account>);

/// What was counted by nodes that have ended, and what the present one had counted when it began to matter.
#[derive(Clone, Debug)]
struct Account {
    ended: Counts,
    before: Counts,
    is_known: bool,
}

/// The milliseconds that cores worked for a node: they go on as counters do.
const CPU: &str = "cpu_ms";

/// What all nodes have counted, and taken.
#[derive(Clone, Debug)]
pub(super) struct Tallied {
    /// By flow; `None` where an agent did not answer.
    pub(super) flows: Vec<Option<Counted>>,
    /// By machine; nothing where there is no node.
    pub(super) machines: Vec<OfMachine>,
}

/// What the node of a machine has counted, and taken.
#[derive(Clone, Debug, Default)]
pub(super) struct OfMachine {
    pub(super) counted: Counts,
    /// The time that cores worked for it.
    pub(super) cpu: Duration,
    /// The most memory that the node had which was there in the end.
    pub(super) peak_memory: Bytes,
}

impl Tally {
    /// Nothing yet: what nodes have counted so far does not matter.
    pub(super) fn new(network: &Network, nodes: &Nodes) -> Self {
        let mut tally = Self(BTreeMap::new());
        for place in 0..network.machines.len() {
            let mut seen = seen_and_taken(place, network, nodes);
            for flow in ends(place, network) {
                let before = seen.as_mut().map(|seen| seen.remove(&flow).unwrap_or_default());
                let is_known = before.is_some();
                let account = Account { ended: Counts::new(), before: before.unwrap_or_default(), is_known };
                tally.0.insert((place, flow), account);
            }
        }
        tally
    }

    /// The node of a machine is about to end, if it has one.
    pub(super) fn before_end_of(&mut self, place: usize, network: &Network, nodes: &Nodes) {
        if !nodes.has_node(place) {
            return;
        }
        let mut seen = seen_and_taken(place, network, nodes);
        for flow in ends(place, network) {
            if let Some(account) = self.0.get_mut(&(place, flow)) {
                account.settle(seen.as_mut().map(|seen| seen.remove(&flow).unwrap_or_default()));
            }
        }
    }

    /// What was counted.
    pub(super) fn close(mut self, network: &Network, nodes: &Nodes) -> Tallied {
        for place in 0..network.machines.len() {
            self.before_end_of(place, network, nodes);
        }
        let of_flow = |flow: usize| {
            let mut accounts = self.0.iter().filter(|((_, of), _)| *of == Some(flow));
            accounts.try_fold(Counted::default(), |sum, (_, account)| {
                let count = |name: &str| account.ended.get(name).copied().unwrap_or_default();
                let known =
                    Counted { lost: sum.lost + count(LOST), repaired: sum.repaired + count(REPAIRED) };
                account.is_known.then_some(known)
            })
        };
        let of_machine = |place: usize| {
            let account = self.0.get(&(place, None));
            let mut counted = account.map(|account| account.ended.clone()).unwrap_or_default();
            let cpu = Duration::from_millis(counted.remove(CPU).unwrap_or_default());
            let peak_memory = nodes.cost(place).map(|cost| cost.peak_memory).unwrap_or_default();
            OfMachine { counted, cpu, peak_memory }
        };
        Tallied {
            flows: (0..network.flows.len()).map(of_flow).collect(),
            machines: (0..network.machines.len()).map(of_machine).collect(),
        }
    }
}

impl Account {
    /// The present node has counted so much, and the next one begins with nothing.
    fn settle(&mut self, counted: Option<Counts>) {
        let Some(counted) = counted else {
            self.is_known = false;
            return;
        };
        for (name, count) in counted {
            let before = self.before.get(&name).copied().unwrap_or_default();
            if count > before {
                *self.ended.entry(name).or_default() += count - before;
            }
        }
        self.before.clear();
    }
}

/// What is counted at a machine: the machine itself, and flows that it receives. What programs send is answered, too.
fn ends(place: usize, network: &Network) -> impl Iterator<Item = Option<usize>> {
    let flows = network
        .flows
        .iter()
        .enumerate()
        .filter(move |(_, flow)| flow.to == place || flow.from == place && flow.traffic.is_of_programs());
    std::iter::once(None).chain(flows.map(|(flow, _)| Some(flow)))
}

/// The same with the time that cores worked for it, of itself.
fn seen_and_taken(place: usize, network: &Network, nodes: &Nodes) -> Option<BTreeMap<Option<usize>, Counts>> {
    let mut seen = seen(place, network, nodes)?;
    if let Some(cost) = nodes.cost(place) {
        seen.entry(None).or_default().insert(CPU.to_owned(), cost.cpu.as_millis());
    }
    Some(seen)
}

/// What the node of a machine has counted, of itself and by flow; `None` if it does not answer.
fn seen(place: usize, network: &Network, nodes: &Nodes) -> Option<BTreeMap<Option<usize>, Counts>> {
    let status = nodes.status(place)?;
    if network.machines[place].role == MachineRole::Relay {
        let status: RelayStatus = serde_json::from_value(status).ok()?;
        let counts = status.counters.into_iter().map(|counted| (counted.reason, counted.count)).collect();
        return Some(BTreeMap::from([(None, counts)]));
    }
    let status: AgentStatus = serde_json::from_value(status).ok()?;
    let totals = status.totals.iter().fold(Counts::new(), |counts, totals| with(counts, &totals.received));
    let mut seen = BTreeMap::from([(None, totals)]);
    for (flow, _) in network.flows.iter().enumerate() {
        let of_it = status.mappings.iter().filter(|mapping| mapping.to == exposed(flow));
        let counts = of_it.fold(Counts::new(), |counts, mapping| with(counts, &mapping.received));
        seen.insert(Some(flow), counts);
    }
    Some(seen)
}

fn with(mut counts: Counts, received: &FlowReceived) -> Counts {
    let FlowReceived { lost_direct, in_stream, cooperative, cached, .. } = received;
    *counts.entry(LOST.to_owned()).or_default() += lost_direct;
    *counts.entry(REPAIRED.to_owned()).or_default() += in_stream + cooperative + cached;
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(lost: u64) -> Counts {
        Counts::from([(LOST.to_owned(), lost)])
    }

    #[test]
    fn nodes_that_start_again_go_on_counting() {
        let mut account = Account { ended: Counts::new(), before: counts(3), is_known: true };
        account.settle(Some(counts(5)));
        account.settle(Some(counts(4)));
        assert_eq!((account.ended.get(LOST), account.is_known), (Some(&6), true));
        account.settle(None);
        assert!(!account.is_known);
    }
}
