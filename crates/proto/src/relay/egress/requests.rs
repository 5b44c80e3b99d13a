//! What receivers say: what they miss, what they have, what they lost.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::{FlowKey, SequenceNumber};

use super::action::Action;
use super::flow::{BatchRef, FlowSlot};
use super::missing::Stage;
use super::nacked::NackedRange;
use super::rounds::RoundSlot;
use super::{Egress, admitted, find};
use crate::limits::{BARRED_MAX, NACK_REACH, PATIENCE_MAX, RANGES_MAX};
use crate::parts::packet_log::Handle;
use crate::policy::repairs;

/// A NACK, its alias resolved and its numbers completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) flow: FlowSlot,
    /// First and last number of each range.
    pub(crate) ranges: &'a [(SequenceNumber, SequenceNumber)],
    pub(crate) open_from: Option<SequenceNumber>,
    /// Whether the receiver saw a later packet, or answers a confirm.
    pub(crate) certain: bool,
    /// How long repairs are of use.
    pub(crate) patience: Duration,
}

impl Egress {
    /// Repairs what a receiver asks for, now or when it can be.
    pub(crate) fn nack(&mut self, request: &Request<'_>, now: Time, actions: &mut Vec<Action>) {
        let Some(flow) = self.flow_mut(request.flow) else {
            return;
        };
        if !repairs(flow.service) {
            self.counters.refused_service += 1;
            return;
        }
        flow.patience = request.patience;
        flow.activate(now);
        self.watch_rest(request.flow, now);
        // All are noted first: which repair is cheapest depends on what else is missing.
        let ranges: ArrayVec<_, RANGES_MAX> = request
            .ranges
            .iter()
            .take(RANGES_MAX)
            .filter_map(|range| self.within_reach(request.flow, *range))
            .collect();
        let noted: ArrayVec<_, RANGES_MAX> =
            ranges.into_iter().filter_map(|range| self.note_range(request, range, now)).collect();
        for (first, last) in noted {
            self.repair_range(request.flow, (first, last), now, actions);
        }
        if let Some(from) = request.open_from {
            self.open(request, from, now, actions);
        }
        self.watch_expiry(request.flow, now + request.patience);
    }

    /// Notes that a range is missing; the part of it of which something is known. Numbers that were asked for within a
    /// round trip, and those of which nothing is known, are not looked at one by one.
    fn note_range(
        &mut self,
        request: &Request<'_>,
        (first, last): (SequenceNumber, SequenceNumber),
        now: Time,
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let (until, certain) = (now + request.patience, request.certain);
        let mut range = NackedRange { first, last, until, certain, asked: now, taken: 0 };
        self.counters.asked += range.count();
        let flow = self.flow(request.flow)?;
        let active = flow.active()?;
        if active.nacked.asked_lately(&range, flow.round_trip) {
            self.counters.refused_early += range.count();
            return None;
        }
        let known = active.known_within((first, last));
        for sequence in known.into_iter().flat_map(|(first, last)| numbers(first, last)) {
            range.taken += u64::from(self.note(request, sequence, now));
        }
        let active = admitted(&mut self.flows, &self.memory, request.flow)?;
        let forgotten = active.add_nacked(range);
        self.memory.settle(&mut active.memory);
        self.counters.refused_room += forgotten;
        known
    }

    /// Repairs what was noted of a range.
    fn repair_range(
        &mut self,
        slot: FlowSlot,
        (first, last): (SequenceNumber, SequenceNumber),
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let mut from = first;
        while let Some(sequence) = self.flow(slot).and_then(|flow| flow.active()?.missing.next_from(from)) {
            if sequence > last {
                return;
            }
            self.repair_noted(slot, sequence, now, actions);
            from = sequence.next();
        }
    }

    /// The part of a range that is near enough to what the flow has sent.
    fn within_reach(
        &mut self,
        slot: FlowSlot,
        (first, last): (SequenceNumber, SequenceNumber),
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let highest = self.flow(slot)?.active()?.highest;
        let lowest = SequenceNumber::new(highest.number().saturating_sub(NACK_REACH));
        let (from, to) = (first.max(lowest), last.min(highest.plus(NACK_REACH)));
        let asked = last.since(first).map_or(0, |more| more + 1);
        let near = to.since(from).map_or(0, |more| more + 1);
        self.counters.asked += asked - near;
        self.counters.refused_range += asked - near;
        (near > 0).then_some((from, to))
    }

    /// Notes that one packet is missing, if something is known of it; whether that is so.
    fn note(&mut self, request: &Request<'_>, sequence: SequenceNumber, now: Time) -> bool {
        self.work.numbers += 1;
        let is_known = self
            .flow(request.flow)
            .and_then(|flow| flow.active())
            .is_some_and(|active| active.is_known(sequence));
        if is_known {
            self.miss(request.flow, sequence, (now + request.patience, request.certain), now);
        }
        is_known
    }

    /// Notes that a packet is missing, unless it is on its way.
    pub(super) fn miss(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        (until, certain): (Time, bool),
        now: Time,
    ) {
        if self.is_under_way(slot, sequence, now) {
            return;
        }
        let Some(active) = admitted(&mut self.flows, &self.memory, slot) else {
            return;
        };
        active.take_nacked(sequence, now);
        let is_noted = active.ask(sequence, until, certain);
        self.memory.settle(&mut active.memory);
        self.counters.refused_room += u64::from(!is_noted);
    }

    /// Repairs a packet that was noted, unless a repair is on its way.
    pub(super) fn repair_noted(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        self.work.numbers += 1;
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        let round_trip = flow.round_trip;
        let Some(missing) = flow.active_mut().and_then(|active| active.missing.get_mut(sequence)) else {
            return;
        };
        match missing.stage {
            Stage::Given | Stage::InStream if !missing.is_overdue(round_trip, now) => return,
            Stage::Given | Stage::Confirming => missing.enter(Stage::Waiting, now),
            Stage::Waiting | Stage::InStream | Stage::Cooperating => {}
        }
        self.repair(slot, sequence, now, actions);
    }

    /// A cooperating receiver gives a packet of its own flow.
    ///
    /// The caller has compared it with [`Egress::expected`].
    pub(crate) fn answer(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        self.note_answer(slot, sequence, now);
        // Whatever is at hand is here already.
        let mut packet = self.keep_mate(slot, sequence, coded, now);
        for batch in self.batches_covering(slot, sequence) {
            let Some(round) = self.round_under_way(batch) else {
                continue;
            };
            let state = self.rounds.get_mut(round);
            let Some(place) = place_of(state.entries.iter(), slot, sequence) else {
                continue;
            };
            if (state.asked[place].is_none() && packet.is_none()) || state.have.contains(place) {
                continue;
            }
            if packet.is_none() {
                packet = self.keep(coded, now);
            }
            let Some(handle) = packet else {
                break;
            };
            if self.rounds.get_mut(round).take(place, handle) {
                self.complete(round, now, actions);
            }
        }
        if packet.is_some() {
            self.counters.answers += 1;
            self.retry_stuck(now, actions);
        } else {
            self.counters.answers_unasked += 1;
        }
    }

    /// Completes rounds with a packet that an ingress relay sent.
    pub(super) fn complete_with(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        for batch in self.batches_covering(slot, sequence) {
            let Some(round) = self.round_under_way(batch) else {
                continue;
            };
            let state = self.rounds.get_mut(round);
            let place = place_of(state.entries.iter(), slot, sequence);
            if place.is_some_and(|place| state.take(place, packet)) {
                self.complete(round, now, actions);
            }
        }
        self.retry_stuck(now, actions);
    }

    /// Keeps a packet that was asked for in a wider round.
    fn keep_mate(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        now: Time,
    ) -> Option<Handle> {
        let active = self.flow(slot)?.active()?;
        active.asked(sequence).filter(|asked| now < *asked + PATIENCE_MAX)?;
        if active.packet(sequence).is_some_and(|packet| self.log.get(packet, now).is_some()) {
            return None;
        }
        let packet = self.keep(coded, now)?;
        let active = find(&mut self.flows, slot)?.active_mut()?;
        let (log, memory, holder) = (&self.log, &self.memory, active.memory.holder());
        active.add_packet(sequence, packet, |packet| {
            log.get(packet, now).is_none() || !memory.has_room(holder)
        });
        self.memory.settle(&mut active.memory);
        Some(packet)
    }

    /// Notes whether a receiver answered in time, one way or the other.
    fn note_answer(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        if let Some(flow) = find(&mut self.flows, slot) {
            flow.lateness.answered(sequence.number(), now);
        }
    }

    /// A cooperating receiver lost its packet too. It may still answer, after its own repair.
    pub(crate) fn lost(
        &mut self,
        slot: FlowSlot,
        first: SequenceNumber,
        last: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some((first, last)) = self.flow(slot).and_then(|flow| flow.requested_within((first, last), now))
        else {
            return;
        };
        for sequence in numbers(first, last) {
            self.work.numbers += 1;
            self.note_answer(slot, sequence, now);
            // One round that is solved may end another.
            for batch in self.batches_covering(slot, sequence) {
                let Some(round) = self.round_under_way(batch) else {
                    continue;
                };
                let state = self.rounds.get_mut(round);
                let place = place_of(state.entries.iter(), slot, sequence);
                if let Some(place) = place.filter(|place| !state.lost.contains(*place)) {
                    state.lost.add(place);
                    self.widen(round, now, actions);
                }
            }
        }
    }

    /// What an answer has to digest to, whatever it was asked for: the entry of a batch that covers it and has digests.
    pub(crate) fn expected(&self, slot: FlowSlot, sequence: SequenceNumber) -> Option<(u16, super::Entry)> {
        self.batches_covering(slot, sequence).into_iter().find_map(|batch| {
            let batches = self.batches.get(usize::from(batch.ingress))?;
            let mut entries = batches.entries(batches.get(batch.number)?.entries);
            let entry = entries.find(|entry| entry.flow == Some(slot) && entry.sequence == sequence)?;
            entry.digest.map(|_| (batch.ingress, *entry))
        })
    }

    /// A receiver answered falsely: it is asked for packets of this flow no more, should it leave and come back either.
    ///
    /// Its other flows are trusted: a sender that gives receiver and ingress relay different packets could else have an
    /// innocent receiver taken for a liar.
    pub(crate) fn bar(&mut self, slot: FlowSlot) {
        self.counters.answers_false += 1;
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        flow.barred = true;
        let key = flow.key;
        if !self.barred.contains(&key) {
            if self.barred.len() == BARRED_MAX {
                self.barred.pop_front();
            }
            self.barred.push_back(key);
        }
    }

    /// Whether a flow's receiver answered falsely, as far as is remembered.
    pub(crate) fn is_barred(&self, key: FlowKey) -> bool {
        self.barred.contains(&key)
    }

    /// The full number of a packet of the flow.
    pub(crate) fn full(&self, slot: FlowSlot, low: u32) -> SequenceNumber {
        self.flow(slot).map_or(SequenceNumber::new(u64::from(low)), |flow| flow.full(low))
    }

    fn batches_covering(&self, slot: FlowSlot, sequence: SequenceNumber) -> ArrayVec<BatchRef, 2> {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let batches = active.map(|active| active.source(sequence).batches).unwrap_or_default();
        batches.into_iter().flatten().collect()
    }

    /// The round of a batch, if one is under way.
    pub(super) fn round_under_way(&self, batch: BatchRef) -> Option<RoundSlot> {
        self.batch(batch)?.round
    }
}

/// The numbers from `first` to `last`.
fn numbers(first: SequenceNumber, last: SequenceNumber) -> impl Iterator<Item = SequenceNumber> {
    (first.number()..=last.number()).map(SequenceNumber::new)
}

/// Where in a batch the packet stands.
pub(super) fn place_of<'a>(
    mut entries: impl Iterator<Item = &'a super::Entry>,
    slot: FlowSlot,
    sequence: SequenceNumber,
) -> Option<usize> {
    entries.position(|entry| entry.flow == Some(slot) && entry.sequence == sequence)
}
