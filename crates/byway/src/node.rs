//! What agents and relays do alike beside their packet threads.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use byway_api::{ControllerState, NetworkMap, NodeStatus};
use byway_net::{Clock, ControlError, Controls, EndError, Handle};
use byway_units::Time;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::exit::{Cause, Failure};
use crate::membership::{Contact, Membership};
use crate::names::Resolved;
use crate::standing::Standing;

/// After how long a packet thread that takes no map is told again: it is busy for less.
pub(crate) const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often packet threads are looked after: a node that carries nothing is started again before people notice.
const LOOKED_AFTER_EVERY: Duration = Duration::from_millis(500);

/// How long packet threads have to end: an agent tells its peers and relays three times within a second.
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// How often is looked whether they have.
const CLOSING_INTERVAL: Duration = Duration::from_millis(10);

/// Does on this thread what waits for the network, for disks and for people.
///
/// # Errors
/// As the work, or if the machine has no event loop.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    block_on_with(&mut tokio::runtime::Builder::new_current_thread(), work)
}

/// The same, on as many threads as there are cores: for those who sign for thousands.
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
    names: watch::Receiver<Arc<Resolved>>,
}

impl About {
    pub(crate) fn new(
        name: &str,
        standing: &Standing,
        listen: &[SocketAddr],
        clock: Clock,
        names: watch::Receiver<Arc<Resolved>>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            number: standing.number,
            listen: listen.to_vec(),
            clock,
            revision: standing.map.revision,
            maps: standing.member().map(Membership::maps),
            contact: standing.member().map(Membership::contact),
            names,
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
            unresolved: self.names.borrow().problems(),
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

/// Makes a new map for all packet threads of a static network whenever its names stand for other addresses than after so many
/// changes, which the threads know.
pub(crate) async fn follow_names<C>(
    (mut names, mut changes): (watch::Receiver<Arc<Resolved>>, u64),
    map: impl Fn(&Resolved) -> NetworkMap,
    threads: Vec<Controls<C>>,
    control: fn(Arc<NetworkMap>) -> C,
) {
    let maps = watch::Sender::new(Arc::new(NetworkMap::default()));
    let told = maps.subscribe();
    let follow = async move {
        while names.changed().await.is_ok() {
            let resolved = names.borrow_and_update().clone();
            if resolved.changes() != changes {
                changes = resolved.changes();
                maps.send_replace(Arc::new(map(&resolved)));
            }
        }
    };
    tokio::join!(follow, pass_on(told, threads, control));
}

/// Waits until a packet thread has ended, which none does unasked: a node that has lost one must not look alive.
pub(crate) async fn one_ended<C>(threads: &[Handle<C>]) {
    let mut interval = tokio::time::interval(LOOKED_AFTER_EVERY);
    while threads.iter().all(Handle::is_running) {
        interval.tick().await;
    }
}

/// What is said where the machine has no thread for packets.
pub(crate) fn no_thread(what: &str, error: &std::io::Error) -> Failure {
    Failure::machine(format!(
        "{what} cannot be started: {error}; give the process more threads and file descriptors (TasksMax, LimitNOFILE)"
    ))
}

/// Ends all packet threads.
///
/// # Errors
/// The first one's that has ended for another reason than that it was asked to, or does not end.
pub(crate) async fn close<C>(threads: Vec<Handle<C>>, close: fn() -> C) -> Result<(), Failure> {
    let deadline = Instant::now() + CLOSED_WITHIN;
    for thread in &threads {
        // One that has ended says why when it is joined.
        while let Err(ControlError::Full(_)) = thread.control(close()) {
            if Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(CLOSING_INTERVAL).await;
        }
    }
    while threads.iter().any(Handle::is_running) && Instant::now() < deadline {
        tokio::time::sleep(CLOSING_INTERVAL).await;
    }
    let (stuck, ended): (Vec<_>, Vec<_>) = threads.into_iter().partition(Handle::is_running);
    let advice = "start the node again, and report this with its log";
    ended.into_iter().map(Handle::join).fold(Ok(()), Result::and).map_err(|error| match error {
        EndError::Device { .. } => Failure::machine(format!(
            "{error}; packets go without Byway: start the node again, and it makes the device anew"
        )),
        _ => Failure::new(Cause::Byway, format!("{error}; {advice}")),
    })?;
    if stuck.is_empty() {
        return Ok(());
    }
    let message = format!("{} packet threads did not end within {CLOSED_WITHIN:?}; {advice}", stuck.len());
    Err(Failure::new(Cause::Byway, message))
}

#[cfg(test)]
mod tests {
    use byway_net::{Arrival, Io, OverlaySockets, Role, spawn};

    use super::*;

    /// Panics when it is told to, and else ends.
    struct Fragile(bool);

    impl Role for Fragile {
        type Control = bool;

        fn start(&mut self, _: &mut Io) {}

        fn received(&mut self, _: Arrival<'_>, _: &mut Io) {}

        fn woken(&mut self, _: &mut Io) {}

        fn controlled(&mut self, panics: bool, _: &mut Io) {
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
            spawn("shard", sockets, Fragile(false), Clock::start()).expect("a thread")
        };
        let threads: Vec<_> = (0..2).map(start).collect();
        threads[1].control(true).expect("it takes it");
        one_ended(&threads).await;
        let failure = close(threads, || false).await.expect_err("one panicked").to_string();
        assert!(failure.contains("an egg falls") && failure.contains("start the node again"), "{failure}");
    }

    #[test]
    fn a_controller_that_refuses_is_away_and_why_is_said() {
        let why = "the controller does not know this node any more".to_owned();
        assert_eq!(controller(Some(Contact::Fails(why.clone()))), (ControllerState::Away, Some(why)));
        assert_eq!(controller(Some(Contact::Answers)), (ControllerState::Connected, None));
        assert_eq!(controller(Some(Contact::Unknown)), (ControllerState::Unknown, None));
        assert_eq!(controller(None), (ControllerState::None, None));
    }
}
