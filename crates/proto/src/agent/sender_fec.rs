//! Sender FEC: in-stream repair packets that the sender makes itself, instead of sending copies.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::{BlockShape, Message, SequenceNumber, Service};

use super::send_flow::{SendFlow, SendFlowId};
use super::settings::Duplication;
use super::{Agent, Flow};
use crate::limits::IN_STREAM_OVERHEAD;
use crate::outbox::Priority;
use crate::parts::block_encoder::BlockEncoder;
use crate::policy::block_wait;

impl SendFlow {
    /// Returns the shape of the sender FEC's blocks; `None` if the flow does not use sender FEC.
    pub(super) fn sender_fec_shape(&self) -> Option<BlockShape> {
        let makes_repairs = matches!(self.settings.duplication, Duplication::SenderFec)
            && self.settings.service == Service::Coding;
        self.settings.rates.in_stream.filter(|_| makes_repairs)
    }
}

impl Agent {
    /// Adds the packet that was just sealed in the scratch buffer to the flow's FEC block, and
    /// closes a full block. Returns false if the flow does not use sender FEC.
    pub(super) fn add_to_fec_block(&mut self, id: SendFlowId, sequence: SequenceNumber, now: Time) -> bool {
        let engine = self.engine;
        let flow = &mut self.senders[id.0 as usize];
        let Some(shape) = flow.sender_fec_shape() else {
            return false;
        };
        // Packets that were sent by relays alone are in no block.
        if flow.fec_block.as_ref().is_some_and(|block| block.is_beyond(sequence)) {
            self.close_fec_block(id, now);
        }
        let flow = &mut self.senders[id.0 as usize];
        // No batch crosses these blocks, so those of all flows may start at the same offset.
        let block = flow.fec_block.get_or_insert_with(|| Box::new(BlockEncoder::new(engine, shape, 0)));
        let wait = block_wait(flow.settings.latency_budget);
        if block.add(sequence, &self.scratch, wait, now) {
            self.close_fec_block(id, now);
        } else {
            self.plan_registration(Flow::Sent(id));
        }
        true
    }

    /// Returns the time at which the flow's FEC block is closed even if it is not full; `None`
    /// without a block.
    pub(super) fn fec_block_due(&self, flow: u32) -> Option<Time> {
        self.senders.get(flow)?.fec_block.as_ref()?.due()
    }

    /// Sends the repair packets of the flow's FEC block to the ingress relay, or suppresses them if
    /// the relay or the uplink cannot accept any. Starts the next block.
    pub(super) fn close_fec_block(&mut self, id: SendFlowId, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        let Some(block) = flow.fec_block.as_mut() else {
            return;
        };
        let in_use = flow.registrations.in_use();
        let path = flow.settings.paths.get(in_use).filter(|_| flow.registrations.is_accepted(in_use));
        let index = path.and_then(|path| self.relay_indices.get(&path.ingress).copied());
        if let (Some(index), Some(alias)) = (index, flow.registrations.alias()) {
            let load = self.uplink.load.measured().with_extras;
            let relay = &mut self.relays[index];
            let is_sustained = relay.capacity_probe.sustains(load);
            if !is_sustained && relay.capacity_probe.may_probe(now) {
                self.uplink_probing.over_capacity = Some(index);
            }
            self.sessions.use_session(relay.session, now);
            for repair in block.repairs(alias).take(block.scaled_repair_count()) {
                let payload_bytes = repair.payload.len() + IN_STREAM_OVERHEAD;
                let session = self.sessions.get_mut(relay.session);
                let fits_mtu = session.is_none_or(|session| session.fits_path_mtu(payload_bytes, now));
                if !relay.accepts_copies(now) || !is_sustained || !fits_mtu {
                    self.counters.sender_fec_suppressed += 1;
                    continue;
                }
                self.counters.sender_fec_repairs += 1;
                relay.on_sent(payload_bytes, now);
                let message = Message::InStreamRepair(repair);
                self.sessions.send_alone(relay.session, &message, Priority::Scavenger, now);
                self.sessions.on_sent(relay.session, payload_bytes, now);
            }
        } else {
            self.counters.sender_fec_suppressed += block.scaled_repair_count() as u64;
        }
        block.restart();
        self.plan_registration(Flow::Sent(id));
    }
}
