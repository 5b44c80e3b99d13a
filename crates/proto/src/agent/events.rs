//! Events that an agent reports to its driver.

use byway_units::{AgentId, FlowId};
use byway_wire::FlowKey;
use byway_wire::messages::{OfferRefusal, Refusal};

/// Path or repair by which a packet reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Delivery {
    /// The packet arrived by the direct path.
    Direct,
    /// The packet arrived from a relay, which forwards it without a NACK.
    Forwarded,
    /// The receiver restored the packet from the flow's own repair packets.
    InStream,
    /// A relay restored the lost packet with packets of other receivers, after a NACK.
    Cooperative,
    /// A relay sent the lost packet from its cache, after a NACK.
    Cached,
    /// The sender sent the lost packet again through relays, after a NACK or a silence.
    Resent,
}

/// Event that an agent reports to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session with a peer is established that continues no earlier one.
    PeerEstablished(AgentId),
    /// A peer does not answer probes or handshakes, or not any more.
    PeerLost(AgentId),
    /// A peer shut down, and sent a close message first.
    PeerLeft(AgentId),
    /// The peer closed this flow, and this agent has closed it too.
    FlowClosed(FlowKey),
    /// This agent has sent its last close messages. It ignores all further inputs.
    Left,
    /// A relay refuses a flow, or cannot forward it now. The flow uses another path, if it has one.
    FlowRefused {
        /// Flow that the relay refuses.
        flow: FlowKey,
        /// Reason that the relay gives for its refusal.
        refusal: Refusal,
    },
    /// A flow that relays have accepted uses another of its relay paths.
    PathChanged {
        /// Flow whose path changed.
        flow: FlowKey,
        /// Index of the new path among the flow's relay paths, from 0.
        path: usize,
    },
    /// A peer has answered an offer of this agent. If the peer restarts, the agent repeats the
    /// offer, and a second answer follows.
    OfferAnswered {
        /// Peer that answered the offer.
        peer: AgentId,
        /// Number of the offered flow pair.
        flow: FlowId,
        /// `Ok` if the peer has opened the flows, otherwise the reason. Never
        /// [`OfferRefusal::NotYet`], because the agent then repeats the offer.
        outcome: Result<(), OfferRefusal>,
    },
}
