//! How people and service managers stop the program.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::controller::Controller;
use crate::exit::Failure;

/// Waits for somebody to ask the program to stop: SIGTERM, or Ctrl-C. From when it is made, neither ends the program at once.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        Ok(Self { terminate, interrupt, hangup: None })
    }

    /// A terminal that is closed asks too (SIGHUP), unless whoever starts the program has it ignore that, as nohup(1) does.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub(crate) fn or_hangup(self) -> Result<Self, Failure> {
        if is_hangup_ignored() {
            return Ok(self);
        }
        let hangup = signal(SignalKind::hangup()).map_err(cannot)?;
        Ok(Self { hangup: Some(hangup), ..self })
    }

    /// Waits until somebody asks.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = heard(&mut self.hangup) => {}
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "as errors are mapped")]
fn cannot(error: std::io::Error) -> Failure {
    Failure::machine(format!("signals cannot be waited for: {error}"))
}

async fn heard(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// As the kernel says (proc(5)): the signals that are ignored, the first one the lowest bit.
#[allow(clippy::disallowed_methods, reason = "the kernel says it in a file")]
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & 1 == 1)
}

/// Lets a controller serve until somebody asks the program to stop.
///
/// # Errors
/// If it cannot serve any more.
pub(crate) async fn until_stopped(mut controller: Controller, mut stop: Stop) -> Result<(), Failure> {
    let ended = tokio::select! {
        ended = controller.ended() => ended.map_err(Failure::from),
        () = stop.asked() => Ok(()),
    };
    controller.stop().await;
    ended
}

/// Tells systemd, if there is one, that the node can do its work.
pub(crate) fn tell_ready() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::debug!(%error, "systemd was not told");
    }
}

/// Tells systemd, if there is one, that the node stops.
pub(crate) fn tell_stopping() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Stopping]) {
        tracing::debug!(%error, "systemd was not told");
    }
}
