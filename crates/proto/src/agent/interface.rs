//! Inputs, outputs and counters of an agent.

use alloc::boxed::Box;
use core::net::SocketAddr;

use byway_units::{AgentId, FlowId};
use byway_wire::{Ecn, TrafficClass};

use super::events::{Delivery, Event};
use super::receive_flow::ReceiveFlowId;
use super::send_flow::SendFlowId;
use super::terms::Offer;
use crate::counters::counters;
use crate::network_path::{LocalAddress, Uplink};
use crate::outbox::Transmit;

/// Input of an agent from its driver.
#[derive(Debug)]
pub enum AgentInput<'a> {
    /// Datagram from the network; the agent decrypts it in place.
    Received {
        /// Remote address that sent the datagram.
        from: SocketAddr,
        /// Local address that received the datagram.
        to: LocalAddress,
        /// ECN field of the datagram's IP header.
        ecn: Ecn,
        /// UDP payload of the datagram.
        bytes: &'a mut [u8],
    },
    /// Datagram of an application to send to a peer.
    Send {
        /// Flow in which the datagram is sent.
        flow: SendFlowId,
        /// Contents of the datagram, up to
        /// [`DATAGRAM_BYTES_MAX`](crate::limits::DATAGRAM_BYTES_MAX) bytes.
        datagram: &'a [u8],
        /// Traffic class of the application's packet. A DSCP other than 0 takes one byte of the
        /// payload; packets of the overlay have the ECN field alone.
        traffic_class: TrafficClass,
        /// True if the application marked it as worth a copy.
        marked: bool,
    },
    /// The time of [`Agent::deadline`](super::Agent::deadline) has come.
    Deadline,
    /// Report of an interface or a router that a packet of this agent exceeds the path MTU.
    TooLong {
        /// Destination address of the packet that was too long.
        to: SocketAddr,
        /// UDP payload of the packet, or its beginning as far as the report quotes it.
        quoted: &'a [u8],
        /// Longest UDP payload that fits the path, by the report.
        payload_bytes_max: usize,
    },
    /// Refusal of the operating system to send by one of two uplinks, because it is down or has no
    /// route. The driver has sent the datagram by the other uplink.
    UplinkRefused {
        /// Uplink that the system refuses.
        uplink: Uplink,
        /// Destination address of the refused datagram.
        to: SocketAddr,
    },
}

/// Output of an agent to its driver.
#[derive(Debug, PartialEq, Eq)]
pub enum AgentOutput<'a> {
    /// Datagram to send to the network.
    Transmit(Transmit<'a>),
    /// Received datagram for an application.
    Deliver {
        /// Flow in which the datagram arrived.
        flow: ReceiveFlowId,
        /// Contents of the datagram.
        datagram: &'a [u8],
        /// Traffic class for the application's packet. It has the sender's DSCP, and the ECN field
        /// with the path's marks (RFC 6040). A repaired loss on an ECN-capable flow becomes CE.
        traffic_class: TrafficClass,
        /// Path or repair by which the packet arrived; of two fragments, that of the later one.
        delivery: Delivery,
    },
    /// Event for the driver or an operator.
    Event(Event),
    /// A peer offers a flow pair; the driver answers by
    /// [`Agent::answer_offer`](super::Agent::answer_offer). The offer replaces earlier ones of the
    /// same number.
    Offered {
        /// Peer that offers the flows.
        peer: AgentId,
        /// Number of the two offered flows.
        flow: FlowId,
        /// Terms of the flows, from the peer's point of view: `forth` is the flow that the peer
        /// sends.
        offer: Box<Offer>,
    },
}

counters! {
/// Packets and messages that an agent sent or dropped, except those that its sessions count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCounters {
    /// Source packets sent on the direct path.
    pub source_packets: u64,
    /// Early packets sent: with their flow's offer, before the peer answered it.
    pub early: u64,
    /// Early packets dropped at the receiver: the flow or the peer had too many that waited for an
    /// answer.
    pub early_dropped: u64,
    /// Copies sent to ingress relays.
    pub copies: u64,
    /// Copies sent again because an ingress relay missed them.
    pub copies_resent: u64,
    /// Source packets sent again because a relay missed their copies: both use the same uplink.
    pub source_packets_resent: u64,
    /// Source packets not sent: the direct path was in an outage, and the uplink had no capacity
    /// for them besides their copies.
    pub source_packets_suppressed: u64,
    /// Envelopes not sent to relays: they exceed the uplink's capacity or the path MTU, would
    /// queue, do not arrive, or the backlog is full.
    pub copies_suppressed: u64,
    /// In-stream repair packets sent by sender FEC.
    pub sender_fec_repairs: u64,
    /// In-stream repair packets of sender FEC not sent, for the reasons of `copies_suppressed`.
    pub sender_fec_suppressed: u64,
    /// Copies that a relay requested after they had expired.
    pub copies_expired: u64,
    /// Datagrams of applications not sent, because they exceed
    /// [`DATAGRAM_BYTES_MAX`](crate::limits::DATAGRAM_BYTES_MAX).
    pub datagrams_too_long: u64,
    /// Decreases of a path MTU that the agent detected.
    pub paths_narrowed: u64,
    /// Datagrams sent in one packet that a path did not deliver, because its MTU had decreased.
    pub datagrams_too_long_for_path: u64,
    /// Datagrams of `datagrams_too_long_for_path` that were sent again in two fragments. The others
    /// would have been late.
    pub datagrams_split_again: u64,
    /// Reports of routers that a packet is too long, without a quoted packet of this agent.
    pub too_long_unknown: u64,
    /// Datagrams of applications not sent: no session with the receiver, or no path to it, was
    /// found in time, or their flow was refused or closed.
    pub datagrams_unsendable: u64,
    /// Datagrams sent although they waited for consent or a path for longer than their flow's
    /// latency budget.
    pub datagrams_late: u64,
    /// Packets and messages about flows that this agent does not know.
    pub flows_unknown: u64,
    /// Messages that do not parse, or that this version does not know.
    pub messages_unknown: u64,
    /// Messages that their sender's role does not permit.
    pub out_of_role: u64,
    /// Plaintexts of opened packets that do not parse: the sender is faulty.
    pub malformed: u64,
    /// Messages not handled, because their datagram had reached its work limit.
    pub work_refused: u64,
}
}
