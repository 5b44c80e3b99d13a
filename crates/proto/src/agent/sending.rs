//! Sending of datagrams: source packets at once, copies behind them, as paced envelopes.

use byway_units::{Bytes, Time};
use byway_wire::packets::{EnvelopeRole, SOURCE_OVERHEAD, SourceHeader};
use byway_wire::{
    Alias, CODED_OVERHEAD, Ecn, Flags, Fragment, Plaintext, SequenceNumber, Timestamp, TrafficClass,
};

use super::pending_datagrams::OutgoingDatagram;
use super::relay_link::PendingEnvelope;
use super::send_flow::{SendFlowId, SentPacket};
use super::uplink_probing::uplink_bytes;
use super::{Agent, Flow};
use crate::limits::{
    CODED_BYTES_BESIDE, DATAGRAM_BYTES_MAX, ENVELOPE_OVERHEAD, FRAGMENT_BYTES_BASE, FRAGMENT_BYTES_MAX,
    PENDING_COPIES_MAX,
};
use crate::outbox::{Priority, TransmitMeta};
use crate::parts::packet_buffer::Handle;
use crate::policy::uses_both_paths;
use crate::session::{EnvelopeContents, SessionId};

/// Source packet that was sealed in the retransmission buffer, for its copy.
#[derive(Clone, Copy, Debug)]
struct SealedPacket {
    sequence: SequenceNumber,
    fragment: Fragment,
    ecn: Ecn,
    packet: Handle,
}

/// Contents of a source packet: a whole datagram or a fragment, with its traffic class.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentContents<'a> {
    pub(super) fragment: Fragment,
    pub(super) bytes: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    /// True if the packet is to be copied to the ingress relay.
    pub(super) copied: bool,
    /// Time at which the datagram was first sent, for the packet's timestamp.
    pub(super) sent: Time,
}

/// Writes `flags ‖ plaintext` to the buffer of a packet's coded bytes. Space for the tag remains,
/// so the packet is sealed in place.
fn write_plaintext(coded: &mut [u8], flags: &[u8], plaintext: &Plaintext<'_>) {
    let (to_flags, rest) = coded.split_at_mut(flags.len());
    to_flags.copy_from_slice(flags);
    let head = plaintext.head();
    let (to_head, rest) = rest.split_at_mut(head.len());
    to_head.copy_from_slice(&head);
    let mut at = 0;
    if let Some(dscp) = plaintext.dscp() {
        rest[0] = dscp;
        at = 1;
    }
    rest[at..at + plaintext.datagram.len()].copy_from_slice(plaintext.datagram);
}

/// Returns the longest datagram in one packet whose source packet, copy and repair packets all fit
/// this UDP payload.
const fn datagram_bytes(payload_bytes: usize) -> usize {
    let bytes = payload_bytes.saturating_sub(CODED_BYTES_BESIDE + CODED_OVERHEAD);
    if bytes < FRAGMENT_BYTES_MAX { bytes } else { FRAGMENT_BYTES_MAX }
}

/// Returns the datagram as one whole or as two halves, with the kind of fragment.
pub(super) fn fragments_of(datagram: &[u8], is_fragmented: bool) -> impl Iterator<Item = (Fragment, &[u8])> {
    let middle = if is_fragmented { datagram.len().div_ceil(2) } else { datagram.len() };
    let (first, second) = datagram.split_at(middle);
    let fragment = if is_fragmented { Fragment::First } else { Fragment::Whole };
    [(fragment, first)].into_iter().chain(is_fragmented.then_some((Fragment::Second, second)))
}

impl Agent {
    /// Sends a datagram of an application: in one packet or two, by the length that the path
    /// delivers. Queues it if the receiver is not reachable yet.
    pub(super) fn send(&mut self, id: SendFlowId, outgoing: &OutgoingDatagram<'_>, now: Time) {
        let OutgoingDatagram { datagram, traffic_class, marked, sent_at } = *outgoing;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            self.counters.datagrams_too_long += 1;
            return;
        }
        if self.senders.get(id.0).is_none() {
            self.counters.flows_unknown += 1;
            return;
        }
        if self.queue_if_unreachable(id, outgoing, now) {
            return;
        }
        let flow = &self.senders[id.0 as usize];
        let is_late = now.saturating_since(sent_at) > flow.settings.latency_budget;
        self.counters.datagrams_late += u64::from(is_late);
        let (copied, sequence) = (flow.is_copied(datagram, marked), flow.next);
        let length = traffic_class.dscp_bytes() + datagram.len();
        let is_whole = length <= FRAGMENT_BYTES_BASE || length <= self.fragment_bytes_max(id, now);
        self.send_fragments(id, datagram, !is_whole, traffic_class, copied, now);
        if is_whole && length > FRAGMENT_BYTES_BASE {
            self.remember_long(id, datagram, (traffic_class, copied), sequence, now);
        }
    }

    /// Sends a datagram as one packet or two, and then the envelopes and probes that are due.
    pub(super) fn send_fragments(
        &mut self,
        id: SendFlowId,
        datagram: &[u8],
        is_fragmented: bool,
        traffic_class: TrafficClass,
        copied: bool,
        now: Time,
    ) {
        let before = self.counters.source_packets;
        if is_fragmented {
            for (fragment, bytes) in fragments_of(datagram, true) {
                self.send_fragment(
                    id,
                    &FragmentContents { fragment, bytes, traffic_class, copied, sent: now },
                    now,
                );
            }
        } else {
            let fragment = Fragment::Whole;
            let contents = FragmentContents { fragment, bytes: datagram, traffic_class, copied, sent: now };
            self.send_fragment(id, &contents, now);
        }
        // Both fragments are sent before any envelope or probe.
        let fragments = self.counters.source_packets - before;
        if fragments > 0 && self.sessions.is_probe_near(now) && !self.fits_uplink() {
            let sent = Bytes::from(datagram.len()) + uplink_bytes(SOURCE_OVERHEAD) * fragments;
            self.sessions.probe_behind(sent, now);
        }
        self.send_all_pending_envelopes(now);
        if let Some(relay) = self.uplink_probing.over_capacity.take() {
            self.probe_uplink(relay, now);
        }
    }

    /// Returns the longest datagram that fits one packet of a flow on its primary path, as far as
    /// its MTU is known. The path MTU to the relay does not matter if the flow uses the direct
    /// path.
    fn fragment_bytes_max(&mut self, id: SendFlowId, now: Time) -> usize {
        let session = self.primary_path(id).and_then(|session| self.sessions.get_mut(session));
        session.and_then(|session| session.payload_bytes(now)).map_or(FRAGMENT_BYTES_MAX, datagram_bytes)
    }

    /// Returns the session of a flow's primary path: with its receiver, or with the relay that
    /// delivers its packets.
    pub(super) fn primary_path(&self, id: SendFlowId) -> Option<SessionId> {
        let flow = &self.senders[id.0 as usize];
        if !flow.needs_relay() {
            return Some(flow.peer);
        }
        let path = flow.settings.paths.get(flow.registrations.in_use())?;
        self.relay_indices.get(&path.ingress).map(|index| self.relays[*index].session)
    }

    /// Returns the longest datagram in bytes that a flow sends as one packet. Datagrams in two
    /// fragments are lost more often, and need more bytes.
    ///
    /// Returns `None` before the path MTU is known, and if the flow has sent no datagrams that some
    /// paths cannot deliver whole. Repeated calls also detect an increase.
    #[must_use]
    pub fn datagram_bytes_unfragmented(&mut self, flow: SendFlowId, now: Time) -> Option<usize> {
        self.senders.get(flow.0)?;
        let session = self.primary_path(flow)?;
        self.sessions.get_mut(session)?.settled_payload_bytes(now).map(datagram_bytes)
    }

    /// Marks the session with a flow's receiver as in use. Returns false, and counts the packet as
    /// unsendable, if the session has no keys.
    #[inline]
    fn may_seal(&mut self, id: SendFlowId, now: Time) -> bool {
        let peer = self.senders[id.0 as usize].peer;
        self.sessions.use_session(peer, now);
        if !self.sessions.is_established(peer, now) {
            self.counters.datagrams_unsendable += 1;
            return false;
        }
        if self.senders[id.0 as usize].reports.is_none() {
            self.wake_if_unreported(id, now);
        }
        true
    }

    /// Seals and sends one source packet on the direct path, and its copy to the ingress relay, or
    /// adds it to the FEC block. If the flow needs a relay, only the copy is sent.
    pub(super) fn send_fragment(&mut self, id: SendFlowId, contents: &FragmentContents<'_>, now: Time) {
        let FragmentContents { fragment, bytes, copied, sent, .. } = *contents;
        if !self.may_seal(id, now) {
            return;
        }
        let flow = &mut self.senders[id.0 as usize];
        let (peer, is_sent_to_relay) = (flow.peer, copied && flow.copies_packet(now));
        let traffic_class = self.sessions.supported_traffic_class(peer, contents.traffic_class);
        let coded_bytes = CODED_OVERHEAD + traffic_class.dscp_bytes() + bytes.len();
        let copy_relay = if is_sent_to_relay { self.copy_relay(id, coded_bytes, now) } else { None };
        let is_in_outage = copy_relay.is_some() && self.senders[id.0 as usize].is_in_outage(now);
        let is_narrow = is_in_outage && self.is_too_narrow_for_copies(id);
        // A packet that may be copied, now or later, is sealed in the retransmission buffer.
        let reserved = if copied { self.retransmit_buffer.reserve(coded_bytes, now) } else { None };
        let (packet, coded) = if let Some((packet, reserved)) = reserved {
            (Some(packet), reserved)
        } else {
            self.scratch.resize(coded_bytes, 0);
            (None, self.scratch.as_mut_slice())
        };
        let Some(session) = self.sessions.get_mut(peer) else {
            return;
        };
        let path = session.path.network_path().copied();
        let Some(epoch) = session.sealing(now) else {
            return;
        };
        let flow = &mut self.senders[id.0 as usize];
        let sequence = flow.next_sequence(now);
        let header = SourceHeader {
            receiver: epoch.remote_index(),
            flow: flow.key.flow(),
            sequence_low: sequence.low(),
            flags: Flags::new(epoch.number, fragment).with_dscp_of(traffic_class),
        };
        let mut front = [0; SourceHeader::BYTES];
        header.emit(&mut front);
        let (front, flags) = front.split_at(SourceHeader::CODED_START);
        let plaintext = Plaintext {
            sent: Timestamp::at(sent),
            traffic_class,
            unprotected: flow.unprotected,
            datagram: bytes,
        };
        write_plaintext(coded, flags, &plaintext);
        epoch.seal_source(header.flow, sequence, coded);
        let is_suppressed = is_in_outage && flow.leaves_to_relays(sequence, is_narrow, now);
        let direct_path = path.filter(|_| flow.uses_direct_path(sequence) && !is_suppressed);
        if let Some(path) = direct_path {
            flow.usage.count_direct(front.len() + coded_bytes, &mut self.counters.source_packets);
            let meta = TransmitMeta { ecn: traffic_class.ecn(), ..TransmitMeta::plain(path) };
            self.sessions.outbox.add(meta, |out| {
                out.extend_from_slice(front);
                out.extend_from_slice(coded);
            });
            self.sessions.on_sent(peer, front.len() + coded_bytes, now);
        }
        let (direct, copy) = (front.len() + coded_bytes, coded_bytes + ENVELOPE_OVERHEAD);
        self.note_backlog(peer, direct_path.map(|_| direct), copy_relay.map(|_| copy), now);
        self.note_load(id, front.len() + coded_bytes, coded_bytes, is_sent_to_relay, now);
        self.counters.source_packets_suppressed += u64::from(is_suppressed);
        let is_covered = if let Some((copy_relay, packet)) = copy_relay.zip(packet) {
            let sealed = SealedPacket { sequence, fragment, ecn: traffic_class.ecn(), packet };
            self.send_copy(id, &sealed, copy_relay, now);
            true
        } else {
            !copied && self.add_to_fec_block(id, sequence, now)
        };
        self.record_sent((id, sequence), packet, is_covered, now);
    }

    /// Records a sent packet of a flow for retransmission, and whether its loss can be repaired.
    /// `packet` is its entry in the retransmission buffer, if it has one.
    #[inline]
    fn record_sent(
        &mut self,
        (id, sequence): (SendFlowId, SequenceNumber),
        packet: Option<Handle>,
        is_covered: bool,
        now: Time,
    ) {
        let flow = &mut self.senders[id.0 as usize];
        if let Some(packet) = packet {
            let sent = SentPacket { packet, is_copied: is_covered };
            flow.sent.insert_over(sequence.number(), sent, |sent| {
                self.retransmit_buffer.get(sent.packet, now).is_none()
            });
        }
        let is_protected = is_covered || (packet.is_some() && flow.copies_on_loss_only());
        flow.unprotected = flow.unprotected.then(is_protected);
    }

    /// Returns the relay, by its index, that gets a copy of the flow's current packet, and its
    /// alias for the flow. `None` if the copy is suppressed.
    ///
    /// A copy is suppressed if it does harm or no good. Packets without another path are not
    /// suppressed, because the application slows down by itself when packets are lost.
    fn copy_relay(&mut self, id: SendFlowId, coded_bytes: usize, now: Time) -> Option<(usize, Alias)> {
        let flow = &self.senders[id.0 as usize];
        let path = flow.settings.paths.get(flow.registrations.in_use())?;
        let index = *self.relay_indices.get(&path.ingress)?;
        let alias = flow.registrations.alias()?;
        let is_metered = self.sessions.is_metered(self.relays[index].session);
        let relay = &mut self.relays[index];
        let load = self.uplink.load.measured();
        // In an outage, lost source packets leave their share of the uplink to copies.
        let fits = relay.capacity_probe.sustains(load.with_extras) || !flow.copies_all();
        let is_spared = is_metered && flow.copies_all() && !flow.has_lost(now);
        let is_sustained = (fits && !is_spared) || flow.is_in_outage(now);
        if !is_sustained && relay.capacity_probe.may_probe(now) {
            self.uplink_probing.over_capacity = Some(index);
        }
        // On a narrow or metered uplink, every flow waits for losses.
        let may_copy = is_sustained || flow.has_lost(now);
        if may_copy {
            // Probing continues while copies are suppressed, because only probes show when they may
            // be sent again.
            self.sessions.use_session(relay.session, now);
        }
        let is_accepted = if relay.pending.len() == PENDING_COPIES_MAX {
            false
        } else if flow.needs_relay() || flow.is_left_to_relays() {
            !relay.is_dead
        } else if !fits && is_sustained {
            // Copies replace the source packets, so they add no load that a circuit breaker ends.
            relay.is_free() && flow.registrations.is_accepted(flow.registrations.in_use())
        } else {
            let forwards = flow.registrations.is_accepted(flow.registrations.in_use());
            let bytes = uplink_bytes(coded_bytes + ENVELOPE_OVERHEAD);
            // The service `both` sends every packet on both paths: only a queue suppresses copies
            // then, losses do not.
            let accepts_copies = if uses_both_paths(flow.service()) {
                relay.is_free() && (is_sustained || (!is_spared && relay.capacity_probe.capacity().is_none()))
            } else {
                relay.accepts_copies(now) && is_sustained
            };
            let mut admits_spare = || {
                may_copy
                    && relay.accepts_copies(now)
                    && relay.admit_spare_copy(bytes, load.source_packets, now)
            };
            forwards && (accepts_copies || admits_spare())
        };
        let session = relay.session;
        if !is_accepted || !self.fits_path(session, coded_bytes + ENVELOPE_OVERHEAD, now) {
            self.counters.copies_suppressed += 1;
            return None;
        }
        Some((index, alias))
    }

    /// Returns true if the path to a relay delivers a UDP payload of this length, as far as is
    /// known.
    pub(super) fn fits_path(&mut self, session: SessionId, payload_bytes: usize, now: Time) -> bool {
        self.sessions.get_mut(session).is_none_or(|session| session.fits_path_mtu(payload_bytes, now))
    }

    /// Sends a copy of the packet that was just sealed to the ingress relay, or queues it behind
    /// source packets and other envelopes.
    fn send_copy(
        &mut self,
        id: SendFlowId,
        sealed: &SealedPacket,
        (index, alias): (usize, Alias),
        now: Time,
    ) {
        let SealedPacket { sequence, fragment, ecn, packet } = *sealed;
        let flow = &self.senders[id.0 as usize];
        let Some(coded) = self.retransmit_buffer.get(packet, now) else {
            return;
        };
        // If relays are the flow's primary path, ECN marks on it belong to the flow. Otherwise
        // nobody would react to them (RFC 6040, section 4.1, compatibility mode).
        let needs_relay = flow.needs_relay();
        let (priority, ecn) =
            if needs_relay { (Priority::Source, ecn) } else { (Priority::Scavenger, Ecn::NotCapable) };
        let relay = &mut self.relays[index];
        let (role, bytes) = (EnvelopeRole::Copy, coded.len() + ENVELOPE_OVERHEAD);
        // Both fragments of a datagram are sent before any copy.
        let more_follows = fragment == Fragment::First;
        if more_follows || !relay.pending.is_empty() || relay.earliest_send(bytes, now) > now {
            relay.pending.push_back(PendingEnvelope { role, alias, sequence, packet, ecn, priority });
            return;
        }
        relay.on_sent(bytes, now);
        let flow = &mut self.senders[id.0 as usize];
        flow.usage.add_to_relays(bytes, flow.service());
        self.counters.copies += 1;
        let contents =
            EnvelopeContents { role, alias, sequence_low: sequence.low(), coded, ecn, owner: None };
        self.sessions.send_envelope(relay.session, &contents, priority, now);
        self.sessions.on_sent(relay.session, bytes, now);
    }

    /// Queues an envelope with a stored packet for a relay, and sends it if the pacer allows.
    /// Suppresses it if the queue is full, or if it exceeds the path MTU.
    pub(super) fn queue_envelope(
        &mut self,
        session: SessionId,
        role: EnvelopeRole,
        alias: Alias,
        sequence: SequenceNumber,
        packet: Handle,
        now: Time,
    ) {
        let Some(index) = self.relays.iter().position(|relay| relay.session == session) else {
            return;
        };
        let fits_mtu = self.fits_path(session, packet.bytes() + ENVELOPE_OVERHEAD, now);
        let relay = &mut self.relays[index];
        if relay.pending.len() == PENDING_COPIES_MAX || !fits_mtu {
            self.counters.copies_suppressed += 1;
            return;
        }
        let (ecn, priority) = (Ecn::NotCapable, Priority::Scavenger);
        relay.pending.push_back(PendingEnvelope { role, alias, sequence, packet, ecn, priority });
        self.send_pending_envelopes(index, now);
    }

    /// Sends the pending envelopes to a relay, by its index, that the pacer allows now.
    fn send_pending_envelopes(&mut self, index: usize, now: Time) {
        while let Some(envelope) = self.relays[index].pending.front().copied() {
            let bytes = envelope.packet.bytes() + ENVELOPE_OVERHEAD;
            if self.relays[index].earliest_send(bytes, now) > now {
                return;
            }
            self.relays[index].pending.pop_front();
            let buffer = if envelope.role == EnvelopeRole::CooperativeAnswer {
                &self.cooperation_buffer
            } else {
                &self.retransmit_buffer
            };
            let Some(coded) = buffer.get(envelope.packet, now) else {
                continue;
            };
            self.counters.copies += u64::from(envelope.role == EnvelopeRole::Copy);
            self.counters.copies_resent += u64::from(envelope.role == EnvelopeRole::ResentCopy);
            let relay = &mut self.relays[index];
            relay.on_sent(bytes, now);
            let PendingEnvelope { role, alias, sequence, ecn, priority, .. } = envelope;
            if let Some(Flow::Sent(id)) = relay.flow(alias)
                && let Some(flow) = self.senders.get_mut(id.0)
            {
                flow.usage.add_to_relays(bytes, flow.service());
            }
            if role == EnvelopeRole::ResentCopy {
                self.sessions.watch_session(relay.session, now);
            } else {
                self.sessions.use_session(relay.session, now);
            }
            let contents =
                EnvelopeContents { role, alias, sequence_low: sequence.low(), coded, ecn, owner: None };
            self.sessions.send_envelope(relay.session, &contents, priority, now);
            self.sessions.on_sent(relay.session, bytes, now);
        }
    }

    /// Sends the pending envelopes to all relays that their pacers allow now.
    pub(super) fn send_all_pending_envelopes(&mut self, now: Time) {
        for index in 0..self.relays.len() {
            self.send_pending_envelopes(index, now);
        }
    }

    /// Returns the time at which the pacer of any relay allows the next pending envelope.
    pub(super) fn next_envelope_at(&self, now: Time) -> Option<Time> {
        let times = self.relays.iter().filter_map(|relay| {
            let envelope = relay.pending.front()?;
            Some(relay.earliest_send(envelope.packet.bytes() + ENVELOPE_OVERHEAD, now))
        });
        times.min()
    }
}
