//! Child processes that never outlive their parent.

#![allow(clippy::disallowed_methods, reason = "a child's log is a file")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal};

use crate::exit::{Cause, Failure};

/// Hidden subcommand as which children start; [`run`] executes it.
const CHILD_COMMAND: &str = "tied-child";

/// Bytes of a child's log that an error message quotes, about a screen.
pub(crate) const QUOTED_LOG_BYTES: usize = 2_000;

/// Creates a command that runs `program` in a process tied to this thread. The kernel kills the
/// process when the thread that started it ends for any reason.
pub(crate) fn tied_command(program: impl AsRef<OsStr>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD_COMMAND, "--parent", &std::process::id().to_string()]).arg(program);
    Ok(command)
}

/// Running child process. Its drop kills the process with all its descendants.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    log: PathBuf,
    process: std::process::Child,
}

/// Pipes to a child's standard input, and from its standard output.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) to: ChildStdin,
    pub(crate) from: ChildStdout,
}

impl Child {
    /// Starts `byway` with these arguments as a child. Its output goes to the log `name.log` in
    /// `folder`.
    pub(crate) fn start(name: &str, arguments: Vec<OsString>, folder: &Path) -> anyhow::Result<Self> {
        Self::spawn(name, arguments, folder, false).map(|(child, _)| child)
    }

    /// Starts `byway` with these arguments as a child, with pipes to its standard input and from
    /// its standard output. Its standard error goes to the log `name.log` in `folder`.
    pub(crate) fn start_with_pipes(
        name: &str,
        arguments: Vec<OsString>,
        folder: &Path,
    ) -> anyhow::Result<(Self, Pipes)> {
        let (child, pipes) = Self::spawn(name, arguments, folder, true)?;
        Ok((child, pipes.context("child process without pipes")?))
    }

    /// Starts a command made by [`tied_command`] as a child; returns the pipe to its standard
    /// input. Its standard error goes to the file `log`.
    pub(crate) fn start_command(
        name: &str,
        mut command: Command,
        log: PathBuf,
    ) -> io::Result<(Self, ChildStdin)> {
        let error = File::create(&log)?;
        let mut process = command.stdin(Stdio::piped()).stderr(error).process_group(0).spawn()?;
        let stdin = process.stdin.take().expect("standard input is a pipe");
        Ok((Self { name: name.into(), log, process }, stdin))
    }

    /// Returns the child's exit status; `None` while it runs.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.process.try_wait()
    }

    fn spawn(
        name: &str,
        arguments: Vec<OsString>,
        folder: &Path,
        has_pipes: bool,
    ) -> anyhow::Result<(Self, Option<Pipes>)> {
        let log = folder.join(format!("{name}.log"));
        let start = || -> io::Result<std::process::Child> {
            // A child that is started again appends to its log.
            let file = File::options().create(true).append(true).open(&log)?;
            let mut command = tied_command(std::env::current_exe()?)?;
            command.args(arguments).process_group(0);
            if has_pipes {
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
            } else {
                command.stdin(Stdio::null()).stdout(file.try_clone()?);
            }
            command.stderr(file).spawn()
        };
        let mut process = start().with_context(|| format!("cannot start {name}"))?;
        let pipes = process.stdin.take().zip(process.stdout.take()).map(|(to, from)| Pipes { to, from });
        Ok((Self { name: name.into(), log, process }, pipes))
    }

    /// # Errors
    /// If the child has ended; the error quotes the end of its log.
    pub(crate) fn expect_running(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.exit_failure(status).into()),
            Err(error) => Err(error).with_context(|| format!("cannot poll {}", self.name)),
        }
    }

    /// Waits for the end of the child. Fails if it ends without success.
    pub(crate) fn wait(&mut self) -> anyhow::Result<()> {
        let status = self.process.wait().with_context(|| format!("cannot wait for {}", self.name))?;
        if status.success() { Ok(()) } else { Err(self.exit_failure(status).into()) }
    }

    /// Returns the failure of a child that has ended, with the end of its log. The cause is the
    /// machine if the child's exit code says so, and otherwise a fault of Byway.
    fn exit_failure(&self, status: ExitStatus) -> Failure {
        let is_machine = status.code() == Some(i32::from(Cause::Machine.code()));
        let cause = if is_machine { Cause::Machine } else { Cause::Byway };
        Failure::new(cause, format!("{} has ended ({status}). {}", self.name, self.log_end()))
    }

    /// Waits for the end of the child; returns the content of its log. Fails if it ends without
    /// success.
    pub(crate) fn output(mut self) -> anyhow::Result<String> {
        self.wait()?;
        fs::read_to_string(&self.log).with_context(|| format!("cannot read {}", self.log.display()))
    }

    /// Returns the number of the child process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal to the child process and all its descendants.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = self.process_group() {
            // The process may end at this moment.
            let _ = kill_process_group(group, signal);
        }
    }

    fn process_group(&self) -> Option<Pid> {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
    }

    /// Kills the child process and all its descendants, and waits for its end.
    pub(crate) fn kill(&mut self) {
        let group = self.process_group();
        if let (Some(group), Ok(None)) = (group, self.process.try_wait()) {
            // The process may end at this moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }

    /// Returns a sentence that quotes the end of the child's log, for an error message.
    pub(crate) fn log_end(&self) -> String {
        match file_end(&self.log, QUOTED_LOG_BYTES) {
            Ok(end) if end.is_empty() => "Its log is empty".into(),
            Ok(end) => format!("Its log ends with: {}", end.trim()),
            Err(error) => format!("Cannot read its log {}: {error}", self.log.display()),
        }
    }
}

/// Returns the last `bytes` bytes of a file, as text.
pub(crate) fn file_end(file: &Path, bytes: usize) -> io::Result<String> {
    let (mut file, bytes) = (File::open(file)?, bytes as u64);
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut end = Vec::new();
    file.take(bytes).read_to_end(&mut end)?;
    Ok(String::from_utf8_lossy(&end).into_owned())
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Flags of the hidden subcommand that every child starts as
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ChildFlags {
    /// Process that the child must not outlive
    #[arg(long)]
    parent: u32,
    /// The program to execute, with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<OsString>,
}

/// Runs the hidden subcommand: executes the program in place of this process. The kernel kills the
/// process when its parent ends, even if the parent is killed.
///
/// # Errors
/// If the kernel refuses; otherwise it never returns.
pub(crate) fn run(flags: &ChildFlags) -> anyhow::Result<std::convert::Infallible> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot tie the child process to its parent")?;
    // The parent may have ended just before.
    let parent = i32::try_from(flags.parent).ok().and_then(Pid::from_raw);
    ensure!(parent.is_some() && getppid() == parent, "the parent process has ended");
    let (program, arguments) = flags.arguments.split_first().context("program to execute missing")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}
