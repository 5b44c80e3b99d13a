//! Retransmission of copies that an ingress relay misses, and of their source packets.

use byway_units::Time;
use byway_wire::messages::CopyNack;
use byway_wire::packets::{EnvelopeRole, SourceHeader};
use byway_wire::{CODED_OVERHEAD, Flags, SequenceNumber};

use super::send_flow::{SendFlowId, SentPacket};
use super::settings::Traffic;
use super::{Agent, Flow};
use crate::limits::RESEND_REACH;
use crate::outbox::TransmitMeta;
use crate::parts::packet_buffer::Handle;
use crate::session::SessionId;

impl Agent {
    /// Handles an ingress relay's request for missing copies: sends them again, and their source
    /// packets within a budget.
    ///
    /// If copies and source packets leave by the same uplink, both are lost together. So the source
    /// packet is sent again too. A relay that requests everything gets one in
    /// [`PACKETS_PER_SOURCE_RESEND`](crate::limits::PACKETS_PER_SOURCE_RESEND).
    pub(super) fn on_copy_nack(&mut self, session: SessionId, nack: &CopyNack<'_>, now: Time) {
        let flow = self.relay_of(session).and_then(|relay| relay.flow(nack.alias));
        let Some(Flow::Sent(id)) = flow else {
            self.counters.flows_unknown += 1;
            return;
        };
        for low in nack.ranges.numbers_low().take(RESEND_REACH) {
            self.work.numbers += 1;
            let flow = &self.senders[id.0 as usize];
            let sequence = SequenceNumber::nearest(low, flow.next);
            match flow.sent.get(sequence.number()) {
                // Packets that were not copied, because of the uplink or of standby, are not sent
                // at a relay's request either.
                Some(SentPacket { packet, is_copied: true }) => {
                    self.resend_source_packet(id, sequence, packet, now);
                    self.queue_envelope(session, EnvelopeRole::ResentCopy, nack.alias, sequence, packet, now);
                }
                _ => self.counters.copies_expired += 1,
            }
        }
    }

    /// Sends a source packet again on the direct path, if the flow uses that path, its budget
    /// suffices, and the session's epoch is still the same.
    fn resend_source_packet(&mut self, id: SendFlowId, sequence: SequenceNumber, packet: Handle, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        // Transports with congestion control retransmit losses themselves, and take a late packet
        // for reordering.
        if flow.needs_relay() || flow.settings.traffic != Traffic::Datagrams {
            return;
        }
        let Some(session) = self.sessions.get_mut(flow.peer) else {
            return;
        };
        let path = session.path.network_path().copied();
        let (Some(path), Some(epoch)) = (path, session.sealing(now)) else {
            return;
        };
        let Some(coded) =
            self.retransmit_buffer.get(packet, now).filter(|coded| coded.len() >= CODED_OVERHEAD)
        else {
            return;
        };
        let flags = Flags::from_wire(coded[0]);
        if flags.epoch_low_bits() != epoch.number.low_bits() || !flow.spend_resend_credit() {
            return;
        }
        let header = SourceHeader {
            receiver: epoch.remote_index(),
            flow: flow.key.flow(),
            sequence_low: sequence.low(),
            flags,
        };
        let mut front = [0; SourceHeader::BYTES];
        header.emit(&mut front);
        self.counters.source_packets_resent += 1;
        let (meta, peer) = (TransmitMeta::plain(path), flow.peer);
        let payload_bytes = SourceHeader::CODED_START + coded.len();
        self.sessions.outbox.add(meta, |out| {
            out.extend_from_slice(&front[..SourceHeader::CODED_START]);
            out.extend_from_slice(coded);
        });
        self.sessions.on_sent(peer, payload_bytes, now);
    }
}
