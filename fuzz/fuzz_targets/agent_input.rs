//! An agent between a lying relay and a lying peer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::agent_input(bytes));
