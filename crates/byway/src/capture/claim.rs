//! Claim to a routing table and its rules: what keeps two agents of one network namespace from the same ones.

use std::io;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use tokio::task::JoinSet;

use super::plan::PRIORITIES;
use crate::exit::{Cause, Failure};
use crate::reserved::{self, Holder};

/// Beginning of names, before the table's number.
const NAME: &str = "byway-capture";

/// How long the guard of an agent that has just ended may take.
const FREE_WITHIN: Duration = Duration::from_secs(2);

/// How often it is looked whether it has ended.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// The right to a table and its rules, for as long as somebody holds it.
#[derive(Debug)]
pub(super) struct Claim {
    listener: UnixListener,
    /// Accepts those who look who has the claim.
    _accepting: JoinSet<()>,
}

impl Claim {
    /// Waits for the guard of a former agent of this table, if it is still at work.
    ///
    /// # Errors
    /// If another agent has the table, or one whose rules would have the same priorities.
    pub(super) async fn take(table: u32) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::machine(format!("the table {table} cannot be claimed: {error}"));
        let until = tokio::time::Instant::now() + FREE_WITHIN;
        loop {
            let (own, listener) = reserved::reserve(&format!("{NAME}-{table}")).map_err(failed)?;
            let holders: Vec<Holder> = reserved::holders(NAME, Some(&own))
                .into_iter()
                .filter(|holder| claimed(&holder.name).is_some_and(|other| overlap(other, table)))
                .collect();
            let Some(other) = holders.iter().find(|holder| holder.is_privileged()) else {
                reserved::log_strangers(&holders);
                return Self::of(listener).map_err(failed);
            };
            // Of two that begin at the same time, one is to find the other's name given up.
            drop(listener);
            if tokio::time::Instant::now() >= until {
                return Err(refused(other, table));
            }
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }

    fn of(listener: UnixListener) -> io::Result<Self> {
        let accepting = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                if accepting.accept().await.is_err() {
                    // There are too many files for a moment.
                    tokio::time::sleep(FREE_WITHIN).await;
                }
            }
        });
        Ok(Self { listener, _accepting: tasks })
    }

    /// The same claim, to be held by another process.
    ///
    /// # Errors
    /// If this process may have no more files.
    pub(super) fn shared(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

fn refused(other: &Holder, table: u32) -> Failure {
    let claimed = claimed(&other.name).unwrap_or(table);
    let message = if claimed == table {
        format!(
            "another agent of this machine has the table {table}, {other}: end it, or set another table in [tunnel], such as {}",
            table.saturating_add(PRIORITIES)
        )
    } else {
        format!(
            "another agent of this machine has the table {claimed}, {other}, and rules take {PRIORITIES} priorities from their table's number \
             on: set table = {} or more in [tunnel]",
            claimed.max(table).saturating_add(PRIORITIES)
        )
    };
    Failure::new(Cause::Settings, message)
}

/// Returns the table that a name claims.
fn claimed(name: &str) -> Option<u32> {
    name.strip_prefix(NAME)?.strip_prefix('-')?.split_once('-')?.0.parse().ok()
}

/// True if the rules of two tables would have the same priorities.
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
        assert_eq!(tables.map(claimed), [Some(4_600), None, None, None]);
    }

    #[tokio::test]
    async fn a_claim_is_held_by_one_and_free_once_it_is_given_up() {
        // Of no agent: tables have ten digits at most.
        let table = u32::MAX - 1_000;
        let claim = Claim::take(table).await.expect("it is free");
        let refused = Claim::take(table + 1).await.expect_err("it is too near");
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
        drop(claim);
        assert!(Claim::take(table).await.is_ok());
    }
}
