//! The Noise handshake `IKpsk2`: snow's state machine with Byway's primitives.
//!
//! This module decides two matters that Noise leaves open. Ephemeral secrets come from the caller's
//! seed, and a key agreement that yields zeros is an error.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use snow::error::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

use super::aead::{Nonce, Provider};
use super::portable::PortableProvider;
use super::primitives::{self, NoiseHash};
use super::split_keys::SplitKeys;
use super::static_key::{PreSharedKey, PublicKey, StaticSecret};
use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::packets::Suite;

/// Position of the pre-shared key in `IKpsk2`: the end of message 2, when the responder knows the
/// initiator.
const PSK_POSITION: u8 = 2;

/// Returns the initiator's state before message 1.
pub(super) fn initiator(
    suite: Suite,
    prologue: &[u8],
    secret: &StaticSecret,
    responder: &PublicKey,
    pre_shared: &PreSharedKey,
    seed: &[u8; KEY_BYTES],
) -> Box<HandshakeState> {
    let pair = secret.pair();
    let built = builder(suite, prologue, &pair, seed)
        .remote_public_key(responder.bytes())
        .and_then(|builder| builder.psk(PSK_POSITION, pre_shared.bytes()))
        .and_then(Builder::build_initiator);
    Box::new(built.expect("an initiator has all inputs of IKpsk2"))
}

/// Returns the responder's state before message 1.
pub(super) fn responder(
    suite: Suite,
    prologue: &[u8],
    secret: &StaticSecret,
    seed: &[u8; KEY_BYTES],
) -> Box<HandshakeState> {
    let pair = secret.pair();
    let built = builder(suite, prologue, &pair, seed).build_responder();
    Box::new(built.expect("a responder has all inputs of IKpsk2"))
}

/// Sets the responder's pre-shared key with this initiator.
pub(super) fn set_pre_shared(state: &mut HandshakeState, pre_shared: &PreSharedKey) {
    state.set_psk(PSK_POSITION.into(), pre_shared.bytes()).expect("IKpsk2 has a key at this position");
}

/// Writes the next handshake message into `message`, whose length must match exactly.
pub(super) fn write(state: &mut HandshakeState, payload: &[u8], message: &mut [u8]) -> Result<(), Error> {
    let bytes = state.write_message(payload, message)?;
    assert_eq!(bytes, message.len(), "the packet's space fits its Noise message");
    Ok(())
}

/// Reads the next handshake message, and returns its decrypted payload.
pub(super) fn read(state: &mut HandshakeState, message: &[u8]) -> Result<Vec<u8>, Error> {
    let mut payload = vec![0; message.len()];
    let bytes = state.read_message(message, &mut payload)?;
    payload.truncate(bytes);
    Ok(payload)
}

/// Returns the packet keys of a finished handshake.
pub(super) fn split(state: &mut HandshakeState) -> SplitKeys {
    debug_assert!(state.is_handshake_finished());
    let (initiators, responders) = state.dangerously_get_raw_split();
    let (initiators, responders) = (Zeroizing::new(initiators), Zeroizing::new(responders));
    if state.is_initiator() {
        SplitKeys::new(*initiators, *responders)
    } else {
        SplitKeys::new(*responders, *initiators)
    }
}

fn builder<'a>(
    suite: Suite,
    prologue: &'a [u8],
    pair: &'a [u8; 2 * KEY_BYTES],
    seed: &[u8; KEY_BYTES],
) -> Builder<'a> {
    let primitives = Primitives { suite, seed: Zeroizing::new(*seed) };
    Builder::with_resolver(parameters(suite), Box::new(primitives))
        .local_private_key(pair)
        .and_then(|builder| builder.prologue(prologue))
        .expect("key and prologue are set once")
}

fn parameters(suite: Suite) -> NoiseParams {
    let name = match suite {
        Suite::Aes256Gcm => "Noise_IKpsk2_25519_AESGCM_BLAKE2s",
        Suite::ChaCha20Poly1305 => "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s",
    };
    name.parse().expect("snow knows these names")
}

struct Primitives {
    suite: Suite,
    seed: Zeroizing<[u8; KEY_BYTES]>,
}

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Seed(Some(self.seed.clone()))))
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::<X25519>::default())
    }

    fn resolve_hash(&self, _: &HashChoice) -> Option<Box<dyn Hash>> {
        Some(Box::<NoiseHash>::default())
    }

    fn resolve_cipher(&self, _: &CipherChoice) -> Option<Box<dyn Cipher>> {
        Some(Box::new(HandshakeCipher { suite: self.suite, key: Zeroizing::default() }))
    }
}

/// Ephemeral secret of one handshake, as snow's random generator; it can be read once.
struct Seed(Option<Zeroizing<[u8; KEY_BYTES]>>);

impl Random for Seed {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        let seed = self.0.take().filter(|seed| seed.len() == bytes.len()).ok_or(Error::Rng)?;
        bytes.copy_from_slice(seed.as_ref());
        Ok(())
    }
}

/// X25519 (RFC 7748) that rejects public keys which yield zeros.
#[derive(Default)]
struct X25519 {
    secret: Zeroizing<[u8; KEY_BYTES]>,
    public: [u8; KEY_BYTES],
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        KEY_BYTES
    }

    fn priv_len(&self) -> usize {
        KEY_BYTES
    }

    /// Sets `secret ‖ public key`. The public key is an input because computing it costs a quarter
    /// of a key agreement.
    fn set(&mut self, pair: &[u8]) {
        let (secret, public) = pair.split_at(KEY_BYTES);
        self.secret.copy_from_slice(secret);
        self.public.copy_from_slice(public);
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), Error> {
        random.try_fill_bytes(self.secret.as_mut())?;
        self.public = primitives::public_key(&self.secret);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        self.secret.as_ref()
    }

    fn dh(&self, public: &[u8], shared: &mut [u8]) -> Result<(), Error> {
        let public = public.first_chunk().ok_or(Error::Dh)?;
        let agreed = primitives::shared_secret(&self.secret, public).ok_or(Error::Dh)?;
        shared[..KEY_BYTES].copy_from_slice(Zeroizing::new(agreed).as_ref());
        Ok(())
    }
}

/// AEAD of a suite in the form for snow: keys change, and the nonce is a counter.
struct HandshakeCipher {
    suite: Suite,
    key: Zeroizing<[u8; KEY_BYTES]>,
}

impl Cipher for HandshakeCipher {
    fn name(&self) -> &'static str {
        match self.suite {
            Suite::Aes256Gcm => "AESGCM",
            Suite::ChaCha20Poly1305 => "ChaChaPoly",
        }
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.key.copy_from_slice(key);
    }

    fn encrypt(&self, number: u64, associated: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (in_out, rest) = out.split_at_mut(plaintext.len());
        in_out.copy_from_slice(plaintext);
        let key = PortableProvider.key(self.suite, &self.key);
        rest[..TAG_BYTES].copy_from_slice(&key.seal(
            &Nonce::of_noise(self.suite, number),
            associated,
            in_out,
        ));
        plaintext.len() + TAG_BYTES
    }

    fn decrypt(&self, number: u64, associated: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (ciphertext, tag) = sealed.split_last_chunk().ok_or(Error::Decrypt)?;
        let in_out = out.get_mut(..ciphertext.len()).ok_or(Error::Decrypt)?;
        in_out.copy_from_slice(ciphertext);
        let key = PortableProvider.key(self.suite, &self.key);
        let opened = key.open(&Nonce::of_noise(self.suite, number), associated, in_out, tag);
        opened.map(|()| ciphertext.len()).map_err(|_| Error::Decrypt)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex::vector;
    use super::*;

    /// From the vectors of cacophony, an implementation of Noise in Haskell.
    struct KnownAnswer {
        suite: Suite,
        messages: [&'static str; 2],
        hash: &'static str,
        /// First packet of each side under its split key, with nonce zero.
        sealed: [&'static str; 2],
    }

    const PROLOGUE: &str = "4a6f686e2047616c74";
    const PSK: &str = "54686973206973206d7920417573747269616e20706572737065637469766521";
    const SECRETS: [&str; 2] = [
        "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
        "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
    ];
    const EPHEMERALS: [&str; 2] = [
        "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
        "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
    ];
    const PAYLOADS: [&str; 2] = ["4c756477696720766f6e204d69736573", "4d757272617920526f746862617264"];
    const PLAINTEXTS: [&str; 2] = ["462e20412e20486179656b", "4361726c204d656e676572"];

    const KNOWN: [KnownAnswer; 2] = [
        KnownAnswer {
            suite: Suite::Aes256Gcm,
            messages: [
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944f70d65fedfd7ad294f4c8f5c1324c7c9\
                 0e54cd8af05652112a27b261e11ce99d9d517c4a1e0753038edb26066b4087b4c230aafa22b0552550b723eb69374a67\
                 4d306a84e1852e30af2e2dbefeb4fd2f",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088434190dae84b6887641a5f81e03d83f7be\
                 91fa1134c18dde966e18fc404b97a8",
            ],
            hash: "60f2139120264f109f2bd525a8d94877d7896d64394c34a7abedbc114154a6d5",
            sealed: [
                "061b631b380a639a0801920ddf205e2dbf6606c3328683c6af50fc",
                "c4b5ecd181f80279f2cc41217d490ed56459e3e3fb5e758e522d0d",
            ],
        },
        KnownAnswer {
            suite: Suite::ChaCha20Poly1305,
            messages: [
                "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944001e21de9f98ddd8e2ad57527207feb5\
                 6253c9c94a9e496782ecfcb2a75fbcaf1b52948cc48daefe660c62119ab5000980c84831215f2441eba616548e832985\
                 464cf17e51ee93109008399a21f7e13f",
                "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843cb765f2caef0751b8f007572dab03222\
                 17755c0632f365717edbf34d33e87a",
            ],
            hash: "f5191b875290abcd41347ac3622d9679688a7e980229cb937ef748336cfde0e5",
            sealed: [
                "8153ca9833bc3c1b91a7e66e5f4d4f5b59bf9e64c2f20d15f0bba7",
                "07af0c9c86e1b4e80f36b04ff7688d51141af3debd0332f0a705ef",
            ],
        },
    ];

    fn key(hex: &str) -> [u8; KEY_BYTES] {
        vector(hex).try_into().expect("keys have 32 bytes")
    }

    /// Returns both sides' states before the first message.
    fn sides(suite: Suite) -> (Box<HandshakeState>, Box<HandshakeState>) {
        let [secret, remote] = SECRETS.map(|secret| StaticSecret::from_bytes(key(secret)));
        let pre_shared = PreSharedKey::from_bytes(key(PSK));
        let prologue = vector(PROLOGUE);
        let initiator =
            initiator(suite, &prologue, &secret, &remote.public_key(), &pre_shared, &key(EPHEMERALS[0]));
        let mut responder = responder(suite, &prologue, &remote, &key(EPHEMERALS[1]));
        set_pre_shared(&mut responder, &pre_shared);
        (initiator, responder)
    }

    fn pass(from: &mut HandshakeState, to: &mut HandshakeState, payload: &[u8], bytes: usize) -> Vec<u8> {
        let mut message = vec![0; bytes];
        assert_eq!(write(from, payload, &mut message), Ok(()));
        assert_eq!(read(to, &message).as_deref(), Ok(payload));
        message
    }

    #[test]
    fn both_messages_and_both_keys_are_the_published_ones() {
        for known in KNOWN {
            let (mut initiator, mut responder) = sides(known.suite);
            let messages = known.messages.map(vector);
            let first = pass(&mut initiator, &mut responder, &vector(PAYLOADS[0]), messages[0].len());
            let second = pass(&mut responder, &mut initiator, &vector(PAYLOADS[1]), messages[1].len());
            assert_eq!([first, second], messages);
            assert_eq!(initiator.get_handshake_hash(), vector(known.hash));
            let (forth, back) = (split(&mut initiator), split(&mut responder));
            assert_eq!((forth.send(), forth.receive()), (back.receive(), back.send()));
            for (sender, (plaintext, sealed)) in [forth, back].iter().zip(PLAINTEXTS.iter().zip(known.sealed))
            {
                let mut bytes = vector(plaintext);
                let tag =
                    PortableProvider.key(known.suite, sender.send()).seal(&Nonce::ZERO, &[], &mut bytes);
                bytes.extend(tag);
                assert_eq!(bytes, vector(sealed));
            }
        }
    }

    #[test]
    fn a_seed_is_given_once() {
        let mut seed = Seed(Some(Zeroizing::new([7; KEY_BYTES])));
        let mut bytes = [0; KEY_BYTES];
        assert_eq!(seed.try_fill_bytes(&mut bytes), Ok(()));
        assert_eq!(bytes, [7; KEY_BYTES]);
        assert_eq!(seed.try_fill_bytes(&mut bytes), Err(Error::Rng));
    }
}
