//! What agents, relays, tenants, networks and what agents expose may be called.

use thiserror::Error;

/// Longest name, in bytes: that of a label of the domain name system (RFC 1035, section 2.3.4), so that host names fit.
pub const NAME_BYTES_MAX: usize = 63;

/// A text is no name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "\"{text}\" is no name: use 1 to {NAME_BYTES_MAX} letters (a to z, A to Z), digits, `-`, `_` and `.`, the first a letter or digit"
)]
pub struct NameError {
    /// As much of the text as a name could have.
    text: String,
}

/// The name, if it is one: 1 to 63 letters of ASCII, digits, `-`, `_` and `.`, the first a letter or digit. It can stand in a path, on a command line and
/// behind a slash as it is.
///
/// # Errors
/// If it is none.
pub fn checked_name(text: &str) -> Result<&str, NameError> {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if begins_well && text.len() <= NAME_BYTES_MAX && text.bytes().all(is_fit) {
        return Ok(text);
    }
    Err(NameError { text: text.chars().take(NAME_BYTES_MAX).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "fra-1.example_net", &"x".repeat(63)] {
            assert_eq!(checked_name(name), Ok(name));
        }
        for text in ["", "a b", "a/b", "é", "a\n", "..", ".", "-x", &"x".repeat(64)] {
            let error = checked_name(text).expect_err(text).to_string();
            assert!(error.contains("1 to 63 letters"), "{error}");
        }
    }
}
