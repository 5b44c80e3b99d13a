//! Guard: a process that outlives the agent, and undoes the agent's changes to the system however
//! the agent ends.

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

/// Hidden subcommand that starts the guard process; [`run`] executes it.
const GUARD_COMMAND: &str = "capture-guard";

/// Time that an ending agent waits for its guard. The system removes the few rules within a
/// millisecond.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval between two checks whether the guard has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Flags of the guard process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GuardFlags {
    /// The agent's routing table.
    #[arg(long)]
    table: u32,
    /// True if the agent marks packets of control groups
    #[arg(long)]
    groups: bool,
}

/// Handle of the agent to its guard process.
#[derive(Debug)]
pub(crate) struct Guard {
    process: std::process::Child,
    /// Pipe to the guard. The kernel closes it when the agent ends for any reason, which triggers
    /// the guard.
    stdin: Option<ChildStdin>,
    has_groups: bool,
}

impl Guard {
    /// Starts a guard process, before the agent changes the system. The guard retains the agent's
    /// claim until it has cleaned up.
    pub(super) fn start(table: u32, has_groups: bool, claim: &Claim) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([GUARD_COMMAND, "--table", &table.to_string()]);
        if has_groups {
            command.arg("--groups");
        }
        // A signal to the process group, as by Ctrl-C, ends the agent alone.
        let claim = Stdio::from(OwnedFd::from(claim.try_clone_listener()?));
        // The guard prints nothing. Its standard output passes the claim to it.
        let process = command.process_group(0).stdin(Stdio::piped()).stdout(claim).spawn();
        let mut process = process?;
        let stdin = process.stdin.take();
        Ok(Self { process, stdin, has_groups })
    }

    /// Triggers the guard process, and waits for its end. If the guard failed or was killed, this
    /// agent undoes its changes itself.
    pub(crate) async fn finish(mut self, table: u32) {
        self.stdin = None;
        let until = tokio::time::Instant::now() + EXIT_TIMEOUT;
        while tokio::time::Instant::now() < until {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return,
                Ok(None) => tokio::time::sleep(POLL_INTERVAL).await,
                _ => break,
            }
        }
        if let Err(failure) = clean(table, self.has_groups).await {
            tracing::error!(%failure, "cannot remove all rules: run byway uncapture");
        }
    }
}

/// Runs the hidden subcommand of the guard process. It waits until its agent has ended, and undoes
/// the agent's remaining changes.
///
/// # Errors
/// If the system refuses to undo a change.
pub(crate) fn run(flags: &GuardFlags) -> Result<(), Failure> {
    let (table, has_groups) = (flags.table, flags.groups);
    node::block_on(async move {
        // A signal to all processes of a service ends the agent, and thereby triggers the guard.
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let _ignored: Vec<_> = kinds.into_iter().map(signal).collect();
        // The agent never writes to it. A return means that the pipe is closed.
        let _ = tokio::task::spawn_blocking(|| io::stdin().read(&mut [0])).await;
        clean(table, has_groups).await.map(drop)
    })
}
