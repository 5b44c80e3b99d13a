//! The two MACs of an initiation: one says that its sender knows the responder, one that it is where it says.

use subtle::ConstantTimeEq;

use super::cookie::Cookie;
use super::primitives;
use super::static_key::PublicKey;
use crate::limits::MAC_BYTES;
use crate::packets::InitiationPacket;

/// The key of `mac1`: anybody who knows the responder's public key can compute it.
///
/// A scan of the address space that does not know it gets no answer at all.
#[derive(Clone)]
pub(super) struct Mac1Key([u8; 32]);

impl Mac1Key {
    pub(super) fn of(responder: &PublicKey) -> Self {
        Self(primitives::hash(&[b"byway mac1", responder.bytes()]))
    }
}

/// Writes `mac1` into an initiation.
pub(super) fn write_mac1<B>(initiation: &mut InitiationPacket<B>, key: &Mac1Key) -> [u8; MAC_BYTES]
where
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    let mac = mac1(initiation, key);
    *initiation.mac1_mut() = mac;
    mac
}

/// Writes `mac2` into an initiation, to be sent again to the responder that gave the cookie.
///
/// # Panics
/// If `initiation` is none.
pub fn write_mac2(initiation: &mut [u8], cookie: &Cookie) {
    let mut initiation = InitiationPacket::parse(initiation).expect("the caller has written the initiation");
    *initiation.mac2_mut() = mac2(&initiation, cookie);
}

/// Whether `mac1` is right, in constant time.
pub(super) fn has_mac1(initiation: &InitiationPacket<&[u8]>, key: &Mac1Key) -> bool {
    mac1(initiation, key).ct_eq(initiation.mac1()).into()
}

/// Whether `mac2` is right, in constant time.
pub(super) fn has_mac2(initiation: &InitiationPacket<&[u8]>, cookie: &Cookie) -> bool {
    mac2(initiation, cookie).ct_eq(initiation.mac2()).into()
}

fn mac1<B: AsRef<[u8]>>(initiation: &InitiationPacket<B>, key: &Mac1Key) -> [u8; MAC_BYTES] {
    primitives::mac(&key.0, &[initiation.before_mac1()])
}

fn mac2<B: AsRef<[u8]>>(initiation: &InitiationPacket<B>, cookie: &Cookie) -> [u8; MAC_BYTES] {
    primitives::mac(cookie.bytes(), &[initiation.before_mac2()])
}
