//! The replay window, compared with a set of all counters.

use std::collections::BTreeSet;

use byway_wire::Counter;
use byway_wire::limits::REPLAY_WINDOW;
use byway_wire::seal::{ReplayError, ReplayWindow};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::{collection, prop_assert_eq};

/// The rules of the wire format, implemented literally.
#[derive(Default)]
struct NaiveReplayWindow {
    seen: BTreeSet<Counter>,
}

impl NaiveReplayWindow {
    fn accept(&mut self, counter: Counter) -> Result<(), ReplayError> {
        if let Some(&highest) = self.seen.last()
            && highest.number().saturating_sub(counter.number()) >= REPLAY_WINDOW
        {
            return Err(ReplayError::TooOld { counter, highest });
        }
        if self.seen.insert(counter) { Ok(()) } else { Err(ReplayError::Replayed { counter }) }
    }
}

/// Position of the next counter, relative to the highest one.
#[derive(Clone, Copy, Debug)]
enum CounterStep {
    Forward(u64),
    Back(u64),
    To(u64),
}

impl CounterStep {
    const fn from(self, highest: Counter) -> Counter {
        match self {
            Self::Forward(by) => highest.plus(by),
            Self::Back(by) => Counter::new(highest.number().saturating_sub(by)),
            Self::To(number) => Counter::new(number),
        }
    }
}

fn moves() -> impl Strategy<Value = CounterStep> {
    prop_oneof![
        20 => Just(CounterStep::Forward(1)),
        10 => (0..200_u64).prop_map(CounterStep::Back),
        4 => (2..130_u64).prop_map(CounterStep::Forward),
        2 => (0..REPLAY_WINDOW + 200).prop_map(CounterStep::Back),
        1 => (REPLAY_WINDOW - 130..REPLAY_WINDOW + 130).prop_map(CounterStep::Back),
        1 => (0..2 * REPLAY_WINDOW).prop_map(CounterStep::Forward),
        1 => (REPLAY_WINDOW - 130..REPLAY_WINDOW + 260).prop_map(CounterStep::Forward),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_window_agrees_with_the_set(
        start in prop_oneof![Just(CounterStep::To(0)), any::<u64>().prop_map(CounterStep::To), (0..200_u64).prop_map(CounterStep::To)],
        moves in collection::vec(moves(), 1..600),
    ) {
        let (mut window, mut naive) = (ReplayWindow::new(), NaiveReplayWindow::default());
        for step in [start].into_iter().chain(moves) {
            let counter = step.from(window.highest());
            let asked = window.would_accept(counter);
            let accepted = window.accept(counter);
            prop_assert_eq!(asked, accepted);
            prop_assert_eq!(accepted, naive.accept(counter), "{}", counter);
            prop_assert_eq!(Some(&window.highest()), naive.seen.last());
        }
    }

    #[test]
    fn after_a_long_run_each_counter_of_the_window_is_judged_alike(
        missing in collection::btree_set(0..20_000_u64, 0..40),
        jump in 0..3 * REPLAY_WINDOW,
    ) {
        let (mut window, mut naive) = (ReplayWindow::new(), NaiveReplayWindow::default());
        let run = (0..20_000).filter(|number| !missing.contains(number)).chain([20_000 + jump]);
        for counter in run.map(Counter::new) {
            prop_assert_eq!(window.accept(counter), naive.accept(counter));
        }
        let highest = window.highest().number();
        for counter in (highest - REPLAY_WINDOW - 70..=highest).map(Counter::new) {
            prop_assert_eq!(window.accept(counter), naive.accept(counter), "{}", counter);
        }
    }
}
