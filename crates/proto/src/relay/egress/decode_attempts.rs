//! Decode attempts: each completes a batch with the packets of other receivers.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_code::SOURCE_PACKETS_MAX;
use byway_units::{Duration, Time};

use super::Holder;
use super::batches::BatchEntries;
use super::flow::{BatchRef, FlowSlot};
use super::sweep::swept_at;
use crate::limits::{DECODE_ATTEMPTS_MAX, SOLVES_PER_INPUT_MAX, SPARE_DECODE_ATTEMPTS_MAX};
use crate::parts::packet_buffer::Handle;

/// Index of an active decode attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AttemptId(u16);

/// Set of packets of one batch, as their indices in the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexSet(u32);

impl IndexSet {
    pub(crate) fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    pub(crate) const fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the indices of the set, in rising order.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..SOURCE_PACKETS_MAX).filter(move |index| self.contains(*index))
    }

    /// Returns the subset of the indices that satisfy a predicate.
    pub(crate) fn filter(self, is_true: impl Fn(usize) -> bool) -> Self {
        let mut only = Self::default();
        self.iter().filter(|index| is_true(*index)).for_each(|index| only.insert(index));
        only
    }

    const fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    const fn difference(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    pub(crate) const fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

/// Attempt to decode a batch. The relay collects packets of the batch from their receivers until
/// the repair packets restore the others.
#[derive(Clone, Debug)]
pub(crate) struct DecodeAttempt {
    /// Session and tenant that the attempt's memory is charged to.
    pub(super) holder: Holder,
    pub(crate) batch: BatchRef,
    pub(crate) entries: BatchEntries,
    /// Packets of the batch that their receivers requested by NACKs.
    pub(crate) requested: IndexSet,
    /// Packets of the batch whose bytes the relay has, in `answers`.
    pub(crate) available: IndexSet,
    /// Packets whose receivers refused the relay's request, because they had lost them too.
    pub(crate) lost: IndexSet,
    /// Packets whose receivers had not answered the relay's request in time. A later answer does
    /// not clear the mark.
    pub(crate) late: IndexSet,
    /// Late packets that the relay requested once more.
    pub(crate) retried: IndexSet,
    /// Packets that the relay must not request: their receiver is unknown, quarantined, or has
    /// reached its consent.
    pub(crate) not_asked: IndexSet,
    /// Time at which this attempt last requested each packet, by index; `None` before.
    pub(crate) requested_at: [Option<Time>; SOURCE_PACKETS_MAX],
    pub(crate) answers: ArrayVec<(usize, Handle), SOURCE_PACKETS_MAX>,
    /// Digest of the equation system of the latest joint decode, if it restored nothing.
    pub(super) unsolvable: Option<u64>,
    /// Time after which no receiver waits for the result.
    pub(crate) deadline: Time,
    /// Time of the next review, unless the attempt ends before.
    review_at: Option<Time>,
    /// Time at which the attempt expires, unless a receiver then still waits for its result.
    expires_at: Option<Time>,
}

impl DecodeAttempt {
    /// Memory of one attempt and its entries in the tables of attempts, in bytes.
    pub(super) const BYTES: u64 = size_of::<Self>() as u64 + 64;

    pub(crate) fn new(holder: Holder, batch: BatchRef, entries: BatchEntries) -> Self {
        Self {
            holder,
            batch,
            entries,
            requested: IndexSet::default(),
            available: IndexSet::default(),
            lost: IndexSet::default(),
            late: IndexSet::default(),
            retried: IndexSet::default(),
            not_asked: IndexSet::default(),
            requested_at: [None; SOURCE_PACKETS_MAX],
            answers: ArrayVec::new(),
            unsolvable: None,
            deadline: Time::START,
            review_at: None,
            expires_at: None,
        }
    }

    /// Returns the flows whose receivers requested packets of the batch by NACKs.
    pub(super) fn requesters(&self) -> impl Iterator<Item = FlowSlot> {
        self.requested.iter().filter_map(|index| self.entries[index].flow)
    }

    /// Returns the number of the batch's packets that the relay does not have.
    pub(crate) fn missing_count(&self) -> usize {
        self.entries.len() - self.available.count()
    }

    /// True if receivers miss more packets of the batch than this number of repair packets can
    /// restore. Answers of other receivers then do not help.
    pub(crate) const fn is_undecodable(&self, repairs: usize) -> bool {
        self.requested.union(self.lost).difference(self.available).count() > repairs
    }

    /// Returns the packets that receivers requested by NACKs and that the relay does not have.
    pub(crate) const fn missing(&self) -> IndexSet {
        self.requested.difference(self.available)
    }

    /// Returns the number of packets that the relay lacks and no receiver will send: missed,
    /// refused, or not to be requested.
    pub(crate) const fn unavailable_count(&self) -> usize {
        self.requested.union(self.lost).union(self.not_asked).difference(self.available).count()
    }

    /// Returns the number of packets that the relay lacks and will probably not receive in time.
    /// Late packets count besides those of [`Self::unavailable_count`].
    pub(crate) const fn unavailable_or_late_count(&self) -> usize {
        self.requested
            .union(self.lost)
            .union(self.late)
            .union(self.not_asked)
            .difference(self.available)
            .count()
    }

    /// Returns the late packets that the relay may request once more.
    pub(crate) const fn retry_candidates(&self) -> IndexSet {
        self.late
            .difference(self.available)
            .difference(self.lost)
            .difference(self.requested)
            .difference(self.retried)
    }

    /// True if the relay requested the packet at this index, and its receiver has neither sent it
    /// nor reported it lost, and is not late.
    pub(crate) const fn is_awaited(&self, index: usize) -> bool {
        self.requested_at[index].is_some()
            && !self.available.union(self.requested).union(self.lost).union(self.late).contains(index)
    }

    /// Returns the handle of the packet at this index of the batch, if the relay has it.
    pub(crate) fn available_packet(&self, index: usize) -> Option<Handle> {
        self.answers.iter().find(|(answered, _)| *answered == index).map(|(_, packet)| *packet)
    }

    /// Adds a packet at this index of the batch. Returns `false` if the attempt has it already.
    pub(crate) fn add_packet(&mut self, index: usize, packet: Handle) -> bool {
        if self.available.contains(index) {
            return false;
        }
        self.available.insert(index);
        self.answers.push((index, packet));
        true
    }

    /// True if the relay may request the packet at this index from its receiver, first or again. It
    /// lacks the packet, the receiver does not miss it, and the last request is `again_after` old.
    pub(crate) fn may_request(&self, index: usize, again_after: Duration, now: Time) -> bool {
        let is_answered = self.available.contains(index) || self.requested.contains(index);
        let is_requested_lately =
            self.requested_at[index].is_some_and(|requested_at| requested_at + again_after > now);
        !is_answered && !is_requested_lately
    }
}

/// Table of active decode attempts, with their timers for reviews and expiry.
#[derive(Debug, Default)]
pub(crate) struct DecodeAttempts {
    /// Attempts by index. Each has an allocation of its own: a table of all attempts would exceed
    /// the allocation that one datagram may cause.
    slots: Vec<Option<Box<DecodeAttempt>>>,
    free: Vec<AttemptId>,
    /// Allocations of ended attempts, which later attempts reuse.
    spare: ArrayVec<Box<DecodeAttempt>, SPARE_DECODE_ATTEMPTS_MAX>,
    /// Review times of the attempts that have one.
    reviews: BTreeSet<(Time, AttemptId)>,
    /// Earliest expiry of each attempt.
    expiries: BTreeSet<(Time, AttemptId)>,
    /// Number of joint decodes since the relay started.
    joint_decodes: u64,
    /// Value of `joint_decodes` from which the current input may begin no further joint decode.
    joint_decodes_max: u64,
}

impl DecodeAttempts {
    /// Creates an empty table. Before the first input, joint decodes are unlimited.
    pub(crate) fn new() -> Self {
        Self { joint_decodes_max: u64::MAX, ..Self::default() }
    }

    /// Permits the next input [`SOLVES_PER_INPUT_MAX`] joint decodes.
    pub(crate) const fn allow_joint_decodes(&mut self) {
        self.joint_decodes_max = self.joint_decodes + SOLVES_PER_INPUT_MAX;
    }

    /// Counts a joint decode. Returns `false` if the current input has begun as many as one input
    /// may.
    pub(crate) const fn begin_joint_decode(&mut self) -> bool {
        let may_begin = self.joint_decodes < self.joint_decodes_max;
        if may_begin {
            self.joint_decodes += 1;
        }
        may_begin
    }

    /// Stores a new decode attempt, and returns its index. Returns `None` if
    /// [`DECODE_ATTEMPTS_MAX`] attempts are active.
    pub(crate) fn begin(&mut self, attempt: DecodeAttempt) -> Option<AttemptId> {
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.slots.len() == DECODE_ATTEMPTS_MAX => return None,
            None => {
                self.slots.push(None);
                AttemptId(u16::try_from(self.slots.len() - 1).expect("DECODE_ATTEMPTS_MAX fits in 16 bits"))
            }
        };
        let attempt = match self.spare.pop() {
            Some(mut spare) => {
                *spare = attempt;
                spare
            }
            None => Box::new(attempt),
        };
        self.slots[usize::from(id.0)] = Some(attempt);
        Some(id)
    }

    pub(crate) fn get(&self, id: AttemptId) -> &DecodeAttempt {
        self.slots[usize::from(id.0)].as_deref().expect("a batch refers to its attempt while that is active")
    }

    pub(crate) fn get_mut(&mut self, id: AttemptId) -> &mut DecodeAttempt {
        self.slots[usize::from(id.0)]
            .as_deref_mut()
            .expect("a batch refers to its attempt while that is active")
    }

    pub(crate) fn end(&mut self, id: AttemptId) -> Box<DecodeAttempt> {
        self.free.push(id);
        let attempt = self.slots[usize::from(id.0)].take().expect("an attempt ends once");
        if let Some(at) = attempt.review_at {
            self.reviews.remove(&(at, id));
        }
        if let Some(at) = attempt.expires_at {
            self.expiries.remove(&(at, id));
        }
        attempt
    }

    /// Keeps the allocation of an ended attempt for a later one, unless enough are stored.
    pub(crate) fn recycle(&mut self, attempt: Box<DecodeAttempt>) {
        if !self.spare.is_full() {
            self.spare.push(attempt);
        }
    }

    /// Extends a decode attempt's deadline to `until`, the time until which a receiver waits for
    /// its result. An earlier time changes nothing.
    pub(crate) fn extend(&mut self, id: AttemptId, until: Time) {
        let attempt = self.get_mut(id);
        attempt.deadline = attempt.deadline.max(until);
        if attempt.expires_at.is_none() {
            let at = swept_at(attempt.deadline);
            attempt.expires_at = Some(at);
            self.expiries.insert((at, id));
        }
    }

    /// Returns the earliest time at which a decode attempt may expire.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        self.expiries.first().map(|(at, _)| *at)
    }

    /// Removes a due expiry timer and returns its decode attempt. Attempts whose deadline was
    /// extended get a new timer instead.
    pub(crate) fn next_expired(&mut self, now: Time) -> Option<AttemptId> {
        while let Some((_, id)) = self.expiries.first().copied().filter(|(at, _)| *at <= now) {
            self.expiries.pop_first();
            let attempt = self.get_mut(id);
            attempt.expires_at = None;
            if attempt.deadline <= now {
                return Some(id);
            }
            self.extend(id, now);
        }
        None
    }

    /// Schedules the next review of a decode attempt for this time, unless an earlier one is
    /// scheduled.
    pub(crate) fn schedule_review(&mut self, id: AttemptId, at: Time) {
        let scheduled = self.get(id).review_at;
        if scheduled.is_some_and(|scheduled| scheduled <= at) {
            return;
        }
        if let Some(scheduled) = scheduled {
            self.reviews.remove(&(scheduled, id));
        }
        self.get_mut(id).review_at = Some(at);
        self.reviews.insert((at, id));
    }

    /// Returns the time of the next review of any decode attempt.
    pub(crate) fn review_at(&self) -> Option<Time> {
        self.reviews.first().map(|(at, _)| *at)
    }

    /// Removes a due review timer, and returns its decode attempt.
    pub(crate) fn next_to_review(&mut self, now: Time) -> Option<AttemptId> {
        self.review_at().filter(|at| *at <= now)?;
        let (_, id) = self.reviews.pop_first()?;
        self.get_mut(id).review_at = None;
        Some(id)
    }

    pub(crate) fn active_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BUFFER_CHUNK_BYTES_MAX;

    #[test]
    fn no_decode_attempt_makes_the_table_allocate_more_than_a_datagram_may() {
        let mut attempts = DecodeAttempts::default();
        let batch = BatchRef { ingress: 0, number: 1 };
        for nth in 0..=DECODE_ATTEMPTS_MAX {
            let mut begun = None;
            let cost = allocation_counter::measure(|| {
                begun = attempts.begin(DecodeAttempt::new(Holder::default(), batch, BatchEntries::new()));
            });
            assert!(
                cost.bytes_max <= BUFFER_CHUNK_BYTES_MAX as u64,
                "attempt {nth}: {} bytes",
                cost.bytes_max
            );
            assert_eq!(begun.is_some(), nth < DECODE_ATTEMPTS_MAX);
        }
    }
}
