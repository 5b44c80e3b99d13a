//! The block code's decoder, given repair packets that do not belong together.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::decoders(bytes));
