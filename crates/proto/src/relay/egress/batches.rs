//! Cross-stream batches that wait to be needed.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_code::SOURCE_PACKETS_MAX;
use byway_wire::{Alias, SequenceNumber};

use super::flow::FlowSlot;
use super::rounds::RoundSlot;
use crate::limits::{BATCH_REPAIRS_MAX, BATCHES_MAX};
use crate::parts::packet_log::Handle;
use crate::parts::sequence_ring::{SequenceRing, widen};

/// One packet that a batch covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The flow, if a receiver of it is registered here.
    pub(crate) flow: Option<FlowSlot>,
    /// What the ingress relay calls the flow.
    pub(crate) alias: Alias,
    pub(crate) sequence: SequenceNumber,
    /// What the packet's coded bytes digest to, where the ingress relay says so.
    pub(crate) digest: Option<[u8; 4]>,
}

/// The packets a batch covers, in the order of the code.
pub(crate) type Entries = ArrayVec<Entry, SOURCE_PACKETS_MAX>;

/// One repair packet of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchRepair {
    pub(crate) index: u8,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: Handle,
}

/// A batch, with the repair packets that arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// Where its entries are kept, in the arena of entries.
    pub(crate) entries: EntryRun,
    /// How many repair packets were made.
    pub(crate) made: u8,
    pub(crate) repairs: [Option<BatchRepair>; BATCH_REPAIRS_MAX],
    /// The round that completes it, while there is one.
    pub(crate) round: Option<RoundSlot>,
}

impl Batch {
    pub(crate) const fn new(entries: EntryRun, made: u8) -> Self {
        Self { entries, made, repairs: [None; BATCH_REPAIRS_MAX], round: None }
    }

    /// Keeps another repair packet; `false` for a duplicate, or when there is no room.
    pub(crate) fn add(&mut self, repair: BatchRepair) -> bool {
        if self.repairs().any(|held| held.index == repair.index) {
            return false;
        }
        match self.repairs.iter_mut().find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(repair);
                true
            }
            None => false,
        }
    }

    /// Whether it covers so many packets.
    pub(crate) fn covers(&self, packets: usize) -> bool {
        usize::from(self.entries.count) == packets
    }

    pub(crate) fn repairs(&self) -> impl Iterator<Item = &BatchRepair> {
        self.repairs.iter().flatten()
    }
}

/// Where a batch's entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryRun {
    start: u64,
    count: u8,
}

/// The batches of one ingress relay and what they cover, oldest overwritten first.
#[derive(Debug)]
pub(crate) struct Batches {
    by_number: SequenceRing<Batch>,
    entries: VecDeque<Entry>,
    /// How many entries were dropped from the front.
    dropped: u64,
}

impl Default for Batches {
    fn default() -> Self {
        Self { by_number: SequenceRing::new(BATCHES_MAX), entries: VecDeque::new(), dropped: 0 }
    }
}

impl Batches {
    pub(crate) fn get(&self, number: u32) -> Option<Batch> {
        self.by_number.get(self.full(number))
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Batch> {
        self.by_number.get_mut(self.full(number))
    }

    /// Batch numbers begin anew after the last one of 32 bits.
    fn full(&self, number: u32) -> u64 {
        widen(number, self.by_number.highest().unwrap_or(0))
    }

    /// Returns the memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.by_number.bytes() + (self.entries.capacity() * size_of::<Entry>()) as u64
    }

    /// Keeps a batch that is new, with its number and how many repair packets were made; `None` if it is too old. Where it may take no more
    /// memory, older batches give way.
    pub(crate) fn insert(
        &mut self,
        (number, made): (u32, u8),
        entries: &[Entry],
        may_grow: bool,
    ) -> Option<&mut Batch> {
        let run = self.keep_entries(entries, may_grow);
        let number = self.full(number);
        let inserted = self.by_number.insert_over(number, Batch::new(run, made), |_| !may_grow);
        self.by_number.get_mut(number).filter(|_| inserted)
    }

    /// What the batch covers; nothing if that is no longer kept.
    pub(crate) fn entries(&self, run: EntryRun) -> impl Iterator<Item = &Entry> {
        let start = run.start.checked_sub(self.dropped).and_then(|start| usize::try_from(start).ok());
        start.into_iter().flat_map(move |start| self.entries.range(start..start + usize::from(run.count)))
    }

    /// Whether digests vouch for what the batch covers.
    pub(crate) fn is_vouched(&self, run: EntryRun) -> bool {
        self.entries(run).next().is_some_and(|entry| entry.digest.is_some())
    }

    /// Takes in the digests of what the batch covers: the repair packet that has them was overtaken.
    pub(crate) fn vouch(&mut self, run: EntryRun, entries: &[Entry]) {
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

    fn keep_entries(&mut self, entries: &[Entry], may_grow: bool) -> EntryRun {
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
