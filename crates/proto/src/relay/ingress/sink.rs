//! Copies that arrive at the ingress half and leave it, and its outputs.

use byway_wire::messages::InStreamRepair;
use byway_wire::{Alias, Ecn, SequenceNumber};

use super::flow::{FlowSlot, NextHop, Registration};
use super::group::{ClosedBatch, RelayPeerId};
use crate::outbox::Owner;

/// A copy that arrives from its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivingCopy<'a> {
    pub(crate) sequence_low: u32,
    pub(crate) coded: &'a [u8],
    /// True if its sender marked it as sent again after a copy NACK.
    pub(crate) is_resent: bool,
    /// ECN field of the IP packet in which it arrived.
    pub(crate) ecn: Ecn,
}

/// A copy that the relay forwards to an egress relay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingCopy<'a> {
    pub(crate) coded: &'a [u8],
    /// ECN field of the copy's IP packet.
    pub(crate) ecn: Ecn,
    /// True if the egress relay delivers the copy; otherwise it stores it.
    pub(crate) is_forwarded: bool,
    /// True if the sender of a flow with retransmission sent it again.
    pub(crate) is_resent: bool,
}

/// Outputs of the ingress half, which the relay implements.
pub(crate) trait Sink {
    /// Returns the digest of a packet's coded bytes, if the egress relay wants digests.
    fn digest(
        &mut self,
        peer: RelayPeerId,
        alias: Alias,
        sequence: SequenceNumber,
        coded: &[u8],
    ) -> Option<[u8; 4]>;
    /// True if the egress relay reports losses, so that the redundancy can follow them.
    fn reports_losses(&self, peer: RelayPeerId) -> bool;
    /// Sends a closed batch's repair packets to its egress relay. Returns `true` if that is another
    /// relay.
    fn send_cross_stream(&mut self, batch: &ClosedBatch<'_>) -> bool;
    /// Sends a repair packet of a flow's in-stream block to an egress relay. Returns `true` if that
    /// is another relay.
    fn send_in_stream(&mut self, peer: RelayPeerId, owner: Owner, repair: &InStreamRepair<'_>) -> bool;
    /// Forwards a copy to a next hop. Returns `true` if the copy may be lost, because it goes to
    /// another relay.
    fn relay_copy(
        &mut self,
        next_hop: NextHop,
        owner: Owner,
        sequence: SequenceNumber,
        copy: &OutgoingCopy<'_>,
    ) -> bool;
    /// Sends a copy to the flow's receivers at this relay, in place of their sender. Returns their
    /// number.
    fn send_duplicates(
        &mut self,
        flow: &Registration,
        sequence: SequenceNumber,
        coded: &[u8],
        ecn: Ecn,
    ) -> u64;
    /// Sends a copy NACK for one sequence number to the flow's sender.
    fn request_copy(&mut self, flow: FlowSlot, sequence: SequenceNumber);
}
