//! Tests of guarded links with flows that slow down after losses.

use super::*;
use crate::{GuardMode, RateDelay, Settings};

/// A flow whose rate rises by 1/32 of the fair share every [`TURN`], and falls by 1/8 after a loss.
struct ResponsiveFlow {
    class: Class,
    hash: FlowHash,
    bits_per_second: u64,
    next: Time,
    has_lost: bool,
    turn_at: Time,
}

const TURN: Duration = Duration::from_millis(50);

impl ResponsiveFlow {
    fn turn(&mut self, fair: u64, now: Time) {
        if now >= self.turn_at {
            let (rate, step) = (self.bits_per_second, fair / 32);
            self.bits_per_second = if self.has_lost { (rate - rate / 8).max(step) } else { rate + step };
            (self.has_lost, self.turn_at) = (false, now + TURN);
        }
    }
}

/// Returns the bytes of each class in ten seconds, after the first five, with these numbers of
/// flows.
fn class_bytes(settings: Settings, [high_rate, low_delay]: [u64; 2]) -> [u64; 2] {
    let mut wire = TestLink::new(RateDelay::new(settings, Time::START), settings.capacity());
    // Relative to the rate that a low-delay flow should get.
    let fair = settings.capacity().bits_per_second() / (2 * high_rate + low_delay);
    let classes = (0..high_rate).map(|_| Class::HighRate).chain((0..low_delay).map(|_| Class::LowDelay));
    let mut flows: Vec<ResponsiveFlow> = (1..)
        .zip(classes)
        .map(|(number, class)| {
            let at = Time::START + Duration::from_micros(number * 1_237);
            ResponsiveFlow {
                class,
                hash: flow(number),
                bits_per_second: fair,
                next: at,
                has_lost: false,
                turn_at: at,
            }
        })
        .collect();
    let (mut seen, end) = (0, Time::START + Duration::from_secs(15));
    loop {
        let one = flows.iter_mut().min_by_key(|flow| flow.next).expect("there are some");
        let (class, hash, now) = (one.class, one.hash, one.next);
        if now >= end {
            break;
        }
        one.turn(fair, now);
        one.next = now + Bytes::new(u64::from(MTU)) / Rate::from_bits_per_second(one.bits_per_second);
        wire.arrive(class, hash, MTU, now);
        for (packet, _) in &wire.dropped[seen..] {
            let lost = wire.arrived[*packet as usize].0;
            flows.iter_mut().filter(|flow| flow.hash == lost).for_each(|flow| flow.has_lost = true);
        }
        seen = wire.dropped.len();
    }
    let late = |left: &&SentPacket| left.at >= Time::START + Duration::from_secs(5);
    [Class::HighRate, Class::LowDelay].map(|class| {
        let of_class = wire.sent.iter().filter(late).filter(|left| left.class == class);
        of_class.map(|left| u64::from(left.bytes)).sum()
    })
}

#[test]
fn a_high_rate_flow_gets_the_ratio_of_a_guarded_low_delay_flow_that_slows_down() {
    let link = Settings::new(Rate::from_megabits_per_second(40), Bytes::new(u64::from(MTU)));
    // Long enough for low-delay flows to be backlogged as a rule.
    let link = link.and_then(|link| link.with_delay(Duration::from_millis(50))).expect("a usual link");
    let link = link.with_guard(GuardMode::Strict);
    for [high_rate, low_delay] in [[10, 10], [20, 5], [5, 20]] {
        let [of_high_rate, of_low_delay] = class_bytes(link, [high_rate, low_delay]);
        #[allow(clippy::cast_precision_loss, reason = "a ratio to a few digits")]
        let ratio = of_high_rate as f64 / high_rate as f64 / (of_low_delay as f64 / low_delay as f64);
        assert!((1.9..=2.1).contains(&ratio), "{ratio} with {high_rate} and {low_delay} flows");
        let all = (of_high_rate + of_low_delay) * 8;
        assert!(all >= 40_000_000 * 10 / 100 * 99, "{all} bits in ten seconds");
    }
}
