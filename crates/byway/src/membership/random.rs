//! Randomness of the operating system.

use aws_lc_rs::rand;

/// Returns unpredictable bytes, fit for keys.
///
/// # Panics
/// If the operating system has none.
pub(crate) fn bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).expect("the operating system has random bytes");
    bytes
}
