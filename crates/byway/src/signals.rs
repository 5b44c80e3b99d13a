//! How people and service managers stop the program.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::controller::Controller;
use crate::exit::Failure;

/// Waits for somebody to ask the program to stop: SIGTERM, or Ctrl-C. From when it is made, neither ends the program at once.
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let cannot = |error| Failure::machine(format!("signals cannot be waited for: {error}"));
        let terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        Ok(Self { terminate, interrupt })
    }

    /// Waits until somebody asks.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
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
