//! Polls of a member for new maps.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use byway_api::{NetworkMap, SignedMap};
use byway_wire::seal::VerifyingKey;
use tokio::sync::watch;

use super::backoff::{Backoff, RetryPolicy};
use super::limits::POLL_TIMEOUT;
use super::membership_files::{MembershipFiles, verify_map};
use super::{Client, MembershipError};

/// State of a node's contact with its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ControllerContact {
    /// No request to the controller has ended yet.
    Unknown,
    /// The controller answered the latest request.
    Answers,
    /// The latest request failed, for this reason. The node continues with its latest map.
    Fails(String),
}

/// Task that polls the controller for new maps, stores them, and publishes them.
pub(super) struct Poller {
    pub(super) client: Client,
    pub(super) verifying_key: VerifyingKey,
    pub(super) files: MembershipFiles,
    pub(super) maps: watch::Sender<Arc<NetworkMap>>,
    pub(super) contact: watch::Sender<ControllerContact>,
    /// Kind of the latest logged error; `None` while the controller answers.
    pub(super) failing: Option<Discriminant<MembershipError>>,
}

impl Poller {
    pub(super) async fn run(mut self, policy: RetryPolicy) {
        let mut backoff = Backoff::new(policy);
        loop {
            match self.poll().await {
                Ok(()) => {
                    backoff.succeeded();
                    self.on_answer();
                }
                Err(error) => {
                    self.on_failure(&error);
                    backoff.wait(&error).await;
                }
            }
        }
    }

    /// Polls the controller once for a newer map, and stores and publishes it. If the latest
    /// request failed, the controller returns its current map without delay.
    async fn poll(&mut self) -> Result<(), MembershipError> {
        let known = self.maps.borrow().revision;
        let waits = *self.contact.borrow() == ControllerContact::Answers;
        let path = if waits { format!("/v1/map?after={known}") } else { "/v1/map".to_owned() };
        let Some(signed) = self.client.poll::<SignedMap>(&path, POLL_TIMEOUT).await? else {
            return Ok(());
        };
        let map = verify_map(&signed, &self.verifying_key)?;
        if map.revision == known && !waits {
            return Ok(());
        }
        if map.revision == known {
            // The request was for another one: without a pause, the loop would run as fast as it
            // can.
            return Err(MembershipError::BadMap("the controller sent the same map again".to_owned()));
        }
        if let Err(error) = self.files.save_map(&signed) {
            tracing::warn!("{error}; the node uses the new map now, but will start with the old one");
        }
        self.maps.send_replace(Arc::new(map));
        Ok(())
    }

    fn on_answer(&mut self) {
        self.contact.send_replace(ControllerContact::Answers);
        if self.failing.take().is_some() {
            tracing::info!("controller reachable again");
        }
    }

    /// Publishes that a poll failed. Logs the error, unless the previous one was of the same kind.
    fn on_failure(&mut self, error: &MembershipError) {
        self.contact.send_replace(ControllerContact::Fails(error.to_string()));
        let kind = discriminant(error);
        if self.failing.replace(kind) != Some(kind) {
            tracing::warn!("{error}; continuing with the current map");
        }
    }
}
