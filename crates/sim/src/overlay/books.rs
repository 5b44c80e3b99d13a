//! What the world itself saw of the direct paths.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::log::{Observer, Record, Step};
use crate::node::NodeId;

/// The first byte of a source packet (docs/wire.md).
const SOURCE_PACKET: u8 = 7;

/// Where the low 32 bits of its sequence number stand.
const SEQUENCE_AT: usize = 7;

/// Notes which source packets the direct paths lose.
#[derive(Debug, Default)]
pub struct Books {
    direct: BTreeMap<(NodeId, NodeId), usize>,
    /// The direct path and the sequence number of each packet that was lost, in the order of their loss.
    pub lost: Vec<(usize, u32)>,
}

impl Books {
    /// Watches the link between these nodes as direct path number `path`.
    pub fn watch(&mut self, from: NodeId, to: NodeId, path: usize) {
        self.direct.insert((from, to), path);
    }
}

impl Observer for Books {
    fn packet(&mut self, record: &Record<'_>) {
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
