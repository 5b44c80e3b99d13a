//! Addresses of a session's peer: the validated one, and candidates.

use alloc::boxed::Box;
use core::net::{IpAddr, SocketAddr};

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use super::uplink_choice::UplinkChoice;
use crate::limits::{AMPLIFICATION_MAX, CANDIDATE_INTERVAL, CANDIDATES_MAX, CHALLENGE_RETRY, CHALLENGES_MAX};
use crate::network_path::{LocalAddress, NetworkPath, Uplink};

/// Random secret of a challenge. Only a node that receives at the challenged address can return it.
pub(crate) type Token = [u8; 8];

/// Possible address of the peer that is challenged: a packet arrived from it, or it is named. Until
/// it answers, it gets only challenges.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    path: NetworkPath,
    token: Token,
    /// Number of bytes that may still be sent to the address, against amplification.
    allowance: usize,
    tries: u8,
    next_try: Time,
    /// Time until which an answer makes the session move there; `None` for any time.
    until: Option<Time>,
}

/// Addresses of one peer: the one in use, and candidates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    validated: Option<NetworkPath>,
    /// Possible addresses that are challenged, oldest first.
    candidates: ArrayVec<Candidate, CANDIDATES_MAX>,
    /// Time at which the peer may again name the full number of addresses in one message.
    names_all_at: Time,
    /// Time of the last packet from the address in use, or of its validation.
    alive: Time,
    /// Choice between the node's uplinks; `None` if it has one.
    choice: Option<Box<UplinkChoice>>,
}

/// Time after a packet from an IPv4 address during which the session does not switch to an IPv6
/// address. A peer with both sends from either until both sides have settled, and IPv4 packets are
/// 20 bytes shorter.
const IPV4_ALIVE_FOR: Duration = Duration::from_secs(1);

impl Path {
    /// Returns the address to which packets for the peer go; `None` if none is validated.
    #[inline]
    pub(crate) const fn address(&self) -> Option<&SocketAddr> {
        match &self.validated {
            Some(path) => Some(&path.remote),
            None => None,
        }
    }

    /// Returns the address to which packets for the peer go, and their local address.
    #[inline]
    pub(crate) const fn network_path(&self) -> Option<&NetworkPath> {
        self.validated.as_ref()
    }

    /// Uses this address for the peer from now on, and removes all candidates.
    pub(crate) fn validate(&mut self, path: NetworkPath, now: Time) {
        let (before, uplink) = (self.validated.map(|path| path.local.uplink()), path.local.uplink());
        if let Some(choice) = &mut self.choice
            && before.unwrap_or(choice.preferred()) != uplink
        {
            choice.on_changed(uplink, now);
        }
        self.validated = Some(path);
        self.alive = now;
        self.candidates.clear();
    }

    /// Uses the address from which the peer answered a packet of this side. The local address stays
    /// the system's choice, so that it may change as this node moves, unless the peer chose one
    /// before.
    pub(crate) fn validate_answer(&mut self, from: NetworkPath, now: Time) {
        let in_use = self.validated.filter(|path| path.remote == from.remote && !path.local.is_any());
        let local = in_use.map_or(LocalAddress::any_at(from.local.uplink()), |_| from.local);
        self.validate(NetworkPath { local, ..from }, now);
    }

    /// Sets the local address for packets to the peer. The peer has sent a challenge to it, or has
    /// begun an epoch there. It does not change the uplink: that is this node's choice alone.
    pub(crate) fn set_local(&mut self, local: LocalAddress) {
        if let Some(path) = &mut self.validated
            && path.local.uplink() == local.uplink()
        {
            path.local = local;
        }
    }

    /// Lets the session choose between two uplinks of the node, of which it prefers this one.
    pub(crate) fn prefer_uplink(&mut self, preferred: Uplink) {
        self.choice = Some(Box::new(UplinkChoice::new(preferred)));
    }

    /// True if the node has two uplinks, and a refusal of the one in use may change it now.
    pub(crate) fn may_change_uplink(&self, now: Time) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.may_change(now))
    }

    /// Returns the uplink of packets for the peer; before an address is validated, the preferred
    /// one.
    pub(crate) fn uplink(&self) -> Uplink {
        let preferred = self.choice.as_ref().map_or(Uplink::First, |choice| choice.preferred());
        self.validated.map_or(preferred, |path| path.local.uplink())
    }

    /// Returns the uplinks by which the peer may be reached, first the one in use.
    pub(crate) fn uplinks(&self) -> ArrayVec<Uplink, 2> {
        let (in_use, has_other) = (self.uplink(), self.choice.is_some());
        [Some(in_use), has_other.then_some(in_use.other())].into_iter().flatten().collect()
    }

    /// Records a probe by the address in use.
    pub(crate) fn on_probe_sent(&mut self) {
        if let (Some(choice), Some(_)) = (&mut self.choice, &self.validated) {
            choice.on_probe_sent();
        }
    }

    /// Returns the path of a probe by the uplink that is not in use, if one is due.
    pub(crate) fn pop_observation(&mut self, now: Time) -> Option<NetworkPath> {
        let (path, choice) = (self.validated?, self.choice.as_mut()?);
        choice.pop_observation(now).then(|| NetworkPath::by(path.local.uplink().other(), path.remote))
    }

    /// Records the number of a probe by the uplink that is not in use.
    pub(crate) fn on_observation_sent(&mut self, number: u32) {
        if let Some(choice) = &mut self.choice {
            choice.on_observation_sent(number);
        }
    }

    /// True if this is the number of the latest probe by the uplink that was not in use.
    pub(crate) fn accept_observation(&mut self, number: u32) -> bool {
        self.choice.as_mut().is_some_and(|choice| choice.accept_observation(number))
    }

    /// Returns the number of probes by the uplink in use that are unanswered; 0 if it is the only
    /// one.
    pub(crate) fn unanswered(&self) -> u8 {
        self.choice.as_ref().map_or(0, |choice| choice.unanswered())
    }

    /// True if the node has two uplinks, and the one in use does not deliver.
    pub(crate) fn is_uplink_silent(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.is_silent())
    }

    /// Sends packets for the peer by the node's other uplink from now on. The peer's address stays,
    /// as only the peer can name another.
    pub(crate) fn change_uplink(&mut self, now: Time) {
        if let (Some(path), Some(choice)) = (&mut self.validated, &mut self.choice) {
            let uplink = path.local.uplink().other();
            path.local = LocalAddress::any_at(uplink);
            choice.on_changed(uplink, now);
            self.candidates.retain(|candidate| candidate.path.remote != path.remote);
        }
    }

    /// Returns the time of the next challenge by the uplink that is not in use; `None` while the
    /// preferred one delivers, or the peer has no address.
    pub(crate) fn return_at(&self) -> Option<Time> {
        let (path, choice) = (self.validated?, self.choice.as_ref()?);
        choice.return_at(path.local.uplink())
    }

    /// Adds a challenge of the address in use by the other uplink, if it is time to try that again.
    /// An answer by that uplink `within` this time makes the session use it.
    pub(crate) fn try_return(&mut self, bytes: usize, within: Duration, now: Time, token: Token) {
        let (Some(path), Some(choice)) = (self.validated, &mut self.choice) else {
            return;
        };
        if choice.pop_return(path.local.uplink(), now) {
            let path = NetworkPath::by(path.local.uplink().other(), path.remote);
            self.candidates.retain(|candidate| !candidate.path.is_same_route(&path));
            self.add(Candidate::once(path, bytes, now + within, now, token));
        }
    }

    /// Records an authenticated packet from an address, the newest packet of the session so far. If
    /// the address is not the one in use, it becomes a candidate for a challenge, and the function
    /// returns true.
    ///
    /// The packet's local address becomes the source of answers, unless the system chooses it. The
    /// system may have chosen another since, and packets in flight to the former address do not
    /// show that.
    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        from: NetworkPath,
        bytes: usize,
        now: Time,
        token: impl FnOnce() -> Token,
    ) -> bool {
        if let Some(path) = &mut self.validated
            && path.remote == from.remote
        {
            if path.local.uplink() == from.local.uplink() {
                if !path.local.is_any() {
                    path.local = from.local;
                }
                if let Some(choice) = &mut self.choice {
                    choice.on_packet();
                }
            }
            self.alive = now;
            return false;
        }
        self.on_packet_elsewhere(from, bytes, now, token)
    }

    #[cold]
    fn on_packet_elsewhere(
        &mut self,
        from: NetworkPath,
        bytes: usize,
        now: Time,
        token: impl FnOnce() -> Token,
    ) -> bool {
        let by_ipv4 = self.address().is_some_and(SocketAddr::is_ipv4);
        if by_ipv4 && from.remote.is_ipv6() && now < self.alive + IPV4_ALIVE_FOR {
            return false;
        }
        let earned = bytes.saturating_mul(AMPLIFICATION_MAX);
        let from = self.by_own_choice(from);
        match self.candidates.iter_mut().find(|candidate| candidate.path.is_same_route(&from)) {
            Some(candidate) => {
                candidate.path.local = from.local;
                candidate.allowance = candidate.allowance.saturating_add(earned);
                if candidate.until.take().is_some() {
                    // The peer is alive, even if it is farther away.
                    candidate.tries = 1;
                }
            }
            None => self.add(Candidate::new(from, earned, now, token())),
        }
        true
    }

    /// Returns the path of a packet, by the uplink in use instead of that at which it arrived: a
    /// peer does not choose this node's uplink.
    fn by_own_choice(&self, from: NetworkPath) -> NetworkPath {
        let is_own = self.validated.is_none() || from.local.uplink() == self.uplink();
        if is_own { from } else { NetworkPath::by(self.uplink(), from.remote) }
    }

    /// Adds a candidate. If there are too many, it replaces the oldest one by the other uplink, or
    /// the oldest one.
    fn add(&mut self, candidate: Candidate) {
        if !is_unicast(candidate.path.remote) {
            return;
        }
        if self.candidates.is_full() {
            let in_use = self.uplink();
            let is_other = |candidate: &Candidate| candidate.path.local.uplink() != in_use;
            self.candidates.remove(self.candidates.iter().position(is_other).unwrap_or(0));
        }
        self.candidates.push(candidate);
    }

    /// Adds a candidate that the peer named, unless it names too many. An answer to the challenge
    /// shows that the address belongs to the peer.
    pub(crate) fn try_address(&mut self, address: SocketAddr, bytes: usize, now: Time, token: Token) {
        let names_all_at = self.names_all_at.max(now);
        let ahead = CANDIDATE_INTERVAL * (CANDIDATES_MAX as u64 - 1);
        self.forget_preferred(address);
        if names_all_at.saturating_since(now) > ahead {
            return;
        }
        let may_choose = self.validated.is_none();
        if self.add_by_uplinks(address, may_choose, bytes, now, token) {
            self.names_all_at = names_all_at + CANDIDATE_INTERVAL;
        }
    }

    /// Adds a candidate at this address by the uplink in use, if it is not tried yet, and with
    /// `by_both` also by the other one, if there is room. Returns true if it adds one.
    fn add_by_uplinks(
        &mut self,
        address: SocketAddr,
        by_both: bool,
        bytes: usize,
        now: Time,
        token: Token,
    ) -> bool {
        let (in_use, mut is_added) = (self.uplink(), false);
        for uplink in self.uplinks() {
            let path = NetworkPath::by(uplink, address);
            let is_allowed = uplink == in_use || (by_both && !self.candidates.is_full());
            if is_allowed && !self.candidates.iter().any(|candidate| candidate.path.is_same_route(&path)) {
                self.add(Candidate::new(path, bytes, now, token));
                is_added = true;
            }
        }
        is_added
    }

    /// Adds a candidate that this side knows from its settings or from earlier use.
    pub(crate) fn retry(&mut self, address: SocketAddr, bytes: usize, now: Time, token: Token) {
        self.forget_preferred(address);
        self.add_by_uplinks(address, true, bytes, now, token);
    }

    /// Removes a candidate that is tried only as a preference, because now any answer from it is
    /// useful.
    fn forget_preferred(&mut self, address: SocketAddr) {
        self.candidates.retain(|candidate| candidate.path.remote != address || candidate.until.is_none());
    }

    /// Adds a candidate that is challenged once. If it answers `within` this time, the session
    /// moves there, although another address works.
    pub(crate) fn try_preferred(
        &mut self,
        address: SocketAddr,
        bytes: usize,
        within: Duration,
        now: Time,
        token: Token,
    ) {
        if !self.is_tried(address) {
            let path = NetworkPath::by(self.uplink(), address);
            self.add(Candidate::once(path, bytes, now + within, now, token));
        }
    }

    fn is_tried(&self, address: SocketAddr) -> bool {
        self.candidates.iter().any(|candidate| candidate.path.remote == address)
    }

    /// Returns the challenge to send now, as path and token; `None` if none is due or its `bytes`
    /// exceed the address's allowance. `interval` is the peer's reply timeout.
    pub(crate) fn challenge(
        &mut self,
        bytes: usize,
        interval: Duration,
        now: Time,
    ) -> Option<(NetworkPath, Token)> {
        self.candidates.retain(|candidate| candidate.next_try > now || candidate.tries < CHALLENGES_MAX);
        let candidate = self.candidates.iter_mut().find(|candidate| candidate.next_try <= now)?;
        candidate.tries += 1;
        // The wait doubles after each challenge; after the last one, it is long enough for the
        // answer.
        let wait = if candidate.tries < CHALLENGES_MAX {
            interval.min(CHALLENGE_RETRY) * (1 << (candidate.tries - 1))
        } else {
            interval * (1 << candidate.tries)
        };
        candidate.next_try = candidate.until.unwrap_or(now + wait);
        candidate.allowance = candidate.allowance.checked_sub(bytes)?;
        Some((candidate.path, candidate.token))
    }

    /// Returns the time of the next challenge; `None` without candidates.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.candidates.iter().map(|candidate| candidate.next_try).min()
    }

    /// True if a challenge of this path waits for its answer.
    pub(crate) fn is_challenged(&self, path: &NetworkPath) -> bool {
        self.candidates.iter().any(|candidate| candidate.path.is_same_route(path))
    }

    /// Handles the answer to a challenge, which arrived by `uplink`. Returns the new address if the
    /// session moves there; `None` for an unknown token, a late answer, or one by another uplink
    /// than that of the challenge.
    pub(crate) fn on_response(&mut self, token: Token, uplink: Uplink, now: Time) -> Option<SocketAddr> {
        let is_answered =
            |candidate: &Candidate| candidate.token == token && candidate.path.local.uplink() == uplink;
        let index = self.candidates.iter().position(is_answered)?;
        let Candidate { path, until, .. } = self.candidates[index];
        if until.is_some_and(|until| until < now) {
            self.candidates.remove(index);
            return None;
        }
        self.validate(path, now);
        Some(path.remote)
    }
}

/// True if the address can belong to one host. To other addresses, a peer could direct packets that
/// flood others, or that nobody receives.
pub(super) fn is_unicast(address: SocketAddr) -> bool {
    let is_one_host = match address.ip().to_canonical() {
        // 0.0.0.0/8 is "this network" (RFC 1122, section 3.2.1.3).
        IpAddr::V4(ip) => ip.octets()[0] != 0 && !ip.is_multicast() && !ip.is_broadcast(),
        IpAddr::V6(ip) => !ip.is_unspecified() && !ip.is_multicast(),
    };
    is_one_host && address.port() != 0
}

/// True if the address belongs to this machine itself.
pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

impl Candidate {
    const fn new(path: NetworkPath, allowance: usize, now: Time, token: Token) -> Self {
        Self { path, token, allowance, tries: 0, next_try: now, until: None }
    }

    /// Returns a candidate that is challenged once, and whose answer counts `until` a time.
    const fn once(path: NetworkPath, allowance: usize, until: Time, now: Time, token: Token) -> Self {
        let tries = CHALLENGES_MAX.saturating_sub(1);
        Self { tries, until: Some(until), ..Self::new(path, allowance, now, token) }
    }
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr};

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(50);
    const TOKEN: Token = [7; 8];

    fn path_to(address: SocketAddr) -> Path {
        let mut path = Path::default();
        path.validate(address.into(), Time::START);
        path
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 4_600)
    }

    #[test]
    fn a_session_moves_when_the_challenge_comes_back() {
        let mut path = path_to(address(1));
        path.on_packet(address(2).into(), 100, Time::START, || TOKEN);
        assert_eq!(path.challenge(60, INTERVAL, Time::START), Some((address(2).into(), TOKEN)));
        assert_eq!(path.address(), Some(&address(1)));
        assert_eq!(path.on_response([0; 8], Uplink::First, Time::START), None);
        assert_eq!(path.on_response(TOKEN, Uplink::First, Time::START), Some(address(2)));
        assert_eq!(path.address(), Some(&address(2)));
        assert_eq!(path.deadline(), None);
    }

    #[test]
    fn a_candidate_gets_at_most_three_times_what_it_sent() {
        let mut path = path_to(address(1));
        path.on_packet(address(2).into(), 30, Time::START, || TOKEN);
        let mut now = Time::START;
        let mut sent = 0;
        while let Some(at) = path.deadline() {
            now = now.max(at);
            sent += path.challenge(60, INTERVAL, now).map_or(0, |_| 60);
        }
        assert_eq!(sent, 60);
    }

    #[test]
    fn a_preferred_address_is_tried_once_and_taken_if_it_answers_in_time() {
        for (after, moves) in [(20, true), (21, false)] {
            let mut path = path_to(address(1));
            path.try_preferred(address(2), 60, Duration::from_millis(20), Time::START, TOKEN);
            assert_eq!(path.challenge(60, INTERVAL, Time::START), Some((address(2).into(), TOKEN)));
            let answered = path.on_response(TOKEN, Uplink::First, Time::START + Duration::from_millis(after));
            assert_eq!(answered.is_some(), moves);
            assert_eq!(path.address(), Some(&address(if moves { 2 } else { 1 })));
            assert_eq!(path.deadline(), None);
        }
        let mut path = path_to(address(1));
        path.try_preferred(address(2), 180, Duration::from_millis(20), Time::START, TOKEN);
        assert!(path.challenge(60, INTERVAL, Time::START).is_some());
        let end = Time::START + Duration::from_secs(10);
        assert_eq!((path.challenge(60, INTERVAL, end), path.deadline()), (None, None));
    }

    #[test]
    fn an_ipv4_address_that_is_alive_is_not_left_for_an_ipv6_one() {
        let by_ipv6: SocketAddr = "[2001:db8::1]:4600".parse().expect("an address");
        let at = |ms| Time::START + Duration::from_millis(ms);
        let mut path = path_to(address(1));
        path.on_packet(by_ipv6.into(), 100, at(999), || unreachable!());
        path.on_packet(address(1).into(), 100, at(999), || unreachable!());
        path.on_packet(by_ipv6.into(), 100, at(1_998), || unreachable!());
        path.on_packet(by_ipv6.into(), 100, at(1_999), || TOKEN);
        assert_eq!(path.on_response(TOKEN, Uplink::First, at(1_999)), Some(by_ipv6), "nothing came by IPv4");
        path.on_packet(address(1).into(), 100, at(2_000), || [8; 8]);
        assert_eq!(path.on_response([8; 8], Uplink::First, at(2_000)), Some(address(1)), "but back at once");
    }

    #[test]
    fn a_preferred_address_that_is_needed_is_tried_like_others() {
        let mut path = path_to(address(1));
        path.try_preferred(address(2), 60, Duration::from_millis(20), Time::START, TOKEN);
        assert!(path.challenge(60, INTERVAL, Time::START).is_some());
        path.retry(address(2), 180, Time::START, [9; 8]);
        assert_eq!(path.challenge(60, INTERVAL, Time::START), Some((address(2).into(), [9; 8])));
        assert_eq!(
            path.on_response([9; 8], Uplink::First, Time::START + Duration::from_secs(1)),
            Some(address(2))
        );
    }

    #[test]
    fn a_silent_candidate_is_given_up() {
        let mut path = path_to(address(1));
        path.on_packet(address(2).into(), 1_000, Time::START, || TOKEN);
        let mut challenges = 0;
        while let Some(at) = path.deadline() {
            challenges += u8::from(path.challenge(60, INTERVAL, at).is_some());
        }
        assert_eq!(challenges, CHALLENGES_MAX);
        assert_eq!(path.address(), Some(&address(1)));
    }

    #[test]
    fn several_addresses_are_tried_side_by_side() {
        let mut path = path_to(address(1));
        path.on_packet(address(2).into(), 100, Time::START, || TOKEN);
        path.try_address(address(3), 180, Time::START, [3; 8]);
        path.try_address(address(2), 180, Time::START, [4; 8]);
        assert_eq!(path.challenge(60, INTERVAL, Time::START), Some((address(2).into(), TOKEN)));
        assert_eq!(path.challenge(60, INTERVAL, Time::START), Some((address(3).into(), [3; 8])));
        assert_eq!(path.challenge(60, INTERVAL, Time::START), None);
        assert_eq!(path.on_response(TOKEN, Uplink::First, Time::START), Some(address(2)));
        assert_eq!(path.on_response([3; 8], Uplink::First, Time::START), None, "one is enough");
    }

    #[test]
    fn a_peer_that_names_address_after_address_has_few_of_them_challenged() {
        let mut path = Path::default();
        let mut challenged = 0;
        for nth in 0..10_000_u32 {
            let now = Time::START + Duration::from_millis(1) * u64::from(nth);
            let named = SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0x0A00_0000 + nth)), 4_600);
            path.try_address(named, 180, now, TOKEN);
            while path.challenge(60, INTERVAL, now).is_some() {
                challenged += 1;
            }
        }
        let addresses = CANDIDATES_MAX as u64 + 10_000 / CANDIDATE_INTERVAL.as_millis();
        assert!(challenged <= addresses * u64::from(CHALLENGES_MAX), "{challenged} of {addresses} addresses");
        assert!(challenged >= addresses, "{challenged} of {addresses} addresses");
    }

    #[test]
    fn of_too_many_candidates_the_oldest_gives_way_and_the_address_in_use_stays() {
        let mut path = path_to(address(1));
        for last in 0..=u8::try_from(CANDIDATES_MAX).expect("few") {
            path.on_packet(address(10 + last).into(), 100, Time::START, || [last; 8]);
        }
        assert_eq!(path.address(), Some(&address(1)));
        assert_eq!(path.on_response([0; 8], Uplink::First, Time::START), None, "the oldest is forgotten");
        assert_eq!(path.on_response([1; 8], Uplink::First, Time::START), Some(address(11)));
    }

    #[test]
    fn only_addresses_of_one_host_are_challenged() {
        let challenged = |text: &str| {
            let address: SocketAddr = text.parse().expect("an address");
            let mut path = path_to(self::address(1));
            path.try_address(address, 180, Time::START, TOKEN);
            path.retry(address, 180, Time::START, TOKEN);
            path.on_packet(address.into(), 60, Time::START, || TOKEN);
            path.challenge(60, INTERVAL, Time::START).is_some()
        };
        let special = [
            "0.0.0.0:4600",
            "0.1.2.3:4600",
            "224.0.0.1:4600",
            "239.255.0.1:4600",
            "255.255.255.255:4600",
            "192.0.2.7:0",
            "[::]:4600",
            "[ff02::1]:4600",
            "[::ffff:224.0.0.1]:4600",
            "[2001:db8::1]:0",
        ];
        for text in special {
            assert!(!challenged(text), "{text}");
        }
        for text in ["192.0.2.7:4600", "10.0.0.1:1", "192.168.1.255:4600", "172.16.0.1:9"] {
            assert!(challenged(text), "{text}");
        }
    }

    #[test]
    fn the_same_address_is_not_challenged() {
        let mut path = path_to(address(1));
        path.on_packet(address(1).into(), 100, Time::START, || unreachable!());
        assert_eq!(path.deadline(), None);
    }
}
