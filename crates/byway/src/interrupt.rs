//! Ctrl-C in commands that wait. Each wait checks a flag, and the program removes its children and
//! files on the ordinary return path.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use thiserror::Error;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Interval at which a sleeping thread checks for an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Error of a wait: the user has interrupted the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Starts to handle signals. The first SIGINT, SIGTERM or SIGHUP makes waits fail, and so stops the
/// program in good order. A second one stops it immediately.
pub(crate) fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("signals")?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            signal().await;
            INTERRUPTED.store(true, Ordering::Relaxed);
            signal().await;
            // The demo's children end with their parent.
            std::process::exit(130);
        });
    })?;
    Ok(())
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let of = |kind| signal(kind).ok();
    let (interrupt, terminate, hang_up) =
        (of(SignalKind::interrupt()), of(SignalKind::terminate()), of(SignalKind::hangup()));
    let (Some(mut interrupt), Some(mut terminate), Some(mut hang_up)) = (interrupt, terminate, hang_up)
    else {
        // The default action of the signals then applies.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}

/// # Errors
/// [`Interrupted`] if the user has interrupted the program.
pub(crate) fn check() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps for this time, unless the user interrupts the program.
///
/// # Errors
/// [`Interrupted`] as soon as the user interrupts the program.
pub(crate) fn sleep(time: Duration) -> Result<(), Interrupted> {
    let mut left = time;
    while !left.is_zero() {
        check()?;
        let nap = left.min(POLL_INTERVAL);
        #[allow(clippy::disallowed_methods, reason = "this is what the callers want")]
        thread::sleep(nap);
        left -= nap;
    }
    check()
}
