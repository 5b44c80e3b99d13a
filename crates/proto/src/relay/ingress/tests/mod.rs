//! Conversations with the ingress half: copies come in, repair packets go out.

mod batches;
mod blocks;
mod carried;
mod copies;
mod dark;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_code::{Engine, Repair, decode};
use byway_sched::Class;
use byway_units::{AgentId, Duration, FlowId, Rate, Time};
use byway_wire::messages::{InStreamHead, InStreamRepair, Refusal};
use byway_wire::{Alias, BlockShape, Ecn, FlowKey, Receiver, SequenceNumber, Service, TenantId};

use super::super::flow_memory::Holder;
use super::PathOutage;
use super::ceilings::GrantedFlows;
use super::{
    ArrivingCopy, Ceiling, ClosedBatch, EgressPort, FlowSlot, GroupKey, Ingress, Onward, Registration, Sink,
};
use crate::outbox::Owner;
use crate::parts::placement::{CodingClass, PlacedFlow};
use crate::policy::CodingRates;

/// A repair packet, by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    index: usize,
    length_symbol: [u8; 2],
    payload: Vec<u8>,
}

/// A batch as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Batch {
    port: u16,
    number: u32,
    /// Alias and sequence number of each packet.
    covered: Vec<(u16, u64)>,
    digests: Vec<Option<[u8; 4]>>,
    repairs: Vec<Made>,
}

/// An in-stream repair packet as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnRepair {
    alias: u16,
    first: u32,
    mask: u32,
    made: u8,
    repair: Made,
}

/// A sink that keeps what it is given.
#[derive(Default)]
struct Record {
    gives_digests: bool,
    batches: Vec<Batch>,
    own: Vec<OwnRepair>,
    carried: Vec<(u16, u64, Vec<u8>)>,
    asked: Vec<(FlowSlot, u64)>,
    duplicated: Vec<(u16, u64, Vec<u8>)>,
}

fn made(repair: &Repair<'_>) -> Made {
    Made { index: repair.index, length_symbol: repair.length_symbol, payload: repair.payload.to_vec() }
}

impl Sink for Record {
    fn digest(&mut self, _: EgressPort, alias: Alias, sequence: SequenceNumber, _: &[u8]) -> Option<[u8; 4]> {
        let [low, high] = alias.number().to_be_bytes();
        self.gives_digests.then_some([low, high, 0, sequence.low().to_be_bytes()[3]])
    }

    fn cross_stream(&mut self, batch: &ClosedBatch<'_>) {
        self.batches.push(Batch {
            port: batch.egress.0,
            number: batch.batch.number(),
            covered: batch.covered.iter().map(|one| (one.alias.number(), one.sequence.number())).collect(),
            digests: batch.covered.iter().map(|one| one.digest).collect(),
            repairs: batch.repairs().map(|repair| made(&repair)).collect(),
        });
    }

    fn in_stream(&mut self, _: EgressPort, _: Owner, repair: &InStreamRepair<'_>) {
        let InStreamHead { alias, first_low, mask, place, length_symbol } = repair.head;
        self.own.push(OwnRepair {
            alias: alias.number(),
            first: first_low,
            mask: mask.bits(),
            made: place.count(),
            repair: Made { index: place.index().into(), length_symbol, payload: repair.payload.to_vec() },
        });
    }

    fn carry(
        &mut self,
        onward: Onward,
        _: Owner,
        sequence: SequenceNumber,
        coded: &[u8],
        _ecn: Ecn,
        _is_forwarded: bool,
    ) -> bool {
        self.carried.push((onward.alias.number(), sequence.number(), coded.to_vec()));
        true
    }

    fn duplicate(&mut self, flow: &Registration, sequence: SequenceNumber, coded: &[u8], _ecn: Ecn) -> u64 {
        self.duplicated.push((flow.key.flow().number(), sequence.number(), coded.to_vec()));
        1
    }

    fn ask_copy(&mut self, flow: FlowSlot, sequence: SequenceNumber) {
        self.asked.push((flow, sequence.number()));
    }
}

/// What the sender copies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Copying {
    Usual,
    Selective,
    OwnRepairs,
    ByRelay,
}

/// What is special about a flow.
#[derive(Clone, Copy)]
struct Kind {
    service: Service,
    rates: CodingRates,
    rate: Rate,
    latency_budget: Duration,
    group: u32,
    tenant: u32,
    shares: bool,
    /// The rate of a grant that all such flows share.
    ceiling: Option<Rate>,
    port: u16,
    copying: Copying,
}

/// The default rates, for senders of 10 Mbit/s.
fn coded() -> Kind {
    Kind {
        service: Service::Coding,
        rates: CodingRates::default(),
        rate: Rate::from_megabits_per_second(10),
        latency_budget: Duration::from_secs(10),
        group: 0,
        tenant: 0,
        shares: true,
        ceiling: None,
        port: 0,
        copying: Copying::Usual,
    }
}

/// Batches only, of up to `packets`.
fn batched(packets: u8, repairs: u8) -> Kind {
    Kind { rates: CodingRates { in_stream: None, batch: BlockShape::new(packets, repairs) }, ..coded() }
}

/// Blocks only.
fn blocked(packets: u8, repairs: u8) -> Kind {
    Kind { rates: CodingRates { in_stream: BlockShape::new(packets, repairs), batch: None }, ..coded() }
}

/// An egress relay's word on a direct path.
fn said(is_dark: bool) -> PathOutage {
    PathOutage { is_dark, by_sender: false }
}

/// An ingress half, its clock, and what it made.
struct Talk {
    ingress: Ingress,
    now: Time,
    made: Record,
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
        .map(|place| u8::try_from((place * 31 + sequence * 5 + u64::from(alias)) % 251).expect("reduced"))
        .collect()
}

impl Talk {
    fn new() -> Self {
        let ingress = Ingress::new(
            Engine::fastest(),
            byway_units::Bytes::new(64 << 20),
            byway_units::Bytes::new(64 << 20),
        );
        Self { ingress, now: Time::START, made: Record::default(), lengths: BTreeMap::new() }
    }

    /// A flow that the egress relay knows; its alias is one more than its slot.
    fn flow(&mut self, kind: Kind) -> FlowSlot {
        let slot = self.unknown_flow(kind);
        self.ingress.set_known(slot, EgressPort(kind.port), true);
        slot
    }

    fn unknown_flow(&mut self, kind: Kind) -> FlowSlot {
        let slot = self.ingress.register(|slot| registration(slot, kind), self.now);
        let onward = Onward { port: EgressPort(kind.port), alias: alias(slot), known: false };
        self.ingress.add_onward(slot, onward);
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
        self.ingress.copy(slot, &copy, &mut self.made, self.now);
    }

    /// Time passes, with all that is due meanwhile.
    fn wait(&mut self, millis: u64) {
        let end = self.now + ms(millis);
        while let Some(at) = self.ingress.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.ingress.handle_timeout(&mut self.made, self.now);
        }
        self.now = end;
    }

    fn batches(&mut self) -> Vec<Batch> {
        core::mem::take(&mut self.made.batches)
    }

    fn own(&mut self) -> Vec<OwnRepair> {
        core::mem::take(&mut self.made.own)
    }
}

fn alias(slot: FlowSlot) -> Alias {
    u16::try_from(slot.0 + 1).ok().and_then(Alias::new).expect("few flows")
}

fn registration(slot: FlowSlot, kind: Kind) -> Registration {
    let number = FlowId::new(u16::try_from(slot.0).expect("few flows"));
    let (sender, receiver) = (AgentId::new(1), Receiver::Agent(AgentId::new(2)));
    let tenant = CodingClass::of_tenant(TenantId::new(kind.tenant));
    let class = if kind.shares { CodingClass::SHARED } else { tenant };
    let all = (FlowId::new(0), FlowId::new(u16::MAX));
    let (first, last) = if kind.ceiling.is_some() { all } else { (number, number) };
    Registration {
        key: FlowKey::new(sender, receiver, number),
        service: kind.service,
        rates: kind.rates,
        rate: kind.rate,
        latency_budget: kind.latency_budget,
        group: kind.rates.batch.map(|shape| GroupKey {
            egress: EgressPort(kind.port),
            group: kind.group,
            shape: (shape.source_packets(), shape.repair_packets()),
        }),
        placed: PlacedFlow { slot: slot.0, class, receiver: 0, sender: 0 },
        tenant,
        owned_by: TenantId::new(kind.tenant),
        holder: Holder::default(),
        ceiling: Ceiling {
            flows: GrantedFlows { sender, receiver, first, last },
            rate: kind.ceiling.unwrap_or(kind.rate),
        },
        duplicates: kind.copying == Copying::ByRelay,
        makes_repairs: kind.copying == Copying::OwnRepairs,
        is_selective: kind.copying == Copying::Selective,
        class: Class::HighRate,
    }
}

/// Takes one packet away, and has it restored from the others and the first repair packet.
fn restore(packets: &[Vec<u8>], lost: usize, repair: &Made) -> Vec<u8> {
    let sources: Vec<Option<&[u8]>> = packets
        .iter()
        .enumerate()
        .map(|(place, packet)| (place != lost).then_some(packet.as_slice()))
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
    let (place, restored) = recovered.packets(&buffers).next().expect("something was lost");
    assert_eq!(place, lost);
    restored.to_vec()
}
