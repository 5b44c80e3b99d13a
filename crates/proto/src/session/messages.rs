//! Messages that sessions handle themselves: probes, challenges and closing.

use byway_units::Time;
use byway_wire::messages::{PathChallenge, PathResponse, Probe, ProbeReply};
use byway_wire::seal::Purpose;
use byway_wire::{Message, Microseconds, Timestamp};

use super::{Route, SessionEvent, SessionId, Sessions};
use crate::limits::{FAST_PROBE_INTERVAL, PROBE_INTERVAL, ROUND_TRIP_MAX};
use crate::parts::token_bucket::Packets;

impl Sessions {
    /// Handles a message that concerns the session itself: a probe, a challenge, their answers, or
    /// a close. Returns false for others, which the role has to handle.
    pub(crate) fn handle_message(
        &mut self,
        id: SessionId,
        message: &Message<'_>,
        origin: Route,
        now: Time,
    ) -> bool {
        match message {
            Message::Probe(probe) => self.answer_probe(id, probe, origin, now),
            Message::ProbeReply(reply) => self.on_probe_reply(id, reply, now),
            Message::PathChallenge(challenge) => self.answer_challenge(id, *challenge, origin, now),
            Message::PathResponse(response) => self.on_path_response(id, response.token, origin, now),
            Message::Close(_) => self.on_close(id, now),
            _ => return false,
        }
        true
    }

    /// Answers a peer's challenge to the address from which it arrived. The answer validates that
    /// address for the peer. A challenge through a relay has no answer, because it validates no
    /// address. Nor has one at an uplink that the session neither uses nor tries: this node chooses
    /// its uplink, and the peer's packets stay at the one that works.
    fn answer_challenge(&mut self, id: SessionId, challenge: PathChallenge, origin: Route, now: Time) {
        let Route::Direct(from) = origin else {
            return;
        };
        if !self.may_reply(id, now) {
            return;
        }
        let response = Message::PathResponse(PathResponse { token: challenge.token });
        match self.get_mut(id) {
            Some(session) if session.path.network_path().is_some_and(|path| path.is_same_route(&from)) => {
                session.path.set_local(from.local);
                self.queue_message(id, &response, now);
            }
            Some(session)
                if session.path.address() == Some(&from.remote) && !session.path.is_challenged(&from) => {}
            _ => self.send_to(id, from, &response, now),
        }
    }

    /// True if the session may answer one more probe or challenge of the peer, and charges for it.
    /// A reply is as long as the probe, and takes capacity from other peers' packets if the uplink
    /// is narrower than the downlink.
    fn may_reply(&mut self, id: SessionId, now: Time) -> bool {
        let may = self.get_mut(id).is_none_or(|session| session.replies.try_consume(Packets::new(1), now));
        self.counters.probes_ignored += u64::from(!may);
        may
    }

    /// Answers a peer's probe, and stores the round-trip time that the peer measured.
    fn answer_probe(&mut self, id: SessionId, probe: &Probe, origin: Route, now: Time) {
        if !self.may_reply(id, now) {
            return;
        }
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if probe.round_trip.count() > 0 {
            session.reported_round_trip = Some(probe.round_trip.duration().min(ROUND_TRIP_MAX));
        }
        let envelopes = session.epochs.first().map_or(0, |epoch| epoch.envelopes_received);
        let long_packets = session.long_arrived;
        let reply = ProbeReply {
            number: probe.number,
            sent: probe.sent,
            received: Timestamp::at(now),
            envelopes,
            address: origin.source_address(),
            long_packets,
            transit_packets: session.transit.received,
        };
        self.queue_message(id, &Message::ProbeReply(reply), now);
    }

    fn on_probe_reply(&mut self, id: SessionId, reply: &ProbeReply, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if let Some(index) = session.probes.train_index(reply.number) {
            self.events.push_back(SessionEvent::ProbeTrainReceived {
                session: id,
                place: index,
                received: reply.received,
            });
            return;
        }
        if session.path.accept_observation(reply.number) {
            self.events.push_back(SessionEvent::AddressObserved { address: reply.address.into() });
            return;
        }
        if let Some(path_mtu) = &mut session.path_mtu {
            if path_mtu.on_reply(reply.number, reply.long_packets, now) {
                return;
            }
            if path_mtu.is_check(reply.number) {
                if let Some(since) = path_mtu.on_check_reply(reply.number, reply.long_packets, now) {
                    self.events.push_back(SessionEvent::PathNarrowed { session: id, since });
                }
                self.arm(id);
                return;
            }
        }
        let Some(answered) = session.probes.on_reply(reply.number, now) else {
            if session.remote.purpose == Purpose::RelayToRelay {
                self.events.push_back(SessionEvent::OtherProbeAnswered { session: id, reply: *reply });
            }
            return;
        };
        if let Some(path_mtu) = &mut session.path_mtu {
            path_mtu.on_later_reply(now.saturating_sub(answered.round_trip), now);
        }
        // The next probe was planned for the case that this one has no answer.
        session.plan_probe(now);
        let waited = answered.round_trip.min(PROBE_INTERVAL.saturating_sub(FAST_PROBE_INTERVAL));
        session.next_probe = session.next_probe.map(|at| at.saturating_sub(waited));
        if core::mem::take(&mut session.is_dead) {
            self.events.push_back(SessionEvent::Alive { session: id });
        }
        self.events.push_back(SessionEvent::ProbeReplyReceived {
            session: id,
            reply: *reply,
            before: answered.before,
        });
        self.arm(id);
    }

    fn on_path_response(&mut self, id: SessionId, token: [u8; 8], origin: Route, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let uplink = match origin {
            Route::Direct(from) => from.local.uplink(),
            // A relay may be faster than the direct path of the answer.
            Route::ViaRelay(_) | Route::Transit => session.path.uplink(),
        };
        let before = session.path.uplink();
        if let Some(address) = session.path.on_response(token, uplink, now) {
            self.known_addresses.add(address);
            self.note_uplink(id, before, now);
            let Some(session) = self.get_mut(id) else {
                return;
            };
            session.is_doubtful = false;
            session.plan_probe(now);
            self.note_direct_path(id);
            self.counters.moves += 1;
            self.events.push_back(SessionEvent::Moved { session: id });
            self.arm(id);
        }
    }

    /// Handles the peer's close: removes the session's keys, and notifies the role. The peer stays
    /// in the table.
    fn on_close(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        // Repetitions are ignored, because a datagram can have hundreds of such messages.
        if session.epochs.is_empty() {
            return;
        }
        for epoch in session.epochs.drain(..) {
            self.by_index.remove(epoch.local_index);
        }
        session.forget_if_over();
        session.plan_probe(now);
        session.is_dead = true;
        self.events.push_back(SessionEvent::Closed { session: id });
        self.arm(id);
    }
}

/// Returns a round-trip time as a probe names it; zero stands for an unknown one.
pub(super) fn claimed(round_trip: Option<byway_units::Duration>) -> Microseconds {
    round_trip.map_or(Microseconds::new(0), Microseconds::from_duration)
}
