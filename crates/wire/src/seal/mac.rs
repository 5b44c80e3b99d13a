//! The two MACs of an initiation: one says that its sender knows the responder, one that it is where it says.

use subtle::ConstantTimeEq;

use super::blake2s;
use super::cookie::Cookie;
use super::static_key::PublicKey;

/// The bytes of either MAC.
pub(super) const MAC_BYTES: usize = 16;

/// The key of `mac1`: anybody who knows the responder's public key can compute it.
///
/// A scan of the address space that does not know it gets no answer at all.
#[derive(Clone)]
pub(super) struct Mac1Key([u8; 32]);

impl Mac1Key {
    pub(super) fn of(responder: &PublicKey) -> Self {
        Self(blake2s::hash(&[b"byway mac1", responder.bytes()]))
    }
}

/// Computes `mac1` and writes it, and zeros for `mac2`, at the end of an initiation.
pub(super) fn write_mac1(initiation: &mut [u8], key: &Mac1Key) -> [u8; MAC_BYTES] {
    let (authenticated, at_end) = initiation.split_at_mut(initiation.len() - 2 * MAC_BYTES);
    let mac = blake2s::mac(&key.0, &[authenticated]);
    at_end.fill(0);
    at_end[..MAC_BYTES].copy_from_slice(&mac);
    mac
}

/// Writes `mac2` at the end of an initiation, to be sent again to the responder that gave the cookie.
///
/// # Panics
/// If `initiation` is too short to be one.
pub fn write_mac2(initiation: &mut [u8], cookie: &Cookie) {
    let (authenticated, mac2) = initiation.split_last_chunk_mut().expect("an initiation ends in its MACs");
    *mac2 = blake2s::mac(cookie.bytes(), &[authenticated]);
}

/// `mac1` of an initiation.
pub(super) fn mac1(initiation: &[u8]) -> &[u8; MAC_BYTES] {
    let (before, _) = initiation.split_last_chunk::<MAC_BYTES>().expect("an initiation ends in its MACs");
    before.last_chunk().expect("an initiation ends in its MACs")
}

/// Whether `mac1` is right, in constant time.
pub(super) fn has_mac1(initiation: &[u8], key: &Mac1Key) -> bool {
    let authenticated = &initiation[..initiation.len() - 2 * MAC_BYTES];
    blake2s::mac(&key.0, &[authenticated]).ct_eq(mac1(initiation)).into()
}

/// Whether `mac2` is right, in constant time.
pub(super) fn has_mac2(initiation: &[u8], cookie: &Cookie) -> bool {
    let (authenticated, mac2) =
        initiation.split_last_chunk::<MAC_BYTES>().expect("an initiation ends in its MACs");
    blake2s::mac(cookie.bytes(), &[authenticated]).ct_eq(mac2).into()
}
