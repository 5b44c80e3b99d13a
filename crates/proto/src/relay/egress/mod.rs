//! The egress half of a relay: keeps repair packets and copies for receivers nearby, and answers their requests,
//! cheapest repair first.
//!
//! It speaks in flows, sequence numbers and coded bytes; sessions, aliases and the wire are the relay's business.
//! Every entry point appends what is to be done to a list of [`Action`]s.
//!
//! The order of preference (J-QoS 3.2, CASPR 3.3.1):
//! 1. the packet itself, if it is cached or was decoded for somebody;
//! 2. repair packets of the flow's own block, if they suffice for what this receiver reported missing in it;
//! 3. a cooperative round for a batch that covers the packet;
//! 4. the copy that the ingress relay has, where a round cannot succeed and the packet is still of use when that comes.

mod action;
mod arrivals;
mod batches;
mod blocks;
mod carried;
mod counters;
mod fetching;
mod flow;
mod missing;
mod nacked;
mod open_end;
mod repair;
mod requests;
mod review;
mod rounds;
mod shortfall;
mod sweep;
mod tails;
mod widen;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_code::{AlignedBuffer, Engine, JointDecoder};
use byway_sched::Class;
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{FlowKey, SequenceNumber, TenantId};

pub(crate) use action::{Action, Given};
pub(crate) use arrivals::CrossStream;
pub(crate) use batches::Entry;
pub(crate) use carried::{CarriedCopy, Feed};
pub use counters::{EgressCounters, RelayBacklog};
pub(crate) use flow::FlowSlot;
pub(crate) use requests::Request;

use batches::{Batch, Batches};
use carried::Gaps;
use flow::{Active, BatchRef, EgressFlow};
pub(crate) use flow::{SET_ASIDE_BYTES, SLOT_BYTES};
use open_end::InFlight;
use rounds::{RoundSlot, Rounds};
use sweep::Sweeps;
use tails::Tails;

use super::flow_memory::FlowMemory;
pub(crate) use super::flow_memory::Holder;
use super::work::RelayWork;
use crate::growth;
use crate::limits::{CODED_BYTES_MAX, EGRESS_FLOWS_MAX, REPAIR_RETENTION};
use crate::outbox::Owner;
use crate::parts::packet_log::{Handle, PacketLog};
use byway_wire::Service;
use byway_wire::messages::Consent;

/// The egress half of a relay.
#[derive(Debug)]
pub(crate) struct Egress {
    engine: Engine,
    /// Whether it asks again, and ingress relays, for what does not come.
    follows_up: bool,
    flows: Vec<Option<EgressFlow>>,
    memory: FlowMemory,
    /// For the next flows, those that have been free for longest first.
    free: VecDeque<FlowSlot>,
    /// Flows that answered falsely, and may have left since; the oldest give way.
    barred: VecDeque<FlowKey>,
    /// The batches of each ingress relay.
    batches: Vec<Batches>,
    rounds: Rounds,
    /// Repair payloads, cached packets, answers and decoded packets.
    log: PacketLog,
    /// Rounds that do not succeed alone.
    stuck: Vec<RoundSlot>,
    /// What solves several batches together; `None` only while it is in use.
    joint: Option<Box<JointDecoder>>,
    /// The block of which repair packets were sent last, and when: they may be for several of its packets.
    block_sent: Option<(FlowSlot, SequenceNumber, Time)>,
    /// Where decoding writes.
    decoded: Vec<AlignedBuffer>,
    /// When what is to be given up.
    sweeps: Sweeps,
    /// What did not come of what ingress relays carried here.
    gaps: Gaps,
    /// How far away ingress relays are, by number; those that are not measured, or this one, are near.
    feed_round_trips: Vec<Duration>,
    /// What open ends cover that may only be in flight.
    in_flight: InFlight,
    tails: Tails,
    pub(crate) counters: EgressCounters,
    pub(crate) work: RelayWork,
}

impl Egress {
    /// Packets and flows may take so much memory.
    pub(crate) fn new(engine: Engine, follows_up: bool, packets: Bytes, flows: Bytes) -> Self {
        Self {
            engine,
            follows_up,
            flows: Vec::new(),
            memory: FlowMemory::new(flows),
            free: VecDeque::new(),
            barred: VecDeque::new(),
            batches: Vec::new(),
            rounds: Rounds::new(),
            log: PacketLog::new(packets, REPAIR_RETENTION),
            decoded: (0..byway_code::REPAIR_PACKETS_MAX)
                .map(|_| AlignedBuffer::new(CODED_BYTES_MAX))
                .collect(),
            stuck: Vec::new(),
            block_sent: None,
            joint: Some(Box::new(JointDecoder::new(engine, CODED_BYTES_MAX))),
            sweeps: Sweeps::default(),
            gaps: Gaps::default(),
            feed_round_trips: Vec::new(),
            in_flight: InFlight::default(),
            tails: Tails::default(),
            counters: EgressCounters::default(),
            work: RelayWork::default(),
        }
    }

    /// Registers a flow of which a receiver is nearby.
    pub(crate) fn register(
        &mut self,
        (key, holder): (FlowKey, Holder),
        service: Service,
        rate: Rate,
        consent: Consent,
        now: Time,
    ) -> FlowSlot {
        let slot = self.free.pop_front().unwrap_or_else(|| {
            growth::push(&mut self.flows, None);
            FlowSlot::first_at(self.flows.len() - 1)
        });
        let mut flow = EgressFlow::new(slot, (key, holder), service, rate, consent, now);
        flow.barred = self.barred.contains(&key);
        self.flows[slot.place()] = Some(flow);
        slot
    }

    /// Whether another flow may be registered.
    pub(crate) fn has_room(&self) -> bool {
        self.flows.len() - self.free.len() < EGRESS_FLOWS_MAX
    }

    /// Forgets a flow.
    pub(crate) fn unregister(&mut self, slot: FlowSlot) {
        if self.flow(slot).is_some() {
            if let Some(active) = self.flows[slot.place()].take().and_then(|mut flow| flow.rest()) {
                self.memory.release(&active.memory);
            }
            self.free.push_back(slot.next());
        }
    }

    /// How many slots there are, in use or not.
    pub(crate) const fn slots(&self) -> usize {
        self.flows.len()
    }

    /// The key of a flow.
    pub(crate) fn key(&self, slot: FlowSlot) -> Option<FlowKey> {
        self.flow(slot).map(|flow| flow.key)
    }

    /// Whose memory the flows of a session take.
    pub(crate) fn holder(&mut self, session: u32, tenant: TenantId) -> Holder {
        self.memory.holder(session, tenant)
    }

    /// The memory that is taken by what is known of flows.
    pub(crate) const fn flows_held(&self) -> Bytes {
        self.memory.used()
    }

    /// The service of a flow.
    pub(crate) fn service(&self, slot: FlowSlot) -> Option<Service> {
        self.flow(slot).map(|flow| flow.service)
    }

    /// Gives the packets of a flow a class where they have to wait.
    pub(crate) fn set_class(&mut self, slot: FlowSlot, class: Class) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.class = class;
        }
    }

    /// Whose the packets of a flow are.
    pub(crate) fn owner(&self, slot: FlowSlot) -> Option<Owner> {
        self.flow(slot).map(|flow| Owner::Flow(flow.key, flow.class))
    }

    /// A packet to be sent.
    pub(crate) fn packet(&self, handle: Handle, now: Time) -> Option<&[u8]> {
        self.log.get(handle, now)
    }

    /// The memory of the packets that are kept.
    pub(crate) fn packets_held(&self) -> Bytes {
        self.log.held()
    }

    /// What is not finished.
    pub(crate) fn backlog(&self) -> RelayBacklog {
        let active = || self.flows.iter().flatten().filter_map(EgressFlow::active);
        RelayBacklog {
            flows: active().count(),
            rounds: self.rounds.under_way(),
            missing: active().map(|active| active.missing.count() + active.nacked.waiting()).sum(),
        }
    }

    /// Notes how far away the flow's receiver is.
    pub(crate) fn set_round_trip(&mut self, slot: FlowSlot, round_trip: Duration) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.round_trip = round_trip;
        }
    }

    fn flow(&self, slot: FlowSlot) -> Option<&EgressFlow> {
        self.flows.get(slot.place())?.as_ref().filter(|flow| flow.slot == slot)
    }

    fn flow_mut(&mut self, slot: FlowSlot) -> Option<&mut EgressFlow> {
        find(&mut self.flows, slot)
    }

    fn batches_of(&mut self, ingress: u16) -> &mut Batches {
        let index = usize::from(ingress);
        if self.batches.len() <= index {
            self.batches.resize_with(index + 1, Batches::default);
        }
        &mut self.batches[index]
    }

    /// A batch, while it is kept.
    fn batch(&self, batch: BatchRef) -> Option<Batch> {
        kept(&self.batches, batch)
    }

    fn batch_mut(&mut self, batch: BatchRef) -> Option<&mut Batch> {
        self.batches.get_mut(usize::from(batch.ingress))?.get_mut(batch.number)
    }

    /// Forgets what came from an ingress relay and how far away it is: it restarted and numbers batches anew, or is another one.
    pub(crate) fn forget_ingress(&mut self, ingress: u16) {
        let place = usize::from(ingress);
        if let Some(batches) = self.batches.get_mut(place) {
            self.memory.settle_shared(batches.bytes(), 0);
            *batches = Batches::default();
        }
        if let Some(round_trip) = self.feed_round_trips.get_mut(place) {
            *round_trip = Duration::ZERO;
        }
    }

    /// How long after a request its answer is missed.
    fn ask_again_after(round_trip: Duration) -> Duration {
        round_trip + round_trip / 2
    }
}

/// A batch, while it is kept.
fn kept(batches: &[Batches], batch: BatchRef) -> Option<Batch> {
    batches.get(usize::from(batch.ingress))?.get(batch.number)
}

/// What is kept of a flow, which knows whether it may take more memory.
fn admitted<'a>(
    flows: &'a mut [Option<EgressFlow>],
    memory: &FlowMemory,
    slot: FlowSlot,
) -> Option<&'a mut Active> {
    let active = find(flows, slot)?.active_mut()?;
    memory.admit(&mut active.memory);
    Some(active)
}

/// The flow of this slot, while it is that of the slot's turn.
fn find(flows: &mut [Option<EgressFlow>], slot: FlowSlot) -> Option<&mut EgressFlow> {
    flows.get_mut(slot.place())?.as_mut().filter(|flow| flow.slot == slot)
}

#[cfg(test)]
mod tests;
