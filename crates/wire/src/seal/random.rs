//! Randomness, passed in.

/// A source of unpredictable bytes, fit for keys.
///
/// A driver gives the operating system's; the simulator one that a seed determines.
pub trait Random {
    /// Fills `bytes`.
    fn fill(&mut self, bytes: &mut [u8]);
}
