//! Stored cross-stream batches and their repair packets, per ingress relay.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_code::SOURCE_PACKETS_MAX;
use byway_wire::{Alias, SequenceNumber};

use super::decode_attempts::AttemptId;
use super::flow::FlowSlot;
use crate::limits::{BATCH_REPAIRS_MAX, BATCHES_MAX};
use crate::parts::packet_buffer::Handle;
use crate::parts::sequence_ring::{SequenceRing, widen};

/// One packet that a batch covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchEntry {
    /// Flow of the packet; `None` if none of its receivers is registered at this relay.
    pub(crate) flow: Option<FlowSlot>,
    /// The ingress relay's alias of the flow.
    pub(crate) alias: Alias,
    pub(crate) sequence: SequenceNumber,
    /// Digest of the packet's coded bytes, if the ingress relay sent one.
    pub(crate) digest: Option<[u8; 4]>,
}

/// Packets that a batch covers, in the order in which the ingress relay encoded them.
pub(crate) type BatchEntries = ArrayVec<BatchEntry, SOURCE_PACKETS_MAX>;

/// A stored repair packet of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRepair {
    pub(crate) index: u8,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: Handle,
}

/// A batch, with the repair packets that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Position of the packets that it covers, in the list of [`Batches`].
    pub(crate) entries: EntryRun,
    /// Number of repair packets that the ingress relay made.
    pub(crate) repair_count: u8,
    pub(crate) repairs: [Option<BatchRepair>; BATCH_REPAIRS_MAX],
    /// Active decode attempt of the batch, if there is one.
    pub(crate) attempt: Option<AttemptId>,
    /// Packets that their receivers lost, as bits by index.
    pub(crate) lost: u32,
}

impl Batch {
    pub(crate) const fn new(entries: EntryRun, repair_count: u8) -> Self {
        Self { entries, repair_count, repairs: [None; BATCH_REPAIRS_MAX], attempt: None, lost: 0 }
    }

    /// Stores another repair packet of the batch. Returns `false` for a duplicate, or if the batch
    /// has [`BATCH_REPAIRS_MAX`].
    pub(crate) fn add(&mut self, repair: BatchRepair) -> bool {
        if self.repairs().any(|stored| stored.index == repair.index) {
            return false;
        }
        match self.repairs.iter_mut().find(|entry| entry.is_none()) {
            Some(entry) => {
                *entry = Some(repair);
                true
            }
            None => false,
        }
    }

    /// True if the batch covers exactly this number of packets; otherwise a repair packet with its
    /// number belongs to another batch.
    pub(crate) fn covers(&self, packets: usize) -> bool {
        usize::from(self.entries.count) == packets
    }

    pub(crate) fn repairs(&self) -> impl Iterator<Item = &BatchRepair> {
        self.repairs.iter().flatten()
    }
}

/// Position of a batch's entries in the list of all batches' entries: number of the first since the
/// relay started, and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryRun {
    start: u64,
    count: u8,
}

/// Ring of the batches of one ingress relay and the packets that they cover. New batches overwrite
/// the oldest.
#[derive(Debug)]
pub(crate) struct Batches {
    by_number: SequenceRing<Batch>,
    entries: VecDeque<BatchEntry>,
    /// Number of entries removed from the front so far.
    dropped: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { by_number: SequenceRing::new(BATCHES_MAX), entries: VecDeque::new(), dropped: 0 }
    }
}

impl Batches {
    pub(crate) fn get(&self, number: u32) -> Option<Batch> {
        self.by_number.get(self.full_number(number))
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Batch> {
        self.by_number.get_mut(self.full_number(number))
    }

    /// Expands a batch number, which has 32 bits and wraps around, to the full number nearest to
    /// the newest batch.
    fn full_number(&self, number: u32) -> u64 {
        widen(number, self.by_number.highest().unwrap_or(0))
    }

    /// Returns the memory use of the batches, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_number.bytes() + (self.entries.capacity() * size_of::<BatchEntry>()) as u64
    }

    /// Stores a new batch, with its number and its number of repair packets. Returns `None` if the
    /// batch is too old.
    ///
    /// If `may_grow` is false, the batch and its entries replace older ones, because memory is
    /// exhausted.
    pub(crate) fn insert(
        &mut self,
        (number, repair_count): (u32, u8),
        entries: &[BatchEntry],
        may_grow: bool,
    ) -> Option<&mut Batch> {
        let run = self.store_entries(entries, may_grow);
        let number = self.full_number(number);
        let inserted = self.by_number.insert_over(number, Batch::new(run, repair_count), |_| !may_grow);
        self.by_number.get_mut(number).filter(|_| inserted)
    }

    /// Returns the entries of a batch; none if newer entries have overwritten them.
    pub(crate) fn entries(&self, run: EntryRun) -> impl Iterator<Item = &BatchEntry> {
        let start = run.start.checked_sub(self.dropped).and_then(|start| usize::try_from(start).ok());
        start.into_iter().flat_map(move |start| self.entries.range(start..start + usize::from(run.count)))
    }

    /// True if the ingress relay sent digests with the batch, by which answers of receivers are
    /// verified.
    pub(crate) fn has_digests(&self, run: EntryRun) -> bool {
        self.entries(run).next().is_some_and(|entry| entry.digest.is_some())
    }

    /// Adds digests to a batch's entries. A repair packet without digests overtook the one that has
    /// them.
    pub(crate) fn set_digests(&mut self, run: EntryRun, entries: &[BatchEntry]) {
        let start = run.start.checked_sub(self.dropped).and_then(|start| usize::try_from(start).ok());
        let Some(start) = start else {
            return;
        };
        for (known, entry) in self.entries.range_mut(start..start + usize::from(run.count)).zip(entries) {
            if (known.alias, known.sequence) == (entry.alias, entry.sequence) {
                known.digest = known.digest.or(entry.digest);
            }
        }
    }

    fn store_entries(&mut self, entries: &[BatchEntry], may_grow: bool) -> EntryRun {
        let max = if may_grow { BATCHES_MAX * 10 } else { self.entries.capacity().max(entries.len()) };
        let excess = (self.entries.len() + entries.len()).saturating_sub(max).min(self.entries.len());
        self.entries.drain(..excess);
        self.dropped += excess as u64;
        let start = self.dropped + self.entries.len() as u64;
        let count = u8::try_from(entries.len()).expect("a batch covers at most 32 packets");
        self.entries.extend(entries);
        EntryRun { start, count }
    }
}
