//! Conversations with the egress half: what arrives and is asked, and what it then wants done.

mod carried;
mod choice;
mod cooperation;
mod fetching;
mod limits;
mod open_end;
mod slots;
mod tails;
mod together;

use alloc::vec::Vec;

use byway_code::{Engine, encode};
use byway_units::{AgentId, BatchId, Bytes, Duration, FlowId, Rate, Time};
use byway_wire::messages::{Consent, InStreamHead, InStreamRepair, Mask};
use byway_wire::{Alias, Ecn, FlowKey, Place, Receiver, SequenceNumber, Service, TenantId};

use super::batches::Entries;
use super::{Action, CarriedCopy, CrossStream, Egress, Entry, Feed, FlowSlot, Given, Holder, Request};
use crate::limits::CONSENT;

/// An action, without what only the relay needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    InStream { flow: FlowSlot, first: u64 },
    Give { flow: FlowSlot, sequence: u64, given: Given },
    Ask { flow: FlowSlot, sequence: u64 },
    Confirm { flow: FlowSlot, sequence: u64 },
    Outage { flow: FlowSlot, is_dark: bool },
}

/// The packets of a batch or block, and the repair packets over them.
struct Coded {
    packets: Vec<(FlowSlot, u64)>,
    repairs: Vec<([u8; 2], Vec<u8>)>,
}

/// An egress half, its clock, and what it wanted done.
struct Talk {
    egress: Egress,
    now: Time,
    patience: Duration,
    actions: Vec<Action>,
}

/// What the ingress relay calls a flow is not the egress half's business.
const ALIAS: Alias = Alias::new(1).expect("not zero");

/// Memory for packets, and for what is known of flows.
const LOG: Bytes = Bytes::new(64 << 20);
const FLOWS: Bytes = Bytes::new(64 << 20);

const RATE: Rate = Rate::from_megabits_per_second(2);
const NOTHING: Consent = Consent { burst_percent: 0, average_per_mille: 0, seconds: 0 };

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The coded bytes of a packet; no two are alike, and neighbours differ in length.
fn packet(flow: FlowSlot, sequence: u64) -> Vec<u8> {
    let length = 60 + (sequence * 7 + u64::from(flow.0) * 13) % 40;
    (0..length)
        .map(|place| u8::try_from((place * 31 + sequence * 5 + u64::from(flow.0)) % 251).expect("reduced"))
        .collect()
}

fn code(packets: &[(FlowSlot, u64)], repairs: usize) -> Coded {
    let sources: Vec<Vec<u8>> = packets.iter().map(|(flow, sequence)| packet(*flow, *sequence)).collect();
    let views: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
    let mut payloads = alloc::vec![[0; 128]; repairs];
    let encoded = encode(Engine::fastest(), &views, &mut payloads).expect("a small batch");
    let repairs = encoded.repairs(BatchId::new(0), &payloads);
    let repairs = repairs.map(|repair| (repair.length_symbol, repair.payload.to_vec())).collect();
    Coded { packets: packets.to_vec(), repairs }
}

impl Talk {
    fn new() -> Self {
        Self {
            egress: Egress::new(Engine::fastest(), true, LOG, FLOWS),
            now: Time::START,
            patience: ms(200),
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

    fn wait(&mut self, millis: u64) {
        self.now += ms(millis);
    }

    /// One repair packet of a batch arrives.
    fn repair(&mut self, number: u32, coded: &Coded, index: usize) {
        self.vouched_repair(number, coded, index, None);
    }

    fn vouched_repair(&mut self, number: u32, coded: &Coded, index: usize, digest: Option<[u8; 4]>) {
        let entries = coded.packets.iter().zip(1..).map(|((flow, sequence), alias)| Entry {
            flow: self.egress.flow(*flow).is_some().then_some(*flow),
            alias: Alias::new(alias).expect("not zero"),
            sequence: SequenceNumber::new(*sequence),
            digest,
        });
        let entries: Entries = entries.collect();
        let (length_symbol, payload) = &coded.repairs[index];
        let repair = CrossStream {
            ingress: 0,
            batch: number,
            index: u8::try_from(index).expect("few repair packets"),
            made: u8::try_from(coded.repairs.len()).expect("few repair packets"),
            covers: entries.len(),
            length_symbol: *length_symbol,
            payload,
        };
        self.egress.cross_stream(&repair, |_| entries, self.now, &mut self.actions);
    }

    /// All repair packets of a batch of these packets arrive.
    fn batch(&mut self, number: u32, packets: &[(FlowSlot, u64)], repairs: usize) -> Coded {
        let coded = code(packets, repairs);
        (0..repairs).for_each(|index| self.repair(number, &coded, index));
        coded
    }

    /// All repair packets of a block of `count` packets arrive.
    fn block(&mut self, flow: FlowSlot, first: u64, count: u8, repairs: usize) {
        let packets: Vec<_> = (first..first + u64::from(count)).map(|sequence| (flow, sequence)).collect();
        let coded = code(&packets, repairs);
        let made = u8::try_from(repairs).expect("few repair packets");
        for (index, (length_symbol, payload)) in (0..).zip(&coded.repairs) {
            let head = InStreamHead {
                alias: ALIAS,
                first_low: SequenceNumber::new(first).low(),
                mask: Mask::new((1 << count) - 1).expect("a short block"),
                place: Place::new(index, made).expect("one of those made"),
                length_symbol: *length_symbol,
            };
            self.egress.in_stream(flow, &InStreamRepair { head, payload }, self.now, &mut self.actions);
        }
    }

    /// A repair packet over five packets, whatever is in it.
    fn block_of(&mut self, flow: FlowSlot, first: u32, payload: &[u8]) {
        let (mask, place) =
            (Mask::new(0b1_1111).expect("a short block"), Place::new(0, 1).expect("one of one"));
        let head = InStreamHead { alias: ALIAS, first_low: first, mask, place, length_symbol: [0; 2] };
        self.egress.in_stream(flow, &InStreamRepair { head, payload }, self.now, &mut self.actions);
    }

    fn carried(&mut self, flow: FlowSlot, sequence: u64) {
        self.carried_from(None, flow, sequence);
    }

    /// A copy comes from a relay that can be asked for others.
    fn carried_from(&mut self, feed: Option<Feed>, flow: FlowSlot, sequence: u64) {
        let sequence_low = SequenceNumber::new(sequence).low();
        let coded = packet(flow, sequence);
        let (ecn, is_forwarded) = (Ecn::NotCapable, false);
        let carried = CarriedCopy { sequence_low, coded: &coded, ecn, is_forwarded, feed };
        self.egress.carried(&[flow], &carried, self.now, &mut self.actions);
    }

    /// The receiver saw a later packet.
    fn nack(&mut self, flow: FlowSlot, first: u64, last: u64) {
        self.ask(flow, &[(first, last)], None, true);
    }

    /// The receiver's timer ran out.
    fn nack_by_timer(&mut self, flow: FlowSlot, first: u64, last: u64) {
        self.ask(flow, &[(first, last)], None, false);
    }

    /// The receiver's timer ran out, and all from here on is missing.
    fn open(&mut self, flow: FlowSlot, from: u64) {
        self.ask(flow, &[], Some(from), false);
    }

    fn ask(&mut self, flow: FlowSlot, ranges: &[(u64, u64)], open_from: Option<u64>, certain: bool) {
        let number = SequenceNumber::new;
        let ranges: Vec<_> = ranges.iter().map(|(first, last)| (number(*first), number(*last))).collect();
        let open_from = open_from.map(number);
        let request = Request { flow, ranges: &ranges, open_from, certain, patience: self.patience };
        self.egress.nack(&request, self.now, &mut self.actions);
    }

    /// The receiver was asked for these itself, and does not have them.
    fn lost(&mut self, flow: FlowSlot, first: u64, last: u64) {
        let (first, last) = (SequenceNumber::new(first), SequenceNumber::new(last));
        self.egress.lost(flow, first, last, self.now, &mut self.actions);
    }

    fn ack(&mut self, flow: FlowSlot, from: u64) {
        self.egress.ack(flow, SequenceNumber::new(from), self.now, &mut self.actions);
    }

    /// A cooperating receiver gives its packet.
    fn answer(&mut self, flow: FlowSlot, sequence: u64) {
        self.answer_with(flow, sequence, &packet(flow, sequence));
    }

    fn answer_with(&mut self, flow: FlowSlot, sequence: u64, coded: &[u8]) {
        self.egress.answer(flow, SequenceNumber::new(sequence), coded, self.now, &mut self.actions);
    }

    /// All sweeps up to now.
    fn sweep(&mut self) {
        while let Some(at) = self.egress.deadline().filter(|at| *at <= self.now) {
            self.egress.sweep(at.max(self.now));
        }
    }

    /// What is wanted since the last time. What is given is what was sent.
    fn said(&mut self) -> Vec<Said> {
        let now = self.now;
        let egress = &self.egress;
        let said = self.actions.drain(..).map(|action| match action {
            Action::InStream { flow, first, .. } => Said::InStream { flow, first: first.number() },
            Action::Give { flow, sequence, packet: handle, given, .. } => {
                let sequence = sequence.number();
                assert_eq!(
                    egress.packet(handle, now),
                    Some(&packet(flow, sequence)[..]),
                    "{flow:?} {sequence}"
                );
                Said::Give { flow, sequence, given }
            }
            Action::Ask { flow, sequence, .. } => Said::Ask { flow, sequence: sequence.number() },
            Action::Confirm { flow, sequence } => Said::Confirm { flow, sequence: sequence.number() },
            Action::Outage { flow, is_dark } => Said::Outage { flow, is_dark },
        });
        said.collect()
    }
}

fn cooperative(flow: FlowSlot, sequence: u64) -> Said {
    Said::Give { flow, sequence, given: Given::Cooperative }
}

fn cached(flow: FlowSlot, sequence: u64) -> Said {
    Said::Give { flow, sequence, given: Given::Cached }
}

const fn asked(flow: FlowSlot, sequence: u64) -> Said {
    Said::Ask { flow, sequence }
}
