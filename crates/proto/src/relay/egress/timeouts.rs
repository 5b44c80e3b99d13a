//! Timers of the egress half: reviews of packets in flight, pauses and decode attempts.

use alloc::vec::Vec;

use byway_units::Time;

use super::action::Action;
use super::decode_attempts::AttemptId;
use super::{BatchEntry, Egress};
use crate::limits::COPY_REORDERING;
use crate::parts::retry::answer_timeout;

impl Egress {
    /// Returns the time at which the relay has to call [`Egress::review`]; `None` if no timer is
    /// set.
    pub(crate) fn review_at(&self) -> Option<Time> {
        [self.in_flight.next(), self.burst_ends.notify_at(), self.attempts.review_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles expired timers: repairs packets that can no longer be in flight, sends tail-loss
    /// hints, and retries or fetches for decode attempts with late answers.
    pub(crate) fn review(&mut self, now: Time, actions: &mut Vec<Action>) {
        self.expire_in_flight(now, actions);
        self.send_tail_loss_hints(now, actions);
        while let Some(attempt) = self.attempts.next_to_review(now) {
            if !self.awaited_packets(attempt, now).is_empty() {
                self.mark_late(attempt, now);
                self.retry_late_helpers(attempt, now, actions);
                self.fetch_missing(attempt, now);
            }
        }
    }

    /// Repeats a decode attempt's late requests once, because the request or its answer may be
    /// lost. It leaves out answers that are not needed or cannot arrive in time.
    fn retry_late_helpers(&mut self, attempt: AttemptId, now: Time, actions: &mut Vec<Action>) {
        let state = self.attempts.get(attempt);
        if state.unavailable_or_late_count() <= self.expected_repair_packets(state.batch, now) {
            return;
        }
        let (until, late, entries) = (state.deadline, state.retry_candidates(), state.entries.clone());
        let bytes = self.max_packet_bytes(state.batch);
        for index in late.iter() {
            let BatchEntry { flow: Some(slot), sequence, .. } = entries[index] else {
                continue;
            };
            if now + self.round_trip_of(Some(slot)) < until
                && self.request_packet((slot, sequence), bytes, until, now, actions)
            {
                self.attempts.get_mut(attempt).retried.insert(index);
            }
        }
    }

    /// Schedules a decode attempt's next review, for the time when the next answer or the batch's
    /// last repair packets are due.
    pub(super) fn schedule_review(&mut self, attempt: AttemptId, now: Time) {
        let state = self.attempts.get(attempt);
        let answers = (0..state.entries.len()).filter_map(|index| self.answer_due(attempt, index));
        let is_complete = self
            .batch(state.batch)
            .is_none_or(|batch| batch.repairs().count() >= usize::from(batch.repair_count));
        let repairs = self.first_repair_received_at(state.batch).filter(|_| !is_complete);
        let repairs = repairs.map(|received_at| received_at + COPY_REORDERING);
        if let Some(at) = answers.chain(repairs).filter(|at| *at > now).min() {
            self.attempts.schedule_review(attempt, at);
        }
    }

    /// Marks the packets of a decode attempt whose receivers should have answered by now as late.
    pub(super) fn mark_late(&mut self, attempt: AttemptId, now: Time) {
        for index in 0..self.attempts.get(attempt).entries.len() {
            if self.answer_due(attempt, index).is_some_and(|due| due <= now) {
                self.attempts.get_mut(attempt).late.insert(index);
            }
        }
    }

    /// Returns the time at which the answer for the packet at this index is due; `None` if the
    /// relay awaits none.
    fn answer_due(&self, attempt: AttemptId, index: usize) -> Option<Time> {
        let state = self.attempts.get(attempt);
        let requested_at = state.requested_at[index].filter(|_| state.is_awaited(index))?;
        Some(requested_at + answer_timeout(self.round_trip_of(state.entries[index].flow)))
    }
}
