//! Scoreboard of unacknowledged segments: received, lost and in-flight ones (RFC 6675).

use alloc::collections::VecDeque;

use byway_units::{Bytes, Time};

use super::limits::DUPLICATE_THRESHOLD;
use super::sequence::{Extent, Position};

/// A segment that was sent and is not yet acknowledged.
#[derive(Clone, Copy, Debug)]
struct SentSegment {
    extent: Extent,
    /// Time of the segment's first transmission.
    at: Time,
    is_sacked: bool,
    is_lost: bool,
    is_retransmitted: bool,
}

impl SentSegment {
    /// Returns the segment's bytes in flight: once for the first transmission unless that is lost,
    /// and once for a retransmission.
    fn in_flight(&self) -> Bytes {
        let copies = u64::from(!self.is_lost) + u64::from(self.is_retransmitted);
        self.extent.bytes() * if self.is_sacked { 0 } else { copies }
    }
}

/// Result of the segments that an acknowledgment removed from the scoreboard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckedSegments {
    /// Time of transmission of the last newly arrived segment, if none of these was retransmitted
    /// (Karn's rule: RFC 6298, 3).
    pub(crate) sent_once_at: Option<Time>,
}

/// Unacknowledged segments of a sender, in the order of the stream, with their losses (RFC 6675).
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    /// Payload of a full segment (SMSS).
    segment: Bytes,
    sent: VecDeque<SentSegment>,
    /// Bytes in flight (RFC 6675's pipe).
    pipe: Bytes,
    /// End of the highest segment that arrived behind a gap.
    highest_sacked: Position,
    /// End of the segments that loss detection has marked as lost.
    lost_until: Position,
    /// End of the retransmitted segments (RFC 6675's `HighRxt`).
    retransmitted_until: Position,
}

impl Scoreboard {
    pub(crate) const fn new(segment: Bytes) -> Self {
        Self {
            segment,
            sent: VecDeque::new(),
            pipe: Bytes::ZERO,
            highest_sacked: Position::SYN,
            lost_until: Position::SYN,
            retransmitted_until: Position::SYN,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    pub(crate) const fn pipe(&self) -> Bytes {
        self.pipe
    }

    /// Adds a segment that is sent for the first time.
    pub(crate) fn push(&mut self, extent: Extent, now: Time) {
        let sent = SentSegment { extent, at: now, is_sacked: false, is_lost: false, is_retransmitted: false };
        self.pipe += sent.in_flight();
        self.sent.push_back(sent);
    }

    /// Removes all segments before `position`. A partly acknowledged segment counts as
    /// unacknowledged, and does not occur here.
    pub(crate) fn remove_until(&mut self, position: Position) -> AckedSegments {
        let (mut sent_once_at, mut is_ambiguous) = (None, false);
        while let Some(sent) = self.sent.front().filter(|sent| sent.extent.end <= position) {
            self.pipe -= sent.in_flight();
            // A segment that arrived earlier is no sample of this acknowledgment's round trip.
            if !sent.is_sacked {
                sent_once_at = Some(sent.at);
                is_ambiguous |= sent.is_retransmitted;
            }
            self.sent.pop_front();
        }
        AckedSegments { sent_once_at: sent_once_at.filter(|_| !is_ambiguous) }
    }

    /// Marks a block of the stream as received behind a gap. Returns the number of bytes not yet
    /// marked.
    pub(crate) fn sack(&mut self, block: Extent) -> Bytes {
        let first = self.sent.partition_point(|sent| sent.extent.start < block.start);
        let mut new = Bytes::ZERO;
        for sent in self.sent.range_mut(first..).take_while(|sent| sent.extent.end <= block.end) {
            if !sent.is_sacked {
                self.pipe -= sent.in_flight();
                sent.is_sacked = true;
                new += sent.extent.bytes();
                self.highest_sacked = self.highest_sacked.max(sent.extent.end);
            }
        }
        new
    }

    /// Marks segments as lost if enough data above them arrived (RFC 6675's `IsLost`). Returns true
    /// if the first segment is lost.
    pub(crate) fn detect_losses(&mut self) -> bool {
        let until = self.lost_below();
        let first = self.sent.partition_point(|sent| sent.extent.start < self.lost_until);
        for sent in self.sent.range_mut(first..).take_while(|sent| sent.extent.end <= until) {
            Self::mark_lost(&mut self.pipe, sent);
        }
        self.lost_until = self.lost_until.max(until);
        self.sent.front().is_some_and(|sent| sent.is_lost)
    }

    /// Marks the first segment as lost, whatever arrived above it.
    pub(crate) fn mark_first_lost(&mut self) {
        if let Some(sent) = self.sent.front_mut() {
            Self::mark_lost(&mut self.pipe, sent);
        }
    }

    /// Marks all missing segments as lost, retransmitted ones too, because the retransmission timer
    /// expired.
    pub(crate) fn mark_all_lost(&mut self) {
        for sent in &mut self.sent {
            (sent.is_lost, sent.is_retransmitted) = (true, false);
            self.lost_until = sent.extent.end;
        }
        self.pipe = Bytes::ZERO;
        self.retransmitted_until = Position::SYN;
    }

    fn mark_lost(pipe: &mut Bytes, sent: &mut SentSegment) {
        *pipe -= sent.in_flight();
        sent.is_lost |= !sent.is_sacked;
        *pipe += sent.in_flight();
    }

    /// Returns the position below which missing segments are lost: three runs, or more than two
    /// segments' bytes, arrived above it.
    fn lost_below(&self) -> Position {
        let (mut bytes, mut runs) = (Bytes::ZERO, 0);
        let mut run_start = None;
        let until = self.sent.partition_point(|sent| sent.extent.end <= self.highest_sacked);
        for sent in self.sent.range(..until).rev().filter(|sent| sent.is_sacked) {
            bytes += sent.extent.bytes();
            runs += u32::from(run_start != Some(sent.extent.end));
            run_start = Some(sent.extent.start);
            if runs >= DUPLICATE_THRESHOLD || bytes > self.segment * u64::from(DUPLICATE_THRESHOLD - 1) {
                return sent.extent.start;
            }
        }
        Position::SYN
    }

    /// Returns the first lost segment that was not retransmitted (RFC 6675, `NextSeg` rule 1).
    pub(crate) fn next_lost(&self) -> Option<Extent> {
        self.next_gap().filter(|sent| sent.is_lost).map(|sent| sent.extent)
    }

    /// Returns the first missing segment below received ones that was not retransmitted, even if it
    /// does not count as lost (RFC 6675, `NextSeg` rule 3).
    pub(crate) fn next_missing(&self) -> Option<Extent> {
        let missing = self.next_gap().filter(|sent| sent.extent.end <= self.highest_sacked);
        missing.map(|sent| sent.extent)
    }

    fn next_gap(&self) -> Option<&SentSegment> {
        let first = self.sent.partition_point(|sent| sent.extent.start < self.retransmitted_until);
        self.sent.range(first..).find(|sent| !sent.is_sacked && !sent.is_retransmitted)
    }

    /// Returns the last missing segment (RFC 6675, `NextSeg` rule 4).
    pub(crate) fn last_missing(&self) -> Option<Extent> {
        self.sent.iter().rev().find(|sent| !sent.is_sacked).map(|sent| sent.extent)
    }

    /// Marks a segment as retransmitted. If `is_rescue`, it is out of order: segments before it
    /// still count as not retransmitted.
    pub(crate) fn mark_retransmitted(&mut self, extent: Extent, is_rescue: bool) {
        let index = self.sent.partition_point(|sent| sent.extent.start < extent.start);
        if let Some(sent) = self.sent.get_mut(index) {
            self.pipe -= sent.in_flight();
            sent.is_retransmitted = true;
            self.pipe += sent.in_flight();
        }
        if !is_rescue {
            self.retransmitted_until = extent.end;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const SEGMENT: Bytes = Bytes::new(100);

    fn extent(from: u64, until: u64) -> Extent {
        Extent { start: Position::FIRST + SEGMENT * from, end: Position::FIRST + SEGMENT * until }
    }

    fn scoreboard(count: u64) -> Scoreboard {
        let mut board = Scoreboard::new(SEGMENT);
        (0..count).for_each(|number| board.push(extent(number, number + 1), Time::from_nanos(number)));
        board
    }

    #[test]
    fn a_segment_is_lost_when_three_above_it_arrived() {
        let mut board = scoreboard(10);
        board.sack(extent(1, 3));
        assert!(!board.detect_losses());
        assert_eq!((board.pipe(), board.next_lost()), (SEGMENT * 8, None));
        board.sack(extent(3, 4));
        assert!(board.detect_losses());
        assert_eq!((board.pipe(), board.next_lost()), (SEGMENT * 6, Some(extent(0, 1))));
        board.mark_retransmitted(extent(0, 1), false);
        assert_eq!((board.pipe(), board.next_lost()), (SEGMENT * 7, None));
    }

    #[test]
    fn short_segments_count_by_their_runs() {
        let mut board = Scoreboard::new(SEGMENT);
        let byte = |number| Extent {
            start: Position::FIRST + Bytes::new(number),
            end: Position::FIRST + Bytes::new(number + 1),
        };
        (0..10).for_each(|number| board.push(byte(number), Time::START));
        for number in [1, 3] {
            board.sack(byte(number));
        }
        assert!(!board.detect_losses());
        board.sack(byte(5));
        assert!(board.detect_losses());
        assert_eq!(board.next_lost(), Some(byte(0)));
        board.mark_retransmitted(byte(0), false);
        assert_eq!((board.next_lost(), board.next_missing()), (None, Some(byte(2))));
    }

    #[test]
    fn what_was_sent_again_may_be_lost_again_only_by_timeout() {
        let mut board = scoreboard(5);
        board.sack(extent(1, 5));
        board.detect_losses();
        board.mark_retransmitted(extent(0, 1), false);
        board.detect_losses();
        assert_eq!((board.next_lost(), board.pipe()), (None, SEGMENT));
        board.mark_all_lost();
        assert_eq!((board.next_lost(), board.pipe()), (Some(extent(0, 1)), Bytes::ZERO));
    }

    #[test]
    fn what_was_sent_twice_measures_nothing() {
        let mut board = scoreboard(3);
        board.mark_retransmitted(extent(1, 2), false);
        let at = |number| Position::FIRST + SEGMENT * number;
        assert_eq!(board.remove_until(at(1)).sent_once_at, Some(Time::from_nanos(0)));
        assert_eq!(board.remove_until(at(2)).sent_once_at, None);
        assert_eq!(board.remove_until(at(3)).sent_once_at, Some(Time::from_nanos(2)));
        assert_eq!((board.len(), board.pipe()), (0, Bytes::ZERO));
    }

    proptest! {
        #[test]
        fn the_pipe_is_the_sum_of_what_is_on_its_way(
            steps in prop::collection::vec((0_u8..6, 0_u64..30, 1_u64..5), 0..60),
        ) {
            let (mut board, mut next) = (Scoreboard::new(SEGMENT), 0);
            for (step, from, length) in steps {
                match step {
                    0 | 1 => {
                        board.push(extent(next, next + 1), Time::START);
                        next += 1;
                    }
                    2 => drop(board.sack(extent(from, from + length))),
                    3 => drop(board.detect_losses()),
                    4 => {
                        if let Some(extent) = board.next_lost().or(board.next_missing()) {
                            board.mark_retransmitted(extent, false);
                        }
                    }
                    _ if from == 0 => board.mark_all_lost(),
                    _ => drop(board.remove_until((Position::FIRST + SEGMENT * (from / 4)).min(extent(0, next).end))),
                }
                let parts: Vec<_> = board.sent.iter().map(SentSegment::in_flight).collect();
                prop_assert_eq!(board.pipe(), parts.into_iter().sum());
            }
        }
    }
}
