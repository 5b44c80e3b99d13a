//! Share of late answers of a receiver in cooperative recovery.

use alloc::collections::VecDeque;

use byway_units::{Duration, Time};

/// The value of 1 in fixed-point arithmetic.
const ONE: u32 = 1 << 16;

/// Divisor of the newest answer's weight. A receiver that becomes late is recognised within about
/// ten answers.
const WEIGHT: u32 = 16;

/// Largest number of late answers that the computation of [`LateShare::more_than`] allows for.
const SPARE_MAX: usize = 31;

/// Largest number of one receiver's unanswered requests that are remembered: as many as a burst of
/// losses causes.
const WATCHED_MAX: usize = 8;

/// Time after an answer's due time from which on it counts as lost.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Share of a receiver's answers to cooperative requests that are late. Every request counts, even
/// if the decode attempt succeeded without its answer.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    share: LateShare,
    /// Unanswered requests: the packet's number and the due time of its answer, oldest first.
    watched: VecDeque<(u64, Time)>,
}

/// Share of late answers as an exponentially weighted moving average, initially zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateShare(u16);

impl Lateness {
    /// Returns the present share of late answers.
    #[must_use]
    pub const fn share(&self) -> LateShare {
        self.share
    }

    /// Records that the relay requested packet `number`, whose answer is due at `due`. Requests
    /// that are long overdue count as late.
    pub fn on_request(&mut self, number: u64, due: Time, now: Time) {
        let is_over = |(_, due): &(u64, Time)| *due + ANSWER_TIMEOUT <= now;
        while self.watched.front().is_some_and(is_over) || self.watched.len() == WATCHED_MAX {
            if self.watched.pop_front().is_some_and(|(_, due)| due <= now) {
                self.share.note(true);
            }
        }
        self.watched.push_back((number, due));
    }

    /// Records the answer for packet `number`: the packet, or the refusal that the receiver does
    /// not have it.
    pub fn on_answer(&mut self, number: u64, now: Time) {
        if let Some(index) = self.watched.iter().position(|(watched, _)| *watched == number)
            && let Some((_, due)) = self.watched.remove(index)
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

    /// Returns the probability that more than `spare` of these receivers are late for one decode
    /// attempt, in 1/65,536. The receivers count as independent.
    pub fn more_than(spare: usize, all: impl Iterator<Item = Self>) -> u32 {
        let spare = spare.min(SPARE_MAX);
        // Probability that exactly this number is late, among those processed so far.
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

    /// Returns a receiver with `late` late answers in a thousand.
    fn late_share(late: u32) -> LateShare {
        let mut known = LateShare::default();
        for nth in 0..1_000 {
            known.note(nth * late / 1_000 != (nth + 1) * late / 1_000);
        }
        known
    }

    #[test]
    fn who_is_always_in_time_is_not_expected_to_be_late() {
        assert_eq!(LateShare::more_than(0, (0..9).map(|_| late_share(0))), 0);
    }

    #[test]
    fn who_is_always_late_is_expected_to_be() {
        let late = || (0..3).map(|_| late_share(1_000));
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
        let mut known = late_share(0);
        (0..12).for_each(|_| known.note(true));
        assert!(LateShare::more_than(0, core::iter::once(known)) > ONE / 2);
        (0..12).for_each(|_| known.note(false));
        assert!(LateShare::more_than(0, core::iter::once(known)) < ONE / 2);
    }

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// Returns the state after `answers` requests, each answered after `takes` milliseconds and due
    /// after 50 ms.
    fn after(answers: u64, takes: Option<u64>) -> Lateness {
        let mut lateness = Lateness::default();
        for number in 0..answers {
            let requested_at = number * 10_000;
            lateness.on_request(number, at(requested_at + 50), at(requested_at));
            if let Some(takes) = takes {
                lateness.on_answer(number, at(requested_at + takes));
                lateness.on_answer(number, at(requested_at + takes));
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
            lateness.on_request(number, at(50), at(0));
        }
        assert_eq!(
            (lateness.watched.len(), lateness.share()),
            (WATCHED_MAX, LateShare(0)),
            "none is late yet"
        );
    }
}
