//! No packet causes an allocation after the queues have reached their longest.

use byway_sched::{
    Arrival, Class, Discipline, DropTail, FlowHash, FqCodel, GuardMode, RateDelay, Settings, StrictPriority,
};
use byway_units::{Bytes, Duration, Rate, Time};

const RATE: Rate = Rate::from_megabits_per_second(100);
const MTU: Bytes = Bytes::new(1_500);
const CAPACITY: Bytes = Bytes::new(1_000_000);

/// Runs an overload for `length`: two packets arrive for each that leaves.
fn overload(queue: &mut impl Discipline<u64>, from: Duration, length: Duration) -> u64 {
    let mut left = 0;
    let step = MTU / RATE;
    let mut now = Time::START + from;
    let end = now + length;
    while now < end {
        now += step;
        for class in Class::ALL {
            let flow = FlowHash::new(now.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let arrival = Arrival {
                packet: now.as_nanos(),
                bytes: 1_500,
                class,
                flow,
                source: flow,
                is_ecn_capable: false,
            };
            queue.enqueue(arrival, now, &mut |_, _| {});
        }
        left += u64::from(queue.dequeue(now, &mut |_, _| {}).is_some());
    }
    left
}

fn check(mut queue: impl Discipline<u64>) {
    let second = Duration::from_secs(1);
    overload(&mut queue, Duration::ZERO, second * 2);
    let mut left = 0;
    let counted = allocation_counter::measure(|| left = overload(&mut queue, second * 2, second));
    assert!(left > 8_000, "{left}");
    assert_eq!(counted.count_total, 0);
}

#[test]
fn rate_delay_allocates_nothing() {
    let settings = Settings::new(RATE, MTU).expect("a usual link");
    let third = settings.with_low_average(Duration::from_millis(50)).expect("long enough");
    for settings in [
        settings,
        settings.with_guard(GuardMode::Strict),
        third,
        third.with_guard(GuardMode::Strict).with_ecn(),
    ] {
        check(RateDelay::new(settings, Time::START));
    }
}

#[test]
fn one_queue_allocates_nothing() {
    check(DropTail::new(CAPACITY));
    check(StrictPriority::new(CAPACITY));
}

#[test]
fn a_queue_that_grows_is_counted() {
    let mut queue = FqCodel::new(CAPACITY, MTU);
    let counted = allocation_counter::measure(|| {
        overload(&mut queue, Duration::ZERO, Duration::from_millis(10));
    });
    assert!(counted.count_total > 0, "each flow has a queue of its own");
}
