//! Ports of forwards.

use std::net::SocketAddr;

use byway_net::{Io, SocketId};

use crate::settings::Forward;

/// A forward's port.
pub(super) struct Listener {
    pub(super) forward: Forward,
    pub(super) socket: Option<SocketId>,
    pub(super) local: Option<SocketAddr>,
}

/// Opens the port of a forward.
pub(super) fn open_port(wanted: SocketAddr, io: &mut Io) -> Result<SocketId, String> {
    io.open(wanted).map_err(|error| {
        format!("{wanted} cannot be had for a forward ({error}): name another port, or stop who has it (ss -ulpn shows who)")
    })
}
