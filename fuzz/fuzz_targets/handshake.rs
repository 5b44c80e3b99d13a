//! Fuzz target: handshakes with mutated, reordered, replayed and forged packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::handshake(bytes));
