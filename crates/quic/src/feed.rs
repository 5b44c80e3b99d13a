//! Sources of network state.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::subscription::Subscription;

/// Source of network state for the paths of an application.
///
/// An implementation has a [`channel`](crate::channel) for each path. It publishes entries as
/// they arrive: from the stream of a controller, a callback, or a simulation. It may share a
/// channel among connections that use the same path, with a clone of its [`Subscription`].
pub trait Feed: Send + Sync {
    /// Returns the entries of the path from `local` to `peer`, in both directions. Returns `None`
    /// if the feed has none and will have none.
    ///
    /// It must not wait: entries may arrive later, and a connection works without them. The path is
    /// not needed any more once [`Publisher`](crate::Publisher) reports that nobody reads.
    fn subscribe(&self, local: SocketAddr, peer: SocketAddr) -> Option<Subscription>;
}

impl<F: Feed + ?Sized> Feed for Arc<F> {
    fn subscribe(&self, local: SocketAddr, peer: SocketAddr) -> Option<Subscription> {
        (**self).subscribe(local, peer)
    }
}
