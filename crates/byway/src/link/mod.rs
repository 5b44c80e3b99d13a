//! `byway link`: Rate-Delay service classes at a network device, where the kernel does the forwarding.
//!
//! HTB has two queues; a program in the kernel chooses one of them for each packet by its DSCP, and notes when each flow was last seen
//! ([`classifier`]). A controller ([`attach`]) counts flows every 400 ms and shares the link accordingly ([`sharing`]). What was there before is
//! written down before anything is changed ([`record`]), and put back ([`installed`]) by the controller when it ends, or by whoever comes later.

mod attach;
mod classifier;
mod control;
mod detach;
mod installed;
mod limits;
mod longest;
mod record;
mod report;
mod sharing;
mod status;
mod talk;
mod terms;

use std::ffi::OsString;
use std::path::PathBuf;

use byway_net::{LinkDevice, TrafficControl};
use clap::{Args, Subcommand};

use crate::exit::{Cause, Failure};
use record::Records;
use talk::{Answer, Ask};
use terms::{ChangedFlags, Wish};

/// What `byway link` does.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Gives a device two classes, high rate and low delay. It stays in the foreground until Ctrl-C, SIGTERM, a closed terminal or
    /// `byway link detach`; then all is put back as it was.
    Attach(Box<attach::AttachFlags>),
    /// Puts a device back as it was before `byway link attach`, also after that was killed.
    Detach(detach::DetachFlags),
    /// Promises something else at a device that is attached. What is not said stays as it is; DSCPs are chosen by `attach` alone.
    Change(ChangeFlags),
    /// Shows how devices are that are attached.
    Status(status::StatusFlags),
}

/// Where the records are.
#[derive(Clone, Debug, Args)]
struct Place {
    /// The folder where it is written down what to put back.
    #[arg(long, value_name = "FOLDER", default_value = "/run/byway")]
    state: PathBuf,
}

/// What `byway link change` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChangeFlags {
    /// The network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    #[command(flatten)]
    promise: ChangedFlags,
    #[command(flatten)]
    place: Place,
}

/// Does it.
///
/// # Errors
/// If it cannot be done.
pub(crate) fn run(command: &LinkCommand) -> Result<(), Failure> {
    match command {
        LinkCommand::Attach(flags) => attach::run(flags),
        LinkCommand::Detach(flags) => detach::run(flags),
        LinkCommand::Change(flags) => change(flags),
        LinkCommand::Status(flags) => status::run(flags),
    }
}

fn change(flags: &ChangeFlags) -> Result<(), Failure> {
    let (mut control, device) = found(&flags.device)?;
    let name = &device.name;
    if let Some(answer) = talk::ask(device.index, Ask::Change(Wish::from(&flags.promise)))? {
        return done(answer);
    }
    let records = records(&flags.place)?;
    let is_left = installed::is_leftover(&mut control, device.index)
        .map_err(|error| installed::of_device(name, &error))?;
    let why = match records.of(device.index)? {
        Some(record) => format!("its controller (process {}) has ended", record.process),
        None if is_left => return Err(without_record(name, &records)),
        None => "it is not attached".into(),
    };
    let message = format!(
        "{name} has no controller that could change something, as {why}: byway link attach {name} --rate RATE"
    );
    Err(Failure::new(Cause::Settings, message))
}

/// Byway's queues are at a device, and nobody says what was there before.
fn without_record(name: &str, records: &Records) -> Failure {
    Failure::machine(format!(
        "{name} has Byway's queues, but what was there before is not known: {} has no record of it. Name the folder that byway link attach was \
         given (--state FOLDER), or have the queues removed without it (byway link detach {name} --without-record)",
        records.folder().display()
    ))
}

/// A talk with the kernel, and the device of this name.
fn found(name: &OsString) -> Result<(TrafficControl, LinkDevice), Failure> {
    let mut control = connected()?;
    let device =
        control.device(name).map_err(|error| installed::of_device(&name.to_string_lossy(), &error))?;
    Ok((control, device))
}

fn connected() -> Result<TrafficControl, Failure> {
    TrafficControl::connect()
        .map_err(|error| Failure::machine(format!("the kernel cannot be asked about devices: {error}")))
}

/// What a controller says to those who want something done.
fn done(answer: Answer) -> Result<(), Failure> {
    match answer {
        Answer::Done(notes) => {
            for note in notes {
                println!("{note}");
            }
            Ok(())
        }
        Answer::Refused(message) => Err(Failure::new(Cause::Settings, message)),
        Answer::Failed(message) => Err(Failure::machine(message)),
        Answer::Status(_) => Err(Failure::new(Cause::Byway, "the controller answers something else")),
    }
}

fn records(place: &Place) -> Result<Records, Failure> {
    Records::new(&place.state)
}
