//! Sealing: who may read and write a packet, and who said it.
//!
//! Where things lie in packets is the business of the [views](crate::packets), which come in here checked. The
//! format is in `docs/wire.md`, and `docs/wire-crypto-vectors.txt` holds what an independent implementation computes.
//!
//! # From the first packet to the last
//! 1. The initiator writes an [`Initiation`] and keeps what it needs to [read the
//!    response](AwaitedResponse::read).
//! 2. The [`Responder`] [screens](Responder::screen) it, which costs next to nothing; when busy it answers
//!    with a cookie from its [`CookieJar`], otherwise it [reads](Responder::read) and, if it likes the peer,
//!    [accepts](ReceivedInitiation::accept).
//! 3. Both have [`SplitKeys`], and from them [`EpochKeys`], which seal and open packets, and [`DigestKey`]s.
//! 4. A [`ReplayWindow`] drops what has been seen.
//!
//! # Randomness
//! None is drawn here: whoever calls gives a fresh secret seed for each handshake, or a [`Random`]. One seed
//! gives the same bytes again.
//!
//! # Ciphers
//! Packets are sealed by a [`Provider`] of the caller's choice; [`Portable`] runs everywhere. Handshakes and
//! cookies, of which there are few, always use [`Portable`].

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

pub use aead::{Forged, Nonce, PacketKey, Provider};
pub use cookie::{Cookie, CookieError, CookieJar};
pub use digest::DigestKey;
pub use epoch_keys::EpochKeys;
pub use handshake::{
    AcceptError, Acceptance, AwaitedResponse, Initiation, InitiationError, ReceivedInitiation, Responder,
    Response, ResponseError, Screened, WriteError,
};
pub use hex::HexError;
pub use mac::write_mac2;
pub use portable::Portable;
pub use random::Random;
pub use replay::{Refused, ReplayWindow};
pub use signature::{BadSignature, SigningKey, Statement, VerifyingKey, VerifyingKeyError};
pub use split_keys::SplitKeys;
pub use static_key::{PreSharedKey, PublicKey, StaticSecret};

pub use crate::limits::{KEY_BYTES, TAG_BYTES};
pub use crate::packets::{Purpose, Suite};
