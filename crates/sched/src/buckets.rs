//! Token buckets without a table of flows: flows share buckets by their hash, in two rows.
//!
//! A flow exceeds its rate only if its buckets of both rows are empty. So a flow that shares one
//! bucket with a greedy flow is not affected; it would have to share both. (A count-min sketch of
//! buckets: Cormode and Muthukrishnan, 2005.)

use alloc::boxed::Box;
use alloc::vec;

use byway_units::{Bytes, Duration, Rate, Time};

use crate::flows::FlowHash;
use crate::limits::BUCKETS;

/// Token bucket that flows share by their hash: its level, and the time of its last refill.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Bytes that flows may still send; negative values are debt.
    bytes: i32,
    /// Time of the last refill, in microseconds modulo 2³² (71 minutes).
    updated_at: u32,
}

/// Token buckets of all flows of a policer: two rows, 64 KB.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    rows: [Box<[Bucket]>; 2],
    rate: Rate,
    depth: i32,
}

impl Buckets {
    /// Creates buckets without a rate; [`configure`](Self::configure) sets it.
    pub(crate) fn new() -> Self {
        let row = || vec![Bucket { bytes: i32::MAX, updated_at: 0 }; BUCKETS].into_boxed_slice();
        Self { rows: [row(), row()], rate: Rate::ZERO, depth: 0 }
    }

    /// Sets the rate of each of about `flows` flows, and the depth of buckets: what the rate
    /// refills in `burst`, but at least `least` bytes.
    pub(crate) fn configure(&mut self, rate: Rate, burst: Duration, least: Bytes, flows: u32) {
        // Flows that share a bucket share its refill.
        let shared =
            u128::from(rate.bits_per_second()) * (BUCKETS as u128 + u128::from(flows)) / BUCKETS as u128;
        self.rate = Rate::from_bits_per_second(u64::try_from(shared).unwrap_or(u64::MAX));
        let depth = self.rate.bytes_in(burst).unwrap_or(Bytes::MAX).max(least);
        self.depth = i32::try_from(depth.count()).unwrap_or(i32::MAX);
    }

    /// Refills the flow's two buckets, and returns true if neither has these bytes. Takes nothing
    /// from them.
    #[inline]
    pub(crate) fn lacks(&mut self, flow: FlowHash, bytes: u32, now: Time) -> bool {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let micros = micros(now);
        let mut is_within = false;
        for (row, index) in self.rows.iter_mut().zip(bucket_indices(flow)) {
            let bucket = &mut row[index];
            let added = refill(self.rate, micros.wrapping_sub(bucket.updated_at));
            if added > 0 || bucket.bytes > self.depth {
                *bucket =
                    Bucket { bytes: bucket.bytes.saturating_add(added).min(self.depth), updated_at: micros };
            }
            is_within |= bucket.bytes >= bytes;
        }
        !is_within
    }

    /// Takes these bytes from the flow's buckets, which have them, but not below zero.
    #[inline]
    pub(crate) fn consume(&mut self, flow: FlowHash, bytes: u32) {
        self.lower(flow, bytes, 0);
    }

    /// Takes these bytes from the flow's buckets, although they lack them, as debt of at most one
    /// bucket's depth. A flow that keeps exceeding the rate stays in debt; one that stops is soon
    /// out of it.
    #[inline]
    pub(crate) fn overdraw(&mut self, flow: FlowHash, bytes: u32) {
        self.lower(flow, bytes, -self.depth);
    }

    fn lower(&mut self, flow: FlowHash, bytes: u32, least: i32) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        for (row, index) in self.rows.iter_mut().zip(bucket_indices(flow)) {
            let bucket = &mut row[index].bytes;
            *bucket = bucket.saturating_sub(bytes).max(least).min(*bucket);
        }
    }
}

/// Returns the bytes by which a bucket refills at this rate in these microseconds; at most the
/// largest level. It uses 64-bit arithmetic, because each packet needs it four times.
#[inline]
fn refill(rate: Rate, micros: u32) -> i32 {
    let bits = rate.bits_per_second().checked_mul(u64::from(micros));
    bits.and_then(|bits| i32::try_from(bits / 8_000_000).ok()).unwrap_or(i32::MAX)
}

/// Returns the indices of a flow's buckets, one in each row.
fn bucket_indices(flow: FlowHash) -> [usize; 2] {
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
        buckets.configure(
            Rate::from_megabits_per_second(1),
            Duration::from_millis(100),
            Bytes::new(2_000),
            0,
        );
        let mut refused = 0;
        for nth in 0..20_000_u64 {
            let now = Time::from_nanos(nth * 100_000);
            for (flow, bytes) in [(flow(0), 1_000), (flow(1 + nth % 400), 200)] {
                if buckets.lacks(flow, bytes, now) {
                    buckets.overdraw(flow, bytes);
                    refused += u64::from(bytes == 200);
                } else {
                    buckets.consume(flow, bytes);
                }
            }
        }
        assert_eq!(refused, 0, "400 flows of 8 kbit/s beside one of 80 Mbit/s");
    }

    #[test]
    fn what_is_taken_from_one_bucket_does_not_fill_the_other_that_owes() {
        let mut buckets = Buckets::new();
        buckets.configure(
            Rate::from_megabits_per_second(1),
            Duration::from_millis(100),
            Bytes::new(2_000),
            0,
        );
        let [first, second] = bucket_indices(flow(5));
        buckets.lacks(flow(5), 1, Time::START);
        (buckets.rows[0][first].bytes, buckets.rows[1][second].bytes) = (-5_000, 3_000);
        buckets.consume(flow(5), 1_000);
        assert_eq!((buckets.rows[0][first].bytes, buckets.rows[1][second].bytes), (-5_000, 2_000));
    }
}
