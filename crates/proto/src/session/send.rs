//! Sending of packets: sealing, and choice of the path.

use alloc::vec::Vec;
use core::net::SocketAddr;

use arrayvec::ArrayVec;
use byway_units::{AgentId, Bytes, Duration, Time};
use byway_wire::messages::{CopyNack, Probe, RelayedPacket};
use byway_wire::packets::MESSAGE_OVERHEAD;
use byway_wire::{
    Alias, Capabilities, Ecn, Message, RangeSet, SequenceNumber, Timestamp, TrafficClass, Writer,
};

use super::messages::claimed;
use super::probes::ProbeContext;
use super::{
    EnvelopeContents, PREFETCHED_SESSIONS, Route, Session, SessionEvent, SessionId, Sessions, ViaRelay,
};
use crate::limits::{
    CANDIDATES_MAX, CHALLENGE_BYTES, CHALLENGES_MAX, DATAGRAM_CAPACITY, INITIAL_ROUND_TRIP, IP_AND_UDP_BYTES,
    MESSAGES_BYTES_MAX, PATH_MESSAGE_BYTES, PAYLOAD_BYTES_PROBED, PROBE_AHEAD, VIA_RELAYS_MAX, WATCHED_FOR,
};
use crate::network_path::{NetworkPath, Uplink, Uplinks};
use crate::outbox::{Owner, Priority, TransmitMeta};
use crate::parts::uplink_probe::TrainShape;

/// Length in bytes of the longest padded probe as a message, without the overhead of its packet.
const PADDED_BYTES_MAX: usize = PAYLOAD_BYTES_PROBED[0] - MESSAGE_OVERHEAD;

/// Zero bytes that pad probes.
const PADDING: [u8; PADDED_BYTES_MAX - PROBE_MESSAGE_BYTES] = [0; PADDED_BYTES_MAX - PROBE_MESSAGE_BYTES];

/// Length in bytes of a probe message without padding: its header, and three numbers.
const PROBE_MESSAGE_BYTES: usize = 15;

/// UDP payload in bytes of a packet with one probe without padding.
const PROBE_PAYLOAD_BYTES: usize = PROBE_MESSAGE_BYTES + MESSAGE_OVERHEAD;

/// Handling of a packet on its way out: ECN field, priority, and owner in send queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendOptions {
    ecn: Ecn,
    priority: Priority,
    owner: Option<Owner>,
}

impl Sessions {
    /// True if the session has keys that may seal packets for the peer.
    pub(crate) fn is_established(&self, id: SessionId, now: Time) -> bool {
        self.get(id).is_some_and(|session| session.is_established(now))
    }

    /// True if packets can reach the peer without a relay, as far as is known.
    pub(crate) fn is_direct(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(Session::is_direct)
    }

    /// True if packets for the peer leave by a metered uplink.
    pub(crate) fn is_metered(&self, id: SessionId) -> bool {
        let is_second = || self.get(id).is_some_and(|session| session.path.uplink() == Uplink::Second);
        self.uplinks() == Uplinks::Two { is_second_metered: true } && is_second()
    }

    /// True if packets for these two peers leave by the same uplink.
    pub(crate) fn share_uplink(&self, one: SessionId, other: SessionId) -> bool {
        let uplink = |id| self.get(id).map(|session| session.path.uplink());
        self.uplinks() == Uplinks::One || uplink(one) == uplink(other)
    }

    /// Returns the traffic class for a datagram to the peer, without its DSCP if the peer does not
    /// have that capability.
    #[inline]
    pub(crate) fn supported_traffic_class(&self, id: SessionId, class: TrafficClass) -> TrafficClass {
        if class.dscp_bytes() == 0 {
            return class;
        }
        if self.has_capabilities(id, Capabilities::DSCPS) { class } else { class.without_dscp() }
    }

    /// True if the newest keys of the session are for a peer with all of these capabilities.
    pub(crate) fn has_capabilities(&self, id: SessionId, wanted: Capabilities) -> bool {
        let newest = self.get(id).and_then(|session| session.epochs.first());
        newest.is_some_and(|epoch| epoch.capabilities.contain(wanted))
    }

    /// Records that the application uses the session. After an idle time, probes the peer. If the
    /// session needs a new epoch, begins a handshake.
    pub(crate) fn use_session(&mut self, id: SessionId, now: Time) {
        if let Some(session) = self.get_mut(id) {
            let was_in_use = session.is_in_use(now);
            session.times.used = now;
            if !was_in_use || session.needs_epoch(now) {
                self.wake_session(id, was_in_use, now);
            }
        }
    }

    /// Records that the application may use the session soon, and needs to know by then if the peer
    /// is alive. The peer is probed each [`WATCH_INTERVAL`](crate::limits::WATCH_INTERVAL).
    pub(crate) fn watch_session(&mut self, id: SessionId, now: Time) {
        if let Some(session) = self.get_mut(id) {
            let was_watched = session.is_watched(now) || session.is_in_use(now);
            session.times.watched_until = now + WATCHED_FOR;
            self.wake_session(id, was_watched, now);
        }
    }

    /// Begins a handshake if the session needs a new epoch. Probes the peer if it was not probed
    /// until now.
    #[cold]
    fn wake_session(&mut self, id: SessionId, was_probed: bool, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let is_established = session.is_established(now);
        if session.needs_epoch(now) {
            self.connect(id, &[], now);
        }
        if is_established && !was_probed {
            // After an idle time, the peer may be dead.
            self.send_probe(id, Bytes::ZERO, now);
        }
    }

    /// Queues a message for the peer until the end of this input, when one packet conveys all. A
    /// message that is too long for that is sent now, in a packet of its own.
    pub(crate) fn queue_message(&mut self, id: SessionId, message: &Message<'_>, now: Time) {
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        if message.emit(&mut writer).is_err() {
            self.send_alone(id, message, Priority::Source, now);
            return;
        }
        let written = writer.as_bytes();
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if session.queued_messages.len() + written.len() > MESSAGES_BYTES_MAX {
            self.flush(id, now);
        }
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        if session.queued_messages.is_empty() {
            self.unflushed.push(id);
        }
        session.queued_messages.extend_from_slice(written);
    }

    /// Queues a message for which a flow waits, because it begins or has fallen silent. At the end
    /// of this input, it is sent on all paths: directly, and through each relay that both sides
    /// use.
    pub(crate) fn queue_urgent_message(&mut self, id: SessionId, message: &Message<'_>, now: Time) {
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        message.emit(&mut writer).expect("offers and their answers are shorter than a packet");
        self.queue_urgent_bytes(id, writer.as_bytes(), now);
    }

    /// Queues urgent messages that are encoded already, as [`Sessions::queue_urgent_message`] does.
    pub(crate) fn queue_urgent_bytes(&mut self, id: SessionId, written: &[u8], now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        if session.urgent_messages.len() + written.len() > MESSAGES_BYTES_MAX {
            self.flush_urgent(id, now);
        }
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        if session.urgent_messages.is_empty() {
            self.unflushed.push(id);
        }
        session.urgent_messages.extend_from_slice(written);
    }

    /// Sends a reply to a message on the path of the message, even if the session uses another. A
    /// reply without a relay is queued.
    pub(crate) fn send_reply(&mut self, id: SessionId, message: &Message<'_>, origin: Route, now: Time) {
        let Route::ViaRelay(via_relay) = origin else {
            self.queue_message(id, message, now);
            return;
        };
        let mut buffer = [0; MESSAGES_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        message.emit(&mut writer).expect("answers are shorter than a packet");
        self.send_messages_via(id, via_relay, writer.as_bytes(), now);
    }

    /// Returns the session's routes through relays whose hop session is established.
    pub(crate) fn via_relays_of(
        &self,
        id: SessionId,
        now: Time,
    ) -> ArrayVec<ViaRelay, { VIA_RELAYS_MAX + 1 }> {
        let Some(session) = self.get(id) else {
            return ArrayVec::new();
        };
        let last_used = session.via_relay.filter(|via_relay| !session.via_relays.contains(via_relay));
        let known = session.via_relays.iter().copied().chain(last_used);
        known.filter(|via_relay| self.is_established(via_relay.relay, now)).collect()
    }

    /// Sends the queued urgent messages of this session on all paths.
    pub(crate) fn flush_urgent(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let mut messages = core::mem::take(&mut session.urgent_messages);
        if messages.is_empty() {
            return;
        }
        let via_relays = self.via_relays_of(id, now);
        self.send_on_paths(id, &messages, &via_relays, now);
        messages.clear();
        if let Some(session) = self.get_mut(id) {
            session.urgent_messages = messages;
        }
    }

    /// Sends encoded messages in a packet of their own on each path: directly, and through these
    /// relays. Returns false if there is no path.
    pub(crate) fn send_on_paths(
        &mut self,
        id: SessionId,
        messages: &[u8],
        via_relays: &[ViaRelay],
        now: Time,
    ) -> bool {
        let direct = self.get(id).and_then(|session| session.path.network_path().copied());
        if direct.is_none() && via_relays.is_empty() {
            self.counters.unsendable += 1;
        }
        if let Some(path) = direct {
            self.send_messages_to(id, path, messages, now);
        }
        for via_relay in via_relays {
            self.send_messages_via(id, *via_relay, messages, now);
        }
        direct.is_some() || !via_relays.is_empty()
    }

    /// Seals encoded messages in a packet of their own, and sends it through this relay.
    fn send_messages_via(&mut self, id: SessionId, via_relay: ViaRelay, messages: &[u8], now: Time) {
        let mut packet = core::mem::take(&mut self.scratch);
        packet.clear();
        match self.get_mut(id).and_then(|session| session.sealing(now)) {
            Some(epoch) => {
                epoch.seal_messages(messages, &mut packet);
                self.send_packet_via(via_relay, &packet, now);
            }
            None => self.counters.unsendable += 1,
        }
        self.scratch = packet;
    }

    /// Sends the queued messages of all sessions, at the end of an input.
    pub(crate) fn flush_all(&mut self, now: Time) {
        while let Some(id) = self.unflushed.pop() {
            self.flush(id, now);
        }
    }

    /// Sends the queued messages of this session, ordinary and urgent ones.
    pub(crate) fn flush(&mut self, id: SessionId, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let messages = core::mem::take(&mut session.queued_messages);
        if !messages.is_empty() {
            self.send_messages(id, &messages, Priority::Source, now);
        }
        if let Some(session) = self.get_mut(id) {
            // The buffer is reused for the next messages.
            session.queued_messages = messages;
            session.queued_messages.clear();
        }
        self.flush_urgent(id, now);
    }

    /// Seals encoded messages in a packet of their own, and sends it to the peer.
    pub(crate) fn send_messages(&mut self, id: SessionId, messages: &[u8], priority: Priority, now: Time) {
        let options = SendOptions { ecn: Ecn::NotCapable, priority, owner: None };
        self.send_packet(id, options, now, |epoch, out| epoch.seal_messages(messages, out));
    }

    /// Sends a message in a packet of its own, up to the longest datagram.
    pub(crate) fn send_alone(&mut self, id: SessionId, message: &Message<'_>, priority: Priority, now: Time) {
        self.send_with_options(id, message, SendOptions { ecn: Ecn::NotCapable, priority, owner: None }, now);
    }

    /// Sends a repair packet to the peer with low priority; `owner` names its flows in send queues.
    pub(crate) fn send_repair(&mut self, id: SessionId, message: &Message<'_>, owner: Owner, now: Time) {
        let owner = Some(owner);
        let options = SendOptions { ecn: Ecn::NotCapable, priority: Priority::Scavenger, owner };
        self.send_with_options(id, message, options, now);
    }

    /// Sends a message that this relay forwards for the agent `from`. Send queues attribute it to
    /// that agent, not to the session.
    pub(crate) fn relay_message(&mut self, id: SessionId, message: &Message<'_>, from: AgentId, now: Time) {
        let owner = Some(Owner::Relayed(from));
        let options = SendOptions { ecn: Ecn::NotCapable, priority: Priority::Source, owner };
        self.send_with_options(id, message, options, now);
    }

    fn send_with_options(&mut self, id: SessionId, message: &Message<'_>, options: SendOptions, now: Time) {
        let mut buffer = core::mem::take(&mut self.long_message);
        buffer.resize(DATAGRAM_CAPACITY, 0);
        let mut writer = Writer::new(&mut buffer);
        match message.emit(&mut writer) {
            Ok(()) => {
                let messages: &[u8] = writer.into_bytes();
                self.send_packet(id, options, now, |epoch, out| epoch.seal_messages(messages, out));
            }
            Err(_) => self.counters.unsendable += 1,
        }
        self.long_message = buffer;
    }

    /// Sends a path challenge or its answer to this path, validated or not.
    pub(super) fn send_to(&mut self, id: SessionId, path: NetworkPath, message: &Message<'_>, now: Time) {
        let mut buffer = [0; PATH_MESSAGE_BYTES];
        let mut writer = Writer::new(&mut buffer);
        message.emit(&mut writer).expect("messages about paths have 11 bytes");
        self.send_messages_to(id, path, writer.as_bytes(), now);
    }

    /// Seals encoded messages in a packet of their own, and sends it on this path.
    pub(super) fn send_messages_to(&mut self, id: SessionId, path: NetworkPath, messages: &[u8], now: Time) {
        let session = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        if let Some(epoch) = session.and_then(|session| session.sealing(now)) {
            self.outbox.add(TransmitMeta::plain(path), |out| epoch.seal_messages(messages, out));
        }
    }

    /// Queues a copy NACK: it requests a copy of this packet again from the peer, which sends the
    /// flow.
    pub(crate) fn send_copy_nack(
        &mut self,
        id: SessionId,
        alias: Alias,
        sequence: SequenceNumber,
        now: Time,
    ) {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(sequence), "an empty set accepts a sequence number");
        self.queue_message(id, &Message::CopyNack(CopyNack { alias, ranges: ranges.ranges() }), now);
    }

    /// Returns the digest by which this side vouches for a packet towards the peer; `None` unless
    /// both sides use digests.
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

    /// True if the peer made this digest for the packet, under the keys of any epoch that the
    /// session still has.
    pub(crate) fn verifies_digest(
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

    /// Sends coded bytes to the peer in an envelope, with this priority.
    pub(crate) fn send_envelope(
        &mut self,
        id: SessionId,
        contents: &EnvelopeContents<'_>,
        priority: Priority,
        now: Time,
    ) {
        let options = SendOptions { ecn: contents.ecn, priority, owner: contents.owner };
        self.send_packet(id, options, now, |epoch, out| epoch.seal_envelope(contents, out));
    }

    /// Sends a packet to the peer, directly or through a relay; `write` appends it, sealed under
    /// the newest epoch. Without keys or a path, counts it as unsendable.
    pub(crate) fn send_packet(
        &mut self,
        id: SessionId,
        options: SendOptions,
        now: Time,
        write: impl FnOnce(&mut super::Epoch, &mut Vec<u8>),
    ) {
        let Some(session) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            self.counters.unsendable += 1;
            return;
        };
        let Session { path, via_relay, is_doubtful, epochs, .. } = session;
        let direct = path.network_path();
        // A relay is the better path to a peer that may have moved.
        let via_relay = via_relay.filter(|_| *is_doubtful || direct.is_none());
        match (epochs.first_mut().filter(|epoch| epoch.may_seal(now)), via_relay, direct) {
            (Some(epoch), None, Some(path)) => {
                let SendOptions { ecn, priority, owner } = options;
                let owner = owner.or(Some(Owner::Session(id.0)));
                self.outbox.add(TransmitMeta { path: *path, ecn, priority, owner }, |out| write(epoch, out));
            }
            (Some(epoch), Some(via_relay), _) => {
                let mut packet = core::mem::take(&mut self.scratch);
                packet.clear();
                write(epoch, &mut packet);
                self.send_packet_via(via_relay, &packet, now);
                self.scratch = packet;
            }
            (None, ..) | (_, None, None) => self.counters.unsendable += 1,
        }
    }

    /// Sends a packet through a relay, inside a message to that relay.
    pub(super) fn send_packet_via(&mut self, via_relay: ViaRelay, packet: &[u8], now: Time) {
        let Some(relayed) = RelayedPacket::new(via_relay.agent, packet) else {
            self.counters.unsendable += 1;
            return;
        };
        self.queue_message(via_relay.relay, &Message::RelayedPacket(relayed), now);
    }

    /// Sends a probe to the peer now, and a padded one if due. `preceding_bytes` bytes were sent on
    /// the uplink just before, which delay the answer.
    pub(super) fn send_probe(&mut self, id: SessionId, preceding_bytes: Bytes, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let envelopes = session.epochs.first().map_or(0, |epoch| epoch.envelopes_sent);
        if session.via_relay.is_none() || !session.is_doubtful {
            session.path.on_probe_sent();
        }
        let transit_packets = session.transit.sent;
        let number =
            session.probes.on_sent(ProbeContext { envelopes, preceding_bytes, transit_packets }, now);
        let round_trip = claimed(session.probes.measured());
        session.plan_probe(now);
        self.queue_message(id, &Message::Probe(Probe { number, sent: Timestamp::at(now), round_trip }), now);
        self.probe_mtu(id, now);
        self.observe_address(id, now);
        self.arm(id);
    }

    /// Sends a probe that is padded to a UDP payload of this length.
    pub(super) fn send_padded(&mut self, id: SessionId, probe: &Probe, payload_bytes: usize, now: Time) {
        let padding = &PADDING[..payload_bytes.saturating_sub(PROBE_PAYLOAD_BYTES).min(PADDING.len())];
        let mut buffer = [0; PADDED_BYTES_MAX];
        let mut writer = Writer::new(&mut buffer);
        probe.emit_padded(padding, &mut writer).expect("the buffer fits the longest padding");
        self.send_messages(id, writer.as_bytes(), Priority::Scavenger, now);
    }

    /// True if a deadline of any session is so near that its probe could be sent now.
    #[inline]
    pub(crate) fn is_probe_near(&self, now: Time) -> bool {
        self.deadlines.first().is_some_and(|(at, _)| *at <= now + PROBE_AHEAD)
    }

    /// Sends probes that are due soon, because packets of `sent` bytes just went out on the uplink:
    /// their queueing shows in the answers.
    pub(crate) fn probe_behind(&mut self, sent: Bytes, now: Time) {
        let soon = now + PROBE_AHEAD;
        let due = self.deadlines.iter().take_while(|(at, _)| *at <= soon).filter_map(|(_, id)| {
            let session = self.get(*id)?;
            (session.next_probe.is_some_and(|at| at <= soon) && session.probes.may_hurry()).then_some(*id)
        });
        let due: ArrayVec<SessionId, PREFETCHED_SESSIONS> = due.take(PREFETCHED_SESSIONS).collect();
        for id in due {
            self.send_probe(id, sent, now);
        }
    }

    /// Sends a probe to the peer now, unless the session awaits the answer to an earlier one.
    pub(crate) fn probe_soon(&mut self, id: SessionId, now: Time) {
        self.use_session(id, now);
        if self.get(id).is_some_and(|session| session.probes.may_hurry()) && self.is_established(id, now) {
            self.send_probe(id, Bytes::ZERO, now);
        }
    }

    /// Sends a train of probes to measure the uplink, each in a packet of its own with the length
    /// of the shape.
    pub(crate) fn send_train(&mut self, id: SessionId, shape: TrainShape, now: Time) {
        let Some(session) = self.get_mut(id) else {
            return;
        };
        let Ok(count) = u32::try_from(shape.packets) else {
            return;
        };
        let first = session.probes.on_train_sent(count);
        let round_trip = claimed(session.probes.measured());
        let packet_bytes = usize::try_from(shape.packet.count()).unwrap_or(usize::MAX);
        for index in 0..count {
            let probe = Probe { number: first.wrapping_add(index), sent: Timestamp::at(now), round_trip };
            self.send_padded(id, &probe, packet_bytes.saturating_sub(IP_AND_UDP_BYTES), now);
        }
    }

    /// Challenges an address that the peer named, unless the session uses it or this node may not
    /// send there.
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

    /// Challenges the address in use and the possible addresses of the peer.
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

    /// If the session uses an IPv6 address, challenges the peer's IPv4 addresses. An IPv4 header is
    /// 20 bytes shorter, which saves a tenth of a call's rate. An answer counts unless it takes 1/8
    /// longer than the handshake did (`answered_after`).
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

    /// Notifies the role if the peer has become directly reachable, or is so no more.
    pub(super) fn note_direct_path(&mut self, id: SessionId) {
        if let Some(session) = self.get_mut(id)
            && session.was_direct != session.is_direct()
        {
            session.was_direct = session.is_direct();
            self.events.push_back(SessionEvent::DirectPath { session: id });
        }
    }

    /// Returns the round-trip time to the peer: as measured by the initiator of the session if it
    /// is known, otherwise an estimate.
    pub(crate) fn round_trip(&self, id: SessionId) -> Duration {
        let session = self.get(id);
        session.map_or(INITIAL_ROUND_TRIP, |session| match session.reported_round_trip {
            Some(reported) if !session.initiator => reported,
            _ => session.probes.round_trip(),
        })
    }

    /// Returns the round-trip time to the peer; `None` until either side has measured it.
    pub(crate) fn measured_round_trip(&self, id: SessionId) -> Option<Duration> {
        let session = self.get(id)?;
        let (measured, reported) = (session.probes.measured(), session.reported_round_trip);
        if session.initiator { measured.or(reported) } else { reported.or(measured) }
    }
}
