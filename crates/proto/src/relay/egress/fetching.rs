//! Copies fetched from the ingress relay, where repair packets are too few to restore what is missing.
//!
//! The way there and back is longer than the one to other receivers, but it asks nobody else for anything and costs bytes only for
//! what is really lost: the last resort of whoever can wait so long.

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::carried::{Feed, Gap};
use super::flow::{BatchRef, FlowSlot};
use super::missing::Stage;
use super::rounds::RoundSlot;
use super::{Egress, find};
use crate::limits::COPY_REORDERING;

impl Egress {
    /// Notes how far away an ingress relay is.
    pub(crate) fn set_feed_round_trip(&mut self, ingress: u16, round_trip: Duration) {
        let place = usize::from(ingress);
        if self.feed_round_trips.len() <= place {
            self.feed_round_trips.resize(place + 1, Duration::ZERO);
        }
        self.feed_round_trips[place] = round_trip;
    }

    /// Fetches as many of the packets that receivers miss in a round as it lacks to restore the others.
    pub(super) fn fetch_for(&mut self, round: RoundSlot, now: Time) {
        let state = self.rounds.get(round);
        let batch = state.batch;
        // That of a relay which began anew since names other flows.
        if self.batches.get(usize::from(batch.ingress)).is_none_or(|known| known.get(batch.number).is_none())
        {
            return;
        }
        let excess = state.gone().saturating_sub(self.repairs_due(state.batch, now));
        if excess == 0 {
            return;
        }
        let (entries, missed) = (state.entries.clone(), state.missed());
        let missed = entries.iter().enumerate().filter(|(place, _)| missed.contains(*place));
        let mut coming = 0;
        for (_, entry) in missed {
            let Some(slot) = entry.flow.filter(|_| coming < excess) else {
                continue;
            };
            let feed = Feed { ingress: batch.ingress, alias: entry.alias };
            let comes =
                self.is_fetched(slot, entry.sequence) || self.fetch((slot, entry.sequence), feed, now);
            coming += usize::from(comes);
        }
    }

    /// How many repair packets of a batch are here or will be: those that were sent with one that has just come.
    pub(super) fn repairs_due(&self, batch: BatchRef, now: Time) -> usize {
        let known =
            self.batches.get(usize::from(batch.ingress)).and_then(|batches| batches.get(batch.number));
        let came = known.and_then(|known| self.log.came(known.repairs().next()?.payload));
        match (known, came) {
            (Some(known), Some(came)) if now <= came + COPY_REORDERING => usize::from(known.made),
            _ => self.repairs_of(batch, now),
        }
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
        let is_of_use = |missing: &&mut super::missing::MissingPacket| {
            missing.until > there_at && missing.certain && missing.stage != Stage::Given
        };
        let Some(missing) = active.missing.get_mut(sequence).filter(is_of_use) else {
            return false;
        };
        let gap = Gap { ask_at: now, flow: slot, feed, first: sequence, end: sequence.next(), asked: 0 };
        let is_asked = self.gaps.add(gap);
        missing.is_fetched = is_asked;
        self.counters.fetched += u64::from(is_asked);
        is_asked
    }
}
