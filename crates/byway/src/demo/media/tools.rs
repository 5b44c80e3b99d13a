//! ffmpeg: found, or asked for.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::child::QUOTED_LOG_BYTES;
use crate::child::tied_command;
use crate::exit::Failure;
use crate::interrupt;

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
    pub(crate) fn find() -> Result<Self, Failure> {
        let tools = Self { program: "ffmpeg" };
        let mut command = Command::new(tools.program);
        let listed = quiet(&mut command).arg("-encoders").output();
        let listed = listed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::machine(format!("the demo needs ffmpeg, which is not here: {REMEDY}"))
            }
            _ => Failure::machine(format!("ffmpeg cannot be started ({error}): {REMEDY}")),
        })?;
        if !listed.status.success() {
            let said = quoted(&listed.stderr);
            return Err(Failure::machine(format!("ffmpeg is here, but does not work ({said}): {REMEDY}")));
        }
        if !String::from_utf8_lossy(&listed.stdout).contains(" libx264 ") {
            return Err(Failure::machine(
                "this ffmpeg cannot encode H.264 (libx264 is missing): use your distribution's full package",
            ));
        }
        Ok(tools)
    }

    /// Runs ffmpeg to its end; what it wrote to its standard output.
    ///
    /// # Errors
    /// If it fails, or the user wants no more.
    pub(crate) fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> anyhow::Result<Vec<u8>> {
        let mut command = tied_command(self.program)?;
        let output = quiet(&mut command).args(arguments).output().context("starting ffmpeg")?;
        // Ctrl-C ends ffmpeg, too.
        interrupt::check()?;
        if !output.status.success() {
            let said = quoted(&output.stderr);
            return Err(Failure::machine(format!("ffmpeg failed ({}): {said}", output.status)).into());
        }
        Ok(output.stdout)
    }
}

/// Has ffmpeg say what goes wrong, ask nothing and write over what is there.
fn quiet(command: &mut Command) -> &mut Command {
    command.args(["-hide_banner", "-nostdin", "-loglevel", "error", "-y"]).stdin(Stdio::null())
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
