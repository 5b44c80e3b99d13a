//! Rounds that fail alone: several batches and in-stream blocks are solved together.
//!
//! When more packets of a batch are lost than it has repair packets, other batches and blocks that cover the same
//! packets are drawn in, step by step, as far as the limits go. What their receivers have is asked for; what nobody
//! has is an unknown. Blocks take part because each flow's blocks use a row of coefficients of their own.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use arrayvec::ArrayVec;
use byway_code::{JOINT_UNKNOWNS_MAX, JointDecoder, Repair, SOURCE_PACKETS_MAX, Source};
use byway_units::{BatchId, Duration, Time};
use byway_wire::SequenceNumber;
use siphasher::sip::SipHasher13;

use super::action::Action;
use super::batches::Entry;
use super::flow::{BatchRef, FlowSlot};
use super::rounds::RoundSlot;
use super::{Egress, admitted, find};
use crate::limits::{
    INITIAL_ROUND_TRIP, STUCK_ROUNDS_MAX, SUSPECTS_MIN, WIDENED_BATCHES_MAX, WIDENED_BLOCKS_MAX,
};
use crate::parts::packet_log::Handle;

/// A packet, named by its flow; one of a flow without a receiver here has no name and cannot be had.
type Name = (FlowSlot, SequenceNumber);

/// An in-stream block of a flow, by its first packet.
type BlockName = (FlowSlot, SequenceNumber);

/// What is solved together.
#[derive(Debug, Default)]
struct Cluster {
    unknowns: ArrayVec<Name, JOINT_UNKNOWNS_MAX>,
    batches: ArrayVec<BatchRef, WIDENED_BATCHES_MAX>,
    blocks: ArrayVec<BlockName, WIDENED_BLOCKS_MAX>,
    /// Digest of all that is at hand of it. The same equations restore the same packets.
    state: SipHasher13,
}

impl Cluster {
    /// Adds an unknown; `false` if there is no room.
    fn add(&mut self, name: Name) -> bool {
        self.unknowns.contains(&name) || self.unknowns.try_push(name).is_ok()
    }

    fn number(&self, name: Name) -> Option<usize> {
        self.unknowns.iter().position(|known| *known == name)
    }

    /// Takes the members of a batch or block into the digest, and its repair packets at hand.
    fn note(&mut self, members: &Members, repairs: impl Iterator<Item = (u8, Handle)>) {
        for Member { name, packet, .. } in members {
            (name, packet).hash(&mut self.state);
        }
        repairs.for_each(|repair| repair.hash(&mut self.state));
    }
}

/// A packet of a batch or block.
#[derive(Clone, Copy, Debug)]
struct Member {
    name: Option<Name>,
    /// The packet itself, if it is at hand.
    packet: Option<Handle>,
    /// Whether the batch's own round has asked for it lately.
    is_asked: bool,
}

type Members = ArrayVec<Member, SOURCE_PACKETS_MAX>;

impl Egress {
    /// Lets the next input have its share of attempts to solve several batches together.
    pub(crate) const fn allow_attempts(&mut self) {
        self.rounds.allow_attempts();
    }

    /// Notes that a round may not succeed alone, and tries with others.
    pub(super) fn widen(&mut self, round: RoundSlot, now: Time, actions: &mut Vec<Action>) {
        let state = self.rounds.get(round);
        if !state.is_stuck(self.repairs_of(state.batch, now)) {
            self.fetch_for(round, now);
            return;
        }
        if !self.stuck.contains(&round) {
            if self.stuck.len() == STUCK_ROUNDS_MAX {
                self.stuck.remove(0);
            }
            self.stuck.push(round);
            self.counters.rounds_widened += 1;
        }
        self.solve_around(round, now, actions);
        if self.stuck.contains(&round) {
            self.fetch_for(round, now);
        }
    }

    /// Tries the rounds again that did not succeed alone: something arrived.
    pub(super) fn retry_stuck(&mut self, now: Time, actions: &mut Vec<Action>) {
        for place in (0..self.stuck.len()).rev() {
            if let Some(round) = self.stuck.get(place).copied() {
                self.solve_around(round, now, actions);
            }
        }
    }

    /// How many repair packets of a batch are here.
    pub(super) fn repairs_of(&self, batch: BatchRef, now: Time) -> usize {
        self.batch(batch).map_or(0, |known| {
            known.repairs().filter(|repair| self.log.get(repair.payload, now).is_some()).count()
        })
    }

    fn solve_around(&mut self, round: RoundSlot, now: Time, actions: &mut Vec<Action>) {
        self.work.entries += self.rounds.get(round).entries.len() as u64;
        if !self.may_be_helped(round) || !self.rounds.begin_attempt() {
            return;
        }
        let cluster = self.draw(round, now, actions);
        let state = Some(cluster.state.finish());
        if self.rounds.get(round).unsolved == state {
            return;
        }
        self.work.solves += 1;
        let solved = self.solve(&cluster, now);
        if solved.is_empty() {
            self.rounds.get_mut(round).unsolved = state;
            return;
        }
        for (name, packet) in solved {
            self.counters.solved_together += 1;
            self.found(name, packet, now, actions);
        }
        for batch in cluster.batches {
            self.finish(batch, now, actions);
        }
    }

    /// Whether something beside the round's own batch covers a packet that it lacks, or will.
    fn may_be_helped(&self, round: RoundSlot) -> bool {
        let lost = self.rounds.get(round).entries.iter().filter_map(|entry| {
            let active = self.flow(entry.flow?)?.active()?;
            active.is_lost(entry.sequence).then_some((active, entry.sequence))
        });
        lost.into_iter().any(|(active, sequence)| {
            let is_in_two = active.source(sequence).batches[1].is_some();
            let blocks = &active.blocks;
            is_in_two || blocks.covering(sequence).is_some() || blocks.expected(sequence).is_some()
        })
    }

    /// Draws in what may help, beginning with a round.
    fn draw(&mut self, round: RoundSlot, now: Time, actions: &mut Vec<Action>) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.batches.push(self.rounds.get(round).batch);
        let (mut batches_seen, mut blocks_seen, mut unknowns_seen) = (0, 0, 0);
        loop {
            while let Some(batch) = cluster.batches.get(batches_seen).copied() {
                batches_seen += 1;
                let members = self.members_of_batch(batch, now);
                self.work.entries += members.len() as u64;
                cluster.note(&members, self.repairs_of_batch(batch, now));
                self.name_unknowns(&members, &mut cluster, now, actions);
            }
            while let Some(block) = cluster.blocks.get(blocks_seen).copied() {
                blocks_seen += 1;
                let members = self.members_of_block(block, now);
                self.work.entries += members.len() as u64;
                cluster.note(&members, self.repairs_of_block(block, now));
                self.name_unknowns(&members, &mut cluster, now, actions);
            }
            let Some((slot, sequence)) = cluster.unknowns.get(unknowns_seen).copied() else {
                return cluster;
            };
            unknowns_seen += 1;
            self.add_covers(slot, sequence, &mut cluster);
            self.ask_ahead(slot, sequence, now, actions);
        }
    }

    /// Asks for the packets that the block of a lost packet will cover, when its repair packet is yet to come: then
    /// nothing has to be waited for after that.
    fn ask_ahead(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time, actions: &mut Vec<Action>) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        let Some((first, span)) = active.blocks.expected(sequence).filter(|_| active.is_lost(sequence))
        else {
            return;
        };
        for mate in (0..span).map(|offset| (slot, first.plus(offset))) {
            if self.at_hand(mate, now).is_none() {
                self.ask_mate(mate, now, actions);
            }
        }
    }

    /// Adds the batches and the block that cover a packet which is lost.
    fn add_covers(&self, slot: FlowSlot, sequence: SequenceNumber, cluster: &mut Cluster) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        if !active.is_lost(sequence) {
            return;
        }
        for batch in active.source(sequence).batches.into_iter().flatten() {
            if !cluster.batches.contains(&batch) && cluster.batches.try_push(batch).is_err() {
                return;
            }
        }
        if let Some(first) = active.blocks.first_covering(sequence) {
            let block = (slot, first);
            if !cluster.blocks.contains(&block) && cluster.blocks.try_push(block).is_err() {}
        }
    }

    /// Makes unknowns of the members that are not at hand, and asks for those that somebody has.
    fn name_unknowns(
        &mut self,
        members: &Members,
        cluster: &mut Cluster,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        for Member { name, packet, is_asked } in members {
            if packet.is_some() {
                continue;
            }
            if let Some(name) = name.filter(|name| cluster.add(*name) && !is_asked) {
                self.ask_mate(name, now, actions);
            }
        }
    }

    /// Asks at once for the rest of a new batch, if several of its flows lost their last packets: they are likely to
    /// have lost these too, and then every packet of the others is needed.
    pub(super) fn ask_early(&mut self, entries: &[Entry], now: Time, actions: &mut Vec<Action>) {
        let names = entries.iter().filter_map(|entry| Some((entry.flow?, entry.sequence)));
        let names: ArrayVec<Name, SOURCE_PACKETS_MAX> = names.collect();
        let suspects = names.iter().filter(|name| self.is_suspect(**name)).count();
        if suspects < SUSPECTS_MIN {
            return;
        }
        for name in names {
            if !self.is_suspect(name) && self.at_hand(name, now).is_none() {
                self.ask_mate(name, now, actions);
            }
        }
    }

    /// Whether the flow is known to have lost this packet or the one before.
    fn is_suspect(&self, (slot, sequence): Name) -> bool {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let before = SequenceNumber::new(sequence.number().saturating_sub(1));
        active.is_some_and(|active| active.is_lost(sequence) || active.is_lost(before))
    }

    /// Asks a receiver for a packet that it should have, for a wider round.
    fn ask_mate(&mut self, (slot, sequence): Name, now: Time, actions: &mut Vec<Action>) {
        let Some(flow) = find(&mut self.flows, slot) else {
            return;
        };
        let again_after = Self::ask_again_after(flow.round_trip);
        let patience = flow.patience;
        let (barred, bytes) = (flow.barred, flow.packet_bytes);
        let Some(active) = flow.active_mut() else {
            return;
        };
        if barred || active.is_lost(sequence) {
            return;
        }
        if active.asked(sequence).is_some_and(|asked| asked + again_after > now) {
            return;
        }
        let is_asked = self.request((slot, sequence), usize::from(bytes), now + patience, now, actions);
        if is_asked && let Some(active) = admitted(&mut self.flows, &self.memory, slot) {
            active.add_asked(sequence, now);
            self.memory.settle(&mut active.memory);
        }
    }

    fn members_of_batch(&self, batch: BatchRef, now: Time) -> Members {
        let Some(batches) = self.batches.get(usize::from(batch.ingress)) else {
            return Members::new();
        };
        let Some(known) = batches.get(batch.number) else {
            return Members::new();
        };
        let round = known.round.map(|round| self.rounds.get(round));
        batches
            .entries(known.entries)
            .enumerate()
            .map(|(place, entry)| {
                let answered = round.and_then(|round| round.answer(place));
                let name = entry.flow.map(|flow| (flow, entry.sequence));
                let packet = answered.or_else(|| name.and_then(|name| self.at_hand(name, now)));
                let again_after = Self::ask_again_after(self.round_trip_of(entry.flow));
                let is_asked = round.is_some_and(|round| !round.may_ask(place, again_after, now));
                Member { name, packet, is_asked }
            })
            .collect()
    }

    fn members_of_block(&self, (slot, first): BlockName, now: Time) -> Members {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let Some(mask) = active.and_then(|active| active.blocks.mask_of(first)) else {
            return Members::new();
        };
        mask.offsets()
            .map(|offset| {
                let name = (slot, first.plus(u64::from(offset)));
                Member { name: Some(name), packet: self.at_hand(name, now), is_asked: false }
            })
            .collect()
    }

    /// Returns the repair packets of a batch that are at hand, with their index.
    fn repairs_of_batch(&self, batch: BatchRef, now: Time) -> impl Iterator<Item = (u8, Handle)> {
        let repairs = self.batch(batch).into_iter().flat_map(|known| known.repairs).flatten();
        let repairs = repairs.map(|repair| (repair.index, repair.payload));
        repairs.filter(move |(_, payload)| self.log.get(*payload, now).is_some())
    }

    /// Returns the repair packets of a block that are at hand, with their index.
    fn repairs_of_block(&self, (slot, first): BlockName, now: Time) -> impl Iterator<Item = (u8, Handle)> {
        let active = self.flow(slot).and_then(|flow| flow.active()).into_iter();
        let repairs = active.flat_map(move |active| active.blocks.repairs_of(first));
        let repairs = repairs.map(|repair| (repair.place.index(), repair.payload));
        repairs.filter(move |(_, payload)| self.log.get(*payload, now).is_some())
    }

    pub(super) fn round_trip_of(&self, slot: Option<FlowSlot>) -> Duration {
        slot.and_then(|slot| self.flow(slot)).map_or(INITIAL_ROUND_TRIP, |flow| flow.round_trip)
    }

    /// The packet, if it is kept here.
    fn at_hand(&self, (slot, sequence): Name, now: Time) -> Option<Handle> {
        let packet = self.flow(slot)?.active()?.source(sequence).packet?;
        self.log.get(packet, now).map(|_| packet)
    }

    /// Solves the cluster as far as it can be.
    fn solve(&mut self, cluster: &Cluster, now: Time) -> Vec<(Name, Handle)> {
        let mut joint = self.joint.take().expect("the decoder is put back after each use");
        joint.restart();
        for batch in &cluster.batches {
            let members = self.members_of_batch(*batch, now);
            let known = self.batch(*batch);
            for repair in known.iter().flat_map(super::batches::Batch::repairs) {
                let (index, symbol) = (repair.index, repair.length_symbol);
                self.add_equation(&mut joint, cluster, &members, (index, symbol, repair.payload), now);
            }
        }
        for (slot, first) in &cluster.blocks {
            let members = self.members_of_block((*slot, *first), now);
            let active = self.flow(*slot).and_then(|flow| flow.active());
            for repair in active.iter().flat_map(|active| active.blocks.repairs_of(*first)) {
                let (index, symbol) = (repair.place.index(), repair.length_symbol);
                self.add_equation(&mut joint, cluster, &members, (index, symbol, repair.payload), now);
            }
        }
        let solved = joint.solve();
        let kept = solved.filter_map(|(unknown, packet)| {
            Some((*cluster.unknowns.get(unknown)?, self.log.push(packet, now)?))
        });
        let kept = kept.collect();
        self.joint = Some(joint);
        kept
    }

    /// Adds a repair packet, unless it covers something that has no number.
    fn add_equation(
        &self,
        joint: &mut JointDecoder,
        cluster: &Cluster,
        members: &Members,
        (index, length_symbol, payload): (u8, [u8; 2], Handle),
        now: Time,
    ) {
        let mut sources: ArrayVec<Source<'_>, SOURCE_PACKETS_MAX> = ArrayVec::new();
        for Member { name, packet, .. } in members {
            let known = packet.and_then(|packet| self.log.get(packet, now)).map(Source::Known);
            let unknown = name.and_then(|name| cluster.number(name)).map(Source::Unknown);
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
        // One that does not fit, or cannot be, is left out: the others may do.
        let _ = joint.add(&repair, &sources);
    }

    /// Ends the round of a batch whose packets were found, or decodes what is left of it.
    fn finish(&mut self, batch: BatchRef, now: Time, actions: &mut Vec<Action>) {
        let Some(round) = self.round_under_way(batch) else {
            return;
        };
        for (place, member) in self.members_of_batch(batch, now).into_iter().enumerate() {
            if let Some(packet) = member.packet {
                self.rounds.get_mut(round).take(place, packet);
            }
        }
        self.complete(round, now, actions);
    }
}
