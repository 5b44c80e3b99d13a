//! Byway's packets: bytes to messages and back, sealing and opening.
#![no_std]

extern crate alloc;

pub mod seal;
