//! Model of the controller's network, with the decisions about requests. It has no files, sockets,
//! clock or randomness of its own.
//!
//! [`Network`] answers each request with a [`Decision`]: the answer to the client, and the changes
//! to make. The changes are first written to the disk and then [applied](Network::apply). A disk
//! failure therefore leaves the network unchanged.

mod effects;
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

pub(crate) use effects::{AffectedMembers, apply};
pub(crate) use grants::{GrantIssuer, GrantSettings};
pub(crate) use maps::MapContents;
pub(crate) use membership::VerifiedNode;
pub(crate) use plan::PathPlan;
pub(crate) use quotas::{Quotas, Table};
pub(crate) use records::{Change, Counters, Digest, NodeRecord, Pair, Tenant, Token};
pub(crate) use refusal::Refusal;

/// Name of the tenant to which agents belong whose token names none.
const DEFAULT_TENANT: &str = "default";

/// State of a network: members, tokens, tenants and pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Network {
    counters: Counters,
    tenants: BTreeMap<u32, Tenant>,
    tokens: BTreeMap<u32, Token>,
    nodes: BTreeMap<u32, NodeRecord>,
    /// Numbers of the nodes that are relays.
    relays: BTreeSet<u32>,
    pairs: BTreeSet<Pair>,
    quotas: Quotas,
    /// Numbers of the tenants whose flows relays may code together.
    shared_coding: BTreeSet<u32>,
}

/// Decision about a request to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision<T> {
    /// Answer to the client, sent once the changes are written.
    pub(crate) answer: T,
    /// Changes of the network to write and apply; empty if the state is already as requested.
    pub(crate) changes: Vec<Change>,
}

impl<T> Decision<T> {
    /// Returns a decision that answers a request without changing the network.
    fn unchanged(answer: T) -> Self {
        Self { answer, changes: Vec::new() }
    }
}

impl Network {
    /// Applies changes to the network, after they were written to the disk.
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
            Change::Node(node) => {
                if node.role == Role::Relay {
                    self.relays.insert(node.number);
                }
                self.nodes.insert(node.number, *node);
            }
            Change::NoNode(number) => {
                self.relays.remove(&number);
                self.nodes.remove(&number);
            }
            Change::Pair(pair) => drop(self.pairs.insert(pair)),
            Change::NoPair(pair) => drop(self.pairs.remove(&pair)),
        }
    }

    /// Returns the member with this number.
    pub(crate) fn node(&self, number: u32) -> Option<&NodeRecord> {
        self.nodes.get(&number)
    }

    /// Returns all members, in the order of their numbers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// Returns all relays, in the order of their numbers.
    pub(crate) fn relays(&self) -> impl Iterator<Item = &NodeRecord> {
        self.relays.iter().filter_map(|number| self.node(*number))
    }

    /// Returns the number of members with this role.
    pub(crate) fn count(&self, role: Role) -> usize {
        self.nodes().filter(|node| node.role == role).count()
    }

    /// Returns the number of pairs of agents.
    pub(crate) fn pair_count(&self) -> usize {
        self.pairs.len()
    }

    /// Sets the numbers of the tenants whose flows relays may code together. Returns true if they
    /// differ from those before.
    pub(crate) fn share_coding(&mut self, tenants: BTreeSet<u32>) -> bool {
        let before = std::mem::replace(&mut self.shared_coding, tenants);
        before != self.shared_coding
    }

    /// True if relays may code the flows that an agent sends with those of other tenants.
    pub(crate) fn shares_coding(&self, sender: &NodeRecord) -> bool {
        sender.tenant.is_some_and(|tenant| self.shared_coding.contains(&tenant))
    }

    /// Returns the number of the tenant with this name.
    pub(crate) fn tenant_number(&self, name: &str) -> Option<u32> {
        self.tenants.values().find(|tenant| tenant.name == name).map(|tenant| tenant.number)
    }

    /// Returns the name of a member's tenant.
    pub(crate) fn tenant_of(&self, node: &NodeRecord) -> Option<&str> {
        self.tenant_name(node.tenant)
    }

    fn tenant_name(&self, tenant: Option<u32>) -> Option<&str> {
        tenant.and_then(|number| self.tenants.get(&number)).map(|tenant| tenant.name.as_str())
    }

    /// Returns the agent with this name that belongs to the tenant of the name `tenant`.
    fn agent(&self, tenant: &str, name: &str) -> Option<&NodeRecord> {
        let mut agents = self.nodes().filter(|node| node.role == Role::Agent && node.name == name);
        agents.find(|node| self.tenant_of(node) == Some(tenant))
    }
}

#[cfg(test)]
mod tests;
