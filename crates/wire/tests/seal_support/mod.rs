//! Two nodes that know each other's keys, for the tests of sealing.

#![allow(dead_code, reason = "each test uses its part")]

use blake2::digest::{FixedOutput, KeyInit, Update, consts::U16};
use blake2::{Blake2s256, Blake2sMac};
use byway_wire::seal::{
    Acceptance, AwaitedResponse, Initiation, InitiationError, PreSharedKey, PublicKey, Purpose, Random,
    ReceivedInitiation, Responder, SplitKeys, StaticSecret, Suite,
};

pub(crate) const INDEX: u32 = 0xA1A2_A3A4;

pub(crate) const INITIATION: Initiation<'static> = Initiation {
    purpose: Purpose::AgentToRelay,
    suite: Suite::Aes256Gcm,
    shard: 3,
    capabilities: 1,
    sender_index: INDEX,
    stamp: 1_700_000_000_000_000_000,
    boot: 77,
    epoch: 5,
    messages: &[37, 0, 1, 0],
};

pub(crate) const ACCEPTANCE: Acceptance<'static> =
    Acceptance { index: 0x03B2_B3B4, capabilities: 3, boot: 88, messages: &[240, 0, 0] };

/// Bytes that repeat, and are never the same twice in a row.
pub(crate) struct Counted(pub(crate) u8);

impl Random for Counted {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0 += 1;
        bytes.fill(self.0);
    }
}

pub(crate) fn initiator() -> StaticSecret {
    StaticSecret::from_bytes([0x11; 32])
}

pub(crate) fn responder_secret() -> StaticSecret {
    StaticSecret::from_bytes([0x22; 32])
}

pub(crate) fn responder() -> Responder {
    Responder::new(responder_secret())
}

pub(crate) fn no_psk() -> PreSharedKey {
    PreSharedKey::default()
}

pub(crate) fn write(initiation: &Initiation<'_>, psk: &PreSharedKey, seed: u8) -> (Vec<u8>, AwaitedResponse) {
    let written = initiation.write(&initiator(), &responder_secret().public_key(), psk, &[seed; 32]);
    written.expect("the initiation can be written")
}

pub(crate) fn read(packet: &[u8], seed: u8) -> Result<ReceivedInitiation, InitiationError> {
    let responder = responder();
    responder.read(&responder.screen(packet)?, &[seed; 32])
}

/// The response to a packet that is right, and the responder's keys.
pub(crate) fn accept(packet: &[u8], psk: &PreSharedKey, seed: u8) -> (Vec<u8>, SplitKeys) {
    let received = read(packet, seed).expect("the initiation is right");
    received.accept(&ACCEPTANCE, psk).expect("the messages fit")
}

/// The keys of a handshake in which nothing goes wrong: the initiator's, then the responder's.
pub(crate) fn keys(suite: Suite) -> (SplitKeys, SplitKeys) {
    let (packet, mut awaited) = write(&Initiation { suite, ..INITIATION }, &no_psk(), 1);
    let (response, keys) = accept(&packet, &no_psk(), 2);
    (awaited.read(&response).expect("the response is right").keys, keys)
}

/// Makes `mac1` right again for `responder`, as anybody can who knows the key.
pub(crate) fn repair_mac1(packet: &mut [u8], responder: &PublicKey) {
    let mut hasher = Blake2s256::default();
    hasher.update(b"byway mac1");
    hasher.update(responder.bytes());
    let mut mac: Blake2sMac<U16> = KeyInit::new_from_slice(&hasher.finalize_fixed()).expect("32 bytes");
    let at = packet.len() - 32;
    mac.update(&packet[..at]);
    packet[at..at + 16].copy_from_slice(&mac.finalize_fixed());
}

/// The packet with one bit turned over.
pub(crate) fn flipped(packet: &[u8], bit: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[bit / 8] ^= 1 << (bit % 8);
    packet
}
