//! Resolution of the DNS names in a node's settings: at the start, and again while the addresses do
//! not answer.
//!
//! It runs apart from the packet threads, and sends addresses to them. A name that does not resolve
//! retains its latest addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::settings::Endpoint;

/// Longest time for which a starting node waits for its DNS names. A resolver that answers at its
/// second attempt needs less (resolv.conf: 5 s).
const START_TIMEOUT: Duration = Duration::from_secs(6);

/// Interval between two checks for relays and peers that do not answer. It is about the time in
/// which agents detect that.
const SILENCE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Shortest and longest interval between two lookups of one DNS name; each is twice the previous
/// one. A resolver tolerates one query a minute, and a relay that moves is found soon.
const LOOKUP_INTERVAL_MIN: Duration = Duration::from_secs(2);
const LOOKUP_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Maximum number of addresses stored for one DNS name. An answer of DNS over UDP contains at most
/// about thirty.
const ADDRESSES_MAX: usize = 16;

/// Addresses to which a node's DNS names have resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResolvedNames {
    /// Number of times that the addresses of any name have changed.
    changes: u64,
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Reasons why DNS names did not resolve at their latest lookups, by the name.
    problems: BTreeMap<String, String>,
}

impl ResolvedNames {
    /// Returns the number of times that the addresses of any name have changed.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the addresses of an endpoint in the settings; none if its DNS name has not resolved
    /// yet.
    pub(crate) fn addresses(&self, endpoint: &Endpoint) -> Vec<SocketAddr> {
        let known = endpoint.host().and_then(|host| self.addresses.get(host));
        endpoint.addresses(known.map_or(&[], Vec::as_slice))
    }

    /// Returns a message for each DNS name that does not resolve, with the remedy.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.iter().map(|(host, problem)| self.problem(host, problem)).collect()
    }

    fn problem(&self, host: &str, problem: &str) -> String {
        let known = self.addresses.get(host).map(Vec::as_slice).unwrap_or_default();
        let fallback = match known {
            [] => "retrying".to_owned(),
            known => format!("using its last addresses ({})", format_addresses(known)),
        };
        format!(
            "cannot resolve {host:?}: {problem}; {fallback}. Correct the name, or check that `getent \
             hosts {host}` works"
        )
    }

    /// Removes all DNS names except these. Returns true if one of the removed names had a problem.
    fn retain(&mut self, hosts: &BTreeSet<String>) -> bool {
        let problems = self.problems.len();
        self.addresses.retain(|host, _| hosts.contains(host));
        self.problems.retain(|host, _| hosts.contains(host));
        self.problems.len() != problems
    }

    /// Stores and logs the result of a DNS name's lookup. Returns true if it differs from the
    /// previous result.
    fn update(&mut self, host: &str, result: Result<Vec<IpAddr>, String>) -> bool {
        match result {
            Ok(addresses) => {
                let was_wrong = self.problems.remove(host).is_some();
                let known = self.addresses.get(host);
                // Resolvers rotate the list in each answer.
                let is_same = known.is_some_and(|known| {
                    known.len() == addresses.len() && addresses.iter().all(|new| known.contains(new))
                });
                if is_same {
                    return was_wrong;
                }
                tracing::info!(name = host, addresses = format_addresses(&addresses), "name resolved");
                self.addresses.insert(host.to_owned(), addresses);
                self.changes += 1;
                true
            }
            Err(problem) if self.problems.get(host) == Some(&problem) => false,
            Err(problem) => {
                tracing::warn!("{}", self.problem(host, &problem));
                self.problems.insert(host.to_owned(), problem);
                true
            }
        }
    }
}

/// Formats addresses for people, separated by commas.
pub(crate) fn format_addresses(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(", ")
}

/// Schedule of one DNS name's lookups.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    due: Instant,
    interval: Duration,
    is_pending: bool,
}

/// Resolver of the DNS names in one node's settings.
#[derive(Debug)]
pub(crate) struct NameResolver {
    schedules: BTreeMap<String, Schedule>,
    lookups: JoinSet<(String, io::Result<Vec<IpAddr>>)>,
    resolved: watch::Sender<Arc<ResolvedNames>>,
}

impl NameResolver {
    /// Creates a resolver, and looks up these DNS names. Waits until all lookups have ended, for
    /// [`START_TIMEOUT`] at most.
    pub(crate) async fn resolve(hosts: BTreeSet<String>) -> Self {
        let now = Instant::now();
        let schedule = Schedule { due: now, interval: LOOKUP_INTERVAL_MIN, is_pending: false };
        let mut names = Self {
            schedules: hosts.into_iter().map(|host| (host, schedule)).collect(),
            lookups: JoinSet::new(),
            resolved: watch::Sender::default(),
        };
        names.start_due_lookups(&|_| true);
        while let Ok(Some(lookup)) =
            tokio::time::timeout_at(now + START_TIMEOUT, names.lookups.join_next()).await
        {
            names.on_lookup(lookup);
        }
        names
    }

    /// Returns a receiver of the resolved addresses, which is notified of each change.
    pub(crate) fn resolved(&self) -> watch::Receiver<Arc<ResolvedNames>> {
        self.resolved.subscribe()
    }

    /// Repeats lookups forever: of DNS names that have not resolved, and of those that `silent`
    /// returns, because their addresses do not answer. `hosts` contains the current names.
    pub(crate) async fn follow(
        mut self,
        mut hosts: watch::Receiver<BTreeSet<String>>,
        mut silent: impl AsyncFnMut() -> BTreeSet<String>,
    ) {
        let mut poll_interval = tokio::time::interval(SILENCE_POLL_INTERVAL);
        poll_interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(lookup) = self.lookups.join_next() => self.on_lookup(lookup),
                Ok(()) = hosts.changed() => {
                    let now = hosts.borrow_and_update().clone();
                    self.set_hosts(&now);
                }
                _ = poll_interval.tick(), if !self.schedules.is_empty() => {
                    let silent = silent().await;
                    self.start_due_lookups(&|host| silent.contains(host));
                }
            }
        }
    }

    /// Replaces the DNS names that the resolver looks up, and looks up the new ones now.
    fn set_hosts(&mut self, hosts: &BTreeSet<String>) {
        let schedule = Schedule { due: Instant::now(), interval: LOOKUP_INTERVAL_MIN, is_pending: false };
        self.schedules.retain(|host, known| hosts.contains(host) && known.is_pending);
        for host in hosts {
            self.schedules.entry(host.clone()).or_insert(schedule);
        }
        self.resolved.send_if_modified(|resolved| Arc::make_mut(resolved).retain(hosts));
        self.start_due_lookups(&|_| true);
    }

    /// Starts the due lookups: of names that have not resolved, and of those for which `is_silent`
    /// is true.
    fn start_due_lookups(&mut self, is_silent: &dyn Fn(&str) -> bool) {
        let (now, resolved) = (Instant::now(), self.resolved.borrow().clone());
        for (host, schedule) in &mut self.schedules {
            let is_wrong = !resolved.addresses.contains_key(host) || resolved.problems.contains_key(host);
            if !is_wrong && !is_silent(host) {
                schedule.interval = LOOKUP_INTERVAL_MIN;
                continue;
            }
            if schedule.is_pending || schedule.due > now {
                continue;
            }
            schedule.is_pending = true;
            let host = host.clone();
            self.lookups.spawn(async move {
                let found = resolve_host(&host).await;
                (host, found)
            });
        }
    }

    fn on_lookup(&mut self, lookup: Result<(String, io::Result<Vec<IpAddr>>), tokio::task::JoinError>) {
        // Lookup tasks neither panic nor are aborted.
        let Ok((host, result)) = lookup else { return };
        let Some(schedule) = self.schedules.get_mut(&host) else { return };
        schedule.is_pending = false;
        schedule.due = Instant::now() + schedule.interval;
        schedule.interval = (schedule.interval * 2).min(LOOKUP_INTERVAL_MAX);
        let result = result.map_err(|error| error.to_string());
        self.resolved.send_if_modified(|resolved| Arc::make_mut(resolved).update(&host, result));
    }
}

/// Looks up the addresses of a DNS name with the system's resolver.
///
/// # Errors
/// If the resolver does not answer, or knows no address.
pub(crate) async fn resolve_host(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((host, 0)).await?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn endpoint(text: &str) -> Endpoint {
        text.parse().expect("an endpoint")
    }

    #[test]
    fn a_failed_lookup_keeps_the_last_addresses_and_says_so_with_the_remedy() {
        let mut resolved = ResolvedNames::default();
        let relay = endpoint("relay.example:4600");
        assert!(resolved.update("relay.example", Err("no such name".into())));
        assert_eq!(resolved.addresses(&relay), []);
        assert!(resolved.problems()[0].contains("retrying"), "{:?}", resolved.problems());
        assert!(resolved.update("relay.example", Ok(vec![address(1)])));
        assert_eq!((resolved.problems(), resolved.changes()), (vec![], 1));
        assert!(resolved.update("relay.example", Err("no such name".into())));
        assert!(!resolved.update("relay.example", Err("no such name".into())), "it is no news");
        assert_eq!(resolved.addresses(&relay), ["192.0.2.1:4600".parse().expect("an address")]);
        let problem = &resolved.problems()[0];
        for part in ["\"relay.example\"", "no such name", "192.0.2.1", "getent hosts relay.example"] {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_list_that_turns_is_no_change() {
        let mut resolved = ResolvedNames::default();
        assert!(resolved.update("relay.example", Ok(vec![address(1), address(2)])));
        assert!(!resolved.update("relay.example", Ok(vec![address(2), address(1)])));
        assert!(resolved.update("relay.example", Ok(vec![address(2), address(3)])));
        assert_eq!(resolved.changes(), 2);
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_is_looked_up_with_growing_waits() {
        let mut names = NameResolver::resolve(BTreeSet::new()).await;
        let now = Instant::now();
        names
            .schedules
            .insert("a".into(), Schedule { due: now, interval: LOOKUP_INTERVAL_MIN, is_pending: true });
        let mut waits = Vec::new();
        for _ in 0..8 {
            names.on_lookup(Ok(("a".into(), Err(io::ErrorKind::NotFound.into()))));
            waits.push(names.schedules["a"].interval.as_secs());
        }
        assert_eq!(waits, [4, 8, 16, 32, 60, 60, 60, 60]);
        names.on_lookup(Ok(("a".into(), Ok(vec![address(1)]))));
        names.start_due_lookups(&|_| false);
        assert_eq!(
            (names.schedules["a"].interval, names.lookups.len()),
            (LOOKUP_INTERVAL_MIN, 0),
            "it answers"
        );
    }
}
