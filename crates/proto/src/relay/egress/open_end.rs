//! Open ends: everything from a packet on is missing, until the direct path delivers again.
//!
//! What overtook the direct path by way of relays covers more packets than were due when the receiver noticed the silence:
//! the others may be in flight. Each is held to be lost as long after its repair packets came as the first one was: had it been
//! delivered, the receiver would have said so by then. A silence that lasts is an outage, and nothing waits any more.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;
use byway_wire::messages::Mask;

use super::Egress;
use super::action::Action;
use super::flow::FlowSlot;
use super::missing::Stage;
use super::requests::Request;
use super::shortfall::Shortfall;
use crate::limits::{
    BATCH_PACKETS_MAX, IN_FLIGHT_FOR, IN_FLIGHT_MAX, OPEN_END_BACKLOG_MAX, OUTAGE_AFTER, OUTAGE_BELIEVED_FOR,
    OUTAGE_INTERVAL,
};

/// Everything from a packet on is missing, until an ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenEnd {
    pub(crate) from: SequenceNumber,
    /// The first packet that the direct path delivered again, once it did.
    pub(crate) to: Option<SequenceNumber>,
    /// How long a repair is of use, from when it is first possible.
    pub(crate) patience: Duration,
    /// When the first NACK of this silence came.
    pub(crate) since: Time,
    /// How long before that the repair packets of the first packet came.
    lead: Duration,
    /// When the ingress relay was told last.
    pub(crate) told: Option<Time>,
    /// That the receiver really misses packets: one was repairable when it asked, or it said so again.
    pub(crate) certain: bool,
    /// How often others' packets did not suffice.
    pub(super) shortfall: Shortfall,
}

impl OpenEnd {
    /// Whether the ingress relay has to be told (again) that the path is dark, so that it carries what others' packets do not restore.
    pub(super) fn is_to_be_told(&mut self, now: Time) -> bool {
        let lately = self.told.is_some_and(|told| now.saturating_since(told) < OUTAGE_INTERVAL);
        let lasts = now.saturating_since(self.since) >= OUTAGE_AFTER;
        let tells = self.certain && self.to.is_none() && lasts && self.shortfall.is_large() && !lately;
        if tells {
            self.told = Some(now);
        }
        tells
    }

    /// Whether the ingress relay takes the path to be dark, as it was told, and carries what it gets.
    pub(super) fn is_believed(&self, now: Time) -> bool {
        self.told.is_some_and(|told| now < told + OUTAGE_BELIEVED_FOR)
    }

    /// Whether the packet is missing, as far as the receiver has said.
    pub(crate) fn covers(&self, sequence: SequenceNumber) -> bool {
        sequence >= self.from && self.to.is_none_or(|to| sequence < to)
    }

    /// When a packet that the open end covers, and whose repair packets came at `came`, is no longer held to be in flight.
    pub(super) fn lost_at(&self, came: Time, now: Time) -> Time {
        // Where the path delivers again, all before that is lost; and a silence that lasts is no burst of losses.
        if self.to.is_some() { now } else { (came + self.lead).min(self.since + IN_FLIGHT_FOR) }
    }
}

/// Packets that open ends cover and that may be in flight, and when each is held to be lost. Whoever says again and again that its
/// path is silent adds nothing.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    lost_at: BTreeMap<(FlowSlot, SequenceNumber), Time>,
    by_time: BTreeSet<(Time, FlowSlot, SequenceNumber)>,
}

impl InFlight {
    /// Watches a packet, if it is not watched already; `false` if there are too many.
    pub(super) fn add(&mut self, lost_at: Time, slot: FlowSlot, sequence: SequenceNumber) -> bool {
        if self.lost_at.contains_key(&(slot, sequence)) {
            return true;
        }
        let has_room = self.lost_at.len() < IN_FLIGHT_MAX;
        if has_room {
            self.lost_at.insert((slot, sequence), lost_at);
            self.by_time.insert((lost_at, slot, sequence));
        }
        has_room
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lost_at.len()
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.by_time.first().map(|(at, ..)| *at)
    }

    fn pop(&mut self, now: Time) -> Option<(FlowSlot, SequenceNumber)> {
        self.next().filter(|at| *at <= now)?;
        let (_, slot, sequence) = self.by_time.pop_first()?;
        self.lost_at.remove(&(slot, sequence));
        Some((slot, sequence))
    }
}

impl Egress {
    /// Everything from a packet on is missing: what is lost for all that is known is repaired, the rest when its time comes.
    pub(super) fn open(
        &mut self,
        request: &Request<'_>,
        from: SequenceNumber,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        self.counters.open_ended += 1;
        let Some(flow) = self.flow_mut(request.flow) else {
            return;
        };
        // Of a flow whose sender waits for losses nothing may be here yet: the request holds for what comes.
        let active = flow.activate(now);
        let highest = active.highest;
        let evident = highest >= from;
        let continued = active.open.filter(|open| open.to.is_none());
        let certain = request.certain || evident || continued.is_some_and(|open| open.certain);
        let patience = request.patience;
        let open = if let Some(open) = continued {
            OpenEnd { from, patience, certain, ..open }
        } else {
            let lead = self.lead(request.flow, (from, highest), now);
            let shortfall = Shortfall::default();
            OpenEnd { from, to: None, patience, since: now, lead, told: None, certain, shortfall }
        };
        if let Some(active) = self.flow_mut(request.flow).and_then(|flow| flow.active_mut()) {
            active.open = Some(open);
        }
        self.watch_rest(request.flow, now);
        if !evident {
            return;
        }
        let oldest = SequenceNumber::new(highest.number().saturating_sub(OPEN_END_BACKLOG_MAX));
        let mut sequence = from.max(oldest);
        while sequence <= highest {
            self.work.numbers += 1;
            self.await_or_miss((request.flow, sequence), open, now, actions);
            sequence = sequence.plus(1);
        }
    }

    /// How long ago the repair packets of the first of these packets came that has any.
    fn lead(&self, slot: FlowSlot, (from, highest): (SequenceNumber, SequenceNumber), now: Time) -> Duration {
        let last = highest.min(from.plus(OPEN_END_BACKLOG_MAX));
        let mut numbers = (from.number()..=last.number()).map(SequenceNumber::new);
        let came = numbers.find_map(|sequence| self.came(slot, sequence));
        came.map_or(Duration::ZERO, |came| now.saturating_since(came))
    }

    /// When what repairs a packet came.
    fn came(&self, slot: FlowSlot, sequence: SequenceNumber) -> Option<Time> {
        let active = self.flow(slot)?.active()?;
        let source = active.source(sequence);
        let of_batch = source
            .batches
            .into_iter()
            .flatten()
            .find_map(|batch| self.batch(batch)?.repairs().next().map(|repair| repair.payload));
        let of_block = || {
            let block = active.blocks.covering(sequence)?;
            active.blocks.repairs(block).next().map(|repair| repair.payload)
        };
        self.log.came(source.packet.or(of_batch).or_else(of_block)?)
    }

    /// Repairs a packet that an open end covers, or has it wait while it may be in flight.
    fn await_or_miss(
        &mut self,
        (slot, sequence): (FlowSlot, SequenceNumber),
        open: OpenEnd,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let lost_at = self.came(slot, sequence).map_or(now, |came| open.lost_at(came, now));
        if lost_at <= now || !self.in_flight.add(lost_at, slot, sequence) {
            self.miss_in_open_end((slot, sequence), open, now, actions);
        }
    }

    /// Repairs what cannot be in flight any more.
    pub(super) fn give_up_in_flight(&mut self, now: Time, actions: &mut Vec<Action>) {
        while let Some((slot, sequence)) = self.in_flight.pop(now) {
            let open = self.flow(slot).and_then(|flow| flow.active()).and_then(|active| active.open);
            if let Some(open) = open.filter(|open| open.covers(sequence)) {
                self.miss_in_open_end((slot, sequence), open, now, actions);
            }
        }
    }

    /// A packet that the open end covers and that is known to have been sent.
    fn miss_in_open_end(
        &mut self,
        (flow, sequence): (FlowSlot, SequenceNumber),
        open: OpenEnd,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(active) = self.flow(flow).and_then(|flow| flow.active()) else {
            return;
        };
        // What was forwarded since has left. If it is lost, it is asked for by its number: the open end may be over, and the
        // ACK that ended it be lost, or have overtaken it.
        if self.forwarded_at(flow, sequence).is_some_and(|at| at >= open.since) {
            return;
        }
        let under_way = active
            .missing
            .get(sequence)
            .is_some_and(|missing| !matches!(missing.stage, Stage::Waiting | Stage::Confirming));
        // Said again in the same silence, it does not mean what was repaired meanwhile: lost repairs are asked for one by one.
        if !under_way && active.repairs_of(sequence) == 0 {
            self.counters.asked += 1;
            self.miss(flow, sequence, (now + open.patience, true), now);
            self.watch_expiry(flow, now + open.patience);
            self.repair_noted(flow, sequence, now, actions);
        }
    }

    /// The direct path delivers again, from this packet on. What is missing before it may be fewer packets than seemed to
    /// be, and what there is may suffice for those.
    pub(crate) fn ack(&mut self, slot: FlowSlot, from: SequenceNumber, now: Time, actions: &mut Vec<Action>) {
        let Some(active) = self.flow_mut(slot).and_then(|flow| flow.active_mut()) else {
            return;
        };
        if active.open.is_some_and(|open| open.told.is_some() && open.to.is_none()) {
            actions.push(Action::Outage { flow: slot, is_dark: false });
        }
        active.nacked.cut(from);
        active.open = active.open.filter(|open| open.from < from);
        if let Some(open) = &mut active.open {
            open.to = Some(open.to.map_or(from, |to| to.min(from)));
            // A later packet has come, and those before it have not.
            open.certain = true;
            active.missing.make_certain(open.from, from, now);
            active.nacked.make_certain(open.from, from);
        }
        active.missing.forget_waiting(from);
        let block_before = SequenceNumber::new(from.number().saturating_sub(Mask::SPAN_MAX));
        let missing = active.missing.within(block_before, from);
        let waiting = missing.filter(|missing| missing.stage == Stage::Waiting);
        let waiting: ArrayVec<SequenceNumber, BATCH_PACKETS_MAX> =
            waiting.map(|missing| missing.sequence).take(BATCH_PACKETS_MAX).collect();
        let open = active.open;
        for sequence in waiting {
            self.repair(slot, sequence, now, actions);
        }
        if let Some(open) = open {
            self.miss_what_was_in_flight(slot, open, now, actions);
        }
    }

    /// What is before the packet that came can be in flight no more.
    fn miss_what_was_in_flight(
        &mut self,
        slot: FlowSlot,
        open: OpenEnd,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let highest =
            self.flow(slot).and_then(|flow| flow.active()).map_or(open.from, |active| active.highest);
        let end = open.to.map_or(highest, |to| to.min(highest.next()));
        let oldest = SequenceNumber::new(end.number().saturating_sub(OPEN_END_BACKLOG_MAX));
        let mut sequence = open.from.max(oldest);
        while sequence < end {
            self.work.numbers += 1;
            self.miss_in_open_end((slot, sequence), open, now, actions);
            sequence = sequence.plus(1);
        }
    }
}
