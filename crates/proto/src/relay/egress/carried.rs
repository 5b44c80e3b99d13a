//! Copies that ingress relays carry here: kept or forwarded, and asked for again where some did not come.
//!
//! A gap costs nothing but one entry in a list that all flows share: what is missing of it shows when it is looked at.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use byway_units::{Duration, Time};
use byway_wire::{Alias, Ecn, RangeSet, SequenceNumber, Service};

use super::action::{Action, Given};
use super::flow::{Active, FlowSlot};
use super::missing::Stage;
use super::{Egress, find};
use crate::limits::{
    CARRIED_ASKS_MAX, CARRIED_GAP_MAX, CARRIED_GAPS_MAX, CODED_GAP_MAX, COPY_REORDERING, FIRST_NUMBERS,
    NACK_REACH,
};
use crate::parts::packet_log::Handle;
use crate::policy::forwards;

/// Where carried copies come from, and what the flow is called there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Feed {
    pub(crate) ingress: u16,
    pub(crate) alias: Alias,
}

/// A copy that an ingress relay carried here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CarriedCopy<'a> {
    pub(crate) sequence_low: u32,
    pub(crate) coded: &'a [u8],
    /// The ECN field that it arrived with.
    pub(crate) ecn: Ecn,
    /// Whether it is to be delivered, whatever the receiver asked for: its sender cannot reach the receiver directly.
    pub(crate) is_forwarded: bool,
    /// Whom to ask for what did not come before it; `None` where that is no loss.
    pub(crate) feed: Option<Feed>,
}

/// Carried copies in a row of which some did not come, by when they are to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    pub(super) ask_at: Time,
    pub(super) flow: FlowSlot,
    pub(super) feed: Feed,
    pub(super) first: SequenceNumber,
    /// One more than the last.
    pub(super) end: SequenceNumber,
    pub(super) asked: u8,
    /// Whether it is one packet that is fetched, and no gap in a row.
    pub(super) is_fetch: bool,
}

/// What is to be asked for now.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) feed: Feed,
    pub(crate) absent: RangeSet,
    gap: Gap,
}

/// The gaps of all flows, soonest first.
#[derive(Debug, Default)]
pub(super) struct Gaps(BinaryHeap<Reverse<Gap>>);

impl Gaps {
    /// Watches a gap; `false` if there are too many.
    pub(super) fn add(&mut self, gap: Gap) -> bool {
        let has_room = self.0.len() < CARRIED_GAPS_MAX;
        if has_room {
            self.0.push(Reverse(gap));
        }
        has_room
    }

    fn ask_at(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(gap)| gap.ask_at)
    }

    fn pop(&mut self, now: Time) -> Option<Gap> {
        self.ask_at().filter(|at| *at <= now)?;
        self.0.pop().map(|Reverse(gap)| gap)
    }
}

impl Egress {
    /// Takes a copy that an ingress relay carried here: forwards it, or keeps it until it is asked for.
    pub(crate) fn carried(
        &mut self,
        receivers: &[FlowSlot],
        carried: &CarriedCopy<'_>,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(first) = receivers.first() else {
            self.counters.repairs_unknown += 1;
            return;
        };
        if self.is_kept(*first, carried, now) {
            self.counters.carried_repeated += 1;
            return;
        }
        let Some(packet) = self.keep(carried.coded, now) else {
            return;
        };
        for slot in receivers {
            self.carried_to(*slot, carried, packet, now, actions);
        }
        // Of a group's receivers, what one misses all do.
        if let Some(feed) = carried.feed {
            let is_dark = receivers.iter().any(|slot| self.is_dark(*slot, now));
            self.note_gap((*first, is_dark), feed, carried.sequence_low, now);
        }
    }

    /// Whether this very packet is here already. A sender that began anew gives a number to another one.
    fn is_kept(&self, slot: FlowSlot, carried: &CarriedCopy<'_>, now: Time) -> bool {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let packet = active.and_then(|active| active.packet(active.full(carried.sequence_low)));
        packet.and_then(|packet| self.log.get(packet, now)).is_some_and(|packet| packet == carried.coded)
    }

    fn carried_to(
        &mut self,
        slot: FlowSlot,
        carried: &CarriedCopy<'_>,
        packet: Handle,
        now: Time,
        actions: &mut Vec<Action>,
    ) {
        let Some(flow) = find(&mut self.flows, slot) else {
            return;
        };
        let service = flow.service;
        let is_forwarded = carried.is_forwarded || forwards(service);
        let active = flow.activate(now);
        let sequence = active.full(carried.sequence_low);
        let (log, memory, holder) = (&self.log, &self.memory, active.memory.holder());
        active.add_packet(sequence, packet, |packet| {
            log.get(packet, now).is_none() || !memory.has_room(holder)
        });
        self.memory.settle(&mut active.memory);
        active.is_forwarded = is_forwarded;
        self.sweeps.watch_rest(active, slot, now);
        if !is_forwarded {
            if service == Service::Caching {
                self.note_tail(slot, sequence, now);
            }
            self.became_repairable(slot, sequence, now, actions);
            if service == Service::Coding {
                self.complete_with((slot, sequence), packet, now, actions);
            }
            return;
        }
        // Whoever asked before it came is answered by it.
        if !active.nacked.is_empty() {
            self.memory.admit(&mut active.memory);
            self.counters.refused_room += u64::from(active.take_nacked(sequence, now) == Some(false));
            self.memory.settle(&mut active.memory);
        }
        if let Some(missing) = active.missing.get_mut(sequence) {
            missing.enter(Stage::Given, now);
            missing.is_repaired = true;
        }
        self.counters.forwarded += 1;
        self.counters.forwarded_bytes += packet.bytes() as u64;
        let (given, ecn) = (Given::Forwarded, carried.ecn);
        actions.push(Action::Give { flow: slot, sequence, packet, given, ecn });
    }

    /// Whether a packet was forwarded so lately that a receiver who asks for it cannot know: it may be on its way.
    pub(super) fn is_under_way(&self, slot: FlowSlot, sequence: SequenceNumber, now: Time) -> bool {
        let round_trip = self.flow(slot).map_or(Duration::ZERO, |flow| flow.round_trip);
        // Round trips as measured are those of a moment ago.
        self.forwarded_at(slot, sequence).is_some_and(|at| at + (round_trip - round_trip / 8) > now)
    }

    /// Returns when a packet was forwarded that is kept, while the flow's copies are.
    pub(super) fn forwarded_at(&self, slot: FlowSlot, sequence: SequenceNumber) -> Option<Time> {
        let active = self.flow(slot)?.active().filter(|active| active.is_forwarded)?;
        self.log.came(active.packet(sequence)?)
    }

    /// Whether copies of a receiver's flow come in a row, though it is coded: while an outage lasts, or where its sender has no
    /// other way. Any other was fetched alone.
    fn is_dark(&self, slot: FlowSlot, now: Time) -> bool {
        let active = self.flow(slot).and_then(|flow| flow.active());
        let is_believed = |active: &Active| active.open.is_some_and(|open| open.is_believed(now));
        active.is_some_and(|active| active.is_forwarded || is_believed(active))
    }

    /// Notes what did not come before a carried copy, unless it was fetched alone.
    fn note_gap(&mut self, (slot, is_dark): (FlowSlot, bool), feed: Feed, sequence_low: u32, now: Time) {
        let Some(flow) = find(&mut self.flows, slot) else {
            return;
        };
        let is_coded = flow.service == Service::Coding;
        let Some(active) = flow.active_mut() else {
            return;
        };
        let sequence = active.full(sequence_low);
        let is_fetched = active.missing.get(sequence).is_some_and(|missing| missing.is_fetched);
        if is_fetched || (is_coded && !is_dark) {
            return;
        }
        if let Some((first, end)) = active.gap_before(sequence, feed, is_coded) {
            let ask_at = now + COPY_REORDERING;
            self.gaps.add(Gap { ask_at, flow: slot, feed, first, end, asked: 0, is_fetch: false });
        }
    }

    /// When carried copies are to be asked for.
    pub(crate) fn asks_at(&self) -> Option<Time> {
        self.gaps.ask_at()
    }

    /// The next carried copies that are to be asked for now.
    pub(crate) fn next_asked(&mut self, now: Time) -> Option<Asked> {
        while let Some(gap) = self.gaps.pop(now) {
            let Some(active) = find(&mut self.flows, gap.flow).and_then(|flow| flow.active_mut()) else {
                continue;
            };
            if gap.asked == CARRIED_ASKS_MAX {
                active.forget_fetch(gap.first);
                continue;
            }
            let numbers = (gap.first.number()..gap.end.number()).map(SequenceNumber::new);
            let (mut absent, mut count) = (RangeSet::new(), 0);
            for sequence in numbers.filter(|sequence| active.packet(*sequence).is_none()) {
                if !absent.insert(sequence) {
                    break;
                }
                count += 1;
            }
            if count > 0 {
                self.counters.carried_asked += count;
                return Some(Asked { feed: gap.feed, absent, gap });
            }
        }
        None
    }

    /// What was asked for, of a relay `round_trip` away, is asked for again if it does not come, and given up at last.
    pub(crate) fn ask_again(&mut self, asked: &Asked, round_trip: Duration, now: Time) {
        let Asked { gap, .. } = *asked;
        let ask_at = now + Self::ask_again_after(round_trip) + COPY_REORDERING;
        let is_over = gap.asked + 1 == CARRIED_ASKS_MAX && !gap.is_fetch;
        let is_watched = !is_over && self.gaps.add(Gap { ask_at, asked: gap.asked + 1, ..gap });
        if gap.is_fetch
            && !is_watched
            && let Some(active) = find(&mut self.flows, gap.flow).and_then(|flow| flow.active_mut())
        {
            active.forget_fetch(gap.first);
        }
    }
}

impl Active {
    /// A packet that was fetched does not come: a round that lacks it may have it fetched anew.
    fn forget_fetch(&mut self, sequence: SequenceNumber) {
        let is_here = self.packet(sequence).is_some();
        if let Some(missing) = self.missing.get_mut(sequence).filter(|_| !is_here) {
            missing.is_fetched = false;
        }
    }

    /// The numbers between a carried copy and the highest that came from there before: the first of them, and the copy
    /// itself. Of a coded flow, only what an outage takes is carried.
    fn gap_before(
        &mut self,
        sequence: SequenceNumber,
        feed: Feed,
        is_coded: bool,
    ) -> Option<(SequenceNumber, SequenceNumber)> {
        // Another relay, or the same after the flow began anew there, has its own account of what it carried.
        let before = self.carried.filter(|(known, highest)| {
            *known == feed
                && highest.since(sequence).is_none_or(|behind| behind <= NACK_REACH)
                && (!is_coded || sequence.since(*highest).is_none_or(|ahead| ahead <= CODED_GAP_MAX))
        });
        let first = match before {
            Some((_, highest)) if sequence <= highest => return None,
            Some((_, highest)) => highest.next(),
            // The first packets of a flow that begins here; any other joined it on its way.
            None if sequence.number() < FIRST_NUMBERS && !is_coded => SequenceNumber::FIRST,
            None => sequence,
        };
        self.carried = Some((feed, sequence));
        let oldest = SequenceNumber::new(sequence.number().saturating_sub(CARRIED_GAP_MAX));
        let first = first.max(oldest);
        (first < sequence).then_some((first, sequence))
    }
}
