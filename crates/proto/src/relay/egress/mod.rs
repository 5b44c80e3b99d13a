//! The egress half of a relay: keeps repair packets and copies for receivers nearby, and answers their requests,
//! cheapest repair first.
//!
//! It speaks in flows, sequence numbers and coded bytes; sessions, aliases and the wire are the relay's business.
//! Every entry point appends what is to be done to a list of [`Action`]s.
//!
//! The order of preference (J-QoS 3.2, CASPR 3.3.1):
//! 1. the packet itself, if it is cached or was decoded for somebody;
//! 2. repair packets of the flow's own block, if they suffice for what this receiver reported missing in it;
//! 3. a cooperative round for a batch that covers the packet.

mod action;
mod arrivals;
mod batches;
mod blocks;
mod counters;
mod flow;
mod missing;
mod repair;
mod requests;
mod rounds;
mod sweep;

use alloc::vec::Vec;

use byway_code::{AlignedBuffer, Engine};
use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::FlowKey;

pub(crate) use action::{Action, Given};
pub(crate) use arrivals::{CrossStream, InStream};
pub(crate) use batches::Entry;
pub use counters::EgressCounters;
pub(crate) use flow::FlowSlot;
pub(crate) use requests::Request;

use batches::Batches;
use flow::EgressFlow;
use rounds::Rounds;

use crate::limits::{CODED_BYTES_MAX, EGRESS_LOG_BYTES, REPAIR_RETENTION};
use crate::parts::packet_log::{Handle, PacketLog};
use byway_wire::Service;
use byway_wire::messages::Consent;

/// The egress half of a relay.
#[derive(Debug)]
pub(crate) struct Egress {
    engine: Engine,
    flows: Vec<Option<EgressFlow>>,
    free: Vec<FlowSlot>,
    /// The batches of each ingress relay.
    batches: Vec<Batches>,
    rounds: Rounds,
    /// Repair payloads, cached packets, answers and decoded packets.
    log: PacketLog,
    /// Where decoding writes.
    decoded: Vec<AlignedBuffer>,
    next_sweep: Option<Time>,
    pub(crate) counters: EgressCounters,
}

impl Egress {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            engine,
            flows: Vec::new(),
            free: Vec::new(),
            batches: Vec::new(),
            rounds: Rounds::default(),
            log: PacketLog::new(Bytes::from(EGRESS_LOG_BYTES), REPAIR_RETENTION),
            decoded: (0..byway_code::REPAIR_PACKETS_MAX).map(|_| AlignedBuffer::new(CODED_BYTES_MAX)).collect(),
            next_sweep: None,
            counters: EgressCounters::default(),
        }
    }

    /// Registers a flow of which a receiver is nearby.
    pub(crate) fn register(
        &mut self,
        key: FlowKey,
        service: Service,
        rate: Rate,
        consent: Consent,
        now: Time,
    ) -> FlowSlot {
        let flow = Some(EgressFlow::new(key, service, rate, consent, now));
        if let Some(slot) = self.free.pop() {
            self.flows[slot.0 as usize] = flow;
            return slot;
        }
        self.flows.push(flow);
        FlowSlot(u32::try_from(self.flows.len() - 1).expect("the number of flows is limited"))
    }

    /// Forgets a flow.
    pub(crate) fn unregister(&mut self, slot: FlowSlot) {
        if self.flows[slot.0 as usize].take().is_some() {
            self.free.push(slot);
        }
    }

    /// A packet to be sent.
    pub(crate) fn packet(&self, handle: Handle, now: Time) -> Option<&[u8]> {
        self.log.get(handle, now)
    }

    /// The memory of the packets that are kept.
    pub(crate) fn packets_held(&self) -> Bytes {
        self.log.held()
    }

    /// Notes how far away the flow's receiver is.
    pub(crate) fn set_round_trip(&mut self, slot: FlowSlot, round_trip: Duration) {
        if let Some(flow) = self.flow_mut(slot) {
            flow.round_trip = round_trip;
        }
    }

    fn flow(&self, slot: FlowSlot) -> Option<&EgressFlow> {
        self.flows.get(slot.0 as usize)?.as_ref()
    }

    fn flow_mut(&mut self, slot: FlowSlot) -> Option<&mut EgressFlow> {
        self.flows.get_mut(slot.0 as usize)?.as_mut()
    }

    fn batches_of(&mut self, ingress: u16) -> &mut Batches {
        let index = usize::from(ingress);
        if self.batches.len() <= index {
            self.batches.resize_with(index + 1, Batches::default);
        }
        &mut self.batches[index]
    }

    /// How long after a request its answer is missed.
    fn ask_again_after(round_trip: Duration) -> Duration {
        round_trip + round_trip / 2
    }
}
