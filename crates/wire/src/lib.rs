//! Byway's packets: bytes to messages and back.
#![no_std]

extern crate alloc;

mod address;
mod capabilities;
mod coded;
mod codes;
mod credential;
mod error;
mod grant;
mod handshake;
mod ids;
pub mod limits;
mod list;
mod low;
pub mod messages;
pub mod packets;
mod plaintext;
mod quantities;
mod ranges;
mod reader;
mod repair;
pub mod seal;
mod service;
mod writer;

pub use address::Address;
pub use capabilities::Capabilities;
pub use coded::{ASSOCIATED_BYTES, CODED_OVERHEAD, CodedBytes, Flags, Piece, Sealed, associated_data};
pub use credential::{Credential, Member};
pub use error::{Full, ParseError};
pub use grant::{Grant, GrantedRelay, SIGNATURE_BYTES};
pub use handshake::{InitiationPayload, ResponsePayload};
pub use ids::{Alias, Boot, CodingGroupId, Epoch, FlowKey, GroupId, Receiver, SessionIndex, Shard, TenantId};
pub use list::List;
pub use low::{Counter, SequenceNumber};
pub use messages::{Message, Messages};
pub use packets::Packet;
pub use plaintext::{Ecn, Plaintext};
pub use quantities::{KilobitsPerSecond, Microseconds, Timestamp};
pub use ranges::{RangeSet, Ranges, SequenceRange};
pub use repair::{BlockShape, LengthSymbol, Place};
pub use service::{Service, Services};
pub use writer::Writer;
