//! A deterministic world in virtual time.
#![no_std]

extern crate alloc;
