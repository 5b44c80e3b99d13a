//! Who may use the relay, for what, and what flows are called on each way.

use byway_units::{AgentId, Time};
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasKnowledge, AliasKnowledges, Aliases, AliasesKnown, FlowRole,
    Refusal, Register, Registered, Unregister, Unregistered,
};
use byway_wire::seal::{PublicKey, ReceivedInitiation, Statement};
use byway_wire::{Alias, FlowKey, Grant, KilobitsPerSecond, Message, Messages, Receiver};

use super::Relay;
use super::ingress::{EgressPort, GroupKey, Onward, Registration};
use super::links::FlowRef;
use super::settings::Authority;
use crate::limits::ALIASES_PER_MESSAGE;
use crate::parts::placement::{CodingClass, PlacedFlow};
use crate::policy::CodingRates;
use crate::session::{Session, SessionId};

impl Relay {
    /// Whether a stranger is entitled to a session: the static configuration names its key, or it shows a grant.
    pub(super) fn entitles(&self, initiation: &ReceivedInitiation, now: Time) -> bool {
        match &self.authority {
            Authority::Static(grants) => grants.iter().any(|grant| names(grant, &initiation.peer).is_some()),
            Authority::Controller(_) => Messages::new(&initiation.messages).any(|message| match message {
                Ok(Message::Register(register)) => {
                    let grant = self.valid_grant(&register, now);
                    grant.is_ok_and(|grant| names(&grant, &initiation.peer).is_some())
                }
                _ => false,
            }),
        }
    }

    /// The grant that a registration rests on.
    fn valid_grant(&self, register: &Register<'_>, now: Time) -> Result<Grant, Refusal> {
        match &self.authority {
            Authority::Static(grants) => {
                let mut covering = grants.iter().filter(|grant| covers(grant, register.flow_key));
                covering.find(|grant| self.serves(grant, register.role)).copied().ok_or(Refusal::NoGrant)
            }
            Authority::Controller(key) => {
                if register.grant.is_empty() {
                    return Err(Refusal::NoGrant);
                }
                let grant = Grant::parse(register.grant).map_err(|_| Refusal::GrantInvalid)?;
                key.verify(Statement::Grant, &grant.fields(), &grant.signature)
                    .map_err(|_| Refusal::GrantInvalid)?;
                if grant.not_after_unix_seconds < self.sessions.unix_seconds(now) {
                    return Err(Refusal::GrantExpired);
                }
                Ok(grant)
            }
        }
    }

    /// Whether the grant names this relay shard, for a flow's sender or receiver.
    ///
    /// A receiver may also be near the ingress relay, which then sends on what it gets itself.
    fn serves(&self, grant: &Grant, role: FlowRole) -> bool {
        let here = |relay: &byway_wire::GrantedRelay| relay.relay == self.number && relay.shard == self.shard;
        here(&grant.ingress) || (role == FlowRole::Receiver && here(&grant.egress))
    }

    /// Registers a flow for an agent, or says why not.
    pub(super) fn register(&mut self, session: SessionId, register: &Register<'_>, now: Time) {
        let outcome = self.try_register(session, register, now);
        if outcome.is_err() {
            self.counters.registrations_refused += 1;
        }
        let (flow_key, role) = (register.flow_key, register.role);
        self.sessions.say(session, &Message::Registered(Registered { flow_key, role, outcome }), now);
    }

    fn try_register(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        now: Time,
    ) -> Result<Alias, Refusal> {
        let key = register.flow_key;
        let sends = register.role == FlowRole::Sender;
        if let Some((alias, _)) = self.links.registered(session, key, sends) {
            return Ok(alias);
        }
        let grant = self.valid_grant(register, now)?;
        let peer = self.sessions.get(session).map(|session| session.remote.key);
        let entitled = if sends { grant.sender_key } else { grant.receiver_key };
        if !covers(&grant, key) || peer.is_none_or(|peer| *peer.bytes() != entitled) {
            return Err(Refusal::GrantInvalid);
        }
        if !self.serves(&grant, register.role) {
            return Err(Refusal::OtherRelay);
        }
        if !grant.services.allow(register.service) {
            return Err(Refusal::ServiceNotGranted);
        }
        if !self.links.has_room(session) {
            return Err(Refusal::NoRoom);
        }
        if let Receiver::Agent(receiver) = key.receiver() {
            self.links.connect(key.sender(), receiver);
        }
        if sends {
            self.register_sender(session, register, &grant, now)
        } else {
            Ok(self.register_receiver(session, register, &grant, now))
        }
    }

    fn register_sender(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        grant: &Grant,
        now: Time,
    ) -> Result<Alias, Refusal> {
        let egress = (grant.egress.relay, grant.egress.shard);
        let Some(port) = self.ports.towards(egress, (self.number, self.shard)) else {
            return Err(Refusal::OtherRelay);
        };
        let key = register.flow_key;
        let rates = CodingRates { in_stream: register.in_stream, batch: register.batch };
        if !rates.are_kept() {
            return Err(Refusal::NoRoom);
        }
        let class = class_of(grant, register);
        let group = rates.batch.map(|shape| GroupKey {
            egress: port,
            group: grant.coding_group.number(),
            shape: (shape.source_packets(), shape.repair_packets()),
        });
        if !self.ingress.has_room(group) {
            return Err(Refusal::NoRoom);
        }
        let slot = self.ingress.register(
            |slot| Registration {
                key,
                service: register.service,
                rates,
                rate: register.rate.rate().min(grant.rate.rate()),
                group,
                placed: PlacedFlow { slot: slot.0, class, correlation: correlation_of(key) },
                duplicates: register.options.relay_side_duplication,
                is_selective: register.options.selective,
            },
            now,
        );
        let Some(alias) = self.ports.announce(port, slot, key, now) else {
            self.ingress.unregister(slot);
            return Err(Refusal::NoRoom);
        };
        let known = self.ports.get(port).session.is_none() && !self.links.receivers_of(key).is_empty();
        self.ingress.add_onward(slot, Onward { port, alias, known });
        Ok(self.links.add(session, key.sender(), key, FlowRef::Sent(slot)))
    }

    fn register_receiver(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        grant: &Grant,
        now: Time,
    ) -> Alias {
        let key = register.flow_key;
        let rate = register.rate.rate().min(grant.rate.rate());
        let slot = self.egress.register(key, register.service, rate, register.consent, now);
        let agent = match key.receiver() {
            Receiver::Agent(agent) => agent,
            Receiver::Group(_) => AgentId::new(session.0),
        };
        let alias = self.links.add(session, agent, key, FlowRef::Received(slot));
        for (port, alias) in self.ports.heard_as(key) {
            self.say_known(port, alias, true, now);
        }
        self.ports.announce_soon(now);
        alias
    }

    /// Forgets a flow of an agent. That is said also if there was none: the first answer may have been lost.
    pub(super) fn unregister(&mut self, session: SessionId, unregister: &Unregister, now: Time) {
        let Unregister { flow_key, role } = *unregister;
        if let Some((alias, _)) = self.links.registered(session, flow_key, role == FlowRole::Sender) {
            self.forget(session, alias, now);
        }
        self.sessions.say(session, &Message::Unregistered(Unregistered { flow_key, role }), now);
    }

    fn forget(&mut self, session: SessionId, alias: Alias, now: Time) {
        match self.links.remove(session, alias) {
            Some(FlowRef::Sent(slot)) => {
                for onward in self.ingress.onward(slot) {
                    self.ports.withdraw(onward.port, onward.alias);
                }
                self.ingress.unregister(slot);
            }
            Some(FlowRef::Received(slot)) => {
                let key = self.egress.key(slot);
                self.egress.unregister(slot, now);
                if let Some(key) = key.filter(|key| self.links.receivers_of(*key).is_empty()) {
                    self.say_unheard(key, now);
                }
            }
            None => {}
        }
    }

    /// Lets the ingress relays of a flow know that nobody here receives it any more.
    fn say_unheard(&mut self, key: FlowKey, now: Time) {
        for (port, alias) in self.ports.heard_as(key) {
            self.say_known(port, alias, false, now);
        }
        for onward in self.ports.own_onward(key) {
            self.learn(onward.port, onward.alias, false);
        }
        self.ports.announce_soon(now);
    }

    /// A session begins; what an earlier run of the peer had registered is void.
    pub(super) fn established(&mut self, session: SessionId, fresh: bool, now: Time) {
        if !fresh {
            return;
        }
        match self.ports.of_session(session) {
            Some(port) => {
                self.egress.forget_batches(port.0);
                for slot in self.ports.forget(port, now) {
                    self.ingress.set_known(slot, port, false);
                }
                self.announce(now);
            }
            None => self.forget_all(session, now),
        }
    }

    /// An agent leaves. It may be on its way back already.
    pub(super) fn closed(&mut self, session: SessionId, now: Time) {
        if self.sessions.get(session).is_some_and(Session::is_over) {
            self.ended(session, now);
        } else if self.ports.of_session(session).is_none() {
            self.forget_all(session, now);
        }
    }

    fn forget_all(&mut self, session: SessionId, now: Time) {
        for alias in self.links.aliases(session) {
            self.forget(session, alias, now);
        }
    }

    /// An agent is gone for good.
    pub(super) fn ended(&mut self, session: SessionId, now: Time) {
        if self.ports.of_session(session).is_some() {
            return;
        }
        self.forget_all(session, now);
        self.links.remove_session(session);
        self.sessions.remove(session);
    }

    /// Announces the aliases that are due.
    pub(super) fn announce(&mut self, now: Time) {
        if self.ports.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut again = false;
        for port in self.ports.all() {
            again |= match self.ports.get(port).session {
                Some(session) => self.announce_to(port, session, now),
                None => self.announce_here(port),
            };
        }
        self.ports.announced(again, now);
    }

    fn announce_to(&mut self, port: EgressPort, session: SessionId, now: Time) -> bool {
        let unknown: alloc::vec::Vec<_> = self.ports.unknown(port).collect();
        if !self.sessions.is_established(session, now) {
            return !unknown.is_empty();
        }
        for chunk in unknown.chunks(ALIASES_PER_MESSAGE) {
            let mut announcements = chunk.iter().filter_map(|(alias, announced)| {
                let (service, rate) = self.ingress.service_of(announced.flow)?;
                let rate = KilobitsPerSecond::from_rate(rate);
                Some(AliasAnnouncement { alias: *alias, flow_key: announced.key, service, rate })
            });
            let mut scratch = [[0; AliasAnnouncement::BYTES]; ALIASES_PER_MESSAGE];
            let flows = AliasAnnouncements::collect(&mut announcements, &mut scratch);
            self.sessions.say(session, &Message::Aliases(Aliases { flows }), now);
        }
        !unknown.is_empty()
    }

    /// The flows that this relay sends to itself are known as soon as a receiver is.
    fn announce_here(&mut self, port: EgressPort) -> bool {
        let unknown: alloc::vec::Vec<_> = self.ports.unknown(port).collect();
        let mut left = false;
        for (alias, announced) in unknown {
            let known = !self.links.receivers_of(announced.key).is_empty();
            self.learn(port, alias, known);
            left |= !known;
        }
        left
    }

    /// Another relay says what it calls its flows; the answer says whether they have receivers here.
    pub(super) fn aliases(&mut self, port: EgressPort, session: SessionId, aliases: &Aliases<'_>, now: Time) {
        for announced in aliases.flows.iter() {
            self.ports.hear(port, announced.alias, announced.flow_key);
            let known = !self.links.receivers_of(announced.flow_key).is_empty();
            debug_assert_eq!(self.ports.get(port).session, Some(session));
            self.say_known(port, announced.alias, known, now);
        }
    }

    fn say_known(&mut self, port: EgressPort, alias: Alias, has_receiver: bool, now: Time) {
        let Some(session) = self.ports.get(port).session else {
            return;
        };
        let mut scratch = [[0; AliasKnowledge::BYTES]; 1];
        let mut knowledge = core::iter::once(AliasKnowledge { alias, has_receiver });
        let aliases = AliasKnowledges::collect(&mut knowledge, &mut scratch);
        self.sessions.say(session, &Message::AliasesKnown(AliasesKnown { aliases }), now);
    }

    /// Another relay says which of the aliases it was told have receivers.
    pub(super) fn aliases_known(&mut self, port: EgressPort, known: &AliasesKnown<'_>) {
        for knowledge in known.aliases.iter() {
            self.learn(port, knowledge.alias, knowledge.has_receiver);
        }
    }

    fn learn(&mut self, port: EgressPort, alias: Alias, has_receiver: bool) {
        if let Some(announced) = self.ports.announced_mut(port, alias) {
            announced.known = has_receiver;
            let flow = announced.flow;
            self.ingress.set_known(flow, port, has_receiver);
        }
    }
}

/// In which role the grant names a key, if at all.
fn names(grant: &Grant, key: &PublicKey) -> Option<FlowRole> {
    if grant.sender_key == *key.bytes() {
        Some(FlowRole::Sender)
    } else if grant.receiver_key == *key.bytes() {
        Some(FlowRole::Receiver)
    } else {
        None
    }
}

/// Whether the grant is for this flow.
fn covers(grant: &Grant, key: FlowKey) -> bool {
    grant.sender == key.sender()
        && grant.receiver == key.receiver()
        && (grant.first_flow..=grant.last_flow).contains(&key.flow())
}

/// Whom a flow may be coded with: all who agreed, or its own tenant's flows.
fn class_of(grant: &Grant, register: &Register<'_>) -> CodingClass {
    if grant.sharing && register.options.coded_with_other_tenants {
        CodingClass::SHARED
    } else {
        // Tenant numbers begin at 0, which is the class of those who share.
        CodingClass::new(grant.tenant.number().wrapping_add(1).max(1))
    }
}

/// Flows to one receiver are likely to be lost together: their last link is the same.
fn correlation_of(key: FlowKey) -> u32 {
    match key.receiver() {
        Receiver::Agent(agent) => agent.number().wrapping_add(1),
        Receiver::Group(_) => 0,
    }
}
