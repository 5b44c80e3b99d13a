//! noq and quinn over emulated links in virtual time, with the links' state.
//!
//! Handshakes, streams, acknowledgments and pacing are those of the libraries; clock and sockets
//! are not.

#![allow(clippy::disallowed_methods, reason = "virtual time begins at a real instant: there is no other")]
#![allow(clippy::cast_precision_loss, reason = "measurements are small numbers")]

mod flows;
mod link;
mod network;
mod node;
mod noq_node;
mod quinn_node;
