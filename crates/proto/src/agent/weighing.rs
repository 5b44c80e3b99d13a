//! Does the uplink carry every packet twice? Found out before copies fill it.

use byway_units::{Bytes, Rate, Time};
use byway_wire::Timestamp;

use super::send_flow::{SendFlow, SendFlowId};
use super::{Agent, Role};
use crate::limits::{ENVELOPE_OVERHEAD, IP_AND_UDP_BYTES};
use crate::session::SessionId;

impl SendFlow {
    /// Whether all its packets are copied, or covered by repair packets from here: what a line has to be fast enough for. Some
    /// packets now and then are no load.
    pub(super) const fn copies_all(&self) -> bool {
        let settings = &self.settings;
        let is_selective = settings.duplication.is_selective(settings.traffic);
        crate::policy::copies(settings.service) && !self.needs_relay() && !is_selective
    }
}

impl Agent {
    /// Notes what a packet of a flow takes of the line, given the bytes of its original as UDP payload and those that are coded.
    pub(super) fn note_load(
        &mut self,
        id: SendFlowId,
        original: usize,
        coded: usize,
        copied: bool,
        now: Time,
    ) {
        let flow = &self.senders[id.0 as usize];
        let (original, copy) = (on_the_line(original), on_the_line(coded + ENVELOPE_OVERHEAD));
        let (original, extras) = if flow.needs_relay() {
            (copy, Bytes::ZERO)
        } else if copied {
            (original, copy)
        } else if let Some(shape) = flow.own_shape() {
            let repairs = original * u64::from(shape.repair_packets());
            (original, Bytes::new(repairs.count() / u64::from(shape.source_packets())))
        } else {
            (original, Bytes::ZERO)
        };
        self.load.note(original, extras, now);
    }

    /// Whether the uplink carries every packet twice, as far as is known. On another, which may carry hardly more than a flow, a probe
    /// delays the packet that finds it there, and so has to go behind one; on this one it would only miss how packets wait, as none
    /// does that comes first after a pause.
    pub(super) fn has_room(&self) -> bool {
        let load = self.load.measured().with_extras;
        // All relays are reached by one uplink: one that is not weighed yet says nothing against what others do.
        let is_weighed = self.relays.iter().any(|relay| relay.scale.carries().is_some());
        self.relays.iter().any(|relay| !is_weighed || relay.scale.bears(load))
    }

    /// What flows that copy all their packets to a relay are registered to send, with the copies.
    fn expected_load(&mut self, place: usize) -> Rate {
        self.work.entries += self.senders.slots() as u64;
        let relay = self.relays[place].place;
        let begins_there = |flow: &SendFlow| {
            let path = flow.settings.paths.get(flow.registrations.in_use());
            flow.copies_all() && path.is_some_and(|path| path.ingress == relay)
        };
        let flows = self.senders.iter().filter(|(_, flow)| begins_there(flow));
        let bits: u64 = flows.map(|(_, flow)| flow.settings.rate.bits_per_second()).sum();
        Rate::from_bits_per_second(bits.saturating_mul(2))
    }

    /// Weighs the line to a relay, if it is not known to bear what is sent by it; while nothing is sent, and nobody is in the
    /// way, what may be sent.
    #[cold]
    pub(super) fn weigh(&mut self, place: usize, now: Time) {
        // What came with this input may be later than a train is waited for, whose end is not to be forgotten.
        self.relays[place].scale.handle_timeout(now);
        let load =
            if self.load.is_idle(now) { self.expected_load(place) } else { self.load.measured().with_extras };
        let relay = &self.relays[place];
        let session = relay.session;
        let is_usable = !relay.is_dead && !relay.is_queueing() && self.sessions.is_established(session, now);
        if load.is_zero() || !is_usable {
            return;
        }
        if relay.scale.carries().is_none() {
            // All relays are reached by one uplink.
            let known = self.relays.iter().filter_map(|relay| relay.scale.carries()).max();
            self.relays[place].scale.suppose(known);
        }
        let relay = &mut self.relays[place];
        if let Some(shape) = relay.scale.wants(load, now) {
            relay.scale.sent(shape, self.sessions.round_trip(session), now);
            self.sessions.send_train(session, shape, now);
        }
        self.plan_weighing(now);
    }

    fn plan_weighing(&mut self, now: Time) {
        let deadlines = self.relays.iter().filter_map(|relay| relay.scale.deadline());
        self.weighing_due = deadlines.filter(|at| *at > now).min();
    }

    /// Does what is due about lines.
    pub(super) fn weigh_in_time(&mut self, now: Time) {
        if self.weighing_due.is_none_or(|due| due > now) {
            return;
        }
        self.weighing_due = None;
        for place in 0..self.relays.len() {
            self.relays[place].scale.handle_timeout(now);
            self.weigh(place, now);
        }
        self.plan_weighing(now);
    }

    /// A probe of a train arrived at a relay. The line is weighed behind the last one of an input: that may take a look at
    /// all flows.
    pub(super) fn weighed(
        &mut self,
        session: SessionId,
        (place, received): (usize, Timestamp),
        is_last: bool,
        now: Time,
    ) {
        if let Some(relay) = self.relay_of(session) {
            relay.scale.arrived(place, received.micros(), now);
            if is_last {
                self.weigh_line_of(session, now);
            }
        }
    }

    /// Weighs the line to the relay of a session, if there is anything to learn.
    pub(super) fn weigh_line_of(&mut self, session: SessionId, now: Time) {
        if let Some(Role::Relay(place)) = self.roles.get(&session).copied() {
            self.weigh(place, now);
        }
    }

    /// Losses are reported of a flow: if its copies were held back as the line is narrow, that may have changed.
    pub(super) fn doubt_narrow_line(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let path = flow.settings.paths.get(flow.registrations.in_use()).filter(|_| flow.copies_all());
        let Some(place) = path.and_then(|path| self.relay_places.get(&path.ingress).copied()) else {
            return;
        };
        let load = self.load.measured().with_extras;
        if !self.relays[place].scale.bears(load) {
            self.relays[place].scale.doubt(load, now);
            self.weigh(place, now);
        }
    }
}

/// What a packet takes of the line, given the bytes of its UDP payload.
pub(super) const fn on_the_line(payload: usize) -> Bytes {
    Bytes::new((payload + IP_AND_UDP_BYTES) as u64)
}
