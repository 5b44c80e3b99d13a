//! X25519 (RFC 7748).

use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;

use crate::limits::KEY_BYTES;

/// Computes the public key of a secret.
pub(in crate::seal) fn public_key(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

/// Computes the shared secret. None for the few public keys that yield zeros with every secret.
pub(in crate::seal) fn shared_secret(
    secret: &[u8; KEY_BYTES],
    public: &[u8; KEY_BYTES],
) -> Option<[u8; KEY_BYTES]> {
    let point = MontgomeryPoint(*public).mul_clamped(*secret);
    (!point.is_identity()).then(|| point.to_bytes())
}
