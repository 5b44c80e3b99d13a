//! Admission of connections: so many in all, shares by address and network, and places for members alone.
//!
//! A connection begins as a stranger's. It becomes a member's with the first valid bearer secret. Strangers make room
//! for newcomers: a member that connects while strangers hold all of their places gets one, and keeps it once it shows
//! its secret.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use byway_api::Counted;
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::source::Source;

/// Limits of connections at one port, or at several that share them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections in all.
    pub(crate) all: usize,
    /// Connections without a valid bearer secret.
    pub(crate) strangers: usize,
    /// Those of one address.
    pub(crate) strangers_of_address: usize,
    /// Those of one network.
    pub(crate) strangers_of_network: usize,
    /// Connections of one member that count as a member's.
    pub(crate) of_member: usize,
    /// Time for a TLS handshake, for the head of a request, and for a client that reads nothing.
    pub(crate) patience: Duration,
    /// Lifetime of a connection that shows no valid bearer secret.
    pub(crate) stranger_lifetime: Duration,
}

/// File descriptors that are no connections': those of the program, of its files and ports, and a reserve for status,
/// metrics and administration.
const OTHER_FILES: u64 = 32;

/// Interval between log lines about missing file descriptors: they may be missing for each connection.
const FILES_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Fewest places, however few file descriptors there are.
const PLACES_MIN: u64 = 8;

impl Limits {
    /// Lowers the limits to the file descriptors that this process may have.
    pub(crate) fn within_files(self) -> Self {
        getrlimit(Resource::Nofile).current.map_or(self, |files| self.within(files))
    }

    fn within(self, files: u64) -> Self {
        let places = files.saturating_sub(OTHER_FILES).max(PLACES_MIN);
        let all = usize::try_from(places).map_or(self.all, |places| self.all.min(places));
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
    /// It made room for a newer one of its address.
    AddressShare,
    /// It made room for a newer one of its network.
    NetworkShare,
    /// It made room for a newer one, as all places were in use.
    Full,
    /// It was not let in, as members have all places.
    Members,
    /// No TLS handshake was done in time.
    Handshake,
    /// The client did not read its answers.
    Unread,
    /// It showed no valid bearer secret in time.
    Lifetime,
    /// The process has no file descriptor left for it.
    Files,
    /// The request names another host.
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

/// Admission of connections.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limits: Limits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    /// Those without a valid bearer secret; of one source the oldest first.
    strangers: BTreeSet<(Source, u64)>,
    by_address: BTreeMap<IpAddr, usize>,
    by_network: BTreeMap<IpAddr, usize>,
    /// Connections of each member that count as its own.
    by_member: BTreeMap<u32, usize>,
    ended: BTreeMap<Reason, u64>,
    /// Time of the last log line about missing file descriptors.
    files_logged: Option<Instant>,
}

#[derive(Debug)]
struct Connection {
    source: Source,
    /// The member that it counts for.
    member: Option<u32>,
    /// True once a valid bearer secret came by it.
    is_known: bool,
    /// Ends the connection.
    end: Arc<Notify>,
}

impl Gate {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(Inner { limits, table: Mutex::default() }))
    }

    /// Returns the limits.
    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Gives a connection a place; the oldest of the strangers that have most makes room for it.
    pub(super) fn enter(&self, ip: IpAddr) -> Option<Place> {
        let (limits, source) = (self.limits(), Source::of(ip));
        let mut table = self.table();
        table.make_room(source, limits);
        if table.connections.len() >= limits.all {
            table.count(Reason::Members);
            return None;
        }
        let (number, end) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        table
            .connections
            .insert(number, Connection { source, member: None, is_known: false, end: Arc::clone(&end) });
        table.add_stranger(source, number);
        Some(Place { gate: self.clone(), number, end })
    }

    /// Counts a connection that ended early, or a request that was refused.
    pub(crate) fn count(&self, reason: Reason) {
        self.table().count(reason);
    }

    /// Counts a connection for which the process has no file descriptor; returns true if the log has room for a line.
    pub(super) fn count_files(&self) -> bool {
        let mut table = self.table();
        table.count(Reason::Files);
        let is_due = table.files_logged.is_none_or(|at| at.elapsed() >= FILES_LOG_INTERVAL);
        if is_due {
            table.files_logged = Some(Instant::now());
        }
        is_due
    }

    /// Returns how many connections ended early, by reason.
    pub(crate) fn ended(&self) -> Vec<Counted> {
        let table = self.table();
        let count = |reason: Reason| Counted {
            reason: reason.name().to_owned(),
            count: table.ended.get(&reason).copied().unwrap_or_default(),
        };
        Reason::ALL.into_iter().map(count).collect()
    }

    /// Returns the numbers of connections of strangers and of members.
    pub(crate) fn connections(&self) -> [usize; 2] {
        let table = self.table();
        [table.strangers.len(), table.connections.len() - table.strangers.len()]
    }

    /// Locks the table. A thread that panicked leaves it whole: each change is one step.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn count(&mut self, reason: Reason) {
        *self.ended.entry(reason).or_default() += 1;
    }

    /// Ends the connections that make room for another of a source.
    fn make_room(&mut self, source: Source, limits: &Limits) {
        let of = |counts: &BTreeMap<IpAddr, usize>, ip| counts.get(&ip).copied().unwrap_or_default();
        if of(&self.by_address, source.address) >= limits.strangers_of_address {
            let oldest = self.strangers.range((source, 0)..).next().map(|(_, number)| *number);
            self.end(oldest, Reason::AddressShare);
        } else if of(&self.by_network, source.network) >= limits.strangers_of_network {
            self.end(self.oldest_of(source.network), Reason::NetworkShare);
        } else if self.strangers.len() >= limits.strangers || self.connections.len() >= limits.all {
            let most = self.by_network.iter().max_by_key(|(_, count)| **count).map(|(network, _)| *network);
            self.end(most.and_then(|network| self.oldest_of(network)), Reason::Full);
        }
    }

    /// Returns the oldest stranger's connection of a network.
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

    /// Forgets a connection; `None` if it made room for another before.
    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        match connection.member {
            Some(member) => count_down(&mut self.by_member, &member),
            None => self.remove_stranger(connection.source, number),
        }
        Some(connection)
    }

    /// Notes that a member's secret came by a connection.
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

/// Place of one connection, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    gate: Gate,
    number: u64,
    end: Arc<Notify>,
}

impl Place {
    /// Returns the gate that gave the place.
    pub(super) const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Waits until the connection has to make room for another.
    pub(super) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Notes that a member showed a valid bearer secret: its connection makes no room for others, unless the member has
    /// its share of such connections.
    pub(crate) fn note_member(&self, member: u32) {
        self.gate.table().note_member(self.number, member, self.gate.limits());
    }

    /// Returns true if a valid bearer secret came by the connection.
    pub(super) fn is_known(&self) -> bool {
        let table = self.gate.table();
        table.connections.get(&self.number).is_some_and(|connection| connection.is_known)
    }
}

impl Drop for Place {
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
        patience: Duration::from_secs(10),
        stranger_lifetime: Duration::from_secs(30),
    };

    fn gate() -> Gate {
        Gate::new(LIMITS)
    }

    fn enter(gate: &Gate, ip: [u8; 4]) -> Place {
        gate.enter(ip.into()).expect("there is room")
    }

    fn is_ended(place: &Place) -> bool {
        !place.gate.table().connections.contains_key(&place.number)
    }

    fn ended(gate: &Gate, reason: Reason) -> u64 {
        gate.table().ended.get(&reason).copied().unwrap_or_default()
    }

    #[test]
    fn the_oldest_connection_of_an_address_makes_room_for_its_next_one() {
        let gate = gate();
        let places: Vec<Place> = (0..5).map(|_| enter(&gate, [192, 0, 2, 1])).collect();
        assert_eq!(places.iter().map(is_ended).collect::<Vec<_>>(), [true, true, false, false, false]);
        assert_eq!(ended(&gate, Reason::AddressShare), 2);
        assert!(!is_ended(&enter(&gate, [192, 0, 2, 2])));
        drop(places);
        let table = gate.table();
        assert!(table.connections.is_empty() && table.strangers.is_empty());
        assert!(table.by_address.is_empty() && table.by_network.is_empty());
    }

    #[test]
    fn addresses_of_one_network_share_its_places() {
        let gate = gate();
        let places: Vec<Place> = (1..=6).map(|last| enter(&gate, [192, 0, 2, last])).collect();
        assert_eq!(places.iter().filter(|place| is_ended(place)).count(), 1);
        assert!(is_ended(&places[0]) && ended(&gate, Reason::NetworkShare) == 1);
        let site = |link: u8| format!("2001:db8:0:{link:x}::1").parse().expect("an address");
        let links: Vec<Place> = (0..6).filter_map(|link| gate.enter(site(link))).collect();
        assert!(links.len() == 6 && is_ended(&links[0]) && ended(&gate, Reason::NetworkShare) == 2);
    }

    #[test]
    fn where_all_places_are_in_use_the_network_with_most_makes_room() {
        let gate = gate();
        let modest = enter(&gate, [198, 51, 100, 1]);
        let greedy: Vec<Place> = (0..5).map(|last| enter(&gate, [192, 0, 2, last])).collect();
        let others: Vec<Place> = (0..6).map(|third| enter(&gate, [203, 0, third, 1])).collect();
        assert_eq!(gate.connections(), [12, 0]);
        let newcomer = enter(&gate, [198, 51, 101, 1]);
        assert!(is_ended(&greedy[0]) && ended(&gate, Reason::Full) == 1);
        assert!(!is_ended(&newcomer) && !is_ended(&modest) && others.iter().all(|place| !is_ended(place)));
    }

    #[test]
    fn a_members_connection_makes_no_room_and_strangers_leave_a_quarter_to_members() {
        let gate = gate();
        let member = enter(&gate, [192, 0, 2, 1]);
        member.note_member(7);
        let strangers: Vec<Place> = (0..=u8::MAX).map(|third| enter(&gate, [198, 51, third, 1])).collect();
        assert_eq!(gate.connections(), [12, 1]);
        assert!(!is_ended(&member) && member.is_known());
        let members: Vec<Place> = (0..15)
            .map(|number| {
                let place = enter(&gate, [203, 0, 113, 1]);
                place.note_member(100 + number);
                place
            })
            .collect();
        assert_eq!(gate.connections(), [0, 16], "strangers make room for all of them");
        assert!(gate.enter([198, 51, 100, 1].into()).is_none() && ended(&gate, Reason::Members) == 1);
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
        let places: Vec<Place> = (0..3).map(|_| enter(&gate, [192, 0, 2, 1])).collect();
        for place in &places {
            place.note_member(7);
            place.note_member(7);
        }
        assert_eq!(gate.connections(), [1, 2]);
        assert!(places[2].is_known(), "the third makes room for others, and has no other limit");
        drop(places);
        assert!(gate.table().by_member.is_empty());
    }
}
