//! When applications send.

use byway_sim::{Random, Seed};
use byway_units::{Duration, Time};

use crate::scenario::{Pattern, Traffic};

/// An application's calendar: when it sends next, and how many packets.
#[derive(Clone, Debug)]
pub(crate) struct Calendar {
    traffic: Traffic,
    random: Random,
    next: Time,
    /// Until when it sends at a time.
    on_until: Time,
}

/// Packets that are sent back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) at: Time,
    pub(crate) packets: u32,
}

impl Calendar {
    pub(crate) fn new(traffic: Traffic, seed: Seed) -> Self {
        let mut random = seed.sequence();
        let begin = Time::START + traffic.begin;
        // Applications do not send in step.
        let phase = Duration::from_nanos(random.below(traffic.every.as_nanos()));
        let mut calendar = Self { traffic, random, next: begin + phase, on_until: Time::MAX };
        calendar.begin(begin + phase);
        calendar
    }

    /// An application that pauses is as likely at work from the beginning as at any other time.
    fn begin(&mut self, begin: Time) {
        let (on, off) = match self.traffic.pattern {
            Pattern::Steady | Pattern::Frames { .. } => return,
            Pattern::OnOff { on, off } => (on, off),
            Pattern::Talk { spurt, pause } => (spurt, pause),
        };
        let place = self.random.below(on.as_nanos().saturating_add(off.as_nanos()));
        if place < on.as_nanos() {
            self.on_until = begin + self.remaining(on, place);
        } else {
            self.next = begin + self.random.exponential(off);
            self.on_until = self.next + self.length(on);
        }
    }

    /// How long a time of sending goes on of which so much has passed.
    fn remaining(&mut self, on: Duration, passed: u64) -> Duration {
        match self.traffic.pattern {
            Pattern::Talk { .. } => self.random.exponential(on),
            _ => Duration::from_nanos(on.as_nanos() - passed),
        }
    }

    /// How long a time of sending lasts.
    fn length(&mut self, on: Duration) -> Duration {
        match self.traffic.pattern {
            Pattern::Talk { .. } => self.random.exponential(on),
            _ => on,
        }
    }

    /// The next time that it sends; `None` if it does not any more.
    pub(crate) fn next(&mut self) -> Option<Burst> {
        let at = self.next;
        if at >= Time::START + self.traffic.end {
            return None;
        }
        let packets = match self.traffic.pattern {
            Pattern::Frames { packets } => {
                1 + u32::try_from(self.random.below(packets.into())).expect("below a number of 32 bits")
            }
            _ => 1,
        };
        self.next = at + self.traffic.every;
        if self.next >= self.on_until {
            let (on, off) = match self.traffic.pattern {
                Pattern::OnOff { on, off } => (on, off),
                Pattern::Talk { spurt, pause } => (spurt, pause),
                Pattern::Steady | Pattern::Frames { .. } => unreachable!("these never pause"),
            };
            self.next = self.on_until + self.random.exponential(off);
            self.on_until = self.next + self.length(on);
        }
        Some(Burst { at, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(pattern: Pattern, every: u64, end: u64) -> Traffic {
        Traffic {
            pattern,
            every: Duration::from_millis(every),
            bytes: 100,
            begin: Duration::from_secs(2),
            end: Duration::from_secs(end),
        }
    }

    fn bursts(traffic: Traffic, seed: u64) -> Vec<Burst> {
        let mut calendar = Calendar::new(traffic, Seed::new(seed));
        std::iter::from_fn(|| calendar.next()).collect()
    }

    #[test]
    fn steady_applications_send_at_equal_distances() {
        let found = bursts(traffic(Pattern::Steady, 10, 3), 1);
        assert_eq!(found.len(), 100);
        let distances = found.windows(2).map(|two| two[1].at - two[0].at);
        assert!(distances.into_iter().all(|distance| distance == Duration::from_millis(10)));
        assert!(found[0].at >= Time::START + Duration::from_secs(2));
    }

    #[test]
    fn frames_have_one_to_so_many_packets() {
        let found = bursts(traffic(Pattern::Frames { packets: 20 }, 40, 82), 2);
        let packets: Vec<u32> = found.iter().map(|burst| burst.packets).collect();
        assert_eq!((packets.iter().min(), packets.iter().max()), (Some(&1), Some(&20)));
        // Mean 10.5, with a standard deviation of 5.77 / sqrt(2,000) = 0.13.
        let mean = f64::from(packets.iter().sum::<u32>()) / 2_000.0;
        assert!((mean - 10.5).abs() < 0.5, "{mean}");
    }

    #[test]
    fn talk_takes_its_share_of_the_time() {
        let (spurt, pause) = (Duration::from_millis(1_004), Duration::from_millis(1_587));
        let share = |seed| bursts(traffic(Pattern::Talk { spurt, pause }, 20, 3_602), seed).len();
        // 3,600 s have 180,000 frames, of which 38.7 % are talk; about 1,390 spurts, so 2 % off is much.
        let found = [1, 2, 3].map(share);
        assert!(found.iter().all(|count| count.abs_diff(69_700) < 5_000), "{found:?}");
    }

    #[test]
    fn on_and_off_alternate() {
        let (on, off) = (Duration::from_secs(1), Duration::from_secs(3));
        let found = bursts(traffic(Pattern::OnOff { on, off }, 10, 4_002), 5);
        let share = found.len().abs_diff(100_000);
        assert!(share < 12_000, "{} of 400,000 intervals are on", found.len());
        let longest = found.windows(2).map(|two| two[1].at - two[0].at).max();
        assert!(longest > Some(Duration::from_secs(6)), "some pause is long");
    }
}
