//! Time of windows of a large image: its index, and the packets that answer a request.

use std::fmt;
use std::hint::black_box;

use anyhow::{Result, ensure};
use byway_view::{Cache, Index, Request, Selection, Window};
use clap::Args;

use crate::contender::timed;
use crate::measure::median;

/// Goal for the index, in milliseconds: a server opens an image within a frame or two.
const INDEX_GOAL_MILLIS: f64 = 50.0;

/// Goal for a request, in milliseconds: a core answers a thousand in a second.
const REQUEST_GOAL_MILLIS: f64 = 1.0;

/// Image of 100 megapixels in three components, with seven resolutions and 20 layers.
const WIDTH: u32 = 12_288;
const HEIGHT: u32 = 8_192;
const COMPONENTS: u8 = 3;
const LEVELS: u8 = 6;
const LAYERS: u8 = 20;

/// Packets of the image. Its resolutions have 96 × 64 precincts of 128, 48 × 32, 24 × 16, 12 × 8,
/// 6 × 4, 3 × 2, and 2 × 1: together 8,192 in each component.
const PACKETS: u32 = 8_192 * 3 * 20;

/// Bytes of a segment with packet lengths; the format allows 65,532.
const SEGMENT_BYTES: usize = 65_000;

/// Measure windows of a large image on one pinned thread: the index of a synthetic image of 100
/// megapixels, and the first request for a window of 1024 × 436 pixels.
///
/// Both have one turn in each round; the results are medians over all rounds.
#[derive(Debug, Args)]
pub(crate) struct ViewOptions {
    /// Number of rounds; more rounds give steadier medians.
    #[arg(long, default_value_t = 51, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Fail if a goal is missed; for a quiet machine.
    #[arg(long)]
    check: bool,
}

impl ViewOptions {
    pub(crate) const fn is_for_machines(&self) -> bool {
        self.json
    }

    pub(crate) const fn must_meet_goals(&self) -> bool {
        self.check
    }
}

/// Times of one part, in milliseconds, and its goal.
struct ViewPart {
    name: &'static str,
    goal: f64,
    millis: Vec<f64>,
}

impl ViewPart {
    const fn new(name: &'static str, goal: f64) -> Self {
        Self { name, goal, millis: Vec::new() }
    }

    fn run(&mut self, part: impl FnMut()) {
        self.millis.push(timed(1, part) / 1e6);
    }

    fn median(&self) -> f64 {
        median(self.millis.clone())
    }

    fn is_met(&self) -> bool {
        self.median() <= self.goal
    }
}

impl fmt::Display for ViewPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let (name, millis, goal) = (self.name, self.median(), self.goal);
        write!(f, "{name:<8} {millis:7.3} ms, goal {goal:.0} ms: {verdict}")
    }
}

/// Runs the measurement and prints its results; `true` if both goals are met.
pub(crate) fn run(options: &ViewOptions) -> Result<bool> {
    let file = image()?;
    let index = Index::new(&file)?;
    ensure!(index.layout().packets() == PACKETS, "the image has {} packets", index.layout().packets());
    let window = Window { x: 5_000, y: 3_000, width: 1_024, height: 436 };
    let request = Request { number: 1, window, resolution: LEVELS, bytes_max: 1 << 20, is_fresh: true };
    let mut cache = Cache::new(index.layout());
    let mut parts =
        [ViewPart::new("index", INDEX_GOAL_MILLIS), ViewPart::new("request", REQUEST_GOAL_MILLIS)];
    for _ in 0..options.rounds {
        parts[0].run(|| {
            black_box(Index::new(black_box(&file)).is_ok());
        });
        parts[1].run(|| {
            black_box(Selection::new(black_box(&index), black_box(&request), &mut cache));
        });
    }
    if options.json {
        let row = |part: &ViewPart| {
            serde_json::json!({
                "part": part.name,
                "milliseconds": part.median(),
                "goal_milliseconds": part.goal,
            })
        };
        println!("{}", serde_json::json!({ "view": parts.iter().map(row).collect::<Vec<_>>() }));
    } else {
        for part in &parts {
            println!("{part}");
        }
    }
    Ok(parts.iter().all(ViewPart::is_met))
}

/// Writes an image whose packets have 1 to 200 bytes, in one tile-part.
fn image() -> Result<Vec<u8>> {
    let mut file = vec![0xFF, 0x4F];
    write_segment(&mut file, 0x51, &size())?;
    let mut coding = vec![1, 2, 0, LAYERS, 0, LEVELS, 4, 4, 0, 0];
    coding.extend([0x77; LEVELS as usize + 1]);
    write_segment(&mut file, 0x52, &coding)?;

    let packet_bytes = |number: u32| 1 + number.wrapping_mul(7_919) % 200;
    let (mut lengths, mut bytes) = (Vec::new(), 0);
    for number in 0..PACKETS {
        let length = packet_bytes(number);
        bytes += length;
        let [.., low] = length.to_be_bytes();
        if low >= 0x80 {
            lengths.extend([0x81, low & 0x7F]);
        } else {
            lengths.push(low);
        }
    }
    let mut header = Vec::new();
    for (number, lengths) in (0_u8..).zip(lengths.chunks(SEGMENT_BYTES)) {
        write_segment(&mut header, 0x58, &[&[number][..], lengths].concat())?;
    }
    header.extend([0xFF, 0x93]);

    let mut start = vec![0_u8, 0];
    start.extend((12 + u32::try_from(header.len())? + bytes).to_be_bytes());
    start.extend([0, 1]);
    write_segment(&mut file, 0x90, &start)?;
    file.extend(header);
    file.resize(file.len() + bytes as usize, 0x55);
    file.extend([0xFF, 0xD9]);
    Ok(file)
}

/// Returns the contents of SIZ.
fn size() -> Vec<u8> {
    let mut size = vec![0, 0];
    for number in [WIDTH, HEIGHT, 0, 0, WIDTH, HEIGHT, 0, 0] {
        size.extend(number.to_be_bytes());
    }
    size.extend([0, COMPONENTS]);
    size.extend([7_u8, 1, 1].repeat(usize::from(COMPONENTS)));
    size
}

fn write_segment(file: &mut Vec<u8>, marker: u8, content: &[u8]) -> Result<()> {
    file.extend([0xFF, marker]);
    file.extend(u16::try_from(content.len() + 2)?.to_be_bytes());
    file.extend(content);
    Ok(())
}
