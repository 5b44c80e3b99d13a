//! Counters of a run's nodes, including nodes that stop during the run.

use std::collections::BTreeMap;

use byway_api::{AgentStatus, FlowDeliveries, RelayStatus};
use byway_scenario::{MachineRole, Network};
use byway_units::{Bytes, Duration};

use super::configuration::exposed_name;
use super::nodes::Nodes;
use super::outcome::RepairCounts;

/// Counter values by the counter's name.
type Counts = BTreeMap<String, u64>;

/// Names of two agent counters: packets that the direct path lost, and those that were repaired.
const LOST: &str = "lost_direct";
const REPAIRED: &str = "repaired";

/// Counters of a run, by machine and flow. A flow is counted at its receiving machine; `None`
/// stands for the machine itself.
#[derive(Debug)]
pub(super) struct Tally(BTreeMap<(usize, Option<usize>), CounterBaseline>);

/// Counters of a machine or flow: sums over its nodes that have ended, and the running node's
/// values at the beginning of the measured time.
#[derive(Clone, Debug)]
struct CounterBaseline {
    ended: Counts,
    before: Counts,
    is_known: bool,
}

/// Name under which the tally counts a node's CPU time, in milliseconds.
const CPU: &str = "cpu_ms";

/// Counters and resources of all nodes over the measured time.
#[derive(Clone, Debug)]
pub(super) struct CounterTotals {
    /// Lost and repaired packets by flow; `None` if an agent did not answer.
    pub(super) flows: Vec<Option<RepairCounts>>,
    /// Counters and resources by machine; empty for a machine without a node.
    pub(super) machines: Vec<MachineUsage>,
}

/// Counters, CPU time and memory of the node of a machine.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineUsage {
    pub(super) counted: Counts,
    /// CPU time of the machine's nodes in the measured time.
    pub(super) cpu: Duration,
    /// Peak memory of the machine's last node.
    pub(super) peak_memory: Bytes,
}

impl Tally {
    /// Starts counting: stores the nodes' present counters, which later values exceed.
    pub(super) fn new(network: &Network, nodes: &Nodes) -> Self {
        let mut tally = Self(BTreeMap::new());
        for index in 0..network.machines.len() {
            let mut counters = read_usage(index, network, nodes);
            for flow in ends(index, network) {
                let before = counters.as_mut().map(|counters| counters.remove(&flow).unwrap_or_default());
                let is_known = before.is_some();
                let baseline =
                    CounterBaseline { ended: Counts::new(), before: before.unwrap_or_default(), is_known };
                tally.0.insert((index, flow), baseline);
            }
        }
        tally
    }

    /// Adds the counters of a node that is about to end to its machine's sums. Does nothing if the
    /// machine has no node.
    pub(super) fn on_node_stop(&mut self, index: usize, network: &Network, nodes: &Nodes) {
        if !nodes.has_node(index) {
            return;
        }
        let mut counters = read_usage(index, network, nodes);
        for flow in ends(index, network) {
            if let Some(baseline) = self.0.get_mut(&(index, flow)) {
                baseline
                    .fold_in(counters.as_mut().map(|counters| counters.remove(&flow).unwrap_or_default()));
            }
        }
    }

    /// Reads the running nodes' counters and returns the totals of the measured time.
    pub(super) fn close(mut self, network: &Network, nodes: &Nodes) -> CounterTotals {
        for index in 0..network.machines.len() {
            self.on_node_stop(index, network, nodes);
        }
        let of_flow = |flow: usize| {
            let mut baselines = self.0.iter().filter(|((_, of), _)| *of == Some(flow));
            baselines.try_fold(RepairCounts::default(), |sum, (_, baseline)| {
                let count = |name: &str| baseline.ended.get(name).copied().unwrap_or_default();
                let counts =
                    RepairCounts { lost: sum.lost + count(LOST), repaired: sum.repaired + count(REPAIRED) };
                baseline.is_known.then_some(counts)
            })
        };
        let of_machine = |index: usize| {
            let baseline = self.0.get(&(index, None));
            let mut counted = baseline.map(|baseline| baseline.ended.clone()).unwrap_or_default();
            let cpu = Duration::from_millis(counted.remove(CPU).unwrap_or_default());
            let peak_memory = nodes.cost(index).map(|cost| cost.peak_memory).unwrap_or_default();
            MachineUsage { counted, cpu, peak_memory }
        };
        CounterTotals {
            flows: (0..network.flows.len()).map(of_flow).collect(),
            machines: (0..network.machines.len()).map(of_machine).collect(),
        }
    }
}

impl CounterBaseline {
    /// Adds the growth of the running node's counters to the sums. The next node counts from zero;
    /// `None` marks the sums as unknown.
    fn fold_in(&mut self, counted: Option<Counts>) {
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

/// Returns the keys of a machine in the tally: `None` for itself, and the flows that it receives.
/// The sender of a flow of programs also receives, because programs answer.
fn ends(index: usize, network: &Network) -> impl Iterator<Item = Option<usize>> {
    let flows = network
        .flows
        .iter()
        .enumerate()
        .filter(move |(_, flow)| flow.to == index || flow.from == index && flow.traffic.is_of_programs());
    std::iter::once(None).chain(flows.map(|(flow, _)| Some(flow)))
}

/// Reads the counters of a machine's node and of its flows, with the node's CPU time; `None` if the
/// node does not answer.
fn read_usage(index: usize, network: &Network, nodes: &Nodes) -> Option<BTreeMap<Option<usize>, Counts>> {
    let mut counters = read_counters(index, network, nodes)?;
    if let Some(cost) = nodes.cost(index) {
        counters.entry(None).or_default().insert(CPU.to_owned(), cost.cpu.as_millis());
    }
    Some(counters)
}

/// Reads the counters of a machine's node and of its flows from its status; `None` if the node does
/// not answer.
fn read_counters(index: usize, network: &Network, nodes: &Nodes) -> Option<BTreeMap<Option<usize>, Counts>> {
    let status = nodes.status(index)?;
    if network.machines[index].role == MachineRole::Relay {
        let status: RelayStatus = serde_json::from_value(status).ok()?;
        let counts = status.counters.into_iter().map(|counted| (counted.reason, counted.count)).collect();
        return Some(BTreeMap::from([(None, counts)]));
    }
    let status: AgentStatus = serde_json::from_value(status).ok()?;
    let totals = status.totals.iter().fold(Counts::new(), |counts, totals| with(counts, &totals.received));
    let mut seen = BTreeMap::from([(None, totals)]);
    for (flow, _) in network.flows.iter().enumerate() {
        let of_it = status.mappings.iter().filter(|mapping| mapping.to == exposed_name(flow));
        let counts = of_it.fold(Counts::new(), |counts, mapping| with(counts, &mapping.received));
        seen.insert(Some(flow), counts);
    }
    Some(seen)
}

fn with(mut counts: Counts, received: &FlowDeliveries) -> Counts {
    let FlowDeliveries { lost_direct, in_stream, cooperative, cached, resent, .. } = received;
    *counts.entry(LOST.to_owned()).or_default() += lost_direct;
    *counts.entry(REPAIRED.to_owned()).or_default() += in_stream + cooperative + cached + resent;
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
        let mut account = CounterBaseline { ended: Counts::new(), before: counts(3), is_known: true };
        account.fold_in(Some(counts(5)));
        account.fold_in(Some(counts(4)));
        assert_eq!((account.ended.get(LOST), account.is_known), (Some(&6), true));
        account.fold_in(None);
        assert!(!account.is_known);
    }
}
