//! Real video: prepared before packets fly, judged after they have flown.
//!
//! [`Tools`] are ffmpeg and what it must be able to do; [`prepare`] makes the [`Video`] that every run sends;
//! [`score`](Video::score) says what a viewer saw of what came in time.

mod footage;
mod freeze;
mod score;
mod stream;
mod tools;

pub(crate) use footage::{Footage, Video, prepare};
pub(crate) use freeze::Freeze;
pub(crate) use score::Score;
pub(crate) use stream::{DATAGRAM_BYTES, Places, SYNC_BYTE};
pub(crate) use tools::Tools;

/// Frames of all videos of the demo in a second.
pub(crate) const FRAMES_PER_SECOND: u32 = 25;
