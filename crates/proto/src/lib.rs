//! Byway's agent and relay as state machines.
#![no_std]

extern crate alloc;

pub mod parts;
