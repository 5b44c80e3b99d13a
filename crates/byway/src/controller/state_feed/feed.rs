//! Network state at the controller: what links report, and what applications may read of it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byway_api::{
    FlowRegistration, FlowTuple, LeaseAnswer, NamedEntry, NetworkStateUse, PathState, StateAnswer,
    checked_name,
};
use byway_state::{Direction, LEASE, SAMPLE_INTERVAL, StateQuery};
use byway_units::{Duration, Time};
use data_encoding::HEXLOWER;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::addresses::{AddressPair, checked_direction, checked_tuple};
use super::encoding::{PublishedEntry, named_entry};
use super::leases::{LeaseId, LeaseTable};
use super::node_streams::NodeStreams;
use super::path_table::{PathTable, ReadEntry};
use super::refusal::FeedRefusal;
use super::samples::SampleInputs;
use super::stream_slots::StreamSlots;
use super::topology::Topology;
use crate::controller::access::{AccessTable, Application};
use crate::controller::limits::TUPLES_PER_LEASE_MAX;
use crate::membership::WallClock;

/// Number of ticks after which ended leases are removed: a second.
const TICKS_PER_EXPIRY: u64 = 20;

/// Network state of the controller's links and paths, with the leases of applications.
///
/// Nothing of it is written to the disk, and none of its locks is held while the network's state is
/// locked. Links report at their own times. All tables make their entries at one beat of 50 ms.
#[derive(Debug)]
pub(crate) struct StateFeed {
    topology: Arc<Topology>,
    access: Arc<AccessTable>,
    clock: WallClock,
    /// Run of the controller, as 16 hexadecimal digits.
    epoch: String,
    started: Instant,
    inputs: SampleInputs,
    paths: Vec<PathTable>,
    leases: Mutex<LeaseTable>,
    /// Streams of registered flows to nodes.
    flow_streams: NodeStreams,
    slots: StreamSlots,
    /// Number of beats so far. Streams wait for the next one.
    beats: watch::Sender<u64>,
}

/// Direction that an application may read, and its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadablePath {
    /// The direction.
    pub(super) direction: Direction,
    /// Index of its path in the topology.
    pub(super) path: usize,
    /// True if it is the return direction of the queried one.
    pub(super) is_return: bool,
}

impl StateFeed {
    /// Creates the feed of a topology, in which nothing has been reported. `epoch` differs from
    /// those of earlier runs.
    pub(crate) fn new(
        topology: Topology,
        access: Arc<AccessTable>,
        clock: WallClock,
        epoch: [u8; 8],
    ) -> Self {
        let topology = Arc::new(topology);
        Self {
            inputs: SampleInputs::new(&topology),
            paths: topology.paths.iter().map(|path| PathTable::new(path.path.clone())).collect(),
            leases: Mutex::new(LeaseTable::new(Arc::clone(&topology))),
            flow_streams: NodeStreams::default(),
            slots: StreamSlots::default(),
            epoch: HEXLOWER.encode(&epoch),
            started: Instant::now(),
            beats: watch::Sender::new(0),
            topology,
            access,
            clock,
        }
    }

    /// Returns the time since the start of the feed.
    pub(crate) fn now(&self) -> Time {
        let nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Time::START.saturating_add(Duration::from_nanos(nanos))
    }

    /// Returns the run of the controller.
    pub(super) fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Returns the receivers of samples.
    pub(super) const fn inputs(&self) -> &SampleInputs {
        &self.inputs
    }

    /// Returns the access of applications and members.
    pub(super) fn access(&self) -> &AccessTable {
        &self.access
    }

    /// Returns the streams of registered flows to nodes.
    pub(super) const fn flow_streams(&self) -> &NodeStreams {
        &self.flow_streams
    }

    /// Returns the slots of streams.
    pub(super) const fn slots(&self) -> &StreamSlots {
        &self.slots
    }

    /// Returns the present use of the feed.
    pub(crate) fn usage(&self) -> NetworkStateUse {
        let now = self.now();
        let [samples_accepted, samples_refused] = self.inputs.counts();
        NetworkStateUse {
            paths: self.paths.len(),
            paths_known: self.paths.iter().filter(|path| path.silent_link(now).is_none()).count(),
            reporters: self.inputs.streams().count(),
            flows: self.leases().tuples(),
            streams: self.slots.count(),
            samples_accepted,
            samples_refused,
        }
    }

    /// Returns the table of a path, by its index.
    pub(super) fn path(&self, index: usize) -> &PathTable {
        &self.paths[index]
    }

    /// Returns a receiver that is notified of each beat, after all tables have their entry.
    pub(super) fn beats(&self) -> watch::Receiver<u64> {
        self.beats.subscribe()
    }

    /// Makes the entries of all tables, removes ended leases once a second, and notifies streams.
    pub(crate) fn tick(&self, now: Time) {
        for path in &self.paths {
            path.tick(now);
        }
        if self.beats.borrow().is_multiple_of(TICKS_PER_EXPIRY) {
            self.leases().expire(now);
        }
        self.beats.send_modify(|beats| *beats += 1);
    }

    /// Registers flows of an application under the identifier `id`.
    pub(crate) fn register(
        &self,
        application: &Application,
        registration: &FlowRegistration,
        id: LeaseId,
        now: Time,
    ) -> Result<LeaseAnswer, FeedRefusal> {
        checked_name(&registration.application)?;
        if !(1..=TUPLES_PER_LEASE_MAX).contains(&registration.tuples.len()) {
            return Err(FeedRefusal::TupleCount(registration.tuples.len()));
        }
        let mut known = BTreeSet::new();
        for tuple in &registration.tuples {
            let tuple = checked_tuple(tuple)?;
            self.check_path(application, &tuple)?;
            if !known.insert(tuple) {
                return Err(FeedRefusal::TupleAgain(tuple));
            }
        }
        self.leases().register(application, id, known.into_iter().collect(), now)?;
        let expires_in_s = LEASE.as_nanos() / Duration::from_secs(1).as_nanos();
        Ok(LeaseAnswer { lease: id.to_string(), expires_in_s })
    }

    /// Checks that an application may register a flow: in one direction at least, there is a path
    /// that its tenant may use. No path, and one of others, are the same to the application.
    fn check_path(&self, application: &Application, tuple: &FlowTuple) -> Result<(), FeedRefusal> {
        let (from, to) = (tuple.from.ip(), tuple.to.ip());
        let directions = [Direction { from, to }, Direction { from: to, to: from }];
        let path = |direction: &Direction| self.topology.path_for(&application.tenant, *direction);
        if directions.iter().any(|direction| path(direction).is_some()) {
            Ok(())
        } else {
            Err(FeedRefusal::NoPath)
        }
    }

    /// Ends a lease of an application, by the text of its identifier.
    pub(crate) fn release(
        &self,
        application: &Application,
        lease: &str,
        now: Time,
    ) -> Result<(), FeedRefusal> {
        self.leases().release(application.number, LeaseId::parse(lease)?, now)
    }

    /// Renews the application's flows between two endpoints. Returns false if it has none, or may
    /// not read any more.
    pub(super) fn renew(&self, application: &Application, direction: Direction, now: Time) -> bool {
        self.access.is_valid(application, self.clock.unix_seconds())
            && self.leases().renew(application.number, AddressPair::of(direction), now)
    }

    /// Returns the path that a query asks for, and its return direction if `both`, as far as the
    /// tenant may use them. It renews the application's flows there.
    ///
    /// # Errors
    /// If the addresses are invalid, or the application has no flow between them. Addresses without
    /// a path, and those of others, have the same answer.
    pub(super) fn readable(
        &self,
        application: &Application,
        (from, to): (IpAddr, IpAddr),
        both: bool,
        now: Time,
    ) -> Result<Vec<ReadablePath>, FeedRefusal> {
        let direction = checked_direction(from, to)?;
        if !self.renew(application, direction, now) {
            return Err(FeedRefusal::NoPath);
        }
        let back = Direction { from: direction.to, to: direction.from };
        let directions = [(direction, false)].into_iter().chain(both.then_some((back, true)));
        let path = |(direction, is_return)| {
            let path = self.topology.path_for(&application.tenant, direction)?;
            Some(ReadablePath { direction, path, is_return })
        };
        let paths: Vec<ReadablePath> = directions.filter_map(path).collect();
        if paths.is_empty() { Err(FeedRefusal::NoPath) } else { Ok(paths) }
    }

    /// Answers a query in the published form, of one direction.
    pub(crate) fn published(
        &self,
        application: &Application,
        ends: (IpAddr, IpAddr),
        query: StateQuery,
        now: Time,
    ) -> Result<String, FeedRefusal> {
        let paths = self.readable(application, ends, false, now)?;
        let entries = self.paths[paths[0].path].read(query, now);
        let published: Vec<_> = entries.iter().map(|read| PublishedEntry(&read.entry)).collect();
        Ok(serde_json::to_string(&published).expect("entries have only numbers"))
    }

    /// Answers a query in the form with names: of one direction, or of both if there is a query for
    /// the return direction.
    pub(crate) fn named(
        &self,
        application: &Application,
        ends: (IpAddr, IpAddr),
        there: StateQuery,
        back: Option<StateQuery>,
        now: Time,
    ) -> Result<StateAnswer, FeedRefusal> {
        let paths = self.readable(application, ends, back.is_some(), now)?;
        let answer = |readable: &ReadablePath| {
            let query = back.filter(|_| readable.is_return).unwrap_or(there);
            self.path_state(*readable, query, now)
        };
        Ok(StateAnswer { epoch: self.epoch.clone(), paths: paths.iter().map(answer).collect() })
    }

    fn path_state(&self, readable: ReadablePath, query: StateQuery, now: Time) -> PathState {
        let direction = readable.direction;
        let table = &self.paths[readable.path];
        let entries = table.read(query, now);
        let silent_link = table.silent_link(now).and_then(|link| self.topology.link(link));
        PathState {
            from: direction.from,
            to: direction.to,
            entries: entries.iter().map(|read| self.named_entry(read)).collect(),
            silent_link: silent_link.map(|link| link.name.clone()),
        }
    }

    /// Returns an entry as a reader gets it, in the form with names.
    pub(super) fn named_entry(&self, read: &ReadEntry) -> NamedEntry {
        named_entry(&read.entry, read.waited, &self.topology)
    }

    /// Locks the leases. They are consistent even after a panic, because each change is one step.
    pub(super) fn leases(&self) -> MutexGuard<'_, LeaseTable> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes entries at each beat of 50 ms, until `stop` resolves. Beats that a busy machine missed are
/// skipped: the next entry covers their time.
pub(crate) async fn run(feed: Arc<StateFeed>, stop: impl Future<Output = ()>) {
    let mut beat = interval(std::time::Duration::from_nanos(SAMPLE_INTERVAL.as_nanos()));
    beat.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = beat.tick() => feed.tick(feed.now()),
        }
    }
}
