//! What the world itself saw of the direct paths.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{Bytes, Time};
use byway_wire::packets::SourcePacket;

use crate::checkers::{ByteBudget, OverBudget};
use crate::log::{Observer, Record, Step};
use crate::node::NodeId;

/// Notes which source packets the direct paths lose, and how many packets of which length nodes send each other.
#[derive(Debug, Default)]
pub struct Books {
    direct: BTreeMap<(NodeId, NodeId), usize>,
    /// The direct path and the sequence number of each packet that was lost, in the order of their loss.
    pub lost: Vec<(usize, u32)>,
    sent: BTreeMap<(NodeId, NodeId), BTreeMap<usize, u64>>,
    budgets: BTreeMap<(NodeId, NodeId), ByteBudget>,
    /// The first time that a node sent another more than it was to.
    pub over_budget: Option<OverBudget>,
}

impl Books {
    /// Watches the link between these nodes as direct path number `path`.
    pub fn watch(&mut self, from: NodeId, to: NodeId, path: usize) {
        self.direct.insert((from, to), path);
    }

    /// Holds what a node sends to another against a budget of UDP payloads.
    pub fn hold(&mut self, from: NodeId, to: NodeId, budget: ByteBudget) {
        self.budgets.insert((from, to), budget);
    }

    /// The most that was sent from a node to another within the window of the budget that it is held to, if any.
    #[must_use]
    pub fn peak(&self, from: NodeId, to: NodeId) -> Option<Bytes> {
        self.budgets.get(&(from, to)).map(ByteBudget::peak)
    }

    fn count_sent(&mut self, hop: (NodeId, NodeId), bytes: usize, at: Time) {
        *self.sent.entry(hop).or_default().entry(bytes).or_default() += 1;
        if let Some(budget) = self.budgets.get_mut(&hop) {
            let spent = budget.spend(Bytes::from(bytes), at);
            self.over_budget = self.over_budget.or(spent.err());
        }
    }

    /// How many packets of each length, in bytes, a node has sent to another.
    pub fn sent(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = (usize, u64)> {
        self.sent.get(&(from, to)).into_iter().flatten().map(|(length, count)| (*length, *count))
    }
}

impl Observer for Books {
    fn packet(&mut self, record: &Record<'_>) {
        if let (Step::Sent, Some(to)) = (record.step, record.to) {
            self.count_sent((record.from, to), record.payload.len(), record.time);
        }
        let path = record.to.and_then(|to| self.direct.get(&(record.from, to)));
        if let (Step::Lost(_), Some(path)) = (record.step, path)
            && let Ok(packet) = SourcePacket::parse(record.payload)
        {
            self.lost.push((*path, packet.header().sequence_low));
        }
    }
}
