//! Choice of the engine: the implementation of the coder's arithmetic for this processor.

use core::fmt;
use core::str::FromStr;

use alloc::string::ToString;

use crate::engines::{ALL, Implementation};
use crate::error::EngineError;

/// Names of the engines for all processor architectures, slowest first on each.
pub(crate) const NAMES: [&str; 7] = ["naive", "table", "ssse3", "avx2", "gfni-avx2", "gfni-avx512", "neon"];

/// Implementation of the coder's arithmetic for a kind of processor.
///
/// A value of this type proves that this processor can run the engine. All engines give the same
/// bytes and differ only in speed. Choose one at start, and pass it on: [`Engine::fastest`] unless
/// the user names another.
#[derive(Clone, Copy)]
pub struct Engine(&'static Implementation);

impl Engine {
    /// Returns the fastest engine that this processor can run.
    #[must_use]
    pub fn fastest() -> Self {
        // The naive engine runs anywhere, so there is always a last one.
        Self::available().last().unwrap_or(Self(&ALL[0]))
    }

    /// Returns all engines that this processor can run, slowest first.
    pub fn available() -> impl Iterator<Item = Self> {
        ALL.iter().filter(|implementation| (implementation.is_available)()).map(Self)
    }

    /// Returns this engine's name, as [`Engine::from_str`] accepts it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    pub(crate) const fn implementation(self) -> &'static Implementation {
        self.0
    }
}

impl FromStr for Engine {
    type Err = EngineError;

    /// Returns the engine of this name: `naive`, `table`, `ssse3`, `avx2`, `gfni-avx2`,
    /// `gfni-avx512` or `neon`.
    fn from_str(name: &str) -> Result<Self, EngineError> {
        if let Some(implementation) = ALL.iter().find(|implementation| implementation.name == name) {
            if (implementation.is_available)() {
                return Ok(Self(implementation));
            }
            return Err(EngineError::Unavailable { name: implementation.name, needs: implementation.needs });
        }
        match NAMES.into_iter().find(|known| *known == name) {
            Some(name) => Err(EngineError::Foreign { name }),
            None => Err(EngineError::Unknown { name: name.to_string() }),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Engine({})", self.name())
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl PartialEq for Engine {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Engine {}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::vec::Vec;

    use super::*;

    /// Engines according to the standard library's feature detection, in order of speed.
    #[cfg(target_arch = "x86_64")]
    fn expected() -> Vec<&'static str> {
        use std::is_x86_feature_detected as has;
        let gfni = has!("gfni");
        let avx512 = has!("avx512f") && has!("avx512bw");
        let engines = [
            ("naive", true),
            ("table", true),
            ("ssse3", has!("ssse3")),
            ("avx2", has!("avx2")),
            ("gfni-avx2", has!("avx2") && gfni),
            ("gfni-avx512", avx512 && gfni),
        ];
        engines.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
    }

    #[cfg(target_arch = "aarch64")]
    fn expected() -> Vec<&'static str> {
        Vec::from(["naive", "table", "neon"])
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn expected() -> Vec<&'static str> {
        Vec::from(["naive", "table"])
    }

    #[test]
    fn every_engine_the_processor_has_is_offered_and_the_last_is_the_fastest() {
        let available: Vec<_> = Engine::available().map(Engine::name).collect();
        assert_eq!(available, expected());
        assert_eq!(Some(&Engine::fastest().name()), expected().last());
    }

    #[test]
    fn every_engine_is_known_by_its_name() {
        for implementation in ALL {
            assert!(NAMES.contains(&implementation.name), "{}", implementation.name);
        }
    }
}
