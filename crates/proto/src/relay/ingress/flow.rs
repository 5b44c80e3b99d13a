//! A flow, as the ingress relay of its sender knows it.

use alloc::boxed::Box;

use arrayvec::ArrayVec;
use byway_code::Engine;
use byway_sched::Class;
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{Alias, FlowKey, TenantId};

use super::super::flow_memory::{FlowMemory, Holder, MemoryUse};
use super::EgressPort;
use super::carried::Carried;
use super::ceilings::{Ceiling, CeilingSlot};
use super::copies::Copies;
use super::group::GroupKey;
use crate::limits::{COPY_BURST, COPY_RETENTION, EGRESS_PORTS_MAX};
use crate::outbox::Owner;
use crate::parts::block_encoder::BlockEncoder;
use crate::parts::placement::{CodingClass, PlacedFlow};
use crate::parts::token_bucket::TokenBucket;
use crate::policy::CodingRates;
use byway_wire::Service;

/// Which flow, in one ingress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowSlot(pub(crate) u32);

/// How a flow is registered.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(crate) key: FlowKey,
    /// Whose memory it takes.
    pub(crate) holder: Holder,
    pub(crate) service: Service,
    pub(crate) rates: CodingRates,
    pub(crate) rate: Rate,
    /// From sending to delivery.
    pub(crate) latency_budget: Duration,
    /// What the flows of its grant may send together.
    pub(crate) ceiling: Ceiling,
    /// `None` without cross-stream coding.
    pub(crate) group: Option<GroupKey>,
    pub(crate) placed: PlacedFlow,
    /// The class of its tenant: of packets that no digest vouches for, whoever agreed to what.
    pub(crate) tenant: CodingClass,
    /// Its tenant, which a group counts for that it begins.
    pub(crate) owned_by: TenantId,
    /// Whether this relay sends copies on to receivers, instead of the sender.
    pub(crate) duplicates: bool,
    /// Whether the sender makes the in-stream repair packets, and sends these instead of copies.
    pub(crate) makes_repairs: bool,
    /// Whether the sender copies only some packets: gaps are then no losses.
    pub(crate) is_selective: bool,
    /// The class of its packets where they have to wait.
    pub(crate) class: Class,
}

impl Registration {
    /// Whose its packets are.
    pub(crate) const fn owner(&self) -> Owner {
        Owner::Flow(self.key, self.class)
    }
}

/// A way on from here: an egress relay, and what it calls the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Onward {
    pub(crate) port: EgressPort,
    pub(crate) alias: Alias,
    /// Whether the egress relay knows the alias, and has a receiver.
    pub(crate) known: bool,
}

/// Memory of a slot.
pub(crate) const SLOT_BYTES: u64 = size_of::<Option<IngressFlow>>() as u64;

/// What is set aside for each flow.
pub(crate) const SET_ASIDE_BYTES: u64 = SLOT_BYTES + size_of::<Active>() as u64;

/// The registered flow.
#[derive(Debug)]
pub(crate) struct IngressFlow {
    pub(crate) registration: Registration,
    /// The egress relays: one, and more for a group of receivers.
    pub(crate) onward: ArrayVec<Onward, EGRESS_PORTS_MAX>,
    pub(crate) budget: TokenBucket<Bytes>,
    pub(crate) ceiling: CeilingSlot,
    pub(crate) round_trip: Duration,
    /// Allocated while copies arrive.
    active: Option<Box<Active>>,
}

/// What is kept while the flow is in use.
#[derive(Debug)]
pub(crate) struct Active {
    pub(super) memory: MemoryUse,
    pub(crate) copies: Copies,
    pub(crate) block: Option<BlockEncoder>,
    /// Allocated when something is kept for another relay.
    pub(crate) carried: Option<Box<Carried>>,
    pub(crate) last_used: Time,
}

impl IngressFlow {
    pub(crate) fn new(registration: Registration, ceiling: CeilingSlot, now: Time) -> Self {
        let rate = registration.rate;
        let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
        Self {
            registration,
            onward: ArrayVec::new(),
            budget: TokenBucket::of_bytes(rate, burst, now),
            ceiling,
            round_trip: crate::limits::INITIAL_ROUND_TRIP,
            active: None,
        }
    }

    pub(crate) fn active_mut(&mut self) -> Option<&mut Active> {
        self.active.as_deref_mut()
    }

    /// What is kept of the flow, from now on at least.
    /// It has a block only if there is memory for one.
    pub(super) fn activate(&mut self, engine: Engine, memory: &mut FlowMemory, now: Time) -> &mut Active {
        let rates = self.registration.rates;
        let slot = self.registration.placed.slot;
        let shape = rates.in_stream.filter(|_| self.registration.service == Service::Coding);
        let holder = self.registration.holder;
        let active = self.active.get_or_insert_with(|| {
            let memory = MemoryUse::new(holder, size_of::<Active>() as u64, 0);
            Box::new(Active { memory, copies: Copies::new(), block: None, carried: None, last_used: now })
        });
        active.last_used = now;
        if active.block.is_none()
            && let Some(shape) = shape
        {
            memory.admit(&mut active.memory);
            active.block = active.memory.has_room().then(|| BlockEncoder::new(engine, shape, slot));
            let bytes = active.block.as_ref().map_or(0, BlockEncoder::bytes);
            active.memory.grew(0, bytes);
            memory.settle(&mut active.memory);
        }
        active
    }

    /// Forgets the packets of a flow that rests; what was kept of it.
    pub(crate) fn rest(&mut self) -> Option<Box<Active>> {
        self.active.take()
    }
}

impl Active {
    /// When something of the flow is due: a block, a request, or rest.
    pub(crate) fn wake_at(&self) -> Time {
        let block = self.block.as_ref().and_then(BlockEncoder::due);
        let rest = self.last_used + COPY_RETENTION;
        [block, self.copies.deadline()].into_iter().flatten().fold(rest, Time::min)
    }
}
