//! Reading settings again while a node works: by SIGHUP, and by `byway reload`.

mod command;
mod difference;

use std::sync::Arc;

use byway_api::ReloadAnswer;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

pub(crate) use command::{ReloadFlags, run};
pub(crate) use difference::{Report, kept, kept_by};

use crate::exit::{Cause, Failure};
use crate::logs;
use crate::settings::TypedLevel;

/// Reloads that wait to be answered, at most: each takes milliseconds.
const WAITING_MAX: usize = 16;

/// Reads a node's settings anew, as on its start.
pub(crate) type Load<S> = Arc<dyn Fn() -> Result<S, Failure> + Send + Sync>;

/// The outcome of a reload.
pub(crate) type Outcome = Result<ReloadAnswer, Failure>;

/// A node whose settings may change while it works.
pub(crate) trait Reloadable {
    /// Reads the settings again and has the node work by them; all of them, or none.
    async fn reload(&mut self) -> Outcome;
}

/// The end that asks for reloads; copies may go to other tasks.
#[derive(Clone, Debug)]
pub(crate) struct Asker(mpsc::Sender<oneshot::Sender<Outcome>>);

impl Asker {
    /// Asks for a reload, and waits for its outcome.
    ///
    /// # Errors
    /// As the reload, or if the node ends.
    pub(crate) async fn ask(&self) -> Outcome {
        let ends = || Failure::new(Cause::Network, "the node is about to end");
        let (answer, outcome) = oneshot::channel();
        self.0.send(answer).await.map_err(|_| ends())?;
        outcome.await.map_err(|_| ends())?
    }
}

/// Requests for reloads.
pub(crate) struct Reloads {
    hangup: Signal,
    requests: mpsc::Receiver<oneshot::Sender<Outcome>>,
}

impl Reloads {
    /// Takes requests from now on: SIGHUP no longer ends the process.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub(crate) fn listen() -> Result<(Self, Asker), Failure> {
        let hangup = signal(SignalKind::hangup()).map_err(|error| {
            Failure::machine(format!(
                "SIGHUP cannot be waited for: {error}; give the process more file descriptors (LimitNOFILE)"
            ))
        })?;
        let (asker, requests) = mpsc::channel(WAITING_MAX);
        Ok((Self { hangup, requests }, Asker(asker)))
    }

    /// Has the node read its settings again each time that somebody asks, one after another, for as long as it works.
    pub(crate) async fn follow(mut self, node: &mut impl Reloadable) {
        loop {
            let answer = tokio::select! {
                _ = self.hangup.recv() => None,
                request = self.requests.recv() => request,
            };
            let outcome = node.reload().await;
            log(&outcome);
            // Whoever asked may have gone.
            let _ = answer.map(|answer| answer.send(outcome));
        }
    }
}

/// Reads settings on a thread that may wait for files and other programs.
///
/// # Errors
/// If they are wrong.
pub(crate) async fn read<S: Send + 'static>(load: &Load<S>) -> Result<S, Failure> {
    let load = load.clone();
    let read = tokio::task::spawn_blocking(move || load()).await;
    read.unwrap_or_else(|error| {
        Err(Failure::new(Cause::Byway, format!("reading the settings failed: {error}")))
    })
}

/// Has messages of this level be logged from now on, and notes it.
pub(crate) fn change_level(level: &mut TypedLevel, new: TypedLevel, report: &mut Report) {
    if *level != new {
        report.changed("log.level");
        logs::set_level(new);
        *level = new;
    }
}

fn log(outcome: &Outcome) {
    match outcome {
        Ok(answer) => {
            let changes = answer.changes.iter();
            let changes: Vec<String> =
                changes.map(|change| format!("{} {}", change.change, change.setting)).collect();
            let changes =
                if changes.is_empty() { "nothing has changed".to_owned() } else { changes.join(", ") };
            tracing::info!(unchanged = answer.unchanged, "the settings were read again: {changes}");
            if !answer.needs_restart.is_empty() {
                let settings = answer.needs_restart.join(", ");
                tracing::warn!("these settings take effect when the node is started again: {settings}");
            }
        }
        Err(failure) => tracing::error!("the settings stay as they were: {failure}"),
    }
}
