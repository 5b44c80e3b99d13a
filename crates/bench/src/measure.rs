//! Interleaved timing.

use crate::contender::{MakeContender, Measured, Side};
use crate::ring::Ring;
use crate::shape::Shape;

/// How long one turn of one contender lasts, about: long against the clock, short against the machine's moods.
const TURN_NANOS: f64 = 300_000.0;

/// One contender's times for one shape, in nanoseconds a batch, one for each round.
pub(crate) struct Times {
    pub(crate) side: Side,
    pub(crate) name: String,
    pub(crate) nanos: Vec<f64>,
}

impl Times {
    /// The median time of a batch in nanoseconds.
    pub(crate) fn median(&self) -> f64 {
        median(self.nanos.clone())
    }

    /// The median over all rounds of this time divided by the other's in the same round.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        median(self.nanos.iter().zip(&other.nanos).map(|(mine, other)| mine / other).collect())
    }
}

/// Times all contenders on one shape: in each round every contender has one turn, and each round begins with
/// another.
pub(crate) fn measure(shape: &Shape, contenders: &[MakeContender], rounds: usize) -> Vec<Times> {
    let mut ring = Ring::new(shape);
    let mut contenders: Vec<_> = contenders.iter().map(|make| make(shape)).collect();
    let mut turns = Vec::with_capacity(contenders.len());
    for contender in &mut contenders {
        contender.verify(shape, &mut ring);
        turns.push(Turn::fitting(contender.as_mut(), shape, &mut ring));
    }
    let mut nanos = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..rounds {
        for offset in 0..contenders.len() {
            let i = (round + offset) % contenders.len();
            let Turn { batches, passes } = turns[i];
            nanos[i].push(contenders[i].time(shape, &mut ring, batches, passes));
        }
    }
    let named = contenders.iter().zip(nanos);
    named
        .map(|(contender, nanos)| Times { side: contender.side(), name: contender.name().to_owned(), nanos })
        .collect()
}

/// How much work one turn is: a few of the ring's batches for the slow, several passes through it for the fast.
#[derive(Clone, Copy)]
struct Turn {
    batches: usize,
    passes: usize,
}

impl Turn {
    fn fitting(contender: &mut dyn Measured, shape: &Shape, ring: &mut Ring) -> Self {
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

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
