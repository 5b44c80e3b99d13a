//! The messages that sessions keep to themselves: probes, challenges, and the end.

use byway_units::Time;
use byway_wire::messages::{PathChallenge, PathResponse, Probe, ProbeReply};
use byway_wire::{Message, Microseconds, Timestamp};

use super::{Change, Origin, SessionId, Sessions};
use crate::limits::{FAST_PROBE_INTERVAL, PROBE_INTERVAL, ROUND_TRIP_MAX};
use crate::parts::token_bucket::Packets;

impl Sessions {
    /// Takes a message, if it is one about the session itself.
    pub(crate) fn handle_message(
        &mut self,
        id: SessionId,
        message: &Message<'_>,
        origin: Origin,
        now: Time,
    ) -> bool {
        match message {
            Message::Probe(probe) => self.answer_probe(id, probe, origin, now),
            Message::ProbeReply(reply) => self.probe_reply(id, reply, now),
            Message::PathChallenge(challenge) => self.answer_challenge(id, *challenge, origin, now),
            Message::PathResponse(response) => self.path_response(id, response.token, now),
            Message::Close(_) => self.closed(id, now),
            _ => return false,
        }
        true
    }

    /// Answers a challenge to where it came from, wherever the peer was before. One that came through a relay asks
    /// about no address.
    fn answer_challenge(&mut self, id: SessionId, challenge: PathChallenge, origin: Origin, now: Time) {
        let Origin::Address(from) = origin else {
            return;
        };
        if !self.may_reply(id, now) {
            return;
        }
        let response = Message::PathResponse(PathResponse { token: challenge.token });
        match self.get_mut(id) {
            Some(session) if session.path.address() == Some(&from.remote) => {
                session.path.set_local(from.local);
                self.say(id, &response, now);
            }
            _ => self.send_to(id, from, &response, now),
        }
    }

    /// Returns whether one more probe or challenge of a peer is answered. A reply costs as much as the probe, and takes the
    /// room of other peers' packets where the uplink is narrower than the downlink.
    fn may_reply(&mut self, id: SessionId, now: Time) -> bool {
        let may = self.get_mut(id).is_none_or(|session| session.replies.take(Packets::new(1), now));
        self.counters.probes_ignored += u64::from(!may);
        may
    }

    /// Answers a probe, and takes note of what it says.
    fn answer_probe(&mut self, id: SessionId, probe: &Probe, origin: Origin, now: Time) {
        if !self.may_reply(id, now) {
            return;
        }
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if probe.round_trip.count() > 0 {
            session.reported_round_trip = Some(probe.round_trip.duration().min(ROUND_TRIP_MAX));
        }
        let envelopes = session.epochs.first().map_or(0, |epoch| epoch.envelopes);
        let long_packets = session.long_arrived;
        let reply = ProbeReply {
            number: probe.number,
            sent: probe.sent,
            received: Timestamp::at(now),
            envelopes,
            address: origin.source_address(),
            long_packets,
        };
        self.say(id, &Message::ProbeReply(reply), now);
    }

    fn probe_reply(&mut self, id: SessionId, reply: &ProbeReply, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if let Some(place) = session.probes.place_in_train(reply.number) {
            self.changes.push_back(Change::Weighed { session: id, place, received: reply.received });
            return;
        }
        if let Some(path_mtu) = &mut session.path_mtu {
            if path_mtu.answered(reply.number, reply.long_packets, now) {
                return;
            }
            if path_mtu.is_check(reply.number) {
                if let Some(since) = path_mtu.on_check_reply(reply.number, reply.long_packets, now) {
                    self.changes.push_back(Change::PathNarrowed { session: id, since });
                }
                self.arm(id);
                return;
            }
        }
        let Some(answered) = session.probes.answered(reply.number, now) else {
            return;
        };
        if let Some(path_mtu) = &mut session.path_mtu {
            path_mtu.passed_by(now.saturating_sub(answered.round_trip), now);
        }
        // The next probe was planned for the case that this one stays unanswered.
        session.plan_probe(now);
        let waited = answered.round_trip.min(PROBE_INTERVAL.saturating_sub(FAST_PROBE_INTERVAL));
        session.next_probe = session.next_probe.map(|at| at.saturating_sub(waited));
        if core::mem::take(&mut session.dead) {
            self.changes.push_back(Change::Alive { session: id });
        }
        self.changes.push_back(Change::Probed { session: id, reply: *reply, before: answered.before });
        self.arm(id);
    }

    fn path_response(&mut self, id: SessionId, token: [u8; 8], now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if let Some(address) = session.path.answered(token, now) {
            self.known_addresses.add(address);
            session.is_doubtful = false;
            session.plan_probe(now);
            self.note_direct_path(id);
            self.counters.moves += 1;
            self.changes.push_back(Change::Moved { session: id });
            self.arm(id);
        }
    }

    /// The peer leaves: what it sealed is worth nothing any more.
    fn closed(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        // Who has left already says nothing new: a datagram has room for hundreds of such messages.
        if session.epochs.is_empty() {
            return;
        }
        for epoch in session.epochs.drain(..) {
            self.by_index.remove(epoch.ours);
        }
        session.forget_if_over();
        session.plan_probe(now);
        session.dead = true;
        self.changes.push_back(Change::Closed { session: id });
        self.arm(id);
    }
}

/// The round trip that goes into a probe.
pub(super) fn claimed(round_trip: Option<byway_units::Duration>) -> Microseconds {
    round_trip.map_or(Microseconds::new(0), Microseconds::from_duration)
}
