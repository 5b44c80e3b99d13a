//! Programs that never outlive who started them, nor does anything that they have started: each has a namespace of processes.
//!
//! Two processes stand between a lab and such a program. The outer one is tied to the lab (see [`crate::child`]) and makes the namespace; the
//! inner one is the first in it, starts the program and takes its orphans. However one of them ends, the kernel kills all that is inside.

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

use crate::child::tied_command;

/// The hidden subcommands of the outer and the inner process.
const OUTER_COMMAND: &str = "enclose";
const INNER_COMMAND: &str = "enclosed";

/// What the inner process is told to ask the program for its end. When nobody can tell it anything any more, everything ends at once.
pub(crate) const END: &[u8] = b"e";

/// Longest file that such a program writes: one that runs wild does not fill the disk.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// As shells have it: 128 and the number of the signal.
const BY_SIGNAL: i32 = 128;

/// A command that runs a program with these variables besides the usual ones, enclosed. Its standard input is for [`END`].
pub(crate) fn enclosed_command(
    program: &Path,
    arguments: &[String],
    variables: &[(String, String)],
) -> io::Result<Command> {
    let mut command = tied_command(std::env::current_exe()?)?;
    command.arg(OUTER_COMMAND);
    // Not as variables of `byway`, which means them as settings of its own.
    for (name, value) in variables {
        command.arg("--set").arg(format!("{name}={value}"));
    }
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}

/// What both hidden subcommands are told.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EnclosedFlags {
    /// A variable of the program's environment, as NAME=VALUE.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    /// The program with its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<OsString>,
}

/// The outer process: makes the namespace, and ends as the program does.
///
/// # Errors
/// If the kernel does not do it.
pub(crate) fn run_outer(flags: &EnclosedFlags) -> anyhow::Result<std::convert::Infallible> {
    byway_lab::enclose_children().context("making a namespace of processes")?;
    let mut inner = Command::new(std::env::current_exe()?);
    inner.arg(INNER_COMMAND);
    for variable in &flags.variables {
        inner.arg("--set").arg(variable);
    }
    let status = inner
        .arg("--")
        .args(&flags.arguments)
        .status()
        .context("starting the first process of a namespace")?;
    process::exit(code(status));
}

/// The inner process: runs the program, and takes its orphans.
///
/// # Errors
/// If the program does not start.
pub(crate) fn run_inner(flags: &EnclosedFlags) -> anyhow::Result<std::convert::Infallible> {
    // Should the outer process end before this, its end of the pipe tells.
    set_parent_process_death_signal(Some(Signal::KILL)).context("tying a namespace to its parent")?;
    // Without it, all works but what looks for processes by their names.
    let _ = byway_lab::begin_process_table();
    let (program, arguments) = flags.arguments.split_first().context("no program to run")?;
    let variables = flags.variables.iter().filter_map(|variable| variable.split_once('='));
    let most = Rlimit { current: Some(FILE_BYTES_MAX), maximum: Some(FILE_BYTES_MAX) };
    setrlimit(Resource::Fsize, most).context("limiting the files of a program")?;
    let mut command = Command::new(program);
    command.args(arguments).envs(variables).stdin(Stdio::null());
    let started = command.spawn().with_context(|| format!("starting {}", program.display()))?;
    let program =
        i32::try_from(started.id()).ok().and_then(Pid::from_raw).context("a process has a number")?;
    thread::Builder::new().name("told".into()).spawn(move || obey(program)).context("starting a thread")?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == program => {
                let by_signal = status.terminating_signal().map(|signal| BY_SIGNAL + signal);
                process::exit(status.exit_status().or(by_signal).unwrap_or(1));
            }
            // An orphan.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the program"),
        }
    }
}

/// Asks the program for its end when told so, and ends everything when nobody is there to tell.
fn obey(program: Pid) {
    let mut told = [0; END.len()];
    while io::stdin().read_exact(&mut told).is_ok() {
        // It may end at this very moment.
        let _ = kill_process(program, Signal::TERM);
    }
    process::exit(BY_SIGNAL + Signal::KILL.as_raw());
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or_default())
}
