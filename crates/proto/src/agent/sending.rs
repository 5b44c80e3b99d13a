//! What applications send: originals at once, copies behind them.

use byway_units::{Bytes, Time};
use byway_wire::packets::{EnvelopeRole, SOURCE_OVERHEAD, SourceHeader};
use byway_wire::{
    Alias, CODED_OVERHEAD, Ecn, Flags, Piece, Plaintext, SequenceNumber, Timestamp, TrafficClass,
};

use super::Agent;
use super::relay_link::WaitingCopy;
use super::send_flow::{SendFlow, SendFlowId, SentPacket};
use super::waiting::Outgoing;
use super::weighing::on_the_line;
use crate::limits::{
    CODED_BYTES_BESIDE, DATAGRAM_BYTES_MAX, ENVELOPE_OVERHEAD, PIECE_BYTES_BASE, PIECE_BYTES_MAX,
    WAITING_COPIES_MAX,
};
use crate::outbox::{Heading, Urgency};
use crate::parts::packet_log::Handle;
use crate::policy::takes_two_ways;
use crate::session::{Enveloped, SessionId};

/// A packet that was sealed where copies are kept.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    sequence: SequenceNumber,
    piece: Piece,
    ecn: Ecn,
    packet: Handle,
}

/// What a source packet carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contents<'a> {
    pub(super) piece: Piece,
    pub(super) bytes: &'a [u8],
    pub(super) traffic_class: TrafficClass,
    pub(super) copied: bool,
    /// Time at which the application's datagram was sent first.
    pub(super) sent: Time,
}

/// Writes `flags ‖ plaintext` to where they are sealed, in front of the room for the tag.
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

/// The longest datagram of which all packets have room in this payload of UDP.
const fn datagram_bytes(payload_bytes: usize) -> usize {
    let bytes = payload_bytes.saturating_sub(CODED_BYTES_BESIDE + CODED_OVERHEAD);
    if bytes < PIECE_BYTES_MAX { bytes } else { PIECE_BYTES_MAX }
}

/// Returns the pieces of a datagram.
pub(super) fn pieces_of(datagram: &[u8], in_two_pieces: bool) -> impl Iterator<Item = (Piece, &[u8])> {
    let middle = if in_two_pieces { datagram.len().div_ceil(2) } else { datagram.len() };
    let (first, second) = datagram.split_at(middle);
    let piece = if in_two_pieces { Piece::First } else { Piece::Whole };
    [(piece, first)].into_iter().chain(in_two_pieces.then_some((Piece::Second, second)))
}

impl Agent {
    /// Sends a datagram of an application.
    pub(super) fn send(&mut self, id: SendFlowId, outgoing: &Outgoing<'_>, now: Time) {
        let Outgoing { datagram, traffic_class, marked, came } = *outgoing;
        if datagram.len() > DATAGRAM_BYTES_MAX {
            self.counters.datagrams_too_long += 1;
            return;
        }
        if self.senders.get(id.0).is_none() {
            self.counters.flows_unknown += 1;
            return;
        }
        if self.waits(id, outgoing, now) {
            return;
        }
        let flow = &self.senders[id.0 as usize];
        let is_late = now.saturating_since(came) > flow.settings.latency_budget;
        self.counters.datagrams_late += u64::from(is_late);
        let (copied, sequence) = (flow.is_copied(datagram, marked), flow.next);
        let length = traffic_class.dscp_bytes() + datagram.len();
        let is_whole = length <= PIECE_BYTES_BASE || length <= self.piece_bytes_max(id, now);
        self.send_pieces(id, datagram, !is_whole, traffic_class, copied, now);
        if is_whole && length > PIECE_BYTES_BASE {
            self.remember_long(id, datagram, (traffic_class, copied), sequence, now);
        }
    }

    /// Sends a datagram as one packet or two, and behind it the envelopes and probes that wait.
    pub(super) fn send_pieces(
        &mut self,
        id: SendFlowId,
        datagram: &[u8],
        in_two_pieces: bool,
        traffic_class: TrafficClass,
        copied: bool,
        now: Time,
    ) {
        let before = self.counters.originals;
        if in_two_pieces {
            for (piece, bytes) in pieces_of(datagram, true) {
                self.send_piece(id, &Contents { piece, bytes, traffic_class, copied, sent: now }, now);
            }
        } else {
            let piece = Piece::Whole;
            let contents = Contents { piece, bytes: datagram, traffic_class, copied, sent: now };
            self.send_piece(id, &contents, now);
        }
        // Both pieces go before anything else.
        let pieces = self.counters.originals - before;
        if pieces > 0 && self.sessions.is_probe_near(now) && !self.has_room() {
            let sent = Bytes::from(datagram.len()) + on_the_line(SOURCE_OVERHEAD) * pieces;
            self.sessions.probe_behind(sent, now);
        }
        self.send_waiting_copies(now);
        if let Some(place) = self.unborne.take() {
            self.weigh(place, now);
        }
    }

    /// The longest datagram that goes as one packet of a flow: by the direct path, if it takes that, whatever the way to the relay carries.
    fn piece_bytes_max(&mut self, id: SendFlowId, now: Time) -> usize {
        let way = self.main_way(id).and_then(|session| self.sessions.get_mut(session));
        way.and_then(|session| session.payload_bytes(now)).map_or(PIECE_BYTES_MAX, datagram_bytes)
    }

    /// The session by which a flow's packets go: with its peer, or with the relay that delivers to it.
    pub(super) fn main_way(&self, id: SendFlowId) -> Option<SessionId> {
        let flow = &self.senders[id.0 as usize];
        if !flow.needs_relay() {
            return Some(flow.peer);
        }
        let path = flow.settings.paths.get(flow.registrations.in_use())?;
        self.relay_places.get(&path.ingress).map(|place| self.relays[*place].session)
    }

    /// The longest datagram that a flow sends as one packet, once that was found out: what goes in two pieces is lost more often, and
    /// takes more. `None` before, and if no datagrams were sent that some paths do not carry. Asked again and again, it also notices a path that
    /// carries more than before.
    #[must_use]
    pub fn datagram_bytes_whole(&mut self, flow: SendFlowId, now: Time) -> Option<usize> {
        self.senders.get(flow.0)?;
        let session = self.main_way(flow)?;
        self.sessions.get_mut(session)?.settled_payload_bytes(now).map(datagram_bytes)
    }

    /// Uses the session by which a flow's packets are sealed; false if there is none, which is counted.
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

    pub(super) fn send_piece(&mut self, id: SendFlowId, contents: &Contents<'_>, now: Time) {
        let Contents { piece, bytes, copied, sent, .. } = *contents;
        if !self.may_seal(id, now) {
            return;
        }
        let peer = self.senders[id.0 as usize].peer;
        let traffic_class = self.sessions.carried_class(peer, contents.traffic_class);
        let coded_bytes = CODED_OVERHEAD + traffic_class.dscp_bytes() + bytes.len();
        let way = if copied { self.way_of_copies(id, coded_bytes, now) } else { None };
        let is_crowded = self.senders[id.0 as usize].is_dark(now) && !self.has_room();
        // What is copied is sealed where it is kept; so is what may be copied when the direct path falls silent.
        let room = if copied { self.sent.reserve(coded_bytes, now) } else { None };
        let (packet, coded) = if let Some((packet, room)) = room {
            (Some(packet), room)
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
        let sequence = flow.take_number(now);
        let header = SourceHeader {
            receiver: epoch.theirs(),
            flow: flow.key.flow(),
            sequence_low: sequence.low(),
            flags: Flags::new(epoch.number, piece).with_dscp_of(traffic_class),
        };
        let mut front = [0; SourceHeader::BYTES];
        header.emit(&mut front);
        let (front, flags) = front.split_at(SourceHeader::CODED_START);
        let plaintext =
            Plaintext { sent: Timestamp::at(sent), traffic_class, uncopied: flow.uncopied, datagram: bytes };
        write_plaintext(coded, flags, &plaintext);
        epoch.seal_source(header.flow, sequence, coded);
        let yields = is_crowded && way.is_some() && !SendFlow::probes_dark_path(sequence);
        if !flow.needs_relay()
            && !yields
            && let Some(path) = path
        {
            self.counters.originals += 1;
            let heading = Heading { ecn: traffic_class.ecn(), ..Heading::plain(path) };
            self.sessions.outbox.add(heading, |out| {
                out.extend_from_slice(front);
                out.extend_from_slice(coded);
            });
            self.sessions.on_sent(peer, front.len() + coded_bytes, now);
        }
        self.note_load(id, front.len() + coded_bytes, coded_bytes, copied, now);
        self.counters.originals_withheld += u64::from(yields);
        let is_covered = match way.zip(packet) {
            Some((way, packet)) => {
                let ecn = traffic_class.ecn();
                self.copy(id, &Sealed { sequence, piece, ecn, packet }, way, now);
                true
            }
            None => !copied && self.add_to_own_block(id, sequence, now),
        };
        let flow = &mut self.senders[id.0 as usize];
        if let Some(packet) = packet {
            let sent = SentPacket { packet, is_copied: is_covered };
            flow.sent.insert_over(sequence.number(), sent, |sent| self.sent.get(sent.packet, now).is_none());
        }
        flow.uncopied = flow.uncopied.then(is_covered);
    }

    /// The relay that gets a copy of what the flow sends now, by its place, and what it calls the flow.
    ///
    /// A copy is held back where it does harm or no good. What has no other way is not: it is as much as the application
    /// sends, which slows down by itself when packets are lost.
    fn way_of_copies(&mut self, id: SendFlowId, coded_bytes: usize, now: Time) -> Option<(usize, Alias)> {
        let flow = &self.senders[id.0 as usize];
        let path = flow.settings.paths.get(flow.registrations.in_use())?;
        let place = *self.relay_places.get(&path.ingress)?;
        let alias = flow.registrations.alias()?;
        let relay = &mut self.relays[place];
        let load = self.load.measured();
        // What a dark path loses leaves its part of the uplink to copies.
        let is_borne = relay.scale.bears(load.with_extras) || !flow.copies_all() || flow.is_dark(now);
        if !is_borne && relay.scale.may_weigh(now) {
            self.unborne = Some(place);
        }
        // By a narrow line every flow waits for losses.
        let is_awake = flow.is_awake(now) && (is_borne || flow.has_lost(now));
        if is_awake {
            // Also while copies are held back: only probes show when they may go on.
            self.sessions.use_session(relay.session, now);
        }
        let is_taken = if relay.waiting.len() == WAITING_COPIES_MAX {
            false
        } else if flow.needs_relay() {
            !relay.is_dead
        } else {
            let passes_on = flow.registrations.is_accepted(flow.registrations.in_use());
            let bytes = on_the_line(coded_bytes + ENVELOPE_OVERHEAD);
            // On both ways is what was asked for: losses hold nothing back then, only a queue does.
            let takes_copies = if takes_two_ways(flow.service()) {
                let is_free = !relay.is_dead && !relay.is_queueing();
                flow.is_awake(now) && is_free && (is_borne || relay.scale.carries().is_none())
            } else {
                is_awake && relay.takes_copies(now) && is_borne
            };
            let mut takes_spare =
                || is_awake && relay.takes_copies(now) && relay.takes_spare(bytes, load.originals, now);
            passes_on && (takes_copies || takes_spare())
        };
        let session = relay.session;
        if !is_taken || !self.may_carry(session, coded_bytes + ENVELOPE_OVERHEAD, now) {
            self.counters.copies_held += 1;
            return None;
        }
        Some((place, alias))
    }

    /// Whether the way to a relay carries such a payload of UDP, as far as is known.
    pub(super) fn may_carry(&mut self, session: SessionId, payload_bytes: usize, now: Time) -> bool {
        self.sessions.get_mut(session).is_none_or(|session| session.may_carry(payload_bytes, now))
    }

    /// Sends a copy of what was just sealed to the ingress relay, or lets it wait its turn.
    fn copy(&mut self, id: SendFlowId, sealed: &Sealed, (place, alias): (usize, Alias), now: Time) {
        let Sealed { sequence, piece, ecn, packet } = *sealed;
        let flow = &self.senders[id.0 as usize];
        let Some(coded) = self.sent.get(packet, now) else {
            return;
        };
        // Where the overlay is the flow's way, marks on it are the flow's; else nobody would answer them (RFC 6040,
        // section 4.1, compatibility mode).
        let needs_relay = flow.needs_relay();
        let (urgency, ecn) =
            if needs_relay { (Urgency::Original, ecn) } else { (Urgency::Scavenger, Ecn::NotCapable) };
        let relay = &mut self.relays[place];
        let (role, bytes) = (EnvelopeRole::Copy, coded.len() + ENVELOPE_OVERHEAD);
        // Of a datagram in two pieces, both go before any copy.
        let more_follows = piece == Piece::First;
        if more_follows || !relay.waiting.is_empty() || relay.when(bytes, now) > now {
            relay.waiting.push_back(WaitingCopy { role, alias, sequence, packet, ecn, urgency });
            return;
        }
        relay.sent(bytes, now);
        self.counters.copies += 1;
        let contents = Enveloped { role, alias, sequence_low: sequence.low(), coded, ecn, owner: None };
        self.sessions.send_envelope(relay.session, &contents, urgency, now);
        self.sessions.on_sent(relay.session, bytes, now);
    }

    /// Queues an envelope behind the originals.
    pub(super) fn send_behind(
        &mut self,
        session: SessionId,
        role: EnvelopeRole,
        alias: Alias,
        sequence: SequenceNumber,
        packet: Handle,
        now: Time,
    ) {
        let Some(place) = self.relays.iter().position(|relay| relay.session == session) else {
            return;
        };
        let is_carried = self.may_carry(session, packet.bytes() + ENVELOPE_OVERHEAD, now);
        let relay = &mut self.relays[place];
        if relay.waiting.len() == WAITING_COPIES_MAX || !is_carried {
            self.counters.copies_held += 1;
            return;
        }
        let (ecn, urgency) = (Ecn::NotCapable, Urgency::Scavenger);
        relay.waiting.push_back(WaitingCopy { role, alias, sequence, packet, ecn, urgency });
        self.send_waiting(place, now);
    }

    /// Sends the envelopes to a relay whose turn has come.
    fn send_waiting(&mut self, place: usize, now: Time) {
        while let Some(waiting) = self.relays[place].waiting.front().copied() {
            let bytes = waiting.packet.bytes() + ENVELOPE_OVERHEAD;
            if self.relays[place].when(bytes, now) > now {
                return;
            }
            self.relays[place].waiting.pop_front();
            let log = if waiting.role == EnvelopeRole::CooperativeAnswer { &self.kept } else { &self.sent };
            let Some(coded) = log.get(waiting.packet, now) else {
                continue;
            };
            self.counters.copies += u64::from(waiting.role == EnvelopeRole::Copy);
            self.counters.copies_resent += u64::from(waiting.role == EnvelopeRole::ResentCopy);
            let relay = &mut self.relays[place];
            relay.sent(bytes, now);
            let WaitingCopy { role, alias, sequence, ecn, urgency, .. } = waiting;
            self.sessions.use_session(relay.session, now);
            let contents = Enveloped { role, alias, sequence_low: sequence.low(), coded, ecn, owner: None };
            self.sessions.send_envelope(relay.session, &contents, urgency, now);
            self.sessions.on_sent(relay.session, bytes, now);
        }
    }

    pub(super) fn send_waiting_copies(&mut self, now: Time) {
        for place in 0..self.relays.len() {
            self.send_waiting(place, now);
        }
    }

    /// When the next envelope's turn comes.
    pub(super) fn next_copy(&self, now: Time) -> Option<Time> {
        let times = self.relays.iter().filter_map(|relay| {
            let waiting = relay.waiting.front()?;
            Some(relay.when(waiting.packet.bytes() + ENVELOPE_OVERHEAD, now))
        });
        times.min()
    }
}
