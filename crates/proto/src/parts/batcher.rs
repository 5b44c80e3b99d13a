//! Batching of packets of different flows, and the number of repair packets for each batch.
//!
//! One [`Batcher`] decides for all flows that an ingress relay codes towards one egress relay. It
//! sees packets only as flow, length and time, and returns [`Decision`]s: the queue that a packet
//! joins, and the queues that close. A queue has at most one packet of any flow. When it closes,
//! its packets are a batch.
//!
//! Two strategies choose the queue: [`RoundRobin`], as in the CASPR paper, and [`FullestFirst`],
//! which is far better for flows that send in bursts (video frames). The table compares them for 8
//! video flows of 25 frames per second, 1 to 20 packets each, k = 8, r = 2, at most 40 ms:
//!
//! | strategy | queues | packets without repair | repair packets | repair bytes | mean wait |
//! |---|---|---|---|---|---|
//! | round robin | 1 | 50.6 % | 0.90 r/k | 0.99 r/k | 1.1 ms |
//! | round robin | 8 | 3.2 % | 1.33 r/k | 1.45 r/k | 17.2 ms |
//! | round robin | 16 | 0.4 % | 1.31 r/k | 1.43 r/k | 24.8 ms |
//! | round robin | 32 | 7.4 % | 1.76 r/k | 1.91 r/k | 27.3 ms |
//! | fullest first, budget 120 % | 32 to 64 | 0.1 % | 1.14 r/k | 1.20 r/k | 16.6 ms |
//!
//! `cargo run --release -p byway-proto --example batcher_study` prints this and more.
//!
//! # Calling
//! At each instant, call [`Batcher::expire`] until it returns `None`, then [`Batcher::add`] for
//! each packet that arrived. [`Batcher::deadline`] returns the time of the next call at the latest.

mod fill_predictor;
mod fullest_first;
mod queue;
mod redundancy_budget;
mod round_robin;

use byway_units::{Bytes, Duration, Time};
use byway_wire::TenantId;

use crate::limits::{BATCH_PACKETS_MAX, BATCH_WAIT_MAX};

use fill_predictor::FillPredictor;
pub use fullest_first::FullestFirst;
pub use queue::{Queue, Queues};
pub(crate) use redundancy_budget::RedundancyBudget;
pub use redundancy_budget::RedundancyPolicy;
pub use round_robin::RoundRobin;

/// Coding class: only flows of equal class share batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodingClass(u64);

impl CodingClass {
    /// First class of the flows whose tenants allow batches with flows of other tenants: of those
    /// whose packets wait longest. Numbers of tenants are below.
    pub const SHARED: Self = Self(1 << 32);

    /// Returns the class of a tenant that allows only batches of its own flows.
    #[must_use]
    pub const fn of_tenant(tenant: TenantId) -> Self {
        Self(tenant.number() as u64)
    }

    /// Returns the class of a flow whose tenant allows batches with flows of other tenants, and
    /// whose packets wait for `wait` at most. A batch closes with the first wait that ends. The
    /// waits within a class differ by little more than a factor of two, so no flow closes batches
    /// of other tenants much too early.
    #[must_use]
    pub fn shared(wait: Duration) -> Self {
        let halvings = [BATCH_WAIT_MAX / 2, BATCH_WAIT_MAX / 4];
        let shorter = halvings.into_iter().filter(|bound| wait < *bound).count();
        Self(Self::SHARED.0 + shorter as u64)
    }
}

/// Properties of a flow that the batcher uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchedFlow {
    /// Small number that identifies the flow, below
    /// [`BATCHER_FLOWS_MAX`](crate::limits::BATCHER_FLOWS_MAX). It is reused when the flow has
    /// ended and its queues have closed.
    pub slot: u32,
    /// Coding class of the flow.
    pub class: CodingClass,
    /// Number of the receiver's network, or of its agent if the network is unknown or too common; 0
    /// for a group. Flows with the same number are likely to lose packets together.
    pub receiver: u32,
    /// Number of the sending agent; 0 if unknown.
    pub sender: u32,
    /// Cohort of the flow. Flows of different cohorts share a batch only if a packet would stay
    /// alone otherwise.
    pub cohort: u8,
    /// True if the flow opens a queue rather than join one with its receiver's network.
    pub avoids_network: bool,
}

/// Properties of a packet that the batcher uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPacket {
    /// Flow of the packet.
    pub flow: BatchedFlow,
    /// Length of the coded bytes that the batch combines.
    pub bytes: u16,
}

/// Decision of a [`Strategy`] on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChoice {
    /// The packet joins this queue, for which [`Queues::suits`] is true.
    Join(usize),
    /// The batcher closes this queue first, and the packet begins the next batch there.
    Replace(usize),
}

/// Strategy that chooses a queue for each packet.
pub trait Strategy {
    /// Returns the queue for `packet`. If `is_rich`, the budget allows more than the first repair
    /// packet of each batch.
    fn choose(&mut self, queues: &Queues, packet: &BatchPacket, is_rich: bool, now: Time) -> QueueChoice;

    /// True if the strategy lets a queue close after half of its waiting time, once its income
    /// covers its first repair packet.
    fn closes_early(&self) -> bool;
}

/// Reason for which a queue closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClosingReason {
    /// The queue had as many packets as a batch may have.
    Full,
    /// Half of the queue's waiting time was over, and its income covered its first repair packet.
    Early,
    /// The deadline of the queue passed.
    Timer,
    /// The queue of two or more packets closed early, because a packet of the next batch needed it.
    Evicted,
    /// The queue closed with its only packet, because a packet of the next batch needed it.
    Discarded,
}

/// A closed queue, whose packets are a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedQueue {
    /// Index of the queue in the batcher.
    pub queue: usize,
    /// Number of source packets in the batch.
    pub size: usize,
    /// Number of repair packets to send; zero if the budget does not allow any. For a batch of one
    /// source packet, the repair packet is a repetition of that packet.
    pub repairs: u8,
    /// Length of the longest source packet, in bytes.
    pub longest: u16,
    /// Reason for which the queue closed.
    pub reason: ClosingReason,
}

/// Decision of the batcher on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Batch that the caller encodes before the packet is added; `None` in most cases.
    pub closed_before: Option<ClosedQueue>,
    /// Index of the queue that the packet joined.
    pub queue: usize,
    /// Batch that the packet completes, so that its queue closes; `None` while the queue waits for
    /// more packets.
    pub closed_after: Option<ClosedQueue>,
}

/// Settings of a batcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatcherSettings {
    /// k: largest number of source packets in a batch.
    pub batch_packets: u8,
    /// r: number of repair packets of a full batch.
    pub batch_repairs: u8,
    /// Number of queues: at least the number of packets in the longest burst.
    pub queues: u8,
    /// Rule for the number of repair packets of each batch.
    pub redundancy: RedundancyPolicy,
}

/// Source packets of a batcher by the protection that they got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatcherCounters {
    /// Packets in batches of two or more with at least one repair packet.
    pub coded: u64,
    /// Packets alone in their batch, which the relay repeats as their own repair packet.
    pub repeated: u64,
    /// Packets alone in their batch, without a repetition: they are not protected.
    pub alone: u64,
    /// Packets in batches of two or more that have no repair packets, because the budget was used
    /// up.
    pub unaffordable: u64,
}

/// Batcher of the packets towards one egress relay.
#[derive(Clone, Debug)]
pub struct Batcher<S> {
    strategy: S,
    queues: Queues,
    budget: RedundancyBudget,
    fill_predictor: FillPredictor,
    batch_packets: usize,
    counters: BatcherCounters,
}

impl<S: Strategy> Batcher<S> {
    /// Creates a batcher with empty queues.
    ///
    /// # Panics
    /// If a setting is beyond [`limits`](crate::limits).
    #[must_use]
    pub fn new(settings: BatcherSettings, strategy: S) -> Self {
        let BatcherSettings { batch_packets, batch_repairs, queues, redundancy } = settings;
        Self {
            strategy,
            queues: Queues::new(queues),
            budget: RedundancyBudget::new(batch_packets, batch_repairs, redundancy),
            fill_predictor: FillPredictor::new(),
            batch_packets: usize::from(batch_packets).min(BATCH_PACKETS_MAX),
            counters: BatcherCounters::default(),
        }
    }

    /// Adds `packet` to a queue, and returns the queues that close for it. The batch of the packet
    /// closes within `wait`.
    ///
    /// # Panics
    /// If the flow's slot is beyond [`limits`](crate::limits), or the strategy chose a queue that
    /// does not suit the packet.
    pub fn add(&mut self, packet: &BatchPacket, wait: Duration, now: Time) -> Decision {
        self.budget.deposit(packet.bytes);
        let choice = self.strategy.choose(&self.queues, packet, self.budget.has_surplus(), now);
        let (queue, closed_before) = match choice {
            QueueChoice::Join(queue) => (queue, None),
            QueueChoice::Replace(queue) => (queue, Some(self.evict(queue))),
        };
        assert!(self.queues.suits(queue, packet), "{packet:?} does not go into queue {queue}");
        self.queues.add(queue, packet, now, wait);
        let closed_after = self.reason_to_close(queue, now).map(|reason| self.close(queue, reason));
        Decision { closed_before, queue, closed_after }
    }

    /// True if the table of flows has an entry for this slot.
    pub(crate) fn has_flow_slot(&self, slot: u32) -> bool {
        self.queues.has_flow_slot(slot)
    }

    /// Returns the memory of its tables, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.queues.bytes()
    }

    /// Returns the time at which to call [`expire`](Self::expire) at the latest; `None` if all
    /// queues are empty. That call may close no queue yet, because the time is a lower bound.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.queues.not_before()
    }

    /// Closes and returns a queue whose deadline has passed, or that may close early halfway. Call
    /// it until it returns `None`.
    pub fn expire(&mut self, now: Time) -> Option<ClosedQueue> {
        while let Some((due, queue)) = self.queues.first_due(now) {
            if self.queues.queue(queue).is_reviewed() {
                return Some(self.close(queue, ClosingReason::Timer));
            }
            self.queues.queue_mut(queue).mark_reviewed();
            if self.closes_early(queue, due) {
                return Some(self.close(queue, ClosingReason::Early));
            }
        }
        None
    }

    /// Sets the reserve of the redundancy budget, which the relay adapts to the number of flows.
    /// Without a budget ([`RedundancyPolicy::PerBatch`]), it has no effect.
    pub fn set_reserve(&mut self, reserve: Bytes) {
        self.budget.set_reserve(reserve);
    }

    /// Returns the numbers of packets in closed batches, by their protection.
    #[must_use]
    pub const fn counters(&self) -> &BatcherCounters {
        &self.counters
    }

    fn reason_to_close(&mut self, queue: usize, now: Time) -> Option<ClosingReason> {
        if self.queues.queue(queue).size() >= self.batch_packets {
            return Some(ClosingReason::Full);
        }
        self.closes_early(queue, now).then_some(ClosingReason::Early)
    }

    /// True if a queue may close now: half of its waiting time is over, and its income covers its
    /// first repair packet. The predictor may still hold it open, if open queues filled up
    /// recently.
    fn closes_early(&mut self, index: usize, now: Time) -> bool {
        let queue = self.queues.queue(index);
        let may = self.strategy.closes_early()
            && !queue.is_held_open()
            && now >= queue.halfway()
            && self.budget.has_surplus()
            && self.budget.pays_for_itself(queue.size());
        if may && !self.fill_predictor.should_close() {
            self.queues.queue_mut(index).hold_open();
            return false;
        }
        may
    }

    fn evict(&mut self, queue: usize) -> ClosedQueue {
        let is_alone = self.queues.queue(queue).size() == 1;
        self.close(queue, if is_alone { ClosingReason::Discarded } else { ClosingReason::Evicted })
    }

    fn close(&mut self, index: usize, reason: ClosingReason) -> ClosedQueue {
        let queue = self.queues.queue(index);
        let (size, longest) = (queue.size(), queue.longest());
        if queue.is_held_open() {
            self.fill_predictor.learn(reason == ClosingReason::Full);
        }
        let repairs = self.budget.allocate_repairs(size, longest);
        self.queues.clear(index);
        self.count(size, repairs);
        ClosedQueue { queue: index, size, repairs, longest, reason }
    }

    fn count(&mut self, size: usize, repairs: u8) {
        let counter = match (size, repairs) {
            (1, 0) => &mut self.counters.alone,
            (1, _) => &mut self.counters.repeated,
            (_, 0) => &mut self.counters.unaffordable,
            _ => &mut self.counters.coded,
        };
        *counter += size as u64;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;
    use std::vec::Vec;

    use proptest::proptest;

    use super::*;

    const WAIT: Duration = Duration::from_millis(40);

    fn packet(slot: u32, class: u32, bytes: u16) -> BatchPacket {
        let class = CodingClass::of_tenant(TenantId::new(class));
        let flow = BatchedFlow { slot, class, receiver: 0, sender: 0, cohort: 0, avoids_network: false };
        BatchPacket { flow, bytes }
    }

    fn batcher(queues: u8, spending: RedundancyPolicy) -> Batcher<FullestFirst> {
        Batcher::new(
            BatcherSettings { batch_packets: 4, batch_repairs: 2, queues, redundancy: spending },
            FullestFirst,
        )
    }

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    #[test]
    fn tenants_share_batches_only_with_flows_that_wait_about_as_long() {
        let class = |millis| CodingClass::shared(Duration::from_millis(millis));
        assert_eq!([45, 30, 23].map(class), [CodingClass::SHARED; 3]);
        assert_eq!(class(22), class(12));
        assert_eq!(class(11), class(5));
        assert!(class(23) != class(22) && class(12) != class(11));
        assert_ne!(class(5), CodingClass::of_tenant(TenantId::new(u32::MAX)));
    }

    #[test]
    fn a_full_queue_closes() {
        let mut batcher = batcher(2, RedundancyPolicy::PerBatch);
        for slot in 0..3 {
            assert_eq!(batcher.add(&packet(slot, 0, 100), WAIT, at(0)).closed_after, None);
        }
        let closed = ClosedQueue { queue: 0, size: 4, repairs: 2, longest: 200, reason: ClosingReason::Full };
        assert_eq!(batcher.add(&packet(3, 0, 200), WAIT, at(0)).closed_after, Some(closed));
        assert_eq!((batcher.deadline(), batcher.counters().coded), (None, 4));
    }

    #[test]
    fn a_queue_closes_when_its_time_is_over() {
        let mut batcher = batcher(2, RedundancyPolicy::PerBatch);
        batcher.add(&packet(1, 0, 100), WAIT, at(0));
        assert_eq!(batcher.deadline(), Some(at(20)));
        assert_eq!(batcher.expire(at(20)), None);
        assert_eq!(batcher.deadline(), Some(at(40)));
        assert_eq!(batcher.expire(at(39)), None);
        let closed =
            ClosedQueue { queue: 0, size: 1, repairs: 0, longest: 100, reason: ClosingReason::Timer };
        assert_eq!(batcher.expire(at(40)), Some(closed));
        assert_eq!((batcher.expire(at(40)), batcher.counters().alone), (None, 1));
    }

    #[test]
    fn queues_close_halfway_once_such_queues_were_seen_not_to_fill() {
        let mut batcher = batcher(2, RedundancyPolicy::PerBatch);
        let mut reasons = Vec::new();
        for round in 0..4 {
            let start = at(100 * round);
            batcher.add(&packet(1, 0, 100), WAIT, start);
            batcher.add(&packet(2, 0, 100), WAIT, start);
            while let Some(deadline) = batcher.deadline() {
                reasons.extend(batcher.expire(deadline).map(|closed| (closed.reason, deadline - start)));
            }
        }
        let early = (ClosingReason::Early, Duration::from_millis(20));
        assert_eq!(reasons, [(ClosingReason::Timer, WAIT), early, early, early]);
    }

    #[test]
    fn a_single_packet_is_repeated_within_the_budget() {
        let budget = RedundancyPolicy::TokenBucket { percent: 100, reserve: Bytes::new(1_000) };
        let mut batcher = batcher(2, budget);
        let mut repairs = Vec::new();
        for round in 0..3 {
            batcher.add(&packet(1, 0, 400), WAIT, at(100 * round));
            batcher.expire(at(100 * round + 20));
            repairs.extend(batcher.expire(at(100 * round + 40)).map(|closed| closed.repairs));
        }
        assert_eq!(repairs, [1, 1, 1]);
        batcher.set_reserve(Bytes::new(100));
        batcher.add(&packet(1, 0, 400), WAIT, at(400));
        batcher.add(&packet(1, 0, 400), WAIT, at(400));
        let decision = batcher.add(&packet(1, 0, 400), WAIT, at(400));
        assert_eq!(decision.closed_before.map(|closed| closed.reason), Some(ClosingReason::Discarded));
    }

    #[test]
    #[should_panic(expected = "a batcher has 1 to 64 queues, not 65")]
    fn more_queues_than_a_word_has_bits_are_refused() {
        let _ = batcher(65, RedundancyPolicy::PerBatch);
    }

    /// A test caller of a batcher, which checks every step.
    struct Caller<S> {
        batcher: Batcher<S>,
        held: Vec<Vec<(BatchPacket, Time)>>,
        packets: u64,
        income_bytes: u64,
        repair_bytes: u64,
    }

    impl<S: Strategy> Caller<S> {
        fn new(queues: u8, percent: u16, strategy: S) -> Self {
            let spending = RedundancyPolicy::TokenBucket { percent, reserve: Bytes::new(5_000) };
            let settings =
                BatcherSettings { batch_packets: 4, batch_repairs: 2, queues, redundancy: spending };
            let held = vec![Vec::new(); queues.into()];
            let batcher = Batcher::new(settings, strategy);
            Self { batcher, held, packets: 0, income_bytes: 0, repair_bytes: 0 }
        }

        fn close(&mut self, closed: ClosedQueue, now: Time) {
            let batch = core::mem::take(&mut self.held[closed.queue]);
            assert_eq!(closed.size, batch.len());
            assert!(closed.size <= 4 && usize::from(closed.repairs) <= closed.size.div_ceil(2));
            assert_eq!(Some(closed.longest), batch.iter().map(|(packet, _)| packet.bytes).max());
            assert!(batch.iter().all(|(_, placed)| now - *placed <= WAIT));
            assert!(batch.iter().all(|(packet, _)| packet.flow.class == batch[0].0.flow.class));
            let mut slots: Vec<_> = batch.iter().map(|(packet, _)| packet.flow.slot).collect();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), batch.len(), "one packet of any flow");
            self.repair_bytes += u64::from(closed.longest) * u64::from(closed.repairs);
        }

        fn expire(&mut self, now: Time) {
            while let Some(deadline) = self.batcher.deadline().filter(|deadline| *deadline <= now) {
                while let Some(closed) = self.batcher.expire(deadline) {
                    self.close(closed, deadline);
                }
            }
        }

        fn add(&mut self, packet: BatchPacket, now: Time) {
            self.expire(now);
            self.packets += 1;
            self.income_bytes += u64::from(packet.bytes);
            let decision = self.batcher.add(&packet, WAIT, now);
            if let Some(closed) = decision.closed_before {
                self.close(closed, now);
            }
            self.held[decision.queue].push((packet, now));
            if let Some(closed) = decision.closed_after {
                self.close(closed, now);
            }
        }
    }

    fn check<S: Strategy>(mut caller: Caller<S>, percent: u64, steps: &[(u64, u32, u16)]) {
        let mut now = Time::START;
        for (gap_micros, slot, bytes) in steps {
            now += Duration::from_micros(*gap_micros);
            caller.add(packet(*slot, slot / 8, *bytes), now);
        }
        caller.expire(Time::MAX);
        let BatcherCounters { coded, repeated, alone, unaffordable } = *caller.batcher.counters();
        assert_eq!(coded + repeated + alone + unaffordable, caller.packets);
        assert!(caller.held.iter().all(Vec::is_empty));
        // Income at r/k = 2/4, the initial reserve, and a repair packet begun with the last byte.
        let income = caller.income_bytes * 2 * percent / 400;
        assert!(caller.repair_bytes <= income + 5_000 + 2 * 1_500);
    }

    proptest! {
        #[test]
        fn every_packet_leaves_once_in_time_within_the_budget_and_beside_other_flows_that_agree(
            queues in 1_u8..9,
            percent in 50_u16..200,
            steps in proptest::collection::vec((0_u64..8_000, 0_u32..16, 1_u16..1_500), 0..300),
        ) {
            check(Caller::new(queues, percent, FullestFirst), percent.into(), &steps);
            check(Caller::new(queues, percent, RoundRobin::default()), percent.into(), &steps);
        }
    }
}
