//! What the egress half wants done.

use byway_units::Duration;
use byway_wire::messages::Mask;
use byway_wire::{Ecn, Place, SequenceNumber};

use super::flow::FlowSlot;
use crate::parts::packet_log::Handle;

/// Why a packet is given to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// From the cache.
    Cached,
    /// Decoded with others' help.
    Cooperative,
    /// As the forwarding service does, unasked.
    Forwarded,
}

/// Something to be sent to the receiver of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// One of the flow's own repair packets.
    InStream {
        flow: FlowSlot,
        first: SequenceNumber,
        mask: Mask,
        place: Place,
        length_symbol: [u8; 2],
        payload: Handle,
    },
    /// A packet of the flow.
    Give { flow: FlowSlot, sequence: SequenceNumber, packet: Handle, given: Given, ecn: Ecn },
    /// A packet of the flow is asked for, for somebody else.
    Ask { flow: FlowSlot, sequence: SequenceNumber, patience: Duration },
    /// The ingress relay is to know whether the flow's direct path is dark.
    Outage { flow: FlowSlot, is_dark: bool },
    /// Whether a packet is still missed.
    Confirm { flow: FlowSlot, sequence: SequenceNumber },
}
