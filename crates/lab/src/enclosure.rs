//! Processes that end together, whatever becomes of those between: a namespace of processes.

use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Has the children of this process be in a namespace of processes of their own. The first of them is its number 1: when that ends, the
/// kernel kills all others.
///
/// # Errors
/// If the kernel refuses it to this process.
pub fn enclose_children() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWPID)?)
}

/// Has this process, the first of its namespace, and its children see the processes of that in `/proc`, and not others by wrong numbers.
///
/// # Errors
/// If the kernel refuses it to this process.
pub fn begin_process_table() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing: Option<&str> = None;
    // What is mounted here is not to be seen outside.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some("proc"), "/proc", Some("proc"), flags, nothing)?)
}
