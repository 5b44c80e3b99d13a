//! Eviction of pairs of flows: which one makes room for another where there are as many as may be, as at a NAT.

use byway_units::{Duration, Time};

use crate::limits::{EVICTION_IDLE, FLOW_PAIRS_MAX, PEER_FLOW_PAIRS_MAX, UNANSWERED_FACTOR};

/// Numbers of pairs of flows that an agent has at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLimits {
    /// Of all together.
    pub all: usize,
    /// Of those that one peer began.
    pub of_peer: usize,
}

impl Default for PairLimits {
    fn default() -> Self {
        Self { all: FLOW_PAIRS_MAX, of_peer: PEER_FLOW_PAIRS_MAX }
    }
}

/// Use of a pair of flows: its last datagram, and whether both ends have sent any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairUse {
    last: Time,
    is_answered: bool,
}

impl PairUse {
    /// The use of a pair that begins now.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self { last: now, is_answered: false }
    }

    /// Notes a datagram of the end that began the pair, or of the other end, which answers.
    pub const fn note(&mut self, is_answer: bool, now: Time) {
        self.last = now;
        self.is_answered |= is_answer;
    }

    /// Lets the pair make room from now on, unless another datagram comes: whoever began it knows it no more.
    pub fn abandon(&mut self, now: Time) {
        self.last = self.last.min(now.saturating_sub(EVICTION_IDLE));
    }

    /// Returns the time since the last datagram.
    #[must_use]
    pub fn idle(self, now: Time) -> Duration {
        now.saturating_since(self.last)
    }

    /// Returns the idle time that counts for eviction: a multiple of the real one as long as nobody has answered.
    fn weighted_idle(self, now: Time) -> Duration {
        self.idle(now) * if self.is_answered { 1 } else { UNANSWERED_FACTOR }
    }

    /// Returns when the pair may make room for another, if it stays idle.
    fn evictable_at(self) -> Time {
        self.last + EVICTION_IDLE / if self.is_answered { 1 } else { UNANSWERED_FACTOR }
    }
}

/// A pair of flows that may have to make room.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<T> {
    /// Its name.
    pub pair: T,
    /// How many pairs its owner has: the agent that began it.
    pub of_owner: usize,
    /// Its use.
    pub usage: PairUse,
}

/// Returns the pair that makes room: of the owner that has the most, the longest idle one. Nobody's own pairs pay for those
/// of somebody who has more.
///
/// # Errors
/// If all are in use: the earliest time at which one of them can make room.
pub fn choose_evicted<T>(candidates: impl IntoIterator<Item = Candidate<T>>, now: Time) -> Result<T, Time> {
    let mut chosen: Option<(usize, Duration, T)> = None;
    let mut earliest = Time::MAX;
    for Candidate { pair, of_owner, usage } in candidates {
        earliest = earliest.min(usage.evictable_at());
        let idle = usage.weighted_idle(now);
        let is_better = chosen.as_ref().is_none_or(|(most, longest, _)| (of_owner, idle) > (*most, *longest));
        if usage.evictable_at() <= now && is_better {
            chosen = Some((of_owner, idle, pair));
        }
    }
    chosen.map(|(_, _, pair)| pair).ok_or(earliest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    fn candidate(pair: u32, of_owner: usize, last_ms: u64, is_answered: bool) -> Candidate<u32> {
        let mut usage = PairUse::new(at(0));
        usage.note(is_answered, at(last_ms));
        Candidate { pair, of_owner, usage }
    }

    #[test]
    fn the_longest_idle_pair_makes_room_and_none_in_use_does() {
        let pairs =
            [candidate(1, 3, 2_000, true), candidate(2, 3, 1_000, true), candidate(3, 3, 3_000, true)];
        assert_eq!(choose_evicted(pairs, at(10_999)), Err(at(11_000)));
        assert_eq!(choose_evicted(pairs, at(11_000)), Ok(2));
        assert_eq!(choose_evicted(pairs, at(60_000)), Ok(2));
        assert_eq!(choose_evicted([] as [Candidate<u32>; 0], at(60_000)), Err(Time::MAX));
    }

    #[test]
    fn a_pair_that_nobody_answered_makes_room_sooner_but_not_while_it_is_in_use() {
        let answered = candidate(1, 2, 0, true);
        let unanswered = candidate(2, 2, 9_000, false);
        assert_eq!(choose_evicted([answered, unanswered], at(9_999)), Err(at(10_000)));
        assert_eq!(choose_evicted([unanswered], at(9_999)), Err(at(10_000)));
        assert_eq!(choose_evicted([unanswered], at(10_000)), Ok(2), "a second without an answer");
        assert_eq!(choose_evicted([answered, unanswered], at(10_100)), Ok(2), "11 s count more than 10.1 s");
        assert_eq!(choose_evicted([answered, candidate(2, 2, 10_050, false)], at(10_100)), Ok(1));
    }

    #[test]
    fn an_answer_counts_for_good() {
        let mut usage = PairUse::new(at(0));
        usage.note(true, at(1));
        usage.note(false, at(2));
        assert_eq!(choose_evicted([Candidate { pair: 1, of_owner: 1, usage }], at(5_000)), Err(at(10_002)));
    }

    #[test]
    fn whoever_has_most_pairs_pays_with_its_own_unless_all_of_them_are_in_use() {
        let modest = candidate(1, 1, 0, true);
        assert_eq!(choose_evicted([modest, candidate(2, 900, 50_000, true)], at(60_000)), Ok(2));
        assert_eq!(choose_evicted([modest, candidate(2, 900, 50_001, true)], at(60_000)), Ok(1));
    }

    #[test]
    fn an_abandoned_pair_makes_room_until_a_datagram_comes() {
        let mut usage = PairUse::new(at(0));
        usage.note(true, at(20_000));
        usage.abandon(at(20_001));
        assert_eq!(choose_evicted([Candidate { pair: 1, of_owner: 1, usage }], at(20_001)), Ok(1));
        usage.note(false, at(20_002));
        assert_eq!(choose_evicted([Candidate { pair: 1, of_owner: 1, usage }], at(20_002)), Err(at(30_002)));
    }
}
