//! Who takes more than a rate, without a table of flows: token buckets that flows share by their hash, in two rows.
//!
//! A flow exceeds the rate only where its buckets of both rows are empty, so that who shares a bucket with a greedy flow does not pay for it
//! unless it shares both. (A count-min sketch of buckets: Cormode and Muthukrishnan, 2005.)

use alloc::boxed::Box;
use alloc::vec;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::flows::FlowHash;
use crate::limits::BUCKETS;

/// What is in a bucket, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// What may still be taken, in bytes; less than nothing is to be paid back.
    bytes: i32,
    /// In microseconds, modulo 2³² (71 minutes).
    at: u32,
}

/// Two rows of buckets, 64 KB.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    rows: [Box<[Bucket]>; 2],
    rate: Rate,
    depth: i32,
}

impl Buckets {
    /// Full ones.
    pub(crate) fn new() -> Self {
        let row = || vec![Bucket { bytes: i32::MAX, at: 0 }; BUCKETS].into_boxed_slice();
        Self { rows: [row(), row()], rate: Rate::ZERO, depth: 0 }
    }

    /// From now on each of so many flows may take this rate, and what comes in a time at once, but at least so many bytes.
    pub(crate) fn set(&mut self, rate: Rate, burst: Duration, least: Bytes, flows: u32) {
        // Flows that share a bucket share what comes into it.
        let shared =
            u128::from(rate.bits_per_second()) * (BUCKETS as u128 + u128::from(flows)) / BUCKETS as u128;
        self.rate = Rate::from_bits_per_second(u64::try_from(shared).unwrap_or(u64::MAX));
        let depth = self.rate.bytes_in(burst).unwrap_or(Bytes::MAX).max(least);
        self.depth = i32::try_from(depth.count()).unwrap_or(i32::MAX);
    }

    /// Whether the flow has less than these bytes left; it takes nothing.
    #[inline]
    pub(crate) fn lacks(&mut self, flow: FlowHash, bytes: u32, now: Time) -> bool {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let micros = micros(now);
        let mut is_within = false;
        for (row, place) in self.rows.iter_mut().zip(places(flow)) {
            let bucket = &mut row[place];
            let come = come_in(self.rate, micros.wrapping_sub(bucket.at));
            if come > 0 || bucket.bytes > self.depth {
                *bucket = Bucket { bytes: bucket.bytes.saturating_add(come).min(self.depth), at: micros };
            }
            is_within |= bucket.bytes >= bytes;
        }
        !is_within
    }

    /// The flow takes these bytes, of which it has as many left.
    #[inline]
    pub(crate) fn take(&mut self, flow: FlowHash, bytes: u32) {
        self.lower(flow, bytes, 0);
    }

    /// The flow sends these bytes although it lacks them, and pays them back: at most as much as a bucket holds, so that who goes on sending more than the
    /// rate is never within it, and who stops is soon.
    #[inline]
    pub(crate) fn overdraw(&mut self, flow: FlowHash, bytes: u32) {
        self.lower(flow, bytes, -self.depth);
    }

    fn lower(&mut self, flow: FlowHash, bytes: u32, least: i32) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        for (row, place) in self.rows.iter_mut().zip(places(flow)) {
            let bucket = &mut row[place].bytes;
            *bucket = bucket.saturating_sub(bytes).max(least).min(*bucket);
        }
    }
}

/// What comes into a bucket in so many microseconds, as far as a bucket can tell. By numbers of 64 bits, as it is asked for four times for a packet.
#[inline]
fn come_in(rate: Rate, micros: u32) -> i32 {
    let bits = rate.bits_per_second().checked_mul(u64::from(micros));
    bits.and_then(|bits| i32::try_from(bits / 8_000_000).ok()).unwrap_or(i32::MAX)
}

/// Where a flow's buckets are.
fn places(flow: FlowHash) -> [usize; 2] {
    [flow.slot(BUCKETS), flow.rotated().slot(BUCKETS)]
}

#[allow(clippy::cast_possible_truncation, reason = "times wrap around")]
const fn micros(now: Time) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(number: u64) -> FlowHash {
        FlowHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn a_greedy_flow_takes_from_hardly_anybody_else() {
        let mut buckets = Buckets::new();
        buckets.set(Rate::from_megabits_per_second(1), Duration::from_millis(100), Bytes::new(2_000), 0);
        let mut refused = 0;
        for nth in 0..20_000_u64 {
            let now = Time::from_nanos(nth * 100_000);
            for (flow, bytes) in [(flow(0), 1_000), (flow(1 + nth % 400), 200)] {
                if buckets.lacks(flow, bytes, now) {
                    buckets.overdraw(flow, bytes);
                    refused += u64::from(bytes == 200);
                } else {
                    buckets.take(flow, bytes);
                }
            }
        }
        assert_eq!(refused, 0, "400 flows of 8 kbit/s beside one of 80 Mbit/s");
    }

    #[test]
    fn what_is_taken_from_one_bucket_does_not_fill_the_other_that_owes() {
        let mut buckets = Buckets::new();
        buckets.set(Rate::from_megabits_per_second(1), Duration::from_millis(100), Bytes::new(2_000), 0);
        let [first, second] = places(flow(5));
        buckets.lacks(flow(5), 1, Time::START);
        (buckets.rows[0][first].bytes, buckets.rows[1][second].bytes) = (-5_000, 3_000);
        buckets.take(flow(5), 1_000);
        assert_eq!((buckets.rows[0][first].bytes, buckets.rows[1][second].bytes), (-5_000, 2_000));
    }
}
