//! What the controller knows of its network, and decides: without files, sockets, clock or randomness of its own.
//!
//! Each request is a question to [`Network`], answered with a [`Decision`]: what the asker is told, and the changes that make
//! it so. The changes are written to the disk first and [applied](Network::apply) then, so that a disk that takes none
//! leaves everything as it was.

mod grants;
mod maps;
mod membership;
mod pairs;
mod plan;
mod quotas;
mod records;
mod refusal;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use byway_api::Role;

pub(crate) use grants::{GrantSettings, Issuer};
pub(crate) use maps::Contents;
pub(crate) use membership::Identified;
pub(crate) use plan::Plan;
pub(crate) use quotas::{Quotas, Table};
pub(crate) use records::{Change, Counters, Digest, Node, Pair, Tenant, Token};
pub(crate) use refusal::Refusal;

/// The tenant of agents whose token names none.
const DEFAULT_TENANT: &str = "default";

/// Members, tokens and pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    counters: Counters,
    tenants: BTreeMap<u32, Tenant>,
    tokens: BTreeMap<u32, Token>,
    nodes: BTreeMap<u32, Node>,
    pairs: BTreeSet<Pair>,
    quotas: Quotas,
}

/// What a request comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision<T> {
    /// What the asker is told once the changes are written.
    pub(crate) answer: T,
    /// What becomes so; nothing, if it is already.
    pub(crate) changes: Vec<Change>,
}

impl<T> Decision<T> {
    /// Everything stays as it is.
    fn unchanged(answer: T) -> Self {
        Self { answer, changes: Vec::new() }
    }
}

impl Network {
    /// Makes changes true.
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes.iter().cloned() {
            self.apply_one(change);
        }
    }

    fn apply_one(&mut self, change: Change) {
        match change {
            Change::Counters(counters) => self.counters = counters,
            Change::Tenant(tenant) => drop(self.tenants.insert(tenant.number, tenant)),
            Change::Token(token) => drop(self.tokens.insert(token.number, token)),
            Change::NoToken(number) => drop(self.tokens.remove(&number)),
            Change::Node(node) => drop(self.nodes.insert(node.number, *node)),
            Change::NoNode(number) => drop(self.nodes.remove(&number)),
            Change::Pair(pair) => drop(self.pairs.insert(pair)),
            Change::NoPair(pair) => drop(self.pairs.remove(&pair)),
        }
    }

    /// The member with this number.
    pub(crate) fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.get(&number)
    }

    /// All members, in the order of their numbers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// All relays, in the order of their numbers.
    fn relays(&self) -> impl Iterator<Item = &Node> {
        self.nodes().filter(|node| node.role == Role::Relay)
    }

    /// How many members have this role.
    pub(crate) fn count(&self, role: Role) -> usize {
        self.nodes().filter(|node| node.role == role).count()
    }

    /// How many pairs of agents there are.
    pub(crate) fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// The name of a member's tenant.
    pub(crate) fn tenant_of(&self, node: &Node) -> Option<&str> {
        self.tenant_name(node.tenant)
    }

    fn tenant_name(&self, tenant: Option<u32>) -> Option<&str> {
        tenant.and_then(|number| self.tenants.get(&number)).map(|tenant| tenant.name.as_str())
    }

    /// The agent of this tenant with this name.
    fn agent(&self, tenant: &str, name: &str) -> Option<&Node> {
        let mut agents = self.nodes().filter(|node| node.role == Role::Agent && node.name == name);
        agents.find(|node| self.tenant_of(node) == Some(tenant))
    }
}

#[cfg(test)]
mod tests;
