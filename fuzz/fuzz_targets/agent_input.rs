//! Fuzz target: an agent between a misbehaving relay and a misbehaving peer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::agent_input(bytes));
