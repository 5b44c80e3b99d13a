//! Guarantees of Rate-Delay, and equality with the figures of the paper.

use super::*;
use crate::naive::Naive;
use crate::{DiscardPolicy, GuardMode, RateDelay, Settings, Sharing};

pub(super) fn link(megabits: u64) -> Settings {
    Settings::new(Rate::from_megabits_per_second(megabits), Bytes::new(u64::from(MTU))).expect("a usual link")
}

#[allow(clippy::cast_precision_loss, reason = "a count to a few digits")]
fn number(count: usize) -> f64 {
    count as f64
}

impl TestLink<RateDelay<u32>> {
    /// Changes the settings of the link.
    fn reconfigure(&mut self, settings: Settings, now: Time) {
        self.send_until(now);
        let dropped = &mut self.dropped;
        self.queue.reconfigure(settings, now, &mut |packet, why| dropped.push((packet, why)));
    }
}

/// Adds a third class.
fn third(settings: Settings) -> Settings {
    settings.with_low_average(settings.delay() * 5).expect("long enough")
}

pub(super) fn wire(settings: Settings) -> TestLink<RateDelay<u32>> {
    TestLink::new(RateDelay::new(settings, Time::START), settings.capacity())
}

/// Guard, ECN, and third class.
type Options = (GuardMode, bool, bool);

fn options() -> impl Strategy<Value = Options> {
    (any_guard(), any::<bool>(), any::<bool>())
}

fn any_guard() -> impl Strategy<Value = GuardMode> {
    prop_oneof![Just(GuardMode::None), Just(GuardMode::Fair), Just(GuardMode::Strict)]
}

fn with(settings: Settings, (guard, marks, is_third): Options) -> Settings {
    let settings = settings.with_guard(guard);
    let settings = if marks { settings.with_ecn() } else { settings };
    if is_third { third(settings) } else { settings }
}

proptest! {
    #[test]
    fn no_low_delay_packet_waits_longer_than_was_promised(
        megabits in prop_oneof![Just(5_u64), Just(20), Just(100)],
        ratio in 1_001_u32..8_000,
        discards in prop_oneof![Just(DiscardPolicy::Late), Just(DiscardPolicy::All)],
        options in options(),
        changes in prop::collection::vec((0_usize..200, 1_001_u32..8_000, 5_u64..40, options()), 0..4),
        arrivals in arrivals(),
    ) {
        let settings = link(megabits).with_discards(discards);
        let first = with(settings.with_ratio_milli(ratio).expect("above one"), options);
        let mut wire = wire(first);
        let mut now = Time::START;
        let mut promises = Vec::from([(now, first.delay())]);
        for (index, (gap, class, number, bytes)) in arrivals.into_iter().enumerate() {
            now += Duration::from_micros(gap);
            for (_, ratio, millis, options) in changes.iter().filter(|(at, ..)| *at == index) {
                let changed = settings.with_ratio_milli(*ratio).expect("above one");
                let changed = changed.with_delay(Duration::from_millis(*millis)).expect("two packets fit");
                wire.reconfigure(with(changed, *options), now);
            }
            wire.arrive(class, flow(number), bytes, now);
            promises.push((now, wire.queue.status().share.delay));
        }
        wire.send_until(Time::MAX);
        promises.push((now, wire.queue.status().share.delay));
        wire.check();
        for left in wire.sent.iter().filter(|left| left.class == Class::LowDelay) {
            // The longest bound in force between arrival and departure; changes may shorten it for
            // later packets.
            let (arrived, left_at) = (left.at.saturating_since(Time::START + left.sojourn), left.at);
            let since = promises.partition_point(|(at, _)| at.saturating_since(Time::START) <= arrived);
            let until = promises.partition_point(|(at, _)| *at <= left_at);
            // An update between two packets takes effect at the next one.
            let until = (until + 1).min(promises.len());
            let promised = promises[since.saturating_sub(1)..until].iter().map(|(_, delay)| *delay).max();
            prop_assert!(Some(left.sojourn) <= promised, "{:?}, {:?} was promised", left, promised);
        }
    }

    #[test]
    fn the_fast_scheduler_does_what_the_figures_say(
        ratio in 1_001_u32..8_000,
        discards in prop_oneof![Just(DiscardPolicy::Late), Just(DiscardPolicy::All), Just(DiscardPolicy::None)],
        is_third in any::<bool>(),
        floor_milli in prop_oneof![Just(None), (0_u32..=900).prop_map(Some)],
        steps in prop::collection::vec((arrivals(), 0_u64..40), 1..4),
    ) {
        let settings = link(20).with_ratio_milli(ratio).expect("above one");
        let settings = settings.with_discards(discards);
        let settings = match (floor_milli, is_third) {
            (Some(floor_milli), _) => {
                settings.with_sharing(Sharing::ByFlows { floor_milli }).expect("two classes")
            }
            (None, true) => third(settings),
            (None, false) => settings,
        };
        let (mut fast, mut naive) = (RateDelay::new(settings, Time::START), Naive::new(settings, Time::START));
        let (mut now, mut number) = (Time::START, 0_u32);
        for (arrivals, departures) in steps {
            for (gap, class, flow_number, bytes) in arrivals {
                now += Duration::from_micros(gap);
                let arrival = Arrival { packet: number, bytes, class, flow: flow(flow_number), source: flow(flow_number), is_ecn_capable: false };
                number += 1;
                let mut dropped = Vec::new();
                fast.enqueue(arrival, now, &mut |packet, why| dropped.push((packet, why)));
                prop_assert_eq!(dropped, naive.enqueue(arrival, now));
                if flow_number % 3 == 0 {
                    let mut dropped = Vec::new();
                    let left = fast.dequeue(now, &mut |packet, why| dropped.push((packet, why)));
                    prop_assert_eq!((left.map(|left| left.packet), dropped), naive.dequeue(now));
                }
            }
            for _ in 0..departures {
                let mut dropped = Vec::new();
                let left = fast.dequeue(now, &mut |packet, why| dropped.push((packet, why)));
                prop_assert_eq!((left.map(|left| left.packet), dropped), naive.dequeue(now));
            }
        }
    }
}

/// Returns a link after some seconds during which both classes always exceed its rate.
pub(super) fn overloaded(
    settings: Settings,
    flows: [u64; Class::COUNT],
    seconds: u64,
) -> TestLink<RateDelay<u32>> {
    let mut wire = wire(settings);
    let step = Duration::from_micros(100);
    let mut now = Time::START;
    while now < Time::START + Duration::from_secs(seconds) {
        now += step;
        for (class, count) in Class::ALL.into_iter().zip(flows).filter(|(_, count)| *count > 0) {
            for packet in 0..3 {
                let number = (now.as_nanos() / step.as_nanos() * 3 + packet) % count;
                wire.arrive(class, flow(number + 1), MTU, now);
            }
        }
    }
    wire
}

/// Returns the bytes of each class in eight seconds, after two seconds of flow counting.
pub(super) fn class_bytes(settings: Settings, flows: [u64; Class::COUNT]) -> [u64; Class::COUNT] {
    let sent_by = |seconds| {
        let left = overloaded(settings, flows, seconds).sent;
        let bytes = |class| {
            left.iter().filter(|left| left.class == class).map(|left| u64::from(left.bytes)).sum::<u64>()
        };
        Class::ALL.map(bytes)
    };
    let (before, after) = (sent_by(2), sent_by(10));
    Class::ALL.map(|class| after[class as usize] - before[class as usize])
}

#[test]
fn the_low_delay_queue_is_as_long_as_its_bound_allows() {
    for flows in [[10, 10, 0], [5, 50, 0], [50, 5, 0]] {
        let wire = overloaded(link(100), flows, 4);
        let low_delay = wire.sent.iter().filter(|left| left.class == Class::LowDelay);
        let longest = low_delay.map(|left| left.sojourn).max().expect("some left");
        let bound = Duration::from_millis(10);
        assert!(longest <= bound && longest >= bound * 3 / 4, "{longest} with {flows:?}");
    }
}

#[test]
fn a_high_rate_flow_gets_the_ratio_of_a_low_delay_flow() {
    for ([high_rate, low_delay], ratio_milli) in
        [([10, 10], 2_000), ([50, 10], 2_000), ([10, 50], 2_000), ([20, 20], 1_500), ([20, 20], 4_000)]
    {
        let settings = link(100).with_ratio_milli(ratio_milli).expect("above one");
        let [of_high_rate, of_low_delay, _] = class_bytes(settings, [high_rate, low_delay, 0]);
        #[allow(clippy::cast_precision_loss, reason = "a ratio to a few digits")]
        let ratio = of_high_rate as f64 / high_rate as f64 / (of_low_delay as f64 / low_delay as f64);
        let requested = f64::from(ratio_milli) / 1_000.0;
        assert!(
            (ratio / requested - 1.0).abs() < 0.05,
            "{ratio} instead of {requested}, {high_rate} and {low_delay} flows"
        );
        let whole = 100_000_000 / 8 * 8;
        assert!(of_high_rate + of_low_delay >= whole - 3 * u64::from(MTU), "the link is never idle");
    }
}

#[test]
fn flows_from_before_a_long_pause_are_forgotten() {
    for pause in [2_000, 65_400, 65_800, 131_200] {
        let mut wire = wire(link(100));
        for number in 1..50 {
            wire.arrive(Class::HighRate, flow(number), MTU, Time::START);
        }
        let later = Time::START + Duration::from_millis(pause);
        wire.arrive(Class::LowDelay, flow(1), MTU, later);
        assert_eq!(wire.queue.status().flows, [0; 3], "{pause}");
        wire.arrive(Class::LowDelay, flow(1), MTU, later + Duration::from_millis(400));
        assert_eq!(wire.queue.status().flows, [0, 1, 0], "{pause}");
    }
}

#[test]
fn a_low_average_flow_gets_what_a_low_delay_one_does() {
    let settings = third(link(100));
    for flows in [[10, 10, 10], [20, 5, 40], [5, 40, 1]] {
        let bytes = class_bytes(settings, flows);
        #[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
        let [high_rate, low_delay, low_average] =
            [0, 1, 2].map(|class| bytes[class] as f64 / flows[class] as f64);
        let is_near = |rate: f64, other: f64| (rate / other - 1.0).abs() < 0.05;
        assert!(
            is_near(low_average, low_delay) && is_near(high_rate, 2.0 * low_average),
            "{flows:?}: {bytes:?}"
        );
    }
}

#[test]
fn without_a_third_class_what_is_marked_for_it_is_high_rate() {
    let wire = overloaded(link(100), [0, 10, 10], 3);
    assert_eq!(wire.queue.status().flows, [10, 10, 0]);
    assert!(wire.sent.iter().all(|left| left.class != Class::LowAverage));
}

/// Runs 20 responsive senders, which increase their rate after a round trip of 100 ms without loss,
/// and halve it after one with loss. Returns the mean and longest sojourn time of the class, and
/// the share of lost packets.
fn responsive(class: Class) -> (Duration, Duration, f64) {
    let mut wire = wire(third(link(20)));
    let (mut rates, mut noted, mut arrived) = ([20.0_f64; 20], 0, 0_u32);
    for step in 0..60_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        wire.arrive(Class::HighRate, flow(99), MTU, now);
        wire.arrive(Class::HighRate, flow(98), MTU, now);
        for (number, rate) in (0..).zip(rates) {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "packets so far")]
            let sent = |step: u32| (f64::from(step) * rate / 1_000.0) as u64;
            for _ in sent(step)..sent(step + 1) {
                arrived += 1;
                wire.arrive(class, flow(number), 500, now);
            }
        }
        if step % 100 == 99 {
            let lost: Vec<FlowHash> =
                wire.dropped[noted..].iter().map(|(packet, _)| wire.arrived[*packet as usize].0).collect();
            noted = wire.dropped.len();
            for (number, rate) in (0..).zip(&mut rates) {
                *rate = if lost.contains(&flow(number)) { *rate / 2.0 } else { *rate + 10.0 };
            }
        }
    }
    let left: Vec<&SentPacket> = wire.sent.iter().filter(|left| left.class == class).collect();
    let waits = left.iter().map(|left| left.sojourn);
    let (sum, longest) = (waits.clone().sum::<Duration>(), waits.max().expect("some left"));
    (sum / left.len() as u64, longest, 1.0 - number(left.len()) / f64::from(arrived))
}

#[test]
fn low_average_packets_wait_as_long_on_average_and_fewer_are_lost() {
    let (mean, longest, lost) = responsive(Class::LowAverage);
    let bound = Duration::from_millis(10);
    assert!(mean <= bound && longest > bound && longest <= bound * 6, "{mean} {longest}");
    let (_, bounded, lost_of_low_delay) = responsive(Class::LowDelay);
    assert!(bounded <= bound && lost < lost_of_low_delay, "{lost} {lost_of_low_delay}");
}

/// Returns the loss of ten senders at half of their fair share, in percent, beside one unresponsive
/// sender at ten times that share. Also returns the rate of the latter, relative to its fair share.
fn beside_one_that_does_not_slow_down(settings: Settings) -> (f64, f64) {
    let mut wire = wire(settings);
    // Ten high-rate flows and eleven others: 20 Mbit/s in 31 parts.
    let share = 20.0e6 / 31.0 / 8.0 / 500.0;
    let mut arrived = [0_usize; 2];
    for step in 0..40_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        for number in 0..10 {
            wire.arrive(Class::HighRate, flow(u64::from(20 + (step + number) % 10)), MTU / 5, now);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "packets so far")]
        let sent = |step: u32, rate: f64| (f64::from(step) * rate / 1_000.0) as u64;
        for number in 0..11 {
            let rate = share * if number == 10 { 10.0 } else { 0.5 };
            for _ in sent(step, rate)..sent(step + 1, rate) {
                arrived[usize::from(number == 10)] += usize::from(step >= 10_000);
                wire.arrive(Class::LowDelay, flow(number), 500, now);
            }
        }
    }
    let quarter = u32::try_from(wire.arrived.len() / 4).expect("few packets");
    let settled = |left: &&SentPacket| left.class == Class::LowDelay && left.packet > quarter;
    let greedy = wire.sent.iter().filter(settled).filter(|left| left.flow == flow(10)).count();
    let modest = wire.sent.iter().filter(settled).count() - greedy;
    (100.0 - number(modest) * 100.0 / number(arrived[0]), number(greedy) / (share * 30.0))
}

#[test]
fn who_does_not_slow_down_pays_and_not_its_neighbours() {
    let (lost, taken) = beside_one_that_does_not_slow_down(link(20));
    assert!(lost > 10.0 && taken > 2.0, "not guarded, all pay: {lost} % lost, {taken} of a fair share taken");
    let (lost, taken) = beside_one_that_does_not_slow_down(link(20).with_guard(GuardMode::Strict));
    assert!(lost < 1.0 && taken < 1.25, "{lost} % lost, {taken} of a fair share taken");
}

/// Returns the loss of ten calls, in percent, beside a high-rate sender at twice the link's rate
/// with each packet in another flow.
fn lost_beside_flows_of_one_packet(settings: Settings) -> f64 {
    let mut wire = wire(settings);
    for step in 0..20_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        for packet in 0..3 {
            let made_up = u64::from(step * 3 + packet).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            wire.arrive(Class::HighRate, FlowHash::new(made_up), MTU, now);
        }
        if step % 2 == 0 {
            wire.arrive(Class::LowDelay, flow(u64::from(step / 2 % 10)), 100, now);
        }
    }
    let left = wire.sent.iter().filter(|left| left.class == Class::LowDelay).count();
    100.0 - number(left) / 100.0
}

#[test]
fn flows_of_one_packet_do_not_have_the_guard_keep_calls_out() {
    let guarded = lost_beside_flows_of_one_packet(link(20).with_guard(GuardMode::Strict));
    assert!(guarded < 2.0, "{guarded} % lost");
}

/// Counts the packets that left in the second half, high-rate ones excluded: calls, with 200 bytes,
/// and others.
fn settled<Q>(wire: &TestLink<Q>) -> [usize; 2] {
    let half = u32::try_from(wire.arrived.len() / 2).expect("few packets");
    let held = wire.sent.iter().filter(|left| left.class != Class::HighRate && left.packet >= half);
    let (calls, others): (Vec<&SentPacket>, Vec<&SentPacket>) = held.partition(|left| left.bytes == 200);
    [calls.len(), others.len()]
}

/// Returns the percentage of packets that did not leave.
fn missing(left: usize, arrived: usize) -> f64 {
    100.0 - number(left) * 100.0 / number(arrived)
}

/// Returns the loss of forty low-delay calls, in percent, beside a source at twice the link's rate
/// in their class. That source uses a hundred thousand flows in turn. Also returns that source's
/// rate, in Mbit/s. `high_rate` packets arrive each millisecond; eight are as much as the link
/// sends.
fn beside_ever_new_flows(settings: Settings, high_rate: u32) -> (f64, f64) {
    let (mut wire, mut arrived) = (wire(settings), 0);
    for step in 0..20_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        for nth in 0..16 {
            let number = u64::from(step * 16 + nth);
            if nth < high_rate {
                wire.arrive(Class::HighRate, flow(900 + number % 100), MTU, now);
            }
            let made_up = FlowHash::new((number % 100_000).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            wire.arrive_from(flow(1), Class::LowDelay, made_up, MTU, now);
        }
        arrived += usize::from(step >= 10_000);
        wire.arrive(Class::LowDelay, flow(u64::from(100 + step % 40)), 200, now);
    }
    let [of_calls, of_source] = settled(&wire);
    (missing(of_calls, arrived), number(of_source) * f64::from(MTU) * 8.0 / 10.0e6)
}

#[test]
fn ever_new_flows_of_one_source_are_held_to_what_a_few_may_have() {
    let (_, taken) = beside_ever_new_flows(link(100), 8);
    assert!(taken > 40.0, "not guarded, it gets what it likes: {taken} Mbit/s");
    let (lost, taken) = beside_ever_new_flows(link(100).with_guard(GuardMode::Strict), 8);
    // Forty calls and a hundred high-rate flows persist: a low-delay flow has 1/240 of 100 Mbit/s.
    let few = 4.0 * 100.0 / 240.0;
    assert!(lost < 2.0 && taken < 1.2 * few && taken > 0.5 * few, "{lost} % lost, {taken} Mbit/s taken");
    for high_rate in [0, 1] {
        let (lost, _) = beside_ever_new_flows(link(100), high_rate);
        assert!(lost > 5.0, "{high_rate}: not guarded, all pay: {lost} % lost");
        let (lost, _) = beside_ever_new_flows(link(100).with_guard(GuardMode::Strict), high_rate);
        assert!(lost < 2.0, "{high_rate}: {lost} % lost");
    }
}

/// Returns the loss of nine calls of one source, in percent, beside busy high-rate flows and a
/// tenth flow of the source at the link's rate. Also returns the rate of that flow, in Mbit/s.
fn beside_a_greedy_flow_of_the_same_source(settings: Settings) -> (f64, f64) {
    let (mut wire, mut arrived) = (wire(settings), 0);
    for step in 0..20_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        for nth in 0..10 {
            wire.arrive(Class::HighRate, flow(u64::from(900 + (step * 10 + nth) % 100)), MTU, now);
            wire.arrive_from(flow(1), Class::LowDelay, flow(10), MTU, now);
        }
        arrived += usize::from(step >= 10_000);
        wire.arrive_from(flow(1), Class::LowDelay, flow(u64::from(step % 9)), 200, now);
    }
    let [of_calls, greedy] = settled(&wire);
    (missing(of_calls, arrived), number(greedy) * f64::from(MTU) * 8.0 / 10.0e6)
}

#[test]
fn a_greedy_flow_pays_and_not_others_of_its_source() {
    let (_, taken) = beside_a_greedy_flow_of_the_same_source(link(100));
    assert!(taken > 2.0, "not guarded, it gets most of the class: {taken} Mbit/s");
    let (lost, taken) = beside_a_greedy_flow_of_the_same_source(link(100).with_guard(GuardMode::Strict));
    // Ten low-delay flows and a hundred high-rate flows, whose rate is known to within 1/8.
    assert!(lost < 2.0 && taken < 1.3 * 100.0 / 210.0, "{lost} % lost, {taken} Mbit/s taken");
}

/// Returns the loss of ten calls, in percent, beside a flow of their class and high-rate flows,
/// each with a number of packets per millisecond. Ten packets are as much as the link sends.
pub(super) fn lost_beside_a_flood(settings: Settings, class: Class, [high_rate, packets]: [u32; 2]) -> f64 {
    let mut wire = wire(settings);
    let mut arrived = 0;
    for step in 0..20_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        (0..high_rate).for_each(|_| wire.arrive(Class::HighRate, flow(30), 250, now));
        (0..packets).for_each(|_| wire.arrive(class, flow(20), 250, now));
        arrived += usize::from(step >= 10_000);
        wire.arrive(class, flow(u64::from(step % 10)), 200, now);
    }
    missing(settled(&wire)[0], arrived)
}

#[test]
fn who_does_not_slow_down_pays_also_where_the_high_rate_class_has_little_to_send() {
    for (settings, class) in [(link(20), Class::LowDelay), (third(link(20)), Class::LowAverage)] {
        for flood in [[0, 20], [2, 20], [0, 60]] {
            let lost = lost_beside_a_flood(settings, class, flood);
            assert!(lost > 20.0, "{class:?} {flood:?}: not guarded, all pay: {lost} % lost");
            let lost = lost_beside_a_flood(settings.with_guard(GuardMode::Strict), class, flood);
            assert!(lost < 1.0, "{class:?} {flood:?}: {lost} % lost");
        }
    }
}

/// Returns the loss of ten calls, in percent, beside a source of their class at three times the
/// link's rate. It sends for `on` milliseconds, pauses for `off`, and uses a new flow after
/// `lifetime`. There is no other traffic.
fn lost_beside_bursts(settings: Settings, [on, off, lifetime]: [u32; 3]) -> f64 {
    let mut wire = wire(settings);
    let mut arrived = 0;
    for step in 0..60_000_u32 {
        let now = Time::START + Duration::from_millis(1) * u64::from(step);
        if step % (on + off) < on {
            let changing = flow(u64::from(1_000 + step / lifetime));
            (0..30).for_each(|_| wire.arrive_from(flow(500), Class::LowDelay, changing, 250, now));
        }
        arrived += usize::from(step >= 30_000);
        wire.arrive(Class::LowDelay, flow(u64::from(step % 10)), 200, now);
    }
    let settled = Time::START + Duration::from_secs(30);
    let left = wire.sent.iter().filter(|left| left.bytes == 200 && left.at >= settled).count();
    missing(left, arrived)
}

#[test]
fn a_source_that_changes_flows_or_pauses_is_held_to_what_it_may_have() {
    let changing = [100, 500, 1_000, 3_000].map(|lifetime| [1_000, 0, lifetime]);
    let pausing = [[400, 400, 60_000], [500, 300, 60_000], [900, 1_500, 60_000]];
    for times in changing.into_iter().chain(pausing) {
        let lost = lost_beside_bursts(link(20), times);
        assert!(lost > 20.0, "{times:?}: not guarded, all pay: {lost} % lost");
        let lost = lost_beside_bursts(link(20).with_guard(GuardMode::Strict), times);
        assert!(lost < 2.0, "{times:?}: {lost} % lost");
    }
}

#[test]
fn a_flow_that_is_alone_has_all_of_the_link() {
    for settings in [link(20), link(20).with_guard(GuardMode::Strict)] {
        let mut wire = wire(settings);
        for step in 0..10_000_u32 {
            let now = Time::START + Duration::from_millis(1) * u64::from(step);
            (0..9).for_each(|_| wire.arrive(Class::LowDelay, flow(20), 250, now));
        }
        assert!(wire.dropped.is_empty(), "{:?}", wire.dropped.first());
    }
}
