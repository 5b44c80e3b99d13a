//! `byway link attach`: adds two classes to a device, and adapts them until a signal or a command
//! ends it.

use std::ffi::OsString;
use std::time::Duration;

use byway_net::{LinkDevice, LinkError, TrafficControl};
use byway_sched::{Settings, UPDATE_INTERVAL};
use byway_state::SAMPLE_INTERVAL;
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::classifier::Classifier;
use super::control::{ControllerParts, LinkController, first_shares};
use super::control_socket::{Claim, ControlAnswer, ControlCommand, ControlListener, ControlReply};
use super::link_config::{ConfigRequest, LinkConfig, PromiseFlags, ShareRule};
use super::mark_flags::MarkFlags;
use super::qdisc_setup::{clear, device_failure, examine, install, is_leftover, restore};
use super::record::{AttachRecord, Records};
use super::registration::FlowRegistration;
use super::report::LinkReport;
use super::sharing::CLASSES;
use super::state_reporter::{ReportFlags, StateReporter};
use super::{RecordFlags, control_socket, open_device, records};
use crate::exit::{Cause, Failure};
use crate::membership::random;
use crate::settings::{LogFormatSetting, LogLevelSetting, LogSettings};
use crate::signals::{self, StopSignal};
use crate::{logs, node};

/// Flags of `byway link attach`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AttachFlags {
    /// The network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    #[command(flatten)]
    promise: PromiseFlags,
    #[command(flatten)]
    marks: MarkFlags,
    /// Replace an existing qdisc of the device while it is attached.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    reports: ReportFlags,
    #[command(flatten)]
    records: RecordFlags,
    /// Least severity of log messages.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LogLevelSetting,
    /// Format of log messages.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormatSetting,
}

/// Attaches a device, and controls its classes until a signal or `byway link detach` ends it; then
/// restores the device.
///
/// # Errors
/// If the device cannot be attached, or disappears.
pub(super) fn run(flags: &AttachFlags) -> Result<(), Failure> {
    logs::start(LogSettings { level: flags.log_level, format: flags.log_format });
    node::block_on(async {
        let mut stop = StopSignal::listen()?.or_hangup()?;
        let reports = flags.reports.settings(flags.promise.share == ShareRule::Flows)?;
        let (mut controller, mut listener, records) = begin(flags)?;
        let accepts = controller.accepts_registrations();
        let mut reporter = reports.map(|reports| StateReporter::start(reports, controller.device(), accepts));
        controller.warn_if_raised();
        let device = controller.record.device.clone();
        tracing::info!(device, "link attached");
        signals::notify_ready();
        let ended = run_controller(&mut controller, &mut reporter, &mut listener, &mut stop).await;
        signals::notify_stopping();
        end(controller, &records, ended).await
    })
}

/// Claims a device, records its former state, and installs the classes, filters and eBPF program.
/// If a part fails, restores the device.
fn begin(flags: &AttachFlags) -> Result<(LinkController, ControlListener, Records), Failure> {
    let (mut control, device) = open_device(&flags.device)?;
    let config = LinkConfig::attached(&ConfigRequest::from(&flags.promise), &device)?;
    let settings = config.checked(&device)?;
    let claim = claim_device(&device)?;
    let records = records(&flags.records)?;
    let marking = flags.marks.marking();
    let classifier = Classifier::load(marking, CLASSES, &random::bytes(), flags.marks.registered)?;
    let device = remove_leftovers(&mut control, device, &records)?;
    let record = AttachRecord::new(&device.name, device.index, config);
    let record = examine(&mut control, &device, record, flags.replace)?;
    let listener = claim.listen()?;
    records.write(&record)?;
    install_all(&mut control, &records, &record, &classifier, (&device, &settings))?;
    let parts =
        ControllerParts { control, classifier, records: records.clone(), record, marking, device, settings };
    Ok((LinkController::new(parts), listener, records))
}

fn claim_device(device: &LinkDevice) -> Result<Claim, Failure> {
    let name = &device.name;
    if let Some(claim) = Claim::acquire(device.index)? {
        return Ok(claim);
    }
    // A busy controller may not answer.
    control_socket::send_command(device.index, ControlCommand::Status)?;
    let message = format!(
        "{name} already attached (byway link status {name}): change it with byway link change, or end \
         it with byway link detach {name}"
    );
    Err(Failure::new(Cause::Settings, message))
}

/// Restores a device whose controller was killed, and logs that. Returns the device's state after
/// that.
fn remove_leftovers(
    control: &mut TrafficControl,
    device: LinkDevice,
    records: &Records,
) -> Result<LinkDevice, Failure> {
    let name = &device.name;
    let failed = |error: LinkError| device_failure(name, &error);
    let notes = if let Some(leftover) = records.of(device.index)? {
        let process = leftover.process;
        tracing::warn!(
            device = name,
            process,
            "restoring the device first: the controller that attached it was killed"
        );
        restore(control, &leftover)?
    } else if is_leftover(control, device.index).map_err(failed)? {
        let folder = records.folder().display();
        tracing::warn!(device = name, %folder, "removing Byway's queues first, which have no record: \
                                                the former qdisc is unknown");
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

fn install_all(
    control: &mut TrafficControl,
    records: &Records,
    record: &AttachRecord,
    classifier: &Classifier,
    (device, settings): (&LinkDevice, &Settings),
) -> Result<(), Failure> {
    let failure = match install(control, record, classifier, &first_shares(device, settings)) {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    match restore(control, record) {
        Ok(_) => records.remove(record.index)?,
        Err(left) => tracing::error!(%left, "cannot restore the device completely: run byway link detach"),
    }
    Err(failure)
}

/// Reason why a link's controller ends.
enum StopCause {
    /// A signal arrived (`Ok`), or the device disappeared (`Err`).
    Stopped(Result<(), Failure>),
    /// A detach command arrived, which waits for the answer.
    Command(ControlReply),
}

async fn run_controller(
    controller: &mut LinkController,
    reporter: &mut Option<StateReporter>,
    listener: &mut ControlListener,
    stop: &mut StopSignal,
) -> StopCause {
    let mut update_interval = interval(Duration::from_nanos(UPDATE_INTERVAL.as_nanos()));
    update_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut policy_interval = interval(Duration::from_nanos(SAMPLE_INTERVAL.as_nanos()));
    policy_interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut deferred_until: Option<Instant> = None;
    loop {
        tokio::select! {
            () = stop.wait() => return StopCause::Stopped(Ok(())),
            // A delay bound of minutes defers updates by as much. Until they are applied, no round
            // computes new ones.
            _ = update_interval.tick(), if deferred_until.is_none() => match controller.run_round() {
                Ok(remaining) => {
                    let remaining = remaining.map(|after| Duration::from_nanos(after.as_nanos()));
                    deferred_until = remaining.map(|after| Instant::now() + after);
                }
                Err(failure) => return StopCause::Stopped(Err(failure)),
            },
            _ = policy_interval.tick(), if controller.shares_by_flows() => step(controller, reporter),
            () = wait_until_due(deferred_until) => {
                deferred_until = None;
                controller.apply_deferred();
            }
            registrations = next_registrations(reporter) => controller.register_all(&registrations),
            (command, reply) = listener.next() => match command {
                ControlCommand::Status => reply.answer(&status(controller, reporter.as_ref())).await,
                ControlCommand::Change(request) => {
                    reply.answer(&ControlAnswer::of(&controller.change(&request))).await;
                }
                ControlCommand::Register(registration) => {
                    reply.answer(&ControlAnswer::of(&controller.register(&registration))).await;
                }
                ControlCommand::Detach => return StopCause::Command(reply),
            },
        }
    }
}

/// Lets the link's policy make a step, and reports the state after it.
fn step(controller: &mut LinkController, reporter: &mut Option<StateReporter>) {
    let sample = controller.step_policy();
    let Some(reporter) = reporter else { return };
    match sample {
        Some(sample) => reporter.publish(&sample),
        None if controller.is_displaced() => reporter.pause(),
        // The counters are not readable at the moment.
        None => {}
    }
}

/// Waits for registered flows that the controller of network state names.
async fn next_registrations(reporter: &mut Option<StateReporter>) -> Vec<FlowRegistration> {
    match reporter {
        Some(reporter) => reporter.registrations().await,
        None => std::future::pending().await,
    }
}

async fn wait_until_due(due: Option<Instant>) {
    match due {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn status(controller: &mut LinkController, reporter: Option<&StateReporter>) -> ControlAnswer {
    match controller.report() {
        Ok(report) => {
            let network_state = reporter.map(StateReporter::status);
            ControlAnswer::Status(Box::new(LinkReport { network_state, ..report }))
        }
        Err(failure) => ControlAnswer::Failed(failure.to_string()),
    }
}

/// Restores the device's former state, removes its record, and answers the command that ended the
/// controller.
async fn end(mut controller: LinkController, records: &Records, ended: StopCause) -> Result<(), Failure> {
    let (device, index) = (controller.record.device.clone(), controller.record.index);
    let restored = restore(&mut controller.control, &controller.record);
    let restored = restored.and_then(|notes| records.remove(index).map(|()| notes));
    match &restored {
        Ok(notes) => {
            for note in notes {
                tracing::warn!(device, "{note}");
            }
            tracing::info!(device, "device restored");
        }
        Err(failure) => tracing::error!(%failure, "cannot restore the device completely: run byway \
                                                   link detach"),
    }
    match ended {
        StopCause::Stopped(ended) => ended.and(restored.map(drop)),
        StopCause::Command(reply) => {
            reply.answer(&ControlAnswer::of(&restored)).await;
            restored.map(drop)
        }
    }
}
