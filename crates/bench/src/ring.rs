//! Ring of batches larger than a second-level cache, so buffers are cold as if from a network card.

use byway_code::{ALIGNMENT, AlignedBuffer};

use crate::contender::Batch;
use crate::shape::Shape;

/// Size of the ring in bytes: larger than the own cache of any core, smaller than the shared one.
const RING_BYTES: usize = 4 << 20;

/// Contiguous batches of packets in memory, each with its source packets and then its repair
/// packets. Every packet begins at a cache line.
pub(crate) struct Ring {
    bytes: AlignedBuffer,
    packet_bytes: usize,
    stride: usize,
    source_packets: usize,
    repair_packets: usize,
}

impl Ring {
    /// Makes a ring of batches of this shape, with pseudo-random bytes that are the same in every
    /// run.
    pub(crate) fn new(shape: &Shape) -> Self {
        let mut bytes = AlignedBuffer::new(RING_BYTES);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for byte in bytes.as_mut() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
        Self {
            bytes,
            packet_bytes: shape.packet_bytes,
            stride: shape.packet_bytes.next_multiple_of(ALIGNMENT),
            source_packets: shape.source_packets,
            repair_packets: shape.repair_packets,
        }
    }

    /// Returns the number of batches in the ring.
    pub(crate) const fn batches(&self) -> usize {
        RING_BYTES / (self.stride * (self.source_packets + self.repair_packets))
    }

    /// Returns a packet of the ring's first batch by its index, source packets first.
    pub(crate) fn packet(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes.as_mut()[index * self.stride..][..self.packet_bytes]
    }

    /// Returns the first batches of the ring, one for each loss pattern in `losses`.
    pub(crate) fn batches_mut<'a>(&'a mut self, losses: &'a [Vec<usize>]) -> Vec<Batch<'a>> {
        let (packet_bytes, stride, source_packets) = (self.packet_bytes, self.stride, self.source_packets);
        let batch_bytes = stride * (source_packets + self.repair_packets);
        let batches = self.bytes.as_mut().chunks_exact_mut(batch_bytes).zip(losses);
        let batches = batches.map(move |(bytes, lost)| {
            let packets = bytes.chunks_exact_mut(stride).map(|packet| &mut packet[..packet_bytes]);
            let mut sources: Vec<_> = packets.collect();
            let repairs = sources.split_off(source_packets);
            Batch { sources, repairs, lost }
        });
        batches.collect()
    }
}
