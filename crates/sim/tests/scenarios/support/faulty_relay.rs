//! Misbehaving relays and agents: they seal falsified contents.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use byway_sim::overlay::OverlayHost;
use byway_sim::{Random, Seed};
use byway_wire::messages::{Close, InStreamRepair, PathChallenge, PathResponse, ProbeReply};
use byway_wire::packets::{EnvelopeHeader, Kind};
use byway_wire::seal::{ForgeryError, Nonce, PacketKey, PortableProvider, Provider, Suite, TAG_BYTES};

/// Kind of misbehaviour of relays or agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misbehaviour {
    /// All repairs and forwarded packets are garbage, also those that a receiver returns for
    /// others.
    Garbage,
    /// Answers to probes acknowledge a million envelopes too many.
    Receptions,
    /// Answers to probes shift the echoed time of sending by up to a second earlier or later.
    RoundTrips,
    /// One in four messages, and one in four envelopes, is falsified.
    Anything,
}

impl Misbehaviour {
    /// Changes the coded bytes of an envelope that has no tag, the same each time. Returns whether
    /// it did.
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
                let index = random.below(body.len() as u64);
                body[usize::try_from(index).expect("a message is short")] ^= 1 << random.below(8);
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

/// Ciphers of misbehaving nodes, which falsify while misbehaviour is on.
#[derive(Clone, Debug)]
pub(crate) struct FaultyProvider(Arc<Falsifier>);

#[derive(Debug)]
struct Falsifier {
    misbehaviour: Misbehaviour,
    random: Mutex<Random>,
    is_lying: AtomicBool,
    told: AtomicU64,
}

struct FaultyKey {
    key: Box<dyn PacketKey>,
    lies: Arc<Falsifier>,
}

impl FaultyProvider {
    /// Creates ciphers that misbehave from the start.
    pub(crate) fn new(lie: Misbehaviour, seed: Seed) -> Self {
        Self(Arc::new(Falsifier {
            misbehaviour: lie,
            random: Mutex::new(seed.named("lies").sequence()),
            is_lying: AtomicBool::new(true),
            told: AtomicU64::new(0),
        }))
    }

    /// Returns the same ciphers with a static lifetime.
    pub(crate) fn forever(&self) -> &'static Self {
        Box::leak(Box::new(self.clone()))
    }

    /// Turns misbehaviour on or off.
    pub(crate) fn set_lying(&self, lies: bool) {
        self.0.is_lying.store(lies, Ordering::Relaxed);
    }

    /// Returns the number of falsifications until now.
    pub(crate) fn false_messages(&self) -> u64 {
        self.0.told.load(Ordering::Relaxed)
    }
}

impl Falsifier {
    fn is_lying(&self) -> bool {
        self.is_lying.load(Ordering::Relaxed)
    }

    fn note(&self, lied: bool) {
        self.told.fetch_add(lied.into(), Ordering::Relaxed);
    }
}

impl Provider for FaultyProvider {
    fn key(&self, suite: Suite, key: &[u8; 32]) -> Box<dyn PacketKey> {
        Box::new(FaultyKey { key: PortableProvider.key(suite, key), lies: Arc::clone(&self.0) })
    }
}

impl PacketKey for FaultyKey {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        let kind = associated.first().and_then(|first| Kind::from_first_byte(*first));
        match kind.filter(|_| self.lies.is_lying()) {
            Some(Kind::Message) => {
                let mut random = self.lies.random.lock().unwrap_or_else(PoisonError::into_inner);
                let mut rest = &mut *in_out;
                while let [message_type, high, low, behind @ ..] = rest {
                    let bytes = usize::from(u16::from_be_bytes([*high, *low]));
                    let (body, next) = behind.split_at_mut(bytes);
                    self.lies.note(self.lies.misbehaviour.falsify_message(*message_type, body, &mut random));
                    rest = next;
                }
                self.key.seal(nonce, associated, in_out)
            }
            Some(Kind::Envelope) => {
                let mut envelope = associated.to_vec();
                self.lies.note(self.lies.misbehaviour.falsify_envelope(&mut envelope));
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
    ) -> Result<(), ForgeryError> {
        self.key.open(nonce, associated, in_out, tag)
    }
}

/// A misbehaving relay or agent, and the datagram that it sends.
#[derive(Debug)]
pub(crate) struct FaultyHost {
    pub(crate) host: OverlayHost,
    liar: FaultyProvider,
    sending: Vec<u8>,
}

impl FaultyHost {
    pub(crate) const fn new(host: OverlayHost, liar: FaultyProvider) -> Self {
        Self { host, liar, sending: Vec::new() }
    }

    /// Writes the bytes to send instead of these: the tag of an envelope is already that of the
    /// falsified one.
    pub(crate) fn falsify(liar: &FaultyProvider, payload: &[u8], sending: &mut Vec<u8>) {
        sending.clear();
        sending.extend_from_slice(payload);
        if liar.0.is_lying() && Kind::from_first_byte(payload[0]) == Some(Kind::Envelope) {
            let coded_end = sending.len() - TAG_BYTES;
            liar.0.misbehaviour.falsify_envelope(&mut sending[..coded_end]);
        }
    }

    /// Returns the parts of a transmission: the host, the falsifying ciphers, and the buffer.
    pub(crate) const fn parts(&mut self) -> (&mut OverlayHost, &FaultyProvider, &mut Vec<u8>) {
        (&mut self.host, &self.liar, &mut self.sending)
    }
}
