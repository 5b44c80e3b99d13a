//! The programs of a scenario: services and tasks in machines.

mod filling;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus};
use std::time::Duration as RealDuration;

use anyhow::{Context as _, bail};
use byway_lab::bound;
use byway_net::Clock;
use byway_scenario::{Life, Ready};
use byway_units::{Duration, Time};
use serde::Serialize;

use super::measures;
use super::nodes::Nodes;
use crate::child::{Child, QUOTED_LOG_BYTES, file_end};
use crate::enclosed::{END, enclosed_command};
use crate::exit::{Cause, Failure};
use crate::interrupt;

pub(super) use filling::{Filled, Filling};

/// How long a service may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// How long services may take to end when they are asked to.
const END_WITHIN: Duration = Duration::from_secs(2);

/// How often it is looked after one that is awaited.
const LOOK_AGAIN: RealDuration = RealDuration::from_millis(20);

/// Bytes of a service's output in which the text is looked for that shows that it is ready.
const OUTPUT_BYTES: usize = 1 << 20;

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CommandOutcome {
    pub(super) name: String,
    pub(super) node: String,
    /// The code it ended with; `None` of services, which the lab ends.
    pub(super) exit: Option<i32>,
    /// How long a task took, as far as it was looked at.
    pub(super) seconds: Option<f64>,
    /// What a task tells of itself.
    pub(super) measures: BTreeMap<String, f64>,
}

/// All commands of a run. Dropped, they are killed, and everything that they have started.
#[derive(Debug)]
pub(super) struct Commands {
    all: Vec<Running>,
}

/// A command and how far it is.
#[derive(Debug)]
struct Running {
    filled: Filled,
    folder: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    Waits,
    Runs { child: Child, told: ChildStdin, since: Time },
    Ended { seconds: f64 },
}

impl Commands {
    /// None of them runs yet; their files are in folders of their own in this one.
    pub(super) fn new(all: Vec<Filled>, folder: &Path) -> Self {
        let running =
            |filled: Filled| Running { folder: folder.join(&filled.name), filled, state: State::Waits };
        Self { all: all.into_iter().map(running).collect() }
    }

    /// Writes the files of all commands.
    pub(super) fn write_files(&self) -> anyhow::Result<()> {
        self.all.iter().try_for_each(Running::write_files)
    }

    /// Starts the services, and waits until they are ready.
    pub(super) fn start_services(&mut self, nodes: &Nodes, clock: Clock) -> anyhow::Result<()> {
        for service in self.all.iter_mut().filter(|command| command.is_service()) {
            service.start(nodes, clock.now())?;
            service.wait_until_ready(nodes, clock)?;
        }
        Ok(())
    }

    /// Starts the tasks whose time has come, and notes those that have ended.
    ///
    /// # Errors
    /// If one has failed.
    pub(super) fn look(&mut self, zero: Option<Time>, nodes: &Nodes, clock: Clock) -> anyhow::Result<()> {
        self.all.iter_mut().try_for_each(|command| command.look(zero, nodes, clock.now()))
    }

    /// Whether there are tasks, and all of them have ended.
    pub(super) fn tasks_have_ended(&self) -> bool {
        let mut tasks = self.all.iter().filter(|command| !command.is_service()).peekable();
        tasks.peek().is_some() && tasks.all(|task| matches!(task.state, State::Ended { .. }))
    }

    /// When the next task begins.
    pub(super) fn next_start(&self, zero: Time) -> Option<Time> {
        let waiting = self.all.iter().filter(|command| matches!(command.state, State::Waits));
        waiting.filter_map(|command| command.starts(zero)).min()
    }

    /// Ends the services, and tells what came of all.
    pub(super) fn end(mut self, clock: Clock) -> anyhow::Result<Vec<CommandOutcome>> {
        for command in &mut self.all {
            command.ask_to_end();
        }
        let until = clock.now() + END_WITHIN;
        while self.all.iter_mut().any(Running::is_alive) && clock.now() < until {
            interrupt::sleep(LOOK_AGAIN)?;
        }
        self.all.iter_mut().map(Running::outcome).collect()
    }
}

impl Running {
    const fn is_service(&self) -> bool {
        matches!(self.filled.life, Life::Service(_))
    }

    fn starts(&self, zero: Time) -> Option<Time> {
        match self.filled.life {
            Life::Service(_) => None,
            Life::Task { at, .. } => Some(zero + at),
        }
    }

    /// A file beside its folder; names of commands may have dots.
    fn beside(&self, kind: &str) -> PathBuf {
        self.folder.with_file_name(format!("{}.{kind}", self.filled.name))
    }

    fn output(&self) -> PathBuf {
        self.beside("stdout")
    }

    fn log(&self) -> PathBuf {
        self.beside("stderr")
    }

    fn write_files(&self) -> anyhow::Result<()> {
        fs::create_dir_all(&self.folder).with_context(|| format!("making {}", self.folder.display()))?;
        for (name, text) in &self.filled.files {
            let file = self.folder.join(name);
            let parent = file.parent().unwrap_or(&self.folder);
            let written = fs::create_dir_all(parent).and_then(|()| fs::write(&file, text));
            written.with_context(|| format!("writing {}", file.display()))?;
        }
        Ok(())
    }

    fn start(&mut self, nodes: &Nodes, now: Time) -> anyhow::Result<()> {
        let about = || format!("starting command {}", self.filled.name);
        let Filled { name, program, arguments, environment, .. } = &self.filled;
        let mut command = enclosed_command(program, arguments, environment).with_context(about)?;
        command.current_dir(&self.folder).stdout(File::create(self.output()).with_context(about)?);
        let (name, log) = (name.clone(), self.log());
        let machine = nodes.machine(self.filled.node).context("commands have machines")?;
        let started = machine.run(move || Child::start_command(&name, command, log));
        let (child, told) = started.with_context(about)?;
        self.state = State::Runs { child, told, since: now };
        Ok(())
    }

    fn wait_until_ready(&mut self, nodes: &Nodes, clock: Clock) -> anyhow::Result<()> {
        let until = clock.now() + READY_WITHIN;
        loop {
            // What ends at once is not ready, whatever shows it.
            self.look(None, nodes, clock.now())?;
            if self.is_ready(nodes) {
                return Ok(());
            }
            if clock.now() > until {
                let name = &self.filled.name;
                return Err(unmet(format!(
                    "service {name} is not ready after {READY_WITHIN}. {}",
                    self.said()
                )));
            }
            interrupt::sleep(LOOK_AGAIN)?;
        }
    }

    fn is_ready(&self, nodes: &Nodes) -> bool {
        let Some(machine) = nodes.machine(self.filled.node) else { return false };
        match &self.filled.life {
            Life::Task { .. } | Life::Service(None) => true,
            Life::Service(Some(Ready::Tcp(port))) => {
                let port = *port;
                machine.run(move || bound::tcp(port))
            }
            Life::Service(Some(Ready::Udp(port))) => {
                let port = *port;
                machine.run(move || bound::udp(port))
            }
            Life::Service(Some(Ready::Output(text))) => [self.output(), self.log()].iter().any(|file| {
                file_end(file, OUTPUT_BYTES).is_ok_and(|said| said.lines().any(|line| line.contains(text)))
            }),
        }
    }

    fn look(&mut self, zero: Option<Time>, nodes: &Nodes, now: Time) -> anyhow::Result<()> {
        let starts = zero.and_then(|zero| self.starts(zero));
        match &mut self.state {
            State::Waits if starts.is_some_and(|starts| starts <= now) => self.start(nodes, now),
            State::Waits | State::Ended { .. } => Ok(()),
            State::Runs { child, since, .. } => {
                let seconds = now.saturating_since(*since).as_secs_f64();
                match child.try_wait().with_context(|| format!("looking after {}", self.filled.name))? {
                    Some(status) => self.ended(status, seconds),
                    None => self.expect_time(starts, now),
                }
            }
        }
    }

    /// # Errors
    /// If it was not to end, or not like that.
    fn ended(&mut self, status: ExitStatus, seconds: f64) -> anyhow::Result<()> {
        let (name, said) = (&self.filled.name, self.said());
        if self.is_service() {
            return Err(unmet(format!(
                "service {name} has ended ({status}), and has to run until the end; one that goes to the background does not. {said}"
            )));
        }
        if !status.success() {
            return Err(unmet(format!("task {name} has failed ({status}). {said}")));
        }
        self.state = State::Ended { seconds };
        Ok(())
    }

    /// # Errors
    /// If it should have ended.
    fn expect_time(&self, starts: Option<Time>, now: Time) -> anyhow::Result<()> {
        match (starts, &self.filled.life) {
            (Some(starts), Life::Task { within, .. }) if now >= starts + *within => {
                let name = &self.filled.name;
                Err(unmet(format!("task {name} has not ended within {within}. {}", self.said())))
            }
            _ => Ok(()),
        }
    }

    /// The end of what it said, for an error message.
    fn said(&self) -> String {
        let ends = [("stderr", self.log()), ("stdout", self.output())].map(|(name, file)| {
            let end = file_end(&file, QUOTED_LOG_BYTES).unwrap_or_default();
            (!end.trim().is_empty()).then(|| format!("It said ({name}): {}", end.trim()))
        });
        let said: Vec<String> = ends.into_iter().flatten().collect();
        if said.is_empty() { "It said nothing".to_owned() } else { said.join("\n") }
    }

    fn ask_to_end(&mut self) {
        if let State::Runs { told, .. } = &mut self.state {
            // It may have ended at this very moment.
            let _ = told.write_all(END);
        }
    }

    fn is_alive(&mut self) -> bool {
        match &mut self.state {
            State::Runs { child, .. } => matches!(child.try_wait(), Ok(None)),
            State::Waits | State::Ended { .. } => false,
        }
    }

    fn outcome(&mut self) -> anyhow::Result<CommandOutcome> {
        let (exit, seconds) = match self.state {
            State::Ended { seconds } => (Some(0), Some(seconds)),
            State::Runs { .. } if self.is_service() => (None, None),
            State::Runs { .. } | State::Waits => bail!("task {} has not come to its end", self.filled.name),
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
