//! What was sent and is not yet acknowledged: which of it arrived, which is lost, and how much is on its way (RFC 6675).

use alloc::collections::VecDeque;

use byway_units::{Bytes, Time};

use super::limits::DUPLICATE_THRESHOLD;
use super::sequence::{Extent, Position};

/// A segment that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    extent: Extent,
    /// When it was sent for the first time.
    at: Time,
    is_sacked: bool,
    is_lost: bool,
    is_repeated: bool,
}

impl Sent {
    /// How much of it is on its way: the original unless it is lost, and what was sent again.
    fn on_its_way(&self) -> Bytes {
        let copies = u64::from(!self.is_lost) + u64::from(self.is_repeated);
        self.extent.bytes() * if self.is_sacked { 0 } else { copies }
    }
}

/// What an acknowledgment removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removed {
    /// When the last segment was sent that arrived only now, if none of those was sent twice (Karn's rule: RFC 6298, 3).
    pub(crate) sent_once_at: Option<Time>,
}

/// The segments that wait for their acknowledgment, in order.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    /// SMSS.
    segment: Bytes,
    sent: VecDeque<Sent>,
    /// How much is on its way (RFC 6675's pipe).
    pipe: Bytes,
    /// The end of the highest segment that arrived behind a gap.
    highest_sacked: Position,
    /// Up to where segments were found lost.
    lost_until: Position,
    /// Up to where segments were sent again (RFC 6675's `HighRxt`).
    repeated_until: Position,
}

impl Scoreboard {
    pub(crate) const fn new(segment: Bytes) -> Self {
        Self {
            segment,
            sent: VecDeque::new(),
            pipe: Bytes::ZERO,
            highest_sacked: Position::SYN,
            lost_until: Position::SYN,
            repeated_until: Position::SYN,
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

    /// New data was sent.
    pub(crate) fn push(&mut self, extent: Extent, now: Time) {
        let sent = Sent { extent, at: now, is_sacked: false, is_lost: false, is_repeated: false };
        self.pipe += sent.on_its_way();
        self.sent.push_back(sent);
    }

    /// Everything before `position` arrived. Of a segment that arrived in part, as none of ours does, nothing did.
    pub(crate) fn remove_until(&mut self, position: Position) -> Removed {
        let (mut sent_once_at, mut is_ambiguous) = (None, false);
        while let Some(sent) = self.sent.front().filter(|sent| sent.extent.end <= position) {
            self.pipe -= sent.on_its_way();
            // What had arrived before says nothing about the round trip of this acknowledgment.
            if !sent.is_sacked {
                sent_once_at = Some(sent.at);
                is_ambiguous |= sent.is_repeated;
            }
            self.sent.pop_front();
        }
        Removed { sent_once_at: sent_once_at.filter(|_| !is_ambiguous) }
    }

    /// This arrived behind a gap. How much of it is new.
    pub(crate) fn sack(&mut self, block: Extent) -> Bytes {
        let first = self.sent.partition_point(|sent| sent.extent.start < block.start);
        let mut new = Bytes::ZERO;
        for sent in self.sent.range_mut(first..).take_while(|sent| sent.extent.end <= block.end) {
            if !sent.is_sacked {
                self.pipe -= sent.on_its_way();
                sent.is_sacked = true;
                new += sent.extent.bytes();
                self.highest_sacked = self.highest_sacked.max(sent.extent.end);
            }
        }
        new
    }

    /// Finds what is lost because enough above it arrived (RFC 6675's `IsLost`); whether anything is.
    pub(crate) fn find_lost(&mut self) -> bool {
        let until = self.lost_below();
        let first = self.sent.partition_point(|sent| sent.extent.start < self.lost_until);
        for sent in self.sent.range_mut(first..).take_while(|sent| sent.extent.end <= until) {
            Self::lose(&mut self.pipe, sent);
        }
        self.lost_until = self.lost_until.max(until);
        self.sent.front().is_some_and(|sent| sent.is_lost)
    }

    /// The first segment counts as lost, whatever arrived above it.
    pub(crate) fn lose_first(&mut self) {
        if let Some(sent) = self.sent.front_mut() {
            Self::lose(&mut self.pipe, sent);
        }
    }

    /// All that did not arrive is lost, what was sent again too: the retransmission timer expired.
    pub(crate) fn lose_all(&mut self) {
        for sent in &mut self.sent {
            (sent.is_lost, sent.is_repeated) = (true, false);
            self.lost_until = sent.extent.end;
        }
        self.pipe = Bytes::ZERO;
        self.repeated_until = Position::SYN;
    }

    fn lose(pipe: &mut Bytes, sent: &mut Sent) {
        *pipe -= sent.on_its_way();
        sent.is_lost |= !sent.is_sacked;
        *pipe += sent.on_its_way();
    }

    /// Below where enough arrived for what did not to be lost: three runs, or more than two segments' bytes.
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

    /// The first segment that is lost and was not sent again (RFC 6675, `NextSeg` rule 1).
    pub(crate) fn next_lost(&self) -> Option<Extent> {
        self.next_gap().filter(|sent| sent.is_lost).map(|sent| sent.extent)
    }

    /// The first segment that did not arrive while others above it did, and was not sent again; it need not be lost
    /// (RFC 6675, `NextSeg` rule 3).
    pub(crate) fn next_missing(&self) -> Option<Extent> {
        let missing = self.next_gap().filter(|sent| sent.extent.end <= self.highest_sacked);
        missing.map(|sent| sent.extent)
    }

    fn next_gap(&self) -> Option<&Sent> {
        let first = self.sent.partition_point(|sent| sent.extent.start < self.repeated_until);
        self.sent.range(first..).find(|sent| !sent.is_sacked && !sent.is_repeated)
    }

    /// The last segment that did not arrive (RFC 6675, `NextSeg` rule 4).
    pub(crate) fn last_missing(&self) -> Option<Extent> {
        self.sent.iter().rev().find(|sent| !sent.is_sacked).map(|sent| sent.extent)
    }

    /// This was sent again. `is_rescue`: it was out of order, and says nothing about what is before it.
    pub(crate) fn repeat(&mut self, extent: Extent, is_rescue: bool) {
        let index = self.sent.partition_point(|sent| sent.extent.start < extent.start);
        if let Some(sent) = self.sent.get_mut(index) {
            self.pipe -= sent.on_its_way();
            sent.is_repeated = true;
            self.pipe += sent.on_its_way();
        }
        if !is_rescue {
            self.repeated_until = extent.end;
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

    fn sent(count: u64) -> Scoreboard {
        let mut board = Scoreboard::new(SEGMENT);
        (0..count).for_each(|number| board.push(extent(number, number + 1), Time::from_nanos(number)));
        board
    }

    #[test]
    fn a_segment_is_lost_when_three_above_it_arrived() {
        let mut board = sent(10);
        board.sack(extent(1, 3));
        assert!(!board.find_lost());
        assert_eq!((board.pipe(), board.next_lost()), (SEGMENT * 8, None));
        board.sack(extent(3, 4));
        assert!(board.find_lost());
        assert_eq!((board.pipe(), board.next_lost()), (SEGMENT * 6, Some(extent(0, 1))));
        board.repeat(extent(0, 1), false);
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
        assert!(!board.find_lost());
        board.sack(byte(5));
        assert!(board.find_lost());
        assert_eq!(board.next_lost(), Some(byte(0)));
        board.repeat(byte(0), false);
        assert_eq!((board.next_lost(), board.next_missing()), (None, Some(byte(2))));
    }

    #[test]
    fn what_was_sent_again_may_be_lost_again_only_by_timeout() {
        let mut board = sent(5);
        board.sack(extent(1, 5));
        board.find_lost();
        board.repeat(extent(0, 1), false);
        board.find_lost();
        assert_eq!((board.next_lost(), board.pipe()), (None, SEGMENT));
        board.lose_all();
        assert_eq!((board.next_lost(), board.pipe()), (Some(extent(0, 1)), Bytes::ZERO));
    }

    #[test]
    fn what_was_sent_twice_measures_nothing() {
        let mut board = sent(3);
        board.repeat(extent(1, 2), false);
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
                    3 => drop(board.find_lost()),
                    4 => {
                        if let Some(extent) = board.next_lost().or(board.next_missing()) {
                            board.repeat(extent, false);
                        }
                    }
                    _ if from == 0 => board.lose_all(),
                    _ => drop(board.remove_until((Position::FIRST + SEGMENT * (from / 4)).min(extent(0, next).end))),
                }
                let parts: Vec<_> = board.sent.iter().map(Sent::on_its_way).collect();
                prop_assert_eq!(board.pipe(), parts.into_iter().sum());
            }
        }
    }
}
