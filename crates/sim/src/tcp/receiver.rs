//! Receiver of a TCP connection: received data, and its acknowledgments.

use alloc::collections::VecDeque;

use byway_units::{Bytes, Duration, Time};

use super::limits::{ACKNOWLEDGMENT_DELAY, OUT_OF_ORDER_SPANS_MAX, SACK_BLOCKS_MAX};
use super::segment::{SackBlock, SackBlocks};
use super::sequence::{Extent, Position, SequenceNumber};
use super::spans::Spans;

/// Part of the peer's stream in a received segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Positions of the segment's payload.
    pub(crate) payload: Extent,
    /// True if a FIN follows the payload.
    pub(crate) is_last: bool,
}

/// Schedule of the receiver's next acknowledgment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckSchedule {
    Nothing,
    /// One segment waits until then for a second one, before the receiver acknowledges both.
    By(Time),
    Now,
}

/// Received part of the peer's stream, and the schedule of its acknowledgment.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// The sequence number of the peer's SYN.
    initial: SequenceNumber,
    window: Bytes,
    delay: Duration,
    /// Next expected position (RCV.NXT).
    next: Position,
    /// Position of the peer's FIN, once received.
    fin: Option<Position>,
    /// Runs of data that arrived behind gaps.
    out_of_order: Spans,
    /// Positions at which the runs behind gaps last grew, the latest first: the order of SACK
    /// blocks.
    recent: VecDeque<Position>,
    ack: AckSchedule,
}

impl Receiver {
    pub(crate) fn new(initial: SequenceNumber, window: Bytes, delays: bool) -> Self {
        Self {
            initial,
            window,
            delay: if delays { ACKNOWLEDGMENT_DELAY } else { Duration::ZERO },
            next: Position::FIRST,
            fin: None,
            out_of_order: Spans::default(),
            recent: VecDeque::new(),
            ack: AckSchedule::Nothing,
        }
    }

    /// Returns the position of a sequence number in the peer's stream; `None` if it is before the
    /// SYN.
    pub(crate) fn position(&self, number: SequenceNumber) -> Option<Position> {
        self.initial.position(number, self.next)
    }

    /// Returns the acknowledgment number for the peer: the next expected sequence number.
    pub(crate) fn acknowledgment(&self) -> SequenceNumber {
        self.initial.of(self.next)
    }

    /// Returns the next expected position in the peer's stream.
    pub(crate) const fn next(&self) -> Position {
        self.next
    }

    /// Returns the bytes of the stream that arrived in order, without the FIN.
    pub(crate) fn received(&self) -> Bytes {
        self.fin.unwrap_or(self.next).min(self.next).saturating_since(Position::FIRST)
    }

    /// True if the whole stream and its FIN arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Stores the payload and FIN of a segment, and schedules their acknowledgment.
    pub(crate) fn on_segment(&mut self, arrival: Arrival, now: Time) {
        if arrival.is_last && self.fin.is_none() && arrival.payload.end >= self.next {
            self.fin = Some(arrival.payload.end);
        }
        let end = arrival.payload.end + Bytes::new(u64::from(arrival.is_last));
        let window_end = self.next + self.window;
        // No data follows a FIN.
        let bound = self.fin.map_or(window_end, |fin| window_end.min(fin + Bytes::new(1)));
        let extent = Extent { start: arrival.payload.start.max(self.next), end: end.min(bound) };
        if extent.is_empty() {
            // Old data, or data beyond the window, causes an acknowledgment at once (RFC 9293,
            // 3.10.7.4).
            self.ack = AckSchedule::Now;
        } else if extent.start == self.next {
            self.advance(extent.end, now);
        } else {
            self.buffer_out_of_order(extent);
        }
    }

    fn advance(&mut self, end: Position, now: Time) {
        let had_gap = !self.out_of_order.is_empty();
        self.next = self.out_of_order.advance_past(end);
        self.recent.retain(|&position| position >= self.next);
        self.ack = match self.ack {
            AckSchedule::Nothing if !had_gap && !self.is_complete() && !self.delay.is_zero() => {
                AckSchedule::By(now + self.delay)
            }
            // The second segment, one that fills a gap (RFC 5681, 4.2), or a FIN.
            _ => AckSchedule::Now,
        };
    }

    fn buffer_out_of_order(&mut self, extent: Extent) {
        self.ack = AckSchedule::Now;
        if self.out_of_order.len() >= OUT_OF_ORDER_SPANS_MAX {
            return;
        }
        self.out_of_order.insert(extent);
        self.recent.push_front(extent.start);
        let buffered = &self.out_of_order;
        // Only one position represents each run: that of its latest arrival.
        let mut runs = [None; SACK_BLOCKS_MAX];
        self.recent.retain(|&position| {
            let run = buffered.containing(position);
            let slot = runs.iter_mut().find(|slot| slot.is_none() || **slot == run);
            slot.is_some_and(|slot| slot.replace(run.unwrap_or(extent)).is_none())
        });
    }

    /// Returns the runs behind gaps as SACK blocks, the latest first, at most `count_max` (RFC
    /// 2018, 4).
    pub(crate) fn sack_blocks(&self, count_max: usize) -> SackBlocks {
        let runs = self.recent.iter().filter_map(|&position| self.out_of_order.containing(position));
        let block =
            |run: Extent| SackBlock { start: self.initial.of(run.start), end: self.initial.of(run.end) };
        runs.take(count_max).map(block).collect()
    }

    /// True if the receiver has data behind a gap.
    pub(crate) const fn has_gap(&self) -> bool {
        !self.out_of_order.is_empty()
    }

    /// True if an acknowledgment must be sent at once.
    pub(crate) fn must_acknowledge(&self, now: Time) -> bool {
        match self.ack {
            AckSchedule::Nothing => false,
            AckSchedule::By(time) => time <= now,
            AckSchedule::Now => true,
        }
    }

    /// Schedules an acknowledgment at once.
    pub(crate) const fn demand_acknowledgment(&mut self) {
        self.ack = AckSchedule::Now;
    }

    /// Records that an acknowledgment was sent.
    pub(crate) const fn acknowledged(&mut self) {
        self.ack = AckSchedule::Nothing;
    }

    /// Returns the time at which an acknowledgment must be sent; `None` if none is scheduled.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        match self.ack {
            AckSchedule::By(time) => Some(time),
            AckSchedule::Nothing | AckSchedule::Now => None,
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
        receiver.on_segment(arrival(0, 100), now);
        assert!(!receiver.must_acknowledge(now));
        assert_eq!(receiver.deadline(), Some(now + ACKNOWLEDGMENT_DELAY));
        assert!(receiver.must_acknowledge(now + ACKNOWLEDGMENT_DELAY));
        receiver.on_segment(arrival(100, 200), now);
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
            receiver.on_segment(arrival, Time::START);
            assert!(receiver.must_acknowledge(Time::START), "{arrival:?}");
            receiver.acknowledged();
            assert_eq!(receiver.received(), Bytes::new(received));
        }
    }

    #[test]
    fn the_latest_run_is_told_first_and_each_only_once() {
        let mut receiver = receiver();
        for (from, until) in [(10, 20), (30, 40), (50, 60), (70, 80), (32, 45), (90, 95)] {
            receiver.on_segment(arrival(from, until), Time::START);
        }
        assert_eq!(blocks(&receiver, 3), [(90, 95), (30, 45), (70, 80)]);
        assert_eq!(blocks(&receiver, 4), [(90, 95), (30, 45), (70, 80), (50, 60)]);
        receiver.on_segment(arrival(40, 55), Time::START);
        assert_eq!(blocks(&receiver, 3), [(30, 60), (90, 95), (70, 80)]);
    }

    #[test]
    fn a_stream_is_complete_with_its_fin_and_nothing_follows_it() {
        let mut receiver = receiver();
        receiver.on_segment(Arrival { is_last: true, ..arrival(100, 200) }, Time::START);
        assert!(!receiver.is_complete());
        receiver.on_segment(arrival(150, 300), Time::START);
        receiver.on_segment(arrival(0, 100), Time::START);
        assert!(receiver.is_complete());
        assert_eq!(receiver.received(), Bytes::new(200));
        receiver.on_segment(arrival(201, 300), Time::START);
        assert_eq!(receiver.received(), Bytes::new(200));
    }

    #[test]
    fn what_is_beyond_the_window_is_not_held() {
        let mut receiver = receiver();
        receiver.on_segment(arrival(900, 1_100), Time::START);
        assert_eq!(blocks(&receiver, 1), [(900, 1_000)]);
        receiver.on_segment(arrival(2_000, 2_100), Time::START);
        assert_eq!(blocks(&receiver, 3), [(900, 1_000)]);
    }

    proptest! {
        #[test]
        fn what_is_received_is_what_a_set_of_bytes_would_be(
            arrivals in prop::collection::vec((0_u64..200, 1_u64..20), 0..60),
        ) {
            let (mut receiver, mut bytes) = (receiver(), BTreeSet::new());
            for (from, length) in arrivals {
                receiver.on_segment(arrival(from, from + length), Time::START);
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
