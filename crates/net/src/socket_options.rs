//! Socket options without a safe call in a library.
#![allow(unsafe_code, reason = "setsockopt and getsockopt take pointers; each call is checked here")]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, socklen_t};

use crate::control_messages::ControlMessages;

/// Instruction of a classic BPF program, in the kernel's layout.
pub(crate) use libc::sock_filter as Instruction;

/// Allows or forbids the fragmentation of IPv6 datagrams that are longer than the path MTU.
pub(crate) fn allow_ipv6_fragments(socket: &impl AsFd, are_allowed: bool) -> io::Result<()> {
    set(socket, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, &i32::from(!are_allowed))
}

/// Disables the kernel's joining of datagrams that the socket receives (GRO).
pub(crate) fn disable_gro(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, &0_i32)
}

/// Disables the kernel's timestamps of received datagrams.
pub(crate) fn disable_timestamps(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &0_i32)
}

/// Sets the firewall mark of all packets of the socket, by which rules distinguish them.
pub(crate) fn mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_MARK, &mark)
}

/// Disables the errors of a netlink socket about dropped messages: the kernel then only counts
/// them.
pub(crate) fn disable_netlink_overruns(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, &1_i32)
}

/// Enables the kernel's error messages as text for netlink requests.
pub(crate) fn enable_netlink_ext_ack(socket: &impl AsFd) -> io::Result<()> {
    set(socket, libc::SOL_NETLINK, libc::NETLINK_CAP_ACK, &1_i32)?;
    set(socket, libc::SOL_NETLINK, libc::NETLINK_EXT_ACK, &1_i32)
}

/// Disables the socket's checksums, which makes the kernel refuse GSO.
#[cfg(test)]
pub(crate) fn disable_checksums(socket: &impl AsFd) {
    set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1_i32).expect("the kernel knows the option");
}

/// Attaches a BPF program that chooses among the sockets of a shared port (`SO_REUSEPORT`). It
/// returns the number of a socket, in the order of binding.
pub(crate) fn attach_reuseport_program(socket: &impl AsFd, program: &[Instruction]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel only reads the instructions, during the call.
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Returns the number of datagrams that the kernel has dropped at this socket since it was opened,
/// modulo 2^32.
pub(crate) fn dropped(socket: &impl AsFd) -> io::Result<u32> {
    /// `SK_MEMINFO_DROPS` of the kernel's `sock_diag.h`, and the number of values.
    const SK_MEMINFO_DROPS: usize = 8;
    const SK_MEMINFO_VARS: usize = 9;
    let mut values = [0_u32; SK_MEMINFO_VARS];
    let mut length = socklen_t::try_from(size_of_val(&values)).map_err(|_| io::ErrorKind::InvalidInput)?;
    let descriptor = socket.as_fd().as_raw_fd();
    let level = libc::SOL_SOCKET;
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; `values` is writable for
    // `length` bytes and holds integers, for which any bytes are valid; the kernel writes at most
    // `length` bytes.
    let result = unsafe {
        libc::getsockopt(descriptor, level, libc::SO_MEMINFO, values.as_mut_ptr().cast(), &raw mut length)
    };
    if result == 0 { Ok(values[SK_MEMINFO_DROPS]) } else { Err(io::Error::last_os_error()) }
}

/// Length of a `sockaddr_in6` in bytes, the longest name of a UDP socket.
pub(crate) const SOCKADDR_IN6_BYTES: usize = 28;

/// Makes the kernel queue ICMP errors about packets of the socket, instead of dropping them.
pub(crate) fn queue_errors(socket: &impl AsFd, is_ipv6: bool) -> io::Result<()> {
    let (level, name) =
        if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) } else { (libc::IPPROTO_IP, libc::IP_RECVERR) };
    set(socket, level, name, &1_i32)
}

/// ICMP error about a packet of a socket, as the kernel has queued it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedError {
    /// Destination of the packet.
    pub(crate) to: Option<SocketAddr>,
    /// MTU that the packet exceeds; `None` for other errors.
    pub(crate) mtu: Option<u32>,
    /// Number of bytes that the error quotes of the packet's UDP payload.
    pub(crate) quoted_bytes: usize,
}

/// Reads the next error that the kernel has queued for a socket, with the quoted payload of the
/// packet.
pub(crate) fn next_error(socket: &impl AsFd, quoted: &mut [u8]) -> io::Result<QueuedError> {
    let mut name = [0_u8; SOCKADDR_IN6_BYTES];
    // A `sock_extended_err` with the router's address, and the messages of other options; `u64` for
    // the alignment of headers.
    let mut control = [0_u64; 64];
    let mut part = libc::iovec { iov_base: quoted.as_mut_ptr().cast(), iov_len: quoted.len() };
    // SAFETY: `msghdr` consists of integers and pointers, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = socklen_t::try_from(name.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; name, part and control
    // are writable for the lengths that the message names, and outlive the call.
    let result =
        unsafe { libc::recvmsg(descriptor, &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    let Ok(quoted_bytes) = usize::try_from(result) else {
        return Err(io::Error::last_os_error());
    };
    let control: Vec<u8> = control.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let control = &control[..control.len().min(message.msg_controllen)];
    Ok(QueuedError { to: address_in(&name), mtu: mtu_in(control), quoted_bytes })
}

/// Returns the address in a `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn address_in(name: &[u8; SOCKADDR_IN6_BYTES]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([name[2], name[3]]);
    match c_int::from(u16::from_ne_bytes([name[0], name[1]])) {
        libc::AF_INET => {
            let ip: [u8; 4] = *name[4..].first_chunk()?;
            Some((Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = *name[8..].first_chunk()?;
            Some((Ipv6Addr::from(ip), port).into())
        }
        _ => None,
    }
}

/// Returns the MTU in the control messages of an error, if a router or the peer reports that a
/// packet is too long.
fn mtu_in(control: &[u8]) -> Option<u32> {
    /// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6` of the kernel's `errqueue.h`.
    const SO_EE_ORIGINS_ICMP: [u8; 2] = [2, 3];
    let is_error = |level, name| {
        [(libc::IPPROTO_IP, libc::IP_RECVERR), (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)]
            .contains(&(level, name))
    };
    let (.., data) = ControlMessages(control).find(|(level, name, _)| is_error(*level, *name))?;
    let number = |at: usize| -> Option<u32> { Some(u32::from_ne_bytes(*data.get(at..)?.first_chunk()?)) };
    // errno[4], origin[1], type[1], code[1], padding[1], info[4]
    let is_too_long = i64::from(number(0)?) == i64::from(libc::EMSGSIZE);
    let is_from_network = data.get(4).is_some_and(|origin| SO_EE_ORIGINS_ICMP.contains(origin));
    number(8).filter(|_| is_too_long && is_from_network)
}

fn set<T>(socket: &impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let length = socklen_t::try_from(size_of::<T>()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; `value` is readable for
    // `length` bytes, as it is a reference to a value of that size; callers pass the type that the
    // option asks for, and what a `sock_fprog` points to outlives the call.
    let result =
        unsafe { libc::setsockopt(descriptor, level, name, std::ptr::from_ref(value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a control message.
    fn control(level: c_int, name: c_int, data: &[u8]) -> Vec<u8> {
        let alignment = size_of::<usize>();
        let length = size_of::<libc::cmsghdr>().next_multiple_of(alignment) + data.len();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(name.to_ne_bytes());
        bytes.resize(length - data.len(), 0);
        bytes.extend(data);
        bytes.resize(length.next_multiple_of(alignment), 0);
        bytes
    }

    fn error(errno: c_int, origin: u8, info: u32) -> Vec<u8> {
        [&errno.to_ne_bytes()[..], &[origin, 3, 4, 0], &info.to_ne_bytes(), &[0; 4]].concat()
    }

    #[test]
    fn an_mtu_counts_if_the_network_names_it() {
        let other = control(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &[1; 13]);
        let too_long = error(libc::EMSGSIZE, 2, 1_300);
        let ipv4 = control(libc::IPPROTO_IP, libc::IP_RECVERR, &too_long);
        assert_eq!(mtu_in(&ipv4), Some(1_300));
        assert_eq!(mtu_in(&[&other[..], &ipv4].concat()), Some(1_300));
        let ipv6 = control(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, &error(libc::EMSGSIZE, 3, 1_280));
        assert_eq!(mtu_in(&ipv6), Some(1_280));
        for (errno, origin) in [(libc::EMSGSIZE, 1), (libc::ECONNREFUSED, 2)] {
            let others = control(libc::IPPROTO_IP, libc::IP_RECVERR, &error(errno, origin, 1_300));
            assert_eq!(mtu_in(&others), None);
        }
        for length in 0..ipv4.len() - 8 {
            assert_eq!(mtu_in(&ipv4[..length]), None, "cut off at {length}");
        }
    }

    #[test]
    fn addresses_of_both_families_are_read() {
        let mut name = [0; 28];
        name[..2].copy_from_slice(&u16::try_from(libc::AF_INET).expect("it is small").to_ne_bytes());
        name[2..8].copy_from_slice(&[0x12, 0x34, 192, 0, 2, 1]);
        assert_eq!(address_in(&name), Some(SocketAddr::from(([192, 0, 2, 1], 0x1234))));
        name[..2].copy_from_slice(&u16::try_from(libc::AF_INET6).expect("it is small").to_ne_bytes());
        name[8..24].copy_from_slice(&Ipv6Addr::LOCALHOST.octets());
        assert_eq!(address_in(&name), Some(SocketAddr::from((Ipv6Addr::LOCALHOST, 0x1234))));
        assert_eq!(address_in(&[0; 28]), None);
    }
}
