//! Actions that the egress half asks the relay to execute.

use byway_units::Duration;
use byway_wire::messages::Mask;
use byway_wire::{Ecn, RepairIndex, SequenceNumber};

use super::flow::FlowSlot;
use crate::parts::packet_buffer::Handle;

/// Origin of a packet that the relay sends to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepairSource {
    /// A copy that the relay stored earlier, or fetched from the ingress relay.
    Cached,
    /// A decode of a batch, with packets that other receivers returned.
    Cooperative,
    /// A copy that the ingress relay forwarded, sent on to the receiver without a NACK.
    Forwarded,
    /// A copy that the sender of a flow with retransmission sent again.
    Resent,
}

/// Action for a flow: a message to its receiver or to its ingress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Sends the receiver a repair packet of the flow's own in-stream block.
    SendInStreamRepair {
        flow: FlowSlot,
        first: SequenceNumber,
        mask: Mask,
        repair_index: RepairIndex,
        length_symbol: [u8; 2],
        payload: Handle,
    },
    /// Sends the receiver a source packet of its flow.
    SendRepair { flow: FlowSlot, sequence: SequenceNumber, packet: Handle, source: RepairSource, ecn: Ecn },
    /// Requests from the flow's receiver a source packet of this flow, to decode packets of other
    /// flows.
    RequestPacket { flow: FlowSlot, sequence: SequenceNumber, repair_lifetime: Duration },
    /// Reports to the ingress relay that the flow's direct path has an outage (`is_active`), or
    /// that the outage ended.
    ReportOutage { flow: FlowSlot, is_active: bool },
    /// Sends the receiver a confirm, which asks if it still misses the packet.
    SendConfirm { flow: FlowSlot, sequence: SequenceNumber },
}
