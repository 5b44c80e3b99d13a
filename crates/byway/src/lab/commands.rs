//! The programs of a scenario: services and tasks in machines.

mod placeholders;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus};
use std::time::Duration as RealDuration;

use anyhow::{Context as _, bail};
use byway_lab::local_bind;
use byway_net::Clock;
use byway_scenario::{Lifecycle, ReadinessCheck};
use byway_units::{Duration, Time};
use serde::Serialize;

use super::measures;
use super::nodes::Nodes;
use crate::child_process::{Child, QUOTED_LOG_BYTES, file_end};
use crate::exit::{Cause, Failure};
use crate::interrupt;
use crate::pid_namespace::{STOP_REQUEST, namespaced_command};

pub(super) use placeholders::{PlaceholderValues, ResolvedCommand};

/// Longest time until a service is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time that services may take to end on request.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Interval at which the lab polls services that are starting or ending.
const POLL_INTERVAL: RealDuration = RealDuration::from_millis(20);

/// Bytes at the end of a service's output that are searched for the text that shows readiness.
const OUTPUT_BYTES: usize = 1 << 20;

/// Outcome of a scenario's command, for the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CommandOutcome {
    pub(super) name: String,
    pub(super) node: String,
    /// Exit code of a task; `None` for services, because the lab ends them.
    pub(super) exit: Option<i32>,
    /// Running time of a task in seconds, to the accuracy of polling; `None` for services.
    pub(super) seconds: Option<f64>,
    /// Numbers in the last line of a task's output, by name.
    pub(super) measures: BTreeMap<String, f64>,
}

/// All commands of a run. Dropping this kills their processes and all children of these.
#[derive(Debug)]
pub(super) struct Commands {
    all: Vec<RunningCommand>,
}

/// Command of the scenario, its folder and its state.
#[derive(Debug)]
struct RunningCommand {
    filled: ResolvedCommand,
    folder: PathBuf,
    state: CommandState,
}

#[derive(Debug)]
enum CommandState {
    Pending,
    Running { child: Child, stdin: ChildStdin, since: Time },
    Ended { seconds: f64 },
}

impl Commands {
    /// Prepares the commands without starting them. Each gets a folder of its own in `folder`.
    pub(super) fn new(all: Vec<ResolvedCommand>, folder: &Path) -> Self {
        let running = |filled: ResolvedCommand| RunningCommand {
            folder: folder.join(&filled.name),
            filled,
            state: CommandState::Pending,
        };
        Self { all: all.into_iter().map(running).collect() }
    }

    /// Writes the files that the scenario gives to each command into the command's folder.
    pub(super) fn write_files(&self) -> anyhow::Result<()> {
        self.all.iter().try_for_each(RunningCommand::write_files)
    }

    /// Starts the services one after the other, each after the one before it is ready.
    pub(super) fn start_services(&mut self, nodes: &Nodes, clock: Clock) -> anyhow::Result<()> {
        for service in self.all.iter_mut().filter(|command| command.is_service()) {
            service.start(nodes, clock.now())?;
            service.wait_until_ready(nodes, clock)?;
        }
        Ok(())
    }

    /// Starts the tasks whose time after `zero` has come, and records those that have ended.
    ///
    /// # Errors
    /// If a service ended, or a task failed or exceeded its time limit.
    pub(super) fn poll(&mut self, zero: Option<Time>, nodes: &Nodes, clock: Clock) -> anyhow::Result<()> {
        self.all.iter_mut().try_for_each(|command| command.poll(zero, nodes, clock.now()))
    }

    /// True if there are tasks, and all of them have ended.
    pub(super) fn tasks_have_ended(&self) -> bool {
        let mut tasks = self.all.iter().filter(|command| !command.is_service()).peekable();
        tasks.peek().is_some() && tasks.all(|task| matches!(task.state, CommandState::Ended { .. }))
    }

    /// Returns the time at which the next task is due; `None` if all tasks have started.
    pub(super) fn next_start(&self, zero: Time) -> Option<Time> {
        let waiting = self.all.iter().filter(|command| matches!(command.state, CommandState::Pending));
        waiting.filter_map(|command| command.starts(zero)).min()
    }

    /// Asks the services to end, kills those that do not, and returns the outcomes of all commands.
    pub(super) fn end(mut self, clock: Clock) -> anyhow::Result<Vec<CommandOutcome>> {
        for command in &mut self.all {
            command.ask_to_end();
        }
        let until = clock.now() + EXIT_TIMEOUT;
        while self.all.iter_mut().any(RunningCommand::is_alive) && clock.now() < until {
            interrupt::sleep(POLL_INTERVAL)?;
        }
        self.all.iter_mut().map(RunningCommand::outcome).collect()
    }
}

impl RunningCommand {
    const fn is_service(&self) -> bool {
        matches!(self.filled.life, Lifecycle::Service(_))
    }

    fn starts(&self, zero: Time) -> Option<Time> {
        match self.filled.life {
            Lifecycle::Service(_) => None,
            Lifecycle::Task { at, .. } => Some(zero + at),
        }
    }

    /// Returns a file of this kind next to the command's folder. It appends the kind, because names
    /// of commands may contain dots.
    fn file_beside(&self, kind: &str) -> PathBuf {
        self.folder.with_file_name(format!("{}.{kind}", self.filled.name))
    }

    fn output(&self) -> PathBuf {
        self.file_beside("stdout")
    }

    fn log(&self) -> PathBuf {
        self.file_beside("stderr")
    }

    fn write_files(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot create {}", self.folder.display()))?;
        for (name, text) in &self.filled.files {
            let file = self.folder.join(name);
            let parent = file.parent().unwrap_or(&self.folder);
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&file, text));
            written.with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    fn start(&mut self, nodes: &Nodes, now: Time) -> anyhow::Result<()> {
        let about = || format!("cannot start command {}", self.filled.name);
        let ResolvedCommand { name, program, arguments, environment, .. } = &self.filled;
        let mut command = namespaced_command(program, arguments, environment).with_context(about)?;
        command.current_dir(&self.folder).stdout(File::create(self.output()).with_context(about)?);
        let (name, log) = (name.clone(), self.log());
        let machine = nodes.machine(self.filled.node).context("command without machine")?;
        let started = machine.run(move || Child::start_command(&name, command, log));
        let (child, stdin) = started.with_context(about)?;
        self.state = CommandState::Running { child, stdin, since: now };
        Ok(())
    }

    fn wait_until_ready(&mut self, nodes: &Nodes, clock: Clock) -> anyhow::Result<()> {
        let until = clock.now() + READY_TIMEOUT;
        loop {
            // A service that ends at once is not ready, even if its output says so.
            self.poll(None, nodes, clock.now())?;
            if self.is_ready(nodes) {
                return Ok(());
            }
            if clock.now() > until {
                let name = &self.filled.name;
                return Err(unmet(format!(
                    "service {name} not ready after {READY_TIMEOUT}. {}",
                    self.output_tail()
                )));
            }
            interrupt::sleep(POLL_INTERVAL)?;
        }
    }

    fn is_ready(&self, nodes: &Nodes) -> bool {
        let Some(machine) = nodes.machine(self.filled.node) else { return false };
        match &self.filled.life {
            Lifecycle::Task { .. } | Lifecycle::Service(None) => true,
            Lifecycle::Service(Some(ReadinessCheck::Tcp(port))) => {
                let port = *port;
                machine.run(move || local_bind::is_tcp_listening(port))
            }
            Lifecycle::Service(Some(ReadinessCheck::Udp(port))) => {
                let port = *port;
                machine.run(move || local_bind::is_udp_bound(port))
            }
            Lifecycle::Service(Some(ReadinessCheck::Output(text))) => {
                [self.output(), self.log()].iter().any(|file| {
                    file_end(file, OUTPUT_BYTES)
                        .is_ok_and(|output| output.lines().any(|line| line.contains(text)))
                })
            }
        }
    }

    fn poll(&mut self, zero: Option<Time>, nodes: &Nodes, now: Time) -> anyhow::Result<()> {
        let starts = zero.and_then(|zero| self.starts(zero));
        match &mut self.state {
            CommandState::Pending if starts.is_some_and(|starts| starts <= now) => self.start(nodes, now),
            CommandState::Pending | CommandState::Ended { .. } => Ok(()),
            CommandState::Running { child, since, .. } => {
                let seconds = now.saturating_since(*since).as_secs_f64();
                match child.try_wait().with_context(|| format!("cannot poll {}", self.filled.name))? {
                    Some(status) => self.ended(status, seconds),
                    None => self.expect_time(starts, now),
                }
            }
        }
    }

    /// Records the successful end of a task.
    ///
    /// # Errors
    /// If the command is a service, or has failed.
    fn ended(&mut self, status: ExitStatus, seconds: f64) -> anyhow::Result<()> {
        let (name, output_tail) = (&self.filled.name, self.output_tail());
        if self.is_service() {
            return Err(unmet(format!(
                "service {name} ended ({status}), but has to run until the end of the scenario; a \
                 program that goes to the background does not. {output_tail}"
            )));
        }
        if !status.success() {
            return Err(unmet(format!("task {name} failed ({status}). {output_tail}")));
        }
        self.state = CommandState::Ended { seconds };
        Ok(())
    }

    /// Checks the time limit of a task.
    ///
    /// # Errors
    /// If it should have ended.
    fn expect_time(&self, starts: Option<Time>, now: Time) -> anyhow::Result<()> {
        match (starts, &self.filled.life) {
            (Some(starts), Lifecycle::Task { within, .. }) if now >= starts + *within => {
                let name = &self.filled.name;
                Err(unmet(format!("task {name} did not end within {within}. {}", self.output_tail())))
            }
            _ => Ok(()),
        }
    }

    /// Returns the ends of the command's output and log, for an error message.
    fn output_tail(&self) -> String {
        let ends = [("stderr", self.log()), ("stdout", self.output())].map(|(name, file)| {
            let end = file_end(&file, QUOTED_LOG_BYTES).unwrap_or_default();
            (!end.trim().is_empty()).then(|| format!("End of its {name}: {}", end.trim()))
        });
        let tails: Vec<String> = ends.into_iter().flatten().collect();
        if tails.is_empty() { "Its output is empty".to_owned() } else { tails.join("\n") }
    }

    fn ask_to_end(&mut self) {
        if let CommandState::Running { stdin: child_stdin, .. } = &mut self.state {
            // The command may have ended a moment ago.
            let _ = child_stdin.write_all(STOP_REQUEST);
        }
    }

    fn is_alive(&mut self) -> bool {
        match &mut self.state {
            CommandState::Running { child, .. } => matches!(child.try_wait(), Ok(None)),
            CommandState::Pending | CommandState::Ended { .. } => false,
        }
    }

    fn outcome(&mut self) -> anyhow::Result<CommandOutcome> {
        let (exit, seconds) = match self.state {
            CommandState::Ended { seconds } => (Some(0), Some(seconds)),
            CommandState::Running { .. } if self.is_service() => (None, None),
            CommandState::Running { .. } | CommandState::Pending => {
                bail!("task {} has not ended", self.filled.name)
            }
        };
        let output = exit.map(|_| file_end(&self.output(), measures::OUTPUT_BYTES).unwrap_or_default());
        Ok(CommandOutcome {
            name: self.filled.name.clone(),
            node: self.filled.machine.clone(),
            exit,
            seconds,
            measures: output.map(|output| measures::of_output(&output)).unwrap_or_default(),
        })
    }
}

fn unmet(message: String) -> anyhow::Error {
    Failure::new(Cause::Unmet, message).into()
}
