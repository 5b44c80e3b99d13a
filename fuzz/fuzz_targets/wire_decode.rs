//! Any bytes, read as everything the wire carries.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::wire_decode(bytes));
