//! Tests of the probe with uplinks of known capacity.

extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// Load of a call of 460 kbit/s with its copies.
const LOAD: Rate = Rate::from_bits_per_second(950_000);
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn at(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

/// An uplink whose delays vary by up to `jitter_micros`, in the order of a low-discrepancy
/// sequence.
struct TestUplink {
    rate: Rate,
    jitter_micros: u64,
    is_in_order: bool,
    next_jitter: u64,
}

impl TestUplink {
    fn new(kilobits: u64, jitter_micros: u64) -> Self {
        Self {
            rate: Rate::from_kilobits_per_second(kilobits),
            jitter_micros,
            is_in_order: true,
            next_jitter: 0,
        }
    }

    /// Returns the arrival times of a train's packets, by a clock that wraps meanwhile.
    fn send_train(&mut self, shape: TrainShape) -> Vec<u32> {
        let (mut before, mut arrivals) = (0, Vec::new());
        for count in 1..=shape.packets as u64 {
            self.next_jitter += 1;
            let late = (self.next_jitter * 619) % 1_000 * self.jitter_micros / 1_000;
            let takes = self.rate.time_for(shape.packet * count).expect("some rate").as_micros();
            before = if self.is_in_order { before.max(takes + late) } else { takes + late };
            arrivals.push((u32::MAX - 1_000).wrapping_add(u32::try_from(before).expect("less than an hour")));
        }
        arrivals
    }

    /// Sends the trains that the probe requests for a load; returns their shapes.
    fn probe(&mut self, scale: &mut UplinkCapacityProbe, load: Rate, now: Time) -> Vec<TrainShape> {
        let mut shapes = Vec::new();
        while let Some(shape) = scale.next_train(load, now) {
            scale.on_train_sent(shape, ROUND_TRIP, now);
            let arrivals = self.send_train(shape);
            (0..).zip(arrivals).for_each(|(index, arrival)| scale.on_train_packet(index, arrival, now));
            shapes.push(shape);
        }
        shapes
    }
}

fn bytes(shapes: &[TrainShape]) -> u64 {
    shapes.iter().map(|shape| shape.packet.count() * shape.packets as u64).sum()
}

#[test]
fn a_line_bears_a_load_if_it_is_an_eighth_faster() {
    for jitter in [0, 1_000, 5_000] {
        let verdicts = [550, 690, 870, 1_300, 2_000, 100_000].map(|kilobits| {
            let mut scale = UplinkCapacityProbe::new();
            let shapes = TestUplink::new(kilobits, jitter).probe(&mut scale, LOAD, at(0));
            assert!(bytes(&shapes) < 16_000, "{kilobits}: {shapes:?}");
            scale.sustains(LOAD)
        });
        assert_eq!(verdicts, [false, false, false, true, true, true], "{jitter}");
    }
}

#[test]
fn a_small_load_takes_one_train_of_two_kilobytes_on_most_lines() {
    for kilobits in [2_000, 10_000, 1_000_000] {
        let mut scale = UplinkCapacityProbe::new();
        assert_eq!(TestUplink::new(kilobits, 5_000).probe(&mut scale, LOAD, at(0)), [FIRST_TRAIN]);
        assert!(scale.sustains(LOAD));
    }
}

#[test]
fn trains_grow_until_they_show_enough_or_the_line_is_too_fast_for_them() {
    let mut scale = UplinkCapacityProbe::new();
    let load = Rate::from_megabits_per_second(400);
    let mut line = TestUplink::new(1_000_000, 5_000);
    let shapes = line.probe(&mut scale, load, at(0));
    let packets: Vec<usize> = shapes.iter().map(|shape| shape.packets).collect();
    assert!(
        packets.is_sorted() && packets[0] == PACKETS_MIN && packets.last() == Some(&PACKETS_MAX),
        "{packets:?}"
    );
    assert!(scale.sustains(Rate::from_megabits_per_second(1_000_000)), "it is tried out");
}

#[test]
fn a_slow_line_is_known_after_two_long_trains_that_take_forty_milliseconds() {
    let mut scale = UplinkCapacityProbe::new();
    let shapes = TestUplink::new(550, 0).probe(&mut scale, LOAD, at(0));
    let times: Vec<u64> = shapes.iter().map(|shape| bytes(&[*shape]) * 8 * 1_000 / 550_000).collect();
    assert_eq!(times, [30, 39], "and the first one is as long as that");
    assert!(!scale.may_probe(at(100_000)));
    assert!((540..=560).contains(&(scale.capacity().expect("weighed").bits_per_second() / 1_000)));
}

#[test]
fn the_fastest_of_two_trains_counts() {
    let mut scale = UplinkCapacityProbe::new();
    let mut crowded = TestUplink::new(300, 0);
    let shape = scale.next_train(LOAD, at(0)).expect("nothing is known");
    scale.on_train_sent(shape, ROUND_TRIP, at(0));
    (0..)
        .zip(crowded.send_train(shape))
        .for_each(|(index, arrival)| scale.on_train_packet(index, arrival, at(50)));
    TestUplink::new(3_000, 0).probe(&mut scale, LOAD, at(50));
    assert!(scale.sustains(LOAD));
}

#[test]
fn packets_that_do_not_come_are_done_without_or_the_train_is_sent_again() {
    let mut scale = UplinkCapacityProbe::new();
    let mut now = at(0);
    let some = [(true, 250); THINNED_MAX as usize];
    let none = [(false, 1_000), (false, 2_000), (false, 4_000)];
    let beyond = [(true, 8_000)];
    for (arrives, wait) in some.into_iter().chain(none).chain(beyond) {
        let shape = scale.next_train(LOAD, now).expect("nothing is known");
        scale.on_train_sent(shape, ROUND_TRIP, now);
        if arrives {
            scale.on_train_packet(0, 0, now);
            scale.on_train_packet(0, 7, now);
            scale.on_train_packet(9, 7, now);
        }
        let due = scale.deadline().expect("a train is under way");
        assert_eq!(due, now + ROUND_TRIP + TRAIN_TIMEOUT);
        scale.handle_timeout(due);
        assert_eq!((scale.capacity(), scale.deadline()), (None, Some(due + Duration::from_millis(wait))));
        assert!(!scale.may_probe(due));
        now = due + Duration::from_millis(wait);
    }
    let shape = scale.next_train(LOAD, now).expect("it is due");
    scale.on_train_sent(shape, ROUND_TRIP, now);
    scale.on_train_packet(1, 7_000, now);
    scale.on_train_packet(3, 9_000, now);
    scale.handle_timeout(now + ROUND_TRIP + TRAIN_TIMEOUT);
    assert_eq!(scale.capacity(), Rate::over(FIRST_TRAIN.packet * 2, Duration::from_millis(2)));
}

#[test]
fn what_is_doubted_holds_until_it_is_weighed_anew() {
    let mut scale = UplinkCapacityProbe::new();
    TestUplink::new(100_000, 0).probe(&mut scale, LOAD, at(0));
    scale.doubt(LOAD, at(1_000));
    assert!(scale.sustains(LOAD));
    let shape = scale.next_train(LOAD, at(1_000)).expect("it is doubtful");
    assert!(bytes(&[shape]) < 5_500, "as long as the load needs, whatever the line carried before");
    assert_eq!(TestUplink::new(550, 0).probe(&mut scale, LOAD, at(1_000)).len(), 2);
    assert!(!scale.sustains(LOAD));
    scale.doubt(LOAD, at(1_000) + DOUBT_INTERVAL_MIN - Duration::from_millis(1));
    assert!(!scale.may_probe(at(100_000)), "too soon");
    scale.doubt(LOAD, at(1_000) + DOUBT_INTERVAL_MIN);
    assert_eq!(TestUplink::new(550, 0).probe(&mut scale, LOAD, at(11_000)).len(), 1, "nothing new");
    scale.doubt(LOAD, at(11_000) + DOUBT_INTERVAL_MIN * 2 - Duration::from_millis(1));
    assert!(!scale.is_doubtful());
    scale.doubt(LOAD, at(11_000) + DOUBT_INTERVAL_MIN * 2);
    TestUplink::new(3_000, 0).probe(&mut scale, LOAD, at(31_000));
    assert!(scale.sustains(LOAD));
    scale.doubt(LOAD, at(31_000) + DOUBT_INTERVAL_MIN);
    assert!(scale.is_doubtful(), "the last doubt was right");
}

#[test]
fn doubts_are_ever_rarer_until_there_are_none_for_a_while() {
    let mut scale = UplinkCapacityProbe::new();
    let mut line = TestUplink::new(550, 0);
    line.probe(&mut scale, LOAD, at(0));
    let (mut now, mut waits) = (at(0), Vec::new());
    for _ in 0..7 {
        let began = now;
        while !scale.is_doubtful() {
            scale.doubt(LOAD, now);
            now += Duration::from_secs(1);
        }
        line.probe(&mut scale, LOAD, now);
        waits.push(now.saturating_since(began).as_nanos() / 1_000_000_000);
    }
    assert_eq!(waits, [1, 10, 20, 40, 80, 160, 320]);
    now += DOUBT_INTERVAL_MAX * 2;
    scale.doubt(LOAD, now);
    line.probe(&mut scale, LOAD, now);
    scale.doubt(LOAD, now + DOUBT_INTERVAL_MIN);
    assert!(scale.is_doubtful());
}

#[test]
fn what_a_line_beside_it_carries_holds_until_this_one_is_weighed() {
    let mut scale = UplinkCapacityProbe::new();
    scale.assume_capacity(Some(Rate::from_megabits_per_second(20)));
    assert!(scale.sustains(LOAD));
    TestUplink::new(550, 0).probe(&mut scale, LOAD, at(0));
    assert!(!scale.sustains(LOAD));
}

#[test]
fn a_clock_that_was_set_tells_nothing() {
    let mut scale = UplinkCapacityProbe::new();
    scale.on_train_sent(FIRST_TRAIN, ROUND_TRIP, at(0));
    (0..4).for_each(|index| {
        scale.on_train_packet(index, u32::try_from(index).expect("few") * 20_000_000, at(50));
    });
    assert_eq!(scale.capacity(), None);
}

/// Returns the duration of a train in microseconds, from all pairs of packets that are half a train
/// apart.
fn naive_duration(arrivals: &[Option<u32>]) -> Option<i64> {
    let half = arrivals.len() / 2;
    let mut times: Vec<i64> = Vec::new();
    for index in 0..arrivals.len() - half {
        if let (Some(early), Some(late)) = (arrivals[index], arrivals[index + half]) {
            times.push(i64::from(late) - i64::from(early));
        }
    }
    times.sort_unstable();
    let middle = *times.get(times.len() / 2).filter(|_| times.len() * 2 >= half)?;
    let [all, half] = [arrivals.len(), half].map(|count| i64::try_from(count).expect("few"));
    Some(middle.max(0) * all / half)
}

proptest! {
    #[test]
    fn the_time_of_a_train_is_the_middle_of_its_halves(
        arrivals in proptest::collection::vec(proptest::option::weighted(0.8, 0_u32..5_000_000), PACKETS_MIN..=PACKETS_MAX),
        clock: u32,
    ) {
        let shape = TrainShape { packets: arrivals.len(), packet: PACKET_MAX };
        let shifted = arrivals.iter().map(|arrival| arrival.map(|micros| micros.wrapping_add(clock))).collect();
        let took = Train { shape, arrivals: shifted, due: Time::START }.duration();
        let naive = naive_duration(&arrivals).filter(|micros| *micros < 10_000_000);
        prop_assert_eq!(took.map(|took| i64::try_from(took.as_micros()).expect("short")), naive);
    }

    #[test]
    fn no_jitter_of_a_seventh_of_the_load_s_time_makes_a_slow_line_fast(
        kilobits in 100_u64..700,
        index in 0_u64..1_000,
        keeps_order: bool,
    ) {
        let mut scale = UplinkCapacityProbe::new();
        let mut line = TestUplink { is_in_order: keeps_order, next_jitter: index, ..TestUplink::new(kilobits, 5_000) };
        line.probe(&mut scale, LOAD, Time::START);
        prop_assert!(!scale.sustains(LOAD), "{:?}", scale.capacity());
    }
}
