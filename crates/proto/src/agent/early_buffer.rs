//! Early packets at the receiver: buffered until the driver has answered their flow's offer.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::EarlyPacket;
use byway_wire::{Ecn, Flags, Plaintext, SequenceNumber};

use super::Agent;
use super::deliver::Arrival;
use super::early::EarlyKey;
use super::events::Delivery;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use crate::limits::{
    EARLY_BYTES_MAX, EARLY_BYTES_PER_PEER_MAX, EARLY_DATAGRAMS_MAX, EARLY_DATAGRAMS_PER_PEER_MAX,
    HIGH_BITS_TRIED,
};
use crate::policy::buffers_packets;
use crate::session::{Route, SessionId};

/// Early packet of a peer's flow, buffered until the driver answers the offer.
#[derive(Debug)]
struct BufferedPacket {
    flags: Flags,
    /// Time from the application's sending of the datagram to the sending of this packet.
    waited: Duration,
    arrived: Time,
    delivery: Delivery,
    /// Plaintext as in a source packet: timestamp, traffic class and datagram.
    plaintext: Vec<u8>,
}

/// Number of early packets in a buffer, and the bytes of their datagrams.
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

    /// True if one more packet of this length does not exceed these limits.
    const fn has_capacity(self, bytes: usize, packets_max: usize, bytes_max: usize) -> bool {
        self.packets < packets_max && self.bytes + bytes <= bytes_max
    }
}

/// Buffered early packets of one flow: at least one.
#[derive(Debug, Default)]
struct BufferedFlow {
    packets: BTreeMap<SequenceNumber, BufferedPacket>,
    size: BufferSize,
}

/// Early packets of offered flows that the driver has not accepted yet, within limits for each flow
/// and each peer.
#[derive(Debug, Default)]
pub(super) struct EarlyBuffer {
    flows: BTreeMap<EarlyKey, BufferedFlow>,
    /// Number and bytes of each peer's packets, over all its flows.
    by_peer: BTreeMap<SessionId, BufferSize>,
}

impl EarlyBuffer {
    /// Returns true if the packet with this sequence number is buffered.
    fn contains(&self, key: EarlyKey, sequence: SequenceNumber) -> bool {
        self.flows.get(&key).is_some_and(|flow| flow.packets.contains_key(&sequence))
    }

    /// True if one more packet of this length does not exceed the limits of its flow and its peer.
    fn has_capacity(&self, key: EarlyKey, bytes: usize) -> bool {
        let own = self.flows.get(&key).map_or(BufferSize::default(), |flow| flow.size);
        let all = self.by_peer.get(&key.0).copied().unwrap_or_default();
        own.has_capacity(bytes, PACKETS_MAX, EARLY_BYTES_MAX)
            && all.has_capacity(bytes, PACKETS_PER_PEER_MAX, EARLY_BYTES_PER_PEER_MAX)
    }

    /// Buffers a packet. The caller checks that it is new, and that it does not exceed the limits.
    fn insert(&mut self, key: EarlyKey, sequence: SequenceNumber, packet: BufferedPacket) {
        let bytes = packet.plaintext.len() - Plaintext::HEAD_BYTES;
        let flow = self.flows.entry(key).or_default();
        flow.size.add(bytes);
        flow.packets.insert(sequence, packet);
        self.by_peer.entry(key.0).or_default().add(bytes);
    }

    /// Removes and returns the buffered packets of a flow.
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

    /// Drops the buffered early packets of a peer's flow.
    pub(super) fn forget(&mut self, key: EarlyKey) {
        self.remove(key);
    }

    /// Returns the number and bytes of all buffered early packets.
    #[cfg(test)]
    pub(super) fn size(&self) -> BufferSize {
        let mut all = BufferSize::default();
        for BufferSize { packets, bytes } in self.by_peer.values() {
            (all.packets, all.bytes) = (all.packets + packets, all.bytes + bytes);
        }
        all
    }

    /// Returns the number of flows that have buffered early packets.
    #[cfg(test)]
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Drops the buffered packets of all flows of a peer.
    pub(super) fn forget_peer(&mut self, peer: SessionId) {
        if self.by_peer.remove(&peer).is_some() {
            self.flows.retain(|(from, _), _| *from != peer);
        }
    }
}

/// Sequence numbers of packets that were delivered early, and whose coded bytes have not arrived.
///
/// The set remembers 64 numbers below the highest, as many packets as one flow sends early.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UncodedSet {
    highest: u64,
    /// Bit n is set if the number that is n below the highest is in the set.
    mask: u64,
}

const _: () =
    assert!(PACKETS_MAX <= u64::BITS as usize, "the mask has a bit for every early packet of a flow");

impl UncodedSet {
    /// Adds a sequence number; forgets those that are 64 or more below the highest.
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

/// Most early packets of one flow: each datagram has at most two.
const PACKETS_MAX: usize = 2 * EARLY_DATAGRAMS_MAX;
/// Most early packets of all flows of one peer.
const PACKETS_PER_PEER_MAX: usize = 2 * EARLY_DATAGRAMS_PER_PEER_MAX;

impl Agent {
    /// Handles a peer's packet that arrived with its flow's offer. Delivers it if the flow is
    /// accepted, buffers it while the offer is unanswered, and drops it if there is no such offer.
    pub(super) fn on_early_packet(
        &mut self,
        session: SessionId,
        packet: &EarlyPacket<'_>,
        origin: Route,
        now: Time,
    ) {
        let EarlyPacket { flow, sequence, waited, plaintext, .. } = *packet;
        let flags = packet.flags();
        let delivery = match origin {
            Route::Direct(_) => Delivery::Direct,
            Route::ViaRelay(_) | Route::Transit => Delivery::Forwarded,
        };
        // The copy is made only for a packet that is delivered or buffered.
        let packet = || {
            let plaintext = [&plaintext.head()[..], plaintext.dscp().as_slice(), plaintext.datagram].concat();
            BufferedPacket { flags, waited: waited.duration(), arrived: now, delivery, plaintext }
        };
        let key = (session, flow);
        // While an offer is unanswered, an open flow of that number is an earlier one of the
        // peer's.
        if self.is_offered(key) {
            if self.early_buffer.contains(key, sequence) {
                return;
            }
            let bytes = plaintext.traffic_class.dscp_bytes() + plaintext.datagram.len();
            if self.early_buffer.has_capacity(key, bytes) {
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

    /// True if a peer's offer of a flow waits for the driver's answer.
    fn is_offered(&self, (session, flow): EarlyKey) -> bool {
        self.agent_of(session).is_some_and(|peer| self.offers.is_pending(peer, flow))
    }

    /// Delivers the buffered early packets of a flow after the driver has accepted its offer, or
    /// drops them after a refusal.
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

    /// Delivers an early packet, unless it is late or a duplicate. `is_held` is true for all
    /// packets of a burst that consent releases, except the last.
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
        if waited.saturating_add(now.saturating_since(arrived)) > flow.lateness_budget(round_trip) {
            // The source packet follows, and is delivered.
            flow.statistics.late += 1;
            return;
        }
        // An early packet has no coded bytes.
        self.scratch.clear();
        let arrival = Arrival { delivery, outer_ecn: Ecn::NotCapable, is_held, is_early: true };
        self.on_packet(id, sequence, flags, plaintext, arrival, now);
        let flow = &mut self.receivers[id.0 as usize];
        if buffers_packets(flow.settings.service)
            && !flow.is_new(sequence)
            && let Some(active) = flow.active_mut()
        {
            active.uncoded.insert(sequence);
        }
        self.decode_blocks(id, now);
    }

    /// Stores the coded bytes of a source packet whose datagram was delivered early; the scratch
    /// buffer contains them.
    ///
    /// Blocks of the flow and requests of relays need these bytes, the application does not.
    pub(super) fn store_early_coded(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        if let Some(active) = self.receivers[id.0 as usize].active_mut() {
            active.uncoded.remove(sequence);
        }
        self.store_coded(id, sequence, now);
    }
}

impl ReceiveFlow {
    /// True if the low 32 bits in a source packet's header would decode to this sequence number.
    fn may_contain(&self, sequence: SequenceNumber) -> bool {
        match self.highest() {
            Some(highest) => SequenceNumber::nearest(sequence.low(), highest) == sequence,
            None => sequence.number() >> 32 < u64::from(HIGH_BITS_TRIED),
        }
    }
}
