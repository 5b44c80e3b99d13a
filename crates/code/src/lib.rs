//! Erasure coder of Byway.
//!
//! A *batch* of up to [`SOURCE_PACKETS_MAX`] source packets gets up to [`REPAIR_PACKETS_MAX`]
//! repair packets. Any `k` of the `k + r` packets restore all `k` source packets: the code is
//! systematic and maximum distance separable (MDS). Source packets may differ in length; their
//! lengths are coded beside them.
//!
//! ```
//! use byway_code::{Engine, decode, encode};
//! use byway_units::BatchId;
//!
//! let engine = Engine::fastest();
//! let sources: [&[u8]; 3] = [b"a path", b"goes dark", b"for seconds"];
//!
//! let mut payloads = [[0; 11]; 2];
//! let encoded = encode(engine, &sources, &mut payloads)?;
//! let repairs: Vec<_> = encoded.repairs(BatchId::new(7), &payloads).collect();
//!
//! let mut buffers = [[0; 11]; 2];
//! let received = [None, Some(sources[1]), None];
//! let recovered = decode(engine, &received, &repairs, &mut buffers)?;
//!
//! let packets: Vec<_> = recovered.packets(&buffers).collect();
//! assert_eq!(packets, [(0, sources[0]), (2, sources[2])]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//! - [`encode`] codes a whole batch at once; [`Encoder`] codes it packet by packet, as packets
//!   arrive, and stores none of them. Both give the same bytes.
//! - [`decode`] restores missing packets, straight into the caller's buffers.
//! - [`JointDecoder`] restores packets from several overlapping batches that cannot be decoded one
//!   by one.
//! - [`Engine`] is the implementation of the arithmetic: the fastest on this processor, or one
//!   chosen by name.
//! - `algorithm.md`, beside this crate's manifest, explains the code from the ground up.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `buffer` | byte buffer on a cache-line boundary |
//! | `coefficients` | coding coefficients |
//! | `combine` | linear combinations of packets that differ in length |
//! | `decode` | decoding of one batch |
//! | `encode` | encoding of one batch |
//! | `engine` | choice of the engine |
//! | `engines` | the engines, one for each kind of processor |
//! | `error` | errors |
//! | [`field`] | arithmetic in GF(2^8) |
//! | `joint` | joint decoding of several batches |
//! | `length` | coding of packet lengths |
//! | `limits` | constants |
//! | `repair` | a repair packet |
//! | `solve` | small linear systems |
//!
//! # What this crate leaves to others
//! The relay chooses the packets of a batch, closes it, and decides on the number of repair
//! packets. The wire format of repair packets is in another crate. A decoded packet is only as
//! correct as the input packets: the receiver verifies it by its end-to-end tag.
#![no_std]

extern crate alloc;

mod buffer;
mod coefficients;
mod combine;
mod decode;
mod encode;
mod engine;
mod engines;
mod error;
pub mod field;
mod joint;
mod length;
mod limits;
mod repair;
mod solve;

pub use buffer::AlignedBuffer;
pub use coefficients::coefficient;
pub use decode::{RecoveredPackets, decode};
pub use encode::{EncodedBatch, Encoder, encode};
pub use engine::Engine;
pub use engines::{prefetch, prefetch_value};
pub use error::{DecodeError, EncodeError, EngineError};
pub use joint::{JointDecoder, JointError, Source};
pub use limits::{
    ALIGNMENT, JOINT_EQUATIONS_MAX, JOINT_UNKNOWNS_MAX, PACKET_BYTES_MAX, REPAIR_PACKETS_MAX,
    SOURCE_PACKETS_MAX,
};
pub use repair::{LengthSymbol, Repair};
