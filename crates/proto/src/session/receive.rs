//! Datagrams come in, authenticated packets go up.

use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::packets::{Envelope, EnvelopeHeader, MESSAGE_OVERHEAD, MessagePacket, SourcePacket};
use byway_wire::seal::{ReceivedInitiation, Refused};
use byway_wire::{Packet, ParseError, SessionIndex};

use super::epoch::Epoch;
use super::handshake::Origin;
use super::session::{EPOCHS_MAX, Session};
use super::{Rejected, SessionId, Sessions};
use crate::index_table::IndexTable;
use crate::limits::PAYLOAD_BYTES_BASE;

/// What a datagram was.
#[derive(Debug)]
pub(crate) enum Received<'a> {
    /// Nothing that is the role's business.
    Nothing,
    /// An initiation of a peer that is not known. The role adds it and accepts, or does nothing.
    Stranger { initiation: ReceivedInitiation, origin: Origin },
    /// An initiation of a known peer, to be accepted.
    Initiation { session: SessionId, initiation: ReceivedInitiation, origin: Origin },
    /// The messages of a response.
    Response { session: SessionId, messages: Vec<u8> },
    /// Messages, authenticated.
    Messages { session: SessionId, messages: &'a mut [u8] },
    /// An envelope whose hop tag is right; all of the datagram, of which the coded bytes begin at byte 16.
    Envelope { session: SessionId, header: EnvelopeHeader, datagram: &'a mut [u8] },
    /// A source packet, not opened yet.
    Source { session: SessionId, packet: SourcePacket<&'a mut [u8]> },
}

impl Received<'_> {
    /// The session that the packet belongs to.
    pub(crate) const fn session(&self) -> Option<SessionId> {
        match self {
            Self::Nothing | Self::Stranger { .. } => None,
            Self::Initiation { session, .. }
            | Self::Response { session, .. }
            | Self::Messages { session, .. }
            | Self::Envelope { session, .. }
            | Self::Source { session, .. } => Some(*session),
        }
    }
}

impl Sessions {
    /// Takes a packet from an address or out of a relay's hands.
    pub(crate) fn receive_from<'a>(
        &mut self,
        datagram: &'a mut [u8],
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let bytes = datagram.len();
        match Packet::parse(datagram) {
            Ok(Packet::Initiation(packet)) => self.initiation(packet, origin, now),
            Ok(Packet::Response(packet)) => self.response(packet, origin, now),
            Ok(Packet::Cookie(packet)) => self.cookie(packet, origin, now),
            Ok(Packet::Source(packet)) => self.source(packet, bytes),
            Ok(Packet::Message(packet)) => self.messages(packet, origin, now),
            Ok(Packet::Envelope(packet)) => self.enveloped(packet, origin, now),
            Err(ParseError::UnknownKind { .. }) => {
                self.counters.unknown_kinds += 1;
                Received::Nothing
            }
            Err(_) => {
                self.counters.malformed += 1;
                Received::Nothing
            }
        }
    }

    /// Counts a long packet, before it is opened: one that was repaired by another way before is not opened at all. Who
    /// forges some makes a path look as it is taken to be.
    fn count_length(&mut self, id: SessionId, bytes: usize) {
        if let Some(session) = self.get_mut(id) {
            session.count_length(bytes);
        }
    }

    fn source<'a>(&mut self, packet: SourcePacket<&'a mut [u8]>, bytes: usize) -> Received<'a> {
        if let Some(session) = self.by_index.get(packet.header().receiver).map(SessionId) {
            if bytes > PAYLOAD_BYTES_BASE {
                self.count_length(session, bytes);
            }
            return Received::Source { session, packet };
        }
        self.counters.unknown_index += 1;
        Received::Nothing
    }

    fn messages<'a>(
        &mut self,
        packet: MessagePacket<&'a mut [u8]>,
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let header = *packet.header();
        let Some((id, epoch)) = opener(&self.by_index, &mut self.slots, header.receiver, origin, now) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        match epoch.open_messages(packet) {
            Ok((messages, newest)) => {
                let bytes = MESSAGE_OVERHEAD + messages.len();
                self.authenticated(id, header.receiver, origin, bytes, newest, now);
                self.count_length(id, bytes);
                Received::Messages { session: id, messages }
            }
            Err(rejected) => {
                self.reject(rejected);
                Received::Nothing
            }
        }
    }

    fn enveloped<'a>(&mut self, packet: Envelope<&'a mut [u8]>, origin: Origin, now: Time) -> Received<'a> {
        let header = *packet.header();
        let Some((id, epoch)) = opener(&self.by_index, &mut self.slots, header.receiver, origin, now) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        match epoch.verify_envelope(&packet) {
            Ok(newest) => {
                let datagram = packet.into_bytes();
                self.authenticated(id, header.receiver, origin, datagram.len(), newest, now);
                self.count_length(id, datagram.len());
                Received::Envelope { session: id, header, datagram }
            }
            Err(rejected) => {
                self.reject(rejected);
                Received::Nothing
            }
        }
    }

    /// Notes an authenticated packet: its epoch is confirmed, its peer is there, and maybe at another address.
    pub(crate) fn authenticated(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        origin: Origin,
        bytes: usize,
        newest: bool,
        now: Time,
    ) {
        self.confirmed(id, index, Some(origin), now);
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        session.probes.heard();
        session.heard = now;
        if let Origin::Address(from) = origin
            && session.is_doubtful
            && session.path.address() == Some(&from.remote)
        {
            session.is_doubtful = false;
            self.note_direct_path(id);
        }
        let session = self.slots[id.0 as usize].as_mut().expect("the session was just looked up");
        match origin {
            Origin::Address(from) if newest => {
                let random = &mut self.random;
                if session.path.heard(from, bytes, now, || random.bytes()) {
                    self.arm(id);
                }
            }
            // The way that works for the peer.
            Origin::Detour(detour) if newest => session.detour = Some(detour),
            Origin::Address(_) | Origin::Detour(_) => {}
        }
    }

    /// Notes that a packet was opened under this epoch, however it came: the peer has the keys.
    pub(crate) fn confirmed(
        &mut self,
        id: SessionId,
        index: SessionIndex,
        origin: Option<Origin>,
        now: Time,
    ) {
        let waits = self.get(id).is_some_and(|session| session.answered.is_some());
        if waits && let Some(fresh) = self.confirm(id, index, origin, now) {
            self.established(id, fresh);
        }
    }

    /// The indices of a session's epochs with these two low bits that open packets.
    pub(crate) fn epochs_by_bits(
        &self,
        id: SessionId,
        bits: u8,
        now: Time,
    ) -> ArrayVec<SessionIndex, { EPOCHS_MAX + 1 }> {
        self.get(id).map(|session| session.indices_by_bits(bits, now)).unwrap_or_default()
    }

    /// Counts a packet that was not taken.
    pub(crate) fn reject(&mut self, rejected: Rejected) {
        let counter = match rejected {
            Rejected::Replay(Refused::Replayed { .. }) => &mut self.counters.replayed,
            Rejected::Replay(Refused::TooOld { .. }) => &mut self.counters.too_old,
            Rejected::Forged(_) => &mut self.counters.forged,
        };
        *counter += 1;
    }
}

/// The epoch that opens packets under this index, and its session.
#[inline]
fn opener<'a>(
    by_index: &IndexTable<SessionIndex>,
    slots: &'a mut [Option<Session>],
    index: SessionIndex,
    origin: Origin,
    now: Time,
) -> Option<(SessionId, &'a mut Epoch)> {
    let id = SessionId(by_index.get(index)?);
    let session = slots[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
    if !session.takes_from(origin) {
        return None;
    }
    session.by_index(index).filter(|epoch| epoch.may_open(now)).map(|epoch| (id, epoch))
}
