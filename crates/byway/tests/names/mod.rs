//! Local user without rights that binds abstract names, as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// Program that listens at each of its arguments, reports so, and waits.
const LISTENS: &str = "
import socket, sys, time
held = []
for name in sys.argv[1:]:
    held.append(socket.socket(socket.AF_UNIX))
    held[-1].bind('\\0' + name)
    held[-1].listen()
print('ready', flush=True)
time.sleep(1000)
";

/// Process that binds names until it is dropped.
pub(crate) struct Stranger(Child);

impl Stranger {
    /// Binds these names in the network namespace of this thread; `None` without python3.
    pub(crate) fn hold(names: &[&str]) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", LISTENS]).args(names).uid(NOBODY).gid(NOBODY).current_dir("/");
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?;
        let mut message = String::new();
        let listens = BufReader::new(process.stdout.take().expect("it is a pipe")).read_line(&mut message);
        assert!(listens.is_ok() && message == "ready\n", "the stranger says {message:?}");
        Some(Self(process))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
