//! What the world itself saw of the direct paths.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::log::{Observer, Record, Step};
use crate::node::NodeId;

/// The first byte of a source packet (docs/wire.md).
const SOURCE_PACKET: u8 = 7;

/// Where the low 32 bits of its sequence number stand.
const SEQUENCE_AT: usize = 7;

/// Notes which source packets the direct paths lose, and how many packets of which length nodes send each other.
#[derive(Debug, Default)]
pub struct Books {
    direct: BTreeMap<(NodeId, NodeId), usize>,
    /// The direct path and the sequence number of each packet that was lost, in the order of their loss.
    pub lost: Vec<(usize, u32)>,
    sent: BTreeMap<(NodeId, NodeId), BTreeMap<usize, u64>>,
}

impl Books {
    /// Watches the link between these nodes as direct path number `path`.
    pub fn watch(&mut self, from: NodeId, to: NodeId, path: usize) {
        self.direct.insert((from, to), path);
    }

    /// How many packets of each length, in bytes, a node has sent to another.
    pub fn sent(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = (usize, u64)> {
        self.sent.get(&(from, to)).into_iter().flatten().map(|(length, count)| (*length, *count))
    }
}

impl Observer for Books {
    fn packet(&mut self, record: &Record<'_>) {
        if let (Step::Sent, Some(to)) = (record.step, record.to) {
            let lengths = self.sent.entry((record.from, to)).or_default();
            *lengths.entry(record.payload.len()).or_default() += 1;
        }
        if !matches!(record.step, Step::Lost(_)) || record.payload.first() != Some(&SOURCE_PACKET) {
            return;
        }
        let path = record.to.and_then(|to| self.direct.get(&(record.from, to)));
        let number = record.payload.get(SEQUENCE_AT..).and_then(|rest| rest.first_chunk());
        if let (Some(path), Some(number)) = (path, number) {
            self.lost.push((*path, u32::from_be_bytes(*number)));
        }
    }
}
