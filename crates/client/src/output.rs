//! What a client wants done, and what it says.

use byway_proto::Transmit;
use byway_proto::agent::{Delivery, OfferRefusal};
use byway_units::AgentId;
use byway_wire::messages::Refusal;

use crate::flow_pair::FlowPair;

/// What a client wants done, or says.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// A datagram to be sent; those with [`Urgency::Original`](byway_proto::Urgency) before others.
    Transmit(Transmit<'a>),
    /// A datagram for the application.
    Delivered {
        /// The flows it belongs to.
        flow: FlowPair,
        /// The datagram.
        datagram: &'a [u8],
        /// How it came: directly, or as which kind of repair.
        delivery: Delivery,
    },
    /// Something to know.
    Event(Event),
}

/// Something that an application may want to know. Names of peers: [`Client::name_of`](crate::Client::name_of).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// There is a session with a peer.
    PeerEstablished(AgentId),
    /// A peer does not answer. It is tried again as long as there is something to send.
    PeerLost(AgentId),
    /// A peer left. What was registered with it stands, and is offered again when it is back.
    PeerLeft(AgentId),
    /// The peer takes part in what was registered: datagrams may be sent.
    Accepted(FlowPair),
    /// The peer does not take part in what was registered, which is closed.
    Refused {
        /// What was registered.
        flow: FlowPair,
        /// Why.
        refusal: OfferRefusal,
    },
    /// A peer's application registered something that is exposed here; [`Client::subject`](crate::Client::subject) says what.
    Incoming {
        /// Its flows: datagrams may be sent.
        flow: FlowPair,
        /// Who.
        peer: AgentId,
    },
    /// A peer's application was refused.
    Declined {
        /// Who.
        peer: AgentId,
        /// Why.
        refusal: OfferRefusal,
    },
    /// A pair of flows is closed: by the peer, or because nobody used it for five minutes.
    Closed(FlowPair),
    /// A relay does not serve a pair of flows, or cannot for now. The direct path goes on.
    RelayRefused {
        /// The flows.
        flow: FlowPair,
        /// Why.
        refusal: Refusal,
    },
    /// A pair of flows uses another of its paths through relays.
    PathChanged {
        /// The flows.
        flow: FlowPair,
        /// Which of its paths, from 0.
        path: usize,
    },
    /// The client has said that it leaves, and is of no use any more.
    Left,
}
