//! The crate reed-solomon-erasure with its C kernels.

use reed_solomon_erasure::galois_8::ReedSolomon;

use crate::contender::{Batch, Contender, Side};
use crate::shape::Shape;

pub(super) struct Erasure {
    coder: ReedSolomon,
}

impl Erasure {
    pub(super) fn new(shape: &Shape) -> Self {
        let coder =
            ReedSolomon::new(shape.source_packets, shape.repair_packets).expect("the shapes are valid");
        Self { coder }
    }
}

pub(super) struct Encode<'a> {
    sources: Vec<&'a [u8]>,
    repairs: Vec<&'a mut [u8]>,
}

pub(super) struct Decode<'a> {
    /// Every packet, and whether it is there.
    packets: Vec<(&'a mut [u8], bool)>,
    lost: &'a [usize],
}

impl Contender for Erasure {
    type Encode<'a> = Encode<'a>;
    type Decode<'a> = Decode<'a>;

    const SIDE: Side = Side::Peer;

    fn name(&self) -> &'static str {
        "reed-solomon-erasure"
    }

    fn prepare_encode<'a>(&self, batch: Batch<'a>) -> Encode<'a> {
        Encode { sources: batch.sources.into_iter().map(|source| &*source).collect(), repairs: batch.repairs }
    }

    fn encode(&mut self, Encode { sources, repairs }: &mut Encode<'_>) {
        self.coder.encode_sep(sources, repairs).expect("the shapes are valid");
    }

    fn prepare_decode<'a>(&self, batch: Batch<'a>) -> Decode<'a> {
        let packets = batch.sources.into_iter().chain(batch.repairs);
        Decode { packets: packets.map(|packet| (packet, true)).collect(), lost: batch.lost }
    }

    /// The crate keeps the inverted matrix of every pattern it has seen: its set-up is a look-up here.
    fn decode(&mut self, Decode { packets, lost }: &mut Decode<'_>) {
        for lost in *lost {
            packets[*lost].1 = false;
        }
        self.coder.reconstruct_data(packets).expect("the losses are within reach");
    }
}
