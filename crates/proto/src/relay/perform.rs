//! What the egress half wants done becomes packets.

use alloc::vec::Vec;

use byway_units::{Duration, Time};
use byway_wire::messages::{Confirm, CooperativeRequest, InStreamHead, InStreamRepair, Outage};
use byway_wire::packets::EnvelopeRole;
use byway_wire::{Message, Microseconds, RangeSet, SequenceNumber};

use super::Relay;
use super::egress::{Action, FlowSlot, Given};
use super::ingress::PathOutage;
use super::links::End;
use crate::outbox::Urgency;
use crate::session::Enveloped;

impl Relay {
    /// Carries out what the egress half wants.
    pub(super) fn perform_actions(&mut self, now: Time) {
        let mut actions = core::mem::take(&mut self.actions);
        for action in &actions {
            self.perform(action, now);
        }
        self.ask_all(&mut actions, now);
        actions.clear();
        self.actions = actions;
    }

    fn perform(&mut self, action: &Action, now: Time) {
        match *action {
            Action::Give { flow, sequence, packet, given, ecn } => {
                let Some((receiver, coded)) = self.links.receiver(flow).zip(self.egress.packet(packet, now))
                else {
                    return;
                };
                let (role, urgency) = match given {
                    Given::Cached => (EnvelopeRole::CachedRepair, Urgency::Scavenger),
                    Given::Cooperative => (EnvelopeRole::CooperativeRepair, Urgency::Scavenger),
                    Given::Forwarded => (EnvelopeRole::Forwarded, Urgency::Original),
                };
                let End { session, alias } = receiver;
                let owner = self.egress.owner(flow);
                let contents = Enveloped { role, alias, sequence_low: sequence.low(), coded, ecn, owner };
                self.sessions.send_envelope(session, &contents, urgency, now);
            }
            Action::InStream { flow, first, mask, place, length_symbol, payload } => {
                let Some((receiver, payload)) =
                    self.links.receiver(flow).zip(self.egress.packet(payload, now))
                else {
                    return;
                };
                let alias = receiver.alias;
                let head = InStreamHead { alias, first_low: first.low(), mask, place, length_symbol };
                let message = Message::InStreamRepair(InStreamRepair { head, payload });
                if let Some(owner) = self.egress.owner(flow) {
                    self.sessions.send_repair(receiver.session, &message, owner, now);
                }
            }
            Action::Outage { flow, is_dark } => self.tell_outage(flow, is_dark, now),
            Action::Ask { .. } | Action::Confirm { .. } => {}
        }
    }

    /// Lets the ingress relays of a flow know whether its direct path is dark.
    fn tell_outage(&mut self, flow: FlowSlot, is_dark: bool, now: Time) {
        let Some(key) = self.egress.key(flow) else {
            return;
        };
        for (port, alias) in self.ports.heard_as(key) {
            let is_fed = self.links.is_fed_by(key, self.ports.place(port));
            if let Some(session) = self.ports.session(port).filter(|_| is_fed) {
                self.sessions.say(session, &Message::Outage(Outage { alias, is_dark }), now);
            }
        }
        for slot in self.ports.own_flows(key) {
            self.ingress.set_dark(slot, PathOutage { is_dark, by_sender: false }, now);
        }
    }

    /// Sends requests, those to one receiver in as few messages as can be: one names many batches.
    fn ask_all(&mut self, actions: &mut Vec<Action>, now: Time) {
        actions.retain(|action| matches!(action, Action::Ask { .. } | Action::Confirm { .. }));
        actions.sort_by_key(|action| match *action {
            Action::Ask { flow, sequence, .. } => (0, flow, sequence),
            Action::Confirm { flow, sequence } => (1, flow, sequence),
            Action::Give { .. } | Action::InStream { .. } | Action::Outage { .. } => {
                unreachable!("these were performed")
            }
        });
        let mut gathered = Gathered::default();
        for action in actions.iter() {
            let (flow, sequence, patience) = match *action {
                Action::Ask { flow, sequence, patience } => (flow, sequence, Some(patience)),
                Action::Confirm { flow, sequence } => (flow, sequence, None),
                Action::Give { .. } | Action::InStream { .. } | Action::Outage { .. } => continue,
            };
            if !gathered.takes(flow, sequence, patience) {
                self.send_gathered(&gathered, now);
                gathered = Gathered::begin(flow, sequence, patience);
            }
        }
        self.send_gathered(&gathered, now);
    }

    fn send_gathered(&mut self, gathered: &Gathered, now: Time) {
        let Some(flow) = gathered.flow else {
            return;
        };
        let Some(End { session, alias }) = self.links.receiver(flow) else {
            return;
        };
        let ranges = gathered.ranges.ranges();
        let message = match gathered.patience {
            Some(patience) => {
                let patience = Microseconds::from_duration(patience);
                Message::CooperativeRequest(CooperativeRequest { alias, patience, ranges })
            }
            None => Message::Confirm(Confirm { alias, ranges }),
        };
        self.sessions.say(session, &message, now);
    }
}

/// Requests to one receiver about one flow.
#[derive(Default)]
struct Gathered {
    flow: Option<FlowSlot>,
    ranges: RangeSet,
    /// How long an answer is of use; `None` for a confirm.
    patience: Option<Duration>,
    last: Option<SequenceNumber>,
}

impl Gathered {
    fn begin(flow: FlowSlot, sequence: SequenceNumber, patience: Option<Duration>) -> Self {
        let mut ranges = RangeSet::new();
        assert!(ranges.insert(sequence), "an empty set has room");
        Self { flow: Some(flow), ranges, patience, last: Some(sequence) }
    }

    /// Adds a packet, if it goes into the same message.
    fn takes(&mut self, flow: FlowSlot, sequence: SequenceNumber, patience: Option<Duration>) -> bool {
        if self.flow != Some(flow) || self.patience.is_some() != patience.is_some() {
            return false;
        }
        if self.last == Some(sequence) {
            return true;
        }
        let added = self.ranges.insert(sequence);
        if added {
            self.last = Some(sequence);
            self.patience = self.patience.max(patience);
        }
        added
    }
}
