//! Links: what happens to a packet between two nodes.
//!
//! A link's processes are read at the instant at which a packet is offered to it. What is random depends on the
//! world's seed, the link, the purpose and that instant only: whoever sends at an instant meets the same
//! burst, whatever else was sent before, on this link or another. Only losses that are described by packets
//! ([`Loss::Chain`], [`Loss::Ordinals`], [`Loss::Every`]) depend on what was sent before.

mod bernoulli;
mod bottleneck;
mod capacity;
mod chain;
mod damage;
mod delay;
mod gilbert_elliott;
mod loss;
mod measured;
mod ordinals;
mod outage;
mod recorded;
mod scheduler;

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_sched::Class;
use byway_units::{Bytes, Duration, Probability, Time};
use byway_wire::Ecn;

use crate::log::LossReason;
use crate::random::Seed;

use self::bottleneck::Transmitter;
use self::damage::Damage;
use self::delay::{Delay, Delayed};
use self::loss::LossProcess;
use self::outage::Outages;
use self::scheduler::Scheduler;

pub use self::bottleneck::{Bottleneck, BottleneckError, BottleneckUse};
pub use self::capacity::{RecordedCapacity, RecordedCapacityError};
pub use self::delay::{Jitter, Reordering};
pub use self::gilbert_elliott::{GilbertElliott, GilbertElliottError, Stay};
pub use self::loss::Loss;
pub use self::measured::{MeasuredDelays, MeasuredDelaysError};
pub use self::outage::Span;
pub use self::recorded::{Recorded, RecordedError};
pub use self::scheduler::{ClassUse, Coming, Queueing, Scheduling, Sent};

/// What a link does to packets, in one direction. The default delivers everything at once.
///
/// A packet first passes the bottleneck, if there is one. On the wire behind it, it may be lost to an outage,
/// to its length or to one of the loss processes, in this order; if it is not, it may be duplicated, and each
/// copy may be corrupted and arrives after the delay, with a jitter and a reordering of its own. What is lost
/// on the wire has taken its time at the bottleneck; all of it is decided, and logged, when the packet is offered.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// The rate or recorded capacity, and the queue before it; `None`: as fast as packets come.
    pub bottleneck: Option<Bottleneck>,
    /// A rate and a queue that tells packets apart, before the bottleneck if there is one, too. Behind it, what happens on the wire is decided when a
    /// packet has left.
    pub scheduling: Option<Scheduling>,
    /// How long the way is.
    pub delay: Duration,
    /// How long it is from packet to packet, as once measured, in the place of `delay`; what was lost then is lost again.
    pub measured: Option<MeasuredDelays>,
    /// How much longer it may take, from packet to packet.
    pub jitter: Jitter,
    /// Packets that take a much longer way.
    pub reordering: Reordering,
    /// A packet is lost if any of these says so.
    pub loss: Vec<Loss>,
    /// When nothing passes at all.
    pub outages: Vec<Span>,
    /// The longest IP packet that passes; a black hole swallows longer ones silently. `None`: all pass.
    pub ip_bytes_max: Option<Bytes>,
    /// How likely a packet arrives twice.
    pub duplication: Probability,
    /// How likely one bit of the payload, chosen at random, arrives inverted.
    pub corruption: Probability,
    /// Whether the ECN field is cleared on the way.
    pub bleaches_ecn: bool,
    /// Whether packets that are ECN-capable are marked (CE), as where a queue is long.
    pub marks_congestion: bool,
}

/// A packet that is offered to a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) time: Time,
    /// Which of the packets offered in this instant it is, from 0.
    pub(crate) nth: u64,
    /// Which of all packets offered to this link it is, from 0.
    pub(crate) ordinal: u64,
    pub(crate) ip_bytes: Bytes,
    pub(crate) payload_bytes: usize,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does not arrive, and why.
    Lost(LossReason),
    /// It arrives, once or twice.
    Carried {
        /// The packet itself.
        original: Passage,
        /// A copy that the link makes of it.
        duplicate: Option<Passage>,
    },
}

/// One copy of a packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// When it arrives.
    pub arrival: Time,
    /// The bit of the payload that is inverted, from 0.
    pub flipped_bit: Option<u64>,
}

/// A link at work: what a [`World`](crate::World) asks about each packet, for other worlds that carry packets of their own.
#[derive(Debug)]
pub struct LinkState {
    seed: Seed,
    wire: Wire,
    /// Few links have one.
    transmitter: Option<Box<Transmitter>>,
    /// Kept for what it has counted when the queue is gone.
    scheduler: Option<Box<Scheduler>>,
    is_scheduled: bool,
    /// The latest arrival of what must not be overtaken.
    last_arrival: Time,
    offered: u64,
    /// The instant of the last offer, and how many it has seen.
    instant: (Time, u64),
}

/// The part of a link that its description and its seed determine.
#[derive(Debug)]
struct Wire {
    outages: Outages,
    ip_bytes_max: Option<Bytes>,
    loss: Vec<LossProcess>,
    damage: Damage,
    delay: Delay,
    bleaches_ecn: bool,
    marks_congestion: bool,
}

impl Wire {
    fn new(link: Link, seed: Seed) -> Self {
        let losses = link.loss.into_iter().zip(0..);
        Self {
            outages: Outages::new(link.outages),
            ip_bytes_max: link.ip_bytes_max,
            loss: losses
                .map(|(loss, nth)| LossProcess::new(loss, seed.named("loss").numbered(nth)))
                .collect(),
            damage: Damage::new(link.duplication, link.corruption, seed),
            delay: Delay::new(link.delay, link.measured, link.jitter, link.reordering, seed),
            bleaches_ecn: link.bleaches_ecn,
            marks_congestion: link.marks_congestion,
        }
    }

    fn loses(&mut self, offer: &Offer) -> Option<LossReason> {
        if self.outages.contain(offer.time) {
            return Some(LossReason::Outage);
        }
        if self.ip_bytes_max.is_some_and(|max| offer.ip_bytes > max) {
            return Some(LossReason::TooLong);
        }
        let is_lost = self.loss.iter_mut().any(|loss| loss.loses(offer)) || self.delay.loses(offer);
        is_lost.then_some(LossReason::Random)
    }
}

impl LinkState {
    /// The link between two nodes of these numbers in a world of this seed, idle: the same in every world, whatever links there are
    /// beside it.
    #[must_use]
    pub fn between(from: u32, to: u32, link: Link, seed: Seed, now: Time) -> Self {
        Self::new(link, seed.named("link").numbered(from.into()).numbered(to.into()), now)
    }

    fn new(mut link: Link, seed: Seed, now: Time) -> Self {
        let bottleneck = link.bottleneck.take();
        let scheduling = link.scheduling.take();
        Self {
            seed,
            is_scheduled: scheduling.is_some(),
            wire: Wire::new(link, seed),
            transmitter: bottleneck.map(|bottleneck| Box::new(Transmitter::new(bottleneck, now))),
            scheduler: scheduling.map(|scheduling| Box::new(Scheduler::new(scheduling, now))),
            last_arrival: Time::START,
            offered: 0,
            instant: (Time::START, 0),
        }
    }

    /// Follows another description from now on. What is queued or under way stays so (but what waits in a queue that tells
    /// packets apart is dropped where there is none any more), and processes that are
    /// described as before go on as if nothing had happened: they depend on the time only.
    pub fn change(&mut self, mut link: Link, now: Time) {
        match (link.bottleneck.take(), &mut self.transmitter) {
            (Some(bottleneck), Some(transmitter)) => transmitter.change(bottleneck, now),
            (bottleneck, transmitter) => {
                *transmitter = bottleneck.map(|bottleneck| Box::new(Transmitter::new(bottleneck, now)));
            }
        }
        let scheduling = link.scheduling.take();
        self.is_scheduled = scheduling.is_some();
        match (scheduling, &mut self.scheduler) {
            (Some(scheduling), Some(scheduler)) => scheduler.change(scheduling, now),
            (Some(scheduling), scheduler) => *scheduler = Some(Box::new(Scheduler::new(scheduling, now))),
            (None, Some(scheduler)) => scheduler.close(now),
            (None, None) => {}
        }
        self.wire = Wire::new(link, self.seed);
    }

    /// Whether packets wait in a queue that tells them apart: then they are [queued](Self::enqueue) first, and [offered](Self::offer) to
    /// the wire when they have [left](Self::depart).
    #[must_use]
    pub const fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// A packet comes to the queue. Drops show in [`LinkState::take_dropped`], and when the next packet leaves in [`LinkState::due`].
    ///
    /// # Panics
    /// If there is no such queue.
    pub fn enqueue(&mut self, coming: Coming, now: Time) {
        self.scheduler.as_mut().expect("the link has a queue").enqueue(coming, now);
    }

    /// When the next packet has left the queue; `None` while it is empty.
    #[must_use]
    pub fn due(&self) -> Option<Time> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.due())
    }

    /// The packet that has left the queue by now.
    pub fn depart(&mut self, now: Time) -> Option<Sent> {
        self.scheduler.as_mut().and_then(|scheduler| scheduler.depart(now))
    }

    /// How many flows a Rate-Delay queue has counted in each class, high rate and low delay; `None` of others.
    #[must_use]
    pub fn counted_flows(&self) -> Option<[u32; Class::COUNT]> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.flows())
    }

    /// The number of a packet that the queue has dropped, once.
    pub fn take_dropped(&mut self) -> Option<u32> {
        self.scheduler.as_mut().and_then(|scheduler| scheduler.take_dropped())
    }

    /// What happened to the packets of each class, high rate and low delay; `None` where nothing tells them apart.
    #[must_use]
    pub fn class_uses(&self) -> Option<&[ClassUse; Class::COUNT]> {
        self.scheduler.as_ref().map(|scheduler| scheduler.uses())
    }

    /// How much its bottleneck had to do by now; `None` without one.
    #[must_use]
    pub fn bottleneck_use(&self, now: Time) -> Option<BottleneckUse> {
        let scheduler = self.scheduler.as_ref().filter(|_| self.is_scheduled);
        let scheduler = scheduler.map(|scheduler| scheduler.usage(now));
        scheduler.or_else(|| self.transmitter.as_ref().map(|transmitter| transmitter.usage(now)))
    }

    /// The ECN field of a packet behind the link.
    #[must_use]
    pub const fn ecn_behind(&self, ecn: Ecn) -> Ecn {
        match ecn {
            _ if self.wire.bleaches_ecn => Ecn::NotCapable,
            Ecn::Capable0 | Ecn::Capable1 if self.wire.marks_congestion => Ecn::CongestionExperienced,
            _ => ecn,
        }
    }

    /// Decides about the next packet, of this length as IP has it and with so many bytes that may be damaged.
    ///
    /// # Panics
    /// If time goes back from one call to the next.
    pub fn offer(&mut self, time: Time, ip_bytes: Bytes, payload_bytes: usize) -> Fate {
        let offer = self.number(time, ip_bytes, payload_bytes);
        let departure = match &mut self.transmitter {
            None => time,
            Some(transmitter) => match transmitter.enqueue(time, ip_bytes) {
                Some(departure) => departure,
                None => return Fate::Lost(LossReason::QueueFull),
            },
        };
        if let Some(reason) = self.wire.loses(&offer) {
            return Fate::Lost(reason);
        }
        let (mut delays, mut damages) = (self.wire.delay.draws(&offer), self.wire.damage.draws(&offer));
        let is_duplicated = damages.is_duplicated();
        let mut passage = || Passage {
            arrival: Self::keep_order(&mut self.last_arrival, departure, delays.next()),
            flipped_bit: damages.flipped_bit(),
        };
        let original = passage();
        Fate::Carried { original, duplicate: is_duplicated.then(passage) }
    }

    fn number(&mut self, time: Time, ip_bytes: Bytes, payload_bytes: usize) -> Offer {
        let (instant, count) = self.instant;
        assert!(time >= instant, "a link is offered packets in the order of time");
        let nth = if time == instant { count } else { 0 };
        let offer = Offer { time, nth, ordinal: self.offered, ip_bytes, payload_bytes };
        self.instant = (time, nth + 1);
        self.offered += 1;
        offer
    }

    fn keep_order(last_arrival: &mut Time, departure: Time, delay: Delayed) -> Time {
        let arrival = departure + delay.duration;
        if delay.may_change_places {
            return arrival;
        }
        *last_arrival = arrival.max(*last_arrival);
        *last_arrival
    }
}

#[cfg(test)]
impl Offer {
    /// The only packet of an instant.
    fn alone(time: Time, ordinal: u64) -> Self {
        Self { time, nth: 0, ordinal, ip_bytes: Bytes::new(128), payload_bytes: 100 }
    }

    /// `count` packets, one every `interval`.
    fn regular(interval: Duration, count: u64) -> impl Iterator<Item = Self> {
        (0..count).map(move |ordinal| Self::alone(Time::START + interval * ordinal, ordinal))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;
    use std::vec;

    use byway_units::Rate;
    use proptest::prelude::*;

    use super::*;

    const SEED: Seed = Seed::new(20);
    const INTERVAL: Duration = Duration::from_millis(1);
    const PAYLOAD_BYTES: usize = 100;
    const IP_BYTES: Bytes = Bytes::new(128);

    fn share(value: f64) -> Probability {
        Probability::new(value).expect("a probability")
    }

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    fn fates(link: Link, times: impl IntoIterator<Item = Time>) -> Vec<(Time, Fate)> {
        let mut state = LinkState::new(link, SEED, Time::START);
        times.into_iter().map(|time| (time, state.offer(time, IP_BYTES, PAYLOAD_BYTES))).collect()
    }

    fn regular(link: Link, count: u64) -> Vec<(Time, Fate)> {
        fates(link, (0..count).map(|index| Time::START + INTERVAL * index))
    }

    fn passages(fates: &[(Time, Fate)]) -> impl Iterator<Item = (Time, Passage)> {
        fates
            .iter()
            .flat_map(|&(time, fate)| match fate {
                Fate::Carried { original, duplicate } => {
                    [Some(original), duplicate].map(|copy| Some((time, copy?)))
                }
                Fate::Lost(_) => [None, None],
            })
            .flatten()
    }

    fn lost(fates: &[(Time, Fate)]) -> Vec<Time> {
        let is_lost = |&&(_, fate): &&(Time, Fate)| matches!(fate, Fate::Lost(_));
        fates.iter().filter(is_lost).map(|&(time, _)| time).collect()
    }

    /// A link on which everything happens that depends on chance.
    fn chance() -> Link {
        let bursts = GilbertElliott::bursts(share(0.2), 3.0, INTERVAL).expect("bursts");
        Link {
            delay: Duration::from_millis(10),
            jitter: Jitter { max: Duration::from_millis(5), may_reorder: true },
            reordering: Reordering { probability: share(0.1), detour: Duration::from_millis(30) },
            loss: vec![Loss::Independent(share(0.1)), Loss::GilbertElliott(bursts)],
            duplication: share(0.2),
            corruption: share(0.2),
            ..Link::default()
        }
    }

    #[test]
    fn the_default_link_delivers_at_once() {
        let original = Passage { arrival: at(7), flipped_bit: None };
        assert_eq!(fates(Link::default(), [at(7)]), [(at(7), Fate::Carried { original, duplicate: None })]);
    }

    proptest! {
        #[test]
        fn what_happens_to_a_packet_does_not_depend_on_other_traffic(
            times in prop::collection::btree_map(0_u64..100_000_000, any::<bool>(), 0..100),
        ) {
            let everything = fates(chance(), times.keys().copied().map(at));
            let everything: BTreeMap<_, _> = everything.into_iter().collect();
            let some = times.iter().filter(|&(_, &is_sent)| is_sent).map(|(&time, _)| at(time));
            for (time, fate) in fates(chance(), some) {
                prop_assert_eq!(everything[&time], fate);
            }
        }

        #[test]
        fn a_link_described_anew_as_before_goes_on_as_before(changed_at in 0_u64..1_000) {
            let mut state = LinkState::new(chance(), SEED, Time::START);
            for (index, (time, fate)) in (0..).zip(regular(chance(), 1_000)) {
                if index == changed_at {
                    state.change(chance(), time);
                }
                prop_assert_eq!(state.offer(time, IP_BYTES, PAYLOAD_BYTES), fate);
            }
        }
    }

    #[test]
    fn what_is_lost_does_not_depend_on_what_else_a_link_does() {
        let all = regular(chance(), 10_000);
        let only_loss = regular(Link { loss: chance().loss, ..Link::default() }, 10_000);
        assert_eq!(lost(&all), lost(&only_loss));
        assert!(!lost(&all).is_empty());
    }

    #[test]
    fn two_loss_processes_of_a_link_share_no_chance() {
        let tenth = || Loss::Independent(share(0.1));
        let link = Link { loss: vec![tenth(), tenth()], ..Link::default() };
        let count = lost(&regular(link, 100_000)).len();
        // 19 % with a standard deviation of 124; if they agreed it would be 10 %.
        assert!(count.abs_diff(19_000) < 500, "{count}");
    }

    #[test]
    fn an_outage_begins_and_ends_to_the_nanosecond() {
        let outages = vec![Span { from: at(100), until: at(200) }, Span { from: at(300), until: at(301) }];
        let found = fates(Link { outages, ..Link::default() }, (0..400).map(at));
        let expected: Vec<_> = (100..200).chain([300]).map(at).collect();
        assert_eq!(lost(&found), expected);
    }

    #[test]
    fn a_black_hole_swallows_what_is_a_byte_too_long() {
        let offer = |max| {
            let link = Link { ip_bytes_max: Some(Bytes::new(max)), ..Link::default() };
            fates(link, [at(0)])[0].1
        };
        assert!(matches!(offer(128), Fate::Carried { .. }));
        assert_eq!(offer(127), Fate::Lost(LossReason::TooLong));
    }

    #[test]
    fn what_the_wire_loses_has_taken_its_time_at_the_bottleneck() {
        // 128 bytes take 1,024 ns.
        let bottleneck = Bottleneck::new(Rate::from_megabits_per_second(1_000), Bytes::new(256)).ok();
        let loss = vec![Loss::Ordinals(vec![0, 3])];
        let found = fates(Link { bottleneck, loss, ..Link::default() }, [0, 0, 0, 1_024, 3_000].map(at));
        let carried = |nanos| {
            let original = Passage { arrival: at(nanos), flipped_bit: None };
            Fate::Carried { original, duplicate: None }
        };
        let random = Fate::Lost(LossReason::Random);
        let full = Fate::Lost(LossReason::QueueFull);
        let expected = [random, carried(2_048), full, random, carried(4_096)];
        assert_eq!(found.into_iter().map(|(_, fate)| fate).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn jitter_is_uniform_and_reorders_if_it_may() {
        let jitter = Jitter { max: Duration::from_millis(4), may_reorder: true };
        let found = regular(Link { delay: INTERVAL, jitter, ..Link::default() }, 100_000);
        let extra: Vec<_> = passages(&found).map(|(time, copy)| copy.arrival - time - INTERVAL).collect();
        assert!(extra.iter().all(|&extra| extra <= jitter.max));
        // Uniform: mean 2 ms, standard deviation of the mean 4 ms / sqrt(12) / sqrt(100,000) = 3.7 us.
        let mean = extra.iter().copied().sum::<Duration>() / 100_000;
        assert!(mean.as_micros().abs_diff(2_000) < 15, "{mean}");
        let quarter = extra.iter().filter(|&&extra| extra < INTERVAL).count();
        assert!(quarter.abs_diff(25_000) < 550, "{quarter}: a quarter, with a standard deviation of 137");
        assert!(!passages(&found).is_sorted_by_key(|(_, copy)| copy.arrival));
    }

    #[test]
    fn jitter_keeps_the_order_unless_it_may_not() {
        let jitter = Jitter { max: Duration::from_millis(4), may_reorder: false };
        let found = regular(Link { jitter, ..Link::default() }, 10_000);
        assert!(passages(&found).is_sorted_by_key(|(_, copy)| copy.arrival));
        assert!(passages(&found).all(|(time, copy)| copy.arrival - time <= jitter.max));
    }

    #[test]
    fn a_detour_of_a_hundred_intervals_puts_a_packet_after_the_hundred_behind_it() {
        let detour = INTERVAL * 100 + Duration::from_nanos(1);
        let reordering = Reordering { probability: share(0.01), detour };
        let found = regular(Link { reordering, ..Link::default() }, 100_000);
        let arrivals: Vec<_> = passages(&found).map(|(_, copy)| copy.arrival).collect();
        let overtaken = |index: usize| {
            let behind = arrivals[index + 1..].iter().take(200);
            behind.filter(|&&arrival| arrival < arrivals[index]).count()
        };
        let depths: Vec<_> = (0..arrivals.len()).map(overtaken).filter(|&depth| depth > 0).collect();
        assert_eq!(depths.iter().max(), Some(&100));
        // 1,000, with a standard deviation of 31.5.
        assert!(depths.len().abs_diff(1_000) < 130, "{}", depths.len());
    }

    #[test]
    fn copies_are_as_frequent_as_asked_and_travel_apart() {
        let jitter = Jitter { max: INTERVAL, may_reorder: true };
        let found = regular(Link { jitter, duplication: share(0.05), ..Link::default() }, 100_000);
        let duplicated: Vec<_> = found
            .iter()
            .filter_map(|&(_, fate)| match fate {
                Fate::Carried { original, duplicate } => Some((original, duplicate?)),
                Fate::Lost(_) => None,
            })
            .collect();
        // 5,000, with a standard deviation of 69.
        assert!(duplicated.len().abs_diff(5_000) < 280, "{}", duplicated.len());
        assert!(duplicated.iter().all(|(original, duplicate)| original.arrival != duplicate.arrival));
    }

    #[test]
    fn bits_flip_as_often_as_asked_and_everywhere() {
        let found = regular(Link { corruption: share(0.2), ..Link::default() }, 100_000);
        let mut flipped = [0_u64; PAYLOAD_BYTES * 8];
        for bit in passages(&found).filter_map(|(_, copy)| copy.flipped_bit) {
            flipped[usize::try_from(bit).expect("a bit of the payload")] += 1;
        }
        // 20,000 with a standard deviation of 126; 25 for each bit, of which none is hit with e^-25.
        let total: u64 = flipped.iter().sum();
        assert!(total.abs_diff(20_000) < 510, "{total}");
        assert!(flipped.iter().all(|&count| count > 0));
    }

    #[test]
    fn an_empty_payload_has_no_bit_to_flip() {
        let link = Link { corruption: Probability::ONE, ..Link::default() };
        let fate = LinkState::new(link, SEED, Time::START).offer(at(0), Bytes::new(28), 0);
        let original = Passage { arrival: at(0), flipped_bit: None };
        assert_eq!(fate, Fate::Carried { original, duplicate: None });
    }
}
