//! Reload of the agent's settings: unchanged parts retain their flows and sockets.

use std::collections::BTreeMap;

use byway_api::RelayPrices;
use byway_net::{Io, SocketId};

use super::driver::AgentDriver;
use super::flow_prices::price_table;
use super::listeners::{Listener, open_port};
use super::mappings::{MappingId, Side};
use super::tunnel::TunnelChange;
use crate::reload::{match_by, match_unchanged};
use crate::settings::{ExposedResource, Forward};

/// New settings that a reload sends to the agent's thread.
pub(super) struct SettingsChange {
    pub(super) forwards: Vec<Forward>,
    pub(super) exposed: Vec<ExposedResource>,
    pub(super) tunnel: TunnelChange,
    /// Prices of relays by number, in a static network.
    pub(super) prices: Option<BTreeMap<u32, RelayPrices>>,
}

/// New index of each forward, exposed resource and capture, by its former index; `None` if it is
/// changed or removed.
struct IndexMapping {
    forwards: Vec<Option<usize>>,
    exposed: Vec<Option<usize>>,
    captures: Vec<Option<usize>>,
}

impl IndexMapping {
    fn remap(&self, side: Side) -> Option<Side> {
        match side {
            Side::Forward(index) => self.forwards[index].map(Side::Forward),
            Side::Exposed { index, source } => {
                self.exposed[index].map(|index| Side::Exposed { index, source })
            }
            Side::Capture { index, traffic } => {
                self.captures[index].map(|index| Side::Capture { index, traffic })
            }
            Side::Network { index, traffic, source } => {
                self.exposed[index].map(|index| Side::Network { index, traffic, source })
            }
        }
    }
}

impl AgentDriver {
    /// Applies new settings. Unchanged parts retain their flows and sockets. The flows of removed
    /// and changed parts are closed.
    ///
    /// # Errors
    /// If a port is not available, or the system refuses something. The former settings then stay
    /// in force.
    pub(super) fn reload(&mut self, change: SettingsChange, io: &mut Io) -> Result<(), String> {
        let SettingsChange { forwards, exposed, tunnel, prices } = change;
        let sockets = self.sockets_for(&forwards, io)?;
        let captures = match self.change_tunnel(tunnel, io) {
            Ok(captures) => captures,
            Err(error) => {
                self.close_unused(&sockets, io);
                return Err(error);
            }
        };
        let stays = |old: &ExposedResource, new: &ExposedResource| old.name == new.name && old.at == new.at;
        let indices = IndexMapping {
            forwards: match_unchanged(&self.forwards(), &forwards),
            exposed: match_by(&self.exposed, &exposed, stays),
            captures,
        };
        self.move_mappings(&indices, io);
        self.exposed = exposed;
        self.close_not_permitted(io);
        self.replace_listeners(forwards, &sockets, io);
        if let Some(prices) = prices {
            self.network_view.set_prices(prices);
            self.agent.set_relay_prices(price_table(&self.network_view));
        }
        self.poll_now();
        self.poll_tunnel(io);
        Ok(())
    }

    fn forwards(&self) -> Vec<Forward> {
        self.listeners.iter().map(|listener| listener.forward.clone()).collect()
    }

    /// Returns a socket for each forward: its own, that of another forward at the same address, or
    /// a new one.
    fn sockets_for(&mut self, forwards: &[Forward], io: &mut Io) -> Result<Vec<SocketId>, String> {
        // Each forward with port 0 has a port of its own.
        let is_same =
            |old: &Forward, new: &Forward| old.listen == new.listen && (old.listen.port() != 0 || old == new);
        let matches = match_by(&self.forwards(), forwards, is_same);
        let mut known: Vec<Option<SocketId>> = vec![None; forwards.len()];
        let mut removed = Vec::new();
        for (old, new) in matches.into_iter().enumerate() {
            match new {
                Some(new) => known[new] = self.listeners[old].socket,
                None => removed.push(old),
            }
        }
        let opened = bind_missing(forwards, &known, io);
        if opened.is_ok() || removed.is_empty() {
            return opened;
        }
        // A socket that the new settings remove may occupy the address of a new one.
        for index in &removed {
            self.close_listener(*index, io);
        }
        bind_missing(forwards, &known, io).inspect_err(|_| {
            for index in removed {
                let listener = &mut self.listeners[index];
                listener.socket = io.open(listener.local.unwrap_or(listener.forward.listen)).ok();
            }
        })
    }

    fn close_listener(&mut self, index: usize, io: &mut Io) {
        for id in self.mappings_of(|side| side == Side::Forward(index)) {
            self.close_mapping(id, io);
        }
        if let Some(socket) = self.listeners[index].socket.take() {
            io.close(socket);
        }
    }

    fn mappings_of(&self, is_meant: impl Fn(Side) -> bool) -> Vec<MappingId> {
        self.mappings.iter().filter(|(_, mapping)| is_meant(mapping.side)).map(|(id, _)| id).collect()
    }

    /// Closes those of the sockets that no present forward uses.
    fn close_unused(&self, sockets: &[SocketId], io: &mut Io) {
        let has = |socket: &SocketId| self.listeners.iter().any(|listener| listener.socket == Some(*socket));
        sockets.iter().filter(|socket| !has(socket)).for_each(|socket| io.close(*socket));
    }

    /// Moves the mappings of unchanged forwards, resources and captures to their new indices.
    /// Closes all other mappings.
    fn move_mappings(&mut self, indices: &IndexMapping, io: &mut Io) {
        for id in self.mappings_of(|_| true) {
            let Some(mapping) = self.mappings.get_mut(id) else { continue };
            match indices.remap(mapping.side) {
                Some(side) => mapping.side = side,
                None => self.close_mapping(id, io),
            }
        }
    }

    /// Closes the mappings of peers that the new settings no longer permit to send to the exposed
    /// resource.
    fn close_not_permitted(&mut self, io: &mut Io) {
        let closed: Vec<MappingId> = self
            .mappings
            .iter()
            .filter(|(_, mapping)| match mapping.side {
                Side::Exposed { index, .. } | Side::Network { index, .. } => {
                    let name = self.network_view.name_on_map(mapping.peer);
                    let may = |peers: &Vec<String>| peers.iter().any(|peer| Some(peer.as_str()) == name);
                    !self.exposed[index].peers.as_ref().is_none_or(may)
                }
                Side::Forward(_) | Side::Capture { .. } => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in closed {
            self.close_mapping(id, io);
        }
    }

    /// Replaces the listeners by those of `forwards`, at `sockets` in the same order. Closes the
    /// former sockets that are not among them.
    fn replace_listeners(&mut self, forwards: Vec<Forward>, sockets: &[SocketId], io: &mut Io) {
        for socket in self.listeners.iter().filter_map(|listener| listener.socket) {
            if !sockets.contains(&socket) {
                io.close(socket);
            }
        }
        let listener = |(forward, socket): (Forward, &SocketId)| Listener {
            forward,
            socket: Some(*socket),
            local: io.local_address(*socket),
        };
        self.listeners = forwards.into_iter().zip(sockets).map(listener).collect();
    }
}

/// Returns a socket for each forward: the known one, or a new one. If one cannot be opened, closes
/// the new ones.
fn bind_missing(
    forwards: &[Forward],
    known: &[Option<SocketId>],
    io: &mut Io,
) -> Result<Vec<SocketId>, String> {
    let mut opened = Vec::new();
    let mut all = Vec::new();
    for (forward, known) in forwards.iter().zip(known) {
        let socket = known.map_or_else(|| open_port(forward.listen, io), Ok);
        match socket {
            Ok(socket) => {
                all.push(socket);
                opened.extend(known.is_none().then_some(socket));
            }
            Err(error) => {
                for socket in opened {
                    io.close(socket);
                }
                return Err(error);
            }
        }
    }
    Ok(all)
}
