//! Fuzz target: arbitrary bytes, parsed as all parts of the wire format.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::wire_decode(bytes));
