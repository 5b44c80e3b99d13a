//! What flows may take, and sources of many flows.

use byway_units::{Bytes, Duration, Rate, Time};

use crate::buckets::Buckets;
use crate::flows::FlowHash;
use crate::limits::{FLOWS_PER_SOURCE_MAX, FLOWS_PER_SOURCE_MIN};

/// What is to be said of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its flow and its source may take as much.
    Within,
    /// Its flow has taken more than it may.
    FlowBeyond,
    /// Its flow has not, and its source has: many flows of it together.
    SourceBeyond,
}

/// A rate for each flow, and for each source the rate of all its flows that last: else, who uses each flow but once would never exceed one.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    flows: Buckets,
    sources: Buckets,
}

impl Allowance {
    /// Unused. Flows that take more than they may pay it back if there are debts; sources do not, which go on with as many flows as they may have.
    pub(crate) fn new(has_debts: bool) -> Self {
        Self { flows: Buckets::new(has_debts), sources: Buckets::new(false) }
    }

    /// From now on each of so many flows may take this rate, and what comes in a time at once, but at least so many bytes.
    pub(crate) fn set(&mut self, rate: Rate, burst: Duration, least: Bytes, flows: u32) {
        self.flows.set(rate, burst, least, flows);
        let of_source = rate.bits_per_second().saturating_mul(u64::from(FLOWS_PER_SOURCE_MAX));
        let least = Bytes::new(least.count() * u64::from(FLOWS_PER_SOURCE_MAX / FLOWS_PER_SOURCE_MIN));
        self.sources.set(Rate::from_bits_per_second(of_source), burst, least, flows);
    }

    /// Takes the bytes of a packet from what its flow may have, and its source, of which so many flows last.
    ///
    /// What a flow has too much of is its own matter: neither its source nor that one's other flows pay for it. And what a source has too much of does
    /// not empty the buckets that its many flows share with those of others.
    #[inline]
    pub(crate) fn judge(
        &mut self,
        [flow, source]: [FlowHash; 2],
        lasting: u8,
        bytes: u32,
        now: Time,
    ) -> Verdict {
        if self.flows.lacks(flow, bytes, now) {
            self.flows.overdraw(flow, bytes);
            return Verdict::FlowBeyond;
        }
        let lasting = lasting.clamp(FLOWS_PER_SOURCE_MIN, FLOWS_PER_SOURCE_MAX);
        // All sources' buckets fill as fast; who has fewer flows empties them sooner.
        let taken = bytes.saturating_mul(u32::from(FLOWS_PER_SOURCE_MAX)) / u32::from(lasting);
        if self.sources.exceeds(source, taken, now) {
            return Verdict::SourceBeyond;
        }
        self.flows.take(flow, bytes);
        Verdict::Within
    }
}
