//! How the program ends, for scripts: each kind of failure has its own exit code.

use std::fmt;
use std::process::ExitCode;

use crate::controller::ControllerError;
use crate::demo::Interrupted;
use crate::membership::{KeyFileError, MembershipError};
use crate::settings::Problem;

/// Who has to do something about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// What was typed, on the command line or in a file.
    Settings,
    /// The machine: a port in use, a missing right, a full disk.
    Machine,
    /// The network: nobody answers.
    Network,
    /// Somebody answers, and says no.
    Refused,
    /// Byway itself.
    Byway,
    /// Ctrl-C.
    Interrupted,
}

impl Cause {
    const fn code(self) -> u8 {
        match self {
            Self::Byway => 1,
            Self::Settings => 2,
            Self::Machine => 3,
            Self::Network => 4,
            Self::Refused => 5,
            // As shells have it: 128 and the number of the signal.
            Self::Interrupted => 130,
        }
    }
}

/// Why the program ends without having done what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    cause: Cause,
    message: String,
}

impl Failure {
    /// A failure with what happened and what to do about it.
    pub(crate) fn new(cause: Cause, message: impl fmt::Display) -> Self {
        Self { cause, message: message.to_string() }
    }

    /// The machine does not let it.
    pub(crate) fn machine(message: impl fmt::Display) -> Self {
        Self::new(Cause::Machine, message)
    }

    /// The code that a script sees.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.cause.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<MembershipError> for Failure {
    fn from(error: MembershipError) -> Self {
        Self::new(error.cause(), error)
    }
}

impl From<KeyFileError> for Failure {
    fn from(error: KeyFileError) -> Self {
        let cause = if matches!(error, KeyFileError::File(_)) { Cause::Machine } else { Cause::Settings };
        Self::new(cause, error)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        let cause = if error.is::<Interrupted>() { Cause::Interrupted } else { Cause::Byway };
        Self::new(cause, format!("{error:#}"))
    }
}

impl From<ControllerError> for Failure {
    fn from(error: ControllerError) -> Self {
        Self::new(error.cause(), error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::new(Cause::Settings, problem)
    }
}
