//! Recorded frame sizes of a video, for simulated senders.

use std::sync::Arc;

use thiserror::Error;

use crate::limits::{FRAME_BYTES_MAX, FRAMES_MAX};

/// Recorded frame sizes of a video, in bytes. The recording repeats after the last frame; flows may
/// share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameTrace(Arc<Vec<u32>>);

/// Error of a text that is not a recording of frame sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FrameTraceError {
    #[error("empty file: write the bytes of one frame in each line")]
    Empty,
    #[error(
        "line {line}: invalid frame: write its bytes, from 1 to {FRAME_BYTES_MAX}, and then its type \
        if it is known, I, P or B, as in 12345 P"
    )]
    NoFrame {
        /// Number of the text line, from 1.
        line: usize,
    },
    #[error("more than {FRAMES_MAX} lines: use a part of the file")]
    TooLong,
}

impl FrameTrace {
    /// Parses the bytes of a frame in each text line, with its type after it if that is known: I, P
    /// or B. Empty text lines and those that begin with `#` are ignored.
    pub(crate) fn parse(text: &str) -> Result<Self, FrameTraceError> {
        let mut sizes = Vec::new();
        for (line, content) in (1..).zip(text.lines().map(str::trim)) {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            if sizes.len() == FRAMES_MAX {
                return Err(FrameTraceError::TooLong);
            }
            sizes.push(frame(content).ok_or(FrameTraceError::NoFrame { line })?);
        }
        if sizes.is_empty() { Err(FrameTraceError::Empty) } else { Ok(Self(Arc::new(sizes))) }
    }

    /// Returns the number of frames, at least one.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Returns the size in bytes of the frame with this index, from 0; the recording repeats.
    pub(crate) fn bytes(&self, nth: u64) -> u32 {
        self.0[usize::try_from(nth % self.count()).unwrap_or_default()]
    }

    /// Returns the size in bytes of the largest frame.
    pub(crate) fn bytes_max(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or_default()
    }
}

fn frame(content: &str) -> Option<u32> {
    let mut parts = content.split([',', ';', ' ', '\t']).filter(|part| !part.is_empty());
    let bytes = parts.next()?.parse().ok().filter(|bytes| (1..=FRAME_BYTES_MAX).contains(bytes))?;
    let is_known = parts.next().is_none_or(|kind| ["I", "P", "B"].contains(&kind));
    (is_known && parts.next().is_none()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_with_and_without_their_types_and_begin_again() {
        let frames = FrameTrace::parse("# ours\n40000 I\n5000,P\n\n600\n").expect("frames");
        assert_eq!((frames.count(), frames.bytes_max()), (3, 40_000));
        assert_eq!([0, 1, 2, 3].map(|nth| frames.bytes(nth)), [40_000, 5_000, 600, 40_000]);
    }

    #[test]
    fn what_is_no_frame_is_named_with_its_line() {
        for (text, wanted) in [
            ("", "empty file"),
            ("#\n", "empty file"),
            ("5\n0\n", "line 2: invalid frame"),
            ("5\n\n-5\n", "line 3: invalid frame"),
            ("5 X\n", "I, P or B"),
            ("5 I 3\n", "line 1"),
            ("99999999\n", "from 1 to"),
        ] {
            let message = FrameTrace::parse(text).expect_err(text).to_string();
            assert!(message.contains(wanted), "{text:?}: {message}");
        }
    }
}
