//! Outputs of the ingress half, as messages to other relays and to senders, or as calls of this
//! relay's own egress half.

use alloc::vec::Vec;

use byway_code::Repair;
use byway_units::Time;
use byway_wire::messages::{Cover, CrossStreamHead, CrossStreamRepair, Entries, Entry, InStreamRepair};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, Capabilities, Ecn, Message, RepairIndex, SequenceNumber};

use super::egress::{Action, CrossStreamPacket, Egress, RelayedCopy};
use super::flow_table::{FlowEndpoint, FlowTable};
use super::ingress::{
    ClosedBatch, CoveredPacket, FlowSlot, NextHop, OutgoingCopy, Registration, RelayPeerId, Sink,
};
use super::relay_peer_table::RelayPeerTable;
use crate::limits::{BATCH_PACKETS_MAX, CROSS_STREAM_OVERHEAD, PACKET_BYTES_MAX};
use crate::outbox::{Owner, Priority};
use crate::session::{EnvelopeContents, SessionId, Sessions, relay_envelope, relay_repair};

/// Parts of the relay that the ingress half uses for its outputs, during one input.
pub(super) struct IngressContext<'a> {
    pub(super) sessions: &'a mut Sessions,
    pub(super) flow_table: &'a FlowTable,
    pub(super) peers: &'a RelayPeerTable,
    pub(super) egress: &'a mut Egress,
    pub(super) actions: &'a mut Vec<Action>,
    pub(super) now: Time,
}

impl Sink for IngressContext<'_> {
    fn digest(
        &mut self,
        peer: RelayPeerId,
        alias: Alias,
        sequence: SequenceNumber,
        coded: &[u8],
    ) -> Option<[u8; 4]> {
        let session = self.peers.session(peer)?;
        self.sessions.digest(session, alias, sequence.low(), coded)
    }

    fn reports_losses(&self, peer: RelayPeerId) -> bool {
        let session = self.peers.session(peer);
        let has_capability = |session| self.sessions.has_capabilities(session, Capabilities::LOSS_REPORTS);
        session.map_or_else(|| self.egress.follows_up(), has_capability)
    }

    fn send_cross_stream(&mut self, batch: &ClosedBatch<'_>) -> bool {
        let session = self.peers.session(batch.egress);
        match session {
            Some(session) => self.send_batch(session, batch),
            None => self.store_batch(batch),
        }
        session.is_some()
    }

    fn send_in_stream(&mut self, peer: RelayPeerId, owner: Owner, repair: &InStreamRepair<'_>) -> bool {
        let session = self.peers.session(peer);
        match session {
            Some(session) => {
                let message = Message::InStreamRepair(*repair);
                self.sessions.use_session(session, self.now);
                relay_repair(self.sessions, session, &message, owner, self.now);
            }
            None => self.store_in_stream_repair(peer, repair),
        }
        session.is_some()
    }

    fn relay_copy(
        &mut self,
        next_hop: NextHop,
        owner: Owner,
        sequence: SequenceNumber,
        copy: &OutgoingCopy<'_>,
    ) -> bool {
        let OutgoingCopy { coded, ecn, is_forwarded, is_resent } = *copy;
        if let Some(session) = self.peers.session(next_hop.peer) {
            let role = if is_resent { EnvelopeRole::RelayedResend } else { EnvelopeRole::RelayedCopy };
            let (alias, sequence_low) = (next_hop.alias, sequence.low());
            let contents = EnvelopeContents { role, alias, sequence_low, coded, ecn, owner: Some(owner) };
            if is_resent {
                self.sessions.watch_session(session, self.now);
            } else {
                self.sessions.use_session(session, self.now);
            }
            relay_envelope(self.sessions, session, &contents, self.now);
            return true;
        }
        if let Some(key) = self.peers.local_flow_key(next_hop.peer, next_hop.alias) {
            let sequence_low = sequence.low();
            let copy = RelayedCopy { sequence_low, coded, ecn, is_forwarded, is_resent, source: None };
            self.egress.on_relayed_copy(self.flow_table.receivers_of(key), &copy, self.now, self.actions);
        }
        false
    }

    fn send_duplicates(
        &mut self,
        flow: &Registration,
        sequence: SequenceNumber,
        coded: &[u8],
        ecn: Ecn,
    ) -> u64 {
        let owner = Some(flow.owner());
        let mut receivers = 0;
        for slot in self.flow_table.receivers_of(flow.key) {
            if let Some(FlowEndpoint { session, alias }) = self.flow_table.receiver(*slot) {
                let role = EnvelopeRole::Forwarded;
                let contents =
                    EnvelopeContents { role, alias, sequence_low: sequence.low(), coded, ecn, owner };
                self.sessions.send_envelope(session, &contents, Priority::Source, self.now);
                receivers += 1;
            }
        }
        receivers
    }

    fn request_copy(&mut self, flow: FlowSlot, sequence: SequenceNumber) {
        if let Some(sender) = self.flow_table.sender(flow) {
            self.sessions.send_copy_nack(sender.session, sender.alias, sequence, self.now);
        }
    }
}

impl IngressContext<'_> {
    fn send_batch(&mut self, session: SessionId, batch: &ClosedBatch<'_>) {
        self.sessions.use_session(session, self.now);
        let mut scratch = [[0; Entry::BYTES]; BATCH_PACKETS_MAX];
        let mut covered = batch
            .covered
            .iter()
            .map(|covered| Entry { alias: covered.alias, sequence_low: covered.sequence.low() });
        let entries = Entries::collect(&mut covered, &mut scratch);
        let digests: Option<arrayvec::ArrayVec<[u8; 4], BATCH_PACKETS_MAX>> =
            batch.covered.iter().map(|covered| covered.digest).collect();
        // Digests must leave a repair packet no longer than a path's longest source packet: a path
        // that delivers the packets delivers their repair packets too. Batches of the longest
        // packets have no digests.
        let longest = batch.repairs().map(|repair| repair.payload.len()).max().unwrap_or(0);
        let capacity = PACKET_BYTES_MAX.saturating_sub(longest + CROSS_STREAM_OVERHEAD);
        let needed = batch.covered.len() * (Entry::BYTES + 4);
        let digests = digests.filter(|_| needed <= capacity);
        let cover = |digests| Cover::new(entries, digests).expect("a batch has 1 to 32 packets");
        for (nth, repair) in batch.repairs().enumerate() {
            // For a batch of one tenant, digests in the first repair packet suffice. If that packet
            // is lost, a misbehaving receiver wastes repairs of that tenant only, and other batches
            // reveal it.
            let has_digests = nth == 0 || !batch.is_of_one_tenant();
            let cover = cover(digests.as_deref().filter(|_| has_digests));
            let head = CrossStreamHead {
                batch: batch.batch,
                repair_index: repair_index(&repair, batch.repair_count()),
                length_symbol: repair.length_symbol,
                cover,
            };
            let message = Message::CrossStreamRepair(CrossStreamRepair { head, payload: repair.payload });
            relay_repair(self.sessions, session, &message, batch.owner(), self.now);
        }
    }

    /// Stores the repair packets of a batch in this relay's own egress half, because the batch's
    /// receivers are at this relay.
    fn store_batch(&mut self, batch: &ClosedBatch<'_>) {
        let (flow_table, peers) = (self.flow_table, self.peers);
        let entry = |covered: &CoveredPacket| {
            let key = peers.local_flow_key(batch.egress, covered.alias);
            let flow = key.and_then(|key| flow_table.receivers_of(key).first().copied());
            let (alias, sequence) = (covered.alias, covered.sequence);
            super::egress::BatchEntry { flow, alias, sequence, digest: covered.digest }
        };
        for repair in batch.repairs() {
            let packet = CrossStreamPacket {
                ingress: batch.egress.0,
                batch: batch.batch.number(),
                index: index_of(&repair),
                repair_count: u8::try_from(batch.repair_count())
                    .expect("a batch has at most 8 repair packets"),
                covered_count: batch.covered.len(),
                length_symbol: repair.length_symbol,
                payload: repair.payload,
            };
            let resolve = |_: &Egress| batch.covered.iter().map(entry).collect();
            self.egress.on_cross_stream_repair(&packet, resolve, self.now, self.actions);
        }
    }

    /// Stores an in-stream repair packet in this relay's own egress half, because the flow's
    /// receivers are at this relay.
    fn store_in_stream_repair(&mut self, peer: RelayPeerId, repair: &InStreamRepair<'_>) {
        let Some(key) = self.peers.local_flow_key(peer, repair.head.alias) else {
            return;
        };
        for flow in self.flow_table.receivers_of(key) {
            self.egress.on_in_stream_repair(*flow, repair, self.now, self.actions);
        }
    }
}

fn index_of(repair: &Repair<'_>) -> u8 {
    u8::try_from(repair.index).expect("a batch has at most 8 repair packets")
}

fn repair_index(repair: &Repair<'_>, count: usize) -> RepairIndex {
    let count = u8::try_from(count).expect("a batch has at most 8 repair packets");
    RepairIndex::new(index_of(repair), count).expect("a repair packet is one of those made")
}
