//! Guarded flows at a constant rate: real-time flows, which do not slow down.

use super::pressed::Chance;
use super::*;
use crate::{GuardMode, RateDelay, Settings};

/// Bytes of a packet of a flow at a constant rate.
const PACKET: u32 = 500;

/// How long a run takes, and from when on it is measured: a flow of 1.05 times its share has used up three seconds of it after a minute.
const LENGTH: Duration = Duration::from_secs(90);
const SETTLE: Duration = Duration::from_secs(65);

/// A sender of packets at a constant rate.
struct Constant {
    class: Class,
    hash: FlowHash,
    bytes: u32,
    every: Duration,
    next: Time,
}

impl Constant {
    fn new(number: u64, class: Class, bytes: u32, rate: Rate) -> Self {
        let every = Bytes::new(u64::from(bytes)) / rate;
        let next = Time::START + every * (number * 37 % 100) / 100;
        Self { class, hash: flow(number), bytes, every, next }
    }
}

/// Returns the wire after all have sent for so long.
fn run(settings: Settings, mut senders: Vec<Constant>, length: Duration) -> Wire<RateDelay<u32>> {
    let mut wire = Wire::new(RateDelay::new(settings, Time::START), settings.capacity());
    let mut chance = Chance(1);
    loop {
        let one = senders.iter_mut().min_by_key(|one| one.next).expect("there are some");
        if one.next >= Time::START + length {
            return wire;
        }
        wire.arrive(one.class, one.hash, one.bytes, one.next);
        // By chance: flows whose packets always come in the same order would share the room by it.
        one.next += one.every * (500 + chance.below(1_001)) / 1_000;
    }
}

/// Rate of a flow in bits per second, once all has settled.
#[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn rate_of(wire: &Wire<RateDelay<u32>>, hash: FlowHash) -> f64 {
    let left = wire.left.iter().filter(|left| left.flow == hash && left.at >= Time::START + SETTLE);
    let bytes: u64 = left.map(|left| u64::from(left.bytes)).sum();
    bytes as f64 * 8.0 / (LENGTH - SETTLE).as_secs_f64()
}

/// Part of its share that a low-delay flow gets which sends so many thousandths of it, beside ten busy high-rate flows and as many low-delay neighbours,
/// each at as many thousandths of their shares.
#[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn kept(settings: Settings, milli: u64, [neighbours, of_neighbour]: [u64; 2]) -> f64 {
    let share = settings.capacity().bits_per_second() / (20 + neighbours + 1);
    let rate = |milli: u64| Rate::from_bits_per_second(share * milli / 1_000);
    let mut senders = Vec::from([Constant::new(1, Class::LowDelay, PACKET, rate(milli))]);
    senders.extend(
        (0..neighbours).map(|number| Constant::new(2 + number, Class::LowDelay, PACKET, rate(of_neighbour))),
    );
    senders.extend((0..10).map(|number| Constant::new(100 + number, Class::HighRate, MTU, rate(4_000))));
    rate_of(&run(settings, senders, LENGTH), flow(1)) / share as f64
}

/// A guard whose debts count refused packets, and that lets in those who owe only where nothing waits, fails this: a flow of 1.2 times its share never
/// pays back, and keeps 0.70 of the share.
/// One in debt leaves a 64th of its share, and 1.05 times it lasts a while on the burst: by so much, a flow may have less than one that sends less.
fn check_constant_flows(guard: GuardMode) {
    let settings = Settings::new(Rate::from_megabits_per_second(20), Bytes::new(u64::from(MTU)));
    let settings = settings.expect("a usual link").with_guard(guard);
    for neighbours in [[0, 0], [9, 500], [9, 950], [9, 2_000]] {
        let mut before = 0.0;
        for milli in [950_u32, 1_000, 1_050, 1_200, 1_500, 2_000, 3_000] {
            let (kept, sent) = (kept(settings, milli.into(), neighbours), f64::from(milli) / 1_000.0);
            let of = std::format!("{guard:?}, {sent} times the share, beside {neighbours:?}");
            assert!(kept >= 0.95 * sent.min(1.0), "{kept} of the share: {of}");
            assert!(kept >= before * 0.97, "{kept} after {before}: {of}");
            before = kept;
        }
    }
}

#[test]
fn a_constant_flow_above_its_share_keeps_the_share_where_guards_are_strict() {
    check_constant_flows(GuardMode::Strict);
}

#[test]
fn a_constant_flow_above_its_share_keeps_the_share_where_guards_are_fair() {
    check_constant_flows(GuardMode::Fair);
}

/// Part of the link that the low-delay class gets where ten flows of each class are busy beside so many idle ones of a packet of 100 bytes a second.
#[allow(clippy::cast_precision_loss, reason = "a share to a few digits")]
fn low_delay_share(settings: Settings, idle: Option<Class>) -> f64 {
    let busy = |class, number| Constant::new(number, class, MTU, Rate::from_megabits_per_second(3));
    let mut senders: Vec<Constant> = (0..10).map(|number| busy(Class::HighRate, 100 + number)).collect();
    senders.extend((0..10).map(|number| busy(Class::LowDelay, 200 + number)));
    let rate = Rate::from_bits_per_second(800);
    senders.extend(
        idle.into_iter()
            .flat_map(|class| (0..200).map(move |number| Constant::new(300 + number, class, 100, rate))),
    );
    let wire = run(settings, senders, Duration::from_secs(20));
    let late = wire.left.iter().filter(|left| left.at >= Time::START + Duration::from_secs(5));
    let [all, low_delay] = late.fold([0, 0], |[all, low_delay], left| {
        let bytes = u64::from(left.bytes);
        [all + bytes, low_delay + bytes * u64::from(left.class == Class::LowDelay)]
    });
    low_delay as f64 / all as f64
}

/// Where each flow counts for one, idle low-delay flows make of a third of the link most of it, and idle high-rate ones leave the low-delay class a
/// twentieth.
#[test]
fn idle_flows_hardly_change_what_classes_get() {
    let settings = Settings::new(Rate::from_megabits_per_second(20), Bytes::new(u64::from(MTU)));
    let settings = settings.expect("a usual link");
    let plain = low_delay_share(settings, None);
    for guard in [GuardMode::Fair, GuardMode::Strict] {
        let settings = settings.with_guard(guard);
        let without = low_delay_share(settings, None);
        assert!((without / plain - 1.0).abs() < 0.05, "{guard:?}: {without} as {plain} with no guard");
        for idle in [Class::LowDelay, Class::HighRate] {
            let with = low_delay_share(settings, Some(idle));
            assert!((with / without - 1.0).abs() < 0.1, "{guard:?}, {idle:?}: {with} after {without}");
        }
    }
    for (idle, changes) in [(Class::LowDelay, 1.3), (Class::HighRate, 0.7)] {
        let with = low_delay_share(settings, Some(idle)) / plain;
        assert!(if changes > 1.0 { with > changes } else { with < changes }, "no guard, {idle:?}: {with}");
    }
}

/// Loss and longest wait of ten calls, and the bits per second of a flow of 12 Mbit/s beside them while high-rate flows pause. These bring the link of
/// 20 Mbit/s 22 Mbit/s, but 8 Mbit/s in every second period of four seconds. What is measured begins with the first pause.
fn beside_pauses(settings: Settings) -> (usize, Duration, u64) {
    const CALL: u32 = 72;
    let greedy = flow(1);
    let period = |at: Time| at.saturating_since(Time::START).as_nanos() / 4_000_000_000;
    let rate = |megabits: u64, flows: u64| Rate::from_bits_per_second(megabits * 1_000_000 / flows);
    let mut senders = Vec::from([Constant::new(1, Class::LowDelay, 1_000, rate(12, 1))]);
    let call = Rate::from_bits_per_second(u64::from(CALL) * 8 * 50);
    senders.extend((0..10).map(|number| Constant::new(10 + number, Class::LowDelay, CALL, call)));
    senders.extend((0..10).map(|number| Constant::new(100 + number, Class::HighRate, MTU, rate(8, 10))));
    let steady = senders.len();
    senders.extend((0..10).map(|number| Constant::new(200 + number, Class::HighRate, MTU, rate(14, 10))));
    let mut wire = Wire::new(RateDelay::new(settings, Time::START), settings.capacity());
    let mut chance = Chance(1);
    loop {
        let (place, one) =
            senders.iter_mut().enumerate().min_by_key(|(_, one)| one.next).expect("there are some");
        if one.next >= Time::START + Duration::from_secs(40) {
            break;
        }
        if place < steady || period(one.next).is_multiple_of(2) {
            wire.arrive(one.class, one.hash, one.bytes, one.next);
        }
        one.next += one.every * (500 + chance.below(1_001)) / 1_000;
    }
    let begins = Time::START + Duration::from_secs(4);
    let came = |packet: u32| wire.came[packet as usize];
    let first = wire.left.iter().find(|left| left.at >= begins).map_or(0, |left| left.packet);
    let lost = wire.dropped.iter().filter(|(packet, _)| *packet >= first && came(*packet).1 == CALL).count();
    let calls = wire.left.iter().filter(|left| left.packet >= first && left.bytes == CALL);
    let waited = calls.map(|left| left.waited).max().expect("calls go on");
    let in_pauses = wire.left.iter().filter(|left| left.flow == greedy && !period(left.at).is_multiple_of(2));
    (lost, waited, in_pauses.map(|left| u64::from(left.bytes) * 8).sum::<u64>() / 20)
}

/// A guard that counts what high-rate flows leave as the share of who asks for it, with a burst of three seconds, fails this: the greedy flow fills the queue
/// when they return, until the next update.
#[test]
fn a_flow_that_takes_what_pauses_leave_costs_calls_nothing_when_they_end() {
    let settings = Settings::new(Rate::from_megabits_per_second(20), Bytes::new(u64::from(MTU)));
    let settings = settings.and_then(|settings| settings.with_delay(Duration::from_millis(50)));
    let settings = settings.expect("a usual link").with_guard(GuardMode::Strict);
    let (lost, waited, greedy) = beside_pauses(settings);
    assert!(lost == 0 && waited <= Duration::from_millis(25), "{lost} lost, {waited} waited");
    // The cap holds for more than half of each pause.
    assert!(greedy >= 4_000_000, "{greedy} bit/s in pauses: what they leave was not used");
}
