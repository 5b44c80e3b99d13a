//! State of a flow at the ingress relay of its sender.

use alloc::boxed::Box;

use arrayvec::ArrayVec;
use byway_code::Engine;
use byway_sched::Class;
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::messages::NetworkTag;
use byway_wire::{Alias, FlowKey, Receiver, TenantId};

use super::super::flow_memory::{FlowMemory, Holder, MemoryUse};
use super::copies::{CopyTracker, RelayedCopies};
use super::grant_policers::{GrantPolicer, PolicerSlot};
use super::group::{GroupKey, RelayPeerId};
use crate::limits::{COPY_BURST, COPY_RETENTION, EGRESS_RELAYS_MAX, PULLED_FIRST_COPIES};
use crate::outbox::Owner;
use crate::parts::active_flows::CountedInterval;
use crate::parts::batcher::{BatchedFlow, CodingClass};
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::cohorts::FlowRisks;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::CodingRates;
use byway_wire::Service;

/// Index of a flow in the ingress half of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowSlot(pub(crate) u32);

/// Registration of a flow by its sender, as its grant permits it.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) key: FlowKey,
    /// Session and tenant that the flow's memory is charged to.
    pub(crate) holder: Holder,
    pub(crate) service: Service,
    pub(crate) rates: CodingRates,
    pub(crate) rate: Rate,
    /// Latency budget, from sending to delivery.
    pub(crate) latency_budget: Duration,
    /// Policer of the grant: limits the sum of its flows.
    pub(crate) policer: GrantPolicer,
    /// Coding group; `None` without cross-stream coding.
    pub(crate) group: Option<GroupKey>,
    pub(crate) batching: BatchedFlow,
    /// Tenant of the flow's grant. It counts as the owner of a coding group that the flow begins.
    pub(crate) tenant: TenantId,
    /// True if this relay sends copies to receivers on behalf of the sender.
    pub(crate) duplicates: bool,
    /// True if the sender makes the in-stream repair packets, and sends these instead of copies.
    pub(crate) sender_fec: bool,
    /// True if the sender copies only some packets. A gap in the copies is then no loss.
    pub(crate) is_selective: bool,
    /// Class in which the relay's uplink queues packets of the flow.
    pub(crate) class: Class,
}

impl Registration {
    /// Returns the owner of its packets, for the uplink's scheduler.
    pub(crate) const fn owner(&self) -> Owner {
        Owner::Flow(self.key, self.class)
    }

    /// Returns the coding class of the flow's tenant. Packets without a digest use it, because
    /// agreements to share batches with other tenants do not apply to them.
    pub(super) const fn tenant_class(&self) -> CodingClass {
        CodingClass::of_tenant(self.tenant)
    }

    /// Returns the flow's coding group for outages, which concern only flows of the same tenant.
    pub(super) fn outage_group(&self) -> Option<GroupKey> {
        self.group.map(|group| group.of_tenant(self.tenant))
    }
}

/// Returns the number of the agent that receives a flow, for the batcher; 0 for a group of them.
pub(crate) const fn receiver_number(key: FlowKey) -> u32 {
    match key.receiver() {
        Receiver::Agent(agent) => agent.number().wrapping_add(1),
        Receiver::Group(_) => 0,
    }
}

/// Returns the number of the agent that sends a flow, for the batcher.
pub(crate) const fn sender_number(key: FlowKey) -> u32 {
    key.sender().number().wrapping_add(1)
}

/// Next hop of a flow: an egress relay, and its alias of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    pub(crate) peer: RelayPeerId,
    pub(crate) alias: Alias,
    /// True if the egress relay knows the alias and has a receiver of the flow.
    pub(crate) has_receiver: bool,
}

/// Memory of a slot in the table of sent flows, in bytes.
pub(crate) const SLOT_BYTES: u64 = size_of::<Option<IngressFlow>>() as u64;

/// Memory that a registration reserves for a sent flow, in bytes.
pub(crate) const RESERVED_BYTES: u64 = SLOT_BYTES + size_of::<IngressFlowState>() as u64;

/// A flow that its sender has registered at this relay.
#[derive(Debug)]
pub(crate) struct IngressFlow {
    pub(crate) registration: Registration,
    /// Egress relays: one, or several for a group of receivers.
    pub(crate) next_hops: ArrayVec<NextHop, EGRESS_RELAYS_MAX>,
    pub(crate) budget: TokenBucket<Bytes>,
    pub(crate) policer: PolicerSlot,
    pub(crate) round_trip: Duration,
    /// Network of the receiver, as the egress relay reports it.
    pub(crate) receiver_network: NetworkTag,
    /// State of the flow while copies arrive; `None` while it is idle.
    active: Option<Box<IngressFlowState>>,
}

/// State of a sent flow while it is in use.
#[derive(Debug)]
pub(crate) struct IngressFlowState {
    pub(super) memory: MemoryUse,
    pub(crate) copies: CopyTracker,
    pub(crate) block: Option<BlockEncoder>,
    /// Copies stored for requests of egress relays; allocated at first use.
    pub(crate) relayed_copies: Option<Box<RelayedCopies>>,
    /// Number of first copies of a pulled flow that the relay still forwards without a request.
    first_copies: u8,
    /// Number of copies of which the egress relay may still report the loss.
    pub(super) reportable: u32,
    pub(super) counted: CountedInterval,
    pub(crate) last_used: Time,
}

impl IngressFlow {
    pub(crate) fn new(registration: Registration, policer: PolicerSlot, now: Time) -> Self {
        let rate = registration.rate;
        let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
        Self {
            registration,
            next_hops: ArrayVec::new(),
            budget: TokenBucket::of_bytes(rate, burst, now),
            policer,
            round_trip: crate::limits::INITIAL_ROUND_TRIP,
            receiver_network: NetworkTag::UNKNOWN,
            active: None,
        }
    }

    /// Returns the risks of losses that the flow shares with others.
    pub(super) fn risks(&self) -> FlowRisks {
        FlowRisks {
            network: self.receiver_network.number(),
            receiver: receiver_number(self.registration.key),
            sender: sender_number(self.registration.key),
            tenant: self.registration.tenant.number().wrapping_add(1),
        }
    }

    /// True if any egress relay of the flow has a receiver.
    pub(super) fn has_receiver(&self) -> bool {
        self.next_hops.iter().any(|next_hop| next_hop.has_receiver)
    }

    pub(crate) fn active_mut(&mut self) -> Option<&mut IngressFlowState> {
        self.active.as_deref_mut()
    }

    /// Returns the flow's state, and allocates it if the flow is idle. The state has an in-stream
    /// block only if there is memory for one.
    pub(super) fn activate(
        &mut self,
        engine: Engine,
        memory: &mut FlowMemory,
        now: Time,
    ) -> &mut IngressFlowState {
        let rates = self.registration.rates;
        let slot = self.registration.batching.slot;
        let shape = rates.in_stream.filter(|_| self.registration.service == Service::Coding);
        let holder = self.registration.holder;
        let active = self.active.get_or_insert_with(|| {
            let memory = MemoryUse::new(holder, size_of::<IngressFlowState>() as u64, 0);
            Box::new(IngressFlowState {
                memory,
                copies: CopyTracker::new(),
                block: None,
                relayed_copies: None,
                first_copies: PULLED_FIRST_COPIES,
                reportable: 0,
                counted: CountedInterval::NONE,
                last_used: now,
            })
        });
        active.last_used = now;
        if active.block.is_none()
            && let Some(shape) = shape
        {
            memory.refresh_capacity(&mut active.memory);
            active.block = active.memory.has_capacity().then(|| BlockEncoder::new(engine, shape, slot));
            let bytes = active.block.as_ref().map_or(0, BlockEncoder::bytes);
            active.memory.on_resize(0, bytes);
            memory.update_charge(&mut active.memory);
        }
        active
    }

    /// Makes the flow idle: removes and returns its state, for the caller to refund the memory.
    pub(crate) fn deactivate(&mut self) -> Option<Box<IngressFlowState>> {
        self.active.take()
    }
}

impl IngressFlowState {
    /// Counts a copy, and returns true if it is one of the first since the flow was idle.
    pub(super) const fn count_first_copy(&mut self) -> bool {
        let is_first = self.first_copies > 0;
        self.first_copies = self.first_copies.saturating_sub(1);
        is_first
    }

    /// Returns the time of the flow's next timer: a block's deadline, a copy NACK, or the idle
    /// check.
    pub(crate) fn wake_at(&self) -> Time {
        let block = self.block.as_ref().and_then(BlockEncoder::due);
        let idle_at = self.last_used + COPY_RETENTION;
        [block, self.copies.deadline()].into_iter().flatten().fold(idle_at, Time::min)
    }
}
