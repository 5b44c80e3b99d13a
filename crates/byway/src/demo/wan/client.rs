//! Client of the emulator in the demo's process.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::{Description, WanLog};
use crate::child_process::{Child, Pipes};
use crate::demo::WAN_COMMAND;
use crate::demo::clock::Instant;

/// Handle of the running emulator process, with the pipes for commands and answers.
#[derive(Debug)]
pub(crate) struct Wan {
    child: Child,
    to: std::process::ChildStdin,
    from: BufReader<std::process::ChildStdout>,
}

impl Wan {
    /// Starts the emulator and waits until all its sockets are open.
    pub(crate) fn start(description: &Description, folder: &Path) -> anyhow::Result<Self> {
        let (child, Pipes { to, from }) =
            Child::start_with_pipes("wan", vec![OsString::from(WAN_COMMAND)], folder)?;
        let mut wan = Self { child, to, from: BufReader::new(from) };
        wan.send_command(&serde_json::to_string(description)?)?;
        wan.expect_answer("ready")?;
        Ok(wan)
    }

    /// Sends the start of the measured time: from this instant on, packets meet the losses of the
    /// description and are counted. Returns after the emulator has confirmed.
    pub(crate) fn begin(&mut self, origin: Instant) -> anyhow::Result<()> {
        self.send_command(&format!("start {}", origin.nanos()))?;
        self.expect_answer("started")
    }

    pub(crate) fn expect_running(&mut self) -> anyhow::Result<()> {
        self.child.expect_running()
    }

    /// Ends the emulator process and returns its log, read from a file in `folder`.
    pub(crate) fn finish(mut self, folder: &Path) -> anyhow::Result<WanLog> {
        let path = folder.join("wan.json");
        let shown =
            path.to_str().context("name of the temporary folder not UTF-8: set TMPDIR to another folder")?;
        self.send_command(&format!("finish {shown}"))?;
        self.expect_answer("finished")?;
        self.child.wait()?;
        let file = File::open(&path).context("cannot read the emulator's log")?;
        serde_json::from_reader(BufReader::new(file)).context("cannot read the emulator's log")
    }

    fn send_command(&mut self, command: &str) -> anyhow::Result<()> {
        let written = writeln!(self.to, "{command}").and_then(|()| self.to.flush());
        written.with_context(|| format!("cannot send a command to the emulator. {}", self.child.log_end()))
    }

    fn expect_answer(&mut self, word: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        self.from.read_line(&mut line).context("cannot read the emulator's reply")?;
        if line.is_empty() {
            self.child.wait()?;
        }
        if line.trim_end() != word {
            bail!("the emulator did not reply {word:?}. {}", self.child.log_end());
        }
        Ok(())
    }
}
