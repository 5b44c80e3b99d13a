//! Cryptography of the wire format: handshakes, sealing of packets, signatures and replay
//! protection.
//!
//! The [views](crate::packets) define the layout of packets, and check them before this module
//! reads them. `docs/wire.md` describes the format. `docs/wire-crypto-vectors.txt` has the results
//! of an independent implementation.
//!
//! # From the first packet to the last
//! 1. The initiator writes an [`Initiation`] and stores the state to [read the
//!    response](AwaitedResponse::read).
//! 2. The [`Responder`] [screens](Responder::screen) it at little cost. If busy, the responder
//!    answers with a cookie from its [`CookieJar`]. Otherwise it [reads](Responder::read) the
//!    initiation and, if it accepts the peer, [answers](ReceivedInitiation::accept).
//! 3. Both have [`SplitKeys`], and from them [`EpochKeys`], which seal and open packets, and
//!    [`DigestKey`]s.
//! 4. A [`ReplayWindow`] drops duplicates.
//!
//! # Randomness
//! This module draws no randomness. The caller passes a fresh secret seed for each handshake, or a
//! [`Random`]. Equal seeds yield equal bytes.
//!
//! # Ciphers
//! Packets are sealed by a [`Provider`] that the caller chooses; [`PortableProvider`] runs
//! everywhere. Handshakes and cookies are rare, and always use [`PortableProvider`].
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `aead` | authenticated encryption, as traits |
//! | `cookie` | cookies of a busy responder |
//! | `digest` | digests of covered packets |
//! | `epoch_keys` | sealing and opening of packets |
//! | `handshake` | initiator and responder |
//! | `hex` | text form of keys |
//! | `mac` | the two MACs of an initiation |
//! | `noise` | Noise `IKpsk2` |
//! | `portable` | the ciphers in Rust |
//! | `primitives` | ciphers, key agreement and hash, real or for fuzzing |
//! | `random` | the trait of randomness |
//! | `replay` | replay window |
//! | `signature` | Ed25519 signatures of statements |
//! | `split_keys` | keys that a handshake yields |
//! | `static_key` | long-term keys |

mod aead;
mod cookie;
mod digest;
mod epoch_keys;
mod handshake;
mod hex;
mod mac;
mod noise;
mod portable;
mod primitives;
mod random;
mod replay;
mod signature;
mod split_keys;
mod static_key;

pub use aead::{ForgeryError, Nonce, PacketKey, Provider};
pub use cookie::{Cookie, CookieError, CookieJar};
pub use digest::DigestKey;
pub use epoch_keys::EpochKeys;
pub use handshake::{
    AcceptError, Acceptance, AwaitedResponse, Initiation, InitiationError, ReceivedInitiation, Responder,
    Response, ResponseError, ScreenedInitiation, WriteError,
};
pub use hex::HexError;
pub use mac::write_mac2;
pub use portable::PortableProvider;
pub use random::Random;
pub use replay::{ReplayError, ReplayWindow};
pub use signature::{BadSignature, SigningKey, Statement, VerifyingKey, VerifyingKeyError};
pub use split_keys::SplitKeys;
pub use static_key::{PreSharedKey, PublicKey, StaticSecret};

pub use crate::limits::{KEY_BYTES, TAG_BYTES};
pub use crate::packets::{Purpose, Suite};
