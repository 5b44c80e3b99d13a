//! `byway link status`: how devices are that are attached.

use std::ffi::OsString;

use byway_net::{LinkError, Qdisc, TrafficControl};
use clap::Args;

use super::installed::{is_leftover, missing, of_device};
use super::record::Record;
use super::report::{ClassReport, Report, State};
use super::sharing::{CLASSES, QUEUES};
use super::talk::{self, Answer, Ask};
use super::{Place, connected, records, without_record};
use crate::exit::{Cause, Failure};

/// What `byway link status` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusFlags {
    /// The network device. By default all that are attached.
    #[arg(value_name = "DEVICE")]
    device: Option<OsString>,
    /// As JSON: one line for each device.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Shows it.
///
/// # Errors
/// If nothing is attached, or a controller cannot be asked.
pub(super) fn run(flags: &StatusFlags) -> Result<(), Failure> {
    let reports = reports(flags)?;
    if reports.is_empty() {
        let named = flags.device.as_ref().map(|device| device.to_string_lossy().into_owned());
        let message = named.map_or_else(
            || "no network device is attached: byway link attach DEVICE --rate RATE".to_owned(),
            |name| format!("{name} is not attached: byway link attach {name} --rate RATE"),
        );
        return Err(Failure::new(Cause::Settings, message));
    }
    // One that cannot be asked does not hide the others.
    let mut failed: Option<Failure> = None;
    for report in reports {
        match report {
            Ok(report) if flags.json => {
                println!("{}", serde_json::to_string(&report).expect("a report has text and numbers"));
            }
            Ok(report) => print!("{}", report.text()),
            Err(failure) => {
                if let Some(earlier) = failed.replace(failure) {
                    eprintln!("{earlier}");
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

fn reports(flags: &StatusFlags) -> Result<Vec<Result<Report, Failure>>, Failure> {
    let mut control = connected()?;
    let folder = records(&flags.place)?;
    let records = folder.all()?;
    let Some(name) = &flags.device else {
        return Ok(records.iter().map(|record| of_record(&mut control, record)).collect());
    };
    let text = name.to_string_lossy();
    let index = match control.device(name) {
        Ok(device) => device.index,
        Err(LinkError::NoDevice) => match records.iter().find(|record| record.device == text) {
            Some(record) => record.index,
            None => return Err(of_device(&text, &LinkError::NoDevice)),
        },
        Err(error) => return Err(of_device(&text, &error)),
    };
    // A controller answers also if its record is elsewhere.
    if let Some(report) = asked(index)? {
        return Ok(vec![Ok(report)]);
    }
    if let Some(record) = records.iter().find(|record| record.index == index) {
        return Ok(vec![of_record(&mut control, record)]);
    }
    let is_left = is_leftover(&mut control, index).map_err(|error| of_device(&text, &error))?;
    if is_left { Err(without_record(&text, &folder)) } else { Ok(Vec::new()) }
}

fn of_record(control: &mut TrafficControl, record: &Record) -> Result<Report, Failure> {
    match asked(record.index)? {
        Some(report) => Ok(report),
        None => unattended(control, record).map_err(|error| of_device(&record.device, &error)),
    }
}

/// What the controller says, if there is one.
fn asked(index: u32) -> Result<Option<Report>, Failure> {
    match talk::ask(index, Ask::Status)? {
        None => Ok(None),
        Some(Answer::Status(report)) => Ok(Some(*report)),
        Some(Answer::Failed(message) | Answer::Refused(message)) => Err(Failure::machine(message)),
        Some(Answer::Done(_)) => Err(Failure::new(Cause::Byway, "the controller answers something else")),
    }
}

/// What can be seen without one.
fn unattended(control: &mut TrafficControl, record: &Record) -> Result<Report, LinkError> {
    let device = match control.device_at(record.index) {
        Ok(device) => Some(device),
        Err(LinkError::NoDevice) => None,
        Err(error) => return Err(error),
    };
    let (mut counters, mut queues, mut trouble) = (Vec::new(), Vec::new(), None);
    if device.is_some() {
        counters = control.classes(record.index).unwrap_or_default();
        queues = control.qdiscs(record.index)?;
        trouble = missing(control, record)?;
    } else {
        trouble.replace("the device has gone".to_owned());
    }
    let class = |place: usize| ClassReport {
        room_bytes: room(&queues, QUEUES[place]),
        ..ClassReport::counted(&counters, CLASSES[place])
    };
    let remedy = format!(
        "byway link detach {0} puts back what was there, byway link attach {0} --rate RATE begins anew",
        record.device
    );
    Ok(Report {
        state: State::Unattended,
        note: Some(trouble.map_or(remedy.clone(), |trouble| format!("{trouble}; {remedy}"))),
        is_up: device.is_some_and(|device| device.is_up),
        delay_us: record.terms.delay().map(byway_units::Duration::as_micros),
        ..Report::of_record(record, class(0), class(1))
    })
}

/// What a bfifo says of itself is its length.
fn room(queues: &[Qdisc], handle: u32) -> Option<u64> {
    let queue = queues.iter().find(|queue| queue.handle == handle)?;
    let options = queue.options.as_ref()?.first_chunk()?;
    Some(u32::from_ne_bytes(*options).into())
}
