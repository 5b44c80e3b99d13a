//! Send schedules of applications.

use byway_sim::{Random, Seed};
use byway_units::{Duration, Time};

use crate::limits::DATAGRAM_BYTES_MIN;
use crate::scenario::{Pattern, Traffic};

/// Send schedule of an application: the time of its next burst, and the number of packets.
#[derive(Clone, Debug)]
pub(crate) struct SendSchedule {
    traffic: Traffic,
    random: Random,
    next: Time,
    /// End of the current on-period.
    on_until: Time,
    /// Of recorded video: the next frame, and the next packet in it.
    frame: u64,
    packet: u32,
}

/// Packets that an application sends back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) at: Time,
    pub(crate) packets: u32,
    /// Length of the last packet in bytes; the others have the length of the application's
    /// datagrams.
    pub(crate) last_bytes: usize,
}

impl SendSchedule {
    /// Creates the schedule of the first flow of several, or of another one. Recordings start at
    /// their beginning for the first, and at another offset otherwise.
    pub(crate) fn new(traffic: Traffic, is_first: bool, seed: Seed) -> Self {
        let mut random = seed.sequence();
        let begin = Time::START + traffic.begin;
        // Applications must not send in lockstep.
        let phase = Duration::from_nanos(random.below(traffic.every.as_nanos()));
        let frame = match &traffic.pattern {
            Pattern::Video { frames, .. } if !is_first => random.below(frames.count()),
            _ => 0,
        };
        let (next, on_until) = (begin + phase, Time::MAX);
        let mut schedule = Self { traffic, random, next, on_until, frame, packet: 0 };
        schedule.begin(begin + phase);
        schedule
    }

    /// Returns the length of the application's datagrams in bytes; of recorded video, the longest.
    pub(crate) const fn bytes(&self) -> usize {
        self.traffic.bytes
    }

    /// Draws the state at the beginning from the stationary distribution of on-periods and pauses.
    fn begin(&mut self, begin: Time) {
        let (on, off) = match self.traffic.pattern {
            Pattern::Steady | Pattern::Frames { .. } | Pattern::Video { .. } => return,
            Pattern::OnOff { on, off } => (on, off),
            Pattern::Voice { spurt, pause } => (spurt, pause),
        };
        let offset = self.random.below(on.as_nanos().saturating_add(off.as_nanos()));
        if offset < on.as_nanos() {
            self.on_until = begin + self.remaining(on, offset);
        } else {
            self.next = begin + self.random.exponential(off);
            self.on_until = self.next + self.length(on);
        }
    }

    /// Returns the rest of an on-period, of which `passed` nanoseconds have elapsed.
    fn remaining(&mut self, on: Duration, passed: u64) -> Duration {
        match self.traffic.pattern {
            Pattern::Voice { .. } => self.random.exponential(on),
            _ => Duration::from_nanos(on.as_nanos() - passed),
        }
    }

    /// Returns the length of a new on-period.
    fn length(&mut self, on: Duration) -> Duration {
        match self.traffic.pattern {
            Pattern::Voice { .. } => self.random.exponential(on),
            _ => on,
        }
    }

    /// Returns the application's next burst and advances the schedule; `None` after the end.
    pub(crate) fn next(&mut self) -> Option<Burst> {
        let at = self.next;
        if at >= Time::START + self.traffic.end {
            return None;
        }
        let packets = match self.traffic.pattern {
            Pattern::Video { .. } => return Some(self.next_of_video(at)),
            Pattern::Frames { packets } => {
                1 + u32::try_from(self.random.below(packets.into())).expect("below a number of 32 bits")
            }
            _ => 1,
        };
        self.next = at + self.traffic.every;
        if self.next >= self.on_until {
            let (on, off) = match self.traffic.pattern {
                Pattern::OnOff { on, off } => (on, off),
                Pattern::Voice { spurt, pause } => (spurt, pause),
                Pattern::Steady | Pattern::Frames { .. } | Pattern::Video { .. } => {
                    unreachable!("these never pause")
                }
            };
            self.next = self.on_until + self.random.exponential(off);
            self.on_until = self.next + self.length(on);
        }
        Some(Burst { at, packets, last_bytes: self.traffic.bytes })
    }

    /// Returns all packets of a frame at once or, if they are spread, the next one. After the last
    /// packet, it schedules the next frame.
    fn next_of_video(&mut self, at: Time) -> Burst {
        let Pattern::Video { frames, spread } = &self.traffic.pattern else {
            unreachable!("only video has frames");
        };
        let (bytes, datagram) = (frames.bytes(self.frame) as usize, self.traffic.bytes);
        let count = u32::try_from(bytes.div_ceil(datagram)).expect("a frame has fewer packets than bytes");
        let rest = (bytes - (count as usize - 1) * datagram).max(DATAGRAM_BYTES_MIN as usize);
        let gap = *spread / u64::from(count);
        if !gap.is_zero() && self.packet + 1 < count {
            self.packet += 1;
            self.next = at + gap;
            return Burst { at, packets: 1, last_bytes: datagram };
        }
        self.next = at + (self.traffic.every - gap * u64::from(self.packet));
        let packets = if gap.is_zero() { count } else { 1 };
        (self.frame, self.packet) = (self.frame + 1, 0);
        Burst { at, packets, last_bytes: rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::FrameTrace;

    fn traffic(pattern: Pattern, every: u64, end: u64) -> Traffic {
        Traffic {
            pattern,
            every: Duration::from_millis(every),
            bytes: 100,
            rate: byway_units::Rate::ZERO,
            begin: Duration::from_secs(2),
            end: Duration::from_secs(end),
        }
    }

    fn bursts(traffic: Traffic, seed: u64) -> Vec<Burst> {
        let mut schedule = SendSchedule::new(traffic, true, Seed::new(seed));
        std::iter::from_fn(|| schedule.next()).collect()
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

    fn video(spread: u64) -> Traffic {
        let frames = FrameTrace::parse("250 I\n90\n5\n").expect("frames");
        traffic(Pattern::Video { frames, spread: Duration::from_millis(spread) }, 30, 3)
    }

    /// Returns the times after the first, in milliseconds, with the number of packets, and the
    /// length of the last one.
    fn summarize_bursts(bursts: &[Burst]) -> Vec<(u64, u32, usize)> {
        let since = |burst: &Burst| (burst.at - bursts[0].at).as_millis();
        bursts.iter().map(|burst| (since(burst), burst.packets, burst.last_bytes)).collect()
    }

    #[test]
    fn recorded_frames_are_sent_in_packets_at_once_or_spread_and_begin_again() {
        let found = bursts(video(0), 1);
        let wanted = [(0, 3, 50), (30, 1, 90), (60, 1, 16), (90, 3, 50)];
        assert_eq!(summarize_bursts(&found[..4]), wanted, "packets of 100 bytes, the last of 16 at least");
        let spread = bursts(video(15), 1);
        let wanted = [(0, 1, 100), (5, 1, 100), (10, 1, 50), (30, 1, 90), (60, 1, 16), (90, 1, 100)];
        assert_eq!(summarize_bursts(&spread[..6]), wanted);
        assert_eq!(found[0].at, spread[0].at);
    }

    #[test]
    fn another_flow_begins_elsewhere_in_a_recording() {
        let first =
            |seed| SendSchedule::new(video(0), false, Seed::new(seed)).next().map(|burst| burst.last_bytes);
        let found: std::collections::BTreeSet<_> = (0..50).filter_map(first).collect();
        assert_eq!(found.len(), 3, "each of the frames");
    }

    #[test]
    fn talk_takes_its_share_of_the_time() {
        let (spurt, pause) = (Duration::from_millis(1_004), Duration::from_millis(1_587));
        let share = |seed| bursts(traffic(Pattern::Voice { spurt, pause }, 20, 3_602), seed).len();
        // 3,600 s have 180,000 frames, and 38.7 % of them are talk; there are about 1,390 spurts,
        // therefore 2 % is a large deviation.
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
