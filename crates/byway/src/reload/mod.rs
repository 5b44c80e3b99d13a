//! Reload of a node's settings while it works, by SIGHUP or `byway reload`.

mod command;
mod diff;

use std::sync::Arc;

use byway_api::ReloadAnswer;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

pub(crate) use command::{ReloadFlags, run};
pub(crate) use diff::{ReloadReport, match_by, match_unchanged};

use crate::exit::{Cause, Failure};
use crate::logs;
use crate::settings::LogLevelSetting;

/// Maximum number of pending reload requests; each takes milliseconds. Further senders wait.
const PENDING_MAX: usize = 16;

/// Function that reads a node's settings from its file, flags and environment.
pub(crate) type Load<S> = Arc<dyn Fn() -> Result<S, Failure> + Send + Sync>;

/// Outcome of a reload: a report about the changes, or the reason why the settings stay as they
/// are.
pub(crate) type ReloadOutcome = Result<ReloadAnswer, Failure>;

/// Running node whose settings can be reloaded.
pub(crate) trait Reloadable {
    /// Reads the node's settings again and applies them: all, or none.
    async fn reload(&mut self) -> ReloadOutcome;
}

/// Sender of reload requests to a running node. It may be cloned for other tasks.
#[derive(Clone, Debug)]
pub(crate) struct ReloadHandle(mpsc::Sender<oneshot::Sender<ReloadOutcome>>);

impl ReloadHandle {
    /// Requests a reload of the node's settings, and waits for its outcome.
    ///
    /// # Errors
    /// If the reload fails, or the node ends.
    pub(crate) async fn request(&self) -> ReloadOutcome {
        let ends = || Failure::new(Cause::Network, "the node is shutting down");
        let (answer, outcome) = oneshot::channel();
        self.0.send(answer).await.map_err(|_| ends())?;
        outcome.await.map_err(|_| ends())?
    }
}

/// Receiver of reload requests, by SIGHUP or from a [`ReloadHandle`].
pub(crate) struct ReloadRequests {
    hangup: Signal,
    requests: mpsc::Receiver<oneshot::Sender<ReloadOutcome>>,
}

impl ReloadRequests {
    /// Starts to receive reload requests. From then on, SIGHUP does not end the process.
    ///
    /// # Errors
    /// If the operating system refuses the signal handler.
    pub(crate) fn listen() -> Result<(Self, ReloadHandle), Failure> {
        let hangup = signal(SignalKind::hangup()).map_err(|error| {
            Failure::machine(format!(
                "cannot wait for SIGHUP: {error}; give the process more file descriptors (LimitNOFILE)"
            ))
        })?;
        let (sender, requests) = mpsc::channel(PENDING_MAX);
        Ok((Self { hangup, requests }, ReloadHandle(sender)))
    }

    /// Reloads the node's settings at each request, one after another, and logs and returns the
    /// outcomes. Runs until it is dropped.
    pub(crate) async fn follow(mut self, node: &mut impl Reloadable) {
        loop {
            let answer = tokio::select! {
                _ = self.hangup.recv() => None,
                request = self.requests.recv() => request,
            };
            let outcome = node.reload().await;
            log(&outcome);
            // The receiver may have been dropped.
            let _ = answer.map(|answer| answer.send(outcome));
        }
    }
}

/// Reads a node's settings on a thread that may block on files and other programs.
///
/// # Errors
/// If a setting is invalid.
pub(crate) async fn read<S: Send + 'static>(load: &Load<S>) -> Result<S, Failure> {
    let load = load.clone();
    let read = tokio::task::spawn_blocking(move || load()).await;
    read.unwrap_or_else(|error| Err(Failure::new(Cause::Byway, format!("cannot read the settings: {error}"))))
}

/// Sets the log level to `new`, and records the change in the report, if it differs.
pub(crate) fn change_level(level: &mut LogLevelSetting, new: LogLevelSetting, report: &mut ReloadReport) {
    if *level != new {
        report.changed("log.level");
        logs::set_level(new);
        *level = new;
    }
}

fn log(outcome: &ReloadOutcome) {
    match outcome {
        Ok(answer) => {
            let changes = answer.changes.iter();
            let changes: Vec<String> =
                changes.map(|change| format!("{} {}", change.change, change.setting)).collect();
            let changes = if changes.is_empty() { "no changes".to_owned() } else { changes.join(", ") };
            tracing::info!(unchanged = answer.unchanged, "settings reloaded: {changes}");
            if !answer.needs_restart.is_empty() {
                let settings = answer.needs_restart.join(", ");
                tracing::warn!("settings that take effect after a restart of the node: {settings}");
            }
        }
        Err(failure) => {
            tracing::error!("cannot reload the settings, continuing with the current ones: {failure}");
        }
    }
}
