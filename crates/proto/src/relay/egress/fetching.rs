//! Copies fetched from the ingress relay, where repair packets are too few to restore what is missing.
//!
//! The way there and back is longer than the one to other receivers, but it asks nobody else for anything and costs bytes only for
//! what is really lost: the last resort of whoever can wait so long.

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::carried::{Feed, Gap};
use super::flow::{BatchRef, FlowSlot};
use super::missing::Stage;
use super::rounds::{Places, RoundSlot};
use super::{Egress, Entry, find};
use crate::limits::{COPY_REORDERING, LATE_ROUNDS_MAX};
use crate::parts::lateness::LateShare;

impl Egress {
    /// Notes how far away an ingress relay is.
    pub(crate) fn set_feed_round_trip(&mut self, ingress: u16, round_trip: Duration) {
        let place = usize::from(ingress);
        if self.feed_round_trips.len() <= place {
            self.feed_round_trips.resize(place + 1, Duration::ZERO);
        }
        self.feed_round_trips[place] = round_trip;
    }

    /// Fetches as many of the packets that receivers still miss in a round as it lacks to restore the others in time, as far as can be
    /// told: who was asked and has not answered when that was due may never do.
    pub(super) fn fetch_for(&mut self, round: RoundSlot, now: Time) {
        let state = self.rounds.get(round);
        let batch = state.batch;
        // That of a relay which began anew since names other flows.
        if self.batch(batch).is_none() {
            return;
        }
        let missed = self.still_missed(round, now);
        if missed.is_empty() {
            return;
        }
        self.note_late(round, now);
        let mut excess = self.excess(round, now);
        if excess > 0 {
            self.settle_short(round, now);
        }
        if !self.follows_up {
            return;
        }
        for place in missed.iter() {
            let entry = self.rounds.get(round).entries[place];
            let Some(slot) = entry.flow.filter(|_| excess > 0) else {
                continue;
            };
            let feed = Feed { ingress: batch.ingress, alias: entry.alias };
            let comes =
                self.is_fetched(slot, entry.sequence) || self.fetch((slot, entry.sequence), feed, now);
            excess -= usize::from(comes);
        }
        self.plan_review(round, now);
    }

    /// The packets of a round that their receivers wait for, as nothing else repairs them.
    pub(super) fn still_missed(&self, round: RoundSlot, now: Time) -> Places {
        let state = self.rounds.get(round);
        let missed = state.missed();
        let is_waited_for = |place: usize| {
            let Entry { flow, sequence, .. } = state.entries[place];
            let missing = flow.and_then(|slot| self.flow(slot)?.active()?.missing.get(sequence));
            missing.is_some_and(|missing| {
                missing.until > now && !matches!(missing.stage, Stage::InStream | Stage::Given)
            })
        };
        missed.only(is_waited_for)
    }

    /// How many packets a round lacks that repair packets do not make up for; or one, if they may well not: where those who were
    /// asked are late often, nothing is waited for.
    fn excess(&self, round: RoundSlot, now: Time) -> usize {
        let state = self.rounds.get(round);
        let repairs = self.repairs_due(state.batch, now);
        let short = state.gone_or_late();
        if short > repairs {
            return short - repairs;
        }
        let awaited = (0..state.entries.len()).filter(|place| state.is_awaited(*place));
        let flows = awaited.filter_map(|place| self.flow(state.entries[place].flow?));
        let may_fail = LateShare::more_than(repairs - short, flows.map(|flow| flow.lateness.share()));
        usize::from(may_fail > LATE_ROUNDS_MAX)
    }

    /// How many repair packets of a batch are here or will be: those that were sent with one that has just come.
    pub(super) fn repairs_due(&self, batch: BatchRef, now: Time) -> usize {
        let is_recent = self.repairs_came(batch).is_some_and(|came| now < came + COPY_REORDERING);
        match self.batch(batch).filter(|_| is_recent) {
            Some(known) => usize::from(known.made),
            None => self.repairs_of(batch, now),
        }
    }

    /// When the first repair packet of a batch came that is kept.
    pub(super) fn repairs_came(&self, batch: BatchRef) -> Option<Time> {
        self.log.came(self.batch(batch)?.repairs().next()?.payload)
    }

    fn is_fetched(&self, slot: FlowSlot, sequence: SequenceNumber) -> bool {
        let missing = self.flow(slot).and_then(|flow| flow.active()?.missing.get(sequence));
        missing.is_some_and(|missing| missing.is_fetched)
    }

    /// Asks the ingress relay for a packet that a receiver misses, if it can be there while it is of use.
    fn fetch(&mut self, (slot, sequence): (FlowSlot, SequenceNumber), feed: Feed, now: Time) -> bool {
        let Some(flow) = find(&mut self.flows, slot) else {
            return false;
        };
        let to_receiver = flow.round_trip / 2;
        let Some(active) = flow.active_mut() else {
            return false;
        };
        let round_trip = self.feed_round_trips.get(usize::from(feed.ingress)).copied().unwrap_or_default();
        let there_at = now + round_trip + to_receiver;
        let is_of_use =
            |missing: &&mut super::missing::MissingPacket| missing.until > there_at && missing.certain;
        let Some(missing) = active.missing.get_mut(sequence).filter(is_of_use) else {
            return false;
        };
        let end = sequence.next();
        let gap = Gap { ask_at: now, flow: slot, feed, first: sequence, end, asked: 0, is_fetch: true };
        let is_asked = self.gaps.add(gap);
        missing.is_fetched = is_asked;
        self.counters.fetched += u64::from(is_asked);
        is_asked
    }
}
