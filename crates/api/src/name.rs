//! Names of agents, relays, tenants, networks and exposed services.

use thiserror::Error;

/// Longest name in bytes. This is the limit of a DNS label (RFC 1035, section 2.3.4), so host names
/// fit.
pub const NAME_BYTES_MAX: usize = 63;

/// Error of a text that is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "invalid name \"{text}\": use 1 to {NAME_BYTES_MAX} letters (a to z, A to Z), digits, `-`, `_` \
    and `.`; the first must be a letter or digit"
)]
pub struct NameError {
    /// Invalid text, truncated to the greatest length of a name.
    text: String,
}

/// Returns the name if it is valid: 1 to 63 ASCII letters, digits, `-`, `_` and `.`, of which the
/// first is a letter or digit. Names need no quoting in a path, on a command line or after a slash.
///
/// # Errors
/// If the name is invalid.
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
