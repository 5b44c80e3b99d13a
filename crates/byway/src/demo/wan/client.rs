//! The emulator as the demo sees it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;

use anyhow::{Context as _, bail};

use super::{Description, WanLog};
use crate::child::{Child, Pipes};
use crate::demo::WAN_COMMAND;
use crate::demo::clock::Instant;

/// The emulator, running.
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
        wan.say(&serde_json::to_string(description)?)?;
        wan.expect("ready")?;
        Ok(wan)
    }

    /// From this instant on, packets meet the losses of the description, and are counted. The emulator has heard of it when this returns.
    pub(crate) fn begin(&mut self, origin: Instant) -> anyhow::Result<()> {
        self.say(&format!("start {}", origin.nanos()))?;
        self.expect("started")
    }

    pub(crate) fn expect_running(&mut self) -> anyhow::Result<()> {
        self.child.expect_running()
    }

    /// Ends the emulator; what it has written down.
    pub(crate) fn finish(mut self, folder: &Path) -> anyhow::Result<WanLog> {
        let path = folder.join("wan.json");
        let shown =
            path.to_str().context("the temporary folder's name is not UTF-8: set TMPDIR to another")?;
        self.say(&format!("finish {shown}"))?;
        self.expect("finished")?;
        self.child.wait()?;
        let file = File::open(&path).context("the emulator's log")?;
        serde_json::from_reader(BufReader::new(file)).context("the emulator's log")
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        let said = writeln!(self.to, "{line}").and_then(|()| self.to.flush());
        said.with_context(|| format!("the emulator takes no commands. {}", self.child.log_end()))
    }

    fn expect(&mut self, word: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        self.from.read_line(&mut line).context("the emulator's answer")?;
        if line.is_empty() {
            self.child.wait()?;
        }
        if line.trim_end() != word {
            bail!("the emulator does not say {word:?}. {}", self.child.log_end());
        }
        Ok(())
    }
}
