//! Handshakes whose packets are mutated, reordered, replayed and invented.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::handshake(bytes));
