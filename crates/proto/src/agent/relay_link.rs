//! What an agent knows of one relay: the flows it has there, and whether copies get through.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_units::{Bytes, Rate, RelayId, Time};
use byway_wire::messages::ProbeReply;
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, SequenceNumber, Shard};

use super::Flow;
use crate::limits::{ALIASES_MAX, COPY_DEPTH, COPY_RATE_MIN};
use crate::parts::breaker::Breaker;
use crate::parts::pacer::Pacer;
use crate::parts::packet_log::Handle;
use crate::parts::queue_delay::QueueDelay;
use crate::session::SessionId;

/// An envelope that waits its turn behind the originals.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingCopy {
    pub(super) role: EnvelopeRole,
    pub(super) alias: Alias,
    pub(super) sequence: SequenceNumber,
    pub(super) packet: Handle,
}

/// A relay shard, from its agent's side.
#[derive(Debug)]
pub(super) struct RelayLink {
    pub(super) place: (RelayId, Shard),
    pub(super) session: SessionId,
    pub(super) is_dead: bool,
    /// The flow with alias n at place n.
    flows: Vec<Option<Flow>>,
    pub(super) waiting: VecDeque<WaitingCopy>,
    pacer: Pacer,
    breaker: Breaker,
    queue: QueueDelay,
    /// Envelopes sent since the last interval of the breaker, and what the relay had counted then.
    sent: u64,
    counted: Option<u32>,
}

impl RelayLink {
    pub(super) fn new(place: (RelayId, Shard), session: SessionId) -> Self {
        Self {
            place,
            session,
            is_dead: false,
            flows: Vec::new(),
            waiting: VecDeque::new(),
            pacer: Pacer::new(COPY_RATE_MIN, Bytes::new(COPY_DEPTH)),
            breaker: Breaker::new(),
            queue: QueueDelay::new(),
            sent: 0,
            counted: None,
        }
    }

    /// The flow that the relay calls so.
    pub(super) fn flow(&self, alias: Alias) -> Option<Flow> {
        self.flows.get(usize::from(alias.number())).copied().flatten()
    }

    /// Notes what the relay calls a flow; `false` if the number is absurd.
    pub(super) fn bind(&mut self, alias: Alias, flow: Flow) -> bool {
        let place = usize::from(alias.number());
        if place >= ALIASES_MAX {
            return false;
        }
        if self.flows.len() <= place {
            self.flows.resize(place + 1, None);
        }
        self.flows[place] = Some(flow);
        true
    }

    /// Forgets all aliases: the relay did.
    pub(super) fn unbind_all(&mut self) {
        self.flows.clear();
        self.counted = None;
    }

    /// How fast copies may follow one another, given what the flows send.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.pacer.set_rate(rate.max(COPY_RATE_MIN));
    }

    /// Whether copies may be sent at all: they arrive, and do not queue.
    pub(super) fn takes_copies(&self, now: Time) -> bool {
        !self.is_dead && self.breaker.allows(now) && !self.queue.is_queueing()
    }

    /// When the next envelope of these many bytes may leave.
    pub(super) fn when(&self, bytes: usize, now: Time) -> Time {
        self.pacer.when(Bytes::from(bytes), now)
    }

    /// Notes that an envelope of these many bytes leaves.
    pub(super) fn sent(&mut self, bytes: usize, now: Time) {
        self.pacer.sent(Bytes::from(bytes), now);
        self.sent += 1;
    }

    /// Takes in what a probe brought back: the relay's count of envelopes, and how long the probe was on the way.
    pub(super) fn probed(&mut self, reply: &ProbeReply, now: Time) {
        self.queue.sample(reply.sent.micros(), reply.received.micros(), now);
        if let Some(counted) = self.counted.replace(reply.envelopes) {
            let received = u64::from(reply.envelopes.wrapping_sub(counted));
            self.breaker.interval(self.sent, received, now);
        }
        self.sent = 0;
    }
}
