//! What agents and other relays say.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::messages::{Ack, CopyNack, CrossStreamRepair, InStreamRepair, Lost, Nack, Outage};
use byway_wire::packets::EnvelopeHeader;
use byway_wire::{Alias, Ecn, Message, Messages, Ranges, SequenceNumber};

use super::Relay;
use super::egress::{CarriedCopy, CrossStream, Egress, Entry, Feed, FlowSlot, Request};
use super::ingress::{EgressPort, PathOutage};
use super::links::FlowRef;
use super::ports::Fed;
use crate::limits::{
    AGENT_MESSAGES_BYTES_MAX, AGENT_MESSAGES_MAX, CARRIED_REACH, DATAGRAM_WORK_MAX, PATIENCE_MAX, RANGES_MAX,
};
use crate::session::{Origin, SessionId};

impl Relay {
    /// Takes the messages of one packet, as many as the budget of its session has work for. Other relays have none, as they
    /// are trusted, but for a single datagram.
    pub(super) fn messages(&mut self, session: SessionId, plaintext: &[u8], origin: Origin, now: Time) {
        if self.ports.of_session(session).is_some() {
            self.messages_within(session, plaintext, origin, (usize::MAX, None), now);
            return;
        }
        if plaintext.len() > AGENT_MESSAGES_BYTES_MAX {
            self.counters.datagrams_too_long += 1;
            return;
        }
        let begun = self.work().units();
        let end = begun.saturating_add(self.budgets.available(session, now));
        self.messages_within(session, plaintext, origin, (AGENT_MESSAGES_MAX, Some(end)), now);
        self.budgets.charge(session, self.work().units() - begun, now);
    }

    /// Takes so many messages, until so many units of work are done in all, or as many as one datagram may cost beyond its first
    /// message. What concerns the session itself is taken all
    /// the same: it costs no more than its bytes.
    fn messages_within(
        &mut self,
        session: SessionId,
        plaintext: &[u8],
        origin: Origin,
        (count_max, mut end): (usize, Option<u64>),
        now: Time,
    ) {
        let mut messages = Messages::new(plaintext);
        for (nth, message) in messages.by_ref().take(count_max).enumerate() {
            self.work.messages += 1;
            // Nearly all datagrams of relays have one message, for which nothing is to be added up.
            if nth > 0 && end.is_none() {
                end = Some(self.work().units() + DATAGRAM_WORK_MAX);
            }
            match message {
                Ok(message) if self.sessions.handle_message(session, &message, origin, now) => {}
                Ok(_) if self.has_worked_beyond(end) => self.counters.work_refused += 1,
                Ok(message) => self.message(session, &message, now),
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

    fn message(&mut self, session: SessionId, message: &Message<'_>, now: Time) {
        match (message, self.ports.of_session(session)) {
            (Message::CrossStreamRepair(repair), Some(port)) => self.cross_stream(port, repair, now),
            (Message::InStreamRepair(repair), Some(port)) => self.in_stream(port, repair, now),
            (Message::Aliases(aliases), Some(port)) => self.aliases(port, session, aliases, now),
            (Message::AliasesKnown(known), Some(port)) => self.aliases_known(port, known, now),
            (Message::CopyNack(nack), Some(port)) => self.resend(port, nack, now),
            (Message::Outage(outage), Some(port)) => self.outage(port, *outage, now),
            (Message::InStreamRepair(repair), None) => self.own_repair(session, repair, now),
            (Message::Register(register), None) => self.register(session, register, now),
            (Message::Unregister(unregister), None) => self.unregister(session, unregister, now),
            (Message::Nack(nack), None) => self.nack(session, nack, now),
            (Message::Ack(ack), None) => self.ack(session, *ack, now),
            (Message::Lost(lost), None) => self.lost(session, lost, now),
            (Message::Outage(outage), None) => self.outage_of_sender(session, *outage, now),
            (Message::Relayed(relayed), None) => self.relay(session, relayed, now),
            (Message::RelayedOn(relayed), Some(port)) => self.relay_on(port, relayed, now),
            (Message::Unknown(_), _) => self.counters.messages_unknown += 1,
            _ => self.counters.out_of_role += 1,
        }
    }

    /// The flow that the session receives under this alias.
    fn received_flow(&mut self, session: SessionId, alias: Alias) -> Option<FlowSlot> {
        if let Some(FlowRef::Received(flow)) = self.links.flow(session, alias) {
            return Some(flow);
        }
        self.counters.aliases_unknown += 1;
        None
    }

    fn nack(&mut self, session: SessionId, nack: &Nack<'_>, now: Time) {
        let Some(flow) = self.received_flow(session, nack.alias) else {
            return;
        };
        let ranges = self.full_ranges(flow, &nack.ranges);
        let request = Request {
            flow,
            ranges: &ranges,
            open_from: nack.open_from_low.map(|low| self.egress.full(flow, low)),
            certain: !nack.noticed_by_timer || nack.answers_confirm,
            patience: nack.patience.duration().min(PATIENCE_MAX),
        };
        self.egress.nack(&request, now, &mut self.actions);
    }

    /// First and last number of each range.
    fn full_ranges(
        &self,
        flow: FlowSlot,
        ranges: &Ranges<'_>,
    ) -> ArrayVec<(SequenceNumber, SequenceNumber), RANGES_MAX> {
        let full = |low| self.egress.full(flow, low);
        ranges
            .iter()
            .map(|range| {
                let first = full(range.first_low());
                (first, first.plus(u64::from(range.length()) - 1))
            })
            .collect()
    }

    fn ack(&mut self, session: SessionId, ack: Ack, now: Time) {
        if let Some(flow) = self.received_flow(session, ack.alias) {
            let from = self.egress.full(flow, ack.from_low);
            self.egress.ack(flow, from, now, &mut self.actions);
        }
    }

    fn lost(&mut self, session: SessionId, lost: &Lost<'_>, now: Time) {
        let Some(flow) = self.received_flow(session, lost.alias) else {
            return;
        };
        for (first, last) in self.full_ranges(flow, &lost.ranges) {
            self.egress.lost(flow, first, last, now, &mut self.actions);
        }
    }

    /// A cooperating receiver's packet: verified where the ingress relay vouches for it, then used.
    pub(super) fn answer(&mut self, session: SessionId, header: &EnvelopeHeader, coded: &[u8], now: Time) {
        let Some(flow) = self.received_flow(session, header.alias) else {
            return;
        };
        let sequence = self.egress.full(flow, header.sequence_low);
        if let Some((ingress, entry)) = self.egress.expected(flow, sequence)
            && let Some(digest) = entry.digest
            && let Some(session) = self.ports.session(EgressPort(ingress))
            && !self.sessions.vouches(session, entry.alias, entry.sequence.low(), coded, digest)
        {
            self.bar(flow, now);
            return;
        }
        self.egress.answer(flow, sequence, coded, now, &mut self.actions);
    }

    /// One end of a flow lies about its packets: the receiver gives others than the ingress relay has. Nobody's repair
    /// depends on it any more, and no batch has room for it.
    fn bar(&mut self, flow: FlowSlot, now: Time) {
        self.egress.bar(flow);
        if let Some(key) = self.egress.key(flow) {
            self.say_unheard(key, now);
        }
    }

    fn cross_stream(&mut self, port: EgressPort, repair: &CrossStreamRepair<'_>, now: Time) {
        let head = &repair.head;
        let entries = head.cover.entries();
        let kept = CrossStream {
            ingress: port.0,
            batch: head.batch.number(),
            index: head.place.index(),
            made: head.place.count(),
            covers: entries.len(),
            length_symbol: head.length_symbol,
            payload: repair.payload,
        };
        let (links, ports) = (&self.links, &self.ports);
        let resolve = |egress: &Egress| {
            let digests = head.cover.digests();
            let entries = entries.iter().enumerate().map(|(place, entry)| {
                let key = ports.heard(port, entry.alias);
                let flow = key.and_then(|key| links.receivers_of(key).first().copied());
                let sequence = match flow {
                    Some(flow) => egress.full(flow, entry.sequence_low),
                    None => SequenceNumber::new(u64::from(entry.sequence_low)),
                };
                let digest = digests.map(|digests| digests[place]);
                Entry { flow, alias: entry.alias, sequence, digest }
            });
            entries.collect()
        };
        self.egress.cross_stream(&kept, resolve, now, &mut self.actions);
    }

    fn in_stream(&mut self, port: EgressPort, repair: &InStreamRepair<'_>, now: Time) {
        let Some(key) = self.ports.heard(port, repair.head.alias) else {
            self.counters.aliases_unknown += 1;
            return;
        };
        for flow in self.links.receivers_of(key) {
            self.egress.in_stream(*flow, repair, now, &mut self.actions);
        }
    }

    /// A sender made a repair packet itself.
    fn own_repair(&mut self, session: SessionId, repair: &InStreamRepair<'_>, now: Time) {
        let Some(FlowRef::Sent(flow)) = self.links.flow(session, repair.head.alias) else {
            self.counters.aliases_unknown += 1;
            return;
        };
        let (ingress, mut outlet) = self.ingress_and_outlet(now);
        ingress.own_repair(flow, repair, &mut outlet, now);
    }

    /// Takes a copy that an ingress relay carried here.
    pub(super) fn carried(
        &mut self,
        session: SessionId,
        header: &EnvelopeHeader,
        coded: &[u8],
        ecn: Ecn,
        now: Time,
    ) {
        let EnvelopeHeader { alias, sequence_low, .. } = *header;
        let port = self.ports.of_session(session);
        let known = port.and_then(|port| Some((port, self.ports.fed(port, alias)?)));
        let Some((port, Fed { key, forwards, is_selective })) = known else {
            self.counters.aliases_unknown += 1;
            return;
        };
        let feed = (!is_selective).then_some(Feed { ingress: port.0, alias });
        let receivers = self.links.receivers_of(key);
        let carried = CarriedCopy { sequence_low, coded, ecn, is_forwarded: forwards, feed };
        self.egress.carried(receivers, &carried, now, &mut self.actions);
    }

    /// Asks ingress relays for copies that are missing here.
    pub(super) fn ask_for_copies(&mut self, now: Time) {
        while let Some(asked) = self.egress.next_asked(now) {
            let port = EgressPort(asked.feed.ingress);
            let nack = CopyNack { alias: asked.feed.alias, ranges: asked.absent.ranges() };
            let session = self.ports.session(port);
            if let Some(session) = session {
                self.sessions.say(session, &Message::CopyNack(nack), now);
            } else if self.ports.is_here(port) {
                self.resend(port, &nack, now);
                self.perform_actions(now);
            }
            let round_trip = session.map_or(Duration::ZERO, |session| self.sessions.round_trip(session));
            self.egress.ask_again(&asked, round_trip, now);
        }
    }

    /// An egress relay asks for copies.
    fn resend(&mut self, port: EgressPort, nack: &CopyNack<'_>, now: Time) {
        let Some(flow) = self.ports.announced(port, nack.alias).map(|announced| announced.flow) else {
            self.counters.aliases_unknown += 1;
            return;
        };
        let session = self.ports.session(port);
        let round_trip = session.map_or(Duration::ZERO, |session| self.sessions.round_trip(session));
        let numbers = nack.ranges.iter().map(|range| usize::from(range.length()).min(CARRIED_REACH));
        self.work.numbers += numbers.sum::<usize>() as u64;
        let (ingress, mut outlet) = self.ingress_and_outlet(now);
        ingress.resend((flow, port), &nack.ranges, round_trip, &mut outlet, now);
    }

    /// An egress relay says that the direct path of a flow is dark, or not any more.
    fn outage(&mut self, port: EgressPort, outage: Outage, now: Time) {
        match self.ports.announced(port, outage.alias).map(|announced| announced.flow) {
            Some(flow) => {
                let outage = PathOutage { is_dark: outage.is_dark, by_sender: false };
                self.ingress.set_dark(flow, outage, now);
            }
            None => self.counters.aliases_unknown += 1,
        }
    }

    /// A sender was told that the direct path of its flow is dark.
    fn outage_of_sender(&mut self, session: SessionId, outage: Outage, now: Time) {
        match self.links.flow(session, outage.alias) {
            Some(FlowRef::Sent(flow)) => {
                let outage = PathOutage { is_dark: outage.is_dark, by_sender: true };
                self.ingress.set_dark(flow, outage, now);
            }
            _ => self.counters.aliases_unknown += 1,
        }
    }

    /// Lets the halves know how far away an agent is.
    fn update_round_trips(&mut self, session: SessionId) {
        let round_trip = self.sessions.round_trip(session);
        if let Some(port) = self.ports.of_session(session) {
            self.egress.set_feed_round_trip(port.0, round_trip);
        }
        for flow in self.links.set_round_trip(session, round_trip) {
            self.work.entries += 1;
            match flow {
                FlowRef::Sent(flow) => self.ingress.set_round_trip(flow, round_trip),
                FlowRef::Received(flow) => self.egress.set_round_trip(flow, round_trip),
            }
        }
    }

    /// Lets a new flow know how far away its agent is.
    pub(super) fn set_round_trip(&mut self, flow: FlowRef, session: SessionId) {
        let Some(round_trip) = self.links.round_trip(session) else {
            return;
        };
        match flow {
            FlowRef::Sent(flow) => self.ingress.set_round_trip(flow, round_trip),
            FlowRef::Received(flow) => self.egress.set_round_trip(flow, round_trip),
        }
    }
}
