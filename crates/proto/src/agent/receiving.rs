//! Handling of datagrams from the network: source packets, envelopes and handshakes.

use byway_units::Time;
use byway_wire::packets::{EnvelopeHeader, EnvelopeRole, SourceHeader, SourcePacket};
use byway_wire::seal::Purpose;
use byway_wire::{CodedBytes, Ecn, SequenceNumber};

use super::deliver::Arrival;
use super::events::Delivery;
use super::path_delays::ArrivalPath;
use super::receive_flow::ReceiveFlowId;
use super::{Agent, Flow, Role};
use crate::limits::CODED_START;
use crate::policy::retransmits;
use crate::session::{Inbound, Route, SessionId};

impl Agent {
    /// Handles a datagram from the network, or a packet that a relay forwards: opens it, and
    /// handles its contents.
    pub(super) fn receive_from(&mut self, datagram: &mut [u8], origin: Route, ecn: Ecn, now: Time) {
        let received = self.sessions.receive_from(datagram, origin, now);
        let session = received.session().and_then(|session| self.roles.get(&session));
        if matches!((origin, session), (Route::ViaRelay(_), Some(Role::Relay(_)))) {
            // Only peers are reached through relays. A relay could wrap its own packets one inside
            // another, and this agent would have to unwrap each level of the datagram.
            self.counters.out_of_role += 1;
            return;
        }
        // The agent applies session changes before it handles messages of the new epoch.
        self.handle_session_events(now);
        match received {
            Inbound::Nothing | Inbound::Stranger { .. } => {}
            Inbound::Transit { .. } => self.counters.out_of_role += 1,
            Inbound::Initiation { session, initiation, origin } => {
                if initiation.purpose == Purpose::EndToEnd {
                    self.sessions.accept(session, initiation, origin, &[], now);
                }
            }
            Inbound::Response { session, messages } => self.on_messages(session, &messages, origin, now),
            Inbound::Messages { session, messages } => self.on_messages(session, messages, origin, now),
            Inbound::Source { session, packet } => self.on_source_packet(session, packet, origin, ecn, now),
            Inbound::Envelope { session, header, datagram } => {
                self.on_envelope(session, &header, datagram, ecn, now);
            }
        }
    }

    /// Handles a source packet: opens and delivers it if it is new. Opens a duplicate only if its
    /// coded bytes are missing, if relays delivered it first, or if its lateness widens the
    /// reordering window. Drops other duplicates.
    fn on_source_packet(
        &mut self,
        session: SessionId,
        packet: SourcePacket<&mut [u8]>,
        origin: Route,
        outer: Ecn,
        now: Time,
    ) {
        let header = *packet.header();
        let Some(id) = self.incoming.get((session, header.flow)).map(ReceiveFlowId) else {
            self.counters.flows_unknown += 1;
            return;
        };
        let flow = &mut self.receivers[id.0 as usize];
        let sequence = flow.full_sequence(header.sequence_low);
        let is_new = flow.is_new(sequence);
        let (mut needs_coded, mut is_overtaken, mut is_late) = (false, false, false);
        if !is_new {
            flow.statistics.duplicates += 1;
            (needs_coded, is_overtaken) = (flow.needs_coded(sequence), flow.is_overtaken_by_repair(sequence));
            is_late = flow.awaits_source_packet(sequence);
            let is_measured = flow.awaits_copy(sequence) || flow.awaits_direct_sample(sequence);
            if !is_overtaken && !needs_coded && !is_late && !is_measured {
                return;
            }
        }
        let coded = packet.into_coded();
        let bytes = coded.as_bytes().len();
        self.scratch.clear();
        self.scratch.extend_from_slice(coded.as_bytes());
        let epoch = self.sessions.get_mut(session).and_then(|session| session.by_index(header.receiver));
        let Some(epoch) = epoch.filter(|epoch| epoch.may_open(now)) else {
            return;
        };
        let Ok(plaintext) = epoch.open_source(header.flow, sequence, coded) else {
            self.open_as_first(id, &header, sequence, (origin, outer), now);
            return;
        };
        if !is_new {
            self.receivers[id.0 as usize].note_second_arrival(sequence, now);
            if needs_coded {
                self.store_early_coded(id, sequence, now);
            }
            if is_overtaken {
                self.on_late_source_packet(id, sequence, now);
            }
            if is_late {
                let round_trip = self.sessions.round_trip(session);
                self.receivers[id.0 as usize].on_overtaken(sequence, None, round_trip, now);
            }
            self.decode_blocks(id, now);
            return;
        }
        let newest = self.receivers[id.0 as usize].is_newest(sequence);
        self.sessions.on_authenticated(session, header.receiver, origin, bytes, newest, now);
        self.handle_session_events(now);
        let arrival = Arrival::new(Delivery::Direct, outer);
        self.on_packet(id, sequence, header.flags, plaintext, arrival, now);
        self.decode_blocks(id, now);
    }

    /// Opens a source packet under its low sequence number, after it could not be opened under a
    /// guessed one. Counts it as forged if that fails too. Its coded bytes are in the scratch
    /// buffer.
    ///
    /// Before a flow's first packet, an injected packet makes the receiver guess other high bits.
    /// With this second try, no packet of the sender is lost for that.
    #[cold]
    fn open_as_first(
        &mut self,
        id: ReceiveFlowId,
        header: &SourceHeader,
        tried: SequenceNumber,
        (origin, outer): (Route, Ecn),
        now: Time,
    ) {
        let sequence = SequenceNumber::new(header.sequence_low.into());
        let flow = &self.receivers[id.0 as usize];
        let (peer, is_other) = (flow.peer, flow.highest().is_none() && sequence != tried);
        let mut packet = core::mem::take(&mut self.restored);
        packet.clear();
        packet.extend_from_slice(&self.scratch);
        let bytes = packet.len();
        let epoch = self.sessions.get_mut(peer).and_then(|session| session.by_index(header.receiver));
        let coded = CodedBytes::parse(packet.as_mut_slice()).ok().filter(|_| is_other);
        let opened =
            epoch.zip(coded).and_then(|(epoch, coded)| epoch.open_source(header.flow, sequence, coded).ok());
        if let Some(plaintext) = opened {
            self.sessions.on_authenticated(peer, header.receiver, origin, bytes, true, now);
            self.handle_session_events(now);
            self.on_packet(id, sequence, header.flags, plaintext, Arrival::new(Delivery::Direct, outer), now);
        } else {
            let flow = &mut self.receivers[id.0 as usize];
            flow.statistics.forged += 1;
            flow.guess_other_high_bits(false);
        }
        self.restored = packet;
    }

    /// Handles an envelope from a relay, with a packet that this agent requested, or one forwarded
    /// without a request.
    fn on_envelope(
        &mut self,
        session: SessionId,
        header: &EnvelopeHeader,
        datagram: &mut [u8],
        outer: Ecn,
        now: Time,
    ) {
        let delivery = match header.role {
            EnvelopeRole::Forwarded => Delivery::Forwarded,
            EnvelopeRole::CachedRepair => Delivery::Cached,
            EnvelopeRole::CooperativeRepair => Delivery::Cooperative,
            EnvelopeRole::ResentRepair => Delivery::Resent,
            EnvelopeRole::Copy
            | EnvelopeRole::ResentCopy
            | EnvelopeRole::RelayedCopy
            | EnvelopeRole::RelayedResend
            | EnvelopeRole::CooperativeAnswer => {
                self.counters.out_of_role += 1;
                return;
            }
        };
        // The agent keeps its session with a forwarding relay alive. Otherwise the relay would lose
        // this receiver when its address changes.
        if delivery == Delivery::Resent {
            self.sessions.watch_session(session, now);
        } else {
            self.sessions.use_session(session, now);
        }
        let flow = self.relay_of(session).and_then(|relay| relay.flow(header.alias));
        let Some(Flow::Received(id)) = flow else {
            self.counters.flows_unknown += 1;
            return;
        };
        let sequence = self.receivers[id.0 as usize].full_sequence_of(header.sequence_low, true);
        let end = datagram.len() - byway_wire::limits::TAG_BYTES;
        self.on_coded_bytes(
            id,
            sequence,
            &mut datagram[CODED_START..end],
            Arrival::new(delivery, outer),
            now,
        );
        self.decode_blocks(id, now);
    }

    /// Opens and delivers coded bytes from a relay or a decoded block. Duplicates end needless
    /// repairs, or measure the path skew.
    pub(super) fn on_coded_bytes(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        coded: &mut [u8],
        arrival: Arrival,
        now: Time,
    ) {
        let flow = &mut self.receivers[id.0 as usize];
        let is_duplicate = !flow.is_new(sequence);
        let needs_coded = is_duplicate && flow.needs_coded(sequence);
        let service = flow.settings.service;
        flow.statistics.duplicates += u64::from(is_duplicate);
        if is_duplicate && !needs_coded {
            if arrival.delivery.is_repair() {
                self.stop_needless_repairs(id, now);
            } else if retransmits(service) {
                flow.note_relayed(now);
                self.stop_needless_repairs(id, now);
            } else if let Some(active) = flow.active_mut() {
                active.two_paths.on_relayed(now);
                active.on_second_copy(sequence, service, now);
                if let Some(delays) = &mut active.two_paths.delays {
                    delays.on_second(sequence, ArrivalPath::Relayed, now);
                    if flow.is_direct_sample(sequence) {
                        self.on_late_source_packet(id, sequence, now);
                    }
                }
            }
            return;
        }
        let Ok(flags) = CodedBytes::parse(&*coded).map(|coded| coded.flags()) else {
            flow.statistics.false_repairs += 1;
            return;
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(coded);
        let (peer, number) = (flow.peer, flow.key.flow());
        for index in self.sessions.epochs_by_bits(peer, flags.epoch_low_bits(), now) {
            let epoch = self.sessions.get_mut(peer).and_then(|session| session.by_index(index));
            // A failed attempt with other keys overwrites the bytes.
            coded.copy_from_slice(&self.scratch);
            let Some((epoch, coded)) = epoch.zip(CodedBytes::parse(&mut *coded).ok()) else {
                continue;
            };
            let Ok(plaintext) = epoch.open_source(number, sequence, coded) else {
                continue;
            };
            // The epoch is confirmed first: if it shows a restart of the peer, the reset would
            // otherwise forget this packet.
            self.sessions.on_epoch_used(peer, index, None, now);
            self.handle_session_events(now);
            if needs_coded {
                self.store_early_coded(id, sequence, now);
            } else {
                self.on_packet(id, sequence, flags, plaintext, arrival, now);
            }
            return;
        }
        let flow = &mut self.receivers[id.0 as usize];
        flow.statistics.false_repairs += 1;
        flow.guess_other_high_bits(true);
    }
}
