//! What an agent tells its controller while it works, and whom it asks for.

use std::net::SocketAddr;

use byway_api::{NetworkMap, RoundTrip, SelfUpdate};
use byway_net::Controls;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior};

use super::limits::{NEWS_DIVISOR, NEWS_MICROSECONDS, TELL_INTERVAL};
use super::role::{AgentControl, Seen};
use crate::membership::{Contact, Membership};

/// What the controller was told of this agent.
#[derive(Debug)]
pub(super) struct News {
    own: Vec<SocketAddr>,
    listen: Vec<SocketAddr>,
    told: SelfUpdate,
}

impl News {
    /// Of an agent whose owner says that it is at `own`, and that listens on `listen`.
    pub(super) fn new(own: Vec<SocketAddr>, listen: Vec<SocketAddr>) -> Self {
        Self { own, listen, told: SelfUpdate::default() }
    }

    /// What is to be told, if anything is news.
    fn of(&mut self, seen: Seen) -> Option<SelfUpdate> {
        let round_trip = |(relay, microseconds)| RoundTrip { relay, microseconds };
        let update = SelfUpdate {
            addresses: Some(candidates(&self.own, &self.listen, &seen.addresses)),
            round_trips: Some(seen.round_trips_us.into_iter().map(round_trip).collect()),
            relay: None,
        };
        if is_same(&self.told, &update) {
            return None;
        }
        self.told = update.clone();
        Some(update)
    }
}

/// Whether two reports say the same, but for jitter.
fn is_same(before: &SelfUpdate, now: &SelfUpdate) -> bool {
    let (Some(before_trips), Some(now_trips)) = (&before.round_trips, &now.round_trips) else {
        return false;
    };
    let is_near = |(before, now): (&RoundTrip, &RoundTrip)| {
        let allowed = (before.microseconds / NEWS_DIVISOR).max(NEWS_MICROSECONDS);
        before.relay == now.relay && before.microseconds.abs_diff(now.microseconds) <= allowed
    };
    before.addresses == now.addresses
        && before_trips.len() == now_trips.len()
        && before_trips.iter().zip(now_trips).all(is_near)
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

/// The peers of forwards, of which some may not be on the map yet.
#[derive(Debug)]
pub(super) struct Absent {
    peers: Vec<String>,
    /// Whose turn it is.
    next: usize,
    not_before: Instant,
}

impl Absent {
    pub(super) fn new(mut peers: Vec<String>) -> Self {
        peers.sort_unstable();
        peers.dedup();
        Self { peers, next: 0, not_before: Instant::now() }
    }

    /// Who is to be asked for now: each of those that are not on the map once, beginning behind the one that was asked for
    /// last.
    fn turn(&self, map: &NetworkMap) -> Vec<usize> {
        let places = (0..self.peers.len()).map(|step| (self.next + step) % self.peers.len());
        let is_absent = |place: &usize| map.agents.iter().all(|agent| agent.name != self.peers[*place]);
        places.filter(is_absent).collect()
    }

    /// Asks to be paired with peers in turn until one is not to be had: absent ones must not use up what the controller takes
    /// of one node.
    async fn ask(&mut self, member: &Membership) {
        if Instant::now() < self.not_before {
            return;
        }
        let map = member.maps().borrow().clone();
        for place in self.turn(&map) {
            self.next = (place + 1) % self.peers.len();
            if let Err(error) = member.pair_with(&self.peers[place]).await {
                tracing::debug!(peer = self.peers[place], %error, "not paired yet");
                self.not_before = Instant::now() + error.retry_after().unwrap_or_default();
                return;
            }
        }
    }
}

/// Asks for the peers of forwards, and tells the controller where the agent is seen and how near its relays are, until its
/// thread ends.
pub(super) async fn tell(
    member: Membership,
    mut news: News,
    mut absent: Absent,
    controls: Controls<AgentControl>,
) {
    let mut interval = tokio::time::interval(TELL_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        // Who does not answer, or knows this agent no more, pairs it with nobody.
        if !matches!(*member.contact().borrow(), Contact::Fails(_)) {
            absent.ask(&member).await;
        }
        let (answer, seen) = oneshot::channel();
        if controls.control(AgentControl::Seen(answer)).is_err() {
            return;
        }
        let Ok(seen) = seen.await else {
            return;
        };
        if let Some(update) = news.of(seen) {
            member.report(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_api::AgentEntry;

    use super::*;

    fn seen(port: u16, round_trips_us: &[(u32, u64)]) -> Seen {
        let addresses = vec![SocketAddr::from(([203, 0, 113, 9], port))];
        Seen { addresses, round_trips_us: round_trips_us.iter().copied().collect() }
    }

    #[test]
    fn jitter_is_no_news() {
        let mut news = News::new(vec![], vec![]);
        assert!(news.of(seen(1, &[(1, 40_000)])).is_some(), "the first report");
        assert_eq!(news.of(seen(1, &[(1, 41_900)])), None);
        assert_eq!(news.of(seen(1, &[(1, 38_100)])), None);
        let farther = news.of(seen(1, &[(1, 42_100)])).expect("5 % more");
        assert_eq!(farther.round_trips, Some(vec![RoundTrip { relay: 1, microseconds: 42_100 }]));
        assert!(news.of(seen(1, &[(1, 42_100), (2, 900)])).is_some(), "another relay");
        assert_eq!(news.of(seen(1, &[(1, 42_100), (2, 1_100)])), None, "0.2 ms are none");
        assert!(news.of(seen(2, &[(1, 42_100), (2, 900)])).is_some(), "another address");
    }

    #[test]
    fn absent_peers_have_their_turns() {
        let agent = |name: &str| AgentEntry {
            number: 7,
            name: name.to_owned(),
            key: String::new(),
            addresses: vec![],
        };
        let names = ["carol", "bob", "alice", "bob"].map(str::to_owned).to_vec();
        let mut absent = Absent::new(names);
        let nobody = NetworkMap::default();
        assert_eq!(absent.turn(&nobody), [0, 1, 2]);
        absent.next = 2;
        assert_eq!(absent.turn(&nobody), [2, 0, 1], "after a failure it goes on behind");
        let map = NetworkMap { agents: vec![agent("alice")], ..NetworkMap::default() };
        assert_eq!(absent.turn(&map), [2, 1], "who is there is not asked for");
        assert_eq!(Absent::new(vec![]).turn(&nobody), [0_usize; 0]);
    }
}
