//! Score of a received video: the datagrams that arrived in time, decoded and compared with the
//! original.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::FRAMES_PER_SECOND;
use super::footage::Video;
use super::freeze::{Freeze, freezes};
use super::tools::{Tools, file_argument};

/// File with the part of the stream that arrived in time, in the folder of a run.
const RECEIVED: &str = "received.ts";

/// Highest PSNR that counts, in dB: no viewer sees a difference above it. An identical frame has
/// infinite PSNR.
const PSNR_MAX_DB: f64 = 100.0;

/// PSNR of a frame before the first picture, in dB.
const NO_PICTURE_DB: f64 = 0.0;

/// Quality of a received video as the viewer saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Score {
    /// PSNR in dB of each frame of the original, compared with the picture on the viewer's screen
    /// at that time.
    pub(crate) psnr_db: Vec<f64>,
    /// Indices of the original's frames that the decoder returned, damaged or not.
    pub(crate) shown: Vec<u32>,
    pub(crate) freezes: Vec<Freeze>,
}

impl Video {
    /// Scores the received video. `in_time` states for each datagram, by index, whether it arrived
    /// by the deadline. Files of the decoder are written to `folder`.
    ///
    /// Datagrams are decoded in the order in which they were sent, because a player that waits
    /// until the deadline sorts them in its buffer.
    pub(crate) fn score(&self, tools: &Tools, in_time: &[bool], folder: &Path) -> anyhow::Result<Score> {
        let received = folder.join(RECEIVED);
        let bytes = self
            .datagrams
            .iter()
            .zip(in_time)
            .filter(|&(_, &is_in_time)| is_in_time)
            .map(|(datagram, _)| &datagram[..]);
        let bytes = bytes.collect::<Vec<_>>().concat();
        fs::write(&received, &bytes).with_context(|| format!("cannot write {}", received.display()))?;
        if bytes.is_empty() {
            return Ok(self.nothing());
        }
        let frames = folder.join("frames.txt");
        let graph = "[0:v]split[x][y];[x]settb=1/25,setpts=round(PTS)[a];[1:v]settb=1/25[b];\
                     [b][a]psnr=stats_file=-[o]";
        let mut arguments = vec!["-copyts".into(), "-i".into(), file_argument(&received), "-i".into()];
        arguments.push(file_argument(&self.reference));
        arguments
            .extend(["-filter_complex", graph, "-map", "[o]", "-f", "null", "/dev/null"].map(Into::into));
        arguments.extend(["-map", "[y]", "-fps_mode", "passthrough", "-f", "framecrc"].map(Into::into));
        arguments.push(file_argument(&frames));
        let printed = tools.run(arguments).context("cannot decode the received video")?;
        let shown = shown_frames(&fs::read_to_string(&frames)?);
        let psnr_db = aligned(psnr_values(&String::from_utf8_lossy(&printed)), self.frames);
        Ok(Score { psnr_db, freezes: freezes(&shown, self.frames), shown })
    }

    fn nothing(&self) -> Score {
        let psnr_db = vec![NO_PICTURE_DB; self.frames as usize];
        Score { psnr_db, shown: Vec::new(), freezes: freezes(&[], self.frames) }
    }

    /// Returns the picture of the reference video at this time, in seconds, as a JPEG.
    pub(crate) fn original(&self, tools: &Tools, seconds: f64) -> anyhow::Result<Vec<u8>> {
        let all: Vec<_> = (0..self.frames).collect();
        jpeg(tools, &self.reference, last_shown(&all, seconds).unwrap_or(0))
    }
}

impl Score {
    /// Returns the total length of the freezes in seconds.
    pub(crate) fn frozen_seconds(&self) -> f64 {
        self.freezes.iter().fold(0.0, |sum, freeze| sum + freeze.seconds)
    }

    /// Returns the picture on the viewer's screen at this time, in seconds, as a JPEG; `None`
    /// before the first picture. `folder` has the files of [`Video::score`].
    pub(crate) fn picture(
        &self,
        tools: &Tools,
        folder: &Path,
        seconds: f64,
    ) -> anyhow::Result<Option<Vec<u8>>> {
        let Some(frame_index) = last_shown(&self.shown, seconds) else { return Ok(None) };
        jpeg(tools, &folder.join(RECEIVED), frame_index).map(Some)
    }
}

fn jpeg(tools: &Tools, file: &Path, frame_index: usize) -> anyhow::Result<Vec<u8>> {
    let filter = format!("select=eq(n\\,{frame_index}),scale=640:-2");
    let mut arguments = vec!["-copyts".into(), "-i".into(), file_argument(file)];
    arguments
        .extend(["-vf", &filter, "-fps_mode", "passthrough", "-frames:v", "1", "-q:v", "4"].map(Into::into));
    arguments.extend(["-c:v", "mjpeg", "-f", "image2pipe", "-"].map(Into::into));
    tools.run(arguments).context("cannot extract a picture")
}

/// Returns the index, among the decoded frames, of the one on the screen at this time in seconds.
fn last_shown(shown: &[u32], seconds: f64) -> Option<usize> {
    let time = |frame: u32| f64::from(frame) / f64::from(FRAMES_PER_SECOND);
    shown.iter().rposition(|&frame| time(frame) <= seconds + 1e-9)
}

/// Parses the numbers of the decoded frames from ffmpeg's `framecrc` list, whose third column is
/// the presentation time.
fn shown_frames(list: &str) -> Vec<u32> {
    let frames = list.lines().filter(|line| !line.starts_with('#'));
    frames.filter_map(|line| line.split(',').nth(2)?.trim().parse().ok()).collect()
}

/// Parses the values in the output of ffmpeg's filter `psnr`.
fn psnr_values(list: &str) -> Vec<f64> {
    let values = list.lines().filter_map(|line| {
        let value = line.split_whitespace().find_map(|word| word.strip_prefix("psnr_avg:"))?;
        value.parse::<f64>().ok()
    });
    values.map(|value| value.min(PSNR_MAX_DB)).collect()
}

/// Returns one PSNR value for each frame of the original. ffmpeg reports none before the first
/// picture; these frames get [`NO_PICTURE_DB`].
fn aligned(values: Vec<f64>, frames: u32) -> Vec<f64> {
    let frames = frames as usize;
    let missing = frames.saturating_sub(values.len());
    let mut all = vec![NO_PICTURE_DB; missing];
    all.extend(values.into_iter().take(frames));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_frames_are_read() {
        let list = "#tb 0: 1/25\n0,          3,          3,        1,  1382400, 0x3ffca7e6\n0, 4, 4, 1, 1382400, 0x1\n";
        assert_eq!(shown_frames(list), [3, 4]);
    }

    #[test]
    fn values_are_read_and_infinity_is_bounded() {
        let list =
            "n:1 mse_avg:9.87 psnr_avg:38.19 psnr_y:37.03 \nn:2 mse_avg:0.00 psnr_avg:inf psnr_y:inf \n";
        assert_eq!(psnr_values(list), [38.19, 100.0]);
    }

    #[test]
    fn frames_before_the_first_picture_are_worth_nothing() {
        assert_eq!(aligned(vec![30.0, 31.0], 4), [0.0, 0.0, 30.0, 31.0]);
        assert_eq!(aligned(vec![30.0, 31.0], 1), [30.0], "what ffmpeg repeats at the end does not count");
    }

    #[test]
    fn the_last_picture_stays_on_the_screen() {
        let shown = [0, 1, 2, 50, 51];
        assert_eq!(last_shown(&shown, 1.0), Some(2));
        assert_eq!(last_shown(&shown, 2.0), Some(3));
        assert_eq!(last_shown(&shown, 0.0), Some(0));
        assert_eq!(last_shown(&shown[3..], 1.0), None);
    }
}
