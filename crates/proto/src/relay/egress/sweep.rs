//! Expiry of requests, decode attempts and idle flows.
//!
//! Flows and attempts are ordered by expiry time. A sweep examines only those that are due, however
//! many others there are.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use byway_units::Time;

use super::flow::{EgressFlowState, FlowSlot};
use super::{Egress, find_flow};
use crate::limits::{DATAGRAM_WORK_MAX, FLOW_IDLE_TIMEOUT, SWEEP_INTERVAL};

/// Timers of the egress half's flows, ordered by time.
#[derive(Debug, Default)]
pub(super) struct Sweeps {
    /// Expiry timers of flows with missing packets or requested ranges.
    expiries: BinaryHeap<Reverse<(Time, FlowSlot)>>,
    /// Idle checks of flows in use, one for each flow.
    idle_checks: BinaryHeap<Reverse<(Time, FlowSlot)>>,
}

impl Sweeps {
    /// Schedules an idle check for a flow in use, unless one is scheduled.
    pub(super) fn watch_idle(&mut self, active: &mut EgressFlowState, slot: FlowSlot, now: Time) {
        if !active.is_watched {
            active.is_watched = true;
            self.idle_checks.push(Reverse((now + FLOW_IDLE_TIMEOUT, slot)));
        }
    }

    /// Schedules the removal of a flow's expired requests at the sweep after `until`, unless an
    /// earlier one is scheduled.
    pub(super) fn watch_expiry(&mut self, active: &mut EgressFlowState, slot: FlowSlot, until: Time) {
        let at = swept_at(until);
        if active.expires_at.is_none_or(|known| at < known) {
            active.expires_at = Some(at);
            self.expiries.push(Reverse((at, slot)));
        }
    }

    fn next(&self) -> Option<Time> {
        let next = [&self.expiries, &self.idle_checks].map(|queue| queue.peek().map(|Reverse((at, _))| *at));
        next.into_iter().flatten().min()
    }
}

fn pop(queue: &mut BinaryHeap<Reverse<(Time, FlowSlot)>>, now: Time) -> Option<(Time, FlowSlot)> {
    queue.peek().filter(|Reverse((at, _))| *at <= now)?;
    queue.pop().map(|Reverse(due)| due)
}

/// Rounds a deadline up to a multiple of [`SWEEP_INTERVAL`], because deadlines within one interval
/// share a sweep.
pub(super) const fn swept_at(until: Time) -> Time {
    let interval = SWEEP_INTERVAL.as_nanos();
    Time::from_nanos(until.as_nanos().div_ceil(interval).saturating_mul(interval))
}

impl Egress {
    /// Returns the time at which the relay has to call [`Egress::sweep`]; `None` if nothing can
    /// expire.
    pub(crate) fn deadline(&self) -> Option<Time> {
        [self.sweeps.next(), self.attempts.expires_at()].into_iter().flatten().min()
    }

    /// Schedules an idle check for a flow in use, unless one is scheduled.
    pub(super) fn watch_idle(&mut self, slot: FlowSlot, now: Time) {
        if let Some(active) = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut()) {
            self.sweeps.watch_idle(active, slot, now);
            self.memory.update_charge(&mut active.memory);
        }
    }

    /// Schedules the removal of a flow's expired requests at the sweep after `until`.
    pub(super) fn watch_expiry(&mut self, slot: FlowSlot, until: Time) {
        if let Some(active) = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut()) {
            self.sweeps.watch_expiry(active, slot, until);
        }
    }

    /// Removes requests and decode attempts past their deadline, and deactivates idle flows. It
    /// stops after the work of one datagram, because datagrams that wait come first. The rest
    /// remains due.
    pub(crate) fn sweep(&mut self, now: Time) {
        let end = self.work.units() + DATAGRAM_WORK_MAX;
        while self.work.units() < end
            && let Some(attempt) = self.attempts.next_expired(now)
        {
            self.work.entries += 1;
            let ended = self.end_attempt(attempt);
            self.counters.decode_attempts_expired += 1;
            if let Some(batch) = self.batch_mut(ended.batch).filter(|batch| batch.attempt == Some(attempt)) {
                batch.attempt = None;
            }
            self.attempts.recycle(ended);
        }
        while self.work.units() < end
            && let Some((at, slot)) = pop(&mut self.sweeps.expiries, now)
        {
            self.expire(slot, at, now);
        }
        while self.work.units() < end
            && let Some((_, slot)) = pop(&mut self.sweeps.idle_checks, now)
        {
            self.deactivate_if_idle(slot, now);
        }
    }

    /// Removes a flow's missing packets and requested ranges past their deadline, and counts those
    /// without a repair as abandoned.
    fn expire(&mut self, slot: FlowSlot, at: Time, now: Time) {
        self.work.entries += 1;
        let active = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut());
        let Some(active) = active.filter(|active| active.expires_at == Some(at)) else {
            return;
        };
        active.expires_at = None;
        self.work.numbers += active.missing.count() as u64;
        let abandoned = &mut self.counters.abandoned;
        let unrepairable = active.expire(now, |packet, outage| {
            *abandoned += 1;
            // A packet that only the receiver's timer reported missing may have arrived.
            let outage = outage.filter(|outage| packet.certain && outage.covers(packet.sequence));
            if let Some(outage) = outage {
                outage.decode_failures.record(packet, false);
            }
        });
        *abandoned += unrepairable;
        self.memory.update_charge(&mut active.memory);
        let next = [active.missing.next_expiry(), active.nacked.next_expiry()];
        if let Some(next) = next.into_iter().flatten().min() {
            self.sweeps.watch_expiry(active, slot, next);
        }
    }

    /// Releases a flow's state if the flow is idle and its receiver misses nothing; otherwise
    /// schedules the next idle check.
    fn deactivate_if_idle(&mut self, slot: FlowSlot, now: Time) {
        self.work.entries += 1;
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return;
        };
        let Some(active) = flow.active_mut() else {
            return;
        };
        let has_requests = !active.missing.is_empty() || !active.nacked.is_empty();
        if active.last_used + FLOW_IDLE_TIMEOUT <= now && !has_requests {
            if let Some(active) = flow.deactivate() {
                self.memory.release(&active.memory);
            }
        } else {
            let again = (active.last_used + FLOW_IDLE_TIMEOUT).max(now + SWEEP_INTERVAL);
            self.sweeps.idle_checks.push(Reverse((again, slot)));
        }
    }
}
