//! Interface of every coder in the comparison.

use std::time::Instant;

use crate::ring::Ring;
use crate::shape::{Op, Shape};

/// Origin of a coder in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// One of Byway's engines.
    Byway,
    /// Coder of another project, or the bare read loop.
    Peer,
}

/// Packets of one batch in memory, and the indices of the source packets that count as lost.
pub(crate) struct Batch<'a> {
    pub(crate) sources: Vec<&'a mut [u8]>,
    pub(crate) repairs: Vec<&'a mut [u8]>,
    pub(crate) lost: &'a [usize],
}

/// Coder whose time the comparison measures.
///
/// The setup for a shape is not timed, and neither is the preparation of the arrays for its calls.
/// The setup for a loss pattern is timed. The arrays of all batches are contiguous, so fetching
/// them costs all contenders the same.
pub(crate) trait Contender {
    /// Arguments of the contender's coder for encoding batches.
    type EncodeInput<'a>;
    /// Arguments of the contender's coder for decoding batches.
    type DecodeInput<'a>;

    const SIDE: Side;

    /// True if the contender restores packets, so they can be compared with the lost ones.
    const RESTORES: bool = true;

    fn name(&self) -> &str;

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> Self::EncodeInput<'a>;

    /// Encodes the repair packets of all batches.
    fn encode(&mut self, prepared: &mut Self::EncodeInput<'_>);

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> Self::DecodeInput<'a>;

    /// Restores the lost source packets of all batches in place.
    fn decode(&mut self, prepared: &mut Self::DecodeInput<'_>);
}

/// Contender with any kind of input, for lists of contenders that are measured in turn.
pub(crate) trait AnyContender {
    fn side(&self) -> Side;

    fn name(&self) -> &str;

    /// Encodes, loses and restores one batch, and panics if the batch is not restored: only coders
    /// that do the work may be timed.
    fn verify(&mut self, shape: &Shape, ring: &mut Ring);

    /// Returns the time of a batch in nanoseconds, over `passes` passes through the first `batches`
    /// of the ring.
    fn time(&mut self, shape: &Shape, ring: &mut Ring, batches: usize, passes: usize) -> f64;
}

/// Factory of a contender for one shape.
pub(crate) type MakeContender = Box<dyn Fn(&Shape) -> Box<dyn AnyContender>>;

impl<C: Contender> AnyContender for C {
    fn side(&self) -> Side {
        C::SIDE
    }

    fn name(&self) -> &str {
        Contender::name(self)
    }

    fn verify(&mut self, shape: &Shape, ring: &mut Ring) {
        if !C::RESTORES {
            return;
        }
        encode_all(self, ring, 1);
        let lost: Vec<_> = (0..shape.repair_packets).collect();
        let sent: Vec<_> = lost.iter().map(|index| ring.packet(*index).to_vec()).collect();
        for index in &lost {
            ring.packet(*index).fill(0xEE);
        }
        let mut prepared = self.prepare_decode(ring.batches_mut(std::slice::from_ref(&lost)));
        self.decode(&mut prepared);
        drop(prepared);
        for (index, sent) in lost.iter().zip(sent) {
            assert_eq!(ring.packet(*index), sent, "{} restores what was lost", Contender::name(self));
        }
    }

    fn time(&mut self, shape: &Shape, ring: &mut Ring, batches: usize, passes: usize) -> f64 {
        let losses: Vec<_> = (0..batches).map(|batch| shape.losses(batch)).collect();
        let nanos = match shape.op {
            Op::Encode => {
                let mut prepared = self.prepare_encode(ring.batches_mut(&losses));
                timed(passes, || self.encode(&mut prepared))
            }
            Op::Decode => {
                encode_all(self, ring, batches);
                let mut prepared = self.prepare_decode(ring.batches_mut(&losses));
                timed(passes, || self.decode(&mut prepared))
            }
        };
        nanos / f64::from(u32::try_from(batches).unwrap_or(u32::MAX))
    }
}

/// Encodes the repair packets of the ring's first `batches` batches with the contender.
fn encode_all<C: Contender>(contender: &mut C, ring: &mut Ring, batches: usize) {
    let nothing_lost = vec![Vec::new(); batches];
    let mut prepared = contender.prepare_encode(ring.batches_mut(&nothing_lost));
    contender.encode(&mut prepared);
}

/// Returns the mean time of one call of `pass` in nanoseconds, over `passes` calls.
pub(crate) fn timed(passes: usize, mut pass: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..passes).for_each(|_| pass());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(passes).unwrap_or(u32::MAX))
}
