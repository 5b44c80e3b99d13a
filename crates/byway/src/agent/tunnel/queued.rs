//! Packets that rules of the firewall put into the queue of a capture: taken while the peer lets them in, else let go on.

use std::net::IpAddr;

use byway_net::{Io, Queued, Verdict};
use byway_proto::limits::DATAGRAM_BYTES_MAX;
use byway_wire::Ecn;
use byway_wire::ip::Headers;

use super::{Towards, Tunnelled};
use crate::agent::mappings::Consent;
use crate::agent::role::AgentRole;
use crate::capture::is_of_a_link;
use crate::settings::Exposed;

/// The number of the loopback device: always the first one.
const LOOPBACK: u32 = 1;

impl Tunnelled {
    /// Where a packet of a queue goes, if Byway is to have it.
    fn choose(&self, queued: &mut Queued<'_>, exposed: &[Exposed]) -> Option<(Headers, Ecn, Towards)> {
        let place = self.settings.captures.iter().position(|capture| capture.queue == Some(queued.queue))?;
        // Byway's own packets, and what it has brought, would go round and round.
        let is_own = queued.mark == self.settings.table || queued.came_by == Some(self.device_index);
        let is_open = self.doors.borrow().captures.get(place) == Some(&true);
        let stays = queued.leaves_by == Some(LOOPBACK);
        if is_own || stays || !is_open || queued.packet.len() > DATAGRAM_BYTES_MAX {
            return None;
        }
        let (headers, ecn) = self.read(queued.packet)?;
        let is_spoken = headers.destination.is_ipv4() || self.speaks_ipv6;
        if !is_spoken || is_near(headers.destination) {
            return None;
        }
        let is_behind = |address| self.doors.borrow().exposed.iter().any(|(_, behind)| *behind == address);
        let towards =
            self.towards_whom_it_answers(&headers, exposed).filter(|_| is_behind(headers.destination));
        Some((headers, ecn, towards.unwrap_or_else(|| self.towards_capture(place, &headers))))
    }
}

impl AgentRole {
    /// A packet that a rule has put into a queue: taken if its capture's peer is there and has consented, so that it is sent at once.
    pub(in crate::agent) fn take_queued(&mut self, mut queued: Queued<'_>, io: &mut Io) -> Verdict {
        let Some(tunnel) = &mut self.tunnel else {
            return Verdict::Accepted;
        };
        let Some((headers, ecn, towards)) = tunnel.choose(&mut queued, &self.exposed) else {
            return Verdict::Accepted;
        };
        tunnel.look_soon(io.now());
        let Towards::Mapping(id) = towards else {
            // Another begins soon, and meanwhile nothing waits for it.
            return Verdict::Accepted;
        };
        let consents = self.mappings.get(id).is_some_and(|mapping| matches!(mapping.consent, Consent::Given));
        if !consents {
            return Verdict::Accepted;
        }
        self.pass_on(id, &headers, ecn, queued.packet, io);
        Verdict::Taken
    }
}

/// What means something on this machine or one link of it alone: no peer has it.
fn is_near(destination: IpAddr) -> bool {
    let is_broadcast = matches!(destination, IpAddr::V4(address) if address.is_broadcast());
    is_broadcast || is_of_a_link(destination) || destination.is_loopback() || destination.is_unspecified()
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
            assert_eq!(is_near(destination.parse().expect("an address")), expected, "{destination}");
        }
    }
}
