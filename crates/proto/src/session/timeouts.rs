//! Timers of sessions, and their events.

use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{Bytes, Time};
use byway_wire::messages::{PathChallenge, Probe, ProbeReply};
use byway_wire::seal::Purpose;
use byway_wire::{Message, Microseconds, Timestamp, Writer};

use super::{Epoch, ProbeContext, Session, SessionId, Sessions};
use crate::limits::{CHALLENGE_BYTES, MESSAGES_BYTES_MAX, RETURN_INTERVAL};
use crate::network_path::{NetworkPath, Uplink};

/// Event of a session, which the agent or relay handles after each input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionEvent {
    /// A handshake with the peer is complete, and packets can be sent. If `fresh`, the peer or this
    /// node has lost the state of any earlier session.
    Established { session: SessionId, fresh: bool },
    /// The peer does not answer probes or initiations any more; its session stays in the table.
    Dead { session: SessionId },
    /// A peer that counted as dead has answered.
    Alive { session: SessionId },
    /// The peer answered a challenge at another address, and the session now sends there.
    Moved { session: SessionId },
    /// The session's packets now leave by the node's other uplink.
    UplinkChanged { session: SessionId },
    /// A relay sees this node at this address by the uplink that the session does not use.
    AddressObserved { address: SocketAddr },
    /// The peer has become reachable without a relay, or is so no more, as far as is known.
    DirectPath { session: SessionId },
    /// Long packets sent since this time may be lost: only short ones reach the peer.
    PathNarrowed { session: SessionId, since: Time },
    /// The peer sent a close message. The session has no keys any more, and counts as dead until
    /// another handshake.
    Closed { session: SessionId },
    /// The session has no keys and no handshake left, and this side does not maintain it: the role
    /// may remove it.
    Ended { session: SessionId },
    /// The peer answered a probe that this side sent after the traffic in `before`.
    ProbeReplyReceived { session: SessionId, reply: ProbeReply, before: ProbeContext },
    /// The peer relay answered a probe that does not measure the session: one that went through a
    /// third relay, or an outdated one.
    OtherProbeAnswered { session: SessionId, reply: ProbeReply },
    /// The peer received the probe at index `place` of the latest train, at this time of the peer's
    /// clock.
    ProbeTrainReceived { session: SessionId, place: usize, received: Timestamp },
}

impl Sessions {
    /// Handles all deadlines of sessions that have passed, and registers the next ones.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some((at, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            if let Some(session) = self.get_mut(id) {
                session.armed = None;
                self.session_timeout(id, now);
            }
            self.arm(id);
        }
    }

    fn session_timeout(&mut self, id: SessionId, now: Time) {
        self.expire_epochs(id, now);
        self.retry_handshake(id, now);
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let rekey = session.rekey_at().is_some_and(|at| at <= now);
        let probe = session.next_probe.is_some_and(|at| at <= now);
        if rekey && session.pending_handshake.is_none() && session.wants_epoch() {
            self.connect(id, &[], now);
        }
        if probe {
            self.probe(id, now);
        }
        self.try_return(id, now);
        self.challenge(id, now);
        self.check_lengths(id, now);
    }

    fn retry_handshake(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let due = session.pending_handshake.as_ref().filter(|pending| pending.deadline() <= now);
        let Some((index, exhausted)) = due.map(|pending| (pending.index, pending.is_exhausted())) else {
            return;
        };
        if !exhausted {
            self.send_initiation(id, now);
            return;
        }
        session.pending_handshake = None;
        self.by_index.remove(index);
        if !self.is_established(id, now) {
            self.mark_dead(id);
        }
        if self.get(id).is_some_and(|session| session.is_wanted(now)) {
            self.connect(id, &[], now);
        }
    }

    /// Marks the peer as dead, and notifies the role unless it was before.
    fn mark_dead(&mut self, id: SessionId) {
        let newly = self.get_mut(id).is_some_and(|session| !core::mem::replace(&mut session.is_dead, true));
        if newly {
            self.events.push_back(SessionEvent::Dead { session: id });
        }
    }

    /// Removes epochs that are too old to open packets, with their keys. If nothing is left of the
    /// session, notifies the role.
    fn expire_epochs(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let by_index = &mut self.by_index;
        session.epochs.retain(|epoch: &mut Epoch| {
            let keep = epoch.may_open(now);
            if !keep {
                by_index.remove(epoch.local_index);
            }
            keep
        });
        session.forget_if_over();
        // The initiator may use its new keys long after a first packet that was lost.
        let unconfirmed = session.answered_initiation.take_if(|answered| !answered.epoch.may_open(now));
        if let Some(answered) = unconfirmed {
            by_index.remove(answered.epoch.local_index);
        }
        if session.is_over() {
            self.events.push_back(SessionEvent::Ended { session: id });
        }
    }

    /// Sends a probe that is due. If too many are unanswered, marks the peer as dead and begins a
    /// handshake.
    fn probe(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let (before, is_uplink_silent) = (session.path.uplink(), session.path.is_uplink_silent());
        if is_uplink_silent {
            session.path.change_uplink(now);
        }
        if session.probes.is_dead() {
            self.mark_dead(id);
            // The peer may have restarted and lost the session.
            self.connect(id, &[], now);
        }
        self.note_uplink(id, before, now);
        self.send_probe(id, Bytes::ZERO, now);
    }

    /// Handles the system's refusal to send to an address by an uplink: sessions with that path use
    /// the node's other uplink. The driver has sent the refused datagram by that one.
    pub(crate) fn on_uplink_refused(&mut self, uplink: Uplink, to: SocketAddr, now: Time) {
        let refused = NetworkPath::by(uplink, to);
        let ids: Vec<SessionId> = self.ids().collect();
        for id in ids {
            let Some(session) = self.get_mut(id) else {
                continue;
            };
            if session.path.network_path().is_some_and(|path| path.is_same_route(&refused))
                && session.path.may_change_uplink(now)
            {
                session.path.change_uplink(now);
                self.note_uplink(id, uplink, now);
                // The probe shows the peer this node's other address.
                self.send_probe(id, Bytes::ZERO, now);
            }
        }
    }

    /// Notifies the role if a session uses another uplink than `before`. Its path may be longer,
    /// and carry shorter packets.
    pub(super) fn note_uplink(&mut self, id: SessionId, before: Uplink, now: Time) {
        let Some(session) = self.get_mut(id).filter(|session| session.path.uplink() != before) else {
            return;
        };
        if let Some(path_mtu) = &mut session.path_mtu {
            path_mtu.doubt(now);
        }
        self.events.push_back(SessionEvent::UplinkChanged { session: id });
    }

    /// Sends a relay a probe by the uplink that the session does not use, at intervals. The reply
    /// shows this node's address at that uplink, behind a NAT, and the probe keeps the NAT's
    /// mapping.
    pub(super) fn observe_address(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        // The first packets of a session show the relay the address that is in use.
        if session.remote.purpose != Purpose::AgentToRelay || session.probes.measured().is_none() {
            return;
        }
        let Some(path) = session.path.pop_observation(now) else {
            return;
        };
        let number = session.probes.next_number();
        session.path.on_observation_sent(number);
        let probe = Probe { number, sent: Timestamp::at(now), round_trip: Microseconds::new(0) };
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        Message::Probe(probe).emit(&mut writer).expect("a probe is shorter than a packet");
        self.send_messages_to(id, path, writer.as_bytes(), now);
    }

    /// Challenges the peer by the uplink that the session does not use, if it is time to try that.
    fn try_return(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if session.path.return_at().is_some_and(|at| at <= now) {
            let token = self.random.bytes();
            session.path.try_return(CHALLENGE_BYTES, RETURN_INTERVAL, now, token);
        }
    }

    /// Sends the challenge that is due to a candidate address, if there is one.
    fn challenge(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let interval = session.probes.reply_timeout();
        if let Some((path, token)) = session.path.challenge(CHALLENGE_BYTES, interval, now) {
            self.send_to(id, path, &Message::PathChallenge(PathChallenge { token }), now);
        }
    }
}

impl Session {
    /// True if this side maintains the session, or the application uses it or may use it soon.
    fn is_wanted(&self, now: Time) -> bool {
        self.remote.is_persistent || self.is_in_use(now) || self.is_watched(now)
    }
}
