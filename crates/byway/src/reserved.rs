//! Names that tell processes of one network namespace what others are at: abstract addresses of Unix sockets (unix(7)).
//!
//! Anybody may bind an abstract address, so a fixed one could be held by any local user. A name here ends with a random
//! number: whoever reserves it always gets one, and looks then for other names that begin alike. Only those of root, of
//! the own user, and of processes with `CAP_NET_ADMIN` count. All others are logged, and do no harm.

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

/// Bytes of the random part: nobody holds all of 2^64 names.
const RANDOM_BYTES: usize = 8;

/// Bit of `CAP_NET_ADMIN` in a process's capabilities (capabilities(7)).
const CAP_NET_ADMIN: u32 = 12;

/// Process that holds a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The name.
    pub(crate) name: String,
    /// The process and its user; `None` if it accepts no connection, which tells them.
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
    /// True if the holder may change routing itself, and so is no local user who takes names.
    pub(crate) fn is_privileged(&self) -> bool {
        let Some((process, user)) = self.process else { return false };
        user == 0 || user == geteuid().as_raw() || is_network_administrator(process)
    }
}

/// True if a process has `CAP_NET_ADMIN`. That of a user namespace of its own counts for nothing, where it can be told.
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

/// Binds an address that begins with this name.
///
/// # Errors
/// If the kernel gives no socket.
pub(crate) fn reserve(name: &str) -> io::Result<(String, UnixListener)> {
    let name = format!("{name}-{}", HEXLOWER.encode(&random::bytes::<RANDOM_BYTES>()));
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    Ok((name, listener))
}

/// Returns the processes that hold names which begin like this, but for one's own.
pub(crate) fn holders(begins: &str, own: Option<&str>) -> Vec<Holder> {
    let names = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let others = abstract_names(&names).filter(|name| name.starts_with(begins) && Some(*name) != own);
    let others: BTreeSet<&str> = others.collect();
    others.into_iter().filter_map(holder).collect()
}

/// Returns the abstract names in the system's list.
fn abstract_names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.rsplit(' ').next()?.strip_prefix('@'))
}

/// Returns who holds a name; `None` if nobody does any more.
fn holder(name: &str) -> Option<Holder> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?;
    let process = match connect(&socket, &address) {
        Ok(()) => {
            let other = sockopt::socket_peercred(&socket).ok()?;
            Some((other.pid.as_raw_nonzero().get(), other.uid.as_raw()))
        }
        // Nobody listens there: a name that was given up, or one that is no claim.
        Err(error) if error == rustix::io::Errno::CONNREFUSED => return None,
        Err(_) => None,
    };
    Some(Holder { name: name.to_owned(), process })
}

/// Logs who holds names without the right to it.
pub(crate) fn log_strangers(holders: &[Holder]) {
    if let Some(stranger) = holders.iter().find(|holder| !holder.is_privileged()) {
        tracing::warn!("{stranger} holds the name @{}, which is Byway's: it is ignored", stranger.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_with_its_holder_and_gone_with_its_socket() {
        let begins = format!("byway-test-{}", std::process::id());
        let (own, listener) = reserve(&begins).expect("a socket");
        let (other, second) = reserve(&begins).expect("a name is never taken");
        let found = holders(&begins, Some(&own));
        assert_eq!(found.iter().map(|holder| holder.name.clone()).collect::<Vec<_>>(), [other]);
        let [holder] = &found[..] else { panic!("{found:?}") };
        assert!(holder.is_privileged(), "it is of this user");
        let said = holder.to_string();
        assert!(
            said.contains(&format!("process {} (", std::process::id())) && said.contains("of user"),
            "{said}"
        );
        drop((listener, second));
        assert_eq!(holders(&begins, None), []);
    }

    #[test]
    fn a_holder_that_accepts_nobody_is_unknown_and_not_privileged() {
        let holder = Holder { name: "byway-x".to_owned(), process: None };
        assert!(!holder.is_privileged() && holder.to_string() == "an unknown process");
        // Of another user, and with no capabilities that can be seen.
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
