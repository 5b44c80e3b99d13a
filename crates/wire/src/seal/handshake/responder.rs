//! The responder: screens an initiation, reads it, and accepts it or not.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use snow::HandshakeState;
use snow::error::Error;

use super::{AcceptError, InitiationError};
use crate::capabilities::Capabilities;
use crate::ids::{Boot, Epoch, SessionIndex, Shard};
use crate::limits::{KEY_BYTES, MAC_BYTES};
use crate::packets::{
    InitiationHeader, InitiationPacket, Purpose, RESPONSE_BYTES_MIN, ResponseHeader, ResponsePacket, Suite,
};
use crate::payloads::{InitiationPayload, ResponsePayload};
use crate::seal::mac::{self, Mac1Key};
use crate::seal::noise;
use crate::seal::split_keys::SplitKeys;
use crate::seal::static_key::{PreSharedKey, PublicKey, StaticSecret};

/// A node's key, ready to be spoken to.
pub struct Responder {
    secret: StaticSecret,
    mac1_key: Mac1Key,
}

/// An initiation from somebody who knows the responder's key; nothing else about it is certain yet.
#[derive(Clone, Copy, Debug)]
pub struct Screened<'a> {
    packet: InitiationPacket<&'a [u8]>,
}

impl<'a> Screened<'a> {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &InitiationHeader {
        self.packet.header()
    }

    /// What no other initiation has: its first MAC.
    #[must_use]
    pub fn mac1(&self) -> &[u8; MAC_BYTES] {
        self.packet.mac1()
    }

    pub(in crate::seal) const fn packet(&self) -> &InitiationPacket<&'a [u8]> {
        &self.packet
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
    /// If its sender does not know the responder's key. Then no answer is given.
    pub fn screen<'a>(&self, packet: InitiationPacket<&'a [u8]>) -> Result<Screened<'a>, InitiationError> {
        if mac::has_mac1(&packet, &self.mac1_key) {
            Ok(Screened { packet })
        } else {
            Err(InitiationError::WrongMac1)
        }
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

/// An initiation that `peer` wrote for this node, lately or not: only its stamp tells.
#[derive(Debug)]
pub struct ReceivedInitiation {
    /// What no other initiation has: its first MAC.
    pub mac1: [u8; MAC_BYTES],
    /// Who wrote it.
    pub peer: PublicKey,
    /// Between whom the session is.
    pub purpose: Purpose,
    /// The ciphers of handshake and session.
    pub suite: Suite,
    /// The shard of the responder that is asked for, if it is a relay.
    pub shard: Shard,
    /// What the initiator can do.
    pub capabilities: Capabilities,
    /// The initiator's index of the session.
    pub index: SessionIndex,
    /// Nanoseconds of Unix time, if the peer's clock is right; more in each initiation of the peer.
    pub stamp: u64,
    /// The run of the initiator.
    pub boot: Boot,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The initiator's messages, encoded.
    pub messages: Vec<u8>,
    noise: Box<HandshakeState>,
    initiation_bytes: usize,
}

/// What the responder says when it accepts.
#[derive(Clone, Copy, Debug)]
pub struct Acceptance<'a> {
    /// The responder's index of the session.
    pub index: SessionIndex,
    /// What the responder can do.
    pub capabilities: Capabilities,
    /// The run of the responder.
    pub boot: Boot,
    /// Messages for the initiator, encoded.
    pub messages: &'a [u8],
}

impl Acceptance<'_> {
    fn payload(&self) -> Vec<u8> {
        let Self { index, capabilities, boot, messages } = *self;
        [&ResponsePayload { index, capabilities, boot }.to_bytes(), messages].concat()
    }
}

impl ReceivedInitiation {
    fn new(packet: &InitiationPacket<&[u8]>, noise: Box<HandshakeState>, payload: &[u8]) -> Self {
        let peer = noise.get_remote_static().and_then(|key| key.try_into().ok());
        let InitiationHeader { purpose, suite, shard, capabilities, sender: index } = *packet.header();
        let (fixed, messages) =
            InitiationPayload::parse(payload).expect("the length of the packet has been checked");
        let InitiationPayload { stamp, boot, epoch } = fixed;
        Self {
            mac1: *packet.mac1(),
            peer: PublicKey::from_bytes(peer.expect("message 1 brings the initiator's key")),
            purpose,
            suite,
            shard,
            capabilities,
            index,
            stamp,
            boot,
            epoch,
            messages: messages.to_vec(),
            noise,
            initiation_bytes: packet.length(),
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
    /// `pre_shared` is the one shared with [`peer`](Self::peer). The keys must not be used to send before something
    /// has been opened with them: this may be a replay.
    ///
    /// # Errors
    /// If the messages do not fit; see [`room`](Self::room).
    pub fn accept(
        mut self,
        acceptance: &Acceptance<'_>,
        pre_shared: &PreSharedKey,
    ) -> Result<(Vec<u8>, SplitKeys), AcceptError> {
        let (bytes, room) = (acceptance.messages.len(), self.room());
        if bytes > room {
            return Err(AcceptError::MessagesTooLong { bytes, room });
        }
        noise::set_pre_shared(&mut self.noise, pre_shared);
        Ok((self.response(acceptance), noise::split(&mut self.noise)))
    }

    fn response(&mut self, acceptance: &Acceptance<'_>) -> Vec<u8> {
        let header = ResponseHeader { receiver: self.index };
        let mut packet = ResponsePacket::with_room(header, acceptance.messages.len());
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
        shard: Shard::new(0),
        capabilities: Capabilities::NONE,
        index: SessionIndex::new(1),
        stamp: 2,
        boot: Boot::new(3),
        epoch: Epoch::new(4),
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
            boot: Boot::new(6),
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
