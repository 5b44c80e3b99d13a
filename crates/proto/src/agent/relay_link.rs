//! What an agent knows of one relay: the flows it has there, and whether copies get through.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Rate, RelayId, Time};
use byway_wire::messages::ProbeReply;
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Alias, Ecn, SequenceNumber, Shard};

use super::Flow;
use crate::limits::{ALIASES_MAX, COPY_DEPTH, COPY_RATE_FACTOR, COPY_RATE_MIN};
use crate::outbox::Urgency;
use crate::parts::breaker::{Breaker, Originals};
use crate::parts::line_scale::LineScale;
use crate::parts::pacer::Pacer;
use crate::parts::packet_log::Handle;
use crate::parts::queue_delay::QueueDelay;
use crate::session::{Before, SessionId};

/// An envelope that waits its turn behind the originals.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitingCopy {
    pub(super) role: EnvelopeRole,
    pub(super) alias: Alias,
    pub(super) sequence: SequenceNumber,
    pub(super) packet: Handle,
    /// The ECN field that it leaves with.
    pub(super) ecn: Ecn,
    pub(super) urgency: Urgency,
}

/// What the fastest of the latest packets may wait where a line does not bear all copies, and some are sent: less than one of
/// them takes.
const SPARE_DELAY_MAX: Duration = Duration::from_millis(5);

/// A relay shard, from its agent's side.
#[derive(Debug)]
pub(super) struct RelayLink {
    pub(super) place: (RelayId, Shard),
    pub(super) session: SessionId,
    pub(super) is_dead: bool,
    /// The flow with alias n at place n.
    flows: Vec<Option<Flow>>,
    /// The aliases of each flow.
    aliases: BTreeSet<(Flow, Alias)>,
    pub(super) waiting: VecDeque<WaitingCopy>,
    /// Rate of the flows that may be copied here, together.
    flow_bits_per_second: u64,
    pacer: Pacer,
    breaker: Breaker,
    queue: QueueDelay,
    /// What the line to it carries.
    pub(super) scale: LineScale,
    /// For copies by a line that does not bear all of them.
    spare: Pacer,
    /// How many envelopes had been sent, and how many had arrived, when the relay last said so.
    counted: Option<(u32, u32)>,
}

impl RelayLink {
    pub(super) fn new(place: (RelayId, Shard), session: SessionId) -> Self {
        Self {
            place,
            session,
            is_dead: false,
            flows: Vec::new(),
            aliases: BTreeSet::new(),
            waiting: VecDeque::new(),
            flow_bits_per_second: 0,
            pacer: Pacer::new(COPY_RATE_MIN, Bytes::new(COPY_DEPTH)),
            breaker: Breaker::new(),
            queue: QueueDelay::new(),
            scale: LineScale::new(),
            spare: Pacer::new(Rate::ZERO, Bytes::ZERO),
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
        if let Some(before) = self.flows[place].replace(flow) {
            self.aliases.remove(&(before, alias));
        }
        self.aliases.insert((flow, alias));
        true
    }

    /// Forgets a flow; what was to be given of one received is not given any more.
    pub(super) fn unbind(&mut self, flow: Flow) {
        while let Some((_, alias)) = self.alias_of(flow) {
            self.aliases.remove(&(flow, alias));
            self.flows[usize::from(alias.number())] = None;
            if matches!(flow, Flow::Received(_)) {
                self.waiting.retain(|waiting| waiting.alias != alias);
            }
        }
    }

    /// The first alias of a flow.
    fn alias_of(&self, flow: Flow) -> Option<(Flow, Alias)> {
        let first = Alias::new(1)?;
        self.aliases.range((flow, first)..).next().copied().filter(|(known, _)| *known == flow)
    }

    /// Forgets all flows, and all that waits.
    pub(super) fn clear(&mut self) {
        self.unbind_all();
        self.waiting.clear();
    }

    /// Forgets all aliases: the relay did.
    pub(super) fn unbind_all(&mut self) {
        self.flows.clear();
        self.aliases.clear();
        self.counted = None;
    }

    /// Lets copies follow one another as fast as flows need that send so many bits a second together.
    pub(super) fn set_flow_rate(&mut self, bits_per_second: u64) {
        self.flow_bits_per_second = bits_per_second;
        let rate = Rate::from_bits_per_second(bits_per_second.saturating_mul(COPY_RATE_FACTOR));
        self.pacer.set_rate(rate.max(COPY_RATE_MIN));
    }

    /// The same without a flow that has ended.
    pub(super) fn remove_flow_rate(&mut self, rate: Rate) {
        self.set_flow_rate(self.flow_bits_per_second.saturating_sub(rate.bits_per_second()));
    }

    /// Whether copies may be sent at all: they arrive, and do not queue.
    pub(super) fn takes_copies(&self, now: Time) -> bool {
        !self.is_dead && self.breaker.allows(now) && !self.queue.is_queueing()
    }

    /// Whether what is sent to the relay waits in queues.
    pub(super) const fn is_queueing(&self) -> bool {
        self.queue.is_queueing()
    }

    /// Whether what was sent to the relay lately did not wait, as far as is known.
    pub(super) fn has_no_queue(&self) -> bool {
        self.queue.delay().is_some_and(|delay| delay <= SPARE_DELAY_MAX)
    }

    /// Whether an envelope that takes so much of the line may leave although the line does not bear all of them; it counts as sent then.
    /// They get what the originals leave of four fifths of the line: copies by a fuller one delay originals more than they help.
    /// Where packets wait already, what is lost is lost for that.
    pub(super) fn takes_spare(&mut self, bytes: Bytes, originals: Rate, now: Time) -> bool {
        let carries = self.scale.carries().unwrap_or(Rate::ZERO).bits_per_second();
        let spare = (carries / 5 * 4).saturating_sub(originals.bits_per_second());
        self.spare.set_rate(Rate::from_bits_per_second(spare));
        let is_free = self.has_no_queue() && self.spare.when(bytes, now) <= now;
        if is_free {
            self.spare.sent(bytes, now);
        }
        is_free
    }

    /// Notes what became of originals, of which the first one left at `from`.
    pub(super) fn note_originals(&mut self, from: Time, originals: Originals, now: Time) {
        self.breaker.note_originals(from, originals, now);
    }

    /// Until when too many envelopes got lost on the way for others to be worth sending.
    pub(super) fn shut_until(&self, now: Time) -> Option<Time> {
        self.breaker.deadline().filter(|until| *until > now)
    }

    /// When the next envelope of these many bytes may leave.
    pub(super) fn when(&self, bytes: usize, now: Time) -> Time {
        self.pacer.when(Bytes::from(bytes), now)
    }

    /// Notes that an envelope of these many bytes leaves.
    pub(super) fn sent(&mut self, bytes: usize, now: Time) {
        self.pacer.sent(Bytes::from(bytes), now);
    }

    /// How many microseconds the line needs for so much, at most; none as long as it was not weighed.
    fn time_for(&self, bytes: Bytes) -> u32 {
        let time = self.scale.carries().and_then(|carries| carries.time_for(bytes));
        u32::try_from(time.map_or(0, Duration::as_micros)).unwrap_or(0)
    }

    /// Takes in what a probe brought back: how long it was on the way, and the relay's count of the envelopes that
    /// went before it; given what the line is to carry.
    pub(super) fn probed(&mut self, reply: &ProbeReply, before: Before, load: Rate, now: Time) {
        let was_queueing = self.queue.is_queueing();
        // What left with the probe is no queue.
        let began = reply.sent.micros().wrapping_add(self.time_for(before.at_once));
        self.queue.sample(began, reply.received.micros(), now);
        if self.queue.is_queueing() && !was_queueing {
            self.scale.doubt(load, now);
        }
        let Some((sent_before, received_before)) = self.counted.replace((before.envelopes, reply.envelopes))
        else {
            return;
        };
        // A new epoch counts from 0 again.
        let counts =
            before.envelopes.checked_sub(sent_before).zip(reply.envelopes.checked_sub(received_before));
        if let Some((sent, received)) = counts {
            self.breaker.interval(u64::from(sent), u64::from(received), now);
        }
    }
}
