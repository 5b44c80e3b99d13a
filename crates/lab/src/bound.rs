//! Which ports are bound in a machine, as its kernel tells.

#![allow(clippy::disallowed_methods, reason = "the kernel tells it in files")]

use std::fs;

/// The state of a TCP socket that listens, as the kernel writes it.
const LISTENS: &str = "0A";

/// Whether something listens at a TCP port of the machine in which this is asked.
#[must_use]
pub fn tcp(port: u16) -> bool {
    tables(["tcp", "tcp6"]).any(|table| has(&table, port, Some(LISTENS)))
}

/// Whether a UDP port is bound in the machine in which this is asked.
#[must_use]
pub fn udp(port: u16) -> bool {
    tables(["udp", "udp6"]).any(|table| has(&table, port, None))
}

/// The tables of this thread's namespace, which is another one than that of its process.
fn tables(names: [&'static str; 2]) -> impl Iterator<Item = String> {
    names.into_iter().filter_map(|name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).ok())
}

/// Whether a table has a socket with this local port, and in this state if one is given.
fn has(table: &str, port: u16, state: Option<&str>) -> bool {
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
        assert!(has(TABLE, 80, Some(LISTENS)));
        assert!(!has(TABLE, 8_080, Some(LISTENS)), "it is connected");
        assert!(has(TABLE, 8_080, None));
        assert!(!has(TABLE, 81, None) && !has("", 80, None) && !has("x\ny", 80, None));
    }

    #[test]
    fn the_kernel_says_what_is_bound() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let socket =
            std::net::UdpSocket::bind(("::1", 0)).or_else(|_| std::net::UdpSocket::bind(("127.0.0.1", 0)));
        let bound = [listener.local_addr(), socket.expect("a port").local_addr()];
        let [listening, bound] = bound.map(|address| address.expect("it is bound").port());
        assert!(tcp(listening) && !udp(listening) || listening == bound);
        drop(listener);
        assert!(!tcp(listening));
    }
}
