//! Fuzz target: neighbouring networks that ask and answer anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::federation(bytes));
