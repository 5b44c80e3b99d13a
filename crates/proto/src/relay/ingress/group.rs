//! A coding group: the flows whose packets are coded together towards one egress relay.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::{AlignedBuffer, Encoder, Engine, Repair, SOURCE_PACKETS_MAX};
use byway_units::{BatchId, Bytes, Time};
use byway_wire::{Alias, SequenceNumber};

use super::EgressPort;
use crate::limits::{BATCH_WAIT, CODED_BYTES_MAX, CODING_QUEUES, OVERHEAD_PERCENT, OVERHEAD_RESERVE};
use crate::parts::placement::{Closed, FullestFirst, Packet, Placement, Settings, Spending};

/// A packet in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    pub(crate) alias: Alias,
    pub(crate) sequence: SequenceNumber,
    pub(crate) digest: Option<[u8; 4]>,
}

/// A batch that is being filled.
#[derive(Debug)]
struct OpenBatch {
    encoder: Encoder<AlignedBuffer>,
    covered: ArrayVec<Covered, SOURCE_PACKETS_MAX>,
}

/// A batch that was closed, with as many repair packets as it deserves.
#[derive(Debug)]
pub(crate) struct ClosedBatch<'a> {
    pub(crate) egress: EgressPort,
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
    /// Most source packets of a batch, k, and repair packets of a full one, r_c.
    pub(crate) shape: (u8, u8),
}

/// The batches of one group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) key: GroupKey,
    placement: Placement<FullestFirst>,
    open: Vec<OpenBatch>,
    engine: Engine,
    next_batch: u32,
}

impl Group {
    /// An empty group.
    pub(crate) fn new(engine: Engine, key: GroupKey) -> Self {
        let settings = Settings {
            batch_packets: key.shape.0,
            batch_repairs: key.shape.1,
            queues: CODING_QUEUES,
            spending: Spending::Budget { percent: OVERHEAD_PERCENT, reserve: Bytes::new(OVERHEAD_RESERVE) },
        };
        Self { key, placement: Placement::new(settings, FullestFirst), open: Vec::new(), engine, next_batch: 0 }
    }

    /// Puts a packet into a batch; closed batches, before and after, go to `close`.
    pub(crate) fn add(
        &mut self,
        packet: &Packet,
        covered: Covered,
        coded: &[u8],
        now: Time,
        mut close: impl FnMut(&ClosedBatch<'_>),
    ) {
        self.expire(now, &mut close);
        let decision = self.placement.place(packet, BATCH_WAIT, now);
        if let Some(closed) = decision.closed_before {
            self.close(closed, &mut close);
        }
        let batch = self.batch(decision.queue);
        batch.encoder.add(coded).expect("the length of copies is checked, and a full batch is closed");
        batch.covered.push(covered);
        if let Some(closed) = decision.closed_after {
            self.close(closed, &mut close);
        }
    }

    /// Closes the batches whose time has come.
    pub(crate) fn expire(&mut self, now: Time, mut close: impl FnMut(&ClosedBatch<'_>)) {
        while let Some(closed) = self.placement.expire(now) {
            self.close(closed, &mut close);
        }
    }

    /// When the next batch's time comes.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.placement.deadline()
    }

    fn batch(&mut self, queue: usize) -> &mut OpenBatch {
        while self.open.len() <= queue {
            let payloads = (0..self.key.shape.1).map(|_| AlignedBuffer::new(CODED_BYTES_MAX));
            let encoder = Encoder::new(self.engine, payloads).expect("rates are checked when a flow is registered");
            self.open.push(OpenBatch { encoder, covered: ArrayVec::new() });
        }
        &mut self.open[queue]
    }

    fn close(&mut self, closed: Closed, mut close: impl FnMut(&ClosedBatch<'_>)) {
        let number = BatchId::new(self.next_batch);
        self.next_batch = self.next_batch.wrapping_add(1);
        let batch = &mut self.open[closed.queue];
        close(&ClosedBatch {
            egress: self.key.egress,
            batch: number,
            covered: &batch.covered,
            encoder: &batch.encoder,
            repairs: usize::from(closed.repairs),
        });
        batch.covered.clear();
        batch.encoder.restart();
    }
}
