//! What arrives from ingress relays: repair packets and copies.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::SequenceNumber;
use byway_wire::messages::{InStreamHead, InStreamRepair};

use super::action::Action;
use super::batches::{Batch, BatchRepair, Entries, Entry};
use super::blocks::BlockRepair;
use super::flow::{BatchRef, FlowSlot};
use super::missing::Stage;
use super::{Egress, find, kept};
use crate::limits::{CODED_BYTES_MAX, FIRST_NUMBERS};
use crate::parts::packet_log::Handle;

/// A cross-stream repair packet.
#[derive(Clone, Debug)]
pub(crate) struct CrossStream<'a> {
    pub(crate) ingress: u16,
    pub(crate) batch: u32,
    pub(crate) index: u8,
    /// How many repair packets the batch has.
    pub(crate) made: u8,
    /// How many packets it covers.
    pub(crate) covers: usize,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: &'a [u8],
}

impl Egress {
    /// Keeps a cross-stream repair packet and repairs what waited for it. What it covers is looked up by `resolve` where
    /// it is the first of its batch, or the first that may have digests.
    pub(crate) fn cross_stream(
        &mut self,
        repair: &CrossStream<'_>,
        resolve: impl FnOnce(&Self) -> Entries,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        match self.batches_of(repair.ingress).get(repair.batch) {
            Some(known) if known.covers(repair.covers) => {
                if !self.batches_of(repair.ingress).is_vouched(known.entries) {
                    let entries = resolve(self);
                    self.batches_of(repair.ingress).vouch(known.entries, &entries);
                }
                self.add_to_batch(repair, known, now, actions);
            }
            Some(_) => self.counters.repairs_surplus += 1,
            None => {
                let entries = resolve(self);
                self.begin_batch(repair, &entries, now, actions);
            }
        }
    }

    /// Keeps the first repair packet of a batch that arrives.
    fn begin_batch(
        &mut self,
        repair: &CrossStream<'_>,
        entries: &[Entry],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        if entries.iter().all(|entry| entry.flow.is_none()) {
            self.counters.repairs_unknown += 1;
            return;
        }
        let Some(kept) = self.keep_repair(repair, now) else {
            return;
        };
        let may_grow = self.memory.has_shared_room();
        let batches = self.batches_of(repair.ingress);
        let before = batches.bytes();
        let batch = batches.insert((repair.batch, repair.made), entries, may_grow);
        let is_kept = batch.is_some_and(|batch| batch.add(kept));
        let after = batches.bytes();
        self.memory.settle_shared(before, after);
        if !is_kept {
            self.counters.repairs_surplus += 1;
            return;
        }
        self.counters.repairs_kept += 1;
        let batch = BatchRef { ingress: repair.ingress, number: repair.batch };
        self.cover(batch, (entries, repair.payload.len()), now, actions);
        self.retry_stuck(now, actions);
    }

    /// Keeps another repair packet of a batch.
    fn add_to_batch(&mut self, repair: &CrossStream<'_>, known: Batch, now: Time, actions: &mut Vec<Action>) {
        let Some(kept) = self.keep_repair(repair, now) else {
            return;
        };
        let batch = self.batches_of(repair.ingress).get_mut(repair.batch);
        if !batch.is_some_and(|batch| batch.add(kept)) {
            self.counters.repairs_surplus += 1;
            return;
        }
        self.counters.repairs_kept += 1;
        if let Some(round) = known.round {
            self.complete(round, now, actions);
        }
        self.retry_stuck(now, actions);
    }

    /// Keeps bytes that came from elsewhere, unless they are longer than any packet may be.
    pub(super) fn keep(&mut self, bytes: &[u8], now: Time) -> Option<Handle> {
        let fits = bytes.len() <= CODED_BYTES_MAX;
        self.counters.too_long += u64::from(!fits);
        if fits { self.log.push(bytes, now) } else { None }
    }

    fn keep_repair(&mut self, repair: &CrossStream<'_>, now: Time) -> Option<BatchRepair> {
        let payload = self.keep(repair.payload, now)?;
        Some(BatchRepair { index: repair.index, length_symbol: repair.length_symbol, payload })
    }

    /// Notes what a new batch covers, and repairs what waited for it.
    fn cover(
        &mut self,
        batch: BatchRef,
        (entries, longest): (&[Entry], usize),
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let mut is_asked_for = false;
        for entry in entries {
            let found = entry.flow.and_then(|slot| Some((slot, find(&mut self.flows, slot)?)));
            let Some((slot, flow)) = found else {
                continue;
            };
            let (batches, log, memory) = (&self.batches, &self.log, &self.memory);
            let holder = flow.holder;
            let is_spent = |batch: BatchRef| {
                let is_gone = kept(batches, batch)
                    .is_none_or(|known| known.repairs().all(|repair| log.get(repair.payload, now).is_none()));
                is_gone || !memory.has_room(holder)
            };
            // As long as any packet of the batch: who gives shall not be asked for more than it consented to.
            flow.packet_bytes = u16::try_from(longest).unwrap_or(u16::MAX);
            let active = flow.activate(now);
            active.add_batch(entry.sequence, batch, is_spent);
            is_asked_for |= active.is_asking();
            self.memory.settle(&mut active.memory);
            self.sweeps.watch_rest(active, slot, now);
        }
        // A receiver that has got nothing of a flow asks for nothing.
        let beginnings = entries.iter().filter(|entry| entry.sequence.number() < FIRST_NUMBERS);
        for (slot, sequence) in beginnings.filter_map(|entry| Some((entry.flow?, entry.sequence))) {
            self.note_tail(slot, sequence, now);
        }
        if !is_asked_for {
            return;
        }
        self.ask_early(entries, now, actions);
        for entry in entries {
            if let Some(slot) = entry.flow {
                self.became_repairable(slot, entry.sequence, now, actions);
            }
        }
    }

    /// Keeps an in-stream repair packet and repairs what waited for it.
    pub(crate) fn in_stream(
        &mut self,
        slot: FlowSlot,
        repair: &InStreamRepair<'_>,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(payload) = self.keep(repair.payload, now) else {
            return;
        };
        let Some(flow) = find(&mut self.flows, slot) else {
            self.counters.repairs_unknown += 1;
            return;
        };
        let active = flow.activate(now);
        let InStreamHead { first_low, mask, place, length_symbol, .. } = repair.head;
        let first = active.full(first_low);
        self.memory.admit(&mut active.memory);
        active.add_block_repair(first, mask, BlockRepair { place, length_symbol, payload });
        active.note_known(first, first.plus(mask.span() - 1));
        if !active.nacked.is_empty() {
            // All are noted first: how many repair packets are needed depends on what else is missing.
            self.memory.admit(&mut active.memory);
            let offsets = mask.offsets().map(|offset| first.plus(u64::from(offset)));
            let refused = offsets.filter(|sequence| active.take_nacked(*sequence, now) == Some(false));
            self.counters.refused_room += refused.count() as u64;
        }
        self.sweeps.watch_rest(active, slot, now);
        self.memory.settle(&mut active.memory);
        self.counters.repairs_kept += 1;
        let is_asked_for = active.is_asking();
        for offset in mask.offsets().filter(|_| is_asked_for) {
            self.became_repairable(slot, first.plus(u64::from(offset)), now, actions);
        }
        self.retry_stuck(now, actions);
    }

    /// Repairs a packet that was asked for before it could be repaired; asks first if the request may be stale.
    pub(super) fn became_repairable(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = find(&mut self.flows, slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        if !active.is_asking() {
            return;
        }
        self.memory.admit(&mut active.memory);
        if active.take_nacked(sequence, now) == Some(false) {
            self.counters.refused_room += 1;
        }
        if let Some(open) = active.open.as_mut().filter(|open| open.covers(sequence)) {
            if open.is_to_be_told(now) {
                actions.push(Action::Outage { flow: slot, is_dark: true });
            }
            let lost_at = open.lost_at(now, now);
            let may_be_in_flight = lost_at > now && active.missing.get(sequence).is_none();
            if may_be_in_flight && self.in_flight.add(lost_at, slot, sequence) {
                return;
            }
            let until = now + open.patience;
            let certain = open.certain;
            active.ask(sequence, until, certain);
            self.sweeps.watch_expiry(active, slot, until);
        }
        self.memory.settle(&mut active.memory);
        let Some(missing) = active.missing.get_mut(sequence) else {
            return;
        };
        match missing.stage {
            Stage::Waiting if missing.certain => self.repair(slot, sequence, now, actions),
            Stage::Waiting => {
                missing.enter(Stage::Confirming, now);
                self.counters.confirms += 1;
                actions.push(Action::Confirm { flow: slot, sequence });
            }
            // Others were asked, which takes them a round trip: what has come here is sooner.
            Stage::Cooperating => self.overtake(slot, sequence, now, actions),
            // A first repair is on its way; a second one waits until it is asked for.
            Stage::Confirming | Stage::InStream | Stage::Given => {}
        }
    }
}

/// The entries of a batch, as the code numbers them.
pub(super) fn entries_of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Entries {
    entries.copied().collect()
}
