//! What goes on while a node is a member: it waits for maps.

use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use byway_api::{NetworkMap, SignedMap};
use byway_wire::seal::VerifyingKey;
use tokio::sync::watch;

use super::backoff::{Backoff, Pace};
use super::limits::POLL_PATIENCE;
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
    /// Why the controller is of no help, as the log says since then.
    pub(super) failing: Option<Discriminant<MembershipError>>,
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

    fn answers(&mut self) {
        self.contact.send_replace(Contact::Answers);
        if self.failing.take().is_some() {
            tracing::info!("the controller answers again");
        }
    }

    /// Is logged once, until the controller answers again or it is something else.
    fn fails(&mut self, error: &MembershipError) {
        self.contact.send_replace(Contact::Fails(error.to_string()));
        let kind = discriminant(error);
        if self.failing.replace(kind) != Some(kind) {
            tracing::warn!("{error}; the node goes on with the map that it has");
        }
    }
}
