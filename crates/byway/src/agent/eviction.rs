//! Eviction for new mappings: the agent closes the longest idle mapping at both ends, or refuses,
//! counts and logs the new one.

use byway_net::{Io, SocketId};
use byway_proto::agent::OfferRefusal;
use byway_units::{AgentId, Time};

use super::driver::AgentDriver;
use super::log_limit::Topic;
use super::mappings::{MappingId, MappingsExhausted, Owner};
use super::source_ports::Caller;

impl AgentDriver {
    /// Evicts a mapping if the limits require it before `owner` gets another one.
    pub(super) fn ensure_capacity(&mut self, owner: Owner, io: &mut Io) -> Result<(), MappingsExhausted> {
        match self.mappings.select_victim(owner, io.now()) {
            Ok(Some(id)) => self.evict(id, io),
            Ok(None) => {}
            Err(MappingsExhausted) => {
                self.log_full(owner, io.now());
                return Err(MappingsExhausted);
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

    /// Returns the socket from which a peer's application sends to targets here; opens it if
    /// necessary. If the system has no free socket, the agent first evicts the longest idle
    /// mapping.
    pub(super) fn open_source_port(&mut self, caller: Caller, io: &mut Io) -> Option<SocketId> {
        if let Some(socket) = self.source_ports.socket(caller) {
            return Some(socket);
        }
        let opened = io.open(caller.bind()).or_else(|error| match self.mappings.victim_of_all(io.now()) {
            Ok(id) => {
                self.evict(id, io);
                io.open(caller.bind())
            }
            Err(MappingsExhausted) => Err(error),
        });
        match opened {
            Ok(socket) => {
                self.source_ports.insert(caller, socket);
                Some(socket)
            }
            Err(error) => {
                if self.log_limit.is_due(Topic::NoSocket, None, "", io.now()) {
                    tracing::error!(
                        %error,
                        "cannot open a socket to the exposed target: give the process more file \
                         descriptors (LimitNOFILE), or free some ports"
                    );
                }
                None
            }
        }
    }

    /// Logs that a limit of mappings here leaves none for a new port. The message names the setting
    /// that raises the limit.
    fn log_full(&mut self, owner: Owner, now: Time) {
        let of = if let Owner::Peer(peer) = owner { Some(peer) } else { None };
        if !self.log_limit.is_due(Topic::Full, of, "", now) {
            return;
        }
        let limits = self.mappings.limits();
        match owner {
            Owner::Here | Owner::Source(_) => tracing::warn!(
                mappings = limits.all,
                "mapping table full, a new port of an application gets no mapping: raise `max` of [mappings]"
            ),
            Owner::Peer(peer) => tracing::warn!(
                peer = self.network_view.name_of(peer),
                of_peer = limits.of_peer,
                all = limits.all,
                "mapping table full, a new port of the peer's applications gets no mapping: raise \
                 `peer_max`, or `max`, of [mappings]"
            ),
        }
    }

    /// Logs that a peer refused a mapping, because it has none left.
    pub(super) fn log_full_peer(&mut self, peer: AgentId, now: Time) {
        if self.log_limit.is_due(Topic::PeerFull, Some(peer), "", now) {
            tracing::warn!(
                peer = self.network_view.name_of(peer),
                "mapping table of the peer full, a new port gets no mapping: raise `peer_max`, or \
                 `max`, of [mappings] there"
            );
        }
    }

    /// Counts a datagram that is dropped because the peer refuses its mapping, by the refusal's
    /// reason.
    pub(super) fn count_refused(&mut self, id: MappingId) {
        let refusal = self.mappings.get(id).and_then(|mapping| mapping.refusal);
        if refusal == Some(OfferRefusal::Full) {
            self.segments.peer_mappings_full += 1;
        } else {
            self.segments.refused += 1;
        }
    }
}
