//! Other relays come and go while a relay runs.

use byway_units::{RelayId, Time};
use byway_wire::messages::{Close, CloseReason, FlowRole, Refusal, Registered};
use byway_wire::seal::{PreSharedKey, Purpose};
use byway_wire::{GrantedRelay, Message, Shard};

use super::Relay;
use super::ingress::{EgressPort, FlowSlot};
use super::links::End;
use super::settings::OtherRelay;
use crate::outbox::Urgency;
use crate::session::{Remote, SessionId};

impl Relay {
    /// Adds a shard of another relay, and begins a session at once: a relay that restarted is known again as soon as it is
    /// back. One that is known is from now on at this address, and under this key; flows to and from it go on. A key that
    /// another relay has is ignored.
    pub fn add_relay(&mut self, other: &OtherRelay, now: Time) {
        match self.ports.find((other.number, other.shard)) {
            None => {
                if let Some(session) = self.begin_session(other, now) {
                    self.ports.add_relay(other.number, other.shard, session);
                    self.ports.announce_soon(now);
                }
            }
            Some(port) => {
                if let Some(before) = self.ports.session(port) {
                    self.change_relay(port, before, other, now);
                }
            }
        }
        self.flush(now);
    }

    /// Begins a session with another relay; `None` if its key is known. Of two that know each other, the one with the
    /// smaller key keeps the session up.
    fn begin_session(&mut self, other: &OtherRelay, now: Time) -> Option<SessionId> {
        if self.sessions.find(other.key, Purpose::RelayToRelay, other.shard).is_some() {
            return None;
        }
        let remote = Remote {
            key: other.key,
            purpose: Purpose::RelayToRelay,
            shard: other.shard,
            pre_shared: PreSharedKey::default(),
            addresses: alloc::vec![other.address],
            keep: self.sessions.public_key() < other.key,
        };
        let session = self.sessions.add(remote, now);
        self.sessions.connect(session, &[], now);
        Some(session)
    }

    fn change_relay(&mut self, port: EgressPort, before: SessionId, other: &OtherRelay, now: Time) {
        if self.sessions.get(before).is_some_and(|session| session.remote.key == other.key) {
            self.sessions.move_to(before, other.address, now);
        } else if let Some(session) = self.begin_session(other, now) {
            self.sessions.remove(before);
            self.ports.replace_session(port, session);
            self.began_anew(port, now);
        }
    }

    /// Removes a shard of another relay. Flows that go there are forgotten, and their senders told; what comes from there is
    /// not taken any more. It is not an error if the relay is not known.
    pub fn remove_relay(&mut self, number: RelayId, shard: Shard, now: Time) {
        let port = self.ports.find((number, shard));
        let Some((port, session)) = port.and_then(|port| Some((port, self.ports.session(port)?))) else {
            return;
        };
        for slot in self.ports.flows(port) {
            self.close_way(slot, port, now);
        }
        self.egress.forget_ingress(port.0);
        self.ports.remove_relay(port);
        if self.sessions.is_established(session, now) {
            let close = Message::Close(Close { reason: CloseReason::NoLongerGranted });
            self.sessions.send_alone(session, &close, Urgency::Original, now);
        }
        self.sessions.remove(session);
        self.flush(now);
    }

    /// A flow goes to another relay no more. One that then goes nowhere is forgotten.
    fn close_way(&mut self, slot: FlowSlot, port: EgressPort, now: Time) {
        self.ingress.remove_onward(slot, port);
        if !self.ingress.onward(slot).is_empty() {
            return;
        }
        let Some((End { session, alias }, flow_key)) = self.links.sender(slot).zip(self.ingress.key(slot))
        else {
            return;
        };
        let revision = self.links.revision(session, alias);
        self.forget(session, alias, now);
        let outcome = Err(Refusal::OtherRelay);
        let (relay, shard) = self.ports.place(port);
        let far_relay = GrantedRelay { relay, shard };
        let role = FlowRole::Sender;
        let registered = Registered { flow_key, role, far_relay, outcome, revision: Some(revision) };
        self.sessions.say(session, &Message::Registered(registered), now);
    }
}
