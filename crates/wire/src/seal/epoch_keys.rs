//! Keys of an epoch in use: sealing, opening and tagging of packets in place.

use alloc::boxed::Box;

use byway_units::FlowId;

use super::aead::{ForgeryError, Nonce, PacketKey};
use crate::coded::{CodedBytes, associated_data};
use crate::low::{Counter, SequenceNumber};
use crate::packets::{Envelope, MessagePacket};

/// Packet keys of both directions in one epoch.
pub struct EpochKeys {
    send: Box<dyn PacketKey>,
    receive: Box<dyn PacketKey>,
}

impl EpochKeys {
    /// Combines the prepared keys of both directions.
    #[must_use]
    pub fn new(send: Box<dyn PacketKey>, receive: Box<dyn PacketKey>) -> Self {
        Self { send, receive }
    }

    /// Turns `flags ‖ plaintext ‖ space for the tag` into the coded bytes
    /// `flags ‖ ciphertext ‖ tag`.
    ///
    /// A sequence number must be used only once in a flow.
    ///
    /// # Panics
    /// If there is no complete plaintext between flags and space for the tag.
    pub fn seal_source(&self, flow: FlowId, sequence: SequenceNumber, coded: &mut [u8]) {
        let coded = CodedBytes::parse(coded).expect("the caller puts a plaintext between flags and tag");
        let associated = associated_data(flow, sequence.low(), coded.flags());
        let (plaintext, tag) = coded.into_sealed().split_mut();
        *tag = self.send.seal(&Nonce::of_source_packet(flow, sequence), &associated, plaintext);
    }

    /// Decrypts coded bytes, from whatever path or repair, and returns the plaintext.
    ///
    /// The sequence number is the full one, which the receiver has completed.
    ///
    /// # Errors
    /// If the peer did not seal these bytes. The buffer then contains garbage.
    pub fn open_source<'a>(
        &self,
        flow: FlowId,
        sequence: SequenceNumber,
        coded: CodedBytes<&'a mut [u8]>,
    ) -> Result<&'a mut [u8], ForgeryError> {
        let associated = associated_data(flow, sequence.low(), coded.flags());
        let (ciphertext, tag) = coded.into_sealed().split();
        self.receive.open(&Nonce::of_source_packet(flow, sequence), &associated, ciphertext, tag)?;
        Ok(ciphertext)
    }

    /// Turns `header ‖ messages ‖ space for the tag` into a message packet.
    ///
    /// A counter must be used only once in an epoch, by message packets and envelopes together.
    ///
    /// # Panics
    /// If there is no header of a message packet, or no space for the tag.
    pub fn seal_message(&self, counter: Counter, packet: &mut [u8]) {
        let packet = MessagePacket::parse(packet).expect("the caller puts messages between header and tag");
        self.seal_parsed(counter, packet);
    }

    /// Turns `header ‖ messages ‖ space for the tag` into a message packet for a path through a
    /// third relay. Its kind is part of the associated data, so nobody can make it a packet of
    /// another kind.
    ///
    /// # Panics
    /// As [`EpochKeys::seal_message`].
    pub fn seal_transit_message(&self, counter: Counter, packet: &mut [u8]) {
        let packet =
            MessagePacket::parse_transit(packet).expect("the caller puts messages between header and tag");
        self.seal_parsed(counter, packet);
    }

    #[inline]
    fn seal_parsed(&self, counter: Counter, packet: MessagePacket<&mut [u8]>) {
        let (header, sealed) = packet.into_parts();
        let (messages, tag) = sealed.split_mut();
        *tag = self.send.seal(&Nonce::of_counter(counter), header, messages);
    }

    /// Decrypts a message packet and returns its messages.
    ///
    /// The counter is the full one, which the receiver has completed.
    ///
    /// # Errors
    /// If the peer did not seal this packet. The buffer then contains garbage.
    pub fn open_message<'a>(
        &self,
        counter: Counter,
        packet: MessagePacket<&'a mut [u8]>,
    ) -> Result<&'a mut [u8], ForgeryError> {
        let (header, sealed) = packet.into_parts();
        let (ciphertext, tag) = sealed.split();
        self.receive.open(&Nonce::of_counter(counter), header, ciphertext, tag)?;
        Ok(ciphertext)
    }

    /// Writes the hop tag into the last 16 bytes of an envelope. It covers all bytes before it.
    ///
    /// A counter must be used only once in an epoch, by message packets and envelopes together.
    ///
    /// # Panics
    /// If there is no space for the tag.
    pub fn tag_envelope(&self, counter: Counter, envelope: &mut [u8]) {
        let (authenticated, tag) =
            envelope.split_last_chunk_mut().expect("the caller leaves space for the tag");
        *tag = self.send.seal(&Nonce::of_counter(counter), authenticated, &mut []);
    }

    /// Verifies the hop tag of an envelope.
    ///
    /// The counter is the full one, which the receiver has completed.
    ///
    /// # Errors
    /// If the peer did not tag this envelope.
    pub fn verify_envelope<B>(&self, counter: Counter, envelope: &Envelope<B>) -> Result<(), ForgeryError>
    where
        B: AsRef<[u8]>,
    {
        let (authenticated, tag) = envelope.authenticated();
        self.receive.open(&Nonce::of_counter(counter), authenticated, &mut [], tag)
    }
}
