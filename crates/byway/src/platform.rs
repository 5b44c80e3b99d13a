//! What the program asks of its machine: randomness, and which ciphers are fast.

use aws_lc_rs::rand;
use byway_wire::seal::Suite;

/// Unpredictable bytes of the operating system.
///
/// # Panics
/// If it has none, without which nothing may be sealed.
pub(crate) fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

/// The suite that this processor is faster with.
pub(crate) fn suite() -> Suite {
    #[cfg(target_arch = "x86_64")]
    let has_aes = std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    if has_aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 }
}
