//! A flow, as the egress relay of its receiver knows it.

use alloc::boxed::Box;

use byway_sched::Class;
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{FlowKey, SequenceNumber};

use super::super::flow_memory::{Holder, MemoryUse};
use super::blocks::{BlockRepair, Blocks};
use super::carried::Feed;
use super::missing::{Missing, MissingPacket, Stage};
use super::nacked::{NackedRange, NackedRanges};
use super::open_end::OpenEnd;
use super::tails::Tail;
use crate::limits::{
    COVERED_PACKETS_MAX, EGRESS_FLOWS_MAX, INITIAL_ROUND_TRIP, MISSING_PACKETS_ALWAYS, NACKED_RANGES_ALWAYS,
    PATIENCE_MAX, REPAIR_BURST, REPAIR_RETENTION,
};
use crate::parts::lateness::Lateness;
use crate::parts::packet_log::Handle;
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::consent_account;
use byway_wire::Service;
use byway_wire::messages::{Consent, Mask};

/// Which flow, in one egress relay: a place, and which turn of it.
///
/// Batches and rounds outlive the flows that they name. Each flow that gets a place has a turn of its own, so that nobody
/// is asked, given or blamed for the packets of whoever was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FlowSlot(pub(crate) u32);

/// The bits of a slot that are its place; the others count turns.
const PLACE_BITS: u32 = EGRESS_FLOWS_MAX.ilog2();

impl FlowSlot {
    /// The first turn of a place.
    pub(crate) fn first_at(place: usize) -> Self {
        assert!(place < EGRESS_FLOWS_MAX, "the number of flows is limited");
        Self(u32::try_from(place).expect("a place has few bits"))
    }

    /// The next turn of the same place; after the last one comes the first.
    pub(crate) const fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << PLACE_BITS))
    }

    /// Where the flow is kept.
    pub(crate) const fn place(self) -> usize {
        (self.0 & ((1 << PLACE_BITS) - 1)) as usize
    }
}

/// Where a packet of the flow can be had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Source {
    /// The batches that cover it, newest first: by number, in the ring of one ingress relay.
    pub(crate) batches: [Option<BatchRef>; 2],
    /// The packet itself: cached, decoded for somebody, or given for a wider round.
    pub(crate) packet: Option<Handle>,
}

/// A batch of one ingress relay.
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

/// The registered flow.
#[derive(Debug)]
pub(crate) struct EgressFlow {
    pub(crate) slot: FlowSlot,
    pub(crate) key: FlowKey,
    /// Whose memory it takes.
    pub(super) holder: Holder,
    pub(crate) service: Service,
    /// What repairs it may still be given: its registered rate, so that an outage can be repaired and more cannot
    /// be asked for.
    pub(crate) repair_budget: TokenBucket<Bytes>,
    /// What its receiver still gives for others.
    pub(crate) consent: TokenBucket<Bytes>,
    /// How far away its receiver is.
    pub(crate) round_trip: Duration,
    /// How long its receiver has a use for repairs, as it said last.
    pub(crate) patience: Duration,
    /// The length of its packets, as far as repairs tell.
    pub(crate) packet_bytes: u16,
    /// Whether its receiver has answered falsely: it is asked no more.
    pub(crate) barred: bool,
    /// How often its receiver answers late.
    pub(crate) lateness: Lateness,
    /// The class of its packets where they have to wait.
    pub(crate) class: Class,
    /// The highest number of a flow that rests.
    rested_at: SequenceNumber,
    /// Packets that its receiver was asked for lately.
    requested: Option<Requested>,
    /// Allocated while packets of the flow are known.
    active: Option<Box<Active>>,
}

/// The first and the last number of the packets that a receiver was asked for, and when it was last.
#[derive(Clone, Copy, Debug)]
struct Requested {
    first: SequenceNumber,
    last: SequenceNumber,
    at: Time,
}

/// How often a packet was repaired, and when last: in milliseconds modulo 2^16, as there are many of these.
#[derive(Clone, Copy, Debug)]
struct Repaired {
    count: u8,
    last_ms: u16,
}

impl Repaired {
    /// Whether whatever repairs the packet is kept no longer. One that is past for a minute may look as if it were not,
    /// and takes its place for a few seconds more.
    fn is_past(self, now: Time) -> bool {
        u64::from(low_ms(now).wrapping_sub(self.last_ms)) > REPAIR_RETENTION.as_millis()
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
const fn low_ms(now: Time) -> u16 {
    (now.as_nanos() / 1_000_000) as u16
}

/// What most flows never have of any packet.
type Rare<T> = Option<Box<SequenceRing<T>>>;

fn some_of<T: Copy>(rare: &mut Rare<T>) -> &mut SequenceRing<T> {
    rare.get_or_insert_with(|| Box::new(SequenceRing::new(COVERED_PACKETS_MAX)))
}

/// Keeps a value for a number; how much more memory that takes, in bytes.
fn insert<T: Copy>(ring: &mut SequenceRing<T>, number: u64, value: T, is_spent: impl Fn(T) -> bool) -> u64 {
    let before = ring.slots();
    ring.insert_over(number, value, is_spent);
    if ring.slots() == before { 0 } else { ring.bytes() - ring.bytes() / ring.slots() as u64 * before as u64 }
}

/// Above all numbers.
const NO_NUMBER: SequenceNumber = SequenceNumber::new(u64::MAX);

/// Memory that every flow in use may take beside [`Active`], whatever memory others take: its first packets in each table.
const ALWAYS_BYTES: u64 = (MISSING_PACKETS_ALWAYS * size_of::<MissingPacket>()
    + NACKED_RANGES_ALWAYS * size_of::<NackedRange>()
    + 5 * RING_BYTES_MIN
    + Blocks::BYTES_ALWAYS) as u64;

/// The first allocation of a ring: eight slots.
const RING_BYTES_MIN: usize = 8 * 16;

/// Memory of a slot.
pub(crate) const SLOT_BYTES: u64 = size_of::<Option<EgressFlow>>() as u64;

/// What is set aside for each flow.
pub(crate) const SET_ASIDE_BYTES: u64 = SLOT_BYTES + size_of::<Active>() as u64 + ALWAYS_BYTES;

/// What is kept while the flow is in use.
#[derive(Debug)]
pub(crate) struct Active {
    pub(super) memory: MemoryUse,
    /// No number below is known.
    lowest: SequenceNumber,
    pub(crate) highest: SequenceNumber,
    /// The batch that covers a packet, and the one that did before: few packets are in two.
    batches: SequenceRing<PackedBatch>,
    earlier_batches: Rare<PackedBatch>,
    packets: SequenceRing<Handle>,
    /// When the receiver was asked for a packet, for a wider round.
    asked: Rare<Time>,
    /// How often a packet was repaired: asking again when a request has run out makes it no other packet.
    repaired: Rare<Repaired>,
    pub(crate) blocks: Blocks,
    pub(crate) missing: Missing,
    /// What the receiver asked for of which nothing is known.
    pub(crate) nacked: NackedRanges,
    /// When something of that can be of no use any more, as far as that is watched.
    pub(super) expires_at: Option<Time>,
    /// Whether somebody looks when the flow is at rest.
    pub(super) is_watched: bool,
    pub(crate) open: Option<OpenEnd>,
    /// How far its copies have come, where they are kept.
    pub(super) tail: Tail,
    /// Where carried copies come from, and the highest that came from there.
    pub(super) carried: Option<(Feed, SequenceNumber)>,
    /// Whether the latest carried copy was forwarded.
    pub(super) is_forwarded: bool,
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
            repair_budget: TokenBucket::of_bytes(rate, burst(rate, REPAIR_BURST), now),
            consent: consent_account(reserved(consent), rate, now),
            round_trip: INITIAL_ROUND_TRIP,
            patience: Duration::ZERO,
            packet_bytes: 0,
            barred: false,
            class: Class::HighRate,
            lateness: Lateness::default(),
            rested_at: SequenceNumber::FIRST,
            requested: None,
            active: None,
        }
    }

    pub(crate) fn active(&self) -> Option<&Active> {
        self.active.as_deref()
    }

    pub(crate) fn active_mut(&mut self) -> Option<&mut Active> {
        self.active.as_deref_mut()
    }

    /// What is kept of the flow, from now on at least.
    pub(crate) fn activate(&mut self, now: Time) -> &mut Active {
        let (highest, holder) = (self.rested_at, self.holder);
        let active = self.active.get_or_insert_with(|| {
            Box::new(Active {
                memory: MemoryUse::new(holder, size_of::<Active>() as u64, ALWAYS_BYTES),
                lowest: NO_NUMBER,
                highest,
                batches: SequenceRing::new(COVERED_PACKETS_MAX),
                earlier_batches: None,
                packets: SequenceRing::new(COVERED_PACKETS_MAX),
                asked: None,
                repaired: None,
                blocks: Blocks::default(),
                missing: Missing::default(),
                nacked: NackedRanges::default(),
                expires_at: None,
                is_watched: false,
                open: None,
                tail: Tail::new(now),
                carried: None,
                is_forwarded: false,
                last_used: now,
            })
        });
        active.last_used = now;
        active
    }

    /// Notes that its receiver is asked for a packet.
    pub(super) fn note_request(&mut self, sequence: SequenceNumber, now: Time) {
        let known = self.requested.filter(|requested| now < requested.at + PATIENCE_MAX);
        let (first, last) = known.map_or((sequence, sequence), |known| (known.first, known.last));
        self.requested = Some(Requested { first: first.min(sequence), last: last.max(sequence), at: now });
    }

    /// The part of a range that its receiver may have been asked for lately.
    pub(super) fn requested_within(
        &self,
        (first, last): (SequenceNumber, SequenceNumber),
        now: Time,
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let requested = self.requested.filter(|requested| now < requested.at + PATIENCE_MAX)?;
        let (first, last) = (first.max(requested.first), last.min(requested.last));
        (first <= last).then_some((first, last))
    }

    /// The full number of a packet whose low bits came in a packet.
    pub(crate) fn full(&self, low: u32) -> SequenceNumber {
        let highest = self.active().map_or(self.rested_at, |active| active.highest);
        SequenceNumber::nearest(low, highest)
    }

    /// Forgets the packets of a flow that rests, but not how far it had come; what was known of it.
    pub(crate) fn rest(&mut self) -> Option<Box<Active>> {
        self.rested_at = self.active().map_or(self.rested_at, |active| active.highest);
        self.active.take()
    }
}

impl Active {
    /// A missing packet that an open end covers, and the open end.
    pub(super) fn in_dark(&mut self, sequence: SequenceNumber) -> Option<(&mut OpenEnd, &mut MissingPacket)> {
        let open = self.open.as_mut().filter(|open| open.covers(sequence))?;
        Some((open, self.missing.get_mut(sequence)?))
    }

    /// Whether the receiver has said that it lost this packet, one by one or by an open end.
    pub(crate) fn is_lost(&self, sequence: SequenceNumber) -> bool {
        if !self.is_asking() {
            return false;
        }
        if self.open.is_some_and(|open| open.covers(sequence)) {
            return true;
        }
        match self.missing.get(sequence) {
            Some(missing) => missing.stage != Stage::Given,
            None => self.nacked.covering(sequence, self.last_used).is_some(),
        }
    }

    /// Whether the receiver misses anything, as far as it has said. Most never do.
    #[inline]
    pub(super) fn is_asking(&self) -> bool {
        !self.missing.is_empty() || !self.nacked.is_empty() || self.open.is_some()
    }

    /// The part of a range of which something may be known.
    pub(super) fn known_within(
        &self,
        (first, last): (SequenceNumber, SequenceNumber),
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        let reach = COVERED_PACKETS_MAX as u64 - 1;
        let lowest = self.lowest.max(SequenceNumber::new(self.highest.number().saturating_sub(reach)));
        let (first, last) = (first.max(lowest), last.min(self.highest));
        (first <= last).then_some((first, last))
    }

    /// Whether something is known from which a packet may be repaired.
    pub(super) fn is_known(&self, sequence: SequenceNumber) -> bool {
        let source = self.source(sequence);
        source.packet.is_some() || source.batches[0].is_some() || self.blocks.covering(sequence).is_some()
    }

    /// Notes that something is known of these numbers.
    pub(super) fn note_known(&mut self, first: SequenceNumber, last: SequenceNumber) {
        self.lowest = self.lowest.min(first);
        self.highest = self.highest.max(last);
    }

    /// Has a packet worked on that waited to be known; whether it did, and there is room.
    pub(super) fn take_nacked(&mut self, sequence: SequenceNumber, now: Time) -> Option<bool> {
        if self.nacked.is_empty() || self.missing.get(sequence).is_some() {
            return None;
        }
        let (until, certain) = self.nacked.take(sequence, now)?;
        Some(self.ask(sequence, until, certain))
    }

    /// Has a packet worked on; whether there is room.
    pub(super) fn ask(&mut self, sequence: SequenceNumber, until: Time, certain: bool) -> bool {
        if !self.memory.has_room() && self.missing.is_full() && self.missing.get(sequence).is_none() {
            return false;
        }
        let before = self.missing.bytes();
        let is_noted = self.missing.ask(sequence, until, certain).is_some();
        self.memory.grew(before, self.missing.bytes());
        is_noted
    }

    /// Has numbers wait until something is known of them; how many do not.
    pub(super) fn add_nacked(&mut self, range: NackedRange) -> u64 {
        if !self.memory.has_room() && self.nacked.is_full() {
            return range.waiting();
        }
        let before = self.nacked.bytes();
        let forgotten = self.nacked.add(range);
        self.memory.grew(before, self.nacked.bytes());
        forgotten
    }

    /// Gives up what is of no use any more; how many packets were never known of.
    pub(super) fn expire(
        &mut self,
        now: Time,
        unrepaired: impl FnMut(&mut MissingPacket, Option<&mut OpenEnd>),
    ) -> u64 {
        let mut unrepaired = unrepaired;
        let before = self.missing.bytes() + self.nacked.bytes();
        let open = &mut self.open;
        self.missing.expire(now, |packet| unrepaired(packet, open.as_mut()));
        let waited = self.nacked.expire(now);
        self.memory.grew(before, self.missing.bytes() + self.nacked.bytes());
        waited
    }

    /// The full number of a packet whose low bits came in a packet.
    pub(crate) fn full(&self, low: u32) -> SequenceNumber {
        SequenceNumber::nearest(low, self.highest)
    }

    /// Notes another batch that covers a packet; those that are spent give way.
    pub(crate) fn add_batch(
        &mut self,
        sequence: SequenceNumber,
        batch: BatchRef,
        is_spent: impl Fn(BatchRef) -> bool,
    ) {
        self.note_known(sequence, sequence);
        let (number, batch) = (sequence.number(), PackedBatch::new(batch));
        let is_spent = |batch: PackedBatch| is_spent(batch.batch());
        let before = self.batches.get(number).filter(|before| *before != batch);
        if let Some(before) = before {
            let grown = insert(some_of(&mut self.earlier_batches), number, before, is_spent);
            self.memory.grew(0, grown);
        }
        let grown = insert(&mut self.batches, number, batch, is_spent);
        self.memory.grew(0, grown);
    }

    /// Notes where a packet itself is kept; those that are gone give way.
    pub(crate) fn add_packet(
        &mut self,
        sequence: SequenceNumber,
        packet: Handle,
        is_gone: impl Fn(Handle) -> bool,
    ) {
        self.note_known(sequence, sequence);
        let grown = insert(&mut self.packets, sequence.number(), packet, is_gone);
        self.memory.grew(0, grown);
    }

    /// Where the packet itself is kept, or was.
    pub(super) fn packet(&self, sequence: SequenceNumber) -> Option<Handle> {
        self.packets.get(sequence.number())
    }

    /// Notes that the receiver is asked for a packet, for a wider round.
    pub(crate) fn add_asked(&mut self, sequence: SequenceNumber, now: Time) {
        let has_room = self.memory.has_room();
        let is_past = |asked| !has_room || now.saturating_since(asked) > REPAIR_RETENTION;
        let grown = insert(some_of(&mut self.asked), sequence.number(), now, is_past);
        self.memory.grew(0, grown);
    }

    /// When the receiver was asked for this packet last, for a wider round.
    pub(crate) fn asked(&self, sequence: SequenceNumber) -> Option<Time> {
        self.asked.as_ref()?.get(sequence.number())
    }

    /// Whether it can be noted that the packet is repaired once more.
    pub(super) fn may_repair(&self, sequence: SequenceNumber, now: Time) -> bool {
        let is_past = |before: Repaired| before.is_past(now);
        let has_place = |ring: &SequenceRing<Repaired>| ring.has_place(sequence.number(), is_past);
        self.memory.has_room() || self.repaired.as_deref().is_none_or(has_place)
    }

    /// Adds a repair packet of one of the flow's blocks.
    pub(super) fn add_block_repair(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair) {
        let before = self.blocks.bytes();
        self.blocks.add(first, mask, repair, self.memory.has_room());
        self.memory.grew(before, self.blocks.bytes());
    }

    /// Notes that the packet is repaired once more.
    pub(crate) fn add_repair(&mut self, sequence: SequenceNumber, now: Time) {
        let count = self.repairs_of(sequence).saturating_add(1);
        let repaired = Repaired { count, last_ms: low_ms(now) };
        // How often a packet was repaired is never forgotten for want of memory: it would be repaired again.
        let is_past = |before: Repaired| before.is_past(now);
        let grown = insert(some_of(&mut self.repaired), sequence.number(), repaired, is_past);
        self.memory.grew(0, grown);
    }

    /// How often the packet was repaired, one way or another.
    pub(crate) fn repairs_of(&self, sequence: SequenceNumber) -> u8 {
        let repaired = self.repaired.as_ref().and_then(|repaired| repaired.get(sequence.number()));
        repaired.map_or(0, |repaired| repaired.count)
    }

    /// Where the packet can be had.
    pub(crate) fn source(&self, sequence: SequenceNumber) -> Source {
        let number = sequence.number();
        let batches =
            [self.batches.get(number), self.earlier_batches.as_ref().and_then(|earlier| earlier.get(number))];
        Source {
            batches: batches.map(|batch| batch.map(PackedBatch::batch)),
            packet: self.packets.get(number),
        }
    }
}

/// What is asked of a receiver at once is a little less than it gives: its own account is ahead of what is noted here, and behind,
/// as packets to it and from it take their time.
fn reserved(consent: Consent) -> Consent {
    Consent { burst_percent: consent.burst_percent - consent.burst_percent / 8, ..consent }
}

/// The bytes that `rate` carries in `time`.
fn burst(rate: Rate, time: Duration) -> Bytes {
    rate.bytes_in(time).unwrap_or(Bytes::MAX)
}
