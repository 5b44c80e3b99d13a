//! Room for new mappings: the longest idle one is closed at both ends, or the new one is refused, counted and logged.

use byway_net::{Io, SocketId};
use byway_proto::agent::OfferRefusal;
use byway_units::{AgentId, Time};

use super::log_limit::Topic;
use super::mappings::{AllInUse, MappingId, Owner};
use super::outsides::Caller;
use super::role::AgentRole;

impl AgentRole {
    /// Makes room for a mapping of an owner, if that takes another one's place.
    ///
    /// # Errors
    /// If all that could make room are in use: that is logged and, of a peer, counted.
    pub(super) fn make_room(&mut self, owner: Owner, io: &mut Io) -> Result<(), AllInUse> {
        match self.mappings.make_room(owner, io.now()) {
            Ok(Some(id)) => self.evict(id, io),
            Ok(None) => {}
            Err(AllInUse) => {
                self.log_full(owner, io.now());
                return Err(AllInUse);
            }
        }
        Ok(())
    }

    pub(super) fn evict(&mut self, id: MappingId, io: &mut Io) {
        if let Some(mapping) = self.mappings.get(id) {
            self.segments.evicted.count(mapping.usage, io.now());
        }
        self.close_mapping(id, io);
    }

    /// Opens the socket from which a peer's application speaks to targets here. Where the system gives none, the longest idle
    /// mapping gives up its own.
    pub(super) fn outside(&mut self, caller: Caller, io: &mut Io) -> Option<SocketId> {
        if let Some(socket) = self.outsides.socket(caller) {
            return Some(socket);
        }
        let opened = io.open(caller.bind()).or_else(|error| match self.mappings.evicted(io.now()) {
            Ok(id) => {
                self.evict(id, io);
                io.open(caller.bind())
            }
            Err(AllInUse) => Err(error),
        });
        match opened {
            Ok(socket) => {
                self.outsides.opened(caller, socket);
                Some(socket)
            }
            Err(error) => {
                if self.log_limit.is_due(Topic::NoSocket, None, "", io.now()) {
                    tracing::error!(
                        %error,
                        "no socket towards what is exposed: give the process more file descriptors (LimitNOFILE), or free some ports"
                    );
                }
                None
            }
        }
    }

    /// Logs that there is no mapping left for a new port, with the setting that makes more.
    fn log_full(&mut self, owner: Owner, now: Time) {
        let of = if let Owner::Peer(peer) = owner { Some(peer) } else { None };
        if !self.log_limit.is_due(Topic::Full, of, "", now) {
            return;
        }
        let limits = self.mappings.limits();
        match owner {
            Owner::Here | Owner::Source(_) => tracing::warn!(
                mappings = limits.all,
                "no mapping is left for another port of an application: all are in use; raise `max` of [mappings]"
            ),
            Owner::Peer(peer) => tracing::warn!(
                peer = self.known.name_of(peer),
                of_peer = limits.of_peer,
                all = limits.all,
                "no mapping is left for another port of the peer's applications: all are in use; raise `peer_max`, or `max`, of \
                 [mappings]"
            ),
        }
    }

    /// Logs that a peer has no mapping left.
    pub(super) fn log_full_peer(&mut self, peer: AgentId, now: Time) {
        if self.log_limit.is_due(Topic::PeerFull, Some(peer), "", now) {
            tracing::warn!(
                peer = self.known.name_of(peer),
                "the peer has no mapping left for another port: all are in use; raise `peer_max`, or `max`, of [mappings] there"
            );
        }
    }

    /// Counts a datagram of a mapping that the peer refuses, by the reason.
    pub(super) fn count_refused(&mut self, id: MappingId) {
        let refusal = self.mappings.get(id).and_then(|mapping| mapping.refusal);
        if refusal == Some(OfferRefusal::NoRoom) {
            self.segments.full_peer += 1;
        } else {
            self.segments.refused += 1;
        }
    }
}
