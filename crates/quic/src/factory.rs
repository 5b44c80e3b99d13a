//! Factory of the controllers of one connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::controller::PathController;
use crate::feed::Feed;
use crate::route::{Route, RouteState, header_bytes};

/// Factory of the controllers of one connection: each connection has its own.
///
/// QUIC libraries ask it for a controller at the beginning. They ask for another one when the
/// connection changes to another address of the peer, or opens one more path, and do not name that
/// path. So the first controller has the state of the path that the factory was created for. Later
/// ones have none, and a delay-based window, until the application calls
/// [`set_path`](Self::set_path).
pub struct Factory {
    feed: Box<dyn Feed>,
    newest: Mutex<NewestController>,
}

/// Controller that the library asked for last, or will ask for first.
struct NewestController {
    route: Arc<Route>,
    is_built: bool,
}

impl Factory {
    /// Creates the factory of a connection from `local` to `peer`.
    ///
    /// The local address may be unspecified, if the application does not know it: the feed decides
    /// what it makes of that. The family of the peer's address decides on the size of headers.
    #[must_use]
    pub fn for_path(feed: impl Feed + 'static, local: SocketAddr, peer: SocketAddr) -> Arc<Self> {
        let route = Arc::new(Route::new(route_state(&feed, local, peer)));
        let newest = Mutex::new(NewestController { route, is_built: false });
        Arc::new(Self { feed: Box::new(feed), newest })
    }

    /// Names the path of the newest controller, after the connection changed to another one.
    ///
    /// A controller that had the state of another path begins anew.
    pub fn set_path(&self, local: SocketAddr, peer: SocketAddr) {
        let state = route_state(self.feed.as_ref(), local, peer);
        self.lock().route.change(state);
    }

    /// Creates a controller, as the factories of noq and quinn do. Full packets have `mtu` bytes of
    /// UDP payload.
    #[must_use]
    pub fn controller(&self, now: Instant, mtu: u16) -> PathController {
        let mut newest = self.lock();
        if newest.is_built {
            let (_, state) = newest.route.state();
            newest.route = Arc::new(Route::new(RouteState { subscription: None, ..state }));
        }
        newest.is_built = true;
        PathController::new(Arc::clone(&newest.route), now, mtu)
    }

    fn lock(&self) -> MutexGuard<'_, NewestController> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").finish_non_exhaustive()
    }
}

fn route_state(feed: &dyn Feed, local: SocketAddr, peer: SocketAddr) -> RouteState {
    RouteState { subscription: feed.subscribe(local, peer), headers: header_bytes(peer) }
}

#[cfg(test)]
mod tests {
    use byway_state::Guidance;

    use super::*;
    use crate::subscription::{Publisher, Subscription, channel};
    use crate::test_clock::begin;
    use crate::test_entries::entry;

    /// Feed that has entries of every path but those to one peer.
    struct TestFeed {
        subscribed: Mutex<Vec<(SocketAddr, SocketAddr)>>,
        subscription: Subscription,
        unknown: SocketAddr,
    }

    impl Feed for TestFeed {
        fn subscribe(&self, local: SocketAddr, peer: SocketAddr) -> Option<Subscription> {
            self.subscribed.lock().expect("no thread panics").push((local, peer));
            (peer != self.unknown).then(|| self.subscription.clone())
        }
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn feed(now: Instant) -> (Arc<TestFeed>, Publisher) {
        let (mut publisher, subscription) = channel();
        publisher.publish_forward(entry(1, 0), now);
        let unknown = address("203.0.113.9:443");
        (Arc::new(TestFeed { subscribed: Mutex::default(), subscription, unknown }), publisher)
    }

    fn guidance(controller: &PathController) -> Guidance {
        controller.congestion_control().guidance()
    }

    #[test]
    fn the_first_controller_has_the_state_of_the_named_path() {
        let (now, local, peer) = (begin(), address("192.0.2.1:4433"), address("198.51.100.7:50112"));
        let (feed, _publisher) = feed(now);
        let factory = Factory::for_path(Arc::clone(&feed), local, peer);
        assert_eq!(guidance(&factory.controller(now, 1_200)), Guidance::State);
        assert_eq!(*feed.subscribed.lock().expect("no thread panics"), [(local, peer)]);
    }

    #[test]
    fn a_later_controller_has_none_until_its_path_is_named() {
        let (now, local, peer) = (begin(), address("192.0.2.1:4433"), address("198.51.100.7:50112"));
        let (feed, _publisher) = feed(now);
        let factory = Factory::for_path(feed, local, peer);
        let mut first = factory.controller(now, 1_200);
        let mut second = factory.controller(now, 1_200);
        assert_eq!(guidance(&second), Guidance::Delay);
        factory.set_path(local, address("198.51.100.8:50112"));
        first.on_sent(now, 1_200);
        second.on_sent(now, 1_200);
        assert_eq!([guidance(&first), guidance(&second)], [Guidance::State; 2]);
    }

    #[test]
    fn a_controller_that_changes_to_an_unknown_path_begins_anew() {
        let (now, local, peer) = (begin(), address("192.0.2.1:4433"), address("198.51.100.7:50112"));
        let (feed, _publisher) = feed(now);
        let factory = Factory::for_path(feed, local, peer);
        let mut controller = factory.controller(now, 1_200);
        let clone = controller.clone();
        factory.set_path(local, address("203.0.113.9:443"));
        controller.on_ack_end(now);
        assert_eq!(guidance(&controller), Guidance::Delay);
        assert_eq!((controller.window(), controller.shared_rate()), (12_000, None));
        assert_eq!(guidance(&clone), Guidance::State, "until its next event");
    }
}
