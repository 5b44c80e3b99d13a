//! Loopback addresses for tests.
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]

use std::net::SocketAddr;

use crate::bind::{BindError, OverlaySockets};

/// Any port of IPv4.
pub(crate) fn ipv4() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Any port of IPv6, if the machine speaks it.
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
