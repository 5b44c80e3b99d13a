//! Loss processes of a link, random and deterministic.

use alloc::vec::Vec;

use byway_units::Probability;

use crate::link::Offer;
use crate::link::bernoulli::Bernoulli;
use crate::link::gilbert::Gilbert;
use crate::link::gilbert_elliott::{GilbertElliott, GilbertElliottProcess};
use crate::link::loss_trace::LossTrace;
use crate::link::ordinals::{Ordinals, PeriodicLoss};
use crate::random::Seed;

/// Loss process of a link, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Independent losses with this probability.
    Independent(Probability),
    /// Losses in bursts over time.
    GilbertElliott(GilbertElliott),
    /// Losses in bursts whose state changes per packet, independent of the time between them, as in
    /// models that count packets.
    Gilbert {
        /// Probability of loss after a packet that was not lost.
        first: Probability,
        /// Probability of loss after a lost packet.
        next: Probability,
    },
    /// Losses over time, as recorded on a path.
    Trace(LossTrace),
    /// Loss of the packets with these ordinals, in any order. The first packet offered to the link
    /// has ordinal 0.
    Ordinals(Vec<u64>),
    /// Loss of the packet with ordinal `first`, and of every `period`-th packet after it. A period
    /// of 0 loses only the first.
    Every {
        /// Ordinal of the first lost packet.
        first: u64,
        /// Distance between lost packets, in packets.
        period: u64,
    },
}

/// State of a loss process, which decides on each packet.
#[derive(Debug)]
pub(crate) enum LossProcess {
    Bernoulli(Bernoulli),
    GilbertElliott(GilbertElliottProcess),
    Gilbert(Gilbert),
    Trace(LossTrace),
    Ordinals(Ordinals),
    Every(PeriodicLoss),
}

impl LossProcess {
    pub(crate) fn new(loss: Loss, seed: Seed) -> Self {
        match loss {
            Loss::Independent(probability) => Self::Bernoulli(Bernoulli::new(probability, seed)),
            Loss::GilbertElliott(model) => Self::GilbertElliott(GilbertElliottProcess::new(model, seed)),
            Loss::Gilbert { first, next } => Self::Gilbert(Gilbert::new(first, next, seed)),
            Loss::Trace(trace) => Self::Trace(trace),
            Loss::Ordinals(ordinals) => Self::Ordinals(Ordinals::new(ordinals)),
            Loss::Every { first, period } => Self::Every(PeriodicLoss { first, period }),
        }
    }

    pub(crate) fn loses(&mut self, offer: &Offer) -> bool {
        match self {
            Self::Bernoulli(process) => process.loses(offer),
            Self::GilbertElliott(process) => process.loses(offer),
            Self::Gilbert(chain) => chain.loses(offer),
            Self::Trace(trace) => trace.loses(offer),
            Self::Ordinals(ordinals) => ordinals.loses(offer),
            Self::Every(every) => every.loses(offer),
        }
    }
}
