//! What was carried on lately, kept for egress relays that miss some of it.

use alloc::boxed::Box;

use byway_units::{Bytes, Duration, Rate, Time};
use byway_wire::{Ecn, Ranges, SequenceNumber};

use super::flow::FlowSlot;
use super::{EgressPort, Ingress, Sink};
use crate::limits::{CARRIED_ASKS_MAX, CARRIED_REACH, COPY_BURST};
use crate::parts::packet_log::{Handle, PacketLog};
use crate::parts::sequence_ring::SequenceRing;
use crate::parts::token_bucket::TokenBucket;
use crate::policy::forwards;

/// A copy that was carried on.
#[derive(Clone, Copy, Debug)]
struct Sent {
    packet: Handle,
    first: Time,
    /// How often it was sent again, over all ways on.
    resent: u8,
    /// When it was sent last.
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

/// What was carried of one flow.
#[derive(Debug)]
pub(crate) struct Carried {
    sent: SequenceRing<Sent>,
    /// What may still be sent again: the flow's rate, so that a relay that asks for everything gets no more than that.
    budget: TokenBucket<Bytes>,
}

impl Carried {
    fn new(rate: Rate, now: Time) -> Self {
        let burst = rate.bytes_in(COPY_BURST).unwrap_or(Bytes::MAX);
        Self { sent: SequenceRing::new(CARRIED_REACH), budget: TokenBucket::of_bytes(rate, burst, now) }
    }

    /// What is to be done for an egress relay that misses a copy.
    fn ask(&mut self, number: u64, asker: Asker, log: &PacketLog, now: Time) -> Answer {
        let Asker { round_trip, useful, ways } = asker;
        let is_of_use = |sent: &&mut Sent| {
            log.get(sent.packet, now).is_some() && sent.first.saturating_add(useful) >= now
        };
        let Some(sent) = self.sent.get_mut(number).filter(is_of_use) else {
            return Answer::Gone;
        };
        // Round trips as measured are those of a moment ago.
        if sent.last + (round_trip - round_trip / 8) > now {
            return Answer::UnderWay;
        }
        let bytes = Bytes::from(sent.packet.bytes());
        if sent.resent >= CARRIED_ASKS_MAX * ways || !self.budget.take(bytes, now) {
            return Answer::Refused;
        }
        (sent.resent, sent.last) = (sent.resent + 1, now);
        Answer::Send(sent.packet)
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
        let is_forwarded = forwards(flow.registration.service);
        let (mut ways, mut may_be_lost) = (0, false);
        for onward in flow.onward.iter().filter(|onward| onward.known) {
            ways += 1;
            may_be_lost |= sink.carry(*onward, sequence, coded, ecn, is_forwarded);
        }
        self.counters.uncovered_unknown += u64::from(ways == 0);
        self.counters.carried += ways;
        self.counters.carried_bytes += ways * coded.len() as u64;
        if !may_be_lost || flow.registration.is_selective {
            return;
        }
        let rate = flow.registration.rate;
        let Some((packet, active)) = self.log.push(coded, now).zip(flow.active_mut()) else {
            return;
        };
        let carried = active.carried.get_or_insert_with(|| Box::new(Carried::new(rate, now)));
        let sent = Sent { packet, first: now, resent: 0, last: now };
        carried.sent.insert_over(sequence.number(), sent, |sent| self.log.get(sent.packet, now).is_none());
    }

    /// Sends again what an egress relay misses of what was carried to it, `round_trip` away.
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
        let asker = Asker { round_trip, useful, ways };
        let is_forwarded = forwards(flow.registration.service);
        let active = flow.active_mut();
        let kept = active.and_then(|active| Some((&active.copies, active.carried.as_deref_mut()?)));
        let (Some(onward), Some((copies, carried))) = (onward, kept) else {
            return;
        };
        let highest = carried.sent.highest().unwrap_or(0);
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
                        sink.carry(onward, sequence, coded, Ecn::NotCapable, is_forwarded);
                    }
                    Answer::UnderWay => {}
                    Answer::Refused => self.counters.resends_refused += 1,
                    Answer::Gone => self.counters.resends_gone += 1,
                }
            }
        }
    }
}
