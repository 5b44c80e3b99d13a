//! `byway link detach`: restores a device's former state.

use std::ffi::OsString;

use byway_net::{LinkDevice, LinkError};
use clap::Args;

use super::control_socket::{self, Claim, ControlCommand};
use super::qdisc_setup::{clear, device_failure, is_leftover, restore};
use super::record::{AttachRecord, Records};
use super::{RecordFlags, connect, expect_done, records, without_record};
use crate::exit::{Cause, Failure};

/// Flags of `byway link detach`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DetachFlags {
    /// The network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    /// Remove Byway's queues if the record of the former state is missing; that state is lost.
    #[arg(long)]
    without_record: bool,
    #[command(flatten)]
    records: RecordFlags,
}

/// Detaches a device: its controller restores it and ends. If no controller runs, restores the
/// device from its record.
///
/// # Errors
/// If nothing is attached, or the former state cannot be restored.
pub(super) fn run(flags: &DetachFlags) -> Result<(), Failure> {
    let records = records(&flags.records)?;
    let mut control = connect()?;
    let name = flags.device.to_string_lossy();
    let device = match control.device(&flags.device) {
        Ok(device) => device,
        Err(LinkError::NoDevice) => return detach_missing(&name, &records),
        Err(error) => return Err(device_failure(&name, &error)),
    };
    if stop_controller(device.index)? {
        println!("{name}: former qdisc restored");
        return Ok(());
    }
    if let Some(record) = records.of(device.index)? {
        return put_back(&records, &record, &record.device);
    }
    if !is_leftover(&mut control, device.index).map_err(|error| device_failure(&name, &error))? {
        return detach_missing(&name, &records);
    }
    if flags.without_record {
        return remove(&device);
    }
    Err(without_record(&name, &records))
}

/// Tells the controller of the device with this index to restore the device and end. Returns false
/// if no controller runs.
fn stop_controller(index: u32) -> Result<bool, Failure> {
    let Some(answer) = control_socket::send_command(index, ControlCommand::Detach)? else {
        return Ok(false);
    };
    expect_done(answer).map(|()| true)
}

/// Claims a device whose controller has ended, to exclude other commands meanwhile.
fn claim_device(index: u32, device: &str) -> Result<Claim, Failure> {
    Claim::acquire(index)?
        .ok_or_else(|| Failure::machine(format!("another process changes {device} now: try again")))
}

/// Restores the device's state from its record, and removes the record. `called` is the device's
/// current name, for messages.
fn put_back(records: &Records, record: &AttachRecord, shown_name: &str) -> Result<(), Failure> {
    let _claim = claim_device(record.index, shown_name)?;
    for note in restore(&mut connect()?, record)? {
        println!("{shown_name}: {note}");
    }
    records.remove(record.index)?;
    println!("{shown_name}: its controller had ended (process {}); former qdisc restored", record.process);
    Ok(())
}

/// Removes Byway's queues from a device whose record is missing.
fn remove(device: &LinkDevice) -> Result<(), Failure> {
    let name = &device.name;
    let _claim = claim_device(device.index, name)?;
    for note in clear(&mut connect()?, device)? {
        println!("{name}: {note}");
    }
    println!("{name}: Byway's queues removed; the former qdisc is unknown");
    Ok(())
}

/// Detaches a device by its record: one that does not exist under this name, or is not attached.
/// The device may have been renamed or removed since it was attached.
fn detach_missing(name: &str, records: &Records) -> Result<(), Failure> {
    let all = records.all()?;
    let Some(record) = all.iter().find(|record| record.device == name) else {
        let message = format!("{name} not attached (byway link status shows attached devices)");
        return Err(Failure::new(Cause::Settings, message));
    };
    // The device exists under another name, or it has disappeared with its queues. Another device
    // may have its name now.
    let Ok(device) = connect()?.device_at(record.index) else {
        records.remove(record.index)?;
        println!("{name}: the attached device was removed, together with its qdiscs");
        return Ok(());
    };
    let shown_name = format!("{} (attached as {name})", device.name);
    if stop_controller(record.index)? {
        println!("{shown_name}: former qdisc restored");
        return Ok(());
    }
    put_back(records, record, &shown_name)
}
