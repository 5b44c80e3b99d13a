//! The socket options that no library has a safe call for.
#![allow(unsafe_code, reason = "setsockopt and getsockopt take pointers; each call is checked here")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, socklen_t};

/// An instruction of a classic BPF program, laid out as the kernel reads it.
pub(crate) use libc::sock_filter as Instruction;

/// Whether IPv6 datagrams are fragmented that are too long for their path.
pub(crate) fn allow_ipv6_fragments(socket: &impl AsFd, are_allowed: bool) -> io::Result<()> {
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, &i32::from(!are_allowed))
}

/// Stops the kernel from handing over several datagrams as one.
pub(crate) fn disable_gro(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, &0_i32)
}

/// Stops the kernel from noting when each datagram came.
pub(crate) fn disable_timestamps(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &0_i32)
}

/// Marks all packets that leave by the socket, so that rules can tell them from others'.
pub(crate) fn mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Has what finds no room at a netlink socket counted alone, and not told by an error.
pub(crate) fn disable_netlink_overruns(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, &1_i32)
}

/// Has the kernel say in words why it refuses a request over netlink.
pub(crate) fn ask_netlink_explanations(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, &1_i32)?;
    set(socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1_i32)
}

/// Makes the kernel refuse GSO.
#[cfg(test)]
pub(crate) fn disable_checksums(socket: &impl AsFd) {
    set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1_i32).expect("the kernel knows the option");
}

/// Lets `program` choose among the sockets of the port that `socket` shares (`SO_REUSEPORT`): it returns their number, in the
/// order in which they were bound.
pub(crate) fn attach_reuseport_program(socket: &impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel only reads the instructions, during the call.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// How many datagrams the kernel has dropped at this socket since it was opened, modulo 2^32.
pub(crate) fn dropped(socket: &impl AsFd) -> io::Result<u32> {
    /// `SK_MEMINFO_DROPS` of the kernel's `sock_diag.h`, and how many values there are.
    const DROPS: usize = 8;
    const VALUES: usize = 9;
    let mut values = [0_u32; VALUES];
    let mut length = socklen_t::try_from(size_of_val(&values)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let descriptor = socket.as_fd().as_raw_fd();
    let level = libc::SOL_SOCKET;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; `values` is writable for `length` bytes and holds
    // integers, for which any bytes are valid; the kernel writes at most `length` bytes.
    let result = unsafe {
        libc::getsockopt(descriptor, level, libc::SO_MEMINFO, values.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(values[DROPS]) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: &impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = socklen_t::try_from(size_of::<T>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; `value` is readable for `length` bytes, as it
    // is a reference to a value of that size; callers pass the type that the option asks for, and what a `sock_fprog` points
    // to outlives the call.
    let result =
        unsafe { libc::setsockopt(descriptor, level, name, std::ptr::from_ref(value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
