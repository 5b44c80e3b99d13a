//! The egress half of a relay: stores repair packets and copies for nearby receivers, and answers
//! their NACKs with the cheapest repair.
//!
//! It works on flows, sequence numbers and coded bytes; the relay handles sessions, aliases and
//! messages. Every entry point appends [`Action`]s to a list, which the relay executes.
//!
//! The order of preference (J-QoS 3.2, CASPR 3.3.1):
//! 1. the packet itself, if the relay cached it or decoded it for another purpose;
//! 2. repair packets of the flow's own block, if they suffice for the packets that this receiver
//!    misses in it;
//! 3. a decode attempt: the receivers of other flows return packets of a batch that covers the
//!    packet;
//! 4. a copy from the ingress relay, if decoding cannot succeed and the copy can arrive before the
//!    packet's deadline.
//!
//! | module | subject |
//! |---|---|
//! | `action` | actions that the relay executes: repairs, requests, reports |
//! | `arrivals` | repair packets from ingress relays, and the repairs that they make possible |
//! | `batches` | cross-stream batches and their repair packets, per ingress relay |
//! | `blocks` | in-stream blocks of a flow and their repair packets |
//! | `burst_end` | tail-loss hints: the last sequence number before a pause |
//! | `counted_losses` | losses of a flow, counted for reports |
//! | `counters` | counters of the egress half, and its backlog |
//! | `decode_attempts` | active decode attempts, and their timers |
//! | `decode_failure_rate` | failure rate of cooperative recovery during an outage |
//! | `feedback` | NACKs, answers, refusals, quarantine |
//! | `fetching` | copies fetched from the ingress relay |
//! | `flow` | state of a flow: sources of its packets, budgets, requests |
//! | `joint_decode` | joint decoding of several batches and blocks |
//! | `losses` | losses of coded flows, counted for reports to ingress relays |
//! | `missing` | missing packets, and the state of their repair |
//! | `nacked_ranges` | requested ranges that are not repairable yet |
//! | `outage` | open-ended NACKs, and packets that may be in flight |
//! | `relayed_copies` | copies that ingress relays forward, and NACKs for their gaps |
//! | `repair` | choice of the cheapest repair, cooperative requests, decoding |
//! | `sweep` | expiry of requests, decode attempts and idle flows |
//! | `timeouts` | reviews on timers: late answers, retries |

mod action;
mod arrivals;
mod batches;
mod blocks;
mod burst_end;
mod counted_losses;
mod counters;
mod decode_attempts;
mod decode_failure_rate;
mod feedback;
mod fetching;
mod flow;
mod joint_decode;
mod losses;
mod missing;
mod nacked_ranges;
mod outage;
mod relayed_copies;
mod repair;
mod sweep;
mod timeouts;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_code::{AlignedBuffer, Engine, JointDecoder};
use byway_sched::Class;
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{FlowKey, SequenceNumber, TenantId};

pub(crate) use action::{Action, RepairSource};
pub(crate) use arrivals::CrossStreamPacket;
pub(crate) use batches::BatchEntry;
pub(crate) use counted_losses::FlowLossCount;
pub use counters::{EgressCounters, RelayBacklog};
pub(crate) use feedback::NackRequest;
pub(crate) use flow::FlowSlot;
pub(crate) use losses::{begin_loss_report, loss_report_at, pop_losses};
pub(crate) use relayed_copies::{CopySource, RelayedCopy};

use batches::{Batch, Batches};
use burst_end::BurstEndTimers;
use decode_attempts::{AttemptId, DecodeAttempts};
use flow::{BatchRef, EgressFlow, EgressFlowState};
pub(crate) use flow::{RESERVED_BYTES, SLOT_BYTES};
use losses::UnreportedLosses;
use outage::InFlightPackets;
use relayed_copies::CopyGaps;
use sweep::Sweeps;

use super::flow_memory::FlowMemory;
pub(crate) use super::flow_memory::Holder;
use super::tenant_traffic::TenantTraffic;
use super::work::RelayWork;
use crate::growth;
use crate::limits::{CODED_BYTES_MAX, EGRESS_FLOWS_MAX, REPAIR_RETENTION};
use crate::outbox::Owner;
use crate::parts::packet_buffer::{Handle, PacketBuffer};
use byway_wire::Service;
use byway_wire::messages::Consent;

/// Joint decoding of several batches.
#[derive(Debug)]
struct JointDecoding {
    /// Decode attempts whose batch has fewer repair packets than lost packets. Joint decoding
    /// retries them after each arrival.
    undecodable: Vec<AttemptId>,
    /// Decoder; `None` only while it is in use.
    decoder: Option<Box<JointDecoder>>,
}

/// The egress half of a relay: stores repair packets and copies, and answers the NACKs of nearby
/// receivers.
#[derive(Debug)]
pub(crate) struct Egress {
    engine: Engine,
    /// True if the relay retries unanswered requests, and fetches copies from ingress relays.
    follows_up: bool,
    flows: Vec<Option<EgressFlow>>,
    memory: FlowMemory,
    /// Slots of `flows` without a flow. The slot that has been free for longest is used first.
    free: VecDeque<FlowSlot>,
    /// Flows whose receivers are in quarantine, even after they leave. New entries replace the
    /// oldest.
    quarantined: VecDeque<FlowKey>,
    /// Stored cross-stream batches of each ingress relay, by its peer number.
    batches: Vec<Batches>,
    attempts: DecodeAttempts,
    /// Bytes of repair packets, copies, answers of receivers and decoded packets, for
    /// [`REPAIR_RETENTION`].
    log: PacketBuffer,
    joint: JointDecoding,
    /// Flow and first packet of the block whose repair packets were sent last, and the time. Other
    /// packets that one NACK requests in this block need no further repair packets.
    last_block_sent: Option<(FlowSlot, SequenceNumber, Time)>,
    /// Buffers into which the decoder writes restored packets.
    decoded: Vec<AlignedBuffer>,
    /// Timers for the expiry of receivers' requests, and for idle checks of flows.
    sweeps: Sweeps,
    /// Gaps in the copies that ingress relays forward, with the time of the next copy NACK for
    /// each.
    copy_gaps: CopyGaps,
    /// Round-trip time to each ingress relay, by its peer number. It is zero for this relay itself,
    /// and for relays without a measurement.
    ingress_round_trips: Vec<Duration>,
    /// Packets that an open-ended NACK covers and that may be in flight.
    in_flight: InFlightPackets,
    burst_ends: BurstEndTimers,
    unreported: UnreportedLosses,
    pub(crate) counters: EgressCounters,
    pub(crate) work: RelayWork,
}

impl Egress {
    /// Creates the egress half. `packets` and `flows` limit the memory of stored packets and of
    /// flow state.
    pub(crate) fn new(engine: Engine, follows_up: bool, packets: Bytes, flows: Bytes) -> Self {
        Self {
            engine,
            follows_up,
            flows: Vec::new(),
            memory: FlowMemory::new(flows),
            free: VecDeque::new(),
            quarantined: VecDeque::new(),
            batches: Vec::new(),
            attempts: DecodeAttempts::new(),
            log: PacketBuffer::new(packets, REPAIR_RETENTION),
            decoded: (0..byway_code::REPAIR_PACKETS_MAX)
                .map(|_| AlignedBuffer::new(CODED_BYTES_MAX))
                .collect(),
            last_block_sent: None,
            joint: JointDecoding {
                undecodable: Vec::new(),
                decoder: Some(Box::new(JointDecoder::new(engine, CODED_BYTES_MAX))),
            },
            sweeps: Sweeps::default(),
            copy_gaps: CopyGaps::default(),
            ingress_round_trips: Vec::new(),
            in_flight: InFlightPackets::default(),
            burst_ends: BurstEndTimers::default(),
            unreported: UnreportedLosses::default(),
            counters: EgressCounters::default(),
            work: RelayWork::default(),
        }
    }

    /// Registers a flow whose receiver is an agent at this relay, and returns its slot. A flow that
    /// was quarantined before stays in quarantine.
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
        flow.helper.quarantined = self.quarantined.contains(&key);
        self.flows[slot.index()] = Some(flow);
        slot
    }

    /// True if the table has capacity for another received flow.
    pub(crate) fn has_capacity(&self) -> bool {
        self.flows.len() - self.free.len() < EGRESS_FLOWS_MAX
    }

    /// Removes a flow, releases its memory and frees its slot. A slot of an earlier generation is
    /// ignored.
    pub(crate) fn unregister(&mut self, slot: FlowSlot) {
        if self.flow(slot).is_some() {
            if let Some(active) = self.flows[slot.index()].take().and_then(|mut flow| flow.deactivate()) {
                self.memory.release(&active.memory);
            }
            self.free.push_back(slot.next_generation());
        }
    }

    /// Returns the number of slots for received flows, in use or free.
    pub(crate) const fn slots(&self) -> usize {
        self.flows.len()
    }

    /// Returns the key of a received flow; `None` if the flow was removed.
    pub(crate) fn key(&self, slot: FlowSlot) -> Option<FlowKey> {
        self.flow(slot).map(|flow| flow.key)
    }

    /// Returns the accounts of a session and its tenant, to which the session's flows are charged.
    pub(crate) fn holder(&mut self, session: u32, tenant: TenantId) -> Holder {
        self.memory.holder(session, tenant)
    }

    /// Charges bytes that the relay sends to a flow's receiver.
    pub(crate) fn count_sent(&mut self, slot: FlowSlot, bytes: usize) {
        if let Some(flow) = find_flow(&mut self.flows, slot) {
            self.memory.count_sent(flow.holder, bytes as u64);
        }
    }

    /// Returns the traffic that is charged to each tenant.
    pub(crate) fn traffic_by_tenant(&self) -> impl Iterator<Item = (TenantId, TenantTraffic)> {
        self.memory.traffic_by_tenant()
    }

    /// Returns the memory of flow state, batches and decode attempts, beyond the memory that
    /// registrations reserve.
    pub(crate) const fn flow_state_bytes(&self) -> Bytes {
        self.memory.used()
    }

    /// Returns the service of a received flow; `None` if the flow was removed.
    pub(crate) fn service(&self, slot: FlowSlot) -> Option<Service> {
        self.flow(slot).map(|flow| flow.service)
    }

    /// Changes the service of a received flow.
    pub(crate) fn set_service(&mut self, slot: FlowSlot, service: Service, now: Time) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.set_service(service, now);
        }
    }

    /// True if this relay fetches copies of a received flow that it lacks.
    pub(crate) fn is_pulled(&self, slot: FlowSlot, now: Time) -> bool {
        self.flow(slot).is_some_and(|flow| flow.is_pulled(now))
    }

    /// True if this relay fetches copies that no repair packets restore.
    pub(crate) const fn follows_up(&self) -> bool {
        self.follows_up
    }

    /// Sets the class in which the relay's uplink queues packets for this flow's receiver.
    pub(crate) fn set_class(&mut self, slot: FlowSlot, class: Class) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.class = class;
        }
    }

    /// Returns the owner of a flow's packets, for the uplink's scheduler.
    pub(crate) fn owner(&self, slot: FlowSlot) -> Option<Owner> {
        self.flow(slot).map(|flow| Owner::Flow(flow.key, flow.class))
    }

    /// Returns the bytes of a stored packet or repair packet; `None` if they have expired.
    pub(crate) fn packet(&self, handle: Handle, now: Time) -> Option<&[u8]> {
        self.log.get(handle, now)
    }

    /// Returns the memory of all stored copies, answers and repair packets.
    pub(crate) fn buffered_bytes(&self) -> Bytes {
        self.log.memory_bytes()
    }

    /// Counts the flows in use, the active decode attempts and the missing packets, for the relay's
    /// status.
    pub(crate) fn backlog(&self) -> RelayBacklog {
        let active = || self.flows.iter().flatten().filter_map(EgressFlow::active);
        RelayBacklog {
            flows: active().count(),
            decode_attempts: self.attempts.active_count(),
            missing: active().map(|active| active.missing.count() + active.nacked.waiting()).sum(),
        }
    }

    /// Sets the round-trip time to the flow's receiver.
    pub(crate) fn set_round_trip(&mut self, slot: FlowSlot, round_trip: Duration) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.round_trip = round_trip;
        }
    }

    fn flow(&self, slot: FlowSlot) -> Option<&EgressFlow> {
        self.flows.get(slot.index())?.as_ref().filter(|flow| flow.slot == slot)
    }

    fn flow_mut(&mut self, slot: FlowSlot) -> Option<&mut EgressFlow> {
        find_flow(&mut self.flows, slot)
    }

    fn batches_of(&mut self, ingress: u16) -> &mut Batches {
        let index = usize::from(ingress);
        if self.batches.len() <= index {
            self.batches.resize_with(index + 1, Batches::default);
        }
        &mut self.batches[index]
    }

    /// Returns a cross-stream batch; `None` if newer batches have overwritten it.
    fn batch(&self, batch: BatchRef) -> Option<Batch> {
        find_batch(&self.batches, batch)
    }

    fn batch_mut(&mut self, batch: BatchRef) -> Option<&mut Batch> {
        self.batches.get_mut(usize::from(batch.ingress))?.get_mut(batch.number)
    }

    /// Forgets an ingress relay's batches and round-trip time, because it restarted and numbers
    /// batches anew, or is another relay.
    pub(crate) fn reset_ingress(&mut self, ingress: u16) {
        let index = usize::from(ingress);
        if let Some(batches) = self.batches.get_mut(index) {
            self.memory.resize_shared(batches.bytes(), 0);
            *batches = Batches::default();
        }
        if let Some(round_trip) = self.ingress_round_trips.get_mut(index) {
            *round_trip = Duration::ZERO;
        }
    }
}

/// Returns a cross-stream batch; `None` if newer batches have overwritten it.
fn find_batch(batches: &[Batches], batch: BatchRef) -> Option<Batch> {
    batches.get(usize::from(batch.ingress))?.get(batch.number)
}

/// Returns the state of a flow; `None` if the flow is idle or removed. Updates the flow's
/// permission to use more memory.
fn find_active<'a>(
    flows: &'a mut [Option<EgressFlow>],
    memory: &FlowMemory,
    slot: FlowSlot,
) -> Option<&'a mut EgressFlowState> {
    let active = find_flow(flows, slot)?.active_mut()?;
    memory.refresh_capacity(&mut active.memory);
    Some(active)
}

/// Returns the flow of a slot; `None` if the flow was removed, even if another flow has the same
/// index now.
fn find_flow(flows: &mut [Option<EgressFlow>], slot: FlowSlot) -> Option<&mut EgressFlow> {
    flows.get_mut(slot.index())?.as_mut().filter(|flow| flow.slot == slot)
}

#[cfg(test)]
mod tests;
