//! What an agent tells its controller while it works, and whom it asks for.

use std::net::SocketAddr;
use std::time::Duration;

use byway_api::{NetworkMap, RoundTrip, SelfUpdate};
use byway_net::{ControlError, Controls};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::limits::{ABSENT_RETRY, NEWS_DIVISOR, NEWS_MICROSECONDS, TELL_INTERVAL, TOLD_AGAIN_AFTER};
use super::role::{AgentControl, Seen};
use crate::membership::{Contact, Membership};

/// What the controller was told of this agent.
#[derive(Debug)]
pub(super) struct Told {
    own: Vec<SocketAddr>,
    listen: Vec<SocketAddr>,
    last: Option<(SelfUpdate, Instant)>,
}

impl Told {
    /// Of an agent whose owner says that it is at `own`, and that listens on `listen`.
    pub(super) const fn new(own: Vec<SocketAddr>, listen: Vec<SocketAddr>) -> Self {
        Self { own, listen, last: None }
    }

    /// What is to be told now, if anything is news. Before anything is measured, what the controller knows of round trips stays.
    fn news(&mut self, seen: Seen, now: Instant) -> Option<SelfUpdate> {
        let round_trip = |(relay, microseconds)| RoundTrip { relay, microseconds };
        let trips: Vec<RoundTrip> = seen.round_trips_us.into_iter().map(round_trip).collect();
        let update = SelfUpdate {
            addresses: Some(candidates(&self.own, &self.listen, &seen.addresses)),
            round_trips: (!trips.is_empty()).then_some(trips),
            relay: None,
        };
        let is_known = self
            .last
            .as_ref()
            .is_some_and(|(told, at)| is_same(told, &update) && now < *at + TOLD_AGAIN_AFTER);
        if is_known {
            return None;
        }
        self.last = Some((update.clone(), now));
        Some(update)
    }
}

/// Whether a report says nothing new, but for jitter.
fn is_same(told: &SelfUpdate, now: &SelfUpdate) -> bool {
    let is_near = |(told, now): (&RoundTrip, &RoundTrip)| {
        let allowed = (told.microseconds / NEWS_DIVISOR).max(NEWS_MICROSECONDS);
        told.relay == now.relay && told.microseconds.abs_diff(now.microseconds) <= allowed
    };
    let are_near = match (&told.round_trips, &now.round_trips) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(told), Some(now)) => told.len() == now.len() && told.iter().zip(now).all(is_near),
    };
    told.addresses == now.addresses && are_near
}

/// Where peers may try to reach this agent: what its owner says or, if that is nothing, where it listens; and where relays
/// see it.
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

/// The peers of forwards. Those that are not on the map are asked for.
#[derive(Debug)]
struct WantedPeers {
    names: Vec<String>,
    /// Whose turn it is.
    next: usize,
    /// How often somebody was not to be had since the map changed.
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

    /// Who is to be asked for now: each of those that are not on the map once, beginning behind the one that was not to be
    /// had. With another map, nobody waits any more: those who were asked for in vain may have come.
    fn turn(&mut self, map: &NetworkMap, now: Instant) -> Vec<usize> {
        if map.revision != self.revision {
            (self.revision, self.failures, self.not_before) = (map.revision, 0, None);
        }
        if self.not_before.is_some_and(|at| now < at) {
            return Vec::new();
        }
        let places = (0..self.names.len()).map(|step| (self.next + step) % self.names.len());
        let is_absent = |place: &usize| map.agents.iter().all(|agent| agent.name != self.names[*place]);
        places.filter(is_absent).collect()
    }

    /// Notes that somebody is not to be had: the next one has its turn later, and ever later, so that absent peers do not use
    /// up what the controller takes of one node.
    fn failed(&mut self, place: usize, asked: Option<Duration>, now: Instant) {
        let [least, most] = ABSENT_RETRY;
        let pause = least.saturating_mul(1 << self.failures.min(16)).max(asked.unwrap_or_default()).min(most);
        self.next = (place + 1) % self.names.len();
        self.failures += 1;
        self.not_before = Some(now + pause);
    }

    /// Asks to be paired with peers in turn, until one is not to be had.
    async fn ask(&mut self, member: &Membership) {
        let map = member.maps().borrow().clone();
        for place in self.turn(&map, Instant::now()) {
            if let Err(error) = member.pair_with(&self.names[place]).await {
                tracing::debug!(peer = self.names[place], %error, "not paired yet");
                self.failed(place, error.retry_after(), Instant::now());
                return;
            }
        }
    }
}

/// Asks for the peers of forwards, and tells the controller where the agent is seen and how near its relays are, until its
/// thread ends. The agent is a member as long as this goes on.
pub(super) async fn tell(
    member: Membership,
    mut told: Told,
    mut names: watch::Receiver<Vec<String>>,
    controls: Controls<AgentControl>,
) {
    let mut interval = tokio::time::interval(TELL_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut wanted = WantedPeers::new(names.borrow_and_update().clone());
    loop {
        interval.tick().await;
        // Settings may name others now; as long as they are in force, so is who they name.
        if names.has_changed().unwrap_or_default() {
            wanted = WantedPeers::new(names.borrow_and_update().clone());
        }
        // Who does not answer, or knows this agent no more, pairs it with nobody.
        if !matches!(*member.contact().borrow(), Contact::Fails(_)) {
            wanted.ask(&member).await;
        }
        let (answer, seen) = oneshot::channel();
        match controls.control(AgentControl::Seen(answer)) {
            Ok(()) => {}
            Err(ControlError::Full(_)) => continue,
            Err(ControlError::Ended(_)) => return,
        }
        let Ok(seen) = seen.await else {
            return;
        };
        if let Some(update) = told.news(seen, Instant::now()) {
            member.report(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_api::AgentEntry;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn seen(port: u16, round_trips_us: &[(u32, u64)]) -> Seen {
        let addresses = vec![SocketAddr::from(([203, 0, 113, 9], port))];
        Seen { addresses, round_trips_us: round_trips_us.iter().copied().collect() }
    }

    #[test]
    fn jitter_is_no_news() {
        let (mut told, now) = (Told::new(vec![], vec![]), Instant::now());
        let mut news = |port, trips: &[_]| told.news(seen(port, trips), now);
        assert!(news(1, &[(1, 40_000)]).is_some(), "the first report");
        assert_eq!(news(1, &[(1, 41_900)]), None);
        assert_eq!(news(1, &[(1, 38_100)]), None);
        let farther = news(1, &[(1, 42_100)]).expect("5 % more");
        assert_eq!(farther.round_trips, Some(vec![RoundTrip { relay: 1, microseconds: 42_100 }]));
        assert!(news(1, &[(1, 42_100), (2, 900)]).is_some(), "another relay");
        assert_eq!(news(1, &[(1, 42_100), (2, 1_100)]), None, "0.2 ms are none");
        assert!(news(2, &[(1, 42_100), (2, 900)]).is_some(), "another address");
    }

    #[test]
    fn what_the_controller_knows_stays_until_something_is_measured_and_is_repeated() {
        let (mut told, now) = (Told::new(vec![], vec![]), Instant::now());
        let first = told.news(seen(1, &[]), now).expect("the first report");
        assert_eq!(first.round_trips, None);
        assert_eq!(told.news(seen(1, &[]), now), None);
        assert!(told.news(seen(1, &[(1, 900)]), now).is_some(), "it is measured");
        assert_eq!(told.news(seen(1, &[(1, 900)]), now + TOLD_AGAIN_AFTER - SECOND), None);
        assert!(told.news(seen(1, &[(1, 900)]), now + TOLD_AGAIN_AFTER).is_some(), "it may be lost");
    }

    fn agent(name: &str) -> AgentEntry {
        AgentEntry { number: 7, name: name.to_owned(), key: String::new(), addresses: vec![] }
    }

    #[test]
    fn absent_peers_have_their_turns_ever_later() {
        let names = ["carol", "bob", "alice", "bob"].map(str::to_owned).to_vec();
        let (mut wanted, now) = (WantedPeers::new(names), Instant::now());
        let nobody = NetworkMap::default();
        assert_eq!(wanted.turn(&nobody, now), [0, 1, 2]);
        wanted.failed(1, None, now);
        assert_eq!(wanted.turn(&nobody, now + 2 * SECOND), [0_usize; 0]);
        assert_eq!(wanted.turn(&nobody, now + 3 * SECOND), [2, 0, 1], "it goes on behind");
        wanted.failed(2, None, now);
        assert_eq!(wanted.turn(&nobody, now + 5 * SECOND), [0_usize; 0], "later than before");
        wanted.failed(0, Some(Duration::MAX), now);
        assert_eq!(wanted.turn(&nobody, now + 60 * SECOND), [1, 2, 0], "a minute at most");
        wanted.failed(1, None, now);
        let map = NetworkMap { agents: vec![agent("alice")], revision: 1, ..NetworkMap::default() };
        assert_eq!(wanted.turn(&map, now), [2, 1], "another map, and alice is there");
        assert_eq!(WantedPeers::new(vec![]).turn(&nobody, now), [0_usize; 0]);
    }
}
