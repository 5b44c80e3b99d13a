//! Endpoints of a controller's packets, which the application may change.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits::{IPV4_HEADERS, IPV6_HEADERS};
use crate::subscription::Subscription;

/// Entries of a path, and the headers of packets on it.
#[derive(Clone, Debug)]
pub(crate) struct RouteState {
    /// Entries; `None` if the feed has none, or if the path is not known.
    pub(crate) subscription: Option<Subscription>,
    /// Bytes of IP and UDP headers.
    pub(crate) headers: u32,
}

/// Returns the bytes of IP and UDP headers in packets to an address. An IPv4 address may be written
/// as one of IPv6, as sockets for both do.
pub(crate) fn header_bytes(peer: SocketAddr) -> u32 {
    if peer.ip().to_canonical().is_ipv4() { IPV4_HEADERS } else { IPV6_HEADERS }
}

/// Route of one controller and its clones.
#[derive(Debug)]
pub(crate) struct Route {
    changes: AtomicU64,
    state: Mutex<RouteState>,
}

impl Route {
    pub(crate) const fn new(state: RouteState) -> Self {
        Self { changes: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Returns the present state, and the number of changes so far.
    pub(crate) fn state(&self) -> (u64, RouteState) {
        let state = self.lock();
        (self.changes.load(Ordering::Relaxed), state.clone())
    }

    /// Returns the same, if there were changes since that number.
    pub(crate) fn state_after(&self, changes_seen: u64) -> Option<(u64, RouteState)> {
        // Controllers ask for each packet: usually there is no change, and no lock.
        (self.changes.load(Ordering::Acquire) != changes_seen).then(|| self.state())
    }

    pub(crate) fn change(&self, state: RouteState) {
        let mut current = self.lock();
        *current = state;
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, RouteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_packets_on_the_wire() {
        let headers = |peer: &str| header_bytes(peer.parse().expect("an address"));
        assert_eq!(headers("198.51.100.7:443"), 28);
        assert_eq!(headers("[2001:db8::7]:443"), 48);
        assert_eq!(headers("[::ffff:198.51.100.7]:443"), 28);
    }

    #[test]
    fn a_change_is_seen_once() {
        let state = |headers| RouteState { subscription: None, headers };
        let route = Route::new(state(28));
        let (seen, _) = route.state();
        assert!(route.state_after(seen).is_none());
        route.change(state(48));
        let (seen, changed) = route.state_after(seen).expect("a change");
        assert_eq!(changed.headers, 48);
        assert!(route.state_after(seen).is_none());
    }
}
