//! Identifiers and numbers that only the wire has; the others are in `byway_units`.

use core::fmt;
use core::num::NonZeroU16;

use byway_units::{AgentId, FlowId, identifier};

use crate::limits::AGENT_NUMBER_MAX;

identifier! {
    /// The name under which one side of a session expects packets; chosen by that side, new in each epoch.
    pub SessionIndex(u32), "session"
}
identifier! {
    /// A part of a relay that owns sessions and flows by itself.
    pub Shard(u8), "shard"
}
identifier! {
    /// A customer of the network.
    pub TenantId(u32), "tenant"
}
identifier! {
    /// Flows that may share batches.
    pub CodingGroupId(u32), "coding group"
}
identifier! {
    /// One run of a node: random, constant until it restarts.
    pub Boot(u64), "boot"
}

impl SessionIndex {
    /// An index of a session that `shard` owns; the top 8 bits of `random` do not count.
    #[must_use]
    pub const fn in_shard(shard: Shard, random: u32) -> Self {
        Self((shard.0 as u32) << 24 | random & 0x00FF_FFFF)
    }

    /// The shard that owns the session, if a relay chose the index: its top 8 bits.
    #[inline]
    #[must_use]
    pub const fn shard(self) -> Shard {
        Shard(self.0.to_be_bytes()[0])
    }
}

/// What stands for a flow on one hop, for one epoch; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias(NonZeroU16);

impl Alias {
    /// The alias with this number; `None` for 0.
    #[inline]
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number of this alias.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "alias {}", self.0)
    }
}

/// The number of an epoch: one higher with each handshake of a session, 0 after 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(u8);

impl Epoch {
    /// The epoch with this number.
    #[inline]
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number of this epoch.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The two bits of the number that packets carry: 0 to 3.
    #[inline]
    #[must_use]
    pub const fn low_bits(self) -> u8 {
        self.0 & 0b11
    }

    /// The epoch that the next handshake starts.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// A multicast group, within one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

const GROUP_BIT: u32 = AGENT_NUMBER_MAX + 1;

impl GroupId {
    /// The group with this number; `None` from 2^31 on, which the wire cannot tell from others.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < GROUP_BIT { Some(Self(number)) } else { None }
    }

    /// The number of this group, without the bit that tells it from an agent on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Whom a flow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Receiver {
    /// One agent.
    Agent(AgentId),
    /// All agents of a multicast group.
    Group(GroupId),
}

impl Receiver {
    pub(crate) const fn from_wire(number: u32) -> Self {
        if number & GROUP_BIT == 0 {
            Self::Agent(AgentId::new(number))
        } else {
            Self::Group(GroupId(number & !GROUP_BIT))
        }
    }

    pub(crate) fn to_wire(self) -> u32 {
        match self {
            Self::Agent(agent) => agent_number(agent),
            Self::Group(group) => group.0 | GROUP_BIT,
        }
    }
}

/// The number of an agent, which leaves the top bit to groups.
pub(crate) fn agent_number(agent: AgentId) -> u32 {
    assert!(agent.number() <= AGENT_NUMBER_MAX, "{agent}: the numbers of agents are below 2^31");
    agent.number()
}

/// The name of a flow within one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    sender: AgentId,
    /// As on the wire: tables are searched for keys, and numbers are compared soonest.
    receiver: u32,
    flow: FlowId,
}

impl FlowKey {
    /// Bytes of a flow key.
    pub const BYTES: usize = 10;

    /// The key of the flow that `sender` calls `flow`.
    ///
    /// # Panics
    /// If an agent's number is above [`AGENT_NUMBER_MAX`]: whoever reads numbers of agents from a configuration
    /// checks them.
    #[must_use]
    pub fn new(sender: AgentId, receiver: Receiver, flow: FlowId) -> Self {
        agent_number(sender);
        Self { sender, receiver: receiver.to_wire(), flow }
    }

    /// Who sends the flow.
    #[must_use]
    pub const fn sender(&self) -> AgentId {
        self.sender
    }

    /// Whom the flow is for.
    #[must_use]
    pub const fn receiver(&self) -> Receiver {
        Receiver::from_wire(self.receiver)
    }

    /// What the sender calls the flow.
    #[must_use]
    pub const fn flow(&self) -> FlowId {
        self.flow
    }

    /// The key as it stands in messages.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let [s0, s1, s2, s3] = agent_number(self.sender).to_be_bytes();
        let [r0, r1, r2, r3] = self.receiver.to_be_bytes();
        let [f0, f1] = self.flow.number().to_be_bytes();
        [s0, s1, s2, s3, r0, r1, r2, r3, f0, f1]
    }
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.receiver() {
            Receiver::Agent(agent) => write!(f, "{} from {} to {agent}", self.flow, self.sender),
            Receiver::Group(group) => write!(f, "{} from {} to group {}", self.flow, self.sender, group.0),
        }
    }
}
