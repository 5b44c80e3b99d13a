//! The crate reed-solomon-simd, a code by fast Fourier transform made for many large packets.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct Simd {
    encoder: ReedSolomonEncoder,
    decoder: ReedSolomonDecoder,
}

impl Simd {
    pub(super) fn new(shape: &Shape) -> Self {
        let (k, r, bytes) = (shape.source_packets, shape.repair_packets, shape.packet_bytes);
        Self {
            encoder: ReedSolomonEncoder::new(k, r, bytes).expect("the shapes are valid"),
            decoder: ReedSolomonDecoder::new(k, r, bytes).expect("the shapes are valid"),
        }
    }
}

impl Contender for Simd {
    type Encode<'a> = Vec<Batch<'a>>;
    type Decode<'a> = Vec<Batch<'a>>;

    const SIDE: Side = Side::Peer;

    fn name(&self) -> &'static str {
        "reed-solomon-simd"
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> Vec<Batch<'a>> {
        batches
    }

    /// The crate copies packets in and keeps the repair packets in its own memory: copying them out is part of it.
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
