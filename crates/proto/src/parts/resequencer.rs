//! Resequencer: delivers packets in order, with a bounded delay.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_units::{Bytes, Time};

use super::gap_tracker::NumberRange;
use crate::limits::{HELD_PACKETS_MAX, HELD_SKIPS_MAX};

/// Result of a push, which tells the caller what to do with the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// The packet is the next one: deliver it, then those that [`Resequencer::pop`] returns.
    InOrder,
    /// The resequencer buffers the packet, because earlier ones are missing.
    Held,
    /// Later packets were delivered already: deliver it out of order, or not at all.
    Late,
}

/// Puts the packets of a flow in order, at the price of a bounded head-of-line blocking.
///
/// Packets after a gap are buffered until the gap is filled or given up. The delay of each packet
/// and the number of packets and bytes are limited. The buffer stores values of type `T` for
/// packets. After each change, call [`pop`](Self::pop) until it returns `None`.
/// [`deadline`](Self::deadline) is the time of the next call.
///
/// A resequencer with an empty buffer may be dropped without loss: another may begin after the
/// highest sequence number released.
#[derive(Clone, Debug)]
pub struct Resequencer<T> {
    bytes_max: Bytes,
    /// Sequence number that is delivered next.
    next: u64,
    /// Sequence number below which buffered packets are released, despite gaps.
    overdue_below: u64,
    /// Buffered packets by sequence number.
    held: VecDeque<HeldEntry<T>>,
    bytes: Bytes,
    /// Lower bound on the release times of buffered packets.
    soonest: Time,
    /// Abandoned ranges above `next`, which the release skips.
    skips: ArrayVec<NumberRange, HELD_SKIPS_MAX>,
}

#[derive(Clone, Copy, Debug)]
struct HeldEntry<T> {
    number: u64,
    until: Time,
    bytes: u16,
    packet: T,
}

impl<T> Resequencer<T> {
    /// Creates an empty buffer of at most `bytes_max` bytes, for a flow whose packets below `next`
    /// were delivered.
    #[must_use]
    pub const fn new(next: u64, bytes_max: Bytes) -> Self {
        Self {
            bytes_max,
            next,
            overdue_below: 0,
            held: VecDeque::new(),
            bytes: Bytes::ZERO,
            soonest: Time::MAX,
            skips: ArrayVec::new_const(),
        }
    }

    /// Returns the sequence number to release next. Lower ones were released or abandoned.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    /// Records a packet that arrives for the first time, and returns what to do with it. If it has
    /// to wait, `packet` creates the buffered value, which is released by `until` at the latest.
    ///
    /// # Panics
    /// If packets released by earlier calls were not popped.
    pub fn push(&mut self, number: u64, bytes: u16, until: Time, packet: impl FnOnce() -> T) -> PushOutcome {
        if number < self.next {
            return PushOutcome::Late;
        }
        if number == self.next {
            self.next = number + 1;
            return PushOutcome::InOrder;
        }
        assert!(self.held.len() <= HELD_PACKETS_MAX, "the caller pops released packets before the next push");
        let index = self.held.partition_point(|held| held.number < number);
        self.held.insert(index, HeldEntry { number, until, bytes, packet: packet() });
        self.bytes += Bytes::new(bytes.into());
        self.soonest = self.soonest.min(until);
        self.evict_excess();
        PushOutcome::Held
    }

    /// Abandons sequence numbers that will not arrive: packets behind them do not wait for them.
    /// Those of them that are buffered are released in turn.
    pub fn abandon(&mut self, range: NumberRange) {
        // If the list is full, the packets that follow are released by their deadlines.
        if range.end() > self.next && !self.skips.is_full() {
            self.skips.push(range);
        }
    }

    /// Returns the next packet to deliver, with its sequence number; `None` if all buffered packets
    /// wait for earlier ones.
    pub fn pop(&mut self, now: Time) -> Option<(u64, T)> {
        if self.soonest <= now {
            self.note_overdue(now);
        }
        self.skip();
        let front = self.held.front()?;
        if front.number > self.next && front.number >= self.overdue_below {
            return None;
        }
        let held = self.held.pop_front()?;
        self.bytes -= Bytes::new(held.bytes.into());
        self.next = self.next.max(held.number + 1);
        Some((held.number, held.packet))
    }

    /// Returns the time at which to call [`pop`](Self::pop) again; `None` if the buffer is empty.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        (!self.held.is_empty()).then_some(self.soonest)
    }

    /// Returns the number of buffered packets.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.held.len()
    }

    /// Returns the number of buffered bytes.
    #[must_use]
    pub const fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Releases the packets with the lowest sequence numbers until the others are within the
    /// limits.
    fn evict_excess(&mut self) {
        let (mut packets, mut bytes) = (self.held.len(), self.bytes);
        for held in &self.held {
            if packets <= HELD_PACKETS_MAX && bytes <= self.bytes_max {
                break;
            }
            packets -= 1;
            bytes -= Bytes::new(held.bytes.into());
            self.overdue_below = self.overdue_below.max(held.number + 1);
        }
    }

    /// Releases packets whose time is over, and all buffered packets before them.
    fn note_overdue(&mut self, now: Time) {
        self.soonest = Time::MAX;
        for held in &self.held {
            if held.until <= now {
                self.overdue_below = self.overdue_below.max(held.number + 1);
            } else {
                self.soonest = self.soonest.min(held.until);
            }
        }
    }

    /// Moves `next` beyond abandoned sequence numbers.
    fn skip(&mut self) {
        let covers = |range: &&NumberRange, next: u64| range.first <= next && next < range.end();
        while let Some(range) = self.skips.iter().find(|range| covers(range, self.next)) {
            self.next = range.end();
        }
        let next = self.next;
        self.skips.retain(|range| range.end() > next);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use byway_units::Duration;
    use proptest::prelude::*;

    use super::*;

    const HOLD: Duration = Duration::from_millis(25);

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn resequencer() -> Resequencer<u64> {
        Resequencer::new(0, Bytes::new(100_000))
    }

    /// Pushes packets of 100 bytes whose values are their sequence numbers; returns those delivered
    /// in order.
    fn push(resequencer: &mut Resequencer<u64>, numbers: &[u64], now: Time) -> Vec<u64> {
        let mut delivered = Vec::new();
        for number in numbers {
            if resequencer.push(*number, 100, now + HOLD, || *number) == PushOutcome::InOrder {
                delivered.push(*number);
            }
            delivered.extend(pop(resequencer, now));
        }
        delivered
    }

    fn pop(resequencer: &mut Resequencer<u64>, now: Time) -> Vec<u64> {
        core::iter::from_fn(|| resequencer.pop(now)).map(|(number, _)| number).collect()
    }

    #[test]
    fn in_order_nothing_is_held_or_allocated() {
        let mut resequencer = Resequencer::new(5, Bytes::new(100_000));
        assert_eq!(push(&mut resequencer, &[5, 6, 7], at(0)), [5, 6, 7]);
        assert_eq!((resequencer.held.capacity(), resequencer.deadline()), (0, None));
    }

    #[test]
    fn what_follows_a_gap_waits_until_it_is_filled() {
        let mut resequencer = resequencer();
        assert_eq!(push(&mut resequencer, &[0, 2, 4, 3], at(0)), [0]);
        assert_eq!((resequencer.packets(), resequencer.bytes()), (3, Bytes::new(300)));
        assert_eq!(push(&mut resequencer, &[1], at(24)), [1, 2, 3, 4]);
        assert_eq!((resequencer.packets(), resequencer.bytes()), (0, Bytes::ZERO));
    }

    #[test]
    fn no_packet_is_held_for_longer_than_the_time_set() {
        let mut resequencer = resequencer();
        push(&mut resequencer, &[0, 5], at(0));
        push(&mut resequencer, &[3], at(10));
        assert_eq!(resequencer.deadline(), Some(at(25)));
        assert_eq!(pop(&mut resequencer, at(24)), []);
        assert_eq!(pop(&mut resequencer, at(25)), [3, 5], "3 goes before 5");
        assert_eq!(resequencer.push(4, 100, at(51), || 4), PushOutcome::Late);
    }

    #[test]
    fn a_gap_that_is_given_up_is_not_waited_for() {
        let mut resequencer = resequencer();
        push(&mut resequencer, &[0, 3, 6], at(0));
        resequencer.abandon(NumberRange { first: 4, length: 2 });
        assert_eq!(pop(&mut resequencer, at(1)), []);
        resequencer.abandon(NumberRange { first: 1, length: 2 });
        assert_eq!(pop(&mut resequencer, at(1)), [3, 6]);
        assert!(resequencer.skips.is_empty());
    }

    #[test]
    fn the_lowest_go_when_too_many_packets_are_held() {
        let mut resequencer = resequencer();
        let numbers: Vec<_> = (2..2 + HELD_PACKETS_MAX as u64 / 2).map(|number| 2 * number).collect();
        push(&mut resequencer, &[0], at(0));
        assert_eq!(push(&mut resequencer, &numbers, at(0)), []);
        let rest: Vec<_> = (5_000..5_000 + HELD_PACKETS_MAX as u64 / 2).map(|number| 2 * number).collect();
        assert_eq!(push(&mut resequencer, &rest, at(0)), []);
        assert_eq!(push(&mut resequencer, &[100_000], at(0)), [4]);
        assert_eq!(resequencer.packets(), HELD_PACKETS_MAX);
    }

    #[test]
    fn the_lowest_go_when_too_many_bytes_are_held() {
        let mut resequencer = Resequencer::new(0, Bytes::new(250));
        assert_eq!(push(&mut resequencer, &[0, 2, 4], at(0)), [0]);
        assert_eq!(push(&mut resequencer, &[6], at(0)), [2]);
        assert_eq!(resequencer.bytes(), Bytes::new(200));
    }

    /// A reference resequencer, which checks all packets at each step.
    struct NaiveResequencer {
        next: u64,
        held: Vec<(u64, Time)>,
        abandoned: Vec<u64>,
    }

    impl NaiveResequencer {
        fn release(&mut self, now: Time) -> Vec<u64> {
            let mut released = Vec::new();
            loop {
                while self.abandoned.contains(&self.next) {
                    self.next += 1;
                }
                self.held.sort_unstable();
                let Some((number, _)) = self.held.first().copied() else {
                    return released;
                };
                let is_overdue = self.held.iter().any(|(_, until)| *until <= now);
                if number > self.next && !is_overdue {
                    return released;
                }
                released.push(number);
                self.held.remove(0);
                self.next = self.next.max(number + 1);
            }
        }

        fn push(&mut self, number: u64, now: Time) -> Vec<u64> {
            if number >= self.next {
                self.held.push((number, now + HOLD));
            }
            self.release(now)
        }
    }

    proptest! {
        #[test]
        fn packets_are_released_as_when_everything_is_looked_at_each_time(
            steps in proptest::collection::vec((0_u8..10, 0_u64..12, 0_u64..8), 0..200),
        ) {
            let mut resequencer = resequencer();
            push(&mut resequencer, &[0], at(0));
            let mut naive = NaiveResequencer { next: 1, held: vec![], abandoned: vec![] };
            let (mut now, mut highest, mut seen) = (at(0), 0, vec![0]);
            for (kind, by, millis) in steps {
                now += Duration::from_millis(millis);
                prop_assert_eq!(pop(&mut resequencer, now), naive.release(now));
                let number = if kind < 4 { highest + 1 } else { (highest + by).saturating_sub(4) };
                if kind == 9 {
                    resequencer.abandon(NumberRange { first: number, length: 2 });
                    naive.abandoned.extend((number..number + 2).filter(|number| *number >= naive.next));
                    prop_assert_eq!(pop(&mut resequencer, now), naive.release(now));
                } else if !seen.contains(&number) {
                    seen.push(number);
                    highest = highest.max(number);
                    let expected = naive.push(number, now);
                    prop_assert_eq!(push(&mut resequencer, &[number], now), expected);
                }
                let soonest = naive.held.iter().map(|(_, until)| *until).min();
                prop_assert!(soonest.is_none_or(|soonest| resequencer.deadline() <= Some(soonest)));
                prop_assert_eq!(resequencer.packets(), naive.held.len());
            }
        }
    }
}
