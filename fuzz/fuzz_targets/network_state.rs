//! Fuzz target: a table of network state and its senders, with hostile links and transports.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::network_state(bytes));
