//! Cooperative recovery at the receiver: in-stream decoding, and answers to requests for others'
//! repairs.

use byway_units::Time;
use byway_wire::messages::{CooperativeRefusal, CooperativeRequest, InStreamRepair};
use byway_wire::{Alias, Ecn, Message, RangeSet};

use super::blocks::BlockRepair;
use super::deliver::Arrival;
use super::events::Delivery;
use super::receive_flow::ReceiveFlowId;
use super::{Agent, Flow};
use crate::limits::{REPAIR_LIFETIME_MAX, REQUESTS_MAX};
use crate::session::SessionId;

impl Agent {
    /// Returns the received flow with this alias at a relay; counts an unknown flow if there is
    /// none.
    pub(super) fn flow_by_alias(&mut self, session: SessionId, alias: Alias) -> Option<ReceiveFlowId> {
        if let Some(Flow::Received(id)) = self.relay_of(session).and_then(|relay| relay.flow(alias)) {
            return Some(id);
        }
        self.counters.flows_unknown += 1;
        None
    }

    /// Handles an in-stream repair packet from a relay: adds it to its block, and decodes the
    /// blocks that are complete.
    pub(super) fn on_in_stream_repair(&mut self, session: SessionId, repair: &InStreamRepair<'_>, now: Time) {
        let Some(id) = self.flow_by_alias(session, repair.head.alias) else {
            return;
        };
        let Some(payload) = self.cooperation_buffer.push(repair.payload, now) else {
            return;
        };
        let flow = &mut self.receivers[id.0 as usize];
        let first = flow.full_sequence(repair.head.first_low);
        let Some(active) = flow.active_mut() else {
            return;
        };
        let (index, length_symbol) = (repair.head.repair_index.index(), repair.head.length_symbol);
        active.blocks.add(first, repair.head.mask, BlockRepair { index, length_symbol, payload });
        self.decode_blocks(id, now);
    }

    /// Decodes all blocks of a flow that have enough packets, and delivers the restored packets.
    pub(super) fn decode_blocks(&mut self, id: ReceiveFlowId, now: Time) {
        loop {
            let Some(active) = self.receivers[id.0 as usize].active_mut() else {
                return;
            };
            if active.blocks.is_empty() {
                return;
            }
            let Some(block) = active.blocks.pop_decodable(&active.buffered, &self.cooperation_buffer, now)
            else {
                return;
            };
            self.work.decodings += 1;
            let restored = block.restore(
                self.engine,
                &active.buffered,
                &mut self.cooperation_buffer,
                &mut self.decoded,
                now,
            );
            for (sequence, packet) in restored {
                let mut coded = core::mem::take(&mut self.restored);
                coded.clear();
                coded.extend_from_slice(self.cooperation_buffer.get(packet, now).unwrap_or_default());
                let arrival = Arrival::new(Delivery::InStream, Ecn::NotCapable);
                self.on_coded_bytes(id, sequence, &mut coded, arrival, now);
                self.restored = coded;
            }
        }
    }

    /// Handles a relay's request for packets of this receiver's flow, which other flows' repairs
    /// need. Sends those that are stored, stores requests for missing ones, and refuses those that
    /// count as lost.
    pub(super) fn on_cooperative_request(
        &mut self,
        session: SessionId,
        request: &CooperativeRequest<'_>,
        now: Time,
    ) {
        let Some(id) = self.flow_by_alias(session, request.alias) else {
            return;
        };
        let requester = (session, request.alias);
        let until = now + request.repair_lifetime.duration().min(REPAIR_LIFETIME_MAX);
        let mut unavailable = RangeSet::new();
        let mut last_refused = None;
        for low in request.ranges.numbers_low().take(REQUESTS_MAX) {
            self.work.numbers += 1;
            let flow = &mut self.receivers[id.0 as usize];
            let sequence = flow.full_sequence(low);
            let Some(active) = flow.active_mut() else {
                return;
            };
            let stored = active
                .buffered
                .get(sequence.number())
                .filter(|packet| self.cooperation_buffer.get(*packet, now).is_some());
            if let Some(packet) = stored {
                self.send_cooperative_answer(id, requester, sequence, packet, now);
                continue;
            }
            self.work.entries += active.requests.add(sequence, requester, until, now);
            let is_lost = active.is_lost(sequence) || active.has_lost_coded(sequence);
            let is_lost = is_lost && active.requests.mark_notified(sequence);
            if is_lost && last_refused.is_none_or(|last| last < sequence) && unavailable.insert(sequence) {
                last_refused = Some(sequence);
            }
        }
        if !unavailable.is_empty() {
            let message = CooperativeRefusal { alias: request.alias, ranges: unavailable.ranges() };
            self.sessions.queue_message(session, &Message::CooperativeRefusal(message), now);
        }
    }
}
