//! What agents and relays do alike beside their packet threads.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use byway_api::{ControllerState, NetworkMap, NodeStatus};
use byway_net::{Clock, ControlError, Controls};
use byway_units::Time;
use tokio::sync::watch;

use crate::exit::Failure;
use crate::membership::{Contact, Membership};
use crate::standing::Standing;

/// After how long a packet thread that takes no map is told again: it is busy for less.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Does on this thread what waits for the network, for disks and for people.
///
/// # Errors
/// As the work, or if the machine has no event loop.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::machine(format!(
            "no event loop: {error}; give the process more file descriptors (LimitNOFILE)"
        ))
    })?;
    runtime.block_on(work)
}

/// Who a node is, for whoever asks.
#[derive(Clone)]
pub(crate) struct About {
    name: String,
    number: u32,
    listen: Vec<SocketAddr>,
    clock: Clock,
    /// The revision of the first map.
    revision: u64,
    maps: Option<watch::Receiver<Arc<NetworkMap>>>,
    contact: Option<watch::Receiver<Contact>>,
}

impl About {
    pub(crate) fn new(name: &str, standing: &Standing, listen: &[SocketAddr], clock: Clock) -> Self {
        Self {
            name: name.to_owned(),
            number: standing.number,
            listen: listen.to_vec(),
            clock,
            revision: standing.map.revision,
            maps: standing.member().map(Membership::maps),
            contact: standing.member().map(Membership::contact),
        }
    }

    /// What status says.
    pub(crate) fn status(&self) -> NodeStatus {
        let (controller, controller_problem) =
            controller(self.contact.as_ref().map(|contact| contact.borrow().clone()));
        NodeStatus {
            name: self.name.clone(),
            number: self.number,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_seconds: self.clock.now().saturating_since(Time::START).as_secs_f64(),
            listen: self.listen.clone(),
            controller,
            controller_problem,
            map_revision: self.maps.as_ref().map_or(self.revision, |maps| maps.borrow().revision),
        }
    }
}

/// How it stands with the controller, and what is wrong.
fn controller(contact: Option<Contact>) -> (ControllerState, Option<String>) {
    match contact {
        None => (ControllerState::None, None),
        Some(Contact::Unknown) => (ControllerState::Unknown, None),
        Some(Contact::Answers) => (ControllerState::Connected, None),
        Some(Contact::Fails(problem)) => (ControllerState::Away, Some(problem)),
    }
}

/// Passes new maps on to all packet threads, until one has ended.
pub(crate) async fn pass_on<C>(
    mut maps: watch::Receiver<Arc<NetworkMap>>,
    threads: Vec<Controls<C>>,
    control: fn(Arc<NetworkMap>) -> C,
) {
    while maps.changed().await.is_ok() {
        let map = maps.borrow_and_update().clone();
        let mut is_told = true;
        for thread in &threads {
            match thread.control(control(map.clone())) {
                Ok(()) => {}
                Err(ControlError::Full(_)) => is_told = false,
                Err(ControlError::Ended(_)) => return,
            }
        }
        if !is_told {
            tracing::warn!(
                revision = map.revision,
                "a packet thread is too busy for the new map, and is told again: if this goes on, the machine is too slow"
            );
            tokio::time::sleep(TOLD_AGAIN_AFTER).await;
            maps.mark_changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_refuses_is_away_and_why_is_said() {
        let why = "the controller does not know this node any more".to_owned();
        assert_eq!(controller(Some(Contact::Fails(why.clone()))), (ControllerState::Away, Some(why)));
        assert_eq!(controller(Some(Contact::Answers)), (ControllerState::Connected, None));
        assert_eq!(controller(Some(Contact::Unknown)), (ControllerState::Unknown, None));
        assert_eq!(controller(None), (ControllerState::None, None));
    }
}
