//! What Byway's fuzzers run.
//!
//! libFuzzer calls each [`Target`] with bytes of its own invention; `make fuzz` runs them all.
//!
//! The tests of this crate call each with every input of its corpus, so that what was once found stays found. A
//! crash's input belongs into the corpus along with the fix.
//!
//! | target | who is hostile | what must hold |
//! |---|---|---|
//! | [`wire_decode`] | whoever wrote the bytes | what is legal means the same when it is written again |
//! | [`decoders`] | whoever made the repair packets | restored packets are the ones that were lost, or nothing is |
//! | [`handshake`] | somebody on the path, and strangers | no state, no amplification, and a session in the end |
//! | [`agent_input`] | the relay and the peer | nothing delivered that was not sealed, or twice |
//! | [`relay_input`] | agents, the other relay, strangers | repairs within the budget, nothing for strangers |
//! | [`attacker`] | somebody on every path | nothing delivered twice, altered or elsewhere; all recovers |
//!
//! All drive the state machines through a harness that also holds them to the rules of their drivers: deadlines move
//! forward, and what one input gives rise to, and costs in work, is bounded.
//!
//! [`attacks`] are no targets of a fuzzer: members that flood a relay, at a small size in the tests and at full size by
//! `make attack`.
//!
//! To add a target: a function here and in [`TARGETS`], a binary in `fuzz/fuzz_targets`, a folder in `fuzz/corpus`.

mod agent_input;
mod attacker;
pub mod attacks;
mod decoders;
mod handshake;
mod harness;
mod relay_input;
mod wire_decode;

pub use agent_input::agent_input;
pub use attacker::attacker;
pub use decoders::decoders;
pub use handshake::handshake;
pub use relay_input::relay_input;
pub use wire_decode::wire_decode;

/// A function of any bytes that must not panic.
pub type Target = fn(&[u8]);

/// Every target, by the name of its fuzzer and of the folder of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("agent_input", agent_input),
    ("attacker", attacker),
    ("decoders", decoders),
    ("handshake", handshake),
    ("relay_input", relay_input),
    ("wire_decode", wire_decode),
];
