//! What an agent tells its driver beside packets.

use byway_units::{AgentId, FlowId};
use byway_wire::FlowKey;
use byway_wire::messages::{OfferRefusal, Refusal};

/// How a packet reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// On the direct path.
    Direct,
    /// Over the overlay, unasked.
    Forwarded,
    /// Restored from the flow's own repair packets.
    InStream,
    /// Restored with other receivers' help.
    Cooperative,
    /// From a relay's cache.
    Cached,
}

/// Something that the driver, or a person, may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session with another agent is up.
    PeerEstablished(AgentId),
    /// Another agent does not answer, or no more.
    PeerLost(AgentId),
    /// Another agent left: it said so.
    PeerLeft(AgentId),
    /// The other end closed a flow, and this one is closed too.
    FlowClosed(FlowKey),
    /// This agent has said that it leaves, and is of no use any more.
    Left,
    /// A relay will not serve a flow, or cannot for now: another path is used, if there is one.
    FlowRefused {
        /// The flow.
        flow: FlowKey,
        /// Why.
        refusal: Refusal,
    },
    /// A flow that relays took part in uses another of its paths through the overlay.
    PathChanged {
        /// The flow.
        flow: FlowKey,
        /// Which of its paths, from 0.
        path: usize,
    },
    /// A peer has answered an offer. If it restarts it is asked again, and so answers again.
    OfferAnswered {
        /// Who answered.
        peer: AgentId,
        /// The number of the offered flows.
        flow: FlowId,
        /// Whether it has opened them, or why not. [`OfferRefusal::NotYet`] is none: the peer is asked again.
        outcome: Result<(), OfferRefusal>,
    },
}
