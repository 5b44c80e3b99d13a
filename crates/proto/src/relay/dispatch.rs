//! Executes actions of the egress half: encodes and queues the packets that they describe.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::{Confirm, CooperativeRequest, InStreamHead, InStreamRepair, Outage};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Message, Microseconds, RangeSet, SequenceNumber};

use super::Relay;
use super::egress::{Action, FlowSlot, RepairSource};
use super::flow_table::FlowEndpoint;
use super::ingress::PathOutage;
use crate::outbox::Priority;
use crate::session::EnvelopeContents;

impl Relay {
    /// Executes the pending actions of the egress half, and empties the list.
    pub(super) fn dispatch_actions(&mut self, now: Time) {
        let mut actions = core::mem::take(&mut self.actions);
        for action in &actions {
            self.dispatch(action, now);
        }
        self.send_requests(&mut actions, now);
        actions.clear();
        self.actions = actions;
    }

    fn dispatch(&mut self, action: &Action, now: Time) {
        match *action {
            Action::SendRepair { flow, sequence, packet, source, ecn } => {
                let Some((receiver, coded)) =
                    self.flow_table.receiver(flow).zip(self.egress.packet(packet, now))
                else {
                    return;
                };
                let (role, priority) = match source {
                    RepairSource::Cached => (EnvelopeRole::CachedRepair, Priority::Scavenger),
                    RepairSource::Cooperative => (EnvelopeRole::CooperativeRepair, Priority::Scavenger),
                    RepairSource::Forwarded => (EnvelopeRole::Forwarded, Priority::Source),
                    RepairSource::Resent => (EnvelopeRole::ResentRepair, Priority::Scavenger),
                };
                let FlowEndpoint { session, alias } = receiver;
                let owner = self.egress.owner(flow);
                let contents =
                    EnvelopeContents { role, alias, sequence_low: sequence.low(), coded, ecn, owner };
                self.sessions.send_envelope(session, &contents, priority, now);
                let bytes = coded.len();
                self.egress.count_sent(flow, bytes);
            }
            Action::SendInStreamRepair { flow, first, mask, repair_index, length_symbol, payload } => {
                let Some((receiver, payload)) =
                    self.flow_table.receiver(flow).zip(self.egress.packet(payload, now))
                else {
                    return;
                };
                let alias = receiver.alias;
                let head = InStreamHead { alias, first_low: first.low(), mask, repair_index, length_symbol };
                let message = Message::InStreamRepair(InStreamRepair { head, payload });
                if let Some(owner) = self.egress.owner(flow) {
                    self.sessions.send_repair(receiver.session, &message, owner, now);
                    let bytes = payload.len();
                    self.egress.count_sent(flow, bytes);
                }
            }
            Action::ReportOutage { flow, is_active } => self.report_outage(flow, is_active, now),
            Action::RequestPacket { .. } | Action::SendConfirm { .. } => {}
        }
    }

    /// Reports to a flow's ingress relays that its direct path has an outage, or that the outage
    /// ended.
    pub(super) fn report_outage(&mut self, flow: FlowSlot, is_active: bool, now: Time) {
        let Some(key) = self.egress.key(flow) else {
            return;
        };
        for &(peer, alias) in self.peers.remote_aliases_of(key) {
            let is_permitted = self.flow_table.is_permitted_ingress(key, self.peers.relay_shard(peer));
            if let Some(session) = self.peers.session(peer).filter(|_| is_permitted) {
                self.sessions.queue_message(session, &Message::Outage(Outage { alias, is_active }), now);
            }
        }
        for slot in self.peers.local_flows(key) {
            self.ingress.set_outage(slot, PathOutage { is_active, by_sender: false }, now);
        }
    }

    /// Sends the requests and confirms among the actions, and removes the others. Those for one
    /// flow share as few messages as possible.
    fn send_requests(&mut self, actions: &mut Vec<Action>, now: Time) {
        actions.retain(|action| matches!(action, Action::RequestPacket { .. } | Action::SendConfirm { .. }));
        actions.sort_by_key(|action| match *action {
            Action::RequestPacket { flow, sequence, .. } => (0, flow, sequence),
            Action::SendConfirm { flow, sequence } => (1, flow, sequence),
            Action::SendRepair { .. } | Action::SendInStreamRepair { .. } | Action::ReportOutage { .. } => {
                unreachable!("these were executed")
            }
        });
        let mut batch = RequestBatch::default();
        for action in actions.iter() {
            let (flow, sequence, repair_lifetime) = match *action {
                Action::RequestPacket { flow, sequence, repair_lifetime } => {
                    (flow, sequence, Some(repair_lifetime))
                }
                Action::SendConfirm { flow, sequence } => (flow, sequence, None),
                Action::SendRepair { .. }
                | Action::SendInStreamRepair { .. }
                | Action::ReportOutage { .. } => continue,
            };
            if !batch.try_add(flow, sequence, repair_lifetime) {
                self.send_request_batch(&batch, now);
                batch = RequestBatch::begin(flow, sequence, repair_lifetime);
            }
        }
        self.send_request_batch(&batch, now);
    }

    fn send_request_batch(&mut self, batch: &RequestBatch, now: Time) {
        let Some(flow) = batch.flow else {
            return;
        };
        let Some(FlowEndpoint { session, alias }) = self.flow_table.receiver(flow) else {
            return;
        };
        let ranges = batch.ranges.ranges();
        let message = match batch.repair_lifetime {
            Some(repair_lifetime) => {
                let repair_lifetime = Microseconds::from_duration(repair_lifetime);
                Message::CooperativeRequest(CooperativeRequest { alias, repair_lifetime, ranges })
            }
            None => Message::Confirm(Confirm { alias, ranges }),
        };
        self.sessions.queue_message(session, &message, now);
    }
}

/// Packets of one flow that the relay requests from its receiver, or asks about by a confirm, in
/// one message.
#[derive(Default)]
struct RequestBatch {
    flow: Option<FlowSlot>,
    ranges: RangeSet,
    /// Repair lifetime of the answer; `None` for a confirm.
    repair_lifetime: Option<Duration>,
    last: Option<SequenceNumber>,
}

impl RequestBatch {
    fn begin(flow: FlowSlot, sequence: SequenceNumber, repair_lifetime: Option<Duration>) -> Self {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(sequence), "an empty set has capacity");
        Self { flow: Some(flow), ranges, repair_lifetime, last: Some(sequence) }
    }

    /// Adds a packet. Returns `false` if it belongs in another message: another flow, another kind,
    /// or too many ranges.
    fn try_add(
        &mut self,
        flow: FlowSlot,
        sequence: SequenceNumber,
        repair_lifetime: Option<Duration>,
    ) -> bool {
        if self.flow != Some(flow) || self.repair_lifetime.is_some() != repair_lifetime.is_some() {
            return false;
        }
        if self.last == Some(sequence) {
            return true;
        }
        let added = self.ranges.insert(sequence);
        if added {
            self.last = Some(sequence);
            self.repair_lifetime = self.repair_lifetime.max(repair_lifetime);
        }
        added
    }
}
