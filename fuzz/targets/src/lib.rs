//! What Byway's fuzzers run.
//!
//! libFuzzer calls each [`Target`] with bytes of its own invention:
//!
//! ```text
//! cargo install cargo-fuzz
//! cargo +nightly fuzz run wire_decode
//! cargo +nightly fuzz cmin wire_decode    # before new inputs are committed to fuzz/corpus/wire_decode
//! ```
//!
//! The tests of this crate call each with every input of its corpus, so that what was once found stays found. A
//! crash's input belongs into the corpus along with the fix.
//!
//! To add a target: a function here and in [`TARGETS`], a binary in `fuzz/fuzz_targets`, a folder in `fuzz/corpus`.

mod wire_decode;

pub use wire_decode::wire_decode;

/// A function of any bytes that must not panic.
pub type Target = fn(&[u8]);

/// Every target, by the name of its fuzzer and of the folder of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("wire_decode", wire_decode)];
