//! Windows of large images, refined packet by packet.
//!
//! A JPEG 2000 codestream consists of small packets, each with one layer of one precinct: a square
//! of one component at one resolution. A client that looks at a window needs only some of them. A
//! server sends these, coarse before fine, and no more than the network takes now. The client puts
//! empty packets in place of all others, and any decoder reads the result.
//!
//! Nothing is decoded or encoded here: an index reads headers and lengths only. Images need packet
//! lengths (PLT) and the progression RPCL, and should have precincts of 128:
//!
//! ```text
//! opj_compress -i in.ppm -o out.j2k -PLT -p RPCL -c [128,128] -r 40,20,10,5,2
//! ```
//!
//! # Where to start
//! - [`Index`] has the bytes of each packet of a file, and [`Layout`] the part of the image.
//! - [`Selection`] answers a [`Request`] for a [`Window`], less what is in the client's [`Cache`].
//! - [`Outline`] is what a client knows first; with a [`PacketStore`] it assembles codestreams.
//! - [`ServerMessage::decode`] and [`Request::decode`] read messages.
//!
//! # Input that is not trusted
//! Everything read here may be hostile: images, requests, and what servers send. Nothing panics,
//! and memory is bounded:
//!
//! | input | memory |
//! |---|---|
//! | main header, in an image or an outline | [`Layout`]: 11 MB, and 13 MB more for a moment |
//! | image of n bytes | [`Index`]: 8 n bytes, at most 70 MB, beside its layout |
//! | request | [`Selection`]: 256 kB for the window, and 3 bytes for each byte of the answer |
//! | requests of one client | [`Cache`]: 512 kB |
//! | answer | none, beside its bytes: at most 4 MiB |
//! | answers | [`PacketStore`]: its limit |
//! | outline | [`Outline`]: 5 MiB, and its layout, twice for a moment |
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `boxes` | boxes of JP2 files |
//! | `cache` | packets that a client has |
//! | `fault` | errors of codestreams |
//! | `header` | main header: sizes and coding |
//! | `index` | bytes of each packet |
//! | `layout` | geometry of packets, and their order |
//! | `limits` | constants |
//! | `marker` | markers of codestreams |
//! | `message` | wire form of requests, outlines and answers |
//! | `outline` | headers of a codestream; codestreams with empty packets |
//! | `packet_code` | wire form of packets in answers |
//! | `reader` | checked reading of bytes |
//! | `selection` | requests, and the packets that answer them |
//! | `tile_part` | headers of tile-parts, packet lengths |
//! | `window` | precincts that a window's decoding reads |
//!
//! # What this crate leaves to others
//! Files, sockets, congestion control, limits on the number of requests and clients, and decoders.
#![no_std]

extern crate alloc;

mod boxes;
mod cache;
mod fault;
mod header;
mod index;
mod layout;
mod limits;
mod marker;
mod message;
mod outline;
mod packet_code;
mod reader;
mod selection;
mod tile_part;
mod window;

pub use cache::{Cache, PacketStore, StoreFull};
pub use fault::{CodestreamError, Fault, Field, Limit};
pub use index::Index;
pub use layout::{Layout, PacketNumber, PacketPosition};
pub use limits::{
    ANSWER_BYTES_MAX, COMPONENTS_MAX, OUTLINE_BYTES_MAX, PACKET_BYTES_MAX, PACKETS_MAX, PRECINCTS_MAX,
    TILE_PARTS_MAX, TILES_MAX, WINDOW_PRECINCTS_MAX,
};
pub use marker::Marker;
pub use message::{
    Answer, AnswerPackets, MESSAGE_VERSION, MessageError, OutlineTooLong, REQUEST_BYTES, ServerMessage,
};
pub use outline::{FileChanged, Outline, OutlineError, TilePartTooLong};
pub use selection::{Remainder, Request, Selection};
pub use window::Window;
