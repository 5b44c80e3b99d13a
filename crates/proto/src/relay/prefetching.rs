//! What the next input needs is brought into the cache, for drivers that know of it early.

use byway_wire::packets::{Envelope, MessagePacket};
use byway_wire::{Alias, SessionIndex};

use super::Relay;
use super::links::FlowRef;

/// The index in a datagram, and the alias if it is an envelope.
fn heading(datagram: &[u8]) -> Option<(SessionIndex, Option<Alias>)> {
    if let Ok(packet) = Envelope::parse(datagram) {
        return Some((packet.header().receiver, Some(packet.header().alias)));
    }
    let packet = MessagePacket::parse(datagram).ok()?;
    Some((packet.header().receiver, None))
}

impl Relay {
    /// Hint: this datagram comes soon. To be called with depths from 0 to 2, with other work in between: each brings into the
    /// cache what was found by the one before.
    pub fn prefetch(&self, depth: usize, datagram: &[u8]) {
        let Some((index, alias)) = heading(datagram) else {
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
                self.links.prefetch(session);
            }
            (_, Some(alias)) => {
                if let Some(FlowRef::Sent(flow)) = self.links.flow(session, alias) {
                    self.ingress.prefetch(flow);
                }
            }
            (_, None) => {}
        }
    }
}
