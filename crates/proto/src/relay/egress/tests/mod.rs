//! Tests of the egress half: inputs, and the resulting actions.

mod burst_end;
mod choice;
mod cooperation;
mod fetching;
mod joint_decode;
mod limits;
mod losses;
mod outage;
mod relayed_copies;
mod slots;
mod traffic;

use alloc::vec::Vec;

use byway_code::{Engine, encode};
use byway_units::{AgentId, BatchId, Bytes, Duration, FlowId, Rate, Time};
use byway_wire::messages::{Consent, InStreamHead, InStreamRepair, Mask};
use byway_wire::{Alias, Ecn, FlowKey, Receiver, RepairIndex, SequenceNumber, Service, TenantId};

use super::batches::BatchEntries;
use super::{
    Action, BatchEntry, CopySource, CrossStreamPacket, Egress, FlowSlot, Holder, NackRequest, RelayedCopy,
    RepairSource,
};
use crate::limits::CONSENT;

/// An action, without the fields that only the relay needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestAction {
    SendInStreamRepair { flow: FlowSlot, first: u64 },
    SendRepair { flow: FlowSlot, sequence: u64, source: RepairSource },
    RequestPacket { flow: FlowSlot, sequence: u64 },
    SendConfirm { flow: FlowSlot, sequence: u64 },
    ReportOutage { flow: FlowSlot, is_active: bool },
}

/// Packets of a batch or block, and their repair packets.
struct CodedBatch {
    packets: Vec<(FlowSlot, u64)>,
    repairs: Vec<([u8; 2], Vec<u8>)>,
}

/// An egress half, its clock, and its actions.
struct EgressHarness {
    egress: Egress,
    now: Time,
    repair_lifetime: Duration,
    /// True if NACKs report that the queue of the direct path grows.
    queue_grows: bool,
    is_adaptive: bool,
    actions: Vec<Action>,
}

/// Alias of all flows: the egress half does not use it.
const ALIAS: Alias = Alias::new(1).expect("not zero");

/// Memory limits: stored packets, and flow state.
const LOG: Bytes = Bytes::new(64 << 20);
const FLOWS: Bytes = Bytes::new(64 << 20);

const RATE: Rate = Rate::from_megabits_per_second(2);
const NOTHING: Consent = Consent { burst_percent: 0, average_per_mille: 0, seconds: 0 };

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns the coded bytes of a packet. No two packets are equal, and neighbours differ in length.
fn packet(flow: FlowSlot, sequence: u64) -> Vec<u8> {
    let length = 60 + (sequence * 7 + u64::from(flow.0) * 13) % 40;
    (0..length)
        .map(|index| u8::try_from((index * 31 + sequence * 5 + u64::from(flow.0)) % 251).expect("reduced"))
        .collect()
}

fn code(packets: &[(FlowSlot, u64)], repairs: usize) -> CodedBatch {
    let sources: Vec<Vec<u8>> = packets.iter().map(|(flow, sequence)| packet(*flow, *sequence)).collect();
    let views: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut payloads = alloc::vec![[0; 128]; repairs];
    let encoded = encode(Engine::fastest(), &views, &mut payloads).expect("a small batch");
    let repairs = encoded.repairs(BatchId::new(0), &payloads);
    let repairs = repairs.map(|repair| (repair.length_symbol, repair.payload.to_vec())).collect();
    CodedBatch { packets: packets.to_vec(), repairs }
}

impl EgressHarness {
    fn new() -> Self {
        Self {
            egress: Egress::new(Engine::fastest(), true, LOG, FLOWS),
            now: Time::START,
            repair_lifetime: ms(200),
            queue_grows: false,
            is_adaptive: false,
            actions: Vec::new(),
        }
    }

    fn flow(&mut self, service: Service) -> FlowSlot {
        self.flow_of(service, RATE, CONSENT)
    }

    fn flow_of(&mut self, service: Service, rate: Rate, consent: Consent) -> FlowSlot {
        let number = u16::try_from(self.egress.flows.len()).expect("few flows");
        let key = FlowKey::new(AgentId::new(1), Receiver::Agent(AgentId::new(2)), FlowId::new(number));
        self.egress.register((key, Holder::default()), service, rate, consent, self.now)
    }

    fn flows<const N: usize>(&mut self) -> [FlowSlot; N] {
        core::array::from_fn(|_| self.flow(Service::Coding))
    }

    fn advance(&mut self, millis: u64) {
        self.now += ms(millis);
    }

    /// Sends one repair packet of a batch to the egress half.
    fn repair(&mut self, number: u32, coded: &CodedBatch, index: usize) {
        self.repair_with_digest(number, coded, index, None);
    }

    fn repair_with_digest(&mut self, number: u32, coded: &CodedBatch, index: usize, digest: Option<[u8; 4]>) {
        let entries = coded.packets.iter().zip(1..).map(|((flow, sequence), alias)| BatchEntry {
            flow: self.egress.flow(*flow).is_some().then_some(*flow),
            alias: Alias::new(alias).expect("not zero"),
            sequence: SequenceNumber::new(*sequence),
            digest,
        });
        let entries: BatchEntries = entries.collect();
        let (length_symbol, payload) = &coded.repairs[index];
        let repair = CrossStreamPacket {
            ingress: 0,
            batch: number,
            index: u8::try_from(index).expect("few repair packets"),
            repair_count: u8::try_from(coded.repairs.len()).expect("few repair packets"),
            covered_count: entries.len(),
            length_symbol: *length_symbol,
            payload,
        };
        self.egress.on_cross_stream_repair(&repair, |_| entries, self.now, &mut self.actions);
    }

    /// Sends all repair packets of a batch of these packets to the egress half.
    fn batch(&mut self, number: u32, packets: &[(FlowSlot, u64)], repairs: usize) -> CodedBatch {
        let coded = code(packets, repairs);
        (0..repairs).for_each(|index| self.repair(number, &coded, index));
        coded
    }

    /// Sends all repair packets of a block of `count` packets to the egress half.
    fn block(&mut self, flow: FlowSlot, first: u64, count: u8, repairs: usize) {
        let packets: Vec<_> = (first..first + u64::from(count)).map(|sequence| (flow, sequence)).collect();
        let coded = code(&packets, repairs);
        let made = u8::try_from(repairs).expect("few repair packets");
        for (index, (length_symbol, payload)) in (0..).zip(&coded.repairs) {
            let head = InStreamHead {
                alias: ALIAS,
                first_low: SequenceNumber::new(first).low(),
                mask: Mask::new((1 << count) - 1).expect("a short block"),
                repair_index: RepairIndex::new(index, made).expect("one of those made"),
                length_symbol: *length_symbol,
            };
            self.egress.on_in_stream_repair(
                flow,
                &InStreamRepair { head, payload },
                self.now,
                &mut self.actions,
            );
        }
    }

    /// Sends a repair packet over five packets, with any payload.
    fn block_of(&mut self, flow: FlowSlot, first: u32, payload: &[u8]) {
        let (mask, repair_index) =
            (Mask::new(0b1_1111).expect("a short block"), RepairIndex::new(0, 1).expect("one of one"));
        let head = InStreamHead { alias: ALIAS, first_low: first, mask, repair_index, length_symbol: [0; 2] };
        self.egress.on_in_stream_repair(flow, &InStreamRepair { head, payload }, self.now, &mut self.actions);
    }

    fn relay_copy(&mut self, flow: FlowSlot, sequence: u64) {
        self.relay_copy_from(None, flow, sequence);
    }

    /// Sends a copy from a relay that accepts requests for others.
    fn relay_copy_from(&mut self, source: Option<CopySource>, flow: FlowSlot, sequence: u64) {
        let sequence_low = SequenceNumber::new(sequence).low();
        let coded = packet(flow, sequence);
        let (ecn, is_forwarded) = (Ecn::NotCapable, false);
        let copy = RelayedCopy { sequence_low, coded: &coded, ecn, is_forwarded, is_resent: false, source };
        self.egress.on_relayed_copy(&[flow], &copy, self.now, &mut self.actions);
    }

    /// Sends a NACK that a later packet caused.
    fn nack(&mut self, flow: FlowSlot, first: u64, last: u64) {
        self.send_nack(flow, &[(first, last)], None, true);
    }

    /// Sends a NACK that a timeout caused.
    fn nack_by_timer(&mut self, flow: FlowSlot, first: u64, last: u64) {
        self.send_nack(flow, &[(first, last)], None, false);
    }

    /// Sends an open-ended NACK that a timeout caused.
    fn nack_open_ended(&mut self, flow: FlowSlot, from: u64) {
        self.send_nack(flow, &[], Some(from), false);
    }

    fn send_nack(&mut self, flow: FlowSlot, ranges: &[(u64, u64)], open_from: Option<u64>, certain: bool) {
        let number = SequenceNumber::new;
        let ranges: Vec<_> = ranges.iter().map(|(first, last)| (number(*first), number(*last))).collect();
        let open_from = open_from.map(number);
        let (repair_lifetime, sources) = (self.repair_lifetime, &[relayed_copies::COPY_SOURCE][..]);
        let (queue_grows, is_adaptive) = (self.queue_grows, self.is_adaptive);
        let request = NackRequest {
            flow,
            ranges: &ranges,
            sources,
            is_adaptive,
            open_from,
            certain,
            queue_grows,
            repair_lifetime,
        };
        self.egress.on_nack(&request, self.now, &mut self.actions);
    }

    /// Refuses a cooperative request: the receiver lost these packets itself.
    fn lost(&mut self, flow: FlowSlot, first: u64, last: u64) {
        let (first, last) = (SequenceNumber::new(first), SequenceNumber::new(last));
        self.egress.on_cooperative_refusal(flow, first, last, self.now, &mut self.actions);
    }

    fn ack(&mut self, flow: FlowSlot, from: u64) {
        self.egress.on_ack(flow, SequenceNumber::new(from), self.now, &mut self.actions);
    }

    /// Answers a cooperative request with the receiver's packet.
    fn answer(&mut self, flow: FlowSlot, sequence: u64) {
        self.answer_with(flow, sequence, &packet(flow, sequence));
    }

    fn answer_with(&mut self, flow: FlowSlot, sequence: u64, coded: &[u8]) {
        self.egress.on_cooperative_answer(
            flow,
            SequenceNumber::new(sequence),
            coded,
            self.now,
            &mut self.actions,
        );
    }

    /// Runs all sweeps that are due.
    fn sweep(&mut self) {
        while let Some(at) = self.egress.deadline().filter(|at| *at <= self.now) {
            self.egress.sweep(at.max(self.now));
        }
    }

    /// Returns the actions since the last call. It checks that repairs equal the packets that were
    /// sent.
    fn drain_actions(&mut self) -> Vec<TestAction> {
        let now = self.now;
        let egress = &self.egress;
        let actions = self.actions.drain(..).map(|action| match action {
            Action::SendInStreamRepair { flow, first, .. } => {
                TestAction::SendInStreamRepair { flow, first: first.number() }
            }
            Action::SendRepair { flow, sequence, packet: handle, source, .. } => {
                let sequence = sequence.number();
                assert_eq!(
                    egress.packet(handle, now),
                    Some(&packet(flow, sequence)[..]),
                    "{flow:?} {sequence}"
                );
                TestAction::SendRepair { flow, sequence, source }
            }
            Action::RequestPacket { flow, sequence, .. } => {
                TestAction::RequestPacket { flow, sequence: sequence.number() }
            }
            Action::SendConfirm { flow, sequence } => {
                TestAction::SendConfirm { flow, sequence: sequence.number() }
            }
            Action::ReportOutage { flow, is_active } => TestAction::ReportOutage { flow, is_active },
        });
        actions.collect()
    }
}

fn cooperative(flow: FlowSlot, sequence: u64) -> TestAction {
    TestAction::SendRepair { flow, sequence, source: RepairSource::Cooperative }
}

fn cached(flow: FlowSlot, sequence: u64) -> TestAction {
    TestAction::SendRepair { flow, sequence, source: RepairSource::Cached }
}

const fn requested(flow: FlowSlot, sequence: u64) -> TestAction {
    TestAction::RequestPacket { flow, sequence }
}
