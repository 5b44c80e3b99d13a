//! The keys of one epoch at work: packets are sealed, opened and tagged in place.

use alloc::boxed::Box;

use byway_units::FlowId;
use thiserror::Error;

use super::aead::{Forged, Nonce, PacketKey, TAG_BYTES};

/// The flags of a source packet, which begin its coded bytes.
const FLAGS_BYTES: usize = 1;

/// Of a message packet, the bytes before the ciphertext: kind, receiver index, counter.
const MESSAGE_HEADER_BYTES: usize = 9;

/// The associated data of a source packet: flow, low half of the sequence number, flags.
const SOURCE_AAD_BYTES: usize = 7;

/// Why a packet was not opened. What the buffer then holds is garbage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Less than what every such packet has.
    #[error("a packet of {bytes} bytes where {needed} is the least: drop it and count it")]
    TooShort {
        /// The bytes there are.
        bytes: usize,
        /// The bytes there must be.
        needed: usize,
    },
    /// Not sealed under this key with this number.
    #[error(transparent)]
    Forged(#[from] Forged),
}

/// Both directions of one epoch.
pub struct EpochKeys {
    send: Box<dyn PacketKey>,
    receive: Box<dyn PacketKey>,
}

impl EpochKeys {
    /// The bytes that a sealed source packet's coded bytes have beside the plaintext.
    pub const SOURCE_OVERHEAD: usize = FLAGS_BYTES + TAG_BYTES;

    /// The bytes that a sealed message packet has beside the messages.
    pub const MESSAGE_OVERHEAD: usize = MESSAGE_HEADER_BYTES + TAG_BYTES;

    /// Keys made by a provider.
    #[must_use]
    pub fn new(send: Box<dyn PacketKey>, receive: Box<dyn PacketKey>) -> Self {
        Self { send, receive }
    }

    /// Turns `flags ‖ plaintext ‖ room for the tag` into the coded bytes `flags ‖ ciphertext ‖ tag`.
    ///
    /// `number` is the flow's 64-bit sequence number, used once.
    ///
    /// # Panics
    /// If there is no room for flags and tag.
    pub fn seal_source(&self, flow: FlowId, number: u64, coded: &mut [u8]) {
        let (flags, rest) = coded.split_first_mut().expect("the caller leaves room for the flags");
        let (plaintext, tag) = rest.split_last_chunk_mut().expect("the caller leaves room for the tag");
        let aad = source_aad(flow, number, *flags);
        *tag = self.send.seal(&Nonce::of_source_packet(flow, number), &aad, plaintext);
    }

    /// Turns coded bytes, however they came, back into their plaintext, which is what is returned.
    ///
    /// `number` is the whole sequence number, as the receiver completed it.
    ///
    /// # Errors
    /// If this is not what the peer sealed.
    pub fn open_source<'a>(
        &self,
        flow: FlowId,
        number: u64,
        coded: &'a mut [u8],
    ) -> Result<&'a mut [u8], OpenError> {
        let (header, ciphertext, tag) = parts(coded, FLAGS_BYTES)?;
        let aad = source_aad(flow, number, header[0]);
        self.receive.open(&Nonce::of_source_packet(flow, number), &aad, ciphertext, tag)?;
        Ok(ciphertext)
    }

    /// Turns `header[9] ‖ messages ‖ room for the tag` into a message packet.
    ///
    /// `counter` is used once in the epoch, by message packets and envelopes together.
    ///
    /// # Panics
    /// If there is no room for header and tag.
    pub fn seal_message(&self, counter: u64, packet: &mut [u8]) {
        let (header, messages, tag) = parts(packet, MESSAGE_HEADER_BYTES)
            .unwrap_or_else(|_| panic!("the caller leaves room for header and tag"));
        *tag = self.send.seal(&Nonce::of_counter(counter), header, messages);
    }

    /// Turns a message packet back into its messages, which are what is returned.
    ///
    /// `counter` is the whole counter, as the receiver completed it.
    ///
    /// # Errors
    /// If this is not what the peer sealed.
    pub fn open_message<'a>(&self, counter: u64, packet: &'a mut [u8]) -> Result<&'a mut [u8], OpenError> {
        let (header, ciphertext, tag) = parts(packet, MESSAGE_HEADER_BYTES)?;
        self.receive.open(&Nonce::of_counter(counter), header, ciphertext, tag)?;
        Ok(ciphertext)
    }

    /// Writes the hop tag over everything before it into the last 16 bytes of an envelope.
    ///
    /// `counter` is used once in the epoch, by message packets and envelopes together.
    ///
    /// # Panics
    /// If there is no room for the tag.
    pub fn tag_envelope(&self, counter: u64, envelope: &mut [u8]) {
        let (tagged, tag) = envelope.split_last_chunk_mut().expect("the caller leaves room for the tag");
        *tag = self.send.seal(&Nonce::of_counter(counter), tagged, &mut []);
    }

    /// What stands before the hop tag of an envelope, once the tag has been found right.
    ///
    /// # Errors
    /// If this is not what the peer tagged.
    pub fn verify_envelope<'a>(&self, counter: u64, envelope: &'a [u8]) -> Result<&'a [u8], OpenError> {
        let too_short = OpenError::TooShort { bytes: envelope.len(), needed: TAG_BYTES };
        let (tagged, tag) = envelope.split_last_chunk().ok_or(too_short)?;
        self.receive.open(&Nonce::of_counter(counter), tagged, &mut [], tag)?;
        Ok(tagged)
    }
}

fn source_aad(flow: FlowId, number: u64, flags: u8) -> [u8; SOURCE_AAD_BYTES] {
    let [flow_high, flow_low] = flow.number().to_be_bytes();
    let [_, _, _, _, a, b, c, d] = number.to_be_bytes();
    [flow_high, flow_low, a, b, c, d, flags]
}

type Parts<'a> = (&'a mut [u8], &'a mut [u8], &'a mut [u8; TAG_BYTES]);

/// Header, body and tag.
fn parts(packet: &mut [u8], header_bytes: usize) -> Result<Parts<'_>, OpenError> {
    let (bytes, needed) = (packet.len(), header_bytes + TAG_BYTES);
    let too_short = OpenError::TooShort { bytes, needed };
    let (before, tag) = packet.split_last_chunk_mut().ok_or(too_short)?;
    let (header, body) = before.split_at_mut_checked(header_bytes).ok_or(too_short)?;
    Ok((header, body, tag))
}
