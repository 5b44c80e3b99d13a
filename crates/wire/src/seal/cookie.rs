//! Cookies: a busy responder makes the initiator show that it gets what is sent to its address.

use core::fmt;
use core::net::{IpAddr, SocketAddr};

use byway_units::Time;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

use super::aead::{Forged, KEY_BYTES, Nonce, Provider, Suite, TAG_BYTES};
use super::blake2s;
use super::handshake::{COOKIE_KIND, Screened};
use super::limits::COOKIE_SECRET_LIFE;
use super::mac::{self, MAC_BYTES};
use super::portable::Portable;
use super::random::Random;
use super::static_key::PublicKey;

const SALT_BYTES: usize = 16;
const SALT_AT: usize = 8;
const SEALED_AT: usize = SALT_AT + SALT_BYTES;
const TAG_AT: usize = SEALED_AT + MAC_BYTES;

/// The bytes of a cookie packet.
pub const COOKIE_BYTES: usize = TAG_AT + TAG_BYTES;

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

/// Where a packet came from: `address[16] ‖ port[2]`, IPv4 addresses in their IPv6-mapped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAddress([u8; 18]);

impl SourceAddress {
    /// The address with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 18]) -> Self {
        Self(bytes)
    }
}

impl From<SocketAddr> for SourceAddress {
    fn from(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut bytes = [0; 18];
        bytes[..16].copy_from_slice(&ip.octets());
        bytes[16..].copy_from_slice(&address.port().to_be_bytes());
        Self(bytes)
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

    fn cookie(&self, address: &SourceAddress) -> Cookie {
        Cookie(blake2s::mac(self.bytes.as_ref(), &[&address.0]))
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
        address: &SourceAddress,
        now: Time,
        random: &mut dyn Random,
    ) -> [u8; COOKIE_BYTES] {
        let cookie = self.secret(now, random).cookie(address);
        let mut packet = [0; COOKIE_BYTES];
        packet[0] = COOKIE_KIND;
        packet[4..SALT_AT].copy_from_slice(&initiation.sender_index().to_be_bytes());
        let (header, sealed) = packet.split_at_mut(SEALED_AT);
        random.fill(&mut header[SALT_AT..]);
        let key = sealing_key(&self.responder, &header[SALT_AT..]);
        let (ciphertext, tag) = sealed.split_at_mut(MAC_BYTES);
        ciphertext.copy_from_slice(cookie.bytes());
        let key = Portable.key(initiation.suite(), &key);
        tag.copy_from_slice(&key.seal(&Nonce::ZERO, mac::mac1(initiation.bytes()), ciphertext));
        packet
    }

    /// Whether `mac2` of `initiation` was made with a cookie given to `address` and not too old.
    #[must_use]
    pub fn admits(&self, initiation: &Screened<'_>, address: &SourceAddress, now: Time) -> bool {
        let secrets = [&self.current, &self.previous].into_iter().flatten();
        let mut accepted = secrets.filter(|secret| secret.is_accepted(now));
        accepted.any(|secret| mac::has_mac2(initiation.bytes(), &secret.cookie(address)))
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
    /// Not the length of a cookie packet.
    #[error("a cookie packet of {bytes} bytes instead of {COOKIE_BYTES}: drop it and count it")]
    WrongLength {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Another kind of packet.
    #[error("a packet of kind {kind} where a cookie, kind {COOKIE_KIND}, was to be read: drop it")]
    WrongKind {
        /// Its first byte.
        kind: u8,
    },
    /// An answer to another initiation.
    #[error("a cookie for index {index}, this handshake has {expected}: drop it and count it")]
    WrongIndex {
        /// The index it names.
        index: u32,
        /// The index of this handshake.
        expected: u32,
    },
    /// Not sealed by somebody who saw this initiation and knows the responder.
    #[error("the cookie: {0}")]
    Forged(#[from] Forged),
}

/// What an initiator knows of the initiation that a cookie answers.
pub(super) struct Asked<'a> {
    pub(super) suite: Suite,
    pub(super) responder: &'a PublicKey,
    pub(super) index: u32,
    pub(super) mac1: &'a [u8; MAC_BYTES],
}

/// The cookie in a packet.
pub(super) fn open(packet: &[u8], asked: &Asked<'_>) -> Result<Cookie, CookieError> {
    let packet: &[u8; COOKIE_BYTES] =
        packet.try_into().map_err(|_| CookieError::WrongLength { bytes: packet.len() })?;
    if packet[0] != COOKIE_KIND {
        return Err(CookieError::WrongKind { kind: packet[0] });
    }
    let index = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
    if index != asked.index {
        return Err(CookieError::WrongIndex { index, expected: asked.index });
    }
    let key = sealing_key(asked.responder, &packet[SALT_AT..SEALED_AT]);
    let (sealed, tag) = packet.split_last_chunk().expect("the packet has the length of a cookie packet");
    let mut cookie = Cookie([0; MAC_BYTES]);
    cookie.0.copy_from_slice(&sealed[SEALED_AT..]);
    Portable.key(asked.suite, &key).open(&Nonce::ZERO, asked.mac1, &mut cookie.0, tag)?;
    Ok(cookie)
}

fn sealing_key(responder: &PublicKey, salt: &[u8]) -> [u8; KEY_BYTES] {
    blake2s::hash(&[b"byway cookie", responder.bytes(), salt])
}
