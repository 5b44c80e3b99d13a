//! Source ports from which peers' applications send to targets here. Each application's endpoint
//! has its own port, by which targets distinguish them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use byway_net::SocketId;
use byway_units::AgentId;

/// A peer's application, as targets see it that get its packets from one source address. All
/// loopback targets of one IP version share such an address, and so do all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Caller {
    peer: AgentId,
    /// The peer's number for the application's endpoint.
    source: u32,
    from: IpAddr,
}

impl Caller {
    pub(super) const fn new(peer: AgentId, source: u32, target: SocketAddr) -> Self {
        let from = match (target.ip().is_loopback(), target.is_ipv4()) {
            (true, true) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            (true, false) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            (false, true) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            (false, false) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        Self { peer, source, from }
    }

    /// Returns the local address for the caller's socket, with port 0: the system chooses the port.
    pub(super) fn bind(self) -> SocketAddr {
        (self.from, 0).into()
    }
}

/// Socket of a caller, and the number of mappings that use it.
#[derive(Debug)]
struct SourcePort {
    socket: SocketId,
    mappings: usize,
}

/// Table of the sockets from which peers' applications send to targets, by caller.
#[derive(Debug, Default)]
pub(super) struct SourcePortTable(BTreeMap<Caller, SourcePort>);

impl SourcePortTable {
    /// Returns the caller's socket, if it has one.
    pub(super) fn socket(&self, caller: Caller) -> Option<SocketId> {
        Some(self.0.get(&caller)?.socket)
    }

    /// Adds a caller's new socket, which no mapping uses yet.
    pub(super) fn insert(&mut self, caller: Caller, socket: SocketId) {
        self.0.insert(caller, SourcePort { socket, mappings: 0 });
    }

    /// Counts one more mapping that uses the caller's socket.
    pub(super) fn acquire(&mut self, caller: Caller) {
        if let Some(port) = self.0.get_mut(&caller) {
            port.mappings += 1;
        }
    }

    /// Counts one mapping less at the caller's socket. If none is left, removes the socket and
    /// returns it, for the function's caller to close.
    pub(super) fn release(&mut self, caller: Caller) -> Option<SocketId> {
        if let Some(port) = self.0.get_mut(&caller) {
            port.mappings = port.mappings.saturating_sub(1);
        }
        self.remove_unused(caller)
    }

    /// Removes a caller's socket if no mapping uses it. Returns the socket, for the function's
    /// caller to close.
    pub(super) fn remove_unused(&mut self, caller: Caller) -> Option<SocketId> {
        if self.0.get(&caller)?.mappings > 0 {
            return None;
        }
        Some(self.0.remove(&caller)?.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: AgentId = AgentId::new(2);

    fn caller(source: u32, target: &str) -> Caller {
        Caller::new(PEER, source, target.parse().expect("an address"))
    }

    #[test]
    fn targets_of_this_machine_are_spoken_to_from_it_and_others_in_their_family() {
        for (target, bind) in [
            ("127.0.0.9:7", "127.0.0.1:0"),
            ("[::1]:7", "[::1]:0"),
            ("192.0.2.1:7", "0.0.0.0:0"),
            ("[2001:db8::1]:7", "[::]:0"),
        ] {
            assert_eq!(caller(1, target).bind().to_string(), bind, "{target}");
        }
    }

    #[test]
    fn what_one_endpoint_sends_to_two_targets_of_a_kind_leaves_from_one_port() {
        assert_eq!(caller(1, "127.0.0.1:7"), caller(1, "127.0.0.2:8"));
        assert_ne!(caller(1, "127.0.0.1:7"), caller(2, "127.0.0.1:7"), "another application");
        assert_ne!(caller(1, "127.0.0.1:7"), caller(1, "[::1]:7"), "no socket reaches both");
    }

    #[test]
    fn a_socket_is_closed_with_the_last_mapping_that_uses_it() {
        let (mut ports, caller) = (SourcePortTable::default(), caller(1, "127.0.0.1:7"));
        ports.insert(caller, SocketId::OVERLAY);
        ports.acquire(caller);
        ports.acquire(caller);
        assert_eq!((ports.remove_unused(caller), ports.release(caller)), (None, None));
        assert_eq!(ports.release(caller), Some(SocketId::OVERLAY));
        assert_eq!((ports.socket(caller), ports.release(caller)), (None, None));
    }

    #[test]
    fn a_socket_that_no_mapping_came_to_use_is_closed() {
        let (mut ports, caller) = (SourcePortTable::default(), caller(1, "127.0.0.1:7"));
        ports.insert(caller, SocketId::OVERLAY);
        assert_eq!(ports.remove_unused(caller), Some(SocketId::OVERLAY));
    }
}
