//! DNS names of the settings: resolved at the start, and again while what they stand for does not answer.
//!
//! All of it runs beside the packet threads, which are told addresses. A name that does not resolve keeps its last addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::settings::Endpoint;

/// Longest time that a node waits at its start for its names: longer than a resolver that answers at its second try (resolv.conf: 5 s).
const START_WITHIN: Duration = Duration::from_secs(6);

/// Interval between two looks for peers that do not answer: about as long as agents take to notice that.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(1);

/// The time between two lookups of one name, first and at most; each takes twice as long as the one before. A resolver has
/// nothing to fear from one question in a minute, and a relay that moves is found soon.
const WAIT_MIN: Duration = Duration::from_secs(2);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Addresses of one name that are kept: an answer of DNS over UDP has room for about thirty.
const ADDRESSES_MAX: usize = 16;

/// Addresses of names, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resolved {
    /// How often addresses have changed.
    changes: u64,
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Why names did not resolve when last looked up.
    problems: BTreeMap<String, String>,
}

impl Resolved {
    /// Returns how often addresses have changed.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the addresses that an endpoint stands for; none if its name has not resolved yet.
    pub(crate) fn addresses(&self, endpoint: &Endpoint) -> Vec<SocketAddr> {
        let known = endpoint.host().and_then(|host| self.addresses.get(host));
        endpoint.addresses(known.map_or(&[], Vec::as_slice))
    }

    /// Says of each name that does not resolve why, and the remedy.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.iter().map(|(host, problem)| self.problem(host, problem)).collect()
    }

    fn problem(&self, host: &str, problem: &str) -> String {
        let known = self.addresses.get(host).map(Vec::as_slice).unwrap_or_default();
        let kept = match known {
            [] => "it is tried again".to_owned(),
            known => format!("its last addresses are used ({})", listed(known)),
        };
        format!(
            "cannot resolve {host:?}: {problem}; {kept}: correct the name, or see that `getent hosts {host}` works"
        )
    }

    /// Forgets other names than these; returns whether something was wrong with one.
    fn retain(&mut self, hosts: &BTreeSet<String>) -> bool {
        let problems = self.problems.len();
        self.addresses.retain(|host, _| hosts.contains(host));
        self.problems.retain(|host, _| hosts.contains(host));
        self.problems.len() != problems
    }

    /// Takes the result of a lookup; returns whether something has changed.
    fn take(&mut self, host: &str, result: Result<Vec<IpAddr>, String>) -> bool {
        match result {
            Ok(addresses) => {
                let was_wrong = self.problems.remove(host).is_some();
                let known = self.addresses.get(host);
                // Resolvers turn the list from answer to answer.
                let is_same = known.is_some_and(|known| {
                    known.len() == addresses.len() && addresses.iter().all(|new| known.contains(new))
                });
                if is_same {
                    return was_wrong;
                }
                tracing::info!(name = host, addresses = listed(&addresses), "a name resolves");
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

/// Shows addresses.
pub(crate) fn listed(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(", ")
}

/// When a name is looked up.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    due: Instant,
    wait: Duration,
    is_pending: bool,
}

/// The names of one node.
#[derive(Debug)]
pub(crate) struct Names {
    schedules: BTreeMap<String, Schedule>,
    lookups: JoinSet<(String, io::Result<Vec<IpAddr>>)>,
    resolved: watch::Sender<Arc<Resolved>>,
}

impl Names {
    /// Looks these names up, and waits until they have resolved, but not for long.
    pub(crate) async fn resolve(hosts: BTreeSet<String>) -> Self {
        let now = Instant::now();
        let schedule = Schedule { due: now, wait: WAIT_MIN, is_pending: false };
        let mut names = Self {
            schedules: hosts.into_iter().map(|host| (host, schedule)).collect(),
            lookups: JoinSet::new(),
            resolved: watch::Sender::default(),
        };
        names.begin_due(&|_| true);
        while let Ok(Some(done)) =
            tokio::time::timeout_at(now + START_WITHIN, names.lookups.join_next()).await
        {
            names.take(done);
        }
        names
    }

    /// Returns what they stand for, now and later.
    pub(crate) fn resolved(&self) -> watch::Receiver<Arc<Resolved>> {
        self.resolved.subscribe()
    }

    /// Looks up again those of which `silent` says that nobody answers, and those that have not resolved, without end. `hosts`
    /// says which there are.
    pub(crate) async fn follow(
        mut self,
        mut hosts: watch::Receiver<BTreeSet<String>>,
        mut silent: impl AsyncFnMut() -> BTreeSet<String>,
    ) {
        let mut looks = tokio::time::interval(LOOKED_AT_EVERY);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(done) = self.lookups.join_next() => self.take(done),
                Ok(()) = hosts.changed() => {
                    let now = hosts.borrow_and_update().clone();
                    self.change(&now);
                }
                _ = looks.tick(), if !self.schedules.is_empty() => {
                    let silent = silent().await;
                    self.begin_due(&|host| silent.contains(host));
                }
            }
        }
    }

    /// Looks these names up now, and no others from now on.
    fn change(&mut self, hosts: &BTreeSet<String>) {
        let schedule = Schedule { due: Instant::now(), wait: WAIT_MIN, is_pending: false };
        self.schedules.retain(|host, known| hosts.contains(host) && known.is_pending);
        for host in hosts {
            self.schedules.entry(host.clone()).or_insert(schedule);
        }
        self.resolved.send_if_modified(|resolved| Arc::make_mut(resolved).retain(hosts));
        self.begin_due(&|_| true);
    }

    /// Begins the lookups that are due.
    fn begin_due(&mut self, is_silent: &dyn Fn(&str) -> bool) {
        let (now, resolved) = (Instant::now(), self.resolved.borrow().clone());
        for (host, schedule) in &mut self.schedules {
            let is_wrong = !resolved.addresses.contains_key(host) || resolved.problems.contains_key(host);
            if !is_wrong && !is_silent(host) {
                schedule.wait = WAIT_MIN;
                continue;
            }
            if schedule.is_pending || schedule.due > now {
                continue;
            }
            schedule.is_pending = true;
            let host = host.clone();
            self.lookups.spawn(async move {
                let found = look_up(&host).await;
                (host, found)
            });
        }
    }

    fn take(&mut self, done: Result<(String, io::Result<Vec<IpAddr>>), tokio::task::JoinError>) {
        // A lookup neither panics nor is it given up.
        let Ok((host, result)) = done else { return };
        let Some(schedule) = self.schedules.get_mut(&host) else { return };
        schedule.is_pending = false;
        schedule.due = Instant::now() + schedule.wait;
        schedule.wait = (schedule.wait * 2).min(WAIT_MAX);
        let result = result.map_err(|error| error.to_string());
        self.resolved.send_if_modified(|resolved| Arc::make_mut(resolved).take(&host, result));
    }
}

/// Asks the system's resolver.
///
/// # Errors
/// If it does not answer, or knows no address.
pub(crate) async fn look_up(host: &str) -> io::Result<Vec<IpAddr>> {
    let found = tokio::net::lookup_host((host, 0)).await?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|address| address.ip()) {
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it has no address"));
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
        let mut resolved = Resolved::default();
        let relay = endpoint("relay.example:4600");
        assert!(resolved.take("relay.example", Err("no such name".into())));
        assert_eq!(resolved.addresses(&relay), []);
        assert!(resolved.problems()[0].contains("it is tried again"), "{:?}", resolved.problems());
        assert!(resolved.take("relay.example", Ok(vec![address(1)])));
        assert_eq!((resolved.problems(), resolved.changes()), (vec![], 1));
        assert!(resolved.take("relay.example", Err("no such name".into())));
        assert!(!resolved.take("relay.example", Err("no such name".into())), "it is no news");
        assert_eq!(resolved.addresses(&relay), ["192.0.2.1:4600".parse().expect("an address")]);
        let problem = &resolved.problems()[0];
        for part in ["\"relay.example\"", "no such name", "192.0.2.1", "getent hosts relay.example"] {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn a_list_that_turns_is_no_change() {
        let mut resolved = Resolved::default();
        assert!(resolved.take("relay.example", Ok(vec![address(1), address(2)])));
        assert!(!resolved.take("relay.example", Ok(vec![address(2), address(1)])));
        assert!(resolved.take("relay.example", Ok(vec![address(2), address(3)])));
        assert_eq!(resolved.changes(), 2);
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_is_looked_up_with_growing_waits() {
        let mut names = Names::resolve(BTreeSet::new()).await;
        let now = Instant::now();
        names.schedules.insert("a".into(), Schedule { due: now, wait: WAIT_MIN, is_pending: true });
        let mut waits = Vec::new();
        for _ in 0..8 {
            names.take(Ok(("a".into(), Err(io::ErrorKind::NotFound.into()))));
            waits.push(names.schedules["a"].wait.as_secs());
        }
        assert_eq!(waits, [4, 8, 16, 32, 60, 60, 60, 60]);
        names.take(Ok(("a".into(), Ok(vec![address(1)]))));
        names.begin_due(&|_| false);
        assert_eq!((names.schedules["a"].wait, names.lookups.len()), (WAIT_MIN, 0), "it answers");
    }
}
