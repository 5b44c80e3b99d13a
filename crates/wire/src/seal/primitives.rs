//! Cryptographic primitives: ciphers, key agreement and hash.
//!
//! Real primitives would take nine tenths of a fuzzer's time. A build with `--cfg fuzzing`, which
//! cargo-fuzz sets, therefore uses stand-ins. The choice is made only in this file. Crates that
//! face a network do not compile in such a build, and a test of `crates/tidy` enforces that.

#[cfg(not(fuzzing))]
mod blake2s;
#[cfg(not(fuzzing))]
mod ciphers;
#[cfg(not(fuzzing))]
mod x25519;

#[cfg(fuzzing)]
mod fuzzing;

#[cfg(not(fuzzing))]
pub(super) use blake2s::{NoiseHash, hash, keyed_hash, mac};
#[cfg(not(fuzzing))]
pub(super) use ciphers::packet_key;
#[cfg(not(fuzzing))]
pub(super) use x25519::{public_key, shared_secret};

#[cfg(fuzzing)]
pub(super) use fuzzing::{NoiseHash, hash, keyed_hash, mac, packet_key, public_key, shared_secret};
