//! What keeps two agents of one network namespace from the same rules: a name that only one of them has.

#![allow(clippy::disallowed_methods, reason = "the system's list of names is a file")]

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use super::plan::PRIORITIES;
use crate::exit::{Cause, Failure};

/// What names begin with, before the table's number. They are abstract (unix(7)): each network namespace has its own, and one ends with
/// the last process that holds it.
const NAME: &str = "byway-capture-";

/// How long the guard of an agent that has just ended may take.
const FREE_WITHIN: Duration = Duration::from_secs(2);

/// How often it is looked whether it has ended.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// The right to a table and its rules, for as long as somebody holds it.
#[derive(Debug)]
pub(super) struct Claim(UnixDatagram);

impl Claim {
    /// Waits for the guard of a former agent of this table, if it is still at work.
    ///
    /// # Errors
    /// If another agent has the table, or one whose rules would have the same priorities.
    pub(super) async fn take(table: u32) -> Result<Self, Failure> {
        let socket = bind(table).await.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Failure::new(
                Cause::Settings,
                format!(
                    "another agent of this machine has the table {table} (ss -xap says who has @{NAME}{table}): end it, or set another table in [tunnel], \
                     such as {}",
                    table.saturating_add(PRIORITIES)
                ),
            ),
            _ => Failure::machine(format!("the table {table} cannot be claimed: {error}")),
        })?;
        let names = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        if let Some(other) = overlapping(&names, table) {
            return Err(Failure::new(
                Cause::Settings,
                format!(
                    "another agent of this machine has the table {other}, and rules take {PRIORITIES} priorities from their table's number on: \
                     set table = {} or more in [tunnel]",
                    other.max(table).saturating_add(PRIORITIES)
                ),
            ));
        }
        Ok(Self(socket))
    }

    /// The same claim, to be held by another process.
    ///
    /// # Errors
    /// If this process may have no more files.
    pub(super) fn shared(&self) -> io::Result<UnixDatagram> {
        self.0.try_clone()
    }
}

async fn bind(table: u32) -> io::Result<UnixDatagram> {
    let address = SocketAddr::from_abstract_name(format!("{NAME}{table}"))?;
    let until = tokio::time::Instant::now() + FREE_WITHIN;
    loop {
        match UnixDatagram::bind_addr(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tokio::time::Instant::now() < until => {
                tokio::time::sleep(LOOKS_EVERY).await;
            }
            bound => return bound,
        }
    }
}

/// Another table that is claimed, according to the system's list of names, and too near to this one.
fn overlapping(names: &str, table: u32) -> Option<u32> {
    let claimed = names.lines().filter_map(|line| line.rsplit_once('@')?.1.strip_prefix(NAME)?.parse().ok());
    claimed.into_iter().find(|other: &u32| *other != table && other.abs_diff(table) < PRIORITIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_a_hundred_apart() {
        let names = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 17 @byway-capture-4600\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 18 /run/byway-capture-4700\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 19 @byway-capture-x\n";
        let near = [4_500, 4_501, 4_600, 4_699, 4_700].map(|table| overlapping(names, table));
        assert_eq!(near, [None, Some(4_600), None, Some(4_600), None]);
    }
}
