//! What every coder in the comparison has to do.

use std::time::Instant;

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
/// Neither its set-up for a shape nor the filling of the arrays that its calls take is timed; its set-up for a
/// loss pattern is. The arrays of all batches lie one behind the other, so that fetching them costs all contenders
/// alike.
pub(crate) trait Contender {
    /// What encoding batches takes.
    type Encode<'a>;
    /// What decoding batches takes.
    type Decode<'a>;

    const SIDE: Side;

    /// Whether restored packets can be compared with what was lost.
    const RESTORES: bool = true;

    fn name(&self) -> &str;

    fn prepare_encode<'a>(&self, batches: Vec<Batch<'a>>) -> Self::Encode<'a>;

    /// Makes the repair packets of all batches from their source packets.
    fn encode(&mut self, prepared: &mut Self::Encode<'_>);

    fn prepare_decode<'a>(&self, batches: Vec<Batch<'a>>) -> Self::Decode<'a>;

    /// Restores the lost source packets of all batches, in place, from the others and the repair packets.
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

/// Gives each batch repair packets of the contender's own making.
fn encode_all<C: Contender>(contender: &mut C, ring: &mut Ring, batches: usize) {
    let nothing_lost = vec![Vec::new(); batches];
    let mut prepared = contender.prepare_encode(ring.batches_mut(&nothing_lost));
    contender.encode(&mut prepared);
}

/// The mean time of one pass in nanoseconds.
fn timed(passes: usize, mut pass: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..passes).for_each(|_| pass());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(u32::try_from(passes).unwrap_or(u32::MAX))
}
