//! ffmpeg: finds it in `PATH`, checks its encoder and runs it.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::child_process::QUOTED_LOG_BYTES;
use crate::child_process::tied_command;
use crate::exit::Failure;
use crate::interrupt;

const REMEDY: &str = "install it (Debian, Ubuntu: apt-get install ffmpeg), or run make demo, which \
                      installs it";

/// The installed ffmpeg, after the checks of [`find`](Self::find).
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    program: &'static str,
}

impl Tools {
    /// Finds ffmpeg in `PATH`.
    ///
    /// # Errors
    /// If it is not found, or cannot encode H.264; the error names the remedy.
    pub(crate) fn find() -> Result<Self, Failure> {
        let tools = Self { program: "ffmpeg" };
        let mut command = Command::new(tools.program);
        let listed = quiet(&mut command).arg("-encoders").output();
        let listed = listed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::machine(format!("ffmpeg not found: {REMEDY}")),
            _ => Failure::machine(format!("cannot start ffmpeg: {error}; {REMEDY}")),
        })?;
        if !listed.status.success() {
            let message = quoted(&listed.stderr);
            return Err(Failure::machine(format!("ffmpeg does not work: {message}; {REMEDY}")));
        }
        if !String::from_utf8_lossy(&listed.stdout).contains(" libx264 ") {
            return Err(Failure::machine(
                "ffmpeg cannot encode H.264 (libx264 is missing): use your distribution's full package",
            ));
        }
        Ok(tools)
    }

    /// Runs ffmpeg with these arguments until it ends, and returns its standard output.
    ///
    /// # Errors
    /// If it fails, or the user interrupts.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Vec<u8>> {
        let mut command = tied_command(self.program)?;
        let output = quiet(&mut command).args(arguments).output().context("cannot start ffmpeg")?;
        // Ctrl-C ends ffmpeg, too.
        interrupt::check()?;
        if !output.status.success() {
            let message = quoted(&output.stderr);
            return Err(Failure::machine(format!("ffmpeg failed ({}): {message}", output.status)).into());
        }
        Ok(output.stdout)
    }
}

/// Sets ffmpeg to report only errors, never prompt, and overwrite files.
fn quiet(command: &mut Command) -> &mut Command {
    command.args(["-hide_banner", "-nostdin", "-loglevel", "error", "-y"]).stdin(Stdio::null())
}

/// Returns the last [`QUOTED_LOG_BYTES`] of a program's output, for an error message.
fn quoted(bytes: &[u8]) -> String {
    let end = &bytes[bytes.len().saturating_sub(QUOTED_LOG_BYTES)..];
    String::from_utf8_lossy(end).trim().to_owned()
}

/// Returns a path as an argument that ffmpeg cannot mistake for an option or a protocol.
pub(super) fn file_argument(path: &Path) -> std::ffi::OsString {
    let mut argument = std::ffi::OsString::from("file:");
    argument.push(path);
    argument
}
