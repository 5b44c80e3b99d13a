//! A process that outlives the agent and undoes what that has changed, however it ends.

use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::claim::Claim;
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
    /// Whether the agent marks packets of control groups.
    #[arg(long)]
    groups: bool,
}

/// A guard at work, as seen from its agent.
#[derive(Debug)]
pub(crate) struct Guard {
    process: std::process::Child,
    /// Closed by the system when the agent ends, however that is: then the guard does its work.
    line: Option<ChildStdin>,
    has_groups: bool,
}

impl Guard {
    /// Starts one; before anything is changed. It holds the agent's claim until it has done its work.
    pub(super) fn start(table: u32, has_groups: bool, claim: &Claim) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([GUARD_COMMAND, "--table", &table.to_string()]);
        if has_groups {
            command.arg("--groups");
        }
        // What ends a group of processes, as Ctrl-C, ends the agent alone.
        let claim = Stdio::from(OwnedFd::from(claim.shared()?));
        // It has nothing to say to standard output, and so that is what hands it the claim.
        let process = command.process_group(0).stdin(Stdio::piped()).stdout(claim).spawn();
        let mut process = process?;
        let line = process.stdin.take();
        Ok(Self { process, line, has_groups })
    }

    /// Has it do its work, and waits for that; does it in its place, should it have been killed.
    pub(crate) async fn finish(mut self, table: u32) {
        self.line = None;
        let until = tokio::time::Instant::now() + ENDS_WITHIN;
        while tokio::time::Instant::now() < until {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) => tokio::time::sleep(LOOKS_EVERY).await,
                _ => break,
            }
        }
        if let Err(failure) = clean(table, self.has_groups).await {
            tracing::error!(%failure, "rules are left behind: byway uncapture removes them");
        }
    }
}

/// What the hidden subcommand does: waits until its agent has ended, and removes what that has left behind.
///
/// # Errors
/// If the system refuses.
pub(crate) fn run(flags: &GuardFlags) -> Result<(), Failure> {
    let (table, has_groups) = (flags.table, flags.groups);
    node::block_on(async move {
        // Whoever ends a whole service, ends the agent by that, and this one follows.
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let _unheard: Vec<_> = kinds.into_iter().map(signal).collect();
        // Nothing is ever written there: what comes is the end.
        let _ = tokio::task::spawn_blocking(|| io::stdin().read(&mut [0])).await;
        clean(table, has_groups).await.map(drop)
    })
}
