//! Repair packets of the flow itself, and packets for others.

use byway_units::Time;
use byway_wire::messages::{CooperativeRequest, InStreamRepair, Lost};
use byway_wire::{Alias, Ecn, Message, RangeSet};

use super::blocks::BlockRepair;
use super::delivering::Way;
use super::events::Delivery;
use super::receive_flow::ReceiveFlowId;
use super::{Agent, Flow};
use crate::limits::{PATIENCE_MAX, REQUESTS_MAX};
use crate::session::SessionId;

impl Agent {
    /// The flow that a relay calls so, if this agent receives it.
    pub(super) fn received_flow(&mut self, session: SessionId, alias: Alias) -> Option<ReceiveFlowId> {
        if let Some(Flow::Received(id)) = self.relay_of(session).and_then(|relay| relay.flow(alias)) {
            return Some(id);
        }
        self.counters.flows_unknown += 1;
        None
    }

    /// Takes a repair packet of a block.
    pub(super) fn in_stream_repair(&mut self, session: SessionId, repair: &InStreamRepair<'_>, now: Time) {
        let Some(id) = self.received_flow(session, repair.head.alias) else {
            return;
        };
        let Some(payload) = self.kept.push(repair.payload, now) else {
            return;
        };
        let flow = &mut self.receivers[id.0 as usize];
        let first = flow.full(repair.head.first_low);
        let Some(active) = flow.active_mut() else {
            return;
        };
        let (index, length_symbol) = (repair.head.place.index(), repair.head.length_symbol);
        active.blocks.add(first, repair.head.mask, BlockRepair { index, length_symbol, payload });
        self.try_blocks(id, now);
    }

    /// Restores whatever blocks can restore now.
    pub(super) fn try_blocks(&mut self, id: ReceiveFlowId, now: Time) {
        loop {
            let Some(active) = self.receivers[id.0 as usize].active_mut() else {
                return;
            };
            if active.blocks.is_empty() {
                return;
            }
            let Some(block) = active.blocks.take_ready(&active.kept, &self.kept, now) else {
                return;
            };
            self.work.decodings += 1;
            let restored = block.restore(self.engine, &active.kept, &mut self.kept, &mut self.decoded, now);
            for (sequence, packet) in restored {
                let mut coded = core::mem::take(&mut self.restored);
                coded.clear();
                coded.extend_from_slice(self.kept.get(packet, now).unwrap_or_default());
                let way = Way::new(Delivery::InStream, Ecn::NotCapable);
                self.repaired(id, sequence, &mut coded, way, now);
                self.restored = coded;
            }
        }
    }

    /// A relay asks for packets of this receiver's flow, for others.
    pub(super) fn cooperate(&mut self, session: SessionId, request: &CooperativeRequest<'_>, now: Time) {
        let Some(id) = self.received_flow(session, request.alias) else {
            return;
        };
        let asker = (session, request.alias);
        let until = now + request.patience.duration().min(PATIENCE_MAX);
        let mut not_here = RangeSet::new();
        let mut told_last = None;
        for low in request.ranges.numbers_low().take(REQUESTS_MAX) {
            self.work.numbers += 1;
            let flow = &mut self.receivers[id.0 as usize];
            let sequence = flow.full(low);
            let Some(active) = flow.active_mut() else {
                return;
            };
            let kept =
                active.kept.get(sequence.number()).filter(|packet| self.kept.get(*packet, now).is_some());
            if let Some(packet) = kept {
                self.answer(id, asker, sequence, packet, now);
                continue;
            }
            self.work.entries += active.requests.add(sequence, asker, until, now);
            let is_lost = active.is_lost(sequence) || active.has_lost_coded(sequence);
            let is_lost = is_lost && active.requests.tell(sequence);
            if is_lost && told_last.is_none_or(|last| last < sequence) && not_here.insert(sequence) {
                told_last = Some(sequence);
            }
        }
        if !not_here.is_empty() {
            let message = Lost { alias: request.alias, ranges: not_here.ranges() };
            self.sessions.say(session, &Message::Lost(message), now);
        }
    }
}
