//! Cookies: a busy responder requires proof that the initiator receives at its address.

use core::fmt;

use byway_units::Time;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use super::aead::{ForgeryError, Nonce, Provider};
use super::handshake::ScreenedInitiation;
use super::mac;
use super::portable::PortableProvider;
use super::primitives;
use super::random::Random;
use super::static_key::PublicKey;
use crate::address::Address;
use crate::ids::SessionIndex;
use crate::limits::{COOKIE_SECRET_LIFE, KEY_BYTES, MAC_BYTES};
use crate::packets::{COOKIE_PACKET_BYTES, CookieHeader, CookiePacket, Suite};

/// Cookie of a responder for one address: the key of `mac2`. Wiped when dropped.
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

/// Cookies of a responder for all addresses. They derive from one secret, so nothing is stored for
/// an address.
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
    /// Returns the cookies of the responder with this key. The first secret is generated for the
    /// first cookie.
    #[must_use]
    pub const fn new(responder: PublicKey) -> Self {
        Self { responder, current: None, previous: None }
    }

    /// Returns the packet with the cookie for `address`, in answer to `initiation`. If the secret's
    /// period is over, `random` generates another.
    pub fn packet(
        &mut self,
        initiation: &ScreenedInitiation<'_>,
        address: Address,
        now: Time,
        random: &mut dyn Random,
    ) -> [u8; COOKIE_PACKET_BYTES] {
        let cookie = self.secret(now, random).cookie(address);
        let mut header =
            CookieHeader { receiver: initiation.header().sender, salt: [0; CookieHeader::SALT_BYTES] };
        random.fill(&mut header.salt);
        let key =
            PortableProvider.key(initiation.header().suite, &sealing_key(&self.responder, &header.salt));
        let mut sealed = *cookie.bytes();
        let tag = key.seal(&Nonce::ZERO, initiation.mac1(), &mut sealed);
        CookiePacket::new(header, &sealed, &tag).into_bytes()
    }

    /// True if the `mac2` of `initiation` derives from a cookie for `address` that has not expired.
    #[must_use]
    pub fn admits(&self, initiation: &ScreenedInitiation<'_>, address: Address, now: Time) -> bool {
        let secrets = [&self.current, &self.previous].into_iter().flatten();
        let mut accepted = secrets.filter(|secret| secret.is_accepted(now));
        accepted.any(|secret| mac::has_mac2(initiation.packet(), &secret.cookie(address)))
    }

    /// Returns the secret for new cookies, and generates another after its period.
    fn secret(&mut self, now: Time, random: &mut dyn Random) -> &Secret {
        if !self.current.as_ref().is_some_and(|secret| secret.makes_cookies(now)) {
            self.previous = self.current.take();
        }
        self.current.get_or_insert_with(|| Secret::draw(now, random))
    }
}

/// Reason for which a cookie packet is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CookieError {
    /// The cookie answers another initiation.
    #[error("cookie for {index}, expected {expected}: drop it and count it")]
    WrongIndex {
        /// Session index in the cookie packet.
        index: SessionIndex,
        /// Session index in this handshake's initiation.
        expected: SessionIndex,
    },
    /// The cookie was not sealed by a node that has seen this initiation and knows the responder's
    /// key.
    #[error("invalid cookie: {0}")]
    Forged(#[from] ForgeryError),
}

/// State of an initiation that its initiator stores until a response or cookie arrives.
pub(super) struct InitiationRecord {
    pub(super) suite: Suite,
    pub(super) responder: PublicKey,
    pub(super) index: SessionIndex,
    pub(super) mac1: [u8; MAC_BYTES],
}

/// Decrypts the cookie in a packet that answers the recorded initiation.
pub(super) fn open(packet: CookiePacket<&[u8]>, record: &InitiationRecord) -> Result<Cookie, CookieError> {
    let (header, expected) = (packet.header(), record.index);
    if header.receiver != expected {
        return Err(CookieError::WrongIndex { index: header.receiver, expected });
    }
    let key = PortableProvider.key(record.suite, &sealing_key(&record.responder, &header.salt));
    let (sealed, tag) = packet.sealed();
    let mut cookie = Cookie(*sealed);
    key.open(&Nonce::ZERO, &record.mac1, &mut cookie.0, tag)?;
    Ok(cookie)
}

fn sealing_key(responder: &PublicKey, salt: &[u8; CookieHeader::SALT_BYTES]) -> [u8; KEY_BYTES] {
    primitives::hash(&[b"byway cookie", responder.bytes(), salt])
}
