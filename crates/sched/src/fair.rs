//! What each may have of a class that more is brought to than there is room for.

use byway_units::{Bytes, Duration, Rate};

use crate::brought::Brought;
use crate::flows::FlowHash;
use crate::limits::{CALM_INTERVALS, SHARED_REST};

/// A max-min fair share of flows, or of sources.
#[derive(Clone, Debug)]
pub(crate) struct FairShare {
    brought: Brought,
    /// `None` where there was room for all of late.
    rate: Option<Rate>,
    is_crowded: bool,
    /// Intervals since more came than there was room for.
    calm: u32,
}

/// A class in an interval that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub length: Duration,
    /// What it could have carried, in bytes.
    pub room: u64,
    /// Whether more came to the link than it carries, whatever came to the class.
    pub is_short: bool,
    /// What each has at the least.
    pub nominal: Rate,
}

impl FairShare {
    pub(crate) fn new() -> Self {
        Self { brought: Brought::new(), rate: None, is_crowded: false, calm: 0 }
    }

    /// Somebody brings a packet.
    #[inline]
    pub(crate) fn note(&mut self, name: FlowHash, bytes: u32) {
        self.brought.note(name, bytes);
    }

    /// It is refused for having too much.
    #[inline]
    pub(crate) fn note_refused(&mut self, name: FlowHash, bytes: u32) {
        self.brought.note_refused(name, bytes);
    }

    /// What each may have; `None` where all may have what they like.
    #[inline]
    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Whether more came in the last interval than there was room for.
    #[inline]
    pub(crate) const fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// An interval ends.
    pub(crate) fn update(&mut self, interval: Interval) {
        let demand = self.brought.take();
        self.is_crowded = interval.is_short || demand.bytes > interval.room;
        self.calm = if self.is_crowded { 0 } else { self.calm.saturating_add(1) };
        self.rate = match (demand.asked.fair_share(interval.room - interval.room / SHARED_REST), self.rate) {
            (None, _) if self.calm > CALM_INTERVALS => None,
            (None, None) if !self.is_crowded => None,
            (share, before) => Some(interval.share(share, demand.asked.bytes(), before)),
        };
    }
}

impl Interval {
    /// What each may have from now on where so much was asked for, and what that was so far.
    fn share(&self, share: Option<u64>, asked: u64, before: Option<Rate>) -> Rate {
        let rate = |bytes| Rate::over(Bytes::new(bytes), self.length).unwrap_or(self.nominal);
        let part = |rate: Rate, of: u64| Rate::from_bits_per_second(rate.bits_per_second() / of);
        // A share is known to an eighth.
        let filled = self.room / 8 * 7;
        let rate = match (share, before) {
            // At most by half: who had more so far is not to owe more than it can pay back soon.
            (Some(share), before) => rate(share).max(before.map_or(Rate::ZERO, |before| part(before, 2))),
            // Those who are held to it cannot ask for more, and others take what they leave: it rises, to what one could have beside those who ask. But what
            // high-rate flows have a use for is for these.
            (None, Some(before)) if asked < filled && !self.is_short => {
                (before + part(before, 16)).min(rate(filled - asked))
            }
            // Else, debts are not paid by a moment's pause of others.
            (None, before) => before.unwrap_or(self.nominal),
        };
        rate.max(self.nominal)
    }
}
