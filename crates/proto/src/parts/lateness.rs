//! How often somebody answers late.

use alloc::collections::VecDeque;

use byway_units::{Duration, Time};

/// What stands for 1.
const ONE: u32 = 1 << 16;

/// An answer counts for a sixteenth of what is known: whoever begins to be late shows within some ten answers.
const WEIGHT: u32 = 16;

/// Most late answers that can be done without.
const SPARE_MAX: usize = 31;

/// Questions whose answers are watched at a time: as many as a burst of losses asks of one receiver.
const WATCHED_MAX: usize = 8;

/// An answer that is this much late does not come.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(1);

/// How often somebody answers late: every question counts, also one that was settled without its answer.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    share: LateShare,
    /// What was asked for, and when it should be here; oldest first.
    watched: VecDeque<(u64, Time)>,
}

/// The share of answers that were late, newer ones counting for more (an exponential average); at first none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateShare(u16);

impl Lateness {
    /// The share of answers that were late.
    #[must_use]
    pub const fn share(&self) -> LateShare {
        self.share
    }

    /// Notes that the packet of this number was asked for, and should be here by then.
    pub fn asked(&mut self, number: u64, due: Time, now: Time) {
        let is_over = |(_, due): &(u64, Time)| *due + GIVEN_UP_AFTER <= now;
        while self.watched.front().is_some_and(is_over) || self.watched.len() == WATCHED_MAX {
            if self.watched.pop_front().is_some_and(|(_, due)| due <= now) {
                self.share.note(true);
            }
        }
        self.watched.push_back((number, due));
    }

    /// Notes that it is here, or that there is no such packet.
    pub fn answered(&mut self, number: u64, now: Time) {
        if let Some(place) = self.watched.iter().position(|(watched, _)| *watched == number)
            && let Some((_, due)) = self.watched.remove(place)
        {
            self.share.note(now > due);
        }
    }
}

impl LateShare {
    fn note(&mut self, is_late: bool) {
        let newest = if is_late { ONE - 1 } else { 0 };
        let share = (u32::from(self.0) * (WEIGHT - 1) + newest) / WEIGHT;
        self.0 = u16::try_from(share).unwrap_or(u16::MAX);
    }

    /// The chance that more than `spare` of these are late at once, of 65,536: each is or is not, whatever the others do.
    pub fn more_than(spare: usize, all: impl Iterator<Item = Self>) -> u32 {
        let spare = spare.min(SPARE_MAX);
        // The chance that exactly so many are late, of those looked at.
        let mut late = [0_u32; SPARE_MAX + 1];
        late[0] = ONE;
        for Self(part) in all {
            let part = u32::from(part);
            for count in (0..=spare).rev() {
                let one_less = if count == 0 { 0 } else { late[count - 1] };
                late[count] = scaled(late[count], ONE - part) + scaled(one_less, part);
            }
        }
        ONE.saturating_sub(late[..=spare].iter().sum())
    }
}

fn scaled(chance: u32, share: u32) -> u32 {
    u32::try_from(u64::from(chance) * u64::from(share) / u64::from(ONE)).unwrap_or(ONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One who is late in `late` answers of a thousand.
    fn known(late: u32) -> LateShare {
        let mut known = LateShare::default();
        for nth in 0..1_000 {
            known.note(nth * late / 1_000 != (nth + 1) * late / 1_000);
        }
        known
    }

    #[test]
    fn who_is_always_in_time_is_not_expected_to_be_late() {
        assert_eq!(LateShare::more_than(0, (0..9).map(|_| known(0))), 0);
    }

    #[test]
    fn who_is_always_late_is_expected_to_be() {
        let late = || (0..3).map(|_| known(1_000));
        assert!(LateShare::more_than(2, late()) > ONE * 9 / 10);
        assert!(LateShare::more_than(3, late()) < 10, "three are not more than three");
    }

    #[test]
    fn chances_are_those_of_the_binomial_distribution() {
        let half = LateShare(1 << 15);
        // Of five, more than two are late in 16 of 32 cases.
        let chance = LateShare::more_than(2, (0..5).map(|_| half));
        assert!(chance.abs_diff(ONE / 2) < 16, "{chance}");
        // Of four, more than one is in 11 of 16.
        let chance = LateShare::more_than(1, (0..4).map(|_| half));
        assert!(chance.abs_diff(ONE * 11 / 16) < 16, "{chance}");
    }

    #[test]
    fn a_change_shows_within_some_answers() {
        let mut known = known(0);
        (0..12).for_each(|_| known.note(true));
        assert!(LateShare::more_than(0, core::iter::once(known)) > ONE / 2);
        (0..12).for_each(|_| known.note(false));
        assert!(LateShare::more_than(0, core::iter::once(known)) < ONE / 2);
    }

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// What is known after so many answers, each so long after it was asked for; they are due after 50 ms.
    fn after(answers: u64, takes: Option<u64>) -> Lateness {
        let mut lateness = Lateness::default();
        for number in 0..answers {
            let asked = number * 10_000;
            lateness.asked(number, at(asked + 50), at(asked));
            if let Some(takes) = takes {
                lateness.answered(number, at(asked + takes));
                lateness.answered(number, at(asked + takes));
            }
        }
        lateness
    }

    #[test]
    fn each_answer_counts_once_by_when_it_should_have_come() {
        assert_eq!(after(4, Some(50)).share(), LateShare(0));
        let late = after(4, Some(51)).share();
        assert_ne!(late, LateShare(0));
        let mut once = LateShare(0);
        (0..4).for_each(|_| once.note(true));
        assert_eq!(late, once);
    }

    #[test]
    fn what_never_comes_is_late() {
        assert_eq!(after(5, None).share(), after(4, Some(51)).share(), "the last may come yet");
    }

    #[test]
    fn only_so_many_are_watched() {
        let mut lateness = Lateness::default();
        for number in 0..100 {
            lateness.asked(number, at(50), at(0));
        }
        assert_eq!(
            (lateness.watched.len(), lateness.share()),
            (WATCHED_MAX, LateShare(0)),
            "none is late yet"
        );
    }
}
