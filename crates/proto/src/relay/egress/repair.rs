//! Repair of missing packets: choice of the cheapest repair, cooperative requests and decoding.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{REPAIR_PACKETS_MAX, RecoveredPackets, Repair, SOURCE_PACKETS_MAX, decode};
use byway_units::{BatchId, Bytes, Time};
use byway_wire::{Ecn, SequenceNumber};

use super::Holder;
use super::action::{Action, RepairSource};
use super::arrivals::collect_entries;
use super::batches::BatchRepair;
use super::decode_attempts::{AttemptId, DecodeAttempt};
use super::feedback::batch_index;
use super::flow::{BatchRef, FlowSlot};
use super::missing::{MissingPacket, Stage};
use super::{Egress, find_active, find_flow};
use crate::limits::REPAIRS_PER_PACKET_MAX;
use crate::parts::packet_buffer::Handle;
use crate::parts::retry::{answer_timeout, retry_interval};

impl Egress {
    /// Repairs a missing packet by the cheapest means: a stored packet, repair packets of its
    /// block, or else cooperative recovery.
    pub(super) fn repair(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        let Some(missing) = active.missing.get(sequence).copied() else {
            return;
        };
        if active.repair_count(sequence) >= REPAIRS_PER_PACKET_MAX {
            self.counters.refused_repeated += 1;
            return;
        }
        let sources = active.sources(sequence);
        if let Some(packet) = sources.packet.filter(|packet| self.log.get(*packet, now).is_some()) {
            let is_decoded = sources.batches[0].is_some() && !missing.is_fetched;
            let source = if is_decoded { RepairSource::Cooperative } else { RepairSource::Cached };
            self.send_repair(slot, sequence, packet, source, now, actions);
        } else if missing.stage == Stage::InStream || !self.repair_in_stream(slot, sequence, now, actions) {
            self.request_cooperation(slot, sequence, now, actions);
        }
    }

    /// Queues a source packet for its receiver and counts it by its source. It does nothing if the
    /// flow's repair budget is exhausted.
    pub(super) fn send_repair(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        packet: Handle,
        source: RepairSource,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        if !self.charge(slot, sequence, packet.bytes(), Stage::RepairSent, now) {
            return;
        }
        if matches!(source, RepairSource::Cooperative) {
            self.record_restored(slot, sequence, now);
        }
        let counters = &mut self.counters;
        let (packets, bytes) = match source {
            RepairSource::Cooperative => (&mut counters.cooperative, &mut counters.cooperative_bytes),
            RepairSource::Cached => (&mut counters.cached, &mut counters.cached_bytes),
            RepairSource::Forwarded => (&mut counters.forwarded, &mut counters.forwarded_bytes),
            RepairSource::Resent => (&mut counters.resent, &mut counters.resent_bytes),
        };
        *packets += 1;
        *bytes += packet.bytes() as u64;
        let ecn = Ecn::NotCapable;
        actions.push(Action::SendRepair { flow: slot, sequence, packet, source, ecn });
    }

    /// Charges the bytes of a repair to the flow's repair budget, and enters the packet's new
    /// stage. Returns `false` if budget or memory is exhausted.
    fn charge(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        bytes: usize,
        stage: Stage,
        now: Time,
    ) -> bool {
        let active = find_active(&mut self.flows, &self.memory, slot);
        if active.is_some_and(|active| !active.can_record_repair(sequence, now)) {
            // A repair without a record would not count against the limit of repairs per packet.
            self.counters.refused_capacity += 1;
            return false;
        }
        let Some(flow) = self.flow_mut(slot) else {
            return false;
        };
        if !flow.repair_budget.try_consume(Bytes::from(bytes), now) {
            self.counters.refused_budget += 1;
            return false;
        }
        if let Some(active) = find_active(&mut self.flows, &self.memory, slot) {
            active.record_repair(sequence, now);
            self.memory.update_charge(&mut active.memory);
            if let Some(missing) = active.missing.get_mut(sequence) {
                missing.enter_stage(stage, now);
                missing.is_repaired = true;
            }
        }
        true
    }

    /// Sends repair packets of the flow's own block, if those stored restore all missing packets of
    /// the block. Returns `false` if they do not suffice.
    pub(super) fn repair_in_stream(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some((needed, bytes)) = self.in_stream_repairs_needed(slot, sequence, now) else {
            return false;
        };
        if !self.charge(slot, sequence, bytes, Stage::InStream, now) {
            return true;
        }
        self.record_restored(slot, sequence, now);
        let active = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut());
        let Some(blocks) = active.map(|active| &mut active.blocks) else {
            return false;
        };
        let Some(block) = blocks.mark_sent(sequence, needed) else {
            return false;
        };
        self.last_block_sent = Some((slot, block.first, now));
        for repair in blocks.unsent(&block).take(needed) {
            self.counters.in_stream += 1;
            self.counters.in_stream_bytes += repair.payload.bytes() as u64;
            actions.push(Action::SendInStreamRepair {
                flow: slot,
                first: block.first,
                mask: block.mask,
                repair_index: repair.repair_index,
                length_symbol: repair.length_symbol,
                payload: repair.payload,
            });
        }
        true
    }

    /// Returns the number of the block's repair packets to send, and their bytes. They restore all
    /// missing packets of the block. The number is 0 if repair packets just sent for another packet
    /// suffice. Returns `None` if they cannot suffice.
    fn in_stream_repairs_needed(
        &self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
    ) -> Option<(usize, usize)> {
        let active = self.flow(slot)?.active()?;
        let block = active.blocks.covering(sequence)?;
        let missing = active.missing.within(block.first, block.last());
        let mut missing_count = missing
            .filter(|missing| missing.stage != Stage::RepairSent && block.covers(missing.sequence))
            .count();
        if let Some(outage) = active.outage {
            let covered = block.mask.offsets().map(|offset| block.first.plus(u64::from(offset)));
            missing_count = missing_count.max(covered.filter(|sequence| outage.covers(*sequence)).count());
        }
        let repairs = active.blocks.repairs(block);
        let stored = repairs.filter(|repair| self.log.get(repair.payload, now).is_some()).count();
        let needed = missing_count.saturating_sub(block.sent_count());
        if missing_count > stored || (needed == 0 && self.last_block_sent != Some((slot, block.first, now))) {
            return None;
        }
        let unsent = active.blocks.unsent(block).take(needed);
        Some((needed, unsent.map(|repair| repair.payload.bytes()).sum()))
    }

    /// Repairs a packet under a decode attempt by what arrived since: the packet itself, or repair
    /// packets of its own block.
    pub(super) fn repair_from_arrivals(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let packet =
            self.flow(slot).and_then(|flow| flow.active()).and_then(|active| active.packet(sequence));
        if packet.is_some_and(|packet| self.log.get(packet, now).is_some()) {
            self.repair(slot, sequence, now, actions);
        } else {
            self.repair_in_stream(slot, sequence, now, actions);
        }
    }

    /// Begins a decode attempt for a batch that covers the packet, or joins the active one, and
    /// requests the batch's other packets.
    fn request_cooperation(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        let (batches, holder) = (active.sources(sequence).batches, active.memory.holder());
        let Some(until) = active.missing.get(sequence).map(|missing| missing.deadline) else {
            return;
        };
        for batch in batches.into_iter().flatten() {
            let Some(attempt) = self.attempt_for(batch, holder) else {
                continue;
            };
            self.attempts.extend(attempt, now);
            let state = self.attempts.get_mut(attempt);
            let Some(index) = batch_index(state.entries.iter(), slot, sequence) else {
                continue;
            };
            state.requested.insert(index);
            self.attempts.extend(attempt, until);
            self.enter_stage(slot, sequence, Stage::Cooperating, now);
            self.request_helpers(attempt, now, actions);
            if !self.try_decode(attempt, now, actions) {
                self.expand(attempt, now, actions);
            }
            return;
        }
    }

    /// Returns a batch's decode attempt. It begins one if there is none and the requesting flow may
    /// use the memory.
    fn attempt_for(&mut self, batch: BatchRef, holder: Holder) -> Option<AttemptId> {
        let batches = self.batches.get_mut(usize::from(batch.ingress))?;
        let known = batches.get(batch.number)?;
        if let Some(attempt) = known.attempt {
            return Some(attempt);
        }
        let entries = collect_entries(batches.entries(known.entries));
        if entries.is_empty() {
            return None;
        }
        let has_memory = self.memory.try_charge(holder, DecodeAttempt::BYTES);
        let attempt =
            has_memory.then(|| self.attempts.begin(DecodeAttempt::new(holder, batch, entries))).flatten();
        if attempt.is_none() {
            self.memory.refund(holder, if has_memory { DecodeAttempt::BYTES } else { 0 });
            self.counters.decode_attempts_refused += 1;
        } else {
            self.counters.decode_attempts += 1;
            batches.get_mut(batch.number)?.attempt = attempt;
        }
        attempt
    }

    /// Removes a decode attempt from the tables, refunds its memory to the holder, and returns its
    /// state.
    pub(super) fn end_attempt(&mut self, attempt: AttemptId) -> Box<DecodeAttempt> {
        let state = self.attempts.end(attempt);
        self.memory.refund(state.holder, DecodeAttempt::BYTES);
        self.joint.undecodable.retain(|undecodable| *undecodable != attempt);
        state
    }

    fn enter_stage(&mut self, slot: FlowSlot, sequence: SequenceNumber, stage: Stage, now: Time) {
        let active = find_flow(&mut self.flows, slot).and_then(|flow| flow.active_mut());
        if let Some(missing) = active.and_then(|active| active.missing.get_mut(sequence)) {
            missing.enter_stage(stage, now);
        }
    }

    /// Requests the batch's other packets from their receivers, unless more packets are unavailable
    /// than repair packets are expected.
    fn request_helpers(&mut self, attempt: AttemptId, now: Time, actions: &mut Vec<Action>) {
        let helpers = self.eligible_helpers(attempt, now);
        let state = self.attempts.get(attempt);
        if state.unavailable_count() > self.expected_repair_packets(state.batch, now) {
            return;
        }
        let (until, bytes) = (state.deadline, self.max_packet_bytes(state.batch));
        for (index, flow, sequence) in helpers {
            // If a batch names one flow twice, the second packet may exceed its receiver's consent.
            if self.request_packet((flow, sequence), bytes, until, now, actions) {
                self.attempts.get_mut(attempt).requested_at[index] = Some(now);
            } else {
                self.attempts.get_mut(attempt).not_asked.insert(index);
            }
        }
    }

    /// Requests a packet of at most `bytes` bytes from the receiver of its flow. Returns `false` if
    /// that would exceed the receiver's consent.
    pub(super) fn request_packet(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        bytes: usize,
        until: Time,
        now: Time,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return false;
        };
        if !flow.helper.consent.try_consume(Bytes::from(bytes), now) {
            self.counters.requests_beyond_consent += 1;
            return false;
        }
        flow.helper.lateness.on_request(sequence.number(), now + answer_timeout(flow.round_trip), now);
        flow.record_request(sequence, now);
        self.counters.requests += 1;
        actions.push(Action::RequestPacket {
            flow: slot,
            sequence,
            repair_lifetime: until.saturating_since(now),
        });
        true
    }

    /// Returns the packets that the relay may request now for a decode attempt: index, flow and
    /// sequence number. Adds stored packets to the attempt, and marks those not to request.
    fn eligible_helpers(
        &mut self,
        attempt: AttemptId,
        now: Time,
    ) -> ArrayVec<(usize, FlowSlot, SequenceNumber), SOURCE_PACKETS_MAX> {
        let state = self.attempts.get(attempt);
        let (entries, bytes) = (state.entries.clone(), Bytes::from(self.max_packet_bytes(state.batch)));
        // Receivers that had reached their consent may have budget again.
        let excluded_before = core::mem::take(&mut self.attempts.get_mut(attempt).not_asked);
        let mut helpers = ArrayVec::new();
        for (index, entry) in entries.iter().enumerate() {
            let found = entry.flow.and_then(|flow| Some((flow, find_flow(&mut self.flows, flow)?)));
            let state = self.attempts.get_mut(attempt);
            let Some((slot, flow)) = found else {
                state.not_asked.insert(index);
                continue;
            };
            let stored = flow.active().and_then(|active| active.sources(entry.sequence).packet);
            let again_after = retry_interval(flow.round_trip);
            let requested_at = flow.active().and_then(|active| active.requested_at(entry.sequence));
            let is_requested_lately =
                requested_at.is_some_and(|requested_at| requested_at + again_after > now);
            let may_request = !is_requested_lately && state.may_request(index, again_after, now);
            if let Some(packet) = stored.filter(|packet| self.log.get(*packet, now).is_some()) {
                state.add_packet(index, packet);
            } else if may_request && flow.helper.quarantined {
                state.not_asked.insert(index);
            } else if may_request && flow.helper.consent.available(now) < bytes {
                self.counters.requests_beyond_consent += u64::from(!excluded_before.contains(index));
                state.not_asked.insert(index);
            } else if may_request {
                helpers.push((index, slot, entry.sequence));
            }
        }
        helpers
    }

    /// Returns the length of a batch's repair packets in bytes, an upper bound for its source
    /// packets. Returns 0 without repair packets.
    pub(super) fn max_packet_bytes(&self, batch: BatchRef) -> usize {
        self.batch(batch)
            .and_then(|batch| batch.repairs().next().map(|repair| repair.payload.bytes()))
            .unwrap_or(0)
    }

    /// Decodes the batch if its packets suffice, and sends the missing packets to their receivers.
    /// Returns `true` if the attempt ended.
    pub(super) fn try_decode(&mut self, attempt: AttemptId, now: Time, actions: &mut Vec<Action>) -> bool {
        let state = self.attempts.get(attempt);
        let batch = state.batch;
        let Some(known) = self.batch(batch) else {
            return false;
        };
        let repairs: ArrayVec<BatchRepair, REPAIR_PACKETS_MAX> =
            known.repairs().filter(|repair| self.log.get(repair.payload, now).is_some()).copied().collect();
        if state.missing_count() > repairs.len() {
            return false;
        }
        let ended = self.end_attempt(attempt);
        if let Some(batch) = self.batch_mut(batch) {
            batch.attempt = None;
        }
        match self.decode_missing(&ended, &repairs, now) {
            Some(restored) => {
                self.counters.decode_attempts_decoded += 1;
                self.deliver_decoded(&ended, &restored, now, actions);
            }
            None => self.counters.decode_attempts_inconsistent += 1,
        }
        self.attempts.recycle(ended);
        true
    }

    /// Decodes a batch and stores the restored packets, with their indices. Returns `None` if a
    /// packet or repair packet has expired, or if the inputs are inconsistent.
    fn decode_missing(
        &mut self,
        attempt: &DecodeAttempt,
        repairs: &[BatchRepair],
        now: Time,
    ) -> Option<ArrayVec<(usize, Handle), REPAIR_PACKETS_MAX>> {
        let recovered = self.decode_into_buffers(attempt, repairs, now)?;
        let packets = recovered.packets(&self.decoded);
        Some(packets.filter_map(|(index, packet)| Some((index, self.log.push(packet, now)?))).collect())
    }

    /// Decodes a batch into `self.decoded`. Returns `None` if an input has expired or the inputs
    /// are inconsistent.
    fn decode_into_buffers(
        &mut self,
        attempt: &DecodeAttempt,
        repairs: &[BatchRepair],
        now: Time,
    ) -> Option<RecoveredPackets> {
        self.work.decodings += 1;
        let mut sources: ArrayVec<Option<&[u8]>, SOURCE_PACKETS_MAX> =
            attempt.entries.iter().map(|_| None).collect();
        for (index, packet) in &attempt.answers {
            sources[*index] = Some(self.log.get(*packet, now)?);
        }
        let repairs: ArrayVec<Repair<'_>, REPAIR_PACKETS_MAX> = repairs
            .iter()
            .filter_map(|repair| {
                Some(Repair {
                    batch: BatchId::new(attempt.batch.number),
                    index: usize::from(repair.index),
                    source_packets: attempt.entries.len(),
                    length_symbol: repair.length_symbol,
                    payload: self.log.get(repair.payload, now)?,
                })
            })
            .collect();
        decode(self.engine, &sources, &repairs, &mut self.decoded).ok()
    }

    /// Stores the packets that a decode attempt restored, and sends each to its receiver if that
    /// misses it.
    fn deliver_decoded(
        &mut self,
        attempt: &DecodeAttempt,
        restored: &[(usize, Handle)],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        for (index, packet) in restored {
            let entry = attempt.entries[*index];
            if let Some(slot) = entry.flow {
                self.on_decoded((slot, entry.sequence), *packet, now, actions);
            }
        }
    }

    /// Stores a decoded packet, and sends it to its receiver if that still misses it.
    pub(super) fn on_decoded(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let flow = find_flow(&mut self.flows, slot);
        let Some(active) = flow.and_then(|flow| flow.active_mut()) else {
            return;
        };
        let (log, memory, holder) = (&self.log, &self.memory, active.memory.holder());
        active.add_packet(sequence, packet, |packet| {
            log.get(packet, now).is_none() || !memory.has_capacity(holder)
        });
        self.memory.update_charge(&mut active.memory);
        let may_be_repaired = active.repair_count(sequence) < REPAIRS_PER_PACKET_MAX;
        let missing = active.missing.get(sequence);
        // If the relay sent the flow's own repair packets, the receiver may still wait for others
        // of the block.
        let is_needed =
            |missing: &MissingPacket| missing.deadline > now && missing.stage != Stage::RepairSent;
        if may_be_repaired && missing.is_some_and(is_needed) {
            self.send_repair(slot, sequence, packet, RepairSource::Cooperative, now, actions);
        }
    }
}
