//! Driver of one shard of a relay, in a thread of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{NetworkMap, RelayEntry, RelayRoute, UplinkClass, UplinkStatus};
use byway_net::{Arrival, Io, Role, SocketId};
use byway_proto::relay::{
    PeerRelay, Relay, RelayInput, TransitRouteStatus, UplinkSettings, UplinkStatus as CoreUplink,
};
use byway_sched::Class;
use byway_units::{Duration, RelayId, Time};
use byway_wire::seal::PublicKey;
use byway_wire::{Microseconds, Shard};
use tokio::sync::oneshot;

use super::traffic::{TrafficBytes, TrafficCounter};
use crate::observe::counters::Counts;
use crate::platform;

/// Control message from the rest of the process to a shard's thread.
pub(super) enum RelayControl {
    /// Apply a newer map of the network.
    Map(Arc<NetworkMap>),
    /// Return the shard's status to the main thread.
    Status(oneshot::Sender<ShardStatus>),
    /// Return the bytes that the shard has received and sent.
    Traffic(oneshot::Sender<TrafficBytes>),
    /// Set the configuration of the uplink; `None` for no uplink.
    Uplink(Option<UplinkSettings>),
    /// End the shard's thread.
    Close,
}

/// Status of one shard, or the sum of several.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardStatus {
    pub(super) sessions: u64,
    pub(super) buffered_bytes: u64,
    pub(super) uplink: Option<UplinkStatus>,
    /// Routes of packets to other relays through third ones.
    pub(super) routes: Vec<RelayRoute>,
    pub(super) counts: Counts,
}

impl ShardStatus {
    /// Adds the status of another shard to this one.
    pub(super) fn add(&mut self, shard: &Self) {
        self.sessions += shard.sessions;
        self.buffered_bytes += shard.buffered_bytes;
        if let Some(uplink) = &shard.uplink {
            add_uplink(self.uplink.get_or_insert_default(), uplink);
        }
        for route in &shard.routes {
            add_route(&mut self.routes, route);
        }
        self.counts.add_all(&shard.counts);
    }
}

/// Adds a shard's route to those of other shards.
fn add_route(all: &mut Vec<RelayRoute>, route: &RelayRoute) {
    let is_same = |known: &&mut RelayRoute| known.to == route.to && known.through == route.through;
    match all.iter_mut().find(is_same) {
        Some(known) => {
            known.delay_ms = known.delay_ms.max(route.delay_ms);
            known.direct_delay_ms = known.direct_delay_ms.max(route.direct_delay_ms);
        }
        None => all.push(route.clone()),
    }
}

fn add_uplink(all: &mut UplinkStatus, shard: &UplinkStatus) {
    let add = |all: &mut UplinkClass, shard: &UplinkClass| {
        all.flows += shard.flows;
        all.rate_bits_per_second += shard.rate_bits_per_second;
        all.backlog_bytes += shard.backlog_bytes;
        all.buffer_bytes += shard.buffer_bytes;
    };
    all.rate_bits_per_second += shard.rate_bits_per_second;
    all.delay_ms = all.delay_ms.max(shard.delay_ms);
    add(&mut all.high_rate, &shard.high_rate);
    add(&mut all.low_delay, &shard.low_delay);
}

/// Converts a shard's uplink state into the form of the status.
#[allow(clippy::cast_precision_loss, reason = "microseconds of a queue are far below 2^53")]
fn uplink_status(status: &CoreUplink) -> UplinkStatus {
    let CoreUplink { rate, queue, .. } = status;
    let class = |class: Class| {
        let index = class as usize;
        UplinkClass {
            flows: u64::from(queue.flows[index]),
            rate_bits_per_second: queue.share.rates[index].bits_per_second(),
            backlog_bytes: queue.backlog[index].count(),
            buffer_bytes: queue.share.buffers[index].count(),
        }
    };
    UplinkStatus {
        rate_bits_per_second: rate.bits_per_second(),
        delay_ms: queue.share.delay.as_micros() as f64 / 1_000.0,
        high_rate: class(Class::HighRate),
        low_delay: class(Class::LowDelay),
    }
}

/// Other relays of a map, as this relay can reach them.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerRelays {
    /// Shards of those relays that this relay's sockets can send to.
    pub(super) reachable: Vec<PeerRelay>,
    /// Reasons why the other relays are unreachable, by the relay's name.
    unreachable: BTreeMap<String, String>,
    /// Names of all relays.
    names: BTreeMap<RelayId, String>,
}

impl PeerRelays {
    /// Returns the relays of a map, except this one (`own`). `listen` are the addresses of this
    /// relay's sockets.
    pub(super) fn from_map(map: &NetworkMap, own: RelayId, listen: &[SocketAddr]) -> Self {
        let names = map.relays.iter().map(|relay| (RelayId::new(relay.number), relay.name.clone()));
        let mut others = Self { names: names.collect(), ..Self::default() };
        for relay in map.relays.iter().filter(|relay| relay.number != own.number()) {
            match resolve(relay, listen) {
                Ok((address, key)) => others.reachable.extend(shards(relay, address, key)),
                Err(problem) => drop(others.unreachable.insert(relay.name.clone(), problem)),
            }
        }
        others
    }

    /// Logs the problems with unreachable relays that are not among the `known` ones.
    fn warn(&self, known: &BTreeMap<String, String>) {
        for (relay, problem) in
            self.unreachable.iter().filter(|(relay, problem)| known.get(*relay) != Some(problem))
        {
            tracing::warn!(relay, "no route to a relay of the map: {problem}");
        }
    }
}

fn shards(relay: &RelayEntry, address: SocketAddr, key: PublicKey) -> impl Iterator<Item = PeerRelay> {
    let number = RelayId::new(relay.number);
    let shards = u8::try_from(relay.shards).unwrap_or(u8::MAX);
    (0..shards).map(move |shard| PeerRelay { number, shard: Shard::new(shard), key, address })
}

/// Returns another relay's address and key. The error describes the problem and its remedy.
fn resolve(relay: &RelayEntry, listen: &[SocketAddr]) -> Result<(SocketAddr, PublicKey), String> {
    let is_reached = |address: &&SocketAddr| listen.iter().any(|own| own.is_ipv4() == address.is_ipv4());
    let address = relay.addresses.iter().find(is_reached).ok_or_else(|| {
        let (there, here) = (&relay.addresses, listen);
        format!("it listens on {there:?}, and this relay on {here:?}: let both support IPv4, or both IPv6")
    })?;
    let key = relay.key.parse::<PublicKey>().map_err(|error| format!("its key is invalid ({error})"))?;
    Ok((*address, key))
}

/// Driver of one shard of a relay: its state machine, and the other relays that it knows.
pub(super) struct RelayDriver {
    relay: Box<Relay>,
    number: RelayId,
    /// True for shard 0, which alone logs problems that all shards have.
    is_primary_shard: bool,
    /// Shards of the other relays on the latest map that are reachable.
    others: BTreeMap<(RelayId, Shard), PeerRelay>,
    unreachable: BTreeMap<String, String>,
    /// Names of the relays on the latest map.
    names: BTreeMap<RelayId, String>,
    traffic: TrafficCounter,
    is_closed: bool,
}

impl RelayDriver {
    pub(super) fn new(relay: Relay, number: RelayId, shard: Shard, others: PeerRelays) -> Self {
        let is_primary_shard = shard == Shard::new(0);
        let none = BTreeMap::new();
        if is_primary_shard {
            others.warn(&none);
        }
        let PeerRelays { reachable, unreachable, names } = others;
        let mut traffic = TrafficCounter::default();
        traffic.set_relays(reachable.iter());
        Self {
            relay: Box::new(relay),
            number,
            is_primary_shard,
            others: by_shard(reachable),
            unreachable,
            names,
            traffic,
            is_closed: false,
        }
    }

    fn drain(&mut self, io: &mut Io) {
        while let Some(transmit) = self.relay.poll() {
            self.traffic.count_sent(transmit.to, transmit.bytes);
            io.send(SocketId::OVERLAY, &transmit);
        }
    }

    /// Applies a newer map: adds or moves its relays, and removes the ones that it no longer lists.
    fn on_map(&mut self, map: &NetworkMap, io: &mut Io) {
        let listen: Vec<SocketAddr> = io.overlay_addresses().collect();
        let others = PeerRelays::from_map(map, self.number, &listen);
        if self.is_primary_shard {
            others.warn(&self.unreachable);
        }
        (self.unreachable, self.names) = (others.unreachable, others.names);
        let on_map = by_shard(others.reachable);
        for (number, shard) in self.others.keys().filter(|shard_id| !on_map.contains_key(shard_id)) {
            self.relay.remove_relay(*number, *shard, io.now());
        }
        for other in on_map.values() {
            self.relay.add_relay(other, io.now());
        }
        self.traffic.set_relays(on_map.values());
        self.others = on_map;
    }

    fn status(&self, io: &Io) -> ShardStatus {
        let (ingress, egress) = (self.relay.ingress_counters(), self.relay.egress_counters());
        let mut counts = Counts::of_relay(self.relay.counters(), ingress, egress);
        counts.add_work(self.relay.work().by_name());
        if let Some(uplink) = self.relay.uplink_counters() {
            counts.add_uplink(uplink);
        }
        counts.add_node(self.relay.session_counters(), io.counters());
        counts.add_traffic(self.traffic.by_name().into_iter());
        let mut routes = Vec::new();
        for route in self.relay.transit_routes() {
            add_route(&mut routes, &self.route(&route));
        }
        ShardStatus {
            sessions: self.relay.sessions() as u64,
            buffered_bytes: self.relay.memory_bytes().count(),
            uplink: self.relay.uplink_status().as_ref().map(uplink_status),
            routes,
            counts,
        }
    }

    /// Converts a route into the form of the status.
    fn route(&self, route: &TransitRouteStatus) -> RelayRoute {
        let name = |(relay, _): (RelayId, Shard)| {
            self.names.get(&relay).cloned().unwrap_or_else(|| relay.number().to_string())
        };
        RelayRoute {
            to: name(route.to),
            through: name(route.through),
            delay_ms: millis(route.delay),
            direct_delay_ms: millis(route.direct_delay),
        }
    }
}

fn millis(delay: Duration) -> f64 {
    f64::from(Microseconds::from_duration(delay).count()) / 1_000.0
}

fn by_shard(relays: Vec<PeerRelay>) -> BTreeMap<(RelayId, Shard), PeerRelay> {
    relays.into_iter().map(|relay| ((relay.number, relay.shard), relay)).collect()
}

impl Role for RelayDriver {
    type Control = RelayControl;

    fn start(&mut self, io: &mut Io) {
        self.drain(io);
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { from, to, traffic_class, bytes, .. } = arrival;
        let ecn = traffic_class.ecn();
        self.traffic.count_received(from, bytes);
        self.relay.handle(RelayInput::Received { from, to, ecn, bytes }, io.now());
        self.drain(io);
    }

    fn on_deadline(&mut self, io: &mut Io) {
        self.relay.handle(RelayInput::Deadline, io.now());
        self.drain(io);
    }

    fn on_control(&mut self, control: RelayControl, io: &mut Io) {
        match control {
            RelayControl::Map(map) => self.on_map(&map, io),
            // The receiver may have been dropped.
            RelayControl::Status(answer) => drop(answer.send(self.status(io))),
            RelayControl::Traffic(answer) => {
                drop(answer.send(self.traffic.bytes(self.relay.tenant_traffic())));
            }
            RelayControl::Uplink(uplink) => {
                self.relay.set_uplink(uplink, &platform::random_bytes(), io.now());
            }
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
        RelayEntry {
            number: 7,
            name: "west".to_owned(),
            key: key.to_owned(),
            addresses,
            shards: 2,
            prices: None,
        }
    }

    #[test]
    fn another_relay_is_met_in_a_family_that_this_one_speaks_at_all_its_shards() {
        let (key, listen) = ("1".repeat(64), ["0.0.0.0:4600".parse().expect("an address")]);
        let map = NetworkMap {
            relays: vec![relay(&["[2001:db8::7]:4600", "192.0.2.7:4600"], &key)],
            ..NetworkMap::default()
        };
        let others = PeerRelays::from_map(&map, RelayId::new(1), &listen).reachable;
        let shards: Vec<_> = others.iter().map(|other| (other.shard, other.address.to_string())).collect();
        let shard_at = |shard| (Shard::new(shard), "192.0.2.7:4600".to_owned());
        assert_eq!(shards, [shard_at(0), shard_at(1)]);
        assert!(PeerRelays::from_map(&map, RelayId::new(7), &listen).reachable.is_empty(), "that is itself");
    }

    #[test]
    fn the_uplinks_of_shards_are_added_up() {
        let class = |flows| UplinkClass { flows, backlog_bytes: 10 * flows, ..UplinkClass::default() };
        let shard = |flows, delay_ms| {
            let (high_rate, low_delay) = (class(flows), class(2 * flows));
            let uplink = Some(UplinkStatus { rate_bits_per_second: 500, delay_ms, high_rate, low_delay });
            ShardStatus { uplink, ..ShardStatus::default() }
        };
        let mut all = ShardStatus::default();
        all.add(&shard(1, 10.0));
        all.add(&shard(2, 12.0));
        assert_eq!(
            all.uplink,
            Some(UplinkStatus { rate_bits_per_second: 1_000, ..shard(3, 12.0).uplink.expect("one") })
        );
    }

    #[test]
    fn shards_with_the_same_route_are_one_in_the_status() {
        let route = |to: &str, delay_ms, direct_delay_ms| RelayRoute {
            to: to.to_owned(),
            through: "fra".to_owned(),
            delay_ms,
            direct_delay_ms,
        };
        let mut all = ShardStatus::default();
        for routes in
            [vec![route("nrt", 40.0, 100.0)], vec![route("nrt", 41.0, 99.0), route("sfo", 7.0, 30.0)]]
        {
            all.add(&ShardStatus { routes, ..ShardStatus::default() });
        }
        assert_eq!(all.routes, [route("nrt", 41.0, 100.0), route("sfo", 7.0, 30.0)]);
        assert_eq!(millis(Duration::from_micros(40_250)).to_string(), "40.25");
    }

    #[test]
    fn why_another_relay_is_not_met_is_said() {
        let listen = ["0.0.0.0:4600".parse().expect("an address")];
        let problem = |relay: &RelayEntry| resolve(relay, &listen).expect_err("it cannot be met");
        let no_address = problem(&relay(&["[2001:db8::7]:4600"], &"1".repeat(64)));
        assert!(no_address.contains("2001:db8::7") && no_address.contains("both IPv6"), "{no_address}");
        let no_key = problem(&relay(&["192.0.2.7:4600"], "none"));
        assert!(no_key.starts_with("its key is invalid"), "{no_key}");
    }
}
