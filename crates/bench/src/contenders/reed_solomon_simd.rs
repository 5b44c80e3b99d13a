//! The crate reed-solomon-simd, a code by fast Fourier transform for many large packets.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct ReedSolomonSimd {
    encoder: ReedSolomonEncoder,
    decoder: ReedSolomonDecoder,
}

impl ReedSolomonSimd {
    pub(super) fn new(shape: &Shape) -> Self {
        let (k, r, bytes) = (shape.source_packets, shape.repair_packets, shape.packet_bytes);
        Self {
            encoder: ReedSolomonEncoder::new(k, r, bytes).expect("the shapes are valid"),
            decoder: ReedSolomonDecoder::new(k, r, bytes).expect("the shapes are valid"),
        }
    }
}

impl Contender for ReedSolomonSimd {
    type EncodeInput<'a> = Vec<Batch<'a>>;
    type DecodeInput<'a> = Vec<Batch<'a>>;

    const SIDE: Side = Side::Peer;

    fn name(&self) -> &'static str {
        "reed-solomon-simd"
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> Vec<Batch<'a>> {
        batches
    }

    /// Encodes all batches, and copies the repair packets out: the crate copies packets in and
    /// stores the results in its own memory.
    fn encode(&mut self, batches: &mut Vec<Batch<'_>>) {
        for batch in batches {
            for packet in &batch.sources {
                self.encoder.add_original_shard(packet).expect("the shapes are valid");
            }
            let encoded = self.encoder.encode().expect("all source packets are there");
            for (repair, packet) in encoded.recovery_iter().zip(&mut batch.repairs) {
                packet.copy_from_slice(repair);
            }
        }
    }

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> Vec<Batch<'a>> {
        batches
    }

    fn decode(&mut self, batches: &mut Vec<Batch<'_>>) {
        for batch in batches {
            let sources = batch.sources.iter().enumerate();
            for (index, packet) in sources.filter(|(index, _)| !batch.lost.contains(index)) {
                self.decoder.add_original_shard(index, packet).expect("the shapes are valid");
            }
            for (index, packet) in batch.repairs.iter().enumerate() {
                self.decoder.add_recovery_shard(index, packet).expect("the shapes are valid");
            }
            let decoded = self.decoder.decode().expect("the losses are within reach");
            for lost in batch.lost {
                let restored = decoded.restored_original(*lost).expect("a lost packet is restored");
                batch.sources[*lost].copy_from_slice(restored);
            }
        }
    }
}
