//! Link from an agent to one relay: the flows registered there, pending envelopes, and estimates of
//! losses, queues and capacity.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Rate, RelayId, Time};
use byway_wire::messages::ProbeReply;
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, Ecn, SequenceNumber, Shard};

use super::Flow;
use crate::limits::{ALIASES_MAX, COPY_DEPTH, COPY_RATE_FACTOR, COPY_RATE_MIN};
use crate::outbox::Priority;
use crate::parts::circuit_breaker::{CircuitBreaker, SourcePacketCounts};
use crate::parts::pacer::Pacer;
use crate::parts::packet_buffer::Handle;
use crate::parts::queue_delay::QueueDelay;
use crate::parts::uplink_probe::UplinkCapacityProbe;
use crate::session::{ProbeContext, SessionId};

/// Envelope for a relay that waits for its turn behind source packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingEnvelope {
    pub(super) role: EnvelopeRole,
    pub(super) alias: Alias,
    pub(super) sequence: SequenceNumber,
    pub(super) packet: Handle,
    /// ECN field of the IP packet in which it is sent.
    pub(super) ecn: Ecn,
    pub(super) priority: Priority,
}

/// Longest queueing delay at which an agent sends spare copies on an uplink that cannot sustain all
/// copies. It is less than the transmission time of one copy.
const SPARE_DELAY_MAX: Duration = Duration::from_millis(5);

/// Part of a silence, as a divisor, that queueing delay has to be to explain it. A queue that grows
/// delays each packet more than the one before, but does not stop them.
const EXPLAINED_SILENCE: u64 = 8;

/// State that an agent has of one relay shard.
#[derive(Debug)]
pub(super) struct RelayLink {
    pub(super) id: (RelayId, Shard),
    pub(super) session: SessionId,
    pub(super) is_dead: bool,
    /// Flows that the relay knows, indexed by its alias for each.
    flows: Vec<Option<Flow>>,
    /// The relay's aliases, ordered by flow.
    aliases: BTreeSet<(Flow, Alias)>,
    pub(super) pending: VecDeque<PendingEnvelope>,
    /// Total rate of the flows that have this relay as an ingress relay, in bits per second.
    flow_bits_per_second: u64,
    pacer: Pacer,
    breaker: CircuitBreaker,
    queue: QueueDelay,
    /// Measurement of the uplink's capacity on the path to this relay.
    pub(super) capacity_probe: UplinkCapacityProbe,
    /// Pacer of copies on an uplink that cannot sustain all of them.
    spare_pacer: Pacer,
    /// Number of envelopes sent and of envelopes received, as of the latest probe reply.
    last_counts: Option<(u32, u32)>,
}

impl RelayLink {
    pub(super) fn new(id: (RelayId, Shard), session: SessionId) -> Self {
        Self {
            id,
            session,
            is_dead: false,
            flows: Vec::new(),
            aliases: BTreeSet::new(),
            pending: VecDeque::new(),
            flow_bits_per_second: 0,
            pacer: Pacer::new(COPY_RATE_MIN, Bytes::new(COPY_DEPTH)),
            breaker: CircuitBreaker::new(),
            queue: QueueDelay::new(),
            capacity_probe: UplinkCapacityProbe::new(),
            spare_pacer: Pacer::new(Rate::ZERO, Bytes::ZERO),
            last_counts: None,
        }
    }

    /// Returns the flow that has this alias at the relay.
    pub(super) fn flow(&self, alias: Alias) -> Option<Flow> {
        self.flows.get(usize::from(alias.number())).copied().flatten()
    }

    /// Records a relay's alias for a flow; returns `false` if the alias exceeds the limit.
    pub(super) fn bind(&mut self, alias: Alias, flow: Flow) -> bool {
        let index = usize::from(alias.number());
        if index >= ALIASES_MAX {
            return false;
        }
        if self.flows.len() <= index {
            self.flows.resize(index + 1, None);
        }
        if let Some(before) = self.flows[index].replace(flow) {
            self.aliases.remove(&(before, alias));
        }
        self.aliases.insert((flow, alias));
        true
    }

    /// Forgets the aliases of a flow; drops the pending envelopes of a received flow.
    pub(super) fn unbind(&mut self, flow: Flow) {
        while let Some((_, alias)) = self.alias_of(flow) {
            self.aliases.remove(&(flow, alias));
            self.flows[usize::from(alias.number())] = None;
            if matches!(flow, Flow::Received(_)) {
                self.pending.retain(|envelope| envelope.alias != alias);
            }
        }
    }

    /// Returns the flow with its lowest alias at the relay.
    fn alias_of(&self, flow: Flow) -> Option<(Flow, Alias)> {
        let first = Alias::new(1)?;
        self.aliases.range((flow, first)..).next().copied().filter(|(known, _)| *known == flow)
    }

    /// Forgets the aliases of all flows, and drops all pending envelopes.
    pub(super) fn clear(&mut self) {
        self.unbind_all();
        self.pending.clear();
    }

    /// Forgets the aliases of all flows, because the relay has forgotten them.
    pub(super) fn unbind_all(&mut self) {
        self.flows.clear();
        self.aliases.clear();
        self.last_counts = None;
    }

    /// Sets the pacing rate of copies to the relay, from the total rate of the flows that have it
    /// as ingress relay.
    pub(super) fn set_flow_rate(&mut self, bits_per_second: u64) {
        self.flow_bits_per_second = bits_per_second;
        let rate = Rate::from_bits_per_second(bits_per_second.saturating_mul(COPY_RATE_FACTOR));
        self.pacer.set_rate(rate.max(COPY_RATE_MIN));
    }

    /// Reduces the pacing rate of copies after a flow with this rate has ended.
    pub(super) fn remove_flow_rate(&mut self, rate: Rate) {
        self.set_flow_rate(self.flow_bits_per_second.saturating_sub(rate.bits_per_second()));
    }

    /// Returns true if copies to the relay are useful: it is alive, envelopes arrive, and none
    /// queue.
    pub(super) fn accepts_copies(&self, now: Time) -> bool {
        self.is_free() && self.breaker.allows(now)
    }

    /// Returns true if packets to the relay queue on the path.
    pub(super) const fn is_queueing(&self) -> bool {
        self.queue.is_queueing()
    }

    /// Returns true if the relay is alive, and no packets to it queue on the path.
    pub(super) const fn is_free(&self) -> bool {
        !self.is_dead && !self.queue.is_queueing()
    }

    /// Returns true if the latest probe to the relay met hardly any queue. `false` if that is
    /// unknown.
    fn has_no_queue(&self) -> bool {
        self.queue.delay().is_some_and(|delay| delay <= SPARE_DELAY_MAX)
    }

    /// Returns true if packets that wait for the uplink may explain a silence of this time: their
    /// delay is [`EXPLAINED_SILENCE`] of it at least, or unknown.
    ///
    /// A fixed limit would be wrong on narrow uplinks, where a probe waits for a source packet or
    /// two without any queue.
    pub(super) fn explains_silence(&self, elapsed: Duration) -> bool {
        self.queue.delay().is_none_or(|delay| delay >= elapsed / EXPLAINED_SILENCE)
    }

    /// Returns true if an envelope may be sent although the uplink cannot sustain all of them; it
    /// counts as sent then. Such spare copies share 4/5 of the capacity, minus the rate of source
    /// packets. On a fuller uplink, copies delay source packets more than they help. If packets
    /// queue already, more copies would only add losses.
    pub(super) fn admit_spare_copy(&mut self, bytes: Bytes, source_packets: Rate, now: Time) -> bool {
        let capacity = self.capacity_probe.capacity().unwrap_or(Rate::ZERO).bits_per_second();
        let spare = (capacity / 5 * 4).saturating_sub(source_packets.bits_per_second());
        self.spare_pacer.set_rate(Rate::from_bits_per_second(spare));
        let is_free = self.has_no_queue() && self.spare_pacer.earliest_send(bytes, now) <= now;
        if is_free {
            self.spare_pacer.on_sent(bytes, now);
        }
        is_free
    }

    /// Records the source packets sent and received in an interval, for the circuit breaker; the
    /// first one was sent at `from`.
    pub(super) fn note_source_packets(&mut self, from: Time, source_packets: SourcePacketCounts, now: Time) {
        self.breaker.note_source_packets(from, source_packets, now);
    }

    /// Returns the time until which the agent sends the relay no envelopes, because too many were
    /// lost.
    pub(super) fn shut_until(&self, now: Time) -> Option<Time> {
        self.breaker.deadline().filter(|until| *until > now)
    }

    /// Returns the time at which the pacer allows the next envelope, with this length in bytes.
    pub(super) fn earliest_send(&self, bytes: usize, now: Time) -> Time {
        self.pacer.earliest_send(Bytes::from(bytes), now)
    }

    /// Records for the pacer that an envelope of this length in bytes is sent.
    pub(super) fn on_sent(&mut self, bytes: usize, now: Time) {
        self.pacer.on_sent(Bytes::from(bytes), now);
    }

    /// Returns the longest transmission time of these bytes on the uplink, in microseconds; 0 while
    /// its capacity is unknown.
    fn time_for(&self, bytes: Bytes) -> u32 {
        let time = self.capacity_probe.capacity().and_then(|capacity| capacity.time_for(bytes));
        u32::try_from(time.map_or(0, Duration::as_micros)).unwrap_or(0)
    }

    /// Forgets the delay and the capacity of the uplink, because packets to the relay leave by
    /// another one.
    pub(super) fn on_uplink_changed(&mut self) {
        (self.queue, self.capacity_probe) = (QueueDelay::new(), UplinkCapacityProbe::new());
    }

    /// Handles the relay's probe reply: updates the queueing delay with the probe's one-way delay,
    /// and the circuit breaker with the relay's count of envelopes. `load` is the expected load of
    /// the uplink.
    pub(super) fn on_probe_reply(&mut self, reply: &ProbeReply, before: ProbeContext, load: Rate, now: Time) {
        let was_queueing = self.queue.is_queueing();
        // Bytes that the agent sent right before the probe are no queue.
        let began = reply.sent.micros().wrapping_add(self.time_for(before.preceding_bytes));
        self.queue.sample(began, reply.received.micros(), now);
        if self.queue.is_queueing() && !was_queueing {
            self.capacity_probe.doubt(load, now);
        }
        let Some((sent_before, received_before)) =
            self.last_counts.replace((before.envelopes, reply.envelopes))
        else {
            return;
        };
        // In a new epoch, both counts begin at 0 again.
        let counts =
            before.envelopes.checked_sub(sent_before).zip(reply.envelopes.checked_sub(received_before));
        if let Some((sent, received)) = counts {
            self.breaker.on_interval(u64::from(sent), u64::from(received), now);
        }
    }
}
