//! What every coder in the comparison has to do.

use crate::ring::Ring;
use crate::shape::{Op, Shape};

/// Whose time it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    /// One of Byway's engines.
    Byway,
    /// Somebody else's coder, or the bare read loop.
    Peer,
}

/// One batch's packets in memory, and which of its source packets are lost.
pub(crate) struct Batch<'a> {
    pub(crate) sources: Vec<&'a mut [u8]>,
    pub(crate) repairs: Vec<&'a mut [u8]>,
    pub(crate) lost: &'a [usize],
}

/// A coder under measurement.
///
/// Neither its set-up for a shape nor the arrays of slices or pointers that its calls take are timed; its set-up
/// for a loss pattern is.
pub(crate) trait Contender {
    /// What encoding one batch takes.
    type Encode<'a>;
    /// What decoding one batch takes.
    type Decode<'a>;

    const SIDE: Side;

    /// Whether restored packets can be compared with what was lost.
    const RESTORES: bool = true;

    fn name(&self) -> &str;

    fn prepare_encode<'a>(&self, batch: Batch<'a>) -> Self::Encode<'a>;

    /// Makes the repair packets of a batch from its source packets.
    fn encode(&mut self, prepared: &mut Self::Encode<'_>);

    fn prepare_decode<'a>(&self, batch: Batch<'a>) -> Self::Decode<'a>;

    /// Restores the lost source packets of a batch, in place, from the others and the repair packets.
    fn decode(&mut self, prepared: &mut Self::Decode<'_>);
}

/// A contender of any kind, to be measured in turn with others.
pub(crate) trait Measured {
    fn side(&self) -> Side;

    fn name(&self) -> &str;

    /// Encodes, loses and restores one batch, so that nobody is timed who does not do the work.
    fn verify(&mut self, shape: &Shape, ring: &mut Ring);

    /// The time of a batch in nanoseconds, over `passes` passes through the first `batches` of the ring.
    fn time(&mut self, shape: &Shape, ring: &mut Ring, batches: usize, passes: usize) -> f64;
}

/// Makes a contender ready for one shape.
pub(crate) type MakeContender = Box<dyn Fn(&Shape) -> Box<dyn Measured>>;

impl<C: Contender> Measured for C {
    fn side(&self) -> Side {
        C::SIDE
    }

    fn name(&self) -> &str {
        Contender::name(self)
    }

    fn verify(&mut self, shape: &Shape, ring: &mut Ring) {
        if shape.op == Op::Encode || !C::RESTORES {
            return;
        }
        encode_all(self, ring, 1);
        let lost = shape.losses(0);
        let sent: Vec<_> = lost.iter().map(|index| ring.packet(*index).to_vec()).collect();
        for index in &lost {
            ring.packet(*index).fill(0xEE);
        }
        for batch in ring.batches_mut(std::slice::from_ref(&lost)) {
            let mut prepared = self.prepare_decode(batch);
            self.decode(&mut prepared);
        }
        for (index, sent) in lost.iter().zip(sent) {
            assert_eq!(ring.packet(*index), sent, "{} restores what was lost", Contender::name(self));
        }
    }

    fn time(&mut self, shape: &Shape, ring: &mut Ring, batches: usize, passes: usize) -> f64 {
        let losses: Vec<_> = (0..batches).map(|batch| shape.losses(batch)).collect();
        let nanos = match shape.op {
            Op::Encode => {
                let mut prepared: Vec<_> =
                    ring.batches_mut(&losses).map(|batch| self.prepare_encode(batch)).collect();
                timed(passes, || prepared.iter_mut().for_each(|batch| self.encode(batch)))
            }
            Op::Decode => {
                encode_all(self, ring, batches);
                let mut prepared: Vec<_> =
                    ring.batches_mut(&losses).map(|batch| self.prepare_decode(batch)).collect();
                timed(passes, || prepared.iter_mut().for_each(|batch| self.decode(batch)))
            }
        };
        nanos / f64::from(u32::try_from(batches).unwrap_or(u32::MAX))
    }
}

/// Gives each batch repair packets of the contender's own making.
fn encode_all<C: Contender>(contender: &mut C, ring: &mut Ring, batches: usize) {
    for batch in ring.batches_mut(&vec![Vec::new(); batches]) {
        let mut prepared = contender.prepare_encode(batch);
        contender.encode(&mut prepared);
    }
}

/// The mean time of one pass in nanoseconds.
fn timed(passes: usize, mut pass: impl FnMut()) -> f64 {
    let start = std::time::Instant::now();
    (0..passes).for_each(|_| pass());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(passes).unwrap_or(u32::MAX))
}
