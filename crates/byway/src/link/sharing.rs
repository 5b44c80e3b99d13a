//! How the classes of a link share it, and in which order the kernel is told.

use byway_net::ClassShape;
use byway_sched::{Allotment, Settings};
use byway_units::{Bytes, Duration, Rate};

use super::limits::{BURST_PACKETS, BURST_TIME, ROOM_MAX};
use super::terms::least_rate;

/// HTB's number, by which it is known as Byway's: "bw" in the upper half.
pub(super) const HANDLE: u32 = 0x6277_0000;

/// The class of the whole link.
const LINK: u32 = HANDLE | 1;

/// The classes below it, in the order of [`byway_sched::Class::ALL`].
pub(super) const CLASSES: [u32; 2] = [HANDLE | 0x10, HANDLE | 0x20];

/// The queues of these.
pub(super) const QUEUES: [u32; 2] = [0x6278_0000, 0x6279_0000];

/// Where packets go that no filter has seen.
pub(super) const DEFAULT_CLASS: u16 = 0x10;

const HIGH: usize = 0;
const LOW: usize = 1;

/// What the kernel is told of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    link: Rate,
    /// The longest packet that the link carries in one.
    frame: Bytes,
    pub(super) rates: [Rate; 2],
    pub(super) room: [Bytes; 2],
    /// What no low-delay packet waits longer than.
    pub(super) delay: Duration,
}

/// One thing that the kernel is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A class.
    Class(ClassShape),
    /// The room of the queue of a class, by its place.
    Room(usize, Bytes),
}

/// What the kernel is told at once, and what after a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) now: Vec<Step>,
    pub(super) later: Vec<Step>,
    /// How much later.
    pub(super) after: Duration,
}

impl Shares {
    /// With about so many flows in each class, low-delay packets of at most so many bytes, and a link whose packets have up to `frame` bytes.
    pub(super) fn of(settings: &Settings, frame: Bytes, flows: [u32; 2], low_delay_packet: Bytes) -> Self {
        let allotment = Allotment::of(settings, [flows[0], flows[1], 0], low_delay_packet);
        let link = settings.capacity();
        let (least, [_, low_delay, _]) = (least_rate(frame), allotment.rates);
        // A link whose MTU was raised may have less than both need: then each has half.
        let half = Rate::from_bits_per_second(link.bits_per_second() / 2);
        let low = low_delay.max(least).min(rest(link, least).max(half));
        let delay = if low < low_delay { scaled(allotment.delay, low_delay, low) } else { allotment.delay };
        // A queue that is too short for a packet is none.
        let room = [
            allotment.room[HIGH].max(settings.packet() + settings.packet()),
            allotment.room[LOW].max(low_delay_packet),
        ]
        .map(|room| room.min(ROOM_MAX));
        Self { link, frame, rates: [rest(link, low), low], room, delay }
    }

    /// Of which it is not known what the kernel was told: whatever follows, all of it is.
    pub(super) const fn unknown(of: &Self) -> Self {
        Self { link: Rate::ZERO, rates: [Rate::ZERO; 2], room: [Bytes::ZERO; 2], ..*of }
    }

    /// The classes: of the link, high-rate, low-delay.
    pub(super) fn shapes(&self) -> [ClassShape; 3] {
        let shape = |id, parent, rate: Rate, ceiling| {
            let at_once = rate.bytes_in(BURST_TIME).unwrap_or(Bytes::MAX);
            let burst = Bytes::new(BURST_PACKETS * self.frame.count()).max(at_once);
            ClassShape { id, parent, rate, ceiling, burst, quantum: self.frame }
        };
        [
            shape(LINK, HANDLE, self.link, self.link),
            shape(CLASSES[HIGH], LINK, self.rates[HIGH], self.link),
            shape(CLASSES[LOW], LINK, self.rates[LOW], self.link),
        ]
    }
}

/// What one class leaves to the other.
fn rest(link: Rate, taken: Rate) -> Rate {
    link.checked_sub(taken).unwrap_or(Rate::ZERO)
}

/// How long something takes at `now` that took `time` at `before`.
fn scaled(time: Duration, before: Rate, now: Rate) -> Duration {
    let nanos = u128::from(time.as_nanos()) * u128::from(before.bits_per_second())
        / u128::from(now.bits_per_second().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// What the kernel has to be told to come from one sharing to another.
///
/// What a class loses it loses before another gets it. A low-delay class that is to have a smaller rate takes fewer packets from now on, and keeps
/// its rate for as long as those may wait that it has taken on the promise of this rate.
pub(super) fn steps(from: &Shares, to: &Shares) -> Steps {
    let mut steps = Steps::default();
    if to.link == from.link && to.rates[LOW] < from.rates[LOW] {
        let tight = to.room[LOW].min(from.room[LOW]);
        add_room(&mut steps.now, LOW, from.room[LOW], tight);
        steps.after = from.delay;
        add_classes(&mut steps.later, from, to);
        add_room(&mut steps.later, LOW, tight, to.room[LOW]);
        add_room(&mut steps.later, HIGH, from.room[HIGH], to.room[HIGH]);
    } else {
        add_classes(&mut steps.now, from, to);
        for place in [LOW, HIGH] {
            add_room(&mut steps.now, place, from.room[place], to.room[place]);
        }
    }
    steps
}

fn add_room(steps: &mut Vec<Step>, place: usize, from: Bytes, to: Bytes) {
    if from != to {
        steps.push(Step::Room(place, to));
    }
}

/// What becomes smaller comes first, from the leaves up; what becomes larger, from the link down.
fn add_classes(steps: &mut Vec<Step>, from: &Shares, to: &Shares) {
    let changed: Vec<(ClassShape, ClassShape)> =
        from.shapes().into_iter().zip(to.shapes()).filter(|(from, to)| from != to).collect();
    let is_less = |(from, to): &&(ClassShape, ClassShape)| to.rate < from.rate;
    steps.extend(changed.iter().rev().filter(is_less).map(|(_, to)| Step::Class(*to)));
    steps.extend(changed.iter().filter(|both| !is_less(both)).map(|(_, to)| Step::Class(*to)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: Bytes = Bytes::new(1_518);

    fn shares(megabits: u64, flows: [u32; 2]) -> Shares {
        let settings = Settings::new(Rate::from_megabits_per_second(megabits), FRAME).expect("a link");
        Shares::of(&settings, FRAME, flows, FRAME)
    }

    fn rate_of(steps: &[Step], class: u32) -> Option<usize> {
        steps.iter().position(|step| matches!(step, Step::Class(shape) if shape.id == class))
    }

    #[test]
    fn a_growing_class_waits_until_the_other_has_given() {
        let steps = steps(&shares(100, [10, 10]), &shares(100, [10, 40]));
        let (high, low) = (rate_of(&steps.now, CLASSES[HIGH]), rate_of(&steps.now, CLASSES[LOW]));
        assert!(high < low && high.is_some(), "{steps:?}");
        assert!(steps.later.is_empty() && rate_of(&steps.now, LINK).is_none(), "{steps:?}");
    }

    #[test]
    fn a_shrinking_low_delay_class_sends_first_what_it_has_taken() {
        let (from, to) = (shares(100, [10, 40]), shares(100, [10, 10]));
        let steps = steps(&from, &to);
        assert_eq!(steps.now, [Step::Room(LOW, to.room[LOW])]);
        assert_eq!(steps.after, from.delay);
        let (high, low) = (rate_of(&steps.later, CLASSES[HIGH]), rate_of(&steps.later, CLASSES[LOW]));
        assert!(low < high && low.is_some(), "{steps:?}");
    }

    #[test]
    fn the_link_grows_before_its_classes_and_shrinks_after_them() {
        let (narrow, wide) = (shares(10, [1, 1]), shares(100, [1, 1]));
        let grown = steps(&narrow, &wide).now;
        let shrunk = steps(&wide, &narrow).now;
        for class in CLASSES {
            assert!(rate_of(&grown, LINK) < rate_of(&grown, class), "{grown:?}");
            assert!(rate_of(&shrunk, LINK) > rate_of(&shrunk, class), "{shrunk:?}");
        }
        assert_eq!(steps(&wide, &wide), Steps::default());
    }

    #[test]
    fn both_classes_of_a_slow_link_have_something_when_its_frames_become_long() {
        let settings = Settings::new(Rate::from_kilobits_per_second(100), FRAME).expect("a link");
        for flows in [[0, 0], [1_000, 1], [1, 1_000]] {
            let shares = Shares::of(&settings, Bytes::new(9_018), flows, FRAME);
            assert_eq!(shares.rates, [Rate::from_kilobits_per_second(50); 2], "{flows:?}");
        }
    }

    #[test]
    fn no_queue_is_longer_than_the_kernel_can_make_it() {
        let settings = Settings::new(Rate::from_megabits_per_second(400_000), FRAME).expect("a link");
        let settings = settings.with_delay(Duration::from_secs(60)).expect("a long wait");
        assert_eq!(Shares::of(&settings, FRAME, [10, 10], FRAME).room, [ROOM_MAX; 2]);
    }

    proptest! {
        #[test]
        fn no_class_is_ever_starved_and_together_they_have_the_link(
            kilobits in 61_u64..100_000_000, high in 0_u32..200_000, low in 0_u32..200_000, packet in 1_u64..1_518,
        ) {
            let rate = Rate::from_kilobits_per_second(kilobits);
            let settings = Settings::new(rate, FRAME).expect("a link");
            let shares = Shares::of(&settings, FRAME, [high, low], Bytes::new(packet));
            prop_assert_eq!(shares.rates[0] + shares.rates[1], rate);
            for place in [HIGH, LOW] {
                prop_assert!(shares.rates[place] >= least_rate(FRAME));
            }
            prop_assert!(shares.room[LOW] >= Bytes::new(packet) && shares.room[HIGH] >= FRAME + FRAME);
            prop_assert!(shares.delay >= settings.delay());
        }
    }
}
