//! Max-min fair share of a class whose offered load exceeds its capacity.

use byway_units::{Bytes, Duration, Rate};

use crate::demand::OfferedLoad;
use crate::flows::FlowHash;
use crate::limits::{SHARED_REST, UNCONGESTED_INTERVALS};

/// Max-min fair share of a class's capacity, among its flows or its sources.
#[derive(Clone, Debug)]
pub(crate) struct MaxMinShare {
    offered_load: OfferedLoad,
    /// Fair rate of each flow or source; `None` if there was no recent congestion.
    rate: Option<Rate>,
    is_congested: bool,
    /// Number of intervals since the last congestion of the class.
    uncongested_intervals: u32,
}

/// Load and capacity of a class in an interval that ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub length: Duration,
    /// Bytes that the class could have sent in the interval.
    pub capacity: u64,
    /// True if the high-rate class was backlogged: the link was overloaded, whatever the load of
    /// the class.
    pub is_backlogged: bool,
    /// Rate that each flow or source has at least.
    pub nominal: Rate,
}

impl MaxMinShare {
    pub(crate) fn new() -> Self {
        Self { offered_load: OfferedLoad::new(), rate: None, is_congested: false, uncongested_intervals: 0 }
    }

    /// Records a packet that a flow or source offers, by its hash.
    #[inline]
    pub(crate) fn record(&mut self, hash: FlowHash, bytes: u32) {
        self.offered_load.record(hash, bytes);
    }

    /// Records that the class drops an offered packet, because its flow or source exceeds the
    /// share.
    #[inline]
    pub(crate) fn record_refused(&mut self, hash: FlowHash, bytes: u32) {
        self.offered_load.record_refused(hash, bytes);
    }

    /// Returns the rate to which each flow or source is limited; `None` without a limit.
    #[inline]
    pub(crate) const fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// True if the class was congested in the last interval: its offered load exceeded its
    /// capacity, or the high-rate class was backlogged.
    #[inline]
    pub(crate) const fn is_congested(&self) -> bool {
        self.is_congested
    }

    /// Ends an interval, and computes the rate for the next one from the offered load.
    pub(crate) fn update(&mut self, interval: Interval) {
        let demand = self.offered_load.end_interval();
        self.is_congested = interval.is_backlogged || demand.bytes > interval.capacity;
        self.uncongested_intervals =
            if self.is_congested { 0 } else { self.uncongested_intervals.saturating_add(1) };
        self.rate = match (
            demand.requested.fair_share(interval.capacity - interval.capacity / SHARED_REST),
            self.rate,
        ) {
            (None, _) if self.uncongested_intervals > UNCONGESTED_INTERVALS => None,
            (None, None) if !self.is_congested => None,
            (share, before) => Some(interval.share(share, demand.requested.bytes(), before)),
        };
    }
}

impl Interval {
    /// Returns the new rate of each flow or source. `share` is the fair share in bytes, `None` if
    /// the demand is below the capacity; `requested` is the demand in bytes; `before` is the
    /// previous rate.
    fn share(&self, share: Option<u64>, requested: u64, before: Option<Rate>) -> Rate {
        let rate = |bytes| Rate::over(Bytes::new(bytes), self.length).unwrap_or(self.nominal);
        let part = |rate: Rate, of: u64| Rate::from_bits_per_second(rate.bits_per_second() / of);
        // The share is accurate to 1/8.
        let filled = self.capacity / 8 * 7;
        let rate = match (share, before) {
            // The rate falls by half at most. Otherwise, a flow with a high rate before would have
            // more debt than it can soon pay back.
            (Some(share), before) => rate(share).max(before.map_or(Rate::ZERO, |before| part(before, 2))),
            // Flows limited to the share cannot show their demand, and others take the leftover
            // capacity. So the share rises, up to the rate that one flow could have beside the
            // demand of others. Capacity that high-rate flows can use stays theirs.
            (None, Some(before)) if requested < filled && !self.is_backlogged => {
                (before + part(before, 16)).min(rate(filled - requested))
            }
            // Otherwise, the rate stays: a moment's pause of others must not pay back debts.
            (None, before) => before.unwrap_or(self.nominal),
        };
        rate.max(self.nominal)
    }
}
