//! Claim to a routing table and its rules. It prevents that two agents of one network namespace use
//! the same ones.

use std::io;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tokio::task::JoinSet;

use super::plan::PRIORITIES;
use crate::abstract_names::{self, Holder};
use crate::exit::{Cause, Failure};

/// Prefix of the abstract socket names that claim a routing table. The table's number follows.
const NAME: &str = "byway-capture";

/// Time for which a starting agent waits until the guard of a former agent releases the table.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between two checks whether the former agent's guard has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Exclusive right to a routing table and its rules, until it is dropped.
#[derive(Debug)]
pub(super) struct Claim {
    listener: UnixListener,
    /// Task that accepts connections of processes that look up the claim's owner.
    _accepting: JoinSet<()>,
}

impl Claim {
    /// Acquires the claim to a routing table. Waits up to [`RELEASE_TIMEOUT`] while a former
    /// agent's guard has it.
    ///
    /// # Errors
    /// If another agent has the table, or has one whose rules would have the same priorities.
    pub(super) async fn acquire(table: u32) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::machine(format!("cannot claim the routing table {table}: {error}"));
        let until = tokio::time::Instant::now() + RELEASE_TIMEOUT;
        loop {
            let (own, listener) = abstract_names::reserve(&format!("{NAME}-{table}")).map_err(failed)?;
            let holders: Vec<Holder> = abstract_names::holders(NAME, Some(&own))
                .into_iter()
                .filter(|holder| claimed_table(&holder.name).is_some_and(|other| overlap(other, table)))
                .collect();
            let Some(other) = holders.iter().find(|holder| holder.is_privileged()) else {
                abstract_names::log_strangers(&holders);
                return Self::from_listener(listener).map_err(failed);
            };
            // Of two agents that start at the same time, one has to find the other's name released.
            drop(listener);
            if tokio::time::Instant::now() >= until {
                return Err(conflict(other, table));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn from_listener(listener: UnixListener) -> io::Result<Self> {
        let accepting = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                if accepting.accept().await.is_err() {
                    // The process has too many open files for a moment.
                    tokio::time::sleep(RELEASE_TIMEOUT).await;
                }
            }
        });
        Ok(Self { listener, _accepting: tasks })
    }

    /// Clones the claim's socket, which the guard process retains until it has cleaned up.
    ///
    /// # Errors
    /// If this process may open no more files.
    pub(super) fn try_clone_listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

fn conflict(other: &Holder, table: u32) -> Failure {
    let claimed = claimed_table(&other.name).unwrap_or(table);
    let message = if claimed == table {
        format!(
            "another agent of this machine uses the routing table {table}: {other}; end it, or set \
             another `table` in [tunnel], such as {}",
            table.saturating_add(PRIORITIES)
        )
    } else {
        format!(
            "another agent of this machine uses the routing table {claimed}: {other}; rules use \
             {PRIORITIES} priorities from the table's number on: set table = {} or more in [tunnel]",
            claimed.max(table).saturating_add(PRIORITIES)
        )
    };
    Failure::new(Cause::Settings, message)
}

/// Returns the routing table that a socket name claims; `None` if it claims none.
fn claimed_table(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.strip_prefix('-')?.split_once('-')?.0.parse().ok()
}

/// True if the rules of two routing tables would have the same priorities.
const fn overlap(table: u32, other: u32) -> bool {
    table.abs_diff(other) < PRIORITIES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_a_hundred_apart() {
        assert_eq!(
            [4_500, 4_501, 4_600, 4_699, 4_700].map(|table| overlap(4_600, table)),
            [false, true, true, true, false]
        );
    }

    #[test]
    fn a_name_says_which_table_is_claimed() {
        let tables =
            ["byway-capture-4600-00ff", "byway-capture-4600", "byway-capture-x-00", "byway-link-4600-00"];
        assert_eq!(tables.map(claimed_table), [Some(4_600), None, None, None]);
    }

    #[tokio::test]
    async fn a_claim_is_held_by_one_and_free_once_it_is_given_up() {
        // A table of no agent: tables have ten digits at most.
        let table = u32::MAX - 1_000;
        let claim = Claim::acquire(table).await.expect("it is free");
        let refused = Claim::acquire(table + 1).await.expect_err("it is too near");
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
        drop(claim);
        assert!(Claim::acquire(table).await.is_ok());
    }
}
