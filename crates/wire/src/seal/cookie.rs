//! Cookies: a busy responder makes the initiator show that it gets what is sent to its address.

use core::fmt;

use byway_units::Time;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use super::aead::{Forged, Nonce, Provider};
use super::handshake::Screened;
use super::mac;
use super::portable::Portable;
use super::primitives;
use super::random::Random;
use super::static_key::PublicKey;
use crate::address::Address;
use crate::ids::SessionIndex;
use crate::limits::{COOKIE_SECRET_LIFE, KEY_BYTES, MAC_BYTES};
use crate::packets::{COOKIE_PACKET_BYTES, CookieHeader, CookiePacket, Suite};

/// What a responder gave for one address; the key of `mac2`. Wiped when dropped.
#[derive(Clone)]
pub struct Cookie([u8; MAC_BYTES]);

impl Cookie {
    pub(super) const fn bytes(&self) -> &[u8; MAC_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// A responder's cookies: one secret for all addresses, so that they cost no memory.
pub struct CookieJar {
    responder: PublicKey,
    current: Option<Secret>,
    previous: Option<Secret>,
}

struct Secret {
    bytes: Zeroizing<[u8; 32]>,
    born: Time,
}

impl Secret {
    fn draw(now: Time, random: &mut dyn Random) -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        random.fill(bytes.as_mut());
        Self { bytes, born: now }
    }

    fn makes_cookies(&self, now: Time) -> bool {
        now.saturating_since(self.born) < COOKIE_SECRET_LIFE
    }

    fn is_accepted(&self, now: Time) -> bool {
        now.saturating_since(self.born) < COOKIE_SECRET_LIFE * 2
    }

    fn cookie(&self, address: Address) -> Cookie {
        Cookie(primitives::mac(self.bytes.as_ref(), &[&address.mapped()]))
    }
}

impl CookieJar {
    /// The cookies of the responder with this key; no secret is drawn before the first one is asked for.
    #[must_use]
    pub const fn new(responder: PublicKey) -> Self {
        Self { responder, current: None, previous: None }
    }

    /// The packet that gives `address` its cookie, in answer to `initiation`.
    pub fn packet(
        &mut self,
        initiation: &Screened<'_>,
        address: Address,
        now: Time,
        random: &mut dyn Random,
    ) -> [u8; COOKIE_PACKET_BYTES] {
        let cookie = self.secret(now, random).cookie(address);
        let mut header =
            CookieHeader { receiver: initiation.header().sender, salt: [0; CookieHeader::SALT_BYTES] };
        random.fill(&mut header.salt);
        let key = Portable.key(initiation.header().suite, &sealing_key(&self.responder, &header.salt));
        let mut sealed = *cookie.bytes();
        let tag = key.seal(&Nonce::ZERO, initiation.mac1(), &mut sealed);
        CookiePacket::new(header, &sealed, &tag).into_bytes()
    }

    /// Whether `mac2` of `initiation` was made with a cookie given to `address` and not too old.
    #[must_use]
    pub fn admits(&self, initiation: &Screened<'_>, address: Address, now: Time) -> bool {
        let secrets = [&self.current, &self.previous].into_iter().flatten();
        let mut accepted = secrets.filter(|secret| secret.is_accepted(now));
        accepted.any(|secret| mac::has_mac2(initiation.packet(), &secret.cookie(address)))
    }

    /// The secret that makes cookies now.
    fn secret(&mut self, now: Time, random: &mut dyn Random) -> &Secret {
        if !self.current.as_ref().is_some_and(|secret| secret.makes_cookies(now)) {
            self.previous = self.current.take();
        }
        self.current.get_or_insert_with(|| Secret::draw(now, random))
    }
}

/// Why a cookie packet is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CookieError {
    /// An answer to another initiation.
    #[error("a cookie for {index}, this handshake has {expected}: drop it and count it")]
    WrongIndex {
        /// The index it names.
        index: SessionIndex,
        /// The index of this handshake.
        expected: SessionIndex,
    },
    /// Not sealed by somebody who saw this initiation and knows the responder.
    #[error("the cookie: {0}")]
    Forged(#[from] Forged),
}

/// What an initiator knows of the initiation that a response or a cookie answers.
pub(super) struct Asked {
    pub(super) suite: Suite,
    pub(super) responder: PublicKey,
    pub(super) index: SessionIndex,
    pub(super) mac1: [u8; MAC_BYTES],
}

/// The cookie in a packet.
pub(super) fn open(packet: CookiePacket<&[u8]>, asked: &Asked) -> Result<Cookie, CookieError> {
    let (header, expected) = (packet.header(), asked.index);
    if header.receiver != expected {
        return Err(CookieError::WrongIndex { index: header.receiver, expected });
    }
    let key = Portable.key(asked.suite, &sealing_key(&asked.responder, &header.salt));
    let (sealed, tag) = packet.sealed();
    let mut cookie = Cookie(*sealed);
    key.open(&Nonce::ZERO, &asked.mac1, &mut cookie.0, tag)?;
    Ok(cookie)
}

fn sealing_key(responder: &PublicKey, salt: &[u8; CookieHeader::SALT_BYTES]) -> [u8; KEY_BYTES] {
    primitives::hash(&[b"byway cookie", responder.bytes(), salt])
}
