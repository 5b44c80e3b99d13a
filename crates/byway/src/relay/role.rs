//! One shard of a relay in its thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use byway_api::{NetworkMap, RelayEntry, UplinkClass, UplinkStatus};
use byway_net::{Arrival, Io, Role, SocketId};
use byway_proto::relay::{OtherRelay, Relay, RelayInput, UplinkSettings, UplinkStatus as CoreUplink};
use byway_sched::Class;
use byway_units::{RelayId, Time};
use byway_wire::Shard;
use byway_wire::seal::PublicKey;
use tokio::sync::oneshot;

use crate::observe::counted::Counts;
use crate::platform;

/// What the rest of the process asks of a shard.
pub(super) enum RelayControl {
    /// The network is this now.
    Map(Arc<NetworkMap>),
    /// How are you?
    Status(oneshot::Sender<ShardStatus>),
    /// Promise this of the uplink from now on.
    Uplink(Option<UplinkSettings>),
    /// Stop.
    Close,
}

/// What a shard says of itself.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardStatus {
    pub(super) sessions: u64,
    pub(super) held_bytes: u64,
    pub(super) uplink: Option<UplinkStatus>,
    pub(super) counts: Counts,
}

impl ShardStatus {
    /// Adds another shard.
    pub(super) fn add(&mut self, shard: &Self) {
        self.sessions += shard.sessions;
        self.held_bytes += shard.held_bytes;
        if let Some(uplink) = &shard.uplink {
            add_uplink(self.uplink.get_or_insert_default(), uplink);
        }
        self.counts.add_all(&shard.counts);
    }
}

fn add_uplink(all: &mut UplinkStatus, shard: &UplinkStatus) {
    let add = |all: &mut UplinkClass, shard: &UplinkClass| {
        all.flows += shard.flows;
        all.rate_bits_per_second += shard.rate_bits_per_second;
        all.waiting_bytes += shard.waiting_bytes;
        all.room_bytes += shard.room_bytes;
    };
    all.rate_bits_per_second += shard.rate_bits_per_second;
    all.delay_ms = all.delay_ms.max(shard.delay_ms);
    add(&mut all.high_rate, &shard.high_rate);
    add(&mut all.low_delay, &shard.low_delay);
}

/// What a shard says of its uplink.
#[allow(clippy::cast_precision_loss, reason = "microseconds of a queue are far below 2^53")]
fn uplink_status(status: &CoreUplink) -> UplinkStatus {
    let CoreUplink { rate, queue, .. } = status;
    let class = |class: Class| {
        let place = class as usize;
        UplinkClass {
            flows: u64::from(queue.flows[place]),
            rate_bits_per_second: queue.allotment.rates[place].bits_per_second(),
            waiting_bytes: queue.backlog[place].count(),
            room_bytes: queue.allotment.room[place].count(),
        }
    };
    UplinkStatus {
        rate_bits_per_second: rate.bits_per_second(),
        delay_ms: queue.allotment.delay.as_micros() as f64 / 1_000.0,
        high_rate: class(Class::HighRate),
        low_delay: class(Class::LowDelay),
    }
}

/// The other relays of a map.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    /// The shards of those that the sockets reach.
    pub(super) met: Vec<OtherRelay>,
    /// Why the rest is not met, by name.
    unmet: BTreeMap<String, String>,
}

impl Others {
    /// Those that are another relay's than the one that listens there.
    pub(super) fn of(map: &NetworkMap, own: RelayId, listen: &[SocketAddr]) -> Self {
        let mut others = Self::default();
        for relay in map.relays.iter().filter(|relay| relay.number != own.number()) {
            match reach(relay, listen) {
                Ok((address, key)) => others.met.extend(shards(relay, address, key)),
                Err(problem) => drop(others.unmet.insert(relay.name.clone(), problem)),
            }
        }
        others
    }

    /// Tells people of relays that are not met and of which they do not know it.
    fn warn(&self, known: &BTreeMap<String, String>) {
        for (relay, problem) in
            self.unmet.iter().filter(|(relay, problem)| known.get(*relay) != Some(problem))
        {
            tracing::warn!(relay, "no way leads on to a relay of the map: {problem}");
        }
    }
}

fn shards(relay: &RelayEntry, address: SocketAddr, key: PublicKey) -> impl Iterator<Item = OtherRelay> {
    let number = RelayId::new(relay.number);
    let shards = u8::try_from(relay.shards).unwrap_or(u8::MAX);
    (0..shards).map(move |shard| OtherRelay { number, shard: Shard::new(shard), key, address })
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
    /// Whether it speaks for all shards where they would say the same.
    is_speaker: bool,
    /// The other relays that it was told of.
    others: BTreeMap<(RelayId, Shard), OtherRelay>,
    unmet: BTreeMap<String, String>,
    is_closed: bool,
}

impl RelayRole {
    pub(super) fn new(relay: Relay, number: RelayId, shard: Shard, others: Others) -> Self {
        let is_speaker = shard == Shard::new(0);
        let none = BTreeMap::new();
        if is_speaker {
            others.warn(&none);
        }
        let Others { met, unmet } = others;
        Self { relay: Box::new(relay), number, is_speaker, others: by_place(met), unmet, is_closed: false }
    }

    fn drain(&mut self, io: &mut Io) {
        while let Some(transmit) = self.relay.poll() {
            io.send(SocketId::OVERLAY, &transmit);
        }
    }

    /// The network is this now: relays come, go and move.
    fn take_map(&mut self, map: &NetworkMap, io: &mut Io) {
        let listen: Vec<SocketAddr> = io.overlay_addresses().collect();
        let others = Others::of(map, self.number, &listen);
        if self.is_speaker {
            others.warn(&self.unmet);
        }
        self.unmet = others.unmet;
        let named = by_place(others.met);
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
        counts.add_work(self.relay.work().by_name());
        if let Some(uplink) = self.relay.uplink_counters() {
            counts.add_uplink(uplink);
        }
        counts.add_node(self.relay.session_counters(), io.counters());
        ShardStatus {
            sessions: self.relay.sessions() as u64,
            held_bytes: self.relay.memory_held().count(),
            uplink: self.relay.uplink_status().as_ref().map(uplink_status),
            counts,
        }
    }
}

fn by_place(relays: Vec<OtherRelay>) -> BTreeMap<(RelayId, Shard), OtherRelay> {
    relays.into_iter().map(|relay| ((relay.number, relay.shard), relay)).collect()
}

impl Role for RelayRole {
    type Control = RelayControl;

    fn start(&mut self, io: &mut Io) {
        self.drain(io);
    }

    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        let Arrival { from, to, traffic_class, bytes, .. } = arrival;
        let ecn = traffic_class.ecn();
        self.relay.handle(RelayInput::Received { from, to, ecn, bytes }, io.now());
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
        RelayEntry { number: 7, name: "west".to_owned(), key: key.to_owned(), addresses, shards: 2 }
    }

    #[test]
    fn another_relay_is_met_in_a_family_that_this_one_speaks_at_all_its_shards() {
        let (key, listen) = ("1".repeat(64), ["0.0.0.0:4600".parse().expect("an address")]);
        let map = NetworkMap {
            relays: vec![relay(&["[2001:db8::7]:4600", "192.0.2.7:4600"], &key)],
            ..NetworkMap::default()
        };
        let others = Others::of(&map, RelayId::new(1), &listen).met;
        let places: Vec<_> = others.iter().map(|other| (other.shard, other.address.to_string())).collect();
        let place = |shard| (Shard::new(shard), "192.0.2.7:4600".to_owned());
        assert_eq!(places, [place(0), place(1)]);
        assert!(Others::of(&map, RelayId::new(7), &listen).met.is_empty(), "that is itself");
    }

    #[test]
    fn the_uplinks_of_shards_are_added_up() {
        let class = |flows| UplinkClass { flows, waiting_bytes: 10 * flows, ..UplinkClass::default() };
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
    fn why_another_relay_is_not_met_is_said() {
        let listen = ["0.0.0.0:4600".parse().expect("an address")];
        let problem = |relay: &RelayEntry| reach(relay, &listen).expect_err("it cannot be met");
        let no_address = problem(&relay(&["[2001:db8::7]:4600"], &"1".repeat(64)));
        assert!(no_address.contains("2001:db8::7") && no_address.contains("both IPv6"), "{no_address}");
        let no_key = problem(&relay(&["192.0.2.7:4600"], "none"));
        assert!(no_key.starts_with("its key is none"), "{no_key}");
    }
}
