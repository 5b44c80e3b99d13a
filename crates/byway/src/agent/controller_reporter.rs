//! Reports of a running agent to its controller, and its requests to be paired with the peers of
//! its forwards.

use std::net::SocketAddr;
use std::time::Duration;

use byway_api::{NetworkMap, RoundTrip, SelfUpdate};
use byway_net::{ControlError, Controls};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::driver::AgentControl;
use super::limits::{
    ABSENT_PEER_RETRY, REPORT_INTERVAL, REPORT_REFRESH_INTERVAL, RTT_CHANGE_DIVISOR, RTT_CHANGE_MICROSECONDS,
};
use super::network_view::Observed;
use crate::membership::{ControllerContact, Membership};

/// Latest report that the agent sent to its controller, and the addresses that every report lists.
#[derive(Debug)]
pub(super) struct LastReported {
    own: Vec<SocketAddr>,
    listen: Vec<SocketAddr>,
    last: Option<(SelfUpdate, Instant)>,
}

impl LastReported {
    /// Creates the record of an agent that has sent no report. `own` are its configured addresses,
    /// and `listen` those of its sockets.
    pub(super) const fn new(own: Vec<SocketAddr>, listen: Vec<SocketAddr>) -> Self {
        Self { own, listen, last: None }
    }

    /// Returns a report of the measurements, and records it as sent. Returns `None` if it equals
    /// the latest report, apart from jitter, and that one is recent. A report without measured
    /// round trips omits them, and the controller retains those that it knows.
    fn next_update(&mut self, seen: Observed, now: Instant) -> Option<SelfUpdate> {
        let round_trip = |(relay, microseconds)| RoundTrip { relay, microseconds };
        let trips: Vec<RoundTrip> = seen.round_trips_us.into_iter().map(round_trip).collect();
        let update = SelfUpdate {
            addresses: Some(candidates(&self.own, &self.listen, &seen.addresses)),
            round_trips: (!trips.is_empty()).then_some(trips),
            relay: None,
            usage: None,
            transit: None,
        };
        let is_known = self.last.as_ref().is_some_and(|(last_report, at)| {
            is_unchanged(last_report, &update) && now < *at + REPORT_REFRESH_INTERVAL
        });
        if is_known {
            return None;
        }
        self.last = Some((update.clone(), now));
        Some(update)
    }
}

/// True if two reports have the same addresses, and round trips that differ by jitter only.
fn is_unchanged(previous: &SelfUpdate, now: &SelfUpdate) -> bool {
    let is_near = |(previous, now): (&RoundTrip, &RoundTrip)| {
        let allowed = (previous.microseconds / RTT_CHANGE_DIVISOR).max(RTT_CHANGE_MICROSECONDS);
        previous.relay == now.relay && previous.microseconds.abs_diff(now.microseconds) <= allowed
    };
    let are_near = match (&previous.round_trips, &now.round_trips) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(previous), Some(now)) => previous.len() == now.len() && previous.iter().zip(now).all(is_near),
    };
    previous.addresses == now.addresses && are_near
}

/// Returns the addresses at which peers may reach this agent: the configured ones, and those that
/// relays observe. If none is configured, the listening addresses replace them.
pub(super) fn candidates(own: &[SocketAddr], listen: &[SocketAddr], seen: &[SocketAddr]) -> Vec<SocketAddr> {
    let named = listen.iter().filter(|address| own.is_empty() && !address.ip().is_unspecified());
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in own.iter().chain(named).chain(seen) {
        if !all.contains(address) && all.len() < byway_proto::limits::CANDIDATES_MAX {
            all.push(*address);
        }
    }
    all
}

/// Peers of forwards and captures. The agent requests pairings with those that are not on the map.
#[derive(Debug)]
struct WantedPeers {
    names: Vec<String>,
    /// Index in `names` of the peer to request first.
    next: usize,
    /// Number of failed requests since the map changed.
    failures: u32,
    not_before: Option<Instant>,
    revision: u64,
}

impl WantedPeers {
    fn new(mut names: Vec<String>) -> Self {
        names.sort_unstable();
        names.dedup();
        Self { names, next: 0, failures: 0, not_before: None, revision: 0 }
    }

    /// Returns the indices of all peers that are not on the map, beginning after the peer whose
    /// request failed last. Returns none during the pause after a failure. A newer map ends the
    /// pause, because absent peers may have joined.
    fn due_peers(&mut self, map: &NetworkMap, now: Instant) -> Vec<usize> {
        if map.revision != self.revision {
            (self.revision, self.failures, self.not_before) = (map.revision, 0, None);
        }
        if self.not_before.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let indices = (0..self.names.len()).map(|step| (self.next + step) % self.names.len());
        let is_absent = |index: &usize| map.agents.iter().all(|agent| agent.name != self.names[*index]);
        indices.filter(is_absent).collect()
    }

    /// Records a failed request for a peer. The next request, for the peer after it, waits for a
    /// pause that doubles with each failure. Without the pause, requests would exhaust the
    /// controller's rate limit for this node.
    fn on_failure(&mut self, index: usize, retry_after: Option<Duration>, now: Instant) {
        let [least, most] = ABSENT_PEER_RETRY;
        let pause =
            least.saturating_mul(1 << self.failures.min(16)).max(retry_after.unwrap_or_default()).min(most);
        self.next = (index + 1) % self.names.len();
        self.failures += 1;
        self.not_before = Some(now + pause);
    }

    /// Requests pairings with the due peers in turn, until one request fails.
    async fn request_pairings(&mut self, member: &Membership) {
        let map = member.maps().borrow().clone();
        for index in self.due_peers(&map, Instant::now()) {
            if let Err(error) = member.pair_with(&self.names[index]).await {
                tracing::debug!(peer = self.names[index], %error, "cannot pair with the peer yet");
                self.on_failure(index, error.retry_after(), Instant::now());
                return;
            }
        }
    }
}

/// Requests pairings with the peers of forwards and captures. Reports the agent's observed
/// addresses and its round trips to relays. The task ends with the agent's thread, and holds the
/// agent's membership until then.
pub(super) async fn report_to_controller(
    member: Membership,
    mut last_reported: LastReported,
    mut names: watch::Receiver<Vec<String>>,
    controls: Controls<AgentControl>,
) {
    let mut interval = tokio::time::interval(REPORT_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut wanted = WantedPeers::new(names.borrow_and_update().clone());
    loop {
        interval.tick().await;
        // New settings may name other peers.
        if names.has_changed().unwrap_or_default() {
            wanted = WantedPeers::new(names.borrow_and_update().clone());
        }
        // A controller that does not answer, or has removed this agent, pairs it with no peer.
        if !matches!(*member.contact().borrow(), ControllerContact::Fails(_)) {
            wanted.request_pairings(&member).await;
        }
        let (answer, seen) = oneshot::channel();
        match controls.control(AgentControl::Observed(answer)) {
            Ok(()) => {}
            Err(ControlError::Full(_)) => continue,
            Err(ControlError::Ended(_)) => return,
        }
        let Ok(seen) = seen.await else {
            return;
        };
        if let Some(update) = last_reported.next_update(seen, Instant::now()) {
            member.report(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_api::AgentEntry;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn observed(port: u16, round_trips_us: &[(u32, u64)]) -> Observed {
        let addresses = vec![SocketAddr::from(([203, 0, 113, 9], port))];
        Observed { addresses, round_trips_us: round_trips_us.iter().copied().collect() }
    }

    #[test]
    fn jitter_is_no_news() {
        let (mut last_reported, now) = (LastReported::new(vec![], vec![]), Instant::now());
        let mut next_update = |port, trips: &[_]| last_reported.next_update(observed(port, trips), now);
        assert!(next_update(1, &[(1, 40_000)]).is_some(), "the first report");
        assert_eq!(next_update(1, &[(1, 41_900)]), None);
        assert_eq!(next_update(1, &[(1, 38_100)]), None);
        let farther = next_update(1, &[(1, 42_100)]).expect("5 % more");
        assert_eq!(farther.round_trips, Some(vec![RoundTrip { relay: 1, microseconds: 42_100 }]));
        assert!(next_update(1, &[(1, 42_100), (2, 900)]).is_some(), "another relay");
        assert_eq!(next_update(1, &[(1, 42_100), (2, 1_100)]), None, "0.2 ms are none");
        assert!(next_update(2, &[(1, 42_100), (2, 900)]).is_some(), "another address");
    }

    #[test]
    fn what_the_controller_knows_stays_until_something_is_measured_and_is_repeated() {
        let (mut last_reported, now) = (LastReported::new(vec![], vec![]), Instant::now());
        let first = last_reported.next_update(observed(1, &[]), now).expect("the first report");
        assert_eq!(first.round_trips, None);
        assert_eq!(last_reported.next_update(observed(1, &[]), now), None);
        assert!(last_reported.next_update(observed(1, &[(1, 900)]), now).is_some(), "it is measured");
        assert_eq!(
            last_reported.next_update(observed(1, &[(1, 900)]), now + REPORT_REFRESH_INTERVAL - SECOND),
            None
        );
        assert!(
            last_reported.next_update(observed(1, &[(1, 900)]), now + REPORT_REFRESH_INTERVAL).is_some(),
            "it may be lost"
        );
    }

    fn agent(name: &str) -> AgentEntry {
        AgentEntry { number: 7, name: name.to_owned(), key: String::new(), addresses: vec![] }
    }

    #[test]
    fn absent_peers_have_their_turns_ever_later() {
        let names = ["carol", "bob", "alice", "bob"].map(str::to_owned).to_vec();
        let (mut wanted, now) = (WantedPeers::new(names), Instant::now());
        let nobody = NetworkMap::default();
        assert_eq!(wanted.due_peers(&nobody, now), [0, 1, 2]);
        wanted.on_failure(1, None, now);
        assert_eq!(wanted.due_peers(&nobody, now + 2 * SECOND), [0_usize; 0]);
        assert_eq!(wanted.due_peers(&nobody, now + 3 * SECOND), [2, 0, 1], "it goes on behind");
        wanted.on_failure(2, None, now);
        assert_eq!(wanted.due_peers(&nobody, now + 5 * SECOND), [0_usize; 0], "later than before");
        wanted.on_failure(0, Some(Duration::MAX), now);
        assert_eq!(wanted.due_peers(&nobody, now + 60 * SECOND), [1, 2, 0], "a minute at most");
        wanted.on_failure(1, None, now);
        let map = NetworkMap { agents: vec![agent("alice")], revision: 1, ..NetworkMap::default() };
        assert_eq!(wanted.due_peers(&map, now), [2, 1], "another map, and alice is there");
        assert_eq!(WantedPeers::new(vec![]).due_peers(&nobody, now), [0_usize; 0]);
    }
}
