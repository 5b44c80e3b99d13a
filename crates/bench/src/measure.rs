//! Interleaved timing of coders, in rounds with one short turn for each.

use crate::contender::{AnyContender, MakeContender, Side};
use crate::ring::Ring;
use crate::shape::Shape;

/// Approximate time of a contender's turn in a round: long relative to the clock's resolution,
/// short relative to the machine's fluctuations.
const TURN_NANOS: f64 = 300_000.0;

/// Times of a contender for one shape, in nanoseconds a batch: one for each round.
pub(crate) struct Times {
    pub(crate) side: Side,
    pub(crate) name: String,
    pub(crate) nanos: Vec<f64>,
}

impl Times {
    /// Returns the median time of a batch in nanoseconds.
    pub(crate) fn median(&self) -> f64 {
        median(self.nanos.clone())
    }

    /// Returns the median, over all rounds, of this contender's time divided by the other's in the
    /// same round.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        median(self.nanos.iter().zip(&other.nanos).map(|(mine, other)| mine / other).collect())
    }
}

/// Times all contenders on one shape. In each round every contender has one turn, in shuffled
/// order, because a contender should not always follow the same one.
pub(crate) fn measure(shape: &Shape, contenders: &[MakeContender], rounds: usize) -> Vec<Times> {
    let mut ring = Ring::new(shape);
    let mut contenders: Vec<_> = contenders.iter().map(|make| make(shape)).collect();
    let mut turns = Vec::with_capacity(contenders.len());
    for contender in &mut contenders {
        contender.verify(shape, &mut ring);
        turns.push(TurnSize::fitting(contender.as_mut(), shape, &mut ring));
    }
    let mut nanos = vec![Vec::with_capacity(rounds); contenders.len()];
    let mut order: Vec<_> = (0..contenders.len()).collect();
    let mut shuffle = Shuffle(0x2545_F491_4F6C_DD1D);
    for _ in 0..rounds {
        shuffle.shuffle(&mut order);
        for i in order.iter().copied() {
            let TurnSize { batches, passes } = turns[i];
            nanos[i].push(contenders[i].time(shape, &mut ring, batches, passes));
        }
    }
    let named = contenders.iter().zip(nanos);
    named
        .map(|(contender, nanos)| Times { side: contender.side(), name: contender.name().to_owned(), nanos })
        .collect()
}

/// Work of a contender's turn: a few of the ring's batches for slow contenders, several passes for
/// fast ones.
#[derive(Clone, Copy)]
struct TurnSize {
    batches: usize,
    passes: usize,
}

impl TurnSize {
    fn fitting(contender: &mut dyn AnyContender, shape: &Shape, ring: &mut Ring) -> Self {
        const TRIAL: usize = 4;
        let nanos = contender.time(shape, ring, TRIAL, TRIAL);
        let mut batches = TRIAL;
        while nanos * f64::from(u32::try_from(2 * batches).unwrap_or(u32::MAX)) < TURN_NANOS {
            batches *= 2;
        }
        let in_ring = batches.min(ring.batches());
        Self { batches: in_ring, passes: batches / in_ring }
    }
}

/// Pseudo-random generator of the contenders' orders, the same in every run.
struct Shuffle(u64);

impl Shuffle {
    fn shuffle(&mut self, order: &mut [usize]) {
        for i in (1..order.len()).rev() {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(i, usize::try_from(self.0 >> 33).unwrap_or(0) % (i + 1));
        }
    }
}

pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
