//! Tests of guarded flows at a constant rate: real-time flows, which do not slow down.

use super::backlogged::SplitMix;
use super::*;
use crate::{GuardMode, RateDelay, Settings};

/// Packet length of a flow at a constant rate, in bytes.
pub(super) const PACKET: u32 = 500;

/// Duration of a run, and start of the measurement. After a minute, a flow at 1.05 times its share
/// has used up its burst of three seconds.
pub(super) const LENGTH: Duration = Duration::from_secs(90);
const SETTLE: Duration = Duration::from_secs(65);

/// A sender of packets at a constant rate.
pub(super) struct ConstantRateSender {
    class: Class,
    hash: FlowHash,
    bytes: u32,
    every: Duration,
    next: Time,
}

impl ConstantRateSender {
    pub(super) fn new(number: u64, class: Class, bytes: u32, rate: Rate) -> Self {
        let every = Bytes::new(u64::from(bytes)) / rate;
        let next = Time::START + every * (number * 37 % 100) / 100;
        Self { class, hash: flow(number), bytes, every, next }
    }
}

/// Runs all senders for a time, and returns the link.
pub(super) fn run(
    settings: Settings,
    mut senders: Vec<ConstantRateSender>,
    length: Duration,
) -> TestLink<RateDelay<u32>> {
    let mut wire = TestLink::new(RateDelay::new(settings, Time::START), settings.capacity());
    let mut chance = SplitMix(1);
    loop {
        let one = senders.iter_mut().min_by_key(|one| one.next).expect("there are some");
        if one.next >= Time::START + length {
            return wire;
        }
        wire.arrive(one.class, one.hash, one.bytes, one.next);
        // Random spacing, because flows whose packets always arrive in the same order would share
        // the buffer accordingly.
        one.next += one.every * (500 + chance.below(1_001)) / 1_000;
    }
}

/// Returns the rate of a flow in bits per second, after the settling time.
#[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
pub(super) fn rate_of(wire: &TestLink<RateDelay<u32>>, hash: FlowHash) -> f64 {
    let left = wire.sent.iter().filter(|left| left.flow == hash && left.at >= Time::START + SETTLE);
    let bytes: u64 = left.map(|left| u64::from(left.bytes)).sum();
    bytes as f64 * 8.0 / (LENGTH - SETTLE).as_secs_f64()
}

/// Returns the fraction of its share that a low-delay flow gets if it sends `milli` thousandths of
/// it. Beside it are ten busy high-rate flows and ten low-delay neighbours, which send
/// `of_neighbour` thousandths of their shares.
#[allow(clippy::cast_precision_loss, reason = "a rate to a few digits")]
fn share_received(settings: Settings, milli: u64, [neighbours, of_neighbour]: [u64; 2]) -> f64 {
    let share = settings.capacity().bits_per_second() / (20 + neighbours + 1);
    let rate = |milli: u64| Rate::from_bits_per_second(share * milli / 1_000);
    let mut senders = Vec::from([ConstantRateSender::new(1, Class::LowDelay, PACKET, rate(milli))]);
    senders.extend(
        (0..neighbours)
            .map(|number| ConstantRateSender::new(2 + number, Class::LowDelay, PACKET, rate(of_neighbour))),
    );
    senders.extend(
        (0..10).map(|number| ConstantRateSender::new(100 + number, Class::HighRate, MTU, rate(4_000))),
    );
    rate_of(&run(settings, senders, LENGTH), flow(1)) / share as f64
}

/// This test fails for a guard whose debts count dropped packets and that admits flows in debt only
/// to an empty queue. There, a flow at 1.2 times its share never pays back, and gets 0.70 of the
/// share. A flow in debt leaves 1/64 of its share unused, and at 1.05 times its share its burst
/// lasts a while. So a flow may get less than one that sends less, by this much.
fn check_constant_flows(guard: GuardMode) {
    let settings = Settings::new(Rate::from_megabits_per_second(20), Bytes::new(u64::from(MTU)));
    let settings = settings.expect("a usual link").with_guard(guard);
    for neighbours in [[0, 0], [9, 500], [9, 950], [9, 2_000]] {
        let mut before = 0.0;
        for milli in [950_u32, 1_000, 1_050, 1_200, 1_500, 2_000, 3_000] {
            let (kept, sent) =
                (share_received(settings, milli.into(), neighbours), f64::from(milli) / 1_000.0);
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

/// Returns the low-delay class's fraction of the link with ten busy flows in each class, beside
/// idle flows of one packet of 100 bytes a second.
#[allow(clippy::cast_precision_loss, reason = "a share to a few digits")]
fn low_delay_share(settings: Settings, idle: Option<Class>) -> f64 {
    let busy = |class, number| ConstantRateSender::new(number, class, MTU, Rate::from_megabits_per_second(3));
    let mut senders: Vec<ConstantRateSender> =
        (0..10).map(|number| busy(Class::HighRate, 100 + number)).collect();
    senders.extend((0..10).map(|number| busy(Class::LowDelay, 200 + number)));
    let rate = Rate::from_bits_per_second(800);
    senders.extend(idle.into_iter().flat_map(|class| {
        (0..200).map(move |number| ConstantRateSender::new(300 + number, class, 100, rate))
    }));
    let wire = run(settings, senders, Duration::from_secs(20));
    let late = wire.sent.iter().filter(|left| left.at >= Time::START + Duration::from_secs(5));
    let [all, low_delay] = late.fold([0, 0], |[all, low_delay], left| {
        let bytes = u64::from(left.bytes);
        [all + bytes, low_delay + bytes * u64::from(left.class == Class::LowDelay)]
    });
    low_delay as f64 / all as f64
}

/// If each flow counted as one, idle flows would change the shares: with idle low-delay flows, the
/// low-delay class would get most of the link instead of a third. With idle high-rate flows, it
/// would get a twentieth.
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

/// Returns loss and longest sojourn time of ten calls, and the rate of a flow of 12 Mbit/s beside
/// them while high-rate flows pause. High-rate flows offer 22 Mbit/s to the link of 20 Mbit/s, but
/// 8 Mbit/s in every second period of four seconds. The measurement begins with the first pause.
fn beside_pauses(settings: Settings) -> (usize, Duration, u64) {
    const CALL: u32 = 72;
    let greedy = flow(1);
    let period = |at: Time| at.saturating_since(Time::START).as_nanos() / 4_000_000_000;
    let rate = |megabits: u64, flows: u64| Rate::from_bits_per_second(megabits * 1_000_000 / flows);
    let mut senders = Vec::from([ConstantRateSender::new(1, Class::LowDelay, 1_000, rate(12, 1))]);
    let call = Rate::from_bits_per_second(u64::from(CALL) * 8 * 50);
    senders.extend((0..10).map(|number| ConstantRateSender::new(10 + number, Class::LowDelay, CALL, call)));
    senders.extend(
        (0..10).map(|number| ConstantRateSender::new(100 + number, Class::HighRate, MTU, rate(8, 10))),
    );
    let steady = senders.len();
    senders.extend(
        (0..10).map(|number| ConstantRateSender::new(200 + number, Class::HighRate, MTU, rate(14, 10))),
    );
    let mut wire = TestLink::new(RateDelay::new(settings, Time::START), settings.capacity());
    let mut chance = SplitMix(1);
    loop {
        let (index, one) =
            senders.iter_mut().enumerate().min_by_key(|(_, one)| one.next).expect("there are some");
        if one.next >= Time::START + Duration::from_secs(40) {
            break;
        }
        if index < steady || period(one.next).is_multiple_of(2) {
            wire.arrive(one.class, one.hash, one.bytes, one.next);
        }
        one.next += one.every * (500 + chance.below(1_001)) / 1_000;
    }
    let begins = Time::START + Duration::from_secs(4);
    let arrival = |packet: u32| wire.arrived[packet as usize];
    let first = wire.sent.iter().find(|left| left.at >= begins).map_or(0, |left| left.packet);
    let lost =
        wire.dropped.iter().filter(|(packet, _)| *packet >= first && arrival(*packet).1 == CALL).count();
    let calls = wire.sent.iter().filter(|left| left.packet >= first && left.bytes == CALL);
    let waited = calls.map(|left| left.sojourn).max().expect("calls go on");
    let in_pauses = wire.sent.iter().filter(|left| left.flow == greedy && !period(left.at).is_multiple_of(2));
    (lost, waited, in_pauses.map(|left| u64::from(left.bytes) * 8).sum::<u64>() / 20)
}

/// This test fails for a guard that adds the capacity left by high-rate flows to the share of
/// greedy flows, with a burst of three seconds. There, the greedy flow fills the queue when
/// high-rate flows return, until the next update.
#[test]
fn a_flow_that_takes_what_pauses_leave_costs_calls_nothing_when_they_end() {
    let settings = Settings::new(Rate::from_megabits_per_second(20), Bytes::new(u64::from(MTU)));
    let settings = settings.and_then(|settings| settings.with_delay(Duration::from_millis(50)));
    let settings = settings.expect("a usual link").with_guard(GuardMode::Strict);
    let (lost, waited, greedy) = beside_pauses(settings);
    assert!(lost == 0 && waited <= Duration::from_millis(25), "{lost} lost, {waited} waited");
    // The cap is in force for more than half of each pause.
    assert!(greedy >= 4_000_000, "{greedy} bit/s in pauses: what they leave was not used");
}
