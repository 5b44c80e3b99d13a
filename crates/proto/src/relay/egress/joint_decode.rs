//! Joint decoding: solves several batches and in-stream blocks together if a decode attempt fails
//! alone.
//!
//! If a batch lacks more packets than it has repair packets, the relay adds other batches and
//! blocks that cover the same packets, step by step within limits. It requests packets from the
//! receivers that have them. The unknowns are the packets that it still lacks. Blocks can take part
//! because the blocks of each flow use their own row of coefficients.

use alloc::vec::Vec;
use core::hash::{Hash as _, Hasher as _};

use arrayvec::ArrayVec;
use byway_code::{JOINT_UNKNOWNS_MAX, JointDecoder, Repair, SOURCE_PACKETS_MAX, Source};
use byway_units::{BatchId, Duration, Time};
use byway_wire::SequenceNumber;
use siphasher::sip::SipHasher13;

use super::action::Action;
use super::batches::BatchEntry;
use super::decode_attempts::AttemptId;
use super::flow::{BatchRef, FlowSlot};
use super::{Egress, find_active, find_flow};
use crate::limits::{
    INITIAL_ROUND_TRIP, JOINT_DECODE_BATCHES_MAX, JOINT_DECODE_BLOCKS_MAX, SUSPECTS_MIN,
    UNDECODABLE_ATTEMPTS_MAX,
};
use crate::parts::packet_buffer::Handle;
use crate::parts::retry::retry_interval;

/// Identifier of a packet: its flow and its sequence number. A packet of a flow without a receiver
/// at this relay has none, and the relay cannot request it.
type PacketId = (FlowSlot, SequenceNumber);

/// Identifier of a flow's in-stream block, by its first packet.
type BlockId = (FlowSlot, SequenceNumber);

/// Equation system of a joint decode: unknown packets, and the batches and blocks that cover them.
#[derive(Debug, Default)]
struct EquationSystem {
    unknowns: ArrayVec<PacketId, JOINT_UNKNOWNS_MAX>,
    batches: ArrayVec<BatchRef, JOINT_DECODE_BATCHES_MAX>,
    blocks: ArrayVec<BlockId, JOINT_DECODE_BLOCKS_MAX>,
    /// Digest of all members and repair packets. If it equals the last one, another joint decode
    /// would restore nothing new.
    digest: SipHasher13,
}

impl EquationSystem {
    /// Adds an unknown packet, unless the system has it. Returns `false` if the system is full.
    fn add(&mut self, id: PacketId) -> bool {
        self.unknowns.contains(&id) || self.unknowns.try_push(id).is_ok()
    }

    fn index_of(&self, id: PacketId) -> Option<usize> {
        self.unknowns.iter().position(|known| *known == id)
    }

    /// Adds the members of a batch or block, and its stored repair packets, to the digest.
    fn update_digest(&mut self, members: &Members, repairs: impl Iterator<Item = (u8, Handle)>) {
        for Member { id, packet, .. } in members {
            (id, packet).hash(&mut self.digest);
        }
        repairs.for_each(|repair| repair.hash(&mut self.digest));
    }
}

/// A packet that a batch or block of the equation system covers.
#[derive(Clone, Copy, Debug)]
struct Member {
    id: Option<PacketId>,
    /// Handle of the packet, if the relay has it.
    packet: Option<Handle>,
    /// True if the batch's own decode attempt needs no new request for it: its receiver misses it,
    /// or a request is recent.
    is_requested: bool,
}

type Members = ArrayVec<Member, SOURCE_PACKETS_MAX>;

impl Egress {
    /// Permits the next input of the relay a limited number of joint decodes.
    pub(crate) const fn allow_joint_decodes(&mut self) {
        self.attempts.allow_joint_decodes();
    }

    /// Starts a joint decode for an attempt that lacks more packets than its batch has repair
    /// packets. If that fails or is not needed, fetches copies from the ingress relay.
    pub(super) fn expand(&mut self, attempt: AttemptId, now: Time, actions: &mut Vec<Action>) {
        let state = self.attempts.get(attempt);
        if !state.is_undecodable(self.repair_packet_count(state.batch, now)) {
            self.fetch_missing(attempt, now);
            return;
        }
        if !self.joint.undecodable.contains(&attempt) {
            if self.joint.undecodable.len() == UNDECODABLE_ATTEMPTS_MAX {
                self.joint.undecodable.remove(0);
            }
            self.joint.undecodable.push(attempt);
            self.counters.decode_attempts_expanded += 1;
        }
        self.solve_jointly(attempt, now, actions);
        if self.joint.undecodable.contains(&attempt) {
            self.fetch_missing(attempt, now);
        }
    }

    /// Retries the joint decode of each undecodable attempt, because a repair packet or an answer
    /// arrived.
    pub(super) fn retry_undecodable(&mut self, now: Time, actions: &mut Vec<Action>) {
        for index in (0..self.joint.undecodable.len()).rev() {
            if let Some(attempt) = self.joint.undecodable.get(index).copied() {
                self.solve_jointly(attempt, now, actions);
            }
        }
    }

    /// Returns the number of a batch's repair packets that the relay stores.
    pub(super) fn repair_packet_count(&self, batch: BatchRef, now: Time) -> usize {
        self.batch(batch).map_or(0, |known| {
            known.repairs().filter(|repair| self.log.get(repair.payload, now).is_some()).count()
        })
    }

    fn solve_jointly(&mut self, attempt: AttemptId, now: Time, actions: &mut Vec<Action>) {
        self.work.entries += self.attempts.get(attempt).entries.len() as u64;
        if !self.may_be_jointly_decodable(attempt) || !self.attempts.begin_joint_decode() {
            return;
        }
        let system = self.collect(attempt, now, actions);
        let digest = Some(system.digest.finish());
        if self.attempts.get(attempt).unsolvable == digest {
            return;
        }
        self.work.solves += 1;
        let restored = self.solve(&system, now);
        if restored.is_empty() {
            self.attempts.get_mut(attempt).unsolvable = digest;
            return;
        }
        for (id, packet) in restored {
            self.counters.jointly_decoded += 1;
            self.on_decoded(id, packet, now, actions);
        }
        for batch in system.batches {
            self.finish_attempt(batch, now, actions);
        }
    }

    /// True if a packet of the attempt that its receiver misses is in a second batch, or in a
    /// stored or expected block.
    fn may_be_jointly_decodable(&self, attempt: AttemptId) -> bool {
        let lost = self.attempts.get(attempt).entries.iter().filter_map(|entry| {
            let active = self.flow(entry.flow?)?.active()?;
            active.is_lost(entry.sequence).then_some((active, entry.sequence))
        });
        lost.into_iter().any(|(active, sequence)| {
            let is_in_two_batches = active.sources(sequence).batches[1].is_some();
            let blocks = &active.blocks;
            is_in_two_batches || blocks.covering(sequence).is_some() || blocks.expected(sequence).is_some()
        })
    }

    /// Collects the equation system of a decode attempt: from each unknown packet to its other
    /// batches and block, and from these to further unknowns.
    fn collect(&mut self, attempt: AttemptId, now: Time, actions: &mut Vec<Action>) -> EquationSystem {
        let mut system = EquationSystem::default();
        system.batches.push(self.attempts.get(attempt).batch);
        let (mut batches_seen, mut blocks_seen, mut unknowns_seen) = (0, 0, 0);
        loop {
            while let Some(batch) = system.batches.get(batches_seen).copied() {
                batches_seen += 1;
                let members = self.members_of_batch(batch, now);
                self.work.entries += members.len() as u64;
                system.update_digest(&members, self.repairs_of_batch(batch, now));
                self.add_unknowns(&members, &mut system, now, actions);
            }
            while let Some(block) = system.blocks.get(blocks_seen).copied() {
                blocks_seen += 1;
                let members = self.members_of_block(block, now);
                self.work.entries += members.len() as u64;
                system.update_digest(&members, self.repairs_of_block(block, now));
                self.add_unknowns(&members, &mut system, now, actions);
            }
            let Some((slot, sequence)) = system.unknowns.get(unknowns_seen).copied() else {
                return system;
            };
            unknowns_seen += 1;
            self.add_covers(slot, sequence, &mut system);
            self.request_ahead(slot, sequence, now, actions);
        }
    }

    /// Requests the packets that the next block of a lost packet will cover, before that block's
    /// repair packet arrives. This saves a round trip.
    fn request_ahead(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        let Some((first, span)) = active.blocks.expected(sequence).filter(|_| active.is_lost(sequence))
        else {
            return;
        };
        for id in (0..span).map(|offset| (slot, first.plus(offset))) {
            if self.stored_packet(id, now).is_none() {
                self.request_for_joint_decode(id, now, actions);
            }
        }
    }

    /// Adds the batches and the block that cover a packet to the equation system, if its receiver
    /// misses the packet.
    fn add_covers(&self, slot: FlowSlot, sequence: SequenceNumber, system: &mut EquationSystem) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        if !active.is_lost(sequence) {
            return;
        }
        for batch in active.sources(sequence).batches.into_iter().flatten() {
            if !system.batches.contains(&batch) && system.batches.try_push(batch).is_err() {
                return;
            }
        }
        if let Some(first) = active.blocks.first_covering(sequence) {
            let block = (slot, first);
            if !system.blocks.contains(&block) && system.blocks.try_push(block).is_err() {}
        }
    }

    /// Adds the members that the relay lacks to the equation system as unknowns, and requests those
    /// that a receiver may have.
    fn add_unknowns(
        &mut self,
        members: &Members,
        system: &mut EquationSystem,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        for Member { id, packet, is_requested } in members {
            if packet.is_some() {
                continue;
            }
            if let Some(id) = id.filter(|id| system.add(*id) && !is_requested) {
                self.request_for_joint_decode(id, now, actions);
            }
        }
    }

    /// Requests the other packets of a new batch at once, if several of its flows lost their last
    /// packets. These flows have probably lost their packets of this batch too, and a decode then
    /// needs all others.
    pub(super) fn request_early(&mut self, entries: &[BatchEntry], now: Time, actions: &mut Vec<Action>) {
        let ids = entries.iter().filter_map(|entry| Some((entry.flow?, entry.sequence)));
        let ids: ArrayVec<PacketId, SOURCE_PACKETS_MAX> = ids.collect();
        let suspects = ids.iter().filter(|id| self.is_suspect(**id)).count();
        if suspects < SUSPECTS_MIN {
            return;
        }
        for id in ids {
            if !self.is_suspect(id) && self.stored_packet(id, now).is_none() {
                self.request_for_joint_decode(id, now, actions);
            }
        }
    }

    /// Returns the flows of a batch whose receivers miss its packet or the previous one.
    pub(super) fn suspects(&self, batch: BatchRef) -> ArrayVec<FlowSlot, SOURCE_PACKETS_MAX> {
        let mut suspects = ArrayVec::new();
        if let Some(batches) = self.batches.get(usize::from(batch.ingress))
            && let Some(known) = batches.get(batch.number)
        {
            let ids = batches.entries(known.entries).filter_map(|entry| Some((entry.flow?, entry.sequence)));
            suspects.extend(ids.filter(|id| self.is_suspect(*id)).map(|(flow, _)| flow));
        }
        suspects
    }

    /// True if the flow's receiver misses this packet or the previous one.
    fn is_suspect(&self, (slot, sequence): PacketId) -> bool {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let previous = SequenceNumber::new(sequence.number().saturating_sub(1));
        active.is_some_and(|active| active.is_lost(sequence) || active.is_lost(previous))
    }

    /// Requests a packet from its receiver for a joint decode, unless the receiver is quarantined,
    /// misses it too, or was asked recently.
    fn request_for_joint_decode(&mut self, (slot, sequence): PacketId, now: Time, actions: &mut Vec<Action>) {
        let Some(flow) = find_flow(&mut self.flows, slot) else {
            return;
        };
        let again_after = retry_interval(flow.round_trip);
        let repair_lifetime = flow.repair_lifetime;
        let (quarantined, bytes) = (flow.helper.quarantined, flow.packet_bytes);
        let Some(active) = flow.active_mut() else {
            return;
        };
        if quarantined || active.is_lost(sequence) {
            return;
        }
        if active.requested_at(sequence).is_some_and(|requested_at| requested_at + again_after > now) {
            return;
        }
        let is_requested =
            self.request_packet((slot, sequence), usize::from(bytes), now + repair_lifetime, now, actions);
        if is_requested && let Some(active) = find_active(&mut self.flows, &self.memory, slot) {
            active.record_requested(sequence, now);
            self.memory.update_charge(&mut active.memory);
        }
    }

    fn members_of_batch(&self, batch: BatchRef, now: Time) -> Members {
        let Some(batches) = self.batches.get(usize::from(batch.ingress)) else {
            return Members::new();
        };
        let Some(known) = batches.get(batch.number) else {
            return Members::new();
        };
        let attempt = known.attempt.map(|attempt| self.attempts.get(attempt));
        batches
            .entries(known.entries)
            .enumerate()
            .map(|(index, entry)| {
                let available = attempt.and_then(|attempt| attempt.available_packet(index));
                let id = entry.flow.map(|flow| (flow, entry.sequence));
                let packet = available.or_else(|| id.and_then(|id| self.stored_packet(id, now)));
                let again_after = retry_interval(self.round_trip_of(entry.flow));
                let is_requested =
                    attempt.is_some_and(|attempt| !attempt.may_request(index, again_after, now));
                Member { id, packet, is_requested }
            })
            .collect()
    }

    fn members_of_block(&self, (slot, first): BlockId, now: Time) -> Members {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let Some(mask) = active.and_then(|active| active.blocks.mask_of(first)) else {
            return Members::new();
        };
        mask.offsets()
            .map(|offset| {
                let id = (slot, first.plus(u64::from(offset)));
                Member { id: Some(id), packet: self.stored_packet(id, now), is_requested: false }
            })
            .collect()
    }

    /// Returns the stored repair packets of a batch, with their indices.
    fn repairs_of_batch(&self, batch: BatchRef, now: Time) -> impl Iterator<Item = (u8, Handle)> {
        let repairs = self.batch(batch).into_iter().flat_map(|known| known.repairs).flatten();
        let repairs = repairs.map(|repair| (repair.index, repair.payload));
        repairs.filter(move |(_, payload)| self.log.get(*payload, now).is_some())
    }

    /// Returns the stored repair packets of a block, with their indices.
    fn repairs_of_block(&self, (slot, first): BlockId, now: Time) -> impl Iterator<Item = (u8, Handle)> {
        let active = self.flow(slot).and_then(|flow| flow.active()).into_iter();
        let repairs = active.flat_map(move |active| active.blocks.repairs_of(first));
        let repairs = repairs.map(|repair| (repair.repair_index.index(), repair.payload));
        repairs.filter(move |(_, payload)| self.log.get(*payload, now).is_some())
    }

    pub(super) fn round_trip_of(&self, slot: Option<FlowSlot>) -> Duration {
        slot.and_then(|slot| self.flow(slot)).map_or(INITIAL_ROUND_TRIP, |flow| flow.round_trip)
    }

    /// Returns the handle of the packet, if the relay stores it.
    fn stored_packet(&self, (slot, sequence): PacketId, now: Time) -> Option<Handle> {
        let packet = self.flow(slot)?.active()?.sources(sequence).packet?;
        self.log.get(packet, now).map(|_| packet)
    }

    /// Solves the equation system as far as possible, stores the restored packets, and returns
    /// their identifiers and handles.
    fn solve(&mut self, system: &EquationSystem, now: Time) -> Vec<(PacketId, Handle)> {
        let mut joint = self.joint.decoder.take().expect("the decoder is put back after each use");
        joint.restart();
        for batch in &system.batches {
            let members = self.members_of_batch(*batch, now);
            let known = self.batch(*batch);
            for repair in known.iter().flat_map(super::batches::Batch::repairs) {
                let (index, symbol) = (repair.index, repair.length_symbol);
                self.add_equation(&mut joint, system, &members, (index, symbol, repair.payload), now);
            }
        }
        for (slot, first) in &system.blocks {
            let members = self.members_of_block((*slot, *first), now);
            let active = self.flow(*slot).and_then(|flow| flow.active());
            for repair in active.iter().flat_map(|active| active.blocks.repairs_of(*first)) {
                let (index, symbol) = (repair.repair_index.index(), repair.length_symbol);
                self.add_equation(&mut joint, system, &members, (index, symbol, repair.payload), now);
            }
        }
        let restored = joint.solve();
        let stored = restored.filter_map(|(unknown, packet)| {
            Some((*system.unknowns.get(unknown)?, self.log.push(packet, now)?))
        });
        let stored = stored.collect();
        self.joint.decoder = Some(joint);
        stored
    }

    /// Adds a repair packet to the decoder as an equation. It is left out if it covers a packet
    /// that is neither stored nor an unknown of the system.
    fn add_equation(
        &self,
        joint: &mut JointDecoder,
        system: &EquationSystem,
        members: &Members,
        (index, length_symbol, payload): (u8, [u8; 2], Handle),
        now: Time,
    ) {
        let mut sources: ArrayVec<Source<'_>, SOURCE_PACKETS_MAX> = ArrayVec::new();
        for Member { id, packet, .. } in members {
            let known = packet.and_then(|packet| self.log.get(packet, now)).map(Source::Known);
            let unknown = id.and_then(|id| system.index_of(id)).map(Source::Unknown);
            let Some(source) = known.or(unknown) else {
                return;
            };
            sources.push(source);
        }
        let Some(payload) = self.log.get(payload, now) else {
            return;
        };
        let repair = Repair {
            batch: BatchId::new(0),
            index: usize::from(index),
            source_packets: sources.len(),
            length_symbol,
            payload,
        };
        // An equation that does not fit, or is inconsistent, is left out: the others may suffice.
        let _ = joint.add(&repair, &sources);
    }

    /// Adds the stored packets of a batch to its decode attempt, and decodes the batch if the
    /// repair packets now suffice for the rest.
    fn finish_attempt(&mut self, batch: BatchRef, now: Time, actions: &mut Vec<Action>) {
        let Some(attempt) = self.active_attempt(batch) else {
            return;
        };
        for (index, member) in self.members_of_batch(batch, now).into_iter().enumerate() {
            if let Some(packet) = member.packet {
                self.attempts.get_mut(attempt).add_packet(index, packet);
            }
        }
        self.try_decode(attempt, now, actions);
    }
}
