//! Quotas of tenants: the part of each of the controller's tables that one tenant may use.

use byway_api::{Role, TenantUse};
use thiserror::Error;

use super::{Network, NodeRecord, Refusal};
use crate::controller::limits::{NODES_MAX, PAIRS_MAX, TOKENS_MAX};

/// Table of the controller that tenants share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Table {
    #[error("agents")]
    Agents,
    #[error("pairs of agents")]
    Pairs,
    #[error("tokens")]
    Tokens,
}

impl Table {
    /// Returns the maximum number of entries of the table. Relays count among agents, because both
    /// are members.
    const fn max(self) -> usize {
        match self {
            Self::Agents => NODES_MAX,
            Self::Pairs => PAIRS_MAX,
            Self::Tokens => TOKENS_MAX,
        }
    }

    /// Returns the setting of `[controller]` that has the table's quota.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Agents => "tenant_agents_max",
            Self::Pairs => "tenant_pairs_max",
            Self::Tokens => "tenant_tokens_max",
        }
    }

    /// Returns the remedy for a tenant that has reached its quota of the table.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Agents | Self::Pairs => {
                "remove unused agents of the tenant (`byway node list`, `byway node remove`)"
            }
            Self::Tokens => "revoke unused tokens of the tenant (`byway token list`, `byway token revoke`)",
        }
    }
}

/// Configured quotas of each tenant; `None` for a fair share of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quotas {
    /// Maximum number of agents of one tenant.
    pub(crate) agents: Option<usize>,
    /// Maximum number of pairs that have an agent of one tenant.
    pub(crate) pairs: Option<usize>,
    /// Maximum number of valid tokens of one tenant.
    pub(crate) tokens: Option<usize>,
}

impl Quotas {
    const fn of(&self, table: Table) -> Option<usize> {
        match table {
            Table::Agents => self.agents,
            Table::Pairs => self.pairs,
            Table::Tokens => self.tokens,
        }
    }
}

impl Network {
    /// Sets the quotas of tenants. Existing tokens, agents and pairs above a quota stay.
    pub(crate) const fn limit_tenants(&mut self, quotas: Quotas) {
        self.quotas = quotas;
    }

    /// Checks that a tenant may have one more entry of a table, and fails at its quota. `None` is
    /// the tenant of relays, which have no quota.
    pub(super) fn check_quota(&self, table: Table, tenant: Option<u32>) -> Result<(), Refusal> {
        let Some((number, quota)) = tenant.zip(self.quota(table)) else { return Ok(()) };
        if self.used(table, number) < quota {
            return Ok(());
        }
        let tenant = self.tenant_name(tenant).unwrap_or_default().to_owned();
        Err(Refusal::QuotaReached { tenant, table, quota })
    }

    /// Returns the quota of each tenant in a table: the configured one, or a fair share once half
    /// of the table is used. `None` if there is no quota.
    fn quota(&self, table: Table) -> Option<usize> {
        let fair = || {
            (2 * self.used_in_all(table) >= table.max()).then(|| table.max() / self.tenants_with_a_claim())
        };
        self.quotas.of(table).or_else(fair)
    }

    /// Returns the number of tenants that share the tables: those with an agent, or with a token
    /// that has uses left. It is at least 1.
    fn tenants_with_a_claim(&self) -> usize {
        let of_tokens = self.tokens.values().filter(|token| token.uses_left != Some(0));
        let of_tokens = of_tokens.filter_map(|token| token.tenant);
        let of_nodes = self.nodes().filter_map(|node| node.tenant);
        of_tokens.chain(of_nodes).collect::<std::collections::BTreeSet<u32>>().len().max(1)
    }

    fn used_in_all(&self, table: Table) -> usize {
        match table {
            Table::Agents => self.nodes.len(),
            Table::Pairs => self.pairs.len(),
            Table::Tokens => self.tokens.len(),
        }
    }

    /// Returns the number of a tenant's entries in a table. A pair of two tenants counts for both.
    fn used(&self, table: Table, tenant: u32) -> usize {
        let is_of_tenant = |node: &NodeRecord| node.tenant == Some(tenant);
        match table {
            Table::Agents => self.nodes().filter(|node| is_of_tenant(node)).count(),
            Table::Pairs => {
                let is_agent_of_tenant = |agent: u32| self.node(agent).is_some_and(is_of_tenant);
                self.pairs().filter(|pair| pair.agents().into_iter().any(is_agent_of_tenant)).count()
            }
            Table::Tokens => self.tokens.values().filter(|token| token.tenant == Some(tenant)).count(),
        }
    }

    /// Returns the number of each tenant's agents, tokens and pairs.
    pub(crate) fn tenant_uses(&self) -> Vec<TenantUse> {
        let mut uses: std::collections::BTreeMap<u32, TenantUse> = self
            .tenants
            .values()
            .map(|tenant| {
                let (number, name) = (tenant.number, tenant.name.clone());
                (number, TenantUse { number, name, ..TenantUse::default() })
            })
            .collect();
        for tenant in self.nodes().filter(|node| node.role == Role::Agent).filter_map(|node| node.tenant) {
            uses.entry(tenant).or_default().agents += 1;
        }
        for tenant in self.tokens.values().filter_map(|token| token.tenant) {
            uses.entry(tenant).or_default().tokens += 1;
        }
        for pair in self.pairs() {
            let [one, other] = pair.agents().map(|agent| self.node(agent).and_then(|node| node.tenant));
            for tenant in [one, other.filter(|_| other != one)].into_iter().flatten() {
                uses.entry(tenant).or_default().pairs += 1;
            }
        }
        uses.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use byway_api::{JoinRequest, TokenRequest};

    use super::super::{Change, Digest, Pair, VerifiedNode};
    use super::*;
    use crate::controller::limits::PAIRS_PER_AGENT_MAX;

    const NOW: u64 = 1_800_000_000;

    /// Creates a network with two tenants, `greedy` and `modest`, each with a token. The tokens'
    /// numbers are their tenants'.
    fn two_tenants() -> Network {
        let mut network = Network::default();
        for tenant in ["greedy", "modest"] {
            assert_eq!(token(&mut network, tenant), Ok(()));
        }
        network
    }

    fn token(network: &mut Network, tenant: &str) -> Result<(), Refusal> {
        let request = TokenRequest {
            role: Role::Agent,
            tenant: Some(tenant.to_owned()),
            uses: None,
            lifetime_seconds: None,
        };
        let decision = network.create_token(&request, tenant.as_bytes(), NOW)?;
        network.apply(&decision.changes);
        Ok(())
    }

    fn join(network: &mut Network, tenant: &str, name: usize) -> Result<u32, Refusal> {
        let request = JoinRequest {
            token: String::new(),
            role: Role::Agent,
            name: format!("{tenant}{name}"),
            key: String::new(),
            proof: String::new(),
            addresses: Vec::new(),
            shards: 1,
            unix_seconds: NOW,
        };
        let key = Digest::of(request.name.as_bytes());
        // All tokens of a tenant have one secret. The last one is used.
        let node = VerifiedNode { request: &request, token: tenant.as_bytes(), key };
        let decision = network.join(node, Digest([1; 32]), NOW)?;
        network.apply(&decision.changes);
        Ok(decision.answer.number)
    }

    /// Adds a tenant's agents without a check of quotas.
    fn fill_agents(network: &mut Network, tenant: &str, count: usize) {
        let number = join(network, tenant, 0).expect("the first one joins");
        let template = network.node(number).expect("it joined").clone();
        for copy in 1..count {
            let number = network.counters.node;
            let mut counters = network.counters;
            counters.node += 1;
            let name = format!("{tenant}{copy}");
            let node = NodeRecord { number, key: Digest::of(name.as_bytes()), name, ..template.clone() };
            network.apply(&[Change::Counters(counters), Change::Node(Box::new(node))]);
        }
    }

    fn quota_reached(table: Table, quota: usize) -> Refusal {
        Refusal::QuotaReached { tenant: "greedy".to_owned(), table, quota }
    }

    #[test]
    fn agents_of_one_tenant_leave_the_other_its_fair_share() {
        let mut network = two_tenants();
        fill_agents(&mut network, "greedy", NODES_MAX / 2 - 1);
        assert!(join(&mut network, "greedy", 5_000).is_ok(), "half is not used yet");
        let refused = quota_reached(Table::Agents, NODES_MAX / 2);
        assert_eq!(join(&mut network, "greedy", 5_001), Err(refused));
        fill_agents(&mut network, "modest", NODES_MAX / 2 - 1);
        assert!(join(&mut network, "modest", 5_000).is_ok());
        assert_eq!(join(&mut network, "modest", 5_001), Err(Refusal::TooManyNodes));
        let known = join(&mut network, "greedy", 5_000);
        assert!(known.is_ok(), "who is a member joins again: {known:?}");
    }

    #[test]
    fn a_tenant_that_is_alone_may_have_everything() {
        let mut network = Network::default();
        assert_eq!(token(&mut network, "alone"), Ok(()));
        fill_agents(&mut network, "alone", NODES_MAX - 1);
        assert!(join(&mut network, "alone", 5_000).is_ok());
        assert_eq!(join(&mut network, "alone", 5_001), Err(Refusal::TooManyNodes));
    }

    #[test]
    fn pairs_of_one_tenant_leave_the_other_its_fair_share() {
        let mut network = two_tenants();
        fill_agents(&mut network, "greedy", 256);
        fill_agents(&mut network, "modest", 256);
        let numbers = |network: &Network, tenant: &str| -> Vec<u32> {
            network
                .nodes()
                .filter(|node| network.tenant_of(node) == Some(tenant))
                .map(|node| node.number)
                .collect()
        };
        let [greedy, modest] = ["greedy", "modest"].map(|tenant| numbers(&network, tenant));
        let pairs = |agents: &[u32], count: usize| -> Vec<Change> {
            let of_one = |index: usize| {
                let distant = (1..=count / agents.len() + 1).map(move |step| (index + step) % agents.len());
                distant.map(move |other| Change::Pair(Pair::new(agents[index], agents[other])))
            };
            (0..agents.len()).flat_map(of_one).take(count).collect()
        };
        network.apply(&pairs(&greedy, PAIRS_MAX / 2));
        assert_eq!(network.pair_count(), PAIRS_MAX / 2);
        let is_pair = |network: &Network, one: usize, other: usize| {
            network.pairs.contains(&Pair::new(greedy[one], greedy[other]))
        };
        let other = (1..256).find(|other| !is_pair(&network, 0, *other)).expect("not all are paired");
        let refused = quota_reached(Table::Pairs, PAIRS_MAX / 2);
        let peer = network.node(greedy[other]).expect("a member").name.clone();
        assert_eq!(network.pair_with(greedy[0], &peer), Err(refused));
        let peer = network.node(modest[1]).expect("a member").name.clone();
        assert!(network.pair_with(modest[0], &peer).is_ok());
        assert!(network.partners(greedy[0]).count() < PAIRS_PER_AGENT_MAX);
    }

    #[test]
    fn tokens_of_one_tenant_leave_the_other_its_fair_share() {
        let mut network = two_tenants();
        for _ in 2..TOKENS_MAX / 2 {
            assert_eq!(token(&mut network, "greedy"), Ok(()));
        }
        assert_eq!(token(&mut network, "greedy"), Ok(()), "it has one less than half");
        let refused = quota_reached(Table::Tokens, TOKENS_MAX / 2);
        assert_eq!(token(&mut network, "greedy"), Err(refused));
        assert_eq!(token(&mut network, "modest"), Ok(()));
    }

    #[test]
    fn quotas_that_are_set_hold_from_the_first_on_and_for_each_tenant() {
        let mut network = two_tenants();
        network.limit_tenants(Quotas { agents: Some(2), pairs: Some(0), tokens: Some(1) });
        let [one, other] = [0, 1].map(|name| join(&mut network, "greedy", name).expect("two may"));
        assert_eq!(join(&mut network, "greedy", 2), Err(quota_reached(Table::Agents, 2)));
        assert!(join(&mut network, "modest", 0).is_ok());
        assert_eq!(token(&mut network, "greedy"), Err(quota_reached(Table::Tokens, 1)));
        assert_eq!(network.pair_with(one, "greedy1"), Err(quota_reached(Table::Pairs, 0)));
        assert_eq!(other, one + 1);
        let [greedy, modest] = [(1, "greedy"), (2, "modest")].map(|(number, name)| {
            let name = name.to_owned();
            TenantUse { number, name, agents: 1, pairs: 0, tokens: 1, refused: 0 }
        });
        assert_eq!(network.tenant_uses(), [TenantUse { agents: 2, ..greedy }, modest]);
    }
}
