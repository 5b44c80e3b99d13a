//! Outputs of a client: datagrams to send, datagrams for the application, and events.

use byway_proto::Transmit;
use byway_proto::agent::{Delivery, OfferRefusal};
use byway_units::AgentId;
use byway_wire::messages::Refusal;

use crate::flow_pair::FlowPair;

/// Output of a client, for its driver or the application.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<'a> {
    /// Datagram to send on a socket; those with [`Priority::Source`](byway_proto::Priority) first.
    Transmit(Transmit<'a>),
    /// Datagram of a peer's application for this one.
    Delivered {
        /// Pair of flows of the datagram.
        flow: FlowPair,
        /// The datagram.
        datagram: &'a [u8],
        /// Path of the datagram: direct or by relays, or the kind of its repair.
        delivery: Delivery,
    },
    /// Event for the application.
    Event(Event),
}

/// Event for the application. [`Client::name_of`](crate::Client::name_of) returns the names of
/// peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session with a peer is established.
    PeerEstablished(AgentId),
    /// A peer does not answer. The client tries again while there are datagrams to send to it.
    PeerLost(AgentId),
    /// A peer left the network. Flows that this application registered remain, and the client
    /// offers them again after the peer returns.
    PeerLeft(AgentId),
    /// The peer accepted a registration: datagrams may be sent.
    Accepted(FlowPair),
    /// The peer refused a registration. Its flows are closed.
    Refused {
        /// Pair of flows that the application registered.
        flow: FlowPair,
        /// Reason for the refusal.
        refusal: OfferRefusal,
    },
    /// A peer's application registered flows for a name that is exposed here; see
    /// [`Client::subject`](crate::Client::subject).
    Incoming {
        /// New pair of flows, over which datagrams may be sent.
        flow: FlowPair,
        /// Peer whose application registered the flows.
        peer: AgentId,
    },
    /// The client refused the registration of a peer's application.
    Declined {
        /// Peer whose application tried to register flows.
        peer: AgentId,
        /// Reason for the refusal.
        refusal: OfferRefusal,
    },
    /// The peer closed a pair of flows, or the pair was idle for five minutes.
    Closed(FlowPair),
    /// A relay refused a pair of flows, permanently or for now. The direct path remains in use.
    RelayRefused {
        /// Pair of flows that the relay refused.
        flow: FlowPair,
        /// Reason for the refusal.
        refusal: Refusal,
    },
    /// A pair of flows now uses another of its relay paths.
    PathChanged {
        /// Pair of flows that changed its path.
        flow: FlowPair,
        /// Index of the new path among the pair's relay paths, from 0.
        path: usize,
    },
    /// The client has left the network, and all outputs are done. It has no further use.
    Left,
}
