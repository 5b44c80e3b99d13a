//! Ledger of what the world observes itself: losses on the direct paths, and packets by length.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{Bytes, Time};
use byway_wire::packets::SourcePacket;

use crate::checkers::{BudgetExceeded, ByteBudget};
use crate::log::{Observer, Record, Step};
use crate::node::NodeId;

/// Records source packets lost on the direct paths, and the number of packets of each length
/// between each two nodes.
#[derive(Debug, Default)]
pub struct DeliveryLedger {
    direct: BTreeMap<(NodeId, NodeId), usize>,
    /// Direct path and sequence number of each lost packet, in the order of their loss.
    pub lost: Vec<(usize, u32)>,
    sent: BTreeMap<(NodeId, NodeId), BTreeMap<usize, u64>>,
    budgets: BTreeMap<(NodeId, NodeId), ByteBudget>,
    /// First violation of a byte budget between two nodes.
    pub over_budget: Option<BudgetExceeded>,
}

impl DeliveryLedger {
    /// Observes the link between these nodes as direct path number `path`.
    pub fn observe_path(&mut self, from: NodeId, to: NodeId, path: usize) {
        self.direct.insert((from, to), path);
    }

    /// Checks the UDP payloads that a node sends to another against a budget.
    pub fn set_budget(&mut self, from: NodeId, to: NodeId, budget: ByteBudget) {
        self.budgets.insert((from, to), budget);
    }

    /// Returns the most bytes sent from a node to another within the window of their budget, if
    /// they have one.
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

    /// Returns the number of packets of each length, in bytes, that a node has sent to another.
    pub fn packets_by_length(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = (usize, u64)> {
        self.sent.get(&(from, to)).into_iter().flatten().map(|(length, count)| (*length, *count))
    }
}

impl Observer for DeliveryLedger {
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
