//! Copies that a relay misses, and what their absence says of the direct path.

use byway_units::Time;
use byway_wire::messages::CopyNack;
use byway_wire::packets::{EnvelopeRole, SourceHeader};
use byway_wire::{CODED_OVERHEAD, Flags, SequenceNumber};

use super::send_flow::{SendFlowId, SentPacket};
use super::settings::Traffic;
use super::{Agent, Flow};
use crate::limits::RESEND_REACH;
use crate::outbox::Heading;
use crate::parts::packet_log::Handle;
use crate::session::SessionId;

impl Agent {
    /// A relay asks for copies again.
    ///
    /// Copies are lost together with originals where both leave by the line of the sender. So the original is sent again,
    /// too, in bounds: whoever asks for everything gets one in [`PACKETS_PER_ORIGINAL_AGAIN`](crate::limits::PACKETS_PER_ORIGINAL_AGAIN).
    pub(super) fn resend_copies(&mut self, session: SessionId, nack: &CopyNack<'_>, now: Time) {
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
                // What the uplink had no room for, or the flow slept through, is not asked for to be sent twice.
                Some(SentPacket { packet, is_copied: true }) => {
                    self.send_original_again(id, sequence, packet, now);
                    self.send_behind(session, EnvelopeRole::ResentCopy, nack.alias, sequence, packet, now);
                }
                _ => self.counters.copies_gone += 1,
            }
        }
    }

    /// Sends a packet on the direct path again, if that is where it went, and in this epoch of its session.
    fn send_original_again(&mut self, id: SendFlowId, sequence: SequenceNumber, packet: Handle, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        // Transports that slow down when they lose packets send again themselves, and take what comes late for reordering.
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
        let Some(coded) = self.sent.get(packet, now).filter(|coded| coded.len() >= CODED_OVERHEAD) else {
            return;
        };
        let flags = Flags::from_wire(coded[0]);
        if flags.epoch_low_bits() != epoch.number.low_bits() || !flow.take_original_again() {
            return;
        }
        let header = SourceHeader {
            receiver: epoch.theirs(),
            flow: flow.key.flow(),
            sequence_low: sequence.low(),
            flags,
        };
        let mut front = [0; SourceHeader::BYTES];
        header.emit(&mut front);
        self.counters.originals_again += 1;
        let (heading, peer) = (Heading::plain(path), flow.peer);
        let payload_bytes = SourceHeader::CODED_START + coded.len();
        self.sessions.outbox.add(heading, |out| {
            out.extend_from_slice(&front[..SourceHeader::CODED_START]);
            out.extend_from_slice(coded);
        });
        self.sessions.on_sent(peer, payload_bytes, now);
    }
}
