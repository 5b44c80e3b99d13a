//! Settings that change while the agent works: what stays the same keeps its flows and sockets.

use byway_net::{Io, SocketId};

use super::listeners::{Listener, open_port};
use super::mappings::{MappingId, Side};
use super::role::AgentRole;
use super::tunnel::TunnelChange;
use crate::reload::{kept, kept_by};
use crate::settings::{Exposed, Forward};

/// Settings to work by from now on.
pub(super) struct Change {
    pub(super) forwards: Vec<Forward>,
    pub(super) exposed: Vec<Exposed>,
    pub(super) tunnel: TunnelChange,
}

/// By former places, the new ones of those that stay.
struct Places {
    forwards: Vec<Option<usize>>,
    exposed: Vec<Option<usize>>,
    captures: Vec<Option<usize>>,
}

impl Places {
    fn of(&self, side: Side) -> Option<Side> {
        match side {
            Side::Forward(place) => self.forwards[place].map(Side::Forward),
            Side::Exposed { place, source } => {
                self.exposed[place].map(|place| Side::Exposed { place, source })
            }
            Side::Capture { place, traffic } => {
                self.captures[place].map(|place| Side::Capture { place, traffic })
            }
            Side::Network { place, traffic, source } => {
                self.exposed[place].map(|place| Side::Network { place, traffic, source })
            }
        }
    }
}

impl AgentRole {
    /// Works by other settings from now on. What stays the same keeps its flows and sockets; flows of what goes, or changes, are closed.
    ///
    /// # Errors
    /// If a port cannot be had, or the system refuses something; then all is as it was.
    pub(super) fn reload(&mut self, change: Change, io: &mut Io) -> Result<(), String> {
        let Change { forwards, exposed, tunnel } = change;
        let sockets = self.sockets_for(&forwards, io)?;
        let captures = match self.change_tunnel(tunnel, io) {
            Ok(captures) => captures,
            Err(error) => {
                self.close_unused(&sockets, io);
                return Err(error);
            }
        };
        let stays = |old: &Exposed, new: &Exposed| old.name == new.name && old.at == new.at;
        let places = Places {
            forwards: kept(&self.forwards(), &forwards),
            exposed: kept_by(&self.exposed, &exposed, stays),
            captures,
        };
        self.move_mappings(&places, io);
        self.exposed = exposed;
        self.close_not_permitted(io);
        self.take_listeners(forwards, &sockets, io);
        self.hasten_look();
        self.look_after_tunnel(io);
        Ok(())
    }

    fn forwards(&self) -> Vec<Forward> {
        self.listeners.iter().map(|listener| listener.forward.clone()).collect()
    }

    /// Finds each forward a socket: the one that it has, or that another had at the same address, or a new one.
    fn sockets_for(&mut self, forwards: &[Forward], io: &mut Io) -> Result<Vec<SocketId>, String> {
        // Port 0 is another one for each forward.
        let is_same =
            |old: &Forward, new: &Forward| old.listen == new.listen && (old.listen.port() != 0 || old == new);
        let places = kept_by(&self.forwards(), forwards, is_same);
        let mut known: Vec<Option<SocketId>> = vec![None; forwards.len()];
        let mut gone = Vec::new();
        for (old, new) in places.into_iter().enumerate() {
            match new {
                Some(new) => known[new] = self.listeners[old].socket,
                None => gone.push(old),
            }
        }
        let opened = open_missing(forwards, &known, io);
        if opened.is_ok() || gone.is_empty() {
            return opened;
        }
        // A socket that goes may be in the way of one that comes.
        for place in &gone {
            self.close_listener(*place, io);
        }
        open_missing(forwards, &known, io).inspect_err(|_| {
            for place in gone {
                let listener = &mut self.listeners[place];
                listener.socket = io.open(listener.local.unwrap_or(listener.forward.listen)).ok();
            }
        })
    }

    fn close_listener(&mut self, place: usize, io: &mut Io) {
        for id in self.mappings_of(|side| side == Side::Forward(place)) {
            self.close_mapping(id, io);
        }
        if let Some(socket) = self.listeners[place].socket.take() {
            io.close(socket);
        }
    }

    fn mappings_of(&self, is_meant: impl Fn(Side) -> bool) -> Vec<MappingId> {
        self.mappings.iter().filter(|(_, mapping)| is_meant(mapping.side)).map(|(id, _)| id).collect()
    }

    /// Closes sockets that no forward has.
    fn close_unused(&self, sockets: &[SocketId], io: &mut Io) {
        let has = |socket: &SocketId| self.listeners.iter().any(|listener| listener.socket == Some(*socket));
        sockets.iter().filter(|socket| !has(socket)).for_each(|socket| io.close(*socket));
    }

    /// Moves the mappings of what stays to its new places, and closes the others.
    fn move_mappings(&mut self, places: &Places, io: &mut Io) {
        for id in self.mappings_of(|_| true) {
            let Some(mapping) = self.mappings.get_mut(id) else { continue };
            match places.of(mapping.side) {
                Some(side) => mapping.side = side,
                None => self.close_mapping(id, io),
            }
        }
    }

    /// Closes mappings of peers that may no longer send to what is exposed.
    fn close_not_permitted(&mut self, io: &mut Io) {
        let closed: Vec<MappingId> = self
            .mappings
            .iter()
            .filter(|(_, mapping)| match mapping.side {
                Side::Exposed { place, .. } | Side::Network { place, .. } => {
                    let name = self.known.name_on_map(mapping.peer);
                    let may = |peers: &Vec<String>| peers.iter().any(|peer| Some(peer.as_str()) == name);
                    !self.exposed[place].peers.as_ref().is_none_or(may)
                }
                Side::Forward(_) | Side::Capture { .. } => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in closed {
            self.close_mapping(id, io);
        }
    }

    /// Listens for these forwards at their sockets, and closes all others.
    fn take_listeners(&mut self, forwards: Vec<Forward>, sockets: &[SocketId], io: &mut Io) {
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

/// Opens the sockets that are missing: all, or none.
fn open_missing(
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
