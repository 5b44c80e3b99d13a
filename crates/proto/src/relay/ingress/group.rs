//! A coding group: the flows whose packets are coded together towards one egress relay.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{AlignedBuffer, Encoder, Engine, Repair, SOURCE_PACKETS_MAX};
use byway_sched::Class;
use byway_units::{BatchId, Bytes, Rate, Time};
use byway_wire::messages::Entry;
use byway_wire::{Alias, SequenceNumber, TenantId};

use super::super::flow_memory::{FlowMemory, Holder};
use super::EgressPort;
use crate::limits::{
    BATCH_WAIT, CODED_BYTES_MAX, CODING_QUEUES, CROSS_STREAM_OVERHEAD, OVERHEAD_PERCENT, OVERHEAD_RESERVE,
    PACKET_BYTES_MAX, RESERVE_TIME,
};
use crate::outbox::Owner;
use crate::parts::placement::{Closed, CodingClass, FullestFirst, Packet, Placement, Settings, Spending};

/// A packet in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    pub(crate) alias: Alias,
    pub(crate) sequence: SequenceNumber,
    pub(crate) digest: Option<[u8; 4]>,
    /// Whose packet it is: who would suffer from a false answer.
    pub(crate) tenant: CodingClass,
    /// The class of its flow where packets have to wait.
    pub(crate) wait: Class,
}

/// A batch that is being filled.
#[derive(Debug)]
struct OpenBatch {
    /// Whose memory it takes: the flow's for whose packet it was begun.
    holder: Holder,
    encoder: Encoder<AlignedBuffer>,
    covered: ArrayVec<Covered, SOURCE_PACKETS_MAX>,
}

/// A batch that was closed, with as many repair packets as it deserves.
#[derive(Debug)]
pub(crate) struct ClosedBatch<'a> {
    pub(crate) egress: EgressPort,
    /// The coding group of the grants.
    group: u32,
    pub(crate) batch: BatchId,
    pub(crate) covered: &'a [Covered],
    encoder: &'a Encoder<AlignedBuffer>,
    repairs: usize,
}

impl ClosedBatch<'_> {
    /// The repair packets to be sent.
    pub(crate) fn repairs(&self) -> impl Iterator<Item = Repair<'_>> {
        self.encoder.repairs(self.batch).take(self.repairs)
    }

    /// Whether it covers packets of one tenant only.
    pub(crate) fn is_of_one_tenant(&self) -> bool {
        self.covered.windows(2).all(|two| two[0].tenant == two[1].tenant)
    }

    /// Whose the repair packets are: as urgent as the most urgent packet that they cover.
    pub(crate) fn owner(&self) -> Owner {
        let class = self.covered.iter().map(|covered| covered.wait).max();
        Owner::Group(self.egress.0, self.group, class.unwrap_or(Class::HighRate))
    }

    /// How many there are.
    pub(crate) const fn repair_count(&self) -> usize {
        self.repairs
    }
}

/// What sets one group apart from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupKey {
    pub(crate) egress: EgressPort,
    /// The coding group of the grants.
    pub(crate) group: u32,
    /// Most source packets of a batch, k, and repair packets of a full one, `r_c`.
    pub(crate) shape: (u8, u8),
}

impl GroupKey {
    /// How long packets may be whose repair packets have room for digests, in full batches.
    pub(crate) fn digested_bytes_max(self) -> usize {
        let digested = usize::from(self.shape.0) * (Entry::BYTES + 4);
        PACKET_BYTES_MAX.saturating_sub(CROSS_STREAM_OVERHEAD + digested)
    }
}

/// The numbers of batches: all groups towards an egress relay share a row, as it tells batches apart by number.
#[derive(Debug, Default)]
pub(crate) struct BatchNumbers {
    next: Vec<u32>,
}

impl BatchNumbers {
    fn take(&mut self, egress: EgressPort) -> BatchId {
        let place = usize::from(egress.0);
        if self.next.len() <= place {
            self.next.resize(place + 1, 0);
        }
        let number = self.next[place];
        self.next[place] = number.wrapping_add(1);
        BatchId::new(number)
    }
}

/// The batches of one group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    /// The tenant whose flow began it.
    pub(crate) tenant: TenantId,
    /// Memory of its table of flows, and whose it is.
    table: (Holder, u64),
    placement: Placement<FullestFirst>,
    open: Vec<OpenBatch>,
    engine: Engine,
    /// How many flows are registered with it, and what they send at most.
    flows: u32,
    income: u128,
}

impl Group {
    /// An empty group.
    pub(crate) fn new(engine: Engine, key: GroupKey, tenant: TenantId) -> Self {
        let settings = Settings {
            batch_packets: key.shape.0,
            batch_repairs: key.shape.1,
            queues: CODING_QUEUES,
            spending: Spending::Budget { percent: OVERHEAD_PERCENT, reserve: Bytes::new(OVERHEAD_RESERVE) },
        };
        let placement = Placement::new(settings, FullestFirst);
        Self {
            key,
            tenant,
            table: (Holder::default(), 0),
            placement,
            open: Vec::new(),
            engine,
            flows: 0,
            income: 0,
        }
    }

    /// Puts a packet of a flow with this holder into a batch; closed batches, before and after, go to `close`. `false` if its holder may take no
    /// memory for it.
    pub(crate) fn add(
        &mut self,
        (packet, holder): (&Packet, Holder),
        covered: Covered,
        coded: &[u8],
        (numbers, memory): (&mut BatchNumbers, &mut FlowMemory),
        now: Time,
        mut close: impl FnMut(&ClosedBatch<'_>),
    ) -> bool {
        self.expire(numbers, now, &mut close);
        let is_known = self.placement.knows(packet.flow.slot);
        if !is_known && !memory.has_room(holder) {
            return false;
        }
        let decision = self.placement.place(packet, BATCH_WAIT, now);
        if let Some(closed) = decision.closed_before {
            self.close(closed, numbers, &mut close);
        }
        // The tables grow for new flows and for new queues.
        if !is_known || self.open.len() <= decision.queue {
            self.settle_table(holder, memory);
        }
        let batch = self.batch(decision.queue, holder, memory);
        let is_covered = batch.is_some();
        if let Some(batch) = batch {
            batch.encoder.add(coded).expect("the length of copies is checked, and a full batch is closed");
            batch.covered.push(covered);
        }
        if let Some(closed) = decision.closed_after {
            self.close(closed, numbers, &mut close);
        }
        is_covered
    }

    /// Charges the holder whose flow the table of flows last grew for.
    fn settle_table(&mut self, holder: Holder, memory: &mut FlowMemory) {
        let bytes = self.placement.bytes();
        if bytes != self.table.1 {
            memory.give_back(self.table.0, self.table.1);
            memory.charge(holder, bytes);
            self.table = (holder, bytes);
        }
    }

    /// Gives back the memory of a group that ends.
    pub(crate) fn release(&mut self, memory: &mut FlowMemory) {
        let bytes = self.batch_bytes();
        for batch in self.open.drain(..) {
            memory.give_back(batch.holder, bytes);
        }
        memory.give_back(self.table.0, core::mem::take(&mut self.table.1));
    }

    /// Memory of one open batch.
    fn batch_bytes(&self) -> u64 {
        let buffers = usize::from(self.key.shape.1) * (CODED_BYTES_MAX + size_of::<AlignedBuffer>());
        (size_of::<OpenBatch>() + buffers) as u64
    }

    /// Closes the batches whose time has come.
    pub(crate) fn expire(
        &mut self,
        numbers: &mut BatchNumbers,
        now: Time,
        mut close: impl FnMut(&ClosedBatch<'_>),
    ) {
        while let Some(closed) = self.placement.expire(now) {
            self.close(closed, numbers, &mut close);
        }
    }

    /// When the next batch's time comes.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.placement.deadline()
    }

    /// Takes in a flow that sends so much at most.
    pub(crate) fn join(&mut self, rate: Rate) {
        self.flows += 1;
        self.income += u128::from(rate.bits_per_second());
        self.set_reserve();
    }

    /// Lets such a flow go.
    pub(crate) fn leave(&mut self, rate: Rate) {
        self.flows -= 1;
        self.income -= u128::from(rate.bits_per_second());
        self.set_reserve();
    }

    /// Whether no flow is registered with it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// As much is kept in reserve for repair packets as an eighth of a second earns.
    fn set_reserve(&mut self) {
        let income = Rate::from_bits_per_second(u64::try_from(self.income).unwrap_or(u64::MAX));
        let (packets, repairs) = (u64::from(self.key.shape.0), u64::from(self.key.shape.1));
        let second = income.bytes_in(RESERVE_TIME).unwrap_or(Bytes::MAX).count();
        let reserve = second.saturating_mul(repairs * u64::from(OVERHEAD_PERCENT)) / (packets * 100);
        self.placement.set_reserve(Bytes::new(reserve.max(OVERHEAD_RESERVE)));
    }

    /// The batch that a packet goes into, begun if its holder may take the memory.
    fn batch(&mut self, queue: usize, holder: Holder, memory: &mut FlowMemory) -> Option<&mut OpenBatch> {
        while self.open.len() <= queue && memory.take(holder, self.batch_bytes()) {
            let encoder = encoder(self.engine, self.key.shape.1);
            self.open.reserve_exact(1);
            self.open.push(OpenBatch { holder, encoder, covered: ArrayVec::new() });
        }
        self.open.get_mut(queue)
    }

    fn close(&mut self, closed: Closed, numbers: &mut BatchNumbers, mut close: impl FnMut(&ClosedBatch<'_>)) {
        let GroupKey { egress, group, .. } = self.key;
        // Of a batch whose packets were left out, nothing is sent.
        let Some(batch) = self.open.get_mut(closed.queue).filter(|batch| !batch.covered.is_empty()) else {
            return;
        };
        let number = numbers.take(egress);
        let repairs = usize::from(closed.repairs);
        let covered = core::mem::take(&mut batch.covered);
        let encoder = &mut batch.encoder;
        close(&ClosedBatch { egress, group, batch: number, covered: &covered, encoder, repairs });
        encoder.restart();
    }
}

fn encoder(engine: Engine, repairs: u8) -> Encoder<AlignedBuffer> {
    let payloads = (0..repairs).map(|_| AlignedBuffer::new(CODED_BYTES_MAX));
    Encoder::new(engine, payloads).expect("rates are checked when a flow is registered")
}
