//! Fuzz target: a relay between misbehaving agents, a misbehaving relay and strangers.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::relay_input(bytes));
