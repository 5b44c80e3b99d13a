//! One epoch of a session: its keys at work, and what they have been used for.

use alloc::vec::Vec;
use core::fmt;

use byway_units::{FlowId, Time};
use byway_wire::packets::{
    ENVELOPE_OVERHEAD, Envelope, EnvelopeHeader, EnvelopeRole, MESSAGE_OVERHEAD, MessageHeader, MessagePacket,
};
use byway_wire::seal::{DigestKey, EpochKeys, Forged, Refused, ReplayWindow};
use byway_wire::{Alias, Capabilities, CodedBytes, Counter, Ecn, SequenceNumber, SessionIndex};
use thiserror::Error;

use crate::limits::{EPOCH_OPENS_FOR, EPOCH_PACKETS_MAX, EPOCH_SEALS_FOR, REKEY_AFTER, REKEY_PACKETS};
use crate::outbox::Owner;

/// Why a packet of an epoch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Rejected {
    #[error(transparent)]
    Replay(#[from] Refused),
    #[error(transparent)]
    Forged(#[from] Forged),
}

/// Keys, indices and counters between one handshake and the next.
pub(crate) struct Epoch {
    pub(crate) number: byway_wire::Epoch,
    /// The index in what this side receives.
    pub(crate) ours: SessionIndex,
    /// The index in what this side sends.
    theirs: SessionIndex,
    keys: EpochKeys,
    /// Digests that this side makes, and those it checks; `None` unless both sides want them.
    pub(crate) digests: Option<Digests>,
    /// Capabilities that both sides have.
    pub(crate) capabilities: Capabilities,
    next: Counter,
    window: ReplayWindow,
    began: Time,
    /// Source packets that were sealed; their numbers are the flows'.
    sources: u64,
    /// Envelopes that arrived, for the other side's account of losses.
    pub(crate) envelopes: u32,
    /// Envelopes that were sent, for this side's.
    pub(crate) enveloped: u32,
}

/// What goes into an envelope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enveloped<'a> {
    pub(crate) role: EnvelopeRole,
    pub(crate) alias: Alias,
    pub(crate) sequence_low: u32,
    pub(crate) coded: &'a [u8],
    /// The ECN field of the packet that it travels in.
    pub(crate) ecn: Ecn,
    /// Whose it is where that packet may have to wait.
    pub(crate) owner: Option<Owner>,
}

/// The keys of digests.
pub(crate) struct Digests {
    pub(crate) send: DigestKey,
    pub(crate) receive: DigestKey,
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.number, self.ours)
    }
}

impl Epoch {
    pub(crate) fn new(
        number: byway_wire::Epoch,
        ours: SessionIndex,
        theirs: SessionIndex,
        keys: EpochKeys,
        (capabilities, digests): (Capabilities, Option<Digests>),
        now: Time,
    ) -> Self {
        Self {
            number,
            ours,
            theirs,
            keys,
            digests,
            capabilities,
            next: Counter::FIRST,
            window: ReplayWindow::new(),
            began: now,
            sources: 0,
            envelopes: 0,
            enveloped: 0,
        }
    }

    /// Whether a new epoch should begin.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        now.saturating_since(self.began) >= REKEY_AFTER || self.sealed() >= REKEY_PACKETS
    }

    /// Whether its keys may still seal.
    pub(crate) fn may_seal(&self, now: Time) -> bool {
        now.saturating_since(self.began) < EPOCH_SEALS_FOR && self.sealed() < EPOCH_PACKETS_MAX
    }

    /// Whether its keys may still open.
    pub(crate) fn may_open(&self, now: Time) -> bool {
        now.saturating_since(self.began) < EPOCH_OPENS_FOR
    }

    /// How many packets its keys have sealed.
    const fn sealed(&self) -> u64 {
        self.next.number() + self.sources
    }

    /// When [`Epoch::is_stale`] turns true by age.
    pub(crate) fn stale_at(&self) -> Time {
        self.began + REKEY_AFTER
    }

    /// When its keys are wiped.
    pub(crate) fn ends_at(&self) -> Time {
        self.began + EPOCH_OPENS_FOR
    }

    fn take_counter(&mut self) -> Counter {
        let counter = self.next;
        self.next = counter.next();
        counter
    }

    /// Appends a message packet with these messages.
    pub(crate) fn seal_messages(&mut self, messages: &[u8], out: &mut Vec<u8>) {
        let counter = self.take_counter();
        let header = MessageHeader { receiver: self.theirs, counter_low: counter.low() };
        let start = out.len();
        out.resize(start + MessageHeader::BYTES, 0);
        header.emit(out[start..].first_chunk_mut().expect("the header's place was just made"));
        out.extend_from_slice(messages);
        out.resize(start + MESSAGE_OVERHEAD + messages.len(), 0);
        self.keys.seal_message(counter, &mut out[start..]);
    }

    /// Appends an envelope around coded bytes.
    pub(crate) fn envelop(&mut self, contents: &Enveloped<'_>, out: &mut Vec<u8>) {
        let Enveloped { role, alias, sequence_low, coded, .. } = *contents;
        self.enveloped = self.enveloped.wrapping_add(1);
        let counter = self.take_counter();
        let header =
            EnvelopeHeader { role, receiver: self.theirs, counter_low: counter.low(), alias, sequence_low };
        let start = out.len();
        out.resize(start + EnvelopeHeader::BYTES, 0);
        header.emit(out[start..].first_chunk_mut().expect("the header's place was just made"));
        out.extend_from_slice(coded);
        out.resize(start + ENVELOPE_OVERHEAD + coded.len(), 0);
        self.keys.tag_envelope(counter, &mut out[start..]);
    }

    /// Opens a message packet, once. The messages, and whether it is the newest packet so far.
    pub(crate) fn open_messages<'a>(
        &mut self,
        packet: MessagePacket<&'a mut [u8]>,
    ) -> Result<(&'a mut [u8], bool), Rejected> {
        let counter = self.counter(packet.header().counter_low);
        self.window.would_accept(counter)?;
        let newest = counter >= self.window.highest();
        let messages = self.keys.open_message(counter, packet)?;
        self.window.accept(counter)?;
        Ok((messages, newest))
    }

    /// Verifies an envelope, once; whether it is the newest packet so far.
    pub(crate) fn verify_envelope(&mut self, envelope: &Envelope<&mut [u8]>) -> Result<bool, Rejected> {
        let counter = self.counter(envelope.header().counter_low);
        self.window.would_accept(counter)?;
        let newest = counter >= self.window.highest();
        self.keys.verify_envelope(counter, envelope)?;
        self.window.accept(counter)?;
        self.envelopes = self.envelopes.wrapping_add(1);
        Ok(newest)
    }

    fn counter(&self, low: u32) -> Counter {
        Counter::nearest(low, self.window.highest())
    }

    /// As if so many packets had been sent and received.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, packets: u64) {
        self.next = Counter::new(packets);
        self.window.accept(Counter::new(packets - 1)).expect("nothing was skipped before");
    }

    /// The index in the packets that this side sends.
    pub(crate) const fn theirs(&self) -> SessionIndex {
        self.theirs
    }

    /// Seals the coded bytes of a source packet in place: flags first, room for the tag last.
    pub(crate) fn seal_source(&mut self, flow: FlowId, sequence: SequenceNumber, coded: &mut [u8]) {
        self.sources += 1;
        self.keys.seal_source(flow, sequence, coded);
    }

    /// Opens the coded bytes of a source packet in place. What they hold after an error is garbage.
    pub(crate) fn open_source<'a>(
        &self,
        flow: FlowId,
        sequence: SequenceNumber,
        coded: CodedBytes<&'a mut [u8]>,
    ) -> Result<&'a mut [u8], Forged> {
        self.keys.open_source(flow, sequence, coded)
    }
}
