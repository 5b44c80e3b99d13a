//! Dispatch of messages from relays and other agents.

use alloc::vec::Vec;
use core::net::SocketAddr;

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::messages::{ADDRESSES_BYTES_MAX, Addresses, Candidates, ProbeReply, RelayedPacket, Report};
use byway_wire::{Ecn, Message, Messages, SequenceNumber};

use super::route_following::follow_route;
use super::send_flow::SendFlowId;
use super::service_selection::select_service;
use super::{Agent, ArrivalRelay, Flow, Role};
use crate::limits::NEAR_RELAYS_MAX;
use crate::parts::circuit_breaker::SourcePacketCounts;
use crate::session::{ProbeContext, Route, SessionId, ViaRelay};

impl Agent {
    /// Handles the messages of one packet from a relay or peer, within the work limit of a
    /// datagram. Messages about the session itself are always handled, because they cost no more
    /// than their bytes.
    pub(super) fn on_messages(&mut self, session: SessionId, plaintext: &[u8], origin: Route, now: Time) {
        let outer = self.messages_end;
        // Messages in a forwarded packet count towards the datagram that contains it.
        let end = self.messages_end();
        self.messages_end = Some(end);
        for message in Messages::new(plaintext) {
            self.work.messages += 1;
            if let Ok(Message::Probe(_)) = message {
                self.keepalive_paths(session, now);
            }
            match message {
                Ok(message) if self.sessions.handle_message(session, &message, origin, now) => {}
                Ok(_) if !self.may_work_on(end) => self.counters.work_refused += 1,
                Ok(message) => match self.roles.get(&session).copied() {
                    Some(Role::Relay(_)) => self.on_relay_message(session, &message, now),
                    Some(Role::Peer(_)) => self.on_peer_message(session, &message, origin, now),
                    None => {}
                },
                Err(_) => self.counters.messages_unknown += 1,
            }
        }
        self.messages_end = outer;
        if let Some(relay) = self.uplink_probing.bound_at.take() {
            self.probe_uplink(relay, now);
        }
    }

    /// Marks the sessions with all relays through which a peer's packets may arrive as in use, or
    /// as watched, because a peer that probes is sending. A relay that restarted does not know this
    /// agent, and only a probe reveals that.
    fn keepalive_paths(&mut self, peer: SessionId, now: Time) {
        let relays = self.arrival_relays.get(&peer).map(Vec::as_slice).unwrap_or_default();
        self.work.entries += relays.len() as u64;
        for ArrivalRelay { relay, paths, watched } in relays {
            let Some(index) = self.relay_indices.get(relay) else {
                continue;
            };
            let session = self.relays[*index].session;
            if paths > watched {
                self.sessions.use_session(session, now);
            } else {
                self.sessions.watch_session(session, now);
            }
        }
    }

    /// Handles a message of a relay; counts those that a relay may not send.
    fn on_relay_message(&mut self, session: SessionId, message: &Message<'_>, now: Time) {
        match message {
            Message::RegisterReply(reply) => self.on_register_reply(session, reply, now),
            Message::InStreamRepair(repair) => self.on_in_stream_repair(session, repair, now),
            Message::CooperativeRequest(request) => self.on_cooperative_request(session, request, now),
            Message::Confirm(confirm) => self.on_confirm(session, confirm, now),
            Message::CopyNack(nack) => self.on_copy_nack(session, nack, now),
            Message::UnregisterReply(reply) => self.on_unregister_reply(session, reply, now),
            Message::RelayedPacket(relayed) => self.on_relayed_packet(session, relayed, now),
            Message::Unknown(_) => self.counters.messages_unknown += 1,
            _ => self.counters.out_of_role += 1,
        }
    }

    /// Handles a message of a peer; counts those that a peer may not send.
    fn on_peer_message(&mut self, session: SessionId, message: &Message<'_>, origin: Route, now: Time) {
        match message {
            Message::Report(report) => self.on_report(session, report, now),
            Message::Silence(silence) => self.on_silence(session, silence, now),
            Message::SourceNack(nack) => self.on_source_nack(session, nack, now),
            Message::SourceAck(ack) => self.on_source_ack(session, ack, now),
            Message::ServiceChange(change) => self.on_service_change(session, change, origin, now),
            Message::ServiceChangeReply(reply) => self.on_service_change_reply(session, reply, now),
            Message::Unregister(unregister) => self.on_peer_unregister(session, unregister, now),
            Message::UnregisterReply(reply) => self.on_unregister_reply(session, reply, now),
            Message::Candidates(candidates) => self.on_candidates(session, candidates, now),
            Message::Offer(offer) => self.on_offer(session, offer, origin, now),
            Message::OfferReply(reply) => self.on_offer_reply(session, *reply),
            Message::EarlyPacket(packet) => self.on_early_packet(session, packet, origin, now),
            Message::Unknown(_) => self.counters.messages_unknown += 1,
            _ => self.counters.out_of_role += 1,
        }
    }

    /// Handles a packet of another agent that a relay forwards: it is received like a datagram, if
    /// the agent is a known peer.
    fn on_relayed_packet(&mut self, relay: SessionId, relayed: &RelayedPacket<'_>, now: Time) {
        if !self.peers.contains_key(&relayed.agent()) {
            self.counters.out_of_role += 1;
            return;
        }
        self.work.entries += 1;
        let mut packet = Vec::from(relayed.packet());
        let origin = Route::ViaRelay(ViaRelay { relay, agent: relayed.agent() });
        self.receive_from(&mut packet, origin, Ecn::NotCapable, now);
    }

    /// Handles a relay's probe reply: updates the relay's loss and queue estimates, and records the
    /// address at which the relay sees this agent. A new address is sent to all peers.
    pub(super) fn on_probe_reply(
        &mut self,
        session: SessionId,
        reply: &ProbeReply,
        before: ProbeContext,
        now: Time,
    ) {
        let load = self.uplink.load.measured().with_extras;
        let Some(relay) = self.relay_of(session) else {
            return;
        };
        let was_shut = relay.shut_until(now);
        relay.on_probe_reply(reply, before, load, now);
        let is_doubtful = relay.capacity_probe.is_doubtful();
        if relay.shut_until(now) != was_shut {
            self.choose_paths(now);
        }
        if is_doubtful {
            self.probe_uplink_of(session, now);
        }
        self.note_reflexive_address(reply.address.into(), now);
    }

    /// Records an address at which a relay sees this agent. A new one is sent to all peers.
    pub(super) fn note_reflexive_address(&mut self, address: SocketAddr, now: Time) {
        if !self.reflexive_addresses.contains(&address) {
            if self.reflexive_addresses.len() == crate::limits::CANDIDATES_MAX {
                // An agent that moves is least likely to be at the oldest address.
                self.reflexive_addresses.remove(0);
            }
            self.reflexive_addresses.push(address);
            // After a change of address, all paths may have changed.
            self.sessions.recheck_path_mtus(now);
            self.send_candidates_to_all(now);
        }
    }

    /// Sends a peer this agent's candidate addresses, as far as relays have shown them.
    pub(super) fn send_candidates(&mut self, session: SessionId, now: Time) {
        if self.reflexive_addresses.is_empty() {
            return;
        }
        let mut scratch = [0; ADDRESSES_BYTES_MAX];
        let mut addresses = self.reflexive_addresses.iter().map(|address| (*address).into());
        let addresses = Addresses::collect(&mut addresses, &mut scratch);
        self.sessions.queue_message(session, &Message::Candidates(Candidates { addresses }), now);
    }

    /// Tries to open a direct path to a peer that is reached only through a relay: probes its known
    /// addresses, and sends it this agent's. Both sides do so with every report.
    pub(super) fn probe_direct_path(&mut self, session: SessionId, now: Time) {
        if !self.sessions.is_direct(session) {
            self.sessions.try_known_addresses(session, now);
            self.send_candidates(session, now);
        }
    }

    fn send_candidates_to_all(&mut self, now: Time) {
        let peers: Vec<SessionId> = self.peers.values().copied().collect();
        self.work.entries += peers.len() as u64;
        for session in peers {
            if self.sessions.is_established(session, now) {
                self.send_candidates(session, now);
            }
        }
    }

    /// Handles a peer's candidate addresses: sends path challenges to them, unless there is a
    /// direct path.
    fn on_candidates(&mut self, session: SessionId, candidates: &Candidates<'_>, now: Time) {
        if self.sessions.is_direct(session) {
            return;
        }
        for address in candidates.addresses.iter() {
            self.work.entries += 1;
            self.sessions.try_address(session, address.into(), now);
        }
    }

    /// Updates the circuit breaker of a flow's ingress relay with the source packets that the
    /// direct path delivered between two reports.
    fn update_circuit_breaker(&mut self, id: SendFlowId, before: &Report, report: &Report, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let path = flow.settings.paths.get(flow.registrations.in_use());
        let relay = path.and_then(|path| self.relay_indices.get(&path.ingress).copied());
        let Some(relay) = relay.filter(|_| !flow.needs_relay() && !flow.is_in_outage(now)) else {
            return;
        };
        let last = SequenceNumber::nearest(before.highest_low, flow.next);
        let last_sent =
            flow.sent.get(last.number()).and_then(|sent| self.retransmit_buffer.stored_at(sent.packet));
        let sent = report.highest_low.wrapping_sub(before.highest_low);
        let received = report.direct.wrapping_sub(before.direct);
        if let Some(from) = last_sent
            && sent.cast_signed() > 0
        {
            let bursts = report.bursts.wrapping_sub(before.bursts);
            let source_packets = SourcePacketCounts { sent: sent.into(), received: received.into(), bursts };
            self.relays[relay].note_source_packets(from, source_packets, now);
        }
    }

    /// Handles a receiver's report about a flow: adjusts copies, and probes paths and the uplink if
    /// packets were lost.
    fn on_report(&mut self, session: SessionId, report: &Report, now: Time) {
        let Some(id) = self.sent_by_key.get(&report.flow_key).copied() else {
            self.counters.flows_unknown += 1;
            return;
        };
        let flow = &mut self.senders[id.0 as usize];
        if flow.peer == session {
            let newest = flow.reports_mut().newest().copied();
            let before = newest.map_or((0, 0), |newest| (newest.direct, newest.lost));
            let was_out = flow.outage_since.is_some();
            let has_lost = flow.on_report(report, now);
            if was_out && flow.outage_since.is_none() {
                self.notify_outage_end(id, now);
            }
            if let Some(newest) = newest {
                self.update_circuit_breaker(id, &newest, report, now);
            }
            self.check_relay_delivery(id, report, now);
            if has_lost {
                self.recheck_narrow_uplink(id, now);
            }
            // If most packets are lost, the path MTU may have decreased.
            if report.lost.wrapping_sub(before.1) > report.direct.wrapping_sub(before.0) {
                self.sessions.recheck_path_mtu(session, now);
            }
            self.probe_direct_path(session, now);
            self.probe_relays_in_reserve(id, now);
            self.probe_uplink_for_outages(id, now);
            if !follow_route(self, id, report, now) {
                select_service(self, id, now);
            }
        }
    }

    /// Probes the relays of all paths of a flow that depends on a relay, or that sends them nothing
    /// until a packet is lost. If several relays fail together, the flow then need not try them one
    /// by one.
    fn probe_relays_in_reserve(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        if flow.needs_relay() || flow.is_undelivered() || flow.is_in_outage(now) {
            self.use_relays(Flow::Sent(id), now);
        } else if flow.copies_on_loss_only() {
            self.watch_relays(Flow::Sent(id), now);
        }
    }

    /// Marks the sessions with the near relays of a flow as in use.
    pub(super) fn use_relays(&mut self, flow: Flow, now: Time) {
        for relay in self.near_relays(flow) {
            self.work.entries += 1;
            self.sessions.use_session(relay, now);
        }
    }

    /// Marks the sessions with the near relays of a flow as watched.
    pub(super) fn watch_relays(&mut self, flow: Flow, now: Time) {
        for relay in self.near_relays(flow) {
            self.work.entries += 1;
            self.sessions.watch_session(relay, now);
        }
    }

    /// Returns the sessions with the near relays of all paths of a sent flow, or with those that
    /// get the NACKs of a received one.
    fn near_relays(&self, flow: Flow) -> ArrayVec<SessionId, NEAR_RELAYS_MAX> {
        if let Flow::Received(id) = flow {
            return self.egress_relays_of(id).into_iter().map(|(relay, _)| relay).collect();
        }
        let paths = 0..self.registrations_of(flow).count();
        paths.filter_map(|path| self.session_of_path(flow, path)).take(NEAR_RELAYS_MAX).collect()
    }
}
