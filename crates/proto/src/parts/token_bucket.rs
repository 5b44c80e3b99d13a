//! Token bucket: limit of a rate and a burst.

use core::marker::PhantomData;

use byway_units::{Bytes, Duration, Rate, Time};

/// Number of packets, as the amount of a [`TokenBucket`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Packets(u64);

impl Packets {
    /// Creates the amount of `count` packets.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Returns the number of packets.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0
    }
}

/// Amount of processing work, in units of [`RelayWork::units`](crate::relay::RelayWork::units), as
/// the amount of a [`TokenBucket`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work(u64);

impl Work {
    /// Creates the amount of `units` units of work.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.0
    }
}

/// Type of amount that a [`TokenBucket`] counts: bytes, packets or work.
pub trait Amount: Copy {
    /// Returns the amount in tokens.
    fn tokens(self) -> u64;
    /// Returns the largest amount that these tokens cover.
    fn from_tokens(tokens: u64) -> Self;
}

impl Amount for Bytes {
    /// Returns the number of tokens: one for each bit.
    fn tokens(self) -> u64 {
        self.count().saturating_mul(8)
    }

    fn from_tokens(tokens: u64) -> Self {
        Self::new(tokens / 8)
    }
}

impl Amount for Packets {
    /// Returns the number of tokens: one for each packet.
    fn tokens(self) -> u64 {
        self.0
    }

    fn from_tokens(tokens: u64) -> Self {
        Self(tokens)
    }
}

impl Amount for Work {
    /// Returns the number of tokens: one for each unit of work.
    fn tokens(self) -> u64 {
        self.0
    }

    fn from_tokens(tokens: u64) -> Self {
        Self(tokens)
    }
}

/// Token bucket: over any time, the bucket allows at most the burst and the refill of that time.
///
/// The level is in billionths of a token, and each nanosecond adds a whole number of them. Nothing
/// is rounded, so the long-term rate is exact. The level is negative after a charge beyond it.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket<A> {
    tokens_per_second: u64,
    burst: u64,
    level: Level,
    updated: Time,
    of: PhantomData<A>,
}

/// Billionths of a token. Packed, because every flow has buckets, and 16-byte alignment would make
/// them larger by a fifth.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(8))]
struct Level(i128);

const PARTS: i128 = 1_000_000_000;

impl TokenBucket<Bytes> {
    /// Creates a full bucket of bytes.
    #[must_use]
    pub fn of_bytes(rate: Rate, burst: Bytes, now: Time) -> Self {
        Self::new(rate.bits_per_second(), burst, now)
    }

    /// Sets the rate and the burst. The level stays, but at most at the burst.
    pub fn set(&mut self, rate: Rate, burst: Bytes, now: Time) {
        self.change(rate.bits_per_second(), burst, now);
    }
}

impl TokenBucket<Packets> {
    /// Creates a full bucket of packets.
    #[must_use]
    pub fn of_packets(per_second: u64, burst: Packets, now: Time) -> Self {
        Self::new(per_second, burst, now)
    }
}

impl TokenBucket<Work> {
    /// Creates a full bucket of work.
    #[must_use]
    pub fn of_work(per_second: u64, burst: Work, now: Time) -> Self {
        Self::new(per_second, burst, now)
    }
}

impl<A: Amount> TokenBucket<A> {
    fn new(tokens_per_second: u64, burst: A, now: Time) -> Self {
        let burst = burst.tokens();
        let level = Level(i128::from(burst) * PARTS);
        Self { tokens_per_second, burst, level, updated: now, of: PhantomData }
    }

    fn change(&mut self, tokens_per_second: u64, burst: A, now: Time) {
        let level = self.level_at(now);
        self.updated = self.updated.max(now);
        self.tokens_per_second = tokens_per_second;
        self.burst = burst.tokens();
        self.level = Level(level.min(i128::from(self.burst) * PARTS));
    }

    /// Removes `amount` from the bucket if its level suffices, and returns true. Otherwise, leaves
    /// the bucket unchanged and returns false.
    pub fn try_consume(&mut self, amount: A, now: Time) -> bool {
        let level = self.level_at(now);
        self.updated = self.updated.max(now);
        let remaining = level - i128::from(amount.tokens()) * PARTS;
        let is_enough = remaining >= 0;
        self.level = Level(if is_enough { remaining } else { level });
        is_enough
    }

    /// Removes `amount` in any case. A missing part makes the level negative, and nothing is
    /// available until the refill covers it.
    pub fn charge(&mut self, amount: A, now: Time) {
        let level = self.level_at(now);
        self.updated = self.updated.max(now);
        self.level = Level(level.saturating_sub(i128::from(amount.tokens()) * PARTS));
    }

    /// Returns the amount in the bucket now; zero if the level is negative.
    #[must_use]
    pub fn available(&self, now: Time) -> A {
        A::from_tokens(u64::try_from(self.level_at(now) / PARTS).unwrap_or(0))
    }

    /// Returns the time at which `amount` is available, if nothing is removed before; `Time::MAX`
    /// if it exceeds the burst or the rate is zero.
    #[must_use]
    pub fn available_at(&self, amount: A, now: Time) -> Time {
        let missing = i128::from(amount.tokens()) * PARTS - self.level_at(now);
        if missing <= 0 {
            return now;
        }
        if amount.tokens() > self.burst || self.tokens_per_second == 0 {
            return Time::MAX;
        }
        let wait = missing.unsigned_abs().div_ceil(u128::from(self.tokens_per_second));
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        self.updated.max(now).saturating_add(wait)
    }

    fn level_at(&self, now: Time) -> i128 {
        let elapsed = now.saturating_since(self.updated).as_nanos();
        let income = u128::from(self.tokens_per_second) * u128::from(elapsed);
        let income = i128::try_from(income).unwrap_or(i128::MAX);
        self.level.0.saturating_add(income).min(i128::from(self.burst) * PARTS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn bucket() -> TokenBucket<Bytes> {
        TokenBucket::of_bytes(Rate::from_kilobits_per_second(8), Bytes::new(100), at(0))
    }

    #[test]
    fn a_burst_can_be_taken_at_once_and_then_comes_at_the_rate() {
        let mut bucket = bucket();
        assert!(bucket.try_consume(Bytes::new(100), at(0)));
        assert!(!bucket.try_consume(Bytes::new(1), at(0)));
        assert_eq!(bucket.available(at(7)), Bytes::new(7));
        assert_eq!(bucket.available_at(Bytes::new(20), at(7)), at(20));
        assert!(bucket.try_consume(Bytes::new(20), at(20)));
        assert_eq!(bucket.available(at(10_000)), Bytes::new(100));
    }

    #[test]
    fn what_is_there_can_be_taken_now_and_more_than_the_burst_never() {
        let bucket = bucket();
        assert_eq!(bucket.available_at(Bytes::new(100), at(5)), at(5));
        assert_eq!(bucket.available_at(Bytes::new(101), at(5)), Time::MAX);
        let closed = TokenBucket::of_packets(0, Packets::new(1), at(0));
        assert_eq!(closed.available_at(Packets::new(1), at(3)), at(3));
        let mut empty = closed;
        assert!(empty.try_consume(Packets::new(1), at(3)));
        assert_eq!(empty.available_at(Packets::new(1), at(3)), Time::MAX);
    }

    #[test]
    fn a_rate_that_divides_nothing_does_not_drift() {
        // About a third of a packet each nanosecond, in odd steps over a minute.
        let mut bucket = TokenBucket::of_packets(333_333_333, Packets::new(2_000), at(0));
        let (mut now, mut consumed) = (at(0), 0_u64);
        while now < at(60_000) {
            consumed += drain(&mut bucket, now);
            now += Duration::from_nanos(2_999);
        }
        // The whole refill except that of the last step.
        let available = 333_333_333 * 60 + 2_000;
        assert!((available - 1_000..=available).contains(&consumed), "{consumed} of {available}");
    }

    fn drain(bucket: &mut TokenBucket<Packets>, now: Time) -> u64 {
        let all = bucket.available(now);
        assert!(bucket.try_consume(all, now));
        all.count()
    }

    #[test]
    fn another_rate_counts_from_now_on() {
        let mut bucket = bucket();
        assert!(bucket.try_consume(Bytes::new(100), at(0)));
        bucket.set(Rate::from_kilobits_per_second(80), Bytes::new(50), at(10));
        assert_eq!(bucket.available(at(10)), Bytes::new(10));
        assert_eq!(bucket.available(at(12)), Bytes::new(30));
        assert_eq!(bucket.available(at(100)), Bytes::new(50));
    }

    #[test]
    fn time_that_runs_backwards_brings_nothing() {
        let mut bucket = bucket();
        assert!(bucket.try_consume(Bytes::new(100), at(50)));
        assert_eq!(bucket.available(at(10)), Bytes::ZERO);
        assert!(!bucket.try_consume(Bytes::new(1), at(10)));
        assert_eq!(bucket.available(at(51)), Bytes::new(1));
    }

    #[test]
    fn what_is_charged_without_being_there_is_owed() {
        let mut bucket = TokenBucket::of_work(1_000, Work::new(10), at(0));
        bucket.charge(Work::new(30), at(0));
        assert_eq!(bucket.available(at(20)), Work::new(0));
        assert!(!bucket.try_consume(Work::new(1), at(20)));
        assert_eq!(bucket.available_at(Work::new(5), at(20)), at(25));
        assert!(bucket.try_consume(Work::new(5), at(25)));
        bucket.charge(Work::new(u64::MAX), at(25));
        bucket.charge(Work::new(u64::MAX), at(25));
        assert_eq!(bucket.available(at(1_000_000)), Work::new(0));
    }

    proptest! {
        /// The reference bucket is filled each nanosecond, in billionths.
        #[test]
        fn a_bucket_does_as_one_that_is_filled_each_nanosecond(
            per_second in 1_u64..3_000_000_000,
            burst in 1_u64..20,
            steps in proptest::collection::vec((0_u64..40, 0_u64..12), 1..40),
        ) {
            let mut bucket = TokenBucket::of_packets(per_second, Packets::new(burst), Time::START);
            let (mut now, mut level) = (Time::START, burst * 1_000_000_000);
            for (gap, amount) in steps {
                for _ in 0..gap {
                    level = (level + per_second).min(burst * 1_000_000_000);
                }
                now += Duration::from_nanos(gap);
                prop_assert_eq!(bucket.available(now).count(), level / 1_000_000_000);
                let when = bucket.available_at(Packets::new(amount), now);
                prop_assert_eq!(when <= now, level >= amount * 1_000_000_000);
                if amount <= burst {
                    let (mut then, mut just_before) = (bucket, bucket);
                    prop_assert!(then.try_consume(Packets::new(amount), when));
                    let before = when.saturating_sub(Duration::from_nanos(1));
                    prop_assert!(when == now || !just_before.try_consume(Packets::new(amount), before));
                }
                let is_there = level >= amount * 1_000_000_000;
                prop_assert_eq!(bucket.try_consume(Packets::new(amount), now), is_there);
                level -= if is_there { amount * 1_000_000_000 } else { 0 };
            }
        }
    }
}
