//! Receiving of datagrams: parsing, authentication, and hand-over to the role.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::packets::{
    Envelope, EnvelopeHeader, MESSAGE_OVERHEAD, MessagePacket, SourcePacket, TransitPacket,
};
use byway_wire::seal::{ReceivedInitiation, ReplayError};
use byway_wire::{Packet, ParseError, SessionIndex};

use super::epoch::Epoch;
use super::handshake::Route;
use super::session::{EPOCHS_MAX, Session};
use super::{RejectReason, SessionId, Sessions};
use crate::index_table::IndexTable;
use crate::limits::PAYLOAD_BYTES_BASE;

/// Authenticated contents of a received datagram, for the role.
#[derive(Debug)]
pub(crate) enum Inbound<'a> {
    /// The sessions have handled or dropped the datagram.
    Nothing,
    /// An initiation of an unknown peer. The role may add the peer and accept the initiation.
    Stranger { initiation: ReceivedInitiation, origin: Route },
    /// An initiation of a known peer, for the role to accept.
    Initiation { session: SessionId, initiation: ReceivedInitiation, origin: Route },
    /// Encoded messages in the response to an initiation of this side.
    Response { session: SessionId, messages: Vec<u8> },
    /// Encoded messages of a message packet.
    Messages { session: SessionId, messages: &'a mut [u8] },
    /// Envelope whose hop tag is valid. `datagram` is the whole datagram, with the coded bytes from
    /// byte 16 on.
    Envelope { session: SessionId, header: EnvelopeHeader, datagram: &'a mut [u8] },
    /// Source packet of a session; the role opens it.
    Source { session: SessionId, packet: SourcePacket<&'a mut [u8]> },
    /// Packet between relays that goes through a third one. The role passes it on, or opens it.
    Transit { packet: TransitPacket<&'a mut [u8]> },
}

impl Inbound<'_> {
    /// Returns the session to which the datagram belongs; `None` if there is none.
    pub(crate) const fn session(&self) -> Option<SessionId> {
        match self {
            Self::Nothing | Self::Stranger { .. } | Self::Transit { .. } => None,
            Self::Initiation { session, .. }
            | Self::Response { session, .. }
            | Self::Messages { session, .. }
            | Self::Envelope { session, .. }
            | Self::Source { session, .. } => Some(*session),
        }
    }
}

impl Sessions {
    /// Handles a datagram from an address or through a relay: parses and authenticates it. Returns
    /// the contents that the role has to handle.
    pub(crate) fn receive_from<'a>(
        &mut self,
        datagram: &'a mut [u8],
        origin: Route,
        now: Time,
    ) -> Inbound<'a> {
        let bytes = datagram.len();
        match Packet::parse(datagram) {
            Ok(Packet::Initiation(packet)) => self.on_initiation(packet, origin, now),
            Ok(Packet::Response(packet)) => self.on_response(packet, origin, now),
            Ok(Packet::Cookie(packet)) => self.on_cookie(packet, origin, now),
            Ok(Packet::Source(packet)) => self.on_source_packet(packet, bytes),
            Ok(Packet::Message(packet)) => self.on_message_packet(packet, origin, now),
            Ok(Packet::Envelope(packet)) => self.on_envelope(packet, origin, now),
            Ok(Packet::Transit(packet)) => Inbound::Transit { packet },
            Err(ParseError::UnknownKind { .. }) => {
                self.counters.unknown_kinds += 1;
                Inbound::Nothing
            }
            Err(_) => {
                self.counters.malformed += 1;
                Inbound::Nothing
            }
        }
    }

    /// Counts a received packet by its length, for the peer's length checks. Source packets count
    /// before they are opened, because one that was repaired before is never opened. A forger can
    /// only make the path look unchanged.
    fn count_length(&mut self, id: SessionId, bytes: usize) {
        if let Some(session) = self.get_mut(id) {
            session.count_length(bytes);
        }
    }

    fn on_source_packet<'a>(&mut self, packet: SourcePacket<&'a mut [u8]>, bytes: usize) -> Inbound<'a> {
        if let Some(session) = self.by_index.get(packet.header().receiver).map(SessionId) {
            if bytes > PAYLOAD_BYTES_BASE {
                self.count_length(session, bytes);
            }
            return Inbound::Source { session, packet };
        }
        self.counters.unknown_index += 1;
        Inbound::Nothing
    }

    fn on_message_packet<'a>(
        &mut self,
        packet: MessagePacket<&'a mut [u8]>,
        origin: Route,
        now: Time,
    ) -> Inbound<'a> {
        let header = *packet.header();
        let Some((id, epoch)) = opening_epoch(&self.by_index, &mut self.slots, header.receiver, origin, now)
        else {
            self.counters.unknown_index += 1;
            return Inbound::Nothing;
        };
        match epoch.open_messages(packet) {
            Ok((messages, newest)) => {
                let bytes = MESSAGE_OVERHEAD + messages.len();
                self.on_authenticated(id, header.receiver, origin, bytes, newest, now);
                self.count_length(id, bytes);
                Inbound::Messages { session: id, messages }
            }
            Err(rejected) => {
                self.count_rejected(rejected);
                Inbound::Nothing
            }
        }
    }

    fn on_envelope<'a>(&mut self, packet: Envelope<&'a mut [u8]>, origin: Route, now: Time) -> Inbound<'a> {
        let header = *packet.header();
        let Some((id, epoch)) = opening_epoch(&self.by_index, &mut self.slots, header.receiver, origin, now)
        else {
            self.counters.unknown_index += 1;
            return Inbound::Nothing;
        };
        match epoch.verify_envelope(&packet) {
            Ok(newest) => {
                let datagram = packet.into_bytes();
                self.on_authenticated(id, header.receiver, origin, datagram.len(), newest, now);
                self.count_length(id, datagram.len());
                Inbound::Envelope { session: id, header, datagram }
            }
            Err(rejected) => {
                self.count_rejected(rejected);
                Inbound::Nothing
            }
        }
    }

    /// Records an authenticated packet of this index: confirms its epoch, marks its peer as alive,
    /// and makes a new address a candidate. `newest` is true if no later packet arrived before.
    pub(crate) fn on_authenticated(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        origin: Route,
        bytes: usize,
        newest: bool,
        now: Time,
    ) {
        self.on_epoch_used(id, index, Some(origin), now);
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        session.probes.on_packet();
        session.last_received = now;
        if let Route::Direct(from) = origin
            && session.is_doubtful
            && session.path.address() == Some(&from.remote)
        {
            session.is_doubtful = false;
            self.note_direct_path(id);
        }
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        match origin {
            Route::Direct(from) if newest => {
                let random = &mut self.random;
                if session.path.on_packet(from, bytes, now, || random.bytes()) {
                    self.arm(id);
                }
            }
            // Uses the path that works for the peer.
            Route::ViaRelay(via_relay) if newest => session.via_relay = Some(via_relay),
            Route::Direct(_) | Route::ViaRelay(_) | Route::Transit => {}
        }
    }

    /// Records that a packet was opened under the epoch with this index, on any path. If the epoch
    /// is not confirmed, that confirms it, because the peer has the keys.
    pub(crate) fn on_epoch_used(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        origin: Option<Route>,
        now: Time,
    ) {
        let is_unconfirmed = self.get(id).is_some_and(|session| session.answered_initiation.is_some());
        if is_unconfirmed && let Some(fresh) = self.confirm_epoch(id, index, origin, now) {
            self.on_established(id, fresh);
        }
    }

    /// Returns the session indices of the epochs whose numbers end in these two bits and that may
    /// open packets.
    pub(crate) fn epochs_by_bits(
        &self,
        id: SessionId,
        bits: u8,
        now: Time,
    ) -> ArrayVec<SessionIndex, { EPOCHS_MAX + 1 }> {
        self.get(id).map(|session| session.indices_by_bits(bits, now)).unwrap_or_default()
    }

    /// Counts a packet that was rejected as a replay, as too old, or as forged.
    pub(crate) fn count_rejected(&mut self, rejected: RejectReason) {
        let counter = match rejected {
            RejectReason::Replay(ReplayError::Replayed { .. }) => &mut self.counters.replayed,
            RejectReason::Replay(ReplayError::TooOld { .. }) => &mut self.counters.too_old,
            RejectReason::Forged(_) => &mut self.counters.forged,
        };
        *counter += 1;
    }
}

/// Returns the epoch that opens packets with this session index, and its session; `None` if it is
/// unknown, expired, or may not arrive on this route.
#[inline]
pub(super) fn opening_epoch<'a>(
    by_index: &IndexTable<SessionIndex>,
    slots: &'a mut [Option<Session>],
    index: SessionIndex,
    origin: Route,
    now: Time,
) -> Option<(SessionId, &'a mut Epoch)> {
    let id = SessionId(by_index.get(index)?);
    let session = slots[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
    if !session.accepts_from(origin) {
        return None;
    }
    session.by_index(index).filter(|epoch| epoch.may_open(now)).map(|epoch| (id, epoch))
}
