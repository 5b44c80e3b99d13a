//! Relays and agents that lie: what they seal is not what they were asked to.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use byway_sim::overlay::OverlayHost;
use byway_sim::{Random, Seed};
use byway_wire::messages::{Close, InStreamRepair, PathChallenge, PathResponse, ProbeReply};
use byway_wire::packets::{EnvelopeHeader, Kind};
use byway_wire::seal::{Forged, Nonce, PacketKey, Portable, Provider, Suite, TAG_BYTES};

/// What relays or agents lie about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// All repairs and forwarded packets are garbage, and so is what a receiver gives for others.
    Garbage,
    /// Answers to probes acknowledge a million envelopes more than came.
    Receptions,
    /// Answers to probes say that these were sent at other times, up to a second earlier or later.
    RoundTrips,
    /// Any message says something else in one of four cases, and so does any envelope.
    Anything,
}

impl Lie {
    /// Changes the coded bytes of an envelope that has no tag, the same each time. Returns whether it did.
    fn falsify_envelope(self, envelope: &mut [u8]) -> bool {
        let Some((header, coded)) = envelope.split_at_mut_checked(EnvelopeHeader::BYTES) else {
            return false;
        };
        let counter = usize::from(header[9]);
        let lies = match self {
            Self::Garbage => true,
            Self::Anything => counter.is_multiple_of(4),
            Self::Receptions | Self::RoundTrips => false,
        };
        let lies = lies && !coded.is_empty();
        if lies {
            coded[counter % coded.len()] ^= 1;
        }
        lies
    }

    /// Changes the body of a message. Returns whether it did.
    fn falsify_message(self, message_type: u8, body: &mut [u8], random: &mut Random) -> bool {
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
            _ => return false,
        }
        true
    }
}

fn change_number(bytes: &mut [u8], change: impl FnOnce(u32) -> u32) {
    let number = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    bytes.copy_from_slice(&change(number).to_be_bytes());
}

/// The ciphers of those who lie, while they do.
#[derive(Clone, Debug)]
pub(crate) struct Liar(Arc<Lies>);

#[derive(Debug)]
struct Lies {
    lie: Lie,
    random: Mutex<Random>,
    is_lying: AtomicBool,
    told: AtomicU64,
}

struct LyingKey {
    key: Box<dyn PacketKey>,
    lies: Arc<Lies>,
}

impl Liar {
    /// One that lies from the start.
    pub(crate) fn new(lie: Lie, seed: Seed) -> Self {
        Self(Arc::new(Lies {
            lie,
            random: Mutex::new(seed.named("lies").sequence()),
            is_lying: AtomicBool::new(true),
            told: AtomicU64::new(0),
        }))
    }

    /// The same ciphers, for as long as the tests last.
    pub(crate) fn forever(&self) -> &'static Self {
        Box::leak(Box::new(self.clone()))
    }

    /// Begins to lie, or tells the truth again.
    pub(crate) fn set_lying(&self, lies: bool) {
        self.0.is_lying.store(lies, Ordering::Relaxed);
    }

    /// Returns the number of lies so far.
    pub(crate) fn told(&self) -> u64 {
        self.0.told.load(Ordering::Relaxed)
    }
}

impl Lies {
    fn is_lying(&self) -> bool {
        self.is_lying.load(Ordering::Relaxed)
    }

    fn note(&self, lied: bool) {
        self.told.fetch_add(lied.into(), Ordering::Relaxed);
    }
}

impl Provider for Liar {
    fn key(&self, suite: Suite, key: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(LyingKey { key: Portable.key(suite, key), lies: Arc::clone(&self.0) })
    }
}

impl PacketKey for LyingKey {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        let kind = associated.first().and_then(|first| Kind::from_first_byte(*first));
        match kind.filter(|_| self.lies.is_lying()) {
            Some(Kind::Message) => {
                let mut random = self.lies.random.lock().unwrap_or_else(PoisonError::into_inner);
                let mut rest = &mut *in_out;
                while let [message_type, high, low, behind @ ..] = rest {
                    let bytes = usize::from(u16::from_be_bytes([*high, *low]));
                    let (body, next) = behind.split_at_mut(bytes);
                    self.lies.note(self.lies.lie.falsify_message(*message_type, body, &mut random));
                    rest = next;
                }
                self.key.seal(nonce, associated, in_out)
            }
            Some(Kind::Envelope) => {
                let mut envelope = associated.to_vec();
                self.lies.note(self.lies.lie.falsify_envelope(&mut envelope));
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

/// A relay or an agent that lies, and the datagram that it sends.
#[derive(Debug)]
pub(crate) struct LyingHost {
    pub(crate) host: OverlayHost,
    liar: Liar,
    sending: Vec<u8>,
}

impl LyingHost {
    pub(crate) const fn new(host: OverlayHost, liar: Liar) -> Self {
        Self { host, liar, sending: Vec::new() }
    }

    /// Writes the bytes that are sent in place of these: the tag of an envelope is already that of the falsified one.
    pub(crate) fn falsify(liar: &Liar, payload: &[u8], sending: &mut Vec<u8>) {
        sending.clear();
        sending.extend_from_slice(payload);
        if liar.0.is_lying() && Kind::from_first_byte(payload[0]) == Some(Kind::Envelope) {
            let coded_end = sending.len() - TAG_BYTES;
            liar.0.lie.falsify_envelope(&mut sending[..coded_end]);
        }
    }

    /// The parts of a transmission: the host's, and what is done to it.
    pub(crate) const fn parts(&mut self) -> (&mut OverlayHost, &Liar, &mut Vec<u8>) {
        (&mut self.host, &self.liar, &mut self.sending)
    }
}
