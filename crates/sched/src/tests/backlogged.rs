//! Tests of links with both classes backlogged and with changes of load, flows, lengths and rates:
//! the hardest case for the delay bound.

use super::*;
use crate::{DiscardPolicy, GuardMode, RateDelay, Settings, UPDATE_INTERVAL};

/// Pseudo-random numbers (`SplitMix64`: Steele and others, 2014).
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).expect("few values")]
    }
}

/// Load of a class for a while.
#[derive(Clone, Copy)]
struct Load {
    class: Class,
    flows: u64,
    bytes: u32,
    /// Mean time between packets.
    gap: Duration,
    next: Time,
}

impl Load {
    /// Creates a load between a fifth and twice the link's rate.
    fn random(class: Class, settings: &Settings, now: Time, chance: &mut SplitMix) -> Self {
        let bytes = chance.of(&[MTU, MTU, 700, 200]);
        let gap = Bytes::new(u64::from(bytes)) / settings.capacity() * 10 / (2 + chance.below(19));
        Self { class, flows: chance.of(&[1, 3, 20, 60]), bytes, gap, next: now }
    }
}

/// Run of a link with a seed. The promises have a start, a delay, and the time for which a packet
/// in transmission may have continued at the old rate.
struct BackloggedRun {
    wire: TestLink<RateDelay<u32>>,
    promises: Vec<(Time, Duration, Duration)>,
}

/// Returns random settings.
fn random_settings(chance: &mut SplitMix) -> Settings {
    let rate = Rate::from_megabits_per_second(chance.of(&[5, 20, 20]));
    let settings = Settings::new(rate, Bytes::new(u64::from(MTU))).expect("a usual link");
    let settings = settings.with_ratio_milli(chance.of(&[1_100, 2_000, 5_000])).expect("above one");
    let delay = Duration::from_millis(chance.of(&[10, 25, 400]));
    let settings = settings.with_delay(delay).expect("two packets fit");
    let settings =
        settings.with_discards(chance.of(&[DiscardPolicy::Late, DiscardPolicy::Late, DiscardPolicy::All]));
    let guards = [GuardMode::None, GuardMode::None, GuardMode::Fair, GuardMode::Strict];
    let settings = settings.with_guard(chance.of(&guards));
    let settings = if chance.below(4) == 0 { settings.with_ecn() } else { settings };
    if chance.below(4) == 0 { settings.with_low_average(delay * 3).expect("long enough") } else { settings }
}

impl BackloggedRun {
    /// Runs a link with a seed: up to five steps of 0.1 to 0.8 s each.
    fn by(seed: u64) -> Self {
        let mut chance = SplitMix(seed);
        let mut settings = random_settings(&mut chance);
        let wire = TestLink::new(RateDelay::new(settings, Time::START), settings.capacity());
        let mut pressed =
            Self { wire, promises: Vec::from([(Time::START, settings.delay(), Duration::ZERO)]) };
        let mut now = Time::START;
        for _ in 0..=chance.below(5) {
            let until = now + Duration::from_millis(100 + chance.below(700));
            pressed.send_load(&settings, [now, until], &mut chance);
            now = until;
            if chance.below(3) == 0 {
                settings = random_settings(&mut chance);
                pressed.reconfigure(settings, now);
            }
        }
        pressed.wire.send_until(Time::MAX);
        pressed.record_promise(now, Duration::ZERO);
        pressed
    }

    fn send_load(&mut self, settings: &Settings, [from, until]: [Time; 2], chance: &mut SplitMix) {
        let mut loads = Class::ALL.map(|class| Load::random(class, settings, from, chance));
        loop {
            let load = loads.iter_mut().min_by_key(|load| load.next).expect("there are three");
            let Load { class, flows, bytes, gap, next } = *load;
            if next >= until {
                return;
            }
            self.wire.arrive(class, flow(1 + chance.below(flows)), bytes, next);
            self.record_promise(next, Duration::ZERO);
            load.next = next + gap * chance.below(2_000) / 1_000;
        }
    }

    fn reconfigure(&mut self, settings: Settings, now: Time) {
        self.wire.send_until(now);
        let dropped = &mut self.wire.dropped;
        self.wire.queue.reconfigure(settings, now, &mut |packet, why| dropped.push((packet, why)));
        let under_way = self.wire.free_at.saturating_since(now);
        self.wire.rate = settings.capacity();
        self.record_promise(now, under_way);
    }

    fn record_promise(&mut self, now: Time, under_way: Duration) {
        self.promises.push((now, self.wire.queue.status().share.delay, under_way));
    }

    /// Returns the sojourn time of each low-delay packet sent, and the longest delay bound during
    /// its stay.
    fn sojourns_and_promises(&self) -> impl Iterator<Item = (Duration, Duration)> {
        let low_delay = self.wire.sent.iter().filter(|left| left.class == Class::LowDelay);
        low_delay.map(|left| {
            let arrived_at = left.at.saturating_since(Time::START + left.sojourn);
            let since =
                self.promises.partition_point(|(at, ..)| at.saturating_since(Time::START) <= arrived_at);
            // An update between two packets takes effect at the next one.
            let until = self.promises.partition_point(|(at, ..)| *at <= left.at) + 1;
            let meanwhile = &self.promises[since.saturating_sub(1)..until.min(self.promises.len())];
            let promised = meanwhile.iter().map(|(_, delay, _)| *delay).max().expect("there is one");
            let under_way = meanwhile.iter().map(|(.., under_way)| *under_way).sum::<Duration>();
            (left.sojourn, promised + under_way)
        })
    }
}

proptest! {
    #[test]
    fn no_low_delay_packet_waits_longer_than_was_promised_where_both_classes_press(seed in any::<u64>()) {
        let pressed = BackloggedRun::by(seed);
        pressed.wire.check();
        for (waited, promised) in pressed.sojourns_and_promises() {
            prop_assert!(waited <= promised, "{waited} of {promised}");
        }
    }
}

#[test]
fn where_both_classes_press_the_bound_is_nearly_reached_and_packets_are_discarded_for_it() {
    let (mut nearly, mut flushed) = (0, 0);
    for seed in 0..60 {
        let pressed = BackloggedRun::by(seed);
        nearly +=
            pressed.sojourns_and_promises().filter(|(waited, promised)| *waited >= *promised * 4 / 5).count();
        flushed += pressed.wire.dropped.iter().filter(|(_, why)| *why == DropReason::Flushed).count();
    }
    assert!(nearly > 1_000 && flushed > 100, "{nearly} packets, {flushed} discarded");
}

#[test]
fn the_high_rate_class_has_half_of_the_buffer_whatever_is_promised_to_others() {
    for millis in [10, 400, 1_000, 60_000] {
        for [high_rate, low_delay] in [[1, 1], [1, 60], [50, 1]] {
            let delay = Duration::from_millis(millis);
            let settings = Settings::new(Rate::from_megabits_per_second(20), Bytes::new(u64::from(MTU)));
            let settings = settings.and_then(|settings| settings.with_delay(delay)).expect("it is possible");
            let third = settings.with_low_average((delay * 2).min(crate::DELAY_MAX));
            for settings in [Some(settings), third.ok()].into_iter().flatten() {
                let mut queue = RateDelay::new(settings, Time::START);
                let mut now = Time::START;
                for class in Class::ALL {
                    for number in 0..if class == Class::HighRate { high_rate } else { low_delay } {
                        let of = flow(1 + number);
                        let arrival = Arrival {
                            packet: 0,
                            bytes: MTU,
                            class,
                            flow: of,
                            source: of,
                            is_ecn_capable: false,
                        };
                        queue.enqueue(arrival, now, &mut |_, _| {});
                    }
                }
                now += UPDATE_INTERVAL;
                while queue.dequeue(now, &mut |_, _| {}).is_some() {}
                let buffer = queue.status().share.buffers[0];
                // 250 ms at 20 Mbit/s, half of it, less a packet, which the third class's buffer
                // has.
                assert!(
                    buffer >= Bytes::new(625_000 / 2 - u64::from(MTU)),
                    "{buffer} at {millis} ms, {high_rate} and {low_delay} flows"
                );
            }
        }
    }
}
