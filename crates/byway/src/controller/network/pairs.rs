//! Which agents may exchange packets.

use byway_api::{AgentName, Role};

use super::{Change, Decision, Network, Node, Pair, Refusal, Table};
use crate::controller::limits::{PAIRS_MAX, PAIRS_PER_AGENT_MAX};

impl Network {
    /// An agent wants to be paired with another: its name within the tenant, or `tenant/name`. Those of other tenants are
    /// found only if an administrator paired the two: nobody learns whom others have.
    pub(crate) fn pair_with(&self, number: u32, peer: &str) -> Result<Decision<Pair>, Refusal> {
        let asker = self.node(number).ok_or(Refusal::NotAMember)?;
        let own_tenant = self.tenant_of(asker).ok_or(Refusal::NoAgent)?;
        let (tenant, name) = peer.split_once('/').unwrap_or((own_tenant, peer));
        let other = self.agent(tenant, name);
        if tenant != own_tenant {
            let known = other.map(|other| Pair::new(number, other.number));
            let known = known.filter(|pair| self.pairs.contains(pair));
            return known
                .map(Decision::unchanged)
                .ok_or_else(|| Refusal::OtherTenant { name: peer.chars().take(128).collect() });
        }
        let other = other.ok_or_else(|| Refusal::NoSuchPeer { name: peer.chars().take(128).collect() })?;
        self.pair(asker, other)
    }

    /// An administrator pairs two agents, of whatever tenants.
    pub(crate) fn pair_any(&self, agents: &[AgentName; 2]) -> Result<Decision<Pair>, Refusal> {
        let find = |agent: &AgentName| {
            let found = self.agent(&agent.tenant, &agent.name);
            found.ok_or_else(|| Refusal::NoSuchPeer { name: agent.to_string() })
        };
        self.pair(find(&agents[0])?, find(&agents[1])?)
    }

    fn pair(&self, one: &Node, other: &Node) -> Result<Decision<Pair>, Refusal> {
        if one.number == other.number {
            return Err(Refusal::PairedWithItself);
        }
        if one.role != Role::Agent || other.role != Role::Agent {
            return Err(Refusal::NoAgent);
        }
        let pair = Pair::new(one.number, other.number);
        if self.pairs.contains(&pair) {
            return Ok(Decision::unchanged(pair));
        }
        let most = self.partners(one.number).count().max(self.partners(other.number).count());
        if self.pairs.len() >= PAIRS_MAX || most >= PAIRS_PER_AGENT_MAX {
            return Err(Refusal::TooManyPairs);
        }
        for agent in [one, other] {
            self.check_quota(Table::Pairs, agent.tenant)?;
        }
        Ok(Decision { answer: pair, changes: vec![Change::Pair(pair)] })
    }

    /// The numbers of those whom an agent is paired with.
    pub(super) fn partners(&self, agent: u32) -> impl Iterator<Item = u32> {
        self.pairs.iter().filter_map(move |pair| pair.other(agent))
    }

    /// All pairs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.pairs.iter().copied()
    }
}
