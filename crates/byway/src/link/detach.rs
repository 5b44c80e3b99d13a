//! `byway link detach`: a device is put back as it was.

use std::ffi::OsString;

use byway_net::LinkError;

use super::installed::{is_leftover, of_device, restore};
use super::record::{Record, Records};
use super::talk::{self, Ask, Claim};
use super::{DeviceFlags, connected, done, records};
use crate::exit::{Cause, Failure};

/// Has the controller end, or does in its place what it should have done.
///
/// # Errors
/// If there is nothing to put back, or it cannot be.
pub(super) fn run(flags: &DeviceFlags) -> Result<(), Failure> {
    let records = records(&flags.place)?;
    let mut control = connected()?;
    let name = flags.device.to_string_lossy();
    let device = match control.device(&flags.device) {
        Ok(device) => device,
        Err(LinkError::NoDevice) => return of_gone(&flags.device, &records),
        Err(error) => return Err(of_device(&name, &error)),
    };
    if let Some(answer) = talk::ask(device.index, Ask::Detach)? {
        done(answer)?;
        println!("{name}: what was there is put back");
        return Ok(());
    }
    let record = match records.of(device.index)? {
        Some(record) => record,
        None if is_leftover(&mut control, device.index).map_err(|error| of_device(&name, &error))? => {
            Record::lost(&device)
        }
        None => return of_gone(&flags.device, &records),
    };
    put_back(&records, &record)
}

/// Nobody else may begin or end something at the device meanwhile.
fn put_back(records: &Records, record: &Record) -> Result<(), Failure> {
    let device = &record.device;
    let Some(_claim) = Claim::take(record.index)? else {
        let message = format!("another process is just at work at {device}: try again");
        return Err(Failure::machine(message));
    };
    for note in restore(&mut connected()?, record)? {
        println!("{device}: {note}");
    }
    records.remove(record.index)?;
    println!("{device}: its controller had ended (process {}); what was there is put back", record.process);
    Ok(())
}

/// There is no such device, or nothing at it: but it may have had another name or number when it was attached.
fn of_gone(name: &OsString, records: &Records) -> Result<(), Failure> {
    let name = name.to_string_lossy();
    let all = records.all()?;
    let Some(record) = all.iter().find(|record| record.device == name) else {
        let message = format!("{name} is not attached (byway link status shows what is)");
        return Err(Failure::new(Cause::Settings, message));
    };
    // It is there under another name, or it has gone with all that was put at it, and perhaps another one came that has its name.
    if connected()?.device_at(record.index).is_ok() {
        return put_back(records, record);
    }
    records.remove(record.index)?;
    println!("{name}: the device that was attached has gone, and with it what was put there");
    Ok(())
}
