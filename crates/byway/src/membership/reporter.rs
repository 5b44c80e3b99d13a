//! Telling the controller what is new of the node.

use byway_api::SelfUpdate;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::{Backoff, Pace};
use super::limits::REFUSED_RETRY_FACTOR;
use super::{Client, MembershipError, random};

/// Sends what is new of the node, a while after it is: what follows closely goes with it.
pub(super) struct Reporter {
    client: Client,
    news: watch::Sender<SelfUpdate>,
    pace: Pace,
    backoff: Backoff,
    refusals: Backoff,
    /// The relay that the node asked for in vain, and when it asks again: relays may join later than those who name them.
    wanted: Option<(String, Instant)>,
}

impl Reporter {
    pub(super) fn new(client: Client, news: watch::Sender<SelfUpdate>, pace: Pace) -> Self {
        let (backoff, refusals) = (Backoff::new(pace), Backoff::new(after_refusals(pace)));
        Self { client, news, pace, backoff, refusals, wanted: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.something_to_tell().await;
            sleep(self.pace.collected_for).await;
            self.tell().await;
        }
    }

    async fn something_to_tell(&mut self) {
        let mut arrivals = self.news.subscribe();
        let untold = SelfUpdate::default();
        let arrive = arrivals.wait_for(|news| *news != untold);
        let Some((relay, due)) = self.wanted.clone() else {
            drop(arrive.await);
            return;
        };
        tokio::select! {
            arrived = arrive => drop(arrived),
            () = sleep_until(due) => {
                let again = SelfUpdate { relay: Some(relay), ..SelfUpdate::default() };
                self.put_back(again);
            }
        }
    }

    async fn tell(&mut self) {
        let update = self.news.send_replace(SelfUpdate::default());
        match self.client.put("/v1/self", &update).await {
            Ok(()) => {
                self.backoff.succeeded();
                if update.relay.is_some() {
                    self.wanted = None;
                }
                if self.wanted.is_none() {
                    self.refusals.succeeded();
                }
            }
            Err(error) if error.may_pass() => {
                self.put_back(update);
                self.backoff.wait(&error).await;
            }
            Err(error) => self.refused(update, &error).await,
        }
    }

    /// What is refused is said again, as long as nothing newer takes its place. A relay that is not there yet is asked for
    /// alone: all else is taken without it.
    async fn refused(&mut self, mut update: SelfUpdate, error: &MembershipError) {
        tracing::warn!("what is new of this node is not taken: {error}");
        let relay = update.relay.take_if(|_| error.is_about_relay());
        self.put_back(update);
        if let Some(relay) = relay {
            let pause = self.refusals.next(error.retry_after(), u32::from_ne_bytes(random::bytes()));
            self.wanted = Some((relay, Instant::now() + pause));
        } else {
            self.refusals.wait(error).await;
        }
    }

    /// Has it sent with what came since then.
    fn put_back(&self, update: SelfUpdate) {
        self.news.send_modify(|newer| {
            let newest = std::mem::replace(newer, update);
            merge(newer, newest);
        });
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
