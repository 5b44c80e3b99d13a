//! The keys of one epoch at work: packets are sealed, opened and tagged in place.

use alloc::boxed::Box;

use byway_units::FlowId;

use super::aead::{Forged, Nonce, PacketKey};
use crate::coded::{CodedBytes, associated_data};
use crate::low::{Counter, SequenceNumber};
use crate::packets::{Envelope, MessagePacket};

/// Both directions of one epoch.
pub struct EpochKeys {
    send: Box<dyn PacketKey>,
    receive: Box<dyn PacketKey>,
}

impl EpochKeys {
    /// Keys made by a provider.
    #[must_use]
    pub fn new(send: Box<dyn PacketKey>, receive: Box<dyn PacketKey>) -> Self {
        Self { send, receive }
    }

    /// Turns `flags ‖ plaintext ‖ room for the tag` into the coded bytes `flags ‖ ciphertext ‖ tag`.
    ///
    /// The sequence number is used once in the flow.
    ///
    /// # Panics
    /// If this is no plaintext between flags and room for the tag.
    pub fn seal_source(&self, flow: FlowId, sequence: SequenceNumber, coded: &mut [u8]) {
        let coded = CodedBytes::parse(coded).expect("the caller puts a plaintext between flags and tag");
        let associated = associated_data(flow, sequence.low(), coded.flags());
        let (plaintext, tag) = coded.into_sealed().split_mut();
        *tag = self.send.seal(&Nonce::of_source_packet(flow, sequence), &associated, plaintext);
    }

    /// Turns coded bytes, however they came, back into their plaintext, which is what is returned.
    ///
    /// The sequence number is the whole one, as the receiver completed it.
    ///
    /// # Errors
    /// If this is not what the peer sealed. What the buffer then holds is garbage.
    pub fn open_source<'a>(
        &self,
        flow: FlowId,
        sequence: SequenceNumber,
        coded: CodedBytes<&'a mut [u8]>,
    ) -> Result<&'a mut [u8], Forged> {
        let associated = associated_data(flow, sequence.low(), coded.flags());
        let (ciphertext, tag) = coded.into_sealed().split();
        self.receive.open(&Nonce::of_source_packet(flow, sequence), &associated, ciphertext, tag)?;
        Ok(ciphertext)
    }

    /// Turns `header ‖ messages ‖ room for the tag` into a message packet.
    ///
    /// The counter is used once in the epoch, by message packets and envelopes together.
    ///
    /// # Panics
    /// If there is no header of a message packet, or no room for the tag.
    pub fn seal_message(&self, counter: Counter, packet: &mut [u8]) {
        let packet = MessagePacket::parse(packet).expect("the caller puts messages between header and tag");
        let (header, sealed) = packet.into_parts();
        let (messages, tag) = sealed.split_mut();
        *tag = self.send.seal(&Nonce::of_counter(counter), header, messages);
    }

    /// Turns a message packet back into its messages, which are what is returned.
    ///
    /// The counter is the whole one, as the receiver completed it.
    ///
    /// # Errors
    /// If this is not what the peer sealed. What the buffer then holds is garbage.
    pub fn open_message<'a>(
        &self,
        counter: Counter,
        packet: MessagePacket<&'a mut [u8]>,
    ) -> Result<&'a mut [u8], Forged> {
        let (header, sealed) = packet.into_parts();
        let (ciphertext, tag) = sealed.split();
        self.receive.open(&Nonce::of_counter(counter), header, ciphertext, tag)?;
        Ok(ciphertext)
    }

    /// Writes the hop tag over everything before it into the last 16 bytes of an envelope.
    ///
    /// The counter is used once in the epoch, by message packets and envelopes together.
    ///
    /// # Panics
    /// If there is no room for the tag.
    pub fn tag_envelope(&self, counter: Counter, envelope: &mut [u8]) {
        let (authenticated, tag) =
            envelope.split_last_chunk_mut().expect("the caller leaves room for the tag");
        *tag = self.send.seal(&Nonce::of_counter(counter), authenticated, &mut []);
    }

    /// Checks the hop tag of an envelope.
    ///
    /// The counter is the whole one, as the receiver completed it.
    ///
    /// # Errors
    /// If this is not what the peer tagged.
    pub fn verify_envelope<B>(&self, counter: Counter, envelope: &Envelope<B>) -> Result<(), Forged>
    where
        B: AsRef<[u8]>,
    {
        let (authenticated, tag) = envelope.authenticated();
        self.receive.open(&Nonce::of_counter(counter), authenticated, &mut [], tag)
    }
}
