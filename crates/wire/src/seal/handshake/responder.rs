//! The responder: screens an initiation, reads it, and accepts it or not.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use snow::HandshakeState;
use snow::error::Error;

use super::super::aead::{KEY_BYTES, Suite};
use super::super::limits::HANDSHAKE_BYTES_MAX;
use super::super::mac::{self, Mac1Key};
use super::super::noise;
use super::super::split_keys::SplitKeys;
use super::super::static_key::{PreSharedKey, PublicKey, StaticSecret};
use super::header::{
    Header, INITIATION_BYTES_MIN, INITIATION_HEADER_BYTES, MACS_BYTES, MESSAGE_1_OVERHEAD,
    MESSAGE_2_OVERHEAD, Purpose, RESPONSE_BYTES_MIN, RESPONSE_FIELDS_BYTES, RESPONSE_HEADER_BYTES,
    RESPONSE_KIND, prologue, take,
};
use super::{AcceptError, InitiationError};

/// A node's key, ready to be spoken to.
pub struct Responder {
    secret: StaticSecret,
    mac1_key: Mac1Key,
}

/// An initiation from somebody who knows the responder's key; nothing else about it is certain yet.
#[derive(Clone, Copy)]
pub struct Screened<'a> {
    packet: &'a [u8],
    header: Header,
}

impl Screened<'_> {
    /// What the session is for.
    #[must_use]
    pub const fn purpose(&self) -> Purpose {
        self.header.purpose
    }

    /// The ciphers of handshake and session.
    #[must_use]
    pub const fn suite(&self) -> Suite {
        self.header.suite
    }

    /// The relay's shard that is asked for.
    #[must_use]
    pub const fn shard(&self) -> u8 {
        self.header.shard
    }

    /// The index that the initiator wants to see in what it receives.
    #[must_use]
    pub const fn sender_index(&self) -> u32 {
        self.header.sender_index
    }

    /// What no other initiation has: its first MAC.
    #[must_use]
    pub fn mac1(&self) -> &[u8; 16] {
        mac::mac1(self.packet)
    }

    pub(in super::super) const fn bytes(&self) -> &[u8] {
        self.packet
    }

    /// The header as it came, and the Noise message.
    fn parts(&self) -> (&[u8; INITIATION_HEADER_BYTES], &[u8]) {
        let (header, rest) = self.packet.split_first_chunk().expect("the length has been checked");
        (header, &rest[..rest.len() - MACS_BYTES])
    }
}

impl fmt::Debug for Screened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Screened({:?}, {} bytes)", self.header, self.packet.len())
    }
}

impl Responder {
    /// The node with this secret.
    #[must_use]
    pub fn new(secret: StaticSecret) -> Self {
        let mac1_key = Mac1Key::of(&secret.public_key());
        Self { secret, mac1_key }
    }

    /// Checks all that can be checked without a key agreement: one hash over the packet.
    ///
    /// # Errors
    /// If this is not an initiation, or its sender does not know the responder's key. Then no answer is given.
    pub fn screen<'a>(&self, packet: &'a [u8]) -> Result<Screened<'a>, InitiationError> {
        let bytes = packet.len();
        let header = packet
            .first_chunk()
            .filter(|_| (INITIATION_BYTES_MIN..=HANDSHAKE_BYTES_MAX).contains(&bytes))
            .ok_or(InitiationError::WrongLength { bytes })?;
        let header = Header::parse(header)?;
        if !mac::has_mac1(packet, &self.mac1_key) {
            return Err(InitiationError::WrongMac1);
        }
        Ok(Screened { packet, header })
    }

    /// Reads an initiation: two key agreements.
    ///
    /// `seed` is 32 secret bytes, fresh for each call: the ephemeral secret of the response. Whether the peer,
    /// its stamp and what it wants are acceptable is for the caller to say, before
    /// [`accept`](ReceivedInitiation::accept).
    ///
    /// # Errors
    /// If it was not sealed for this responder.
    pub fn read(
        &self,
        initiation: &Screened<'_>,
        seed: &[u8; KEY_BYTES],
    ) -> Result<ReceivedInitiation, InitiationError> {
        let (header, message) = initiation.parts();
        let mut payload = vec![0; message.len() - MESSAGE_1_OVERHEAD];
        let mut noise = noise::responder(initiation.suite(), &prologue(header), &self.secret, seed);
        noise.read_message(message, &mut payload).map_err(|error| match error {
            Error::Dh => InitiationError::WeakKey,
            _ => InitiationError::Forged,
        })?;
        Ok(ReceivedInitiation::new(initiation, noise, &payload))
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({})", self.secret.public_key())
    }
}

/// An initiation that `peer` wrote for this node, lately or not: only its stamp tells.
#[derive(Debug)]
pub struct ReceivedInitiation {
    /// What no other initiation has: its first MAC.
    pub mac1: [u8; 16],
    /// Who wrote it.
    pub peer: PublicKey,
    /// What the session is for.
    pub purpose: Purpose,
    /// The ciphers of handshake and session.
    pub suite: Suite,
    /// The relay's shard that is asked for.
    pub shard: u8,
    /// What the initiator can do, bit by bit.
    pub capabilities: u16,
    /// The index that the initiator wants to see in what it receives.
    pub sender_index: u32,
    /// Nanoseconds, more in each initiation of the peer.
    pub stamp: u64,
    /// Random, and constant for one run of the peer.
    pub boot: u64,
    /// The number of the epoch that begins.
    pub epoch: u8,
    /// The initiator's messages, encoded.
    pub messages: Vec<u8>,
    noise: Box<HandshakeState>,
    initiation_bytes: usize,
}

/// What the responder says when it accepts.
#[derive(Clone, Copy, Debug)]
pub struct Acceptance<'a> {
    /// The index that the responder wants to see in what it receives.
    pub index: u32,
    /// What the responder can do, bit by bit.
    pub capabilities: u16,
    /// Random, and constant for one run of the responder.
    pub boot: u64,
    /// Messages for the initiator, encoded.
    pub messages: &'a [u8],
}

impl Acceptance<'_> {
    fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(RESPONSE_FIELDS_BYTES + self.messages.len());
        payload.extend_from_slice(&self.index.to_be_bytes());
        payload.extend_from_slice(&self.capabilities.to_be_bytes());
        payload.extend_from_slice(&self.boot.to_be_bytes());
        payload.extend_from_slice(self.messages);
        payload
    }
}

impl ReceivedInitiation {
    fn new(initiation: &Screened<'_>, noise: Box<HandshakeState>, payload: &[u8]) -> Self {
        let peer = noise.get_remote_static().and_then(|key| key.try_into().ok());
        let Header { purpose, suite, shard, capabilities, sender_index } = initiation.header;
        let mut rest = payload;
        Self {
            mac1: *initiation.mac1(),
            peer: PublicKey::from_bytes(peer.expect("message 1 brings the initiator's key")),
            purpose,
            suite,
            shard,
            capabilities,
            sender_index,
            stamp: u64::from_be_bytes(take(&mut rest)),
            boot: u64::from_be_bytes(take(&mut rest)),
            epoch: u8::from_be_bytes(take(&mut rest)),
            messages: rest.to_vec(),
            noise,
            initiation_bytes: initiation.packet.len(),
        }
    }

    /// How many bytes of messages the response may carry.
    ///
    /// A response is never longer than its initiation, so that replayed initiations with a forged address bring
    /// their victim no more than the replayer has sent.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.initiation_bytes - RESPONSE_BYTES_MIN
    }

    /// The response, and the packet keys of the epoch: two more key agreements.
    ///
    /// `psk` is the one shared with [`peer`](Self::peer). The keys must not be used to send before something
    /// has been opened with them: this may be a replay.
    ///
    /// # Errors
    /// If the messages do not fit; see [`room`](Self::room).
    pub fn accept(
        mut self,
        acceptance: &Acceptance<'_>,
        psk: &PreSharedKey,
    ) -> Result<(Vec<u8>, SplitKeys), AcceptError> {
        let (bytes, room) = (acceptance.messages.len(), self.room());
        if bytes > room {
            return Err(AcceptError::MessagesTooLong { bytes, room });
        }
        noise::set_psk(&mut self.noise, psk);
        Ok((self.response(&acceptance.payload()), noise::split(&mut self.noise)))
    }

    fn response(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; RESPONSE_HEADER_BYTES + MESSAGE_2_OVERHEAD + payload.len()];
        packet[0] = RESPONSE_KIND;
        packet[4..RESPONSE_HEADER_BYTES].copy_from_slice(&self.sender_index.to_be_bytes());
        self.noise
            .write_message(payload, &mut packet[RESPONSE_HEADER_BYTES..])
            .expect("message 1 agreed on something with both of the initiator's keys, and so does message 2");
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::hex::vector;
    use super::super::{Initiation, ResponseError, WriteError};
    use super::*;

    /// The points of order 1, 2, 4 and 8 of curve and twist: 0, 1, two of order 8, p - 1, p and p + 1.
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
        shard: 0,
        capabilities: 0,
        sender_index: 1,
        stamp: 2,
        boot: 3,
        epoch: 4,
        messages: &[],
    };

    fn weak_keys() -> impl Iterator<Item = [u8; KEY_BYTES]> {
        let canonical = WEAK.map(|key| vector(key).try_into().expect("keys have 32 bytes"));
        // The top bit of a key is ignored by X25519.
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
        let (key, psk) = (responder().secret.public_key(), PreSharedKey::default());
        INITIATION.write(secret, &key, &psk, &[3; KEY_BYTES]).expect("the initiation can be written")
    }

    fn read(packet: &[u8]) -> Result<ReceivedInitiation, InitiationError> {
        let responder = responder();
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
            packet[INITIATION_HEADER_BYTES..][..KEY_BYTES].copy_from_slice(&key);
            mac::write_mac1(&mut packet, &responder().mac1_key);
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
        let acceptance = Acceptance { index: 5, capabilities: 0, boot: 6, messages: &[] };
        let accepted =
            read(&packet).expect("the initiation is good").accept(&acceptance, &PreSharedKey::default());
        let (response, _) = accepted.expect("there are no messages");
        for key in weak_keys() {
            let (_, mut awaited) = written_by(&initiator());
            let mut weak = response.clone();
            weak[RESPONSE_HEADER_BYTES..][..KEY_BYTES].copy_from_slice(&key);
            assert_eq!(awaited.read(&weak).map(|_| ()), Err(ResponseError::WeakKey));
            assert!(awaited.read(&response).is_ok(), "the true one is still taken");
        }
    }
}
