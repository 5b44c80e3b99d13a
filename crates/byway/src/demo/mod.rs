//! `byway demo`: a video call survives an outage, shown on one machine without privileges.
//!
//! A controller, two relays and eight pairs of agents run as real processes over real sockets, through an emulated network,
//! and carry real video. What a viewer would see is compared for each service.
//!
//! - [`wan`]: the emulator, a process of its own; [`plan`]: the network that it emulates.
//! - [`media`]: the video; [`traffic`]: the applications that send and receive it.
//! - [`overlay`], [`configuration`], [`status`]: the processes of Byway.
//! - [`mod@run`]: one run; [`measure`]: its numbers; [`report`]: all of it, told.
//!
//! Nothing is encoded or decoded while packets fly: that would delay them.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the demo is a driver: it reads clocks, opens sockets and writes files"
)]
#![allow(
    clippy::cast_precision_loss,
    reason = "counts and times of runs of minutes are far below 2^53, and are shown with a few digits"
)]

mod clock;
mod configuration;
mod drops;
mod limits;
mod measure;
mod media;
mod overlay;
mod plan;
mod prices;
mod progress;
mod report;
mod results;
mod run;
mod seeds;
mod status;
mod tour;
mod traffic;
mod udp;
mod wan;

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

use media::{Footage, Tools};
use plan::Plan;

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::scratch::Scratch;

/// The hidden subcommand that is the emulator.
pub(crate) const WAN_COMMAND: &str = "demo-wan";

/// Pairs of agents: so many that a full batch has a packet of each.
const PAIRS: usize = 8;

/// When the outage begins, in seconds: late enough to see the call well, and over before relays are killed half way.
const OUTAGE_AFTER_SECONDS: u64 = 4;

/// How long the video is.
const VIDEO_SECONDS: u64 = 20;

/// What `byway demo` is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoFlags {
    /// A video to send instead of Big Buck Bunny; it is looped to 20 s.
    #[arg(long, value_name = "FILE")]
    video: Option<PathBuf>,
    /// How long one of the paths is dark, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=14))]
    outage: u64,
    /// What chance begins with: the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only coding, with so many seeds, without looking at the video.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SEEDS_MAX)))]
    seeds: Option<u32>,
    /// Where result.json and report.html go; footage is looked for there, too.
    #[arg(long, value_name = "FOLDER", default_value = "target/demo")]
    output: PathBuf,
}

/// Shows it.
///
/// # Errors
/// If something is missing or fails, or the user interrupts ([`Interrupted`](interrupt::Interrupted)); the error says what to do about it.
pub(crate) fn run(flags: &DemoFlags) -> anyhow::Result<()> {
    interrupt::listen()?;
    let prerequisites = Prerequisites::new(flags)?;
    match flags.seeds {
        Some(count) => seeds::run(flags, &prerequisites, count),
        None => tour::run(flags, &prerequisites),
    }
}

/// What the demo cannot do without.
#[derive(Debug)]
struct Prerequisites {
    footage: Footage,
    tools: Tools,
    scratch: Scratch,
    net: Reservation,
}

impl Prerequisites {
    /// # Errors
    /// If one is missing: first what was typed is looked at, then the machine.
    fn new(flags: &DemoFlags) -> anyhow::Result<Self> {
        let footage = flags.footage()?;
        if flags.seeds.is_none() {
            expect_writable(&flags.output)?;
        }
        let tools = Tools::find()?;
        Ok(Self { footage, tools, scratch: Scratch::new()?, net: Reservation::new()? })
    }
}

/// # Errors
/// If results could not be written here once they are there, minutes later.
fn expect_writable(output: &Path) -> Result<(), Failure> {
    fs::create_dir_all(output).and_then(|()| tempfile::tempfile_in(output)).map(drop).map_err(|error| {
        let message = format!("--output {}: {error}: name a folder that you may write to", output.display());
        Failure::new(Cause::Settings, message)
    })
}

/// The emulator: what the demo starts as a process of its own.
///
/// # Errors
/// If its addresses are in use or its commands make no sense.
pub(crate) fn run_wan() -> anyhow::Result<()> {
    wan::main()
}

fn expect_file(video: &Path) -> Result<(), Failure> {
    let problem = match fs::File::open(video).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_dir() => "this is a folder".into(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    let message = format!("--video {}: {problem}: name a file with a video", video.display());
    Err(Failure::new(Cause::Settings, message))
}

impl DemoFlags {
    /// The user's video, or Big Buck Bunny where `make demo` puts it, or none of these.
    ///
    /// # Errors
    /// If the user's video cannot be read.
    fn footage(&self) -> Result<Footage, Failure> {
        let fetched = self.output.join("bigbuckbunny.mp4");
        match &self.video {
            Some(own) => {
                expect_file(own)?;
                Ok(Footage::Own(own.clone()))
            }
            None if fetched.is_file() => Ok(Footage::BigBuckBunny(fetched)),
            None => Ok(Footage::Generator),
        }
    }

    fn plan(&self, net: &Reservation) -> Plan {
        let from = OUTAGE_AFTER_SECONDS * 1_000;
        Plan { net: net.net, pairs: PAIRS, seed: self.seed, outage_ms: (from, from + self.outage * 1_000) }
    }
}

/// A part of the loopback's addresses that no other demo has.
#[derive(Debug)]
struct Reservation {
    net: u8,
    /// Nobody else can have this address as long as it is open.
    _socket: UdpSocket,
}

impl Reservation {
    fn new() -> Result<Self, Failure> {
        for net in 64..=254 {
            match UdpSocket::bind((Ipv4Addr::new(127, net, 8, 1), 4600)) {
                Ok(socket) => return Ok(Self { net, _socket: socket }),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) => {
                    let advice = "the demo needs all of 127.0.0.0/8, as on Linux";
                    let message = format!("address 127.{net}.8.1 of the loopback: {error}: {advice}");
                    return Err(Failure::machine(message));
                }
            }
        }
        Err(Failure::machine(
            "UDP port 4600 is taken on all addresses of the loopback, by a program that listens on 0.0.0.0:4600 or by other \
             demos: end it (ss -lunp shows which) and start the demo again",
        ))
    }
}
