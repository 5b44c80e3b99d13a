//! How long a packet is under way.

use byway_units::{Duration, Probability};

use crate::link::Offer;
use crate::random::{Random, Seed};

/// A delay that differs from packet to packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// The longest; each packet has a uniformly random part of it.
    pub max: Duration,
    /// Whether packets may overtake each other by it. If not, a packet waits for those before it.
    pub may_reorder: bool,
}

/// Packets that take a detour, and are overtaken by those behind.
///
/// They do not hold up others, even on a link whose jitter keeps the order. With a detour of 100 packet
/// intervals, a packet arrives after the 100 behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// How likely a packet takes it.
    pub probability: Probability,
    /// How much longer it is.
    pub detour: Duration,
}

/// The delays of a link.
#[derive(Debug)]
pub(crate) struct Delay {
    base: Duration,
    jitter: Jitter,
    reordering: Reordering,
    jitters: Seed,
    detours: Seed,
}

impl Delay {
    pub(crate) fn new(base: Duration, jitter: Jitter, reordering: Reordering, link: Seed) -> Self {
        Self { base, jitter, reordering, jitters: link.named("jitter"), detours: link.named("detour") }
    }

    pub(crate) fn draws(&self, offer: &Offer) -> DelayDraws<'_> {
        DelayDraws {
            delay: self,
            jitters: self.jitters.at(offer.time, offer.nth),
            detours: self.detours.at(offer.time, offer.nth),
        }
    }
}

/// The delays of the copies of one packet.
#[derive(Debug)]
pub(crate) struct DelayDraws<'a> {
    delay: &'a Delay,
    jitters: Random,
    detours: Random,
}

/// The delay of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delayed {
    pub(crate) duration: Duration,
    /// Whether it may arrive before packets ahead of it, or after packets behind it.
    pub(crate) may_change_places: bool,
}

impl DelayDraws<'_> {
    pub(crate) fn next(&mut self) -> Delayed {
        let Delay { base, jitter, reordering, .. } = self.delay;
        let duration = *base + self.jitters.up_to(jitter.max);
        if self.detours.happens(reordering.probability) {
            return Delayed { duration: duration + reordering.detour, may_change_places: true };
        }
        Delayed { duration, may_change_places: jitter.may_reorder }
    }
}
