//! What is looked at again when its time comes, though nothing arrives: what did not come says something, too.

use alloc::vec::Vec;

use byway_units::{Duration, Time};

use super::action::Action;
use super::rounds::RoundSlot;
use super::{Egress, Entry};
use crate::limits::COPY_REORDERING;

impl Egress {
    /// When [`Egress::review`] is due.
    pub(crate) fn review_at(&self) -> Option<Time> {
        [self.in_flight.next(), self.tails.tell_at(), self.rounds.review_at()].into_iter().flatten().min()
    }

    /// Looks at packets that cannot be in flight any more, at flows whose copies pause, and at rounds that wait in vain.
    pub(crate) fn review(&mut self, now: Time, actions: &mut Vec<Action>) {
        self.give_up_in_flight(now, actions);
        self.tell_tails(now, actions);
        while let Some(round) = self.rounds.next_to_review(now) {
            if !self.still_missed(round, now).is_empty() {
                self.note_late(round, now);
                self.ask_late(round, now, actions);
                self.fetch_for(round, now);
            }
        }
    }

    /// Asks those once more whose answers are late, where the round needs them and they can be here in time: the request may be
    /// lost, or its answer.
    fn ask_late(&mut self, round: RoundSlot, now: Time, actions: &mut Vec<Action>) {
        let state = self.rounds.get(round);
        if state.gone_or_late() <= self.repairs_due(state.batch, now) {
            return;
        }
        let (until, late, entries) = (state.until, state.to_ask_again(), state.entries.clone());
        let bytes = self.longest_of(state.batch);
        for place in late.iter() {
            let Entry { flow: Some(slot), sequence, .. } = entries[place] else {
                continue;
            };
            if now + self.round_trip_of(Some(slot)) < until
                && self.request((slot, sequence), bytes, until, now, actions)
            {
                self.rounds.get_mut(round).asked_again.add(place);
            }
        }
    }

    /// Has a round looked at again when the next of those who were asked should have answered, or the other repair packets of its
    /// batch should have come.
    pub(super) fn plan_review(&mut self, round: RoundSlot, now: Time) {
        let state = self.rounds.get(round);
        let answers = (0..state.entries.len()).filter_map(|place| self.answer_due(round, place));
        let is_complete =
            self.batch(state.batch).is_none_or(|batch| batch.repairs().count() >= usize::from(batch.made));
        let repairs = self.repairs_came(state.batch).filter(|_| !is_complete);
        let repairs = repairs.map(|came| came + COPY_REORDERING);
        if let Some(at) = answers.chain(repairs).filter(|at| *at > now).min() {
            self.rounds.review(round, at);
        }
    }

    /// Notes whose answers are late by now.
    pub(super) fn note_late(&mut self, round: RoundSlot, now: Time) {
        for place in 0..self.rounds.get(round).entries.len() {
            if self.answer_due(round, place).is_some_and(|due| due <= now) {
                self.rounds.get_mut(round).late.add(place);
            }
        }
    }

    /// When whoever was asked for this packet of a round should have answered; `None` if nobody has to.
    fn answer_due(&self, round: RoundSlot, place: usize) -> Option<Time> {
        let state = self.rounds.get(round);
        let asked = state.asked[place].filter(|_| state.is_awaited(place))?;
        Some(asked + answers_within(self.round_trip_of(state.entries[place].flow)))
    }
}

/// Within what time a receiver answers that is so far away.
pub(super) fn answers_within(round_trip: Duration) -> Duration {
    round_trip + round_trip / 2 + COPY_REORDERING
}
