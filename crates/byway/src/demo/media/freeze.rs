//! Freezes: periods without a new picture.

use serde::{Deserialize, Serialize};

use super::FRAMES_PER_SECOND;

/// Freeze of the picture, in seconds since the video's begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Freeze {
    pub(crate) from: f64,
    pub(crate) seconds: f64,
}

/// Finds the freezes in a video of `frames` frames, from the numbers `shown` of the frames that
/// appeared. A freeze is a gap of at least max(3 x mean, mean + 150 ms), where mean is the frame
/// interval of the sent video.
pub(crate) fn freezes(shown: &[u32], frames: u32) -> Vec<Freeze> {
    let mean = 1.0 / f64::from(FRAMES_PER_SECOND);
    let shortest = (3.0 * mean).max(mean + 0.15);
    let mut shown = shown.to_vec();
    shown.sort_unstable();
    shown.dedup();
    // The time before the first picture counts like a freeze of a picture shown just before the
    // begin.
    let from = [0].into_iter().chain(shown.iter().map(|frame| frame + 1));
    let until = shown.iter().map(|frame| frame + 1).chain([frames + 1]);
    let gaps = from.zip(until).map(|(from, until)| {
        let start = f64::from(from.saturating_sub(1)) * mean;
        (start, f64::from(until.saturating_sub(from)) * mean)
    });
    gaps.filter(|&(_, gap)| gap >= shortest - 1e-9).map(|(from, seconds)| Freeze { from, seconds }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_freezes(shown: impl IntoIterator<Item = u32>) -> Vec<(f64, f64)> {
        let shown: Vec<_> = shown.into_iter().collect();
        let rounded = |value: f64| (value * 1e6).round() / 1e6;
        freezes(&shown, 100).iter().map(|freeze| (rounded(freeze.from), rounded(freeze.seconds))).collect()
    }

    #[test]
    fn a_video_that_runs_has_none() {
        assert_eq!(find_freezes(0..100), []);
        assert_eq!(find_freezes((0..100).rev()), [], "in whatever order frames are told");
    }

    #[test]
    fn three_frames_lost_in_a_row_are_no_freeze_and_four_are_one() {
        assert_eq!(find_freezes((0..50).chain(53..100)), []);
        assert_eq!(find_freezes((0..50).chain(54..100)), [(1.96, 0.2)]);
    }

    #[test]
    fn a_picture_that_never_comes_or_never_comes_back_is_a_freeze() {
        assert_eq!(find_freezes(25..100), [(0.0, 1.04)]);
        assert_eq!(find_freezes(0..75), [(2.96, 1.04)]);
        assert_eq!(find_freezes([]), [(0.0, 4.04)]);
    }
}
