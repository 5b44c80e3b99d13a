//! Identifiers of the wire format; the others are in `byway_units`.

use core::fmt;
use core::num::{NonZeroU8, NonZeroU16};

use byway_units::{AgentId, FlowId, identifier};

use crate::limits::AGENT_NUMBER_MAX;

identifier! {
    /// Session index: identifies a session in the packets to one side. That side chooses it anew in
    /// each epoch.
    pub SessionIndex(u32), "session"
}
identifier! {
    /// Part of a relay with sessions and flows of its own, served by one thread.
    pub Shard(u8), "shard"
}
identifier! {
    /// Owner of agents; quotas and coding distinguish tenants.
    pub TenantId(u32), "tenant"
}
identifier! {
    /// Coding group: flows of one group may share batches.
    pub CodingGroupId(u32), "coding group"
}
identifier! {
    /// Random number of a node's run, constant until the node restarts.
    pub Incarnation(u64), "incarnation"
}

/// Bit that is set in the field of a transit packet's label, and clear in the indices of sessions.
const TRANSIT_BIT: u32 = 1 << 23;

impl SessionIndex {
    /// Returns an index of a session that `shard` owns. The top 9 bits of `random` are ignored.
    #[must_use]
    pub const fn in_shard(shard: Shard, random: u32) -> Self {
        Self((shard.0 as u32) << 24 | random & (TRANSIT_BIT - 1))
    }

    /// Returns the field that a transit packet has in place of an index on its first hop: label,
    /// and first two bytes of the packet's digest. `shard` owns the label.
    #[must_use]
    pub const fn of_transit(shard: Shard, label: TransitLabel, check: [u8; 2]) -> Self {
        let [c0, c1] = check;
        Self(u32::from_be_bytes([shard.0, 0x80 | label.0.get(), c0, c1]))
    }

    /// True if this is the field of a transit packet on its first hop, which no session has as its
    /// index.
    #[inline]
    #[must_use]
    pub const fn is_transit(self) -> bool {
        self.0 & TRANSIT_BIT != 0
    }

    /// Returns label and digest bytes in the field of a transit packet on its first hop; `None` for
    /// the index of a session, and for label 0.
    #[must_use]
    pub const fn transit_label(self) -> Option<(TransitLabel, [u8; 2])> {
        let [_, label, c0, c1] = self.0.to_be_bytes();
        if !self.is_transit() {
            return None;
        }
        match TransitLabel::new(label & TransitLabel::MAX) {
            Some(label) => Some((label, [c0, c1])),
            None => None,
        }
    }

    /// Returns the shard in the top 8 bits, which owns the session if a relay chose the index.
    #[inline]
    #[must_use]
    pub const fn shard(self) -> Shard {
        Shard(self.0.to_be_bytes()[0])
    }
}

/// Number that stands for a pair of relays at a third relay, which passes on packets from one to
/// the other; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransitLabel(NonZeroU8);

impl TransitLabel {
    /// Highest number of a label.
    pub const MAX: u8 = 127;

    /// Returns the label with this number; `None` for 0 and above [`TransitLabel::MAX`].
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        match NonZeroU8::new(number) {
            Some(number) if number.get() <= Self::MAX => Some(Self(number)),
            _ => None,
        }
    }

    /// Returns the number of this label, 1 to 127.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0.get()
    }
}

/// Number that stands for a flow on one hop, for one epoch of the session; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alias(NonZeroU16);

impl Alias {
    /// Returns the alias with this number; `None` for 0.
    #[inline]
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        match NonZeroU16::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number of this alias, 1 to 65,535.
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

/// Number of an epoch: one higher with each handshake of a session, and 0 after 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(u8);

impl Epoch {
    /// Returns the epoch with this number.
    #[inline]
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// Returns the number of this epoch.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the low two bits of the number, which source packets include: 0 to 3.
    #[inline]
    #[must_use]
    pub const fn low_bits(self) -> u8 {
        self.0 & 0b11
    }

    /// Returns the epoch that the session's next handshake starts.
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

/// Number of a multicast group, within one network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

const GROUP_BIT: u32 = AGENT_NUMBER_MAX + 1;

impl GroupId {
    /// Returns the group with this number. `None` from 2^31 on, because the wire format has only 31
    /// bits for it.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number < GROUP_BIT { Some(Self(number)) } else { None }
    }

    /// Returns the number of this group, without the top bit that distinguishes groups from agents
    /// on the wire.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// Receiver of a flow: one agent, or the agents of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Receiver {
    /// Agent that alone receives the flow.
    Agent(AgentId),
    /// Multicast group whose agents all receive the flow.
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

/// Returns the number of an agent for the wire, where its top bit has to be free for groups.
pub(crate) fn agent_number(agent: AgentId) -> u32 {
    assert!(agent.number() <= AGENT_NUMBER_MAX, "{agent}: the numbers of agents are below 2^31");
    agent.number()
}

/// Key of a flow within one network: sender, receiver and flow number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    sender: AgentId,
    /// The receiver in wire form, because comparing numbers makes searches in tables fastest.
    receiver: u32,
    flow: FlowId,
}

impl FlowKey {
    /// Length of a flow key in messages, in bytes.
    pub const BYTES: usize = 10;

    /// Returns the key of flow `flow` from `sender`.
    ///
    /// # Panics
    /// If an agent's number is above [`AGENT_NUMBER_MAX`]. The reader of a configuration checks its
    /// agent numbers.
    #[must_use]
    pub fn new(sender: AgentId, receiver: Receiver, flow: FlowId) -> Self {
        agent_number(sender);
        Self { sender, receiver: receiver.to_wire(), flow }
    }

    /// Returns the agent that sends the flow.
    #[must_use]
    pub const fn sender(&self) -> AgentId {
        self.sender
    }

    /// Returns the agent or group that receives the flow.
    #[must_use]
    pub const fn receiver(&self) -> Receiver {
        Receiver::from_wire(self.receiver)
    }

    /// Returns the flow number, which the sender has assigned.
    #[must_use]
    pub const fn flow(&self) -> FlowId {
        self.flow
    }

    /// Encodes the key as in messages.
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
