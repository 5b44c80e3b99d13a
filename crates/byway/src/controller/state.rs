//! What all requests share: the network, what is written of it, and who waits for news.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use byway_api::{
    ConnectionCounts, ControllerStatus, NodeEntry, NodeList, Role, RoundTrip, SignedMap, TenantUse,
};
use data_encoding::{BASE64, HEXLOWER};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use super::counts::RequestCounts;
use super::identity::Identity;
use super::limits::{ALIVE_SECONDS, CONNECTIONS, LOG_INTERVAL, POLLS_PER_NODE_MAX};
use super::lock;
use super::network::{
    Change, Contents, Decision, GrantSettings, Issuer, Network, Node, Plan, Quotas, Refusal,
};
use super::store::{Store, StoreError, Stored};
use crate::connections::Gate;
use crate::membership::{WallClock, files};

/// Settings of a network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkSettings {
    /// Common settings of all grants.
    pub(crate) grants: GrantSettings,
    /// Quotas of tenants.
    pub(crate) quotas: Quotas,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Unchanged {
    /// It is not allowed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The disk does not take it.
    #[error("nothing was changed, as it could not be written: {0}")]
    Storage(#[from] StoreError),
}

/// The controller, as requests see it.
#[derive(Debug)]
pub(crate) struct State {
    identity: Identity,
    clock: WallClock,
    /// Held while a change is decided and written; nobody else waits for the disk.
    store: Mutex<Store>,
    view: Mutex<View>,
    changes: watch::Sender<u64>,
    polls: Arc<Mutex<BTreeMap<u32, usize>>>,
    database: PathBuf,
    commits: Mutex<Commits>,
    requests: RequestCounts,
    connections: Gate,
    /// Requests that a quota refused, by the tenant's name.
    quota_refusals: Mutex<BTreeMap<String, u64>>,
}

/// How writing went since the start.
#[derive(Clone, Debug, Default)]
struct Commits {
    done: u64,
    failed: u64,
    /// Time of the last log line about a failure.
    logged: Option<Instant>,
    /// Why the last one failed, if it did.
    problem: Option<String>,
}

/// The network, and what follows from it.
struct View {
    network: Network,
    plan: Plan,
    issuer: Issuer,
    /// Counts the changes since the start.
    generation: u64,
    /// The highest that any map has.
    revision: u64,
    maps: BTreeMap<u32, KeptMap>,
    seen_unix_seconds: BTreeMap<u32, u64>,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "View(generation {}, revision {})", self.generation, self.revision)
    }
}

/// A node's map, as it was given out last.
struct KeptMap {
    generation: u64,
    contents: Contents,
    current: CurrentMap,
}

/// A map and its revision.
#[derive(Clone, Debug)]
pub(crate) struct CurrentMap {
    /// The map's revision.
    pub(crate) revision: u64,
    /// The map.
    pub(crate) signed: Arc<SignedMap>,
}

impl State {
    /// The controller that was written.
    pub(crate) fn new(
        identity: Identity,
        store: Store,
        stored: &Stored,
        settings: NetworkSettings,
        clock: WallClock,
    ) -> Self {
        let mut network = Network::default();
        network.apply(&stored.changes);
        network.limit_tenants(settings.quotas);
        let view = View {
            plan: Plan::of(&network),
            network,
            issuer: Issuer::new(identity.signing_key(), settings.grants),
            generation: 0,
            revision: stored.revision,
            maps: BTreeMap::new(),
            seen_unix_seconds: BTreeMap::new(),
        };
        Self {
            identity,
            clock,
            database: store.place().to_owned(),
            store: Mutex::new(store),
            view: Mutex::new(view),
            changes: watch::Sender::new(0),
            polls: Arc::default(),
            commits: Mutex::default(),
            requests: RequestCounts::default(),
            connections: Gate::new(CONNECTIONS.within_files()),
            quota_refusals: Mutex::default(),
        }
    }

    /// Who the controller is.
    pub(crate) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Its clock, in seconds of Unix time.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.clock.unix_seconds()
    }

    /// Decides on a change and makes it, once it is on the disk. Neither happens in the threads that serve others.
    pub(crate) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        decide: impl FnOnce(&Network, u64) -> Result<Decision<T>, Refusal> + Send + 'static,
    ) -> Result<T, Unchanged> {
        let state = Arc::clone(self);
        let changed = tokio::task::spawn_blocking(move || state.change_blocking(decide)).await;
        changed.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn change_blocking<T>(
        &self,
        decide: impl FnOnce(&Network, u64) -> Result<Decision<T>, Refusal>,
    ) -> Result<T, Unchanged> {
        let mut store = lock(&self.store);
        let decision = decide(&self.view().network, self.clock.unix_seconds());
        let decision = decision.inspect_err(|refusal| self.count_quota(refusal))?;
        if !decision.changes.is_empty() {
            self.write(&mut store, &decision.changes)?;
            self.view().apply(&decision.changes);
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(decision.answer)
    }

    /// Counts a request that a tenant's quota refuses. There are no more tenants than were named in tokens.
    fn count_quota(&self, refusal: &Refusal) {
        if let Refusal::QuotaReached { tenant, .. } = refusal {
            *lock(&self.quota_refusals).entry(tenant.clone()).or_default() += 1;
        }
    }

    fn write(&self, store: &mut Store, changes: &[Change]) -> Result<(), StoreError> {
        let revision = self.view().revision;
        let written = store.commit(changes, revision);
        let mut commits = lock(&self.commits);
        commits.problem = written.as_ref().err().map(ToString::to_string);
        if let Some(problem) = &commits.problem {
            if commits.failed == 0 || commits.logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                tracing::error!("{problem}; the controller goes on with what it has");
                commits.logged = Some(Instant::now());
            }
            commits.failed += 1;
        } else {
            commits.done += 1;
        }
        written
    }

    fn view(&self) -> MutexGuard<'_, View> {
        lock(&self.view)
    }

    /// Reads the network.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Network) -> T) -> T {
        read(&self.view().network)
    }

    /// The number of the member that shows this bearer secret, which is thereby seen.
    pub(crate) fn member(&self, bearer: &str) -> Result<u32, Refusal> {
        let now = self.clock.unix_seconds();
        let mut view = self.view();
        let number = view.network.member(bearer)?.number;
        view.seen_unix_seconds.insert(number, now);
        Ok(number)
    }

    /// Tells of every change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The map that a member is to have now.
    pub(crate) fn map(&self, number: u32) -> Result<CurrentMap, Refusal> {
        self.view().map(number, self.clock.unix_microseconds()).ok_or(Refusal::NotAMember)
    }

    /// A place among those who wait for news of one member.
    pub(crate) fn begin_poll(&self, number: u32) -> Result<Poll, Refusal> {
        let mut polls = lock(&self.polls);
        let own = polls.entry(number).or_default();
        if *own >= POLLS_PER_NODE_MAX {
            return Err(Refusal::TooManyRequests { wait_seconds: 1 });
        }
        *own += 1;
        Ok(Poll { number, polls: Arc::clone(&self.polls) })
    }

    /// How the controller is.
    pub(crate) fn status(&self) -> ControllerStatus {
        let polls = lock(&self.polls).values().sum();
        let commits = lock(&self.commits).clone();
        let unix_seconds = self.clock.unix_seconds();
        let [strangers, members] = self.connections.connections();
        let connections = ConnectionCounts { strangers, members, ended: self.connections.ended() };
        let view = self.view();
        ControllerStatus {
            network: self.identity.network().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            unix_seconds,
            agents: view.network.count(Role::Agent),
            relays: view.network.count(Role::Relay),
            agents_alive: view.alive(Role::Agent, unix_seconds),
            relays_alive: view.alive(Role::Relay, unix_seconds),
            pairs: view.network.pair_count(),
            polls,
            storage_problem: commits.problem,
            commits: commits.done,
            commits_failed: commits.failed,
            database_bytes: files::length(&self.database),
            requests: self.requests.counted(),
            connections,
            tenants: view.tenants(&lock(&self.quota_refusals)),
        }
    }

    /// Admission of connections.
    pub(crate) const fn connections(&self) -> &Gate {
        &self.connections
    }

    /// What is counted of requests.
    pub(crate) const fn requests(&self) -> &RequestCounts {
        &self.requests
    }

    /// Why the last change could not be written.
    pub(crate) fn storage_problem(&self) -> Option<String> {
        lock(&self.commits).problem.clone()
    }

    /// All members.
    pub(crate) fn nodes(&self) -> NodeList {
        let view = self.view();
        NodeList { nodes: view.network.nodes().map(|node| view.entry(node)).collect() }
    }
}

impl View {
    fn apply(&mut self, changes: &[Change]) {
        self.network.apply(changes);
        self.plan = Plan::of(&self.network);
        self.generation += 1;
        for change in changes {
            if let Change::NoNode(number) = change {
                self.maps.remove(number);
                self.seen_unix_seconds.remove(number);
            }
        }
    }

    /// Returns the use of the shared tables by each tenant.
    fn tenants(&self, refused: &BTreeMap<String, u64>) -> Vec<TenantUse> {
        let mut uses = self.network.tenant_uses();
        for tenant in &mut uses {
            tenant.refused = refused.get(&tenant.name).copied().unwrap_or_default();
        }
        uses
    }

    /// How many members of a role were heard of lately.
    fn alive(&self, role: Role, now_unix_seconds: u64) -> usize {
        let is_alive = |node: &&Node| {
            let seen = self.seen_unix_seconds.get(&node.number);
            node.role == role
                && seen.is_some_and(|seen| seen.saturating_add(ALIVE_SECONDS) >= now_unix_seconds)
        };
        self.network.nodes().filter(is_alive).count()
    }

    /// The map of a node. Its revision is a new one only if something in it is.
    fn map(&mut self, number: u32, unix_microseconds: u64) -> Option<CurrentMap> {
        let now_unix_seconds = unix_microseconds / 1_000_000;
        let node = self.network.node(number)?;
        let kept = self.maps.get_mut(&number);
        if let Some(kept) = &kept
            && kept.generation == self.generation
            && now_unix_seconds < kept.contents.renewed_at
        {
            return Some(kept.current.clone());
        }
        let contents = self.network.contents(node, &self.plan, &mut self.issuer, now_unix_seconds);
        if let Some(kept) = kept.filter(|kept| kept.contents.map == contents.map) {
            kept.generation = self.generation;
            kept.contents.renewed_at = contents.renewed_at;
            return Some(kept.current.clone());
        }
        let current = self.sign(&contents, unix_microseconds);
        let kept = KeptMap { generation: self.generation, contents, current: current.clone() };
        self.maps.insert(number, kept);
        Some(current)
    }

    /// Revisions are microseconds of Unix time, and rise even if the clock does not while the controller runs: so they need
    /// not be written for each map, and grants are renewed though the disk may be full. Members ask for any other revision
    /// than theirs, so that a clock that was set back keeps nothing from them.
    fn sign(&mut self, contents: &Contents, unix_microseconds: u64) -> CurrentMap {
        self.revision = unix_microseconds.max(self.revision + 1);
        let mut map = contents.map.clone();
        map.revision = self.revision;
        let text = serde_json::to_string(&map).expect("maps have only texts and numbers");
        let signature = BASE64.encode(&self.issuer.sign_map(&text));
        CurrentMap { revision: self.revision, signed: Arc::new(SignedMap { map: text, signature }) }
    }

    fn entry(&self, node: &Node) -> NodeEntry {
        let round_trips = node.round_trips.iter();
        NodeEntry {
            number: node.number,
            role: node.role,
            tenant: self.network.tenant_of(node).map(str::to_owned),
            name: node.name.clone(),
            key: HEXLOWER.encode(&node.key.0),
            addresses: node.addresses.clone(),
            shards: node.shards,
            near_relay: self.network.near_relay(node).filter(|_| node.role == Role::Agent),
            round_trips: round_trips
                .map(|(relay, microseconds)| RoundTrip { relay: *relay, microseconds: *microseconds })
                .collect(),
            last_seen_unix_seconds: self.seen_unix_seconds.get(&node.number).copied(),
        }
    }
}

/// Somebody waits for news; until it is dropped.
#[derive(Debug)]
pub(crate) struct Poll {
    number: u32,
    polls: Arc<Mutex<BTreeMap<u32, usize>>>,
}

impl Drop for Poll {
    fn drop(&mut self) {
        let mut polls = lock(&self.polls);
        let own = polls.remove(&self.number).unwrap_or_default();
        if own > 1 {
            polls.insert(self.number, own - 1);
        }
    }
}
