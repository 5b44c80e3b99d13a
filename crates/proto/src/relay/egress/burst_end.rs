//! Tail-loss hints: at the end of a burst, the relay tells the receiver the last sequence number
//! that it has seen.
//!
//! No later packet reveals a tail loss to the receiver. A sender of bursts, such as TCP, pauses for
//! a round trip or longer. A receiver that has seen such pauses waits as long before it sends a
//! NACK. A relay that stores copies can detect the end of a burst sooner: if no copy arrives for a
//! short time, it sends the last sequence number.
//!
//! The relay waits longer for a steady flow, whose next copy repeatedly arrives soon after a hint:
//! the flow's next packet reveals its losses. A sender with bursts and pauses is not steady,
//! however regular the pauses are.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::action::Action;
use super::flow::FlowSlot;
use super::{Egress, find_flow};
use crate::limits::{NACK_REACH, TAIL_PAUSE_MAX, TAIL_PAUSE_MIN};

/// Silence between copies that counts as a pause for every sender. Video sends a frame every 40 ms,
/// and its next frame reveals the losses of the last one.
const LONG_PAUSE: Duration = Duration::from_nanos(TAIL_PAUSE_MIN.as_nanos() * 6);

/// Least ratio of a silence to the shortest spacing of packets before it, for the packets to be a
/// burst.
const BURST_INVERSE: u64 = 8;

/// Number of consecutive silences, hardly longer than the hint's delay, after which a flow is
/// steady and its hint's delay doubles.
const STEADY_PAUSES: u8 = 4;

/// Highest stored copy of a flow, and the silence after which the relay sends a tail-loss hint for
/// it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BurstEnd {
    /// Sequence number of the highest copy; `None` before the first one.
    last: Option<SequenceNumber>,
    received_at: Time,
    /// Time without a new copy after which the relay sends a tail-loss hint.
    pause: Duration,
    /// Number of consecutive silences that were hardly longer than `pause`.
    steady: u8,
    /// Shortest silence between copies since the last long pause.
    shortest: Duration,
    is_notified: bool,
    is_watched: bool,
}

impl BurstEnd {
    pub(super) const fn new(now: Time) -> Self {
        let (pause, shortest) = (TAIL_PAUSE_MIN, Duration::MAX);
        Self {
            last: None,
            received_at: now,
            pause,
            steady: 0,
            shortest,
            is_notified: false,
            is_watched: false,
        }
    }

    /// Records a copy, and adapts the hint's delay to the silence before it. Returns `false` for a
    /// copy that is not the highest, such as a retransmitted one.
    fn on_copy(&mut self, sequence: SequenceNumber, now: Time) -> bool {
        if self.last.and_then(|last| last.since(sequence)).is_some_and(|behind| behind < NACK_REACH) {
            return false;
        }
        let silence = now.saturating_since(self.received_at);
        if self.ends_burst(silence) || (self.is_notified && silence >= self.pause * 6) {
            (self.pause, self.steady) = (TAIL_PAUSE_MIN, 0);
        } else if self.is_notified {
            self.steady += 1;
        }
        if self.steady == STEADY_PAUSES {
            (self.pause, self.steady) = (TAIL_PAUSE_MAX.min(self.pause * 2), 0);
        }
        (self.last, self.received_at, self.is_notified) = (Some(sequence), now, false);
        true
    }

    /// Records the silence before a copy. Returns `true` if it ended a burst: it is at least
    /// [`LONG_PAUSE`], and [`BURST_INVERSE`] times the shortest silence since the last such pause.
    fn ends_burst(&mut self, silence: Duration) -> bool {
        if silence < LONG_PAUSE {
            self.shortest = self.shortest.min(silence);
            return false;
        }
        let shortest = core::mem::replace(&mut self.shortest, Duration::MAX);
        shortest <= silence / BURST_INVERSE
    }

    fn notify_at(&self) -> Time {
        self.received_at + self.pause
    }
}

/// Timers of the tail-loss hints, one for each flow that stores copies.
#[derive(Debug, Default)]
pub(super) struct BurstEndTimers(BinaryHeap<Reverse<(Time, FlowSlot)>>);

impl BurstEndTimers {
    pub(super) fn notify_at(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    fn pop(&mut self, now: Time) -> Option<FlowSlot> {
        self.notify_at().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse((_, slot))| slot)
    }
}

impl Egress {
    /// Records a copy that the relay stores for a receiver, and starts the flow's timer for a
    /// tail-loss hint.
    pub(super) fn record_burst_end(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        let Some(active) = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        // Each flow has one timer. When it expires, the relay considers the copies that arrived
        // since.
        if active.burst_end.on_copy(sequence, now) && !active.burst_end.is_watched {
            active.burst_end.is_watched = true;
            self.burst_ends.0.push(Reverse((active.burst_end.notify_at(), slot)));
        }
    }

    /// Sends confirms, as tail-loss hints, to the receivers of flows whose copies pause. A receiver
    /// that reported the packet lost gets none.
    pub(super) fn send_tail_loss_hints(&mut self, now: Time, actions: &mut Vec<Action>) {
        while let Some(slot) = self.burst_ends.pop(now) {
            let Some(active) = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut()) else {
                continue;
            };
            let notify_at = active.burst_end.notify_at();
            if notify_at > now {
                self.burst_ends.0.push(Reverse((notify_at, slot)));
                continue;
            }
            (active.burst_end.is_watched, active.burst_end.is_notified) = (false, true);
            if let Some(sequence) = active.burst_end.last.filter(|last| !active.is_lost(*last)) {
                self.counters.tail_loss_hints += 1;
                actions.push(Action::SendConfirm { flow: slot, sequence });
            }
        }
    }
}
