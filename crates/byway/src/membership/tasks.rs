//! What goes on while a node is a member: it waits for maps, and reports.

use std::sync::Arc;

use byway_api::{NetworkMap, SelfUpdate, SignedMap};
use byway_wire::seal::VerifyingKey;
use tokio::sync::watch;
use tokio::time::sleep;

use super::backoff::{Backoff, Pace};
use super::limits::{POLL_PATIENCE, REFUSED_RETRY_FACTOR};
use super::verified::{Files, verified};
use super::{Client, MembershipError};

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
                    backoff.wait(&error).await;
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

/// What only a person can change is tried again, and warned of, ever more seldom.
fn after_refusals(pace: Pace) -> Pace {
    Pace { retry_max: pace.retry_max * REFUSED_RETRY_FACTOR, ..pace }
}

/// Sends what is new of the node, a while after it is: what follows closely goes with it.
pub(super) async fn report(mut client: Client, news: watch::Sender<SelfUpdate>, pace: Pace) {
    let mut arrivals = news.subscribe();
    let mut backoff = Backoff::new(pace);
    let mut refusals = Backoff::new(after_refusals(pace));
    loop {
        let untold = SelfUpdate::default();
        if arrivals.wait_for(|news| *news != untold).await.is_err() {
            return;
        }
        sleep(pace.collected_for).await;
        let update = news.send_replace(SelfUpdate::default());
        match client.put("/v1/self", &update).await {
            Ok(()) => {
                backoff.succeeded();
                refusals.succeeded();
            }
            Err(error) if error.may_pass() => {
                news.send_modify(|newer| {
                    let newest = std::mem::replace(newer, update);
                    merge(newer, newest);
                });
                backoff.wait(&error).await;
            }
            Err(error) => {
                tracing::warn!("what is new of this node is not taken: {error}");
                refusals.wait(&error).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use byway_api::RoundTrip;

    use super::*;

    #[test]
    fn a_node_that_is_refused_asks_ever_more_seldom_up_to_every_five_minutes() {
        let mut refusals = Backoff::new(after_refusals(Pace::default()));
        let latest: Vec<_> = (0..11).map(|_| refusals.next(None, u32::MAX).as_secs()).collect();
        assert_eq!(latest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn news_are_merged_and_the_newest_count() {
        let trips = |microseconds| Some(vec![RoundTrip { relay: 1, microseconds }]);
        let mut news = SelfUpdate { addresses: Some(vec![]), round_trips: trips(1), relay: None };
        merge(&mut news, SelfUpdate { round_trips: trips(2), ..SelfUpdate::default() });
        assert_eq!(news, SelfUpdate { addresses: Some(vec![]), round_trips: trips(2), relay: None });
    }
}
