//! Exit codes of the program, one for each kind of failure, for scripts.

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::controller::ControllerError;
use crate::interrupt::Interrupted;
use crate::membership::{KeyFileError, MembershipError};
use byway_config_types::Problem;

/// Cause of a failure, by the party that has to act. It decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An invalid setting, on the command line or in a file.
    Settings,
    /// The machine: a port in use, a missing permission, a full disk, or a wrong clock.
    Machine,
    /// The network: another node does not answer.
    Network,
    /// Another node, mostly the controller, which refuses a request.
    Refused,
    /// An unexpected result, such as a missed target or a failed program of a lab.
    Unmet,
    /// Byway itself, by a fault.
    Byway,
    /// The user interrupted the program, by Ctrl-C or a signal.
    Interrupted,
}

impl Cause {
    /// Returns the cause that an exit code stands for; unknown codes count as a fault of Byway.
    pub(crate) fn of_code(code: u8) -> Self {
        let all =
            [Self::Settings, Self::Machine, Self::Network, Self::Refused, Self::Unmet, Self::Interrupted];
        all.into_iter().find(|cause| cause.code() == code).unwrap_or(Self::Byway)
    }

    /// Returns the exit code of the cause.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Byway => 1,
            Self::Settings => 2,
            Self::Machine => 3,
            Self::Network => 4,
            Self::Refused => 5,
            Self::Unmet => 6,
            // As in shells: 128 and the number of the signal.
            Self::Interrupted => 130,
        }
    }
}

/// Reason why the program ends without success: the cause, and a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    cause: Cause,
    message: String,
}

impl Failure {
    /// Creates a failure with its cause and a message, which should contain the remedy.
    pub(crate) fn new(cause: Cause, message: impl fmt::Display) -> Self {
        Self { cause, message: message.to_string() }
    }

    /// Creates a failure whose cause is the machine.
    pub(crate) fn machine(message: impl fmt::Display) -> Self {
        Self::new(Cause::Machine, message)
    }

    /// Returns the cause of the failure: the party that has to act.
    pub(crate) const fn cause(&self) -> Cause {
        self.cause
    }

    /// Returns the exit code with which the program ends.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.cause.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A failure retains its cause even inside errors of other types: see `From<anyhow::Error>`.
impl std::error::Error for Failure {}

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
        let cause = match error.downcast_ref::<Self>() {
            Some(failure) => failure.cause,
            None if error.is::<Interrupted>() => Cause::Interrupted,
            None if error.root_cause().is::<io::Error>() => Cause::Machine,
            None => Cause::Byway,
        };
        match cause {
            // The interrupted operation is irrelevant to the user.
            Cause::Interrupted => Self::new(cause, Interrupted),
            _ => Self::new(cause, format!("{error:#}")),
        }
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

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn what_was_said_around_a_failure_leaves_its_cause() {
        let settings = Err::<(), _>(Failure::new(Cause::Settings, "no video")).context("run").context("demo");
        let full = Err::<(), _>(io::Error::from(io::ErrorKind::StorageFull)).context("report.html");
        let interrupted = Err::<(), _>(Interrupted).context("run");
        let causes = [settings, full, interrupted, Err(anyhow!("a packet too many"))]
            .map(|failed| Failure::from(failed.expect_err("all have failed")));
        let expected = [Cause::Settings, Cause::Machine, Cause::Interrupted, Cause::Byway];
        assert_eq!(causes.each_ref().map(|failure| failure.cause), expected);
        assert_eq!(causes[0].to_string(), "demo: run: no video");
    }
}
