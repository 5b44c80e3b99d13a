//! `byway link register`: puts single flows into the low-delay class of an attached device.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::str::FromStr;

use byway_config_types::DurationSetting;
use byway_sched::FlowTuple;
use byway_state::LEASE;
use byway_units::Duration;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::control_socket::{self, ControlCommand};
use super::limits::LEASE_MAX;
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

/// Registration of a flow, in the form that a command sends to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FlowRegistration {
    from: SocketAddr,
    to: SocketAddr,
    protocol: u8,
    lease_ns: u64,
}

impl FlowRegistration {
    /// Returns the header fields of the flow.
    ///
    /// # Errors
    /// If the addresses are of different versions of IP.
    pub(super) fn flow(&self) -> Result<FlowTuple, Failure> {
        if self.from.is_ipv4() != self.to.is_ipv4() {
            let message = format!(
                "cannot register a flow from {} to {}: IPv4 and IPv6; name two addresses of one version",
                self.from, self.to
            );
            return Err(Failure::new(Cause::Settings, message));
        }
        Ok(FlowTuple {
            source: self.from.ip(),
            destination: self.to.ip(),
            protocol: self.protocol,
            ports: [self.from.port(), self.to.port()],
        })
    }

    /// Returns the time for which the registration holds.
    ///
    /// # Errors
    /// If it is longer than an hour.
    pub(super) fn lease(&self) -> Result<Duration, Failure> {
        let lease = Duration::from_nanos(self.lease_ns);
        if lease > LEASE_MAX {
            let message =
                format!("cannot register a flow for {lease}: give at most {LEASE_MAX}, and renew it");
            return Err(Failure::new(Cause::Settings, message));
        }
        Ok(lease)
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
    use std::net::IpAddr;

    use super::*;

    fn registration(from: &str, to: &str, lease_s: u64) -> FlowRegistration {
        FlowRegistration {
            from: from.parse().expect("an address"),
            to: to.parse().expect("an address"),
            protocol: 17,
            lease_ns: lease_s * 1_000_000_000,
        }
    }

    #[test]
    fn a_registration_names_a_flow_by_its_header_fields() {
        let flow = registration("10.0.0.1:4433", "198.51.100.7:50112", 60).flow().expect("two of IPv4");
        assert_eq!(flow.source, IpAddr::from([10, 0, 0, 1]));
        assert_eq!((flow.destination, flow.ports), (IpAddr::from([198, 51, 100, 7]), [4_433, 50_112]));
        let mixed = registration("10.0.0.1:4433", "[fd00::1]:50112", 60).flow().expect_err("two versions");
        assert!(mixed.to_string().contains("of one version"), "{mixed}");
    }

    #[test]
    fn leases_are_an_hour_at_most() {
        let lease = |seconds| registration("10.0.0.1:1", "10.0.0.2:1", seconds).lease();
        assert_eq!(lease(3_600).ok(), Some(Duration::from_secs(3_600)));
        assert!(lease(3_601).expect_err("too long").to_string().contains("renew it"));
    }

    #[test]
    fn protocols_have_names_and_numbers() {
        let parsed = ["tcp", "udp", "132"].map(|text| text.parse::<Protocol>().map(|protocol| protocol.0));
        assert_eq!(parsed, [Ok(6), Ok(17), Ok(132)]);
        for wrong in ["", "sctp", "256", "-1"] {
            assert!(wrong.parse::<Protocol>().is_err(), "{wrong}");
        }
    }
}
