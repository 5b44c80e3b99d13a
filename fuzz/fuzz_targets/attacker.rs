//! A whole overlay with somebody on every path who does to packets as he likes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| byway_fuzz_targets::attacker(bytes));
