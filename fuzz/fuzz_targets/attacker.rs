//! Fuzz target: a whole overlay with an on-path attacker on every path.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::attacker(bytes));
