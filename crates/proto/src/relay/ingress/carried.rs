//! What came lately, kept for egress relays that miss it: what was carried to them, and what they cannot restore from
//! the repair packets that they have.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{Ecn, Ranges, SequenceNumber, Service};

use super::flow::{Active, FlowSlot};
use super::{EgressPort, Ingress, Sink};
use crate::limits::{CARRIED_ASKS_MAX, CARRIED_REACH, CARRIED_RETENTION, CODED_RETENTION, COPY_BURST};
use crate::parts::packet_log::{Handle, PacketLog};
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::forwards;

/// A copy that may be asked for: small, as there are many.
#[derive(Clone, Copy, Debug)]
struct Kept {
    packet: Handle,
    /// Whether it was carried on when it came.
    is_carried: bool,
}

/// What was sent because it was asked for, which few packets are.
#[derive(Clone, Copy, Debug)]
struct Resent {
    /// How often, over all ways on.
    times: u8,
    last: Time,
}

/// An egress relay that asks for carried copies.
#[derive(Clone, Copy, Debug)]
struct Asker {
    /// How far away it is.
    round_trip: Duration,
    /// After how long a copy would come too late for the receiver.
    useful: Duration,
    /// One of how many that the flow goes to.
    ways: u8,
    /// Whether the flow may take more memory.
    has_room: bool,
}

/// What becomes of a request for a carried copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Send(Handle),
    /// Whoever asked cannot have known yet that it was sent.
    UnderWay,
    Refused,
    Gone,
}

/// What is kept of one flow.
#[derive(Debug)]
pub(crate) struct Carried {
    kept: SequenceRing<Kept>,
    resent: Option<Box<SequenceRing<Resent>>>,
    /// What may still be sent again: the flow's rate, so that a relay that asks for everything gets no more than that.
    budget: TokenBucket<Bytes>,
}

impl Carried {
    fn new(rate: Rate, now: Time) -> Self {
        let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
        let budget = TokenBucket::of_bytes(rate, burst, now);
        Self { kept: SequenceRing::new(CARRIED_REACH), resent: None, budget }
    }

    /// How much memory it takes, in bytes.
    fn bytes(&self) -> u64 {
        let resent = self.resent.as_ref().map_or(0, |resent| size_of_val(&**resent) as u64 + resent.bytes());
        size_of::<Self>() as u64 + self.kept.bytes() + resent
    }

    /// What is to be done for an egress relay that misses a copy.
    fn ask(&mut self, number: u64, asker: Asker, log: &PacketLog, now: Time) -> Answer {
        let Asker { round_trip, useful, ways, has_room } = asker;
        let kept = self.kept.get(number).filter(|kept| log.get(kept.packet, now).is_some());
        let came = kept.and_then(|kept| log.came(kept.packet));
        let Some((Kept { packet, is_carried }, came)) = kept.zip(came) else {
            return Answer::Gone;
        };
        let useful = if is_carried { useful } else { useful.min(CODED_RETENTION) };
        if came.saturating_add(useful) < now {
            return Answer::Gone;
        }
        let resent = self.resent.as_ref().and_then(|resent| resent.get(number));
        let last = resent.map(|resent| resent.last).or_else(|| is_carried.then_some(came));
        // Round trips as measured are those of a moment ago.
        if last.is_some_and(|last| last + (round_trip - round_trip / 8) > now) {
            return Answer::UnderWay;
        }
        let times = resent.map_or(0, |resent| resent.times);
        let is_past = |before: Resent| before.last + CARRIED_RETENTION < now;
        let can_note =
            has_room || self.resent.as_ref().is_some_and(|resent| resent.has_place(number, is_past));
        if !can_note {
            return Answer::Refused;
        }
        if times >= CARRIED_ASKS_MAX * ways || !self.budget.take(Bytes::from(packet.bytes()), now) {
            return Answer::Refused;
        }
        let resent = self.resent.get_or_insert_with(|| Box::new(SequenceRing::new(CARRIED_REACH)));
        resent.insert_over(number, Resent { times: times + 1, last: now }, is_past);
        Answer::Send(packet)
    }
}

impl Ingress {
    /// Carries a copy on, and keeps it where it may be missed: of a flow of which only some packets are copied, nobody
    /// can tell.
    pub(super) fn carry(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        (coded, ecn): (&[u8], Ecn),
        sink: &mut impl Sink,
        now: Time,
    ) {
        let flow = self.flows[slot.0 as usize].as_mut().expect("the copy was taken for a flow");
        let (is_forwarded, owner) = (forwards(flow.registration.service), flow.registration.owner());
        let (mut ways, mut may_be_lost) = (0, false);
        for onward in flow.onward.iter().filter(|onward| onward.known) {
            ways += 1;
            may_be_lost |= sink.carry(*onward, owner, sequence, coded, ecn, is_forwarded);
        }
        self.counters.uncovered_unknown += u64::from(ways == 0);
        self.counters.carried += ways;
        self.counters.carried_bytes += ways * coded.len() as u64;
        // What the egress relay does not take yet is carried on as soon as it does: it is at a flow's beginning.
        if ways == 0 || (may_be_lost && !flow.registration.is_selective) {
            self.keep(slot, sequence, coded, ways > 0, now);
        }
    }

    /// Carries on what came before an egress relay knew a flow, as far as it is of use there still.
    pub(crate) fn carry_waiting(
        &mut self,
        slot: FlowSlot,
        port: EgressPort,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let service = flow.registration.service;
        let onward = flow.onward.iter().find(|onward| onward.port == port && onward.known).copied();
        let (owner, budget) = (flow.registration.owner(), flow.registration.latency_budget);
        let carried = flow.active_mut().and_then(|active| active.carried.as_deref_mut());
        let passes_on = matches!(service, Service::Caching | Service::Forwarding | Service::Both);
        let (Some(onward), Some(carried), true) = (onward, carried, passes_on) else {
            return;
        };
        let highest = carried.kept.highest().unwrap_or(0);
        for number in highest.saturating_sub(CARRIED_REACH as u64 - 1)..=highest {
            let Some(kept) = carried.kept.get_mut(number).filter(|kept| !kept.is_carried) else {
                continue;
            };
            let is_of_use = self.log.came(kept.packet).is_some_and(|came| came + budget > now);
            if let Some(coded) = self.log.get(kept.packet, now).filter(|_| is_of_use) {
                kept.is_carried = true;
                self.counters.carried += 1;
                self.counters.carried_bytes += coded.len() as u64;
                let sequence = SequenceNumber::new(number);
                sink.carry(onward, owner, sequence, coded, Ecn::NotCapable, forwards(service));
            }
        }
    }

    /// Keeps a copy for egress relays, carried to them or not.
    pub(super) fn keep(
        &mut self,
        slot: FlowSlot,
        sequence: SequenceNumber,
        coded: &[u8],
        is_carried: bool,
        now: Time,
    ) {
        let flow = self.flows[slot.0 as usize].as_mut().expect("the copy was taken for a flow");
        let rate = flow.registration.rate;
        let Some((packet, active)) = self.log.push(coded, now).zip(flow.active_mut()) else {
            return;
        };
        if active.carried.is_none() {
            self.memory.admit(&mut active.memory);
            if !active.memory.has_room() {
                return;
            }
            let carried = Box::new(Carried::new(rate, now));
            active.memory.grew(0, carried.bytes());
            active.carried = Some(carried);
        }
        let Active { memory, carried: Some(carried), .. } = active else {
            return;
        };
        // Whoever misses a packet of a coded flow has asked by then.
        let retention = if is_carried { CARRIED_RETENTION } else { CODED_RETENTION };
        let before = carried.kept.bytes();
        // Asked only where the packet's place is taken, and the table would grow.
        let is_past = |kept: Kept| {
            let is_past = self.log.came(kept.packet).is_none_or(|came| came + retention < now);
            is_past || !self.memory.has_room(memory.holder())
        };
        carried.kept.insert_over(sequence.number(), Kept { packet, is_carried }, is_past);
        let after = carried.kept.bytes();
        if after != before {
            memory.grew(before, after);
            self.memory.settle(memory);
        }
    }

    /// Sends what an egress relay misses, `round_trip` away: of what was carried to it, or of what it has too few repair
    /// packets for.
    pub(crate) fn resend(
        &mut self,
        (slot, port): (FlowSlot, EgressPort),
        ranges: &Ranges<'_>,
        round_trip: Duration,
        sink: &mut impl Sink,
        now: Time,
    ) {
        let Some(flow) = self.flows.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let onward = flow.onward.iter().find(|onward| onward.port == port && onward.known).copied();
        // The receiver may be as far from its relay as the sender from this one.
        let useful = flow.registration.latency_budget.saturating_sub(flow.round_trip + round_trip / 2);
        let ways = u8::try_from(flow.onward.len()).expect("a flow has few ways on");
        let (is_forwarded, owner) = (forwards(flow.registration.service), flow.registration.owner());
        let kept = flow.active_mut().and_then(|Active { memory, copies, carried, .. }| {
            self.memory.admit(memory);
            Some((memory, copies, carried.as_deref_mut()?))
        });
        let (Some(onward), Some((memory, copies, carried))) = (onward, kept) else {
            return;
        };
        let asker = Asker { round_trip, useful, ways, has_room: memory.has_room() };
        let before = carried.bytes();
        let highest = carried.kept.highest().unwrap_or(0);
        let oldest = highest.saturating_sub(CARRIED_REACH as u64);
        for range in ranges.iter() {
            let first = copies.full(range.first_low()).number();
            let last = first.saturating_add(u64::from(range.length()) - 1);
            for number in first.max(oldest)..=last.min(highest) {
                match carried.ask(number, asker, &self.log, now) {
                    Answer::Send(packet) => {
                        let coded = self.log.get(packet, now).expect("the packet is kept");
                        self.counters.resent += 1;
                        self.counters.resent_bytes += coded.len() as u64;
                        let sequence = SequenceNumber::new(number);
                        sink.carry(onward, owner, sequence, coded, Ecn::NotCapable, is_forwarded);
                    }
                    Answer::UnderWay => {}
                    Answer::Refused => self.counters.resends_refused += 1,
                    Answer::Gone => self.counters.resends_gone += 1,
                }
            }
        }
        memory.grew(before, carried.bytes());
        self.memory.settle(memory);
    }
}
