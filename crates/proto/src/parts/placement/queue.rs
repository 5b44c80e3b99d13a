//! The queues of one egress relay, and which of them hold a packet of a flow.

use alloc::vec;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use super::{CodingClass, Packet, PlacedFlow};
use crate::limits::{BATCH_PACKETS_MAX, PLACEMENT_FLOWS_MAX, PLACEMENT_QUEUES_MAX};

/// A packet in a queue, as far as placement cares.
#[derive(Clone, Copy, Debug)]
struct Member {
    flow: u32,
    receiver: u32,
    sender: u32,
}

/// A batch in the making.
#[derive(Clone, Debug)]
pub struct Queue {
    class: CodingClass,
    members: ArrayVec<Member, BATCH_PACKETS_MAX>,
    /// One bit for each receiver's network in it, some sharing a bit: a quick no.
    receivers: u64,
    /// The same of senders.
    senders: u64,
    longest: u16,
    opened: Time,
    halfway: Time,
    latest: Time,
    is_reviewed: bool,
    is_left_alone: bool,
}

impl Queue {
    const EMPTY: Self = Self {
        class: CodingClass::SHARED,
        members: ArrayVec::new_const(),
        receivers: 0,
        senders: 0,
        longest: 0,
        opened: Time::START,
        halfway: Time::MAX,
        latest: Time::MAX,
        is_reviewed: false,
        is_left_alone: false,
    };

    /// How many packets are in it.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Bytes of its longest packet, and so of each of its repair packets.
    #[must_use]
    pub const fn longest(&self) -> u16 {
        self.longest
    }

    /// When its first packet came.
    #[must_use]
    pub const fn opened(&self) -> Time {
        self.opened
    }

    /// When half of the time that its packets may wait is over.
    #[must_use]
    pub const fn halfway(&self) -> Time {
        self.halfway
    }

    /// Whether a flow in it ends in the same network as this one.
    #[must_use]
    pub fn shares_receiver(&self, flow: &PlacedFlow) -> bool {
        flow.receiver != 0
            && self.receivers & bit_of(flow.receiver) != 0
            && self.members.iter().any(|member| member.receiver == flow.receiver)
    }

    /// Whether a flow in it begins in the same network as this one.
    #[must_use]
    pub fn shares_sender(&self, flow: &PlacedFlow) -> bool {
        flow.sender != 0
            && self.senders & bit_of(flow.sender) != 0
            && self.members.iter().any(|member| member.sender == flow.sender)
    }

    /// When to look at it next: halfway, if that still has to happen, then at the end.
    pub(super) fn due(&self) -> Time {
        if self.is_reviewed { self.latest } else { self.halfway }
    }

    /// Whether only the last moment remains to wait for.
    pub(super) const fn is_reviewed(&self) -> bool {
        self.is_reviewed
    }

    pub(super) const fn wait_to_the_end(&mut self) {
        self.is_reviewed = true;
    }

    /// Whether it could have closed early, and was left open.
    pub(super) const fn is_left_alone(&self) -> bool {
        self.is_left_alone
    }

    pub(super) const fn leave_alone(&mut self) {
        self.is_left_alone = true;
    }
}

/// Networks that differ in their low bits, as counted numbers do, get different bits.
const fn bit_of(network: u32) -> u64 {
    1 << (network % 64)
}

/// All queues of one egress relay.
#[derive(Clone, Debug)]
pub struct Queues {
    all: Vec<Queue>,
    /// Bit i: queue i holds packets.
    open: u64,
    /// By flow: bit i: queue i holds a packet of it.
    holding: Vec<u64>,
    /// No queue is due before.
    soonest: Time,
}

impl Queues {
    pub(super) fn new(count: u8) -> Self {
        assert!(
            (1..=PLACEMENT_QUEUES_MAX).contains(&usize::from(count)),
            "a placement has 1 to {PLACEMENT_QUEUES_MAX} queues, not {count}"
        );
        Self { all: vec![Queue::EMPTY; usize::from(count)], open: 0, holding: Vec::new(), soonest: Time::MAX }
    }

    /// How many queues there are, empty ones included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Queue `index`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn queue(&self, index: usize) -> &Queue {
        &self.all[index]
    }

    /// The queues that hold packets, with their indices.
    pub fn open(&self) -> impl Iterator<Item = (usize, &Queue)> {
        ones(self.open).map(|index| (index, &self.all[index]))
    }

    /// Whether `packet` may go into queue `index`: it lacks the flow, and whoever is in it agrees.
    #[must_use]
    pub fn suits(&self, index: usize, packet: &Packet) -> bool {
        let queue = &self.all[index];
        self.held_by(packet) & (1 << index) == 0 && (queue.size() == 0 || queue.class == packet.flow.class)
    }

    /// The queues that hold packets but none of this flow, whose flows agree to be coded with it.
    pub fn lacking(&self, packet: &Packet) -> impl Iterator<Item = (usize, &Queue)> {
        let class = packet.flow.class;
        let lacking = self.open & !self.held_by(packet);
        ones(lacking).map(|index| (index, &self.all[index])).filter(move |(_, queue)| queue.class == class)
    }

    /// An empty queue.
    #[must_use]
    pub fn free(&self) -> Option<usize> {
        let index = (!self.open).trailing_zeros() as usize;
        (index < self.all.len()).then_some(index)
    }

    /// The queue that was opened first.
    ///
    /// # Panics
    /// If all are empty.
    #[must_use]
    pub fn oldest(&self) -> usize {
        let oldest = self.open().min_by_key(|(_, queue)| queue.opened);
        oldest.expect("there is a queue that holds packets").0
    }

    pub(super) fn queue_mut(&mut self, index: usize) -> &mut Queue {
        &mut self.all[index]
    }

    /// No queue has to be looked at before; `None` if all are empty.
    pub(super) fn not_before(&self) -> Option<Time> {
        (self.open != 0).then_some(self.soonest)
    }

    /// The queue to look at first, if it is time.
    pub(super) fn first_due(&mut self, now: Time) -> Option<(Time, usize)> {
        if self.soonest > now {
            return None;
        }
        let first = self.open().map(|(index, queue)| (queue.due(), index)).min();
        self.soonest = first.map_or(Time::MAX, |(due, _)| due);
        first.filter(|(due, _)| *due <= now)
    }

    /// Puts `packet` into queue `index`, none of whose packets may then wait longer than `packet` may.
    pub(super) fn add(&mut self, index: usize, packet: &Packet, now: Time, wait: Duration) {
        let queue = &mut self.all[index];
        if queue.members.is_empty() {
            self.open |= 1 << index;
            queue.class = packet.flow.class;
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

    /// Empties queue `index`.
    pub(super) fn clear(&mut self, index: usize) {
        for member in &self.all[index].members {
            self.holding[member.flow as usize] &= !(1 << index);
        }
        self.all[index] = Queue::EMPTY;
        self.open &= !(1 << index);
    }

    /// Bit i: queue i holds a packet of this one's flow.
    fn held_by(&self, packet: &Packet) -> u64 {
        self.holding.get(packet.flow.slot as usize).copied().unwrap_or(0)
    }

    /// Whether the table of flows has a place for this one.
    pub(super) const fn knows(&self, flow: u32) -> bool {
        (flow as usize) < self.holding.len()
    }

    /// How much memory the tables take, in bytes.
    pub(super) const fn bytes(&self) -> u64 {
        (self.all.capacity() * size_of::<Queue>() + self.holding.capacity() * size_of::<u64>()) as u64
    }

    fn holding_mut(&mut self, flow: u32) -> &mut u64 {
        let index = flow as usize;
        assert!(index < PLACEMENT_FLOWS_MAX, "flow slot {flow} is not below {PLACEMENT_FLOWS_MAX}");
        if index >= self.holding.len() {
            self.holding.resize(index + 1, 0);
        }
        &mut self.holding[index]
    }
}

/// The indices of the bits that are set, lowest first.
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

    fn packet(slot: u32, class: u32) -> Packet {
        let class = CodingClass::of_tenant(byway_wire::TenantId::new(class));
        let flow = PlacedFlow { slot, class, receiver: 0, sender: 0 };
        Packet { flow, bytes: 100 }
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
        let slot = u32::try_from(PLACEMENT_FLOWS_MAX).expect("it has 21 bits");
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
    fn the_most_hurried_packet_decides_how_long_a_queue_waits() {
        let mut queues = Queues::new(1);
        queues.add(0, &packet(1, 0), Time::START, Duration::from_millis(40));
        assert_eq!(queues.first_due(Time::MAX), Some((Time::START + Duration::from_millis(20), 0)));
        let later = Time::START + Duration::from_millis(1);
        queues.add(0, &packet(2, 0), later, Duration::from_millis(10));
        assert_eq!(queues.first_due(Time::MAX), Some((Time::START + Duration::from_millis(6), 0)));
        queues.queue_mut(0).wait_to_the_end();
        assert_eq!(queues.first_due(Time::MAX), Some((Time::START + Duration::from_millis(11), 0)));
    }
}
