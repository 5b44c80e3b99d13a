//! The responder: screens an initiation, reads it, and accepts or rejects it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use snow::HandshakeState;
use snow::error::Error;

use super::{AcceptError, InitiationError};
use crate::capabilities::Capabilities;
use crate::ids::{Epoch, Incarnation, SessionIndex, Shard};
use crate::limits::{KEY_BYTES, MAC_BYTES};
use crate::packets::{
    InitiationHeader, InitiationPacket, Purpose, RESPONSE_BYTES_MIN, ResponseHeader, ResponsePacket, Suite,
};
use crate::payloads::{InitiationPayload, ResponsePayload};
use crate::seal::mac::{self, Mac1Key};
use crate::seal::noise;
use crate::seal::split_keys::SplitKeys;
use crate::seal::static_key::{PreSharedKey, PublicKey, StaticSecret};

/// Long-term key of a node that answers initiations.
pub struct Responder {
    secret: StaticSecret,
    mac1_key: Mac1Key,
}

/// Initiation whose `mac1` proves that its sender knows the responder's key. Its other claims are
/// unverified.
#[derive(Clone, Copy, Debug)]
pub struct ScreenedInitiation<'a> {
    packet: InitiationPacket<&'a [u8]>,
}

impl<'a> ScreenedInitiation<'a> {
    /// Returns the header of the initiation.
    #[must_use]
    pub const fn header(&self) -> &InitiationHeader {
        self.packet.header()
    }

    /// Returns the first MAC, which is unique to this initiation.
    #[must_use]
    pub fn mac1(&self) -> &[u8; MAC_BYTES] {
        self.packet.mac1()
    }

    pub(in crate::seal) const fn packet(&self) -> &InitiationPacket<&'a [u8]> {
        &self.packet
    }
}

impl Responder {
    /// Returns the responder with this long-term key.
    #[must_use]
    pub fn new(secret: StaticSecret) -> Self {
        let mac1_key = Mac1Key::of(&secret.public_key());
        Self { secret, mac1_key }
    }

    /// Checks the `mac1` of an initiation, which needs no key agreement, only one hash over the
    /// packet.
    ///
    /// # Errors
    /// If the sender does not know the responder's key. The caller must not answer.
    pub fn screen<'a>(
        &self,
        packet: InitiationPacket<&'a [u8]>,
    ) -> Result<ScreenedInitiation<'a>, InitiationError> {
        if mac::has_mac1(&packet, &self.mac1_key) {
            Ok(ScreenedInitiation { packet })
        } else {
            Err(InitiationError::WrongMac1)
        }
    }

    /// Reads an initiation, at the cost of two key agreements.
    ///
    /// `seed` is the ephemeral secret of the response: 32 secret bytes, fresh for each call. Before
    /// [`accept`](ReceivedInitiation::accept), the caller decides if it accepts the peer, the
    /// handshake timestamp and the request.
    ///
    /// # Errors
    /// If the initiation was not sealed for this responder.
    pub fn read(
        &self,
        initiation: &ScreenedInitiation<'_>,
        seed: &[u8; KEY_BYTES],
    ) -> Result<ReceivedInitiation, InitiationError> {
        let packet = initiation.packet;
        let mut noise = noise::responder(packet.header().suite, &packet.prologue(), &self.secret, seed);
        let payload = noise::read(&mut noise, packet.noise_message()).map_err(|error| match error {
            Error::Dh => InitiationError::WeakKey,
            _ => InitiationError::Forged,
        })?;
        Ok(ReceivedInitiation::new(&packet, noise, &payload))
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({})", self.secret.public_key())
    }
}

/// Initiation that `peer` wrote for this node, as read. It may be a replay, which only its
/// handshake timestamp reveals.
#[derive(Debug)]
pub struct ReceivedInitiation {
    /// First MAC, which is unique to this initiation.
    pub mac1: [u8; MAC_BYTES],
    /// Long-term public key of the initiator.
    pub peer: PublicKey,
    /// Roles of the two nodes.
    pub purpose: Purpose,
    /// Ciphers of the handshake and the session.
    pub suite: Suite,
    /// Requested shard of the responder, if it is a relay.
    pub shard: Shard,
    /// Capabilities of the initiator.
    pub capabilities: Capabilities,
    /// Session index that the initiator has chosen for packets to it.
    pub index: SessionIndex,
    /// Nanoseconds of Unix time, if the peer's clock is right. Higher in each initiation of the
    /// peer.
    pub handshake_timestamp: u64,
    /// Incarnation of the initiator.
    pub incarnation: Incarnation,
    /// Epoch that this handshake begins.
    pub epoch: Epoch,
    /// The initiator's messages, encoded.
    pub messages: Vec<u8>,
    noise: Box<HandshakeState>,
    initiation_bytes: usize,
}

/// Contents of the response to an accepted initiation.
#[derive(Clone, Copy, Debug)]
pub struct Acceptance<'a> {
    /// Session index that the responder has chosen for packets to it.
    pub index: SessionIndex,
    /// Capabilities of the responder.
    pub capabilities: Capabilities,
    /// Incarnation of the responder.
    pub incarnation: Incarnation,
    /// Messages for the initiator, encoded.
    pub messages: &'a [u8],
}

impl Acceptance<'_> {
    fn payload(&self) -> Vec<u8> {
        let Self { index, capabilities, incarnation, messages } = *self;
        [&ResponsePayload { index, capabilities, incarnation }.to_bytes(), messages].concat()
    }
}

impl ReceivedInitiation {
    fn new(packet: &InitiationPacket<&[u8]>, noise: Box<HandshakeState>, payload: &[u8]) -> Self {
        let peer = noise.get_remote_static().and_then(|key| key.try_into().ok());
        let InitiationHeader { purpose, suite, shard, capabilities, sender: index } = *packet.header();
        let (fixed, messages) =
            InitiationPayload::parse(payload).expect("the length of the packet has been checked");
        let InitiationPayload { handshake_timestamp, incarnation, epoch } = fixed;
        Self {
            mac1: *packet.mac1(),
            peer: PublicKey::from_bytes(peer.expect("message 1 contains the initiator's key")),
            purpose,
            suite,
            shard,
            capabilities,
            index,
            handshake_timestamp,
            incarnation,
            epoch,
            messages: messages.to_vec(),
            noise,
            initiation_bytes: packet.length(),
        }
    }

    /// Returns the greatest length of messages in the response, in bytes.
    ///
    /// A response is never longer than its initiation. Replays with a forged source address
    /// therefore cause no amplification.
    #[must_use]
    pub const fn response_capacity(&self) -> usize {
        self.initiation_bytes - RESPONSE_BYTES_MIN
    }

    /// Returns the response and the epoch's packet keys, at the cost of two more key agreements.
    ///
    /// `pre_shared` is the key shared with [`peer`](Self::peer). Do not seal with the keys before a
    /// packet has been opened with them, because the initiation may be a replay.
    ///
    /// # Errors
    /// If the messages do not fit; see [`response_capacity`](Self::response_capacity).
    pub fn accept(
        mut self,
        acceptance: &Acceptance<'_>,
        pre_shared: &PreSharedKey,
    ) -> Result<(Vec<u8>, SplitKeys), AcceptError> {
        let (bytes, capacity) = (acceptance.messages.len(), self.response_capacity());
        if bytes > capacity {
            return Err(AcceptError::MessagesTooLong { bytes, capacity });
        }
        noise::set_pre_shared(&mut self.noise, pre_shared);
        Ok((self.response(acceptance), noise::split(&mut self.noise)))
    }

    fn response(&mut self, acceptance: &Acceptance<'_>) -> Vec<u8> {
        let header = ResponseHeader { receiver: self.index };
        let mut packet = ResponsePacket::with_capacity(header, acceptance.messages.len());
        noise::write(&mut self.noise, &acceptance.payload(), packet.noise_message_mut())
            .expect("message 1 agreed on something with both of the initiator's keys, and so does message 2");
        packet.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Initiation, ResponseError, WriteError};
    use super::*;
    use crate::seal::hex::vector;

    /// The points of order 1, 2, 4 and 8 of curve and twist: 0, 1, two of order 8, p - 1, p and
    /// p + 1.
    const WEAK: [&str; 7] = [
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    ];

    const INITIATION: Initiation<'static> = Initiation {
        purpose: Purpose::EndToEnd,
        suite: Suite::ChaCha20Poly1305,
        shard: Shard::new(0),
        capabilities: Capabilities::NONE,
        index: SessionIndex::new(1),
        handshake_timestamp: 2,
        incarnation: Incarnation::new(3),
        epoch: Epoch::new(4),
        messages: &[],
    };

    fn weak_keys() -> impl Iterator<Item = [u8; KEY_BYTES]> {
        let canonical = WEAK.map(|key| vector(key).try_into().expect("keys have 32 bytes"));
        // X25519 ignores the top bit of a key.
        let with_top_bit = canonical.map(|mut key: [u8; KEY_BYTES]| {
            key[KEY_BYTES - 1] |= 0x80;
            key
        });
        canonical.into_iter().chain(with_top_bit)
    }

    fn initiator() -> StaticSecret {
        StaticSecret::from_bytes([1; KEY_BYTES])
    }

    fn responder() -> Responder {
        Responder::new(StaticSecret::from_bytes([2; KEY_BYTES]))
    }

    fn written_by(secret: &StaticSecret) -> (Vec<u8>, super::super::AwaitedResponse) {
        let (key, pre_shared) = (responder().secret.public_key(), PreSharedKey::default());
        INITIATION.write(secret, &key, &pre_shared, &[3; KEY_BYTES]).expect("the initiation can be written")
    }

    fn read(packet: &[u8]) -> Result<ReceivedInitiation, InitiationError> {
        let responder = responder();
        let packet = InitiationPacket::parse(packet).expect("the header is legal");
        let screened = responder.screen(packet).expect("mac1 is right");
        responder.read(&screened, &[4; KEY_BYTES])
    }

    #[test]
    fn a_responder_whose_key_agrees_on_nothing_is_not_spoken_to() {
        for key in weak_keys() {
            let key = PublicKey::from_bytes(key);
            let written = INITIATION.write(&initiator(), &key, &PreSharedKey::default(), &[3; KEY_BYTES]);
            assert_eq!(written.map(|_| ()), Err(WriteError::WeakKey), "{key}");
        }
    }

    #[test]
    fn an_ephemeral_key_that_agrees_on_nothing_is_refused() {
        for key in weak_keys() {
            let (mut packet, _) = written_by(&initiator());
            let mut changed = InitiationPacket::parse(packet.as_mut_slice()).expect("the header is legal");
            changed.noise_message_mut()[..KEY_BYTES].copy_from_slice(&key);
            mac::write_mac1(&mut changed, &responder().mac1_key);
            assert_eq!(read(&packet).map(|_| ()), Err(InitiationError::WeakKey));
        }
    }

    #[test]
    fn a_static_key_that_agrees_on_nothing_is_refused() {
        for key in weak_keys() {
            let (packet, _) = written_by(&initiator().claiming(PublicKey::from_bytes(key)));
            assert_eq!(read(&packet).map(|_| ()), Err(InitiationError::WeakKey));
        }
        let (packet, _) = written_by(&initiator().claiming(PublicKey::from_bytes([9; KEY_BYTES])));
        assert_eq!(read(&packet).map(|_| ()), Err(InitiationError::Forged), "somebody else's key");
    }

    #[test]
    fn a_response_with_a_key_that_agrees_on_nothing_is_refused() {
        let (packet, _) = written_by(&initiator());
        let acceptance = Acceptance {
            index: SessionIndex::new(5),
            capabilities: Capabilities::NONE,
            incarnation: Incarnation::new(6),
            messages: &[],
        };
        let accepted =
            read(&packet).expect("the initiation is good").accept(&acceptance, &PreSharedKey::default());
        let (response, _) = accepted.expect("there are no messages");
        for key in weak_keys() {
            let (_, mut awaited) = written_by(&initiator());
            let mut weak = response.clone();
            weak[ResponseHeader::BYTES..][..KEY_BYTES].copy_from_slice(&key);
            let mut read =
                |bytes: &[u8]| awaited.read(ResponsePacket::parse(bytes).expect("it is long enough"));
            assert_eq!(read(&weak).map(|_| ()), Err(ResponseError::WeakKey));
            assert!(read(&response).is_ok(), "the true one is still taken");
        }
    }
}
