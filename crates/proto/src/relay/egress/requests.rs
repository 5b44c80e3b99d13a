//! What receivers say: what they miss, what they have, what they lost.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use super::Egress;
use super::action::Action;
use super::flow::{FlowSlot, OpenEnd};
use super::missing::Stage;
use crate::limits::{NACK_REACH, OPEN_END_BACKLOG_MAX};

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
        let highest = flow.activate(now).highest;
        let oldest = SequenceNumber::new(highest.number().saturating_sub(NACK_REACH));
        let newest = highest.plus(NACK_REACH);
        for (first, last) in request.ranges {
            let (mut sequence, within) = (oldest.max(*first), newest.min(*last));
            self.counters.refused_range += beyond(*first, *last, oldest, newest);
            while sequence <= within {
                self.miss(request, sequence, now, actions);
                sequence = sequence.plus(1);
            }
        }
        if let Some(from) = request.open_from {
            self.open(request, from, now, actions);
        }
        self.sweep_from(now);
    }

    /// One packet is missing.
    fn miss(&mut self, request: &Request<'_>, sequence: SequenceNumber, now: Time, actions: &mut Vec<Action>) {
        self.counters.asked += 1;
        let Some(flow) = self.flow_mut(request.flow) else {
            return;
        };
        let round_trip = flow.round_trip;
        let Some(active) = flow.active_mut() else {
            return;
        };
        let Some(missing) = active.missing.ask(sequence, now + request.patience, request.certain) else {
            self.counters.refused_room += 1;
            return;
        };
        match missing.stage {
            Stage::Given | Stage::InStream if !missing.is_overdue(round_trip, now) => return,
            Stage::Given | Stage::Confirming => missing.enter(Stage::Waiting, now),
            Stage::Waiting | Stage::InStream | Stage::Cooperating => {}
        }
        self.repair(request.flow, sequence, now, actions);
    }

    /// Everything from a packet on is missing: what can be repaired is; the rest when its batches arrive.
    fn open(&mut self, request: &Request<'_>, from: SequenceNumber, now: Time, actions: &mut Vec<Action>) {
        self.counters.open_ended += 1;
        let Some(active) = self.flow_mut(request.flow).and_then(|flow| flow.active_mut()) else {
            return;
        };
        let highest = active.highest;
        let evident = highest >= from;
        let certain = request.certain || evident || active.open.is_some_and(|open| open.certain);
        active.open = Some(OpenEnd { from, to: None, patience: request.patience, certain });
        if !evident {
            return;
        }
        let oldest = SequenceNumber::new(highest.number().saturating_sub(OPEN_END_BACKLOG_MAX));
        let mut sequence = from.max(oldest);
        while sequence <= highest {
            self.miss_in_open_end(request, sequence, now, actions);
            sequence = sequence.plus(1);
        }
    }

    /// A packet that the open end covers and that is known to have been sent.
    fn miss_in_open_end(
        &mut self,
        request: &Request<'_>,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow_mut(request.flow).and_then(|flow| flow.active_mut()) else {
            return;
        };
        let under_way = active
            .missing
            .get(sequence)
            .is_some_and(|missing| !matches!(missing.stage, Stage::Waiting | Stage::Confirming));
        if !under_way {
            let certain = Request { certain: true, ..*request };
            self.miss(&certain, sequence, now, actions);
        }
    }

    /// The direct path delivers again, from this packet on.
    pub(crate) fn ack(&mut self, slot: FlowSlot, from: SequenceNumber) {
        if let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) {
            active.open = active.open.filter(|open| open.from < from);
            if let Some(open) = &mut active.open {
                open.to = Some(open.to.map_or(from, |to| to.min(from)));
            }
            active.missing.forget_waiting(from);
        }
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
        let mut packet = None;
        for round in self.rounds_covering(slot, sequence) {
            let state = self.rounds.get_mut(round);
            let Some(place) = place_of(state.entries.iter(), slot, sequence) else {
                continue;
            };
            if state.asked[place].is_none() || state.have.contains(place) {
                continue;
            }
            if packet.is_none() {
                packet = self.log.push(coded, now);
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
        } else {
            self.counters.answers_unasked += 1;
        }
    }

    /// A cooperating receiver lost its packet too. It may still answer, after its own repair.
    pub(crate) fn lost(&mut self, slot: FlowSlot, first: SequenceNumber, last: SequenceNumber) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        let mut sequence = first.max(SequenceNumber::new(active.highest.number().saturating_sub(NACK_REACH)));
        let last = last.min(active.highest);
        while sequence <= last {
            for round in self.rounds_covering(slot, sequence) {
                let round = self.rounds.get_mut(round);
                if let Some(place) = place_of(round.entries.iter(), slot, sequence) {
                    round.lost.add(place);
                }
            }
            sequence = sequence.plus(1);
        }
    }

    /// What an answer has to digest to: the entry of a round under way that asked for it.
    pub(crate) fn expected(&self, slot: FlowSlot, sequence: SequenceNumber) -> Option<(u16, super::Entry)> {
        self.rounds_covering(slot, sequence).into_iter().find_map(|round| {
            let round = self.rounds.get(round);
            let place = place_of(round.entries.iter(), slot, sequence)?;
            Some((round.batch.ingress, round.entries[place]))
        })
    }

    /// A receiver answered falsely: it is asked no more.
    pub(crate) fn bar(&mut self, slot: FlowSlot) {
        self.counters.answers_false += 1;
        if let Some(flow) = self.flow_mut(slot) {
            flow.barred = true;
        }
    }

    /// The full number of a packet of the flow.
    pub(crate) fn full(&self, slot: FlowSlot, low: u32) -> SequenceNumber {
        let active = self.flow(slot).and_then(|flow| flow.active());
        active.map_or(SequenceNumber::new(u64::from(low)), |active| active.full(low))
    }

    fn rounds_covering(
        &self,
        slot: FlowSlot,
        sequence: SequenceNumber,
    ) -> arrayvec::ArrayVec<super::rounds::RoundSlot, 2> {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let batches = active.map(|active| active.source(sequence).batches).unwrap_or_default();
        batches
            .into_iter()
            .flatten()
            .filter_map(|batch| self.batches.get(usize::from(batch.ingress))?.get(batch.number)?.round)
            .collect()
    }
}

/// How many numbers of a range lie outside of another one.
fn beyond(first: SequenceNumber, last: SequenceNumber, oldest: SequenceNumber, newest: SequenceNumber) -> u64 {
    let within = newest.min(last).since(oldest.max(first)).map_or(0, |span| span + 1);
    last.since(first).map_or(0, |span| span + 1).saturating_sub(within)
}

/// Where in a batch the packet stands.
pub(super) fn place_of<'a>(
    mut entries: impl Iterator<Item = &'a super::Entry>,
    slot: FlowSlot,
    sequence: SequenceNumber,
) -> Option<usize> {
    entries.position(|entry| entry.flow == Some(slot) && entry.sequence == sequence)
}
