//! State of the controller that all requests share: the network, its database, and the pending
//! polls.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use byway_api::{
    ConnectionCounts, ControllerStatus, NetworkCost, NetworkStateUse, NodeEntry, NodeList, RelayUsage, Role,
    RoundTrip, SignedMap, StorageStatus, TenantUse,
};
use byway_config_types::{PriceSheets, Problem};
use data_encoding::{BASE64, HEXLOWER};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;

use super::access::AccessTable;
use super::costs::RelayCosts;
use super::counts::RequestCounts;
use super::identity::Identity;
use super::limits::{ALIVE_SECONDS, CONNECTIONS, LOG_INTERVAL, POLLS_PER_NODE_MAX};
use super::lock;
use super::network::{
    self, AffectedMembers, Change, Decision, GrantIssuer, GrantSettings, MapContents, Network, NodeRecord,
    PathPlan, Quotas, Refusal,
};
use super::store::{Store, StoreError, StoredState};
use crate::connections::ConnectionLimiter;
use crate::membership::{WallClock, files};
use crate::settings::SharedTenant;

/// Settings of the controller's network: of grants, and of quotas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetworkSettings {
    /// Settings that all grants have in common.
    pub(crate) grants: GrantSettings,
    /// Quotas of each tenant.
    pub(crate) quotas: Quotas,
}

/// Reason why a change of the network was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ChangeError {
    /// The controller refuses the change.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The database could not store the change.
    #[error("cannot store the change, nothing was changed: {0}")]
    Storage(#[from] StoreError),
}

/// State of the controller, shared by all requests.
#[derive(Debug)]
pub(crate) struct State {
    identity: Identity,
    clock: WallClock,
    /// Access to network state, which has a lock of its own.
    access: Arc<AccessTable>,
    /// Database. It stays locked while a change is decided and written. Requests without a change
    /// do not wait for the disk.
    store: Mutex<Store>,
    view: Mutex<NetworkSnapshot>,
    changes: watch::Sender<u64>,
    polls: Arc<Mutex<BTreeMap<u32, usize>>>,
    database: PathBuf,
    commits: Mutex<Commits>,
    requests: RequestCounts,
    connections: ConnectionLimiter,
    /// Requests that a quota refused, by the tenant's name.
    quota_refusals: Mutex<BTreeMap<String, u64>>,
}

/// Numbers of the database's successful and failed writes since the start, and the latest failure.
#[derive(Clone, Debug, Default)]
struct Commits {
    done: u64,
    failed: u64,
    /// Time of the latest log message about a failed write.
    logged: Option<Instant>,
    /// Reason of the latest write's failure; `None` if it succeeded.
    problem: Option<String>,
}

/// The network's state, and the plan, maps and caches derived from it.
struct NetworkSnapshot {
    network: Network,
    plan: PathPlan,
    issuer: GrantIssuer,
    costs: RelayCosts,
    /// Number of changes since the start that may have altered all maps.
    generation: u64,
    /// Highest revision of any node's map.
    revision: u64,
    maps: BTreeMap<u32, CachedMap>,
    seen_unix_seconds: BTreeMap<u32, u64>,
}

impl fmt::Debug for NetworkSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkSnapshot(generation {}, revision {})", self.generation, self.revision)
    }
}

/// Latest map of a node, and the network's generation for which it was made; `None` if a later
/// change may have altered it.
struct CachedMap {
    generation: Option<u64>,
    contents: MapContents,
    current: CurrentMap,
}

/// Signed map of a node, and its revision.
#[derive(Clone, Debug)]
pub(crate) struct CurrentMap {
    /// Revision of the map.
    pub(crate) revision: u64,
    /// Map as JSON text, with its signature.
    pub(crate) signed: Arc<SignedMap>,
}

impl State {
    /// Creates the controller's state from the contents of its database.
    pub(crate) fn new(
        identity: Identity,
        store: Store,
        stored: &StoredState,
        settings: NetworkSettings,
        clock: WallClock,
    ) -> Self {
        let mut network = Network::default();
        network.apply(&stored.changes);
        network.limit_tenants(settings.quotas);
        let access = Arc::<AccessTable>::default();
        access.apply(&stored.changes);
        let view = NetworkSnapshot {
            plan: PathPlan::of(&network),
            network,
            issuer: GrantIssuer::new(identity.signing_key(), settings.grants),
            costs: RelayCosts::default(),
            generation: 0,
            revision: stored.revision,
            maps: BTreeMap::new(),
            seen_unix_seconds: BTreeMap::new(),
        };
        Self {
            identity,
            clock,
            access,
            database: store.path().to_owned(),
            store: Mutex::new(store),
            view: Mutex::new(view),
            changes: watch::Sender::new(0),
            polls: Arc::default(),
            commits: Mutex::default(),
            requests: RequestCounts::default(),
            connections: ConnectionLimiter::new(CONNECTIONS.within_files()),
            quota_refusals: Mutex::default(),
        }
    }

    /// Returns the controller's identity.
    pub(crate) const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the access to network state.
    pub(crate) const fn access(&self) -> &Arc<AccessTable> {
        &self.access
    }

    /// Returns the time of the controller's clock, in seconds of Unix time.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.clock.unix_seconds()
    }

    /// Decides on a change of the network, writes it to the disk, applies it, and wakes the pending
    /// polls. All of it runs on a blocking thread, not on those that serve requests.
    pub(crate) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        decide: impl FnOnce(&Network, u64) -> Result<Decision<T>, Refusal> + Send + 'static,
    ) -> Result<T, ChangeError> {
        let state = Arc::clone(self);
        let changed = tokio::task::spawn_blocking(move || state.change_blocking(decide)).await;
        changed.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    fn change_blocking<T>(
        &self,
        decide: impl FnOnce(&Network, u64) -> Result<Decision<T>, Refusal>,
    ) -> Result<T, ChangeError> {
        let mut store = lock(&self.store);
        let decision = decide(&self.view().network, self.clock.unix_seconds());
        let decision = decision.inspect_err(|refusal| self.count_quota(refusal))?;
        if !decision.changes.is_empty() {
            self.write(&mut store, &decision.changes)?;
            self.access.apply(&decision.changes);
            if self.view().apply(&decision.changes) {
                self.changes.send_modify(|changes| *changes += 1);
            }
        }
        Ok(decision.answer)
    }

    /// Replaces the prices of relays, and wakes the pending polls.
    pub(crate) fn set_prices(&self, prices: PriceSheets) {
        self.view().set_prices(prices);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Replaces the tenants whose flows relays may code together, and wakes the pending polls.
    /// Fails with the problem of a tenant that does not exist; then nothing changes.
    pub(crate) fn set_shared_coding(&self, tenants: &[SharedTenant]) -> Result<(), Problem> {
        let is_changed = self.view().set_shared_coding(tenants)?;
        if is_changed {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }

    /// Records the traffic that a relay reports.
    pub(crate) fn report_usage(&self, number: u32, usage: &RelayUsage) {
        let now = self.clock.unix_seconds();
        let NetworkSnapshot { network, costs, .. } = &mut *self.view();
        costs.report(network, number, usage, now);
    }

    /// Returns the costs of all relays that have reported their traffic of this month.
    pub(crate) fn costs(&self) -> NetworkCost {
        let now = self.clock.unix_seconds();
        let NetworkSnapshot { network, costs, .. } = &mut *self.view();
        costs.costs(self.identity.network(), network, now)
    }

    /// Counts a refusal by a tenant's quota; ignores other refusals. Only tenants that tokens name
    /// have entries, which bounds the table.
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
                tracing::error!("{problem}; the controller continues without storing changes");
                commits.logged = Some(Instant::now());
            }
            commits.failed += 1;
        } else {
            commits.done += 1;
        }
        written
    }

    fn view(&self) -> MutexGuard<'_, NetworkSnapshot> {
        lock(&self.view)
    }

    /// Calls `read` with the network, and returns its result.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Network) -> T) -> T {
        read(&self.view().network)
    }

    /// Returns the number of the member that `bearer` authenticates, and records that the member is
    /// alive.
    pub(crate) fn member(&self, bearer: &str) -> Result<u32, Refusal> {
        let now = self.clock.unix_seconds();
        let mut view = self.view();
        let number = view.network.member(bearer)?.number;
        view.seen_unix_seconds.insert(number, now);
        Ok(number)
    }

    /// Records that a member is alive, whose request lasts.
    pub(crate) fn note_seen(&self, number: u32) {
        let now = self.clock.unix_seconds();
        let mut view = self.view();
        // A member that was removed in the meantime stays removed.
        if let Some(seen) = view.seen_unix_seconds.get_mut(&number) {
            *seen = now;
        }
    }

    /// Returns a receiver that is notified of each change of the network.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the current signed map of a member.
    pub(crate) fn map(&self, number: u32) -> Result<CurrentMap, Refusal> {
        self.view().map(number, self.clock.unix_microseconds()).ok_or(Refusal::NotAMember)
    }

    /// Begins a member's poll for a new map. Fails if the member has [`POLLS_PER_NODE_MAX`] polls
    /// already.
    pub(crate) fn begin_poll(&self, number: u32) -> Result<Poll, Refusal> {
        let mut polls = lock(&self.polls);
        let own = polls.entry(number).or_default();
        if *own >= POLLS_PER_NODE_MAX {
            return Err(Refusal::TooManyRequests { wait_seconds: 1 });
        }
        *own += 1;
        Ok(Poll { number, polls: Arc::clone(&self.polls) })
    }

    /// Returns the controller's status, without the use of network state.
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
            storage: StorageStatus {
                storage_problem: commits.problem,
                commits: commits.done,
                commits_failed: commits.failed,
                database_bytes: files::length(&self.database),
            },
            requests: self.requests.counted(),
            connections,
            tenants: view.tenants(&lock(&self.quota_refusals)),
            network_state: NetworkStateUse::default(),
        }
    }

    /// Returns the limiter of connections to the controller.
    pub(crate) const fn connections(&self) -> &ConnectionLimiter {
        &self.connections
    }

    /// Returns the counters of requests to the controller.
    pub(crate) const fn requests(&self) -> &RequestCounts {
        &self.requests
    }

    /// Returns the reason why the latest change could not be stored; `None` if it was stored.
    pub(crate) fn storage_problem(&self) -> Option<String> {
        lock(&self.commits).problem.clone()
    }

    /// Returns the descriptions of all members.
    pub(crate) fn nodes(&self) -> NodeList {
        let view = self.view();
        NodeList { nodes: view.network.nodes().map(|node| view.entry(node)).collect() }
    }
}

impl NetworkSnapshot {
    /// Applies changes to the network. Returns true if maps may differ from then on.
    fn apply(&mut self, changes: &[Change]) -> bool {
        let affected = network::apply(&mut self.network, &mut self.plan, changes);
        match &affected {
            AffectedMembers::All => self.generation += 1,
            AffectedMembers::Only(members) => {
                for number in members {
                    if let Some(cached) = self.maps.get_mut(number) {
                        cached.generation = None;
                    }
                }
            }
        }
        for change in changes {
            if let Change::NoNode(number) = change {
                self.maps.remove(number);
                self.seen_unix_seconds.remove(number);
                self.costs.forget(*number);
            }
        }
        !affected.is_none()
    }

    fn set_prices(&mut self, prices: PriceSheets) {
        self.costs.set_prices(prices);
        self.generation += 1;
    }

    /// Replaces the tenants that share coding. Returns true if grants may differ from then on.
    fn set_shared_coding(&mut self, tenants: &[SharedTenant]) -> Result<bool, Problem> {
        let number = |tenant: &SharedTenant| {
            self.network.tenant_number(&tenant.name).ok_or_else(|| tenant.unknown.clone())
        };
        let numbers: Result<BTreeSet<u32>, Problem> = tenants.iter().map(number).collect();
        let is_changed = self.network.share_coding(numbers?);
        if is_changed {
            self.plan = PathPlan::of(&self.network);
            self.generation += 1;
        }
        Ok(is_changed)
    }

    /// Returns each tenant's use of the controller's tables, with the number of its refused
    /// requests.
    fn tenants(&self, refused: &BTreeMap<String, u64>) -> Vec<TenantUse> {
        let mut uses = self.network.tenant_uses();
        for tenant in &mut uses {
            tenant.refused = refused.get(&tenant.name).copied().unwrap_or_default();
        }
        uses
    }

    /// Returns the number of members of a role that sent a request within [`ALIVE_SECONDS`].
    fn alive(&self, role: Role, now_unix_seconds: u64) -> usize {
        let is_alive = |node: &&NodeRecord| {
            let seen = self.seen_unix_seconds.get(&node.number);
            node.role == role
                && seen.is_some_and(|seen| seen.saturating_add(ALIVE_SECONDS) >= now_unix_seconds)
        };
        self.network.nodes().filter(is_alive).count()
    }

    /// Returns the current map of a node, from the cache if possible. The map's revision changes
    /// only if its content does.
    fn map(&mut self, number: u32, unix_microseconds: u64) -> Option<CurrentMap> {
        let now_unix_seconds = unix_microseconds / 1_000_000;
        if self.costs.refresh(&self.network, self.generation, now_unix_seconds) {
            self.maps.clear();
        }
        let node = self.network.node(number)?;
        let cached = self.maps.get_mut(&number);
        if let Some(cached) = &cached
            && cached.generation == Some(self.generation)
            && now_unix_seconds < cached.contents.renewed_at
        {
            return Some(cached.current.clone());
        }
        let mut contents = self.network.contents(node, &self.plan, &mut self.issuer, now_unix_seconds);
        if node.role == Role::Agent {
            for relay in &mut contents.map.relays {
                relay.prices = self.costs.entry(relay.number);
            }
        }
        if let Some(cached) = cached.filter(|cached| cached.contents.map == contents.map) {
            cached.generation = Some(self.generation);
            cached.contents.renewed_at = contents.renewed_at;
            return Some(cached.current.clone());
        }
        let current = self.sign(&contents, unix_microseconds);
        let cached = CachedMap { generation: Some(self.generation), contents, current: current.clone() };
        self.maps.insert(number, cached);
        Some(current)
    }

    /// Signs a node's map with a new revision.
    ///
    /// Revisions are microseconds of Unix time. They increase even if the clock does not, as long
    /// as the controller runs. They therefore need no write for each map, and the controller renews
    /// grants even with a full disk. Members request any revision other than their own. A clock
    /// that was set back therefore hides no map from them.
    fn sign(&mut self, contents: &MapContents, unix_microseconds: u64) -> CurrentMap {
        self.revision = unix_microseconds.max(self.revision + 1);
        let mut map = contents.map.clone();
        map.revision = self.revision;
        let text = serde_json::to_string(&map).expect("maps have only texts and numbers");
        let signature = BASE64.encode(&self.issuer.sign_map(&text));
        CurrentMap { revision: self.revision, signed: Arc::new(SignedMap { map: text, signature }) }
    }

    fn entry(&self, node: &NodeRecord) -> NodeEntry {
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

/// Pending poll of a member. Its drop ends the poll.
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
