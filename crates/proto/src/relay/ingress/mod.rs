//! The ingress half of a relay: codes, stores or forwards copies from nearby senders, by service.
//!
//! It works on flows, sequence numbers and coded bytes. A [`Sink`] sends its outputs on sessions.
//!
//! Two coders cover a copy (J-QoS 3.1): the *in-stream* block of its flow, and a *cross-stream*
//! batch with packets of other flows towards the same egress relay. For other services, the relay
//! forwards the copy whole, for an egress relay that stores or forwards it. During an outage of a
//! coded flow's direct path, it does both.
//!
//! | module | subject |
//! |---|---|
//! | `adaptive_classes` | redundancy of a coding group that follows the losses |
//! | `closed_batches` | repair packets of closed batches, and their charges to tenants |
//! | `copies` | sequence numbers of a flow's copies, and NACKs to the sender |
//! | `counters` | counters of the ingress half |
//! | `flow` | registration and state of a flow |
//! | `grant_policers` | rate limit of the flows of one grant together |
//! | `group` | coding groups and their batches |
//! | `group_activity` | number of flows of a coding group that send |
//! | `loss_reports` | losses that egress relays report |
//! | `path_outage` | flows with an outage of their direct path |
//! | `relayed_copies` | copies and senders' repair packets that are forwarded to egress relays |
//! | `sink` | copies that arrive and leave, and the outputs of the ingress half |

mod adaptive_classes;
mod closed_batches;
mod copies;
mod counters;
mod flow;
mod grant_policers;
mod group;
mod group_activity;
mod loss_reports;
mod path_outage;
mod relayed_copies;
mod sink;

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{Engine, prefetch_value};
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::messages::{NetworkTag, Refusal};
use byway_wire::{FlowKey, SequenceNumber, Service, TenantId};

pub(crate) use copies::CopyStatus;
pub use counters::IngressCounters;
pub(crate) use flow::{
    FlowSlot, NextHop, RESERVED_BYTES, Registration, SLOT_BYTES, receiver_number, sender_number,
};
pub(crate) use grant_policers::GrantPolicer;
pub(crate) use group::{ClosedBatch, CoveredPacket, GroupKey, RelayPeerId};

use super::flow_memory::{FlowMemory, Holder};
use super::tenant_traffic::TenantTraffic;
use closed_batches::close_batch;
use flow::IngressFlow;
use grant_policers::GrantPolicers;
use group::{BatchNumbers, CodingGroup};
pub(crate) use path_outage::PathOutage;
use path_outage::PathOutages;
pub(crate) use sink::{ArrivingCopy, OutgoingCopy, Sink};

use crate::growth;
use crate::limits::{
    CODED_BYTES_MAX, COPY_RETENTION, EGRESS_RELAYS_MAX, GROUP_SHAPES_MAX, GROUPS_MAX, INGRESS_FLOWS_MAX,
    RELAYED_COPY_RETENTION,
};
use crate::parts::active_flows::CountedInterval;
use crate::parts::batcher::{BatchPacket, BatchedFlow};
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::packet_buffer::PacketBuffer;
use crate::parts::retry::retry_interval;
use crate::parts::timers::{TimerKey, Timers};
use crate::policy::{batch_wait, block_wait, repairs_on_request, retransmits};

/// The ingress half of a relay: codes, stores or forwards copies from nearby senders.
#[derive(Debug)]
pub(crate) struct Ingress {
    engine: Engine,
    flows: Vec<Option<IngressFlow>>,
    free: Vec<FlowSlot>,
    groups: Vec<CodingGroup>,
    policers: GrantPolicers,
    batch_numbers: BatchNumbers,
    outages: PathOutages,
    /// Timers of the flows: blocks, copy NACKs and idle checks.
    timers: Timers,
    /// Stored copies, which egress relays may request by copy NACKs.
    log: PacketBuffer,
    memory: FlowMemory,
    pub(crate) counters: IngressCounters,
}

impl Ingress {
    /// Creates the ingress half. `packets` and `flows` limit the memory of stored packets and of
    /// flow state.
    pub(crate) fn new(engine: Engine, packets: Bytes, flows: Bytes) -> Self {
        Self {
            engine,
            flows: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            policers: GrantPolicers::default(),
            batch_numbers: BatchNumbers::default(),
            outages: PathOutages::default(),
            timers: Timers::new(),
            log: PacketBuffer::new(packets, RELAYED_COPY_RETENTION),
            memory: FlowMemory::new(flows),
            counters: IngressCounters::default(),
        }
    }

    /// Registers a flow of a sender. `register` makes the registration for the given slot.
    pub(crate) fn register(
        &mut self,
        register: impl FnOnce(FlowSlot) -> Registration,
        now: Time,
    ) -> FlowSlot {
        let slot = self.free.pop().unwrap_or_else(|| {
            growth::push(&mut self.flows, None);
            FlowSlot(u32::try_from(self.flows.len() - 1).expect("the number of flows is limited"))
        });
        let registration = register(slot);
        if let Some(key) = registration.group {
            let group = self.group_index(key, registration.tenant);
            let is_coded = registration.service == Service::Coding;
            self.groups[group].join(registration.rate, registration.batching.class, is_coded);
        }
        let policer = self.policers.join(&registration.policer, now);
        self.flows[slot.0 as usize] = Some(IngressFlow::new(registration, policer, now));
        slot
    }

    /// Returns a refusal if there is no capacity for another flow of a tenant, with this coding
    /// group. A tenant may begin a group if it has begun fewer groups than remain free.
    pub(crate) fn check_capacity(&self, group: Option<GroupKey>, tenant: TenantId) -> Result<(), Refusal> {
        let is_known = group.is_none_or(|key| self.groups.iter().any(|group| group.key == key));
        let shapes = |key: GroupKey| {
            let flows_of = |key: &GroupKey| (key.egress, key.group, key.tenant);
            // Of a group that tenants share, each may begin as many.
            let own = self.groups.iter().filter(|group| group.tenant == tenant);
            own.filter(|group| flows_of(&group.key) == flows_of(&key)).count()
        };
        let may_begin =
            self.groups.len() < GROUPS_MAX && group.is_none_or(|key| shapes(key) < GROUP_SHAPES_MAX);
        if self.flows.len() - self.free.len() == INGRESS_FLOWS_MAX || !(is_known || may_begin) {
            return Err(Refusal::Full);
        }
        let own = self.groups.iter().filter(|group| group.tenant == tenant).count();
        if is_known || own < GROUPS_MAX - self.groups.len() { Ok(()) } else { Err(Refusal::QuotaReached) }
    }

    /// Charges a flow's copies to the policer of a new grant from now on.
    pub(crate) fn set_policer(&mut self, slot: FlowSlot, policer: &GrantPolicer, now: Time) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let policer_slot = self.policers.join(policer, now);
        self.policers.leave(core::mem::replace(&mut flow.policer, policer_slot), now);
    }

    /// Returns the accounts of a session and its tenant, to which its flows are charged.
    pub(crate) fn holder(&mut self, session: u32, tenant: TenantId) -> Holder {
        self.memory.holder(session, tenant)
    }

    /// Returns the traffic that is charged to each tenant.
    pub(crate) fn traffic_by_tenant(&self) -> impl Iterator<Item = (TenantId, TenantTraffic)> {
        self.memory.traffic_by_tenant()
    }

    /// Returns the memory of sent flows' state, beyond what registrations reserve.
    pub(crate) const fn flow_state_bytes(&self) -> Bytes {
        self.memory.used()
    }

    /// Removes a flow with its timer and state, and its coding group if the flow was the last one.
    pub(crate) fn unregister(&mut self, slot: FlowSlot, now: Time) {
        if let Some(mut flow) = self.flows[slot.0 as usize].take() {
            if let Some(active) = flow.deactivate() {
                self.memory.release(&active.memory);
            }
            self.timers.disarm(TimerKey::new(slot.0));
            if let Some(group) =
                self.groups.iter_mut().find(|group| Some(group.key) == flow.registration.group)
            {
                group.leave(flow.registration.rate, flow.registration.batching.class);
                for group in self.groups.iter_mut().filter(|group| group.is_empty()) {
                    group.release(&mut self.memory);
                }
                self.groups.retain(|group| !group.is_empty());
            }
            self.policers.leave(flow.policer, now);
            self.outages.forget(flow.registration.outage_group(), slot);
            self.free.push(slot);
        }
    }

    /// Adds an egress relay for a flow's copies, unless there are [`EGRESS_RELAYS_MAX`].
    pub(crate) fn add_next_hop(&mut self, slot: FlowSlot, next_hop: NextHop) {
        if let Some(flow) = self.flow_mut(slot).filter(|flow| !flow.next_hops.is_full()) {
            flow.next_hops.push(next_hop);
        }
    }

    /// Removes a peer relay from the next hops of a flow.
    pub(crate) fn remove_next_hop(&mut self, slot: FlowSlot, peer: RelayPeerId) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.next_hops.retain(|next_hop| next_hop.peer != peer);
        }
    }

    /// Prefetches a flow's state into the processor's cache.
    pub(crate) fn prefetch(&self, slot: FlowSlot) {
        if let Some(flow) = self.flow(slot) {
            prefetch_value(flow);
        }
    }

    /// Returns the key of a sent flow; `None` if the slot is free.
    pub(crate) fn key(&self, slot: FlowSlot) -> Option<FlowKey> {
        self.flow(slot).map(|flow| flow.registration.key)
    }

    /// Returns the next hops of a flow's copies: one egress relay, or several for a group.
    pub(crate) fn next_hops(&self, slot: FlowSlot) -> ArrayVec<NextHop, EGRESS_RELAYS_MAX> {
        self.flow(slot).map(|flow| flow.next_hops.clone()).unwrap_or_default()
    }

    /// Records if a flow has a receiver at a peer relay. Without one, nothing is sent there.
    pub(crate) fn set_has_receiver(&mut self, slot: FlowSlot, peer: RelayPeerId, has_receiver: bool) {
        let next_hops = self.flow_mut(slot).map(|flow| flow.next_hops.as_mut_slice()).unwrap_or_default();
        for next_hop in next_hops.iter_mut().filter(|next_hop| next_hop.peer == peer) {
            next_hop.has_receiver = has_receiver;
        }
    }

    /// Sets the network of the flow's receiver, for its cohort from the next interval on.
    pub(crate) fn set_receiver_network(&mut self, slot: FlowSlot, network: NetworkTag) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.receiver_network = network;
        }
    }

    /// Sets the round-trip time to the flow's sender.
    pub(crate) fn set_round_trip(&mut self, slot: FlowSlot, round_trip: Duration) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.round_trip = round_trip;
        }
    }

    /// Records the begin or end of an outage of a flow's direct path. A flow with several next hops
    /// is never forwarded for that.
    ///
    /// Outages of cached and resent flows are recorded, too. A report may arrive before its flow
    /// changes to coding or pull, and is not repeated while no copies reach the egress relay.
    pub(crate) fn set_outage(&mut self, slot: FlowSlot, outage: PathOutage, now: Time) {
        if let Some(flow) = self.flow(slot).filter(|flow| flow.next_hops.len() == 1) {
            let (group, service) = (flow.registration.outage_group(), flow.registration.service);
            if repairs_on_request(service) {
                self.outages.set((group, slot), service, outage, now);
            }
        }
    }

    /// Returns the service and the rate of a registered flow.
    pub(crate) fn service_of(&self, slot: FlowSlot) -> Option<(Service, Rate)> {
        self.flow(slot).map(|flow| (flow.registration.service, flow.registration.rate))
    }

    /// Changes the service of a flow, and whether its sender copies only some packets.
    pub(crate) fn set_service(&mut self, slot: FlowSlot, service: Service, is_selective: bool) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        (flow.registration.service, flow.registration.is_selective) = (service, is_selective);
        if let Some(active) = flow.active_mut() {
            let before = active.copies.bytes();
            active.copies.restart();
            active.counted = CountedInterval::NONE;
            active.memory.on_resize(before, active.copies.bytes());
            self.memory.update_charge(&mut active.memory);
        }
        self.restart_redundancy(slot);
    }

    /// True if the sender of a flow copies only some packets.
    pub(crate) fn is_selective(&self, slot: FlowSlot) -> bool {
        self.flow(slot).is_some_and(|flow| flow.registration.is_selective)
    }

    /// Returns the number of slots for sent flows, in use or free.
    pub(crate) const fn slots(&self) -> usize {
        self.flows.len()
    }

    /// Returns the memory of all stored copies.
    pub(crate) fn buffered_bytes(&self) -> Bytes {
        self.log.memory_bytes()
    }

    fn flow(&self, slot: FlowSlot) -> Option<&IngressFlow> {
        self.flows.get(slot.0 as usize)?.as_ref()
    }

    pub(crate) fn flow_mut(&mut self, slot: FlowSlot) -> Option<&mut IngressFlow> {
        self.flows.get_mut(slot.0 as usize)?.as_mut()
    }

    /// Handles a copy from a sender: codes, stores or forwards it, as the flow's service requires.
    pub(crate) fn on_copy(
        &mut self,
        slot: FlowSlot,
        copy: &ArrivingCopy<'_>,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(sequence) = self.accept_copy(slot, copy, now) else {
            return;
        };
        let ArrivingCopy { coded, ecn, .. } = *copy;
        let flow = self.flows[slot.0 as usize].as_ref().expect("the flow of an accepted copy exists");
        if flow.registration.duplicates {
            let receivers = sink.send_duplicates(&flow.registration, sequence, coded, ecn);
            let bytes = receivers * coded.len() as u64;
            self.counters.duplicated += receivers;
            self.counters.duplicated_bytes += bytes;
            self.memory.count_sent(flow.registration.holder, bytes);
        }
        match flow.registration.service {
            Service::Internet => {}
            Service::Coding => {
                let has_receiver = flow.has_receiver();
                let is_relayed =
                    has_receiver && self.outages.relays_packet(flow.registration.outage_group(), slot, now);
                self.relay_or_buffer_copy(slot, sequence, (copy, is_relayed, has_receiver), sink, now);
                self.count_reportable(slot, sequence, now);
                self.add_to_block(slot, sequence, coded, sink, now);
                self.add_to_batch(slot, sequence, coded, sink, now);
            }
            Service::Pull => {
                let has_receiver = flow.has_receiver();
                let is_relayed = has_receiver && self.relays_pulled_copy(slot, now);
                self.relay_or_buffer_copy(slot, sequence, (copy, is_relayed, has_receiver), sink, now);
            }
            Service::Caching | Service::Forwarding | Service::Both | Service::Retransmission => {
                self.relay_copy(slot, sequence, copy, sink, now);
            }
        }
        self.schedule(slot);
    }

    /// Charges a copy to its flow and grant. Returns its sequence number; `None` to discard it.
    fn accept_copy(&mut self, slot: FlowSlot, copy: &ArrivingCopy<'_>, now: Time) -> Option<SequenceNumber> {
        let ArrivingCopy { sequence_low, coded, is_resent, .. } = *copy;
        let engine = self.engine;
        let flow = self.flows.get_mut(slot.0 as usize)?.as_mut()?;
        if coded.len() > CODED_BYTES_MAX {
            self.counters.copies_too_long += 1;
            return None;
        }
        let bytes = Bytes::from(coded.len());
        if !flow.budget.try_consume(bytes, now) || !self.policers.try_charge(flow.policer, bytes, now) {
            self.counters.copies_beyond_rate += 1;
            return None;
        }
        let is_on_request = retransmits(flow.registration.service);
        let active = flow.activate(engine, &mut self.memory, now);
        let sequence = active.copies.full_sequence(sequence_low);
        let status = if is_on_request {
            // The sender may send any packet, and the same one again.
            active.copies.skip_to(sequence);
            CopyStatus::New
        } else {
            let before = active.copies.bytes();
            let status = active.copies.on_copy(sequence, now);
            if active.copies.bytes() != before {
                active.memory.on_resize(before, active.copies.bytes());
                self.memory.update_charge(&mut active.memory);
            }
            status
        };
        match status {
            CopyStatus::New => {
                self.counters.copies += 1;
                self.counters.copies_bytes += coded.len() as u64;
                self.counters.copies_retransmitted += u64::from(is_resent);
                Some(sequence)
            }
            CopyStatus::Duplicate => {
                self.counters.copies_duplicate += 1;
                None
            }
            CopyStatus::TooOld => {
                self.counters.copies_too_old += 1;
                None
            }
        }
    }

    fn add_to_block(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        sink: &mut impl Sink,
        now: Time,
    ) {
        if self.skips_block(slot, sink, now) {
            return;
        }
        let flow = self.flows[slot.0 as usize].as_mut().expect("the flow of an accepted copy exists");
        let Some(block) = flow.active_mut().and_then(|active| active.block.as_mut()) else {
            return;
        };
        if block.skip_packet() {
            return;
        }
        if !block.follows(sequence) {
            self.counters.in_stream_left_out += 1;
            return;
        }
        if block.is_beyond(sequence) {
            self.close_block(slot, sink, now);
        }
        let flow = self.flows[slot.0 as usize].as_mut().expect("the flow of an accepted copy exists");
        let wait = block_wait(flow.registration.latency_budget);
        let block = flow.active_mut().and_then(|active| active.block.as_mut()).expect("the flow has a block");
        if block.add(sequence, coded, wait, now) {
            self.close_block(slot, sink, now);
        }
    }

    /// Sends the repair packets of a flow's block, except while the relay forwards packets of its
    /// group in an outage. Begins the next block.
    fn close_block(&mut self, slot: FlowSlot, sink: &mut impl Sink, now: Time) {
        let Some(flow) = self.flow(slot) else {
            return;
        };
        let next_hops = flow.next_hops.clone();
        let is_out = self.outages.relays_any_of_group(flow.registration.outage_group(), slot, now);
        let Some(flow) = self.flows[slot.0 as usize].as_mut() else {
            return;
        };
        let (owner, holder) = (flow.registration.owner(), flow.registration.holder);
        let Some(block) = flow.active_mut().and_then(|active| active.block.as_mut()) else {
            return;
        };
        if is_out {
            self.counters.in_stream_saved += block.scaled_repair_count() as u64;
        } else {
            for next_hop in next_hops.iter().filter(|next_hop| next_hop.has_receiver) {
                for repair in block.repairs(next_hop.alias).take(block.scaled_repair_count()) {
                    let bytes = repair.payload.len() as u64;
                    self.counters.in_stream += 1;
                    self.counters.in_stream_bytes += bytes;
                    if sink.send_in_stream(next_hop.peer, owner, &repair) {
                        self.memory.count_sent(holder, bytes);
                    }
                }
            }
        }
        block.restart();
    }

    fn add_to_batch(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        sink: &mut impl Sink,
        now: Time,
    ) {
        let flow = self.flows[slot.0 as usize].as_ref().expect("the flow of an accepted copy exists");
        let Some(next_hop) = flow.next_hops.first().filter(|next_hop| next_hop.has_receiver).copied() else {
            self.counters.uncovered_unknown += 1;
            return;
        };
        let Some(key) = flow.registration.group else {
            return;
        };
        let (flow_identity, tenant_class) = (flow.registration.batching, flow.registration.tenant_class());
        let (holder, tenant) = (flow.registration.holder, flow.registration.tenant);
        let (alias, class) = (next_hop.alias, flow.registration.class);
        let bytes = u16::try_from(coded.len()).expect("the length of copies is checked");
        let digest = sink.digest(next_hop.peer, alias, sequence, coded);
        let covered = CoveredPacket { alias, sequence, digest, tenant, class, holder, bytes };
        // Without a digest, the egress relay cannot detect a false answer. Such a packet shares
        // batches only with packets of its tenant.
        let has_digest = digest.is_some() && coded.len() <= key.digested_bytes_max();
        let flow_identity = if has_digest || flow_identity.class == tenant_class {
            flow_identity
        } else {
            BatchedFlow { class: tenant_class, cohort: 0, avoids_network: false, ..flow_identity }
        };
        let wait = batch_wait(flow.registration.latency_budget);
        let group = self.group_index(key, tenant);
        let reports_losses = key.is_adaptive && sink.reports_losses(next_hop.peer);
        let Self { counters, batch_numbers: numbers, memory, groups, .. } = self;
        let packet = BatchPacket { flow: flow_identity, bytes };
        let packet = (&packet, wait, holder, reports_losses);
        let close = |batch: &ClosedBatch<'_>, memory: &mut FlowMemory| {
            close_batch(batch, counters, memory, sink);
        };
        let is_covered = groups[group].add(packet, covered, coded, (numbers, memory), now, close);
        self.counters.uncovered_memory += u64::from(!is_covered);
    }

    fn group_index(&mut self, key: GroupKey, tenant: TenantId) -> usize {
        if let Some(known) = self.groups.iter().position(|group| group.key == key) {
            return known;
        }
        self.groups.push(CodingGroup::new(self.engine, key, tenant));
        self.groups.len() - 1
    }

    /// Returns the time at which [`Ingress::handle_timeout`] is due; `None` without a timer.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.groups.iter().filter_map(CodingGroup::deadline).chain(self.timers.not_before()).min()
    }

    /// Closes blocks and batches past their deadline, and sends NACKs for missing copies.
    pub(crate) fn handle_timeout(&mut self, sink: &mut impl Sink, now: Time) {
        let Self { counters, batch_numbers: numbers, memory, groups, .. } = self;
        for group in groups {
            group.expire((&mut *numbers, &mut *memory), now, |batch, memory| {
                close_batch(batch, counters, memory, sink);
            });
        }
        while let Some(key) = self.timers.expire(now) {
            self.flow_timeout(FlowSlot(key.number()), sink, now);
        }
    }

    fn flow_timeout(&mut self, slot: FlowSlot, sink: &mut impl Sink, now: Time) {
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        let again_after = retry_interval(flow.round_trip);
        let sends_nacks = !flow.registration.is_selective;
        let Some(active) = flow.active_mut() else {
            return;
        };
        let block_is_due = active.block.as_ref().and_then(BlockEncoder::due).is_some_and(|due| due <= now);
        let mut nack_count = 0;
        active.copies.poll_nacks(again_after, now, |sequence| {
            if sends_nacks {
                nack_count += 1;
                sink.request_copy(slot, sequence);
            }
        });
        let is_idle = active.last_used + COPY_RETENTION <= now;
        if is_idle {
            self.log.release(now);
        }
        self.counters.copies_nacked += nack_count;
        if block_is_due {
            self.close_block(slot, sink, now);
        }
        if is_idle && let Some(active) = self.flow_mut(slot).and_then(IngressFlow::deactivate) {
            self.memory.release(&active.memory);
        }
        self.schedule(slot);
    }

    /// Sets the flow's timer to its next block, copy NACK or idle check.
    fn schedule(&mut self, slot: FlowSlot) {
        if let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) {
            let at = active.wake_at();
            self.timers.arm(TimerKey::new(slot.0), at);
        }
    }
}

#[cfg(test)]
mod tests;
