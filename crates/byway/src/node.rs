//! Parts of the agent and relay processes besides their packet threads: event loop, status, maps
//! and the end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use byway_api::{ControllerState, NetworkMap, NodeStatus};
use byway_net::{Clock, ControlError, Controls, Handle, ThreadError};
use byway_units::Time;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::exit::{Cause, Failure};
use crate::membership::{ControllerContact, Membership};
use crate::name_resolution::ResolvedNames;
use crate::node_identity::NodeIdentity;

/// Interval between two attempts to send a map to a busy packet thread. A thread is busy for less
/// than that.
pub(crate) const MAP_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Interval between two checks whether all packet threads run. A node whose thread has ended
/// restarts before people notice.
const THREAD_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Time that packet threads have to end. An agent notifies its peers and relays three times within
/// a second.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two checks whether the packet threads have ended.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Runs a future on this thread until it is complete, such as one that waits for the network, for
/// disks and for people.
///
/// # Errors
/// If the future fails, or the machine provides no event loop.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on_with(&mut tokio::runtime::Builder::new_current_thread(), work)
}

/// Runs a future like [`block_on`], with a thread for each core. It is for a controller, which
/// signs for thousands of nodes.
///
/// # Errors
/// As [`block_on`].
pub(crate) fn block_on_all_cores<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on_with(&mut tokio::runtime::Builder::new_multi_thread(), work)
}

fn block_on_with<T>(
    builder: &mut tokio::runtime::Builder,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::machine(format!(
            "cannot start the event loop: {error}; give the process more file descriptors (LimitNOFILE)"
        ))
    })?;
    runtime.block_on(work)
}

/// Identity of a node, and the receivers of its state, for its status.
#[derive(Clone)]
pub(crate) struct NodeInfo {
    name: String,
    number: u32,
    listen: Vec<SocketAddr>,
    clock: Clock,
    /// Revision of the map with which the node started.
    revision: u64,
    maps: Option<watch::Receiver<Arc<NetworkMap>>>,
    contact: Option<watch::Receiver<ControllerContact>>,
    names: watch::Receiver<Arc<ResolvedNames>>,
}

impl NodeInfo {
    pub(crate) fn new(
        name: &str,
        identity: &NodeIdentity,
        listen: &[SocketAddr],
        clock: Clock,
        names: watch::Receiver<Arc<ResolvedNames>>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            number: identity.number,
            listen: listen.to_vec(),
            clock,
            revision: identity.map.revision,
            maps: identity.member().map(Membership::maps),
            contact: identity.member().map(Membership::contact),
            names,
        }
    }

    /// Returns the part of the status that agents and relays have in common.
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
            unresolved: self.names.borrow().problems(),
            uplinks: Vec::new(),
        }
    }
}

/// Converts a node's contact with its controller into the form of the status; `None` without a
/// controller.
fn controller(contact: Option<ControllerContact>) -> (ControllerState, Option<String>) {
    match contact {
        None => (ControllerState::None, None),
        Some(ControllerContact::Unknown) => (ControllerState::Unknown, None),
        Some(ControllerContact::Answers) => (ControllerState::Connected, None),
        Some(ControllerContact::Fails(problem)) => (ControllerState::Disconnected, Some(problem)),
    }
}

/// Sends each new map to all packet threads, until one of them has ended. Retries while a thread is
/// busy.
pub(crate) async fn distribute_maps<C>(
    mut maps: watch::Receiver<Arc<NetworkMap>>,
    threads: Vec<Controls<C>>,
    control: fn(Arc<NetworkMap>) -> C,
) {
    while maps.changed().await.is_ok() {
        let map = maps.borrow_and_update().clone();
        let mut is_sent_to_all = true;
        for thread in &threads {
            match thread.control(control(map.clone())) {
                Ok(()) => {}
                Err(ControlError::Full(_)) => is_sent_to_all = false,
                Err(ControlError::Ended(_)) => return,
            }
        }
        if !is_sent_to_all {
            tracing::warn!(
                revision = map.revision,
                "packet thread too busy for the new map; retrying. If this does not stop, the machine \
                 is too slow"
            );
            tokio::time::sleep(MAP_RETRY_INTERVAL).await;
            maps.mark_changed();
        }
    }
}

/// Sends a new map of a static network to all packet threads when the addresses of its DNS names
/// change. The threads already know the first `changes` changes.
pub(crate) async fn follow_names<C>(
    (mut names, mut changes): (watch::Receiver<Arc<ResolvedNames>>, u64),
    map: impl Fn(&ResolvedNames) -> NetworkMap,
    threads: Vec<Controls<C>>,
    control: fn(Arc<NetworkMap>) -> C,
) {
    let maps = watch::Sender::new(Arc::new(NetworkMap::default()));
    let receiver = maps.subscribe();
    let follow = async move {
        while names.changed().await.is_ok() {
            let resolved = names.borrow_and_update().clone();
            if resolved.changes() != changes {
                changes = resolved.changes();
                maps.send_replace(Arc::new(map(&resolved)));
            }
        }
    };
    tokio::join!(follow, distribute_maps(receiver, threads, control));
}

/// Waits until one of the packet threads ends. None does so without a request, and a node that has
/// lost one must not look alive.
pub(crate) async fn any_ended<C>(threads: &[Handle<C>]) {
    let mut interval = tokio::time::interval(THREAD_POLL_INTERVAL);
    while threads.iter().all(Handle::is_running) {
        interval.tick().await;
    }
}

/// Returns the failure of starting a packet thread. `what` names the thread.
pub(crate) fn thread_failure(what: &str, error: &std::io::Error) -> Failure {
    Failure::machine(format!(
        "cannot start {what}: {error}; give the process more threads and file descriptors (TasksMax, \
         LimitNOFILE)"
    ))
}

/// Ends all packet threads by the control message `close`, and waits for their end.
///
/// # Errors
/// The error of the first thread that ended for another reason than the request, or does not end.
pub(crate) async fn close<C>(threads: Vec<Handle<C>>, close: fn() -> C) -> Result<(), Failure> {
    let deadline = Instant::now() + CLOSE_TIMEOUT;
    for thread in &threads {
        // The join reports the reason of a thread that has ended.
        while let Err(ControlError::Full(_)) = thread.control(close()) {
            if Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(CLOSE_POLL_INTERVAL).await;
        }
    }
    while threads.iter().any(Handle::is_running) && Instant::now() < deadline {
        tokio::time::sleep(CLOSE_POLL_INTERVAL).await;
    }
    let (stuck, ended): (Vec<_>, Vec<_>) = threads.into_iter().partition(Handle::is_running);
    let advice = "start the node again, and report this with its log";
    ended.into_iter().map(Handle::join).fold(Ok(()), Result::and).map_err(|error| match error {
        ThreadError::Device { .. } => Failure::machine(format!(
            "{error}; packets bypass Byway: start the node again, which creates a new device"
        )),
        _ => Failure::new(Cause::Byway, format!("{error}; {advice}")),
    })?;
    if stuck.is_empty() {
        return Ok(());
    }
    let message = format!("{} packet threads did not end within {CLOSE_TIMEOUT:?}; {advice}", stuck.len());
    Err(Failure::new(Cause::Byway, message))
}

#[cfg(test)]
mod tests {
    use byway_net::{Arrival, Io, OverlaySockets, Role, spawn};

    use super::*;

    /// A role that panics if its flag is set, and otherwise ends.
    struct PanickingRole(bool);

    impl Role for PanickingRole {
        type Control = bool;

        fn start(&mut self, _: &mut Io) {}

        fn on_datagram(&mut self, _: Arrival<'_>, _: &mut Io) {}

        fn on_deadline(&mut self, _: &mut Io) {}

        fn on_control(&mut self, panics: bool, _: &mut Io) {
            assert!(!panics, "an egg falls");
            self.0 = true;
        }

        fn deadline(&self) -> Option<Time> {
            None
        }

        fn is_finished(&self) -> bool {
            self.0
        }
    }

    #[tokio::test]
    async fn a_packet_thread_that_dies_ends_the_node_and_says_why() {
        let start = |_| {
            let sockets =
                OverlaySockets::bind(&[SocketAddr::from(([127, 0, 0, 1], 0))]).expect("a free port");
            spawn("shard", sockets, PanickingRole(false), Clock::start()).expect("a thread")
        };
        let threads: Vec<_> = (0..2).map(start).collect();
        threads[1].control(true).expect("it takes it");
        any_ended(&threads).await;
        let failure = close(threads, || false).await.expect_err("one panicked").to_string();
        assert!(failure.contains("an egg falls") && failure.contains("start the node again"), "{failure}");
    }

    #[test]
    fn a_controller_that_refuses_is_away_and_why_is_said() {
        let why = "the controller no longer knows this node".to_owned();
        assert_eq!(
            controller(Some(ControllerContact::Fails(why.clone()))),
            (ControllerState::Disconnected, Some(why))
        );
        assert_eq!(controller(Some(ControllerContact::Answers)), (ControllerState::Connected, None));
        assert_eq!(controller(Some(ControllerContact::Unknown)), (ControllerState::Unknown, None));
        assert_eq!(controller(None), (ControllerState::None, None));
    }
}
