//! Coding group: the flows whose packets share batches towards one egress relay.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{AlignedBuffer, Encoder, Engine, Repair, SOURCE_PACKETS_MAX};
use byway_sched::Class;
use byway_units::{BatchId, Bytes, Duration, Rate, Time};
use byway_wire::messages::Entry;
use byway_wire::{Alias, SequenceNumber, TenantId};

use super::super::flow_memory::{FlowMemory, Holder};
use super::adaptive_classes::AdaptiveClasses;
use crate::limits::{
    CODED_BYTES_MAX, CODING_QUEUES, CROSS_STREAM_OVERHEAD, OVERHEAD_PERCENT, OVERHEAD_RESERVE,
    PACKET_BYTES_MAX, RESERVE_TIME,
};
use crate::outbox::Owner;
use crate::parts::active_flows::ActiveFlows;
use crate::parts::batcher::{
    BatchPacket, BatchedFlow, Batcher, BatcherSettings, ClosedQueue, CodingClass, FullestFirst,
    RedundancyPolicy,
};
use crate::parts::cohorts::{Cohorts, FIBONACCI_MULTIPLIER, FlowRisks};
use crate::parts::redundancy::Redundancy;

/// Index of a peer relay: another relay, reached by a session, or this relay itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RelayPeerId(pub(crate) u16);

/// A source packet that a batch covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoveredPacket {
    pub(crate) alias: Alias,
    pub(crate) sequence: SequenceNumber,
    pub(crate) digest: Option<[u8; 4]>,
    /// Tenant of the packet's flow. A false answer for the batch would harm this tenant.
    pub(crate) tenant: TenantId,
    /// Class in which the relay's uplink queues packets of its flow.
    pub(crate) class: Class,
    /// Session and tenant that are charged for the packet's part of the repair packets.
    pub(crate) holder: Holder,
    /// Length of the packet.
    pub(crate) bytes: u16,
}

/// An open batch: collects packets and encodes each as it arrives.
#[derive(Debug)]
struct OpenBatch {
    /// Session and tenant that the batch's memory is charged to: those of the first packet's flow.
    holder: Holder,
    encoder: Encoder<AlignedBuffer>,
    covered: ArrayVec<CoveredPacket, SOURCE_PACKETS_MAX>,
    /// Number of repair packets at the first packet, if it follows the losses. With zero, no
    /// packet is encoded.
    adaptive_repairs: Option<u8>,
    /// Sum of the packets' lengths.
    bytes: u32,
}

/// A closed batch. Its redundancy budget determines the number of repair packets.
#[derive(Debug)]
pub(crate) struct ClosedBatch<'a> {
    pub(crate) egress: RelayPeerId,
    /// Number of the coding group for the uplink's scheduler.
    group: u32,
    pub(crate) batch: BatchId,
    pub(crate) covered: &'a [CoveredPacket],
    /// Sum of the covered packets' lengths.
    pub(crate) bytes: u32,
    encoder: &'a Encoder<AlignedBuffer>,
    repairs: usize,
    /// True if the batch has no repair packets because its group loses no packets.
    pub(crate) is_lossless: bool,
}

impl ClosedBatch<'_> {
    /// Returns the repair packets of the batch to send.
    pub(crate) fn repairs(&self) -> impl Iterator<Item = Repair<'_>> {
        self.encoder.repairs(self.batch).take(self.repairs)
    }

    /// True if all covered packets belong to one tenant.
    pub(crate) fn is_of_one_tenant(&self) -> bool {
        self.covered.windows(2).all(|two| two[0].tenant == two[1].tenant)
    }

    /// Returns the owner of the repair packets. Their class is the most urgent one of the covered
    /// packets.
    pub(crate) fn owner(&self) -> Owner {
        let class = self.covered.iter().map(|covered| covered.class).max();
        Owner::Group(self.egress.0, self.group, class.unwrap_or(Class::HighRate))
    }

    /// Returns the number of the batch's repair packets to send.
    pub(crate) const fn repair_count(&self) -> usize {
        self.repairs
    }
}

/// Key of a coding group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) egress: RelayPeerId,
    /// Number of the coding group, which the grants of its flows name.
    pub(crate) group: u32,
    /// Shape of a batch: number of source packets if it is full, k, and of repair packets, `r_c`.
    pub(crate) shape: (u8, u8),
    /// True if the redundancy of its batches follows the losses.
    pub(crate) is_adaptive: bool,
    /// Tenant whose flows alone are in the group; `None` for flows whose tenants allow batches with
    /// those of other tenants. So no tenant uses the queues and the redundancy of another one.
    pub(crate) tenant: Option<TenantId>,
}

impl GroupKey {
    /// Returns the key of the flows of one tenant in the group: their outages concern no others.
    pub(super) const fn of_tenant(self, tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..self }
    }

    /// Returns the number by which the uplink's scheduler distinguishes the groups towards an
    /// egress relay. Each tenant has a share of its own.
    fn scheduled_number(self) -> u32 {
        let tenant = self.tenant.map_or(0, |tenant| tenant.number().wrapping_add(1));
        self.group.wrapping_add(tenant.wrapping_mul(FIBONACCI_MULTIPLIER))
    }

    /// Returns the longest packet length for which a full batch's repair packets can include
    /// digests.
    pub(crate) fn digested_bytes_max(self) -> usize {
        let digested = usize::from(self.shape.0) * (Entry::BYTES + 4);
        PACKET_BYTES_MAX.saturating_sub(CROSS_STREAM_OVERHEAD + digested)
    }
}

/// Next batch number for each egress relay. All groups towards an egress relay share its sequence,
/// because it identifies batches by their number.
#[derive(Debug, Default)]
pub(crate) struct BatchNumbers {
    next: Vec<u32>,
}

impl BatchNumbers {
    fn allocate(&mut self, egress: RelayPeerId) -> BatchId {
        let index = usize::from(egress.0);
        if self.next.len() <= index {
            self.next.resize(index + 1, 0);
        }
        let number = self.next[index];
        self.next[index] = number.wrapping_add(1);
        BatchId::new(number)
    }
}

/// A coding group with its open batches: flows whose packets may share batches.
#[derive(Debug)]
pub(crate) struct CodingGroup {
    pub(crate) key: GroupKey,
    /// Tenant whose flow began the group.
    pub(crate) tenant: TenantId,
    /// Holder and bytes of the charge for the group's table of flows.
    table: (Holder, u64),
    batcher: Batcher<FullestFirst>,
    adaptive: AdaptiveClasses,
    /// Cohorts of each coding class: one, or one for each length of the waits of tenants that share
    /// batches.
    cohorts: Vec<(CodingClass, Cohorts)>,
    open: Vec<OpenBatch>,
    engine: Engine,
    /// Number of the group's registered flows; `rate_sum` is the sum of their rates in bit/s.
    flows: u32,
    rate_sum: u128,
}

impl CodingGroup {
    /// Creates an empty group.
    pub(crate) fn new(engine: Engine, key: GroupKey, tenant: TenantId) -> Self {
        let settings = BatcherSettings {
            batch_packets: key.shape.0,
            batch_repairs: key.shape.1,
            queues: CODING_QUEUES,
            redundancy: RedundancyPolicy::TokenBucket {
                percent: OVERHEAD_PERCENT,
                reserve: Bytes::new(OVERHEAD_RESERVE),
            },
        };
        let batcher = Batcher::new(settings, FullestFirst);
        Self {
            key,
            tenant,
            table: (Holder::default(), 0),
            batcher,
            adaptive: AdaptiveClasses::default(),
            cohorts: Vec::new(),
            open: Vec::new(),
            engine,
            flows: 0,
            rate_sum: 0,
        }
    }

    /// Adds a packet to a batch of the group, which closes within `wait`. Calls `close` for the
    /// batches that close before and after. Returns `false` if the packet's holder has no memory
    /// left for the batch.
    ///
    /// The redundancy follows the losses if the egress relay `reports_losses`.
    pub(crate) fn add(
        &mut self,
        (packet, wait, holder, reports_losses): (&BatchPacket, Duration, Holder, bool),
        covered: CoveredPacket,
        coded: &[u8],
        (numbers, memory): (&mut BatchNumbers, &mut FlowMemory),
        now: Time,
        mut close: impl FnMut(&ClosedBatch<'_>, &mut FlowMemory),
    ) -> bool {
        self.expire((&mut *numbers, &mut *memory), now, &mut close);
        let is_known = self.batcher.has_flow_slot(packet.flow.slot);
        if !is_known && !memory.has_capacity(holder) {
            return false;
        }
        let decision = self.batcher.add(packet, wait, now);
        if let Some(closed_queue) = decision.closed_before {
            self.close(closed_queue, (&mut *numbers, &mut *memory), now, &mut close);
        }
        let adaptive = self.adaptive.get_mut(packet.flow.class).filter(|_| reports_losses);
        let repairs = adaptive.map(|adaptive| {
            adaptive.redundancy.on_packet(now);
            adaptive.redundancy.repairs(now)
        });
        let fixed_repairs = self.key.shape.1;
        // The tables grow for new flows and for new queues.
        if !is_known || self.open.len() <= decision.queue {
            self.update_table_charge(holder, memory);
        }
        let batch = self.batch(decision.queue, holder, memory);
        let is_covered = batch.is_some();
        if let Some(batch) = batch {
            if batch.covered.is_empty() {
                batch.adaptive_repairs = repairs;
                batch.encoder.restart_with(usize::from(repairs.unwrap_or(fixed_repairs).max(1)));
            }
            if batch.adaptive_repairs != Some(0) {
                batch
                    .encoder
                    .add(coded)
                    .expect("the length of copies is checked, and a full batch is closed");
            }
            batch.covered.push(covered);
            batch.bytes += u32::from(packet.bytes);
        }
        if let Some(closed_queue) = decision.closed_after {
            self.close(closed_queue, (&mut *numbers, &mut *memory), now, &mut close);
        }
        is_covered
    }

    /// Assigns a flow with these risks to a cohort of its class, with its first packet in an
    /// interval. `participation` is that of
    /// [`participation_of`](crate::parts::cohorts::participation_of).
    pub(super) fn join_cohort(
        &mut self,
        flow: &mut BatchedFlow,
        risks: &FlowRisks,
        (participation, interval): (u32, u64),
        (holder, memory): (Holder, &mut FlowMemory),
    ) {
        let BatchedFlow { class, cohort, .. } = *flow;
        let index = self.cohorts.iter().position(|(known, _)| *known == class).unwrap_or_else(|| {
            self.cohorts.reserve_exact(1);
            self.cohorts.push((class, Cohorts::new()));
            self.cohorts.len() - 1
        });
        let shape = (self.key.shape.0, memory.has_capacity(holder));
        let membership = self.cohorts[index].1.join(risks, (cohort, participation), shape, interval);
        let is_network = risks.network != 0 && membership.is_network_risk;
        flow.receiver = if is_network { risks.network } else { risks.receiver };
        (flow.cohort, flow.avoids_network) = (membership.cohort, membership.avoids_network);
        self.update_table_charge(holder, memory);
    }

    /// Charges the table of flows to the holder whose flow it last grew for.
    fn update_table_charge(&mut self, holder: Holder, memory: &mut FlowMemory) {
        let classes = (self.cohorts.capacity() * size_of::<(CodingClass, Cohorts)>()) as u64;
        let of_cohorts = self.cohorts.iter().map(|(_, cohorts)| cohorts.bytes()).sum::<u64>() + classes;
        let bytes = self.batcher.bytes() + self.adaptive.bytes() + of_cohorts;
        if bytes != self.table.1 {
            memory.refund(self.table.0, self.table.1);
            memory.charge(holder, bytes);
            self.table = (holder, bytes);
        }
    }

    /// Refunds the memory of a group without flows to its holders, and discards its open batches.
    pub(crate) fn release(&mut self, memory: &mut FlowMemory) {
        let bytes = self.batch_bytes();
        for batch in self.open.drain(..) {
            memory.refund(batch.holder, bytes);
        }
        memory.refund(self.table.0, core::mem::take(&mut self.table.1));
    }

    /// Returns the memory of one open batch with its repair packets, in bytes.
    fn batch_bytes(&self) -> u64 {
        let buffers = usize::from(self.repairs_max()) * (CODED_BYTES_MAX + size_of::<AlignedBuffer>());
        (size_of::<OpenBatch>() + buffers) as u64
    }

    /// Returns the largest number of repair packets of a batch.
    fn repairs_max(&self) -> u8 {
        let (packets, repairs) = self.key.shape;
        if self.key.is_adaptive { Redundancy::max_repairs(packets, repairs) } else { repairs }
    }

    /// Closes the batches whose deadline has passed, and calls `close` for each.
    pub(crate) fn expire(
        &mut self,
        (numbers, memory): (&mut BatchNumbers, &mut FlowMemory),
        now: Time,
        mut close: impl FnMut(&ClosedBatch<'_>, &mut FlowMemory),
    ) {
        while let Some(closed_queue) = self.batcher.expire(now) {
            self.close(closed_queue, (&mut *numbers, &mut *memory), now, &mut close);
        }
    }

    /// Returns the redundancy of the batches of a class; `None` if it is fixed.
    pub(super) fn redundancy(&mut self, class: CodingClass) -> Option<&mut Redundancy> {
        self.adaptive.get_mut(class).map(|adaptive| &mut adaptive.redundancy)
    }

    /// Returns the flows of a class that send; `None` if their redundancy is fixed.
    pub(super) fn active_flows(&mut self, class: CodingClass) -> Option<&mut ActiveFlows> {
        self.adaptive.get_mut(class).map(|adaptive| &mut adaptive.active_flows)
    }

    /// Returns the earliest deadline of the group's open batches.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.batcher.deadline()
    }

    /// Counts a registered flow with this rate and class, and adapts the reserve of redundancy.
    pub(crate) fn join(&mut self, rate: Rate, class: CodingClass, is_coded: bool) {
        if self.key.is_adaptive {
            self.adaptive.join(class, is_coded, self.key.shape, rate);
        }
        self.flows += 1;
        self.rate_sum += u128::from(rate.bits_per_second());
        self.set_reserve();
    }

    /// Removes a registered flow with this rate and class from the counts, and adapts the reserve
    /// of redundancy.
    pub(crate) fn leave(&mut self, rate: Rate, class: CodingClass) {
        self.adaptive.leave(class, self.key.shape, rate);
        self.flows -= 1;
        self.rate_sum -= u128::from(rate.bits_per_second());
        self.set_reserve();
    }

    /// True if the group has no registered flows.
    pub(crate) const fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Sets the batcher's reserve to the redundancy that the group's flows earn in [`RESERVE_TIME`]
    /// at their rates.
    fn set_reserve(&mut self) {
        self.batcher.set_reserve(reserve_of(self.rate_sum, self.key.shape));
    }

    /// Returns the open batch of a queue, and allocates it if the holder has the memory; `None`
    /// without memory.
    fn batch(&mut self, queue: usize, holder: Holder, memory: &mut FlowMemory) -> Option<&mut OpenBatch> {
        while self.open.len() <= queue && memory.try_charge(holder, self.batch_bytes()) {
            let encoder = encoder(self.engine, self.repairs_max());
            self.open.reserve_exact(1);
            self.open.push(OpenBatch {
                holder,
                encoder,
                covered: ArrayVec::new(),
                adaptive_repairs: None,
                bytes: 0,
            });
        }
        self.open.get_mut(queue)
    }

    fn close(
        &mut self,
        closed_queue: ClosedQueue,
        (numbers, memory): (&mut BatchNumbers, &mut FlowMemory),
        now: Time,
        mut close: impl FnMut(&ClosedBatch<'_>, &mut FlowMemory),
    ) {
        let (egress, group) = (self.key.egress, self.key.scheduled_number());
        // A batch without packets is discarded: its packets were left out for lack of memory.
        let Some(batch) = self.open.get_mut(closed_queue.queue).filter(|batch| !batch.covered.is_empty())
        else {
            return;
        };
        let covered = core::mem::take(&mut batch.covered);
        let bytes = core::mem::take(&mut batch.bytes);
        let adaptive =
            self.adaptive.get_mut(CodingClass::of_tenant(covered[0].tenant)).zip(batch.adaptive_repairs);
        let (repairs, redundancy) = match adaptive {
            Some((adaptive, most)) => {
                (adaptive.allocate_repairs(&closed_queue, bytes, most, now), Some(most))
            }
            None => (closed_queue.repairs, None),
        };
        let repairs = usize::from(repairs);
        let number = numbers.allocate(egress);
        let encoder = &mut batch.encoder;
        let is_lossless = redundancy == Some(0);
        let closed = ClosedBatch {
            egress,
            group,
            batch: number,
            covered: &covered,
            bytes,
            encoder,
            repairs,
            is_lossless,
        };
        close(&closed, memory);
        encoder.restart();
    }
}

/// Returns the redundancy that flows with this sum of rates, in bit/s, earn in [`RESERVE_TIME`], in
/// batches of this shape.
pub(super) fn reserve_of(rate_sum: u128, (packets, repairs): (u8, u8)) -> Bytes {
    let income = Rate::from_bits_per_second(u64::try_from(rate_sum).unwrap_or(u64::MAX));
    let (packets, repairs) = (u64::from(packets), u64::from(repairs));
    let earned = income.bytes_in(RESERVE_TIME).unwrap_or(Bytes::MAX).count();
    let reserve = earned.saturating_mul(repairs * u64::from(OVERHEAD_PERCENT)) / (packets * 100);
    Bytes::new(reserve.max(OVERHEAD_RESERVE))
}

fn encoder(engine: Engine, repairs: u8) -> Encoder<AlignedBuffer> {
    let payloads = (0..repairs).map(|_| AlignedBuffer::new(CODED_BYTES_MAX));
    Encoder::new(engine, payloads).expect("rates are checked when a flow is registered")
}
