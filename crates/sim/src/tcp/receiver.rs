//! The half of a connection that receives: what arrived, and what to say about it.

use alloc::collections::VecDeque;

use byway_units::{Bytes, Duration, Time};

use super::limits::{ACKNOWLEDGMENT_DELAY, HELD_SPANS_MAX, SACK_BLOCKS_MAX};
use super::segment::{SackBlock, SackBlocks};
use super::sequence::{Extent, Position, SequenceNumber};
use super::spans::Spans;

/// A segment's part of the peer's stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Its payload.
    pub(crate) payload: Extent,
    /// Whether a FIN follows the payload.
    pub(crate) is_last: bool,
}

/// What is due to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// One segment waits for a second one.
    By(Time),
    Now,
}

/// What of the peer's stream arrived, and what of it is to be acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The sequence number of the peer's SYN.
    initial: SequenceNumber,
    window: Bytes,
    delay: Duration,
    /// RCV.NXT.
    next: Position,
    /// Where the peer's FIN is, once it has come.
    fin: Option<Position>,
    /// What arrived behind gaps.
    held: Spans,
    /// Where runs behind gaps last grew, the latest first.
    recent: VecDeque<Position>,
    due: Due,
}

impl Receiver {
    pub(crate) fn new(initial: SequenceNumber, window: Bytes, delays: bool) -> Self {
        Self {
            initial,
            window,
            delay: if delays { ACKNOWLEDGMENT_DELAY } else { Duration::ZERO },
            next: Position::FIRST,
            fin: None,
            held: Spans::default(),
            recent: VecDeque::new(),
            due: Due::Nothing,
        }
    }

    /// The position that a sequence number of the peer means.
    pub(crate) fn position(&self, number: SequenceNumber) -> Option<Position> {
        self.initial.position(number, self.next)
    }

    /// The acknowledgment number.
    pub(crate) fn acknowledgment(&self) -> SequenceNumber {
        self.initial.of(self.next)
    }

    /// What is expected next.
    pub(crate) const fn next(&self) -> Position {
        self.next
    }

    /// How much of the stream arrived in order, the FIN not counted.
    pub(crate) fn received(&self) -> Bytes {
        self.fin.unwrap_or(self.next).min(self.next).saturating_since(Position::FIRST)
    }

    /// Whether all of the stream arrived, and its FIN.
    pub(crate) fn is_complete(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Takes what a segment carries, a FIN among it.
    pub(crate) fn take(&mut self, arrival: Arrival, now: Time) {
        if arrival.is_last && self.fin.is_none() && arrival.payload.end >= self.next {
            self.fin = Some(arrival.payload.end);
        }
        let end = arrival.payload.end + Bytes::new(u64::from(arrival.is_last));
        let room = self.next + self.window;
        // Nothing follows a FIN.
        let bound = self.fin.map_or(room, |fin| room.min(fin + Bytes::new(1)));
        let extent = Extent { start: arrival.payload.start.max(self.next), end: end.min(bound) };
        if extent.is_empty() {
            // Old, or beyond the window: the peer is told where things stand (RFC 9293, 3.10.7.4).
            self.due = Due::Now;
        } else if extent.start == self.next {
            self.advance(extent.end, now);
        } else {
            self.hold(extent);
        }
    }

    fn advance(&mut self, end: Position, now: Time) {
        let had_gap = !self.held.is_empty();
        self.next = self.held.pass(end);
        self.recent.retain(|&position| position >= self.next);
        self.due = match self.due {
            Due::Nothing if !had_gap && !self.is_complete() && !self.delay.is_zero() => {
                Due::By(now + self.delay)
            }
            // The second one, or what fills a gap (RFC 5681, 4.2), or a FIN.
            _ => Due::Now,
        };
    }

    fn hold(&mut self, extent: Extent) {
        self.due = Due::Now;
        if self.held.len() >= HELD_SPANS_MAX {
            return;
        }
        self.held.insert(extent);
        self.recent.push_front(extent.start);
        let held = &self.held;
        // One position stands for each run: those of the latest arrivals.
        let mut runs = [None; SACK_BLOCKS_MAX];
        self.recent.retain(|&position| {
            let run = held.around(position);
            let place = runs.iter_mut().find(|place| place.is_none() || **place == run);
            place.is_some_and(|place| place.replace(run.unwrap_or(extent)).is_none())
        });
    }

    /// The runs behind gaps, the latest first, at most `count_max` (RFC 2018, 4).
    pub(crate) fn sack_blocks(&self, count_max: usize) -> SackBlocks {
        let runs = self.recent.iter().filter_map(|&position| self.held.around(position));
        let block =
            |run: Extent| SackBlock { start: self.initial.of(run.start), end: self.initial.of(run.end) };
        runs.take(count_max).map(block).collect()
    }

    /// Whether something waits behind a gap.
    pub(crate) const fn has_gap(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether an acknowledgment must be sent at once.
    pub(crate) fn must_acknowledge(&self, now: Time) -> bool {
        match self.due {
            Due::Nothing => false,
            Due::By(time) => time <= now,
            Due::Now => true,
        }
    }

    /// Asks for an acknowledgment at once.
    pub(crate) const fn demand_acknowledgment(&mut self) {
        self.due = Due::Now;
    }

    /// An acknowledgment was sent.
    pub(crate) const fn acknowledged(&mut self) {
        self.due = Due::Nothing;
    }

    /// When an acknowledgment must be sent.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        match self.due {
            Due::By(time) => Some(time),
            Due::Nothing | Due::Now => None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const START: SequenceNumber = SequenceNumber::new(u32::MAX - 20);

    fn receiver() -> Receiver {
        Receiver::new(START, Bytes::new(1_000), true)
    }

    fn arrival(from: u64, until: u64) -> Arrival {
        let at = |number| Position::FIRST + Bytes::new(number);
        Arrival { payload: Extent { start: at(from), end: at(until) }, is_last: false }
    }

    fn blocks(receiver: &Receiver, count_max: usize) -> Vec<(u32, u32)> {
        let offset = |number: SequenceNumber| number.number().wrapping_sub(START.number()) - 1;
        let blocks = receiver.sack_blocks(count_max);
        blocks.iter().map(|block| (offset(block.start), offset(block.end))).collect()
    }

    #[test]
    fn every_second_segment_is_acknowledged_at_once() {
        let mut receiver = receiver();
        let now = Time::START;
        receiver.take(arrival(0, 100), now);
        assert!(!receiver.must_acknowledge(now));
        assert_eq!(receiver.deadline(), Some(now + ACKNOWLEDGMENT_DELAY));
        assert!(receiver.must_acknowledge(now + ACKNOWLEDGMENT_DELAY));
        receiver.take(arrival(100, 200), now);
        assert!(receiver.must_acknowledge(now));
        receiver.acknowledged();
        assert!(!receiver.must_acknowledge(now + ACKNOWLEDGMENT_DELAY));
    }

    #[test]
    fn gaps_old_data_and_what_fills_gaps_are_told_at_once() {
        let mut receiver = receiver();
        for (arrival, received) in [
            (arrival(100, 200), 0),
            (arrival(300, 400), 0),
            (arrival(0, 100), 200),
            (arrival(50, 150), 200),
            (arrival(200, 300), 400),
        ] {
            receiver.take(arrival, Time::START);
            assert!(receiver.must_acknowledge(Time::START), "{arrival:?}");
            receiver.acknowledged();
            assert_eq!(receiver.received(), Bytes::new(received));
        }
    }

    #[test]
    fn the_latest_run_is_told_first_and_each_only_once() {
        let mut receiver = receiver();
        for (from, until) in [(10, 20), (30, 40), (50, 60), (70, 80), (32, 45), (90, 95)] {
            receiver.take(arrival(from, until), Time::START);
        }
        assert_eq!(blocks(&receiver, 3), [(90, 95), (30, 45), (70, 80)]);
        assert_eq!(blocks(&receiver, 4), [(90, 95), (30, 45), (70, 80), (50, 60)]);
        receiver.take(arrival(40, 55), Time::START);
        assert_eq!(blocks(&receiver, 3), [(30, 60), (90, 95), (70, 80)]);
    }

    #[test]
    fn a_stream_is_complete_with_its_fin_and_nothing_follows_it() {
        let mut receiver = receiver();
        receiver.take(Arrival { is_last: true, ..arrival(100, 200) }, Time::START);
        assert!(!receiver.is_complete());
        receiver.take(arrival(150, 300), Time::START);
        receiver.take(arrival(0, 100), Time::START);
        assert!(receiver.is_complete());
        assert_eq!(receiver.received(), Bytes::new(200));
        receiver.take(arrival(201, 300), Time::START);
        assert_eq!(receiver.received(), Bytes::new(200));
    }

    #[test]
    fn what_is_beyond_the_window_is_not_held() {
        let mut receiver = receiver();
        receiver.take(arrival(900, 1_100), Time::START);
        assert_eq!(blocks(&receiver, 1), [(900, 1_000)]);
        receiver.take(arrival(2_000, 2_100), Time::START);
        assert_eq!(blocks(&receiver, 3), [(900, 1_000)]);
    }

    proptest! {
        #[test]
        fn what_is_received_is_what_a_set_of_bytes_would_be(
            arrivals in prop::collection::vec((0_u64..200, 1_u64..20), 0..60),
        ) {
            let (mut receiver, mut bytes) = (receiver(), BTreeSet::new());
            for (from, length) in arrivals {
                receiver.take(arrival(from, from + length), Time::START);
                bytes.extend(from..from + length);
                let in_order = (0..=220).find(|byte| !bytes.contains(byte)).unwrap();
                prop_assert_eq!(receiver.received(), Bytes::new(in_order));
                for (start, end) in blocks(&receiver, 4) {
                    let (start, end) = (u64::from(start), u64::from(end));
                    prop_assert!((start..end).all(|byte| bytes.contains(&byte)) && !bytes.contains(&end));
                }
            }
        }
    }
}
