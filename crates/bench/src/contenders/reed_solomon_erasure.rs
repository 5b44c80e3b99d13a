//! The crate reed-solomon-erasure with its C kernels.

use reed_solomon_erasure::galois_8::ReedSolomon;

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct ReedSolomonErasure {
    coder: ReedSolomon,
}

impl ReedSolomonErasure {
    pub(super) fn new(shape: &Shape) -> Self {
        let coder =
            ReedSolomon::new(shape.source_packets, shape.repair_packets).expect("the shapes are valid");
        Self { coder }
    }
}

pub(super) struct ErasureEncodeInput<'a> {
    sources: Vec<&'a [u8]>,
    repairs: Vec<&'a mut [u8]>,
}

pub(super) struct ErasureDecodeInput<'a> {
    /// Packets of all batches, each with `true` if it counts as received.
    packets: Vec<(&'a mut [u8], bool)>,
    lost: Vec<&'a [usize]>,
}

impl Contender for ReedSolomonErasure {
    type EncodeInput<'a> = ErasureEncodeInput<'a>;
    type DecodeInput<'a> = ErasureDecodeInput<'a>;

    const SIDE: Side = Side::Peer;

    fn name(&self) -> &'static str {
        "reed-solomon-erasure"
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> ErasureEncodeInput<'a> {
        let mut prepared = ErasureEncodeInput { sources: Vec::new(), repairs: Vec::new() };
        for batch in batches {
            prepared.sources.extend(batch.sources.into_iter().map(|source| &*source));
            prepared.repairs.extend(batch.repairs);
        }
        prepared
    }

    fn encode(&mut self, ErasureEncodeInput { sources, repairs }: &mut ErasureEncodeInput<'_>) {
        let sources = sources.chunks_exact(self.coder.data_shard_count());
        for (sources, repairs) in sources.zip(repairs.chunks_exact_mut(self.coder.parity_shard_count())) {
            self.coder.encode_sep(sources, repairs).expect("the shapes are valid");
        }
    }

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> ErasureDecodeInput<'a> {
        let mut prepared = ErasureDecodeInput { packets: Vec::new(), lost: Vec::new() };
        for batch in batches {
            let packets = batch.sources.into_iter().chain(batch.repairs);
            prepared.packets.extend(packets.map(|packet| (packet, true)));
            prepared.lost.push(batch.lost);
        }
        prepared
    }

    /// Restores all batches. The crate caches the inverted matrix of every loss pattern, so the
    /// setup of a pattern is a look-up here.
    fn decode(&mut self, ErasureDecodeInput { packets, lost }: &mut ErasureDecodeInput<'_>) {
        let batches = packets.chunks_exact_mut(self.coder.total_shard_count());
        for (packets, lost) in batches.zip(lost) {
            for lost in *lost {
                packets[*lost].1 = false;
            }
            self.coder.reconstruct_data(packets).expect("the losses are within reach");
        }
    }
}
