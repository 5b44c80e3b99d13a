//! How long packets to a peer may be: path MTU discovery by padded probes (RFC 8899).
//!
//! Each probe is one of the lengths that paths have in practice, the
//! longest first. It leaves with an ordinary probe, and counts as lost when an ordinary one that left later is answered: what loses
//! all packets, or delays them, says nothing of lengths. So the search has no timer of its own, and only those pay for it who have something
//! to send that is long. A length that has passed is [checked](super::length_checks) as long as packets of it are sent. If
//! they do not pass any more, the path carries what every path does, until a padded probe passes again.

use core::net::SocketAddr;

use byway_units::{Duration, Time};

use super::length_checks::{Finding, LengthChecks};
use crate::limits::{
    MTU_CHECK_INTERVAL, MTU_CHECK_LOSSES_MAX, MTU_PROBE_LOSSES_MAX, MTU_RAISE_INTERVAL, MTU_RAISE_SOON,
    MTU_WANTED_FOR, PAYLOAD_BYTES_BASE, PAYLOAD_BYTES_PROBED,
};

/// How much later than a padded probe an ordinary one has to leave so that its answer shows the other to be lost, and not overtaken.
const OVERTAKES_WITHIN: Duration = Duration::from_millis(25);

/// A padded probe on its way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u32,
    bytes: usize,
    sent: Time,
}

/// What is known of the longest UDP payload on the way to a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMtu {
    /// Where the path leads. To another address, it is another path.
    to: Option<SocketAddr>,
    /// The longest payload that has passed, if one has that is longer than every path carries.
    passed: Option<usize>,
    /// The length that is probed next, of those in the table; behind its end none is.
    step: usize,
    /// How many probes of that length in a row were lost.
    lost: u8,
    under_way: Option<UnderWay>,
    /// Whether the search has come to an end before.
    is_settled: bool,
    /// Whether something else says that what has passed does not any more.
    is_doubtful: bool,
    /// True from when long packets were found not to pass until a padded probe does.
    is_narrowed: bool,
    checks: LengthChecks,
    /// When the next probe is worth sending, and when longer ones than have passed are.
    next: Time,
    raise: Time,
    /// When something long was last to be sent.
    wanted: Option<Time>,
}

impl PathMtu {
    /// The longest UDP payload that is known to reach an address.
    pub(crate) fn payload_bytes(&self, to: SocketAddr) -> usize {
        self.passed.filter(|_| self.to == Some(to)).unwrap_or(PAYLOAD_BYTES_BASE)
    }

    /// The same, once the search has ended; whoever is told keeps it for long, so that what may be more in a moment is not told.
    pub(crate) fn settled(&self, to: SocketAddr) -> Option<usize> {
        let is_searching = self.passed.is_none() && self.step < PAYLOAD_BYTES_PROBED.len();
        (self.is_settled && !is_searching && self.to == Some(to)).then(|| self.payload_bytes(to))
    }

    /// True if long packets were found not to pass, and since then no padded probe has.
    pub(crate) const fn is_narrowed(&self) -> bool {
        self.is_narrowed
    }

    /// Counts a packet that is longer than every path carries; true if that plans a check.
    pub(crate) fn on_long_sent(&mut self, to: SocketAddr, now: Time) -> bool {
        self.to == Some(to) && self.passed.is_some() && self.checks.on_sent(now)
    }

    /// When the next check is due.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.checks.deadline()
    }

    /// The padded probes that are to leave now in front of a check: how many, of what length. `None` if none is due.
    pub(crate) fn check_due(&mut self, now: Time) -> Option<(u32, usize)> {
        Some((self.checks.due(now)?, self.passed?))
    }

    /// Notes a check that leaves now.
    pub(crate) fn on_check(&mut self, number: u32, now: Time) {
        self.checks.on_check(number, now);
    }

    /// Plans no check of what was sent: the path is not in use.
    pub(crate) fn cancel_checks(&mut self) {
        self.checks.restart();
    }

    /// True if a check with this number is under way.
    pub(crate) fn is_check(&self, number: u32) -> bool {
        self.checks.is_check(number)
    }

    /// Takes the reply to a check: so many long packets have arrived. If the path was found to be narrower, since when.
    pub(crate) fn on_check_reply(&mut self, number: u32, arrived: u32, now: Time) -> Option<Time> {
        match self.checks.on_reply(number, arrived, now) {
            Finding::Narrowed => self.narrow(None, now),
            Finding::Nothing | Finding::Missing => None,
        }
    }

    /// Long packets do not pass any more, or at most those of a payload that a router or the interface has named. If that
    /// is news, returns the time from which on they may be lost.
    pub(crate) fn narrow(&mut self, payload_bytes: Option<usize>, now: Time) -> Option<Time> {
        let passed = self.passed.filter(|passed| payload_bytes.is_none_or(|bytes| bytes < *passed))?;
        let since = self.checks.intact_until();
        // The search begins with what has passed so far, if nobody knows better: it may pass again in a moment.
        let longest = payload_bytes.unwrap_or(passed);
        let fits = PAYLOAD_BYTES_PROBED.iter().position(|bytes| *bytes <= longest);
        self.step = fits.unwrap_or(PAYLOAD_BYTES_PROBED.len());
        (self.passed, self.under_way, self.lost) = (None, None, 0);
        (self.is_doubtful, self.is_narrowed) = (false, true);
        (self.next, self.raise) = (now, now + MTU_RAISE_SOON);
        self.checks.restart();
        Some(since)
    }

    /// Something says that the path may have changed: most packets are lost, or this side is somewhere else. What has passed is
    /// checked at once.
    pub(crate) fn doubt(&mut self, now: Time) {
        if self.is_settled && self.passed.is_some() && !self.is_doubtful {
            self.is_doubtful = true;
            self.next = now;
        }
    }

    /// Notes that something is to be sent to an address that takes more than every path carries.
    pub(crate) fn want(&mut self, to: SocketAddr, now: Time) {
        if self.to != Some(to) {
            *self = Self { to: Some(to), ..Self::default() };
        }
        self.wanted = Some(now);
    }

    /// The length of the padded probe that is to leave now with an ordinary one, if one is.
    pub(crate) fn due(&mut self, to: SocketAddr, now: Time) -> Option<usize> {
        let is_wanted = self.wanted.is_some_and(|at| now.saturating_since(at) < MTU_WANTED_FOR);
        if self.to != Some(to) || !is_wanted || self.under_way.is_some() || now < self.next {
            return None;
        }
        if self.is_settled && self.raise <= now {
            (self.step, self.lost) = (0, 0);
            self.raise = now + MTU_RAISE_INTERVAL;
        }
        PAYLOAD_BYTES_PROBED.get(self.step).copied()
    }

    /// Notes that a padded probe has left.
    pub(crate) const fn sent(&mut self, number: u32, bytes: usize, now: Time) {
        self.under_way = Some(UnderWay { number, bytes, sent: now });
    }

    /// A probe was answered, and so many long packets have arrived; whether it was the padded one.
    pub(crate) fn answered(&mut self, number: u32, arrived: u32, now: Time) -> bool {
        let Some(passed) = self.under_way.take_if(|probe| probe.number == number) else {
            return false;
        };
        self.passed = Some(passed.bytes);
        (self.lost, self.is_doubtful, self.is_narrowed) = (0, false, false);
        self.checks.begin(arrived);
        self.settle(now);
        true
    }

    /// An ordinary probe that was sent then is answered: the padded one, if it left before, is lost.
    pub(crate) fn passed_by(&mut self, sent: Time, now: Time) {
        let overtaken = |probe: &mut UnderWay| probe.sent + OVERTAKES_WITHIN <= sent;
        let Some(UnderWay { bytes, .. }) = self.under_way.take_if(overtaken) else {
            return;
        };
        self.lost += 1;
        // Paths that lose many packets of all lengths do not get narrower for that.
        let is_known = self.passed == Some(bytes) && !self.is_doubtful;
        if self.lost < if is_known { MTU_CHECK_LOSSES_MAX } else { MTU_PROBE_LOSSES_MAX } {
            return;
        }
        (self.lost, self.is_doubtful) = (0, false);
        self.step += 1;
        if self.passed == Some(bytes) {
            // It does not pass any more, or that was an error.
            self.passed = None;
            self.raise = now + MTU_RAISE_SOON;
            self.checks.restart();
        }
        if self.step >= PAYLOAD_BYTES_PROBED.len() {
            self.settle(now);
        }
    }

    /// The search has ended: with a length that is checked now and then, or, at the end of the table, with none for long.
    fn settle(&mut self, now: Time) {
        if !self.is_settled || self.raise <= now {
            self.raise = now + MTU_RAISE_INTERVAL;
        }
        self.is_settled = true;
        self.next = if self.passed.is_some() { now + MTU_CHECK_INTERVAL } else { self.raise };
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;

    const LONGEST: usize = PAYLOAD_BYTES_PROBED[0];

    fn address(last: u8) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600)
    }

    /// A path that carries so much, to which something long is sent all the time, and ordinary probes five times a second.
    struct Path {
        mtu: PathMtu,
        carries: usize,
        now: Time,
        number: u32,
        /// The lengths of all padded probes.
        probed: alloc::vec::Vec<usize>,
    }

    impl Path {
        fn new(carries: usize) -> Self {
            let mtu = PathMtu::default();
            Self { mtu, carries, now: Time::START, number: 0, probed: alloc::vec::Vec::new() }
        }

        /// Time passes; ordinary probes are answered, or nothing is.
        fn run(&mut self, time: Duration, answers: bool) {
            let end = self.now + time;
            while self.now < end {
                self.mtu.want(address(1), self.now);
                self.number += 1;
                let sent = self.now;
                if let Some(bytes) = self.mtu.due(address(1), sent) {
                    self.mtu.sent(self.number, bytes, sent);
                    self.probed.push(bytes);
                }
                self.now += Duration::from_millis(80);
                if answers {
                    self.mtu.passed_by(sent, self.now);
                    if self.probed.last().is_some_and(|bytes| *bytes <= self.carries) {
                        self.mtu.answered(self.number, 1, self.now);
                    }
                }
                self.now += Duration::from_millis(120);
            }
        }

        fn payload_bytes(&self) -> usize {
            self.mtu.payload_bytes(address(1))
        }
    }

    #[test]
    fn a_path_as_wide_as_an_ethernet_is_found_with_one_probe() {
        let mut path = Path::new(LONGEST);
        assert_eq!((path.payload_bytes(), path.mtu.settled(address(1))), (PAYLOAD_BYTES_BASE, None));
        path.run(Duration::from_secs(5), true);
        assert_eq!((path.payload_bytes(), path.mtu.settled(address(1))), (LONGEST, Some(LONGEST)));
        assert_eq!(path.probed, [LONGEST]);
        path.run(Duration::from_secs(60), true);
        assert_eq!(path.probed.len(), 7, "it is checked every ten seconds: {:?}", path.probed);
    }

    #[test]
    fn every_length_is_found_within_twelve_seconds() {
        for carries in PAYLOAD_BYTES_BASE..=LONGEST + 1 {
            let mut path = Path::new(carries);
            path.run(Duration::from_secs(12), true);
            let longest = PAYLOAD_BYTES_PROBED.into_iter().find(|bytes| *bytes <= carries);
            assert_eq!(path.mtu.settled(address(1)), Some(longest.unwrap_or(PAYLOAD_BYTES_BASE)));
        }
    }

    #[test]
    fn a_path_that_gets_narrower_is_noticed_and_one_that_gets_wider_too() {
        let mut path = Path::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        path.carries = 1_380;
        path.run(Duration::from_secs(18), true);
        assert_eq!(path.payload_bytes(), 1_372);
        path.carries = LONGEST;
        path.run(MTU_RAISE_SOON + Duration::from_secs(15), true);
        assert_eq!(path.payload_bytes(), LONGEST);
    }

    #[test]
    fn a_path_that_carries_nothing_longer_is_left_alone() {
        let mut path = Path::new(PAYLOAD_BYTES_BASE);
        path.run(MTU_RAISE_INTERVAL, true);
        let each = usize::from(MTU_PROBE_LOSSES_MAX) * PAYLOAD_BYTES_PROBED.len();
        assert_eq!(path.probed.len(), each);
    }

    #[test]
    fn a_path_that_loses_a_fifth_of_the_packets_is_as_wide_as_before() {
        let mut path = Path::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        let mut random = crate::random::Generator::new([7; 32]);
        for _ in 0..2_000 {
            path.carries = if random.number() % 5 < 2 { 0 } else { LONGEST };
            path.run(Duration::from_millis(400), true);
            assert_eq!(path.payload_bytes(), LONGEST);
        }
    }

    #[test]
    fn a_path_that_gets_narrower_is_noticed_in_two_seconds_where_most_packets_are_lost() {
        let mut path = Path::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        path.carries = 1_380;
        path.mtu.doubt(path.now);
        path.run(Duration::from_secs(2), true);
        assert!(path.payload_bytes() < LONGEST);
        assert_eq!(path.mtu.settled(address(1)), None, "the search goes on");
        path.run(Duration::from_secs(3), true);
        assert_eq!(path.mtu.settled(address(1)), Some(1_372));
    }

    #[test]
    fn an_outage_says_nothing_of_lengths() {
        let mut path = Path::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        path.run(Duration::from_secs(60), false);
        assert_eq!(path.payload_bytes(), LONGEST);
        assert!(path.probed.len() <= 2, "{:?}", path.probed);
        path.run(Duration::from_secs(60), true);
        assert_eq!(path.payload_bytes(), LONGEST);
    }

    #[test]
    fn a_probe_that_is_overtaken_by_a_little_is_not_lost() {
        let mut path = Path::new(LONGEST);
        path.mtu.want(address(1), Time::START);
        for (number, later) in [(1, 0), (2, 24)] {
            let bytes = path.mtu.due(address(1), Time::START);
            path.mtu.sent(number, bytes.unwrap_or(LONGEST), Time::START);
            for _ in 0..10 {
                path.mtu.passed_by(Time::START + Duration::from_millis(later), Time::START);
            }
        }
        assert!(path.mtu.answered(2, 1, Time::START));
        assert!(!path.mtu.answered(2, 1, Time::START), "it counts once");
    }

    #[test]
    fn another_address_is_another_path() {
        let mut path = Path::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        assert_eq!(path.mtu.payload_bytes(address(2)), PAYLOAD_BYTES_BASE);
        path.mtu.want(address(2), path.now);
        assert_eq!(path.mtu.settled(address(2)), None);
        assert_eq!(path.mtu.due(address(2), path.now), Some(LONGEST));
    }

    #[test]
    fn who_sends_nothing_long_probes_nothing() {
        let mut mtu = PathMtu::default();
        assert_eq!(mtu.due(address(1), Time::START), None);
        mtu.want(address(1), Time::START);
        assert_eq!(mtu.due(address(1), Time::START + MTU_WANTED_FOR), None);
    }

    #[test]
    fn a_path_that_is_found_narrower_carries_the_least_at_once_and_more_by_probes() {
        for (named, first) in [(None, LONGEST), (Some(1_380), 1_372), (Some(1_400), 1_392)] {
            let mut path = Path::new(LONGEST);
            path.run(Duration::from_secs(5), true);
            path.carries = 1_380;
            assert!(path.mtu.narrow(named, path.now).is_some());
            assert_eq!(path.mtu.narrow(named, path.now), None, "it is known");
            assert_eq!((path.payload_bytes(), path.mtu.is_narrowed()), (PAYLOAD_BYTES_BASE, true));
            let before = path.probed.len();
            path.run(Duration::from_secs(4), true);
            assert_eq!(path.probed[before], first);
            assert_eq!((path.payload_bytes(), path.mtu.is_narrowed()), (1_372, false));
            path.carries = LONGEST;
            path.run(MTU_RAISE_SOON + Duration::from_secs(15), true);
            assert_eq!(path.payload_bytes(), LONGEST);
        }
    }

    #[test]
    fn a_name_for_what_the_path_carries_that_is_longer_than_what_passes_changes_nothing() {
        let mut path = Path::new(1_380);
        path.run(Duration::from_secs(12), true);
        assert_eq!(path.mtu.narrow(Some(1_400), path.now), None);
        assert_eq!(path.payload_bytes(), 1_372);
    }
}
