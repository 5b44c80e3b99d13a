//! The scale against lines whose speed is known.

extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// What a call of 460 kbit/s needs with its copies.
const LOAD: Rate = Rate::from_bits_per_second(950_000);
const ROUND_TRIP: Duration = Duration::from_millis(20);

fn at(millis: u64) -> Time {
    Time::START + Duration::from_millis(millis)
}

/// A line, with delays that vary by up to so much in the order that a sequence has which is spread evenly.
struct Line {
    rate: Rate,
    jitter_micros: u64,
    keeps_order: bool,
    place: u64,
}

impl Line {
    fn new(kilobits: u64, jitter_micros: u64) -> Self {
        Self { rate: Rate::from_kilobits_per_second(kilobits), jitter_micros, keeps_order: true, place: 0 }
    }

    /// When the packets of a train arrive, by a clock that wraps meanwhile.
    fn carries(&mut self, shape: TrainShape) -> Vec<u32> {
        let (mut before, mut arrivals) = (0, Vec::new());
        for count in 1..=shape.packets as u64 {
            self.place += 1;
            let late = (self.place * 619) % 1_000 * self.jitter_micros / 1_000;
            let takes = self.rate.time_for(shape.packet * count).expect("some rate").as_micros();
            before = if self.keeps_order { before.max(takes + late) } else { takes + late };
            arrivals.push((u32::MAX - 1_000).wrapping_add(u32::try_from(before).expect("less than an hour")));
        }
        arrivals
    }

    /// Sends what trains the scale wants for a load; their shapes.
    fn weigh(&mut self, scale: &mut LineScale, load: Rate, now: Time) -> Vec<TrainShape> {
        let mut shapes = Vec::new();
        while let Some(shape) = scale.wants(load, now) {
            scale.sent(shape, ROUND_TRIP, now);
            let arrivals = self.carries(shape);
            (0..).zip(arrivals).for_each(|(place, arrival)| scale.arrived(place, arrival, now));
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
            let mut scale = LineScale::new();
            let shapes = Line::new(kilobits, jitter).weigh(&mut scale, LOAD, at(0));
            assert!(bytes(&shapes) < 16_000, "{kilobits}: {shapes:?}");
            scale.bears(LOAD)
        });
        assert_eq!(verdicts, [false, false, false, true, true, true], "{jitter}");
    }
}

#[test]
fn a_small_load_takes_one_train_of_two_kilobytes_on_most_lines() {
    for kilobits in [2_000, 10_000, 1_000_000] {
        let mut scale = LineScale::new();
        assert_eq!(Line::new(kilobits, 5_000).weigh(&mut scale, LOAD, at(0)), [FIRST]);
        assert!(scale.bears(LOAD));
    }
}

#[test]
fn trains_grow_until_they_show_enough_or_the_line_is_too_fast_for_them() {
    let mut scale = LineScale::new();
    let load = Rate::from_megabits_per_second(400);
    let mut line = Line::new(1_000_000, 5_000);
    let shapes = line.weigh(&mut scale, load, at(0));
    let packets: Vec<usize> = shapes.iter().map(|shape| shape.packets).collect();
    assert!(
        packets.is_sorted() && packets[0] == PACKETS_MIN && packets.last() == Some(&PACKETS_MAX),
        "{packets:?}"
    );
    assert!(scale.bears(Rate::from_megabits_per_second(1_000_000)), "it is tried out");
}

#[test]
fn a_slow_line_is_known_after_two_long_trains_that_take_forty_milliseconds() {
    let mut scale = LineScale::new();
    let shapes = Line::new(550, 0).weigh(&mut scale, LOAD, at(0));
    let times: Vec<u64> = shapes.iter().map(|shape| bytes(&[*shape]) * 8 * 1_000 / 550_000).collect();
    assert_eq!(times, [30, 39], "and the first one is as long as that");
    assert!(!scale.may_weigh(at(100_000)));
    assert!((540..=560).contains(&(scale.carries().expect("weighed").bits_per_second() / 1_000)));
}

#[test]
fn the_fastest_of_two_trains_counts() {
    let mut scale = LineScale::new();
    let mut crowded = Line::new(300, 0);
    let shape = scale.wants(LOAD, at(0)).expect("nothing is known");
    scale.sent(shape, ROUND_TRIP, at(0));
    (0..).zip(crowded.carries(shape)).for_each(|(place, arrival)| scale.arrived(place, arrival, at(50)));
    Line::new(3_000, 0).weigh(&mut scale, LOAD, at(50));
    assert!(scale.bears(LOAD));
}

#[test]
fn packets_that_do_not_come_are_done_without_or_the_train_is_sent_again() {
    let mut scale = LineScale::new();
    let mut now = at(0);
    let some = [(true, 250); THINNED_MAX as usize];
    let none = [(false, 1_000), (false, 2_000), (false, 4_000)];
    let beyond = [(true, 8_000)];
    for (arrives, wait) in some.into_iter().chain(none).chain(beyond) {
        let shape = scale.wants(LOAD, now).expect("nothing is known");
        scale.sent(shape, ROUND_TRIP, now);
        if arrives {
            scale.arrived(0, 0, now);
            scale.arrived(0, 7, now);
            scale.arrived(9, 7, now);
        }
        let due = scale.deadline().expect("a train is under way");
        assert_eq!(due, now + ROUND_TRIP + WAITS_FOR);
        scale.handle_timeout(due);
        assert_eq!((scale.carries(), scale.deadline()), (None, Some(due + Duration::from_millis(wait))));
        assert!(!scale.may_weigh(due));
        now = due + Duration::from_millis(wait);
    }
    let shape = scale.wants(LOAD, now).expect("it is due");
    scale.sent(shape, ROUND_TRIP, now);
    scale.arrived(1, 7_000, now);
    scale.arrived(3, 9_000, now);
    scale.handle_timeout(now + ROUND_TRIP + WAITS_FOR);
    assert_eq!(scale.carries(), Rate::over(FIRST.packet * 2, Duration::from_millis(2)));
}

#[test]
fn what_is_doubted_holds_until_it_is_weighed_anew() {
    let mut scale = LineScale::new();
    Line::new(100_000, 0).weigh(&mut scale, LOAD, at(0));
    scale.doubt(LOAD, at(1_000));
    assert!(scale.bears(LOAD));
    let shape = scale.wants(LOAD, at(1_000)).expect("it is doubtful");
    assert!(bytes(&[shape]) < 5_500, "as long as the load needs, whatever the line carried before");
    assert_eq!(Line::new(550, 0).weigh(&mut scale, LOAD, at(1_000)).len(), 2);
    assert!(!scale.bears(LOAD));
    scale.doubt(LOAD, at(1_000) + PATIENCE_MIN - Duration::from_millis(1));
    assert!(!scale.may_weigh(at(100_000)), "too soon");
    scale.doubt(LOAD, at(1_000) + PATIENCE_MIN);
    assert_eq!(Line::new(550, 0).weigh(&mut scale, LOAD, at(11_000)).len(), 1, "nothing new");
    scale.doubt(LOAD, at(11_000) + PATIENCE_MIN * 2 - Duration::from_millis(1));
    assert!(!scale.is_doubtful());
    scale.doubt(LOAD, at(11_000) + PATIENCE_MIN * 2);
    Line::new(3_000, 0).weigh(&mut scale, LOAD, at(31_000));
    assert!(scale.bears(LOAD));
    scale.doubt(LOAD, at(31_000) + PATIENCE_MIN);
    assert!(scale.is_doubtful(), "the last doubt was right");
}

#[test]
fn doubts_are_ever_rarer_until_there_are_none_for_a_while() {
    let mut scale = LineScale::new();
    let mut line = Line::new(550, 0);
    line.weigh(&mut scale, LOAD, at(0));
    let (mut now, mut waits) = (at(0), Vec::new());
    for _ in 0..7 {
        let began = now;
        while !scale.is_doubtful() {
            scale.doubt(LOAD, now);
            now += Duration::from_secs(1);
        }
        line.weigh(&mut scale, LOAD, now);
        waits.push(now.saturating_since(began).as_nanos() / 1_000_000_000);
    }
    assert_eq!(waits, [1, 10, 20, 40, 80, 160, 320]);
    now += PATIENCE_MAX * 2;
    scale.doubt(LOAD, now);
    line.weigh(&mut scale, LOAD, now);
    scale.doubt(LOAD, now + PATIENCE_MIN);
    assert!(scale.is_doubtful());
}

#[test]
fn what_a_line_beside_it_carries_holds_until_this_one_is_weighed() {
    let mut scale = LineScale::new();
    scale.suppose(Some(Rate::from_megabits_per_second(20)));
    assert!(scale.bears(LOAD));
    Line::new(550, 0).weigh(&mut scale, LOAD, at(0));
    assert!(!scale.bears(LOAD));
}

#[test]
fn a_clock_that_was_set_tells_nothing() {
    let mut scale = LineScale::new();
    scale.sent(FIRST, ROUND_TRIP, at(0));
    (0..4).for_each(|place| scale.arrived(place, u32::try_from(place).expect("few") * 20_000_000, at(50)));
    assert_eq!(scale.carries(), None);
}

/// The time that a train takes, in microseconds: by all pairs of packets that are half a train apart.
fn naive_took(arrivals: &[Option<u32>]) -> Option<i64> {
    let half = arrivals.len() / 2;
    let mut times: Vec<i64> = Vec::new();
    for place in 0..arrivals.len() - half {
        if let (Some(early), Some(late)) = (arrivals[place], arrivals[place + half]) {
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
        let took = Train { shape, arrivals: shifted, due: Time::START }.took();
        let naive = naive_took(&arrivals).filter(|micros| *micros < 10_000_000);
        prop_assert_eq!(took.map(|took| i64::try_from(took.as_micros()).expect("short")), naive);
    }

    #[test]
    fn no_jitter_of_a_seventh_of_the_load_s_time_makes_a_slow_line_fast(
        kilobits in 100_u64..700,
        place in 0_u64..1_000,
        keeps_order: bool,
    ) {
        let mut scale = LineScale::new();
        let mut line = Line { keeps_order, place, ..Line::new(kilobits, 5_000) };
        line.weigh(&mut scale, LOAD, Time::START);
        prop_assert!(!scale.bears(LOAD), "{:?}", scale.carries());
    }
}
