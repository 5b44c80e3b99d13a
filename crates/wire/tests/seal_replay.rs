//! The replay window against a set that forgets nothing.

use std::collections::BTreeSet;

use byway_wire::seal::{REPLAY_WINDOW, Refused, ReplayWindow};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::{collection, prop_assert_eq};

/// What the wire format says, word for word.
#[derive(Default)]
struct Naive {
    seen: BTreeSet<u64>,
}

impl Naive {
    fn accept(&mut self, number: u64) -> Result<(), Refused> {
        if let Some(&highest) = self.seen.last()
            && highest.saturating_sub(number) >= REPLAY_WINDOW
        {
            return Err(Refused::TooOld { number, highest });
        }
        if self.seen.insert(number) { Ok(()) } else { Err(Refused::Replayed { number }) }
    }
}

/// Where the next number lies, seen from the highest one.
#[derive(Clone, Copy, Debug)]
enum Move {
    Forward(u64),
    Back(u64),
    To(u64),
}

impl Move {
    const fn from(self, highest: u64) -> u64 {
        match self {
            Self::Forward(by) => highest.saturating_add(by),
            Self::Back(by) => highest.saturating_sub(by),
            Self::To(number) => number,
        }
    }
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        20 => Just(Move::Forward(1)),
        10 => (0..200_u64).prop_map(Move::Back),
        4 => (2..130_u64).prop_map(Move::Forward),
        2 => (0..REPLAY_WINDOW + 200).prop_map(Move::Back),
        1 => (REPLAY_WINDOW - 130..REPLAY_WINDOW + 130).prop_map(Move::Back),
        1 => (0..2 * REPLAY_WINDOW).prop_map(Move::Forward),
        1 => (REPLAY_WINDOW - 130..REPLAY_WINDOW + 260).prop_map(Move::Forward),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_window_agrees_with_the_set(
        start in prop_oneof![Just(Move::To(0)), any::<u64>().prop_map(Move::To), (0..200_u64).prop_map(Move::To)],
        moves in collection::vec(moves(), 1..600),
    ) {
        let (mut window, mut naive) = (ReplayWindow::new(), Naive::default());
        for step in [start].into_iter().chain(moves) {
            let number = step.from(window.highest());
            let asked = window.would_accept(number);
            let accepted = window.accept(number);
            prop_assert_eq!(asked, accepted);
            prop_assert_eq!(accepted, naive.accept(number), "number {}", number);
            prop_assert_eq!(Some(&window.highest()), naive.seen.last());
        }
    }

    #[test]
    fn after_a_long_run_each_number_of_the_window_is_judged_alike(
        missing in collection::btree_set(0..20_000_u64, 0..40),
        jump in 0..3 * REPLAY_WINDOW,
    ) {
        let (mut window, mut naive) = (ReplayWindow::new(), Naive::default());
        let run = (0..20_000).filter(|number| !missing.contains(number)).chain([20_000 + jump]);
        for number in run {
            prop_assert_eq!(window.accept(number), naive.accept(number));
        }
        let highest = window.highest();
        for number in highest - REPLAY_WINDOW - 70..=highest {
            prop_assert_eq!(window.accept(number), naive.accept(number), "number {}", number);
        }
    }
}
