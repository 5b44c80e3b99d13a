//! One epoch of a session: its keys, counters and replay window.

use alloc::vec::Vec;
use core::fmt;

use byway_units::{FlowId, Time};
use byway_wire::packets::{
    ENVELOPE_OVERHEAD, Envelope, EnvelopeHeader, EnvelopeRole, Kind, MESSAGE_OVERHEAD, MessageHeader,
    MessagePacket,
};
use byway_wire::seal::{DigestKey, EpochKeys, ForgeryError, ReplayError, ReplayWindow};
use byway_wire::{Alias, Capabilities, CodedBytes, Counter, Ecn, SequenceNumber, SessionIndex};
use thiserror::Error;

use crate::limits::{EPOCH_OPENS_FOR, EPOCH_PACKETS_MAX, EPOCH_SEALS_FOR, REKEY_AFTER, REKEY_PACKETS};
use crate::outbox::Owner;

/// Reason for which a received packet of an epoch was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum RejectReason {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Forged(#[from] ForgeryError),
}

/// One epoch of a session: its keys, session indices and counters, from one handshake to the next.
pub(crate) struct Epoch {
    pub(crate) number: byway_wire::Epoch,
    /// Session index in packets that this side receives.
    pub(crate) local_index: SessionIndex,
    /// Session index in packets that this side sends.
    remote_index: SessionIndex,
    keys: EpochKeys,
    /// Keys for digests of packets, one for each direction; `None` unless both sides use digests.
    pub(crate) digests: Option<DigestKeys>,
    /// Capabilities that both sides offered in the handshake.
    pub(crate) capabilities: Capabilities,
    next: Counter,
    window: ReplayWindow,
    began: Time,
    /// Number of source packets sealed in this epoch. They use the flows' sequence numbers as
    /// counters.
    sources_sealed: u64,
    /// Number of envelopes received, modulo 2^32; probe replies report it to the peer.
    pub(crate) envelopes_received: u32,
    /// Number of envelopes sent, modulo 2^32, for comparison with the peer's report.
    pub(crate) envelopes_sent: u32,
}

/// Contents and handling of an envelope to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnvelopeContents<'a> {
    pub(crate) role: EnvelopeRole,
    pub(crate) alias: Alias,
    pub(crate) sequence_low: u32,
    pub(crate) coded: &'a [u8],
    /// ECN field of the packet that conveys the envelope.
    pub(crate) ecn: Ecn,
    /// Flow or agent to which send queues attribute the packet; `None` for the session itself.
    pub(crate) owner: Option<Owner>,
}

/// Keys of packet digests, one for each direction.
pub(crate) struct DigestKeys {
    pub(crate) send: DigestKey,
    pub(crate) receive: DigestKey,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.local_index)
    }
}

impl Epoch {
    pub(crate) fn new(
        number: byway_wire::Epoch,
        local_index: SessionIndex,
        remote_index: SessionIndex,
        keys: EpochKeys,
        (capabilities, digests): (Capabilities, Option<DigestKeys>),
        now: Time,
    ) -> Self {
        Self {
            number,
            local_index,
            remote_index,
            keys,
            digests,
            capabilities,
            next: Counter::FIRST,
            window: ReplayWindow::new(),
            began: now,
            sources_sealed: 0,
            envelopes_received: 0,
            envelopes_sent: 0,
        }
    }

    /// True if the session should begin a new epoch, by age or by number of packets.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        now.saturating_since(self.began) >= REKEY_AFTER || self.sealed() >= REKEY_PACKETS
    }

    /// True if the epoch's keys may still seal packets.
    pub(crate) fn may_seal(&self, now: Time) -> bool {
        now.saturating_since(self.began) < EPOCH_SEALS_FOR && self.sealed() < EPOCH_PACKETS_MAX
    }

    /// True if the epoch's keys may still open packets, which is longer than they seal.
    pub(crate) fn may_open(&self, now: Time) -> bool {
        now.saturating_since(self.began) < EPOCH_OPENS_FOR
    }

    /// Returns the number of packets that the epoch's keys have sealed.
    const fn sealed(&self) -> u64 {
        self.next.number() + self.sources_sealed
    }

    /// Returns the time at which [`Epoch::is_stale`] becomes true by age.
    pub(crate) fn stale_at(&self) -> Time {
        self.began + REKEY_AFTER
    }

    /// Returns the time at which the session removes the epoch with its keys.
    pub(crate) fn ends_at(&self) -> Time {
        self.began + EPOCH_OPENS_FOR
    }

    fn next_counter(&mut self) -> Counter {
        let counter = self.next;
        self.next = counter.next();
        counter
    }

    /// Appends to `out` a sealed message packet with these encoded messages.
    pub(crate) fn seal_messages(&mut self, messages: &[u8], out: &mut Vec<u8>) {
        let counter = self.next_counter();
        let header = MessageHeader { receiver: self.remote_index, counter_low: counter.low() };
        let start = out.len();
        out.resize(start + MessageHeader::BYTES, 0);
        header.emit(out[start..].first_chunk_mut().expect("the buffer was just extended by a header"));
        out.extend_from_slice(messages);
        out.resize(start + MESSAGE_OVERHEAD + messages.len(), 0);
        self.keys.seal_message(counter, &mut out[start..]);
    }

    /// Appends to `out` an envelope with these coded bytes, and a tag for the hop.
    pub(crate) fn seal_envelope(&mut self, contents: &EnvelopeContents<'_>, out: &mut Vec<u8>) {
        let EnvelopeContents { role, alias, sequence_low, coded, .. } = *contents;
        self.envelopes_sent = self.envelopes_sent.wrapping_add(1);
        let counter = self.next_counter();
        let header = EnvelopeHeader {
            role,
            receiver: self.remote_index,
            counter_low: counter.low(),
            alias,
            sequence_low,
        };
        let start = out.len();
        out.resize(start + EnvelopeHeader::BYTES, 0);
        header.emit(out[start..].first_chunk_mut().expect("the buffer was just extended by a header"));
        out.extend_from_slice(coded);
        out.resize(start + ENVELOPE_OVERHEAD + coded.len(), 0);
        self.keys.tag_envelope(counter, &mut out[start..]);
    }

    /// Appends to `out` a sealed message packet for a path through a third relay.
    pub(crate) fn seal_transit_messages(&mut self, messages: &[u8], out: &mut Vec<u8>) {
        let counter = self.next_counter();
        let header = MessageHeader { receiver: self.remote_index, counter_low: counter.low() };
        let start = out.len();
        out.resize(start + MessageHeader::BYTES, 0);
        header.emit(out[start..].first_chunk_mut().expect("the buffer was just extended by a header"));
        out[start] = Kind::TransitMessage.first_byte();
        out.extend_from_slice(messages);
        out.resize(start + MESSAGE_OVERHEAD + messages.len(), 0);
        self.keys.seal_transit_message(counter, &mut out[start..]);
    }

    /// Appends to `out` an envelope for a path through a third relay.
    pub(crate) fn seal_transit_envelope(&mut self, contents: &EnvelopeContents<'_>, out: &mut Vec<u8>) {
        let EnvelopeContents { role, alias, sequence_low, coded, .. } = *contents;
        self.envelopes_sent = self.envelopes_sent.wrapping_add(1);
        let counter = self.next_counter();
        let (receiver, counter_low) = (self.remote_index, counter.low());
        let header = EnvelopeHeader { role, receiver, counter_low, alias, sequence_low };
        let start = out.len();
        out.resize(start + EnvelopeHeader::BYTES, 0);
        header.emit(out[start..].first_chunk_mut().expect("the buffer was just extended by a header"));
        out[start] = Kind::TransitEnvelope.first_byte();
        out.extend_from_slice(coded);
        out.resize(start + ENVELOPE_OVERHEAD + coded.len(), 0);
        self.keys.tag_envelope(counter, &mut out[start..]);
    }

    /// Opens a message packet, unless it is a replay. Returns the encoded messages, and true if the
    /// packet's counter is the highest so far.
    pub(crate) fn open_messages<'a>(
        &mut self,
        packet: MessagePacket<&'a mut [u8]>,
    ) -> Result<(&'a mut [u8], bool), RejectReason> {
        let counter = self.counter(packet.header().counter_low);
        self.window.would_accept(counter)?;
        let newest = counter >= self.window.highest();
        let messages = self.keys.open_message(counter, packet)?;
        self.window.accept(counter)?;
        Ok((messages, newest))
    }

    /// Verifies the hop tag of an envelope, and rejects replays. Returns true if its counter is the
    /// highest so far.
    pub(crate) fn verify_envelope(&mut self, envelope: &Envelope<&mut [u8]>) -> Result<bool, RejectReason> {
        let counter = self.counter(envelope.header().counter_low);
        self.window.would_accept(counter)?;
        let newest = counter >= self.window.highest();
        self.keys.verify_envelope(counter, envelope)?;
        self.window.accept(counter)?;
        self.envelopes_received = self.envelopes_received.wrapping_add(1);
        Ok(newest)
    }

    fn counter(&self, low: u32) -> Counter {
        Counter::nearest(low, self.window.highest())
    }

    /// Sets the counters of both directions as after `packets` packets.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, packets: u64) {
        self.next = Counter::new(packets);
        self.window.accept(Counter::new(packets - 1)).expect("nothing was skipped before");
    }

    /// Returns the session index in packets that this side sends.
    pub(crate) const fn remote_index(&self) -> SessionIndex {
        self.remote_index
    }

    /// Seals a source packet's coded bytes in place. Their first byte has the flags; the caller
    /// leaves space for the tag at the end.
    pub(crate) fn seal_source(&mut self, flow: FlowId, sequence: SequenceNumber, coded: &mut [u8]) {
        self.sources_sealed += 1;
        self.keys.seal_source(flow, sequence, coded);
    }

    /// Opens a source packet's coded bytes in place, and returns the plaintext. After an error,
    /// their content is undefined.
    pub(crate) fn open_source<'a>(
        &self,
        flow: FlowId,
        sequence: SequenceNumber,
        coded: CodedBytes<&'a mut [u8]>,
    ) -> Result<&'a mut [u8], ForgeryError> {
        self.keys.open_source(flow, sequence, coded)
    }
}
