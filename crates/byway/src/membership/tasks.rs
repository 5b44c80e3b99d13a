//! What goes on while a node is a member: it waits for maps, and reports.

use std::sync::Arc;
use std::time::Duration;

use byway_api::{NetworkMap, SelfUpdate, SignedMap};
use byway_wire::seal::VerifyingKey;
use tokio::sync::watch;
use tokio::time::sleep;

use super::limits::{COLLECTED_FOR, POLL_PATIENCE, RETRY_MAX, RETRY_MIN};
use super::verified::{Files, verified};
use super::{Client, MembershipError, random};

/// Whether the controller answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contact {
    /// It was not asked yet.
    Unknown,
    /// It does.
    Answers,
    /// It does not, or refuses: why. The node goes on with the last map.
    Fails(String),
}

/// How fast things are tried again and sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) retry_min: Duration,
    pub(super) retry_max: Duration,
    pub(super) collected_for: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { retry_min: RETRY_MIN, retry_max: RETRY_MAX, collected_for: COLLECTED_FOR }
    }
}

/// Waits longer with each failure, and never as long as others do.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    pace: Pace,
    failures: u32,
}

impl Backoff {
    const fn new(pace: Pace) -> Self {
        Self { pace, failures: 0 }
    }

    /// The time until the next attempt: half to all of what doubles with each failure.
    fn next(&mut self, random: u32) -> Duration {
        let doubled =
            self.pace.retry_min.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        let most = doubled.min(self.pace.retry_max);
        self.failures = self.failures.saturating_add(1);
        most / 2 + (most / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    async fn wait(&mut self) {
        sleep(self.next(u32::from_ne_bytes(random::bytes()))).await;
    }

    const fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// Waits for maps, keeps them, and hands them on.
pub(super) struct Poller {
    pub(super) client: Client,
    pub(super) verifying_key: VerifyingKey,
    pub(super) files: Files,
    pub(super) maps: watch::Sender<Arc<NetworkMap>>,
    pub(super) contact: watch::Sender<Contact>,
}

impl Poller {
    pub(super) async fn run(mut self, pace: Pace) {
        let mut backoff = Backoff::new(pace);
        loop {
            match self.poll().await {
                Ok(()) => {
                    backoff.succeeded();
                    self.answers();
                }
                Err(error) => {
                    self.fails(&error);
                    backoff.wait().await;
                }
            }
        }
    }

    /// Waits for another map than the one there is. A controller that may not be there is not waited for: it is asked for the
    /// map as it is.
    async fn poll(&mut self) -> Result<(), MembershipError> {
        let known = self.maps.borrow().revision;
        let waits = *self.contact.borrow() == Contact::Answers;
        let path = if waits { format!("/v1/map?after={known}") } else { "/v1/map".to_owned() };
        let Some(signed) = self.client.poll::<SignedMap>(&path, POLL_PATIENCE).await? else {
            return Ok(());
        };
        let map = verified(&signed, &self.verifying_key)?;
        if map.revision == known && !waits {
            return Ok(());
        }
        if map.revision == known {
            // It was asked for another one: without a pause, this would go round as fast as it can.
            return Err(MembershipError::BadMap("the controller sends the one that the node has".to_owned()));
        }
        if let Err(error) = self.files.keep_map(&signed) {
            tracing::warn!("{error}; the node uses the new map, and will start with the old one");
        }
        self.maps.send_replace(Arc::new(map));
        Ok(())
    }

    fn answers(&self) {
        let before = self.contact.send_replace(Contact::Answers);
        if matches!(before, Contact::Fails(_)) {
            tracing::info!("the controller answers again");
        }
    }

    /// Is logged once, until the controller answers again.
    fn fails(&self, error: &MembershipError) {
        let before = self.contact.send_replace(Contact::Fails(error.to_string()));
        if !matches!(before, Contact::Fails(_)) {
            tracing::warn!("{error}; the node goes on with the map that it has");
        }
    }
}

/// Adds newer news to older ones.
pub(super) fn merge(older: &mut SelfUpdate, newer: SelfUpdate) {
    older.addresses = newer.addresses.or(older.addresses.take());
    older.round_trips = newer.round_trips.or(older.round_trips.take());
    older.relay = newer.relay.or(older.relay.take());
}

/// Sends what is new of the node, a while after it is: what follows closely goes with it.
pub(super) async fn report(mut client: Client, news: watch::Sender<SelfUpdate>, pace: Pace) {
    let mut arrivals = news.subscribe();
    let mut backoff = Backoff::new(pace);
    loop {
        let untold = SelfUpdate::default();
        if arrivals.wait_for(|news| *news != untold).await.is_err() {
            return;
        }
        sleep(pace.collected_for).await;
        let update = news.send_replace(SelfUpdate::default());
        match client.put("/v1/self", &update).await {
            Ok(()) => backoff.succeeded(),
            Err(error) if error.may_pass() => {
                news.send_modify(|newer| {
                    let newest = std::mem::replace(newer, update);
                    merge(newer, newest);
                });
                backoff.wait().await;
            }
            Err(error) => tracing::warn!("what is new of this node is not taken: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_api::RoundTrip;

    use super::*;

    #[test]
    fn attempts_follow_at_growing_distances_that_differ() {
        let mut backoff = Backoff::new(Pace::default());
        let soonest: Vec<_> = (0..8).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(soonest, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
        backoff.succeeded();
        assert_eq!(backoff.next(u32::MAX), Duration::from_secs(1));
        backoff.failures = u32::MAX;
        assert_eq!(backoff.next(u32::MAX), Duration::from_secs(60));
    }

    #[test]
    fn news_are_merged_and_the_newest_count() {
        let trips = |microseconds| Some(vec![RoundTrip { relay: 1, microseconds }]);
        let mut news = SelfUpdate { addresses: Some(vec![]), round_trips: trips(1), relay: None };
        merge(&mut news, SelfUpdate { round_trips: trips(2), ..SelfUpdate::default() });
        assert_eq!(news, SelfUpdate { addresses: Some(vec![]), round_trips: trips(2), relay: None });
    }
}
