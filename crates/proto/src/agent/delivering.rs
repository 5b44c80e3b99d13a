//! A packet is here: the account is kept, others are helped, the application gets it.

use byway_units::{Duration, Time};
use byway_wire::messages::{Ack, Lost};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Ecn, Flags, Message, Piece, Plaintext, RangeSet, Resent, SequenceNumber, TrafficClass};

use super::Agent;
use super::events::Delivery;
use super::ordering::Incoming;
use super::receive_flow::{Active, ReceiveFlow, ReceiveFlowId};
use super::requests::Asker;
use super::settings::Traffic;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::parts::loss_timer::LossTimer;
use crate::policy::{keeps, takes_two_ways};

/// How a packet came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) delivery: Delivery,
    /// The ECN field that it arrived with.
    pub(super) outer: Ecn,
    /// True if it was held for the driver's consent, and the next one is handled at the same time.
    pub(super) is_held: bool,
}

impl Way {
    /// A packet that is handled as it arrives.
    pub(super) const fn new(delivery: Delivery, outer: Ecn) -> Self {
        Self { delivery, outer, is_held: false }
    }

    /// The traffic class for the application's packet; `None` where it must not get the packet.
    fn traffic_class(self, inner: TrafficClass) -> Option<TrafficClass> {
        let ecn = inner.ecn().out_of(self.outer)?;
        Some(inner.with_ecn(if self.delivery.is_repair() { ecn.repaired() } else { ecn }))
    }
}

/// Returns the piece that a packet carries. If it is sent again, also the number of the first time.
fn contents_of(
    sequence: SequenceNumber,
    piece: Piece,
    bytes: &[u8],
) -> Option<(Piece, Option<SequenceNumber>, &[u8])> {
    if piece != Piece::Again {
        return Some((piece, None, bytes));
    }
    let Resent { sequence_low, piece, bytes } = Resent::parse(bytes).ok()?;
    let original = SequenceNumber::nearest(sequence_low, sequence);
    (original < sequence).then_some((piece, Some(original), bytes))
}

impl Agent {
    /// Handles an opened packet. The scratch buffer holds its coded bytes, or is empty if there are
    /// none.
    pub(super) fn arrived(
        &mut self,
        id: ReceiveFlowId,
        sequence: SequenceNumber,
        flags: Flags,
        plaintext: &[u8],
        way: Way,
        now: Time,
    ) {
        let parsed = Plaintext::parse(plaintext, flags)
            .ok()
            .filter(|parsed| parsed.datagram.len() <= DATAGRAM_BYTES_MAX);
        let contents =
            parsed.and_then(|parsed| Some((parsed, contents_of(sequence, flags.piece(), parsed.datagram)?)));
        let Some((Plaintext { sent, traffic_class, uncopied, .. }, (piece, original, datagram))) = contents
        else {
            self.counters.malformed += 1;
            return;
        };
        let delivery = way.delivery;
        let round_trip = self.sessions.round_trip(self.receivers[id.0 as usize].peer);
        let flow = &mut self.receivers[id.0 as usize];
        let allowance = flow.allowance(round_trip);
        let is_past = delivery.is_repair() && flow.has_passed(sequence.number());
        let is_original = flow.is_original(delivery);
        let comes_on_two_ways = takes_two_ways(flow.settings.service);
        let is_mixture = flow.settings.traffic == Traffic::Mixture;
        let active = flow.activate(round_trip, now);
        let is_first = is_original && active.highest_original.is_none();
        let lateness =
            if is_original { active.clock.arrived(sent, now) } else { active.clock.lateness(sent, now) };
        if is_past || (!is_original && lateness > allowance) {
            // Of no use to the application, and no reason to refuse the direct copy, should that come after all.
            active.clock.note_late(sequence);
            flow.statistics.late += 1;
            self.keep(id, sequence, now);
            return;
        }
        if is_original {
            active.on_original(sequence, way.is_held, now);
            if is_mixture {
                active.queue.sample(sent, now);
            }
        }
        if active.open.is_some_and(|from| sequence >= from) {
            active.open_asks = 0;
        }
        active.delays.add(lateness, now);
        active.never_copied.note(sequence, uncopied);
        if comes_on_two_ways {
            active.ways.first(sequence, now);
            if delivery == Delivery::Forwarded {
                active.ways.relayed(now);
            }
        }
        let before = active.tracker.highest();
        let arrival = flow.close_gap(sequence, delivery, round_trip, now);
        let has_lost = flow.count(sequence, delivery, lateness);
        // The sender copies its packets until a report says that the direct path delivers.
        self.plan_report(id, has_lost || is_first, now);
        self.keep(id, sequence, now);
        if is_original {
            self.end_open_nack(id, sequence, now);
        }
        self.give_up(id, now);
        let incoming =
            Incoming { sequence, piece, original, traffic_class: way.traffic_class(traffic_class), delivery };
        self.deliver(id, incoming, datagram, (arrival, before), now);
        self.plan_losses(id);
    }

    /// Keeps the coded bytes, if there are any, for blocks and for other receivers, and answers
    /// pending requests for them.
    pub(super) fn keep(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        if self.scratch.is_empty() || !keeps(flow.settings.service) {
            return;
        }
        let Some(packet) = self.kept.push(&self.scratch, now) else {
            return;
        };
        let Some(active) = flow.active_mut() else {
            return;
        };
        active.kept.insert_over(sequence.number(), packet, |packet| self.kept.get(packet, now).is_none());
        while let Some(active) = self.receivers[id.0 as usize].active_mut()
            && let Some(asker) = active.requests.take(sequence, now)
        {
            self.answer(id, asker, sequence, packet, now);
        }
    }

    /// The direct copy of a packet came after its repair: where the overlay is the shorter way, all do as long as the
    /// relay repairs whatever is sent.
    pub(super) fn direct_path_delivers(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        let was_asked = flow.active().is_some_and(|active| active.open == Some(sequence));
        flow.statistics.nacks_in_vain += u64::from(was_asked);
        let Some(active) = flow.active_mut() else {
            return;
        };
        // One that was overtaken, or sent again, says nothing of when packets are sent.
        if active.highest_original.is_some_and(|highest| sequence <= highest) {
            return;
        }
        let follows = active.highest_original.is_some_and(|highest| sequence == highest.next());
        active.timer.arrival(follows, now);
        active.original_came(now);
        active.highest_original = Some(sequence);
        active.tail.arrived(sequence, now);
        active.came_again(sequence, now);
        self.end_open_nack(id, sequence, now);
        self.plan_losses(id);
    }

    /// The direct path delivers again.
    fn end_open_nack(&mut self, id: ReceiveFlowId, sequence: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut() else {
            return;
        };
        if active.open.is_none_or(|from| sequence < from) {
            return;
        }
        active.open = None;
        active.open_asks = 0;
        active.tracker.close();
        self.say_ack(id, sequence, now);
    }

    /// A repair came that nobody needed: if the direct path delivers, the ACK that said so was lost, and the relay
    /// repairs whatever is sent.
    pub(super) fn end_needless_repairs(&mut self, id: ReceiveFlowId, now: Time) {
        let again_after = self.ask_again_after(id);
        let Some(active) = self.receivers[id.0 as usize].active() else {
            return;
        };
        let lately = active.last_ack.is_some_and(|last| now.saturating_since(last) < again_after);
        if active.open.is_none()
            && !lately
            && let Some(highest) = active.highest_original
        {
            self.say_ack(id, highest, now);
        }
    }

    fn say_ack(&mut self, id: ReceiveFlowId, from: SequenceNumber, now: Time) {
        let flow = &mut self.receivers[id.0 as usize];
        flow.statistics.acks += 1;
        if let Some(active) = flow.active_mut() {
            active.last_ack = Some(now);
        }
        for (session, alias) in self.egresses_of(id) {
            self.sessions.say(session, &Message::Ack(Ack { alias, from_low: from.low() }), now);
        }
    }

    /// Gives a packet for somebody else's repair, within what is consented to.
    pub(super) fn answer(
        &mut self,
        id: ReceiveFlowId,
        (session, alias): Asker,
        sequence: SequenceNumber,
        packet: crate::parts::packet_log::Handle,
        now: Time,
    ) {
        let flow = &mut self.receivers[id.0 as usize];
        if !flow.gives(packet.bytes().into(), now) {
            flow.statistics.beyond_consent += 1;
            // Whoever waits for it shall look elsewhere.
            let mut withheld = RangeSet::new();
            assert!(withheld.insert(sequence), "an empty set has room");
            self.sessions.say(session, &Message::Lost(Lost { alias, ranges: withheld.ranges() }), now);
            return;
        }
        flow.statistics.given += 1;
        flow.statistics.given_bytes += packet.bytes() as u64;
        self.send_behind(session, EnvelopeRole::CooperativeAnswer, alias, sequence, packet, now);
    }
}

impl Active {
    /// Notes an original that is new. One that was held back says nothing about when packets are
    /// sent.
    fn on_original(&mut self, sequence: SequenceNumber, is_held: bool, now: Time) {
        if !is_held {
            // What a silence with losses lasted says nothing about when packets are sent, repaired or not.
            let follows = self.highest_original.is_some_and(|highest| sequence == highest.next());
            self.timer.arrival(follows, now);
        }
        self.original_came(now);
        self.tail.arrived(sequence, now);
        self.expect_answers_by(now);
    }
}

impl ReceiveFlow {
    /// Counts a packet that is new and in time; whether it shows that others before it were lost.
    fn count(&mut self, sequence: SequenceNumber, delivery: Delivery, lateness: Duration) -> bool {
        let has_lost = self.is_original(delivery) && self.count_burst(sequence);
        let is_timed = self.active().is_some_and(|active| active.clock.is_set());
        let statistics = &mut *self.statistics;
        if is_timed {
            statistics.add_repair(delivery, lateness);
        }
        statistics.lost += u64::from(delivery.is_repair());
        statistics.lateness_max = statistics.lateness_max.max(lateness);
        let counter = match delivery {
            Delivery::Direct => &mut statistics.direct,
            Delivery::Forwarded => &mut statistics.forwarded,
            Delivery::InStream => &mut statistics.in_stream,
            Delivery::Cooperative => &mut statistics.cooperative,
            Delivery::Cached => &mut statistics.cached,
        };
        *counter += 1;
        has_lost
    }

    /// Counts what the way of originals left out before this one; whether it left out any.
    fn count_burst(&mut self, sequence: SequenceNumber) -> bool {
        let Some(active) = self.active_mut() else {
            return false;
        };
        let before = active
            .highest_original
            .replace(active.highest_original.map_or(sequence, |highest| highest.max(sequence)));
        let burst =
            before.and_then(|before| sequence.since(before)).map_or(0, |ahead| ahead.saturating_sub(1));
        if burst > 0 {
            self.statistics.bursts += 1;
            self.statistics.longest_burst = self.statistics.longest_burst.max(burst);
        }
        burst > 0
    }
}

impl Delivery {
    /// Whether the packet was lost on its first way.
    #[must_use]
    pub const fn is_repair(self) -> bool {
        matches!(self, Self::InStream | Self::Cooperative | Self::Cached)
    }
}
