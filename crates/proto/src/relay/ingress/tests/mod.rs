//! Tests of the ingress half: copies as inputs, repair packets as outputs.

mod batches;
mod blocks;
mod cohorts;
mod copies;
mod path_outage;
mod redundancy;
mod relayed_copies;
mod traffic;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_code::{Engine, Repair, decode};
use byway_sched::Class;
use byway_units::{AgentId, Duration, FlowId, Rate, Time};
use byway_wire::messages::{InStreamHead, InStreamRepair, Refusal};
use byway_wire::{Alias, BlockShape, Ecn, FlowKey, Receiver, SequenceNumber, Service, TenantId};

use super::super::flow_memory::Holder;
use super::PathOutage;
use super::grant_policers::GrantedFlows;
use super::{
    ArrivingCopy, ClosedBatch, FlowSlot, GrantPolicer, GroupKey, Ingress, NextHop, Registration, RelayPeerId,
    Sink,
};
use crate::outbox::Owner;
use crate::parts::batcher::{BatchedFlow, CodingClass};
use crate::policy::CodingRates;

/// A repair packet, by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestRepair {
    index: usize,
    length_symbol: [u8; 2],
    payload: Vec<u8>,
}

/// A batch as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    peer: u16,
    number: u32,
    /// Alias and sequence number of each packet.
    covered: Vec<(u16, u64)>,
    digests: Vec<Option<[u8; 4]>>,
    repairs: Vec<TestRepair>,
}

/// An in-stream repair packet as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InStreamPacket {
    alias: u16,
    first: u32,
    mask: u32,
    repair_count: u8,
    repair: TestRepair,
}

/// A sink that records its inputs.
#[derive(Default)]
struct RecordingSink {
    has_digests: bool,
    /// True if the egress relay reports no losses.
    is_silent: bool,
    /// True if the egress relay is this relay itself.
    is_local: bool,
    batches: Vec<Batch>,
    in_stream: Vec<InStreamPacket>,
    relayed: Vec<(u16, u64, Vec<u8>)>,
    requested: Vec<(FlowSlot, u64)>,
    duplicated: Vec<(u16, u64, Vec<u8>)>,
}

fn test_repair(repair: &Repair<'_>) -> TestRepair {
    TestRepair { index: repair.index, length_symbol: repair.length_symbol, payload: repair.payload.to_vec() }
}

impl Sink for RecordingSink {
    fn digest(
        &mut self,
        _: RelayPeerId,
        alias: Alias,
        sequence: SequenceNumber,
        _: &[u8],
    ) -> Option<[u8; 4]> {
        let [low, high] = alias.number().to_be_bytes();
        self.has_digests.then_some([low, high, 0, sequence.low().to_be_bytes()[3]])
    }

    fn reports_losses(&self, _: RelayPeerId) -> bool {
        !self.is_silent
    }

    fn send_cross_stream(&mut self, batch: &ClosedBatch<'_>) -> bool {
        self.batches.push(Batch {
            peer: batch.egress.0,
            number: batch.batch.number(),
            covered: batch.covered.iter().map(|one| (one.alias.number(), one.sequence.number())).collect(),
            digests: batch.covered.iter().map(|one| one.digest).collect(),
            repairs: batch.repairs().map(|repair| test_repair(&repair)).collect(),
        });
        !self.is_local
    }

    fn send_in_stream(&mut self, _: RelayPeerId, _: Owner, repair: &InStreamRepair<'_>) -> bool {
        let InStreamHead { alias, first_low, mask, repair_index, length_symbol } = repair.head;
        self.in_stream.push(InStreamPacket {
            alias: alias.number(),
            first: first_low,
            mask: mask.bits(),
            repair_count: repair_index.count(),
            repair: TestRepair {
                index: repair_index.index().into(),
                length_symbol,
                payload: repair.payload.to_vec(),
            },
        });
        !self.is_local
    }

    fn relay_copy(
        &mut self,
        next_hop: NextHop,
        _: Owner,
        sequence: SequenceNumber,
        copy: &super::OutgoingCopy<'_>,
    ) -> bool {
        self.relayed.push((next_hop.alias.number(), sequence.number(), copy.coded.to_vec()));
        !self.is_local
    }

    fn send_duplicates(
        &mut self,
        flow: &Registration,
        sequence: SequenceNumber,
        coded: &[u8],
        _ecn: Ecn,
    ) -> u64 {
        self.duplicated.push((flow.key.flow().number(), sequence.number(), coded.to_vec()));
        1
    }

    fn request_copy(&mut self, flow: FlowSlot, sequence: SequenceNumber) {
        self.requested.push((flow, sequence.number()));
    }
}

/// Copy mode of the sender.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyMode {
    Usual,
    Selective,
    SenderFec,
    ByRelay,
}

/// Configuration of a test flow.
#[derive(Clone, Copy)]
struct FlowConfig {
    service: Service,
    rates: CodingRates,
    rate: Rate,
    latency_budget: Duration,
    group: u32,
    tenant: u32,
    shares: bool,
    is_adaptive: bool,
    /// Rate of a grant that all such flows share.
    policer_rate: Option<Rate>,
    peer: u16,
    copy_mode: CopyMode,
}

/// Flow with the default rates, for senders of 10 Mbit/s.
fn coded() -> FlowConfig {
    FlowConfig {
        service: Service::Coding,
        rates: CodingRates::default(),
        rate: Rate::from_megabits_per_second(10),
        latency_budget: Duration::from_secs(10),
        group: 0,
        tenant: 0,
        shares: true,
        is_adaptive: false,
        policer_rate: None,
        peer: 0,
        copy_mode: CopyMode::Usual,
    }
}

/// Flow with batches only, of up to `packets`.
fn batched(packets: u8, repairs: u8) -> FlowConfig {
    FlowConfig { rates: CodingRates { in_stream: None, batch: BlockShape::new(packets, repairs) }, ..coded() }
}

/// Flow with blocks only.
fn blocked(packets: u8, repairs: u8) -> FlowConfig {
    FlowConfig { rates: CodingRates { in_stream: BlockShape::new(packets, repairs), batch: None }, ..coded() }
}

/// Outage report of an egress relay.
fn egress_outage(is_active: bool) -> PathOutage {
    PathOutage { is_active, by_sender: false }
}

/// An ingress half, its clock, and its outputs.
struct IngressHarness {
    ingress: Ingress,
    now: Time,
    sink: RecordingSink,
    lengths: BTreeMap<(u16, u64), usize>,
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn packet(alias: u16, sequence: u64) -> Vec<u8> {
    packet_of(
        alias,
        sequence,
        60 + usize::try_from((sequence * 7 + u64::from(alias) * 13) % 30).expect("reduced"),
    )
}

fn packet_of(alias: u16, sequence: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|index| u8::try_from((index * 31 + sequence * 5 + u64::from(alias)) % 251).expect("reduced"))
        .collect()
}

impl IngressHarness {
    fn new() -> Self {
        let ingress = Ingress::new(
            Engine::fastest(),
            byway_units::Bytes::new(64 << 20),
            byway_units::Bytes::new(64 << 20),
        );
        Self { ingress, now: Time::START, sink: RecordingSink::default(), lengths: BTreeMap::new() }
    }

    /// Registers a flow that the egress relay knows. Its alias is one more than its slot.
    fn flow(&mut self, kind: FlowConfig) -> FlowSlot {
        let slot = self.unknown_flow(kind);
        self.ingress.set_has_receiver(slot, RelayPeerId(kind.peer), true);
        slot
    }

    fn unknown_flow(&mut self, kind: FlowConfig) -> FlowSlot {
        let holder = self.ingress.holder(0, TenantId::new(kind.tenant));
        let register = |slot| Registration { holder, ..registration(slot, kind) };
        let slot = self.ingress.register(register, self.now);
        let next_hop = NextHop { peer: RelayPeerId(kind.peer), alias: alias(slot), has_receiver: false };
        self.ingress.add_next_hop(slot, next_hop);
        slot
    }

    fn copy(&mut self, slot: FlowSlot, sequence: u64) {
        let coded = packet(alias(slot).number(), sequence);
        self.copy_of(slot, sequence, &coded);
    }

    fn copy_of(&mut self, slot: FlowSlot, sequence: u64, coded: &[u8]) {
        self.lengths.insert((alias(slot).number(), sequence), coded.len());
        let low = SequenceNumber::new(sequence).low();
        let copy = ArrivingCopy { sequence_low: low, coded, is_resent: false, ecn: Ecn::NotCapable };
        self.ingress.on_copy(slot, &copy, &mut self.sink, self.now);
    }

    /// Advances the time, and handles all timers that expire meanwhile.
    fn advance(&mut self, millis: u64) {
        let end = self.now + ms(millis);
        while let Some(at) = self.ingress.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.ingress.handle_timeout(&mut self.sink, self.now);
        }
        self.now = end;
    }

    fn batches(&mut self) -> Vec<Batch> {
        core::mem::take(&mut self.sink.batches)
    }

    fn drain_in_stream(&mut self) -> Vec<InStreamPacket> {
        core::mem::take(&mut self.sink.in_stream)
    }
}

fn alias(slot: FlowSlot) -> Alias {
    u16::try_from(slot.0 + 1).ok().and_then(Alias::new).expect("few flows")
}

fn registration(slot: FlowSlot, kind: FlowConfig) -> Registration {
    let number = FlowId::new(u16::try_from(slot.0).expect("few flows"));
    let (sender, receiver) = (AgentId::new(1), Receiver::Agent(AgentId::new(2)));
    let tenant = CodingClass::of_tenant(TenantId::new(kind.tenant));
    let class = if kind.shares { CodingClass::SHARED } else { tenant };
    let all = (FlowId::new(0), FlowId::new(u16::MAX));
    let (first, last) = if kind.policer_rate.is_some() { all } else { (number, number) };
    Registration {
        key: FlowKey::new(sender, receiver, number),
        service: kind.service,
        rates: kind.rates,
        rate: kind.rate,
        latency_budget: kind.latency_budget,
        group: kind.rates.batch.map(|shape| GroupKey {
            egress: RelayPeerId(kind.peer),
            group: kind.group,
            shape: (shape.source_packets(), shape.repair_packets()),
            is_adaptive: kind.is_adaptive,
            tenant: (!kind.shares).then_some(TenantId::new(kind.tenant)),
        }),
        batching: BatchedFlow {
            slot: slot.0,
            class,
            receiver: 0,
            sender: 0,
            cohort: 0,
            avoids_network: false,
        },
        tenant: TenantId::new(kind.tenant),
        holder: Holder::default(),
        policer: GrantPolicer {
            flows: GrantedFlows { sender, receiver, first, last },
            rate: kind.policer_rate.unwrap_or(kind.rate),
        },
        duplicates: kind.copy_mode == CopyMode::ByRelay,
        sender_fec: kind.copy_mode == CopyMode::SenderFec,
        is_selective: kind.copy_mode == CopyMode::Selective,
        class: Class::HighRate,
    }
}

/// Removes one packet, and restores it from the others and the first repair packet.
fn restore(packets: &[Vec<u8>], lost: usize, repair: &TestRepair) -> Vec<u8> {
    let sources: Vec<Option<&[u8]>> = packets
        .iter()
        .enumerate()
        .map(|(index, packet)| (index != lost).then_some(packet.as_slice()))
        .collect();
    let repair = Repair {
        batch: byway_units::BatchId::new(0),
        index: repair.index,
        source_packets: packets.len(),
        length_symbol: repair.length_symbol,
        payload: &repair.payload,
    };
    let mut buffers = [[0; 2_048]];
    let recovered =
        decode(Engine::fastest(), &sources, &[repair], &mut buffers).expect("one loss, one repair packet");
    let (index, restored) = recovered.packets(&buffers).next().expect("something was lost");
    assert_eq!(index, lost);
    restored.to_vec()
}
