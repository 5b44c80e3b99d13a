//! Fuzz target: images, clients and servers of windows that send anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::view(bytes));
