//! Outputs and events of a client in the C interface.

use byway_client::{Delivery, DriverOutput, Event, OfferRefusal, Priority};

use crate::address::Address;

/// There are no more outputs.
pub const BYWAY_OUTPUT_NONE: i32 = 0;
/// A datagram to send: bytes, length, to, ecn, is_scavenger.
pub const BYWAY_OUTPUT_TRANSMIT: i32 = 1;
/// A datagram for the application: flow, bytes, length, delivery.
pub const BYWAY_OUTPUT_DELIVERED: i32 = 2;
/// An event: event, and the fields that its constant names.
pub const BYWAY_OUTPUT_EVENT: i32 = 3;

/// Delivered by the direct path.
pub const BYWAY_DELIVERY_DIRECT: i32 = 0;
/// Delivered by relays, without a NACK.
pub const BYWAY_DELIVERY_FORWARDED: i32 = 1;
/// Repaired by the flow's own repair packets.
pub const BYWAY_DELIVERY_IN_STREAM: i32 = 2;
/// Repaired with packets from receivers of other flows.
pub const BYWAY_DELIVERY_COOPERATIVE: i32 = 3;
/// Repaired from a relay's cache.
pub const BYWAY_DELIVERY_CACHED: i32 = 4;
/// The sender sent the lost packet again through relays.
pub const BYWAY_DELIVERY_RESENT: i32 = 5;

/// A session with a peer is established: peer.
pub const BYWAY_EVENT_PEER_ESTABLISHED: i32 = 1;
/// A peer does not answer: peer.
pub const BYWAY_EVENT_PEER_LOST: i32 = 2;
/// A peer left: peer.
pub const BYWAY_EVENT_PEER_LEFT: i32 = 3;
/// The peer accepted a registration: flow.
pub const BYWAY_EVENT_ACCEPTED: i32 = 4;
/// The peer refused a registration: flow, refusal.
pub const BYWAY_EVENT_REFUSED: i32 = 5;
/// A peer's application registered flows for an exposed name: flow, peer.
pub const BYWAY_EVENT_INCOMING: i32 = 6;
/// The client refused the registration of a peer's application: peer, refusal.
pub const BYWAY_EVENT_DECLINED: i32 = 7;
/// The peer closed a pair of flows, or the pair was idle: flow.
pub const BYWAY_EVENT_CLOSED: i32 = 8;
/// A relay refused a pair of flows, permanently or for now: flow.
pub const BYWAY_EVENT_RELAY_REFUSED: i32 = 9;
/// A pair of flows changed to another relay path: flow.
pub const BYWAY_EVENT_PATH_CHANGED: i32 = 10;
/// The client has left the network.
pub const BYWAY_EVENT_LEFT: i32 = 11;
/// An event without a constant in this version of the header.
pub const BYWAY_EVENT_OTHER: i32 = 12;

/// The name is not exposed.
pub const BYWAY_REFUSAL_UNKNOWN: i32 = 1;
/// The name is not exposed to this agent.
pub const BYWAY_REFUSAL_NOT_ALLOWED: i32 = 2;
/// The limit of flows is reached.
pub const BYWAY_REFUSAL_FULL: i32 = 3;
/// The peer cannot decide yet.
pub const BYWAY_REFUSAL_NOT_YET: i32 = 4;
/// The flow number is in use: register again.
pub const BYWAY_REFUSAL_NUMBER_IN_USE: i32 = 5;
/// The address in the subject does not belong to a machine of the peer.
pub const BYWAY_REFUSAL_NOT_HERE: i32 = 6;

/// Output of a client. Fields that its kind does not name are zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Output {
    /// Kind of the output: BYWAY_OUTPUT_...
    pub kind: i32,
    /// Kind of the event: BYWAY_EVENT_...
    pub event: i32,
    /// Pair of flows that the output concerns.
    pub flow: u64,
    /// A datagram, valid until the next call with the client.
    pub bytes: *const u8,
    /// Length of the datagram in bytes.
    pub length: usize,
    /// Destination address of a datagram to send.
    pub to: Address,
    /// Number of a peer; byway_client_peer_name returns its name.
    pub peer: u32,
    /// Path of the delivered datagram, or kind of its repair: BYWAY_DELIVERY_...
    pub delivery: i32,
    /// Reason for a refusal: BYWAY_REFUSAL_...
    pub refusal: i32,
    /// The ECN field of the IP header, 0 to 3.
    pub ecn: u8,
    /// 1 if the datagram is sent after all others, otherwise 0.
    pub is_scavenger: u8,
}

impl Output {
    pub(crate) const NONE: Self = Self {
        kind: BYWAY_OUTPUT_NONE,
        event: 0,
        flow: 0,
        bytes: std::ptr::null(),
        length: 0,
        to: Address { ip: [0; 16], scope: 0, port: 0, family: 0 },
        peer: 0,
        delivery: 0,
        refusal: 0,
        ecn: 0,
        is_scavenger: 0,
    };

    fn delivered(flow: byway_client::FlowPair, datagram: &[u8], delivery: Delivery) -> Self {
        let (bytes, length) = (datagram.as_ptr(), datagram.len());
        let (flow, delivery) = (flow.number(), number_of(delivery));
        Self { kind: BYWAY_OUTPUT_DELIVERED, flow, bytes, length, delivery, ..Self::NONE }
    }
}

impl From<byway_client::Output<'_>> for Output {
    fn from(output: byway_client::Output<'_>) -> Self {
        match output {
            byway_client::Output::Transmit(transmit) => Self {
                kind: BYWAY_OUTPUT_TRANSMIT,
                bytes: transmit.bytes.as_ptr(),
                length: transmit.bytes.len(),
                to: transmit.to.into(),
                ecn: transmit.ecn.bits(),
                is_scavenger: u8::from(transmit.priority == Priority::Scavenger),
                ..Self::NONE
            },
            byway_client::Output::Delivered { flow, datagram, delivery } => {
                Self::delivered(flow, datagram, delivery)
            }
            byway_client::Output::Event(event) => event.into(),
        }
    }
}

impl From<DriverOutput<'_>> for Output {
    fn from(received: DriverOutput<'_>) -> Self {
        match received {
            DriverOutput::Delivered { flow, datagram, delivery } => Self::delivered(flow, datagram, delivery),
            DriverOutput::Event(event) => event.into(),
        }
    }
}

impl From<Event> for Output {
    fn from(event: Event) -> Self {
        let of = |event| Self { kind: BYWAY_OUTPUT_EVENT, event, ..Self::NONE };
        let peer = |event, peer: byway_units::AgentId| Self { peer: peer.number(), ..of(event) };
        let flow = |event, flow: byway_client::FlowPair| Self { flow: flow.number(), ..of(event) };
        match event {
            Event::PeerEstablished(peer_id) => peer(BYWAY_EVENT_PEER_ESTABLISHED, peer_id),
            Event::PeerLost(peer_id) => peer(BYWAY_EVENT_PEER_LOST, peer_id),
            Event::PeerLeft(peer_id) => peer(BYWAY_EVENT_PEER_LEFT, peer_id),
            Event::Accepted(pair) => flow(BYWAY_EVENT_ACCEPTED, pair),
            Event::Refused { flow: pair, refusal } => {
                Self { refusal: refusal_number(refusal), ..flow(BYWAY_EVENT_REFUSED, pair) }
            }
            Event::Incoming { flow, peer: peer_id } => {
                Self { flow: flow.number(), ..peer(BYWAY_EVENT_INCOMING, peer_id) }
            }
            Event::Declined { peer: peer_id, refusal } => {
                Self { refusal: refusal_number(refusal), ..peer(BYWAY_EVENT_DECLINED, peer_id) }
            }
            Event::Closed(pair) => flow(BYWAY_EVENT_CLOSED, pair),
            Event::RelayRefused { flow: pair, .. } => flow(BYWAY_EVENT_RELAY_REFUSED, pair),
            Event::PathChanged { flow: pair, .. } => flow(BYWAY_EVENT_PATH_CHANGED, pair),
            Event::Left => of(BYWAY_EVENT_LEFT),
            _ => of(BYWAY_EVENT_OTHER),
        }
    }
}

const fn number_of(delivery: Delivery) -> i32 {
    match delivery {
        Delivery::Direct => BYWAY_DELIVERY_DIRECT,
        Delivery::Forwarded => BYWAY_DELIVERY_FORWARDED,
        Delivery::InStream => BYWAY_DELIVERY_IN_STREAM,
        Delivery::Cooperative => BYWAY_DELIVERY_COOPERATIVE,
        Delivery::Cached => BYWAY_DELIVERY_CACHED,
        Delivery::Resent => BYWAY_DELIVERY_RESENT,
    }
}

const fn refusal_number(refusal: OfferRefusal) -> i32 {
    match refusal {
        OfferRefusal::UnknownSubject => BYWAY_REFUSAL_UNKNOWN,
        OfferRefusal::NotAllowed => BYWAY_REFUSAL_NOT_ALLOWED,
        OfferRefusal::Full => BYWAY_REFUSAL_FULL,
        OfferRefusal::NotYet => BYWAY_REFUSAL_NOT_YET,
        OfferRefusal::NumberInUse => BYWAY_REFUSAL_NUMBER_IN_USE,
        OfferRefusal::NotHere => BYWAY_REFUSAL_NOT_HERE,
    }
}
