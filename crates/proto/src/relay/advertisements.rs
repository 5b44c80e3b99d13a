//! Advertisements of this relay's aliases to other relays, and their replies. Senders get notices
//! of egress relays that cannot be reached, and may choose another path.

use core::net::SocketAddr;

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::messages::{
    AliasAnnouncement, AliasAnnouncements, AliasStatus, AliasStatuses, Aliases, AliasesReply, FlowRole,
    NetworkTag, NetworkTags, Refusal, RegisterReply,
};
use byway_wire::{Alias, Capabilities, FlowKey, GrantedRelay, KilobitsPerSecond, Message, Service};

use super::Relay;
use super::flow_table::{FlowEndpoint, FlowRef};
use super::ingress::RelayPeerId;
use super::relay_peer_table::AdvertisedFlow;
use crate::limits::ALIASES_PER_MESSAGE;
use crate::session::SessionId;

impl Relay {
    /// Sends the due advertisements of aliases to other relays, and the due notices of reachability
    /// to senders.
    pub(super) fn send_advertisements(&mut self, now: Time) {
        if self.peers.deadline().is_none_or(|at| at > now) {
            return;
        }
        let mut again = false;
        for peer in self.peers.ids() {
            let session = self.peers.session(peer);
            again |= session.is_some_and(|session| self.advertise_to(peer, session, now));
            again |= self.notify_senders(peer, now);
        }
        self.peers.schedule_advertisements(again, now);
    }

    fn advertise_to(&mut self, peer: RelayPeerId, session: SessionId, now: Time) -> bool {
        if !self.peers.has_unacknowledged(peer) {
            return false;
        }
        // A use of the session probes the other relay while its reply is missing.
        self.sessions.use_session(session, now);
        if self.sessions.is_established(session, now) {
            while self.send_advertisement(peer, session, now) {}
        }
        true
    }

    /// Sends a peer relay one message with as many due advertisements as fit. Returns `false` if
    /// none was due.
    fn send_advertisement(&mut self, peer: RelayPeerId, session: SessionId, now: Time) -> bool {
        let mut due: ArrayVec<AliasAnnouncement, ALIASES_PER_MESSAGE> = ArrayVec::new();
        while !due.is_full()
            && let Some((alias, advertised)) = self.peers.next_advertisement(peer, now)
        {
            self.work.entries += 1;
            due.extend(self.alias_announcement(alias, &advertised, session));
        }
        if due.is_empty() {
            return false;
        }
        let mut scratch = [[0; AliasAnnouncement::BYTES]; ALIASES_PER_MESSAGE];
        let flows = AliasAnnouncements::collect(&mut due.into_iter(), &mut scratch);
        self.sessions.queue_message(session, &Message::Aliases(Aliases { flows }), now);
        true
    }

    /// Returns the announcement of an alias to the relay of a session. A relay of an earlier
    /// version refuses messages with services that it does not know, so it learns of a similar one.
    fn alias_announcement(
        &self,
        alias: Alias,
        advertised: &AdvertisedFlow,
        session: SessionId,
    ) -> Option<AliasAnnouncement> {
        let (service, rate) = self.ingress.service_of(advertised.flow)?;
        let is_current = self.sessions.has_capabilities(session, Capabilities::SERVICE_CHANGES);
        let service = match service {
            Service::Pull if !is_current => Service::Caching,
            Service::Retransmission if !is_current => Service::Forwarding,
            known => known,
        };
        Some(AliasAnnouncement {
            alias,
            flow_key: advertised.key,
            service,
            selective: self.ingress.is_selective(advertised.flow),
            adaptive_redundancy: self.ingress.is_adaptive(advertised.flow)
                && self.sessions.has_capabilities(session, Capabilities::LOSS_REPORTS),
            rate: KilobitsPerSecond::from_rate(rate),
        })
    }

    /// True if the flow has receivers at this relay and is not in quarantine.
    pub(super) fn has_usable_receiver(&self, key: FlowKey) -> bool {
        !self.flow_table.receivers_of(key).is_empty() && !self.egress.is_quarantined(key)
    }

    /// Handles another relay's advertisements of its aliases: stores them, and replies for each if
    /// the flow has a usable receiver here.
    pub(super) fn on_aliases(
        &mut self,
        peer: RelayPeerId,
        session: SessionId,
        aliases: &Aliases<'_>,
        now: Time,
    ) {
        for announcement in aliases.flows.iter() {
            self.work.entries += 1;
            let is_permitted =
                self.flow_table.is_permitted_ingress(announcement.flow_key, self.peers.relay_shard(peer));
            if !is_permitted && !self.peers.has_capacity_for(peer, announcement.alias) {
                self.counters.aliases_left_out += 1;
                self.send_alias_status(peer, announcement.alias, None, now);
                continue;
            }
            self.peers.on_advertisement(peer, &announcement, is_permitted);
            debug_assert_eq!(self.peers.session(peer), Some(session));
            let has_receiver = is_permitted && !self.egress.is_quarantined(announcement.flow_key);
            let receiver = has_receiver.then(|| self.receiver_network(announcement.flow_key));
            self.send_alias_status(peer, announcement.alias, receiver, now);
        }
    }

    /// Returns the network of a flow's receiver at this relay, if the flow has one receiver whose
    /// address is validated. Flows to groups are in no batch.
    pub(super) fn receiver_network(&self, key: FlowKey) -> NetworkTag {
        let slot = match self.flow_table.receivers_of(key) {
            [slot] => Some(*slot),
            _ => None,
        };
        let receiver = slot.and_then(|slot| self.flow_table.receiver(slot));
        let session = receiver.and_then(|receiver| self.sessions.get(receiver.session));
        let address = session.and_then(|session| session.path.address());
        address.map_or(NetworkTag::UNKNOWN, |address| self.peers.networks.tag(address.ip()))
    }

    /// Reports to the relays that advertised a flow if it has a usable receiver here, and permits
    /// or forbids its packets.
    pub(super) fn report_receiver(&mut self, key: FlowKey, now: Time) {
        let network = self.receiver_network(key);
        for (peer, alias) in self.peers.remote_aliases_of(key).to_vec() {
            self.work.entries += 1;
            let is_permitted = self.flow_table.is_permitted_ingress(key, self.peers.relay_shard(peer));
            self.peers.set_granted(peer, alias, is_permitted);
            let has_receiver = is_permitted && !self.egress.is_quarantined(key);
            self.send_alias_status(peer, alias, has_receiver.then_some(network), now);
        }
    }

    /// Reports the network of an agent to the ingress relays of the flows that it receives, if the
    /// network has changed.
    pub(super) fn report_network(&mut self, session: SessionId, now: Time) {
        let address = self.sessions.get(session).and_then(|session| session.path.address());
        let Some(address) = address.map(SocketAddr::ip) else {
            return;
        };
        let Some(network) = self.peers.networks.begin_report(session, address, now) else {
            return;
        };
        for alias in self.flow_table.aliases(session) {
            self.work.entries += 1;
            let Some(FlowRef::Received(flow)) = self.flow_table.flow(session, alias) else {
                continue;
            };
            let Some(key) = self.egress.key(flow) else {
                continue;
            };
            self.report_receiver(key, now);
            for slot in self.peers.local_flows(key) {
                self.ingress.set_receiver_network(slot, network);
            }
        }
    }

    /// Answers a peer relay's advertisement of an alias. `receiver` is the network of the flow's
    /// receiver; `None` if the flow has no usable receiver here.
    pub(super) fn send_alias_status(
        &mut self,
        peer: RelayPeerId,
        alias: Alias,
        receiver: Option<NetworkTag>,
        now: Time,
    ) {
        let Some(session) = self.peers.session(peer) else {
            return;
        };
        let (mut scratch, mut scratch_of_networks) =
            ([[0; AliasStatus::BYTES]; 1], [[0; NetworkTag::BYTES]; 1]);
        let mut statuses = core::iter::once(AliasStatus { alias, has_receiver: receiver.is_some() });
        let aliases = AliasStatuses::collect(&mut statuses, &mut scratch);
        let networks = NetworkTags::collect(&mut receiver.into_iter(), &mut scratch_of_networks);
        let reply = AliasesReply { aliases, networks };
        self.sessions.queue_message(session, &Message::AliasesReply(reply), now);
    }

    /// Handles another relay's reply, which reports for each advertised alias if the flow has a
    /// receiver there.
    pub(super) fn on_aliases_reply(&mut self, peer: RelayPeerId, reply: &AliasesReply<'_>, now: Time) {
        let mut networks = reply.networks.iter();
        for status in reply.aliases.iter() {
            self.work.entries += 1;
            let network = networks.next().unwrap_or(NetworkTag::UNKNOWN);
            self.on_alias_status(peer, status.alias, status.has_receiver.then_some(network), now);
        }
        self.send_advertisements(now);
    }

    /// Records the status of an alias that this relay advertised. `receiver` is the network of the
    /// flow's receiver; `None` if the flow has no usable receiver at the peer.
    pub(super) fn on_alias_status(
        &mut self,
        peer: RelayPeerId,
        alias: Alias,
        receiver: Option<NetworkTag>,
        now: Time,
    ) {
        let has_receiver = receiver.is_some();
        if let Some(flow) = self.peers.on_alias_status(peer, alias, has_receiver, now) {
            self.ingress.set_has_receiver(flow, peer, has_receiver);
            if let Some(network) = receiver {
                self.ingress.set_receiver_network(flow, network);
                let (ingress, mut context) = self.ingress_and_context(now);
                ingress.relay_buffered_copies(flow, peer, &mut context, now);
            }
        }
    }
}

impl Relay {
    /// Handles a change of a peer relay's reachability: records it, and sends the due notices to
    /// senders.
    pub(super) fn on_reachability_change(&mut self, session: SessionId, is_reachable: bool, now: Time) {
        if let Some(peer) = self.peers.peer_of_session(session) {
            self.peers.set_unreachable(peer, !is_reachable, now);
            self.send_advertisements(now);
        }
    }

    /// Returns the alias of a registered flow. If the agent sends the flow and all next hops are
    /// unreachable, returns a refusal instead.
    pub(super) fn check_reachable(&mut self, session: SessionId, alias: Alias) -> Result<Alias, Refusal> {
        let Some(FlowRef::Sent(slot)) = self.flow_table.flow(session, alias) else {
            return Ok(alias);
        };
        let next_hops = self.ingress.next_hops(slot);
        let is_unreachable = !next_hops.is_empty()
            && next_hops.into_iter().all(|next_hop| self.peers.check_unreachable(next_hop));
        if is_unreachable { Err(Refusal::Unreachable) } else { Ok(alias) }
    }

    /// Sends due notices about reachability to the senders of flows towards a peer relay. Returns
    /// `true` if this relay has to probe the peer and call this again.
    pub(super) fn notify_senders(&mut self, peer: RelayPeerId, now: Time) -> bool {
        let (relay, shard) = self.peers.relay_shard(peer);
        let far_relay = GrantedRelay { relay, shard };
        for change in self.peers.poll_reachability_changes(peer, now) {
            let Some(FlowEndpoint { session, alias }) = self.flow_table.sender(change.flow) else {
                continue;
            };
            let outcome = if change.is_unreachable { Err(Refusal::Unreachable) } else { Ok(alias) };
            let (flow_key, role) = (change.key, FlowRole::Sender);
            let revision = self.flow_table.revision(session, alias);
            let registered = RegisterReply {
                flow_key,
                role,
                far_relay,
                outcome,
                revision: Some(revision),
                far_round_trip: None,
                group_activity: None,
            };
            self.sessions.queue_message(session, &Message::RegisterReply(registered), now);
        }
        let is_watched = self.peers.needs_probing(peer, now);
        if let Some(session) = self.peers.session(peer).filter(|_| is_watched) {
            // Only probes reveal the return of the other relay.
            self.sessions.use_session(session, now);
        }
        is_watched
    }
}
