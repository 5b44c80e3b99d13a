//! Circuit breaker (RFC 8084) for copies on a path.

use byway_units::{Duration, Time};

/// Circuit breaker after RFC 8084: stops the traffic on a path that loses too much of it for too
/// long. It tries again after a pause that grows.
///
/// It is for traffic that does not slow down by itself, such as copies. It is not a congestion
/// control: it ends overload that would last otherwise.
///
/// A congested link loses less during a pause of the copies. Radio links lose as much as before:
/// then copies are not the cause, and continue at once, see
/// [`CircuitBreaker::note_source_packets`].
#[derive(Clone, Copy, Debug)]
pub struct CircuitBreaker {
    /// Packets since the last evaluation, too few for another one.
    pending: Tally,
    /// Packets of evaluated intervals; each further interval reduces the weight of earlier ones to
    /// 3/4. Bad intervals in a row alone would misjudge a path whose loss varies.
    recent: Tally,
    bad_intervals: u8,
    pause: Duration,
    /// End of the latest pause; `None` while the breaker is closed. Until then, no copies are sent.
    tripped_until: Option<Time>,
    /// Start of the latest pause.
    paused_at: Time,
    /// Source packets sent on other paths since the start of the pause, and their loss bursts.
    source_packets: Tally,
    bursts: u32,
    /// Time until which losses do not count, because source packets showed that copies do not cause
    /// them.
    acquitted_until: Time,
    acquitted_for: Duration,
    trips: u64,
}

/// Source packets of a flow between two reports of its receiver, by their result.
#[derive(Clone, Copy, Debug)]
pub struct SourcePacketCounts {
    /// Source packets that the sender sent.
    pub sent: u64,
    /// Source packets that the receiver received.
    pub received: u64,
    /// Bursts of losses: runs of consecutive lost packets.
    pub bursts: u32,
}

/// Numbers of packets sent, and of packets lost.
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

    /// True if the loss rate is at least half of that of `others`.
    const fn loses_half_as_much_as(self, others: Self) -> bool {
        2 * self.lost * others.sent >= others.lost * self.sent
    }
}

/// Loss rate of an interval above which it is bad: 1/10. Ordinary congestion stays well below.
/// Copies with such losses are not worth the capacity that they take from other traffic.
const LOST_MAX: (u64, u64) = (1, 10);

/// Number of consecutive bad intervals that trip the breaker: a burst of losses spans one or two.
const BAD_INTERVALS: u8 = 3;

/// Least number of packets in an evaluated interval; smaller intervals are merged with the next. Of
/// ten packets, a single loss is a tenth.
const PACKETS_MIN: u64 = 20;

/// First pause, longer than most outages of a second.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// Longest pause: a restored path is used again within minutes.
const PAUSE_MAX: Duration = Duration::from_secs(320);

/// Bursts of lost source packets that acquit copies. At 10 % loss they take 20 packets, 0.4 s of a
/// voice call. Paths with low loss also lose several packets in a row, but seldom twice in a pause.
const ACQUITTING_BURSTS: u32 = 2;

/// Shortest acquittal: pauses take 1/50 of the time of a path that loses a tenth. An acquittal soon
/// after another lasts twice as long.
const ACQUITTED_MIN: Duration = Duration::from_secs(60);
const ACQUITTED_MAX: Duration = Duration::from_secs(320);

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

impl CircuitBreaker {
    /// Creates a closed breaker: the path is assumed to deliver.
    #[must_use]
    pub const fn new() -> Self {
        let none = Tally { sent: 0, lost: 0 };
        Self {
            pending: none,
            recent: none,
            bad_intervals: 0,
            pause: PAUSE_MIN,
            tripped_until: None,
            paused_at: Time::START,
            source_packets: none,
            bursts: 0,
            acquitted_until: Time::START,
            acquitted_for: Duration::ZERO,
            trips: 0,
        }
    }

    /// True if copies may be sent on the path: no pause is in force. The first copies after a pause
    /// show whether the path delivers again.
    #[must_use]
    pub fn allows(&self, now: Time) -> bool {
        self.tripped_until.is_none_or(|until| now >= until)
    }

    /// Returns the end of the latest pause, which may have passed; `None` while the breaker is
    /// closed.
    #[must_use]
    pub const fn deadline(&self) -> Option<Time> {
        self.tripped_until
    }

    /// Returns the number of times that the breaker stopped the copies.
    #[must_use]
    pub const fn trips(&self) -> u64 {
        self.trips
    }

    /// Records a measurement interval: `sent` copies, `received` of which arrived. If the other
    /// side does not report, `received` is zero. Intervals within a pause or an acquittal are
    /// ignored.
    pub fn on_interval(&mut self, sent: u64, received: u64, now: Time) {
        if !self.allows(now) || now < self.acquitted_until {
            return;
        }
        self.pending.add(Tally { sent, lost: sent.saturating_sub(received) });
        if self.pending.sent >= PACKETS_MIN {
            self.evaluate(now);
        }
    }

    /// Records source packets on another path behind the same access link, the first one sent at
    /// `from`. They count only if they were sent within the current pause.
    ///
    /// If they have two loss bursts, and at least half of the loss rate that copies had before the
    /// pause, copies are not the cause: the pause ends.
    pub fn note_source_packets(&mut self, from: Time, counts: SourcePacketCounts, now: Time) {
        let SourcePacketCounts { sent, received, bursts } = counts;
        if self.tripped_until.is_none_or(|until| now >= until) || from < self.paused_at {
            return;
        }
        self.source_packets.add(Tally { sent, lost: sent.saturating_sub(received) });
        self.bursts = self.bursts.saturating_add(bursts);
        if self.bursts >= ACQUITTING_BURSTS && self.source_packets.loses_half_as_much_as(self.recent) {
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

    /// Closes the breaker, because the path delivers.
    fn recover(&mut self) {
        self.tripped_until = None;
        self.bad_intervals = 0;
    }

    fn evaluate(&mut self, now: Time) {
        let interval = core::mem::take(&mut self.pending);
        self.recent.fade();
        self.recent.add(interval);
        if interval.lost * LOST_MAX.1 <= interval.sent * LOST_MAX.0 {
            self.recover();
            self.pause = (self.pause / 2).max(PAUSE_MIN);
            return;
        }
        self.bad_intervals += 1;
        // After a pause, one bad interval is enough.
        if self.bad_intervals >= BAD_INTERVALS || self.tripped_until.is_some() {
            self.trip(now);
        }
    }

    fn trip(&mut self, now: Time) {
        self.tripped_until = Some(now.saturating_add(self.pause));
        (self.paused_at, self.source_packets, self.bursts) = (now, Tally::default(), 0);
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

    fn tripped() -> CircuitBreaker {
        let mut breaker = CircuitBreaker::new();
        (1..=3).for_each(|second| breaker.on_interval(100, 0, at(second)));
        breaker
    }

    #[test]
    fn three_bad_intervals_in_a_row_trip() {
        let mut breaker = CircuitBreaker::new();
        for (second, received) in (1..).zip([89, 89, 90, 89, 89]) {
            breaker.on_interval(100, received, at(second));
        }
        assert!(breaker.allows(at(5)));
        breaker.on_interval(100, 89, at(6));
        assert_eq!((breaker.allows(at(6)), breaker.trips(), breaker.deadline()), (false, 1, Some(at(11))));
    }

    #[test]
    fn a_tenth_lost_is_borne() {
        let mut breaker = CircuitBreaker::new();
        (1..100).for_each(|second| breaker.on_interval(100, 90, at(second)));
        assert_eq!(breaker.trips(), 0);
    }

    #[test]
    fn one_loss_of_few_packets_is_no_verdict() {
        let mut breaker = CircuitBreaker::new();
        // One lost of five, four times, and then no loss.
        (1..=4).for_each(|second| breaker.on_interval(5, 4, at(second)));
        assert_eq!(breaker.bad_intervals, 1, "twenty packets are one interval");
        (5..=8).for_each(|second| breaker.on_interval(5, 5, at(second)));
        assert_eq!(breaker.bad_intervals, 0);
    }

    #[test]
    fn a_path_that_delivers_again_is_used_again() {
        let mut breaker = tripped();
        assert!(!breaker.allows(at(7)) && breaker.allows(at(8)));
        breaker.on_interval(100, 0, at(7));
        assert_eq!(breaker.deadline(), Some(at(8)), "in a pause nothing is judged");
        breaker.on_interval(100, 100, at(9));
        assert_eq!((breaker.allows(at(9)), breaker.deadline()), (true, None));
    }

    #[test]
    fn pauses_double_while_the_path_stays_dark_and_shrink_when_it_delivers() {
        let mut breaker = tripped();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let now = breaker.deadline().expect("tripped");
            breaker.on_interval(100, 0, now);
            pauses.push(breaker.deadline().expect("tripped again") - now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 320, 320, 320].map(Duration::from_secs));
        let now = breaker.deadline().expect("tripped");
        for second in 0..3 {
            breaker.on_interval(100, 100, now + Duration::from_secs(second));
        }
        assert_eq!(breaker.pause, Duration::from_secs(40));
    }

    fn originals(sent: u64, received: u64, bursts: u32) -> SourcePacketCounts {
        SourcePacketCounts { sent, received, bursts }
    }

    /// Returns a breaker that tripped at the third second, because `lost` of each 100 packets were
    /// lost.
    fn tripped_by(lost: u64) -> CircuitBreaker {
        let mut breaker = CircuitBreaker::new();
        (1..=3).for_each(|second| breaker.on_interval(100, 100 - lost, at(second)));
        assert_eq!(breaker.deadline(), Some(at(8)));
        breaker
    }

    #[test]
    fn copies_go_on_where_as_much_is_lost_without_them() {
        let mut breaker = tripped_by(20);
        breaker.note_source_packets(at(3), originals(10, 8, 1), at(4));
        assert!(!breaker.allows(at(4)), "one burst says little");
        breaker.note_source_packets(at(4), originals(15, 14, 1), at(4));
        assert!(breaker.allows(at(4)), "3 of 25 are more than half of 20 %");
        for second in 5..64 {
            breaker.on_interval(100, 80, at(second));
        }
        assert!(breaker.allows(at(64)), "for a minute no loss is blamed on copies");
        (64..67).for_each(|second| breaker.on_interval(100, 80, at(second)));
        assert!(!breaker.allows(at(66)));
        breaker.note_source_packets(at(66), originals(10, 5, 3), at(67));
        breaker.note_source_packets(at(67), originals(10, 9, 1), at(67));
        assert_eq!(breaker.acquitted_until, at(67 + 120), "twice as long");
    }

    #[test]
    fn copies_stay_away_where_less_is_lost_without_them() {
        let mut breaker = tripped_by(20);
        breaker.note_source_packets(at(2), originals(10, 0, 5), at(4));
        assert!(!breaker.allows(at(4)), "that was before the pause");
        breaker.note_source_packets(at(4), originals(50, 46, 2), at(6));
        breaker.note_source_packets(at(5), originals(50, 45, 2), at(6));
        assert!(!breaker.allows(at(6)), "9 % are less than half of 20 %");
        breaker.note_source_packets(at(8), originals(10, 0, 5), at(8));
        assert_eq!(breaker.acquitted_until, Time::START, "the pause is over");
    }

    #[test]
    fn more_received_than_sent_is_no_loss() {
        let mut breaker = CircuitBreaker::new();
        (1..=9).for_each(|second| breaker.on_interval(100, 101, at(second)));
        assert_eq!(breaker.trips(), 0);
    }
}
