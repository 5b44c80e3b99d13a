//! Arrivals from ingress relays at the egress half: repair packets and copies.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::SequenceNumber;
use byway_wire::messages::{InStreamHead, InStreamRepair};

use super::action::Action;
use super::batches::{Batch, BatchEntries, BatchEntry, BatchRepair};
use super::blocks::BlockRepair;
use super::flow::{BatchRef, FlowSlot};
use super::losses::count_in_new_batch;
use super::missing::Stage;
use super::{Egress, find_batch, find_flow};
use crate::limits::{CODED_BYTES_MAX, FIRST_NUMBERS};
use crate::parts::packet_buffer::Handle;

/// A cross-stream repair packet that an ingress relay sent.
#[derive(Clone, Debug)]
pub(crate) struct CrossStreamPacket<'a> {
    pub(crate) ingress: u16,
    pub(crate) batch: u32,
    pub(crate) index: u8,
    /// Number of repair packets of the batch.
    pub(crate) repair_count: u8,
    /// Number of source packets that the batch covers.
    pub(crate) covered_count: usize,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: &'a [u8],
}

impl Egress {
    /// Stores a cross-stream repair packet and repairs the packets that waited for it.
    ///
    /// `resolve` looks up the covered packets. It runs for the first repair packet of a batch, and
    /// for the first that may have digests.
    pub(crate) fn on_cross_stream_repair(
        &mut self,
        repair: &CrossStreamPacket<'_>,
        resolve: impl FnOnce(&Self) -> BatchEntries,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        match self.batches_of(repair.ingress).get(repair.batch) {
            Some(known) if known.covers(repair.covered_count) => {
                if !self.batches_of(repair.ingress).has_digests(known.entries) {
                    let entries = resolve(self);
                    self.batches_of(repair.ingress).set_digests(known.entries, &entries);
                }
                self.add_to_batch(repair, known, now, actions);
            }
            Some(_) => self.counters.repairs_surplus += 1,
            None => {
                let entries = resolve(self);
                self.add_batch(repair, &entries, now, actions);
            }
        }
    }

    /// Stores a new batch with its first repair packet, and repairs the packets that waited for it.
    /// A batch without receivers here is ignored.
    fn add_batch(
        &mut self,
        repair: &CrossStreamPacket<'_>,
        entries: &[BatchEntry],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        if entries.iter().all(|entry| entry.flow.is_none()) {
            self.counters.repairs_unknown += 1;
            return;
        }
        let Some(stored) = self.store_repair(repair, now) else {
            return;
        };
        let may_grow = self.memory.has_shared_capacity();
        let batches = self.batches_of(repair.ingress);
        let before = batches.bytes();
        let batch = batches.insert((repair.batch, repair.repair_count), entries, may_grow);
        let is_stored = batch.is_some_and(|batch| batch.add(stored));
        let after = batches.bytes();
        self.memory.resize_shared(before, after);
        if !is_stored {
            self.counters.repairs_surplus += 1;
            return;
        }
        self.counters.repairs_stored += 1;
        let batch = BatchRef { ingress: repair.ingress, number: repair.batch };
        self.index_batch(batch, (entries, repair.payload.len()), now, actions);
        self.retry_undecodable(now, actions);
    }

    /// Stores another repair packet of a known batch, and decodes the batches that are now
    /// decodable.
    fn add_to_batch(
        &mut self,
        repair: &CrossStreamPacket<'_>,
        known: Batch,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(stored) = self.store_repair(repair, now) else {
            return;
        };
        let batch = self.batches_of(repair.ingress).get_mut(repair.batch);
        if !batch.is_some_and(|batch| batch.add(stored)) {
            self.counters.repairs_surplus += 1;
            return;
        }
        self.counters.repairs_stored += 1;
        if let Some(attempt) = known.attempt {
            self.try_decode(attempt, now, actions);
        }
        self.retry_undecodable(now, actions);
    }

    /// Stores received bytes, and returns their handle. Returns `None` if they are longer than any
    /// packet may be, or if the buffer refuses them.
    pub(super) fn store_packet(&mut self, bytes: &[u8], now: Time) -> Option<Handle> {
        let fits = bytes.len() <= CODED_BYTES_MAX;
        self.counters.too_long += u64::from(!fits);
        if fits { self.log.push(bytes, now) } else { None }
    }

    fn store_repair(&mut self, repair: &CrossStreamPacket<'_>, now: Time) -> Option<BatchRepair> {
        let payload = self.store_packet(repair.payload, now)?;
        Some(BatchRepair { index: repair.index, length_symbol: repair.length_symbol, payload })
    }

    /// Records a new batch at the flows that it covers, and repairs their packets that waited for
    /// it.
    fn index_batch(
        &mut self,
        batch: BatchRef,
        (entries, longest): (&[BatchEntry], usize),
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let mut has_requests = false;
        for entry in entries {
            let found = entry.flow.and_then(|slot| Some((slot, find_flow(&mut self.flows, slot)?)));
            let Some((slot, flow)) = found else {
                continue;
            };
            let (batches, log, memory) = (&self.batches, &self.log, &self.memory);
            let holder = flow.holder;
            let is_spent = |batch: BatchRef| {
                let is_expired = find_batch(batches, batch)
                    .is_none_or(|known| known.repairs().all(|repair| log.get(repair.payload, now).is_none()));
                is_expired || !memory.has_capacity(holder)
            };
            // The longest packet of the batch is the estimate, because the relay must not request
            // more bytes of a receiver than it consented to.
            flow.packet_bytes = u16::try_from(longest).unwrap_or(u16::MAX);
            let active = flow.activate(now);
            active.add_batch(entry.sequence, batch, is_spent);
            active.missing.covered_at = now;
            has_requests |= active.has_outstanding_requests();
            self.memory.update_charge(&mut active.memory);
            self.sweeps.watch_idle(active, slot, now);
        }
        // A receiver that has received no packet of a flow sends no NACK. The tail-loss hint covers
        // the flow's first packets.
        let first_packets = entries.iter().filter(|entry| entry.sequence.number() < FIRST_NUMBERS);
        for (slot, sequence) in first_packets.filter_map(|entry| Some((entry.flow?, entry.sequence))) {
            self.record_burst_end(slot, sequence, now);
        }
        if !has_requests {
            return;
        }
        count_in_new_batch(self, batch, entries, now);
        self.request_early(entries, now, actions);
        for entry in entries {
            if let Some(slot) = entry.flow {
                self.on_repairable(slot, entry.sequence, now, actions);
            }
        }
    }

    /// Stores an in-stream repair packet and repairs the packets that waited for it.
    pub(crate) fn on_in_stream_repair(
        &mut self,
        slot: FlowSlot,
        repair: &InStreamRepair<'_>,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(payload) = self.store_packet(repair.payload, now) else {
            return;
        };
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            self.counters.repairs_unknown += 1;
            return;
        };
        let active = flow.activate(now);
        let InStreamHead { first_low, mask, repair_index, length_symbol, .. } = repair.head;
        let first = active.full_sequence(first_low);
        self.memory.refresh_capacity(&mut active.memory);
        active.add_block_repair(first, mask, BlockRepair { repair_index, length_symbol, payload });
        active.extend_known(first, first.plus(mask.span() - 1));
        active.missing.covered_at = now;
        if !active.nacked.is_empty() {
            // All packets are recorded before the first repair: the number of repair packets to
            // send depends on the other missing packets.
            self.memory.refresh_capacity(&mut active.memory);
            let offsets = mask.offsets().map(|offset| first.plus(u64::from(offset)));
            let refused = offsets.filter(|sequence| active.accept_nacked(*sequence, now) == Some(false));
            self.counters.refused_capacity += refused.count() as u64;
        }
        self.sweeps.watch_idle(active, slot, now);
        self.memory.update_charge(&mut active.memory);
        self.counters.repairs_stored += 1;
        let has_requests = active.has_outstanding_requests();
        for offset in mask.offsets().filter(|_| has_requests) {
            self.on_repairable(slot, first.plus(u64::from(offset)), now, actions);
        }
        if has_requests {
            self.record_undecodable_block(slot, first);
        }
        self.retry_undecodable(now, actions);
    }

    /// Repairs a packet that has just become repairable, if a NACK requested it. If the NACK proves
    /// no loss, sends a confirm first.
    pub(super) fn on_repairable(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return;
        };
        let is_pulled = flow.is_pulled(now);
        let Some(active) = flow.active_mut() else {
            return;
        };
        if !active.has_outstanding_requests() {
            return;
        }
        self.memory.refresh_capacity(&mut active.memory);
        if active.accept_nacked(sequence, now) == Some(false) {
            self.counters.refused_capacity += 1;
        }
        if let Some(outage) = active.outage.as_mut().filter(|outage| outage.covers(sequence)) {
            outage.confirmed_at = now;
            if outage.should_report(is_pulled, now) {
                actions.push(Action::ReportOutage { flow: slot, is_active: true });
            }
            let lost_at = outage.lost_at(now, now);
            let may_be_in_flight = lost_at > now && active.missing.get(sequence).is_none();
            if may_be_in_flight && self.in_flight.add(lost_at, slot, sequence) {
                return;
            }
            let until = now + outage.repair_lifetime;
            let certain = outage.certain;
            active.add_missing(sequence, until, certain);
            self.sweeps.watch_expiry(active, slot, until);
        }
        self.memory.update_charge(&mut active.memory);
        let Some(missing) = active.missing.get_mut(sequence) else {
            return;
        };
        match missing.stage {
            Stage::Waiting if missing.certain => self.repair(slot, sequence, now, actions),
            Stage::Waiting => {
                missing.enter_stage(Stage::Confirming, now);
                self.counters.confirms += 1;
                actions.push(Action::SendConfirm { flow: slot, sequence });
            }
            // Requests to other receivers take a round trip. Repair packets that have just arrived
            // may suffice sooner.
            Stage::Cooperating => self.repair_from_arrivals(slot, sequence, now, actions),
            // A first repair is in flight; a second one waits for another NACK.
            Stage::Confirming | Stage::InStream | Stage::RepairSent => {}
        }
    }
}

/// Collects the entries of a batch, in the order in which the ingress relay encoded them.
pub(super) fn collect_entries<'a>(entries: impl Iterator<Item = &'a BatchEntry>) -> BatchEntries {
    entries.copied().collect()
}
