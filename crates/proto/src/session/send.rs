//! Packets go out, sealed, to wherever the peer is.

use alloc::vec::Vec;
use core::net::SocketAddr;

use arrayvec::ArrayVec;
use byway_units::{AgentId, Bytes, Duration, Time};
use byway_wire::messages::{CopyNack, Probe, Relayed};
use byway_wire::packets::MESSAGE_OVERHEAD;
use byway_wire::{
    Alias, Capabilities, Ecn, Message, RangeSet, SequenceNumber, Timestamp, TrafficClass, Writer,
};

use super::messages::claimed;
use super::probes::Before;
use super::{Change, Detour, Enveloped, Origin, SESSIONS_AT_HAND, Session, SessionId, Sessions};
use crate::limits::{
    CANDIDATES_MAX, CHALLENGE_BYTES, CHALLENGES_MAX, DATAGRAM_ROOM, DETOURS_MAX, INITIAL_ROUND_TRIP,
    IP_AND_UDP_BYTES, MESSAGES_BYTES_MAX, PATH_MESSAGE_BYTES, PAYLOAD_BYTES_PROBED, PROBE_AHEAD,
};
use crate::network_path::NetworkPath;
use crate::outbox::{Heading, Owner, Urgency};
use crate::parts::line_scale::TrainShape;

/// The longest message that a padded probe is.
const PADDED_BYTES_MAX: usize = PAYLOAD_BYTES_PROBED[0] - MESSAGE_OVERHEAD;

/// What makes probes longer.
const PADDING: [u8; PADDED_BYTES_MAX - PROBE_MESSAGE_BYTES] = [0; PADDED_BYTES_MAX - PROBE_MESSAGE_BYTES];

/// A probe without padding: its header, and three numbers.
const PROBE_MESSAGE_BYTES: usize = 15;

/// The payload of UDP with such a probe.
const PROBE_PAYLOAD_BYTES: usize = PROBE_MESSAGE_BYTES + MESSAGE_OVERHEAD;

/// How a packet is treated on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handling {
    ecn: Ecn,
    urgency: Urgency,
    owner: Option<Owner>,
}

impl Sessions {
    /// Whether packets can be sent to the peer now.
    pub(crate) fn is_established(&self, id: SessionId, now: Time) -> bool {
        self.get(id).is_some_and(|session| session.is_established(now))
    }

    /// Whether the peer can be reached without a relay, as far as is known.
    pub(crate) fn is_direct(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(Session::is_direct)
    }

    /// The traffic class with which a datagram goes to a peer: without its DSCP, if the peer does not know of those.
    #[inline]
    pub(crate) fn carried_class(&self, id: SessionId, class: TrafficClass) -> TrafficClass {
        if class.dscp_bytes() == 0 {
            return class;
        }
        let newest = self.get(id).and_then(|session| session.epochs.first());
        if newest.is_some_and(|epoch| epoch.capabilities.contain(Capabilities::DSCPS)) {
            class
        } else {
            class.without_dscp()
        }
    }

    /// Notes that data flows, so that the peer is probed; begins the epoch that is wanting.
    pub(crate) fn use_session(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let was_in_use = session.is_in_use(now);
        session.used = now;
        let is_established = session.is_established(now);
        let is_stale = session.epochs.first().is_some_and(|newest| newest.is_stale(now));
        let begins = !is_established || (is_stale && session.begins_epochs(now));
        if begins {
            self.connect(id, &[], now);
        }
        if is_established && !was_in_use {
            // What lay idle may be gone.
            self.send_probe(id, Bytes::ZERO, now);
        }
    }

    /// Adds a message to what goes to the peer at the end of this input; one that is too long to share a packet goes
    /// at once, alone.
    pub(crate) fn say(&mut self, id: SessionId, message: &Message<'_>, now: Time) {
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        if message.emit(&mut writer).is_err() {
            self.send_alone(id, message, Urgency::Original, now);
            return;
        }
        let written = writer.written();
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if session.waiting.len() + written.len() > MESSAGES_BYTES_MAX {
            self.flush(id, now);
        }
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        if session.waiting.is_empty() {
            self.waiting.push(id);
        }
        session.waiting.extend_from_slice(written);
    }

    /// Adds a message that a flow waits for, when it begins or falls silent, to what goes to the peer at the end of this input, by every way
    /// at once: the direct path, and each relay that both sides have.
    pub(crate) fn say_urgently(&mut self, id: SessionId, message: &Message<'_>, now: Time) {
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        message.emit(&mut writer).expect("offers and their answers are shorter than a packet");
        self.queue_urgent(id, writer.written(), now);
    }

    /// Queues an urgent message that was written before, see [`Sessions::say_urgently`].
    pub(crate) fn queue_urgent(&mut self, id: SessionId, written: &[u8], now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if session.urgent.len() + written.len() > MESSAGES_BYTES_MAX {
            self.flush_urgent(id, now);
        }
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        if session.urgent.is_empty() {
            self.waiting.push(id);
        }
        session.urgent.extend_from_slice(written);
    }

    /// Answers a message by the way that it came, wherever the peer is: one answer for each message.
    pub(crate) fn answer_with(&mut self, id: SessionId, message: &Message<'_>, origin: Origin, now: Time) {
        let Origin::Detour(detour) = origin else {
            self.say(id, message, now);
            return;
        };
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        message.emit(&mut writer).expect("answers are shorter than a packet");
        self.seal_through(id, detour, writer.written(), now);
    }

    /// Returns the ways through relays that packets can be sent by now.
    pub(crate) fn detours_of(&self, id: SessionId, now: Time) -> ArrayVec<Detour, { DETOURS_MAX + 1 }> {
        let Some(session) = self.get(id) else {
            return ArrayVec::new();
        };
        let other = session.detour.filter(|detour| !session.detours.contains(detour));
        let known = session.detours.iter().copied().chain(other);
        known.filter(|detour| self.is_established(detour.relay, now)).collect()
    }

    /// Sends the urgent messages that wait for one peer.
    pub(crate) fn flush_urgent(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let mut messages = core::mem::take(&mut session.urgent);
        if messages.is_empty() {
            return;
        }
        let detours = self.detours_of(id, now);
        self.send_on_paths(id, &messages, &detours, now);
        messages.clear();
        if let Some(session) = self.get_mut(id) {
            session.urgent = messages;
        }
    }

    /// Sends messages in packets of their own, by the direct path and through these relays; returns
    /// false if there is none.
    pub(crate) fn send_on_paths(
        &mut self,
        id: SessionId,
        messages: &[u8],
        detours: &[Detour],
        now: Time,
    ) -> bool {
        let direct = self.get(id).and_then(|session| session.path.network_path().copied());
        if direct.is_none() && detours.is_empty() {
            self.counters.unsendable += 1;
        }
        if let Some(path) = direct {
            self.send_messages_to(id, path, messages, now);
        }
        for detour in detours {
            self.seal_through(id, *detour, messages, now);
        }
        direct.is_some() || !detours.is_empty()
    }

    /// Seals messages in a packet of their own, and sends it through a relay.
    fn seal_through(&mut self, id: SessionId, detour: Detour, messages: &[u8], now: Time) {
        let mut packet = core::mem::take(&mut self.scratch);
        packet.clear();
        match self.get_mut(id).and_then(|session| session.sealing(now)) {
            Some(epoch) => {
                epoch.seal_messages(messages, &mut packet);
                self.send_through(detour, &packet, now);
            }
            None => self.counters.unsendable += 1,
        }
        self.scratch = packet;
    }

    /// Sends all messages that wait.
    pub(crate) fn flush_all(&mut self, now: Time) {
        while let Some(id) = self.waiting.pop() {
            self.flush(id, now);
        }
    }

    /// Sends the messages that wait for one peer.
    pub(crate) fn flush(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let messages = core::mem::take(&mut session.waiting);
        if !messages.is_empty() {
            self.send_messages(id, &messages, Urgency::Original, now);
        }
        if let Some(session) = self.get_mut(id) {
            // The buffer is kept for the next messages.
            session.waiting = messages;
            session.waiting.clear();
        }
        self.flush_urgent(id, now);
    }

    /// Seals messages in a packet of their own and sends it.
    pub(crate) fn send_messages(&mut self, id: SessionId, messages: &[u8], urgency: Urgency, now: Time) {
        let handling = Handling { ecn: Ecn::NotCapable, urgency, owner: None };
        self.send_packet(id, handling, now, |epoch, out| epoch.seal_messages(messages, out));
    }

    /// Sends a message in a packet of its own, however long.
    pub(crate) fn send_alone(&mut self, id: SessionId, message: &Message<'_>, urgency: Urgency, now: Time) {
        self.send_handled(id, message, Handling { ecn: Ecn::NotCapable, urgency, owner: None }, now);
    }

    /// Sends a repair packet of these flows.
    pub(crate) fn send_repair(&mut self, id: SessionId, message: &Message<'_>, owner: Owner, now: Time) {
        let owner = Some(owner);
        let handling = Handling { ecn: Ecn::NotCapable, urgency: Urgency::Scavenger, owner };
        self.send_handled(id, message, handling, now);
    }

    /// Sends what is passed on for an agent: at its expense where packets wait, not at that of the session.
    pub(crate) fn pass_on(&mut self, id: SessionId, message: &Message<'_>, from: AgentId, now: Time) {
        let owner = Some(Owner::Passed(from));
        let handling = Handling { ecn: Ecn::NotCapable, urgency: Urgency::Original, owner };
        self.send_handled(id, message, handling, now);
    }

    fn send_handled(&mut self, id: SessionId, message: &Message<'_>, handling: Handling, now: Time) {
        let mut buffer = core::mem::take(&mut self.long);
        buffer.resize(DATAGRAM_ROOM, 0);
        let mut writer = Writer::new(&mut buffer);
        match message.emit(&mut writer) {
            Ok(()) => {
                let messages: &[u8] = writer.into_written();
                self.send_packet(id, handling, now, |epoch, out| epoch.seal_messages(messages, out));
            }
            Err(_) => self.counters.unsendable += 1,
        }
        self.long = buffer;
    }

    /// Sends a message about an address to that address, whether it has proved itself or not.
    pub(super) fn send_to(&mut self, id: SessionId, path: NetworkPath, message: &Message<'_>, now: Time) {
        let mut buffer = [0; PATH_MESSAGE_BYTES];
        let mut writer = Writer::new(&mut buffer);
        message.emit(&mut writer).expect("messages about paths have 11 bytes");
        self.send_messages_to(id, path, writer.written(), now);
    }

    /// Seals messages in a packet of their own, and sends it to an address.
    fn send_messages_to(&mut self, id: SessionId, path: NetworkPath, messages: &[u8], now: Time) {
        let session = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        if let Some(epoch) = session.and_then(|session| session.sealing(now)) {
            self.outbox.add(Heading::plain(path), |out| epoch.seal_messages(messages, out));
        }
    }

    /// Asks the sender of a flow for a copy again.
    pub(crate) fn ask_copy(&mut self, id: SessionId, alias: Alias, sequence: SequenceNumber, now: Time) {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(sequence), "an empty set has room");
        self.say(id, &Message::CopyNack(CopyNack { alias, ranges: ranges.ranges() }), now);
    }

    /// The digest by which this side vouches for a packet, if both sides want digests.
    pub(crate) fn digest(
        &self,
        id: SessionId,
        alias: Alias,
        sequence_low: u32,
        coded: &[u8],
    ) -> Option<[u8; 4]> {
        let newest = self.get(id)?.epochs.first()?;
        Some(newest.digests.as_ref()?.send.digest(alias, sequence_low, coded))
    }

    /// Whether the peer vouches for a packet with this digest, in any epoch that is still read.
    pub(crate) fn vouches(
        &self,
        id: SessionId,
        alias: Alias,
        sequence_low: u32,
        coded: &[u8],
        digest: [u8; 4],
    ) -> bool {
        self.get(id).is_some_and(|session| {
            let mut keys = session.epochs.iter().filter_map(|epoch| epoch.digests.as_ref());
            keys.any(|keys| keys.receive.digest(alias, sequence_low, coded) == digest)
        })
    }

    /// Sends coded bytes in an envelope.
    pub(crate) fn send_envelope(
        &mut self,
        id: SessionId,
        contents: &Enveloped<'_>,
        urgency: Urgency,
        now: Time,
    ) {
        let handling = Handling { ecn: contents.ecn, urgency, owner: contents.owner };
        self.send_packet(id, handling, now, |epoch, out| epoch.envelop(contents, out));
    }

    /// Sends a packet that `write` seals under the newest epoch.
    pub(crate) fn send_packet(
        &mut self,
        id: SessionId,
        handling: Handling,
        now: Time,
        write: impl FnOnce(&mut super::Epoch, &mut Vec<u8>),
    ) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            self.counters.unsendable += 1;
            return;
        };
        let Session { path, detour, is_doubtful, epochs, .. } = session;
        let direct = path.network_path();
        // A peer that may have moved is rather reached through the relay.
        let detour = detour.filter(|_| *is_doubtful || direct.is_none());
        match (epochs.first_mut().filter(|epoch| epoch.may_seal(now)), detour, direct) {
            (Some(epoch), None, Some(path)) => {
                let Handling { ecn, urgency, owner } = handling;
                let owner = owner.or(Some(Owner::Session(id.0)));
                self.outbox.add(Heading { path: *path, ecn, urgency, owner }, |out| write(epoch, out));
            }
            (Some(epoch), Some(detour), _) => {
                let mut packet = core::mem::take(&mut self.scratch);
                packet.clear();
                write(epoch, &mut packet);
                self.send_through(detour, &packet, now);
                self.scratch = packet;
            }
            (None, ..) | (_, None, None) => self.counters.unsendable += 1,
        }
    }

    /// Sends a packet inside a message, through a relay.
    pub(super) fn send_through(&mut self, detour: Detour, packet: &[u8], now: Time) {
        let Some(relayed) = Relayed::new(detour.agent, packet) else {
            self.counters.unsendable += 1;
            return;
        };
        self.say(detour.relay, &Message::Relayed(relayed), now);
    }

    /// Probes the peer, behind something that takes so much of the line.
    pub(super) fn send_probe(&mut self, id: SessionId, at_once: Bytes, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let envelopes = session.epochs.first().map_or(0, |epoch| epoch.enveloped);
        let number = session.probes.sent(Before { envelopes, at_once }, now);
        let round_trip = claimed(session.probes.measured());
        session.plan_probe(now);
        self.say(id, &Message::Probe(Probe { number, sent: Timestamp::at(now), round_trip }), now);
        self.probe_mtu(id, now);
        self.arm(id);
    }

    /// Sends a probe in a packet with so long a payload of UDP.
    pub(super) fn send_padded(&mut self, id: SessionId, probe: &Probe, payload_bytes: usize, now: Time) {
        let padding = &PADDING[..payload_bytes.saturating_sub(PROBE_PAYLOAD_BYTES).min(PADDING.len())];
        let mut buffer = [0; PADDED_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        probe.emit_padded(padding, &mut writer).expect("the buffer has room for all padding");
        self.send_messages(id, writer.written(), Urgency::Scavenger, now);
    }

    /// Whether a probe may be due soon.
    #[inline]
    pub(crate) fn is_probe_near(&self, now: Time) -> bool {
        self.deadlines.first().is_some_and(|(at, _)| *at <= now + PROBE_AHEAD)
    }

    /// Sends the probes that are due soon, behind something just sent that takes so much of the line.
    pub(crate) fn probe_behind(&mut self, sent: Bytes, now: Time) {
        let soon = now + PROBE_AHEAD;
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= soon).filter_map(|(_, id)| {
            let session = self.get(*id)?;
            (session.next_probe.is_some_and(|at| at <= soon) && session.probes.may_hurry()).then_some(*id)
        });
        let due: ArrayVec<SessionId, SESSIONS_AT_HAND> = due.take(SESSIONS_AT_HAND).collect();
        for id in due {
            self.send_probe(id, sent, now);
        }
    }

    /// Probes a peer at once, as far as that may be hurried.
    pub(crate) fn probe_soon(&mut self, id: SessionId, now: Time) {
        self.use_session(id, now);
        if self.get(id).is_some_and(|session| session.probes.may_hurry()) && self.is_established(id, now) {
            self.send_probe(id, Bytes::ZERO, now);
        }
    }

    /// Sends a train of probes, each in a packet of its own that takes so many bytes of the line.
    pub(crate) fn send_train(&mut self, id: SessionId, shape: TrainShape, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let Ok(count) = u32::try_from(shape.packets) else {
            return;
        };
        let first = session.probes.sent_train(count);
        let round_trip = claimed(session.probes.measured());
        let packet_bytes = usize::try_from(shape.packet.count()).unwrap_or(usize::MAX);
        for place in 0..count {
            let probe = Probe { number: first.wrapping_add(place), sent: Timestamp::at(now), round_trip };
            self.send_padded(id, &probe, packet_bytes.saturating_sub(IP_AND_UDP_BYTES), now);
        }
    }

    /// Tries an address at which the peer may be reached.
    pub(crate) fn try_address(&mut self, id: SessionId, address: SocketAddr, now: Time) {
        if !self.may_try(address) {
            return;
        }
        let token = self.random.bytes();
        if let Some(session) = self.get_mut(id)
            && !(session.is_direct() && session.path.address() == Some(&address))
        {
            session.path.try_address(address, CHALLENGE_BYTES * usize::from(CHALLENGES_MAX), now, token);
            self.arm(id);
        }
    }

    /// Tries the addresses at which the peer was or should be.
    pub(crate) fn try_known_addresses(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let known = session.path.address().into_iter().chain(&session.remote.addresses);
        let known: ArrayVec<SocketAddr, { CANDIDATES_MAX + 1 }> =
            known.copied().take(CANDIDATES_MAX + 1).collect();
        for address in known {
            let token = self.random.bytes();
            session.path.retry(address, CHALLENGE_BYTES * usize::from(CHALLENGES_MAX), now, token);
        }
        self.arm(id);
    }

    /// Where a peer is reached by IPv6, tries whether it is as near by IPv4, whose headers are 20 bytes shorter: a tenth of
    /// what a call takes. What answers an eighth later than the handshake was answered is not.
    pub(super) fn try_ipv4(&mut self, id: SessionId, answered_after: Duration, now: Time) {
        let within = answered_after + answered_after / 8;
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if !session.path.address().is_some_and(SocketAddr::is_ipv6) {
            return;
        }
        for address in session.remote.addresses.iter().filter(|address| address.is_ipv4()) {
            session.path.try_preferred(*address, CHALLENGE_BYTES, within, now, self.random.bytes());
        }
        self.arm(id);
    }

    /// Lets the role know if the peer is reached without a relay now, or not any more.
    pub(super) fn note_direct_path(&mut self, id: SessionId) {
        if let Some(session) = self.get_mut(id)
            && session.was_direct != session.is_direct()
        {
            session.was_direct = session.is_direct();
            self.changes.push_back(Change::DirectPath { session: id });
        }
    }

    /// How far away the peer is, as this side or the other has measured.
    pub(crate) fn round_trip(&self, id: SessionId) -> Duration {
        let session = self.get(id);
        session.map_or(INITIAL_ROUND_TRIP, |session| match session.reported_round_trip {
            Some(reported) if !session.initiator => reported,
            _ => session.probes.round_trip(),
        })
    }

    /// The same, once either side has measured.
    pub(crate) fn measured_round_trip(&self, id: SessionId) -> Option<Duration> {
        let session = self.get(id)?;
        let (measured, reported) = (session.probes.measured(), session.reported_round_trip);
        if session.initiator { measured.or(reported) } else { reported.or(measured) }
    }
}
