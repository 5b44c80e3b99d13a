//! One shard of a relay in its thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{NetworkMap, RelayEntry};
use byway_net::{Arrival, Io, Role, SocketId};
use byway_proto::relay::{OtherRelay, Relay, RelayInput};
use byway_units::{RelayId, Time};
use byway_wire::Shard;
use byway_wire::seal::PublicKey;
use tokio::sync::oneshot;

use crate::observe::counted::Counts;

/// What the rest of the process asks of a shard.
pub(super) enum RelayControl {
    /// The network is this now.
    Map(Arc<NetworkMap>),
    /// How are you?
    Status(oneshot::Sender<ShardStatus>),
    /// Stop.
    Close,
}

/// What a shard says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardStatus {
    pub(super) sessions: u64,
    pub(super) held_bytes: u64,
    pub(super) counts: Counts,
}

impl ShardStatus {
    /// Adds another shard.
    pub(super) fn add(&mut self, shard: &Self) {
        self.sessions += shard.sessions;
        self.held_bytes += shard.held_bytes;
        self.counts.add_all(&shard.counts);
    }
}

/// The relays that another one's shards stand for, as far as the sockets reach them.
pub(super) fn other_relays(map: &NetworkMap, own: RelayId, listen: &[SocketAddr]) -> Vec<OtherRelay> {
    let others = map.relays.iter().filter(|relay| relay.number != own.number());
    others.flat_map(|relay| shards(relay, listen)).collect()
}

fn shards(relay: &RelayEntry, listen: &[SocketAddr]) -> Vec<OtherRelay> {
    let (address, key) = match reach(relay, listen) {
        Ok(reach) => reach,
        Err(problem) => {
            tracing::warn!(relay = relay.name, "no way leads on to a relay of the map: {problem}");
            return Vec::new();
        }
    };
    let number = RelayId::new(relay.number);
    let shards = u8::try_from(relay.shards).unwrap_or(u8::MAX);
    (0..shards).map(|shard| OtherRelay { number, shard: Shard::new(shard), key, address }).collect()
}

/// Where another relay is, and its key; or what is wrong, and what to do about it.
fn reach(relay: &RelayEntry, listen: &[SocketAddr]) -> Result<(SocketAddr, PublicKey), String> {
    let is_reached = |address: &&SocketAddr| listen.iter().any(|own| own.is_ipv4() == address.is_ipv4());
    let address = relay.addresses.iter().find(is_reached).ok_or_else(|| {
        let (there, here) = (&relay.addresses, listen);
        format!("it is at {there:?}, and this one listens on {here:?}: have both speak IPv4, or both IPv6")
    })?;
    let key = relay.key.parse::<PublicKey>().map_err(|error| format!("its key is none ({error})"))?;
    Ok((*address, key))
}

/// A shard of a relay.
pub(super) struct RelayRole {
    relay: Box<Relay>,
    number: RelayId,
    /// The other relays that it was told of.
    others: BTreeMap<(RelayId, Shard), OtherRelay>,
    is_closed: bool,
}

impl RelayRole {
    pub(super) fn new(relay: Relay, number: RelayId, others: Vec<OtherRelay>) -> Self {
        let others = others.into_iter().map(|other| ((other.number, other.shard), other)).collect();
        Self { relay: Box::new(relay), number, others, is_closed: false }
    }

    fn drain(&mut self, io: &mut Io) {
        while let Some(transmit) = self.relay.poll() {
            io.send(SocketId::OVERLAY, &transmit);
        }
    }

    /// The network is this now: relays come, go and move.
    fn take_map(&mut self, map: &NetworkMap, io: &mut Io) {
        let listen: Vec<SocketAddr> = io.overlay_addresses().collect();
        let named = other_relays(map, self.number, &listen);
        let named: BTreeMap<_, _> =
            named.into_iter().map(|other| ((other.number, other.shard), other)).collect();
        for (number, shard) in self.others.keys().filter(|place| !named.contains_key(place)) {
            self.relay.remove_relay(*number, *shard, io.now());
        }
        for other in named.values() {
            self.relay.add_relay(other, io.now());
        }
        self.others = named;
    }

    fn status(&self, io: &Io) -> ShardStatus {
        let (ingress, egress) = (self.relay.ingress_counters(), self.relay.egress_counters());
        let mut counts = Counts::of_relay(self.relay.counters(), ingress, egress);
        counts.add_node(self.relay.session_counters(), io.counters());
        ShardStatus {
            sessions: self.relay.sessions() as u64,
            held_bytes: self.relay.packets_held().count(),
            counts,
        }
    }
}

impl Role for RelayRole {
    type Control = RelayControl;

    fn start(&mut self, io: &mut Io) {
        self.drain(io);
    }

    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { from, ecn, bytes, .. } = arrival;
        self.relay.handle(RelayInput::Received { from, ecn, bytes }, io.now());
        self.drain(io);
    }

    fn woken(&mut self, io: &mut Io) {
        self.relay.handle(RelayInput::Deadline, io.now());
        self.drain(io);
    }

    fn controlled(&mut self, control: RelayControl, io: &mut Io) {
        match control {
            RelayControl::Map(map) => self.take_map(&map, io),
            // Whoever asked may have gone.
            RelayControl::Status(answer) => drop(answer.send(self.status(io))),
            RelayControl::Close => self.is_closed = true,
        }
        self.drain(io);
    }

    fn deadline(&self) -> Option<Time> {
        self.relay.deadline().map(|(at, _)| at)
    }

    fn is_finished(&self) -> bool {
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(addresses: &[&str], key: &str) -> RelayEntry {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        RelayEntry { number: 7, name: "west".to_owned(), key: key.to_owned(), addresses, shards: 2 }
    }

    #[test]
    fn another_relay_is_met_in_a_family_that_this_one_speaks_at_all_its_shards() {
        let (key, listen) = ("1".repeat(64), ["0.0.0.0:4600".parse().expect("an address")]);
        let map = NetworkMap {
            relays: vec![relay(&["[2001:db8::7]:4600", "192.0.2.7:4600"], &key)],
            ..NetworkMap::default()
        };
        let others = other_relays(&map, RelayId::new(1), &listen);
        let places: Vec<_> = others.iter().map(|other| (other.shard, other.address.to_string())).collect();
        let place = |shard| (Shard::new(shard), "192.0.2.7:4600".to_owned());
        assert_eq!(places, [place(0), place(1)]);
        assert!(other_relays(&map, RelayId::new(7), &listen).is_empty(), "that is itself");
    }

    #[test]
    fn why_another_relay_is_not_met_is_said() {
        let listen = ["0.0.0.0:4600".parse().expect("an address")];
        let problem = |relay: &RelayEntry| reach(relay, &listen).expect_err("it cannot be met");
        let no_address = problem(&relay(&["[2001:db8::7]:4600"], &"1".repeat(64)));
        assert!(no_address.contains("2001:db8::7") && no_address.contains("both IPv6"), "{no_address}");
        let no_key = problem(&relay(&["192.0.2.7:4600"], "none"));
        assert!(no_key.starts_with("its key is none"), "{no_key}");
    }
}
