//! Delays of packets on a link.

use byway_units::{Duration, Probability};

use crate::link::Offer;
use crate::link::delay_trace::DelayTrace;
use crate::random::{Random, Seed};

/// Random delay of a link that varies from packet to packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    /// Largest jitter; the jitter of each packet is uniformly random from zero to this.
    pub max: Duration,
    /// True if packets may overtake each other because of jitter. Otherwise, a packet waits for
    /// those before it.
    pub may_reorder: bool,
}

/// Packets that take a detour and arrive after later ones.
///
/// They do not delay others, even on a link whose jitter preserves the order. With a detour of 100
/// packet intervals, a packet arrives after the 100 behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// Probability that a packet takes the detour.
    pub probability: Probability,
    /// Additional delay of the detour.
    pub detour: Duration,
}

/// Delay process of a link: base or recorded delay, jitter and detours.
#[derive(Debug)]
pub(crate) struct Delay {
    base: Duration,
    measured: Option<DelayTrace>,
    jitter: Jitter,
    reordering: Reordering,
    jitters: Seed,
    detours: Seed,
}

impl Delay {
    pub(crate) fn new(
        base: Duration,
        measured: Option<DelayTrace>,
        jitter: Jitter,
        reordering: Reordering,
        link: Seed,
    ) -> Self {
        let (jitters, detours) = (link.named("jitter"), link.named("detour"));
        Self { base, measured, jitter, reordering, jitters, detours }
    }

    /// True if the recorded packet of the offer's instant was lost.
    pub(crate) fn loses(&self, offer: &Offer) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.at(offer.time).is_none())
    }

    pub(crate) fn sampler(&self, offer: &Offer) -> DelaySampler<'_> {
        let measured = self.measured.as_ref().and_then(|measured| measured.at(offer.time));
        DelaySampler {
            delay: self,
            base: measured.unwrap_or(self.base),
            jitters: self.jitters.at(offer.time, offer.nth),
            detours: self.detours.at(offer.time, offer.nth),
        }
    }
}

/// Draws of the delays of one packet's copies.
#[derive(Debug)]
pub(crate) struct DelaySampler<'a> {
    delay: &'a Delay,
    base: Duration,
    jitters: Random,
    detours: Random,
}

/// Delay of one copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketDelay {
    pub(crate) duration: Duration,
    /// True if the copy may arrive before packets ahead of it, or after packets behind it.
    pub(crate) may_reorder: bool,
}

impl DelaySampler<'_> {
    pub(crate) fn next(&mut self) -> PacketDelay {
        let Delay { jitter, reordering, .. } = self.delay;
        let duration = self.base + self.jitters.up_to(jitter.max);
        if self.detours.happens(reordering.probability) {
            return PacketDelay { duration: duration + reordering.detour, may_reorder: true };
        }
        PacketDelay { duration, may_reorder: jitter.may_reorder }
    }
}
