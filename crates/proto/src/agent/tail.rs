//! What a relay says of how far a flow has come: the last packets before a pause are followed by nothing that could show their
//! loss.
//!
//! Where the overlay is the shorter way, relays speak of packets that are in flight. By how much is learned, so that they are asked
//! for once and not each time.

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::REORDERING_TIME;

/// The last that was said, and how long it takes until the packets should be here.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    said: Option<Said>,
    /// How long after a relay spoke of them packets have come.
    behind: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    last: SequenceNumber,
    at: Time,
    /// Whether nothing has been asked for because of it.
    waits: bool,
}

impl Tail {
    /// A relay speaks of a packet that is not here.
    pub(super) fn said(&mut self, last: SequenceNumber, now: Time) {
        if self.said.is_none_or(|said| last > said.last) {
            self.said = Some(Said { last, at: now, waits: true });
        }
    }

    /// A relay speaks of a packet that is here.
    pub(super) fn confirmed(&mut self) {
        self.behind -= self.behind / 8;
    }

    /// An original came.
    pub(super) fn arrived(&mut self, sequence: SequenceNumber, now: Time) {
        if let Some(said) = self.said.filter(|said| sequence >= said.last) {
            let behind = if sequence == said.last { now.saturating_since(said.at) } else { Duration::ZERO };
            self.behind = self.behind.max(behind);
            self.said = None;
        }
    }

    /// When to ask for what was spoken of.
    pub(super) fn ask_at(&self) -> Option<Time> {
        let said = self.said.filter(|said| said.waits)?;
        Some(said.at + self.behind + REORDERING_TIME)
    }

    /// Whether to ask now, for what follows the highest that is here; once for each packet that was spoken of.
    pub(super) fn asks(&mut self, highest: Option<SequenceNumber>, now: Time) -> bool {
        let is_due = self.ask_at().is_some_and(|at| at <= now);
        let Some(said) = self.said.as_mut().filter(|_| is_due) else {
            return false;
        };
        said.waits = false;
        highest.is_none_or(|highest| highest < said.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    const fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn what_was_spoken_of_is_asked_for_once() {
        let mut tail = Tail::default();
        tail.said(number(4), at(0));
        assert!(!tail.asks(None, at(2)));
        assert_eq!(tail.ask_at(), Some(at(3)));
        assert!(tail.asks(None, at(3)));
        tail.said(number(4), at(10));
        assert_eq!(tail.ask_at(), None);
        tail.said(number(5), at(20));
        assert_eq!(tail.ask_at(), Some(at(23)));
    }

    #[test]
    fn what_comes_on_its_own_is_not_asked_for() {
        let mut tail = Tail::default();
        tail.said(number(4), at(0));
        tail.arrived(number(3), at(1));
        assert_eq!(tail.ask_at(), Some(at(3)), "an earlier one says nothing");
        tail.arrived(number(4), at(2));
        assert_eq!(tail.ask_at(), None);
    }

    #[test]
    fn what_a_repair_brought_is_not_asked_for() {
        let mut tail = Tail::default();
        tail.said(number(4), at(0));
        assert!(!tail.asks(Some(number(4)), at(3)));
        tail.said(number(6), at(10));
        assert!(tail.asks(Some(number(5)), at(13)));
    }

    #[test]
    fn a_relay_that_is_ahead_is_believed_later() {
        let mut tail = Tail::default();
        tail.said(number(0), at(0));
        assert!(tail.asks(None, at(3)));
        tail.arrived(number(0), at(40));
        tail.said(number(1), at(100));
        assert_eq!(tail.ask_at(), Some(at(143)));
        tail.arrived(number(1), at(130));
        tail.confirmed();
        tail.said(number(2), at(200));
        assert_eq!(tail.ask_at(), Some(at(238)), "and sooner again where packets were here before it spoke");
    }
}
