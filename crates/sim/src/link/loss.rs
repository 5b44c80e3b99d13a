//! The ways in which a link loses packets at random or on purpose.

use alloc::vec::Vec;

use byway_units::Probability;

use crate::link::Offer;
use crate::link::bernoulli::Bernoulli;
use crate::link::chain::Chain;
use crate::link::gilbert_elliott::{GilbertElliott, GilbertElliottProcess};
use crate::link::ordinals::{Every, Ordinals};
use crate::link::recorded::Recorded;
use crate::random::Seed;

/// One way to lose packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Each packet with this probability, independently.
    Independent(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// In bursts that packets themselves go on with, however long the time between them: as in models that count packets.
    Chain {
        /// How likely a packet is lost after one that was not.
        first: Probability,
        /// How likely a packet is lost after one that was.
        next: Probability,
    },
    /// As once recorded.
    Recorded(Recorded),
    /// The packets with these ordinals, in any order: the first packet offered to the link has ordinal 0.
    Ordinals(Vec<u64>),
    /// The packet with ordinal `first`, and every `period`-th after it; a period of 0 loses that one only.
    Every {
        /// The ordinal of the first that is lost.
        first: u64,
        /// How many ordinals further the next one is.
        period: u64,
    },
}

/// Such a way at work.
#[derive(Debug)]
pub(crate) enum LossProcess {
    Bernoulli(Bernoulli),
    GilbertElliott(GilbertElliottProcess),
    Chain(Chain),
    Recorded(Recorded),
    Ordinals(Ordinals),
    Every(Every),
}

impl LossProcess {
    pub(crate) fn new(loss: Loss, seed: Seed) -> Self {
        match loss {
            Loss::Independent(probability) => Self::Bernoulli(Bernoulli::new(probability, seed)),
            Loss::GilbertElliott(model) => Self::GilbertElliott(GilbertElliottProcess::new(model, seed)),
            Loss::Chain { first, next } => Self::Chain(Chain::new(first, next, seed)),
            Loss::Recorded(trace) => Self::Recorded(trace),
            Loss::Ordinals(ordinals) => Self::Ordinals(Ordinals::new(ordinals)),
            Loss::Every { first, period } => Self::Every(Every { first, period }),
        }
    }

    pub(crate) fn loses(&mut self, offer: &Offer) -> bool {
        match self {
            Self::Bernoulli(process) => process.loses(offer),
            Self::GilbertElliott(process) => process.loses(offer),
            Self::Chain(chain) => chain.loses(offer),
            Self::Recorded(trace) => trace.loses(offer),
            Self::Ordinals(ordinals) => ordinals.loses(offer),
            Self::Every(every) => every.loses(offer),
        }
    }
}
