//! `byway link attach`: a device is given two classes, until its controller is told to stop.

use std::ffi::OsString;
use std::time::Duration;

use byway_net::{LinkDevice, LinkError, TrafficControl};
use byway_sched::{Settings, UPDATE_INTERVAL};
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::classifier::Classifier;
use super::control::{Beginning, Controller, first_shares};
use super::installed::{clear, examine, install, is_leftover, of_device, restore};
use super::record::{Record, Records};
use super::sharing::CLASSES;
use super::talk::{Answer, Ask, Asking, Claim, Ear};
use super::terms::{MarkFlags, PromiseFlags, Terms, Wish};
use super::{Place, found, records, talk};
use crate::exit::{Cause, Failure};
use crate::membership::random;
use crate::settings::{LogSettings, TypedFormat, TypedLevel};
use crate::signals::{self, Stop};
use crate::{logs, node};

/// What `byway link attach` takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttachFlags {
    /// The network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    #[command(flatten)]
    promise: PromiseFlags,
    #[command(flatten)]
    marks: MarkFlags,
    /// Puts a qdisc aside that somebody has put at the device, for as long as it is attached.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    place: Place,
    /// What is logged.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: TypedLevel,
    /// How it looks.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: TypedFormat,
}

/// Attaches, and works until it is asked to stop.
///
/// # Errors
/// If the device cannot be attached, or goes.
pub(super) fn run(flags: &AttachFlags) -> Result<(), Failure> {
    logs::start(LogSettings { level: flags.log_level, format: flags.log_format });
    node::block_on(async {
        let mut stop = Stop::listen()?.or_hangup()?;
        let (mut controller, mut ear, records) = begin(flags)?;
        controller.warn_if_raised();
        let device = controller.record.device.clone();
        tracing::info!(device, "the link is attached");
        signals::tell_ready();
        let ended = work(&mut controller, &mut ear, &mut stop).await;
        signals::tell_stopping();
        end(controller, &records, ended).await
    })
}

/// Puts everything at the device; if a part fails, nothing stays.
fn begin(flags: &AttachFlags) -> Result<(Controller, Ear, Records), Failure> {
    let (mut control, device) = found(&flags.device)?;
    let terms = Terms::new(&Wish::from(&flags.promise), None);
    let settings = terms.checked(&device)?;
    let claim = claimed(&device)?;
    let records = records(&flags.place)?;
    let marking = flags.marks.marking();
    let classifier = Classifier::load(marking, CLASSES, &random::bytes())?;
    let device = tidied(&mut control, device, &records)?;
    let record = Record::new(&device.name, device.index, terms);
    let record = examine(&mut control, &device, record, flags.replace)?;
    let ear = claim.listen()?;
    records.write(&record)?;
    put(&mut control, &records, &record, &classifier, (&device, &settings))?;
    let beginning =
        Beginning { control, classifier, records: records.clone(), record, marking, device, settings };
    Ok((Controller::new(beginning), ear, records))
}

fn claimed(device: &LinkDevice) -> Result<Claim, Failure> {
    let name = &device.name;
    if let Some(claim) = Claim::take(device.index)? {
        return Ok(claim);
    }
    // A command that is just at work has no answer.
    talk::ask(device.index, Ask::Status)?;
    let message = format!(
        "{name} is attached already (byway link status {name}): change it with byway link change, or end it with byway link detach {name}"
    );
    Err(Failure::new(Cause::Settings, message))
}

/// The device, without what a controller that was killed has left there.
fn tidied(
    control: &mut TrafficControl,
    device: LinkDevice,
    records: &Records,
) -> Result<LinkDevice, Failure> {
    let name = &device.name;
    let failed = |error: LinkError| of_device(name, &error);
    let notes = if let Some(left) = records.of(device.index)? {
        let process = left.process;
        tracing::warn!(
            device = name,
            process,
            "what a controller that was killed has left is put back first"
        );
        restore(control, &left)?
    } else if is_leftover(control, device.index).map_err(failed)? {
        let folder = records.folder().display();
        tracing::warn!(device = name, %folder, "Byway's queues are there without a record: they are removed first, what was there before is not known");
        clear(control, &device)?
    } else {
        return Ok(device);
    };
    for note in notes {
        tracing::warn!(device = name, "{note}");
    }
    records.remove(device.index)?;
    control.device_at(device.index).map_err(failed)
}

fn put(
    control: &mut TrafficControl,
    records: &Records,
    record: &Record,
    classifier: &Classifier,
    (device, settings): (&LinkDevice, &Settings),
) -> Result<(), Failure> {
    let failure = match install(control, record, classifier, &first_shares(device, settings)) {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    match restore(control, record) {
        Ok(_) => records.remove(record.index)?,
        Err(left) => tracing::error!(%left, "something is left behind: byway link detach removes it"),
    }
    Err(failure)
}

/// Why a controller ends.
enum Ended {
    /// A signal, or its device has gone.
    Stopped(Result<(), Failure>),
    /// A command, which waits for the answer.
    Asked(Asking),
}

async fn work(controller: &mut Controller, ear: &mut Ear, stop: &mut Stop) -> Ended {
    let mut rounds = interval(Duration::from_nanos(UPDATE_INTERVAL.as_nanos()));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut later: Option<Instant> = None;
    loop {
        tokio::select! {
            () = stop.asked() => return Ended::Stopped(Ok(())),
            // A promise of minutes keeps its rates for as long, and is not overtaken.
            _ = rounds.tick(), if later.is_none() => match controller.round() {
                Ok(rest) => later = rest.map(|after| Instant::now() + Duration::from_nanos(after.as_nanos())),
                Err(failure) => return Ended::Stopped(Err(failure)),
            },
            () = until(later) => {
                later = None;
                controller.do_later();
            }
            (ask, asking) = ear.next() => match ask {
                Ask::Status => asking.answer(&status(controller)).await,
                Ask::Change(wish) => asking.answer(&Answer::of(&controller.change(&wish))).await,
                Ask::Detach => return Ended::Asked(asking),
            },
        }
    }
}

async fn until(later: Option<Instant>) {
    match later {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn status(controller: &mut Controller) -> Answer {
    match controller.report() {
        Ok(report) => Answer::Status(Box::new(report)),
        Err(failure) => Answer::Failed(failure.to_string()),
    }
}

/// Puts back what was there.
async fn end(mut controller: Controller, records: &Records, ended: Ended) -> Result<(), Failure> {
    let (device, index) = (controller.record.device.clone(), controller.record.index);
    let restored = restore(&mut controller.control, &controller.record);
    let restored = restored.and_then(|notes| records.remove(index).map(|()| notes));
    match &restored {
        Ok(notes) => {
            for note in notes {
                tracing::warn!(device, "{note}");
            }
            tracing::info!(device, "the link is as it was");
        }
        Err(failure) => tracing::error!(%failure, "something is left behind: byway link detach removes it"),
    }
    match ended {
        Ended::Stopped(ended) => ended.and(restored.map(drop)),
        Ended::Asked(asking) => {
            asking.answer(&Answer::of(&restored)).await;
            restored.map(drop)
        }
    }
}
