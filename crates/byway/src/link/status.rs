//! `byway link status`: prints the status of attached devices.

use std::ffi::OsString;

use byway_net::{LinkError, Qdisc, TrafficControl};
use clap::Args;

use super::control_socket::{self, ControlAnswer, ControlCommand};
use super::qdisc_setup::{device_failure, is_leftover, missing};
use super::record::AttachRecord;
use super::report::{ClassReport, LinkReport, LinkState};
use super::sharing::{CLASSES, QUEUES};
use super::{RecordFlags, connect, records, without_record};
use crate::exit::{Cause, Failure};

/// Flags of `byway link status`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StatusFlags {
    /// Network device [default: all attached ones].
    #[arg(value_name = "DEVICE")]
    device: Option<OsString>,
    /// Print JSON, one line for each device.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    records: RecordFlags,
}

/// Prints the status of attached devices.
///
/// # Errors
/// If no device is attached, or a controller does not answer.
pub(super) fn run(flags: &StatusFlags) -> Result<(), Failure> {
    let reports = reports(flags)?;
    if reports.is_empty() {
        let named = flags.device.as_ref().map(|device| device.to_string_lossy().into_owned());
        let message = named.map_or_else(
            || "no device attached: run byway link attach DEVICE --rate RATE".to_owned(),
            |name| format!("{name} not attached: run byway link attach {name} --rate RATE"),
        );
        return Err(Failure::new(Cause::Settings, message));
    }
    // A failure of one device must not hide the others.
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

fn reports(flags: &StatusFlags) -> Result<Vec<Result<LinkReport, Failure>>, Failure> {
    let mut control = connect()?;
    let folder = records(&flags.records)?;
    let records = folder.all()?;
    let Some(name) = &flags.device else {
        return Ok(records.iter().map(|record| of_record(&mut control, record)).collect());
    };
    let text = name.to_string_lossy();
    let index = match control.device(name) {
        Ok(device) => device.index,
        Err(LinkError::NoDevice) => match records.iter().find(|record| record.device == text) {
            Some(record) => record.index,
            None => return Err(device_failure(&text, &LinkError::NoDevice)),
        },
        Err(error) => return Err(device_failure(&text, &error)),
    };
    // A controller answers even if its record is in another folder.
    if let Some(report) = controller_report(index)? {
        return Ok(vec![Ok(report)]);
    }
    if let Some(record) = records.iter().find(|record| record.index == index) {
        return Ok(vec![of_record(&mut control, record)]);
    }
    let is_left = is_leftover(&mut control, index).map_err(|error| device_failure(&text, &error))?;
    if is_left { Err(without_record(&text, &folder)) } else { Ok(Vec::new()) }
}

fn of_record(control: &mut TrafficControl, record: &AttachRecord) -> Result<LinkReport, Failure> {
    match controller_report(record.index)? {
        Some(report) => Ok(report),
        None => unattended_report(control, record).map_err(|error| device_failure(&record.device, &error)),
    }
}

/// Returns the report of the controller of the device with this index; `None` if no controller
/// runs.
fn controller_report(index: u32) -> Result<Option<LinkReport>, Failure> {
    match control_socket::send_command(index, ControlCommand::Status)? {
        None => Ok(None),
        Some(ControlAnswer::Status(report)) => Ok(Some(*report)),
        Some(ControlAnswer::Failed(message) | ControlAnswer::Refused(message)) => {
            Err(Failure::machine(message))
        }
        Some(ControlAnswer::Done(_)) => Err(Failure::new(Cause::Byway, "unexpected reply of the controller")),
    }
}

/// Returns the status of a link whose controller does not run, from its record and the kernel.
fn unattended_report(control: &mut TrafficControl, record: &AttachRecord) -> Result<LinkReport, LinkError> {
    let device = match control.device_at(record.index) {
        Ok(device) => Some(device),
        Err(LinkError::NoDevice) => None,
        Err(error) => return Err(error),
    };
    let (mut counters, mut queues, mut problem) = (Vec::new(), Vec::new(), None);
    if device.is_some() {
        counters = control.classes(record.index).unwrap_or_default();
        queues = control.qdiscs(record.index)?;
        problem = missing(control, record)?;
    } else {
        problem.replace("the device was removed".to_owned());
    }
    let class = |index: usize| ClassReport {
        buffer_bytes: queue_limit(&queues, QUEUES[index]),
        ..ClassReport::counted(&counters, CLASSES[index])
    };
    let remedy = format!(
        "byway link detach {0} restores the former qdisc, byway link attach {0} --rate RATE attaches \
         it again",
        record.device
    );
    Ok(LinkReport {
        state: LinkState::Unattended,
        note: Some(problem.map_or(remedy.clone(), |problem| format!("{problem}; {remedy}"))),
        is_up: device.is_some_and(|device| device.is_up),
        delay_us: record.terms.delay().map(byway_units::Duration::as_micros),
        ..LinkReport::of_record(record, class(0), class(1))
    })
}

/// Returns the longest queue of a bfifo in bytes, which is its only option.
fn queue_limit(queues: &[Qdisc], handle: u32) -> Option<u64> {
    let queue = queues.iter().find(|queue| queue.handle == handle)?;
    let options = queue.options.as_ref()?.first_chunk()?;
    Some(u32::from_ne_bytes(*options).into())
}
