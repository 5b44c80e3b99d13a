//! Admission of connections: a total limit, shares by address and network, and a reserve for
//! members.
//!
//! A connection begins as a stranger's. The first valid bearer secret makes it a member's.
//! Strangers are evicted for new connections. A member that connects while strangers occupy all of
//! their connections is therefore admitted, and is safe from eviction once it has shown its secret.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byway_api::ReasonCount;
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::source::Source;

/// Limits of the connections at one TCP port, or at several that share the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Maximum number of connections in total.
    pub(crate) all: usize,
    /// Maximum number of connections without a valid bearer secret.
    pub(crate) strangers: usize,
    /// Maximum number of strangers' connections of one address.
    pub(crate) strangers_of_address: usize,
    /// Maximum number of strangers' connections of one network.
    pub(crate) strangers_of_network: usize,
    /// Number of connections of one member that count as a member's. Further ones count as
    /// strangers'.
    pub(crate) of_member: usize,
    /// Timeout of a TLS handshake, of the head of a request, and of a client that reads nothing.
    pub(crate) timeout: Duration,
    /// Lifetime of a connection without a valid bearer secret.
    pub(crate) stranger_lifetime: Duration,
}

/// File descriptors for other purposes than connections: the program's own, its files and ports,
/// and a reserve for status, metrics and administration.
const OTHER_FILES: u64 = 32;

/// Interval between log messages about missing file descriptors, which each new connection may
/// lack.
const FILES_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Least total of connections, even if the process may open fewer file descriptors.
const CONNECTIONS_MIN: u64 = 8;

impl Limits {
    /// Returns the limits, lowered if this process may open too few file descriptors.
    pub(crate) fn within_files(self) -> Self {
        getrlimit(Resource::Nofile).current.map_or(self, |files| self.within(files))
    }

    fn within(self, files: u64) -> Self {
        let files_left = files.saturating_sub(OTHER_FILES).max(CONNECTIONS_MIN);
        let all = usize::try_from(files_left).map_or(self.all, |files_left| self.all.min(files_left));
        let part = |of: usize| (of * all / self.all).max(1);
        Self {
            all,
            strangers: part(self.strangers),
            strangers_of_address: part(self.strangers_of_address),
            strangers_of_network: part(self.strangers_of_network),
            ..self
        }
    }
}

/// Reason why a connection ended early, or a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A connection is evicted for a newer one of its address.
    AddressShare,
    /// A connection is evicted for a newer one of its network.
    NetworkShare,
    /// A connection is evicted for a newer one at the total limit.
    Full,
    /// A new connection is refused, because members occupy all connections.
    Members,
    /// A connection is ended by the timeout of the TLS handshake.
    Handshake,
    /// A connection is ended by the write timeout: the client did not read its answers.
    Unread,
    /// A connection is ended, because no valid bearer secret arrived within the lifetime.
    Lifetime,
    /// A connection is not accepted, because the process has no file descriptor left.
    Files,
    /// A request is refused, because it names another host.
    Host,
}

impl Reason {
    pub(super) const ALL: [Self; 9] = [
        Self::AddressShare,
        Self::NetworkShare,
        Self::Full,
        Self::Members,
        Self::Handshake,
        Self::Unread,
        Self::Lifetime,
        Self::Files,
        Self::Host,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::AddressShare => "address_share",
            Self::NetworkShare => "network_share",
            Self::Full => "full",
            Self::Members => "members",
            Self::Handshake => "handshake",
            Self::Unread => "unread",
            Self::Lifetime => "lifetime",
            Self::Files => "files",
            Self::Host => "host",
        }
    }
}

/// Limiter that admits connections, and evicts strangers' connections for new ones.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimiter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    connections: BTreeMap<u64, ConnectionRecord>,
    /// Connections without a valid bearer secret, ordered by source and then by age.
    strangers: BTreeSet<(Source, u64)>,
    by_address: BTreeMap<IpAddr, usize>,
    by_network: BTreeMap<IpAddr, usize>,
    /// Connections that count as a member's, by member.
    by_member: BTreeMap<u32, usize>,
    ended: BTreeMap<Reason, u64>,
    /// Time of the latest log message about missing file descriptors.
    files_logged: Option<Instant>,
}

#[derive(Debug)]
struct ConnectionRecord {
    source: Source,
    /// Member as whose the connection counts; `None` for a stranger's.
    member: Option<u32>,
    /// True once a valid bearer secret has arrived on the connection.
    is_known: bool,
    /// Signal that ends the connection.
    end: Arc<Notify>,
}

impl ConnectionLimiter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner { limits, table: Mutex::default() }))
    }

    /// Returns the limits of connections.
    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Admits a new connection. At a limit, first evicts the oldest connection of its address, of
    /// its network, or of the network with the most. Returns `None`, and counts it, if members have
    /// all connections.
    pub(super) fn admit(&self, ip: IpAddr) -> Option<ConnectionPermit> {
        let (limits, source) = (self.limits(), Source::of(ip));
        let mut table = self.table();
        table.evict_for(source, limits);
        if table.connections.len() >= limits.all {
            table.count(Reason::Members);
            return None;
        }
        let (number, end) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        table.connections.insert(
            number,
            ConnectionRecord { source, member: None, is_known: false, end: Arc::clone(&end) },
        );
        table.add_stranger(source, number);
        Some(ConnectionPermit { gate: self.clone(), number, end })
    }

    /// Counts a connection that ended early, or a request that was refused.
    pub(crate) fn count(&self, reason: Reason) {
        self.table().count(reason);
    }

    /// Counts a connection for which the process has no file descriptor. Returns true if a log
    /// message about it is due.
    pub(super) fn count_files(&self) -> bool {
        let mut table = self.table();
        table.count(Reason::Files);
        let is_due = table.files_logged.is_none_or(|at| at.elapsed() >= FILES_LOG_INTERVAL);
        if is_due {
            table.files_logged = Some(Instant::now());
        }
        is_due
    }

    /// Returns the number of connections that ended early and of requests refused, by reason.
    pub(crate) fn ended(&self) -> Vec<ReasonCount> {
        let table = self.table();
        let count = |reason: Reason| ReasonCount {
            reason: reason.name().to_owned(),
            count: table.ended.get(&reason).copied().unwrap_or_default(),
        };
        Reason::ALL.into_iter().map(count).collect()
    }

    /// Returns the number of strangers' connections, and of members'.
    pub(crate) fn connections(&self) -> [usize; 2] {
        let table = self.table();
        [table.strangers.len(), table.connections.len() - table.strangers.len()]
    }

    /// Locks the table of connections. It is consistent even after a panic, because each change is
    /// one step.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn count(&mut self, reason: Reason) {
        *self.ended.entry(reason).or_default() += 1;
    }

    /// Ends the stranger's connection that a new connection of this source replaces, if a limit is
    /// reached.
    fn evict_for(&mut self, source: Source, limits: &Limits) {
        let count_of = |counts: &BTreeMap<IpAddr, usize>, ip| counts.get(&ip).copied().unwrap_or_default();
        if count_of(&self.by_address, source.address) >= limits.strangers_of_address {
            let oldest = self.strangers.range((source, 0)..).next().map(|(_, number)| *number);
            self.end(oldest, Reason::AddressShare);
        } else if count_of(&self.by_network, source.network) >= limits.strangers_of_network {
            self.end(self.oldest_of(source.network), Reason::NetworkShare);
        } else if self.strangers.len() >= limits.strangers || self.connections.len() >= limits.all {
            let most = self.by_network.iter().max_by_key(|(_, count)| **count).map(|(network, _)| *network);
            self.end(most.and_then(|network| self.oldest_of(network)), Reason::Full);
        }
    }

    /// Returns the number of the oldest stranger's connection of a network.
    fn oldest_of(&self, network: IpAddr) -> Option<u64> {
        let first = match network {
            IpAddr::V4(_) => IpAddr::from([0; 4]),
            IpAddr::V6(_) => IpAddr::from([0; 16]),
        };
        let from = (Source { network, address: first }, 0);
        let its = self.strangers.range(from..).take_while(|(source, _)| source.network == network);
        its.map(|(_, number)| *number).min()
    }

    fn end(&mut self, number: Option<u64>, reason: Reason) {
        if let Some(connection) = number.and_then(|number| self.remove(number)) {
            connection.end.notify_one();
            self.count(reason);
        }
    }

    fn add_stranger(&mut self, source: Source, number: u64) {
        self.strangers.insert((source, number));
        *self.by_address.entry(source.address).or_default() += 1;
        *self.by_network.entry(source.network).or_default() += 1;
    }

    fn remove_stranger(&mut self, source: Source, number: u64) {
        if self.strangers.remove(&(source, number)) {
            count_down(&mut self.by_address, &source.address);
            count_down(&mut self.by_network, &source.network);
        }
    }

    /// Removes a connection from the table; `None` if it was evicted before.
    fn remove(&mut self, number: u64) -> Option<ConnectionRecord> {
        let connection = self.connections.remove(&number)?;
        match connection.member {
            Some(member) => count_down(&mut self.by_member, &member),
            None => self.remove_stranger(connection.source, number),
        }
        Some(connection)
    }

    /// Records that a member's valid bearer secret arrived on a connection. The connection counts
    /// as a member's, within the member's limit.
    fn note_member(&mut self, number: u64, member: u32, limits: &Limits) {
        let count = self.by_member.get(&member).copied().unwrap_or_default();
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.is_known = true;
        if connection.member.is_some() || count >= limits.of_member {
            return;
        }
        connection.member = Some(member);
        let source = connection.source;
        self.by_member.insert(member, count + 1);
        self.remove_stranger(source, number);
    }
}

fn count_down<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Permit of one admitted connection. Its drop removes the connection from the limiter's table.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    gate: ConnectionLimiter,
    number: u64,
    end: Arc<Notify>,
}

impl ConnectionPermit {
    /// Returns the limiter that issued the permit.
    pub(super) const fn gate(&self) -> &ConnectionLimiter {
        &self.gate
    }

    /// Waits until the connection is evicted.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Records that a valid bearer secret of a member arrived on the connection. The connection is
    /// then safe from eviction, unless the member already has its share of such connections.
    pub(crate) fn note_member(&self, member: u32) {
        self.gate.table().note_member(self.number, member, self.gate.limits());
    }

    /// True if a valid bearer secret has arrived on the connection.
    pub(super) fn is_known(&self) -> bool {
        let table = self.gate.table();
        table.connections.get(&self.number).is_some_and(|connection| connection.is_known)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.gate.table().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        all: 16,
        strangers: 12,
        strangers_of_address: 3,
        strangers_of_network: 5,
        of_member: 2,
        timeout: Duration::from_secs(10),
        stranger_lifetime: Duration::from_secs(30),
    };

    fn gate() -> ConnectionLimiter {
        ConnectionLimiter::new(LIMITS)
    }

    fn enter(gate: &ConnectionLimiter, ip: [u8; 4]) -> ConnectionPermit {
        gate.admit(ip.into()).expect("below the limits")
    }

    fn is_ended(permit: &ConnectionPermit) -> bool {
        !permit.gate.table().connections.contains_key(&permit.number)
    }

    fn ended(gate: &ConnectionLimiter, reason: Reason) -> u64 {
        gate.table().ended.get(&reason).copied().unwrap_or_default()
    }

    #[test]
    fn the_oldest_connection_of_an_address_makes_room_for_its_next_one() {
        let gate = gate();
        let permits: Vec<ConnectionPermit> = (0..5).map(|_| enter(&gate, [192, 0, 2, 1])).collect();
        assert_eq!(permits.iter().map(is_ended).collect::<Vec<_>>(), [true, true, false, false, false]);
        assert_eq!(ended(&gate, Reason::AddressShare), 2);
        assert!(!is_ended(&enter(&gate, [192, 0, 2, 2])));
        drop(permits);
        let table = gate.table();
        assert!(table.connections.is_empty() && table.strangers.is_empty());
        assert!(table.by_address.is_empty() && table.by_network.is_empty());
    }

    #[test]
    fn addresses_of_one_network_share_its_places() {
        let gate = gate();
        let permits: Vec<ConnectionPermit> = (1..=6).map(|last| enter(&gate, [192, 0, 2, last])).collect();
        assert_eq!(permits.iter().filter(|permit| is_ended(permit)).count(), 1);
        assert!(is_ended(&permits[0]) && ended(&gate, Reason::NetworkShare) == 1);
        let site = |link: u8| format!("2001:db8:0:{link:x}::1").parse().expect("an address");
        let links: Vec<ConnectionPermit> = (0..6).filter_map(|link| gate.admit(site(link))).collect();
        assert!(links.len() == 6 && is_ended(&links[0]) && ended(&gate, Reason::NetworkShare) == 2);
    }

    #[test]
    fn where_all_places_are_in_use_the_network_with_most_makes_room() {
        let gate = gate();
        let modest = enter(&gate, [198, 51, 100, 1]);
        let greedy: Vec<ConnectionPermit> = (0..5).map(|last| enter(&gate, [192, 0, 2, last])).collect();
        let others: Vec<ConnectionPermit> = (0..6).map(|third| enter(&gate, [203, 0, third, 1])).collect();
        assert_eq!(gate.connections(), [12, 0]);
        let newcomer = enter(&gate, [198, 51, 101, 1]);
        assert!(is_ended(&greedy[0]) && ended(&gate, Reason::Full) == 1);
        assert!(!is_ended(&newcomer) && !is_ended(&modest) && others.iter().all(|permit| !is_ended(permit)));
    }

    #[test]
    fn a_members_connection_makes_no_room_and_strangers_leave_a_quarter_to_members() {
        let gate = gate();
        let member = enter(&gate, [192, 0, 2, 1]);
        member.note_member(7);
        let strangers: Vec<ConnectionPermit> =
            (0..=u8::MAX).map(|third| enter(&gate, [198, 51, third, 1])).collect();
        assert_eq!(gate.connections(), [12, 1]);
        assert!(!is_ended(&member) && member.is_known());
        let members: Vec<ConnectionPermit> = (0..15)
            .map(|number| {
                let permit = enter(&gate, [203, 0, 113, 1]);
                permit.note_member(100 + number);
                permit
            })
            .collect();
        assert_eq!(gate.connections(), [0, 16], "strangers make room for all of them");
        assert!(gate.admit([198, 51, 100, 1].into()).is_none() && ended(&gate, Reason::Members) == 1);
        drop((strangers, members));
        assert_eq!(gate.connections(), [0, 1]);
    }

    #[test]
    fn where_file_descriptors_are_few_there_are_fewer_places_in_the_same_shares() {
        let limits = |files| {
            let limits = Limits { all: 8_256, strangers: 6_192, ..LIMITS };
            let limits = Limits { strangers_of_address: 774, strangers_of_network: 1_548, ..limits };
            let Limits { all, strangers, strangers_of_address, strangers_of_network, .. } =
                limits.within(files);
            [all, strangers, strangers_of_address, strangers_of_network]
        };
        assert_eq!(limits(65_536), [8_256, 6_192, 774, 1_548]);
        assert_eq!(limits(1_024), [992, 744, 93, 186]);
        assert_eq!(limits(64), [32, 24, 3, 6]);
        assert_eq!(limits(0), [8, 6, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn missing_file_descriptors_have_a_line_a_minute() {
        let gate = gate();
        assert_eq!([gate.count_files(), gate.count_files()], [true, false]);
        tokio::time::advance(FILES_LOG_INTERVAL).await;
        assert!(gate.count_files() && ended(&gate, Reason::Files) == 3);
    }

    #[test]
    fn a_member_has_no_more_places_than_its_share() {
        let gate = gate();
        let permits: Vec<ConnectionPermit> = (0..3).map(|_| enter(&gate, [192, 0, 2, 1])).collect();
        for permit in &permits {
            permit.note_member(7);
            permit.note_member(7);
        }
        assert_eq!(gate.connections(), [1, 2]);
        assert!(permits[2].is_known(), "the third makes room for others, and has no other limit");
        drop(permits);
        assert!(gate.table().by_member.is_empty());
    }
}
