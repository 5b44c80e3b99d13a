//! Adversary: an observer that answers each initiation with forged cookies and responses, which
//! arrive before the true response.

use byway_units::Time;
use byway_wire::packets::{InitiationPacket, Kind, RESPONSE_BYTES_MIN};
use byway_wire::seal::{CookieJar, Random, Responder, StaticSecret};

use super::adversary::{Adversary, Promise, Siege};
use crate::harness::net::Packet;
use crate::harness::topology::{EGRESS, NodeId};

pub(super) const ONE: Siege = Siege {
    name: "one forged cookie and response for each initiation",
    begin: || observer(1),
    promise: Promise::NoLater,
    ..Siege::QUIET
};

pub(super) const THOUSAND: Siege = Siege {
    name: "1,000 forged cookies and responses for each initiation",
    begin: || observer(1_000),
    promise: Promise::NoLater,
    ..Siege::QUIET
};

/// Forges cookies and responses with the abilities of an observer: a node's public key, and the
/// initiations to it.
pub struct Forger {
    responder: Responder,
    jar: CookieJar,
    random: Noise,
}

impl std::fmt::Debug for Forger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forger").finish_non_exhaustive()
    }
}

impl Forger {
    /// Returns a forger of a node's answers. It uses only the key of `mac1`, which derives from the
    /// public key.
    #[must_use]
    pub fn new(secret: StaticSecret) -> Self {
        let jar = CookieJar::new(secret.public_key());
        Self { responder: Responder::new(secret), jar, random: Noise(1) }
    }

    /// Returns `count` cookies and `count` responses to an initiation, and none for another packet.
    pub fn answers(&mut self, initiation: &[u8], count: usize, now: Time) -> Vec<Vec<u8>> {
        let mut answers = Vec::new();
        let parsed = InitiationPacket::parse(initiation).ok();
        let Some(screened) = parsed.and_then(|packet| self.responder.screen(packet).ok()) else {
            return answers;
        };
        for _ in 0..count {
            let address = NodeId::Stranger.address().into();
            answers.push(self.jar.packet(&screened, address, now, &mut self.random).to_vec());
            let mut response = vec![0; RESPONSE_BYTES_MIN];
            self.random.fill(&mut response);
            response[..4].copy_from_slice(&[Kind::Response.first_byte(), 0, 0, 0]);
            response[4..8].copy_from_slice(&initiation[8..12]);
            answers.push(response);
        }
        answers
    }
}

/// Pseudorandom bytes (xorshift). Forgeries need no secrets.
struct Noise(u64);

impl Random for Noise {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            *byte = self.0.to_be_bytes()[0];
        }
    }
}

struct Observer {
    forger: Forger,
    count: usize,
}

fn observer(count: usize) -> Box<dyn Adversary> {
    Box::new(Observer { forger: Forger::new(EGRESS.secret()), count })
}

impl Adversary for Observer {
    fn see(&mut self, initiation: &Packet, now: Time) -> Vec<Packet> {
        let (from, to) = (initiation.to, initiation.from);
        let answers = self.forger.answers(&initiation.bytes, self.count, now);
        answers.into_iter().map(|bytes| Packet { from, to, bytes }).collect()
    }
}
