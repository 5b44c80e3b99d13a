//! Which flows use the relay, for what, and what they are called on each way.

use arrayvec::ArrayVec;
use byway_units::{RelayId, Time};
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasKnowledge, AliasKnowledges, Aliases, AliasesKnown, FlowRole,
    Refusal, Register, Registered, Unregister, Unregistered,
};
use byway_wire::{
    Alias, FlowKey, Grant, GrantedRelay, KilobitsPerSecond, Message, Receiver, Service, Shard, TenantId,
};

use super::Relay;
use super::grants::{Grants, Ungranted, is_sender_of_group};
use super::ingress::{Ceiling, EgressPort, FlowSlot, GroupKey, Onward, Registration};
use super::links::{EndedRegistration, FlowRef, RegistrationKey};
use super::ports::Announced;
use crate::limits::{ALIASES_PER_MESSAGE, DATAGRAM_WORK_MAX};
use crate::parts::placement::{CodingClass, PlacedFlow};
use crate::policy::{CodingRates, copies, repairs};
use crate::session::{Session, SessionId};

impl Relay {
    /// Registers a flow for an agent, or says why not.
    pub(super) fn register(&mut self, session: SessionId, register: &Register<'_>, now: Time) {
        let mut revision = register.revision.unwrap_or(0);
        let outcome = match self.try_register(session, register, now) {
            Ok(alias) => {
                revision = self.links.revision(session, alias);
                self.reaches(session, alias)
            }
            Err(ungranted) if ungranted == Ungranted::Forged && self.links.forges_too_often(session) => {
                self.counters.registrations_refused += 1;
                self.expel(session, now);
                return;
            }
            Err(ungranted) => Err(ungranted.refusal()),
        };
        self.counters.registrations_refused += u64::from(outcome.is_err());
        let Register { flow_key, role, far_relay, .. } = *register;
        let registered = Registered { flow_key, role, far_relay, outcome, revision: Some(revision) };
        self.sessions.say(session, &Message::Registered(registered), now);
    }

    fn try_register(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        now: Time,
    ) -> Result<Alias, Ungranted> {
        let key = register.flow_key;
        let sends = register.role == FlowRole::Sender;
        self.work.entries += 1;
        let known = self.links.registered(session, &registration_key(register));
        if let Some((alias, flow)) = known {
            if is_earlier(register.revision.unwrap_or(0), self.links.revision(session, alias)) {
                return Ok(alias);
            }
            if !self.is_news(session, alias, flow, register) {
                self.links.set_revision(session, alias, register.revision.unwrap_or(0));
                return Ok(alias);
            }
        }
        let peer = self.sessions.get(session).ok_or(Refusal::NoGrant)?.remote.key;
        let grants = self.verified_grants(register, &peer, now)?;
        self.budgets.set_tenant(session, grants[0].tenant, now);
        if let Some((alias, flow)) = known {
            if !self.is_served_otherwise(flow, register.service) {
                self.renew(session, alias, flow, key, &grants, now)?;
                self.links.set_revision(session, alias, register.revision.unwrap_or(0));
                return Ok(alias);
            }
            self.forget(session, alias, now);
        }
        if !self.links.has_room(session) {
            return Err(Refusal::NoRoom.into());
        }
        let victim = self.check_flow_quota(session, grants[0].tenant)?;
        self.work.registrations += 1;
        let flow = if sends {
            self.register_sender(session, register, &grants, now)?
        } else {
            self.register_receiver(session, register, &grants[0], now)?
        };
        if let Some(victim) = victim {
            self.evict_flow(victim, now);
        }
        let other = if sends { grants[0].egress } else { grants[0].ingress };
        let end = self.ends_at(&grants[0]);
        let places = self.links.places(session);
        let alias = self.links.add(session, key, flow, (other.relay, other.shard), end);
        self.quotas.settle_flows(session, places, self.links.places(session));
        self.links.set_revision(session, alias, register.revision.unwrap_or(0));
        self.set_round_trip(flow, session);
        if !sends {
            self.feed(key, &grants[0], now);
            if self.is_of_use_here(key) {
                self.learn_here(key, true, now);
            }
        }
        Ok(alias)
    }

    /// Lets the packets of a flow come from the ingress relays that its receiver's grant names, and from nowhere else.
    fn feed(&mut self, key: FlowKey, grant: &Grant, now: Time) {
        for ingress in self.ingresses(key, grant) {
            self.links.add_feeder(key, (ingress.relay, ingress.shard));
        }
        for (port, alias) in self.ports.heard_as(key) {
            self.work.entries += 1;
            let is_fed = self.links.is_fed_by(key, self.ports.place(port));
            self.ports.set_fed(port, alias, is_fed);
            self.say_known(port, alias, is_fed && !self.egress.is_barred(key), now);
        }
    }

    /// Whether a registration says more than the one before: its grant lasts longer, leads a group's packets to another
    /// egress relay, or lets a flow's packets come from another ingress relay.
    fn is_news(&self, session: SessionId, alias: Alias, flow: FlowRef, register: &Register<'_>) -> bool {
        let Ok(grant) = Grant::parse(register.grant) else {
            return self.is_served_otherwise(flow, register.service);
        };
        let leads_elsewhere = match flow {
            FlowRef::Sent(slot) if is_sender_of_group(register) => {
                !self.leads_to(slot, (grant.egress.relay, grant.egress.shard))
            }
            FlowRef::Sent(_) => self.is_served_otherwise(flow, register.service),
            FlowRef::Received(_) => {
                let ingress = (grant.ingress.relay, grant.ingress.shard);
                !self.links.is_fed_by(register.flow_key, ingress)
                    || self.is_served_otherwise(flow, register.service)
            }
        };
        leads_elsewhere || self.links.ends_at(session, alias) < self.ends_at(&grant)
    }

    /// Whether a flow that an agent sends is to be served in another way than before, or one that it receives is to be repaired
    /// from now on: it then begins anew here.
    fn is_served_otherwise(&self, flow: FlowRef, service: Service) -> bool {
        match flow {
            FlowRef::Sent(slot) => self.ingress.service_of(slot).is_some_and(|(known, _)| known != service),
            FlowRef::Received(slot) => {
                repairs(service) && self.egress.service(slot).is_some_and(|known| !repairs(known))
            }
        }
    }

    fn leads_to(&self, slot: FlowSlot, egress: (RelayId, Shard)) -> bool {
        self.ingress.onward(slot).iter().any(|onward| self.ports.place(onward.port) == egress)
    }

    /// Lets a flow last as long as new grants say, and go where they lead.
    fn renew(
        &mut self,
        session: SessionId,
        alias: Alias,
        flow: FlowRef,
        key: FlowKey,
        grants: &Grants,
        now: Time,
    ) -> Result<(), Refusal> {
        if let FlowRef::Sent(slot) = flow {
            self.ingress.set_ceiling(slot, &Ceiling::of(&grants[0]), now);
            if matches!(key.receiver(), Receiver::Group(_)) {
                self.lead_on(slot, key, grants, now)?;
            }
        }
        if matches!(flow, FlowRef::Received(_)) {
            self.feed(key, &grants[0], now);
        }
        self.links.renew(session, alias, self.ends_at(&grants[0]));
        Ok(())
    }

    fn register_sender(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        grants: &Grants,
        now: Time,
    ) -> Result<FlowRef, Refusal> {
        let key = register.flow_key;
        let grant = &grants[0];
        // Of what takes the direct path alone nothing comes: it is registered so that its agents are known here.
        let grants = if copies(register.service) { grants.as_slice() } else { &[] };
        let port = self.port_of(grant)?;
        let in_group = matches!(key.receiver(), Receiver::Group(_));
        // A batch that covers a packet of a group could repair it for one of the receivers only.
        let rates =
            CodingRates { in_stream: register.in_stream, batch: register.batch.filter(|_| !in_group) };
        if !rates.are_kept() {
            return Err(Refusal::NoRoom);
        }
        let crosses = !register.options.sender_makes_repairs;
        let group = rates.batch.filter(|_| crosses).map(|shape| GroupKey {
            egress: port,
            group: grant.coding_group.number(),
            shape: (shape.source_packets(), shape.repair_packets()),
        });
        self.ingress.check_room(group, grant.tenant).inspect_err(|refusal| {
            self.counters.quota_flows += u64::from(*refusal == Refusal::QuotaReached);
        })?;
        let class = self.class_within(register.budget.duration());
        let holder = self.ingress.holder(session.0, grant.tenant);
        let slot = self.ingress.register(
            |slot| Registration {
                key,
                holder,
                service: register.service,
                rates,
                rate: register.rate.rate().min(grant.rate.rate()),
                latency_budget: register.budget.duration(),
                ceiling: Ceiling::of(grant),
                group,
                placed: placed(slot, grant, register),
                tenant: CodingClass::of_tenant(grant.tenant),
                owned_by: grant.tenant,
                duplicates: register.options.relay_side_duplication,
                makes_repairs: register.options.sender_makes_repairs,
                is_selective: register.options.selective,
                class,
            },
            now,
        );
        if let Err(refusal) = self.lead_on(slot, key, grants, now) {
            self.forget_sent(slot, now);
            return Err(refusal);
        }
        Ok(FlowRef::Sent(slot))
    }

    fn port_of(&mut self, grant: &Grant) -> Result<EgressPort, Refusal> {
        let egress = (grant.egress.relay, grant.egress.shard);
        self.ports.towards(egress, (self.number, self.shard)).ok_or(Refusal::OtherRelay)
    }

    /// Leads a flow's copies to the egress relays of its grants, where they do not go yet.
    fn lead_on(&mut self, slot: FlowSlot, key: FlowKey, grants: &[Grant], now: Time) -> Result<(), Refusal> {
        for grant in grants {
            if self.leads_to(slot, (grant.egress.relay, grant.egress.shard)) {
                continue;
            }
            let port = self.port_of(grant)?;
            if self.ingress.onward(slot).is_full() {
                return Err(Refusal::NoRoom);
            }
            let alias = self.ports.announce(port, (slot, grant.tenant), key, now);
            let alias = alias
                .inspect_err(|refusal| self.count_alias_refused(*refusal, port, (grant.tenant, key), now))?;
            let is_here = self.ports.session(port).is_none();
            let known = is_here && self.is_of_use_here(key);
            self.ingress.add_onward(slot, Onward { port, alias, known });
            if known {
                self.learn(port, alias, true, now);
            }
        }
        Ok(())
    }

    /// Counts that a flow gets no alias, and has the tenant that has most of them give one up if another has less than its share.
    fn count_alias_refused(
        &mut self,
        refusal: Refusal,
        port: EgressPort,
        flow: (TenantId, FlowKey),
        now: Time,
    ) {
        match refusal {
            Refusal::QuotaReached => self.counters.quota_flows += 1,
            _ => self.evict_alias(port, flow, now),
        }
    }

    fn register_receiver(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        grant: &Grant,
        now: Time,
    ) -> Result<FlowRef, Refusal> {
        if !self.egress.has_room() {
            return Err(Refusal::NoRoom);
        }
        let rate = register.rate.rate().min(grant.rate.rate());
        let (key, service) = (register.flow_key, register.service);
        let holder = self.egress.holder(session.0, grant.tenant);
        let slot = self.egress.register((key, holder), service, rate, register.consent, now);
        self.egress.set_class(slot, self.class_within(register.budget.duration()));
        Ok(FlowRef::Received(slot))
    }

    /// Forgets a flow of an agent. That is said also if there was none: the first answer may have been lost.
    pub(super) fn unregister(&mut self, session: SessionId, unregister: &Unregister, now: Time) {
        let Unregister { flow_key, role, far_relay } = *unregister;
        let far = far_relay.map(|far| (far.relay, far.shard));
        let key = RegistrationKey { flow: flow_key, sends: role == FlowRole::Sender, far };
        self.work.entries += 1;
        while let Some((alias, _)) = self.links.registered(session, &key) {
            self.forget(session, alias, now);
        }
        let unregistered = Unregistered { flow_key, role, far_relay };
        self.sessions.say(session, &Message::Unregistered(unregistered), now);
    }

    pub(super) fn forget(&mut self, session: SessionId, alias: Alias, now: Time) {
        self.work.registrations += 1;
        let places = self.links.places(session);
        let removed = self.links.remove(session, alias, now);
        self.quotas.settle_flows(session, places, self.links.places(session));
        match removed {
            Some((_, FlowRef::Sent(slot))) => self.forget_sent(slot, now),
            Some((key, FlowRef::Received(slot))) => {
                self.egress.unregister(slot);
                if self.links.receivers_of(key).is_empty() {
                    self.say_unheard(key, now);
                }
            }
            None => {}
        }
    }

    fn forget_sent(&mut self, slot: FlowSlot, now: Time) {
        for onward in self.ingress.onward(slot) {
            self.ports.withdraw(onward.port, onward.alias, now);
        }
        self.ingress.unregister(slot, now);
    }

    /// Forgets flows whose grants have ended, and tells their agents, until that has cost as much work as one datagram may; the rest
    /// stays due.
    pub(super) fn end_grants(&mut self, now: Time) {
        let end = self.work().units() + DATAGRAM_WORK_MAX;
        while self.work().units() < end
            && let Some(ended) = self.links.first_ended(now)
        {
            let EndedRegistration { session, alias, key, sends, far, revision } = ended;
            self.counters.grants_ended += 1;
            self.forget(session, alias, now);
            let role = if sends { FlowRole::Sender } else { FlowRole::Receiver };
            let far_relay = GrantedRelay { relay: far.0, shard: far.1 };
            let outcome = Err(Refusal::GrantExpired);
            let registered = Registered { flow_key: key, role, far_relay, outcome, revision: Some(revision) };
            self.sessions.say(session, &Message::Registered(registered), now);
        }
    }

    /// Lets the ingress relays of a flow know that nothing of it is of use here any more.
    pub(super) fn say_unheard(&mut self, key: FlowKey, now: Time) {
        for (port, alias) in self.ports.heard_as(key) {
            self.work.entries += 1;
            self.ports.set_fed(port, alias, false);
            self.say_known(port, alias, false, now);
        }
        self.learn_here(key, false, now);
    }

    /// The flows that this relay sends to itself are known as soon as a receiver is.
    fn learn_here(&mut self, key: FlowKey, has_receiver: bool, now: Time) {
        for (port, alias) in self.ports.own_onward(key) {
            self.work.entries += 1;
            self.learn(port, alias, has_receiver, now);
        }
    }

    /// A session begins; what an earlier run of the peer had registered is void.
    pub(super) fn established(&mut self, session: SessionId, fresh: bool, now: Time) {
        if !fresh {
            return;
        }
        match self.ports.of_session(session) {
            Some(port) => self.began_anew(port, now),
            None => self.forget_all(session, now),
        }
    }

    /// Another relay knows nothing of what was agreed with it.
    pub(super) fn began_anew(&mut self, port: EgressPort, now: Time) {
        self.egress.forget_ingress(port.0);
        for slot in self.ports.forget(port, now) {
            self.ingress.set_known(slot, port, false);
        }
        self.announce(now);
    }

    /// An agent leaves. It may be on its way back already.
    pub(super) fn closed(&mut self, session: SessionId, now: Time) {
        if self.sessions.get(session).is_some_and(Session::is_over) {
            self.ended(session, now);
        } else if self.ports.of_session(session).is_none() {
            self.forget_all(session, now);
        }
    }

    pub(super) fn forget_all(&mut self, session: SessionId, now: Time) {
        for alias in self.links.aliases(session) {
            self.forget(session, alias, now);
        }
    }

    /// Announces the aliases that are due.
    pub(super) fn announce(&mut self, now: Time) {
        if self.ports.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut again = false;
        for port in self.ports.all() {
            let session = self.ports.session(port);
            again |= session.is_some_and(|session| self.announce_to(port, session, now));
            again |= self.tell_senders(port, now);
        }
        self.ports.plan_announcements(again, now);
    }

    fn announce_to(&mut self, port: EgressPort, session: SessionId, now: Time) -> bool {
        if !self.ports.has_unknown(port) {
            return false;
        }
        // Whoever waits for an answer wants to know whether the other side is still there.
        self.sessions.use_session(session, now);
        if self.sessions.is_established(session, now) {
            while self.announce_some(port, session, now) {}
        }
        true
    }

    /// Announces as many of the aliases that are due as one message takes; whether there were any.
    fn announce_some(&mut self, port: EgressPort, session: SessionId, now: Time) -> bool {
        let mut due: ArrayVec<AliasAnnouncement, ALIASES_PER_MESSAGE> = ArrayVec::new();
        while !due.is_full()
            && let Some((alias, announced)) = self.ports.next_unknown(port, now)
        {
            self.work.entries += 1;
            due.extend(self.announcement(alias, &announced));
        }
        if due.is_empty() {
            return false;
        }
        let mut scratch = [[0; AliasAnnouncement::BYTES]; ALIASES_PER_MESSAGE];
        let flows = AliasAnnouncements::collect(&mut due.into_iter(), &mut scratch);
        self.sessions.say(session, &Message::Aliases(Aliases { flows }), now);
        true
    }

    fn announcement(&self, alias: Alias, announced: &Announced) -> Option<AliasAnnouncement> {
        let (service, rate) = self.ingress.service_of(announced.flow)?;
        Some(AliasAnnouncement {
            alias,
            flow_key: announced.key,
            service,
            selective: self.ingress.is_selective(announced.flow),
            rate: KilobitsPerSecond::from_rate(rate),
        })
    }

    /// Whether there are receivers of a flow here, and none of its ends lies.
    fn is_of_use_here(&self, key: FlowKey) -> bool {
        !self.links.receivers_of(key).is_empty() && !self.egress.is_barred(key)
    }

    /// Another relay says what it calls its flows; the answer says whether they have receivers here.
    pub(super) fn aliases(&mut self, port: EgressPort, session: SessionId, aliases: &Aliases<'_>, now: Time) {
        for announced in aliases.flows.iter() {
            self.work.entries += 1;
            let is_fed = self.links.is_fed_by(announced.flow_key, self.ports.place(port));
            if !is_fed && !self.ports.may_hear(port, announced.alias) {
                self.counters.aliases_left_out += 1;
                self.say_known(port, announced.alias, false, now);
                continue;
            }
            self.ports.hear(port, &announced, is_fed);
            debug_assert_eq!(self.ports.session(port), Some(session));
            let known = is_fed && !self.egress.is_barred(announced.flow_key);
            self.say_known(port, announced.alias, known, now);
        }
    }

    fn say_known(&mut self, port: EgressPort, alias: Alias, has_receiver: bool, now: Time) {
        let Some(session) = self.ports.session(port) else {
            return;
        };
        let mut scratch = [[0; AliasKnowledge::BYTES]; 1];
        let mut knowledge = core::iter::once(AliasKnowledge { alias, has_receiver });
        let aliases = AliasKnowledges::collect(&mut knowledge, &mut scratch);
        self.sessions.say(session, &Message::AliasesKnown(AliasesKnown { aliases }), now);
    }

    /// Another relay says which of the aliases it was told have receivers.
    pub(super) fn aliases_known(&mut self, port: EgressPort, known: &AliasesKnown<'_>, now: Time) {
        for knowledge in known.aliases.iter() {
            self.work.entries += 1;
            self.learn(port, knowledge.alias, knowledge.has_receiver, now);
        }
        self.announce(now);
    }

    fn learn(&mut self, port: EgressPort, alias: Alias, has_receiver: bool, now: Time) {
        if let Some(flow) = self.ports.learn(port, alias, has_receiver, now) {
            self.ingress.set_known(flow, port, has_receiver);
            if has_receiver {
                let (ingress, mut outlet) = self.ingress_and_outlet(now);
                ingress.carry_waiting(flow, port, &mut outlet, now);
            }
        }
    }
}

/// True if a revision is 1 to 128 behind the one in force. Revisions wrap, as in RFC 1982, section 3.2.
const fn is_earlier(revision: u8, known: u8) -> bool {
    let behind = known.wrapping_sub(revision);
    behind >= 1 && behind <= 128
}

/// What identifies the registration that an agent asks for. A group's sender, and a receiver, register a flow once for
/// all relays at its other ends.
fn registration_key(register: &Register<'_>) -> RegistrationKey {
    let sends = register.role == FlowRole::Sender;
    let far = Some((register.far_relay.relay, register.far_relay.shard));
    let far = far.filter(|_| sends && !is_sender_of_group(register));
    RegistrationKey { flow: register.flow_key, sends, far }
}

/// How a flow is told apart where batches are put together.
fn placed(slot: FlowSlot, grant: &Grant, register: &Register<'_>) -> PlacedFlow {
    let shares = grant.sharing && register.options.coded_with_other_tenants;
    let class = if shares { CodingClass::SHARED } else { CodingClass::of_tenant(grant.tenant) };
    let receiver = match register.flow_key.receiver() {
        Receiver::Agent(agent) => agent.number().wrapping_add(1),
        Receiver::Group(_) => 0,
    };
    let sender = register.flow_key.sender().number().wrapping_add(1);
    PlacedFlow { slot: slot.0, class, receiver, sender }
}
