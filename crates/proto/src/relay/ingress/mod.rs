//! The ingress half of a relay: takes copies from senders nearby, and makes of them what their flows ask for.
//!
//! It speaks in flows, sequence numbers and coded bytes; sessions and the wire are the relay's business, behind
//! [`Sink`].
//!
//! A copy goes through two coders (J-QoS 3.1): the *in-stream* block of its flow, and a *cross-stream* batch with
//! packets of other flows towards the same egress relay. Or it is carried on whole, to be cached or forwarded: also beside both
//! coders, while the direct path of its flow is dark.

mod carried;
mod ceilings;
mod copies;
mod counters;
mod dark;
mod flow;
mod group;

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{Engine, prefetch_value};
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::messages::{InStreamHead, InStreamRepair, Refusal};
use byway_wire::{Alias, CODED_OVERHEAD, Ecn, FlowKey, SequenceNumber, TenantId};

pub(crate) use ceilings::Ceiling;
pub(crate) use copies::Copy;
pub use counters::IngressCounters;
pub(crate) use flow::{FlowSlot, Onward, Registration, SET_ASIDE_BYTES, SLOT_BYTES};
pub(crate) use group::{ClosedBatch, Covered, GroupKey};

use super::flow_memory::{FlowMemory, Holder};
use ceilings::Ceilings;
use dark::DarkPaths;
pub(crate) use dark::PathOutage;
use flow::IngressFlow;
use group::{BatchNumbers, Group};

use crate::growth;
use crate::limits::{
    CARRIED_RETENTION, CODED_BYTES_MAX, COPY_RETENTION, EGRESS_PORTS_MAX, GROUP_SHAPES_MAX, GROUPS_MAX,
    INGRESS_FLOWS_MAX,
};
use crate::outbox::Owner;
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::packet_log::PacketLog;
use crate::parts::placement::{Packet, PlacedFlow};
use crate::parts::timers::{TimerKey, Timers};
use byway_wire::Service;

/// A way to an egress relay, by number: a session with another relay, or this relay itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EgressPort(pub(crate) u16);

/// A copy as it comes from its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivingCopy<'a> {
    pub(crate) sequence_low: u32,
    pub(crate) coded: &'a [u8],
    /// Whether it was asked for again.
    pub(crate) is_resent: bool,
    /// The ECN field that it arrived with.
    pub(crate) ecn: Ecn,
}

/// Where the ingress half puts what it makes.
pub(crate) trait Sink {
    /// The digest that vouches for a packet, if the egress relay wants digests.
    fn digest(
        &mut self,
        port: EgressPort,
        alias: Alias,
        sequence: SequenceNumber,
        coded: &[u8],
    ) -> Option<[u8; 4]>;
    /// Sends the repair packets of a batch.
    fn cross_stream(&mut self, batch: &ClosedBatch<'_>);
    /// Sends a repair packet of a flow's block.
    fn in_stream(&mut self, port: EgressPort, owner: Owner, repair: &InStreamRepair<'_>);
    /// Carries a copy on, with the mark that it came with; to be delivered, or to be kept. Whether it may get lost on its
    /// way: it goes to another relay.
    fn carry(
        &mut self,
        onward: Onward,
        owner: Owner,
        sequence: SequenceNumber,
        coded: &[u8],
        ecn: Ecn,
        is_forwarded: bool,
    ) -> bool;
    /// Sends a copy to the flow's receivers that are registered here, as the direct path would; how many there are.
    fn duplicate(&mut self, flow: &Registration, sequence: SequenceNumber, coded: &[u8], ecn: Ecn) -> u64;
    /// Asks the flow's sender for copies again.
    fn ask_copy(&mut self, flow: FlowSlot, sequence: SequenceNumber);
}

/// The ingress half of a relay.
#[derive(Debug)]
pub(crate) struct Ingress {
    engine: Engine,
    flows: Vec<Option<IngressFlow>>,
    free: Vec<FlowSlot>,
    groups: Vec<Group>,
    ceilings: Ceilings,
    batch_numbers: BatchNumbers,
    dark: DarkPaths,
    /// When something of a flow is due.
    timers: Timers,
    /// What egress relays may ask for.
    log: PacketLog,
    memory: FlowMemory,
    pub(crate) counters: IngressCounters,
}

impl Ingress {
    /// Packets and flows may take so much memory.
    pub(crate) fn new(engine: Engine, packets: Bytes, flows: Bytes) -> Self {
        Self {
            engine,
            flows: Vec::new(),
            free: Vec::new(),
            groups: Vec::new(),
            ceilings: Ceilings::default(),
            batch_numbers: BatchNumbers::default(),
            dark: DarkPaths::default(),
            timers: Timers::new(),
            log: PacketLog::new(packets, CARRIED_RETENTION),
            memory: FlowMemory::new(flows),
            counters: IngressCounters::default(),
        }
    }

    /// Registers a flow; `register` is told the slot that it gets.
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
            let group = self.group(key, registration.owned_by);
            self.groups[group].join(registration.rate);
        }
        let ceiling = self.ceilings.join(&registration.ceiling, now);
        self.flows[slot.0 as usize] = Some(IngressFlow::new(registration, ceiling, now));
        slot
    }

    /// Checks that another flow of a tenant may be registered, with this group. A tenant begins as many groups as are left beside.
    pub(crate) fn check_room(&self, group: Option<GroupKey>, tenant: TenantId) -> Result<(), Refusal> {
        let is_known = group.is_none_or(|key| self.groups.iter().any(|group| group.key == key));
        let shapes = |key: GroupKey| {
            let of_flows = |group: &&Group| (group.key.egress, group.key.group) == (key.egress, key.group);
            self.groups.iter().filter(of_flows).count()
        };
        let may_begin =
            self.groups.len() < GROUPS_MAX && group.is_none_or(|key| shapes(key) < GROUP_SHAPES_MAX);
        if self.flows.len() - self.free.len() == INGRESS_FLOWS_MAX || !(is_known || may_begin) {
            return Err(Refusal::NoRoom);
        }
        let own = self.groups.iter().filter(|group| group.tenant == tenant).count();
        if is_known || own < GROUPS_MAX - self.groups.len() { Ok(()) } else { Err(Refusal::QuotaReached) }
    }

    /// Charges a flow's copies to another grant from now on.
    pub(crate) fn set_ceiling(&mut self, slot: FlowSlot, ceiling: &Ceiling, now: Time) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let joined = self.ceilings.join(ceiling, now);
        self.ceilings.leave(core::mem::replace(&mut flow.ceiling, joined), now);
    }

    /// Whose memory the flows of a session take.
    pub(crate) fn holder(&mut self, session: u32, tenant: TenantId) -> Holder {
        self.memory.holder(session, tenant)
    }

    /// The memory that is taken by what is known of flows.
    pub(crate) const fn flows_held(&self) -> Bytes {
        self.memory.used()
    }

    /// Forgets a flow.
    pub(crate) fn unregister(&mut self, slot: FlowSlot, now: Time) {
        if let Some(mut flow) = self.flows[slot.0 as usize].take() {
            if let Some(active) = flow.rest() {
                self.memory.release(&active.memory);
            }
            self.timers.disarm(TimerKey::new(slot.0));
            if let Some(group) =
                self.groups.iter_mut().find(|group| Some(group.key) == flow.registration.group)
            {
                group.leave(flow.registration.rate);
                for group in self.groups.iter_mut().filter(|group| group.is_empty()) {
                    group.release(&mut self.memory);
                }
                self.groups.retain(|group| !group.is_empty());
            }
            self.ceilings.leave(flow.ceiling, now);
            self.dark.forget(flow.registration.group, slot);
            self.free.push(slot);
        }
    }

    /// Adds a way on for a flow's copies.
    pub(crate) fn add_onward(&mut self, slot: FlowSlot, onward: Onward) {
        if let Some(flow) = self.flow_mut(slot).filter(|flow| !flow.onward.is_full()) {
            flow.onward.push(onward);
        }
    }

    /// Removes the way on through a port.
    pub(crate) fn remove_onward(&mut self, slot: FlowSlot, port: EgressPort) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.onward.retain(|onward| onward.port != port);
        }
    }

    /// Brings a flow into the cache.
    pub(crate) fn prefetch(&self, slot: FlowSlot) {
        if let Some(flow) = self.flow(slot) {
            prefetch_value(flow);
        }
    }

    /// The key of a flow.
    pub(crate) fn key(&self, slot: FlowSlot) -> Option<FlowKey> {
        self.flow(slot).map(|flow| flow.registration.key)
    }

    /// The ways on of a flow.
    pub(crate) fn onward(&self, slot: FlowSlot) -> ArrayVec<Onward, EGRESS_PORTS_MAX> {
        self.flow(slot).map(|flow| flow.onward.clone()).unwrap_or_default()
    }

    /// Notes whether the flow has a receiver behind a port.
    pub(crate) fn set_known(&mut self, slot: FlowSlot, port: EgressPort, known: bool) {
        let onward = self.flow_mut(slot).map(|flow| flow.onward.as_mut_slice()).unwrap_or_default();
        for onward in onward.iter_mut().filter(|onward| onward.port == port) {
            onward.known = known;
        }
    }

    /// Notes how far away the flow's sender is.
    pub(crate) fn set_round_trip(&mut self, slot: FlowSlot, round_trip: Duration) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.round_trip = round_trip;
        }
    }

    /// Notes that the direct path of a flow is dark, or not any more.
    pub(crate) fn set_dark(&mut self, slot: FlowSlot, outage: PathOutage, now: Time) {
        let flow = self.flow(slot).filter(|flow| flow.onward.len() == 1);
        if let Some(group) = flow.map(|flow| flow.registration.group) {
            self.dark.set(group, slot, outage, now);
        }
    }

    /// The service and the rate of a flow.
    pub(crate) fn service_of(&self, slot: FlowSlot) -> Option<(Service, Rate)> {
        self.flow(slot).map(|flow| (flow.registration.service, flow.registration.rate))
    }

    /// Whether the sender of a flow copies only some packets.
    pub(crate) fn is_selective(&self, slot: FlowSlot) -> bool {
        self.flow(slot).is_some_and(|flow| flow.registration.is_selective)
    }

    /// How many slots there are, in use or not.
    pub(crate) const fn slots(&self) -> usize {
        self.flows.len()
    }

    /// The memory of the packets that are kept.
    pub(crate) fn packets_held(&self) -> Bytes {
        self.log.held()
    }

    fn flow(&self, slot: FlowSlot) -> Option<&IngressFlow> {
        self.flows.get(slot.0 as usize)?.as_ref()
    }

    pub(crate) fn flow_mut(&mut self, slot: FlowSlot) -> Option<&mut IngressFlow> {
        self.flows.get_mut(slot.0 as usize)?.as_mut()
    }

    /// Takes a copy of a packet.
    pub(crate) fn copy(&mut self, slot: FlowSlot, copy: &ArrivingCopy<'_>, sink: &mut impl Sink, now: Time) {
        let Some(sequence) = self.take(slot, copy, now) else {
            return;
        };
        let ArrivingCopy { coded, ecn, .. } = *copy;
        let flow = self.flows[slot.0 as usize].as_ref().expect("the copy was taken for a flow");
        if flow.registration.duplicates {
            let receivers = sink.duplicate(&flow.registration, sequence, coded, ecn);
            self.counters.duplicated += receivers;
            self.counters.duplicated_bytes += receivers * coded.len() as u64;
        }
        match flow.registration.service {
            Service::Internet => {}
            Service::Coding => {
                // A packet that is lost for certain takes one repair packet of its batch from the others: whole, it costs no
                // more than one for the batch, and leaves them all.
                let is_known = flow.onward.iter().any(|onward| onward.known);
                if is_known && self.dark.carries(flow.registration.group, slot, now) {
                    self.carry(slot, sequence, (coded, ecn), sink, now);
                } else if is_known {
                    self.keep(slot, sequence, coded, false, now);
                }
                self.add_to_block(slot, sequence, coded, sink, now);
                self.add_to_batch(slot, sequence, coded, sink, now);
            }
            Service::Caching | Service::Forwarding | Service::Both => {
                self.carry(slot, sequence, (coded, ecn), sink, now);
            }
        }
        self.plan(slot);
    }

    /// Checks a copy against the flow's rate, and against those that came before.
    fn take(&mut self, slot: FlowSlot, copy: &ArrivingCopy<'_>, now: Time) -> Option<SequenceNumber> {
        let ArrivingCopy { sequence_low, coded, is_resent, .. } = *copy;
        let engine = self.engine;
        let flow = self.flows.get_mut(slot.0 as usize)?.as_mut()?;
        if coded.len() > CODED_BYTES_MAX {
            self.counters.copies_too_long += 1;
            return None;
        }
        let bytes = Bytes::from(coded.len());
        if !flow.budget.take(bytes, now) || !self.ceilings.take(flow.ceiling, bytes, now) {
            self.counters.copies_beyond_rate += 1;
            return None;
        }
        let active = flow.activate(engine, &mut self.memory, now);
        let sequence = active.copies.full(sequence_low);
        match active.copies.arrived(sequence, now) {
            Copy::New => {
                self.counters.copies += 1;
                self.counters.copies_bytes += coded.len() as u64;
                self.counters.copies_resent += u64::from(is_resent);
                Some(sequence)
            }
            Copy::Repeated => {
                self.counters.copies_repeated += 1;
                None
            }
            Copy::TooOld => {
                self.counters.copies_too_old += 1;
                None
            }
        }
    }

    /// Passes on a repair packet that the flow's sender made itself.
    ///
    /// It stands for as many bytes of source packets as blocks of the registered shape cover for each of theirs, and
    /// counts as those do against the flow's rate.
    pub(crate) fn own_repair(
        &mut self,
        slot: FlowSlot,
        repair: &InStreamRepair<'_>,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let is_owed = flow.registration.makes_repairs && repair.payload.len() >= CODED_OVERHEAD;
        let Some(shape) = flow.registration.rates.in_stream.filter(|_| is_owed) else {
            self.counters.own_repairs_refused += 1;
            return;
        };
        if repair.payload.len() > CODED_BYTES_MAX {
            self.counters.copies_too_long += 1;
            return;
        }
        let covered = repair.payload.len() * usize::from(shape.source_packets());
        let bytes = Bytes::from(covered / usize::from(shape.repair_packets()));
        if !flow.budget.take(bytes, now) || !self.ceilings.take(flow.ceiling, bytes, now) {
            self.counters.copies_beyond_rate += 1;
            return;
        }
        for onward in flow.onward.iter().filter(|onward| onward.known) {
            let head = InStreamHead { alias: onward.alias, ..repair.head };
            self.counters.own_repairs += 1;
            self.counters.own_repairs_bytes += repair.payload.len() as u64;
            let own = InStreamRepair { head, payload: repair.payload };
            sink.in_stream(onward.port, flow.registration.owner(), &own);
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
        let flow = self.flows[slot.0 as usize].as_mut().expect("the copy was taken for a flow");
        let Some(block) = flow.active_mut().and_then(|active| active.block.as_mut()) else {
            return;
        };
        if block.leaves_out() {
            return;
        }
        if !block.follows(sequence) {
            self.counters.in_stream_left_out += 1;
            return;
        }
        if block.is_beyond(sequence) {
            self.close_block(slot, sink, now);
        }
        let flow = self.flows[slot.0 as usize].as_mut().expect("the copy was taken for a flow");
        let block = flow.active_mut().and_then(|active| active.block.as_mut()).expect("the flow has a block");
        if block.add(sequence, coded, now) {
            self.close_block(slot, sink, now);
        }
    }

    /// Sends the repair packets of a flow's block, and begins the next.
    fn close_block(&mut self, slot: FlowSlot, sink: &mut impl Sink, now: Time) {
        let Some(flow) = self.flow(slot) else {
            return;
        };
        let onward = flow.onward.clone();
        let is_dark = self.dark.carries_one_of(flow.registration.group, slot, now);
        let Some(flow) = self.flows[slot.0 as usize].as_mut() else {
            return;
        };
        let owner = flow.registration.owner();
        let Some(block) = flow.active_mut().and_then(|active| active.block.as_mut()) else {
            return;
        };
        if is_dark {
            self.counters.in_stream_saved += block.made() as u64;
        } else {
            for onward in onward.iter().filter(|onward| onward.known) {
                for repair in block.repairs(onward.alias) {
                    self.counters.in_stream += 1;
                    self.counters.in_stream_bytes += repair.payload.len() as u64;
                    sink.in_stream(onward.port, owner, &repair);
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
        let flow = self.flows[slot.0 as usize].as_ref().expect("the copy was taken for a flow");
        let Some(onward) = flow.onward.first().filter(|onward| onward.known).copied() else {
            self.counters.uncovered_unknown += 1;
            return;
        };
        let Some(key) = flow.registration.group else {
            return;
        };
        let (placed, tenant) = (flow.registration.placed, flow.registration.tenant);
        let wait = flow.registration.class;
        let bytes = u16::try_from(coded.len()).expect("the length of copies is checked");
        let digest = sink.digest(onward.port, onward.alias, sequence, coded);
        let covered = Covered { alias: onward.alias, sequence, digest, tenant, wait };
        // A false answer to what no digest vouches for is not told from a true one: that stays within a tenant.
        let is_vouched = digest.is_some() && coded.len() <= key.digested_bytes_max();
        let class = if is_vouched { placed.class } else { tenant };
        let placed = PlacedFlow { class, ..placed };
        let (holder, owned_by) = (flow.registration.holder, flow.registration.owned_by);
        let group = self.group(key, owned_by);
        let Self { counters, batch_numbers: numbers, memory, groups, .. } = self;
        let packet = Packet { flow: placed, bytes };
        let is_covered =
            groups[group].add((&packet, holder), covered, coded, (numbers, memory), now, |batch| {
                close_batch(batch, counters, sink);
            });
        self.counters.uncovered_memory += u64::from(!is_covered);
    }

    fn group(&mut self, key: GroupKey, tenant: TenantId) -> usize {
        if let Some(known) = self.groups.iter().position(|group| group.key == key) {
            return known;
        }
        self.groups.push(Group::new(self.engine, key, tenant));
        self.groups.len() - 1
    }

    /// When [`Ingress::handle_timeout`] is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.groups.iter().filter_map(Group::deadline).chain(self.timers.not_before()).min()
    }

    /// Closes what waited long enough, and asks for copies that did not come.
    pub(crate) fn handle_timeout(&mut self, sink: &mut impl Sink, now: Time) {
        let (counters, numbers) = (&mut self.counters, &mut self.batch_numbers);
        for group in &mut self.groups {
            group.expire(numbers, now, |batch| close_batch(batch, counters, sink));
        }
        while let Some(key) = self.timers.expire(now) {
            self.flow_timeout(FlowSlot(key.number()), sink, now);
        }
    }

    fn flow_timeout(&mut self, slot: FlowSlot, sink: &mut impl Sink, now: Time) {
        let Some(flow) = self.flow_mut(slot) else {
            return;
        };
        let again_after = flow.round_trip + flow.round_trip / 2;
        let asks = !flow.registration.is_selective;
        let Some(active) = flow.active_mut() else {
            return;
        };
        let block_is_due = active.block.as_ref().and_then(BlockEncoder::due).is_some_and(|due| due <= now);
        let mut asked = 0;
        active.copies.ask(again_after, now, |sequence| {
            if asks {
                asked += 1;
                sink.ask_copy(slot, sequence);
            }
        });
        let rests = active.last_used + COPY_RETENTION <= now;
        if rests {
            self.log.release(now);
        }
        self.counters.copies_asked += asked;
        if block_is_due {
            self.close_block(slot, sink, now);
        }
        if rests && let Some(active) = self.flow_mut(slot).and_then(IngressFlow::rest) {
            self.memory.release(&active.memory);
        }
        self.plan(slot);
    }

    /// Makes sure that the flow is looked at in time.
    fn plan(&mut self, slot: FlowSlot) {
        if let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) {
            let at = active.wake_at();
            self.timers.arm(TimerKey::new(slot.0), at);
        }
    }
}

/// Sends a batch's repair packets, and counts what it covers.
fn close_batch(batch: &ClosedBatch<'_>, counters: &mut IngressCounters, sink: &mut impl Sink) {
    let packets = batch.covered.len() as u64;
    match (batch.repair_count(), packets) {
        (0, 1) => counters.uncovered_alone += 1,
        (0, _) => counters.uncovered_budget += packets,
        (repairs, _) => {
            counters.covered += packets;
            counters.cross_stream += repairs as u64;
            counters.cross_stream_bytes +=
                batch.repairs().map(|repair| repair.payload.len() as u64).sum::<u64>();
            sink.cross_stream(batch);
        }
    }
}

#[cfg(test)]
mod tests;
