//! Randomness, which the caller supplies.

/// A source of unpredictable bytes, fit for keys.
///
/// Drivers use the operating system's source; the simulator uses a seeded generator.
pub trait Random {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&mut self, bytes: &mut [u8]);
}
