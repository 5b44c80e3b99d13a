//! ffmpeg: found, or asked for.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use crate::demo::limits::QUOTED_LOG_BYTES;

const REMEDY: &str = "install it (Debian, Ubuntu: apt-get install ffmpeg) or run make demo, which does";

/// ffmpeg, as far as it has been looked at.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    program: &'static str,
}

impl Tools {
    /// Finds ffmpeg in `PATH`.
    ///
    /// # Errors
    /// If it is not there, or cannot encode H.264; the error says what to do about it.
    pub(crate) fn find() -> anyhow::Result<Self> {
        let tools = Self { program: "ffmpeg" };
        let listed = tools.command(["-encoders"]).output();
        let listed = listed.with_context(|| format!("the demo needs ffmpeg, which is not here: {REMEDY}"))?;
        ensure!(listed.status.success(), "ffmpeg is here, but does not work: {}", quoted(&listed.stderr));
        let encoders = String::from_utf8_lossy(&listed.stdout);
        ensure!(
            encoders.contains(" libx264 "),
            "this ffmpeg cannot encode H.264 (libx264 is missing): use your distribution's full package"
        );
        Ok(tools)
    }

    /// Runs ffmpeg to its end; what it wrote to its standard output.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Vec<u8>> {
        let mut command = self.command(arguments);
        let output = command.output().with_context(|| format!("the demo needs ffmpeg: {REMEDY}"))?;
        if !output.status.success() {
            bail!("ffmpeg failed ({}): {}", output.status, quoted(&output.stderr));
        }
        Ok(output.stdout)
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(self.program);
        command.args(["-hide_banner", "-nostdin", "-loglevel", "error", "-y"]).args(arguments);
        command.stdin(Stdio::null());
        command
    }
}

/// The end of what a program wrote.
fn quoted(bytes: &[u8]) -> String {
    let end = &bytes[bytes.len().saturating_sub(QUOTED_LOG_BYTES)..];
    String::from_utf8_lossy(end).trim().to_owned()
}

/// A path as an argument, which never looks like an option or a protocol.
pub(super) fn file_argument(path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from("file:");
    argument.push(path);
    argument
}
