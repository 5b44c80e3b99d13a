//! One shard of a relay in its thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{NetworkMap, RelayEntry};
use byway_net::{Arrival, Io, Role, SocketId};
use byway_proto::relay::{OtherRelay, Relay, RelayInput};
use byway_units::{RelayId, Time};
use byway_wire::Shard;
use tokio::sync::oneshot;

use crate::observe::counted::{self, Sums};

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
    pub(super) uptime_seconds: f64,
    pub(super) work: Sums,
    pub(super) drops: Sums,
}

/// The relays that another one's shards stand for, as far as the sockets reach them.
pub(super) fn other_relays(map: &NetworkMap, own: RelayId, listen: &[SocketAddr]) -> Vec<OtherRelay> {
    let others = map.relays.iter().filter(|relay| relay.number != own.number());
    others.flat_map(|relay| shards(relay, listen)).collect()
}

fn shards(relay: &RelayEntry, listen: &[SocketAddr]) -> Vec<OtherRelay> {
    let reach = |address: &&SocketAddr| listen.iter().any(|own| own.is_ipv4() == address.is_ipv4());
    let (Some(address), Ok(key)) = (relay.addresses.iter().find(reach), relay.key.parse()) else {
        tracing::warn!(relay = relay.name, "a relay of the map has no address that this one can send to");
        return Vec::new();
    };
    let number = RelayId::new(relay.number);
    let shards = u8::try_from(relay.shards).unwrap_or(u8::MAX);
    (0..shards).map(|shard| OtherRelay { number, shard: Shard::new(shard), key, address: *address }).collect()
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
        let (mut work, mut drops) = (Sums::default(), Sums::default());
        let (ingress, egress) = (self.relay.ingress_counters(), self.relay.egress_counters());
        counted::relay_work(&mut work, ingress, egress);
        let sockets = io.counters();
        for (name, count) in [
            ("received_packets", sockets.received),
            ("received_payload_bytes", sockets.received_bytes),
            ("sent_packets", sockets.sent),
            ("sent_payload_bytes", sockets.sent_bytes),
            ("relayed_handshakes", self.relay.counters().relayed),
        ] {
            work.add(name, count);
        }
        counted::relay_drops(&mut drops, self.relay.counters(), ingress, egress);
        counted::relay_sessions(&mut drops, &self.relay);
        counted::socket_drops(&mut drops, sockets);
        ShardStatus {
            sessions: self.relay.sessions() as u64,
            held_bytes: self.relay.packets_held().count(),
            uptime_seconds: io.now().saturating_since(Time::START).as_secs_f64(),
            work,
            drops,
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
