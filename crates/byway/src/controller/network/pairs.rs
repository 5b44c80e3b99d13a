//! Decisions about pairs: two agents that may exchange flows.

use byway_api::{AgentName, Role};

use super::{Change, Decision, Network, NodeRecord, Pair, Refusal, Table};
use crate::controller::limits::{PAIRS_MAX, PAIRS_PER_AGENT_MAX};

impl Network {
    /// Decides on an agent's request to be paired with `peer`: an agent's name within the tenant,
    /// or `tenant/name`. For an agent of another tenant, only an existing pair is confirmed, which
    /// an administrator created. No tenant thereby learns the names of another one's agents.
    pub(crate) fn pair_with(&self, number: u32, peer: &str) -> Result<Decision<Pair>, Refusal> {
        let requester = self.node(number).ok_or(Refusal::NotAMember)?;
        let own_tenant = self.tenant_of(requester).ok_or(Refusal::NoAgent)?;
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
        self.pair(requester, other)
    }

    /// Decides on an administrator's request to pair two agents, also of different tenants.
    pub(crate) fn pair_any(&self, agents: &[AgentName; 2]) -> Result<Decision<Pair>, Refusal> {
        let find = |agent: &AgentName| {
            let found = self.agent(&agent.tenant, &agent.name);
            found.ok_or_else(|| Refusal::NoSuchPeer { name: agent.to_string() })
        };
        self.pair(find(&agents[0])?, find(&agents[1])?)
    }

    fn pair(&self, one: &NodeRecord, other: &NodeRecord) -> Result<Decision<Pair>, Refusal> {
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

    /// Returns the numbers of the agents that an agent is paired with.
    pub(super) fn partners(&self, agent: u32) -> impl Iterator<Item = u32> {
        self.pairs.iter().filter_map(move |pair| pair.other(agent))
    }

    /// Returns all pairs of agents in the network.
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.pairs.iter().copied()
    }
}
