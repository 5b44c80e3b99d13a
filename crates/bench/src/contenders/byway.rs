//! Byway's erasure coder as a contender, with one of its engines.

use byway_code::{Engine, Repair, decode, encode};
use byway_units::BatchId;

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct Byway {
    engine: Engine,
    shape: Shape,
    /// Length symbols of the repair packets. They are the same for all batches, because all packets
    /// of a shape have one length.
    length_symbols: Vec<[u8; 2]>,
}

impl Byway {
    pub(super) fn new(engine: Engine, shape: &Shape) -> Self {
        Self { engine, shape: *shape, length_symbols: vec![[0; 2]; shape.repair_packets] }
    }
}

pub(super) struct EncodeInput<'a> {
    sources: Vec<&'a [u8]>,
    payloads: Vec<&'a mut [u8]>,
}

pub(super) struct DecodeInput<'a> {
    sources: Vec<Option<&'a [u8]>>,
    repairs: Vec<Repair<'a>>,
    buffers: Vec<&'a mut [u8]>,
}

impl Contender for Byway {
    type EncodeInput<'a> = EncodeInput<'a>;
    type DecodeInput<'a> = DecodeInput<'a>;

    const SIDE: Side = Side::Byway;

    fn name(&self) -> &str {
        self.engine.name()
    }

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> EncodeInput<'a> {
        let mut prepared = EncodeInput { sources: Vec::new(), payloads: Vec::new() };
        for batch in batches {
            prepared.sources.extend(batch.sources.into_iter().map(|source| &*source));
            prepared.payloads.extend(batch.repairs);
        }
        prepared
    }

    fn encode(&mut self, EncodeInput { sources, payloads }: &mut EncodeInput<'_>) {
        let sources = sources.chunks_exact(self.shape.source_packets);
        for (sources, payloads) in sources.zip(payloads.chunks_exact_mut(self.shape.repair_packets)) {
            let encoded = encode(self.engine, sources, payloads).expect("the shapes are valid");
            self.length_symbols.copy_from_slice(encoded.length_symbols());
        }
    }

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> DecodeInput<'a> {
        let mut prepared = DecodeInput { sources: Vec::new(), repairs: Vec::new(), buffers: Vec::new() };
        for batch in batches {
            for (index, packet) in batch.sources.into_iter().enumerate() {
                if batch.lost.contains(&index) {
                    prepared.sources.push(None);
                    prepared.buffers.push(packet);
                } else {
                    prepared.sources.push(Some(packet));
                }
            }
            let repairs = batch.repairs.into_iter().zip(&self.length_symbols).enumerate();
            prepared.repairs.extend(repairs.map(|(index, (payload, length_symbol))| Repair {
                batch: BatchId::new(1),
                index,
                source_packets: self.shape.source_packets,
                length_symbol: *length_symbol,
                payload,
            }));
        }
        prepared
    }

    fn decode(&mut self, DecodeInput { sources, repairs, buffers }: &mut DecodeInput<'_>) {
        let repairs = repairs.chunks_exact(self.shape.repair_packets);
        let lost = buffers.len() / repairs.len();
        let batches = sources.chunks_exact(self.shape.source_packets).zip(repairs);
        for ((sources, repairs), buffers) in batches.zip(buffers.chunks_exact_mut(lost)) {
            let recovered =
                decode(self.engine, sources, repairs, buffers).expect("the losses are within reach");
            assert_eq!(recovered.count(), lost);
        }
    }
}
