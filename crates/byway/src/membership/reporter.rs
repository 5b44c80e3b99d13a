//! Reports of a node's changes to the controller.

use byway_api::SelfUpdate;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::{Backoff, RetryPolicy};
use super::limits::REFUSED_RETRY_FACTOR;
use super::{Client, MembershipError, random};

/// Task that sends changes of the node to the controller, after a short delay to combine them with
/// later ones.
pub(super) struct Reporter {
    client: Client,
    updates: watch::Sender<SelfUpdate>,
    policy: RetryPolicy,
    backoff: Backoff,
    refusals: Backoff,
    /// Preferred relay that the controller did not know, and the time of the next attempt to report
    /// it. A relay may join later than a node that names it.
    wanted: Option<(String, Instant)>,
}

impl Reporter {
    pub(super) fn new(client: Client, updates: watch::Sender<SelfUpdate>, policy: RetryPolicy) -> Self {
        let (backoff, refusals) = (Backoff::new(policy), Backoff::new(after_refusals(policy)));
        Self { client, updates, policy, backoff, refusals, wanted: None }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.wait_for_update().await;
            sleep(self.policy.batch_delay).await;
            self.send_update().await;
        }
    }

    async fn wait_for_update(&mut self) {
        let mut arrivals = self.updates.subscribe();
        let empty = SelfUpdate::default();
        let next_update = arrivals.wait_for(|update| *update != empty);
        let Some((relay, due)) = self.wanted.clone() else {
            drop(next_update.await);
            return;
        };
        tokio::select! {
            arrived = next_update => drop(arrived),
            () = sleep_until(due) => {
                let again = SelfUpdate { relay: Some(relay), ..SelfUpdate::default() };
                self.requeue(again);
            }
        }
    }

    async fn send_update(&mut self) {
        let update = self.updates.send_replace(SelfUpdate::default());
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
            Err(error) if error.is_transient() => {
                self.requeue(update);
                self.backoff.wait(&error).await;
            }
            Err(error) => self.on_refusal(update, &error).await,
        }
    }

    /// Queues a refused update again, and waits for a pause. A preferred relay that the controller
    /// does not know is reported later and separately, because the rest is accepted without it.
    async fn on_refusal(&mut self, mut update: SelfUpdate, error: &MembershipError) {
        tracing::warn!("the controller refused an update of this node: {error}");
        let relay = update.relay.take_if(|_| error.is_about_relay());
        self.requeue(update);
        if let Some(relay) = relay {
            let pause = self.refusals.next(error.retry_after(), u32::from_ne_bytes(random::bytes()));
            self.wanted = Some((relay, Instant::now() + pause));
        } else {
            self.refusals.wait(error).await;
        }
    }

    /// Returns an update to the queue, merged with newer values there.
    fn requeue(&self, update: SelfUpdate) {
        self.updates.send_modify(|newer| {
            let newest = std::mem::replace(newer, update);
            merge(newer, newest);
        });
    }
}

/// Merges a newer update into an older one: its present fields replace the older values.
pub(super) fn merge(older: &mut SelfUpdate, newer: SelfUpdate) {
    older.addresses = newer.addresses.or(older.addresses.take());
    older.round_trips = newer.round_trips.or(older.round_trips.take());
    older.relay = newer.relay.or(older.relay.take());
    older.usage = newer.usage.or(older.usage.take());
    older.transit = newer.transit.or(older.transit);
}

/// Returns the intervals between attempts after a refusal that a person has to resolve. Attempts
/// and warnings become rarer.
fn after_refusals(policy: RetryPolicy) -> RetryPolicy {
    RetryPolicy { retry_max: policy.retry_max * REFUSED_RETRY_FACTOR, ..policy }
}

#[cfg(test)]
mod tests {
    use byway_api::RoundTrip;

    use super::*;

    #[test]
    fn a_node_that_is_refused_asks_ever_more_seldom_up_to_every_five_minutes() {
        let mut refusals = Backoff::new(after_refusals(RetryPolicy::default()));
        let latest: Vec<_> = (0..11).map(|_| refusals.next(None, u32::MAX).as_secs()).collect();
        assert_eq!(latest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    }

    #[test]
    fn news_are_merged_and_the_newest_count() {
        let trips = |microseconds| Some(vec![RoundTrip { relay: 1, microseconds }]);
        let mut update =
            SelfUpdate { addresses: Some(vec![]), round_trips: trips(1), ..SelfUpdate::default() };
        merge(&mut update, SelfUpdate { round_trips: trips(2), ..SelfUpdate::default() });
        assert_eq!(
            update,
            SelfUpdate { addresses: Some(vec![]), round_trips: trips(2), ..SelfUpdate::default() }
        );
    }
}
