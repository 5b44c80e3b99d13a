//! Giving up what nobody can use any more.
//!
//! Flows and rounds wait in line by when that is: a sweep looks at those whose time has come, however many others there are.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use byway_units::Time;

use super::flow::{Active, FlowSlot};
use super::{Egress, find};
use crate::limits::{DATAGRAM_WORK_MAX, FLOW_REST, SWEEP_INTERVAL};

/// The flows that are looked at when their time comes.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    /// Flows of which a question runs out.
    expiries: BinaryHeap<Reverse<(Time, FlowSlot)>>,
    /// Flows in use, once each, which may be at rest by then.
    rests: BinaryHeap<Reverse<(Time, FlowSlot)>>,
}

impl Sweeps {
    /// Has a flow in use looked at when it may be at rest.
    pub(super) fn watch_rest(&mut self, active: &mut Active, slot: FlowSlot, now: Time) {
        if !active.is_watched {
            active.is_watched = true;
            self.rests.push(Reverse((now + FLOW_REST, slot)));
        }
    }

    /// Has a flow looked at when a question runs out, unless it is looked at by then.
    pub(super) fn watch_expiry(&mut self, active: &mut Active, slot: FlowSlot, until: Time) {
        let at = swept_at(until);
        if active.expires_at.is_none_or(|known| at < known) {
            active.expires_at = Some(at);
            self.expiries.push(Reverse((at, slot)));
        }
    }

    fn next(&self) -> Option<Time> {
        let next = [&self.expiries, &self.rests].map(|line| line.peek().map(|Reverse((at, _))| *at));
        next.into_iter().flatten().min()
    }
}

fn pop(line: &mut BinaryHeap<Reverse<(Time, FlowSlot)>>, now: Time) -> Option<(Time, FlowSlot)> {
    line.peek().filter(|Reverse((at, _))| *at <= now)?;
    line.pop().map(|Reverse(due)| due)
}

/// When what is of use until then is given up: what ends within one interval is, together.
pub(super) const fn swept_at(until: Time) -> Time {
    let interval = SWEEP_INTERVAL.as_nanos();
    Time::from_nanos(until.as_nanos().div_ceil(interval).saturating_mul(interval))
}

impl Egress {
    /// When [`Egress::sweep`] is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.sweeps.next(), self.rounds.expires_at()].into_iter().flatten().min()
    }

    /// Has a flow in use looked at when it may be at rest.
    pub(super) fn watch_rest(&mut self, slot: FlowSlot, now: Time) {
        if let Some(active) = find(&mut self.flows, slot).and_then(|flow| flow.active_mut()) {
            self.sweeps.watch_rest(active, slot, now);
            self.memory.settle(&mut active.memory);
        }
    }

    /// Has a flow looked at when a question runs out.
    pub(super) fn watch_expiry(&mut self, slot: FlowSlot, until: Time) {
        if let Some(active) = find(&mut self.flows, slot).and_then(|flow| flow.active_mut()) {
            self.sweeps.watch_expiry(active, slot, until);
        }
    }

    /// Gives up rounds and requests past their time, and forgets the packets of flows at rest, until that has cost as much
    /// work as one datagram may; the rest stays due, and packets that wait come first.
    pub(crate) fn sweep(&mut self, now: Time) {
        let end = self.work.units() + DATAGRAM_WORK_MAX;
        while self.work.units() < end
            && let Some(slot) = self.rounds.next_expired(now)
        {
            self.work.entries += 1;
            let round = self.end_round(slot);
            self.counters.rounds_expired += 1;
            if let Some(batch) = self.batch_mut(round.batch).filter(|batch| batch.round == Some(slot)) {
                batch.round = None;
            }
            self.rounds.recycle(round);
        }
        while self.work.units() < end
            && let Some((at, slot)) = pop(&mut self.sweeps.expiries, now)
        {
            self.expire(slot, at, now);
        }
        while self.work.units() < end
            && let Some((_, slot)) = pop(&mut self.sweeps.rests, now)
        {
            self.let_rest(slot, now);
        }
    }

    /// Gives up a flow's requests past their time.
    fn expire(&mut self, slot: FlowSlot, at: Time, now: Time) {
        self.work.entries += 1;
        let active = find(&mut self.flows, slot).and_then(|flow| flow.active_mut());
        let Some(active) = active.filter(|active| active.expires_at == Some(at)) else {
            return;
        };
        active.expires_at = None;
        self.work.numbers += active.missing.count() as u64;
        let given_up = &mut self.counters.given_up;
        let waited = active.expire(now, |packet, open| {
            *given_up += 1;
            // What only a timer asked for may have come.
            let of_dark_path = open.filter(|open| packet.certain && open.covers(packet.sequence));
            if let Some(open) = of_dark_path {
                open.shortfall.settle(packet, false);
            }
        });
        *given_up += waited;
        self.memory.settle(&mut active.memory);
        let next = [active.missing.next_expiry(), active.nacked.next_expiry()];
        if let Some(next) = next.into_iter().flatten().min() {
            self.sweeps.watch_expiry(active, slot, next);
        }
    }

    /// Forgets the packets of a flow that is at rest, or looks at it again when it may be.
    fn let_rest(&mut self, slot: FlowSlot, now: Time) {
        self.work.entries += 1;
        let Some(flow) = find(&mut self.flows, slot) else {
            return;
        };
        let Some(active) = flow.active_mut() else {
            return;
        };
        let is_asking = !active.missing.is_empty() || !active.nacked.is_empty();
        if active.last_used + FLOW_REST <= now && !is_asking {
            if let Some(active) = flow.rest() {
                self.memory.release(&active.memory);
            }
        } else {
            let again = (active.last_used + FLOW_REST).max(now + SWEEP_INTERVAL);
            self.sweeps.rests.push(Reverse((again, slot)));
        }
    }
}
