//! Prefetching: loads the state for the next input into the cache, for drivers that know it early.

use byway_wire::packets::{Envelope, MessagePacket};
use byway_wire::{Alias, SessionIndex};

use super::Relay;
use super::flow_table::FlowRef;

/// Returns the session index of a datagram, and the alias if it is an envelope.
fn session_and_alias(datagram: &[u8]) -> Option<(SessionIndex, Option<Alias>)> {
    if let Ok(packet) = Envelope::parse(datagram) {
        return Some((packet.header().receiver, Some(packet.header().alias)));
    }
    let packet = MessagePacket::parse(datagram).ok()?;
    Some((packet.header().receiver, None))
}

impl Relay {
    /// Prefetches the state for a datagram that the driver will soon handle. Call it with depths 0
    /// to 2, with other work in between: each depth prefetches what the one before found.
    pub fn prefetch(&self, depth: usize, datagram: &[u8]) {
        let Some((index, alias)) = session_and_alias(datagram) else {
            return;
        };
        if depth == 0 {
            return self.sessions.prefetch_index(index);
        }
        let Some(session) = self.sessions.by_index(index) else {
            return;
        };
        match (depth, alias) {
            (1, _) => {
                self.sessions.prefetch_session(session);
                self.flow_table.prefetch(session);
            }
            (_, Some(alias)) => {
                if let Some(FlowRef::Sent(flow)) = self.flow_table.flow(session, alias) {
                    self.ingress.prefetch(flow);
                }
            }
            (_, None) => {}
        }
    }
}
