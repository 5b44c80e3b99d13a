//! What a client wants done, and what it says, as C has it.

use byway_client::{Delivery, Event, OfferRefusal, Received, Urgency};

use crate::address::Address;

/// There is nothing more.
pub const BYWAY_OUTPUT_NONE: i32 = 0;
/// A datagram is to be sent: bytes, length, to, ecn, is_scavenger.
pub const BYWAY_OUTPUT_TRANSMIT: i32 = 1;
/// A datagram came for the application: flow, bytes, length, delivery.
pub const BYWAY_OUTPUT_DELIVERED: i32 = 2;
/// Something is to be known: event, and what is said there.
pub const BYWAY_OUTPUT_EVENT: i32 = 3;

/// It came on the direct path.
pub const BYWAY_DELIVERY_DIRECT: i32 = 0;
/// It came through relays, unasked.
pub const BYWAY_DELIVERY_FORWARDED: i32 = 1;
/// It was restored from the flow's own repair packets.
pub const BYWAY_DELIVERY_IN_STREAM: i32 = 2;
/// It was restored with other receivers' help.
pub const BYWAY_DELIVERY_COOPERATIVE: i32 = 3;
/// It came from a relay's cache.
pub const BYWAY_DELIVERY_CACHED: i32 = 4;

/// There is a session with a peer: peer.
pub const BYWAY_EVENT_PEER_ESTABLISHED: i32 = 1;
/// A peer does not answer: peer.
pub const BYWAY_EVENT_PEER_LOST: i32 = 2;
/// A peer left: peer.
pub const BYWAY_EVENT_PEER_LEFT: i32 = 3;
/// The peer takes part in what was registered: flow.
pub const BYWAY_EVENT_ACCEPTED: i32 = 4;
/// The peer does not take part in what was registered: flow, refusal.
pub const BYWAY_EVENT_REFUSED: i32 = 5;
/// A peer's application registered what is exposed here: flow, peer.
pub const BYWAY_EVENT_INCOMING: i32 = 6;
/// A peer's application was refused: peer, refusal.
pub const BYWAY_EVENT_DECLINED: i32 = 7;
/// Flows are closed, by the peer or because nobody used them: flow.
pub const BYWAY_EVENT_CLOSED: i32 = 8;
/// A relay does not serve flows, or cannot for now: flow.
pub const BYWAY_EVENT_RELAY_REFUSED: i32 = 9;
/// Flows use another path through relays: flow.
pub const BYWAY_EVENT_PATH_CHANGED: i32 = 10;
/// The client has left.
pub const BYWAY_EVENT_LEFT: i32 = 11;
/// Something that this version of the header has no number for.
pub const BYWAY_EVENT_OTHER: i32 = 12;

/// Nothing of that name is exposed.
pub const BYWAY_REFUSAL_UNKNOWN: i32 = 1;
/// It is not exposed to this peer.
pub const BYWAY_REFUSAL_NOT_ALLOWED: i32 = 2;
/// There is no room for more flows.
pub const BYWAY_REFUSAL_NO_ROOM: i32 = 3;
/// Not yet.
pub const BYWAY_REFUSAL_NOT_YET: i32 = 4;
/// The number of the flows is taken: register again.
pub const BYWAY_REFUSAL_NUMBER_TAKEN: i32 = 5;
/// The address that the subject names is on no machine of the peer.
pub const BYWAY_REFUSAL_NOT_HERE: i32 = 6;

/// What a client wants done, or says. Fields that its kind does not name are zero.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Output {
    /// BYWAY_OUTPUT_...
    pub kind: i32,
    /// BYWAY_EVENT_...
    pub event: i32,
    /// The flows.
    pub flow: u64,
    /// A datagram: good until the next call with the client.
    pub bytes: *const u8,
    /// Its length.
    pub length: usize,
    /// Where it goes.
    pub to: Address,
    /// The number of a peer: byway_client_peer_name has its name.
    pub peer: u32,
    /// BYWAY_DELIVERY_...
    pub delivery: i32,
    /// BYWAY_REFUSAL_...
    pub refusal: i32,
    /// The ECN field of the IP header, 0 to 3.
    pub ecn: u8,
    /// 1 if it goes behind others, 0 if it is urgent.
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
                is_scavenger: u8::from(transmit.urgency == Urgency::Scavenger),
                ..Self::NONE
            },
            byway_client::Output::Delivered { flow, datagram, delivery } => {
                Self::delivered(flow, datagram, delivery)
            }
            byway_client::Output::Event(event) => event.into(),
        }
    }
}

impl From<Received<'_>> for Output {
    fn from(received: Received<'_>) -> Self {
        match received {
            Received::Delivered { flow, datagram, delivery } => Self::delivered(flow, datagram, delivery),
            Received::Event(event) => event.into(),
        }
    }
}

impl From<Event> for Output {
    fn from(event: Event) -> Self {
        let of = |event| Self { kind: BYWAY_OUTPUT_EVENT, event, ..Self::NONE };
        let peer = |event, peer: byway_units::AgentId| Self { peer: peer.number(), ..of(event) };
        let flow = |event, flow: byway_client::FlowPair| Self { flow: flow.number(), ..of(event) };
        match event {
            Event::PeerEstablished(who) => peer(BYWAY_EVENT_PEER_ESTABLISHED, who),
            Event::PeerLost(who) => peer(BYWAY_EVENT_PEER_LOST, who),
            Event::PeerLeft(who) => peer(BYWAY_EVENT_PEER_LEFT, who),
            Event::Accepted(which) => flow(BYWAY_EVENT_ACCEPTED, which),
            Event::Refused { flow: which, refusal } => {
                Self { refusal: refusal_number(refusal), ..flow(BYWAY_EVENT_REFUSED, which) }
            }
            Event::Incoming { flow, peer: who } => {
                Self { flow: flow.number(), ..peer(BYWAY_EVENT_INCOMING, who) }
            }
            Event::Declined { peer: who, refusal } => {
                Self { refusal: refusal_number(refusal), ..peer(BYWAY_EVENT_DECLINED, who) }
            }
            Event::Closed(which) => flow(BYWAY_EVENT_CLOSED, which),
            Event::RelayRefused { flow: which, .. } => flow(BYWAY_EVENT_RELAY_REFUSED, which),
            Event::PathChanged { flow: which, .. } => flow(BYWAY_EVENT_PATH_CHANGED, which),
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
    }
}

const fn refusal_number(refusal: OfferRefusal) -> i32 {
    match refusal {
        OfferRefusal::UnknownSubject => BYWAY_REFUSAL_UNKNOWN,
        OfferRefusal::NotAllowed => BYWAY_REFUSAL_NOT_ALLOWED,
        OfferRefusal::NoRoom => BYWAY_REFUSAL_NO_ROOM,
        OfferRefusal::NotYet => BYWAY_REFUSAL_NOT_YET,
        OfferRefusal::NumberTaken => BYWAY_REFUSAL_NUMBER_TAKEN,
        OfferRefusal::NotHere => BYWAY_REFUSAL_NOT_HERE,
    }
}
