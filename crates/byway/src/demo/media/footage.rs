//! Conversion of footage into the stream that is sent.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::FRAMES_PER_SECOND;
use super::stream::{DATAGRAM_BYTES, DatagramIndex, datagrams};
use super::tools::{Tools, file_argument};
use crate::exit::{Cause, Failure};
use crate::interrupt;

/// The rate of the stream in bits per second, null packets included.
const MUX_BITS_PER_SECOND: u64 = 1_500_000;

/// Share of the video itself in this rate. The rest is for headers and for key frames, which take
/// longer than other frames.
const VIDEO_BITRATE: &str = "1150k";

/// Buffer of the encoder's rate control, in bits: half a second of the rate, as in a live encoder.
const VIDEO_BUFFER: &str = "575k";

/// Footage that the demo shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Footage {
    /// Five seconds of Big Buck Bunny, in the file at this path.
    BigBuckBunny(PathBuf),
    /// Video file of the user.
    Own(PathBuf),
    /// ffmpeg's generated test picture, without a file.
    Generator,
}

impl Footage {
    /// Describes the footage, with its authors, for readers of the report.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::BigBuckBunny(_) => {
                "Big Buck Bunny, 1280x720, looped ((c) 2008 Blender Foundation, CC BY 3.0, peach.blender.org)"
                    .into()
            }
            Self::Own(path) => format!("{}, 1280x720, looped", path.display()),
            Self::Generator => "ffmpeg's test picture, NOT real footage (none found)".into(),
        }
    }

    fn input(&self) -> Vec<std::ffi::OsString> {
        let from = |path: &Path| vec!["-stream_loop".into(), "-1".into(), "-i".into(), file_argument(path)];
        match self {
            Self::BigBuckBunny(path) | Self::Own(path) => from(path),
            Self::Generator => {
                let generator = format!("testsrc2=size=1280x720:rate={FRAMES_PER_SECOND}");
                ["-f", "lavfi", "-i", &generator].map(Into::into).into()
            }
        }
    }
}

/// A video cut into the datagrams that every run sends.
#[derive(Clone, Debug)]
pub(crate) struct Video {
    /// Datagrams in the order of sending, all with different contents.
    pub(crate) datagrams: Vec<Vec<u8>>,
    pub(crate) frames: u32,
    /// Nearly lossless reference video, with which each received video is compared.
    pub(super) reference: PathBuf,
}

impl Video {
    /// The time between two datagrams, in nanoseconds.
    pub(crate) const INTERVAL_NANOS: u64 = DATAGRAM_BYTES as u64 * 8 * 1_000_000_000 / MUX_BITS_PER_SECOND;

    /// Returns the time that sending the whole video takes, in nanoseconds.
    pub(crate) fn nanos(&self) -> u64 {
        self.datagrams.len() as u64 * Self::INTERVAL_NANOS
    }
}

/// Loops the footage to `seconds`, encodes it and cuts it into datagrams.
///
/// The encoder is set as for calls:
///
/// - slices, because a loss then costs less than a frame;
/// - a key frame with its headers every second;
/// - no frames that depend on later ones;
/// - a constant rate.
pub(crate) fn prepare(
    tools: &Tools,
    footage: &Footage,
    seconds: u64,
    folder: &Path,
) -> anyhow::Result<Video> {
    if let Footage::Own(path) = footage {
        probe(tools, path)?;
    }
    let (reference, stream) = (folder.join("reference.mkv"), folder.join("stream.ts"));
    let length = seconds.to_string();
    let mut arguments = footage.input();
    let shape = format!(
        "fps={FRAMES_PER_SECOND},scale=1280:720:force_original_aspect_ratio=decrease,pad=1280:720:-1:-1,format=yuv420p"
    );
    arguments.extend(["-t", &length, "-an", "-sn", "-dn", "-map", "0:v:0", "-vf", &shape].map(Into::into));
    // Nearly lossless and quickly decoded: this is the original from here on.
    arguments.extend(["-c:v", "libx264", "-preset", "ultrafast", "-crf", "8", "-g", "25"].map(Into::into));
    arguments.push(file_argument(&reference));
    tools.run(arguments).context("cannot loop the footage")?;
    encode(tools, &reference, &stream).context("cannot encode the footage")?;
    let bytes = fs::read(&stream).with_context(|| format!("cannot read {}", stream.display()))?;
    let datagrams = datagrams(bytes)?;
    DatagramIndex::new(&datagrams)?;
    let frames = u32::try_from(seconds)? * FRAMES_PER_SECOND;
    Ok(Video { datagrams, frames, reference })
}

/// Checks that ffmpeg finds a video in the user's file.
///
/// # Errors
/// If it finds none; the error quotes ffmpeg's message.
fn probe(tools: &Tools, path: &Path) -> anyhow::Result<()> {
    let mut arguments = vec!["-i".into(), file_argument(path)];
    arguments.extend(["-map", "0:v:0", "-frames:v", "1", "-f", "null", "/dev/null"].map(Into::into));
    let Err(error) = tools.run(arguments) else { return Ok(()) };
    interrupt::check()?;
    let advice = "name a file with a video that ffmpeg can read";
    let message = format!("--video {}: no video found by ffmpeg: {advice}. {error:#}", path.display());
    Err(Failure::new(Cause::Settings, message).into())
}

fn encode(tools: &Tools, reference: &Path, stream: &Path) -> anyhow::Result<()> {
    let mux_rate = MUX_BITS_PER_SECOND.to_string();
    let mut arguments = vec!["-i".into(), file_argument(reference)];
    arguments.extend(["-c:v", "libx264", "-preset", "veryfast", "-bf", "0", "-g", "25"].map(Into::into));
    arguments
        .extend(["-b:v", VIDEO_BITRATE, "-maxrate", VIDEO_BITRATE, "-bufsize", VIDEO_BUFFER].map(Into::into));
    arguments.extend(["-x264-params", "slices=8:repeat-headers=1:scenecut=0:force-cfr=1"].map(Into::into));
    arguments.extend(["-muxdelay", "0", "-muxpreload", "0", "-muxrate", &mux_rate].map(Into::into));
    arguments.extend(["-f", "mpegts"].map(Into::into));
    arguments.push(file_argument(stream));
    tools.run(arguments).map(drop)
}
