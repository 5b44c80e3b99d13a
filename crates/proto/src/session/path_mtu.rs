//! Path MTU discovery of a session by padded probes (RFC 8899).
//!
//! Each probe has one of the lengths that are common on the Internet, the longest first. It is sent
//! with an ordinary probe. It counts as lost when an ordinary probe that was sent later is
//! answered: losses or delays of all packets do not depend on length. So the search has no timer of
//! its own, and sessions without long packets do not search. A length that has passed is
//! [checked](super::length_checks) as long as packets of it are sent. If they do not pass any more,
//! the session uses [`PAYLOAD_BYTES_BASE`] until a padded probe passes again.

use core::net::SocketAddr;

use byway_units::{Duration, Time};

use super::length_checks::{CheckResult, LengthChecks};
use crate::limits::{
    MTU_CHECK_INTERVAL, MTU_CHECK_LOSSES_MAX, MTU_PROBE_LOSSES_MAX, MTU_RAISE_INTERVAL, MTU_RAISE_SOON,
    MTU_WANTED_FOR, PAYLOAD_BYTES_BASE, PAYLOAD_BYTES_PROBED,
};

/// Time between a padded probe and a later ordinary one from which on the latter's answer shows
/// that the padded one is lost. At less, it may have been overtaken.
const OVERTAKES_WITHIN: Duration = Duration::from_millis(25);

/// Padded probe that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct PaddedProbe {
    number: u32,
    bytes: usize,
    sent: Time,
}

/// State of the search for the longest UDP payload on a path to a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMtu {
    /// Address for which the state is valid; another address restarts the search.
    to: Option<SocketAddr>,
    /// Longest known payload above [`PAYLOAD_BYTES_BASE`] that has reached the peer; `None` without
    /// one.
    passed: Option<usize>,
    /// Index in [`PAYLOAD_BYTES_PROBED`] of the length to probe next; at the end of the table, no
    /// probe is due.
    step: usize,
    /// Number of consecutive lost probes of the length at `step`.
    lost: u8,
    in_flight: Option<PaddedProbe>,
    /// True if the search has finished at least once.
    is_settled: bool,
    /// True if lost packets or a path change suggest that the known length does not pass any more.
    is_doubtful: bool,
    /// True if long packets stopped to pass, and no padded probe has passed since.
    is_narrowed: bool,
    checks: LengthChecks,
    /// Earliest times of the next padded probe, and of probes longer than the known length.
    next: Time,
    raise: Time,
    /// Time at which a long packet was last to be sent; without recent ones, nothing is probed.
    wanted: Option<Time>,
}

impl PathMtu {
    /// Returns the longest UDP payload in bytes that is known to reach this address, at least
    /// [`PAYLOAD_BYTES_BASE`].
    pub(crate) fn payload_bytes(&self, to: SocketAddr) -> usize {
        self.passed.filter(|_| self.to == Some(to)).unwrap_or(PAYLOAD_BYTES_BASE)
    }

    /// Returns the longest UDP payload in bytes that is known to reach this address; `None` during
    /// a search, because a longer one may soon be known. It is for callers that store the value for
    /// long.
    pub(crate) fn settled(&self, to: SocketAddr) -> Option<usize> {
        let is_searching = self.passed.is_none() && self.step < PAYLOAD_BYTES_PROBED.len();
        (self.is_settled && !is_searching && self.to == Some(to)).then(|| self.payload_bytes(to))
    }

    /// True if long packets stopped to pass, and no padded probe has passed since.
    pub(crate) const fn is_narrowed(&self) -> bool {
        self.is_narrowed
    }

    /// Counts a long packet sent to this address; returns true if that sets the time of the next
    /// length check.
    pub(crate) fn on_long_sent(&mut self, to: SocketAddr, now: Time) -> bool {
        self.to == Some(to) && self.passed.is_some() && self.checks.on_sent(now)
    }

    /// Returns the time of the next length check.
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.checks.deadline()
    }

    /// Returns the number and length in bytes of the padded probes to send now, before the length
    /// check that is due; `None` if no check is due.
    pub(crate) fn check_due(&mut self, now: Time) -> Option<(u32, usize)> {
        Some((self.checks.due(now)?, self.passed?))
    }

    /// Records that the session sends a length check now, as the probe with this number.
    pub(crate) fn on_check(&mut self, number: u32, now: Time) {
        self.checks.on_check(number, now);
    }

    /// Cancels the length checks, because the session does not use the direct path now.
    pub(crate) fn cancel_checks(&mut self) {
        self.checks.restart();
    }

    /// True if the probe with this number is a length check in flight.
    pub(crate) fn is_check(&self, number: u32) -> bool {
        self.checks.is_check(number)
    }

    /// Handles the reply to a length check; `arrived` is the peer's count of long packets. If it
    /// shows that the path became narrower, returns the time since when long packets may be lost.
    pub(crate) fn on_check_reply(&mut self, number: u32, arrived: u32, now: Time) -> Option<Time> {
        match self.checks.on_reply(number, arrived, now) {
            CheckResult::Narrowed => self.narrow(None, now),
            CheckResult::Nothing | CheckResult::Missing => None,
        }
    }

    /// Handles that long packets do not reach the peer any more: by a length check (`None`), or by
    /// a router or the interface that named the largest payload. Returns the time since when they
    /// may be lost; `None` if the named payload is no news.
    pub(crate) fn narrow(&mut self, payload_bytes: Option<usize>, now: Time) -> Option<Time> {
        let passed = self.passed.filter(|passed| payload_bytes.is_none_or(|bytes| bytes < *passed))?;
        let since = self.checks.intact_until();
        // Without a named payload, the search begins with the last known length, because it may
        // pass again in a moment.
        let longest = payload_bytes.unwrap_or(passed);
        let fits = PAYLOAD_BYTES_PROBED.iter().position(|bytes| *bytes <= longest);
        self.step = fits.unwrap_or(PAYLOAD_BYTES_PROBED.len());
        (self.passed, self.in_flight, self.lost) = (None, None, 0);
        (self.is_doubtful, self.is_narrowed) = (false, true);
        (self.next, self.raise) = (now, now + MTU_RAISE_SOON);
        self.checks.restart();
        Some(since)
    }

    /// Records evidence of a path change: most packets are lost, or this side moved. A padded probe
    /// of the known length is due at once.
    pub(crate) fn doubt(&mut self, now: Time) {
        if self.is_settled && self.passed.is_some() && !self.is_doubtful {
            self.is_doubtful = true;
            self.next = now;
        }
    }

    /// Records that a long packet should be sent to this address, so that padded probes look for a
    /// longer payload. Another address restarts the search.
    pub(crate) fn request_probing(&mut self, to: SocketAddr, now: Time) {
        if self.to != Some(to) {
            *self = Self { to: Some(to), ..Self::default() };
        }
        self.wanted = Some(now);
    }

    /// Returns the length in bytes of the padded probe to send now with an ordinary one; `None` if
    /// none is due.
    pub(crate) fn due(&mut self, to: SocketAddr, now: Time) -> Option<usize> {
        let is_wanted = self.wanted.is_some_and(|at| now.saturating_since(at) < MTU_WANTED_FOR);
        if self.to != Some(to) || !is_wanted || self.in_flight.is_some() || now < self.next {
            return None;
        }
        if self.is_settled && self.raise <= now {
            (self.step, self.lost) = (0, 0);
            self.raise = now + MTU_RAISE_INTERVAL;
        }
        PAYLOAD_BYTES_PROBED.get(self.step).copied()
    }

    /// Records that a padded probe was sent, with a UDP payload of `bytes` bytes.
    pub(crate) const fn on_sent(&mut self, number: u32, bytes: usize, now: Time) {
        self.in_flight = Some(PaddedProbe { number, bytes, sent: now });
    }

    /// Handles the reply to a probe. If it is the padded one in flight, its length has passed, and
    /// the function returns true. `arrived` is the peer's count of long packets.
    pub(crate) fn on_reply(&mut self, number: u32, arrived: u32, now: Time) -> bool {
        let Some(passed) = self.in_flight.take_if(|probe| probe.number == number) else {
            return false;
        };
        self.passed = Some(passed.bytes);
        (self.lost, self.is_doubtful, self.is_narrowed) = (0, false, false);
        self.checks.begin(arrived);
        self.finish_search(now);
        true
    }

    /// Handles the answer to an ordinary probe that was sent at `sent`. A padded probe sent well
    /// before counts as lost; after several losses, the next length is probed.
    pub(crate) fn on_later_reply(&mut self, sent: Time, now: Time) {
        let overtaken = |probe: &mut PaddedProbe| probe.sent + OVERTAKES_WITHIN <= sent;
        let Some(PaddedProbe { bytes, .. }) = self.in_flight.take_if(overtaken) else {
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
            // The known length does not pass any more, or the finding was an error.
            self.passed = None;
            self.raise = now + MTU_RAISE_SOON;
            self.checks.restart();
        }
        if self.step >= PAYLOAD_BYTES_PROBED.len() {
            self.finish_search(now);
        }
    }

    /// Ends the search. If a length was found, it is probed again from time to time. If none was
    /// found, the next search begins much later.
    fn finish_search(&mut self, now: Time) {
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

    /// A path with a largest payload, with constant demand for long packets, and ordinary probes
    /// five times a second.
    struct TestPath {
        mtu: PathMtu,
        payload_bytes_max: usize,
        now: Time,
        number: u32,
        /// Lengths of all padded probes.
        probed: alloc::vec::Vec<usize>,
    }

    impl TestPath {
        fn new(carries: usize) -> Self {
            let mtu = PathMtu::default();
            Self {
                mtu,
                payload_bytes_max: carries,
                now: Time::START,
                number: 0,
                probed: alloc::vec::Vec::new(),
            }
        }

        /// Runs the path for a time, with answers to ordinary probes or without any.
        fn run(&mut self, time: Duration, answers: bool) {
            let end = self.now + time;
            while self.now < end {
                self.mtu.request_probing(address(1), self.now);
                self.number += 1;
                let sent = self.now;
                if let Some(bytes) = self.mtu.due(address(1), sent) {
                    self.mtu.on_sent(self.number, bytes, sent);
                    self.probed.push(bytes);
                }
                self.now += Duration::from_millis(80);
                if answers {
                    self.mtu.on_later_reply(sent, self.now);
                    if self.probed.last().is_some_and(|bytes| *bytes <= self.payload_bytes_max) {
                        self.mtu.on_reply(self.number, 1, self.now);
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
        let mut path = TestPath::new(LONGEST);
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
            let mut path = TestPath::new(carries);
            path.run(Duration::from_secs(12), true);
            let longest = PAYLOAD_BYTES_PROBED.into_iter().find(|bytes| *bytes <= carries);
            assert_eq!(path.mtu.settled(address(1)), Some(longest.unwrap_or(PAYLOAD_BYTES_BASE)));
        }
    }

    #[test]
    fn a_path_that_gets_narrower_is_noticed_and_one_that_gets_wider_too() {
        let mut path = TestPath::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        path.payload_bytes_max = 1_380;
        path.run(Duration::from_secs(18), true);
        assert_eq!(path.payload_bytes(), 1_372);
        path.payload_bytes_max = LONGEST;
        path.run(MTU_RAISE_SOON + Duration::from_secs(15), true);
        assert_eq!(path.payload_bytes(), LONGEST);
    }

    #[test]
    fn a_path_that_carries_nothing_longer_is_left_alone() {
        let mut path = TestPath::new(PAYLOAD_BYTES_BASE);
        path.run(MTU_RAISE_INTERVAL, true);
        let each = usize::from(MTU_PROBE_LOSSES_MAX) * PAYLOAD_BYTES_PROBED.len();
        assert_eq!(path.probed.len(), each);
    }

    #[test]
    fn a_path_that_loses_a_fifth_of_the_packets_is_as_wide_as_before() {
        let mut path = TestPath::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        let mut random = crate::random::Generator::new([7; 32]);
        for _ in 0..2_000 {
            path.payload_bytes_max = if random.number() % 5 < 2 { 0 } else { LONGEST };
            path.run(Duration::from_millis(400), true);
            assert_eq!(path.payload_bytes(), LONGEST);
        }
    }

    #[test]
    fn a_path_that_gets_narrower_is_noticed_in_two_seconds_where_most_packets_are_lost() {
        let mut path = TestPath::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        path.payload_bytes_max = 1_380;
        path.mtu.doubt(path.now);
        path.run(Duration::from_secs(2), true);
        assert!(path.payload_bytes() < LONGEST);
        assert_eq!(path.mtu.settled(address(1)), None, "the search goes on");
        path.run(Duration::from_secs(3), true);
        assert_eq!(path.mtu.settled(address(1)), Some(1_372));
    }

    #[test]
    fn an_outage_says_nothing_of_lengths() {
        let mut path = TestPath::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        path.run(Duration::from_secs(60), false);
        assert_eq!(path.payload_bytes(), LONGEST);
        assert!(path.probed.len() <= 2, "{:?}", path.probed);
        path.run(Duration::from_secs(60), true);
        assert_eq!(path.payload_bytes(), LONGEST);
    }

    #[test]
    fn a_probe_that_is_overtaken_by_a_little_is_not_lost() {
        let mut path = TestPath::new(LONGEST);
        path.mtu.request_probing(address(1), Time::START);
        for (number, later) in [(1, 0), (2, 24)] {
            let bytes = path.mtu.due(address(1), Time::START);
            path.mtu.on_sent(number, bytes.unwrap_or(LONGEST), Time::START);
            for _ in 0..10 {
                path.mtu.on_later_reply(Time::START + Duration::from_millis(later), Time::START);
            }
        }
        assert!(path.mtu.on_reply(2, 1, Time::START));
        assert!(!path.mtu.on_reply(2, 1, Time::START), "it counts once");
    }

    #[test]
    fn another_address_is_another_path() {
        let mut path = TestPath::new(LONGEST);
        path.run(Duration::from_secs(5), true);
        assert_eq!(path.mtu.payload_bytes(address(2)), PAYLOAD_BYTES_BASE);
        path.mtu.request_probing(address(2), path.now);
        assert_eq!(path.mtu.settled(address(2)), None);
        assert_eq!(path.mtu.due(address(2), path.now), Some(LONGEST));
    }

    #[test]
    fn who_sends_nothing_long_probes_nothing() {
        let mut mtu = PathMtu::default();
        assert_eq!(mtu.due(address(1), Time::START), None);
        mtu.request_probing(address(1), Time::START);
        assert_eq!(mtu.due(address(1), Time::START + MTU_WANTED_FOR), None);
    }

    #[test]
    fn a_path_that_is_found_narrower_carries_the_least_at_once_and_more_by_probes() {
        for (named, first) in [(None, LONGEST), (Some(1_380), 1_372), (Some(1_400), 1_392)] {
            let mut path = TestPath::new(LONGEST);
            path.run(Duration::from_secs(5), true);
            path.payload_bytes_max = 1_380;
            assert!(path.mtu.narrow(named, path.now).is_some());
            assert_eq!(path.mtu.narrow(named, path.now), None, "it is known");
            assert_eq!((path.payload_bytes(), path.mtu.is_narrowed()), (PAYLOAD_BYTES_BASE, true));
            let before = path.probed.len();
            path.run(Duration::from_secs(4), true);
            assert_eq!(path.probed[before], first);
            assert_eq!((path.payload_bytes(), path.mtu.is_narrowed()), (1_372, false));
            path.payload_bytes_max = LONGEST;
            path.run(MTU_RAISE_SOON + Duration::from_secs(15), true);
            assert_eq!(path.payload_bytes(), LONGEST);
        }
    }

    #[test]
    fn a_name_for_what_the_path_carries_that_is_longer_than_what_passes_changes_nothing() {
        let mut path = TestPath::new(1_380);
        path.run(Duration::from_secs(12), true);
        assert_eq!(path.mtu.narrow(Some(1_400), path.now), None);
        assert_eq!(path.payload_bytes(), 1_372);
    }
}
