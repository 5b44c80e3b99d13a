extern crate std;

use std::string::ToString;

use proptest::prelude::*;

use super::*;
use crate::entry::EntryField;
use crate::test_values::{link, millis};

const TRANSIT: Duration = Duration::from_millis(3);

/// Returns the sample with this number: each 50 ms, 31,250 bytes more.
fn sample(number: u64) -> LinkSample {
    LinkSample {
        incarnation: 1,
        number,
        clock: Time::START + millis(50) * number,
        sent: Bytes::new(31_250) * number,
        backlog: Bytes::new(1_500),
        shown: Rate::from_megabits_per_second(5),
        guaranteed: Rate::from_megabits_per_second(2),
        delay: millis(10),
        target: Bytes::new(1_500),
        flows: FlowCounts { interactive: 1, other: 0 },
    }
}

/// This node's clock is an hour ahead of the link's.
fn arrival(number: u64) -> Time {
    Time::START + Duration::from_secs(3_600) + millis(50) * number
}

fn meter() -> LinkMeter {
    let mut meter = LinkMeter::new(link(1, 1));
    assert_eq!(meter.on_sample(sample(1), TRANSIT, arrival(1)), Ok(None));
    meter
}

#[test]
fn the_second_sample_is_a_state() {
    let state =
        meter().on_sample(sample(2), TRANSIT, arrival(2)).expect("it is good").expect("it is the second");
    let entry = state.entry();
    assert_eq!((entry.interval(), entry.sent()), (millis(50), Bytes::new(31_250)));
    assert_eq!((entry.backlog(), state.age()), (Bytes::new(1_500), TRANSIT));
    assert_eq!(state.guaranteed(), Some(Rate::from_megabits_per_second(2)));
    assert_eq!(state.flows(), Some(FlowCounts { interactive: 1, other: 0 }));
}

#[test]
fn the_next_sample_makes_up_for_lost_ones() {
    let state =
        meter().on_sample(sample(4), TRANSIT, arrival(4)).expect("it is good").expect("it is the second");
    assert_eq!((state.entry().interval(), state.entry().sent()), (millis(150), Bytes::new(93_750)));
}

#[test]
fn a_sample_that_was_slow_is_older() {
    let mut meter = meter();
    let slow = meter.on_sample(sample(2), TRANSIT, arrival(2) + millis(40)).expect("it is good");
    assert_eq!(slow.map(|state| state.age()), Some(TRANSIT + millis(40)));
    let fast = meter.on_sample(sample(3), TRANSIT, arrival(3)).expect("it is good");
    assert_eq!(fast.map(|state| state.age()), Some(TRANSIT));
}

#[test]
fn bad_samples_are_refused_and_the_last_good_one_stays() {
    let mut meter = meter();
    let mut refuse = |change: fn(&mut LinkSample), error| {
        let mut bad = sample(2);
        change(&mut bad);
        assert_eq!(meter.on_sample(bad, TRANSIT, arrival(2)), Err(error));
    };
    refuse(|bad| bad.number = 1, SampleError::NotNewer);
    refuse(|bad| bad.clock = Time::START, SampleError::ClockBackwards);
    refuse(|bad| bad.clock = Time::START + millis(50), SampleError::ClockBackwards);
    refuse(|bad| bad.sent = Bytes::new(31_249), SampleError::CounterBackwards);
    let out_of_range = |field| SampleError::Entry(EntryError::OutOfRange(field));
    refuse(|bad| bad.sent = Bytes::MAX, out_of_range(EntryField::Sent));
    refuse(|bad| bad.backlog = Bytes::MAX, out_of_range(EntryField::Backlog));
    refuse(|bad| bad.shown = Rate::ZERO, out_of_range(EntryField::Shown));
    refuse(|bad| bad.shown = Rate::MAX, out_of_range(EntryField::Shown));
    refuse(|bad| bad.guaranteed = Rate::MAX, out_of_range(EntryField::Guaranteed));
    refuse(|bad| bad.delay = Duration::from_secs(60), out_of_range(EntryField::Delay));
    refuse(|bad| bad.target = Bytes::ZERO, out_of_range(EntryField::Target));
    let state = meter.on_sample(sample(3), TRANSIT, arrival(3)).expect("it is good");
    assert_eq!(state.map(|state| state.entry().sent()), Some(Bytes::new(62_500)));
}

#[test]
fn a_first_sample_is_checked_too() {
    let mut meter = LinkMeter::new(LinkId::unnamed(0));
    let bad = LinkSample { backlog: Bytes::MAX, ..sample(1) };
    assert!(meter.on_sample(bad, TRANSIT, arrival(1)).is_err());
    assert_eq!(meter.on_sample(sample(2), TRANSIT, arrival(2)), Ok(None));
}

#[test]
fn another_incarnation_and_a_long_gap_begin_anew() {
    let mut meter = meter();
    let restarted = LinkSample { incarnation: 2, sent: Bytes::ZERO, ..sample(1) };
    assert_eq!(meter.on_sample(restarted, TRANSIT, arrival(2)), Ok(None));
    let next = LinkSample { incarnation: 2, number: 2, clock: sample(2).clock, ..restarted };
    assert!(meter.on_sample(next, TRANSIT, arrival(3)).is_ok_and(|state| state.is_some()));
    let late = LinkSample { incarnation: 2, number: 3, clock: sample(103).clock, ..restarted };
    assert_eq!(meter.on_sample(late, TRANSIT, arrival(4)), Ok(None), "5.05 s in one interval");
}

#[test]
fn a_clock_that_jumped_ahead_bars_the_link_for_five_seconds_at_most() {
    let mut meter = meter();
    let jumped = LinkSample { clock: Time::MAX, number: u64::MAX, ..sample(2) };
    assert_eq!(meter.on_sample(jumped, TRANSIT, arrival(2)), Ok(None));
    assert_eq!(meter.on_sample(sample(3), TRANSIT, arrival(3)), Err(SampleError::NotNewer));
    assert_eq!(meter.on_sample(sample(103), TRANSIT, arrival(103)), Ok(None));
    assert!(meter.on_sample(sample(104), TRANSIT, arrival(104)).is_ok_and(|state| state.is_some()));
}

#[test]
fn errors_name_the_cause() {
    for (error, words) in [
        (SampleError::NotNewer, "not newer"),
        (SampleError::ClockBackwards, "clock"),
        (SampleError::CounterBackwards, "counter"),
        (SampleError::Entry(EntryError::OutOfRange(EntryField::Delay)), "delay"),
    ] {
        assert!(error.to_string().contains(words), "{error}");
    }
}

proptest! {
    #[test]
    fn no_samples_panic_and_states_are_in_range(
        samples in prop::collection::vec((any::<[u64; 10]>(), any::<bool>()), 1..20),
    ) {
        let mut meter = meter();
        for (numbers, is_near) in samples {
            let [incarnation, number, clock, sent, backlog, shown, delay, target, transit, now] = numbers;
            // Half of the samples are near good ones, because random numbers hardly ever are.
            let good = sample(2 + number % 8);
            let sample = if is_near {
                let sent = Bytes::new(good.sent.count() ^ (sent % 4_096));
                LinkSample { sent, number: number % 16, ..good }
            } else {
                LinkSample {
                    incarnation: incarnation % 2,
                    number,
                    clock: Time::from_nanos(clock),
                    sent: Bytes::new(sent),
                    backlog: Bytes::new(backlog),
                    shown: Rate::from_bits_per_second(shown),
                    delay: Duration::from_nanos(delay),
                    target: Bytes::new(target),
                    ..good
                }
            };
            let state = meter.on_sample(sample, Duration::from_nanos(transit), Time::from_nanos(now));
            if let Ok(Some(state)) = state {
                let entry = state.entry();
                let (interval, sent, backlog) = (entry.interval(), entry.sent(), entry.backlog());
                let again = LinkEntry::new(interval, sent, backlog, entry.shown(), entry.delay());
                prop_assert_eq!(again, Ok(*entry));
                prop_assert!(state.age() <= ENTRY_LIFETIME && entry.has_news());
            }
        }
    }
}
