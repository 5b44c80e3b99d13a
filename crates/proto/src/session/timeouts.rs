//! What sessions do when time passes.

use byway_units::{Bytes, Time};
use byway_wire::messages::{PathChallenge, ProbeReply};
use byway_wire::{Message, Timestamp};

use super::{Before, Epoch, Session, SessionId, Sessions};
use crate::limits::CHALLENGE_BYTES;

/// Something that happened to a session, for the role to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Packets can be sent. `fresh`: nothing is left of an earlier session; the peer, or this node, restarted.
    Established { session: SessionId, fresh: bool },
    /// The peer does not answer, or no more.
    Dead { session: SessionId },
    /// The peer answers again.
    Alive { session: SessionId },
    /// The peer is at another address.
    Moved { session: SessionId },
    /// The peer is reached without a relay, or not any more, as far as is known.
    DirectPath { session: SessionId },
    /// Long packets sent since then do not reach the peer, while short ones do.
    PathNarrowed { session: SessionId, since: Time },
    /// The peer says that it leaves.
    Closed { session: SessionId },
    /// Nothing of the session is left, and this side does not keep it up.
    Ended { session: SessionId },
    /// The peer answered a probe.
    Probed { session: SessionId, reply: ProbeReply, before: Before },
    /// The probe at this place of the latest train arrived then, by the clock of the peer.
    Weighed { session: SessionId, place: usize, received: Timestamp },
}

impl Sessions {
    /// Does what is due.
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
        if rekey && session.attempt.is_none() && session.wants_epoch() {
            self.connect(id, &[], now);
        }
        if probe {
            self.probe(id, now);
        }
        self.challenge(id, now);
        self.check_lengths(id, now);
    }

    fn retry_handshake(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let due = session.attempt.as_ref().filter(|attempt| attempt.deadline() <= now);
        let Some((index, exhausted)) = due.map(|attempt| (attempt.index, attempt.is_exhausted())) else {
            return;
        };
        if !exhausted {
            self.send_attempt(id, now);
            return;
        }
        session.attempt = None;
        self.by_index.remove(index);
        if !self.is_established(id, now) {
            self.take_for_dead(id);
        }
        if self.get(id).is_some_and(|session| session.is_wanted(now)) {
            self.connect(id, &[], now);
        }
    }

    /// Lets the role know that the peer does not answer, if it does not know.
    fn take_for_dead(&mut self, id: SessionId) {
        let newly = self.get_mut(id).is_some_and(|session| !core::mem::replace(&mut session.dead, true));
        if newly {
            self.changes.push_back(Change::Dead { session: id });
        }
    }

    /// Wipes keys whose time is over.
    fn expire_epochs(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let by_index = &mut self.by_index;
        session.epochs.retain(|epoch: &mut Epoch| {
            let keep = epoch.may_open(now);
            if !keep {
                by_index.remove(epoch.ours);
            }
            keep
        });
        session.forget_if_over();
        // The initiator may use its new keys long after a first packet that was lost.
        let unconfirmed = session.answered.take_if(|answered| !answered.epoch.may_open(now));
        if let Some(answered) = unconfirmed {
            by_index.remove(answered.epoch.ours);
        }
        if session.is_over() {
            self.changes.push_back(Change::Ended { session: id });
        }
    }

    /// Probes the peer, or takes it for dead.
    fn probe(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if session.probes.is_dead() {
            self.take_for_dead(id);
            // The peer may have restarted and know nothing of the session.
            self.connect(id, &[], now);
        }
        self.send_probe(id, Bytes::ZERO, now);
    }

    /// Asks an address that wants to be the peer's to prove itself.
    fn challenge(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let interval = session.probes.answer_within();
        if let Some((path, token)) = session.path.challenge(CHALLENGE_BYTES, interval, now) {
            self.send_to(id, path, &Message::PathChallenge(PathChallenge { token }), now);
        }
    }
}

impl Session {
    /// Whether somebody waits for the session.
    fn is_wanted(&self, now: Time) -> bool {
        self.remote.keep || self.is_in_use(now)
    }
}
