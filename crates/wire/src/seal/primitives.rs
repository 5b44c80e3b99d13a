//! The primitives under the seal: ciphers, key agreement and hash.
//!
//! Fuzzers spend nine tenths of their time in real ones. A build with `--cfg fuzzing`, which cargo-fuzz passes, has
//! stand-ins instead, and this file alone chooses. Crates that face a network refuse to compile in such
//! a build; a test of `crates/tidy` holds them to it.

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
