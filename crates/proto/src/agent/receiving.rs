//! What comes from the network.

use core::net::SocketAddr;

use byway_units::Time;
use byway_wire::packets::{EnvelopeHeader, EnvelopeRole, SourcePacket};
use byway_wire::seal::Purpose;
use byway_wire::{CodedBytes, SequenceNumber};

use super::events::Delivery;
use super::receive_flow::ReceiveFlowId;
use super::{Agent, Flow};
use crate::limits::CODED_START;
use crate::session::{Origin, Received, SessionId};

impl Agent {
    pub(super) fn receive(&mut self, datagram: &mut [u8], from: SocketAddr, now: Time) {
        self.receive_from(datagram, Origin::Address(from), from, now);
    }

    /// Takes a packet from an address, or out of a relay's hands (`from` is then the relay's address).
    pub(super) fn receive_from(&mut self, datagram: &mut [u8], origin: Origin, from: SocketAddr, now: Time) {
        let received = self.sessions.receive_from(datagram, origin, now);
        // What a new epoch makes void is void before anything is said in it.
        self.handle_changes(now);
        match received {
            Received::Nothing | Received::Stranger { .. } => {}
            Received::Initiation { session, initiation, origin } => {
                if initiation.purpose == Purpose::EndToEnd {
                    self.sessions.accept(session, initiation, origin, &[], now);
                }
            }
            Received::Response { session, messages } => self.messages(session, &messages, from, now),
            Received::Messages { session, messages } => self.messages(session, messages, from, now),
            Received::Source { session, packet } => self.source(session, packet, origin, now),
            Received::Envelope { session, header, datagram } => self.enveloped(session, &header, datagram, now),
        }
    }

    /// A source packet of the direct path.
    fn source(&mut self, session: SessionId, packet: SourcePacket<&mut [u8]>, origin: Origin, now: Time) {
        let header = *packet.header();
        let Some(id) = self.incoming.get((session, header.flow)).map(ReceiveFlowId) else {
            self.counters.flows_unknown += 1;
            return;
        };
        let sequence = self.receivers[id.0 as usize].full(header.sequence_low);
        if !self.receivers[id.0 as usize].is_new(sequence) {
            self.receivers[id.0 as usize].statistics.duplicates += 1;
            return;
        }
        let coded = packet.into_coded().into_bytes();
        let bytes = coded.len();
        self.scratch.clear();
        self.scratch.extend_from_slice(coded);
        let epoch = self.sessions.get_mut(session).and_then(|session| session.by_index(header.receiver));
        let Some(epoch) = epoch.filter(|epoch| epoch.may_open(now)) else {
            return;
        };
        let Ok(plaintext) = epoch.open_source(header.flow, sequence, coded) else {
            self.receivers[id.0 as usize].statistics.forged += 1;
            return;
        };
        let newest = self.receivers[id.0 as usize].is_newest(sequence);
        self.sessions.authenticated(session, header.receiver, origin, bytes, newest, now);
        self.handle_changes(now);
        self.arrived(id, sequence, header.flags.piece(), plaintext, Delivery::Direct, now);
        self.try_blocks(id, now);
    }

    /// An envelope from a relay: a packet that was asked for, or forwarded unasked.
    fn enveloped(&mut self, session: SessionId, header: &EnvelopeHeader, datagram: &mut [u8], now: Time) {
        let delivery = match header.role {
            EnvelopeRole::Forwarded => Delivery::Forwarded,
            EnvelopeRole::CachedRepair => Delivery::Cached,
            EnvelopeRole::CooperativeRepair => Delivery::Cooperative,
            EnvelopeRole::Copy
            | EnvelopeRole::ResentCopy
            | EnvelopeRole::Carried
            | EnvelopeRole::CooperativeAnswer => {
                self.counters.out_of_role += 1;
                return;
            }
        };
        let flow = self.relay_of(session).and_then(|relay| relay.flow(header.alias));
        let Some(Flow::Received(id)) = flow else {
            self.counters.flows_unknown += 1;
            return;
        };
        let sequence = self.receivers[id.0 as usize].full(header.sequence_low);
        let end = datagram.len() - byway_wire::limits::TAG_BYTES;
        self.repaired(id, sequence, &mut datagram[CODED_START..end], delivery, now);
        self.try_blocks(id, now);
    }

    /// Coded bytes that came another way than the direct path.
    pub(super) fn repaired(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        coded: &mut [u8],
        delivery: Delivery,
        now: Time,
    ) {
        let flow = &mut self.receivers[id.0 as usize];
        if !flow.is_new(sequence) {
            flow.statistics.duplicates += 1;
            return;
        }
        let Ok(flags) = CodedBytes::parse(&*coded).map(|coded| coded.flags()) else {
            flow.statistics.false_repairs += 1;
            return;
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(coded);
        let (peer, number) = (flow.peer, flow.key.flow());
        let session = self.sessions.get(peer);
        let epoch = session.and_then(|session| session.by_bits(flags.epoch_low_bits()));
        let Some(epoch) = epoch.filter(|epoch| epoch.may_open(now)) else {
            flow.statistics.false_repairs += 1;
            return;
        };
        match epoch.open_source(number, sequence, coded) {
            Ok(plaintext) => self.arrived(id, sequence, flags.piece(), plaintext, delivery, now),
            Err(_) => self.receivers[id.0 as usize].statistics.false_repairs += 1,
        }
    }
}
