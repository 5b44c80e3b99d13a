//! Program in a PID namespace of its own. Neither the program nor its own processes outlive the
//! parent.
//!
//! Two processes stand between a lab and such a program. The outer one is tied to the lab (see
//! [`crate::child_process`]) and creates the namespace. The inner one is the first process in it,
//! starts the program and adopts its orphans. If either of them ends, the kernel kills all
//! processes in the namespace.

#![allow(clippy::disallowed_methods, reason = "this is where programs of others are started")]

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::{io, process, thread};

use anyhow::Context as _;
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, set_parent_process_death_signal, setrlimit,
    wait,
};

use crate::child_process::tied_command;

/// Hidden subcommands as which the outer and the inner process of a namespace start.
const OUTER_COMMAND: &str = "enclose";
const INNER_COMMAND: &str = "enclosed";

/// Request to the inner process, on its standard input, to terminate the program. If the pipe is
/// closed, all processes of the namespace end immediately.
pub(crate) const STOP_REQUEST: &[u8] = b"e";

/// Longest file, in bytes, that a program in a namespace may write. A faulty program thus does not
/// fill the disk.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Exit code of a process that a signal ended, without the signal's number, as in shells.
const BY_SIGNAL: i32 = 128;

/// Creates a command that runs a program in a PID namespace of its own. `variables` are added to
/// the inherited environment. The command's standard input is for [`STOP_REQUEST`].
pub(crate) fn namespaced_command(
    program: &Path,
    arguments: &[String],
    variables: &[(String, String)],
) -> io::Result<Command> {
    let mut command = tied_command(std::env::current_exe()?)?;
    command.arg(OUTER_COMMAND);
    // As environment variables, `byway` would use them as its own settings.
    for (name, value) in variables {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}

/// Flags of both hidden subcommands.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NamespaceFlags {
    /// A variable of the program's environment, as NAME=VALUE.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    /// Program with its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<OsString>,
}

/// Runs the outer process: creates the PID namespace, starts the inner process in it, and exits
/// with that one's code.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn run_outer(flags: &NamespaceFlags) -> anyhow::Result<std::convert::Infallible> {
    byway_lab::unshare_pid_namespace().context("cannot create a PID namespace")?;
    let mut inner = Command::new(std::env::current_exe()?);
    inner.arg(INNER_COMMAND);
    for variable in &flags.variables {
        inner.arg("--set").arg(variable);
    }
    let status = inner
        .arg("--")
        .args(&flags.arguments)
        .status()
        .context("cannot start the first process of a PID namespace")?;
    process::exit(code(status));
}

/// Runs the inner process, the first one in the PID namespace. It starts the program, waits for
/// orphaned processes, and exits with the program's code.
///
/// # Errors
/// If the program does not start.
pub(crate) fn run_inner(flags: &NamespaceFlags) -> anyhow::Result<std::convert::Infallible> {
    // If the outer process ends before this, its end of the pipe is closed.
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot tie the PID namespace to its parent process")?;
    // Without /proc, only the search for processes by their names fails.
    let _ = byway_lab::mount_proc();
    let (program, arguments) = flags.arguments.split_first().context("program to run missing")?;
    let variables = flags.variables.iter().filter_map(|variable| variable.split_once('='));
    let file_limit = Rlimit { current: Some(FILE_BYTES_MAX), maximum: Some(FILE_BYTES_MAX) };
    setrlimit(Resource::Fsize, file_limit).context("cannot limit the file size of a program")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(variables).stdin(Stdio::null());
    let started = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let program =
        i32::try_from(started.id()).ok().and_then(Pid::from_raw).context("process without a number")?;
    thread::Builder::new()
        .name("stop-requests".into())
        .spawn(move || relay_stop_request(program))
        .context("cannot start a thread")?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == program => {
                let by_signal = status.terminating_signal().map(|signal| BY_SIGNAL + signal);
                process::exit(status.exit_status().or(by_signal).unwrap_or(1));
            }
            // The process was an orphan.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the program"),
        }
    }
}

/// Reads stop requests from standard input, and sends SIGTERM to the program for each. Once the
/// pipe is closed, exits, by which the kernel kills all processes of the namespace.
fn relay_stop_request(program: Pid) {
    let mut request = [0; STOP_REQUEST.len()];
    while io::stdin().read_exact(&mut request).is_ok() {
        // The program may end at this moment.
        let _ = kill_process(program, Signal::TERM);
    }
    process::exit(BY_SIGNAL + Signal::KILL.as_raw());
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or_default())
}
