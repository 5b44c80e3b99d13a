//! Datagrams come in, authenticated packets go up.

use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::seal::{OpenError, ReceivedInitiation, Refused};
use byway_wire::packets::{Envelope, EnvelopeHeader, MessagePacket, SourcePacket};
use byway_wire::{Packet, SessionIndex};

use super::handshake::Origin;
use super::{Change, Rejected, SessionId, Sessions};

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

impl Sessions {
    /// Takes a datagram from the network.
    pub(crate) fn receive<'a>(&mut self, datagram: &'a mut [u8], from: SocketAddr, now: Time) -> Received<'a> {
        self.receive_from(datagram, Origin::Address(from), now)
    }

    /// Takes a packet from an address or out of a relay's hands.
    pub(crate) fn receive_from<'a>(
        &mut self,
        datagram: &'a mut [u8],
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let first_byte = datagram.first().copied();
        match first_byte {
            Some(4) => return self.initiation(datagram, origin, now),
            Some(5 | 6) => return self.handshake_answer(datagram, origin, now),
            _ => {}
        }
        match Packet::parse(datagram) {
            Ok(Packet::Source(packet)) => self.source(packet),
            Ok(Packet::Message(packet)) => self.messages(packet, origin, now),
            Ok(Packet::Envelope(packet)) => self.enveloped(packet, origin, now),
            Ok(_) | Err(_) => {
                self.counters.malformed += 1;
                Received::Nothing
            }
        }
    }

    fn handshake_answer<'a>(&mut self, datagram: &[u8], origin: Origin, now: Time) -> Received<'a> {
        let Some([b4, b5, b6, b7]) = datagram.get(4..8).and_then(|bytes| bytes.first_chunk().copied()) else {
            self.counters.malformed += 1;
            return Received::Nothing;
        };
        let index = SessionIndex::new(u32::from_be_bytes([b4, b5, b6, b7]));
        if datagram[0] == 5 { self.response(index, datagram, origin, now) } else { self.cookie(index, datagram, now) }
    }

    fn source<'a>(&mut self, packet: SourcePacket<&'a mut [u8]>) -> Received<'a> {
        match self.by_index.get(packet.header().receiver).map(SessionId) {
            Some(session) => Received::Source { session, packet },
            None => {
                self.counters.unknown_index += 1;
                Received::Nothing
            }
        }
    }

    fn messages<'a>(
        &mut self,
        packet: MessagePacket<&'a mut [u8]>,
        origin: Origin,
        now: Time,
    ) -> Received<'a> {
        let header = *packet.header();
        let Some(id) = self.by_index.get(header.receiver).map(SessionId) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        let session = self.sessions[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
        let Some(epoch) = session.by_index(header.receiver).filter(|epoch| epoch.may_open(now)) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        let datagram = packet.into_bytes();
        let bytes = datagram.len();
        match epoch.open_messages(header.counter_low, datagram) {
            Ok((messages, newest)) => {
                self.authenticated(id, header.receiver, origin, bytes, newest, now);
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
        let Some(id) = self.by_index.get(header.receiver).map(SessionId) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        let session = self.sessions[id.0 as usize].as_mut().expect("indices belong to sessions that exist");
        let Some(epoch) = session.by_index(header.receiver).filter(|epoch| epoch.may_open(now)) else {
            self.counters.unknown_index += 1;
            return Received::Nothing;
        };
        let datagram = packet.into_bytes();
        match epoch.verify_envelope(header.counter_low, datagram) {
            Ok(newest) => {
                self.authenticated(id, header.receiver, origin, datagram.len(), newest, now);
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
        let waits = self.get(id).is_some_and(|session| session.answered.is_some());
        if waits && let Some(fresh) = self.confirm(id, index, now) {
            self.changes.push_back(Change::Established { session: id, fresh });
        }
        let session = self.sessions[id.0 as usize].as_mut().expect("the session was just looked up");
        session.probes.heard();
        if let Origin::Address(from) = origin
            && newest
            && session.path.address() != Some(&from)
        {
            let random = &mut self.random;
            session.path.heard(from, bytes, now, || random.bytes());
            self.arm(id);
        }
    }

    /// Counts a packet that was not taken.
    pub(crate) fn reject(&mut self, rejected: Rejected) {
        let counter = match rejected {
            Rejected::Replay(Refused::Replayed { .. }) => &mut self.counters.replayed,
            Rejected::Replay(Refused::TooOld { .. }) => &mut self.counters.too_old,
            Rejected::Open(OpenError::TooShort { .. }) => &mut self.counters.malformed,
            Rejected::Open(OpenError::Forged(_)) => &mut self.counters.forged,
        };
        *counter += 1;
    }
}
