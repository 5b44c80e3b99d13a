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
    /// Whether what is taken beyond the rate is paid back, at most as much as a bucket holds: who goes on sending more than the rate is
    /// never within it.
    has_debts: bool,
}

impl Buckets {
    /// Full ones.
    pub(crate) fn new(has_debts: bool) -> Self {
        let row = || vec![Bucket { bytes: i32::MAX, at: 0 }; BUCKETS].into_boxed_slice();
        Self { rows: [row(), row()], rate: Rate::ZERO, depth: 0, has_debts }
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
    pub(crate) fn lacks(&mut self, flow: FlowHash, bytes: u32, now: Time) -> bool {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let micros = micros(now);
        let mut is_within = false;
        for (row, place) in self.rows.iter_mut().zip(places(flow)) {
            let bucket = &mut row[place];
            let since = Duration::from_micros(u64::from(micros.wrapping_sub(bucket.at)));
            let come = self.rate.bytes_in(since).unwrap_or(Bytes::MAX).count();
            let come = i32::try_from(come).unwrap_or(i32::MAX);
            if come > 0 || bucket.bytes > self.depth {
                *bucket = Bucket { bytes: bucket.bytes.saturating_add(come).min(self.depth), at: micros };
            }
            is_within |= bucket.bytes >= bytes;
        }
        !is_within
    }

    /// The flow takes these bytes, which may be more than it has left if there are debts.
    pub(crate) fn take(&mut self, flow: FlowHash, bytes: u32) {
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let least = if self.has_debts { -self.depth } else { 0 };
        for (row, place) in self.rows.iter_mut().zip(places(flow)) {
            row[place].bytes = row[place].bytes.saturating_sub(bytes).max(least);
        }
    }

    /// The flow sends these bytes although it lacks them: they are to be paid back, if there are debts.
    pub(crate) fn overdraw(&mut self, flow: FlowHash, bytes: u32) {
        if self.has_debts {
            self.take(flow, bytes);
        }
    }

    /// Whether the flow has taken more than it may; if not, or if there are debts, it takes these bytes.
    pub(crate) fn exceeds(&mut self, flow: FlowHash, bytes: u32, now: Time) -> bool {
        let is_beyond = self.lacks(flow, bytes, now);
        if is_beyond {
            self.overdraw(flow, bytes);
        } else {
            self.take(flow, bytes);
        }
        is_beyond
    }
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

    fn buckets(has_debts: bool) -> Buckets {
        let mut buckets = Buckets::new(has_debts);
        buckets.set(Rate::from_megabits_per_second(1), Duration::from_millis(100), Bytes::new(2_000), 0);
        buckets
    }

    /// The bytes that a flow takes in ten seconds of this many packets of 1,000 bytes in a second.
    fn taken(buckets: &mut Buckets, number: u64, per_second: u64) -> u64 {
        let packets = (0..per_second * 10).map(|nth| Time::from_nanos(nth * 1_000_000_000 / per_second));
        packets.filter(|now| !buckets.exceeds(flow(number), 1_000, *now)).count() as u64 * 1_000
    }

    #[test]
    fn a_flow_takes_the_rate_and_no_more() {
        assert_eq!(taken(&mut buckets(false), 1, 100), 1_000_000, "less than it may");
        let taken = taken(&mut buckets(false), 1, 1_000);
        assert!((1_240_000..=1_265_000).contains(&taken), "{taken} of 1,250,000 and a burst of 12,500");
    }

    #[test]
    fn who_goes_on_beyond_the_rate_is_not_within_it_until_it_has_paid_back() {
        let mut buckets = buckets(true);
        assert_eq!(taken(&mut buckets, 1, 100), 1_000_000, "less than it may");
        // The first 12,500 bytes come at eight times the rate.
        let greedy = taken(&mut buckets, 2, 1_000);
        assert!(greedy <= 16_000, "{greedy}");
        let after = |millis| Time::from_nanos(10_000_000_000) + Duration::from_millis(millis);
        assert!(buckets.exceeds(flow(2), 1_000, after(50)));
        assert!(!buckets.exceeds(flow(2), 1_000, after(300)), "12,500 bytes are paid back in 100 ms");
    }

    #[test]
    fn a_greedy_flow_takes_from_hardly_anybody_else() {
        let mut buckets = buckets(true);
        let mut refused = 0;
        for nth in 0..20_000_u64 {
            let now = Time::from_nanos(nth * 100_000);
            buckets.exceeds(flow(0), 1_000, now);
            refused += u64::from(buckets.exceeds(flow(1 + nth % 400), 200, now));
        }
        assert_eq!(refused, 0, "400 flows of 8 kbit/s beside one of 80 Mbit/s");
    }
}
