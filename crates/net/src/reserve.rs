//! File descriptors in reserve: what traffic can open leaves some to what people and other machines need of a node.

use std::os::fd::{AsFd, AsRawFd as _};

use rustix::process::{Resource, getrlimit};

/// File descriptors that sockets of traffic leave free: eight connections for status and metrics, and what a node opens
/// for its membership, files and names.
const RESERVED_MAX: u64 = 24;

/// Part of all descriptors that is kept in reserve at most, where there are few.
const RESERVED_DIVISOR: u64 = 4;

/// Returns true if a file has one of the descriptors that are kept in reserve. The system gives the lowest that is free.
pub(crate) fn is_in_reserve(file: impl AsFd) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return false };
    let reserved = RESERVED_MAX.min(limit / RESERVED_DIVISOR);
    u64::try_from(file.as_fd().as_raw_fd()).is_ok_and(|descriptor| descriptor + reserved >= limit)
}
