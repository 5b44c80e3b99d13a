//! How nodes become members, say where they are, and leave.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_api::{JoinRequest, Role, RoundTrip, SelfUpdate, checked_name};

use super::{Change, Decision, Digest, Network, Node, Refusal, Table, Token};
use crate::controller::limits::{
    ADDRESSES_MAX, CLOCK_DIFFERENCE_MAX, NEARER_DIVISOR, NEARER_MICROSECONDS, NODES_MAX, RELAYS_MAX,
    ROUND_TRIP_MICROSECONDS_MAX,
};

/// A node whose proof of having its key's secret was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identified<'a> {
    /// What it asked for.
    pub(crate) request: &'a JoinRequest,
    /// The secret of its token.
    pub(crate) token: &'a [u8],
    /// Its public key.
    pub(crate) key: Digest,
}

impl Network {
    /// A node joins, or joins again with the key that it had. From now on it shows a bearer secret with this digest.
    pub(crate) fn join(
        &self,
        node: Identified<'_>,
        bearer: Digest,
        now_unix_seconds: u64,
    ) -> Result<Decision<Node>, Refusal> {
        let request = node.request;
        check_clock(request.unix_seconds, now_unix_seconds)?;
        let token = self.token(node.token, request.role, now_unix_seconds)?;
        check_join(request)?;
        let known = self.nodes().find(|known| known.key == node.key);
        match known {
            Some(known) => self.join_again(known, token, request, bearer),
            None => self.join_anew(node, token, bearer),
        }
    }

    fn join_anew(
        &self,
        node: Identified<'_>,
        token: &Token,
        bearer: Digest,
    ) -> Result<Decision<Node>, Refusal> {
        let request = node.request;
        let mut token = token.clone();
        if token.uses_left == Some(0) {
            return Err(Refusal::TokenUsedUp { role: request.role });
        }
        self.check_room(request.role)?;
        self.check_quota(Table::Agents, token.tenant)?;
        self.check_name(request.role, token.tenant, &request.name, None)?;
        token.uses_left = token.uses_left.map(|uses| uses - 1);
        let mut counters = self.counters;
        let node = Node {
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
        };
        counters.node += 1;
        let changes =
            vec![Change::Counters(counters), Change::Token(token), Change::Node(Box::new(node.clone()))];
        Ok(Decision { answer: node, changes })
    }

    /// A node that lost its bearer secret or never got it, or whose name, addresses or shards are others now. It
    /// takes no use of the token it joined with.
    fn join_again(
        &self,
        known: &Node,
        token: &Token,
        request: &JoinRequest,
        bearer: Digest,
    ) -> Result<Decision<Node>, Refusal> {
        if known.role != token.role || known.tenant != token.tenant {
            let (number, role, name) = (known.number, known.role, known.name.clone());
            return Err(Refusal::KeyRegistered { number, role, name });
        }
        if token.uses_left == Some(0) && known.token != token.number {
            return Err(Refusal::TokenUsedUp { role: request.role });
        }
        self.check_name(known.role, known.tenant, &request.name, Some(known.number))?;
        let node = Node {
            name: request.name.clone(),
            addresses: request.addresses.clone(),
            shards: request.shards,
            bearer,
            ..known.clone()
        };
        Ok(Decision { changes: vec![Change::Node(Box::new(node.clone()))], answer: node })
    }

    fn check_room(&self, role: Role) -> Result<(), Refusal> {
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
        let is_namesake = |node: &&Node| node.role == role && node.tenant == tenant && node.name == name;
        match self.nodes().find(is_namesake) {
            Some(other) if Some(other.number) != own => {
                Err(Refusal::NameTaken { name: name.to_owned(), number: other.number })
            }
            _ => Ok(()),
        }
    }

    /// The member that shows this bearer secret: its number, a dot, and what it was given when it joined.
    pub(crate) fn member(&self, bearer: &str) -> Result<&Node, Refusal> {
        let (number, secret) = bearer.split_once('.').ok_or(Refusal::NotAMember)?;
        let node = number.parse().ok().and_then(|number| self.node(number));
        node.filter(|node| node.bearer.is_of(secret.as_bytes())).ok_or(Refusal::NotAMember)
    }

    /// A member says something new of itself.
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
            node.round_trips = self.believed(round_trips);
            node.nearest = nearest(&node);
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

    /// What is kept of reported round trips: those to relays there are.
    fn believed(&self, round_trips: &[RoundTrip]) -> BTreeMap<u32, u64> {
        let is_relay = |number: u32| self.node(number).is_some_and(|node| node.role == Role::Relay);
        let known = round_trips.iter().filter(|trip| is_relay(trip.relay));
        known.map(|trip| (trip.relay, trip.microseconds.min(ROUND_TRIP_MICROSECONDS_MAX))).collect()
    }

    /// A member leaves, or is removed, and its pairs with it.
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

/// The relay with the shortest round trip: another than before only if it is nearer by more than jitter.
fn nearest(node: &Node) -> Option<u32> {
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
        return Err(Refusal::ClockOff { node, controller });
    }
    Ok(())
}

fn check_join(request: &JoinRequest) -> Result<(), Refusal> {
    checked_name(&request.name)?;
    check_addresses(&request.addresses)?;
    let shards_max = match request.role {
        Role::Agent => 1,
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
