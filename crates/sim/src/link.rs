//! Links: the transmission and impairments of packets between two nodes.
//!
//! The link evaluates its processes at the instant at which a packet is offered to it. Random
//! outcomes depend only on the world's seed, the link, the purpose and that instant. Whoever sends
//! at an instant meets the same burst, independent of earlier packets on this link or another. Only
//! losses that are defined by packets ([`Loss::Gilbert`], [`Loss::Ordinals`], [`Loss::Every`])
//! depend on earlier packets.

mod bernoulli;
mod bottleneck;
mod capacity_trace;
mod damage;
mod delay;
mod delay_trace;
mod gilbert;
mod gilbert_elliott;
mod loss;
mod loss_trace;
mod ordinals;
mod outage;
mod scheduler;

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_sched::{Class, FlowHash, Sample};
use byway_units::{Bytes, Duration, Probability, Time};
use byway_wire::Ecn;

use crate::log::LossReason;
use crate::random::Seed;

use self::bottleneck::Transmitter;
use self::damage::Damage;
use self::delay::{Delay, PacketDelay};
use self::loss::LossProcess;
use self::outage::Outages;
use self::scheduler::Scheduler;

pub use self::bottleneck::{Bottleneck, BottleneckError, BottleneckUsage};
pub use self::capacity_trace::{CapacityTrace, CapacityTraceError};
pub use self::delay::{Jitter, Reordering};
pub use self::delay_trace::{DelayTrace, DelayTraceError};
pub use self::gilbert_elliott::{ChannelState, GilbertElliott, GilbertElliottError};
pub use self::loss::Loss;
pub use self::loss_trace::{LossTrace, LossTraceError};
pub use self::outage::Span;
pub use self::scheduler::{
    ArrivingPacket, ClassCounters, DequeuedPacket, QueueDiscipline, SchedulerSettings,
};

/// Properties of a link in one direction. The default delivers everything at once.
///
/// A packet first passes the bottleneck, if there is one. On the wire behind it, the packet may be
/// lost to an outage, to its length or to one of the loss processes, in this order. Otherwise it
/// may be duplicated, and each copy may be corrupted. Each copy arrives after the delay, with
/// jitter and reordering of its own. A packet lost on the wire has used its transmission time at
/// the bottleneck. All of this is decided, and logged, when the packet is offered.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// Rate or recorded capacity in front of the wire, with a tail-drop queue; `None`: unlimited.
    pub bottleneck: Option<Bottleneck>,
    /// Rate and packet scheduler, in front of the bottleneck if the link has both. The events on
    /// the wire behind it are decided when a packet leaves the scheduler.
    pub scheduling: Option<SchedulerSettings>,
    /// Propagation delay of the link.
    pub delay: Duration,
    /// Recorded delays, used instead of `delay`; packets lost in the recording are lost again.
    pub measured: Option<DelayTrace>,
    /// Additional random delay of each packet.
    pub jitter: Jitter,
    /// Detour by which some packets are overtaken, with its probability.
    pub reordering: Reordering,
    /// Loss processes: a packet is lost if any of them loses it.
    pub loss: Vec<Loss>,
    /// Outages, in which the link loses every packet.
    pub outages: Vec<Span>,
    /// Longest IP packet that passes; longer ones are lost silently. `None`: all pass.
    pub ip_bytes_max: Option<Bytes>,
    /// Probability that a packet is duplicated.
    pub duplication: Probability,
    /// Probability that one random bit of the payload is inverted.
    pub corruption: Probability,
    /// True if the link clears the ECN field.
    pub bleaches_ecn: bool,
    /// True if the link marks ECN-capable packets (CE), as a link with a long queue does.
    pub marks_congestion: bool,
}

/// A packet offered to a link: the instant, its rank there, and its lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) time: Time,
    /// Index of the packet among those offered in this instant, from 0.
    pub(crate) nth: u64,
    /// Index of the packet among all offered to this link, from 0.
    pub(crate) ordinal: u64,
    pub(crate) ip_bytes: Bytes,
    pub(crate) payload_bytes: usize,
}

/// Outcome of a packet offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOutcome {
    /// The link loses the packet, for this reason.
    Lost(LossReason),
    /// The packet arrives, once or twice.
    Passed {
        /// Copy that would arrive without duplication.
        original: PacketCopy,
        /// Second copy that the link made; `None` usually.
        duplicate: Option<PacketCopy>,
    },
}

/// Copy of a packet in flight on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCopy {
    /// Time at which the copy reaches the end of the link.
    pub arrival: Time,
    /// Index of the payload bit that the link inverts in this copy, from 0; `None` if it is
    /// undamaged.
    pub flipped_bit: Option<u64>,
}

/// State of a link: decides about each packet for a [`World`](crate::World), or for another driver
/// that transmits packets itself.
#[derive(Debug)]
pub struct LinkState {
    seed: Seed,
    wire: Impairments,
    /// Boxed because few links have one.
    transmitter: Option<Box<Transmitter>>,
    /// Not cleared when the link's scheduler is removed, because its counters remain of use.
    scheduler: Option<Box<Scheduler>>,
    is_scheduled: bool,
    /// Latest arrival of the packets that later ones may not overtake.
    last_arrival: Time,
    offered: u64,
    /// Instant of the last offer, and the number of its offers.
    instant: (Time, u64),
}

/// Impairment processes of a link, as its properties and its seed determine them.
#[derive(Debug)]
struct Impairments {
    outages: Outages,
    ip_bytes_max: Option<Bytes>,
    loss: Vec<LossProcess>,
    damage: Damage,
    delay: Delay,
    bleaches_ecn: bool,
    marks_congestion: bool,
}

impl Impairments {
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
    /// Creates the idle link between two nodes with these numbers in a world of this seed. It is
    /// the same in every world, independent of other links.
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
            wire: Impairments::new(link, seed),
            transmitter: bottleneck.map(|bottleneck| Box::new(Transmitter::new(bottleneck, now))),
            scheduler: scheduling.map(|scheduling| Box::new(Scheduler::new(scheduling, now))),
            last_arrival: Time::START,
            offered: 0,
            instant: (Time::START, 0),
        }
    }

    /// Changes the properties of the link. Queued packets and packets in flight are not affected,
    /// except that removal of the scheduler drops its backlog. Processes whose properties do not
    /// change continue unchanged, because they depend only on the time.
    pub fn reconfigure(&mut self, mut link: Link, now: Time) {
        match (link.bottleneck.take(), &mut self.transmitter) {
            (Some(bottleneck), Some(transmitter)) => transmitter.reconfigure(bottleneck, now),
            (bottleneck, transmitter) => {
                *transmitter = bottleneck.map(|bottleneck| Box::new(Transmitter::new(bottleneck, now)));
            }
        }
        let scheduling = link.scheduling.take();
        self.is_scheduled = scheduling.is_some();
        match (scheduling, &mut self.scheduler) {
            (Some(scheduling), Some(scheduler)) => scheduler.reconfigure(scheduling, now),
            (Some(scheduling), scheduler) => *scheduler = Some(Box::new(Scheduler::new(scheduling, now))),
            (None, Some(scheduler)) => scheduler.close(now),
            (None, None) => {}
        }
        self.wire = Impairments::new(link, self.seed);
    }

    /// True if the link has a packet scheduler. Then packets are [queued](Self::enqueue) first, and
    /// [offered](Self::offer) to the wire when they have [left the queue](Self::dequeue).
    #[must_use]
    pub const fn is_scheduled(&self) -> bool {
        self.is_scheduled
    }

    /// Adds a packet to the scheduler's queue. [`LinkState::pop_dropped`] reports drops, and
    /// [`LinkState::next_departure`] the next departure.
    ///
    /// # Panics
    /// If the link has no scheduler.
    pub fn enqueue(&mut self, arriving: ArrivingPacket, now: Time) {
        self.scheduler.as_mut().expect("the link has a queue").enqueue(arriving, now);
    }

    /// Returns the departure time of the next packet; `None` while the queue is empty.
    #[must_use]
    pub fn next_departure(&self) -> Option<Time> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.next_departure())
    }

    /// Returns the packet whose last bit has left the scheduler by now, and begins the transmission
    /// of the next; `None` if there is none yet.
    pub fn dequeue(&mut self, now: Time) -> Option<DequeuedPacket> {
        self.scheduler.as_mut().and_then(|scheduler| scheduler.dequeue(now))
    }

    /// Returns the number of flows that a Rate-Delay queue has counted in each class, in the order
    /// of [`Class::ALL`]; `None` for other queues.
    #[must_use]
    pub fn counted_flows(&self) -> Option<[u32; Class::COUNT]> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.flow_counts())
    }

    /// Registers a flow as interactive until `end`: a link that has classes serves it in the
    /// low-delay one, whatever its DSCP. Returns false if the link has no scheduler, or too many
    /// flows are registered.
    pub fn register_flow(&mut self, flow: FlowHash, end: Time, now: Time) -> bool {
        self.scheduler.as_mut().is_some_and(|scheduler| scheduler.register_flow(flow, end, now))
    }

    /// Returns the counters, backlogs and rates of a Rate-Delay queue; `None` for other queues.
    /// [`LinkState::pop_dropped`] reports drops, which are possible.
    ///
    /// A packet counts as sent once its last bit has left, and does not wait while it is sent.
    pub fn sample(&mut self, now: Time) -> Option<Sample> {
        self.scheduler.as_mut().filter(|_| self.is_scheduled)?.sample(now)
    }

    /// Returns the number of a packet that the scheduler's queue dropped, each once; `None` if all
    /// drops were returned.
    pub fn pop_dropped(&mut self) -> Option<u32> {
        self.scheduler.as_mut().and_then(|scheduler| scheduler.pop_dropped())
    }

    /// Returns the counters of each class, in the order of [`Class::ALL`]; `None` if the link has
    /// no scheduler.
    #[must_use]
    pub fn class_counters(&self) -> Option<&[ClassCounters; Class::COUNT]> {
        self.scheduler.as_ref().map(|scheduler| scheduler.counters())
    }

    /// Returns the usage of the link's bottleneck or scheduler until now; `None` if it has neither.
    #[must_use]
    pub fn bottleneck_usage(&self, now: Time) -> Option<BottleneckUsage> {
        let scheduler = self.scheduler.as_ref().filter(|_| self.is_scheduled);
        let scheduler = scheduler.map(|scheduler| scheduler.usage(now));
        scheduler.or_else(|| self.transmitter.as_ref().map(|transmitter| transmitter.usage(now)))
    }

    /// Returns the ECN field of a packet after the link, which may clear or mark it.
    #[must_use]
    pub const fn outgoing_ecn(&self, ecn: Ecn) -> Ecn {
        match ecn {
            _ if self.wire.bleaches_ecn => Ecn::NotCapable,
            Ecn::Capable0 | Ecn::Capable1 if self.wire.marks_congestion => Ecn::CongestionExperienced,
            _ => ecn,
        }
    }

    /// Decides the outcome of the next packet, with this IP length and this number of bytes that
    /// may be damaged.
    ///
    /// # Panics
    /// If time goes back from one call to the next.
    pub fn offer(&mut self, time: Time, ip_bytes: Bytes, payload_bytes: usize) -> PacketOutcome {
        let offer = self.next_offer(time, ip_bytes, payload_bytes);
        let departure = match &mut self.transmitter {
            None => time,
            Some(transmitter) => match transmitter.enqueue(time, ip_bytes) {
                Some(departure) => departure,
                None => return PacketOutcome::Lost(LossReason::QueueFull),
            },
        };
        if let Some(reason) = self.wire.loses(&offer) {
            return PacketOutcome::Lost(reason);
        }
        let (mut delays, mut damages) = (self.wire.delay.sampler(&offer), self.wire.damage.sampler(&offer));
        let is_duplicated = damages.is_duplicated();
        let mut next_copy = || PacketCopy {
            arrival: Self::enforce_order(&mut self.last_arrival, departure, delays.next()),
            flipped_bit: damages.flipped_bit(),
        };
        let original = next_copy();
        PacketOutcome::Passed { original, duplicate: is_duplicated.then(next_copy) }
    }

    fn next_offer(&mut self, time: Time, ip_bytes: Bytes, payload_bytes: usize) -> Offer {
        let (instant, count) = self.instant;
        assert!(time >= instant, "a link is offered packets in the order of time");
        let nth = if time == instant { count } else { 0 };
        let offer = Offer { time, nth, ordinal: self.offered, ip_bytes, payload_bytes };
        self.instant = (time, nth + 1);
        self.offered += 1;
        offer
    }

    fn enforce_order(last_arrival: &mut Time, departure: Time, delay: PacketDelay) -> Time {
        let arrival = departure + delay.duration;
        if delay.may_reorder {
            return arrival;
        }
        *last_arrival = arrival.max(*last_arrival);
        *last_arrival
    }
}

#[cfg(test)]
impl Offer {
    /// Creates the only packet of an instant.
    fn alone(time: Time, ordinal: u64) -> Self {
        Self { time, nth: 0, ordinal, ip_bytes: Bytes::new(128), payload_bytes: 100 }
    }

    /// Creates `count` packets, one every `interval`.
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

    fn outcomes(link: Link, times: impl IntoIterator<Item = Time>) -> Vec<(Time, PacketOutcome)> {
        let mut state = LinkState::new(link, SEED, Time::START);
        times.into_iter().map(|time| (time, state.offer(time, IP_BYTES, PAYLOAD_BYTES))).collect()
    }

    fn regular(link: Link, count: u64) -> Vec<(Time, PacketOutcome)> {
        outcomes(link, (0..count).map(|index| Time::START + INTERVAL * index))
    }

    fn copies(fates: &[(Time, PacketOutcome)]) -> impl Iterator<Item = (Time, PacketCopy)> {
        fates
            .iter()
            .flat_map(|&(time, fate)| match fate {
                PacketOutcome::Passed { original, duplicate } => {
                    [Some(original), duplicate].map(|copy| Some((time, copy?)))
                }
                PacketOutcome::Lost(_) => [None, None],
            })
            .flatten()
    }

    fn lost(fates: &[(Time, PacketOutcome)]) -> Vec<Time> {
        let is_lost = |&&(_, fate): &&(Time, PacketOutcome)| matches!(fate, PacketOutcome::Lost(_));
        fates.iter().filter(is_lost).map(|&(time, _)| time).collect()
    }

    /// A link with all random processes.
    fn random_link() -> Link {
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
        let original = PacketCopy { arrival: at(7), flipped_bit: None };
        assert_eq!(
            outcomes(Link::default(), [at(7)]),
            [(at(7), PacketOutcome::Passed { original, duplicate: None })]
        );
    }

    proptest! {
        #[test]
        fn what_happens_to_a_packet_does_not_depend_on_other_traffic(
            times in prop::collection::btree_map(0_u64..100_000_000, any::<bool>(), 0..100),
        ) {
            let everything = outcomes(random_link(), times.keys().copied().map(at));
            let everything: BTreeMap<_, _> = everything.into_iter().collect();
            let some = times.iter().filter(|&(_, &is_sent)| is_sent).map(|(&time, _)| at(time));
            for (time, fate) in outcomes(random_link(), some) {
                prop_assert_eq!(everything[&time], fate);
            }
        }

        #[test]
        fn a_link_described_anew_as_before_goes_on_as_before(changed_at in 0_u64..1_000) {
            let mut state = LinkState::new(random_link(), SEED, Time::START);
            for (index, (time, fate)) in (0..).zip(regular(random_link(), 1_000)) {
                if index == changed_at {
                    state.reconfigure(random_link(), time);
                }
                prop_assert_eq!(state.offer(time, IP_BYTES, PAYLOAD_BYTES), fate);
            }
        }
    }

    #[test]
    fn what_is_lost_does_not_depend_on_what_else_a_link_does() {
        let all = regular(random_link(), 10_000);
        let only_loss = regular(Link { loss: random_link().loss, ..Link::default() }, 10_000);
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
        let found = outcomes(Link { outages, ..Link::default() }, (0..400).map(at));
        let expected: Vec<_> = (100..200).chain([300]).map(at).collect();
        assert_eq!(lost(&found), expected);
    }

    #[test]
    fn a_black_hole_swallows_what_is_a_byte_too_long() {
        let offer = |max| {
            let link = Link { ip_bytes_max: Some(Bytes::new(max)), ..Link::default() };
            outcomes(link, [at(0)])[0].1
        };
        assert!(matches!(offer(128), PacketOutcome::Passed { .. }));
        assert_eq!(offer(127), PacketOutcome::Lost(LossReason::TooLong));
    }

    #[test]
    fn what_the_wire_loses_has_taken_its_time_at_the_bottleneck() {
        // 128 bytes take 1,024 ns.
        let bottleneck = Bottleneck::new(Rate::from_megabits_per_second(1_000), Bytes::new(256)).ok();
        let loss = vec![Loss::Ordinals(vec![0, 3])];
        let found = outcomes(Link { bottleneck, loss, ..Link::default() }, [0, 0, 0, 1_024, 3_000].map(at));
        let transmitted = |nanos| {
            let original = PacketCopy { arrival: at(nanos), flipped_bit: None };
            PacketOutcome::Passed { original, duplicate: None }
        };
        let random = PacketOutcome::Lost(LossReason::Random);
        let full = PacketOutcome::Lost(LossReason::QueueFull);
        let expected = [random, transmitted(2_048), full, random, transmitted(4_096)];
        assert_eq!(found.into_iter().map(|(_, fate)| fate).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn jitter_is_uniform_and_reorders_if_it_may() {
        let jitter = Jitter { max: Duration::from_millis(4), may_reorder: true };
        let found = regular(Link { delay: INTERVAL, jitter, ..Link::default() }, 100_000);
        let extra: Vec<_> = copies(&found).map(|(time, copy)| copy.arrival - time - INTERVAL).collect();
        assert!(extra.iter().all(|&extra| extra <= jitter.max));
        // Uniform: mean 2 ms, standard deviation of the mean 4 ms / sqrt(12) / sqrt(100,000) = 3.7
        // us.
        let mean = extra.iter().copied().sum::<Duration>() / 100_000;
        assert!(mean.as_micros().abs_diff(2_000) < 15, "{mean}");
        let quarter = extra.iter().filter(|&&extra| extra < INTERVAL).count();
        assert!(quarter.abs_diff(25_000) < 550, "{quarter}: a quarter, with a standard deviation of 137");
        assert!(!copies(&found).is_sorted_by_key(|(_, copy)| copy.arrival));
    }

    #[test]
    fn jitter_keeps_the_order_unless_it_may_not() {
        let jitter = Jitter { max: Duration::from_millis(4), may_reorder: false };
        let found = regular(Link { jitter, ..Link::default() }, 10_000);
        assert!(copies(&found).is_sorted_by_key(|(_, copy)| copy.arrival));
        assert!(copies(&found).all(|(time, copy)| copy.arrival - time <= jitter.max));
    }

    #[test]
    fn a_detour_of_a_hundred_intervals_puts_a_packet_after_the_hundred_behind_it() {
        let detour = INTERVAL * 100 + Duration::from_nanos(1);
        let reordering = Reordering { probability: share(0.01), detour };
        let found = regular(Link { reordering, ..Link::default() }, 100_000);
        let arrivals: Vec<_> = copies(&found).map(|(_, copy)| copy.arrival).collect();
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
                PacketOutcome::Passed { original, duplicate } => Some((original, duplicate?)),
                PacketOutcome::Lost(_) => None,
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
        for bit in copies(&found).filter_map(|(_, copy)| copy.flipped_bit) {
            flipped[usize::try_from(bit).expect("a bit of the payload")] += 1;
        }
        // 20,000 with a standard deviation of 126; 25 for each bit, and a given bit has no hit with
        // probability e^-25.
        let total: u64 = flipped.iter().sum();
        assert!(total.abs_diff(20_000) < 510, "{total}");
        assert!(flipped.iter().all(|&count| count > 0));
    }

    #[test]
    fn an_empty_payload_has_no_bit_to_flip() {
        let link = Link { corruption: Probability::ONE, ..Link::default() };
        let fate = LinkState::new(link, SEED, Time::START).offer(at(0), Bytes::new(28), 0);
        let original = PacketCopy { arrival: at(0), flipped_bit: None };
        assert_eq!(fate, PacketOutcome::Passed { original, duplicate: None });
    }
}
