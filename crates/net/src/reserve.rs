//! Reserved file descriptors: traffic cannot use those that status requests and membership need.

use std::os::fd::{AsFd, AsRawFd as _};

use rustix::process::{Resource, getrlimit};

/// Number of file descriptors that traffic leaves free: eight connections for status and metrics,
/// and those of a node's membership, files and names.
const RESERVED_MAX: u64 = 24;

/// Largest fraction of all file descriptors in reserve, if there are few: 1/4.
const RESERVED_DIVISOR: u64 = 4;

/// True if a file has one of the reserved descriptors, the highest that the process may open. The
/// system assigns the lowest free one.
pub(crate) fn is_in_reserve(file: impl AsFd) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    let reserved = RESERVED_MAX.min(limit / RESERVED_DIVISOR);
    u64::try_from(file.as_fd().as_raw_fd()).is_ok_and(|descriptor| descriptor + reserved >= limit)
}
