//! Randomness of the operating system, and the choice of the faster cipher suite.

use aws_lc_rs::rand;
use byway_wire::seal::Suite;

/// Returns unpredictable bytes of the operating system.
///
/// # Panics
/// If the operating system has none, because no packet may be sealed without them.
pub(crate) fn random_bytes<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).expect("the operating system has randomness");
    bytes
}

/// Returns the cipher suite that is faster on this processor: AES-256-GCM if it has AES
/// instructions, otherwise `ChaCha20-Poly1305`.
pub(crate) fn suite() -> Suite {
    #[cfg(target_arch = "x86_64")]
    let has_aes = std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    let has_aes = std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let has_aes = false;
    if has_aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 }
}
