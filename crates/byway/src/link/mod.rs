//! `byway link`: Rate-Delay service classes at a network device, with forwarding in the kernel.
//!
//! HTB has two queues. An eBPF program selects one of them for each packet by its DSCP
//! ([`mark_flags`]), and records the time of each flow's latest packet ([`classifier`]). A
//! controller ([`attach`]) counts flows every 400 ms and sets the classes' shares ([`sharing`]). If
//! the link shares by flows, it sets them every 50 ms, as the policy of network state decides
//! ([`flow_policy`]). Then it may also report the state of its low-delay class to a controller
//! ([`state_reporter`]), which names the registered flows in return ([`flow_follower`]).
//!
//! Before any change, the controller records the device's former state in a file ([`record`]). It
//! restores that state when it ends, or a later command does ([`qdisc_setup`]).

mod attach;
mod classifier;
mod control;
mod control_socket;
mod detach;
mod flow_follower;
mod flow_policy;
mod ip_counters;
mod limits;
mod link_config;
mod mark_flags;
mod max_packet_size;
mod qdisc_setup;
mod record;
mod register;
mod registration;
mod report;
mod report_status;
mod sample_sender;
mod sharing;
mod state_reporter;
mod status;

use std::ffi::OsString;
use std::path::PathBuf;

use byway_net::{LinkDevice, TrafficControl};
use clap::{Args, Subcommand};

use crate::exit::{Cause, Failure};
use control_socket::{ControlAnswer, ControlCommand};
use link_config::{ChangedFlags, ConfigRequest};
use record::Records;

/// Subcommands of `byway link`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LinkCommand {
    /// Attach two classes to a device, high rate and low delay.
    ///
    /// It runs until Ctrl-C, SIGTERM, a closed terminal or `byway link detach`, and then restores
    /// the device.
    Attach(Box<attach::AttachFlags>),
    /// Restore a device to its state before `byway link attach`, also after that was killed.
    Detach(detach::DetachFlags),
    /// Change the rate, delay, ratio or floor of an attached device.
    ///
    /// Options that are not specified retain their value. `attach` alone sets DSCPs.
    Change(ChangeFlags),
    /// Put a flow into the low-delay class of a device that was attached with --registered.
    ///
    /// It stays there until its lease ends. The same command renews the lease.
    Register(register::RegisterFlags),
    /// Show attached devices.
    Status(status::StatusFlags),
}

/// Location of the records.
#[derive(Clone, Debug, Args)]
struct RecordFlags {
    /// Folder of the records of devices' former state.
    #[arg(long, value_name = "FOLDER", default_value = "/run/byway")]
    state: PathBuf,
}

/// Flags of `byway link change`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChangeFlags {
    /// Network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    #[command(flatten)]
    promise: ChangedFlags,
    #[command(flatten)]
    records: RecordFlags,
}

/// Runs a `byway link` command.
///
/// # Errors
/// If the command fails.
pub(crate) fn run(command: &LinkCommand) -> Result<(), Failure> {
    match command {
        LinkCommand::Attach(flags) => attach::run(flags),
        LinkCommand::Detach(flags) => detach::run(flags),
        LinkCommand::Change(flags) => change(flags),
        LinkCommand::Register(flags) => register::run(flags),
        LinkCommand::Status(flags) => status::run(flags),
    }
}

fn change(flags: &ChangeFlags) -> Result<(), Failure> {
    let (mut control, device) = open_device(&flags.device)?;
    let name = &device.name;
    if let Some(answer) = control_socket::send_command(
        device.index,
        ControlCommand::Change(ConfigRequest::from(&flags.promise)),
    )? {
        return expect_done(answer);
    }
    let why = reason_without_controller(&mut control, &device, &flags.records)?;
    let message = format!(
        "cannot change {name}: no controller runs, because {why}; run byway link attach {name} --rate RATE"
    );
    Err(Failure::new(Cause::Settings, message))
}

/// Returns the reason why no controller of a device runs, for people.
///
/// # Errors
/// If the device has Byway's queues, but no record of its former state.
fn reason_without_controller(
    control: &mut TrafficControl,
    device: &LinkDevice,
    place: &RecordFlags,
) -> Result<String, Failure> {
    let (name, records) = (&device.name, records(place)?);
    let is_left = qdisc_setup::is_leftover(control, device.index)
        .map_err(|error| qdisc_setup::device_failure(name, &error))?;
    match records.of(device.index)? {
        Some(record) => Ok(format!("its controller (process {}) has ended", record.process)),
        None if is_left => Err(without_record(name, &records)),
        None => Ok("it is not attached".into()),
    }
}

/// Returns the failure of a device that has Byway's queues, but no record of its former state.
fn without_record(name: &str, records: &Records) -> Failure {
    Failure::machine(format!(
        "{name} has Byway's queues, but no record of the former qdisc in {}. Name the folder of byway \
         link attach (--state FOLDER), or remove the queues without a record (byway link detach {name} \
         --without-record)",
        records.folder().display()
    ))
}

/// Connects to the kernel, and finds the device of this name.
fn open_device(name: &OsString) -> Result<(TrafficControl, LinkDevice), Failure> {
    let mut control = connect()?;
    let device =
        control.device(name).map_err(|error| qdisc_setup::device_failure(&name.to_string_lossy(), &error))?;
    Ok((control, device))
}

fn connect() -> Result<TrafficControl, Failure> {
    TrafficControl::connect()
        .map_err(|error| Failure::machine(format!("cannot connect to the kernel's traffic control: {error}")))
}

/// Converts a controller's answer to a command into the command's result.
fn expect_done(answer: ControlAnswer) -> Result<(), Failure> {
    match answer {
        ControlAnswer::Done(notes) => {
            for note in notes {
                println!("{note}");
            }
            Ok(())
        }
        ControlAnswer::Refused(message) => Err(Failure::new(Cause::Settings, message)),
        ControlAnswer::Failed(message) => Err(Failure::machine(message)),
        ControlAnswer::Status(_) => Err(Failure::new(Cause::Byway, "unexpected reply of the controller")),
    }
}

fn records(place: &RecordFlags) -> Result<Records, Failure> {
    Records::new(&place.state)
}
