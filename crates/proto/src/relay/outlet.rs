//! Where the ingress half's work goes: to other relays, to the egress half of this one, to senders.

use alloc::vec::Vec;

use byway_code::Repair;
use byway_units::Time;
use byway_wire::messages::{Cover, CrossStreamHead, CrossStreamRepair, Entries, Entry, InStreamRepair};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, Ecn, Message, Place, SequenceNumber};

use super::egress::{Action, CarriedCopy, CrossStream, Egress};
use super::ingress::{ClosedBatch, Covered, EgressPort, FlowSlot, Onward, Registration, Sink};
use super::links::{End, Links};
use super::ports::Ports;
use crate::limits::{BATCH_PACKETS_MAX, CROSS_STREAM_OVERHEAD, PACKET_BYTES_MAX};
use crate::outbox::{Owner, Urgency};
use crate::session::{Enveloped, SessionId, Sessions};

/// The ingress half's view of the rest of the relay, for the length of one input.
pub(super) struct Outlet<'a> {
    pub(super) sessions: &'a mut Sessions,
    pub(super) links: &'a Links,
    pub(super) ports: &'a Ports,
    pub(super) egress: &'a mut Egress,
    pub(super) actions: &'a mut Vec<Action>,
    pub(super) now: Time,
}

impl Sink for Outlet<'_> {
    fn digest(
        &mut self,
        port: EgressPort,
        alias: Alias,
        sequence: SequenceNumber,
        coded: &[u8],
    ) -> Option<[u8; 4]> {
        let session = self.ports.session(port)?;
        self.sessions.digest(session, alias, sequence.low(), coded)
    }

    fn cross_stream(&mut self, batch: &ClosedBatch<'_>) {
        match self.ports.session(batch.egress) {
            Some(session) => self.send_batch(session, batch),
            None => self.keep_batch(batch),
        }
    }

    fn in_stream(&mut self, port: EgressPort, owner: Owner, repair: &InStreamRepair<'_>) {
        match self.ports.session(port) {
            Some(session) => {
                let message = Message::InStreamRepair(*repair);
                self.sessions.use_session(session, self.now);
                self.sessions.send_repair(session, &message, owner, self.now);
            }
            None => self.keep_in_stream(port, repair),
        }
    }

    fn carry(
        &mut self,
        onward: Onward,
        owner: Owner,
        sequence: SequenceNumber,
        coded: &[u8],
        ecn: Ecn,
        is_forwarded: bool,
    ) -> bool {
        if let Some(session) = self.ports.session(onward.port) {
            let role = EnvelopeRole::Carried;
            let (alias, sequence_low) = (onward.alias, sequence.low());
            let contents = Enveloped { role, alias, sequence_low, coded, ecn, owner: Some(owner) };
            self.sessions.use_session(session, self.now);
            self.sessions.send_envelope(session, &contents, Urgency::Original, self.now);
            return true;
        }
        if let Some(key) = self.ports.own_flow(onward.port, onward.alias) {
            let sequence_low = sequence.low();
            let carried = CarriedCopy { sequence_low, coded, ecn, is_forwarded, feed: None };
            self.egress.carried(self.links.receivers_of(key), &carried, self.now, self.actions);
        }
        false
    }

    fn duplicate(&mut self, flow: &Registration, sequence: SequenceNumber, coded: &[u8], ecn: Ecn) -> u64 {
        let owner = Some(flow.owner());
        let mut receivers = 0;
        for slot in self.links.receivers_of(flow.key) {
            if let Some(End { session, alias }) = self.links.receiver(*slot) {
                let role = EnvelopeRole::Forwarded;
                let contents = Enveloped { role, alias, sequence_low: sequence.low(), coded, ecn, owner };
                self.sessions.send_envelope(session, &contents, Urgency::Original, self.now);
                receivers += 1;
            }
        }
        receivers
    }

    fn ask_copy(&mut self, flow: FlowSlot, sequence: SequenceNumber) {
        if let Some(sender) = self.links.sender(flow) {
            self.sessions.ask_copy(sender.session, sender.alias, sequence, self.now);
        }
    }
}

impl Outlet<'_> {
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
        // The longest packets leave no room for digests: a path that carries the packets carries their repair too.
        let longest = batch.repairs().map(|repair| repair.payload.len()).max().unwrap_or(0);
        let room = PACKET_BYTES_MAX.saturating_sub(longest + CROSS_STREAM_OVERHEAD);
        let needed = batch.covered.len() * (Entry::BYTES + 4);
        let digests = digests.filter(|_| needed <= room);
        let cover = |digests| Cover::new(entries, digests).expect("a batch has 1 to 32 packets");
        for (nth, repair) in batch.repairs().enumerate() {
            // Once is enough among flows of one tenant: should that packet be lost, a liar wastes repairs of that tenant, and is
            // found by other batches.
            let is_vouched = nth == 0 || !batch.is_of_one_tenant();
            let cover = cover(digests.as_deref().filter(|_| is_vouched));
            let head = CrossStreamHead {
                batch: batch.batch,
                place: place_of(&repair, batch.repair_count()),
                length_symbol: repair.length_symbol,
                cover,
            };
            let message = Message::CrossStreamRepair(CrossStreamRepair { head, payload: repair.payload });
            self.sessions.send_repair(session, &message, batch.owner(), self.now);
        }
    }

    /// Keeps a batch whose receivers are this relay's own.
    fn keep_batch(&mut self, batch: &ClosedBatch<'_>) {
        let (links, ports) = (self.links, self.ports);
        let entry = |covered: &Covered| {
            let key = ports.own_flow(batch.egress, covered.alias);
            let flow = key.and_then(|key| links.receivers_of(key).first().copied());
            let (alias, sequence) = (covered.alias, covered.sequence);
            super::egress::Entry { flow, alias, sequence, digest: covered.digest }
        };
        for repair in batch.repairs() {
            let kept = CrossStream {
                ingress: batch.egress.0,
                batch: batch.batch.number(),
                index: index_of(&repair),
                made: u8::try_from(batch.repair_count()).expect("a batch has at most 8 repair packets"),
                covers: batch.covered.len(),
                length_symbol: repair.length_symbol,
                payload: repair.payload,
            };
            let resolve = |_: &Egress| batch.covered.iter().map(entry).collect();
            self.egress.cross_stream(&kept, resolve, self.now, self.actions);
        }
    }

    /// Keeps an in-stream repair packet whose receivers are this relay's own.
    fn keep_in_stream(&mut self, port: EgressPort, repair: &InStreamRepair<'_>) {
        let Some(key) = self.ports.own_flow(port, repair.head.alias) else {
            return;
        };
        for flow in self.links.receivers_of(key) {
            self.egress.in_stream(*flow, repair, self.now, self.actions);
        }
    }
}

fn index_of(repair: &Repair<'_>) -> u8 {
    u8::try_from(repair.index).expect("a batch has at most 8 repair packets")
}

fn place_of(repair: &Repair<'_>, made: usize) -> Place {
    let made = u8::try_from(made).expect("a batch has at most 8 repair packets");
    Place::new(index_of(repair), made).expect("a repair packet is one of those made")
}
