//! Errors of a lab.

use std::io;

use byway_scenario::BuildError;
use thiserror::Error;

/// Error that prevents or ends a run of the lab.
#[derive(Debug, Error)]
pub enum LabError {
    /// Refusal of the kernel to create a machine.
    #[error(
        "cannot create a machine for the lab: {0}. Namespaces and TUN devices need root, or \
        CAP_SYS_ADMIN and CAP_NET_ADMIN, and /dev/net/tun"
    )]
    Machine(#[source] io::Error),
    /// Failure to set up a machine that exists.
    #[error("cannot set up a machine of the lab: {0}")]
    SetUp(#[source] io::Error),
    /// Failure of a machine's device during the run.
    #[error("device of a machine failed: {0}")]
    Device(#[source] io::Error),
    /// Failure to write a capture.
    #[error("cannot write a capture: {0}; name a folder on a disk with free space")]
    Capture(#[source] io::Error),
    /// Refusal of the kernel to start a thread.
    #[error("cannot start a thread for the lab: {0}")]
    Thread(#[source] io::Error),
    /// Missing connections between machines of the scenario.
    #[error(transparent)]
    Scenario(#[from] BuildError),
}
