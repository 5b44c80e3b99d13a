//! Queues towards one egress relay, and an index of their packets by flow.

use alloc::vec;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use super::{BatchPacket, BatchedFlow, CodingClass};
use crate::limits::{BATCH_PACKETS_MAX, BATCHER_FLOWS_MAX, BATCHER_QUEUES_MAX};

/// Flow of a queued packet, and its access networks.
#[derive(Clone, Copy, Debug)]
struct Member {
    flow: u32,
    receiver: u32,
    sender: u32,
}

/// Open queue of a batcher: the packets of a future batch.
#[derive(Clone, Debug)]
pub struct Queue {
    class: CodingClass,
    /// Cohort of the first packet's flow.
    cohort: u8,
    members: ArrayVec<Member, BATCH_PACKETS_MAX>,
    /// Bit set of the receivers' access networks, by number modulo 64. A zero bit proves that a
    /// network is absent, without a search.
    receivers: u64,
    /// Bit set of the senders' access networks, by number modulo 64.
    senders: u64,
    longest: u16,
    opened: Time,
    halfway: Time,
    latest: Time,
    is_reviewed: bool,
    is_held_open: bool,
}

impl Queue {
    const EMPTY: Self = Self {
        class: CodingClass::SHARED,
        cohort: 0,
        members: ArrayVec::new_const(),
        receivers: 0,
        senders: 0,
        longest: 0,
        opened: Time::START,
        halfway: Time::MAX,
        latest: Time::MAX,
        is_reviewed: false,
        is_held_open: false,
    };

    /// Returns the number of packets in the queue.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Returns the length of the longest packet in bytes, which is also the length of each repair
    /// packet of the batch.
    #[must_use]
    pub const fn longest(&self) -> u16 {
        self.longest
    }

    /// Returns the cohort of the flow whose packet opened the queue.
    #[inline]
    #[must_use]
    pub const fn cohort(&self) -> u8 {
        self.cohort
    }

    /// Returns the arrival time of the queue's first packet.
    #[must_use]
    pub const fn opened_at(&self) -> Time {
        self.opened
    }

    /// Returns the time at which half of the shortest waiting time of the queue's packets is over.
    #[must_use]
    pub const fn halfway(&self) -> Time {
        self.halfway
    }

    /// True if a packet of the queue goes to the receiver network of `flow`. False if that is
    /// unknown.
    #[must_use]
    pub fn shares_receiver(&self, flow: &BatchedFlow) -> bool {
        flow.receiver != 0
            && self.receivers & bit_of(flow.receiver) != 0
            && self.members.iter().any(|member| member.receiver == flow.receiver)
    }

    /// True if a packet of the queue comes from the sender network of `flow`. False if that is
    /// unknown.
    #[must_use]
    pub fn shares_sender(&self, flow: &BatchedFlow) -> bool {
        flow.sender != 0
            && self.senders & bit_of(flow.sender) != 0
            && self.members.iter().any(|member| member.sender == flow.sender)
    }

    /// Returns the time at which the batcher reviews the queue: first halfway, for an early
    /// closing, then at its deadline.
    pub(super) fn due(&self) -> Time {
        if self.is_reviewed { self.latest } else { self.halfway }
    }

    /// True if the batcher has decided halfway whether the queue closes early.
    pub(super) const fn is_reviewed(&self) -> bool {
        self.is_reviewed
    }

    pub(super) const fn mark_reviewed(&mut self) {
        self.is_reviewed = true;
    }

    /// True if the queue could have closed early, and the predictor decided to keep it open.
    pub(super) const fn is_held_open(&self) -> bool {
        self.is_held_open
    }

    pub(super) const fn hold_open(&mut self) {
        self.is_held_open = true;
    }
}

/// Returns the bit of an access network in a set of 64. Networks with consecutive numbers have
/// different bits.
const fn bit_of(network: u32) -> u64 {
    1 << (network % 64)
}

/// All queues of a batcher, towards one egress relay.
#[derive(Clone, Debug)]
pub struct Queues {
    all: Vec<Queue>,
    /// Bit set of the queues that have packets, by index.
    open: u64,
    /// Bit set of the queues that have a packet of a flow, by flow slot.
    holding: Vec<u64>,
    /// Lower bound on the next review of all queues.
    soonest: Time,
}

impl Queues {
    pub(super) fn new(count: u8) -> Self {
        assert!(
            (1..=BATCHER_QUEUES_MAX).contains(&usize::from(count)),
            "a batcher has 1 to {BATCHER_QUEUES_MAX} queues, not {count}"
        );
        Self { all: vec![Queue::EMPTY; usize::from(count)], open: 0, holding: Vec::new(), soonest: Time::MAX }
    }

    /// Returns the number of queues, empty ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns the queue at this index.
    ///
    /// # Panics
    /// If the index is not below [`count`](Self::count).
    #[must_use]
    pub fn queue(&self, index: usize) -> &Queue {
        &self.all[index]
    }

    /// Returns the queues that have packets, with their indices.
    pub fn open(&self) -> impl Iterator<Item = (usize, &Queue)> {
        ones(self.open).map(|index| (index, &self.all[index]))
    }

    /// True if `packet` may join the queue at `index`: the queue has no packet of the flow, and is
    /// empty or of the flow's coding class.
    #[must_use]
    pub fn suits(&self, index: usize, packet: &BatchPacket) -> bool {
        let queue = &self.all[index];
        self.held_by(packet) & (1 << index) == 0 && (queue.size() == 0 || queue.class == packet.flow.class)
    }

    /// Returns the queues that have packets of the flow's coding class, but none of the flow
    /// itself.
    pub fn lacking(&self, packet: &BatchPacket) -> impl Iterator<Item = (usize, &Queue)> {
        let class = packet.flow.class;
        let lacking = self.open & !self.held_by(packet);
        ones(lacking).map(|index| (index, &self.all[index])).filter(move |(_, queue)| queue.class == class)
    }

    /// Returns the index of an empty queue; `None` if all have packets.
    #[must_use]
    pub fn free(&self) -> Option<usize> {
        let index = (!self.open).trailing_zeros() as usize;
        (index < self.all.len()).then_some(index)
    }

    /// Returns the index of the queue whose first packet arrived first: of those of the packet's
    /// coding class, or of all if there are none.
    ///
    /// # Panics
    /// If all queues are empty.
    #[must_use]
    pub fn oldest_for(&self, packet: &BatchPacket) -> usize {
        let oldest = self.open().min_by_key(|(_, queue)| (queue.class != packet.flow.class, queue.opened));
        oldest.expect("at least one queue has packets").0
    }

    pub(super) fn queue_mut(&mut self, index: usize) -> &mut Queue {
        &mut self.all[index]
    }

    /// Returns a time before which no queue needs a review; `None` if all queues are empty.
    pub(super) fn not_before(&self) -> Option<Time> {
        (self.open != 0).then_some(self.soonest)
    }

    /// Returns the index of the queue to review first, and the time of that review; `None` if no
    /// review is due.
    pub(super) fn first_due(&mut self, now: Time) -> Option<(Time, usize)> {
        if self.soonest > now {
            return None;
        }
        let first = self.open().map(|(index, queue)| (queue.due(), index)).min();
        self.soonest = first.map_or(Time::MAX, |(due, _)| due);
        first.filter(|(due, _)| *due <= now)
    }

    /// Adds `packet` to the queue at `index`, which then closes within `wait`.
    pub(super) fn add(&mut self, index: usize, packet: &BatchPacket, now: Time, wait: Duration) {
        let queue = &mut self.all[index];
        if queue.members.is_empty() {
            self.open |= 1 << index;
            (queue.class, queue.cohort) = (packet.flow.class, packet.flow.cohort);
            queue.opened = now;
        }
        let flow = packet.flow;
        queue.members.push(Member { flow: flow.slot, receiver: flow.receiver, sender: flow.sender });
        queue.receivers |= bit_of(flow.receiver);
        queue.senders |= bit_of(flow.sender);
        queue.longest = queue.longest.max(packet.bytes);
        queue.latest = queue.latest.min(now.saturating_add(wait));
        queue.halfway = queue.halfway.min(now.saturating_add(wait / 2));
        self.soonest = self.soonest.min(queue.due());
        *self.holding_mut(flow.slot) |= 1 << index;
    }

    /// Removes all packets of the queue at `index`.
    pub(super) fn clear(&mut self, index: usize) {
        for member in &self.all[index].members {
            self.holding[member.flow as usize] &= !(1 << index);
        }
        self.all[index] = Queue::EMPTY;
        self.open &= !(1 << index);
    }

    /// Returns the queues that have a packet of this packet's flow: bit i stands for queue i.
    fn held_by(&self, packet: &BatchPacket) -> u64 {
        self.holding.get(packet.flow.slot as usize).copied().unwrap_or(0)
    }

    /// True if the table of flows is long enough for this flow slot.
    pub(super) const fn has_flow_slot(&self, flow: u32) -> bool {
        (flow as usize) < self.holding.len()
    }

    /// Returns the memory of the queues and of the table of flows, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        (self.all.capacity() * size_of::<Queue>() + self.holding.capacity() * size_of::<u64>()) as u64
    }

    fn holding_mut(&mut self, flow: u32) -> &mut u64 {
        let index = flow as usize;
        assert!(index < BATCHER_FLOWS_MAX, "flow slot {flow} is not below {BATCHER_FLOWS_MAX}");
        if index >= self.holding.len() {
            self.holding.resize(index + 1, 0);
        }
        &mut self.holding[index]
    }
}

/// Returns the indices of the bits that are set, lowest first.
fn ones(bits: u64) -> impl Iterator<Item = usize> {
    let mut rest = bits;
    core::iter::from_fn(move || {
        let lowest = (rest != 0).then(|| rest.trailing_zeros() as usize);
        rest &= rest.wrapping_sub(1);
        lowest
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn packet(slot: u32, class: u32) -> BatchPacket {
        let class = CodingClass::of_tenant(byway_wire::TenantId::new(class));
        let flow = BatchedFlow { slot, class, receiver: 0, sender: 0, cohort: 0, avoids_network: false };
        BatchPacket { flow, bytes: 100 }
    }

    fn indices<'a>(queues: impl Iterator<Item = (usize, &'a Queue)>) -> Vec<usize> {
        queues.map(|(index, _)| index).collect()
    }

    #[test]
    fn bits_are_listed_from_the_lowest() {
        assert_eq!(ones(0).count(), 0);
        assert_eq!(ones(1 << 63 | 0b101).collect::<Vec<_>>(), [0, 2, 63]);
        assert_eq!(ones(u64::MAX).count(), 64);
    }

    #[test]
    fn a_queue_that_holds_a_flow_does_not_lack_it_until_cleared() {
        let mut queues = Queues::new(3);
        let wait = Duration::from_millis(40);
        queues.add(1, &packet(7, 0), Time::START, wait);
        queues.add(2, &packet(8, 0), Time::START, wait);
        assert_eq!(indices(queues.lacking(&packet(7, 0))), [2]);
        assert!(queues.suits(0, &packet(7, 0)) && !queues.suits(1, &packet(7, 0)));
        queues.clear(1);
        queues.add(1, &packet(8, 0), Time::START, wait);
        assert_eq!(indices(queues.lacking(&packet(7, 0))), [1, 2]);
        assert_eq!(queues.free(), Some(0));
    }

    #[test]
    #[should_panic(expected = "flow slot 1048576 is not below 1048576")]
    fn a_flow_beyond_the_limit_is_a_broken_invariant() {
        let slot = u32::try_from(BATCHER_FLOWS_MAX).expect("it has 21 bits");
        Queues::new(1).add(0, &packet(slot, 0), Time::START, Duration::from_millis(40));
    }

    #[test]
    fn queues_of_another_class_suit_nobody_else() {
        let mut queues = Queues::new(2);
        queues.add(0, &packet(1, 5), Time::START, Duration::from_millis(40));
        assert_eq!(indices(queues.lacking(&packet(2, 6))), []);
        assert!(!queues.suits(0, &packet(2, 6)) && queues.suits(1, &packet(2, 6)));
        assert_eq!(indices(queues.lacking(&packet(2, 5))), [0]);
    }

    #[test]
    fn the_oldest_queue_is_one_of_the_own_class_before_others() {
        let mut queues = Queues::new(3);
        for (index, class) in [(0, 5), (1, 6), (2, 6)] {
            let now = Time::START + Duration::from_millis(index as u64);
            queues.add(index, &packet(1, class), now, Duration::from_millis(40));
        }
        assert_eq!([5, 6, 7].map(|class| queues.oldest_for(&packet(2, class))), [0, 1, 0]);
    }

    #[test]
    fn the_most_hurried_packet_decides_how_long_a_queue_waits() {
        let mut queues = Queues::new(1);
        queues.add(0, &packet(1, 0), Time::START, Duration::from_millis(40));
        assert_eq!(queues.first_due(Time::MAX), Some((Time::START + Duration::from_millis(20), 0)));
        let later = Time::START + Duration::from_millis(1);
        queues.add(0, &packet(2, 0), later, Duration::from_millis(10));
        assert_eq!(queues.first_due(Time::MAX), Some((Time::START + Duration::from_millis(6), 0)));
        queues.queue_mut(0).mark_reviewed();
        assert_eq!(queues.first_due(Time::MAX), Some((Time::START + Duration::from_millis(11), 0)));
    }
}
