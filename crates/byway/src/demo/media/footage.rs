//! From footage to the stream that is sent.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::FRAMES_PER_SECOND;
use super::stream::{DATAGRAM_BYTES, Places, datagrams};
use super::tools::{Tools, file_argument};
use crate::exit::{Cause, Failure};
use crate::interrupt;

/// The rate of the stream in bits per second, null packets included.
const MUX_BITS_PER_SECOND: u64 = 1_500_000;

/// What the video itself takes of it. The rest is for headers and for key frames that take longer than others.
const VIDEO_BITRATE: &str = "1150k";

/// Half a second of the rate: a live encoder's buffer.
const VIDEO_BUFFER: &str = "575k";

/// What is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Footage {
    /// Five seconds of Big Buck Bunny, in this file.
    BigBuckBunny(PathBuf),
    /// Somebody's own.
    Own(PathBuf),
    /// ffmpeg's test picture: nothing real.
    Generator,
}

impl Footage {
    /// What it is, for people.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::BigBuckBunny(_) => {
                "Big Buck Bunny, 1280x720, looped ((c) 2008 Blender Foundation, CC BY 3.0, peach.blender.org)"
                    .into()
            }
            Self::Own(path) => format!("{}, 1280x720, looped", path.display()),
            Self::Generator => "ffmpeg's test picture, NOT real footage (there was none)".into(),
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

/// A video as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Video {
    /// Its datagrams, no two alike.
    pub(crate) datagrams: Vec<Vec<u8>>,
    pub(crate) frames: u32,
    /// The original, which all that is received is compared with.
    pub(super) reference: PathBuf,
}

impl Video {
    /// The time between two datagrams, in nanoseconds.
    pub(crate) const INTERVAL_NANOS: u64 = DATAGRAM_BYTES as u64 * 8 * 1_000_000_000 / MUX_BITS_PER_SECOND;

    /// How long it takes to send.
    pub(crate) fn nanos(&self) -> u64 {
        self.datagrams.len() as u64 * Self::INTERVAL_NANOS
    }
}

/// Loops the footage to `seconds`, encodes it and cuts it into datagrams.
///
/// The encoder is set as one for calls is: slices, so that a loss does not cost a whole frame; a key frame with its
/// headers every second; no frames that wait for later ones; a constant rate.
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
    tools.run(arguments).context("looping the footage")?;
    encode(tools, &reference, &stream).context("encoding the footage")?;
    let bytes = fs::read(&stream).with_context(|| format!("reading {}", stream.display()))?;
    let datagrams = datagrams(bytes)?;
    Places::new(&datagrams)?;
    let frames = u32::try_from(seconds)? * FRAMES_PER_SECOND;
    Ok(Video { datagrams, frames, reference })
}

/// # Errors
/// If the user's file is no video; the error quotes what ffmpeg says of it.
fn probe(tools: &Tools, path: &Path) -> anyhow::Result<()> {
    let mut arguments = vec!["-i".into(), file_argument(path)];
    arguments.extend(["-map", "0:v:0", "-frames:v", "1", "-f", "null", "/dev/null"].map(Into::into));
    let Err(error) = tools.run(arguments) else { return Ok(()) };
    interrupt::check()?;
    let advice = "give a file with a video that ffmpeg can read";
    let message = format!("--video {}: ffmpeg finds no video in it: {advice}. {error:#}", path.display());
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
