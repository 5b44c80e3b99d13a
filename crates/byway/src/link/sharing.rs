//! Shares of a link's classes in the kernel (HTB and bfifo), and the order in which they are
//! updated.

use byway_net::HtbClass;
use byway_sched::{LinkShare, Settings, Sharing};
use byway_units::{Bytes, Duration, Rate};

use super::limits::{BURST_PACKETS, BURST_TIME, QUEUE_BYTES_MAX};
use super::link_config::least_rate;

/// Handle of the HTB qdisc, by which Byway's one is recognised: "bw" in the upper half.
pub(super) const HANDLE: u32 = 0x6277_0000;

/// HTB class of the whole link, the parent of both classes.
const LINK: u32 = HANDLE | 1;

/// HTB classes of the link, high-rate and low-delay, in the order of [`byway_sched::Class::ALL`].
pub(super) const CLASSES: [u32; 2] = [HANDLE | 0x10, HANDLE | 0x20];

/// Handles of the queues (bfifo) of both classes, in the same order as [`CLASSES`].
pub(super) const QUEUES: [u32; 2] = [0x6278_0000, 0x6279_0000];

/// Class of packets that no filter has classified: high-rate.
pub(super) const DEFAULT_CLASS: u16 = 0x10;

const HIGH: usize = 0;
const LOW: usize = 1;

/// Shares of a link's classes, as the kernel has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkShares {
    link: Rate,
    /// Longest frame of the link, in bytes.
    frame: Bytes,
    pub(super) rates: [Rate; 2],
    pub(super) queue_limits: [Bytes; 2],
    /// Bound of the low-delay class's sojourn time, if one is promised.
    pub(super) delay: Duration,
    /// True if the link promises that bound: it does not if it shares by flows.
    pub(super) promises_delay: bool,
}

/// One update of a link's classes in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelUpdate {
    /// Set the rate, ceiling and burst of a class.
    Class(HtbClass),
    /// Set the longest queue of a class, in bytes, by the class's index.
    QueueLimit(usize, Bytes),
}

/// Updates of a link's classes: those to apply immediately, and those to apply later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelUpdates {
    pub(super) now: Vec<KernelUpdate>,
    pub(super) later: Vec<KernelUpdate>,
    /// Time between the immediate and the later updates.
    pub(super) after: Duration,
}

impl LinkShares {
    /// Returns the shares for the approximate number of flows in each class, high rate first.
    /// Low-delay packets have at most `low_delay_packet` bytes, and the link's frames at most
    /// `frame`.
    pub(super) fn of(settings: &Settings, frame: Bytes, flows: [u32; 2], low_delay_packet: Bytes) -> Self {
        let share = LinkShare::of(settings, [flows[0], flows[1], 0], low_delay_packet);
        Self::with(settings, frame, &share, low_delay_packet)
    }

    /// Returns the shares of a link that shares by flows, for the rate that the policy guarantees
    /// to low-delay flows.
    pub(super) fn at_rate(settings: &Settings, frame: Bytes, guaranteed: Rate) -> Self {
        Self::with(settings, frame, &LinkShare::at_rate(settings, guaranteed), frame)
    }

    fn with(settings: &Settings, frame: Bytes, share: &LinkShare, low_delay_packet: Bytes) -> Self {
        let link = settings.capacity();
        let (least, [_, low_delay, _]) = (least_rate(frame, settings.sharing()), share.rates);
        // A link whose MTU was raised may have less than both need. Each class then has half.
        let half = Rate::from_bits_per_second(link.bits_per_second() / 2);
        let low = low_delay.max(least).min(remaining_rate(link, least).max(half));
        let delay = if low < low_delay { scaled(share.delay, low_delay, low) } else { share.delay };
        // A queue has to hold at least a packet.
        let queue_limits = [
            share.buffers[HIGH].max(settings.packet() + settings.packet()),
            share.buffers[LOW].max(low_delay_packet),
        ]
        .map(|limit| limit.min(QUEUE_BYTES_MAX));
        let promises_delay = settings.sharing() == Sharing::ByRatio;
        Self { link, frame, rates: [remaining_rate(link, low), low], queue_limits, delay, promises_delay }
    }

    /// Returns shares that stand for an unknown state of the kernel. They differ from any real
    /// shares, and the next update therefore sends all values.
    pub(super) const fn unknown(of: &Self) -> Self {
        Self { link: Rate::ZERO, rates: [Rate::ZERO; 2], queue_limits: [Bytes::ZERO; 2], ..*of }
    }

    /// True if the kernel is known to have these shares.
    pub(super) const fn is_known(&self) -> bool {
        !self.link.is_zero()
    }

    /// Returns the parameters of the HTB classes: of the whole link, of the high-rate class, and of
    /// the low-delay class.
    pub(super) fn shapes(&self) -> [HtbClass; 3] {
        let shape = |id, parent, rate: Rate, ceiling| {
            let timer_burst = rate.bytes_in(BURST_TIME).unwrap_or(Bytes::MAX);
            let burst = Bytes::new(BURST_PACKETS * self.frame.count()).max(timer_burst);
            HtbClass { id, parent, rate, ceiling, burst, quantum: self.frame }
        };
        [
            shape(LINK, HANDLE, self.link, self.link),
            shape(CLASSES[HIGH], LINK, self.rates[HIGH], self.link),
            shape(CLASSES[LOW], LINK, self.rates[LOW], self.link),
        ]
    }
}

/// Returns the link's rate without that of one class, or 0 if that is more.
fn remaining_rate(link: Rate, used: Rate) -> Rate {
    link.checked_sub(used).unwrap_or(Rate::ZERO)
}

/// Returns the time that a transmission takes at the rate `now`, if it takes `time` at the rate
/// `before`.
fn scaled(time: Duration, before: Rate, now: Rate) -> Duration {
    let nanos = u128::from(time.as_nanos()) * u128::from(before.bits_per_second())
        / u128::from(now.bits_per_second().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the updates in the kernel from one set of shares to another.
///
/// A class loses rate before the other one gains it. If the rate of the low-delay class decreases
/// and a delay is promised, its queue is shortened immediately. The class keeps its rate until all
/// packets have left that it accepted under the former promise.
pub(super) fn kernel_updates(from: &LinkShares, to: &LinkShares) -> KernelUpdates {
    let mut updates = KernelUpdates::default();
    if to.promises_delay && to.link == from.link && to.rates[LOW] < from.rates[LOW] {
        let tight = to.queue_limits[LOW].min(from.queue_limits[LOW]);
        add_queue_limits(&mut updates.now, LOW, from.queue_limits[LOW], tight);
        updates.after = from.delay;
        add_classes(&mut updates.later, from, to);
        add_queue_limits(&mut updates.later, LOW, tight, to.queue_limits[LOW]);
        add_queue_limits(&mut updates.later, HIGH, from.queue_limits[HIGH], to.queue_limits[HIGH]);
    } else {
        add_classes(&mut updates.now, from, to);
        for class in [LOW, HIGH] {
            add_queue_limits(&mut updates.now, class, from.queue_limits[class], to.queue_limits[class]);
        }
    }
    updates
}

fn add_queue_limits(updates: &mut Vec<KernelUpdate>, class: usize, from: Bytes, to: Bytes) {
    if from != to {
        updates.push(KernelUpdate::QueueLimit(class, to));
    }
}

/// Adds the updates of HTB classes: decreases of rate first, from the leaves up, and then
/// increases, from the root down.
fn add_classes(updates: &mut Vec<KernelUpdate>, from: &LinkShares, to: &LinkShares) {
    let changed: Vec<(HtbClass, HtbClass)> =
        from.shapes().into_iter().zip(to.shapes()).filter(|(from, to)| from != to).collect();
    let is_less = |(from, to): &&(HtbClass, HtbClass)| to.rate < from.rate;
    updates.extend(changed.iter().rev().filter(is_less).map(|(_, to)| KernelUpdate::Class(*to)));
    updates.extend(changed.iter().filter(|both| !is_less(both)).map(|(_, to)| KernelUpdate::Class(*to)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: Bytes = Bytes::new(1_518);

    fn shares(megabits: u64, flows: [u32; 2]) -> LinkShares {
        let settings = Settings::new(Rate::from_megabits_per_second(megabits), FRAME).expect("a link");
        LinkShares::of(&settings, FRAME, flows, FRAME)
    }

    fn rate_of(updates: &[KernelUpdate], class: u32) -> Option<usize> {
        updates.iter().position(|step| matches!(step, KernelUpdate::Class(shape) if shape.id == class))
    }

    #[test]
    fn a_growing_class_waits_until_the_other_has_given() {
        let updates = kernel_updates(&shares(100, [10, 10]), &shares(100, [10, 40]));
        let (high, low) = (rate_of(&updates.now, CLASSES[HIGH]), rate_of(&updates.now, CLASSES[LOW]));
        assert!(high < low && high.is_some(), "{updates:?}");
        assert!(updates.later.is_empty() && rate_of(&updates.now, LINK).is_none(), "{updates:?}");
    }

    #[test]
    fn a_shrinking_low_delay_class_sends_first_what_it_has_taken() {
        let (from, to) = (shares(100, [10, 40]), shares(100, [10, 10]));
        let updates = kernel_updates(&from, &to);
        assert_eq!(updates.now, [KernelUpdate::QueueLimit(LOW, to.queue_limits[LOW])]);
        assert_eq!(updates.after, from.delay);
        let (high, low) = (rate_of(&updates.later, CLASSES[HIGH]), rate_of(&updates.later, CLASSES[LOW]));
        assert!(low < high && low.is_some(), "{updates:?}");
    }

    #[test]
    fn the_link_grows_before_its_classes_and_shrinks_after_them() {
        let (narrow, wide) = (shares(10, [1, 1]), shares(100, [1, 1]));
        let grown = kernel_updates(&narrow, &wide).now;
        let shrunk = kernel_updates(&wide, &narrow).now;
        for class in CLASSES {
            assert!(rate_of(&grown, LINK) < rate_of(&grown, class), "{grown:?}");
            assert!(rate_of(&shrunk, LINK) > rate_of(&shrunk, class), "{shrunk:?}");
        }
        assert_eq!(kernel_updates(&wide, &wide), KernelUpdates::default());
    }

    #[test]
    fn both_classes_of_a_slow_link_have_something_when_its_frames_become_long() {
        let settings = Settings::new(Rate::from_kilobits_per_second(100), FRAME).expect("a link");
        for flows in [[0, 0], [1_000, 1], [1, 1_000]] {
            let shares = LinkShares::of(&settings, Bytes::new(9_018), flows, FRAME);
            assert_eq!(shares.rates, [Rate::from_kilobits_per_second(50); 2], "{flows:?}");
        }
    }

    #[test]
    fn no_queue_is_longer_than_the_kernel_can_make_it() {
        let settings = Settings::new(Rate::from_megabits_per_second(400_000), FRAME).expect("a link");
        let settings = settings.with_delay(Duration::from_secs(60)).expect("a long wait");
        assert_eq!(LinkShares::of(&settings, FRAME, [10, 10], FRAME).queue_limits, [QUEUE_BYTES_MAX; 2]);
    }

    fn by_flows(guaranteed_kilobits: u64) -> LinkShares {
        let settings = Settings::new(Rate::from_megabits_per_second(5), FRAME).expect("a link");
        let settings = settings.with_sharing(Sharing::ByFlows { floor_milli: 0 }).expect("no floor");
        LinkShares::at_rate(&settings, FRAME, Rate::from_kilobits_per_second(guaranteed_kilobits))
    }

    #[test]
    fn shares_by_flows_have_equal_queues_and_a_packet_every_50_ms_for_each_class() {
        let shares = by_flows(2_000);
        assert_eq!(shares.rates, [3_000, 2_000].map(Rate::from_kilobits_per_second));
        // 250 ms at 5 Mbit/s.
        assert_eq!(shares.queue_limits, [Bytes::new(156_250); 2]);
        // 1,518 bytes in 50 ms.
        let least = Rate::from_bits_per_second(242_880);
        let rest = Rate::from_bits_per_second(5_000_000 - 242_880);
        assert_eq!((by_flows(100).rates, by_flows(4_900).rates), ([rest, least], [least, rest]));
    }

    #[test]
    fn with_shares_by_flows_a_class_loses_at_once_what_the_other_one_then_gains() {
        for (from, to, [first, second]) in
            [(2_500, 2_000, [CLASSES[LOW], CLASSES[HIGH]]), (2_000, 2_500, CLASSES)]
        {
            let updates = kernel_updates(&by_flows(from), &by_flows(to));
            let order: Vec<u32> = updates
                .now
                .iter()
                .map(|update| match update {
                    KernelUpdate::Class(shape) => shape.id,
                    KernelUpdate::QueueLimit(..) => panic!("queues stay as they are"),
                })
                .collect();
            assert_eq!(order, [first, second], "{from} to {to} kbit/s");
            assert!(updates.later.is_empty(), "{updates:?}");
        }
        assert_eq!(kernel_updates(&by_flows(2_000), &by_flows(2_000)), KernelUpdates::default());
        assert!(by_flows(2_000).is_known() && !LinkShares::unknown(&by_flows(2_000)).is_known());
    }

    proptest! {
        #[test]
        fn no_class_is_ever_starved_and_together_they_have_the_link(
            kilobits in 61_u64..100_000_000, high in 0_u32..200_000, low in 0_u32..200_000, packet in 1_u64..1_518,
        ) {
            let rate = Rate::from_kilobits_per_second(kilobits);
            let settings = Settings::new(rate, FRAME).expect("a link");
            let shares = LinkShares::of(&settings, FRAME, [high, low], Bytes::new(packet));
            prop_assert_eq!(shares.rates[0] + shares.rates[1], rate);
            for class in [HIGH, LOW] {
                prop_assert!(shares.rates[class] >= least_rate(FRAME, Sharing::ByRatio));
            }
            prop_assert!(shares.queue_limits[LOW] >= Bytes::new(packet) && shares.queue_limits[HIGH] >= FRAME + FRAME);
            prop_assert!(shares.delay >= settings.delay());
        }
    }
}
