//! Text form of keys: 64 hexadecimal digits.

use core::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::limits::KEY_BYTES;

const DIGITS: usize = 2 * KEY_BYTES;

/// Reason for which a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HexError {
    /// The text has too few or too many digits.
    #[error("invalid key, {digits} digits instead of {DIGITS}: copy the whole key, and nothing else")]
    WrongLength {
        /// Number of characters in the text.
        digits: usize,
    },
    /// The text has a character that is not a hexadecimal digit. The error does not contain it,
    /// because it may be part of a secret.
    #[error("invalid key, character {position} is not 0 to 9 or a to f: copy the key again")]
    NotADigit {
        /// Position of the character, from 1.
        position: usize,
    },
}

/// Reads a key from its text form.
pub(super) fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, HexError> {
    let digits = text.chars().count();
    if digits != DIGITS {
        return Err(HexError::WrongLength { digits });
    }
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    for (index, character) in text.chars().enumerate() {
        let digit = character.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digit = digit.ok_or(HexError::NotADigit { position: index + 1 })?;
        key[index / 2] = key[index / 2] << 4 | digit;
    }
    Ok(key)
}

/// Writes bytes as hexadecimal digits.
pub(super) fn write(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Reads the bytes of a test vector.
#[cfg(test)]
pub(super) fn vector(text: &str) -> alloc::vec::Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("vectors are ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("vectors are hexadecimal")).collect()
}
