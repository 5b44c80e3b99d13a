//! The order of congestion-controlled flows: what follows a gap waits for the repair, if one can come in time.
//!
//! TCP and QUIC take a packet for lost once three later ones, or a quarter of a round trip, have passed it. Within that
//! time a repair goes unnoticed; after it, a repair would only confuse them, and none is asked for or delivered.

use alloc::boxed::Box;

use byway_units::{Duration, Time};
use byway_wire::{Piece, SequenceNumber, Service, TrafficClass, Uncopied};

use super::events::Delivery;
use super::receive_flow::{Active, ReceiveFlow, ReceiveFlowId};
use super::settings::Traffic;
use super::{Agent, Delivered};
use crate::limits::{HELD_BYTES_MAX, REORDERING_TIME};
use crate::parts::gap_tracker::{Arrival, NumberRange};
use crate::parts::resequencer::{Pushed, Resequencer};
use crate::policy::repairs;

/// What the application may get, beside the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) sequence: SequenceNumber,
    pub(super) piece: Piece,
    /// Of a piece that is sent again, the number under which its datagram was sent whole.
    pub(super) original: Option<SequenceNumber>,
    /// `None`: a mark that the application's transport would not understand. The packet is not delivered.
    pub(super) traffic_class: Option<TrafficClass>,
    pub(super) delivery: Delivery,
}

/// A packet that waits for those before it.
#[derive(Debug)]
pub(super) struct HeldPacket {
    incoming: Incoming,
    datagram: Box<[u8]>,
}

/// Exists while packets wait.
pub(super) type Order = Option<Box<Resequencer<HeldPacket>>>;

impl Agent {
    /// Delivers a packet, at once or in its turn. `before` is the highest number before it came.
    pub(super) fn deliver(
        &mut self,
        id: ReceiveFlowId,
        incoming: Incoming,
        datagram: &[u8],
        (arrival, before): (Arrival, Option<u64>),
        now: Time,
    ) {
        let flow = &self.receivers[id.0 as usize];
        let is_ordered = flow.settings.traffic == Traffic::CongestionControlled;
        let waits = is_ordered && flow.active().is_some_and(|active| active.order.is_some());
        if waits || (is_ordered && arrival == Arrival::Ahead) {
            self.deliver_in_order(id, incoming, datagram, before, now);
        } else {
            self.give(id, incoming, datagram, now);
        }
    }

    fn deliver_in_order(
        &mut self,
        id: ReceiveFlowId,
        incoming: Incoming,
        datagram: &[u8],
        before: Option<u64>,
        now: Time,
    ) {
        let until = now + self.hold(id, now);
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut() else {
            return;
        };
        let next = before.map_or(0, |before| before + 1);
        let order = active.order.get_or_insert_with(|| Box::new(Resequencer::new(next, HELD_BYTES_MAX)));
        let number = incoming.sequence.number();
        let told = number.saturating_sub(Uncopied::REACH.into()).max(order.next_number());
        for gone in (told..number).filter(|number| active.never_copied.contains(*number)) {
            order.give_up(NumberRange { first: gone, length: 1 });
        }
        let bytes = u16::try_from(datagram.len()).expect("the length of datagrams is checked");
        let pushed = order.push(number, bytes, until, || HeldPacket { incoming, datagram: datagram.into() });
        if pushed != Pushed::Held {
            self.give(id, incoming, datagram, now);
        }
        self.release(id, now);
        let flow = &mut self.receivers[id.0 as usize];
        let order = flow.active().and_then(|active| active.order.as_ref());
        let waits = order.is_some_and(|order| order.next_number() <= number);
        flow.statistics.held += u64::from(waits);
    }

    /// Delivers what has waited long enough, or for something that came.
    pub(super) fn release(&mut self, id: ReceiveFlowId, now: Time) {
        loop {
            let flow = &mut self.receivers[id.0 as usize];
            let Some(order) = flow.active_mut().and_then(|active| active.order.as_mut()) else {
                return;
            };
            let next = order.next_number();
            let Some((number, held)) = order.pop(now) else {
                break;
            };
            flow.statistics.gaps_passed += u64::from(number > next);
            self.give(id, held.incoming, &held.datagram, now);
        }
        if let Some(active) = self.receivers[id.0 as usize].active_mut()
            && active.order.as_ref().is_some_and(|order| order.held() == 0)
        {
            active.order = None;
        }
    }

    /// How long packets of a congestion-controlled flow wait for one that is missing: a quarter of the round trip to
    /// the sender if a repair can come within it, else not at all.
    fn hold(&self, id: ReceiveFlowId, now: Time) -> Duration {
        let flow = &self.receivers[id.0 as usize];
        let quarter = quarter(self.sessions.round_trip(flow.peer));
        let relays = self.egresses_of(id).into_iter().map(|(relay, _)| relay);
        let alive = relays.filter(|relay| self.relay_is_alive(*relay, now));
        let repair = alive
            .map(|relay| self.sessions.round_trip(relay))
            .min()
            .map(|relay| REORDERING_TIME + relay * flow.trips_of_a_repair());
        let is_timely = repairs(flow.settings.service) && repair.is_some_and(|repair| repair <= quarter);
        if is_timely { quarter } else { Duration::ZERO }
    }

    /// Gives a packet to the application, or a piece to what joins them.
    fn give(&mut self, id: ReceiveFlowId, incoming: Incoming, datagram: &[u8], now: Time) {
        let Incoming { sequence, piece, original, traffic_class, delivery } = incoming;
        let flow = &mut self.receivers[id.0 as usize];
        let Some(traffic_class) = traffic_class else {
            flow.statistics.marked_dropped += 1;
            return;
        };
        if piece == Piece::Whole {
            let delivered = Delivered { flow: id, traffic_class, delivery };
            self.deliveries.add(delivered, |out| out.extend_from_slice(datagram));
            return;
        }
        let is_known = original.is_some_and(|original| !flow.is_new(original));
        let (Some(active), statistics) = flow.active_and_statistics() else {
            return;
        };
        if let Some((traffic_class, whole)) = active.joiner.take(piece, sequence, traffic_class, datagram) {
            if is_known {
                statistics.duplicates += 1;
                return;
            }
            if let Some(original) = original {
                // Should it come after all, it is a duplicate.
                statistics.lost += u64::from(active.tracker.is_missing(original.number()));
                active.tracker.arrived(original.number(), now);
            }
            let delivered = Delivered { flow: id, traffic_class, delivery };
            self.deliveries.add(delivered, |out| out.extend_from_slice(whole));
        }
    }
}

impl ReceiveFlow {
    /// How long a repair of a gap is of use, once it is asked for.
    pub(super) fn patience(&self, round_trip: Duration) -> Duration {
        match self.settings.traffic {
            Traffic::Datagrams | Traffic::Mixture => self.allowance(round_trip),
            Traffic::CongestionControlled => quarter(round_trip).min(self.allowance(round_trip)),
        }
    }

    /// How often the way between relay and receiver is gone to and fro before a repair is here: once, and once more
    /// where only other receivers can help.
    fn trips_of_a_repair(&self) -> u64 {
        let is_helped = self.settings.service == Service::Coding && self.settings.rates.in_stream.is_none();
        if is_helped { 2 } else { 1 }
    }

    /// Whether later packets went before this one, as nothing could bring it in time: a repair is of no use any more.
    pub(super) fn has_passed(&self, number: u64) -> bool {
        let is_ordered = self.settings.traffic == Traffic::CongestionControlled;
        is_ordered && self.active().is_some_and(|active| active.has_passed(number))
    }
}

/// A quarter of a round trip: RACK waits as long for what may only be reordered (RFC 8985, section 6.2).
fn quarter(round_trip: Duration) -> Duration {
    round_trip / 4
}

impl Active {
    fn has_passed(&self, number: u64) -> bool {
        match &self.order {
            Some(order) => number < order.next_number(),
            None => self.tracker.highest().is_some_and(|highest| number <= highest),
        }
    }
}
