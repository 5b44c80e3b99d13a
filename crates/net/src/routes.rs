//! Cache of the source addresses that the system prefers.

use std::io;
use std::net::{IpAddr, SocketAddr};

use byway_proto::Uplink;
use byway_units::Time;
use socket2::{Domain, Protocol, Socket, Type};

use crate::limits::{ROUTE_LOOKUPS_MAX, ROUTE_VALID_FOR, ROUTES_CACHED};
use crate::socket_options;

/// Remote address and uplink with the source address that the system prefers for them, until a
/// time.
#[derive(Clone, Copy, Debug)]
struct Route {
    remote: IpAddr,
    uplink: Uplink,
    source: Option<IpAddr>,
    until: Time,
}

/// Cache of the source addresses that the system prefers.
///
/// On a machine that moves, sessions leave the source address to the system, because a changed
/// route then moves them at once.
#[derive(Debug)]
pub(crate) struct RouteCache {
    /// Names of the uplinks' devices; empty if the system chooses the device.
    devices: Vec<String>,
    cached: Box<[Option<Route>]>,
    /// Number of lookups in the second that ends at `counted_until`.
    lookups: u32,
    counted_until: Time,
}

impl RouteCache {
    pub(crate) fn new(devices: Vec<String>) -> Self {
        let cached = vec![None; ROUTES_CACHED].into_boxed_slice();
        Self { devices, cached, lookups: 0, counted_until: Time::START }
    }

    /// True if the system would send to `remote` by the uplink from `local` by itself. False if
    /// that is unknown, because there were too many lookups in this second.
    pub(crate) fn prefers_source(
        &mut self,
        local: IpAddr,
        (remote, uplink): (SocketAddr, Uplink),
        mark: Option<u32>,
        now: Time,
    ) -> bool {
        let slot = slot_of(remote.ip());
        let is_known = |route: &Route| (route.remote, route.uplink) == (remote.ip(), uplink);
        let known = self.cached[slot].filter(|route| is_known(route) && now < route.until);
        let source = match known {
            Some(route) => route.source,
            None if !self.may_look_up(now) => return false,
            None => {
                let device = self.devices.get(uplink as usize).map(String::as_bytes);
                let source = preferred_source(remote, device, mark).ok();
                let until = now + ROUTE_VALID_FOR;
                self.cached[slot] = Some(Route { remote: remote.ip(), uplink, source, until });
                source
            }
        };
        source == Some(local)
    }

    fn may_look_up(&mut self, now: Time) -> bool {
        if now >= self.counted_until {
            (self.lookups, self.counted_until) = (0, now + ROUTE_VALID_FOR);
        }
        self.lookups += 1;
        self.lookups <= ROUTE_LOOKUPS_MAX
    }
}

/// Looks up the source address that the system prefers for `remote`: that of a connected socket,
/// which sends nothing.
fn preferred_source(remote: SocketAddr, device: Option<&[u8]>, mark: Option<u32>) -> io::Result<IpAddr> {
    let socket = Socket::new(Domain::for_address(remote), Type::DGRAM, Some(Protocol::UDP))?;
    if device.is_some() {
        socket.bind_device(device)?;
    }
    if let Some(mark) = mark {
        socket_options::mark(&socket, mark)?;
    }
    socket.connect(&remote.into())?;
    let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(local.ip())
}

fn slot_of(remote: IpAddr) -> usize {
    let bytes = match remote {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let sum = bytes.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    sum % ROUTES_CACHED
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use byway_units::Duration;

    use super::*;

    #[test]
    fn the_system_sends_to_the_loopback_from_there_and_strangers_cannot_have_it_asked_without_end() {
        let (mut routes, now) = (RouteCache::new(Vec::new()), Time::START);
        let remote = |last: u32| ((Ipv4Addr::from_bits(0x7f00_0100 + last), 9).into(), Uplink::First);
        let localhost = Ipv4Addr::LOCALHOST.into();
        assert!(!routes.prefers_source(Ipv4Addr::new(10, 0, 0, 1).into(), remote(0), None, now));
        for number in 0..ROUTE_LOOKUPS_MAX {
            assert!(routes.prefers_source(localhost, remote(number), None, now), "{number}");
        }
        assert!(
            !routes.prefers_source(localhost, remote(ROUTE_LOOKUPS_MAX), None, now),
            "it was asked too often"
        );
        let later = now + Duration::from_secs(1);
        assert!(routes.prefers_source(localhost, remote(ROUTE_LOOKUPS_MAX), None, later));
    }
}
