//! Shapes of the comparison: numbers and lengths of a batch's packets.

use std::fmt;

use serde::Serialize;

/// Timed operation: encoding, or decoding including the setup for one pattern of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Op {
    /// Encoding all repair packets of a batch.
    Encode,
    /// Restoring the lost source packets of a batch.
    Decode,
}

/// Operation, and numbers and length of packets, that one table of the comparison measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) op: Op,
    pub(crate) source_packets: usize,
    pub(crate) repair_packets: usize,
    /// Number of lost source packets; 0 for encoding.
    pub(crate) lost: usize,
    pub(crate) packet_bytes: usize,
}

/// Shapes that occur in recovery: batches within one flow, then across 6, 10 and 20 flows.
pub(crate) const SHAPES: [Shape; 7] = [
    Shape::encode(5, 1, 512),
    Shape::encode(6, 2, 1_200),
    Shape::encode(10, 2, 512),
    Shape::encode(10, 2, 1_200),
    Shape::encode(20, 2, 1_200),
    Shape::decode(6, 2, 2, 1_200),
    Shape::decode(10, 2, 2, 1_200),
];

impl Shape {
    const fn encode(source_packets: usize, repair_packets: usize, packet_bytes: usize) -> Self {
        Self { op: Op::Encode, source_packets, repair_packets, lost: 0, packet_bytes }
    }

    const fn decode(source_packets: usize, repair_packets: usize, lost: usize, packet_bytes: usize) -> Self {
        Self { op: Op::Decode, source_packets, repair_packets, lost, packet_bytes }
    }

    /// Returns the indices of the lost source packets in the batch number `batch`. The first loss
    /// moves from batch to batch.
    pub(crate) fn losses(&self, batch: usize) -> Vec<usize> {
        let first = batch % self.source_packets;
        let apart = 1 + batch / self.source_packets % (self.source_packets - 1);
        let mut losses: Vec<_> = (0..self.lost).map(|i| (first + i * apart) % self.source_packets).collect();
        losses.sort_unstable();
        losses.dedup();
        assert_eq!(losses.len(), self.lost, "losses are distinct");
        losses
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Encode => write!(f, "encode {}+{}", self.source_packets, self.repair_packets)?,
            Op::Decode => {
                write!(f, "decode {}+{}, {} lost", self.source_packets, self.repair_packets, self.lost)?;
            }
        }
        write!(f, ", {} B", self.packet_bytes)
    }
}
