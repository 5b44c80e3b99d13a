//! Registration of a flow in the low-delay class, as a command sends it to a controller.

use std::net::SocketAddr;

use byway_sched::FlowTuple;
use byway_units::Duration;
use serde::{Deserialize, Serialize};

use super::limits::LEASE_MAX;
use crate::exit::{Cause, Failure};

/// Registration of a flow, in the form that a command sends to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FlowRegistration {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// Number of the protocol in the IP header.
    pub(super) protocol: u8,
    pub(super) lease_ns: u64,
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
}
