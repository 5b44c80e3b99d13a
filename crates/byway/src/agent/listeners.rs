//! UDP ports of forwards, at which applications send datagrams to the agent.

use std::net::SocketAddr;

use byway_net::{Io, SocketId};

use crate::settings::Forward;

/// A forward's UDP port: its settings, its socket, and the address to which the socket is bound.
pub(super) struct Listener {
    pub(super) forward: Forward,
    pub(super) socket: Option<SocketId>,
    pub(super) local: Option<SocketAddr>,
}

/// Opens the UDP port at which a forward accepts datagrams of applications.
pub(super) fn open_port(wanted: SocketAddr, io: &mut Io) -> Result<SocketId, String> {
    io.open(wanted).map_err(|error| {
        format!(
            "cannot listen on {wanted} for a forward: {error}; set another port, or end the program \
             that uses it (ss -ulpn shows it)"
        )
    })
}
