//! What relays and other agents say.

use alloc::vec::Vec;

use byway_units::Time;
use byway_wire::messages::{ADDRESSES_BYTES_MAX, Addresses, Candidates, ProbeReply, Relayed, Report};
use byway_wire::{Ecn, Message, Messages, SequenceNumber};

use super::send_flow::SendFlowId;
use super::{Agent, Flow, Role};
use crate::parts::breaker::Originals;
use crate::session::{Before, Detour, Origin, SessionId};

impl Agent {
    /// Takes the messages of one packet, as many as a datagram has work for. What concerns the session itself is taken
    /// all the same: it costs no more than its bytes.
    pub(super) fn messages(&mut self, session: SessionId, plaintext: &[u8], origin: Origin, now: Time) {
        let outer = self.messages_end;
        // What a relay passes on is part of the datagram that it comes in.
        let end = self.messages_end();
        self.messages_end = Some(end);
        for message in Messages::new(plaintext) {
            self.work.messages += 1;
            if let Ok(Message::Probe(_)) = message {
                self.keep_ways_open(session, now);
            }
            match message {
                Ok(message) if self.sessions.handle_message(session, &message, origin, now) => {}
                Ok(_) if !self.may_work_on(end) => self.counters.work_refused += 1,
                Ok(message) => match self.roles.get(&session).copied() {
                    Some(Role::Relay(_)) => self.relay_says(session, &message, now),
                    Some(Role::Peer(_)) => self.peer_says(session, &message, origin, now),
                    None => {}
                },
                Err(_) => self.counters.messages_unknown += 1,
            }
        }
        self.messages_end = outer;
        if let Some(place) = self.bound_at.take() {
            self.weigh(place, now);
        }
    }

    /// A peer that probes sends something: the relays through which it may come should know this agent. One that
    /// restarted does not, and nothing comes that would show it.
    fn keep_ways_open(&mut self, peer: SessionId, now: Time) {
        let ways = self.ways_in.get(&peer).map(Vec::as_slice).unwrap_or_default();
        self.work.entries += ways.len() as u64;
        for (place, _) in ways {
            if let Some(relay) = self.relay_places.get(place) {
                self.sessions.use_session(self.relays[*relay].session, now);
            }
        }
    }

    fn relay_says(&mut self, session: SessionId, message: &Message<'_>, now: Time) {
        match message {
            Message::Registered(registered) => self.registered(session, registered, now),
            Message::InStreamRepair(repair) => self.in_stream_repair(session, repair, now),
            Message::CooperativeRequest(request) => self.cooperate(session, request, now),
            Message::Confirm(confirm) => self.confirm(session, confirm, now),
            Message::CopyNack(nack) => self.resend_copies(session, nack, now),
            Message::Unregistered(unregistered) => self.unregistered(session, unregistered, now),
            Message::Relayed(relayed) => self.relayed(session, relayed, now),
            Message::Unknown(_) => self.counters.messages_unknown += 1,
            _ => self.counters.out_of_role += 1,
        }
    }

    fn peer_says(&mut self, session: SessionId, message: &Message<'_>, origin: Origin, now: Time) {
        match message {
            Message::Report(report) => self.report_came(session, report, now),
            Message::Silence(silence) => self.silence_came(session, silence, now),
            Message::Unregister(unregister) => self.ended_by_peer(session, unregister, now),
            Message::Unregistered(unregistered) => self.unregistered(session, unregistered, now),
            Message::Candidates(candidates) => self.candidates(session, candidates, now),
            Message::Offer(offer) => self.offered(session, offer, origin, now),
            Message::Offered(answer) => self.offer_answered(session, *answer),
            Message::EarlyPacket(packet) => self.early_packet(session, packet, origin, now),
            Message::Unknown(_) => self.counters.messages_unknown += 1,
            _ => self.counters.out_of_role += 1,
        }
    }

    /// A packet of another agent, through a relay.
    fn relayed(&mut self, relay: SessionId, relayed: &Relayed<'_>, now: Time) {
        if !self.peers.contains_key(&relayed.agent()) {
            self.counters.out_of_role += 1;
            return;
        }
        self.work.entries += 1;
        let mut packet = Vec::from(relayed.packet());
        let origin = Origin::Detour(Detour { relay, agent: relayed.agent() });
        self.receive_from(&mut packet, origin, Ecn::NotCapable, now);
    }

    /// A relay answered a probe: it tells where this agent is seen, and whether copies get through.
    pub(super) fn probed(&mut self, session: SessionId, reply: &ProbeReply, before: Before, now: Time) {
        let load = self.load.measured().with_extras;
        let Some(relay) = self.relay_of(session) else {
            return;
        };
        let was_shut = relay.shut_until(now);
        relay.probed(reply, before, load, now);
        let is_doubtful = relay.scale.is_doubtful();
        if relay.shut_until(now) != was_shut {
            self.choose_paths(now);
        }
        if is_doubtful {
            self.weigh_line_of(session, now);
        }
        let seen = reply.address.into();
        if !self.seen_at.contains(&seen) {
            if self.seen_at.len() == crate::limits::CANDIDATES_MAX {
                // Where it was seen long ago, an agent that moves is least likely to be.
                self.seen_at.remove(0);
            }
            self.seen_at.push(seen);
            // From elsewhere, all paths may be others.
            self.sessions.doubt_path_mtus(now);
            self.name_candidates_to_all(now);
        }
    }

    /// Tells a peer where this agent may be reached.
    pub(super) fn name_candidates(&mut self, session: SessionId, now: Time) {
        if self.seen_at.is_empty() {
            return;
        }
        let mut scratch = [0; ADDRESSES_BYTES_MAX];
        let mut addresses = self.seen_at.iter().map(|address| (*address).into());
        let addresses = Addresses::collect(&mut addresses, &mut scratch);
        self.sessions.say(session, &Message::Candidates(Candidates { addresses }), now);
    }

    /// As long as a peer is reached through a relay, both sides name their addresses with every report: the direct
    /// path may open at any time.
    pub(super) fn look_for_direct_path(&mut self, session: SessionId, now: Time) {
        if !self.sessions.is_direct(session) {
            self.sessions.try_known_addresses(session, now);
            self.name_candidates(session, now);
        }
    }

    fn name_candidates_to_all(&mut self, now: Time) {
        let peers: Vec<SessionId> = self.peers.values().copied().collect();
        self.work.entries += peers.len() as u64;
        for session in peers {
            if self.sessions.is_established(session, now) {
                self.name_candidates(session, now);
            }
        }
    }

    /// A peer says where it may be reached: both sides try at once.
    fn candidates(&mut self, session: SessionId, candidates: &Candidates<'_>, now: Time) {
        if self.sessions.is_direct(session) {
            return;
        }
        for address in candidates.addresses.iter() {
            self.work.entries += 1;
            self.sessions.try_address(session, address.into(), now);
        }
    }

    /// Tells the breaker of a flow's relay what became of the originals between two reports.
    fn compare_with_originals(&mut self, id: SendFlowId, before: &Report, report: &Report, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let path = flow.settings.paths.get(flow.registrations.in_use());
        let place = path.and_then(|path| self.relay_places.get(&path.ingress).copied());
        let Some(place) = place.filter(|_| !flow.needs_relay() && !flow.is_dark(now)) else {
            return;
        };
        let last = SequenceNumber::nearest(before.highest_low, flow.next);
        let last_sent = flow.sent.get(last.number()).and_then(|sent| self.sent.came(sent.packet));
        let sent = report.highest_low.wrapping_sub(before.highest_low);
        let received = report.direct.wrapping_sub(before.direct);
        if let Some(from) = last_sent
            && sent.cast_signed() > 0
        {
            let bursts = report.bursts.wrapping_sub(before.bursts);
            let originals = Originals { sent: sent.into(), received: received.into(), bursts };
            self.relays[place].note_originals(from, originals, now);
        }
    }

    /// A receiver says what became of a flow.
    fn report_came(&mut self, session: SessionId, report: &Report, now: Time) {
        let Some(id) = self.sent_by_key.get(&report.flow_key).copied() else {
            self.counters.flows_unknown += 1;
            return;
        };
        let flow = &mut self.senders[id.0 as usize];
        if flow.peer == session {
            let newest = flow.reports_mut().newest().copied();
            let before = newest.map_or((0, 0), |newest| (newest.direct, newest.lost));
            let was_dark = flow.dark_since.is_some();
            let has_lost = flow.take_report(report, now);
            if was_dark && flow.dark_since.is_none() {
                self.tell_outage_is_over(id, now);
            }
            if let Some(newest) = newest {
                self.compare_with_originals(id, &newest, report, now);
            }
            self.judge_relays(id, report, now);
            if has_lost {
                self.doubt_narrow_line(id, now);
            }
            // Where most packets are lost, they may be too long by now.
            if report.lost.wrapping_sub(before.1) > report.direct.wrapping_sub(before.0) {
                self.sessions.doubt_path_mtu(session, now);
            }
            self.look_for_direct_path(session, now);
            self.watch_standby_relays(id, now);
        }
    }

    /// Has the relays of all paths of a flow answer probes, if it has no way but through one: if
    /// several die together, the flow is not to try one after the other.
    fn watch_standby_relays(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let is_watched = flow.needs_relay() || flow.is_undelivered();
        let paths = if is_watched { flow.registrations.count() } else { 0 };
        self.work.entries += paths as u64;
        for path in 0..paths {
            if let Some(relay) = self.session_of_path(Flow::Sent(id), path) {
                self.sessions.use_session(relay, now);
            }
        }
    }
}
