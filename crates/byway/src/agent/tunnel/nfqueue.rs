//! Packets from a capture's NFQUEUE, into which the firewall's rules put them. The agent consumes a
//! packet while the peer admits it, and otherwise returns it to the kernel unchanged.

use std::net::IpAddr;

use byway_net::{Io, QueuedPacket, Verdict};
use byway_proto::limits::DATAGRAM_BYTES_MAX;
use byway_wire::Ecn;
use byway_wire::ip::Headers;

use super::{Route, TunForwarder};
use crate::agent::driver::AgentDriver;
use crate::agent::mappings::Consent;
use crate::capture::is_link_local;
use crate::settings::ExposedResource;

/// Interface index of the loopback device, which is always the first one.
const LOOPBACK_IFINDEX: u32 = 1;

impl TunForwarder {
    /// Returns the headers and the route of a queued packet; `None` if Byway does not capture the
    /// packet.
    fn select_route(
        &self,
        queued: &mut QueuedPacket<'_>,
        exposed: &[ExposedResource],
    ) -> Option<(Headers, Ecn, Route)> {
        let index = self.settings.captures.iter().position(|capture| capture.queue == Some(queued.queue))?;
        // Byway's own packets, and those that it delivered, would loop.
        let is_own = queued.mark == self.settings.table || queued.input_ifindex == Some(self.device_index);
        let is_active = self.capture_state.borrow().captures.get(index) == Some(&true);
        let stays = queued.output_ifindex == Some(LOOPBACK_IFINDEX);
        if is_own || stays || !is_active || queued.packet.len() > DATAGRAM_BYTES_MAX {
            return None;
        }
        let (headers, ecn) = self.parse_packet(queued.packet)?;
        let is_supported = headers.destination.is_ipv4() || self.speaks_ipv6;
        if !is_supported || is_link_scoped(headers.destination) {
            return None;
        }
        let is_learned =
            |address| self.capture_state.borrow().exposed.iter().any(|(_, behind)| *behind == address);
        let route = self.return_route(&headers, exposed).filter(|_| is_learned(headers.destination));
        Some((headers, ecn, route.unwrap_or_else(|| self.capture_route(index, &headers))))
    }
}

impl AgentDriver {
    /// Handles a packet that a firewall rule has put into a queue. The agent consumes it if the
    /// capture's peer is present and has consented, because the packet can then be sent
    /// immediately. The kernel routes all others as usual.
    pub(in crate::agent) fn on_queued_packet(
        &mut self,
        mut queued: QueuedPacket<'_>,
        io: &mut Io,
    ) -> Verdict {
        let Some(tunnel) = &mut self.tunnel else {
            return Verdict::Accepted;
        };
        let Some((headers, ecn, route)) = tunnel.select_route(&mut queued, &self.exposed) else {
            return Verdict::Accepted;
        };
        tunnel.schedule_poll(io.now());
        let Route::Mapping(id) = route else {
            // A mapping begins soon; no packet waits for it.
            return Verdict::Accepted;
        };
        let consents =
            self.mappings.get(id).is_some_and(|mapping| matches!(mapping.consent, Consent::Granted));
        if !consents {
            return Verdict::Accepted;
        }
        self.forward_packet(id, &headers, ecn, queued.packet, io);
        Verdict::Consumed
    }
}

/// True if an address is valid only on this machine or on one of its links. Such an address is
/// behind no peer.
fn is_link_scoped(destination: IpAddr) -> bool {
    let is_broadcast = matches!(destination, IpAddr::V4(address) if address.is_broadcast());
    is_broadcast || is_link_local(destination) || destination.is_loopback() || destination.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_nothing_for_peers() {
        for (destination, expected) in [
            ("127.0.0.1", true),
            ("255.255.255.255", true),
            ("169.254.7.7", true),
            ("0.0.0.0", true),
            ("fe80::1", true),
            ("::1", true),
            ("10.0.0.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_link_scoped(destination.parse().expect("an address")), expected, "{destination}");
        }
    }
}
