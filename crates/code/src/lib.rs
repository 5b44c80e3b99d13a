//! Byway's erasure coder.
//!
//! A *batch* of up to [`SOURCE_PACKETS_MAX`] source packets is given up to [`REPAIR_PACKETS_MAX`] repair
//! packets. Whatever is lost, any `k` of the `k + r` packets bring all `k` source packets back: the code is
//! systematic and maximum distance separable. Source packets may differ in length; their lengths
//! are coded beside them.
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
//! - [`encode`] codes a whole batch at once; [`Encoder`] codes it packet by packet, as packets arrive, and
//!   keeps none of them. Both give the same bytes.
//! - [`decode`] restores what is missing, straight into the caller's buffers.
//! - [`JointDecoder`] restores what no batch restores by itself, where batches overlap.
//! - [`Engine`] is the arithmetic both run on: the fastest this processor has, or one named by hand.
//! - `algorithm.md`, beside this crate's manifest, explains the code from the ground up.
//!
//! # What this crate leaves to others
//! Which packets share a batch, when a batch is closed, how many repair packets it deserves (the relay), and
//! how a repair packet is written on the wire. A decoded packet is only as true as what went in: the
//! receiver's end-to-end tag decides, not this crate.
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
pub use decode::{Recovered, decode};
pub use encode::{Encoded, Encoder, encode};
pub use engine::Engine;
pub use engines::{prefetch, prefetch_value};
pub use error::{DecodeError, EncodeError, EngineError};
pub use joint::{JointDecoder, JointError, Source};
pub use limits::{
    ALIGNMENT, JOINT_EQUATIONS_MAX, JOINT_UNKNOWNS_MAX, PACKET_BYTES_MAX, REPAIR_PACKETS_MAX,
    SOURCE_PACKETS_MAX,
};
pub use repair::{LengthSymbol, Repair};
