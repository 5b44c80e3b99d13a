//! PID namespaces, whose processes all end with the first process.

use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Puts the children of this process into a new PID namespace. The first child is the namespace's
/// process 1: when it ends, the kernel kills all others.
///
/// # Errors
/// If the kernel refuses it to this process.
pub fn unshare_pid_namespace() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWPID)?)
}

/// Mounts `/proc` for the PID namespace whose first process this is. This process and its children
/// then see only the processes of their namespace.
///
/// # Errors
/// If the kernel refuses it to this process.
pub fn mount_proc() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    let nothing: Option<&str> = None;
    // The mount must not be visible outside.
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(mount(Some("proc"), "/proc", Some("proc"), flags, nothing)?)
}
