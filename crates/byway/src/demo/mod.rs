//! `byway demo`: a video call survives an outage, shown on one machine without privileges.
//!
//! A controller, two relays and eight pairs of agents run as real processes over real sockets,
//! through an emulated network, and transfer real video. The report compares the services by the
//! pictures that a viewer would see.
//!
//! - [`wan`]: the emulator, a process of its own; [`plan`]: the network that it emulates.
//! - [`media`]: the video; [`traffic`]: the applications that send and receive it.
//! - [`overlay`], [`configuration`], [`status`]: the processes of Byway.
//! - [`mod@run`]: one run; [`measure`]: its evaluation; [`report`]: the results of all runs.
//!
//! Nothing is encoded or decoded during a transfer, because that would delay packets.

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
mod demo_run;
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
mod traffic;
mod udp;
mod wan;

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

use media::{Footage, Tools};
use plan::DemoPlan;

use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::temp_dir::RunTempDir;

/// Hidden subcommand of `byway` that runs the emulator's process.
pub(crate) const WAN_COMMAND: &str = "demo-wan";

/// Number of pairs of agents. With eight, a full batch has one packet of each.
const PAIRS: usize = 8;

/// Begin of the outage, in seconds after the start of the call. By default, the outage ends before
/// the demo kills relays half way.
const OUTAGE_AFTER_SECONDS: u64 = 4;

/// Length of the video in seconds.
const VIDEO_SECONDS: u64 = 20;

/// Options of `byway demo`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DemoFlags {
    /// Video to send instead of Big Buck Bunny, looped to 20 s.
    #[arg(long, value_name = "FILE")]
    video: Option<PathBuf>,
    /// Length of the outage on one of the direct paths, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=14))]
    outage: u64,
    /// Random seed: the same seed gives the same losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run only coding, with N consecutive seeds, without scoring the video.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SEEDS_MAX)))]
    seeds: Option<u32>,
    /// Folder for result.json and report.html, and for the footage.
    #[arg(long, value_name = "FOLDER", default_value = "target/demo")]
    output: PathBuf,
}

/// Performs the demo, or the runs of `--seeds`.
///
/// # Errors
/// If something is missing or fails, or the user interrupts
/// ([`Interrupted`](interrupt::Interrupted)); the error names the remedy.
pub(crate) fn run(flags: &DemoFlags) -> anyhow::Result<()> {
    interrupt::listen()?;
    let prerequisites = Prerequisites::new(flags)?;
    match flags.seeds {
        Some(count) => seeds::run(flags, &prerequisites, count),
        None => demo_run::run(flags, &prerequisites),
    }
}

/// Video source, ffmpeg, temporary folder and loopback addresses that the demo needs, all checked.
#[derive(Debug)]
struct Prerequisites {
    footage: Footage,
    tools: Tools,
    scratch: RunTempDir,
    net: NetReservation,
}

impl Prerequisites {
    /// Checks the options of the demo first, then the machine: ffmpeg, a temporary folder and free
    /// loopback addresses.
    ///
    /// # Errors
    /// If a prerequisite is missing.
    fn new(flags: &DemoFlags) -> anyhow::Result<Self> {
        let footage = flags.footage()?;
        if flags.seeds.is_none() {
            expect_writable(&flags.output)?;
        }
        let tools = Tools::find()?;
        Ok(Self { footage, tools, scratch: RunTempDir::new()?, net: NetReservation::new()? })
    }
}

/// Checks that the demo can write its results to this folder, before minutes of work.
///
/// # Errors
/// If the folder is not writable.
fn expect_writable(output: &Path) -> Result<(), Failure> {
    fs::create_dir_all(output).and_then(|()| tempfile::tempfile_in(output)).map(drop).map_err(|error| {
        let message = format!("--output {}: {error}: name a writable folder", output.display());
        Failure::new(Cause::Settings, message)
    })
}

/// Runs the emulator, which the demo starts as a process of its own.
///
/// # Errors
/// If its addresses are in use or its commands are invalid.
pub(crate) fn run_wan() -> anyhow::Result<()> {
    wan::main()
}

fn expect_file(video: &Path) -> Result<(), Failure> {
    let problem = match fs::File::open(video).and_then(|file| file.metadata()) {
        Ok(metadata) if metadata.is_dir() => "is a folder".into(),
        Ok(_) => return Ok(()),
        Err(error) => error.to_string(),
    };
    let message = format!("--video {}: {problem}: name a video file", video.display());
    Err(Failure::new(Cause::Settings, message))
}

impl DemoFlags {
    /// Finds the footage: the user's video, Big Buck Bunny if `make demo` has fetched it, or the
    /// test picture.
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

    fn plan(&self, net: &NetReservation) -> DemoPlan {
        let from = OUTAGE_AFTER_SECONDS * 1_000;
        DemoPlan {
            net: net.net,
            pairs: PAIRS,
            seed: self.seed,
            outage_ms: (from, from + self.outage * 1_000),
        }
    }
}

/// Second byte of the loopback addresses of this demo, which no other demo uses.
#[derive(Debug)]
struct NetReservation {
    net: u8,
    /// Socket that reserves the byte: no other demo can bind its address while it is open.
    _socket: UdpSocket,
}

impl NetReservation {
    fn new() -> Result<Self, Failure> {
        for net in 64..=254 {
            match UdpSocket::bind((Ipv4Addr::new(127, net, 8, 1), 4600)) {
                Ok(socket) => return Ok(Self { net, _socket: socket }),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) => {
                    let advice = "the demo needs all of 127.0.0.0/8, as on Linux";
                    let message = format!("cannot use loopback address 127.{net}.8.1: {error}: {advice}");
                    return Err(Failure::machine(message));
                }
            }
        }
        Err(Failure::machine(
            "UDP port 4600 in use on all loopback addresses, by a program that listens on \
             0.0.0.0:4600 or by other demos: end it (ss -lunp shows it) and start the demo again",
        ))
    }
}
