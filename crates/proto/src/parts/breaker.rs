//! Does this path still deliver.

use byway_units::{Duration, Time};

/// A circuit breaker after RFC 8084: stops what is sent over a path that loses too much of it for too long, and
/// tries again after a pause that grows.
///
/// It is for traffic that does not slow down by itself, such as copies, and is no congestion control: it ends
/// what would otherwise go on for ever.
///
/// A full line loses less once copies pause. Radio links lose as much as before: then copies are not
/// the cause, and go on at once, see [`Breaker::note_originals`].
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    /// Packets of the interval that is not judged yet.
    unjudged: Tally,
    /// Packets of the latest intervals, each with three quarters of the weight of the next one: bad
    /// intervals in a row alone would say too much of a path that loses now more and now less.
    recent: Tally,
    bad_intervals: u8,
    pause: Duration,
    /// Tripped: nothing is sent until then.
    closed_until: Option<Time>,
    /// The beginning of the pause.
    paused_at: Time,
    /// Originals of other paths since then, and in how many bursts they were lost.
    originals: Tally,
    bursts: u32,
    /// Losses are not blamed on copies until then.
    acquitted_until: Time,
    acquitted_for: Duration,
    trips: u64,
}

/// What became of originals between two reports of their receiver.
#[derive(Clone, Copy, Debug)]
pub struct Originals {
    /// Packets sent.
    pub sent: u64,
    /// Those that arrived.
    pub received: u64,
    /// Bursts of those that did not.
    pub bursts: u32,
}

/// Packets sent, and those of them that were lost.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: u64,
    lost: u64,
}

impl Tally {
    const fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
    }

    const fn fade(&mut self) {
        (self.sent, self.lost) = (self.sent * 3 / 4, self.lost * 3 / 4);
    }

    /// True if at least half as large a share is lost as of others.
    const fn loses_half_as_much_as(self, others: Self) -> bool {
        2 * self.lost * others.sent >= others.lost * self.sent
    }
}

/// Trips on intervals with more than a tenth lost. Ordinary congestion stays well below; copies that lose so much
/// are not worth what they take from others.
const LOST_MAX: (u64, u64) = (1, 10);

/// So many bad intervals in a row trip: a burst of losses spans one or two.
const BAD_INTERVALS: u8 = 3;

/// Intervals with fewer packets are judged together with the next: of ten, a single loss is a tenth.
const PACKETS_MIN: u64 = 20;

/// The first pause is longer than most outages of a second.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// The longest pause: a path that came back is used again within minutes.
const PAUSE_MAX: Duration = Duration::from_secs(320);

/// Bursts of lost originals that acquit copies. At 10 % loss they take 20 packets, 0.4 s of a voice
/// call. Paths that lose little lose several packets in a row, too, but seldom twice in a pause.
const ACQUITTING_BURSTS: u32 = 2;

/// The least time of an acquittal: pauses take a fiftieth of the time of a path that loses a tenth.
/// Each acquittal after another one holds twice as long.
const ACQUITTED_MIN: Duration = Duration::from_secs(60);
const ACQUITTED_MAX: Duration = Duration::from_secs(320);

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// A path that is taken to deliver.
    #[must_use]
    pub const fn new() -> Self {
        let none = Tally { sent: 0, lost: 0 };
        Self {
            unjudged: none,
            recent: none,
            bad_intervals: 0,
            pause: PAUSE_MIN,
            closed_until: None,
            paused_at: Time::START,
            originals: none,
            bursts: 0,
            acquitted_until: Time::START,
            acquitted_for: Duration::ZERO,
            trips: 0,
        }
    }

    /// Whether packets may be sent: all, or after a pause enough to judge the path by.
    #[must_use]
    pub fn allows(&self, now: Time) -> bool {
        self.closed_until.is_none_or(|until| now >= until)
    }

    /// When a pause ends.
    #[must_use]
    pub const fn deadline(&self) -> Option<Time> {
        self.closed_until
    }

    /// How many times it has tripped.
    #[must_use]
    pub const fn trips(&self) -> u64 {
        self.trips
    }

    /// A measurement interval is over: so many packets were sent in it, so many of them have arrived. Where the
    /// other side reports nothing, none have.
    pub fn interval(&mut self, sent: u64, received: u64, now: Time) {
        if !self.allows(now) || now < self.acquitted_until {
            return;
        }
        self.unjudged.add(Tally { sent, lost: sent.saturating_sub(received) });
        if self.unjudged.sent >= PACKETS_MIN {
            self.judge(now);
        }
    }

    /// Notes originals that left on another path behind the same access line, the first one at `from`.
    ///
    /// If they are lost in a pause as copies were before it, copies are not the cause: the pause ends.
    pub fn note_originals(&mut self, from: Time, originals: Originals, now: Time) {
        let Originals { sent, received, bursts } = originals;
        if self.closed_until.is_none_or(|until| now >= until) || from < self.paused_at {
            return;
        }
        self.originals.add(Tally { sent, lost: sent.saturating_sub(received) });
        self.bursts = self.bursts.saturating_add(bursts);
        if self.bursts >= ACQUITTING_BURSTS && self.originals.loses_half_as_much_as(self.recent) {
            self.acquit(now);
        }
    }

    fn acquit(&mut self, now: Time) {
        let is_repeated = now < self.acquitted_until.saturating_add(self.acquitted_for);
        self.acquitted_for =
            if is_repeated { (self.acquitted_for * 2).min(ACQUITTED_MAX) } else { ACQUITTED_MIN };
        self.acquitted_until = now.saturating_add(self.acquitted_for);
        self.recover();
        self.pause = PAUSE_MIN;
    }

    /// Notes that the path delivers.
    fn recover(&mut self) {
        self.closed_until = None;
        self.bad_intervals = 0;
    }

    fn judge(&mut self, now: Time) {
        let interval = core::mem::take(&mut self.unjudged);
        self.recent.fade();
        self.recent.add(interval);
        if interval.lost * LOST_MAX.1 <= interval.sent * LOST_MAX.0 {
            self.recover();
            self.pause = (self.pause / 2).max(PAUSE_MIN);
            return;
        }
        self.bad_intervals += 1;
        // After a pause, one bad interval is enough.
        if self.bad_intervals >= BAD_INTERVALS || self.closed_until.is_some() {
            self.trip(now);
        }
    }

    fn trip(&mut self, now: Time) {
        self.closed_until = Some(now.saturating_add(self.pause));
        (self.paused_at, self.originals, self.bursts) = (now, Tally::default(), 0);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.bad_intervals = 0;
        self.trips += 1;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn at(secs: u64) -> Time {
        Time::START + Duration::from_secs(secs)
    }

    fn tripped() -> Breaker {
        let mut breaker = Breaker::new();
        (1..=3).for_each(|second| breaker.interval(100, 0, at(second)));
        breaker
    }

    #[test]
    fn three_bad_intervals_in_a_row_trip() {
        let mut breaker = Breaker::new();
        for (second, received) in (1..).zip([89, 89, 90, 89, 89]) {
            breaker.interval(100, received, at(second));
        }
        assert!(breaker.allows(at(5)));
        breaker.interval(100, 89, at(6));
        assert_eq!((breaker.allows(at(6)), breaker.trips(), breaker.deadline()), (false, 1, Some(at(11))));
    }

    #[test]
    fn a_tenth_lost_is_borne() {
        let mut breaker = Breaker::new();
        (1..100).for_each(|second| breaker.interval(100, 90, at(second)));
        assert_eq!(breaker.trips(), 0);
    }

    #[test]
    fn one_loss_of_few_packets_is_no_verdict() {
        let mut breaker = Breaker::new();
        // One lost of five, again and again, and then none of many.
        (1..=4).for_each(|second| breaker.interval(5, 4, at(second)));
        assert_eq!(breaker.bad_intervals, 1, "twenty packets are one interval");
        (5..=8).for_each(|second| breaker.interval(5, 5, at(second)));
        assert_eq!(breaker.bad_intervals, 0);
    }

    #[test]
    fn a_path_that_delivers_again_is_used_again() {
        let mut breaker = tripped();
        assert!(!breaker.allows(at(7)) && breaker.allows(at(8)));
        breaker.interval(100, 0, at(7));
        assert_eq!(breaker.deadline(), Some(at(8)), "in a pause nothing is judged");
        breaker.interval(100, 100, at(9));
        assert_eq!((breaker.allows(at(9)), breaker.deadline()), (true, None));
    }

    #[test]
    fn pauses_double_while_the_path_stays_dark_and_shrink_when_it_delivers() {
        let mut breaker = tripped();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let now = breaker.deadline().expect("tripped");
            breaker.interval(100, 0, now);
            pauses.push(breaker.deadline().expect("tripped again") - now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 320, 320, 320].map(Duration::from_secs));
        let now = breaker.deadline().expect("tripped");
        for second in 0..3 {
            breaker.interval(100, 100, now + Duration::from_secs(second));
        }
        assert_eq!(breaker.pause, Duration::from_secs(40));
    }

    fn originals(sent: u64, received: u64, bursts: u32) -> Originals {
        Originals { sent, received, bursts }
    }

    /// A breaker that tripped at the third second, as `lost` of each 100 packets were lost.
    fn tripped_by(lost: u64) -> Breaker {
        let mut breaker = Breaker::new();
        (1..=3).for_each(|second| breaker.interval(100, 100 - lost, at(second)));
        assert_eq!(breaker.deadline(), Some(at(8)));
        breaker
    }

    #[test]
    fn copies_go_on_where_as_much_is_lost_without_them() {
        let mut breaker = tripped_by(20);
        breaker.note_originals(at(3), originals(10, 8, 1), at(4));
        assert!(!breaker.allows(at(4)), "one burst says little");
        breaker.note_originals(at(4), originals(15, 14, 1), at(4));
        assert!(breaker.allows(at(4)), "3 of 25 are more than half of 20 %");
        for second in 5..64 {
            breaker.interval(100, 80, at(second));
        }
        assert!(breaker.allows(at(64)), "for a minute no loss is blamed on copies");
        (64..67).for_each(|second| breaker.interval(100, 80, at(second)));
        assert!(!breaker.allows(at(66)));
        breaker.note_originals(at(66), originals(10, 5, 3), at(67));
        breaker.note_originals(at(67), originals(10, 9, 1), at(67));
        assert_eq!(breaker.acquitted_until, at(67 + 120), "twice as long");
    }

    #[test]
    fn copies_stay_away_where_less_is_lost_without_them() {
        let mut breaker = tripped_by(20);
        breaker.note_originals(at(2), originals(10, 0, 5), at(4));
        assert!(!breaker.allows(at(4)), "that was before the pause");
        breaker.note_originals(at(4), originals(50, 46, 2), at(6));
        breaker.note_originals(at(5), originals(50, 45, 2), at(6));
        assert!(!breaker.allows(at(6)), "9 % are less than half of 20 %");
        breaker.note_originals(at(8), originals(10, 0, 5), at(8));
        assert_eq!(breaker.acquitted_until, Time::START, "the pause is over");
    }

    #[test]
    fn more_received_than_sent_is_no_loss() {
        let mut breaker = Breaker::new();
        (1..=9).for_each(|second| breaker.interval(100, 101, at(second)));
        assert_eq!(breaker.trips(), 0);
    }
}
