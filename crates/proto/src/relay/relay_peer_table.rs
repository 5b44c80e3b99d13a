//! Peer relays: the aliases in force between this relay and each other relay shard, and the
//! reachability of that shard.

mod relay_peer;
mod remote_flows;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::messages::Refusal;
use byway_wire::{Alias, FlowKey, Shard, TenantId};

pub(super) use relay_peer::{AdvertisedFlow, ReachabilityChange};
use relay_peer::{PeerEndpoint, RelayPeer, RemoteFlow, RemoteHandling, alias_at, index_of, reschedule};

use super::ingress::{FlowSlot, NextHop, RelayPeerId};
use super::receiver_networks::ReceiverNetworks;
use super::transit::TransitTable;
use crate::limits::{ALIASES_AWAITED_MAX, ANNOUNCE_INTERVAL, DOUBTED_FOR, REPAIR_RETENTION};
use crate::session::SessionId;

/// Entry for a flow whose copies or repair packets arrive from a peer relay under an alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForwardingEntry {
    pub(super) key: FlowKey,
    /// True if this relay delivers the flow's packets without a NACK.
    pub(super) is_forwarded: bool,
    /// True if the flow's sender copies only some packets: a gap is then no loss.
    pub(super) is_selective: bool,
}

/// Table of all peer relays, and of the aliases towards them and from them.
#[derive(Debug)]
pub(super) struct RelayPeerTable {
    /// Memory limit for remote flows, in bytes. It does not apply to flows with a receiver at this
    /// relay.
    remote_flow_bytes_max: u64,
    peers: Vec<RelayPeer>,
    by_session: BTreeMap<SessionId, RelayPeerId>,
    /// Peer and alias under which each flow may arrive from other relays, the newest last.
    remote_aliases: BTreeMap<FlowKey, Vec<(RelayPeerId, Alias)>>,
    /// Aliases of each flow that this relay sends to itself.
    local_aliases: BTreeMap<FlowKey, Vec<(RelayPeerId, Alias)>>,
    advertise_at: Option<Time>,
    /// Networks of this relay's agents, as reported to the peer relays.
    pub(super) networks: ReceiverNetworks,
    /// Packets between relays through third ones.
    pub(super) transit: TransitTable,
}

impl RelayPeerTable {
    /// Creates an empty table. `remote_flow_bytes_max` limits the memory of flows that other relays
    /// advertise, in bytes.
    pub(super) const fn new(remote_flow_bytes_max: u64, networks: ReceiverNetworks) -> Self {
        Self {
            remote_flow_bytes_max,
            peers: Vec::new(),
            by_session: BTreeMap::new(),
            remote_aliases: BTreeMap::new(),
            local_aliases: BTreeMap::new(),
            advertise_at: None,
            networks,
            transit: TransitTable::new(),
        }
    }

    /// Adds another relay as a peer, with the session towards it.
    pub(super) fn add_relay(&mut self, relay: RelayId, shard: Shard, session: SessionId) {
        let peer = self.add((relay, shard), PeerEndpoint::Session(session));
        self.by_session.insert(session, peer);
    }

    /// Replaces the session of a peer relay, whose key has changed.
    pub(super) fn replace_session(&mut self, peer: RelayPeerId, session: SessionId) {
        if let PeerEndpoint::Session(before) = self.get(peer).endpoint {
            self.by_session.remove(&before);
        }
        self.peers[usize::from(peer.0)].endpoint = PeerEndpoint::Session(session);
        self.by_session.insert(session, peer);
    }

    /// Removes a peer relay, whose flows were removed before. Another relay may reuse its entry.
    pub(super) fn remove_relay(&mut self, peer: RelayPeerId) {
        if let PeerEndpoint::Session(session) = self.get(peer).endpoint {
            self.by_session.remove(&session);
            self.forget_remote_flows(peer);
            let relay = self.get(peer).relay;
            self.peers[usize::from(peer.0)] = RelayPeer::new(relay, PeerEndpoint::Removed);
        }
    }

    /// Returns the flows whose packets this relay sends to a peer relay.
    pub(super) fn flows(&self, peer: RelayPeerId) -> Vec<FlowSlot> {
        self.get(peer).advertised.iter().flatten().map(|advertised| advertised.flow).collect()
    }

    /// Returns the peer relay of a relay shard, if it is known. If `relay` is this shard itself,
    /// its entry is added at first use.
    pub(super) fn find_or_add_local(
        &mut self,
        relay: (RelayId, Shard),
        own: (RelayId, Shard),
    ) -> Option<RelayPeerId> {
        let known = self.find(relay);
        if known.is_none() && relay == own { Some(self.add(own, PeerEndpoint::Local)) } else { known }
    }

    /// Returns the peer relay of a relay shard; `None` if it is unknown or was removed.
    pub(super) fn find(&self, relay: (RelayId, Shard)) -> Option<RelayPeerId> {
        let index = self.peers.iter().position(|relay_peer| {
            relay_peer.relay == relay && relay_peer.endpoint != PeerEndpoint::Removed
        })?;
        Some(RelayPeerId(u16::try_from(index).expect("there are few relays")))
    }

    /// Returns the relay number and shard of a peer.
    pub(super) fn relay_shard(&self, peer: RelayPeerId) -> (RelayId, Shard) {
        self.get(peer).relay
    }

    /// True if the peer relay does not answer probes.
    pub(super) fn is_unreachable(&self, peer: RelayPeerId) -> bool {
        self.get(peer).is_unreachable
    }

    fn add(&mut self, relay: (RelayId, Shard), endpoint: PeerEndpoint) -> RelayPeerId {
        let vacant = self.peers.iter().position(|peer| peer.endpoint == PeerEndpoint::Removed);
        let index = vacant.unwrap_or(self.peers.len());
        let peer = RelayPeer::new(relay, endpoint);
        match self.peers.get_mut(index) {
            Some(known) => *known = peer,
            None => self.peers.push(peer),
        }
        RelayPeerId(u16::try_from(index).expect("there are few relays"))
    }

    fn get(&self, peer: RelayPeerId) -> &RelayPeer {
        &self.peers[usize::from(peer.0)]
    }

    /// Returns the session with a peer relay; `None` for this relay itself and for a removed one.
    #[inline]
    pub(super) fn session(&self, peer: RelayPeerId) -> Option<SessionId> {
        match self.get(peer).endpoint {
            PeerEndpoint::Session(session) => Some(session),
            PeerEndpoint::Local | PeerEndpoint::Removed => None,
        }
    }

    /// True if the peer relay is this relay itself.
    pub(super) fn is_local(&self, peer: RelayPeerId) -> bool {
        self.get(peer).endpoint == PeerEndpoint::Local
    }

    pub(super) fn peer_of_session(&self, session: SessionId) -> Option<RelayPeerId> {
        self.by_session.get(&session).copied()
    }

    /// Assigns an alias towards a peer relay to a flow, and schedules its advertisement.
    pub(super) fn advertise(
        &mut self,
        peer: RelayPeerId,
        (flow, tenant): (FlowSlot, TenantId),
        key: FlowKey,
        now: Time,
    ) -> Result<Alias, Refusal> {
        let relay_peer = &mut self.peers[usize::from(peer.0)];
        relay_peer.release_rested_aliases(now);
        if relay_peer.shares.is_over_quota(tenant) {
            return Err(Refusal::QuotaReached);
        }
        let RelayPeer {
            advertised,
            advertise_queue,
            free_aliases,
            reusable_count,
            shares,
            is_unreachable,
            endpoint,
            ..
        } = relay_peer;
        // A peer that is this relay itself needs no advertisement: it knows its receivers.
        let is_local = *endpoint == PeerEndpoint::Local;
        let advertise_at = (!is_local).then_some(now);
        let entry = AdvertisedFlow {
            flow,
            tenant,
            key,
            advertise_at,
            advertisements: 0,
            has_receiver: false,
            is_revised: false,
            is_unreachable: *is_unreachable,
            notify_at: None,
            notified: 0,
        };
        let alias = if *reusable_count > 0
            && let Some((_, alias, _)) = free_aliases.pop_front()
        {
            *reusable_count -= 1;
            advertised[index_of(alias)] = Some(entry);
            alias
        } else {
            let alias = alias_at(advertised.len()).ok_or(Refusal::Full)?;
            advertised.push(Some(entry));
            alias
        };
        shares.charge(tenant, 1);
        advertise_queue.extend(advertise_at.map(|at| (at, alias)));
        if is_local {
            self.local_aliases.entry(key).or_default().push((peer, alias));
        } else {
            self.advertise_at = Some(now);
        }
        Ok(alias)
    }

    /// Returns a flow to evict, so that a flow of `tenant` gets an alias towards a peer relay. The
    /// victim's tenant has the most aliases and more than its share; `tenant` must have less. While
    /// the evicted alias rests, the requesting flow gets no other victim.
    pub(super) fn eviction_victim(
        &mut self,
        peer: RelayPeerId,
        (tenant, key): (TenantId, FlowKey),
        now: Time,
    ) -> Option<FlowSlot> {
        let RelayPeer { advertised, shares, awaited, .. } = &mut self.peers[usize::from(peer.0)];
        let victim = shares.eviction_victim(tenant)?;
        awaited.retain(|_, rests_until| now < *rests_until);
        if awaited.contains_key(&key) || awaited.len() >= ALIASES_AWAITED_MAX {
            return None;
        }
        let in_use = advertised.iter().flatten().filter(|advertised| advertised.tenant == victim);
        let (count, last) = in_use.fold((0, None), |(count, _), known| (count + 1, Some(known.flow)));
        // Aliases that rest count for the victim, but cannot be evicted any more.
        let flow = last.filter(|_| count > shares.share(tenant))?;
        awaited.insert(key, now + REPAIR_RETENTION);
        Some(flow)
    }

    /// Withdraws a flow's alias towards a peer relay, and cancels its timers. The alias rests
    /// before another tenant may use it.
    pub(super) fn withdraw(&mut self, peer: RelayPeerId, alias: Alias, now: Time) {
        let RelayPeer { advertised, advertise_queue, notify_queue, free_aliases, .. } =
            &mut self.peers[usize::from(peer.0)];
        let Some(advertised) = advertised.get_mut(index_of(alias)).and_then(Option::take) else {
            return;
        };
        reschedule(advertise_queue, alias, advertised.advertise_at, None);
        reschedule(notify_queue, alias, advertised.notify_at, None);
        free_aliases.push_back((now, alias, advertised.tenant));
        remove(&mut self.local_aliases, advertised.key, (peer, alias));
    }

    /// Schedules another advertisement of an alias to a peer relay, because the flow's service has
    /// changed.
    pub(super) fn advertise_again(&mut self, peer: RelayPeerId, alias: Alias, now: Time) {
        let relay_peer = &mut self.peers[usize::from(peer.0)];
        if relay_peer.endpoint != PeerEndpoint::Local {
            relay_peer.update(alias, |advertised| {
                advertised.is_revised = true;
                advertised.schedule_advertisement(now);
            });
            self.advertise_at = Some(now);
        }
    }

    /// Returns the flow of an alias that this relay advertised to a peer.
    pub(super) fn advertised_flow(&self, peer: RelayPeerId, alias: Alias) -> Option<&AdvertisedFlow> {
        self.get(peer).advertised.get(index_of(alias))?.as_ref()
    }

    /// Returns the key of the flow that a peer relay advertised under this alias, if this relay
    /// permits its packets.
    pub(super) fn remote_flow_key(&self, peer: RelayPeerId, alias: Alias) -> Option<FlowKey> {
        self.forwarding_entry(peer, alias).map(|entry| entry.key)
    }

    /// Returns the flow that a peer relay advertised under this alias, and the handling of its
    /// packets. Returns `None` if no receiver's grant permits them.
    pub(super) fn forwarding_entry(&self, peer: RelayPeerId, alias: Alias) -> Option<ForwardingEntry> {
        let remote_flow = self.get(peer).remote_flows.get(alias);
        remote_flow.filter(|remote_flow| remote_flow.is_granted).map(
            |RemoteFlow { key, handling, is_selective, .. }| ForwardingEntry {
                key,
                is_forwarded: handling == RemoteHandling::Deliver,
                is_selective,
            },
        )
    }

    /// Returns the flow that this relay sends to itself under this alias.
    pub(super) fn local_flow_key(&self, peer: RelayPeerId, alias: Alias) -> Option<FlowKey> {
        let index = index_of(alias);
        self.get(peer).advertised.get(index)?.map(|advertised| advertised.key)
    }

    /// Returns the flows with this key that this relay sends to itself.
    pub(super) fn local_flows(&self, key: FlowKey) -> Vec<FlowSlot> {
        let own = self.local_aliases.get(&key).into_iter().flatten();
        own.filter_map(|(peer, alias)| Some(self.advertised_flow(*peer, *alias)?.flow)).collect()
    }

    /// Returns the aliases of the flows with this key that this relay sends to itself.
    pub(super) fn local_aliases_of(&self, key: FlowKey) -> &[(RelayPeerId, Alias)] {
        self.local_aliases.get(&key).map_or(&[], Vec::as_slice)
    }

    /// True if there are flows for which the peer relay has not reported a receiver.
    pub(super) fn has_unacknowledged(&self, peer: RelayPeerId) -> bool {
        !self.get(peer).advertise_queue.is_empty()
    }

    /// Returns an alias whose advertisement to a peer relay is due, and its flow. Schedules the
    /// next advertisement.
    pub(super) fn next_advertisement(
        &mut self,
        peer: RelayPeerId,
        now: Time,
    ) -> Option<(Alias, AdvertisedFlow)> {
        let peer = &mut self.peers[usize::from(peer.0)];
        let (_, alias) = *peer.advertise_queue.first().filter(|(at, _)| *at <= now)?;
        let advertised = peer.update(alias, |advertised| {
            advertised.mark_advertised(now);
            *advertised
        })?;
        Some((alias, advertised))
    }

    /// Handles a peer relay's restart, after which it knows no aliases: discards its own, and
    /// schedules advertisements. Returns the flows towards it.
    pub(super) fn on_relay_restart(&mut self, peer: RelayPeerId, now: Time) -> Vec<FlowSlot> {
        self.forget_remote_flows(peer);
        let peer = &mut self.peers[usize::from(peer.0)];
        for alias in peer.aliases() {
            peer.update(alias, |advertised| {
                advertised.schedule_advertisement(now);
                if core::mem::take(&mut advertised.has_receiver) {
                    advertised.set_unreachable(true, now);
                }
            });
        }
        self.advertise_at = Some(now);
        peer.advertised.iter().flatten().map(|advertised| advertised.flow).collect()
    }

    /// Records a peer relay's report that it has a receiver for an alias, or has none. Schedules
    /// advertisements and notices accordingly. Returns the flow of the alias.
    pub(super) fn on_alias_status(
        &mut self,
        peer: RelayPeerId,
        alias: Alias,
        has_receiver: bool,
        now: Time,
    ) -> Option<FlowSlot> {
        let peer = &mut self.peers[usize::from(peer.0)];
        let (is_unreachable, is_local) = (peer.is_unreachable, peer.endpoint == PeerEndpoint::Local);
        let (flow, is_due) = peer.update(alias, |advertised| {
            let was_known = core::mem::replace(&mut advertised.has_receiver, has_receiver);
            let is_lately_unknown = was_known && !has_receiver && !is_local;
            if has_receiver && !core::mem::take(&mut advertised.is_revised) {
                (advertised.advertise_at, advertised.advertisements) = (None, 0);
            } else if is_lately_unknown {
                // The report of no receiver may be an old one that arrived late. The alias is
                // therefore advertised again.
                advertised.schedule_advertisement(now + ANNOUNCE_INTERVAL);
            }
            let is_back = has_receiver && !is_unreachable && advertised.is_unreachable;
            if is_back {
                advertised.set_unreachable(false, now);
            }
            let is_due =
                if is_back { Some(now) } else { advertised.advertise_at.filter(|_| is_lately_unknown) };
            (advertised.flow, is_due)
        })?;
        if let Some(at) = is_due {
            self.advertise_at = Some(self.advertise_at.map_or(at, |known| known.min(at)));
        }
        Some(flow)
    }

    /// Records that a peer relay does not answer any more, or answers again, and schedules notices
    /// to the senders of its flows.
    pub(super) fn set_unreachable(&mut self, peer: RelayPeerId, is_unreachable: bool, now: Time) {
        let peer = &mut self.peers[usize::from(peer.0)];
        (peer.is_unreachable, peer.suspected_until) = (is_unreachable, now + DOUBTED_FOR);
        for alias in peer.aliases() {
            peer.update(alias, |advertised| {
                if is_unreachable || advertised.has_receiver {
                    advertised.set_unreachable(is_unreachable, now);
                }
            });
        }
        self.advertise_at = Some(now);
    }

    /// True if a flow's packets cannot reach a receiver by this next hop. The pending notice is
    /// cancelled, because the sender gets the refusal.
    pub(super) fn check_unreachable(&mut self, next_hop: NextHop) -> bool {
        let peer = &mut self.peers[usize::from(next_hop.peer.0)];
        let is_unreachable = peer.update(next_hop.alias, |advertised| {
            advertised.notify_at = advertised.notify_at.filter(|_| !advertised.is_unreachable);
            advertised.is_unreachable
        });
        is_unreachable == Some(true)
    }

    /// Returns the due notices about reachability for the senders of flows towards a peer relay.
    pub(super) fn poll_reachability_changes(
        &mut self,
        peer: RelayPeerId,
        now: Time,
    ) -> Vec<ReachabilityChange> {
        let peer = &mut self.peers[usize::from(peer.0)];
        let mut changes = Vec::new();
        while let Some((_, alias)) = peer.notify_queue.first().copied().filter(|(at, _)| *at <= now) {
            changes
                .extend(peer.update(alias, |advertised| advertised.poll_reachability_change(now)).flatten());
        }
        changes
    }

    /// True if this relay has to probe a peer. Either a sender still has to get a notice of the
    /// peer's reachability, or flows go to the peer and it is or recently was unreachable.
    pub(super) fn needs_probing(&self, peer: RelayPeerId, now: Time) -> bool {
        let RelayPeer { is_unreachable, suspected_until, advertised, free_aliases, notify_queue, .. } =
            self.get(peer);
        let is_suspected = *is_unreachable || now < *suspected_until;
        !notify_queue.is_empty() || (is_suspected && advertised.len() > free_aliases.len())
    }

    /// Returns the identifiers of all peer relays, including removed ones.
    pub(super) fn ids(&self) -> impl Iterator<Item = RelayPeerId> + use<> {
        (0..u16::try_from(self.peers.len()).expect("there are few relays")).map(RelayPeerId)
    }

    /// Returns the time of the next advertisements and notices; `None` if none are scheduled.
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.advertise_at
    }

    /// Sets the timer for advertisements and notices to [`ANNOUNCE_INTERVAL`] from now if `again`
    /// is true, and cancels it otherwise.
    pub(super) fn schedule_advertisements(&mut self, again: bool, now: Time) {
        self.advertise_at = again.then(|| now + ANNOUNCE_INTERVAL);
    }

    /// Schedules advertisements and notices for now.
    pub(super) fn advertise_soon(&mut self, now: Time) {
        self.advertise_at = Some(now);
    }
}

/// Removes an alias of a peer from the aliases of a flow.
fn remove(
    aliases: &mut BTreeMap<FlowKey, Vec<(RelayPeerId, Alias)>>,
    key: FlowKey,
    removed: (RelayPeerId, Alias),
) {
    if let Some(known) = aliases.get_mut(&key) {
        known.retain(|known| *known != removed);
        if known.is_empty() {
            aliases.remove(&key);
        }
    }
}
