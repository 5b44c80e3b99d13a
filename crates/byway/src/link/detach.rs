//! `byway link detach`: a device is put back as it was.

use std::ffi::OsString;

use byway_net::{LinkDevice, LinkError};
use clap::Args;

use super::installed::{clear, is_leftover, of_device, restore};
use super::record::{Record, Records};
use super::talk::{self, Ask, Claim};
use super::{Place, connected, done, records, without_record};
use crate::exit::{Cause, Failure};

/// What `byway link detach` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct DetachFlags {
    /// The network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    /// Removes what is Byway's where there is no record of what was there before, which is lost then.
    #[arg(long)]
    without_record: bool,
    #[command(flatten)]
    place: Place,
}

/// Has the controller end, or does in its place what it should have done.
///
/// # Errors
/// If there is nothing to put back, or it cannot be.
pub(super) fn run(flags: &DetachFlags) -> Result<(), Failure> {
    let records = records(&flags.place)?;
    let mut control = connected()?;
    let name = flags.device.to_string_lossy();
    let device = match control.device(&flags.device) {
        Ok(device) => device,
        Err(LinkError::NoDevice) => return of_gone(&name, &records),
        Err(error) => return Err(of_device(&name, &error)),
    };
    if ended(device.index)? {
        println!("{name}: what was there is put back");
        return Ok(());
    }
    if let Some(record) = records.of(device.index)? {
        return put_back(&records, &record, &record.device);
    }
    if !is_leftover(&mut control, device.index).map_err(|error| of_device(&name, &error))? {
        return of_gone(&name, &records);
    }
    if flags.without_record {
        return remove(&device);
    }
    Err(without_record(&name, &records))
}

/// Whether there was a controller, which has put back what was there.
fn ended(index: u32) -> Result<bool, Failure> {
    let Some(answer) = talk::ask(index, Ask::Detach)? else {
        return Ok(false);
    };
    done(answer).map(|()| true)
}

/// Nobody else may begin or end something at the device meanwhile.
fn claimed(index: u32, device: &str) -> Result<Claim, Failure> {
    Claim::take(index)?
        .ok_or_else(|| Failure::machine(format!("another process is just at work at {device}: try again")))
}

/// Puts back what a record says, of a device that is `called` so now.
fn put_back(records: &Records, record: &Record, called: &str) -> Result<(), Failure> {
    let _claim = claimed(record.index, called)?;
    for note in restore(&mut connected()?, record)? {
        println!("{called}: {note}");
    }
    records.remove(record.index)?;
    println!("{called}: its controller had ended (process {}); what was there is put back", record.process);
    Ok(())
}

/// Removes what is Byway's, where nothing else is known.
fn remove(device: &LinkDevice) -> Result<(), Failure> {
    let name = &device.name;
    let _claim = claimed(device.index, name)?;
    for note in clear(&mut connected()?, device)? {
        println!("{name}: {note}");
    }
    println!("{name}: Byway's queues are removed; what was there before is not known");
    Ok(())
}

/// There is no such device, or nothing at it: but it may have had another name or number when it was attached.
fn of_gone(name: &str, records: &Records) -> Result<(), Failure> {
    let all = records.all()?;
    let Some(record) = all.iter().find(|record| record.device == name) else {
        let message = format!("{name} is not attached (byway link status shows what is)");
        return Err(Failure::new(Cause::Settings, message));
    };
    // It is there under another name, or it has gone with all that was put at it, and perhaps another one came that has its name.
    let Ok(device) = connected()?.device_at(record.index) else {
        records.remove(record.index)?;
        println!("{name}: the device that was attached has gone, and with it what was put there");
        return Ok(());
    };
    let called = format!("{} (attached as {name})", device.name);
    if ended(record.index)? {
        println!("{called}: what was there is put back");
        return Ok(());
    }
    put_back(records, record, &called)
}
