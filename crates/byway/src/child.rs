//! Child processes that never outlive who started them.

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

/// The hidden subcommand by which children are started: see [`run`].
const CHILD_COMMAND: &str = "tied-child";

/// Bytes of a child's log that an error message quotes: a screen.
pub(crate) const QUOTED_LOG_BYTES: usize = 2_000;

/// A command that runs a program which the kernel kills when the thread that started it ends, however that ends.
pub(crate) fn tied_command(program: impl AsRef<OsStr>) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([CHILD_COMMAND, "--parent", &std::process::id().to_string()]).arg(program);
    Ok(command)
}

/// A running child. Dropped, it is killed with everything that it has started.
#[derive(Debug)]
pub(crate) struct Child {
    name: String,
    log: PathBuf,
    process: std::process::Child,
}

/// The pipes of a child that talks.
#[derive(Debug)]
pub(crate) struct Pipes {
    pub(crate) to: ChildStdin,
    pub(crate) from: ChildStdout,
}

impl Child {
    /// Starts `byway` with these arguments; what it says goes to a log in `folder`.
    pub(crate) fn start(name: &str, arguments: Vec<OsString>, folder: &Path) -> anyhow::Result<Self> {
        Self::spawn(name, arguments, folder, false).map(|(child, _)| child)
    }

    /// Starts `byway` with these arguments; its standard input and output are pipes.
    pub(crate) fn start_with_pipes(
        name: &str,
        arguments: Vec<OsString>,
        folder: &Path,
    ) -> anyhow::Result<(Self, Pipes)> {
        let (child, pipes) = Self::spawn(name, arguments, folder, true)?;
        Ok((child, pipes.context("a child with pipes has them")?))
    }

    /// Starts a command, made by [`tied_command`], whose error output goes to this log; what it is told comes through a pipe.
    pub(crate) fn start_command(
        name: &str,
        mut command: Command,
        log: PathBuf,
    ) -> io::Result<(Self, ChildStdin)> {
        let error = File::create(&log)?;
        let mut process = command.stdin(Stdio::piped()).stderr(error).process_group(0).spawn()?;
        let told = process.stdin.take().expect("it was just made a pipe");
        Ok((Self { name: name.into(), log, process }, told))
    }

    /// How it ended, if it has.
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
            // One that is started again goes on with its log.
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
        let mut process = start().with_context(|| format!("starting {name}"))?;
        let pipes = process.stdin.take().zip(process.stdout.take()).map(|(to, from)| Pipes { to, from });
        Ok((Self { name: name.into(), log, process }, pipes))
    }

    /// # Errors
    /// If the child has ended; the error quotes the end of its log.
    pub(crate) fn expect_running(&mut self) -> anyhow::Result<()> {
        match self.process.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status).into()),
            Err(error) => Err(error).with_context(|| format!("looking after {}", self.name)),
        }
    }

    /// Waits for a child that is about to end.
    pub(crate) fn wait(&mut self) -> anyhow::Result<()> {
        let status = self.process.wait().with_context(|| format!("waiting for {}", self.name))?;
        if status.success() { Ok(()) } else { Err(self.ended(status).into()) }
    }

    /// What a child cannot do, its parent cannot: if it says that the machine does not let it, so does the parent.
    fn ended(&self, status: ExitStatus) -> Failure {
        let is_machine = status.code() == Some(i32::from(Cause::Machine.code()));
        let cause = if is_machine { Cause::Machine } else { Cause::Byway };
        Failure::new(cause, format!("{} has ended ({status}). {}", self.name, self.log_end()))
    }

    /// Waits for a child that is about to end; what it said.
    pub(crate) fn output(mut self) -> anyhow::Result<String> {
        self.wait()?;
        fs::read_to_string(&self.log).with_context(|| format!("reading {}", self.log.display()))
    }

    /// Its process's number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal to it and all it has started.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // It may end at this very moment.
            let _ = kill_process_group(group, signal);
        }
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.process.id()).ok().and_then(Pid::from_raw)
    }

    /// SIGKILL, to it and all it has started.
    pub(crate) fn kill(&mut self) {
        let group = self.group();
        if let (Some(group), Ok(None)) = (group, self.process.try_wait()) {
            // It may end at this very moment.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }

    /// The end of what the child has said, for an error message.
    pub(crate) fn log_end(&self) -> String {
        match file_end(&self.log, QUOTED_LOG_BYTES) {
            Ok(end) if end.is_empty() => "It said nothing".into(),
            Ok(end) => format!("It said: {}", end.trim()),
            Err(error) => format!("Its log {} cannot be read: {error}", self.log.display()),
        }
    }
}

/// So many of the last bytes of a file, as text.
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

/// What the hidden subcommand is told that every child begins as.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ChildFlags {
    /// The process with which it ends.
    #[arg(long)]
    parent: u32,
    /// What it becomes: a program with its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<OsString>,
}

/// What the hidden subcommand does: becomes this program, and asks the kernel to be killed when its parent ends, even if that
/// is killed itself.
///
/// # Errors
/// If the kernel does not do it; otherwise it never returns.
pub(crate) fn run(flags: &ChildFlags) -> anyhow::Result<std::convert::Infallible> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("tying a child to its parent")?;
    // The parent may have ended just before that.
    let parent = i32::try_from(flags.parent).ok().and_then(Pid::from_raw);
    ensure!(parent.is_some() && getppid() == parent, "the parent has ended");
    let (program, arguments) = flags.arguments.split_first().context("no program to become")?;
    let error = Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("becoming {}", program.display()))
}
