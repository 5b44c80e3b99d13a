//! Signals with which people and service managers stop a node, and notifications to systemd.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::controller::Controller;
use crate::exit::Failure;

/// Receiver of a stop request, which is SIGTERM or Ctrl-C. Once it exists, these signals do not end
/// the program themselves.
pub(crate) struct StopSignal {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl StopSignal {
    /// Starts to receive stop requests.
    ///
    /// # Errors
    /// If the operating system refuses the signal handlers.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let terminate = signal(SignalKind::terminate()).map_err(signal_failure)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(signal_failure)?;
        Ok(Self { terminate, interrupt, hangup: None })
    }

    /// Adds the signal of a closed terminal (SIGHUP), unless the program was started with that
    /// signal ignored, as by nohup(1).
    ///
    /// # Errors
    /// If the operating system refuses the signal handler.
    pub(crate) fn or_hangup(self) -> Result<Self, Failure> {
        if is_hangup_ignored() {
            return Ok(self);
        }
        let hangup = signal(SignalKind::hangup()).map_err(signal_failure)?;
        Ok(Self { hangup: Some(hangup), ..self })
    }

    /// Waits for a stop request: one of the signals.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = recv_optional(&mut self.hangup) => {}
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as errors are mapped")]
fn signal_failure(error: std::io::Error) -> Failure {
    Failure::machine(format!("cannot wait for signals: {error}"))
}

async fn recv_optional(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// True if this process ignores SIGHUP, according to the kernel's bit set (proc(5)). The first
/// signal is the lowest bit.
#[allow(clippy::disallowed_methods, reason = "the kernel says it in a file")]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Runs a controller until a stop request arrives, then stops it.
///
/// # Errors
/// If the controller cannot serve any more.
pub(crate) async fn until_stopped(mut controller: Controller, mut stop: StopSignal) -> Result<(), Failure> {
    let ended = tokio::select! {
        ended = controller.ended() => ended.map_err(Failure::from),
        () = stop.wait() => Ok(()),
    };
    controller.stop().await;
    ended
}

/// Notifies systemd, if it started the process, that the node is ready.
pub(crate) fn notify_ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}

/// Notifies systemd, if it started the process, that the node stops.
pub(crate) fn notify_stopping() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Stopping]) {
        tracing::debug!(%error, "cannot notify systemd");
    }
}
