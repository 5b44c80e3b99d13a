//! Keys as people copy them: 64 hexadecimal digits.

use core::fmt;

use thiserror::Error;
use zeroize::Zeroizing;

use crate::limits::KEY_BYTES;

const DIGITS: usize = 2 * KEY_BYTES;

/// Why a text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HexError {
    /// Too few or too many digits.
    #[error("the key has {digits} digits instead of {DIGITS}: copy all of it, and nothing beside it")]
    WrongLength {
        /// How many characters there are.
        digits: usize,
    },
    /// Something that is no hexadecimal digit. It is not shown: it may be part of a secret.
    #[error("character {place} of the key is none of 0 to 9 and a to f: copy the key anew")]
    NotADigit {
        /// Which character, from 1.
        place: usize,
    },
}

/// Reads a key.
pub(super) fn decode(text: &str) -> Result<Zeroizing<[u8; KEY_BYTES]>, HexError> {
    let digits = text.chars().count();
    if digits != DIGITS {
        return Err(HexError::WrongLength { digits });
    }
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    for (index, character) in text.chars().enumerate() {
        let digit = character.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digit = digit.ok_or(HexError::NotADigit { place: index + 1 })?;
        key[index / 2] = key[index / 2] << 4 | digit;
    }
    Ok(key)
}

/// Writes bytes as digits.
pub(super) fn write(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The bytes of a test vector.
#[cfg(test)]
pub(super) fn vector(text: &str) -> alloc::vec::Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).expect("vectors are ASCII"));
    digits.map(|pair| u8::from_str_radix(pair, 16).expect("vectors are hexadecimal")).collect()
}
