//! Decisions about nodes that join, update their records, or leave.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_api::{JoinRequest, Role, RoundTrip, SelfUpdate, checked_name};

use super::{Change, Decision, Digest, Network, NodeRecord, Refusal, Table, Token};
use crate::controller::limits::{
    ADDRESSES_MAX, CLOCK_DIFFERENCE_MAX, NEARER_DIVISOR, NEARER_MICROSECONDS, NODES_MAX, RELAYS_MAX,
    ROUND_TRIP_MICROSECONDS_MAX,
};

/// Node that asks to join, and has proved that it has the secret of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerifiedNode<'a> {
    /// The node's request to join.
    pub(crate) request: &'a JoinRequest,
    /// Secret of the token that the node presents.
    pub(crate) token: &'a [u8],
    /// X25519 public key of the node.
    pub(crate) key: Digest,
}

impl Network {
    /// Decides whether a node may join, or join again with the same key. From then on, the node
    /// authenticates with the bearer secret of the digest `bearer`.
    pub(crate) fn join(
        &self,
        node: VerifiedNode<'_>,
        bearer: Digest,
        now_unix_seconds: u64,
    ) -> Result<Decision<NodeRecord>, Refusal> {
        let request = node.request;
        if request.role == Role::Application {
            return Err(Refusal::ApplicationJoins);
        }
        check_clock(request.unix_seconds, now_unix_seconds)?;
        let token = self.token(node.token, request.role, now_unix_seconds)?;
        check_join(request)?;
        let known = self.nodes().find(|known| known.key == node.key);
        match known {
            Some(known) => self.rejoin(known, token, request, bearer),
            None => self.join_new(node, token, bearer),
        }
    }

    fn join_new(
        &self,
        node: VerifiedNode<'_>,
        token: &Token,
        bearer: Digest,
    ) -> Result<Decision<NodeRecord>, Refusal> {
        let request = node.request;
        let mut token = token.clone();
        if token.uses_left == Some(0) {
            return Err(Refusal::TokenUsedUp { role: request.role });
        }
        self.check_capacity(request.role)?;
        self.check_quota(Table::Agents, token.tenant)?;
        self.check_name(request.role, token.tenant, &request.name, None)?;
        token.uses_left = token.uses_left.map(|uses| uses - 1);
        let mut counters = self.counters;
        let node = NodeRecord {
            number: counters.node,
            role: request.role,
            tenant: token.tenant,
            name: request.name.clone(),
            key: node.key,
            addresses: request.addresses.clone(),
            shards: request.shards,
            bearer,
            token: token.number,
            round_trips: BTreeMap::new(),
            nearest: None,
            relay: None,
            transit: false,
        };
        counters.node += 1;
        let changes =
            vec![Change::Counters(counters), Change::Token(token), Change::Node(Box::new(node.clone()))];
        Ok(Decision { answer: node, changes })
    }

    /// Decides whether a member may join again: because it lost its bearer secret, or has a new
    /// name, new addresses or new shards. Its token does not lose a use.
    fn rejoin(
        &self,
        known: &NodeRecord,
        token: &Token,
        request: &JoinRequest,
        bearer: Digest,
    ) -> Result<Decision<NodeRecord>, Refusal> {
        if known.role != token.role || known.tenant != token.tenant {
            let (number, role, name) = (known.number, known.role, known.name.clone());
            return Err(Refusal::KeyRegistered { number, role, name });
        }
        if token.uses_left == Some(0) && known.token != token.number {
            return Err(Refusal::TokenUsedUp { role: request.role });
        }
        self.check_name(known.role, known.tenant, &request.name, Some(known.number))?;
        let node = NodeRecord {
            name: request.name.clone(),
            addresses: request.addresses.clone(),
            shards: request.shards,
            bearer,
            ..known.clone()
        };
        Ok(Decision { changes: vec![Change::Node(Box::new(node.clone()))], answer: node })
    }

    fn check_capacity(&self, role: Role) -> Result<(), Refusal> {
        if self.nodes.len() >= NODES_MAX || self.counters.node > byway_wire::limits::AGENT_NUMBER_MAX {
            return Err(Refusal::TooManyNodes);
        }
        if role == Role::Relay && self.count(Role::Relay) >= RELAYS_MAX {
            return Err(Refusal::TooManyRelays);
        }
        Ok(())
    }

    fn check_name(
        &self,
        role: Role,
        tenant: Option<u32>,
        name: &str,
        own: Option<u32>,
    ) -> Result<(), Refusal> {
        // Settings name the reporter of a link, which is a relay or a link.
        let has_same_names = |other: Role| {
            other == role || [other, role].into_iter().all(|role| matches!(role, Role::Relay | Role::Link))
        };
        let is_namesake =
            |node: &&NodeRecord| has_same_names(node.role) && node.tenant == tenant && node.name == name;
        match self.nodes().find(is_namesake) {
            Some(other) if Some(other.number) != own => {
                Err(Refusal::NameInUse { name: name.to_owned(), number: other.number })
            }
            _ => Ok(()),
        }
    }

    /// Returns the member that `bearer` authenticates. `bearer` is the member's number, a dot, and
    /// the secret that it received when it joined.
    pub(crate) fn member(&self, bearer: &str) -> Result<&NodeRecord, Refusal> {
        let (number, secret) = bearer.split_once('.').ok_or(Refusal::NotAMember)?;
        let node = number.parse().ok().and_then(|number| self.node(number));
        node.filter(|node| node.bearer.is_of(secret.as_bytes())).ok_or(Refusal::NotAMember)
    }

    /// Decides on a member's update of its own record: addresses, preferred relay, round trips, and
    /// whether a relay passes on packets. The decision has no changes if all are as before.
    pub(crate) fn update(&self, number: u32, update: &SelfUpdate) -> Result<Decision<()>, Refusal> {
        let known = self.node(number).ok_or(Refusal::NotAMember)?;
        let mut node = known.clone();
        if let Some(addresses) = &update.addresses {
            check_addresses(addresses)?;
            if node.role == Role::Relay && addresses.is_empty() {
                return Err(Refusal::NoAddress);
            }
            node.addresses.clone_from(addresses);
        }
        if let Some(name) = &update.relay {
            node.relay = self.wanted_relay(name)?;
        }
        if let Some(round_trips) = &update.round_trips {
            node.round_trips = self.known_round_trips(round_trips);
            node.nearest = nearest(&node);
        }
        if let Some(transit) = update.transit {
            node.transit = transit && node.role == Role::Relay;
        }
        if node == *known {
            return Ok(Decision::unchanged(()));
        }
        Ok(Decision { answer: (), changes: vec![Change::Node(Box::new(node))] })
    }

    fn wanted_relay(&self, name: &str) -> Result<Option<String>, Refusal> {
        if name.is_empty() {
            return Ok(None);
        }
        let is_known = self.relays().any(|relay| relay.name == name);
        is_known.then(|| Some(name.to_owned())).ok_or_else(|| Refusal::NoSuchRelay { name: name.to_owned() })
    }

    /// Returns the reported round trips to existing relays, in microseconds, by the relay's number.
    /// Longer ones than [`ROUND_TRIP_MICROSECONDS_MAX`] are lowered to it.
    fn known_round_trips(&self, round_trips: &[RoundTrip]) -> BTreeMap<u32, u64> {
        let is_relay = |number: u32| self.node(number).is_some_and(|node| node.role == Role::Relay);
        let known = round_trips.iter().filter(|trip| is_relay(trip.relay));
        known.map(|trip| (trip.relay, trip.microseconds.min(ROUND_TRIP_MICROSECONDS_MAX))).collect()
    }

    /// Decides on the removal of a member, because it leaves or an administrator removes it. Its
    /// pairs are removed, too.
    pub(crate) fn remove(&self, number: u32) -> Result<Decision<()>, Refusal> {
        if self.node(number).is_none() {
            return Err(Refusal::NotFound { kind: "node", number });
        }
        let pairs = self.pairs.iter().filter(|pair| pair.other(number).is_some());
        let mut changes: Vec<_> = pairs.copied().map(Change::NoPair).collect();
        changes.push(Change::NoNode(number));
        Ok(Decision { answer: (), changes })
    }
}

/// Returns the relay nearest to a node by its round trips. The former nearest relay stays, unless
/// another one is nearer by more than jitter. `None` without round trips.
fn nearest(node: &NodeRecord) -> Option<u32> {
    let (best, best_trip) =
        node.round_trips.iter().map(|(relay, trip)| (*relay, *trip)).min_by_key(|of| of.1)?;
    let known = node.nearest.and_then(|relay| Some((relay, *node.round_trips.get(&relay)?)));
    match known {
        Some((relay, trip)) if trip - best_trip <= trip / NEARER_DIVISOR + NEARER_MICROSECONDS => Some(relay),
        _ => Some(best),
    }
}

fn check_clock(node: u64, controller: u64) -> Result<(), Refusal> {
    if node.abs_diff(controller) > CLOCK_DIFFERENCE_MAX.as_secs() {
        return Err(Refusal::ClockSkew { node, controller });
    }
    Ok(())
}

fn check_join(request: &JoinRequest) -> Result<(), Refusal> {
    checked_name(&request.name)?;
    check_addresses(&request.addresses)?;
    let shards_max = match request.role {
        Role::Agent | Role::Link | Role::Application => 1,
        Role::Relay => 256,
    };
    if !(1..=shards_max).contains(&request.shards) {
        return Err(Refusal::BadShards { shards: request.shards });
    }
    if request.role == Role::Relay && request.addresses.is_empty() {
        return Err(Refusal::NoAddress);
    }
    Ok(())
}

fn check_addresses(addresses: &[SocketAddr]) -> Result<(), Refusal> {
    if addresses.len() > ADDRESSES_MAX {
        return Err(Refusal::TooManyAddresses { count: addresses.len() });
    }
    let is_useless = |address: &&SocketAddr| {
        address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast()
    };
    match addresses.iter().find(is_useless) {
        Some(address) => Err(Refusal::UselessAddress { address: *address }),
        None => Ok(()),
    }
}
