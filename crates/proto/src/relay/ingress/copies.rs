//! Which copies of a flow arrived, and which have to be asked for again.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::{COPIES_ASKED_MAX, COPY_ASKS_MAX, COPY_REORDERING};

/// What a copy is to the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    New,
    Repeated,
    TooOld,
}

/// A copy that did not come.
#[derive(Clone, Copy, Debug)]
struct Absent {
    sequence: SequenceNumber,
    ask_at: Time,
    asked: u8,
}

/// The copies of one flow, by sequence number.
#[derive(Clone, Debug)]
pub(crate) struct Copies {
    highest: Option<SequenceNumber>,
    /// Bit i: the copy of `highest - i` arrived.
    arrived: u64,
    absent: ArrayVec<Absent, COPIES_ASKED_MAX>,
}

const REACH: u64 = u64::BITS as u64;

impl Copies {
    pub(crate) const fn new() -> Self {
        Self { highest: None, arrived: 0, absent: ArrayVec::new_const() }
    }

    /// The full number of a copy whose low bits came in a packet.
    pub(crate) fn full(&self, low: u32) -> SequenceNumber {
        match self.highest {
            Some(highest) => SequenceNumber::nearest(low, highest),
            None => SequenceNumber::new(u64::from(low)),
        }
    }

    /// Takes note of a copy.
    pub(crate) fn arrived(&mut self, sequence: SequenceNumber, now: Time) -> Copy {
        let Some(highest) = self.highest else {
            self.highest = Some(sequence);
            // What the sender sent before it registered is nobody's loss.
            self.arrived = u64::MAX;
            return Copy::New;
        };
        if sequence > highest {
            self.advance(highest, sequence, now);
            return Copy::New;
        }
        let behind = highest.number() - sequence.number();
        if behind >= REACH {
            return Copy::TooOld;
        }
        if self.arrived & (1 << behind) != 0 {
            return Copy::Repeated;
        }
        self.arrived |= 1 << behind;
        self.absent.retain(|absent| absent.sequence != sequence);
        Copy::New
    }

    fn advance(&mut self, highest: SequenceNumber, sequence: SequenceNumber, now: Time) {
        let ahead = sequence.number() - highest.number();
        let shift = u32::try_from(ahead).unwrap_or(u32::MAX);
        self.arrived = self.arrived.checked_shl(shift).unwrap_or(0) | 1;
        self.highest = Some(sequence);
        let oldest = sequence.number().saturating_sub(REACH - 1).max(highest.number() + 1);
        for number in oldest..sequence.number() {
            if self.absent.is_full() {
                self.absent.remove(0);
            }
            let sequence = SequenceNumber::new(number);
            self.absent.push(Absent { sequence, ask_at: now + COPY_REORDERING, asked: 0 });
        }
    }

    /// When copies are to be asked for.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.absent.iter().map(|absent| absent.ask_at).min()
    }

    /// The copies to be asked for now; each is asked for a few times, `again_after` one another.
    pub(crate) fn ask(&mut self, again_after: Duration, now: Time, mut ask: impl FnMut(SequenceNumber)) {
        self.absent.retain(|absent| {
            if absent.ask_at > now {
                return true;
            }
            if absent.asked == COPY_ASKS_MAX {
                return false;
            }
            absent.asked += 1;
            absent.ask_at = now + again_after;
            ask(absent.sequence);
            true
        });
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use super::*;

    const AGAIN: Duration = Duration::from_millis(25);

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    fn asked(copies: &mut Copies, now: Time) -> Vec<u64> {
        let mut asked = Vec::new();
        copies.ask(AGAIN, now, |sequence| asked.push(sequence.number()));
        asked
    }

    #[test]
    fn a_gap_is_asked_for_after_the_tolerance_and_twice_more() {
        let mut copies = Copies::new();
        copies.arrived(number(5), at(0));
        assert_eq!(copies.arrived(number(8), at(10)), Copy::New);
        assert_eq!(asked(&mut copies, at(10)), vec![]);
        let due = copies.deadline().expect("something is missing");
        assert_eq!(asked(&mut copies, due), vec![6, 7]);
        assert_eq!(copies.arrived(number(6), due), Copy::New);
        assert_eq!(asked(&mut copies, due + AGAIN), vec![7]);
        assert_eq!(asked(&mut copies, due + AGAIN * 2), vec![7]);
        assert_eq!(asked(&mut copies, due + AGAIN * 3), vec![]);
        assert_eq!(copies.deadline(), None);
    }

    #[test]
    fn reordered_copies_are_not_asked_for() {
        let mut copies = Copies::new();
        copies.arrived(number(0), at(0));
        copies.arrived(number(2), at(1));
        copies.arrived(number(1), at(2));
        assert_eq!(copies.deadline(), None);
    }

    #[test]
    fn a_copy_counts_once() {
        let mut copies = Copies::new();
        assert_eq!(copies.arrived(number(100), at(0)), Copy::New);
        assert_eq!(copies.arrived(number(100), at(0)), Copy::Repeated);
        assert_eq!(copies.arrived(number(164), at(0)), Copy::New);
        assert_eq!(copies.arrived(number(101), at(0)), Copy::New);
        assert_eq!(copies.arrived(number(101), at(0)), Copy::Repeated);
        assert_eq!(copies.arrived(number(100), at(0)), Copy::TooOld);
    }

    #[test]
    fn a_leap_asks_for_no_more_than_the_window() {
        let mut copies = Copies::new();
        copies.arrived(number(0), at(0));
        copies.arrived(number(u64::MAX / 2), at(0));
        let due = copies.deadline().expect("something is missing");
        let asked = asked(&mut copies, due);
        assert_eq!(asked.len(), COPIES_ASKED_MAX);
        assert_eq!(asked.last(), Some(&(u64::MAX / 2 - 1)));
    }
}
