//! Signatures of controllers and networks: Ed25519 (RFC 8032) over a statement's name and its
//! fields.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use ed25519_dalek::{Signature, Signer};
use thiserror::Error;

use super::hex::{self, HexError};
use crate::limits::{KEY_BYTES, SIGNATURE_BYTES};

/// Kind of signed statement. The signature covers its name, so a statement cannot pass for one of
/// another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A flow may use two relays: signed by the controller.
    Grant,
    /// A key belongs to a node of the network: signed by the network's key, which is stored
    /// offline.
    Credential,
    /// A node's view of its network: signed by the controller.
    Map,
}

impl Statement {
    const fn name(self) -> &'static [u8] {
        match self {
            Self::Grant => b"byway grant",
            Self::Credential => b"byway credential",
            Self::Map => b"byway map",
        }
    }

    fn signed_bytes(self, fields: &[u8]) -> Vec<u8> {
        [self.name(), fields].concat()
    }
}

/// Error of a signature that does not match key, statement and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid signature: get the statement again from its signer")]
pub struct BadSignature;

/// Private key that signs statements. It is wiped when dropped and never displayed.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// Derives the key from this seed: 32 random bytes.
    #[must_use]
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// Returns the key that verifies its signatures.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    /// Signs a statement with these fields.
    #[must_use]
    pub fn sign(&self, statement: Statement, fields: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(&statement.signed_bytes(fields)).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey(of {})", self.verifying_key())
    }
}

/// Reason for which bytes are not a key for verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyingKeyError {
    /// The text is not 64 hexadecimal digits.
    #[error(transparent)]
    Hex(#[from] HexError),
    /// The bytes are not a point of the curve, or a weak key, with which signatures of any
    /// statement verify.
    #[error("invalid Ed25519 public key: copy the signer's key again")]
    NotAKey,
}

/// Public key that verifies signatures of statements. Displayed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// If they are not a valid key.
    pub fn from_bytes(bytes: &[u8; KEY_BYTES]) -> Result<Self, VerifyingKeyError> {
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).ok().filter(|key| !key.is_weak());
        key.map(Self).ok_or(VerifyingKeyError::NotAKey)
    }

    /// Returns the key as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// Verifies a statement's signature over these fields, by the strict rules: each signature has
    /// one form.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn verify(
        &self,
        statement: Statement,
        fields: &[u8],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> Result<(), BadSignature> {
        let signature = Signature::from_bytes(signature);
        self.0.verify_strict(&statement.signed_bytes(fields), &signature).map_err(|_| BadSignature)
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, self.bytes())
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({self})")
    }
}

impl FromStr for VerifyingKey {
    type Err = VerifyingKeyError;

    fn from_str(text: &str) -> Result<Self, VerifyingKeyError> {
        Self::from_bytes(&*hex::decode(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex::vector;
    use super::*;

    /// Tests 1 and 2 of RFC 8032, section 7.1: seed, key, message, signature.
    const KNOWN: [[&str; 4]; 2] = [
        [
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b\
             d25bf5f0595bbe24655141438e7a100b",
        ],
        [
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c\
             387b2eaeb4302aeeb00d291612bb0c00",
        ],
    ];

    fn bytes<const BYTES: usize>(hex: &str) -> [u8; BYTES] {
        vector(hex).try_into().expect("the vector has this length")
    }

    #[test]
    fn signatures_are_those_of_the_rfc() {
        for [seed, key, message, signature] in KNOWN {
            let signer = SigningKey::from_seed(&bytes(seed));
            assert_eq!(signer.verifying_key().bytes(), &bytes(key));
            assert_eq!(signer.0.sign(&vector(message)).to_bytes(), bytes(signature));
        }
    }

    #[test]
    fn keys_that_sign_anything_are_refused() {
        let mut identity = [0; KEY_BYTES];
        identity[0] = 1;
        assert_eq!(VerifyingKey::from_bytes(&identity), Err(VerifyingKeyError::NotAKey));
        assert_eq!(VerifyingKey::from_bytes(&[0; KEY_BYTES]), Err(VerifyingKeyError::NotAKey));
    }

    #[test]
    fn bytes_that_are_no_point_are_refused() {
        let no_point = (0..=u8::MAX).map(|byte| {
            let mut bytes = [7; KEY_BYTES];
            bytes[0] = byte;
            VerifyingKey::from_bytes(&bytes)
        });
        assert!(no_point.into_iter().any(|key| key == Err(VerifyingKeyError::NotAKey)));
    }

    /// A second form of a signature: the same scalar with the group's order added.
    #[test]
    fn a_signature_has_one_form() {
        let order = bytes::<32>("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
        let signer = SigningKey::from_seed(&[3; KEY_BYTES]);
        let mut signature = signer.sign(Statement::Grant, b"fields");
        assert_eq!(signer.verifying_key().verify(Statement::Grant, b"fields", &signature), Ok(()));
        let mut carry = 0;
        for (byte, addend) in signature[32..].iter_mut().zip(order) {
            let sum = u16::from(*byte) + u16::from(addend) + carry;
            *byte = u8::try_from(sum & 0xFF).expect("a byte");
            carry = sum >> 8;
        }
        assert_eq!(signer.verifying_key().verify(Statement::Grant, b"fields", &signature), Err(BadSignature));
    }
}
