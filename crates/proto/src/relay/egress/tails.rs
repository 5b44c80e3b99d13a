//! Tails: the last packets before a pause, which nothing follows that could show a receiver that they are lost.
//!
//! Whoever sends in bursts, as TCP does, pauses for a round trip or longer, and a receiver that has seen that waits as long
//! before it asks. A relay that keeps copies knows better: once none came for a moment, it says up to where the flow has come. It
//! waits longer where again and again the next copy comes soon after: a steady flow shows its losses itself. Who sends in bursts and
//! pauses between them is not steady, however regular the pauses are.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::action::Action;
use super::flow::FlowSlot;
use super::{Egress, find};
use crate::limits::{NACK_REACH, TAIL_PAUSE_MAX, TAIL_PAUSE_MIN};

/// Silences from this on are pauses, whatever the pace: video sends a frame every 40 ms, and shows by the next one what it lost of the last.
const LONG: Duration = Duration::from_nanos(TAIL_PAUSE_MIN.as_nanos() * 6);

/// Packets of a burst are so many times closer to each other than the burst is to the next one.
const BURST_INVERSE: u64 = 8;

/// So many pauses in a row that are hardly longer than those after which is told are the pace of a steady flow.
const STEADY_PAUSES: u8 = 4;

/// How far a flow's copies have come, and when the receiver is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// The last one, once there was any.
    last: Option<SequenceNumber>,
    came: Time,
    /// After how long without a copy.
    pause: Duration,
    /// How many pauses in a row were hardly longer.
    steady: u8,
    /// The shortest silence since the last long one.
    shortest: Duration,
    is_told: bool,
    is_watched: bool,
}

impl Tail {
    pub(super) const fn new(now: Time) -> Self {
        let (pause, shortest) = (TAIL_PAUSE_MIN, Duration::MAX);
        Self { last: None, came: now, pause, steady: 0, shortest, is_told: false, is_watched: false }
    }

    /// Another copy came; whether it is further than those before. One that was sent again says nothing of the end.
    fn copied(&mut self, sequence: SequenceNumber, now: Time) -> bool {
        if self.last.and_then(|last| last.since(sequence)).is_some_and(|behind| behind < NACK_REACH) {
            return false;
        }
        let silence = now.saturating_since(self.came);
        if self.ends_burst(silence) || (self.is_told && silence >= self.pause * 6) {
            (self.pause, self.steady) = (TAIL_PAUSE_MIN, 0);
        } else if self.is_told {
            self.steady += 1;
        }
        if self.steady == STEADY_PAUSES {
            (self.pause, self.steady) = (TAIL_PAUSE_MAX.min(self.pause * 2), 0);
        }
        (self.last, self.came, self.is_told) = (Some(sequence), now, false);
        true
    }

    /// Notes a silence; whether it came after a burst.
    fn ends_burst(&mut self, silence: Duration) -> bool {
        if silence < LONG {
            self.shortest = self.shortest.min(silence);
            return false;
        }
        let shortest = core::mem::replace(&mut self.shortest, Duration::MAX);
        shortest <= silence / BURST_INVERSE
    }

    fn tell_at(&self) -> Time {
        self.came + self.pause
    }
}

/// The flows whose copies may pause, by when that is looked at.
#[derive(Debug, Default)]
pub(super) struct Tails(BinaryHeap<Reverse<(Time, FlowSlot)>>);

impl Tails {
    pub(super) fn tell_at(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    fn pop(&mut self, now: Time) -> Option<FlowSlot> {
        self.tell_at().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse((_, slot))| slot)
    }
}

impl Egress {
    /// Notes a copy that is kept for a receiver.
    pub(super) fn note_tail(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        let Some(active) = find(&mut self.flows, slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        // One entry for each flow: what came since is looked at when it is due.
        if active.tail.copied(sequence, now) && !active.tail.is_watched {
            active.tail.is_watched = true;
            self.tails.0.push(Reverse((active.tail.tell_at(), slot)));
        }
    }

    /// Tells receivers how far flows have come whose copies pause.
    pub(super) fn tell_tails(&mut self, now: Time, actions: &mut Vec<Action>) {
        while let Some(slot) = self.tails.pop(now) {
            let Some(active) = find(&mut self.flows, slot).and_then(|flow| flow.active_mut()) else {
                continue;
            };
            let tell_at = active.tail.tell_at();
            if tell_at > now {
                self.tails.0.push(Reverse((tell_at, slot)));
                continue;
            }
            (active.tail.is_watched, active.tail.is_told) = (false, true);
            if let Some(sequence) = active.tail.last.filter(|last| !active.is_lost(*last)) {
                self.counters.tails += 1;
                actions.push(Action::Confirm { flow: slot, sequence });
            }
        }
    }
}
