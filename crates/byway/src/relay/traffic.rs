//! Bytes that a shard of a relay receives and sends, by destination, as providers bill them, and by
//! tenant.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_proto::conventions::ip_bytes;
use byway_proto::relay::{PeerRelay, TenantTraffic};
use byway_units::{Bytes, RelayId};
use byway_wire::TenantId;

/// Bytes that are charged to each tenant.
pub(super) type TenantCharges = BTreeMap<TenantId, TenantTraffic>;

/// Adds bytes that are charged to tenants.
pub(super) fn add_charges(all: &mut TenantCharges, more: &TenantCharges) {
    for (tenant, traffic) in more {
        all.entry(*tenant).or_default().add(*traffic);
    }
}

/// IP bytes that a shard, or all shards together, received and sent since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrafficBytes {
    pub(super) received: Bytes,
    /// Bytes sent to agents (`None`), and to each other relay.
    pub(super) sent: BTreeMap<Option<RelayId>, Bytes>,
    /// Bytes charged to tenants, without headers.
    pub(super) tenants: TenantCharges,
}

impl TrafficBytes {
    pub(super) fn add(&mut self, other: &Self) {
        self.received = self.received.saturating_add(other.received);
        for (to, bytes) in &other.sent {
            let known = self.sent.entry(*to).or_default();
            *known = known.saturating_add(*bytes);
        }
        add_charges(&mut self.tenants, &other.tenants);
    }

    /// Returns the bytes that were added since earlier counts.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let more = |(to, bytes): (&Option<RelayId>, &Bytes)| {
            let before = earlier.sent.get(to).copied().unwrap_or_default();
            (*to, bytes.saturating_sub(before))
        };
        let charged_since = |(tenant, traffic): (&TenantId, &TenantTraffic)| {
            let before = earlier.tenants.get(tenant).copied().unwrap_or_default();
            (*tenant, traffic.since(before))
        };
        Self {
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.iter().map(more).collect(),
            tenants: self.tenants.iter().map(charged_since).collect(),
        }
    }
}

/// Counter of a shard's bytes.
#[derive(Debug, Default)]
pub(super) struct TrafficCounter {
    received: Bytes,
    to_agents: Bytes,
    /// Bytes to other relays, by the index in `relays`.
    to_relays: Vec<(RelayId, Bytes)>,
    /// Indices of `to_relays` by the relay's address.
    addresses: BTreeMap<SocketAddr, usize>,
}

impl TrafficCounter {
    /// Replaces the other relays. Bytes to former ones stay counted.
    pub(super) fn set_relays<'a>(&mut self, relays: impl Iterator<Item = &'a PeerRelay>) {
        self.addresses.clear();
        for relay in relays {
            let known = self.to_relays.iter().position(|(number, _)| *number == relay.number);
            let index = known.unwrap_or_else(|| {
                self.to_relays.push((relay.number, Bytes::ZERO));
                self.to_relays.len() - 1
            });
            self.addresses.insert(relay.address, index);
        }
    }

    pub(super) fn count_received(&mut self, from: SocketAddr, payload: &[u8]) {
        self.received = self.received.saturating_add(ip_bytes(payload, from));
    }

    pub(super) fn count_sent(&mut self, to: SocketAddr, payload: &[u8]) {
        let bytes = match self.addresses.get(&to) {
            Some(index) => &mut self.to_relays[*index].1,
            None => &mut self.to_agents,
        };
        *bytes = bytes.saturating_add(ip_bytes(payload, to));
    }

    /// Returns the name and value of each counter, for status and metrics.
    pub(super) fn by_name(&self) -> [(&'static str, u64); 3] {
        let to_relays = self.to_relays.iter().map(|(_, bytes)| bytes.count());
        [
            ("received_bytes", self.received.count()),
            ("sent_to_agents_bytes", self.to_agents.count()),
            ("sent_to_relays_bytes", to_relays.fold(0, u64::saturating_add)),
        ]
    }

    /// Returns all bytes, with those that the shard has charged to tenants.
    pub(super) fn bytes(&self, tenants: TenantCharges) -> TrafficBytes {
        let to_relays = self.to_relays.iter().map(|(relay, bytes)| (Some(*relay), *bytes));
        let sent = to_relays.chain([(None, self.to_agents)]);
        let sent = sent.filter(|(_, bytes)| !bytes.is_zero()).collect();
        TrafficBytes { received: self.received, sent, tenants }
    }
}

#[cfg(test)]
mod tests {
    use byway_wire::Shard;
    use byway_wire::seal::PublicKey;

    use super::*;

    fn relay(number: u32, address: &str) -> PeerRelay {
        PeerRelay {
            number: RelayId::new(number),
            shard: Shard::new(0),
            key: "1".repeat(64).parse::<PublicKey>().expect("a key"),
            address: address.parse().expect("an address"),
        }
    }

    #[test]
    fn bytes_count_with_their_headers_by_relay_and_for_all_agents_together() {
        let mut counter = TrafficCounter::default();
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        counter.set_relays([relay(7, "192.0.2.7:4600"), relay(8, "[2001:db8::8]:4600")].iter());
        counter.count_sent(address("192.0.2.7:4600"), &[0; 100]);
        counter.count_sent(address("[2001:db8::8]:4600"), &[0; 100]);
        counter.count_sent(address("192.0.2.9:1"), &[0; 100]);
        counter.count_sent(address("192.0.2.10:1"), &[0; 100]);
        counter.count_received(address("192.0.2.7:4600"), &[0; 10]);
        let charges = |sent| TenantCharges::from([(TenantId::new(1), TenantTraffic { sent, returned: 4 })]);
        let before = counter.bytes(charges(100));
        let sent = |bytes: &TrafficBytes| -> Vec<_> {
            bytes.sent.iter().map(|(to, bytes)| (to.map(RelayId::number), bytes.count())).collect()
        };
        assert_eq!(sent(&before), [(None, 256), (Some(7), 128), (Some(8), 148)]);
        assert_eq!(before.received.count(), 38);
        // Relay 8 leaves the map, and its address may become an agent's.
        counter.set_relays([relay(7, "192.0.2.70:4600")].iter());
        counter.count_sent(address("[2001:db8::8]:4600"), &[0; 52]);
        counter.count_sent(address("192.0.2.70:4600"), &[0; 72]);
        let added = counter.bytes(charges(170)).since(&before);
        assert_eq!(sent(&added), [(None, 100), (Some(7), 100), (Some(8), 0)]);
        let tenants_of = |bytes: &TrafficBytes| -> Vec<_> {
            bytes.tenants.values().map(|traffic| (traffic.sent, traffic.returned)).collect()
        };
        assert_eq!(tenants_of(&added), [(70, 0)]);
        let named = counter.by_name();
        assert_eq!(named.map(|(_, bytes)| bytes), [38, 356, 376]);
        let mut all = before;
        all.add(&added);
        assert_eq!(all, counter.bytes(charges(170)));
    }
}
