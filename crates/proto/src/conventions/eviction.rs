//! Eviction of pairs of flows: the choice of the pair that ends for another one when the limit is
//! reached, as at a NAT.

use byway_units::{Duration, Time};

use crate::limits::{
    ANSWERED_DIVISOR, EVICTION_IDLE, FLOW_PAIRS_MAX, PEER_FLOW_PAIRS_MAX, SHARE_IDLE, UNANSWERED_DIVISOR,
};

/// Highest numbers of flow pairs at an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLimits {
    /// Limit of all pairs together.
    pub all: usize,
    /// Limit of the pairs that one peer began.
    pub of_peer: usize,
}

impl Default for PairLimits {
    fn default() -> Self {
        Self { all: FLOW_PAIRS_MAX, of_peer: PEER_FLOW_PAIRS_MAX }
    }
}

/// Progress of the conversation on a flow pair. Connection tracking calls a confirmed pair assured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The end that began the pair has sent again after an answer.
    Confirmed,
    /// The other end has answered, and nothing has followed.
    Answered,
    /// The other end has not answered the first datagrams.
    Unanswered,
}

/// Use of a flow pair: the time of its last datagram, and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairUse {
    last: Time,
    progress: Progress,
}

impl PairUse {
    /// Returns the use of a flow pair that begins now, without an answer.
    #[must_use]
    pub const fn new(now: Time) -> Self {
        Self { last: now, progress: Progress::Unanswered }
    }

    /// Records a datagram now: an answer of the other end, or a datagram of the end that began the
    /// pair.
    pub const fn note(&mut self, is_answer: bool, now: Time) {
        self.last = now;
        self.progress = match (self.progress, is_answer) {
            (Progress::Unanswered, true) => Progress::Answered,
            (Progress::Answered, false) => Progress::Confirmed,
            (progress, _) => progress,
        };
    }

    /// Makes the pair evictable until its next datagram, because the end that began it has
    /// forgotten it.
    pub fn abandon(&mut self, now: Time) {
        self.last = self.last.min(now.saturating_sub(EVICTION_IDLE));
    }

    /// Returns the time since the pair's last datagram.
    #[must_use]
    pub fn idle(self, now: Time) -> Duration {
        now.saturating_since(self.last)
    }

    /// Returns the progress of the pair's conversation.
    #[must_use]
    pub const fn progress(self) -> Progress {
        self.progress
    }

    /// Returns true if the pair has been idle for long enough to be evicted for another one.
    #[must_use]
    pub fn is_evictable(self, now: Time) -> bool {
        self.evictable_at() <= now
    }

    /// Returns the time at which the pair may be evicted, if it stays idle.
    fn evictable_at(self) -> Time {
        let divisor = match self.progress {
            Progress::Confirmed => 1,
            Progress::Answered => ANSWERED_DIVISOR,
            Progress::Unanswered => UNANSWERED_DIVISOR,
        };
        self.last + EVICTION_IDLE / divisor
    }

    /// Returns the rank in the order of eviction: the highest is evicted first.
    fn rank(self, now: Time) -> (Progress, Duration) {
        (self.progress, self.idle(now))
    }
}

/// Flow pair that an agent may evict for a new one.
#[derive(Clone, Copy, Debug)]
pub struct EvictionCandidate<T> {
    /// Identifier of the pair.
    pub pair: T,
    /// Number of pairs of its owner: the agent that began it.
    pub of_owner: usize,
    /// Last datagram and progress of the pair.
    pub usage: PairUse,
}

/// Returns the flow pair to evict, from the owner with the most pairs. The order within an owner
/// is: pairs that were never answered, pairs with one request and its answer, the longest idle
/// pair. So no owner loses pairs to another one that has more.
///
/// # Errors
/// If no pair has been idle for long enough: the earliest time at which one may be evicted.
pub fn choose_evicted<T>(
    candidates: impl IntoIterator<Item = EvictionCandidate<T>>,
    now: Time,
) -> Result<T, Time> {
    let mut chosen: Option<(usize, (Progress, Duration), T)> = None;
    let mut earliest = Time::MAX;
    for EvictionCandidate { pair, of_owner, usage } in candidates {
        earliest = earliest.min(usage.evictable_at());
        let rank = usage.rank(now);
        let is_better = chosen.as_ref().is_none_or(|(most, first, _)| (of_owner, rank) > (*most, *first));
        if usage.is_evictable(now) && is_better {
            chosen = Some((of_owner, rank, pair));
        }
    }
    chosen.map(|(_, _, pair)| pair).ok_or(earliest)
}

/// Returns the flow pair to evict for an owner that has fewer than the owner of `pairs`, in the
/// order of [`choose_evicted`]. It may be in use, unless it has traffic in both directions and has
/// paused for less than [`SHARE_IDLE`].
pub fn choose_beyond_share<T>(pairs: impl IntoIterator<Item = (T, PairUse)>, now: Time) -> Option<T> {
    let may = |usage: PairUse| usage.progress != Progress::Confirmed || usage.idle(now) >= SHARE_IDLE;
    let pairs = pairs.into_iter().filter(|(_, usage)| may(*usage));
    pairs.max_by_key(|(_, usage)| usage.rank(now)).map(|(pair, _)| pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    fn usage(progress: Progress, last_ms: u64) -> PairUse {
        PairUse { last: at(last_ms), progress }
    }

    fn candidate(pair: u32, of_owner: usize, last_ms: u64, progress: Progress) -> EvictionCandidate<u32> {
        EvictionCandidate { pair, of_owner, usage: usage(progress, last_ms) }
    }

    #[test]
    fn the_longest_idle_pair_makes_room_and_none_in_use_does() {
        let pairs = [(1, 2_000), (2, 1_000), (3, 3_000)]
            .map(|(pair, last_ms)| candidate(pair, 3, last_ms, Progress::Confirmed));
        assert_eq!(choose_evicted(pairs, at(10_999)), Err(at(11_000)));
        assert_eq!(choose_evicted(pairs, at(11_000)), Ok(2));
        assert_eq!(choose_evicted(pairs, at(60_000)), Ok(2));
        assert_eq!(choose_evicted([] as [EvictionCandidate<u32>; 0], at(60_000)), Err(Time::MAX));
    }

    #[test]
    fn pairs_without_an_answer_make_room_first_then_those_with_one_and_none_of_them_while_in_use() {
        let confirmed = candidate(1, 2, 0, Progress::Confirmed);
        let answered = candidate(2, 2, 9_000, Progress::Answered);
        let unanswered = candidate(3, 2, 9_500, Progress::Unanswered);
        let all = [confirmed, answered, unanswered];
        assert_eq!(
            choose_evicted(all, at(9_099)),
            Err(at(9_100)),
            "the answered pair is evictable a tenth of a second after the answer"
        );
        assert_eq!(choose_evicted(all, at(9_100)), Ok(2));
        assert_eq!(
            choose_evicted(all, at(10_499)),
            Ok(2),
            "the unanswered pair is not evictable within a second"
        );
        assert_eq!(choose_evicted(all, at(10_500)), Ok(3));
        assert_eq!(choose_evicted([confirmed, answered], at(60_000)), Ok(2), "the other was idle for longer");
        assert_eq!(choose_evicted([confirmed], at(10_000)), Ok(1));
    }

    #[test]
    fn a_pair_is_confirmed_once_its_beginner_sends_after_an_answer() {
        let mut usage = PairUse::new(at(0));
        let mut note = |is_answer, ms| {
            usage.note(is_answer, at(ms));
            usage.progress()
        };
        assert_eq!([note(false, 1), note(true, 2)], [Progress::Unanswered, Progress::Answered]);
        assert_eq!([note(true, 3), note(false, 4)], [Progress::Answered, Progress::Confirmed]);
        assert_eq!([note(true, 5), note(false, 6)], [Progress::Confirmed; 2]);
        assert_eq!(
            choose_evicted([EvictionCandidate { pair: 1, of_owner: 1, usage }], at(7)),
            Err(at(10_006))
        );
    }

    #[test]
    fn beyond_its_share_an_owner_gives_all_but_live_conversations() {
        let call = (1, usage(Progress::Confirmed, 59_001));
        let paused = (2, usage(Progress::Confirmed, 59_000));
        let answered = (3, usage(Progress::Answered, 60_000));
        let unanswered = (4, usage(Progress::Unanswered, 60_000));
        assert_eq!(choose_beyond_share([call, paused, answered, unanswered], at(60_000)), Some(4));
        assert_eq!(choose_beyond_share([call, paused, answered], at(60_000)), Some(3));
        assert_eq!(choose_beyond_share([call, paused], at(60_000)), Some(2));
        assert_eq!(choose_beyond_share([call], at(60_000)), None);
    }

    #[test]
    fn whoever_has_most_pairs_pays_with_its_own_unless_all_of_them_are_in_use() {
        let modest = candidate(1, 1, 0, Progress::Unanswered);
        let busy = |last_ms| candidate(2, 900, last_ms, Progress::Confirmed);
        assert_eq!(choose_evicted([modest, busy(50_000)], at(60_000)), Ok(2));
        assert_eq!(choose_evicted([modest, busy(50_001)], at(60_000)), Ok(1));
    }

    #[test]
    fn an_abandoned_pair_makes_room_until_a_datagram_comes() {
        let mut usage = PairUse::new(at(0));
        usage.note(true, at(19_000));
        usage.note(false, at(20_000));
        usage.abandon(at(20_001));
        assert_eq!(choose_evicted([EvictionCandidate { pair: 1, of_owner: 1, usage }], at(20_001)), Ok(1));
        usage.note(false, at(20_002));
        assert_eq!(
            choose_evicted([EvictionCandidate { pair: 1, of_owner: 1, usage }], at(20_002)),
            Err(at(30_002))
        );
    }
}
