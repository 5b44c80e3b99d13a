//! Records of every packet of every flow, for measures that an outcome does not have.

use byway_proto::agent::{Delivery, ReceiveStatistics};
use byway_sim::tcp::Statistics;
use byway_units::{Duration, Time};
use byway_wire::BlockShape;

use crate::flow_service::FlowService;

/// Record of one flow: its settings, and the outcome of each of its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Name of the flow, which several flows may share.
    pub name: String,
    /// Index of the flow among those of its name, from 0.
    pub member: usize,
    /// Name of the sender's machine.
    pub from: String,
    /// Name of the receiver's machine.
    pub to: String,
    /// Payload of each datagram of the flow, in bytes; for TCP and video from a file, of the
    /// longest.
    pub datagram_bytes: usize,
    /// Payload of all datagrams of the flow, in bytes.
    pub bytes: u64,
    /// Overlay service of the flow.
    pub service: FlowService,
    /// Shape of the flow's batches with packets of other flows; `None` if it is not coded.
    pub batch: Option<BlockShape>,
    /// Delays and latency budget by which deliveries of the flow are judged.
    pub terms: DeliveryTerms,
    /// Delays of the flow's relay path; `None` if it has none.
    pub overlay: Option<OverlayDelays>,
    /// Counters of the receiving agent for the flow; `None` without an agent at the end.
    pub counted: Option<ReceiveStatistics>,
    /// Outcomes of the flow's packets, in the order of their sending.
    pub packets: Vec<PacketRecord>,
}

/// Record of a simulated application over TCP: its transfers, and the statistics of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRecord {
    /// Name of the application's flows, which other flows may share.
    pub name: String,
    /// Index of the application among those of its name, from 0.
    pub member: usize,
    /// Name of the client's machine.
    pub client: String,
    /// Name of the server's machine.
    pub server: String,
    /// One-way delay of the direct path from client to server.
    pub forth: Duration,
    /// One-way delay of the direct path from server to client.
    pub back: Duration,
    /// Transfers of the application, in the order in which they began.
    pub transfers: Vec<Transfer>,
    /// Of bulk transfers: bytes of payload that arrived in order, in each second from the beginning
    /// on.
    pub seconds: Vec<u64>,
    /// TCP statistics of both ends together.
    pub statistics: Statistics,
}

/// Transfer over TCP on a connection of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Time at which the client sent the first SYN.
    pub begun: Time,
    /// Time from the first SYN until the last byte arrived; `None` if it did not arrive.
    pub completion: Option<Duration>,
    /// True if one end of the connection failed.
    pub has_failed: bool,
    /// Time from the first SYN until a SYN arrived at the server; `None` if none arrived.
    pub syn: Option<Duration>,
    /// Time from the first SYN until a SYN-ACK arrived at the client; `None` if none arrived.
    pub syn_ack: Option<Duration>,
}

/// One-way delays of the segments of a flow's relay path, with half of their jitter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayDelays {
    /// Name of the relay near the sender.
    pub ingress: String,
    /// Name of the relay near the receiver.
    pub egress: String,
    /// Delay from the sender to the relay near it.
    pub sender_to_ingress: Duration,
    /// Delay from the ingress relay to the egress relay.
    pub ingress_to_egress: Duration,
    /// Delay from the relay near the receiver to the receiver.
    pub egress_to_receiver: Duration,
}

/// Delays and latency budget by which a flow's deliveries are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryTerms {
    /// Latency budget: longest time from sending to delivery.
    pub budget: Duration,
    /// One-way delay of the direct path, after which a packet is expected.
    pub due: Duration,
    /// Round-trip time of the direct path.
    pub round_trip: Duration,
}

/// Record of one packet: its sending, its loss and its delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRecord {
    /// Time at which the application sent the packet.
    pub sent: Time,
    /// Part of the direct path where a copy of the packet was lost or damaged; `None` if none was.
    pub lost: Option<LossLocation>,
    /// True if a link duplicated the packet.
    pub is_duplicated: bool,
    /// Time and method of the first delivery; `None` if the packet was not delivered.
    pub delivered: Option<(Time, DeliveryMethod)>,
}

impl PacketRecord {
    /// True if the direct path lost the packet's first transmission. A packet that a link
    /// duplicated is not lost if the direct path delivered the other copy.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        let has_other_copy =
            self.is_duplicated && matches!(self.delivered, Some((_, DeliveryMethod::Direct)));
        self.lost.is_some() && !has_other_copy
    }

    /// Returns the time from sending to delivery; `None` if the packet was not delivered.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        self.delivered.map(|(at, _)| at.saturating_since(self.sent))
    }

    /// Returns the time from the expected arrival of the direct copy to the repair; `None` unless
    /// the packet was lost and delivered within the budget.
    #[must_use]
    pub fn repair_time(&self, terms: &DeliveryTerms) -> Option<Duration> {
        let delay = self.delay().filter(|delay| self.is_lost() && *delay <= terms.budget)?;
        Some(delay.saturating_sub(terms.due))
    }
}

/// Part of the direct path on which a packet was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossLocation {
    /// The link from the packet's sender, if that does not end at its receiver.
    SenderAccess,
    /// A link between routers, or a single link between sender and receiver.
    Middle,
    /// The link to the packet's receiver.
    ReceiverAccess,
}

/// Method by which a packet reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeliveryMethod {
    /// The direct path delivered the packet; if it was lost there before, by a retransmission.
    Direct,
    /// A relay restored the packet from repair packets of its own flow.
    InStream,
    /// A relay restored the packet with packets of other flows.
    Cooperative,
    /// A relay sent the packet from its cache.
    Cached,
    /// The sender sent the packet again through relays.
    Resent,
    /// Relays forwarded the packet without a request.
    Forwarded,
}

impl From<Delivery> for DeliveryMethod {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Direct => Self::Direct,
            Delivery::Forwarded => Self::Forwarded,
            Delivery::InStream => Self::InStream,
            Delivery::Cooperative => Self::Cooperative,
            Delivery::Cached => Self::Cached,
            Delivery::Resent => Self::Resent,
        }
    }
}
