//! Why a lab does not work.

use std::io;

use byway_scenario::BuildError;
use thiserror::Error;

/// Why a lab does not work.
#[derive(Debug, Error)]
pub enum LabError {
    /// The kernel refuses a machine.
    #[error(
        "the kernel makes no machine for the lab: {0}. Namespaces and TUN devices need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN, and /dev/net/tun"
    )]
    Machine(#[source] io::Error),
    /// A machine was made, and cannot be set up.
    #[error("a machine of the lab cannot be set up: {0}")]
    SetUp(#[source] io::Error),
    /// The device of a machine failed under way.
    #[error("the device of a machine failed: {0}")]
    Device(#[source] io::Error),
    /// What is captured cannot be written.
    #[error("a capture cannot be written: {0}; name a folder on a disk with room")]
    Capture(#[source] io::Error),
    /// The kernel starts no thread.
    #[error("the kernel starts no thread for the lab: {0}")]
    Thread(#[source] io::Error),
    /// The machines of the scenario are not joined as they have to be.
    #[error(transparent)]
    Scenario(#[from] BuildError),
}
