//! The two MACs of an initiation. `mac1` proves that the sender knows the responder's key, `mac2`
//! that the sender receives at its address.

use subtle::ConstantTimeEq;

use super::cookie::Cookie;
use super::primitives;
use super::static_key::PublicKey;
use crate::limits::MAC_BYTES;
use crate::packets::InitiationPacket;

/// Key of `mac1`, derived from the responder's public key.
///
/// A scan of the address space without that public key gets no answer.
#[derive(Clone)]
pub(super) struct Mac1Key([u8; 32]);

impl Mac1Key {
    pub(super) fn of(responder: &PublicKey) -> Self {
        Self(primitives::hash(&[b"byway mac1", responder.bytes()]))
    }
}

/// Computes `mac1` and writes it into an initiation; returns it.
pub(super) fn write_mac1<B>(initiation: &mut InitiationPacket<B>, key: &Mac1Key) -> [u8; MAC_BYTES]
where
    B: AsRef<[u8]> + AsMut<[u8]>,
{
    let mac = mac1(initiation, key);
    *initiation.mac1_mut() = mac;
    mac
}

/// Writes `mac2` into an initiation, which is then sent again to the responder that sent the
/// cookie.
///
/// # Panics
/// If `initiation` is not an initiation.
pub fn write_mac2(initiation: &mut [u8], cookie: &Cookie) {
    let mut initiation = InitiationPacket::parse(initiation).expect("the caller has written the initiation");
    *initiation.mac2_mut() = mac2(&initiation, cookie);
}

/// True if the `mac1` of an initiation is right for this key; compares in constant time.
pub(super) fn has_mac1(initiation: &InitiationPacket<&[u8]>, key: &Mac1Key) -> bool {
    mac1(initiation, key).ct_eq(initiation.mac1()).into()
}

/// True if the `mac2` of an initiation is right for this cookie; compares in constant time.
pub(super) fn has_mac2(initiation: &InitiationPacket<&[u8]>, cookie: &Cookie) -> bool {
    mac2(initiation, cookie).ct_eq(initiation.mac2()).into()
}

fn mac1<B: AsRef<[u8]>>(initiation: &InitiationPacket<B>, key: &Mac1Key) -> [u8; MAC_BYTES] {
    primitives::mac(&key.0, &[initiation.before_mac1()])
}

fn mac2<B: AsRef<[u8]>>(initiation: &InitiationPacket<B>, cookie: &Cookie) -> [u8; MAC_BYTES] {
    primitives::mac(cookie.bytes(), &[initiation.before_mac2()])
}
