//! In-stream repair packets that the sender makes itself, instead of sending copies.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::{BlockShape, Message, SequenceNumber, Service};

use super::send_flow::{SendFlow, SendFlowId};
use super::settings::Duplication;
use super::{Agent, Flow};
use crate::limits::IN_STREAM_OVERHEAD;
use crate::outbox::Urgency;
use crate::parts::block_encoder::BlockEncoder;

impl SendFlow {
    /// The shape of the blocks that this end makes, if it does.
    pub(super) fn own_shape(&self) -> Option<BlockShape> {
        let makes_repairs = matches!(self.settings.duplication, Duplication::OwnRepairs)
            && self.settings.service == Service::Coding;
        self.settings.rates.in_stream.filter(|_| makes_repairs)
    }
}

impl Agent {
    /// Covers what was just sealed, if this end makes the flow's repair packets; whether it does.
    pub(super) fn add_to_own_block(&mut self, id: SendFlowId, sequence: SequenceNumber, now: Time) -> bool {
        let engine = self.engine;
        let flow = &mut self.senders[id.0 as usize];
        let Some(shape) = flow.own_shape().filter(|_| flow.is_awake(now)) else {
            return false;
        };
        // What left while the flow slept is not covered.
        if flow.block.as_ref().is_some_and(|block| block.is_beyond(sequence)) {
            self.close_own_block(id, now);
        }
        let flow = &mut self.senders[id.0 as usize];
        // No batch crosses these blocks: all flows' may begin alike.
        let block = flow.block.get_or_insert_with(|| Box::new(BlockEncoder::new(engine, shape, 0)));
        if block.add(sequence, &self.scratch, now) {
            self.close_own_block(id, now);
        } else {
            self.plan_registration(Flow::Sent(id));
        }
        true
    }

    /// When the block of a flow is to be closed, full or not.
    pub(super) fn block_due(&self, flow: u32) -> Option<Time> {
        self.senders.get(flow)?.block.as_ref()?.due()
    }

    /// Sends the repair packets of a block to the ingress relay, if it takes any now, and begins the next.
    pub(super) fn close_own_block(&mut self, id: SendFlowId, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        let Some(block) = flow.block.as_mut() else {
            return;
        };
        let in_use = flow.registrations.in_use();
        let path = flow.settings.paths.get(in_use).filter(|_| flow.registrations.is_accepted(in_use));
        let place = path.and_then(|path| self.relay_places.get(&path.ingress).copied());
        if let (Some(place), Some(alias)) = (place, flow.registrations.alias()) {
            let load = self.load.measured().with_extras;
            let relay = &mut self.relays[place];
            let is_borne = relay.scale.bears(load);
            if !is_borne && relay.scale.may_weigh(now) {
                self.unborne = Some(place);
            }
            self.sessions.use_session(relay.session, now);
            for repair in block.repairs(alias) {
                let payload_bytes = repair.payload.len() + IN_STREAM_OVERHEAD;
                let session = self.sessions.get_mut(relay.session);
                let is_carried = session.is_none_or(|session| session.may_carry(payload_bytes, now));
                if !relay.takes_copies(now) || !is_borne || !is_carried {
                    self.counters.own_repairs_held += 1;
                    continue;
                }
                self.counters.own_repairs += 1;
                relay.sent(payload_bytes, now);
                let message = Message::InStreamRepair(repair);
                self.sessions.send_alone(relay.session, &message, Urgency::Scavenger, now);
                self.sessions.on_sent(relay.session, payload_bytes, now);
            }
        } else {
            self.counters.own_repairs_held += block.made() as u64;
        }
        block.restart();
        self.plan_registration(Flow::Sent(id));
    }
}
