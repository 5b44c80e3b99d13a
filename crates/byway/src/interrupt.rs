//! Ctrl-C: everything that waits looks here, so that children and files are put away on the ordinary way out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use thiserror::Error;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// How often one who waits looks here.
const GLANCE: Duration = Duration::from_millis(20);

/// The user wants no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// From now on, the first SIGINT, SIGTERM or SIGHUP ends what goes on in good order; a second one at once.
pub(crate) fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("signals")?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            signal().await;
            INTERRUPTED.store(true, Ordering::Relaxed);
            signal().await;
            // The demo's children die with their parent.
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
        // Signals then do what they do by default.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
}

/// # Errors
/// [`Interrupted`] if the user wants no more.
pub(crate) fn check() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

/// Sleeps for so long.
///
/// # Errors
/// [`Interrupted`] as soon as the user wants no more.
pub(crate) fn sleep(time: Duration) -> Result<(), Interrupted> {
    let mut left = time;
    while !left.is_zero() {
        check()?;
        let nap = left.min(GLANCE);
        #[allow(clippy::disallowed_methods, reason = "this is what the callers want")]
        thread::sleep(nap);
        left -= nap;
    }
    check()
}
