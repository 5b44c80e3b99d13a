//! Long-term keys, which identify nodes.

use core::fmt;
use core::str::FromStr;

use zeroize::{Zeroize, Zeroizing};

use super::hex::{self, HexError};
use super::primitives;
use crate::limits::KEY_BYTES;

/// A node's X25519 public key (RFC 7748), which is its identity. Displayed as 64 hexadecimal
/// digits.
///
/// Keys compare as byte strings. The order decides between simultaneous handshakes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// Returns the key with these bytes. The handshake rejects weak keys.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the key as bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        hex::decode(text).map(|key| Self(*key))
    }
}

/// A node's X25519 secret. It is wiped when dropped and never displayed.
#[derive(Clone)]
pub struct StaticSecret {
    bytes: [u8; KEY_BYTES],
    public: PublicKey,
}

impl StaticSecret {
    /// Returns the secret with these 32 random bytes; all values are valid.
    #[must_use]
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        let public = PublicKey(primitives::public_key(&bytes));
        Self { bytes, public }
    }

    /// Returns the public key of this secret.
    #[must_use]
    pub const fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Concatenates secret and public key.
    pub(super) fn pair(&self) -> Zeroizing<[u8; 2 * KEY_BYTES]> {
        let mut pair = Zeroizing::new([0; 2 * KEY_BYTES]);
        pair[..KEY_BYTES].copy_from_slice(&self.bytes);
        pair[KEY_BYTES..].copy_from_slice(&self.public.0);
        pair
    }

    /// Claims another public key, as a forger might.
    #[cfg(test)]
    pub(super) fn claiming(mut self, public: PublicKey) -> Self {
        self.public = public;
        self
    }
}

impl FromStr for StaticSecret {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        hex::decode(text).map(|key| Self::from_bytes(*key))
    }
}

impl fmt::Debug for StaticSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticSecret(of {})", self.public)
    }
}

impl Drop for StaticSecret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// Secret that two nodes may share besides their keys, as input of their handshakes; zeros if there
/// is none. Wiped when dropped.
#[derive(Clone, Default)]
pub struct PreSharedKey([u8; KEY_BYTES]);

impl PreSharedKey {
    /// Returns the secret with these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    pub(super) const fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl FromStr for PreSharedKey {
    type Err = HexError;

    fn from_str(text: &str) -> Result<Self, HexError> {
        hex::decode(text).map(|key| Self(*key))
    }
}

impl fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreSharedKey(..)")
    }
}

impl Drop for PreSharedKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::string::{String, ToString};

    use super::*;

    /// Alice's secret and her public key, of RFC 7748, section 6.1.
    const ALICE_PUBLIC: &str = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a";
    const ALICE: &str = "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a";

    #[test]
    fn a_public_key_survives_being_written_and_read() {
        let key = StaticSecret::from_bytes([7; 32]).public_key();
        assert_eq!(key.to_string().len(), 64);
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(key.to_string().to_uppercase().parse(), Ok(key));
    }

    #[test]
    fn a_secret_is_read_from_digits() {
        let secret: StaticSecret = ALICE.parse().expect("64 digits");
        assert_eq!(secret.bytes[..3], [0x77, 0x07, 0x6d]);
        assert_eq!(secret.public_key().to_string(), ALICE_PUBLIC);
        let pre_shared: PreSharedKey = ALICE.parse().expect("64 digits");
        assert_eq!(pre_shared.bytes(), &secret.bytes);
        assert_eq!(PreSharedKey::default().bytes(), &[0; 32]);
    }

    #[test]
    fn what_is_not_a_key_is_refused_with_its_place() {
        let parse = |text: &str| text.parse::<PublicKey>();
        assert_eq!(parse("77"), Err(HexError::WrongLength { digits: 2 }));
        assert_eq!(parse(&format!("{ALICE} ")), Err(HexError::WrongLength { digits: 65 }));
        assert_eq!(parse(&ALICE.replace('d', "ä")), Err(HexError::NotADigit { position: 6 }));
        let odd: String = ALICE.chars().take(63).chain(['g']).collect();
        assert_eq!(parse(&odd), Err(HexError::NotADigit { position: 64 }));
    }

    #[test]
    fn secrets_are_not_shown() {
        let secret = StaticSecret::from_bytes([0x5A; 32]);
        assert!(!format!("{secret:?}").contains("5a5a"), "{secret:?}");
        assert_eq!(format!("{:?}", PreSharedKey::from_bytes([0x5A; 32])), "PreSharedKey(..)");
    }

    #[test]
    fn keys_compare_as_byte_strings() {
        let first_byte_decides = (PublicKey([1; 32]), PublicKey([2; 32]));
        assert!(first_byte_decides.0 < first_byte_decides.1);
        let mut last = [1; 32];
        last[31] = 0;
        assert!(PublicKey(last) < PublicKey([1; 32]));
    }
}
