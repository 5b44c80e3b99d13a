//! Byway's own engines.

use byway_code::{Engine, Repair, decode, encode};
use byway_units::BatchId;

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct Byway {
    engine: Engine,
    /// All packets of a shape have one length, so all batches have the same length symbols.
    length_symbols: Vec<[u8; 2]>,
}

impl Byway {
    pub(super) fn new(engine: Engine, shape: &Shape) -> Self {
        Self { engine, length_symbols: vec![[0; 2]; shape.repair_packets] }
    }
}

pub(super) struct Encode<'a> {
    sources: Vec<&'a [u8]>,
    payloads: Vec<&'a mut [u8]>,
}

pub(super) struct Decode<'a> {
    sources: Vec<Option<&'a [u8]>>,
    repairs: Vec<Repair<'a>>,
    buffers: Vec<&'a mut [u8]>,
}

impl Contender for Byway {
    type Encode<'a> = Encode<'a>;
    type Decode<'a> = Decode<'a>;

    const SIDE: Side = Side::Byway;

    fn name(&self) -> &str {
        self.engine.name()
    }

    fn prepare_encode<'a>(&self, batch: Batch<'a>) -> Encode<'a> {
        Encode {
            sources: batch.sources.into_iter().map(|source| &*source).collect(),
            payloads: batch.repairs,
        }
    }

    fn encode(&mut self, Encode { sources, payloads }: &mut Encode<'_>) {
        let encoded = encode(self.engine, sources, payloads).expect("the shapes are valid");
        self.length_symbols.copy_from_slice(encoded.length_symbols());
    }

    fn prepare_decode<'a>(&self, batch: Batch<'a>) -> Decode<'a> {
        let source_packets = batch.sources.len();
        let (mut sources, mut buffers) = (Vec::new(), Vec::new());
        for (index, packet) in batch.sources.into_iter().enumerate() {
            if batch.lost.contains(&index) {
                sources.push(None);
                buffers.push(packet);
            } else {
                sources.push(Some(&*packet));
            }
        }
        let repairs = batch.repairs.into_iter().zip(&self.length_symbols).enumerate();
        let repairs = repairs.map(|(index, (payload, length_symbol))| Repair {
            batch: BatchId::new(1),
            index,
            source_packets,
            length_symbol: *length_symbol,
            payload,
        });
        Decode { sources, repairs: repairs.collect(), buffers }
    }

    fn decode(&mut self, Decode { sources, repairs, buffers }: &mut Decode<'_>) {
        let recovered = decode(self.engine, sources, repairs, buffers).expect("the losses are within reach");
        assert_eq!(recovered.count(), buffers.len());
    }
}
