//! Early packets at the receiver: held until the driver has answered their flow's offer.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::EarlyPacket;
use byway_wire::{Ecn, Flags, Plaintext, SequenceNumber};

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
struct BufferedPacket {
    flags: Flags,
    /// The time from the application's sending to the packet's sending.
    waited: Duration,
    arrived: Time,
    delivery: Delivery,
    /// The plaintext, as in a source packet.
    plaintext: Vec<u8>,
}

/// Packets, and the bytes of their datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferSize {
    pub(super) packets: usize,
    pub(super) bytes: usize,
}

impl BufferSize {
    const fn add(&mut self, bytes: usize) {
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + bytes);
    }

    const fn subtract(&mut self, other: Self) {
        (self.packets, self.bytes) = (self.packets - other.packets, self.bytes - other.bytes);
    }

    /// True if another packet of so many bytes is within these limits.
    const fn has_room(self, bytes: usize, packets_max: usize, bytes_max: usize) -> bool {
        self.packets < packets_max && self.bytes + bytes <= bytes_max
    }
}

/// The packets of one flow that wait: at least one.
#[derive(Debug, Default)]
struct BufferedFlow {
    packets: BTreeMap<SequenceNumber, BufferedPacket>,
    size: BufferSize,
}

/// Packets of offered flows that the driver has not accepted yet.
#[derive(Debug, Default)]
pub(super) struct EarlyBuffer {
    flows: BTreeMap<EarlyKey, BufferedFlow>,
    /// Totals of each peer that has buffered flows.
    by_peer: BTreeMap<SessionId, BufferSize>,
}

impl EarlyBuffer {
    /// Returns true if a packet is buffered already.
    fn contains(&self, key: EarlyKey, sequence: SequenceNumber) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.packets.contains_key(&sequence))
    }

    /// True if another packet of so many bytes is within the limits of its flow and its peer.
    fn has_room(&self, key: EarlyKey, bytes: usize) -> bool {
        let own = self.flows.get(&key).map_or(BufferSize::default(), |flow| flow.size);
        let all = self.by_peer.get(&key.0).copied().unwrap_or_default();
        own.has_room(bytes, PACKETS_MAX, EARLY_BYTES_MAX)
            && all.has_room(bytes, PACKETS_PER_PEER_MAX, EARLY_BYTES_PER_PEER_MAX)
    }

    /// Adds a packet that is not buffered yet, and for which there is room.
    fn insert(&mut self, key: EarlyKey, sequence: SequenceNumber, packet: BufferedPacket) {
        let bytes = packet.plaintext.len() - Plaintext::HEAD_BYTES;
        let flow = self.flows.entry(key).or_default();
        flow.size.add(bytes);
        flow.packets.insert(sequence, packet);
        self.by_peer.entry(key.0).or_default().add(bytes);
    }

    /// Removes the packets of a flow.
    fn remove(&mut self, key: EarlyKey) -> Option<BufferedFlow> {
        let flow = self.flows.remove(&key)?;
        if let Some(all) = self.by_peer.get_mut(&key.0) {
            all.subtract(flow.size);
            if all.packets == 0 {
                self.by_peer.remove(&key.0);
            }
        }
        Some(flow)
    }

    /// Forgets the packets of a flow.
    pub(super) fn forget(&mut self, key: EarlyKey) {
        self.remove(key);
    }

    /// Returns the size of all packets.
    #[cfg(test)]
    pub(super) fn size(&self) -> BufferSize {
        let mut all = BufferSize::default();
        for BufferSize { packets, bytes } in self.by_peer.values() {
            (all.packets, all.bytes) = (all.packets + packets, all.bytes + bytes);
        }
        all
    }

    /// Returns the number of flows that have packets.
    #[cfg(test)]
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Forgets the packets of a peer's flows.
    pub(super) fn forget_peer(&mut self, peer: SessionId) {
        if self.by_peer.remove(&peer).is_some() {
            self.flows.retain(|(from, _), _| *from != peer);
        }
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
        let EarlyPacket { flow, sequence, waited, plaintext, .. } = *packet;
        let flags = packet.flags();
        let delivery = match origin {
            Origin::Address(_) => Delivery::Direct,
            Origin::Detour(_) => Delivery::Forwarded,
        };
        // The copy is made only for a packet that is delivered or buffered.
        let packet = || {
            let plaintext = [&plaintext.head()[..], plaintext.dscp().as_slice(), plaintext.datagram].concat();
            BufferedPacket { flags, waited: waited.duration(), arrived: now, delivery, plaintext }
        };
        let key = (session, flow);
        // While an offer is unanswered, an open flow of that number is an earlier one of the peer's.
        if self.is_offered(key) {
            if self.early_buffer.contains(key, sequence) {
                return;
            }
            let bytes = plaintext.traffic_class.dscp_bytes() + plaintext.datagram.len();
            if self.early_buffer.has_room(key, bytes) {
                self.early_buffer.insert(key, sequence, packet());
            } else {
                self.counters.early_dropped += 1;
            }
        } else if let Some(id) = self.incoming.get(key).map(ReceiveFlowId) {
            self.deliver_early(id, sequence, &packet(), false, now);
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
        let Some(flow) = self.early_buffer.remove(key).filter(|_| is_accepted) else {
            return;
        };
        let Some(id) = self.incoming.get(key).map(ReceiveFlowId) else {
            self.counters.flows_unknown += flow.packets.len() as u64;
            return;
        };
        let last = flow.packets.last_key_value().map(|(sequence, _)| *sequence);
        for (sequence, packet) in flow.packets {
            self.deliver_early(id, sequence, &packet, last != Some(sequence), now);
        }
    }

    /// Delivers an early packet unless it is late or a duplicate. `is_held` is true for all packets
    /// of a burst that consent releases, except the last.
    fn deliver_early(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        packet: &BufferedPacket,
        is_held: bool,
        now: Time,
    ) {
        let BufferedPacket { flags, waited, arrived, delivery, ref plaintext } = *packet;
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        if !flow.may_contain(sequence) {
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
        self.arrived(id, sequence, flags, plaintext, way, now);
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
    fn may_contain(&self, sequence: SequenceNumber) -> bool {
        match self.highest() {
            Some(highest) => SequenceNumber::nearest(sequence.low(), highest) == sequence,
            None => sequence.number() >> 32 < u64::from(HIGH_BITS_TRIED),
        }
    }
}
