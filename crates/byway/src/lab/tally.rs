//! What the receivers of a run count, also those that end meanwhile.

use byway_api::FlowReceived;
use byway_scenario::Network;

use super::configuration::exposed;
use super::nodes::Nodes;
use super::outcome::Counted;

/// What was counted, by flow.
#[derive(Debug)]
pub(super) struct Tally(Vec<Account>);

/// What was counted of a flow: by agents that have ended, and what the present one had counted when it began to matter.
#[derive(Clone, Copy, Debug)]
struct Account {
    ended: Counted,
    before: Counted,
    is_known: bool,
}

impl Tally {
    /// Nothing yet: what agents have counted so far does not matter.
    pub(super) fn new(network: &Network, nodes: &Nodes) -> Self {
        let mut tally = Self(Vec::new());
        for flow in 0..network.flows.len() {
            let before = counted(network, nodes, flow);
            tally.0.push(Account {
                ended: Counted::default(),
                before: before.unwrap_or_default(),
                is_known: before.is_some(),
            });
        }
        tally
    }

    /// The agent of a machine is about to end, if it has one.
    pub(super) fn before_end_of(&mut self, place: usize, network: &Network, nodes: &Nodes) {
        if !nodes.has_node(place) {
            return;
        }
        for (flow, account) in self.0.iter_mut().enumerate() {
            if network.flows[flow].to == place {
                account.settle(counted(network, nodes, flow));
            }
        }
    }

    /// What was counted of each flow; `None` where an agent did not answer.
    pub(super) fn close(mut self, network: &Network, nodes: &Nodes) -> Vec<Option<Counted>> {
        for (flow, account) in self.0.iter_mut().enumerate() {
            if nodes.has_node(network.flows[flow].to) {
                account.settle(counted(network, nodes, flow));
            }
        }
        self.0.iter().map(|account| account.is_known.then_some(account.ended)).collect()
    }
}

impl Account {
    /// The present agent has counted so much, and the next one begins with nothing.
    fn settle(&mut self, counted: Option<Counted>) {
        let Some(counted) = counted else {
            self.is_known = false;
            return;
        };
        self.ended.lost += counted.lost.saturating_sub(self.before.lost);
        self.ended.repaired += counted.repaired.saturating_sub(self.before.repaired);
        self.before = Counted::default();
    }
}

/// What the receiver of a flow has counted; `None` if it does not answer.
fn counted(network: &Network, nodes: &Nodes, flow: usize) -> Option<Counted> {
    let status = nodes.status(network.flows[flow].to)?;
    let of_it = status.mappings.iter().filter(|mapping| !mapping.is_from_here && mapping.to == exposed(flow));
    Some(of_it.fold(Counted::default(), |counted, mapping| {
        let FlowReceived { lost_direct, in_stream, cooperative, cached, .. } = mapping.received;
        let repaired = counted.repaired + in_stream + cooperative + cached;
        Counted { lost: counted.lost + lost_direct, repaired }
    }))
}
