//! The ports from which peers' applications speak to targets here: one for each application's endpoint, so that targets tell
//! them apart.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use byway_net::SocketId;
use byway_units::AgentId;

/// A peer's application as seen by some of the targets: those that are spoken to from the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Caller {
    peer: AgentId,
    /// The application's endpoint, as the peer numbers it.
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

    /// Where its socket is bound.
    pub(super) fn bind(self) -> SocketAddr {
        (self.from, 0).into()
    }
}

/// A socket, and how many mappings use it.
#[derive(Debug)]
struct Outside {
    socket: SocketId,
    mappings: usize,
}

/// The sockets by caller.
#[derive(Debug, Default)]
pub(super) struct Outsides(BTreeMap<Caller, Outside>);

impl Outsides {
    /// The socket that there is.
    pub(super) fn socket(&self, caller: Caller) -> Option<SocketId> {
        Some(self.0.get(&caller)?.socket)
    }

    /// A socket was opened, which no mapping uses yet.
    pub(super) fn opened(&mut self, caller: Caller, socket: SocketId) {
        self.0.insert(caller, Outside { socket, mappings: 0 });
    }

    /// A mapping uses it.
    pub(super) fn used(&mut self, caller: Caller) {
        if let Some(outside) = self.0.get_mut(&caller) {
            outside.mappings += 1;
        }
    }

    /// A mapping uses it no more; the socket, if it is to be closed.
    pub(super) fn left(&mut self, caller: Caller) -> Option<SocketId> {
        if let Some(outside) = self.0.get_mut(&caller) {
            outside.mappings = outside.mappings.saturating_sub(1);
        }
        self.take_unused(caller)
    }

    /// The socket, if no mapping uses it: it is to be closed.
    pub(super) fn take_unused(&mut self, caller: Caller) -> Option<SocketId> {
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
        let (mut outsides, caller) = (Outsides::default(), caller(1, "127.0.0.1:7"));
        outsides.opened(caller, SocketId::OVERLAY);
        outsides.used(caller);
        outsides.used(caller);
        assert_eq!((outsides.take_unused(caller), outsides.left(caller)), (None, None));
        assert_eq!(outsides.left(caller), Some(SocketId::OVERLAY));
        assert_eq!((outsides.socket(caller), outsides.left(caller)), (None, None));
    }

    #[test]
    fn a_socket_that_no_mapping_came_to_use_is_closed() {
        let (mut outsides, caller) = (Outsides::default(), caller(1, "127.0.0.1:7"));
        outsides.opened(caller, SocketId::OVERLAY);
        assert_eq!(outsides.take_unused(caller), Some(SocketId::OVERLAY));
    }
}
