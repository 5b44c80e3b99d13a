//! What flows may take, and sources of many flows.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buckets::Buckets;
use crate::flows::FlowHash;
use crate::limits::{FLOWS_PER_SOURCE_MAX, FLOWS_PER_SOURCE_MIN};

/// A rate for each flow, and for each source the rate of all its flows that last: else, who uses each flow but once would never exceed one.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    flows: Buckets,
    sources: Buckets,
}

impl Allowance {
    /// Unused.
    pub(crate) fn new(has_debts: bool) -> Self {
        Self { flows: Buckets::new(has_debts), sources: Buckets::new(has_debts) }
    }

    /// From now on each of so many flows may take this rate, and what comes in a time at once, but at least so many bytes.
    pub(crate) fn set(&mut self, rate: Rate, burst: Duration, least: Bytes, flows: u32) {
        self.flows.set(rate, burst, least, flows);
        let of_source = rate.bits_per_second().saturating_mul(u64::from(FLOWS_PER_SOURCE_MAX));
        let least = Bytes::new(least.count() * u64::from(FLOWS_PER_SOURCE_MAX / FLOWS_PER_SOURCE_MIN));
        self.sources.set(Rate::from_bits_per_second(of_source), burst, least, flows);
    }

    /// Whether a source of so many flows that last has taken more than they may together. To be asked before a flow of it is: what a source has too
    /// much of is not to empty buckets that its many flows share with those of others.
    #[inline]
    pub(crate) fn is_exceeded_by(&mut self, source: FlowHash, lasting: u8, bytes: u32, now: Time) -> bool {
        let lasting = lasting.clamp(FLOWS_PER_SOURCE_MIN, FLOWS_PER_SOURCE_MAX);
        // All sources' buckets fill as fast; who has fewer flows empties them sooner.
        let taken = bytes.saturating_mul(u32::from(FLOWS_PER_SOURCE_MAX)) / u32::from(lasting);
        self.sources.exceeds(source, taken, now)
    }

    /// Whether a flow has taken more than it may.
    #[inline]
    pub(crate) fn is_exceeded(&mut self, flow: FlowHash, bytes: u32, now: Time) -> bool {
        self.flows.exceeds(flow, bytes, now)
    }
}
