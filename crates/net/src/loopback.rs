//! Loopback addresses for tests.
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::net::SocketAddr;

use crate::bind::{BindError, OverlaySockets};

/// Returns an IPv4 loopback address with any port.
pub(crate) fn ipv4() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Returns an IPv6 loopback address with any port, if the machine supports IPv6.
pub(crate) fn ipv6() -> Option<SocketAddr> {
    let address = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], 0));
    match OverlaySockets::bind(&[address]) {
        Ok(_) => Some(address),
        Err(error @ (BindError::FamilyUnsupported { .. } | BindError::NotAvailable { .. })) => {
            eprintln!("SKIPPED for IPv6: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
