//! In-order delivery of congestion-controlled flows: packets behind a gap wait for the repair, if
//! one can arrive in time. A quarter of a round trip and the latency budget bound this head-of-line
//! blocking.
//!
//! TCP and QUIC declare a packet lost after three later packets, or after a quarter of a round
//! trip. A repair within that time goes unnoticed. A later one would only confuse them, so the
//! receiver neither requests nor delivers it.

use alloc::boxed::Box;

use byway_units::{Duration, Time};
use byway_wire::{Fragment, SequenceNumber, Service, TrafficClass, UnprotectedMask};

use super::events::Delivery;
use super::receive_flow::{ReceiveFlow, ReceiveFlowId, ReceiveState};
use super::settings::Traffic;
use super::{Agent, DeliveryMeta};
use crate::limits::{HELD_BYTES_MAX, REORDERING_TIME};
use crate::parts::gap_tracker::{ArrivalOrder, NumberRange};
use crate::parts::resequencer::{PushOutcome, Resequencer};
use crate::policy::{is_repaired_from_afar, repairs};

/// Metadata of a received fragment or whole datagram for delivery to the application.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentMeta {
    pub(super) sequence: SequenceNumber,
    pub(super) fragment: Fragment,
    /// For a retransmitted fragment, the sequence number under which its datagram was sent whole.
    pub(super) first_sequence: Option<SequenceNumber>,
    /// `None` if the ECN mark is one that the application's transport would not understand. The
    /// packet is then not delivered.
    pub(super) traffic_class: Option<TrafficClass>,
    pub(super) delivery: Delivery,
}

/// Packet of a congestion-controlled flow that waits for earlier ones.
#[derive(Debug)]
pub(super) struct HeldPacket {
    incoming: FragmentMeta,
    datagram: Box<[u8]>,
}

/// Reordering buffer of a congestion-controlled flow; exists only while packets wait.
pub(super) type ReorderBuffer = Option<Box<Resequencer<HeldPacket>>>;

impl Agent {
    /// Delivers a packet at once, or buffers it if the flow is congestion-controlled and earlier
    /// packets are missing. `before` is the highest sequence number before its arrival.
    pub(super) fn deliver(
        &mut self,
        id: ReceiveFlowId,
        incoming: FragmentMeta,
        datagram: &[u8],
        (arrival, before): (ArrivalOrder, Option<u64>),
        now: Time,
    ) {
        let flow = &self.receivers[id.0 as usize];
        let active = flow.active().filter(|_| flow.settings.traffic != Traffic::Datagrams);
        let number = incoming.sequence.number();
        let waits = active.is_some_and(|active| {
            active.reorder_buffer.is_some()
                || (arrival == ArrivalOrder::Ahead && active.tracker.is_wanted(number - 1))
        });
        if waits {
            self.deliver_in_order(id, incoming, datagram, before, now);
        } else {
            self.deliver_fragment(id, incoming, datagram, now);
        }
    }

    /// Buffers a packet behind a gap, and delivers those that wait for nothing any more. Packets do
    /// not wait for unprotected ones.
    fn deliver_in_order(
        &mut self,
        id: ReceiveFlowId,
        incoming: FragmentMeta,
        datagram: &[u8],
        before: Option<u64>,
        now: Time,
    ) {
        let until = now + self.reordering_hold(id, now);
        let flow = &mut self.receivers[id.0 as usize];
        let Some(active) = flow.active_mut() else {
            return;
        };
        let next = before.map_or(0, |before| before + 1);
        let order =
            active.reorder_buffer.get_or_insert_with(|| Box::new(Resequencer::new(next, HELD_BYTES_MAX)));
        let number = incoming.sequence.number();
        let first_reported = number.saturating_sub(UnprotectedMask::REACH.into()).max(order.next_number());
        for unprotected in (first_reported..number).filter(|number| active.unprotected.contains(*number)) {
            order.abandon(NumberRange { first: unprotected, length: 1 });
        }
        let bytes = u16::try_from(datagram.len()).expect("the length of datagrams is checked");
        let pushed = order.push(number, bytes, until, || HeldPacket { incoming, datagram: datagram.into() });
        if pushed != PushOutcome::Held {
            self.deliver_fragment(id, incoming, datagram, now);
        }
        self.release_in_order(id, now);
        let flow = &mut self.receivers[id.0 as usize];
        let order = flow.active().and_then(|active| active.reorder_buffer.as_ref());
        let waits = order.is_some_and(|order| order.next_number() <= number);
        flow.statistics.reordering_buffered += u64::from(waits);
    }

    /// Delivers buffered packets of a flow whose gap was filled, or that have waited long enough.
    pub(super) fn release_in_order(&mut self, id: ReceiveFlowId, now: Time) {
        loop {
            let flow = &mut self.receivers[id.0 as usize];
            let Some(order) = flow.active_mut().and_then(|active| active.reorder_buffer.as_mut()) else {
                return;
            };
            let next = order.next_number();
            let Some((number, held)) = order.pop(now) else {
                break;
            };
            flow.statistics.gaps_passed += u64::from(number > next);
            self.deliver_fragment(id, held.incoming, &held.datagram, now);
        }
        if let Some(active) = self.receivers[id.0 as usize].active_mut()
            && active.reorder_buffer.as_ref().is_some_and(|order| order.packets() == 0)
        {
            active.reorder_buffer = None;
        }
    }

    /// Returns the time for which packets of a congestion-controlled flow wait for a missing one.
    /// It is a quarter of the round trip to the sender if a repair can arrive within that time,
    /// otherwise zero.
    pub(super) fn reordering_hold(&self, id: ReceiveFlowId, now: Time) -> Duration {
        let flow = &self.receivers[id.0 as usize];
        let quarter = quarter(self.sessions.round_trip(flow.peer));
        let relays = self.egress_relays_of(id).into_iter().map(|(relay, _)| relay);
        let alive = relays.filter(|relay| self.relay_is_alive(*relay, now));
        let repair = alive
            .map(|relay| self.sessions.round_trip(relay))
            .min()
            .map(|relay| REORDERING_TIME + relay * flow.repair_round_trips());
        let service = flow.settings.service;
        // What the sender or the ingress relay sends again takes longer than a quarter round trip.
        let has_repairs_near = repairs(service) && !is_repaired_from_afar(service);
        let is_timely = has_repairs_near && repair.is_some_and(|repair| repair <= quarter);
        if is_timely { quarter } else { Duration::ZERO }
    }

    /// Delivers a whole datagram to the application, or passes a fragment to the reassembler and
    /// delivers the datagram that it completes. Drops packets with an ECN mark that the transport
    /// would not understand.
    fn deliver_fragment(&mut self, id: ReceiveFlowId, incoming: FragmentMeta, datagram: &[u8], now: Time) {
        let FragmentMeta { sequence, fragment, first_sequence, traffic_class, delivery } = incoming;
        let flow = &mut self.receivers[id.0 as usize];
        let Some(traffic_class) = traffic_class else {
            flow.statistics.marked_dropped += 1;
            return;
        };
        if fragment == Fragment::Whole {
            let meta = DeliveryMeta { flow: id, traffic_class, delivery };
            self.deliveries.add(meta, |out| out.extend_from_slice(datagram));
            return;
        }
        let is_known = first_sequence.is_some_and(|first_sequence| !flow.is_new(first_sequence));
        let (Some(active), statistics) = flow.active_and_statistics() else {
            return;
        };
        if let Some((traffic_class, whole)) =
            active.reassembler.insert(fragment, sequence, traffic_class, datagram)
        {
            if is_known {
                statistics.duplicates += 1;
                return;
            }
            if let Some(first_sequence) = first_sequence {
                // If the whole datagram arrives after all, it is a duplicate.
                statistics.lost += u64::from(active.tracker.is_missing(first_sequence.number()));
                active.tracker.on_packet(first_sequence.number(), now);
            }
            let meta = DeliveryMeta { flow: id, traffic_class, delivery };
            self.deliveries.add(meta, |out| out.extend_from_slice(whole));
        }
    }
}

impl ReceiveFlow {
    /// Returns the time for which a repair of a missing packet is useful, from the NACK on.
    pub(super) fn repair_lifetime(&self, round_trip: Duration) -> Duration {
        match self.settings.traffic {
            Traffic::Datagrams | Traffic::Mixture => self.lateness_budget(round_trip),
            Traffic::CongestionControlled => quarter(round_trip).min(self.lateness_budget(round_trip)),
        }
    }

    /// Returns the round trips between relay and receiver that a repair takes: one, or two if the
    /// relay needs packets of other receivers.
    fn repair_round_trips(&self) -> u64 {
        let is_helped = self.settings.service == Service::Coding && self.settings.rates.in_stream.is_none();
        if is_helped { 2 } else { 1 }
    }

    /// Returns true if later packets of an ordered flow were delivered before this one: a repair is
    /// of no use any more.
    pub(super) fn has_passed(&self, number: u64) -> bool {
        let is_ordered = self.settings.traffic == Traffic::CongestionControlled;
        is_ordered && self.active().is_some_and(|active| active.has_passed(number))
    }
}

/// Returns a quarter of a round trip: the reordering window of RACK (RFC 8985, section 6.2).
fn quarter(round_trip: Duration) -> Duration {
    round_trip / 4
}

impl ReceiveState {
    fn has_passed(&self, number: u64) -> bool {
        match &self.reorder_buffer {
            Some(order) => number < order.next_number(),
            None => self.tracker.highest().is_some_and(|highest| number <= highest),
        }
    }
}
