//! X25519 (RFC 7748).

use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::traits::IsIdentity;

use crate::limits::KEY_BYTES;

/// The public key that belongs to a secret.
pub(in crate::seal) fn public_key(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    MontgomeryPoint::mul_base_clamped(*secret).to_bytes()
}

/// The secret that both sides agree on. None for the few public keys that agree on zeros with everybody.
pub(in crate::seal) fn shared_secret(
    secret: &[u8; KEY_BYTES],
    public: &[u8; KEY_BYTES],
) -> Option<[u8; KEY_BYTES]> {
    let point = MontgomeryPoint(*public).mul_clamped(*secret);
    (!point.is_identity()).then(|| point.to_bytes())
}
