//! Registration of flows by agents.

use byway_units::{RelayId, Time};
use byway_wire::messages::{
    FlowRole, GroupActivity, Refusal, Register, RegisterReply, Unregister, UnregisterReply,
};
use byway_wire::{
    Alias, FlowKey, Grant, GrantedRelay, Message, Microseconds, Receiver, Service, Shard, TenantId,
};

use super::Relay;
use super::flow_table::{EndedRegistration, FlowRef, RegistrationKey};
use super::grants::{GrantError, Grants, is_sender_of_group};
use super::ingress::{
    FlowSlot, GrantPolicer, GroupKey, NextHop, Registration, RelayPeerId, receiver_number, sender_number,
};
use crate::limits::DATAGRAM_WORK_MAX;
use crate::parts::batcher::{BatchedFlow, CodingClass};
use crate::policy::{CodingRates, batch_wait, copies, forwards_all, repairs, repairs_on_request};
use crate::session::{Session, SessionId};

impl Relay {
    /// Handles an agent's registration of a flow, and replies with its alias or a refusal. An agent
    /// with too many forged grants is expelled.
    pub(super) fn on_register(&mut self, session: SessionId, register: &Register<'_>, now: Time) {
        let mut revision = register.revision.unwrap_or(0);
        let outcome = match self.try_register(session, register, now) {
            Ok(alias) => {
                revision = self.flow_table.revision(session, alias);
                self.check_reachable(session, alias)
            }
            Err(error) if error == GrantError::Forged && self.flow_table.on_forged_grant(session) => {
                self.counters.registrations_refused += 1;
                self.expel(session, now);
                return;
            }
            Err(error) => Err(error.refusal()),
        };
        self.counters.registrations_refused += u64::from(outcome.is_err());
        let Register { flow_key, role, far_relay, .. } = *register;
        let far_round_trip = outcome.ok().and_then(|_| self.round_trip_to(far_relay));
        let group_activity = outcome.ok().and_then(|alias| self.group_activity(session, alias, now));
        let revision = Some(revision);
        let registered =
            RegisterReply { flow_key, role, far_relay, outcome, revision, far_round_trip, group_activity };
        self.sessions.queue_message(session, &Message::RegisterReply(registered), now);
    }

    /// Returns the activity of the coding group of a flow that an agent sends.
    fn group_activity(&mut self, session: SessionId, alias: Alias, now: Time) -> Option<GroupActivity> {
        match self.flow_table.flow(session, alias)? {
            FlowRef::Sent(slot) => self.ingress.group_activity(slot, now),
            FlowRef::Received(_) => None,
        }
    }

    /// Returns the measured round-trip time to another relay; `None` if it is not known here, or
    /// not measured.
    fn round_trip_to(&self, relay: GrantedRelay) -> Option<Microseconds> {
        let peer = self.peers.find((relay.relay, relay.shard))?;
        let round_trip = self.sessions.measured_round_trip(self.peers.session(peer)?)?;
        Some(Microseconds::from_duration(round_trip))
    }

    fn try_register(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        now: Time,
    ) -> Result<Alias, GrantError> {
        let key = register.flow_key;
        let sends = register.role == FlowRole::Sender;
        self.work.entries += 1;
        let known = self.flow_table.registered(session, &registration_key(register));
        if let Some((alias, flow)) = known {
            if is_stale_revision(register.revision.unwrap_or(0), self.flow_table.revision(session, alias)) {
                return Ok(alias);
            }
            if !self.changes_registration(session, alias, flow, register) {
                self.flow_table.set_revision(session, alias, register.revision.unwrap_or(0));
                return Ok(alias);
            }
        }
        let peer = self.sessions.get(session).ok_or(Refusal::NoGrant)?.remote.key;
        let grants = self.verified_grants(register, &peer, now)?;
        self.work_budgets.set_tenant(session, grants[0].tenant, now);
        if let Some((alias, flow)) = known {
            let is_kept = !self.changes_sharing(flow, &grants[0], register)
                && (!self.changes_service(flow, register.service)
                    || self.change_service(flow, register, now));
            if is_kept {
                self.renew(session, alias, flow, key, &grants, now)?;
                self.flow_table.set_revision(session, alias, register.revision.unwrap_or(0));
                return Ok(alias);
            }
            self.remove_flow(session, alias, now);
        }
        if !self.flow_table.has_capacity(session) {
            return Err(Refusal::Full.into());
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
        let far = if sends { grants[0].egress } else { grants[0].ingress };
        let expires_at = self.grant_expiry(&grants[0]);
        let slots_before = self.flow_table.slot_count(session);
        let alias = self.flow_table.add(session, key, flow, (far.relay, far.shard), expires_at);
        self.quotas.update_flow_slots(session, slots_before, self.flow_table.slot_count(session));
        self.flow_table.set_revision(session, alias, register.revision.unwrap_or(0));
        self.set_round_trip(flow, session);
        if !sends {
            self.permit_ingress_relays(key, &grants[0], now);
            if self.has_usable_receiver(key) {
                self.update_local_receivers(key, true, now);
            }
        }
        Ok(alias)
    }

    /// Permits the ingress relays that the receiver's grant names to send the flow's packets here,
    /// and reports to the relays that advertised the flow.
    fn permit_ingress_relays(&mut self, key: FlowKey, grant: &Grant, now: Time) {
        for ingress in self.ingress_relays(key, grant) {
            self.flow_table.permit_ingress_relay(key, (ingress.relay, ingress.shard));
        }
        self.report_receiver(key, now);
    }

    /// True if a repeated registration changes something: the service, the agreement to batches
    /// with other tenants, or the grant. That may last longer, add an egress relay for a group, or
    /// permit another ingress relay.
    fn changes_registration(
        &self,
        session: SessionId,
        alias: Alias,
        flow: FlowRef,
        register: &Register<'_>,
    ) -> bool {
        let Ok(grant) = Grant::parse(register.grant) else {
            return self.changes_service(flow, register.service);
        };
        let changes_path = match flow {
            FlowRef::Sent(slot) if is_sender_of_group(register) => {
                !self.has_next_hop(slot, (grant.egress.relay, grant.egress.shard))
            }
            FlowRef::Sent(_) => self.changes_service(flow, register.service),
            FlowRef::Received(_) => {
                let ingress = (grant.ingress.relay, grant.ingress.shard);
                !self.flow_table.is_permitted_ingress(register.flow_key, ingress)
                    || self.changes_service(flow, register.service)
            }
        };
        changes_path
            || self.changes_sharing(flow, &grant, register)
            || self.flow_table.expires_at(session, alias) < self.grant_expiry(&grant)
    }

    /// True if the service of a flow changes. A received flow with repairs keeps its service until
    /// another one with repairs replaces it.
    fn changes_service(&self, flow: FlowRef, service: Service) -> bool {
        match flow {
            FlowRef::Sent(slot) => self.ingress.service_of(slot).is_some_and(|(known, _)| known != service),
            FlowRef::Received(slot) => {
                repairs(service) && self.egress.service(slot).is_some_and(|known| known != service)
            }
        }
    }

    /// True if a registration changes whether a flow's packets may share batches with those of
    /// other tenants. The flow then begins anew at this relay, with other coders.
    fn changes_sharing(&self, flow: FlowRef, grant: &Grant, register: &Register<'_>) -> bool {
        let FlowRef::Sent(slot) = flow else {
            return false;
        };
        self.ingress.shares_batches(slot).is_some_and(|before| before != shares_batches(grant, register))
    }

    /// Changes the service of a registered flow in place, if both services repair the direct path
    /// on request, or relays deliver all packets of both. Its alias remains. Returns `false` for
    /// other services: the flow then begins anew at this relay.
    fn change_service(&mut self, flow: FlowRef, register: &Register<'_>, now: Time) -> bool {
        let known = match flow {
            FlowRef::Sent(slot) => self.ingress.service_of(slot).map(|(known, _)| known),
            FlowRef::Received(slot) => self.egress.service(slot),
        };
        let is_alike = |known: Service| {
            let services = [known, register.service];
            services.into_iter().all(repairs_on_request) || services.into_iter().all(forwards_all)
        };
        if !known.is_some_and(is_alike) {
            return false;
        }
        match flow {
            FlowRef::Sent(slot) => {
                self.ingress.set_service(slot, register.service, register.options.selective);
                for NextHop { peer, alias, .. } in self.ingress.next_hops(slot) {
                    self.peers.advertise_again(peer, alias, now);
                }
            }
            FlowRef::Received(slot) => {
                self.egress.set_service(slot, register.service, now);
                let sources = self.copy_sources(slot, now);
                let mut aliases = sources.iter().map(|one| (RelayPeerId(one.ingress), one.alias));
                let is_adaptive = aliases.any(|(peer, alias)| self.is_adaptive(peer, alias));
                self.egress.repeat_nacks(slot, (&sources, is_adaptive), now, &mut self.actions);
            }
        }
        true
    }

    fn has_next_hop(&self, slot: FlowSlot, egress: (RelayId, Shard)) -> bool {
        self.ingress.next_hops(slot).iter().any(|next_hop| self.peers.relay_shard(next_hop.peer) == egress)
    }

    /// Renews a registered flow with new grants: extends its expiry, and updates its policer,
    /// egress relays and permitted ingress relays.
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
            self.ingress.set_policer(slot, &GrantPolicer::of(&grants[0]), now);
            if matches!(key.receiver(), Receiver::Group(_)) {
                self.add_next_hops(slot, key, grants, now)?;
            }
        }
        if matches!(flow, FlowRef::Received(_)) {
            self.permit_ingress_relays(key, &grants[0], now);
        }
        self.flow_table.renew(session, alias, self.grant_expiry(&grants[0]));
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
        // A flow that uses the direct path alone sends no copies. Its registration only makes its
        // agents known.
        let grants = if copies(register.service) { grants.as_slice() } else { &[] };
        let peer = self.peer_of_grant(grant)?;
        let in_group = matches!(key.receiver(), Receiver::Group(_));
        // A batch could repair a group's packet for one of its receivers only.
        let rates =
            CodingRates { in_stream: register.in_stream, batch: register.batch.filter(|_| !in_group) };
        if !rates.is_within_limits() {
            return Err(Refusal::Full);
        }
        let is_cross_stream = !register.options.sender_makes_repairs;
        let group = rates.batch.filter(|_| is_cross_stream).map(|shape| GroupKey {
            egress: peer,
            group: grant.coding_group.number(),
            shape: (shape.source_packets(), shape.repair_packets()),
            // A receiver's false losses must not change batches of other tenants.
            is_adaptive: register.options.adaptive_redundancy && !shares_batches(grant, register),
            tenant: (!shares_batches(grant, register)).then_some(grant.tenant),
        });
        self.ingress.check_capacity(group, grant.tenant).inspect_err(|refusal| {
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
                policer: GrantPolicer::of(grant),
                group,
                batching: batching_identity(slot, grant, register),
                tenant: grant.tenant,
                duplicates: register.options.relay_side_duplication,
                sender_fec: register.options.sender_makes_repairs,
                is_selective: register.options.selective,
                class,
            },
            now,
        );
        if let Err(refusal) = self.add_next_hops(slot, key, grants, now) {
            self.remove_sent_flow(slot, now);
            return Err(refusal);
        }
        Ok(FlowRef::Sent(slot))
    }

    fn peer_of_grant(&mut self, grant: &Grant) -> Result<RelayPeerId, Refusal> {
        let egress = (grant.egress.relay, grant.egress.shard);
        self.peers.find_or_add_local(egress, (self.number, self.shard)).ok_or(Refusal::OtherRelay)
    }

    /// Adds the egress relays of the grants as next hops of a flow, and advertises the flow to
    /// them. Known next hops stay.
    fn add_next_hops(
        &mut self,
        slot: FlowSlot,
        key: FlowKey,
        grants: &[Grant],
        now: Time,
    ) -> Result<(), Refusal> {
        for grant in grants {
            if self.has_next_hop(slot, (grant.egress.relay, grant.egress.shard)) {
                continue;
            }
            let peer = self.peer_of_grant(grant)?;
            if self.ingress.next_hops(slot).is_full() {
                return Err(Refusal::Full);
            }
            let alias = self.peers.advertise(peer, (slot, grant.tenant), key, now);
            let alias = alias
                .inspect_err(|refusal| self.count_alias_refused(*refusal, peer, (grant.tenant, key), now))?;
            let is_local = self.peers.session(peer).is_none();
            let has_receiver = is_local && self.has_usable_receiver(key);
            self.ingress.add_next_hop(slot, NextHop { peer, alias, has_receiver });
            if has_receiver {
                let network = self.receiver_network(key);
                self.on_alias_status(peer, alias, Some(network), now);
            }
        }
        Ok(())
    }

    /// Handles an alias refused for a flow. If the tenant has reached its quota, counts that; if
    /// the table is full, may evict an alias of another tenant.
    fn count_alias_refused(
        &mut self,
        refusal: Refusal,
        peer: RelayPeerId,
        flow: (TenantId, FlowKey),
        now: Time,
    ) {
        match refusal {
            Refusal::QuotaReached => self.counters.quota_flows += 1,
            _ => self.evict_alias(peer, flow, now),
        }
    }

    fn register_receiver(
        &mut self,
        session: SessionId,
        register: &Register<'_>,
        grant: &Grant,
        now: Time,
    ) -> Result<FlowRef, Refusal> {
        if !self.egress.has_capacity() {
            return Err(Refusal::Full);
        }
        let rate = register.rate.rate().min(grant.rate.rate());
        let (key, service) = (register.flow_key, register.service);
        let holder = self.egress.holder(session.0, grant.tenant);
        let slot = self.egress.register((key, holder), service, rate, register.consent, now);
        self.egress.set_class(slot, self.class_within(register.budget.duration()));
        Ok(FlowRef::Received(slot))
    }

    /// Handles an agent's request to remove a flow, and replies. It also replies for an unknown
    /// flow, because an earlier reply may have been lost.
    pub(super) fn on_unregister(&mut self, session: SessionId, unregister: &Unregister, now: Time) {
        let Unregister { flow_key, role, far_relay } = *unregister;
        let far = far_relay.map(|far| (far.relay, far.shard));
        let key = RegistrationKey { flow: flow_key, sends: role == FlowRole::Sender, far };
        self.work.entries += 1;
        while let Some((alias, _)) = self.flow_table.registered(session, &key) {
            self.remove_flow(session, alias, now);
        }
        let unregistered = UnregisterReply { flow_key, role, far_relay };
        self.sessions.queue_message(session, &Message::UnregisterReply(unregistered), now);
    }

    pub(super) fn remove_flow(&mut self, session: SessionId, alias: Alias, now: Time) {
        self.work.registrations += 1;
        let slots_before = self.flow_table.slot_count(session);
        let removed = self.flow_table.remove(session, alias, now);
        self.quotas.update_flow_slots(session, slots_before, self.flow_table.slot_count(session));
        match removed {
            Some((_, FlowRef::Sent(slot))) => self.remove_sent_flow(slot, now),
            Some((key, FlowRef::Received(slot))) => {
                self.egress.unregister(slot);
                if self.flow_table.receivers_of(key).is_empty() {
                    self.report_no_receiver(key, now);
                }
            }
            None => {}
        }
    }

    fn remove_sent_flow(&mut self, slot: FlowSlot, now: Time) {
        for next_hop in self.ingress.next_hops(slot) {
            self.peers.withdraw(next_hop.peer, next_hop.alias, now);
        }
        self.ingress.unregister(slot, now);
    }

    /// Removes flows whose grants have expired, and notifies their agents. It stops after the work
    /// of one datagram; the rest stays due.
    pub(super) fn expire_grants(&mut self, now: Time) {
        let end = self.work().units() + DATAGRAM_WORK_MAX;
        while self.work().units() < end
            && let Some(ended) = self.flow_table.first_expired(now)
        {
            let EndedRegistration { session, alias, .. } = ended;
            self.counters.grants_ended += 1;
            self.remove_flow(session, alias, now);
            let registered = ended.reply(Refusal::GrantExpired);
            self.sessions.queue_message(session, &Message::RegisterReply(registered), now);
        }
    }

    /// Reports to a flow's ingress relays that this relay has no usable receiver any more.
    pub(super) fn report_no_receiver(&mut self, key: FlowKey, now: Time) {
        for (peer, alias) in self.peers.remote_aliases_of(key).to_vec() {
            self.work.entries += 1;
            self.peers.set_granted(peer, alias, false);
            self.send_alias_status(peer, alias, None, now);
        }
        self.update_local_receivers(key, false, now);
    }

    /// Updates the status of aliases by which this relay sends a flow to itself, as if a reply of
    /// another relay reported it.
    fn update_local_receivers(&mut self, key: FlowKey, has_receiver: bool, now: Time) {
        let receiver = has_receiver.then(|| self.receiver_network(key));
        for (peer, alias) in self.peers.local_aliases_of(key).to_vec() {
            self.work.entries += 1;
            self.on_alias_status(peer, alias, receiver, now);
        }
    }

    /// Handles a newly established session. If the peer restarted (`fresh`), removes its earlier
    /// registrations, or advertises flows to the relay again.
    pub(super) fn on_session_established(&mut self, session: SessionId, fresh: bool, now: Time) {
        if !fresh {
            return;
        }
        match self.peers.peer_of_session(session) {
            Some(peer) => self.on_relay_restart(peer, now),
            None => self.remove_all_flows(session, now),
        }
    }

    /// Handles the restart of another relay, which has lost all aliases: discards its batches, and
    /// advertises flows to it again.
    pub(super) fn on_relay_restart(&mut self, peer: RelayPeerId, now: Time) {
        self.egress.reset_ingress(peer.0);
        for slot in self.peers.on_relay_restart(peer, now) {
            self.ingress.set_has_receiver(slot, peer, false);
        }
        self.send_advertisements(now);
    }

    /// Handles a Close of a session's peer: removes the agent's flows, and the session too unless a
    /// new handshake has begun.
    pub(super) fn on_session_closed(&mut self, session: SessionId, now: Time) {
        if self.sessions.get(session).is_some_and(Session::is_over) {
            self.on_session_ended(session, now);
        } else if self.peers.peer_of_session(session).is_none() {
            self.remove_all_flows(session, now);
        }
    }

    pub(super) fn remove_all_flows(&mut self, session: SessionId, now: Time) {
        for alias in self.flow_table.aliases(session) {
            self.remove_flow(session, alias, now);
        }
    }
}

/// True if a revision is 1 to 128 behind the one in force. Revisions wrap, as in RFC 1982, section
/// 3.2.
const fn is_stale_revision(revision: u8, known: u8) -> bool {
    let behind = known.wrapping_sub(revision);
    behind >= 1 && behind <= 128
}

/// Returns the key of a registration. It has no far relay for a group's sender and for a receiver,
/// because these register a flow once for all relays at its other ends.
fn registration_key(register: &Register<'_>) -> RegistrationKey {
    let sends = register.role == FlowRole::Sender;
    let far = Some((register.far_relay.relay, register.far_relay.shard));
    let far = far.filter(|_| sends && !is_sender_of_group(register));
    RegistrationKey { flow: register.flow_key, sends, far }
}

/// True if the flow's packets may be coded with those of other tenants.
const fn shares_batches(grant: &Grant, register: &Register<'_>) -> bool {
    grant.sharing && register.options.coded_with_other_tenants
}

/// Returns a flow's identity for the batcher: its slot, coding class, and the agents whose losses
/// are related. The flow joins a cohort with its first packet.
fn batching_identity(slot: FlowSlot, grant: &Grant, register: &Register<'_>) -> BatchedFlow {
    let class = if shares_batches(grant, register) {
        CodingClass::shared(batch_wait(register.budget.duration()))
    } else {
        CodingClass::of_tenant(grant.tenant)
    };
    let (receiver, sender) = (receiver_number(register.flow_key), sender_number(register.flow_key));
    BatchedFlow { slot: slot.0, class, receiver, sender, cohort: 0, avoids_network: false }
}
