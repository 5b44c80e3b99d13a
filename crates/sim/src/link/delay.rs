//! How long a packet is under way.

use byway_units::{Duration, Probability};

use crate::link::Offer;
use crate::link::measured::MeasuredDelays;
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
    measured: Option<MeasuredDelays>,
    jitter: Jitter,
    reordering: Reordering,
    jitters: Seed,
    detours: Seed,
}

impl Delay {
    pub(crate) fn new(
        base: Duration,
        measured: Option<MeasuredDelays>,
        jitter: Jitter,
        reordering: Reordering,
        link: Seed,
    ) -> Self {
        let (jitters, detours) = (link.named("jitter"), link.named("detour"));
        Self { base, measured, jitter, reordering, jitters, detours }
    }

    /// Whether the packet that was measured then was lost.
    pub(crate) fn loses(&self, offer: &Offer) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.at(offer.time).is_none())
    }

    pub(crate) fn draws(&self, offer: &Offer) -> DelayDraws<'_> {
        let measured = self.measured.as_ref().and_then(|measured| measured.at(offer.time));
        DelayDraws {
            delay: self,
            base: measured.unwrap_or(self.base),
            jitters: self.jitters.at(offer.time, offer.nth),
            detours: self.detours.at(offer.time, offer.nth),
        }
    }
}

/// The delays of the copies of one packet.
#[derive(Debug)]
pub(crate) struct DelayDraws<'a> {
    delay: &'a Delay,
    base: Duration,
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
        let Delay { jitter, reordering, .. } = self.delay;
        let duration = self.base + self.jitters.up_to(jitter.max);
        if self.detours.happens(reordering.probability) {
            return Delayed { duration: duration + reordering.detour, may_change_places: true };
        }
        Delayed { duration, may_change_places: jitter.may_reorder }
    }
}
