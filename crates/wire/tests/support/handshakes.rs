//! Two nodes that know each other's keys, for the tests of sealing.

use blake2::digest::{FixedOutput, KeyInit, Update, consts::U16};
use blake2::{Blake2s256, Blake2sMac};
use byway_wire::packets::{CookiePacket, InitiationPacket, ResponsePacket};
use byway_wire::seal::{
    Acceptance, AwaitedResponse, Cookie, CookieError, Initiation, InitiationError, PreSharedKey, PublicKey,
    Purpose, Random, ReceivedInitiation, Responder, Response, ResponseError, ScreenedInitiation, SplitKeys,
    StaticSecret, Suite,
};
use byway_wire::{Capabilities, Epoch, Incarnation, ParseError, SessionIndex, Shard};

pub(crate) const INDEX: SessionIndex = SessionIndex::new(0xA1A2_A3A4);

pub(crate) const INITIATION: Initiation<'static> = Initiation {
    purpose: Purpose::AgentToRelay,
    suite: Suite::Aes256Gcm,
    shard: Shard::new(3),
    capabilities: Capabilities::DIGESTS,
    index: INDEX,
    handshake_timestamp: 1_700_000_000_000_000_000,
    incarnation: Incarnation::new(77),
    epoch: Epoch::new(5),
    messages: &[37, 0, 1, 0],
};

pub(crate) const ACCEPTANCE: Acceptance<'static> = Acceptance {
    index: SessionIndex::new(0x03B2_B3B4),
    capabilities: Capabilities::DIGESTS,
    incarnation: Incarnation::new(88),
    messages: &[240, 0, 0],
};

/// Reason for which a handshake packet is rejected: by its view, or by the holder of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal<E> {
    Malformed(ParseError),
    Wrong(E),
}

impl<E> From<ParseError> for Refusal<E> {
    fn from(error: ParseError) -> Self {
        Self::Malformed(error)
    }
}

/// A counter as bytes, never the same twice in a row.
pub(crate) struct CountingRandom(pub(crate) u8);

impl Random for CountingRandom {
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

pub(crate) fn no_pre_shared() -> PreSharedKey {
    PreSharedKey::default()
}

pub(crate) fn write(
    initiation: &Initiation<'_>,
    pre_shared: &PreSharedKey,
    seed: u8,
) -> (Vec<u8>, AwaitedResponse) {
    let written = initiation.write(&initiator(), &responder_secret().public_key(), pre_shared, &[seed; 32]);
    written.expect("the initiation can be written")
}

/// Screens the initiation at `responder`.
pub(crate) fn screen<'a>(
    responder: &Responder,
    packet: &'a [u8],
) -> Result<ScreenedInitiation<'a>, Refusal<InitiationError>> {
    responder.screen(InitiationPacket::parse(packet)?).map_err(Refusal::Wrong)
}

pub(crate) fn screened(packet: &[u8]) -> ScreenedInitiation<'_> {
    screen(&responder(), packet).expect("mac1 is right")
}

pub(crate) fn read(packet: &[u8], seed: u8) -> Result<ReceivedInitiation, Refusal<InitiationError>> {
    let responder = responder();
    responder.read(&screen(&responder, packet)?, &[seed; 32]).map_err(Refusal::Wrong)
}

pub(crate) fn read_response(
    awaited: &mut AwaitedResponse,
    packet: &[u8],
) -> Result<Response, Refusal<ResponseError>> {
    awaited.read(ResponsePacket::parse(packet)?).map_err(Refusal::Wrong)
}

pub(crate) fn open_cookie(awaited: &AwaitedResponse, packet: &[u8]) -> Result<Cookie, Refusal<CookieError>> {
    awaited.open_cookie(CookiePacket::parse(packet)?).map_err(Refusal::Wrong)
}

/// Returns the response to a valid packet, and the responder's keys.
pub(crate) fn accept(packet: &[u8], pre_shared: &PreSharedKey, seed: u8) -> (Vec<u8>, SplitKeys) {
    let received = read(packet, seed).expect("the initiation is right");
    received.accept(&ACCEPTANCE, pre_shared).expect("the messages fit")
}

/// Returns the keys of a successful handshake: the initiator's, then the responder's.
pub(crate) fn keys(suite: Suite) -> (SplitKeys, SplitKeys) {
    let (packet, mut awaited) = write(&Initiation { suite, ..INITIATION }, &no_pre_shared(), 1);
    let (response, keys) = accept(&packet, &no_pre_shared(), 2);
    (read_response(&mut awaited, &response).expect("the response is right").keys, keys)
}

/// Recomputes `mac1` for `responder`, as any node that knows the key can.
pub(crate) fn repair_mac1(packet: &mut [u8], responder: &PublicKey) {
    let mut hasher = Blake2s256::default();
    hasher.update(b"byway mac1");
    hasher.update(responder.bytes());
    let mut mac: Blake2sMac<U16> = KeyInit::new_from_slice(&hasher.finalize_fixed()).expect("32 bytes");
    let at = packet.len() - 32;
    mac.update(&packet[..at]);
    packet[at..at + 16].copy_from_slice(&mac.finalize_fixed());
}

/// Returns the packet with one inverted bit.
pub(crate) fn flipped(packet: &[u8], bit: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[bit / 8] ^= 1 << (bit % 8);
    packet
}
