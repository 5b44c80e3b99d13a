//! What comes from the network.

use byway_units::Time;
use byway_wire::packets::{EnvelopeHeader, EnvelopeRole, SourceHeader, SourcePacket};
use byway_wire::seal::Purpose;
use byway_wire::{CodedBytes, Ecn, SequenceNumber};

use super::delivering::Way;
use super::events::Delivery;
use super::receive_flow::ReceiveFlowId;
use super::{Agent, Flow, Role};
use crate::limits::CODED_START;
use crate::session::{Origin, Received, SessionId};

impl Agent {
    /// Takes a packet from an address, or out of a relay's hands.
    pub(super) fn receive_from(&mut self, datagram: &mut [u8], origin: Origin, ecn: Ecn, now: Time) {
        let received = self.sessions.receive_from(datagram, origin, now);
        let session = received.session().and_then(|session| self.roles.get(&session));
        if matches!((origin, session), (Origin::Detour(_), Some(Role::Relay(_)))) {
            // Only peers are reached through relays. A relay that wraps its own packets would have them unwrapped
            // one inside another, as deep as a datagram is long.
            self.counters.out_of_role += 1;
            return;
        }
        // What a new epoch makes void is void before anything is said in it.
        self.handle_changes(now);
        match received {
            Received::Nothing | Received::Stranger { .. } => {}
            Received::Initiation { session, initiation, origin } => {
                if initiation.purpose == Purpose::EndToEnd {
                    self.sessions.accept(session, initiation, origin, &[], now);
                }
            }
            Received::Response { session, messages } => self.messages(session, &messages, origin, now),
            Received::Messages { session, messages } => self.messages(session, messages, origin, now),
            Received::Source { session, packet } => self.source(session, packet, origin, ecn, now),
            Received::Envelope { session, header, datagram } => {
                self.enveloped(session, &header, datagram, ecn, now);
            }
        }
    }

    /// A source packet of the direct path.
    fn source(
        &mut self,
        session: SessionId,
        packet: SourcePacket<&mut [u8]>,
        origin: Origin,
        outer: Ecn,
        now: Time,
    ) {
        let header = *packet.header();
        let Some(id) = self.incoming.get((session, header.flow)).map(ReceiveFlowId) else {
            self.counters.flows_unknown += 1;
            return;
        };
        let flow = &mut self.receivers[id.0 as usize];
        let sequence = flow.full(header.sequence_low);
        let is_new = flow.is_new(sequence);
        let (mut needs_coded, mut is_overtaken, mut is_late) = (false, false, false);
        if !is_new {
            flow.statistics.duplicates += 1;
            (needs_coded, is_overtaken) = (flow.needs_coded(sequence), flow.is_overtaken_by_repair(sequence));
            is_late = flow.awaits_original(sequence);
            if !is_overtaken && !needs_coded && !is_late {
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
            if needs_coded {
                self.keep_coded(id, sequence, now);
            }
            if is_overtaken {
                self.direct_path_delivers(id, sequence, now);
            }
            if is_late {
                let round_trip = self.sessions.round_trip(session);
                self.receivers[id.0 as usize].on_overtaken(sequence, None, round_trip, now);
            }
            self.try_blocks(id, now);
            return;
        }
        let newest = self.receivers[id.0 as usize].is_newest(sequence);
        self.sessions.authenticated(session, header.receiver, origin, bytes, newest, now);
        self.handle_changes(now);
        let way = Way::new(Delivery::Direct, outer);
        self.arrived(id, sequence, header.flags, plaintext, way, now);
        self.try_blocks(id, now);
    }

    /// Opens a source packet under a low number that could not be opened under a guessed one. Its coded bytes are in the scratch
    /// buffer.
    ///
    /// Before a flow's first packet, one that somebody on the path adds has others guessed. That costs none that was sent.
    #[cold]
    fn open_as_first(
        &mut self,
        id: ReceiveFlowId,
        header: &SourceHeader,
        tried: SequenceNumber,
        (origin, outer): (Origin, Ecn),
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
            self.sessions.authenticated(peer, header.receiver, origin, bytes, true, now);
            self.handle_changes(now);
            self.arrived(id, sequence, header.flags, plaintext, Way::new(Delivery::Direct, outer), now);
        } else {
            let flow = &mut self.receivers[id.0 as usize];
            flow.statistics.forged += 1;
            flow.guess_again(false);
        }
        self.restored = packet;
    }

    /// An envelope from a relay: a packet that was asked for, or forwarded unasked.
    fn enveloped(
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
            EnvelopeRole::Copy
            | EnvelopeRole::ResentCopy
            | EnvelopeRole::Carried
            | EnvelopeRole::CooperativeAnswer => {
                self.counters.out_of_role += 1;
                return;
            }
        };
        // A receiver that is given packets unasked has to be heard of, or it would be lost when its address changes.
        self.sessions.use_session(session, now);
        let flow = self.relay_of(session).and_then(|relay| relay.flow(header.alias));
        let Some(Flow::Received(id)) = flow else {
            self.counters.flows_unknown += 1;
            return;
        };
        let sequence = self.receivers[id.0 as usize].full_of(header.sequence_low, true);
        let end = datagram.len() - byway_wire::limits::TAG_BYTES;
        self.repaired(id, sequence, &mut datagram[CODED_START..end], Way::new(delivery, outer), now);
        self.try_blocks(id, now);
    }

    /// Coded bytes that came another way than the direct path.
    pub(super) fn repaired(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        coded: &mut [u8],
        way: Way,
        now: Time,
    ) {
        let flow = &mut self.receivers[id.0 as usize];
        let is_duplicate = !flow.is_new(sequence);
        let needs_coded = is_duplicate && flow.needs_coded(sequence);
        flow.statistics.duplicates += u64::from(is_duplicate);
        if is_duplicate && !needs_coded {
            if way.delivery.is_repair() {
                self.end_needless_repairs(id, now);
            } else if let Some(active) = flow.active_mut() {
                active.ways.relayed(now);
                active.came_again(sequence, now);
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
            // An attempt under other keys leaves garbage.
            coded.copy_from_slice(&self.scratch);
            let Some((epoch, coded)) = epoch.zip(CodedBytes::parse(&mut *coded).ok()) else {
                continue;
            };
            let Ok(plaintext) = epoch.open_source(number, sequence, coded) else {
                continue;
            };
            // What was delivered under an epoch is forgotten if the epoch turns out later to begin anew.
            self.sessions.confirmed(peer, index, None, now);
            self.handle_changes(now);
            if needs_coded {
                self.keep_coded(id, sequence, now);
            } else {
                self.arrived(id, sequence, flags, plaintext, way, now);
            }
            return;
        }
        let flow = &mut self.receivers[id.0 as usize];
        flow.statistics.false_repairs += 1;
        flow.guess_again(true);
    }
}
