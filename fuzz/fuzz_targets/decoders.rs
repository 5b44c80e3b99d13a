//! Fuzz target: the block code's decoder, with inconsistent repair packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::decoders(bytes));
