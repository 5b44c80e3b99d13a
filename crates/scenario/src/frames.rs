//! The sizes of a video's frames, as they were once recorded.

use std::sync::Arc;

use thiserror::Error;

use crate::limits::{FRAME_BYTES_MAX, FRAMES_MAX};

/// Sizes in bytes; after the last frame comes the first. Many flows may have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FrameTrace(Arc<Vec<u32>>);

/// Why a text is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum FrameTraceError {
    #[error("it has no lines: give the bytes of a frame in each")]
    Empty,
    #[error(
        "line {line} is no frame: write its bytes, from 1 to {FRAME_BYTES_MAX}, and behind them its type if it is known, I, P or B, \
         as in 12345 P"
    )]
    NoFrame {
        /// Which, from 1.
        line: usize,
    },
    #[error("it has more than {FRAMES_MAX} lines: use a part of it")]
    TooLong,
}

impl FrameTrace {
    /// Reads the bytes of a frame in each line, with its type behind if that is known: I, P or B. Empty lines and those that begin
    /// with `#` are passed over.
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

    /// How many there are, at least one.
    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The bytes of a frame, counted from 0 and on after the last.
    pub(crate) fn bytes(&self, nth: u64) -> u32 {
        self.0[usize::try_from(nth % self.count()).unwrap_or_default()]
    }

    /// The bytes of the largest.
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
            ("", "no lines"),
            ("#\n", "no lines"),
            ("5\n0\n", "line 2 is no frame"),
            ("5\n\n-5\n", "line 3 is no frame"),
            ("5 X\n", "I, P or B"),
            ("5 I 3\n", "line 1"),
            ("99999999\n", "from 1 to"),
        ] {
            let said = FrameTrace::parse(text).expect_err(text).to_string();
            assert!(said.contains(wanted), "{text:?}: {said}");
        }
    }
}
