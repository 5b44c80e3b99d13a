//! Ports bound in a machine, from its kernel's tables.

#![allow(clippy::disallowed_methods, reason = "the kernel tells it in files")]

use std::fs;

/// State of a listening TCP socket in the kernel's tables `/proc/net/tcp` and `tcp6`.
const LISTENS: &str = "0A";

/// True if a socket listens at this TCP port in the machine (network namespace) of the calling
/// thread.
#[must_use]
pub fn is_tcp_listening(port: u16) -> bool {
    tables(["tcp", "tcp6"]).any(|table| has_socket(&table, port, Some(LISTENS)))
}

/// True if a socket is bound to this UDP port in the machine (network namespace) of the calling
/// thread.
#[must_use]
pub fn is_udp_bound(port: u16) -> bool {
    tables(["udp", "udp6"]).any(|table| has_socket(&table, port, None))
}

/// Reads the kernel's socket tables of this thread's network namespace, which differs from that of
/// its process.
fn tables(names: [&'static str; 2]) -> impl Iterator<Item = String> {
    names.into_iter().filter_map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).ok())
}

/// True if a kernel table has a socket with this local port and, unless `None`, in this state.
fn has_socket(table: &str, port: u16, state: Option<&str>) -> bool {
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|address| address.rsplit_once(':'));
        let bound = local.and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        bound == Some(port) && state.is_none_or(|state| words.nth(1) == Some(state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
                         0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n   \
                         1: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000\n";

    #[test]
    fn a_port_is_known_by_its_own_end_and_state() {
        assert!(has_socket(TABLE, 80, Some(LISTENS)));
        assert!(!has_socket(TABLE, 8_080, Some(LISTENS)), "it is connected");
        assert!(has_socket(TABLE, 8_080, None));
        assert!(!has_socket(TABLE, 81, None) && !has_socket("", 80, None) && !has_socket("x\ny", 80, None));
    }

    #[test]
    fn the_kernel_says_what_is_bound() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let socket =
            std::net::UdpSocket::bind(("::1", 0)).or_else(|_| std::net::UdpSocket::bind(("127.0.0.1", 0)));
        let bound = [listener.local_addr(), socket.expect("a port").local_addr()];
        let [listening, bound] = bound.map(|address| address.expect("it is bound").port());
        assert!(is_tcp_listening(listening) && !is_udp_bound(listening) || listening == bound);
        drop(listener);
        assert!(!is_tcp_listening(listening));
    }
}
