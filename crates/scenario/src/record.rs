//! What became of every packet of every flow: for those who measure what an outcome does not say.

use byway_proto::agent::{Delivery, ReceiveStatistics};
use byway_sim::tcp::Statistics;
use byway_units::{Duration, Time};
use byway_wire::{BlockShape, Service};

/// What became of the packets of one flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The name that it shares with others.
    pub name: String,
    /// Which of the flows of this name it is, from 0.
    pub member: usize,
    /// Its sender's name.
    pub from: String,
    /// Its receiver's name.
    pub to: String,
    /// What each of its datagrams carries for the application, in bytes; of TCP and of video from a file, the longest.
    pub datagram_bytes: usize,
    /// What all of its datagrams carry.
    pub bytes: u64,
    /// What the overlay does for it.
    pub service: Service,
    /// How its packets are coded with those of others, if they are.
    pub batch: Option<BlockShape>,
    /// What is known of its ways.
    pub terms: Terms,
    /// Its ways over relays, if it has any.
    pub overlay: Option<OverlayDelays>,
    /// What its receiver counted of itself; `None` if it had no agent at the end.
    pub counted: Option<ReceiveStatistics>,
    /// Its packets, in the order of their sending.
    pub fates: Vec<Fate>,
}

/// The transfers of an application over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRecord {
    /// The name that its flows share with others.
    pub name: String,
    /// Which of the conversations of this name it is, from 0.
    pub member: usize,
    /// The client's machine.
    pub client: String,
    /// The server's machine.
    pub server: String,
    /// How long the direct path takes from client to server.
    pub forth: Duration,
    /// How long it takes back.
    pub back: Duration,
    /// Its transfers, in the order in which they began.
    pub transfers: Vec<Transfer>,
    /// Of bulk transfers: bytes of payload that arrived in order, in each second from the beginning on.
    pub seconds: Vec<u64>,
    /// What both ends counted.
    pub statistics: Statistics,
}

/// A transfer over a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When its first SYN was sent.
    pub begun: Time,
    /// From then until all had arrived.
    pub completion: Option<Duration>,
    /// Whether one end gave up.
    pub has_failed: bool,
    /// From the first SYN until one came to the server.
    pub syn: Option<Duration>,
    /// From then until a SYN-ACK came to the client.
    pub syn_ack: Option<Duration>,
}

/// The one-way delays of a flow's segments, half of their jitter counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayDelays {
    /// The relay near the sender, by its name.
    pub ingress: String,
    /// The relay near the receiver.
    pub egress: String,
    /// From the sender to the relay near it.
    pub sender_to_ingress: Duration,
    /// Between the relays.
    pub ingress_to_egress: Duration,
    /// From the relay near the receiver to it.
    pub egress_to_receiver: Duration,
}

/// When a packet counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// From sending to delivery at most.
    pub budget: Duration,
    /// How long the direct path takes.
    pub due: Duration,
    /// And back again.
    pub round_trip: Duration,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it was sent.
    pub sent: Time,
    /// Where a direct copy of it was lost or damaged.
    pub lost: Option<LossPlace>,
    /// Whether a link carried a second copy of it.
    pub is_duplicated: bool,
    /// When and how it came.
    pub delivered: Option<(Time, Way)>,
}

impl Fate {
    /// Whether no direct copy came whole that was not sent again: of one that a link duplicated, the other copy may have come.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        let came_twice = self.is_duplicated && matches!(self.delivered, Some((_, Way::Direct)));
        self.lost.is_some() && !came_twice
    }

    /// How long it took from sending to delivery.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        self.delivered.map(|(at, _)| at.saturating_since(self.sent))
    }

    /// How long a repair took from when the direct copy was due, if it was lost and came within the budget.
    #[must_use]
    pub fn repair_time(&self, terms: &Terms) -> Option<Duration> {
        let delay = self.delay().filter(|delay| self.is_lost() && *delay <= terms.budget)?;
        Some(delay.saturating_sub(terms.due))
    }
}

/// On which part of the direct path a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossPlace {
    /// On the link that leaves its sender, where that does not lead to its receiver.
    SenderAccess,
    /// Between, or on a link that joins both.
    Middle,
    /// On the link that leads to its receiver.
    ReceiverAccess,
}

/// How a packet came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// By the direct path; if it was lost there, sent again.
    Direct,
    /// Restored from the flow's own repair packets.
    InStream,
    /// Restored with other flows' packets.
    Cooperative,
    /// From a relay's cache.
    Cached,
    /// By relays, unasked.
    Forwarded,
}

impl From<Delivery> for Way {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Direct => Self::Direct,
            Delivery::Forwarded => Self::Forwarded,
            Delivery::InStream => Self::InStream,
            Delivery::Cooperative => Self::Cooperative,
            Delivery::Cached => Self::Cached,
        }
    }
}
