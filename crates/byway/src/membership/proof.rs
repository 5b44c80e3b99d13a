//! Proof of a joining node to the controller that it has its key's secret, without revealing the
//! secret.

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hmac;
use byway_wire::seal::StaticSecret;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// Returns the proof for the owner of the public key `peer` that the owner of `secret` wrote
/// `text`. It is an HMAC-SHA-256 with the key that both agree on (RFC 7748). `None` if `peer`
/// allows no agreement.
pub(crate) fn proof(secret: &[u8; 32], peer: &[u8; 32], text: &str) -> Option<String> {
    let tag = with_shared(secret, peer, |key| hmac::sign(key, text.as_bytes()))?;
    Some(HEXLOWER.encode(tag.as_ref()))
}

/// True if `proof` shows that the owner of the public key `peer` wrote `text`. The comparison takes
/// constant time.
pub(crate) fn proves(secret: &[u8; 32], peer: &[u8; 32], text: &str, proof: &str) -> bool {
    let Ok(proof) = HEXLOWER_PERMISSIVE.decode(proof.as_bytes()) else {
        return false;
    };
    with_shared(secret, peer, |key| hmac::verify(key, text.as_bytes(), &proof).is_ok()).unwrap_or(false)
}

fn with_shared<T>(secret: &[u8; 32], peer: &[u8; 32], then: impl FnOnce(&hmac::Key) -> T) -> Option<T> {
    let secret = PrivateKey::from_private_key(&X25519, secret).ok()?;
    let peer = UnparsedPublicKey::new(&X25519, peer);
    agree(&secret, peer, (), |shared| Ok(then(&hmac::Key::new(hmac::HMAC_SHA256, shared)))).ok()
}

/// Returns the X25519 public key of a secret.
pub(crate) fn public_key(secret: &[u8; 32]) -> [u8; 32] {
    *StaticSecret::from_bytes(*secret).public_key().bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_secret_proves_it() {
        let (node, controller, thief) = ([1; 32], [2; 32], [3; 32]);
        let (node_key, join_key) = (public_key(&node), public_key(&controller));
        let right = proof(&node, &join_key, "text").expect("a key to agree with");
        assert!(proves(&controller, &node_key, "text", &right));
        assert!(!proves(&controller, &node_key, "other text", &right));
        let stolen = proof(&thief, &join_key, "text").expect("a key to agree with");
        assert!(!proves(&controller, &node_key, "text", &stolen));
        assert!(!proves(&controller, &node_key, "text", "no digits"));
    }

    #[test]
    fn keys_with_which_anything_is_agreed_prove_nothing() {
        assert_eq!(proof(&[1; 32], &[0; 32], "text"), None);
        assert!(!proves(&[1; 32], &[0; 32], "text", ""));
    }
}
