//! Real video, prepared before a run and evaluated after it.
//!
//! [`Tools`] checks and runs ffmpeg. [`prepare`] makes the [`Video`] that every run sends.
//! [`score`](Video::score) compares the pictures that a viewer saw with the original.

mod footage;
mod freeze;
mod score;
mod stream;
mod tools;

pub(crate) use footage::{Footage, Video, prepare};
pub(crate) use freeze::Freeze;
pub(crate) use score::Score;
pub(crate) use stream::{DATAGRAM_BYTES, DatagramIndex, SYNC_BYTE};
pub(crate) use tools::Tools;

/// Frame rate of all videos of the demo.
pub(crate) const FRAMES_PER_SECOND: u32 = 25;
