//! Relays that lie: what they seal is not what they were asked to.

use std::sync::{Arc, Mutex, PoisonError};

use byway_sim::overlay::OverlayHost;
use byway_sim::{Random, Seed};
use byway_wire::messages::{Close, InStreamRepair, PathChallenge, PathResponse, ProbeReply};
use byway_wire::packets::{EnvelopeHeader, Kind};
use byway_wire::seal::{Forged, Nonce, PacketKey, Portable, Provider, Suite, TAG_BYTES};

/// What relays lie about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// All repairs and forwarded packets are garbage.
    Garbage,
    /// Answers to probes acknowledge a million envelopes more than came.
    Receptions,
    /// Answers to probes say that these were sent at other times, up to a second earlier or later.
    RoundTrips,
    /// Any message says something else in one of four cases, and so does any envelope.
    Anything,
}

impl Lie {
    /// Changes the coded bytes of an envelope that has no tag, the same each time.
    fn falsify_envelope(self, envelope: &mut [u8]) {
        let Some((header, coded)) = envelope.split_at_mut_checked(EnvelopeHeader::BYTES) else { return };
        let counter = usize::from(header[9]);
        let lies = match self {
            Self::Garbage => true,
            Self::Anything => counter.is_multiple_of(4),
            Self::Receptions | Self::RoundTrips => false,
        };
        if lies && !coded.is_empty() {
            coded[counter % coded.len()] ^= 1;
        }
    }

    fn falsify_message(self, message_type: u8, body: &mut [u8], random: &mut Random) {
        match self {
            Self::Garbage if message_type == InStreamRepair::TYPE => {
                if let Some(last) = body.last_mut() {
                    *last ^= 1;
                }
            }
            Self::Receptions if message_type == ProbeReply::TYPE => {
                change_number(&mut body[12..16], |envelopes| envelopes.wrapping_add(1_000_000));
            }
            Self::RoundTrips if message_type == ProbeReply::TYPE => {
                let shift = u32::try_from(random.below(2_000_000)).expect("two seconds");
                change_number(&mut body[4..8], |sent| sent.wrapping_add(shift).wrapping_sub(1_000_000));
            }
            Self::Anything
                if ![Close::TYPE, PathChallenge::TYPE, PathResponse::TYPE].contains(&message_type)
                    && !body.is_empty()
                    && random.below(4) == 0 =>
            {
                let place = random.below(body.len() as u64);
                body[usize::try_from(place).expect("a message is short")] ^= 1 << random.below(8);
            }
            _ => {}
        }
    }
}

fn change_number(bytes: &mut [u8], change: impl FnOnce(u32) -> u32) {
    let number = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    bytes.copy_from_slice(&change(number).to_be_bytes());
}

/// The ciphers of a relay that lies.
#[derive(Debug)]
pub(crate) struct Liar {
    lie: Lie,
    random: Arc<Mutex<Random>>,
}

struct LyingKey {
    key: Box<dyn PacketKey>,
    lie: Lie,
    random: Arc<Mutex<Random>>,
}

impl Liar {
    /// One that lasts as long as the tests.
    pub(crate) fn forever(lie: Lie, seed: Seed) -> &'static Self {
        let random = seed.named("lies").sequence();
        Box::leak(Box::new(Self { lie, random: Arc::new(Mutex::new(random)) }))
    }
}

impl Provider for Liar {
    fn key(&self, suite: Suite, key: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(LyingKey { key: Portable.key(suite, key), lie: self.lie, random: Arc::clone(&self.random) })
    }
}

impl PacketKey for LyingKey {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        match associated.first().and_then(|first| Kind::from_first_byte(*first)) {
            Some(Kind::Message) => {
                let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
                let mut rest = &mut *in_out;
                while let [message_type, high, low, behind @ ..] = rest {
                    let bytes = usize::from(u16::from_be_bytes([*high, *low]));
                    let (body, next) = behind.split_at_mut(bytes);
                    self.lie.falsify_message(*message_type, body, &mut random);
                    rest = next;
                }
                self.key.seal(nonce, associated, in_out)
            }
            Some(Kind::Envelope) => {
                let mut envelope = associated.to_vec();
                self.lie.falsify_envelope(&mut envelope);
                self.key.seal(nonce, &envelope, in_out)
            }
            _ => self.key.seal(nonce, associated, in_out),
        }
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Forged> {
        self.key.open(nonce, associated, in_out, tag)
    }
}

/// A relay that lies, and the datagram that it sends.
#[derive(Debug)]
pub(crate) struct LyingRelay {
    pub(crate) host: OverlayHost,
    lie: Lie,
    sending: Vec<u8>,
}

impl LyingRelay {
    pub(crate) const fn new(host: OverlayHost, lie: Lie) -> Self {
        Self { host, lie, sending: Vec::new() }
    }

    /// Returns the bytes that are sent in place of these: the tag of an envelope is already that of the falsified one.
    pub(crate) fn falsify(lie: Lie, payload: &[u8], sending: &mut Vec<u8>) {
        sending.clear();
        sending.extend_from_slice(payload);
        if Kind::from_first_byte(payload[0]) == Some(Kind::Envelope) {
            let coded_end = sending.len() - TAG_BYTES;
            lie.falsify_envelope(&mut sending[..coded_end]);
        }
    }

    /// The parts of a transmission: the relay's, and what is done to it.
    pub(crate) const fn parts(&mut self) -> (&mut OverlayHost, Lie, &mut Vec<u8>) {
        (&mut self.host, self.lie, &mut self.sending)
    }
}
