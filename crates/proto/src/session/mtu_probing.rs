//! Path MTU probing of sessions: sends padded probes and length checks, and notifies the role of
//! narrower paths.

use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::messages::Probe;
use byway_wire::{Message, Packet, Timestamp};

use super::messages::claimed;
use super::{SessionEvent, SessionId, Sessions};
use crate::limits::PAYLOAD_BYTES_BASE;
use crate::outbox::Priority;

impl Sessions {
    /// Plans a probe of the longest known length to a peer at once, because its path may have
    /// changed.
    pub(crate) fn recheck_path_mtu(&mut self, id: SessionId, now: Time) {
        if let Some(path_mtu) = self.get_mut(id).and_then(|session| session.path_mtu.as_mut()) {
            path_mtu.doubt(now);
        }
    }

    /// Plans a probe of the longest known length to each peer at once, because all paths may have
    /// changed.
    pub(crate) fn recheck_path_mtus(&mut self, now: Time) {
        for session in self.slots.iter_mut().flatten() {
            if let Some(path_mtu) = &mut session.path_mtu {
                path_mtu.doubt(now);
            }
        }
    }

    /// Sends the padded probe that is due, if there is one. The caller sends an ordinary probe
    /// before, which measures the round-trip time.
    pub(super) fn probe_mtu(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id).filter(|session| session.is_direct()) else {
            return;
        };
        let (Some(path_mtu), Some(to)) = (&mut session.path_mtu, session.path.address()) else {
            return;
        };
        let Some(payload_bytes) = path_mtu.due(*to, now) else {
            return;
        };
        let number = session.probes.next_number();
        path_mtu.on_sent(number, payload_bytes, now);
        let round_trip = claimed(session.probes.measured());
        let probe = Probe { number, sent: Timestamp::at(now), round_trip };
        self.flush(id, now);
        self.send_padded(id, &probe, payload_bytes, now);
    }

    /// Counts a sent packet with a UDP payload of this length, if it is longer than
    /// [`PAYLOAD_BYTES_BASE`]. Length checks verify the arrival of such packets.
    #[inline]
    pub(crate) fn on_sent(&mut self, id: SessionId, payload_bytes: usize, now: Time) {
        if payload_bytes > PAYLOAD_BYTES_BASE {
            self.on_long_sent(id, now);
        }
    }

    fn on_long_sent(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id).filter(|session| session.is_direct()) else {
            return;
        };
        if let (Some(path_mtu), Some(to)) = (&mut session.path_mtu, session.path.address())
            && path_mtu.on_long_sent(*to, now)
        {
            self.arm(id);
        }
    }

    /// True if `quoted`, the beginning of a packet in an ICMP error, has the index of a session
    /// with this peer. Then the error concerns a packet that this side sent to the address.
    pub(crate) fn has_sent(&self, id: SessionId, to: SocketAddr, quoted: &[u8]) -> bool {
        let Some(session) = self.get(id).filter(|session| session.path.address() == Some(&to)) else {
            return false;
        };
        let index = Packet::receiver_in(quoted);
        index.is_some_and(|index| session.epochs.iter().any(|epoch| epoch.remote_index() == index))
    }

    /// Handles the report of a router or the interface that longer UDP payloads than this do not
    /// reach the peer. If that is less than the known length, notifies the role.
    pub(crate) fn on_path_narrowed(&mut self, id: SessionId, payload_bytes: usize, now: Time) {
        let path_mtu = self.get_mut(id).and_then(|session| session.path_mtu.as_mut());
        if let Some(since) = path_mtu.and_then(|path_mtu| path_mtu.narrow(Some(payload_bytes), now)) {
            self.events.push_back(SessionEvent::PathNarrowed { session: id, since });
        }
    }

    /// Sends the length check that is due. If too few long packets were sent to prove a loss,
    /// padded probes precede it.
    pub(super) fn check_lengths(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let is_direct = session.is_direct();
        let round_trip = claimed(session.probes.measured());
        let Some(path_mtu) = &mut session.path_mtu else {
            return;
        };
        let Some((padded, payload_bytes)) = path_mtu.check_due(now) else {
            return;
        };
        if !is_direct {
            path_mtu.cancel_checks();
            return;
        }
        let number = session.probes.next_numbers(padded + 1);
        let probe =
            |nth: u32| Probe { number: number.wrapping_add(nth), sent: Timestamp::at(now), round_trip };
        for nth in 0..padded {
            self.on_long_sent(id, now);
            self.send_padded(id, &probe(nth), payload_bytes, now);
        }
        if let Some(path_mtu) = self.get_mut(id).and_then(|session| session.path_mtu.as_mut()) {
            path_mtu.on_check(number.wrapping_add(padded), now);
        }
        // Sent with the priority of the padded probes, because it has to follow them.
        self.send_alone(id, &Message::Probe(probe(padded)), Priority::Scavenger, now);
    }
}
