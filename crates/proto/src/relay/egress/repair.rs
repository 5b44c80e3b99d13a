//! Choosing the cheapest repair, and carrying it out.

use alloc::boxed::Box;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{REPAIR_PACKETS_MAX, Recovered, Repair, SOURCE_PACKETS_MAX, decode};
use byway_units::{BatchId, Bytes, Time};
use byway_wire::{Ecn, SequenceNumber};

use super::Holder;
use super::action::{Action, Given};
use super::arrivals::entries_of;
use super::batches::BatchRepair;
use super::flow::{BatchRef, FlowSlot};
use super::missing::{MissingPacket, Stage};
use super::requests::place_of;
use super::review::answers_within;
use super::rounds::{Round, RoundSlot};
use super::{Egress, admitted, find};
use crate::limits::REPAIRS_PER_PACKET_MAX;
use crate::parts::packet_log::Handle;

impl Egress {
    /// Repairs a missing packet in the cheapest way there is now.
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
        if active.repairs_of(sequence) >= REPAIRS_PER_PACKET_MAX {
            self.counters.refused_repeated += 1;
            return;
        }
        let source = active.source(sequence);
        if let Some(packet) = source.packet.filter(|packet| self.log.get(*packet, now).is_some()) {
            let is_decoded = source.batches[0].is_some() && !missing.is_fetched;
            let given = if is_decoded { Given::Cooperative } else { Given::Cached };
            self.give(slot, sequence, packet, given, now, actions);
        } else if missing.stage == Stage::InStream || !self.repair_in_stream(slot, sequence, now, actions) {
            self.cooperate(slot, sequence, now, actions);
        }
    }

    /// Sends a packet to its receiver, if its account allows.
    pub(super) fn give(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        packet: Handle,
        given: Given,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        if !self.charge(slot, sequence, packet.bytes(), Stage::Given, now) {
            return;
        }
        if matches!(given, Given::Cooperative) {
            self.settle_restored(slot, sequence, now);
        }
        let counters = &mut self.counters;
        let (packets, bytes) = match given {
            Given::Cooperative => (&mut counters.cooperative, &mut counters.cooperative_bytes),
            Given::Cached => (&mut counters.cached, &mut counters.cached_bytes),
            Given::Forwarded => (&mut counters.forwarded, &mut counters.forwarded_bytes),
        };
        *packets += 1;
        *bytes += packet.bytes() as u64;
        let ecn = Ecn::NotCapable;
        actions.push(Action::Give { flow: slot, sequence, packet, given, ecn });
    }

    /// Takes a repair's bytes from the flow's budget and notes what becomes of the packet.
    fn charge(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        bytes: usize,
        stage: Stage,
        now: Time,
    ) -> bool {
        let is_noted = admitted(&mut self.flows, &self.memory, slot);
        if is_noted.is_some_and(|active| !active.may_repair(sequence, now)) {
            // Of a repair that is not noted, nobody could tell that it is not the first.
            self.counters.refused_room += 1;
            return false;
        }
        let Some(flow) = self.flow_mut(slot) else {
            return false;
        };
        if !flow.repair_budget.take(Bytes::from(bytes), now) {
            self.counters.refused_budget += 1;
            return false;
        }
        if let Some(active) = admitted(&mut self.flows, &self.memory, slot) {
            active.add_repair(sequence, now);
            self.memory.settle(&mut active.memory);
            if let Some(missing) = active.missing.get_mut(sequence) {
                missing.enter(stage, now);
                missing.is_repaired = true;
            }
        }
        true
    }

    /// Sends repair packets of the flow's own block, if they suffice for all that is missing in it.
    pub(super) fn repair_in_stream(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some((needed, bytes)) = self.own_repairs_needed(slot, sequence, now) else {
            return false;
        };
        if !self.charge(slot, sequence, bytes, Stage::InStream, now) {
            return true;
        }
        self.settle_restored(slot, sequence, now);
        let active = find(&mut self.flows, slot).and_then(|flow| flow.active_mut());
        let Some(blocks) = active.map(|active| &mut active.blocks) else {
            return false;
        };
        let Some(block) = blocks.send(sequence, needed) else {
            return false;
        };
        self.block_sent = Some((slot, block.first, now));
        for repair in blocks.unsent(&block).take(needed) {
            self.counters.in_stream += 1;
            self.counters.in_stream_bytes += repair.payload.bytes() as u64;
            actions.push(Action::InStream {
                flow: slot,
                first: block.first,
                mask: block.mask,
                place: repair.place,
                length_symbol: repair.length_symbol,
                payload: repair.payload,
            });
        }
        true
    }

    /// How many more repair packets of a packet's block restore all that is missing in it, and their bytes: none
    /// if those that were sent just now for another packet do. `None` if they cannot.
    fn own_repairs_needed(
        &self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        now: Time,
    ) -> Option<(usize, usize)> {
        let active = self.flow(slot)?.active()?;
        let block = active.blocks.covering(sequence)?;
        let asked = active.missing.within(block.first, block.last());
        let mut lost =
            asked.filter(|missing| missing.stage != Stage::Given && block.covers(missing.sequence)).count();
        if let Some(open) = active.open {
            let covered = block.mask.offsets().map(|offset| block.first.plus(u64::from(offset)));
            lost = lost.max(covered.filter(|sequence| open.covers(*sequence)).count());
        }
        let repairs = active.blocks.repairs(block);
        let held = repairs.filter(|repair| self.log.get(repair.payload, now).is_some()).count();
        let needed = lost.saturating_sub(block.sent());
        if lost > held || (needed == 0 && self.block_sent != Some((slot, block.first, now))) {
            return None;
        }
        let unsent = active.blocks.unsent(block).take(needed);
        Some((needed, unsent.map(|repair| repair.payload.bytes()).sum()))
    }

    /// Repairs a packet for which others were asked with what has come here since, if that is enough.
    pub(super) fn overtake(
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

    /// Begins or joins a cooperative round for the packet.
    fn cooperate(&mut self, slot: FlowSlot, sequence: SequenceNumber, now: Time, actions: &mut Vec<Action>) {
        let Some(active) = self.flow(slot).and_then(|flow| flow.active()) else {
            return;
        };
        let (batches, holder) = (active.source(sequence).batches, active.memory.holder());
        let Some(until) = active.missing.get(sequence).map(|missing| missing.until) else {
            return;
        };
        for batch in batches.into_iter().flatten() {
            let Some(round) = self.round_of(batch, holder) else {
                continue;
            };
            self.rounds.extend(round, now);
            let state = self.rounds.get_mut(round);
            let Some(place) = place_of(state.entries.iter(), slot, sequence) else {
                continue;
            };
            state.wanted.add(place);
            self.rounds.extend(round, until);
            self.enter(slot, sequence, Stage::Cooperating, now);
            self.ask(round, now, actions);
            if !self.complete(round, now, actions) {
                self.widen(round, now, actions);
            }
            return;
        }
    }

    /// The round under way for a batch, begun if need be and if the flow that asks may take its memory.
    fn round_of(&mut self, batch: BatchRef, holder: Holder) -> Option<RoundSlot> {
        let batches = self.batches.get_mut(usize::from(batch.ingress))?;
        let known = batches.get(batch.number)?;
        if let Some(round) = known.round {
            return Some(round);
        }
        let entries = entries_of(batches.entries(known.entries));
        if entries.is_empty() {
            return None;
        }
        let has_memory = self.memory.take(holder, Round::BYTES);
        let round = has_memory.then(|| self.rounds.begin(Round::new(holder, batch, entries))).flatten();
        if round.is_none() {
            self.memory.give_back(holder, if has_memory { Round::BYTES } else { 0 });
            self.counters.rounds_refused += 1;
        } else {
            self.counters.rounds += 1;
            batches.get_mut(batch.number)?.round = round;
        }
        round
    }

    /// Ends a round.
    pub(super) fn end_round(&mut self, slot: RoundSlot) -> Box<Round> {
        let round = self.rounds.end(slot);
        self.memory.give_back(round.holder, Round::BYTES);
        self.stuck.retain(|stuck| *stuck != slot);
        round
    }

    fn enter(&mut self, slot: FlowSlot, sequence: SequenceNumber, stage: Stage, now: Time) {
        let active = find(&mut self.flows, slot).and_then(|flow| flow.active_mut());
        if let Some(missing) = active.and_then(|active| active.missing.get_mut(sequence)) {
            missing.enter(stage, now);
        }
    }

    /// Asks the receivers of the batch's other flows for their packets, if enough of them may be asked.
    fn ask(&mut self, slot: RoundSlot, now: Time, actions: &mut Vec<Action>) {
        let willing = self.willing(slot, now);
        let round = self.rounds.get(slot);
        if round.gone() > self.repairs_due(round.batch, now) {
            return;
        }
        let (until, bytes) = (round.until, self.longest_of(round.batch));
        for (place, flow, sequence) in willing {
            // Entries of one batch that name one flow twice may have been more than it consents to.
            if self.request((flow, sequence), bytes, until, now, actions) {
                self.rounds.get_mut(slot).asked[place] = Some(now);
            } else {
                self.rounds.get_mut(slot).withheld.add(place);
            }
        }
    }

    /// Asks a receiver for a packet of so many bytes at most; whether it consents.
    pub(super) fn request(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        bytes: usize,
        until: Time,
        now: Time,
        actions: &mut Vec<Action>,
    ) -> bool {
        let Some(flow) = find(&mut self.flows, slot) else {
            return false;
        };
        if !flow.consent.take(Bytes::from(bytes), now) {
            self.counters.requests_beyond_consent += 1;
            return false;
        }
        flow.lateness.asked(sequence.number(), now + answers_within(flow.round_trip), now);
        flow.note_request(sequence, now);
        self.counters.requests += 1;
        actions.push(Action::Ask { flow: slot, sequence, patience: until.saturating_since(now) });
        true
    }

    /// The places of a round whose receivers may be asked now; takes what is at hand, and notes who is not to be asked.
    fn willing(
        &mut self,
        slot: RoundSlot,
        now: Time,
    ) -> ArrayVec<(usize, FlowSlot, SequenceNumber), SOURCE_PACKETS_MAX> {
        let round = self.rounds.get(slot);
        let (entries, bytes) = (round.entries.clone(), Bytes::from(self.longest_of(round.batch)));
        // Whoever had given enough may give again.
        let withheld = core::mem::take(&mut self.rounds.get_mut(slot).withheld);
        let mut willing = ArrayVec::new();
        for (place, entry) in entries.iter().enumerate() {
            let found = entry.flow.and_then(|flow| Some((flow, find(&mut self.flows, flow)?)));
            let round = self.rounds.get_mut(slot);
            let Some((name, flow)) = found else {
                round.withheld.add(place);
                continue;
            };
            let kept = flow.active().and_then(|active| active.source(entry.sequence).packet);
            let again_after = Self::ask_again_after(flow.round_trip);
            let asked = flow.active().and_then(|active| active.asked(entry.sequence));
            let asked_lately = asked.is_some_and(|asked| asked + again_after > now);
            let may_be_asked = !asked_lately && round.may_ask(place, again_after, now);
            if let Some(packet) = kept.filter(|packet| self.log.get(*packet, now).is_some()) {
                round.take(place, packet);
            } else if may_be_asked && flow.barred {
                round.withheld.add(place);
            } else if may_be_asked && flow.consent.available(now) < bytes {
                self.counters.requests_beyond_consent += u64::from(!withheld.contains(place));
                round.withheld.add(place);
            } else if may_be_asked {
                willing.push((place, name, entry.sequence));
            }
        }
        willing
    }

    /// The bytes of the longest packet of a batch: those of its repair packets.
    pub(super) fn longest_of(&self, batch: BatchRef) -> usize {
        self.batch(batch)
            .and_then(|batch| batch.repairs().next().map(|repair| repair.payload.bytes()))
            .unwrap_or(0)
    }

    /// Decodes the batch as soon as what is at hand suffices, and gives everybody what they miss; whether the round
    /// is over.
    pub(super) fn complete(&mut self, slot: RoundSlot, now: Time, actions: &mut Vec<Action>) -> bool {
        let round = self.rounds.get(slot);
        let batch = round.batch;
        let Some(known) = self.batch(batch) else {
            return false;
        };
        let repairs: ArrayVec<BatchRepair, REPAIR_PACKETS_MAX> =
            known.repairs().filter(|repair| self.log.get(repair.payload, now).is_some()).copied().collect();
        if round.short() > repairs.len() {
            return false;
        }
        let round = self.end_round(slot);
        if let Some(batch) = self.batch_mut(batch) {
            batch.round = None;
        }
        match self.restore(&round, &repairs, now) {
            Some(restored) => {
                self.counters.rounds_decoded += 1;
                self.hand_out(&round, &restored, now, actions);
            }
            None => self.counters.rounds_inconsistent += 1,
        }
        self.rounds.recycle(round);
        true
    }

    /// Decodes the packets that are not at hand; `None` if something that went in is false.
    fn restore(
        &mut self,
        round: &Round,
        repairs: &[BatchRepair],
        now: Time,
    ) -> Option<ArrayVec<(usize, Handle), REPAIR_PACKETS_MAX>> {
        let recovered = self.decode(round, repairs, now)?;
        let packets = recovered.packets(&self.decoded);
        Some(packets.filter_map(|(place, packet)| Some((place, self.log.push(packet, now)?))).collect())
    }

    /// Decodes into the buffers kept for that.
    fn decode(&mut self, round: &Round, repairs: &[BatchRepair], now: Time) -> Option<Recovered> {
        self.work.decodings += 1;
        let mut sources: ArrayVec<Option<&[u8]>, SOURCE_PACKETS_MAX> =
            round.entries.iter().map(|_| None).collect();
        for (place, packet) in &round.answers {
            sources[*place] = Some(self.log.get(*packet, now)?);
        }
        let repairs: ArrayVec<Repair<'_>, REPAIR_PACKETS_MAX> = repairs
            .iter()
            .filter_map(|repair| {
                Some(Repair {
                    batch: BatchId::new(round.batch.number),
                    index: usize::from(repair.index),
                    source_packets: round.entries.len(),
                    length_symbol: repair.length_symbol,
                    payload: self.log.get(repair.payload, now)?,
                })
            })
            .collect();
        decode(self.engine, &sources, &repairs, &mut self.decoded).ok()
    }

    /// Keeps what was restored, and sends it to whoever misses it.
    fn hand_out(
        &mut self,
        round: &Round,
        restored: &[(usize, Handle)],
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        for (place, packet) in restored {
            let entry = round.entries[*place];
            if let Some(slot) = entry.flow {
                self.found((slot, entry.sequence), *packet, now, actions);
            }
        }
    }

    /// Keeps a packet that was restored, and gives it to its receiver if that misses it.
    pub(super) fn found(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let flow = find(&mut self.flows, slot);
        let Some(active) = flow.and_then(|flow| flow.active_mut()) else {
            return;
        };
        let (log, memory, holder) = (&self.log, &self.memory, active.memory.holder());
        active.add_packet(sequence, packet, |packet| {
            log.get(packet, now).is_none() || !memory.has_room(holder)
        });
        self.memory.settle(&mut active.memory);
        let may_be_repaired = active.repairs_of(sequence) < REPAIRS_PER_PACKET_MAX;
        let missed = active.missing.get(sequence);
        // Where the flow's own repair packets were sent, the receiver may still wait for others of their block.
        let is_missed = |missing: &MissingPacket| missing.until > now && missing.stage != Stage::Given;
        if may_be_repaired && missed.is_some_and(is_missed) {
            self.give(slot, sequence, packet, Given::Cooperative, now, actions);
        }
    }
}
