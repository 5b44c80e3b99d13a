//! Handlers of the messages that agents and other relays send to this relay.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::messages::{
    Ack, CooperativeRefusal, CopyNack, CrossStreamRepair, InStreamRepair, Nack, Outage,
};
use byway_wire::packets::{EnvelopeHeader, EnvelopeRole};
use byway_wire::{Alias, Ecn, Message, Messages, Ranges, SequenceNumber};

use super::Relay;
use super::egress::{BatchEntry, CopySource, CrossStreamPacket, Egress, FlowSlot, NackRequest, RelayedCopy};
use super::flow_table::FlowRef;
use super::ingress::{PathOutage, RelayPeerId};
use super::loss_reports::on_loss_report;
use super::relay_peer_table::ForwardingEntry;
use super::transit::{on_transit_reply, on_transit_request};
use crate::limits::{
    AGENT_MESSAGES_BYTES_MAX, AGENT_MESSAGES_MAX, DATAGRAM_WORK_MAX, PULLED_SOURCES_MAX, RANGES_MAX,
    RELAYED_COPY_REACH, REPAIR_LIFETIME_MAX,
};
use crate::session::{Route, SessionId};

impl Relay {
    /// Handles the messages of one packet, within the work budget of its session. Sessions with
    /// other relays have no budget, because these are trusted; only the work for one datagram is
    /// limited.
    pub(super) fn on_messages(&mut self, session: SessionId, plaintext: &[u8], origin: Route, now: Time) {
        if self.peers.peer_of_session(session).is_some() {
            self.handle_messages(session, plaintext, origin, (usize::MAX, None), now);
            return;
        }
        if plaintext.len() > AGENT_MESSAGES_BYTES_MAX {
            self.counters.datagrams_too_long += 1;
            return;
        }
        let units_before = self.work().units();
        self.report_network(session, now);
        let end = self.work().units().saturating_add(self.work_budgets.available(session, now));
        self.handle_messages(session, plaintext, origin, (AGENT_MESSAGES_MAX, Some(end)), now);
        self.work_budgets.charge(session, self.work().units() - units_before, now);
    }

    /// Handles at most `count_max` messages, until the work counter reaches `end`. Without `end`,
    /// the limit is the work of one datagram beyond its first message. Messages about the session
    /// itself are always handled, because they cost no more than their bytes.
    fn handle_messages(
        &mut self,
        session: SessionId,
        plaintext: &[u8],
        origin: Route,
        (count_max, mut end): (usize, Option<u64>),
        now: Time,
    ) {
        let mut messages = Messages::new(plaintext);
        for (nth, message) in messages.by_ref().take(count_max).enumerate() {
            self.work.messages += 1;
            // Most datagrams of relays have one message, which needs no limit.
            if nth > 0 && end.is_none() {
                end = Some(self.work().units() + DATAGRAM_WORK_MAX);
            }
            match message {
                Ok(message) if self.sessions.handle_message(session, &message, origin, now) => {}
                Ok(_) if self.has_worked_beyond(end) => self.counters.work_refused += 1,
                Ok(message) => self.on_message(session, &message, now),
                Err(_) => self.counters.messages_unknown += 1,
            }
        }
        self.counters.messages_too_many += messages.count() as u64;
        if !self.has_worked_beyond(end) {
            self.update_round_trips(session);
        }
    }

    fn has_worked_beyond(&self, end: Option<u64>) -> bool {
        end.is_some_and(|end| self.work().units() > end)
    }

    fn on_message(&mut self, session: SessionId, message: &Message<'_>, now: Time) {
        match (message, self.peers.peer_of_session(session)) {
            (Message::CrossStreamRepair(repair), Some(peer)) => {
                self.on_cross_stream_repair(peer, repair, now);
            }
            (Message::InStreamRepair(repair), Some(peer)) => self.on_in_stream_repair(peer, repair, now),
            (Message::Aliases(aliases), Some(peer)) => self.on_aliases(peer, session, aliases, now),
            (Message::AliasesReply(known), Some(peer)) => self.on_aliases_reply(peer, known, now),
            (Message::CopyNack(nack), Some(peer)) => self.on_copy_nack(peer, nack, now),
            (Message::Outage(outage), Some(peer)) => self.on_outage(peer, *outage, now),
            (Message::LossReport(report), Some(peer)) => on_loss_report(self, peer, report, now),
            (Message::TransitRequest(request), Some(_)) => on_transit_request(self, session, *request, now),
            (Message::TransitReply(reply), Some(_)) => on_transit_reply(self, session, reply, now),
            (Message::InStreamRepair(repair), None) => self.on_sender_repair(session, repair, now),
            (Message::Register(register), None) => self.on_register(session, register, now),
            (Message::Unregister(unregister), None) => self.on_unregister(session, unregister, now),
            (Message::Nack(nack), None) => self.on_nack(session, nack, now),
            (Message::Ack(ack), None) => self.on_ack(session, *ack, now),
            (Message::CooperativeRefusal(refusal), None) => {
                self.on_cooperative_refusal(session, refusal, now);
            }
            (Message::Outage(outage), None) => self.on_sender_outage(session, *outage, now),
            (Message::RelayedPacket(relayed), None) => self.on_relayed_packet(session, relayed, now),
            (Message::InterRelayPacket(relayed), Some(peer)) => {
                self.on_inter_relay_packet(peer, relayed, now);
            }
            (Message::Unknown(_), _) => self.counters.messages_unknown += 1,
            _ => self.counters.out_of_role += 1,
        }
    }

    /// Returns the flow that the session's agent receives under this alias. Counts an unknown
    /// alias.
    fn received_flow(&mut self, session: SessionId, alias: Alias) -> Option<FlowSlot> {
        if let Some(FlowRef::Received(flow)) = self.flow_table.flow(session, alias) {
            return Some(flow);
        }
        self.counters.aliases_unknown += 1;
        None
    }

    fn on_nack(&mut self, session: SessionId, nack: &Nack<'_>, now: Time) {
        let Some(flow) = self.received_flow(session, nack.alias) else {
            return;
        };
        let ranges = self.full_ranges(flow, &nack.ranges);
        let sources = self.copy_sources(flow, now);
        let request = NackRequest {
            flow,
            ranges: &ranges,
            is_adaptive: sources.iter().any(|one| self.is_adaptive(RelayPeerId(one.ingress), one.alias)),
            sources: &sources,
            open_from: nack.open_from_low.map(|low| self.egress.full_sequence(flow, low)),
            certain: !nack.noticed_by_timer || nack.answers_confirm,
            queue_grows: nack.queue_grows,
            repair_lifetime: nack.repair_lifetime.duration().min(REPAIR_LIFETIME_MAX),
        };
        self.egress.on_nack(&request, now, &mut self.actions);
    }

    /// Returns the ingress relays from which copies of a flow may be fetched, this relay included.
    /// They are those of a pulled flow, or those that adapt the redundancy of a coded one. The
    /// copies that other flows fetch are part of a batch.
    pub(super) fn copy_sources(&self, flow: FlowSlot, now: Time) -> ArrayVec<CopySource, PULLED_SOURCES_MAX> {
        let is_pulled = self.egress.is_pulled(flow, now);
        let Some(key) = self.egress.key(flow) else {
            return ArrayVec::new();
        };
        let is_permitted =
            |peer: RelayPeerId| self.flow_table.is_permitted_ingress(key, self.peers.relay_shard(peer));
        let remote = self.peers.remote_aliases_of(key).iter().filter(|(peer, _)| is_permitted(*peer));
        // A sender uses the relays with which it registered last.
        let known = self.peers.local_aliases_of(key).iter().chain(remote.rev());
        known
            .filter(|(peer, alias)| is_pulled || self.is_adaptive(*peer, *alias))
            .map(|&(peer, alias)| CopySource { ingress: peer.0, alias })
            .take(PULLED_SOURCES_MAX)
            .collect()
    }

    /// True if the ingress relay adapts the redundancy of its flow with this alias to the losses.
    pub(super) fn is_adaptive(&self, peer: RelayPeerId, alias: Alias) -> bool {
        if self.peers.session(peer).is_some() {
            return self.peers.is_adaptive(peer, alias);
        }
        let advertised = self.peers.advertised_flow(peer, alias);
        let is_adaptive = advertised.is_some_and(|advertised| self.ingress.is_adaptive(advertised.flow));
        is_adaptive && self.egress.follows_up()
    }

    /// Expands ranges of a message to first and last sequence number each.
    fn full_ranges(
        &self,
        flow: FlowSlot,
        ranges: &Ranges<'_>,
    ) -> ArrayVec<(SequenceNumber, SequenceNumber), RANGES_MAX> {
        let full = |low| self.egress.full_sequence(flow, low);
        ranges
            .iter()
            .map(|range| {
                let first = full(range.first_low());
                (first, first.plus(u64::from(range.length()) - 1))
            })
            .collect()
    }

    fn on_ack(&mut self, session: SessionId, ack: Ack, now: Time) {
        if let Some(flow) = self.received_flow(session, ack.alias) {
            let from = self.egress.full_sequence(flow, ack.from_low);
            self.egress.on_ack(flow, from, now, &mut self.actions);
        }
    }

    fn on_cooperative_refusal(&mut self, session: SessionId, refusal: &CooperativeRefusal<'_>, now: Time) {
        let Some(flow) = self.received_flow(session, refusal.alias) else {
            return;
        };
        for (first, last) in self.full_ranges(flow, &refusal.ranges) {
            self.egress.on_cooperative_refusal(flow, first, last, now, &mut self.actions);
        }
    }

    /// Handles a cooperating receiver's answer to a request. A packet that does not match the
    /// ingress relay's digest quarantines the flow; any other helps to decode.
    pub(super) fn on_cooperative_answer(
        &mut self,
        session: SessionId,
        header: &EnvelopeHeader,
        coded: &[u8],
        now: Time,
    ) {
        let Some(flow) = self.received_flow(session, header.alias) else {
            return;
        };
        let sequence = self.egress.full_sequence(flow, header.sequence_low);
        if let Some((ingress, entry)) = self.egress.expected_digest(flow, sequence)
            && let Some(digest) = entry.digest
            && let Some(session) = self.peers.session(RelayPeerId(ingress))
            && !self.sessions.verifies_digest(session, entry.alias, entry.sequence.low(), coded, digest)
        {
            self.quarantine(flow, now);
            return;
        }
        self.egress.on_cooperative_answer(flow, sequence, coded, now, &mut self.actions);
    }

    /// Quarantines a flow whose receiver returned a packet that differs from the ingress relay's.
    /// The relay requests no packets of it, and reports to ingress relays that it has no receiver.
    fn quarantine(&mut self, flow: FlowSlot, now: Time) {
        self.egress.quarantine(flow);
        if let Some(key) = self.egress.key(flow) {
            self.report_no_receiver(key, now);
        }
    }

    fn on_cross_stream_repair(&mut self, peer: RelayPeerId, repair: &CrossStreamRepair<'_>, now: Time) {
        let head = &repair.head;
        let entries = head.cover.entries();
        let packet = CrossStreamPacket {
            ingress: peer.0,
            batch: head.batch.number(),
            index: head.repair_index.index(),
            repair_count: head.repair_index.count(),
            covered_count: entries.len(),
            length_symbol: head.length_symbol,
            payload: repair.payload,
        };
        let (flow_table, peers) = (&self.flow_table, &self.peers);
        let resolve = |egress: &Egress| {
            let digests = head.cover.digests();
            let entries = entries.iter().enumerate().map(|(index, entry)| {
                let key = peers.remote_flow_key(peer, entry.alias);
                let flow = key.and_then(|key| flow_table.receivers_of(key).first().copied());
                let sequence = match flow {
                    Some(flow) => egress.full_sequence(flow, entry.sequence_low),
                    None => SequenceNumber::new(u64::from(entry.sequence_low)),
                };
                let digest = digests.map(|digests| digests[index]);
                BatchEntry { flow, alias: entry.alias, sequence, digest }
            });
            entries.collect()
        };
        self.egress.on_cross_stream_repair(&packet, resolve, now, &mut self.actions);
    }

    fn on_in_stream_repair(&mut self, peer: RelayPeerId, repair: &InStreamRepair<'_>, now: Time) {
        let Some(key) = self.peers.remote_flow_key(peer, repair.head.alias) else {
            self.counters.aliases_unknown += 1;
            return;
        };
        for flow in self.flow_table.receivers_of(key) {
            self.egress.on_in_stream_repair(*flow, repair, now, &mut self.actions);
        }
    }

    /// Handles an in-stream repair packet that a flow's sender made (sender FEC).
    fn on_sender_repair(&mut self, session: SessionId, repair: &InStreamRepair<'_>, now: Time) {
        let Some(FlowRef::Sent(flow)) = self.flow_table.flow(session, repair.head.alias) else {
            self.counters.aliases_unknown += 1;
            return;
        };
        let (ingress, mut context) = self.ingress_and_context(now);
        ingress.on_sender_repair(flow, repair, &mut context, now);
    }

    /// Handles a copy that an ingress relay forwarded to this relay, for the receivers of its flow
    /// here.
    pub(super) fn on_relayed_copy(
        &mut self,
        session: SessionId,
        header: &EnvelopeHeader,
        coded: &[u8],
        ecn: Ecn,
        now: Time,
    ) {
        let EnvelopeHeader { role, alias, sequence_low, .. } = *header;
        let peer = self.peers.peer_of_session(session);
        let known = peer.and_then(|peer| Some((peer, self.peers.forwarding_entry(peer, alias)?)));
        let Some((peer, ForwardingEntry { key, is_forwarded, is_selective })) = known else {
            self.counters.aliases_unknown += 1;
            return;
        };
        let source = (!is_selective).then_some(CopySource { ingress: peer.0, alias });
        let receivers = self.flow_table.receivers_of(key);
        let is_resent = role == EnvelopeRole::RelayedResend;
        let copy = RelayedCopy { sequence_low, coded, ecn, is_forwarded, is_resent, source };
        self.egress.on_relayed_copy(receivers, &copy, now, &mut self.actions);
    }

    /// Sends the due copy NACKs to ingress relays, for relayed copies that are missing and for
    /// copies to fetch, within the work limit of one input; the rest stays due.
    pub(super) fn send_copy_nacks(&mut self, now: Time) {
        let end = Some(self.work().units() + DATAGRAM_WORK_MAX);
        while !self.has_worked_beyond(end)
            && let Some(request) = self.egress.next_copy_request(now)
        {
            if let Some(flow) = request.open_ended_flow() {
                self.report_outage(flow, true, now);
            }
            let peer = RelayPeerId(request.source.ingress);
            let nack = CopyNack { alias: request.source.alias, ranges: request.missing.ranges() };
            let session = self.peers.session(peer);
            if let Some(session) = session {
                self.sessions.queue_message(session, &Message::CopyNack(nack), now);
            } else if self.peers.is_local(peer) {
                self.on_copy_nack(peer, &nack, now);
                self.dispatch_actions(now);
            }
            let round_trip = session.map_or(Duration::ZERO, |session| self.sessions.round_trip(session));
            self.egress.schedule_copy_retry(&request, round_trip, now);
        }
    }

    /// Handles a copy NACK of an egress relay: retransmits the copies that it requests.
    fn on_copy_nack(&mut self, peer: RelayPeerId, nack: &CopyNack<'_>, now: Time) {
        let Some(flow) = self.peers.advertised_flow(peer, nack.alias).map(|advertised| advertised.flow)
        else {
            self.counters.aliases_unknown += 1;
            return;
        };
        let session = self.peers.session(peer);
        let round_trip = session.map_or(Duration::ZERO, |session| self.sessions.round_trip(session));
        let numbers = nack.ranges.iter().map(|range| usize::from(range.length()).min(RELAYED_COPY_REACH));
        self.work.numbers += numbers.sum::<usize>() as u64;
        let (ingress, mut context) = self.ingress_and_context(now);
        ingress.on_copy_nack((flow, peer), &nack.ranges, round_trip, &mut context, now);
    }

    /// Handles an egress relay's report that a flow's direct path has an outage, or that the outage
    /// ended.
    fn on_outage(&mut self, peer: RelayPeerId, outage: Outage, now: Time) {
        match self.peers.advertised_flow(peer, outage.alias).map(|advertised| advertised.flow) {
            Some(flow) => {
                let outage = PathOutage { is_active: outage.is_active, by_sender: false };
                self.ingress.set_outage(flow, outage, now);
            }
            None => self.counters.aliases_unknown += 1,
        }
    }

    /// Handles a sender's report that its flow's direct path has an outage, or that the outage
    /// ended.
    fn on_sender_outage(&mut self, session: SessionId, outage: Outage, now: Time) {
        match self.flow_table.flow(session, outage.alias) {
            Some(FlowRef::Sent(flow)) => {
                let outage = PathOutage { is_active: outage.is_active, by_sender: true };
                self.ingress.set_outage(flow, outage, now);
            }
            _ => self.counters.aliases_unknown += 1,
        }
    }

    /// Updates the session's round-trip time in the ingress and egress halves, for the flows of an
    /// agent or for a peer relay.
    fn update_round_trips(&mut self, session: SessionId) {
        let round_trip = self.sessions.round_trip(session);
        if let Some(peer) = self.peers.peer_of_session(session) {
            self.egress.set_ingress_round_trip(peer.0, round_trip);
        }
        for flow in self.flow_table.set_round_trip(session, round_trip) {
            self.work.entries += 1;
            match flow {
                FlowRef::Sent(flow) => self.ingress.set_round_trip(flow, round_trip),
                FlowRef::Received(flow) => self.egress.set_round_trip(flow, round_trip),
            }
        }
    }

    /// Sets the round-trip time of a new flow to that of its agent's session, if it is measured.
    pub(super) fn set_round_trip(&mut self, flow: FlowRef, session: SessionId) {
        let Some(round_trip) = self.flow_table.round_trip(session) else {
            return;
        };
        match flow {
            FlowRef::Sent(flow) => self.ingress.set_round_trip(flow, round_trip),
            FlowRef::Received(flow) => self.egress.set_round_trip(flow, round_trip),
        }
    }
}
