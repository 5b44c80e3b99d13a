//! A process that outlives the agent and undoes what that has changed, however it ends.

use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::clean;
use crate::exit::Failure;
use crate::node;

/// The hidden subcommand of the guard: see [`run`].
const GUARD_COMMAND: &str = "capture-guard";

/// How long an agent that ends waits for its guard: the system removes some rules within a millisecond.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// How often it looks.
const LOOKS_EVERY: Duration = Duration::from_millis(5);

/// What the guard is told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GuardFlags {
    /// The agent's routing table.
    #[arg(long)]
    table: u32,
}

/// A guard at work, as seen from its agent.
#[derive(Debug)]
pub(crate) struct Guard {
    process: std::process::Child,
    /// Closed by the system when the agent ends, however that is: then the guard does its work.
    line: Option<ChildStdin>,
}

impl Guard {
    /// Starts one; before anything is changed.
    pub(crate) fn start(table: u32) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([GUARD_COMMAND, "--table", &table.to_string()]);
        // What ends a group of processes, as Ctrl-C, ends the agent alone.
        let process = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut process = process?;
        let line = process.stdin.take();
        Ok(Self { process, line })
    }

    /// Has it do its work, and waits for that.
    pub(crate) async fn finish(mut self) {
        self.line = None;
        let until = tokio::time::Instant::now() + ENDS_WITHIN;
        while matches!(self.process.try_wait(), Ok(None)) && tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOKS_EVERY).await;
        }
    }
}

/// What the hidden subcommand does: waits until its agent has ended, and removes what that has left behind.
///
/// # Errors
/// If the system refuses.
pub(crate) fn run(flags: &GuardFlags) -> Result<(), Failure> {
    let table = flags.table;
    node::block_on(async move {
        // Whoever ends a whole service, ends the agent by that, and this one follows.
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let _unheard: Vec<_> = kinds.into_iter().map(signal).collect();
        // Nothing is ever written there: what comes is the end.
        let _ = tokio::task::spawn_blocking(|| io::stdin().read(&mut [0])).await;
        clean(table).await.map(drop)
    })
}
