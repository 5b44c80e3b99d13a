//! Abstract addresses of Unix sockets (unix(7)), by which processes of one network namespace
//! announce the resources that they use.
//!
//! Any local user may bind an abstract address, and so could occupy a fixed one. Each name here
//! therefore ends with a random number. A process that reserves a name always gets one, and then
//! looks for other names with the same beginning. Only names of root, of the own user, and of
//! processes with `CAP_NET_ADMIN` count. All others are logged and ignored.

#![allow(clippy::disallowed_methods, reason = "the system's lists of names and processes are files")]

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use data_encoding::HEXLOWER;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with, sockopt};
use rustix::process::geteuid;

use crate::membership::random;

/// Bytes of the random part of a name. No user can occupy all of its 2^64 values.
const RANDOM_BYTES: usize = 8;

/// Bit of `CAP_NET_ADMIN` in the kernel's bit set of capabilities (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;

/// Process that has bound an abstract name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Abstract name that the process has bound.
    pub(crate) name: String,
    /// Number of the process, and its user. `None` if the process accepts no connection, which
    /// would reveal both.
    process: Option<(i32, u32)>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((process, user)) = self.process else { return write!(f, "an unknown process") };
        write!(f, "process {process}")?;
        if let Ok(program) = std::fs::read_to_string(format!("/proc/{process}/comm")) {
            write!(f, " ({})", program.trim_end())?;
        }
        write!(f, " of user {user}")
    }
}

impl Holder {
    /// True if the process runs as root, as this user or with `CAP_NET_ADMIN`. Others may be local
    /// users who occupy names.
    pub(crate) fn is_privileged(&self) -> bool {
        let Some((process, user)) = self.process else { return false };
        user == 0 || user == geteuid().as_raw() || is_network_administrator(process)
    }
}

/// True if a process has `CAP_NET_ADMIN`. The capability does not count in another user namespace,
/// as far as that is readable.
fn is_network_administrator(process: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective =
        effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or_default();
    let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/user"));
    let is_elsewhere = match (namespace(&process.to_string()), namespace("self")) {
        (Ok(its), Ok(own)) => its != own,
        _ => false,
    };
    effective >> CAP_NET_ADMIN & 1 == 1 && !is_elsewhere
}

/// Binds an abstract name that begins with `name` and ends with a random number; returns it with
/// its socket.
///
/// # Errors
/// If the kernel creates or binds no socket.
pub(crate) fn reserve(name: &str) -> io::Result<(String, UnixListener)> {
    let name = format!("{name}-{}", HEXLOWER.encode(&random::bytes::<RANDOM_BYTES>()));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((name, listener))
}

/// Returns the processes that have bound abstract names that begin with `begins`, except the name
/// `own`.
pub(crate) fn holders(begins: &str, own: Option<&str>) -> Vec<Holder> {
    let names = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let others = abstract_names(&names).filter(|name| name.starts_with(begins) && Some(*name) != own);
    let others: BTreeSet<&str> = others.collect();
    others.into_iter().filter_map(holder).collect()
}

/// Returns the abstract names in the kernel's table of Unix sockets.
fn abstract_names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'))
}

/// Returns the process that has bound an abstract name; `None` if it has released the name.
fn holder(name: &str) -> Option<Holder> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    let process = match connect(&socket, &address) {
        Ok(()) => {
            let other = sockopt::socket_peercred(&socket).ok()?;
            Some((other.pid.as_raw_nonzero().get(), other.uid.as_raw()))
        }
        // No process listens: the name was released, or is no claim.
        Err(error) if error == rustix::io::Errno::CONNREFUSED => return None,
        Err(_) => None,
    };
    Some(Holder { name: name.to_owned(), process })
}

/// Logs the first unprivileged process among those that have bound Byway's names.
pub(crate) fn log_strangers(holders: &[Holder]) {
    if let Some(stranger) = holders.iter().find(|holder| !holder.is_privileged()) {
        tracing::warn!(
            "ignoring {stranger}: it has bound the name @{}, which is reserved for Byway",
            stranger.name
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_holder_and_gone_with_its_socket() {
        let begins = format!("byway-test-{}", std::process::id());
        let (own, listener) = reserve(&begins).expect("a socket");
        let (other, second) = reserve(&begins).expect("a random name is free");
        let found = holders(&begins, Some(&own));
        assert_eq!(found.iter().map(|holder| holder.name.clone()).collect::<Vec<_>>(), [other]);
        let [holder] = &found[..] else { panic!("{found:?}") };
        assert!(holder.is_privileged(), "it is of this user");
        let message = holder.to_string();
        assert!(
            message.contains(&format!("process {} (", std::process::id())) && message.contains("of user"),
            "{message}"
        );
        drop((listener, second));
        assert_eq!(holders(&begins, None), []);
    }

    #[test]
    fn a_holder_that_accepts_nobody_is_unknown_and_not_privileged() {
        let holder = Holder { name: "byway-x".to_owned(), process: None };
        assert!(!holder.is_privileged() && holder.to_string() == "an unknown process");
        // Of another user, without visible capabilities.
        let stranger = Holder { name: "byway-x".to_owned(), process: Some((i32::MAX, 4_000_000_001)) };
        assert!(!stranger.is_privileged());
    }

    #[test]
    fn names_are_those_behind_an_at_sign() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 17 @byway-capture-4600-00\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 18 /run/@byway\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 19\n";
        assert_eq!(abstract_names(list).collect::<Vec<_>>(), ["byway-capture-4600-00"]);
    }
}
