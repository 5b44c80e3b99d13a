//! `byway link register`: puts single flows into the low-delay class of an attached device.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::str::FromStr;

use byway_config_types::DurationSetting;
use byway_state::LEASE;
use clap::Args;

use super::control_socket::{self, ControlCommand};
use super::registration::FlowRegistration;
use super::{RecordFlags, expect_done, open_device, reason_without_controller};
use crate::exit::{Cause, Failure};

/// Flags of `byway link register`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RegisterFlags {
    /// Network device, as `ip link` names it.
    #[arg(value_name = "DEVICE")]
    device: OsString,
    /// Source of the flow's packets at this device.
    #[arg(long, value_name = "ADDRESS:PORT")]
    from: SocketAddr,
    /// Destination of the flow's packets.
    #[arg(long, value_name = "ADDRESS:PORT")]
    to: SocketAddr,
    /// Protocol: udp, tcp, or its number in the IP header.
    #[arg(long, value_name = "PROTOCOL", default_value = "udp")]
    protocol: Protocol,
    /// Time after which the registration ends unless it is renewed, up to an hour [default: 60 s].
    #[arg(long, value_name = "TIME")]
    lease: Option<DurationSetting>,
    #[command(flatten)]
    records: RecordFlags,
}

/// Number of a protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Protocol(u8);

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tcp" => Ok(Self(6)),
            "udp" => Ok(Self(17)),
            number => number
                .parse()
                .map(Self)
                .map_err(|_| format!("invalid protocol {text:?}: write udp, tcp or a number, 0 to 255")),
        }
    }
}

impl From<&RegisterFlags> for FlowRegistration {
    fn from(flags: &RegisterFlags) -> Self {
        let lease = flags.lease.map_or(LEASE, |lease| lease.0);
        Self { from: flags.from, to: flags.to, protocol: flags.protocol.0, lease_ns: lease.as_nanos() }
    }
}

/// Registers a flow at the controller of a device, or renews its registration.
///
/// # Errors
/// If no controller runs, or it refuses.
pub(super) fn run(flags: &RegisterFlags) -> Result<(), Failure> {
    let (mut control, device) = open_device(&flags.device)?;
    let command = ControlCommand::Register(FlowRegistration::from(flags));
    if let Some(answer) = control_socket::send_command(device.index, command)? {
        return expect_done(answer);
    }
    let why = reason_without_controller(&mut control, &device, &flags.records)?;
    let message = format!(
        "cannot register a flow at {0}: no controller runs, because {why}; run byway link attach {0} \
         --rate RATE --registered",
        device.name
    );
    Err(Failure::new(Cause::Settings, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_names_and_numbers() {
        let parsed = ["tcp", "udp", "132"].map(|text| text.parse::<Protocol>().map(|protocol| protocol.0));
        assert_eq!(parsed, [Ok(6), Ok(17), Ok(132)]);
        for wrong in ["", "sctp", "256", "-1"] {
            assert!(wrong.parse::<Protocol>().is_err(), "{wrong}");
        }
    }
}
