//! Feedback of receivers: NACKs, answers to cooperative requests, and refusals.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::SOURCE_PACKETS_MAX;
use byway_units::{Duration, Time};
use byway_wire::{FlowKey, SequenceNumber};

use super::super::tenant_traffic::ByteShares;
use super::action::Action;
use super::decode_attempts::AttemptId;
use super::flow::{BatchRef, FlowSlot};
use super::losses::count_nacked;
use super::missing::{MissingPacket, Stage};
use super::nacked_ranges::NackedRange;
use super::relayed_copies::CopySource;
use super::{Egress, Holder, find_active, find_flow};
use crate::limits::{NACK_REACH, OPEN_ENDED_BACKLOG_MAX, QUARANTINED_MAX, RANGES_MAX, REPAIR_LIFETIME_MAX};
use crate::parts::packet_buffer::Handle;
use crate::policy::repairs;

/// Holders of the flows that asked for a helper's packet, which two batches cover at most.
type Requesters = ArrayVec<Holder, { 2 * SOURCE_PACKETS_MAX }>;

/// NACK of a flow, with full sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NackRequest<'a> {
    pub(crate) flow: FlowSlot,
    /// First and last sequence number of each range.
    pub(crate) ranges: &'a [(SequenceNumber, SequenceNumber)],
    /// Ingress relays that may have copies of the packets, for a pulled flow or for one with
    /// adaptive redundancy.
    pub(crate) sources: &'a [CopySource],
    /// True if an ingress relay adapts the redundancy of the flow's batches to the losses.
    pub(crate) is_adaptive: bool,
    pub(crate) open_from: Option<SequenceNumber>,
    /// True if the packets are certainly lost: the receiver has received a later packet, or answers
    /// a confirm.
    pub(crate) certain: bool,
    /// True if the queueing delay of the receiver's direct path grows.
    pub(crate) queue_grows: bool,
    /// Repair lifetime: time for which the receiver has a use for repairs.
    pub(crate) repair_lifetime: Duration,
}

impl Egress {
    /// Handles a NACK: repairs the packets that the relay can repair now, and records the others
    /// until repair packets arrive.
    pub(crate) fn on_nack(&mut self, request: &NackRequest<'_>, now: Time, actions: &mut Vec<Action>) {
        let Some(flow) = self.flow_mut(request.flow) else {
            return;
        };
        if !repairs(flow.service) {
            self.counters.refused_service += 1;
            return;
        }
        flow.repair_lifetime = request.repair_lifetime;
        let is_pulled = flow.is_pulled(now);
        flow.activate(now);
        for (first, last) in request.ranges {
            let count = last.since(*first).unwrap_or_default();
            let is_known_by_nack =
                if is_pulled { count <= NACK_REACH } else { self.knows_by_nacks(request, *last, now) };
            if let Some(active) = self.flow_mut(request.flow).and_then(|flow| flow.active_mut())
                && is_known_by_nack
            {
                let oldest = SequenceNumber::new(last.number().saturating_sub(OPEN_ENDED_BACKLOG_MAX));
                active.extend_known(if is_pulled { *first } else { oldest.max(*first) }, *last);
            }
        }
        self.watch_idle(request.flow, now);
        // All ranges are recorded before the first repair: the cheapest repair depends on the other
        // missing packets.
        let ranges: ArrayVec<_, RANGES_MAX> = request
            .ranges
            .iter()
            .take(RANGES_MAX)
            .filter_map(|range| self.clamp_to_reach(request.flow, *range))
            .collect();
        for range in ranges.iter().filter(|_| request.is_adaptive) {
            count_nacked(self, request.flow, *range, request.queue_grows, now);
        }
        let recorded: ArrayVec<_, RANGES_MAX> =
            ranges.into_iter().filter_map(|range| self.record_range(request, range, now)).collect();
        for range in &recorded {
            self.repair_range(request.flow, *range, now, actions);
            if is_pulled {
                self.pull_range(request, *range, now);
            }
        }
        if let Some(from) = request.open_from {
            self.on_open_ended_nack(request, from, now, actions);
        }
        if !is_pulled {
            self.fetch_uncovered(request, &recorded, now);
        }
        self.watch_expiry(request.flow, now + request.repair_lifetime);
    }

    /// Handles the NACKs of a flow again that await repair packets, because its service has
    /// changed: these may never come, but copies can be fetched from `sources`.
    pub(crate) fn repeat_nacks(
        &mut self,
        slot: FlowSlot,
        (sources, is_adaptive): (&[CopySource], bool),
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = find_active(&mut self.flows, &self.memory, slot) else {
            return;
        };
        let before = active.nacked.bytes();
        let awaited = active.nacked.drain();
        active.memory.on_resize(before, 0);
        self.memory.update_charge(&mut active.memory);
        let mut ranges: Vec<NackedRange> = awaited.into_iter().collect();
        for missing in active.missing.waiting() {
            let MissingPacket { sequence, deadline, certain, .. } = *missing;
            let continues = |range: &&mut NackedRange| {
                range.last.next() == sequence && (range.deadline, range.certain) == (deadline, certain)
            };
            if let Some(range) = ranges.last_mut().filter(continues) {
                range.last = sequence;
            } else {
                let (first, last) = (sequence, sequence);
                ranges.push(NackedRange { first, last, deadline, certain, nacked_at: now, accepted: 0 });
            }
        }
        for range in ranges.into_iter().filter(|range| range.deadline > now) {
            let request = NackRequest {
                flow: slot,
                ranges: &[(range.first, range.last)],
                sources,
                is_adaptive,
                open_from: None,
                certain: range.certain,
                queue_grows: false,
                repair_lifetime: range.deadline.saturating_since(now),
            };
            self.on_nack(&request, now, actions);
        }
    }

    /// Records a range that a NACK requests. Returns the part for which the relay may have repair
    /// packets.
    ///
    /// It does not examine sequence numbers one by one if a NACK named them within the last round
    /// trip, or if the relay has no repair packets near them.
    fn record_range(
        &mut self,
        request: &NackRequest<'_>,
        (first, last): (SequenceNumber, SequenceNumber),
        now: Time,
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let (until, certain) = (now + request.repair_lifetime, request.certain);
        let mut range = NackedRange { first, last, deadline: until, certain, nacked_at: now, accepted: 0 };
        self.counters.packets_nacked += range.count();
        let flow = self.flow(request.flow)?;
        let active = flow.active()?;
        if active.nacked.nacked_recently(&range, flow.round_trip) {
            self.counters.refused_early += range.count();
            return None;
        }
        let known = active.known_range((first, last));
        for sequence in known.into_iter().flat_map(|(first, last)| numbers(first, last)) {
            range.accepted += u64::from(self.record_missing(request, sequence, now));
        }
        let active = find_active(&mut self.flows, &self.memory, request.flow)?;
        let displaced = active.add_nacked(range);
        self.memory.update_charge(&mut active.memory);
        self.counters.refused_capacity += displaced;
        known
    }

    /// Repairs the packets of a range that are recorded as missing.
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
            self.repair_recorded(slot, sequence, now, actions);
            from = sequence.next();
        }
    }

    /// Returns the part of a range within [`NACK_REACH`] of the flow's highest sequence number.
    /// Counts the rest as refused.
    fn clamp_to_reach(
        &mut self,
        slot: FlowSlot,
        (first, last): (SequenceNumber, SequenceNumber),
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let highest = self.flow(slot)?.active()?.highest;
        let lowest = SequenceNumber::new(highest.number().saturating_sub(NACK_REACH));
        let (from, to) = (first.max(lowest), last.min(highest.plus(NACK_REACH)));
        let requested = last.since(first).map_or(0, |distance| distance + 1);
        let in_reach = to.since(from).map_or(0, |distance| distance + 1);
        self.counters.packets_nacked += requested - in_reach;
        self.counters.refused_range += requested - in_reach;
        (in_reach > 0).then_some((from, to))
    }

    /// Records a packet as missing if the relay has a copy or repair packet for it, or may fetch
    /// its copy. Returns `true` in that case.
    fn record_missing(&mut self, request: &NackRequest<'_>, sequence: SequenceNumber, now: Time) -> bool {
        self.work.numbers += 1;
        let is_repairable = self
            .flow(request.flow)
            .and_then(|flow| Some((flow.is_pulled(now), flow.active()?)))
            .is_some_and(|(is_pulled, active)| is_pulled || active.is_repairable(sequence));
        if is_repairable {
            self.mark_missing(request.flow, sequence, (now + request.repair_lifetime, request.certain), now);
        }
        is_repairable
    }

    /// Records a packet as missing until its deadline, unless the relay has just forwarded it and
    /// it may be in flight.
    pub(super) fn mark_missing(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        (until, certain): (Time, bool),
        now: Time,
    ) {
        if self.is_in_flight(slot, sequence, now) {
            return;
        }
        let Some(active) = find_active(&mut self.flows, &self.memory, slot) else {
            return;
        };
        active.accept_nacked(sequence, now);
        let is_added = active.add_missing(sequence, until, certain);
        self.memory.update_charge(&mut active.memory);
        self.counters.refused_capacity += u64::from(!is_added);
    }

    /// Repairs a missing packet, unless an earlier repair of it may still be in flight.
    pub(super) fn repair_recorded(
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
            Stage::RepairSent | Stage::InStream if !missing.is_overdue(round_trip, now) => return,
            Stage::RepairSent | Stage::Confirming => missing.enter_stage(Stage::Waiting, now),
            Stage::Waiting | Stage::InStream | Stage::Cooperating => {}
        }
        self.repair(slot, sequence, now, actions);
    }

    /// Handles an answer to a cooperative request: a receiver returns a packet of its own flow.
    /// Adds it to the decode attempts that need it, and decodes those that now can.
    ///
    /// The caller has compared it with [`Egress::expected_digest`].
    pub(crate) fn on_cooperative_answer(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        self.record_answer(slot, sequence, now);
        // A packet that the relay already stores needs no second copy.
        let mut packet = self.store_helper_packet(slot, sequence, coded, now);
        let mut requesters = Requesters::new();
        for batch in self.batches_covering(slot, sequence) {
            let Some(attempt) = self.active_attempt(batch) else {
                continue;
            };
            let state = self.attempts.get_mut(attempt);
            let Some(index) = batch_index(state.entries.iter(), slot, sequence) else {
                continue;
            };
            if (state.requested_at[index].is_none() && packet.is_none()) || state.available.contains(index) {
                continue;
            }
            if packet.is_none() {
                packet = self.store_packet(coded, now);
            }
            let Some(handle) = packet else {
                break;
            };
            if self.attempts.get_mut(attempt).add_packet(index, handle) {
                let flows = self.attempts.get(attempt).requesters();
                requesters.extend(flows.filter_map(|flow| Some(self.flow(flow)?.holder)));
                self.try_decode(attempt, now, actions);
            }
        }
        if packet.is_some() {
            self.counters.answers += 1;
            self.charge_answer(requesters, (slot, sequence), coded.len());
            self.retry_undecodable(now, actions);
        } else {
            self.counters.answers_unsolicited += 1;
        }
    }

    /// Charges a helper's packet to the flows that asked for it, in equal parts: those whose
    /// receivers requested packets of its batches.
    ///
    /// A joint decode requests packets of other batches and of blocks, too. These are charged to
    /// the flows that lost packets of the helper packet's own batches, or else to its own flow,
    /// whose block is decoded.
    fn charge_answer(
        &mut self,
        mut requesters: Requesters,
        (slot, sequence): (FlowSlot, SequenceNumber),
        bytes: usize,
    ) {
        if requesters.is_empty() {
            for batch in self.batches_covering(slot, sequence) {
                let flows = self.suspects(batch).into_iter();
                requesters.extend(flows.filter_map(|flow| Some(self.flow(flow)?.holder)));
            }
        }
        if requesters.is_empty() {
            requesters.extend(self.flow(slot).map(|flow| flow.holder));
        }
        let mut shares = ByteShares::new(bytes as u64, requesters.len() as u64);
        for requester in requesters {
            self.memory.count_returned(requester, shares.next_share(1));
        }
    }

    /// Adds a copy that the relay fetched from an ingress relay to the decode attempts that lack
    /// it, and decodes if they now can.
    pub(super) fn add_fetched_copy(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        for batch in self.batches_covering(slot, sequence) {
            let Some(attempt) = self.active_attempt(batch) else {
                continue;
            };
            let state = self.attempts.get_mut(attempt);
            let index = batch_index(state.entries.iter(), slot, sequence);
            if index.is_some_and(|index| state.add_packet(index, packet)) {
                self.try_decode(attempt, now, actions);
            }
        }
        self.retry_undecodable(now, actions);
    }

    /// Stores an answer that the relay requested for a joint decode. Returns `None` if there was no
    /// recent request, or if the relay has the packet.
    fn store_helper_packet(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        now: Time,
    ) -> Option<Handle> {
        let active = self.flow(slot)?.active()?;
        active.requested_at(sequence).filter(|requested_at| now < *requested_at + REPAIR_LIFETIME_MAX)?;
        if active.packet(sequence).is_some_and(|packet| self.log.get(packet, now).is_some()) {
            return None;
        }
        let packet = self.store_packet(coded, now)?;
        let active = find_flow(&mut self.flows, slot)?.active_mut()?;
        let (log, memory, holder) = (&self.log, &self.memory, active.memory.holder());
        active.add_packet(sequence, packet, |packet| {
            log.get(packet, now).is_none() || !memory.has_capacity(holder)
        });
        self.memory.update_charge(&mut active.memory);
        Some(packet)
    }

    /// Records the time of a receiver's answer or refusal in the statistics of its late answers.
    fn record_answer(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time) {
        if let Some(flow) = find_flow(&mut self.flows, slot) {
            flow.helper.lateness.on_answer(sequence.number(), now);
        }
    }

    /// Handles a refusal: a receiver has lost packets that the relay requested. Marks them as lost
    /// in their decode attempts, and expands these. The receiver may still answer after its own
    /// repair.
    pub(crate) fn on_cooperative_refusal(
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
            self.record_answer(slot, sequence, now);
            // Expanding one attempt may end others by a joint decode, so each is looked up anew.
            for batch in self.batches_covering(slot, sequence) {
                let Some(attempt) = self.active_attempt(batch) else {
                    continue;
                };
                let state = self.attempts.get_mut(attempt);
                let index = batch_index(state.entries.iter(), slot, sequence);
                if let Some(index) = index.filter(|index| !state.lost.contains(*index)) {
                    state.lost.insert(index);
                    self.expand(attempt, now, actions);
                }
            }
        }
    }

    /// Returns a batch entry with the packet's digest, to verify a receiver's answer, and the peer
    /// number of the batch's ingress relay. Returns `None` without a digest.
    pub(crate) fn expected_digest(
        &self,
        slot: FlowSlot,
        sequence: SequenceNumber,
    ) -> Option<(u16, super::BatchEntry)> {
        self.batches_covering(slot, sequence).into_iter().find_map(|batch| {
            let batches = self.batches.get(usize::from(batch.ingress))?;
            let mut entries = batches.entries(batches.get(batch.number)?.entries);
            let entry = entries.find(|entry| entry.flow == Some(slot) && entry.sequence == sequence)?;
            entry.digest.map(|_| (batch.ingress, *entry))
        })
    }

    /// Quarantines a flow whose receiver returned a false packet. The relay requests no more
    /// packets of this flow, even if the receiver registers again.
    ///
    /// The receiver's other flows stay trusted. Otherwise a sender that sends different packets to
    /// the receiver and to the ingress relay could have an honest receiver quarantined for all
    /// flows.
    pub(crate) fn quarantine(&mut self, slot: FlowSlot) {
        self.counters.answers_false += 1;
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        flow.helper.quarantined = true;
        let key = flow.key;
        if !self.quarantined.contains(&key) {
            if self.quarantined.len() == QUARANTINED_MAX {
                self.quarantined.pop_front();
            }
            self.quarantined.push_back(key);
        }
    }

    /// True if the flow is in quarantine, registered or not. Beyond [`QUARANTINED_MAX`] flows, the
    /// relay forgets the oldest.
    pub(crate) fn is_quarantined(&self, key: FlowKey) -> bool {
        self.quarantined.contains(&key)
    }

    /// Expands the low bits of a sequence number of the flow to the full number.
    pub(crate) fn full_sequence(&self, slot: FlowSlot, low: u32) -> SequenceNumber {
        self.flow(slot).map_or(SequenceNumber::new(u64::from(low)), |flow| flow.full_sequence(low))
    }

    fn batches_covering(&self, slot: FlowSlot, sequence: SequenceNumber) -> ArrayVec<BatchRef, 2> {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let batches = active.map(|active| active.sources(sequence).batches).unwrap_or_default();
        batches.into_iter().flatten().collect()
    }

    /// Returns a batch's active decode attempt, if it has one.
    pub(super) fn active_attempt(&self, batch: BatchRef) -> Option<AttemptId> {
        self.batch(batch)?.attempt
    }
}

/// Returns the sequence numbers from `first` to `last`.
fn numbers(first: SequenceNumber, last: SequenceNumber) -> impl Iterator<Item = SequenceNumber> {
    (first.number()..=last.number()).map(SequenceNumber::new)
}

/// Returns the index of a packet among a batch's entries; `None` if the batch does not cover it.
pub(super) fn batch_index<'a>(
    mut entries: impl Iterator<Item = &'a super::BatchEntry>,
    slot: FlowSlot,
    sequence: SequenceNumber,
) -> Option<usize> {
    entries.position(|entry| entry.flow == Some(slot) && entry.sequence == sequence)
}
