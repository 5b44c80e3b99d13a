//! Early packets at the receiver: held until the driver has answered their flow's offer.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{Duration, FlowId, Time};
use byway_wire::messages::EarlyPacket;
use byway_wire::{Ecn, Piece, Plaintext, SequenceNumber};

use super::Agent;
use super::delivering::Way;
use super::early::EarlyKey;
use super::events::Delivery;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use crate::limits::{
    EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX, EARLY_DATAGRAMS_PER_PEER_MAX,
    HIGH_BITS_TRIED,
};
use crate::policy::keeps;
use crate::session::{Origin, SessionId};

/// A packet that waits for the driver's consent to its flow.
#[derive(Debug)]
struct Held {
    piece: Piece,
    /// The time from the application's sending to the packet's sending.
    waited: Duration,
    arrived: Time,
    delivery: Delivery,
    /// The plaintext, as in a source packet.
    plaintext: Vec<u8>,
}

/// The packets of one flow that wait.
#[derive(Debug, Default)]
struct HeldFlow {
    packets: BTreeMap<SequenceNumber, Held>,
    bytes: usize,
}

/// Packets of offered flows that the driver has not accepted yet.
#[derive(Debug, Default)]
pub(super) struct EarlyReceived {
    flows: BTreeMap<EarlyKey, HeldFlow>,
}

impl EarlyReceived {
    /// Holds a packet; `false` if there are too many.
    fn hold(&mut self, key: EarlyKey, sequence: SequenceNumber, held: Held) -> bool {
        let (peer, bytes) = (key.0, held.plaintext.len() - Plaintext::HEAD_BYTES);
        let all = self.flows.range((peer, FlowId::new(0))..=(peer, FlowId::new(u16::MAX)));
        let (packets_all, bytes_all) = all
            .fold((0, 0), |(packets, bytes), (_, flow)| (packets + flow.packets.len(), bytes + flow.bytes));
        let flow = self.flows.entry(key).or_default();
        if flow.packets.contains_key(&sequence) {
            return true;
        }
        let has_room = flow.packets.len() < PACKETS_MAX
            && packets_all < PACKETS_PER_PEER_MAX
            && flow.bytes + bytes <= EARLY_BYTES_MAX
            && bytes_all + bytes <= EARLY_BYTES_PER_PEER_MAX;
        if has_room {
            flow.bytes += bytes;
            flow.packets.insert(sequence, held);
        }
        has_room
    }

    /// Packets that wait, and the bytes of their datagrams.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize) {
        let flows = self.flows.values();
        flows.fold((0, 0), |(packets, bytes), flow| (packets + flow.packets.len(), bytes + flow.bytes))
    }

    /// Forgets the packets of a peer's flows.
    pub(super) fn forget_peer(&mut self, peer: SessionId) {
        self.flows.retain(|(from, _), _| *from != peer);
    }
}

/// Sequence numbers of early packets, which arrive without their coded bytes.
///
/// The set remembers 64 numbers below the highest, as many packets as one flow sends early.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UncodedSet {
    highest: u64,
    /// Bit n stands for the number that is n below the highest.
    mask: u64,
}

const _: () =
    assert!(PACKETS_MAX <= u64::BITS as usize, "the mask has a bit for every early packet of a flow");

impl UncodedSet {
    /// Adds a number; forgets those that are 64 or more below the highest.
    fn insert(&mut self, sequence: SequenceNumber) {
        let number = sequence.number();
        if let Some(ahead) = number.checked_sub(self.highest) {
            let shift = u32::try_from(ahead).unwrap_or(u32::MAX);
            self.mask = self.mask.checked_shl(shift).unwrap_or(0);
            self.highest = number;
        }
        self.mask |= self.bit(sequence);
    }

    pub(super) fn contains(&self, sequence: SequenceNumber) -> bool {
        self.mask & self.bit(sequence) != 0
    }

    fn remove(&mut self, sequence: SequenceNumber) {
        self.mask &= !self.bit(sequence);
    }

    fn bit(&self, sequence: SequenceNumber) -> u64 {
        let behind =
            self.highest.checked_sub(sequence.number()).and_then(|behind| u32::try_from(behind).ok());
        behind.and_then(|behind| 1_u64.checked_shl(behind)).unwrap_or(0)
    }
}

/// A datagram has two packets at most.
const PACKETS_MAX: usize = 2 * EARLY_DATAGRAMS_MAX;
const PACKETS_PER_PEER_MAX: usize = 2 * EARLY_DATAGRAMS_PER_PEER_MAX;

impl Agent {
    /// Handles a packet that came with its flow's offer: delivers it if the flow is accepted, holds
    /// it while the offer is unanswered, and drops it if there is no such offer.
    pub(super) fn early_packet(
        &mut self,
        session: SessionId,
        packet: &EarlyPacket<'_>,
        origin: Origin,
        now: Time,
    ) {
        let EarlyPacket { flow, sequence, piece, waited, plaintext } = *packet;
        let delivery = match origin {
            Origin::Address(_) => Delivery::Direct,
            Origin::Detour(_) => Delivery::Forwarded,
        };
        let plaintext = [&plaintext.head()[..], plaintext.datagram].concat();
        let held = Held { piece, waited: waited.duration(), arrived: now, delivery, plaintext };
        let key = (session, flow);
        if let Some(id) = self.incoming.get(key).map(ReceiveFlowId) {
            self.deliver_early(id, sequence, &held, false, now);
        } else if self.is_offered(key) {
            self.counters.early_dropped += u64::from(!self.early_received.hold(key, sequence, held));
        } else {
            self.counters.flows_unknown += 1;
        }
    }

    /// True if a peer's offer waits for the driver's answer.
    fn is_offered(&self, (session, flow): EarlyKey) -> bool {
        self.agent_of(session).is_some_and(|peer| self.offers.is_pending(peer, flow))
    }

    /// Delivers or drops the packets that came with an offer, as the driver has answered.
    pub(super) fn release_early(&mut self, key: EarlyKey, is_accepted: bool, now: Time) {
        let Some(held) = self.early_received.flows.remove(&key).filter(|_| is_accepted) else {
            return;
        };
        let Some(id) = self.incoming.get(key).map(ReceiveFlowId) else {
            self.counters.flows_unknown += held.packets.len() as u64;
            return;
        };
        let last = held.packets.last_key_value().map(|(sequence, _)| *sequence);
        for (sequence, held) in held.packets {
            self.deliver_early(id, sequence, &held, last != Some(sequence), now);
        }
    }

    /// Delivers an early packet unless it is late or a duplicate. `is_held` is true for all packets of
    /// a burst that consent releases, except the last.
    fn deliver_early(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        held: &Held,
        is_held: bool,
        now: Time,
    ) {
        let Held { piece, waited, arrived, delivery, ref plaintext } = *held;
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        if !flow.may_have(sequence) {
            self.counters.malformed += 1;
            return;
        }
        if !flow.is_new(sequence) {
            flow.statistics.duplicates += 1;
            return;
        }
        if waited.saturating_add(now.saturating_since(arrived)) > flow.allowance(round_trip) {
            // The source packet follows, and is delivered.
            flow.statistics.late += 1;
            return;
        }
        // An early packet has no coded bytes.
        self.scratch.clear();
        let way = Way { delivery, outer: Ecn::NotCapable, is_held };
        self.arrived(id, sequence, piece, plaintext, way, now);
        let flow = &mut self.receivers[id.0 as usize];
        if keeps(flow.settings.service)
            && !flow.is_new(sequence)
            && let Some(active) = flow.active_mut()
        {
            active.uncoded.insert(sequence);
        }
        self.try_blocks(id, now);
    }

    /// Keeps the coded bytes of a packet that was delivered early. The scratch buffer holds them.
    ///
    /// Blocks of the flow and requests of relays need these bytes, the application does not.
    pub(super) fn keep_coded(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        if let Some(active) = self.receivers[id.0 as usize].active_mut() {
            active.uncoded.remove(sequence);
        }
        self.keep(id, sequence, now);
    }
}

impl ReceiveFlow {
    /// True if the low bits in a source packet's header could stand for this number.
    fn may_have(&self, sequence: SequenceNumber) -> bool {
        match self.highest() {
            Some(highest) => SequenceNumber::nearest(sequence.low(), highest) == sequence,
            None => sequence.number() >> 32 < u64::from(HIGH_BITS_TRIED),
        }
    }
}
