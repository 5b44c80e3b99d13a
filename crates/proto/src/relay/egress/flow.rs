//! State of a flow at the egress relay of its receiver.

use alloc::boxed::Box;

use byway_sched::Class;
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{FlowKey, SequenceNumber};

use super::super::flow_memory::{Holder, MemoryUse};
use super::blocks::{BlockRepair, InStreamBlocks};
use super::burst_end::BurstEnd;
use super::missing::{MissingPacket, MissingPackets, Stage};
use super::nacked_ranges::{NackedRange, NackedRanges};
use super::outage::OutageRange;
use super::relayed_copies::ArrivedCopies;
use crate::limits::{
    COVERED_FOR, COVERED_PACKETS_MAX, EGRESS_FLOWS_MAX, INITIAL_ROUND_TRIP, MISSING_PACKETS_ALWAYS,
    NACKED_RANGES_ALWAYS, REPAIR_BURST, REPAIR_LIFETIME_MAX, REPAIR_RETENTION, SERVICE_OVERLAP,
    UNCOVERED_BEHIND,
};
use crate::parts::lateness::Lateness;
use crate::parts::packet_buffer::Handle;
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::{consent_bucket, pulls};
use byway_wire::Service;
use byway_wire::messages::{Consent, Mask};

/// Identifier of a flow in one egress relay: a slot index and a generation.
///
/// Batches and decode attempts outlive the flows that they refer to. Each flow in a slot has its
/// own generation. Therefore no request, repair or quarantine meant for an earlier flow affects its
/// successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowSlot(pub(crate) u32);

/// Bits of a [`FlowSlot`] that are its index; the others count generations.
const INDEX_BITS: u32 = EGRESS_FLOWS_MAX.ilog2();

impl FlowSlot {
    /// Returns the identifier of the first flow at this index of the flow table.
    pub(crate) fn first_at(index: usize) -> Self {
        assert!(index < EGRESS_FLOWS_MAX, "the number of flows is limited");
        Self(u32::try_from(index).expect("an index has few bits"))
    }

    /// Returns the identifier of the next flow at the same index. Generations wrap around.
    pub(crate) const fn next_generation(self) -> Self {
        Self(self.0.wrapping_add(1 << INDEX_BITS))
    }

    /// Returns the flow's index in the table.
    pub(crate) const fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }
}

/// Sources from which the relay can repair a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketSources {
    /// The two newest batches that cover the packet, the newest first.
    pub(crate) batches: [Option<BatchRef>; 2],
    /// The packet itself: cached, decoded for a receiver, or returned by one for a joint decode.
    pub(crate) packet: Option<Handle>,
}

/// Reference to a batch of one ingress relay, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchRef {
    pub(crate) ingress: u16,
    pub(crate) number: u32,
}

/// A batch in six bytes: the ingress relay, and both halves of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedBatch([u16; 3]);

impl PackedBatch {
    #[allow(clippy::cast_possible_truncation, reason = "the halves are what is wanted")]
    const fn new(batch: BatchRef) -> Self {
        Self([batch.ingress, (batch.number >> 16) as u16, batch.number as u16])
    }

    const fn batch(self) -> BatchRef {
        let [ingress, high, low] = self.0;
        BatchRef { ingress, number: (high as u32) << 16 | low as u32 }
    }
}

/// State of a receiver as a helper, which returns packets of its flow for repairs of other flows.
#[derive(Debug)]
pub(crate) struct HelperState {
    /// Consent: bytes that the relay may still request from the receiver.
    pub(crate) consent: TokenBucket<Bytes>,
    /// True if the flow is in quarantine, because its receiver returned a false packet: the relay
    /// requests no packets of the flow.
    pub(crate) quarantined: bool,
    /// Statistics of the receiver's late answers.
    pub(crate) lateness: Lateness,
}

/// A flow whose receiver has registered it at this relay.
#[derive(Debug)]
pub(crate) struct EgressFlow {
    pub(crate) slot: FlowSlot,
    pub(crate) key: FlowKey,
    /// Session and tenant that the flow's memory is charged to.
    pub(super) holder: Holder,
    pub(crate) service: Service,
    /// Time until which the relay fetches copies that it lacks, whatever the service: the ingress
    /// relay may still treat the flow by its former service.
    fetches_until: Time,
    /// Repair budget: bytes of repairs that the flow may still receive, refilled at its registered
    /// rate. It suffices for an outage, and limits the repairs that a receiver can request.
    pub(crate) repair_budget: TokenBucket<Bytes>,
    /// Round-trip time to the receiver.
    pub(crate) round_trip: Duration,
    /// Repair lifetime of the receiver's last NACK.
    pub(crate) repair_lifetime: Duration,
    /// Estimated packet length in bytes: the longest packet of the newest batch that covers the
    /// flow.
    pub(crate) packet_bytes: u16,
    pub(crate) helper: HelperState,
    /// Class in which the relay's uplink queues packets for the receiver.
    pub(crate) class: Class,
    /// Highest known sequence number, from when the flow last became idle. It serves to expand the
    /// low bits of later ones.
    highest_when_idle: SequenceNumber,
    /// Range of packets recently requested from the receiver.
    requested_range: Option<RequestedRange>,
    /// State of the flow while it is in use; `None` while it is idle.
    active: Option<Box<EgressFlowState>>,
}

/// Range from the lowest to the highest sequence number that the relay recently requested from the
/// flow's receiver, and the time of the last request.
#[derive(Clone, Copy, Debug)]
struct RequestedRange {
    first: SequenceNumber,
    last: SequenceNumber,
    at: Time,
}

/// Number of repairs of a packet, and the time of the last one. The time is in milliseconds modulo
/// 2^16, because there are many records.
#[derive(Clone, Copy, Debug)]
struct RepairRecord {
    count: u8,
    last_ms: u16,
}

impl RepairRecord {
    /// True if the packet's repairs have all been discarded. The time wraps around after a minute:
    /// an old record may then seem recent, and its slot stays occupied for a few seconds more.
    fn is_past(self, now: Time) -> bool {
        u64::from(low_ms(now).wrapping_sub(self.last_ms)) > REPAIR_RETENTION.as_millis()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
const fn low_ms(now: Time) -> u16 {
    (now.as_nanos() / 1_000_000) as u16
}

/// Ring of values by sequence number; `None` until the first value, because most flows have none.
type SparseRing<T> = Option<Box<SequenceRing<T>>>;

fn sparse_ring<T: Copy>(ring: &mut SparseRing<T>) -> &mut SequenceRing<T> {
    ring.get_or_insert_with(|| Box::new(SequenceRing::new(COVERED_PACKETS_MAX)))
}

/// Stores a value for a sequence number. Returns the added memory, in bytes.
fn insert<T: Copy>(ring: &mut SequenceRing<T>, number: u64, value: T, is_spent: impl Fn(T) -> bool) -> u64 {
    let before = ring.slots();
    ring.insert_over(number, value, is_spent);
    if ring.slots() == before { 0 } else { ring.bytes() - ring.bytes() / ring.slots() as u64 * before as u64 }
}

/// Sequence number above all others: the lowest one of a flow without known packets.
const NO_NUMBER: SequenceNumber = SequenceNumber::new(u64::MAX);

/// Memory that every flow in use may have beyond [`EgressFlowState`], whatever memory others use:
/// the first entries of each table.
const RESERVED_TABLE_BYTES: u64 = (MISSING_PACKETS_ALWAYS * size_of::<MissingPacket>()
    + NACKED_RANGES_ALWAYS * size_of::<NackedRange>()
    + 5 * RING_BYTES_MIN
    + InStreamBlocks::RESERVED_BYTES) as u64;

/// Memory of a sequence ring's first allocation, eight slots, in bytes.
const RING_BYTES_MIN: usize = 8 * 16;

/// Memory of a slot in the table of received flows, in bytes.
pub(crate) const SLOT_BYTES: u64 = size_of::<Option<EgressFlow>>() as u64;

/// Memory that a registration reserves for a received flow, in bytes.
pub(crate) const RESERVED_BYTES: u64 =
    SLOT_BYTES + size_of::<EgressFlowState>() as u64 + RESERVED_TABLE_BYTES;

/// State of a received flow while it is in use.
#[derive(Debug)]
pub(crate) struct EgressFlowState {
    pub(super) memory: MemoryUse,
    /// Lowest sequence number for which the relay has had a packet or repair packet.
    lowest: SequenceNumber,
    pub(crate) highest: SequenceNumber,
    /// Latest batch that covers each packet. The ring below has the one before, which few packets
    /// have.
    batches: SequenceRing<PackedBatch>,
    earlier_batches: SparseRing<PackedBatch>,
    packets: SequenceRing<Handle>,
    /// Time at which the relay last requested each packet from the receiver, for a joint decode.
    requested_at: SparseRing<Time>,
    /// Number and last time of each packet's repairs. They outlive the NACK, because a second NACK
    /// after its deadline means the same packet.
    repair_records: SparseRing<RepairRecord>,
    pub(crate) blocks: InStreamBlocks,
    pub(crate) missing: MissingPackets,
    /// Ranges that NACKs requested and for which the relay has no repair packets yet.
    pub(crate) nacked: NackedRanges,
    /// Earliest scheduled expiry of `missing` or `nacked`, if there is one.
    pub(super) expires_at: Option<Time>,
    /// True if an idle check is scheduled.
    pub(super) is_watched: bool,
    pub(crate) outage: Option<OutageRange>,
    /// Highest stored copy, for tail-loss hints.
    pub(super) burst_end: BurstEnd,
    pub(super) relayed: ArrivedCopies,
    pub(crate) last_used: Time,
}

impl EgressFlow {
    pub(crate) fn new(
        slot: FlowSlot,
        (key, holder): (FlowKey, Holder),
        service: Service,
        rate: Rate,
        consent: Consent,
        now: Time,
    ) -> Self {
        Self {
            slot,
            key,
            holder,
            service,
            fetches_until: Time::START,
            repair_budget: TokenBucket::of_bytes(rate, burst(rate, REPAIR_BURST), now),
            round_trip: INITIAL_ROUND_TRIP,
            repair_lifetime: Duration::ZERO,
            packet_bytes: 0,
            class: Class::HighRate,
            helper: HelperState {
                consent: consent_bucket(reserved(consent), rate, now),
                quarantined: false,
                lateness: Lateness::default(),
            },
            highest_when_idle: SequenceNumber::FIRST,
            requested_range: None,
            active: None,
        }
    }

    pub(crate) fn active(&self) -> Option<&EgressFlowState> {
        self.active.as_deref()
    }

    pub(crate) fn active_mut(&mut self) -> Option<&mut EgressFlowState> {
        self.active.as_deref_mut()
    }

    /// Returns the flow's state, and allocates it if the flow is idle.
    pub(crate) fn activate(&mut self, now: Time) -> &mut EgressFlowState {
        let (highest, holder) = (self.highest_when_idle, self.holder);
        let active = self.active.get_or_insert_with(|| {
            Box::new(EgressFlowState {
                memory: MemoryUse::new(holder, size_of::<EgressFlowState>() as u64, RESERVED_TABLE_BYTES),
                lowest: NO_NUMBER,
                highest,
                batches: SequenceRing::new(COVERED_PACKETS_MAX),
                earlier_batches: None,
                packets: SequenceRing::new(COVERED_PACKETS_MAX),
                requested_at: None,
                repair_records: None,
                blocks: InStreamBlocks::default(),
                missing: MissingPackets::default(),
                nacked: NackedRanges::default(),
                expires_at: None,
                is_watched: false,
                outage: None,
                burst_end: BurstEnd::new(now),
                relayed: ArrivedCopies::default(),
                last_used: now,
            })
        });
        active.last_used = now;
        active
    }

    /// Changes the service of the flow.
    pub(super) fn set_service(&mut self, service: Service, now: Time) {
        (self.service, self.fetches_until) = (service, now + SERVICE_OVERLAP);
    }

    /// True if the relay fetches the copies that the receiver misses and that it lacks.
    pub(crate) fn is_pulled(&self, now: Time) -> bool {
        pulls(self.service) || now < self.fetches_until
    }

    /// Extends the range of recently requested packets by a cooperative request for this packet. An
    /// old range is replaced.
    pub(super) fn record_request(&mut self, sequence: SequenceNumber, now: Time) {
        let known = self.requested_range.filter(|requested| now < requested.at + REPAIR_LIFETIME_MAX);
        let (first, last) = known.map_or((sequence, sequence), |known| (known.first, known.last));
        self.requested_range =
            Some(RequestedRange { first: first.min(sequence), last: last.max(sequence), at: now });
    }

    /// Returns the part of a range within the packets recently requested from the receiver. It
    /// limits the work for a refusal to packets that the relay asked for.
    pub(super) fn requested_within(
        &self,
        (first, last): (SequenceNumber, SequenceNumber),
        now: Time,
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let requested = self.requested_range.filter(|requested| now < requested.at + REPAIR_LIFETIME_MAX)?;
        let (first, last) = (first.max(requested.first), last.min(requested.last));
        (first <= last).then_some((first, last))
    }

    /// Expands the low bits of a sequence number to the full number.
    pub(crate) fn full_sequence(&self, low: u32) -> SequenceNumber {
        let highest = self.active().map_or(self.highest_when_idle, |active| active.highest);
        SequenceNumber::nearest(low, highest)
    }

    /// Makes the flow idle: removes and returns its state. Only its highest sequence number
    /// remains.
    pub(crate) fn deactivate(&mut self) -> Option<Box<EgressFlowState>> {
        self.highest_when_idle = self.active().map_or(self.highest_when_idle, |active| active.highest);
        self.active.take()
    }
}

impl EgressFlowState {
    /// Returns the flow's outage and the entry of this packet, to count it in the outage's decode
    /// failure rate. Returns `None` if the packet is not missing in an outage.
    pub(super) fn missing_in_outage(
        &mut self,
        sequence: SequenceNumber,
    ) -> Option<(&mut OutageRange, &mut MissingPacket)> {
        let outage = self.outage.as_mut().filter(|outage| outage.covers(sequence))?;
        Some((outage, self.missing.get_mut(sequence)?))
    }

    /// True if the receiver misses this packet according to its NACKs, ranges or open-ended, and
    /// the relay has not sent it since.
    pub(crate) fn is_lost(&self, sequence: SequenceNumber) -> bool {
        if !self.has_outstanding_requests() {
            return false;
        }
        if self.outage.is_some_and(|outage| outage.covers(sequence)) {
            return true;
        }
        match self.missing.get(sequence) {
            Some(missing) => missing.stage != Stage::RepairSent,
            None => self.nacked.covering(sequence, self.last_used).is_some(),
        }
    }

    /// True if a NACK of the receiver is not settled: a packet is missing, a range waits, or an
    /// outage is recorded. Most receivers never send one.
    #[inline]
    pub(super) fn has_outstanding_requests(&self) -> bool {
        !self.missing.is_empty() || !self.nacked.is_empty() || self.outage.is_some()
    }

    /// Returns the part of a range between the lowest and highest known sequence number, for which
    /// the relay may have repair packets.
    pub(super) fn known_range(
        &self,
        (first, last): (SequenceNumber, SequenceNumber),
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let reach = COVERED_PACKETS_MAX as u64 - 1;
        let lowest = self.lowest.max(SequenceNumber::new(self.highest.number().saturating_sub(reach)));
        let (first, last) = (first.max(lowest), last.min(self.highest));
        (first <= last).then_some((first, last))
    }

    /// True if the relay has a source from which it may repair the packet.
    pub(super) fn is_repairable(&self, sequence: SequenceNumber) -> bool {
        self.packet(sequence).is_some() || self.has_repair_packets(sequence)
    }

    /// True if the relay has repair packets of a batch or of a block that cover the packet.
    pub(super) fn has_repair_packets(&self, sequence: SequenceNumber) -> bool {
        self.sources(sequence).batches[0].is_some() || self.blocks.covering(sequence).is_some()
    }

    /// True if the packet has no repair packets, and none are to be expected: none of the flow came
    /// lately, or those of later packets did.
    pub(super) fn is_uncovered(&self, sequence: SequenceNumber, now: Time) -> bool {
        let is_behind = || {
            let mut later = UNCOVERED_BEHIND.map(|ahead| sequence.plus(ahead));
            later.any(|sequence| self.has_repair_packets(sequence))
        };
        let is_due = now.saturating_since(self.missing.covered_at) < COVERED_FOR;
        !self.has_repair_packets(sequence) && (!is_due || is_behind())
    }

    /// Extends the range of sequence numbers for which the relay has packets or repair packets.
    pub(super) fn extend_known(&mut self, first: SequenceNumber, last: SequenceNumber) {
        self.lowest = self.lowest.min(first);
        self.highest = self.highest.max(last);
    }

    /// Adds a packet that a range of `nacked` waits for to `missing`, because it is now repairable.
    /// Returns `None` if no range waits for it or it is in `missing` already, and `Some(false)` if
    /// memory or table is full.
    pub(super) fn accept_nacked(&mut self, sequence: SequenceNumber, now: Time) -> Option<bool> {
        if self.nacked.is_empty() || self.missing.get(sequence).is_some() {
            return None;
        }
        let (until, certain) = self.nacked.accept(sequence, now)?;
        Some(self.add_missing(sequence, until, certain))
    }

    /// Adds a packet to `missing`, or extends its deadline. Returns `false` if memory is exhausted
    /// or the table is full.
    pub(super) fn add_missing(&mut self, sequence: SequenceNumber, until: Time, certain: bool) -> bool {
        if !self.memory.has_capacity() && self.missing.is_full() && self.missing.get(sequence).is_none() {
            return false;
        }
        let before = self.missing.bytes();
        let is_added = self.missing.insert_or_extend(sequence, until, certain).is_some();
        self.memory.on_resize(before, self.missing.bytes());
        is_added
    }

    /// Adds a requested range to `nacked`. Returns the number of packets that the relay forgets for
    /// lack of capacity, of this range or of an older one.
    pub(super) fn add_nacked(&mut self, range: NackedRange) -> u64 {
        if !self.memory.has_capacity() && self.nacked.is_full() {
            return range.waiting();
        }
        let before = self.nacked.bytes();
        let displaced = self.nacked.add(range);
        self.memory.on_resize(before, self.nacked.bytes());
        displaced
    }

    /// Removes missing packets and requested ranges past their deadline. Calls `unrepaired` for
    /// missing packets without a repair, and returns the number of packets that never became
    /// repairable.
    pub(super) fn expire(
        &mut self,
        now: Time,
        unrepaired: impl FnMut(&mut MissingPacket, Option<&mut OutageRange>),
    ) -> u64 {
        let mut unrepaired = unrepaired;
        let before = self.missing.bytes() + self.nacked.bytes();
        let outage = &mut self.outage;
        self.missing.expire(now, |packet| unrepaired(packet, outage.as_mut()));
        let unrepairable = self.nacked.expire(now);
        self.memory.on_resize(before, self.missing.bytes() + self.nacked.bytes());
        unrepairable
    }

    /// Expands the low bits of a sequence number to the full number.
    pub(crate) fn full_sequence(&self, low: u32) -> SequenceNumber {
        SequenceNumber::nearest(low, self.highest)
    }

    /// Records another batch that covers a packet. Entries that satisfy `is_spent` may be
    /// overwritten.
    pub(crate) fn add_batch(
        &mut self,
        sequence: SequenceNumber,
        batch: BatchRef,
        is_spent: impl Fn(BatchRef) -> bool,
    ) {
        self.extend_known(sequence, sequence);
        let (number, batch) = (sequence.number(), PackedBatch::new(batch));
        let is_spent = |batch: PackedBatch| is_spent(batch.batch());
        let before = self.batches.get(number).filter(|before| *before != batch);
        if let Some(before) = before {
            let grown = insert(sparse_ring(&mut self.earlier_batches), number, before, is_spent);
            self.memory.on_resize(0, grown);
        }
        let grown = insert(&mut self.batches, number, batch, is_spent);
        self.memory.on_resize(0, grown);
    }

    /// Records the handle of a stored packet. Entries that satisfy `is_expired` may be overwritten.
    pub(crate) fn add_packet(
        &mut self,
        sequence: SequenceNumber,
        packet: Handle,
        is_expired: impl Fn(Handle) -> bool,
    ) {
        self.extend_known(sequence, sequence);
        let grown = insert(&mut self.packets, sequence.number(), packet, is_expired);
        self.memory.on_resize(0, grown);
    }

    /// Returns the handle of the packet itself, if the relay stored it. Its bytes may have expired.
    pub(super) fn packet(&self, sequence: SequenceNumber) -> Option<Handle> {
        self.packets.get(sequence.number())
    }

    /// Records the time of a request to the receiver for this packet, for a joint decode.
    pub(crate) fn record_requested(&mut self, sequence: SequenceNumber, now: Time) {
        let has_capacity = self.memory.has_capacity();
        let is_past = |requested_at| !has_capacity || now.saturating_since(requested_at) > REPAIR_RETENTION;
        let grown = insert(sparse_ring(&mut self.requested_at), sequence.number(), now, is_past);
        self.memory.on_resize(0, grown);
    }

    /// Returns the time at which the relay last requested this packet from the receiver for a joint
    /// decode.
    pub(crate) fn requested_at(&self, sequence: SequenceNumber) -> Option<Time> {
        self.requested_at.as_ref()?.get(sequence.number())
    }

    /// True if there is memory to record another repair of the packet.
    pub(super) fn can_record_repair(&self, sequence: SequenceNumber, now: Time) -> bool {
        let is_past = |before: RepairRecord| before.is_past(now);
        let has_slot = |ring: &SequenceRing<RepairRecord>| ring.has_slot(sequence.number(), is_past);
        self.memory.has_capacity() || self.repair_records.as_deref().is_none_or(has_slot)
    }

    /// Stores a repair packet of one of the flow's in-stream blocks, and updates the flow's memory
    /// use.
    pub(super) fn add_block_repair(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair) {
        let before = self.blocks.bytes();
        self.blocks.add(first, mask, repair, self.memory.has_capacity());
        self.memory.on_resize(before, self.blocks.bytes());
    }

    /// Counts a repair of the packet, towards the limit of repairs per packet.
    pub(crate) fn record_repair(&mut self, sequence: SequenceNumber, now: Time) {
        let count = self.repair_count(sequence).saturating_add(1);
        let record = RepairRecord { count, last_ms: low_ms(now) };
        // A repair count is recorded even without memory: otherwise the packet would be repaired
        // again.
        let is_past = |before: RepairRecord| before.is_past(now);
        let grown = insert(sparse_ring(&mut self.repair_records), sequence.number(), record, is_past);
        self.memory.on_resize(0, grown);
    }

    /// Returns the number of times that the relay has repaired the packet, by any means.
    pub(crate) fn repair_count(&self, sequence: SequenceNumber) -> u8 {
        let record = self.repair_records.as_ref().and_then(|records| records.get(sequence.number()));
        record.map_or(0, |record| record.count)
    }

    /// Returns the sources from which the relay may repair a packet. What they refer to may have
    /// expired.
    pub(crate) fn sources(&self, sequence: SequenceNumber) -> PacketSources {
        let number = sequence.number();
        let batches =
            [self.batches.get(number), self.earlier_batches.as_ref().and_then(|earlier| earlier.get(number))];
        PacketSources {
            batches: batches.map(|batch| batch.map(PackedBatch::batch)),
            packet: self.packets.get(number),
        }
    }
}

/// Returns the consent with a burst reduced by an eighth. The receiver's own account may differ
/// from the relay's, because packets take time in both directions.
fn reserved(consent: Consent) -> Consent {
    Consent { burst_percent: consent.burst_percent - consent.burst_percent / 8, ..consent }
}

/// Returns the bytes that `rate` transmits in `time`.
fn burst(rate: Rate, time: Duration) -> Bytes {
    rate.bytes_in(time).unwrap_or(Bytes::MAX)
}
