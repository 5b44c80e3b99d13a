//! How long packets to a peer may be: what is sent to find that out, and who is told.

use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::messages::Probe;
use byway_wire::{Message, Packet, Timestamp};

use super::messages::claimed;
use super::{Change, SessionId, Sessions};
use crate::limits::PAYLOAD_BYTES_BASE;
use crate::outbox::Urgency;

impl Sessions {
    /// Has the longest packets that reached a peer checked at once.
    pub(crate) fn doubt_path_mtu(&mut self, id: SessionId, now: Time) {
        if let Some(path_mtu) = self.get_mut(id).and_then(|session| session.path_mtu.as_mut()) {
            path_mtu.doubt(now);
        }
    }

    /// The same of all peers.
    pub(crate) fn doubt_path_mtus(&mut self, now: Time) {
        for session in self.slots.iter_mut().flatten() {
            if let Some(path_mtu) = &mut session.path_mtu {
                path_mtu.doubt(now);
            }
        }
    }

    /// Sends a padded probe, if one is due: behind the ordinary one, whose round trip counts.
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
        let number = session.probes.take_number();
        path_mtu.sent(number, payload_bytes, now);
        let round_trip = claimed(session.probes.measured());
        let probe = Probe { number, sent: Timestamp::at(now), round_trip };
        self.flush(id, now);
        self.send_padded(id, &probe, payload_bytes, now);
    }

    /// Counts a packet with so much UDP payload that leaves for the peer, if it is longer than every path carries: that it
    /// arrives is checked.
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

    /// Whether the beginning of a packet to an address shows that this side sent it to the peer.
    pub(crate) fn sent_packet(&self, id: SessionId, to: SocketAddr, quoted: &[u8]) -> bool {
        let Some(session) = self.get(id).filter(|session| session.path.address() == Some(&to)) else {
            return false;
        };
        let index = Packet::receiver_in(quoted);
        index.is_some_and(|index| session.epochs.iter().any(|epoch| epoch.theirs() == index))
    }

    /// Notes that the way to a peer carries no longer UDP payloads than this.
    pub(crate) fn narrow_path(&mut self, id: SessionId, payload_bytes: usize, now: Time) {
        let path_mtu = self.get_mut(id).and_then(|session| session.path_mtu.as_mut());
        if let Some(since) = path_mtu.and_then(|path_mtu| path_mtu.narrow(Some(payload_bytes), now)) {
            self.changes.push_back(Change::PathNarrowed { session: id, since });
        }
    }

    /// Sends the check that is due, behind padded probes if too few long packets were sent.
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
        let number = session.probes.take_numbers(padded + 1);
        let probe =
            |nth: u32| Probe { number: number.wrapping_add(nth), sent: Timestamp::at(now), round_trip };
        for nth in 0..padded {
            self.on_long_sent(id, now);
            self.send_padded(id, &probe(nth), payload_bytes, now);
        }
        if let Some(path_mtu) = self.get_mut(id).and_then(|session| session.path_mtu.as_mut()) {
            path_mtu.on_check(number.wrapping_add(padded), now);
        }
        // Behind the padded ones, which let others go first.
        self.send_alone(id, &Message::Probe(probe(padded)), Urgency::Scavenger, now);
    }
}
