//! What arrives from ingress relays: repair packets and copies.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::Mask;
use byway_wire::{Place, SequenceNumber};

use super::action::{Action, Given};
use super::batches::{BatchRepair, Entries, Entry};
use super::blocks::BlockRepair;
use super::flow::{BatchRef, FlowSlot};
use super::missing::Stage;
use super::{Egress, find};
use crate::limits::CODED_BYTES_MAX;
use crate::parts::packet_log::Handle;
use byway_wire::Service;

/// A cross-stream repair packet, its aliases resolved.
#[derive(Clone, Debug)]
pub(crate) struct CrossStream<'a> {
    pub(crate) ingress: u16,
    pub(crate) batch: u32,
    pub(crate) index: u8,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) entries: &'a [Entry],
    pub(crate) payload: &'a [u8],
}

/// An in-stream repair packet, its alias resolved.
#[derive(Clone, Debug)]
pub(crate) struct InStream<'a> {
    pub(crate) flow: FlowSlot,
    pub(crate) first: u32,
    pub(crate) mask: Mask,
    pub(crate) place: Place,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: &'a [u8],
}

impl Egress {
    /// Keeps a cross-stream repair packet and repairs what waited for it.
    pub(crate) fn cross_stream(&mut self, repair: &CrossStream<'_>, now: Time, actions: &mut Vec<Action>) {
        if repair.entries.iter().all(|entry| entry.flow.is_none()) {
            self.counters.repairs_unknown += 1;
            return;
        }
        let Some(payload) = self.keep(repair.payload, now) else {
            return;
        };
        let kept = BatchRepair { index: repair.index, length_symbol: repair.length_symbol, payload };
        let batches = self.batches_of(repair.ingress);
        let is_new = batches.get(repair.batch).is_none();
        let batch =
            if is_new { batches.insert(repair.batch, repair.entries) } else { batches.get_mut(repair.batch) };
        let Some(batch) = batch.filter(|batch| batch.covers_as_many(repair.entries)) else {
            self.counters.repairs_surplus += 1;
            return;
        };
        if !batch.add(kept) {
            self.counters.repairs_surplus += 1;
            return;
        }
        let round = batch.round;
        self.counters.repairs_kept += 1;
        let reference = BatchRef { ingress: repair.ingress, number: repair.batch };
        if is_new {
            self.cover(reference, repair.entries, now, actions);
        } else if let Some(round) = round {
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

    /// Notes what a new batch covers, and repairs what waited for it.
    fn cover(&mut self, batch: BatchRef, entries: &[Entry], now: Time, actions: &mut Vec<Action>) {
        for entry in entries {
            let flow = entry.flow.and_then(|slot| find(&mut self.flows, slot));
            let Some(flow) = flow else {
                continue;
            };
            let (batches, log) = (&self.batches, &self.log);
            let is_spent = |batch: BatchRef| {
                let known =
                    batches.get(usize::from(batch.ingress)).and_then(|batches| batches.get(batch.number));
                known.is_none_or(|known| known.repairs().all(|repair| log.get(repair.payload, now).is_none()))
            };
            flow.activate(now).add_batch(entry.sequence, batch, is_spent);
        }
        self.ask_early(entries, now, actions);
        for entry in entries {
            if let Some(slot) = entry.flow {
                self.became_repairable(slot, entry.sequence, now, actions);
            }
        }
        self.sweep_from(now);
    }

    /// Keeps an in-stream repair packet and repairs what waited for it.
    pub(crate) fn in_stream(&mut self, repair: &InStream<'_>, now: Time, actions: &mut Vec<Action>) {
        let Some(payload) = self.keep(repair.payload, now) else {
            return;
        };
        let Some(flow) = self.flow_mut(repair.flow) else {
            self.counters.repairs_unknown += 1;
            return;
        };
        let active = flow.activate(now);
        let first = active.full(repair.first);
        let (place, length_symbol) = (repair.place, repair.length_symbol);
        let kept = BlockRepair { place, length_symbol, payload, is_sent: false };
        active.blocks.add(first, repair.mask, kept);
        active.highest = active.highest.max(first.plus(repair.mask.span() - 1));
        flow.packet_bytes = u16::try_from(repair.payload.len()).unwrap_or(u16::MAX);
        self.counters.repairs_kept += 1;
        for offset in repair.mask.offsets() {
            self.became_repairable(repair.flow, first.plus(u64::from(offset)), now, actions);
        }
        self.retry_stuck(now, actions);
        self.sweep_from(now);
    }

    /// Takes a copy that an ingress relay carried here: forwards it, or keeps it until it is asked for.
    pub(crate) fn carried(
        &mut self,
        receivers: &[FlowSlot],
        sequence: u32,
        coded: &[u8],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        if receivers.is_empty() {
            self.counters.repairs_unknown += 1;
            return;
        }
        let Some(packet) = self.keep(coded, now) else {
            return;
        };
        for slot in receivers {
            self.carried_to(*slot, sequence, packet, now, actions);
        }
        self.sweep_from(now);
    }

    fn carried_to(
        &mut self,
        slot: FlowSlot,
        sequence: u32,
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(flow) = find(&mut self.flows, slot) else {
            return;
        };
        let service = flow.service;
        let active = flow.activate(now);
        let sequence = active.full(sequence);
        active.add_packet(sequence, packet, |packet| self.log.get(packet, now).is_none());
        if matches!(service, Service::Forwarding | Service::Both) {
            self.counters.forwarded += 1;
            actions.push(Action::Give { flow: slot, sequence, packet, given: Given::Forwarded });
        } else {
            self.became_repairable(slot, sequence, now, actions);
        }
    }

    /// Repairs a packet that was asked for before it could be repaired; asks first if the request may be stale.
    fn became_repairable(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        if let Some(open) = active.open.as_mut().filter(|open| open.covers(sequence)) {
            active.missing.ask(sequence, now + open.patience, open.certain);
            if open.is_to_be_told(now) {
                actions.push(Action::Outage { flow: slot, is_dark: true });
            }
        }
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
            // A first repair is on its way; a second one waits until it is asked for.
            Stage::Confirming | Stage::InStream | Stage::Cooperating | Stage::Given => {}
        }
    }
}

/// The entries of a batch, as the code numbers them.
pub(super) fn entries_of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Entries {
    entries.copied().collect()
}
