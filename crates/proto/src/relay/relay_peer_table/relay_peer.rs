//! One peer relay: its aliases, and the flows that this relay advertised to it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use byway_units::{RelayId, Time};
use byway_wire::{Alias, FlowKey, Shard, TenantId};

use super::super::alias_table::AliasTable;
use super::super::ingress::FlowSlot;
use super::super::quotas::TenantShares;
use crate::limits::{ANNOUNCE_INTERVAL, REPAIR_RETENTION, UNREACHABLE_NOTICE_DOUBLINGS_MAX};
use crate::session::SessionId;

/// Endpoint of a peer relay: another relay, this shard itself, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeerEndpoint {
    /// This shard itself.
    Local,
    /// The relay at the other end of a session.
    Session(SessionId),
    /// The relay was removed, and another one may reuse the entry.
    Removed,
}

/// A relay shard that this relay exchanges copies and repair packets with.
#[derive(Debug)]
pub(super) struct RelayPeer {
    pub(super) relay: (RelayId, Shard),
    pub(super) endpoint: PeerEndpoint,
    /// True if the peer relay does not answer probes.
    pub(super) is_unreachable: bool,
    /// Time until which this relay probes a peer whose reachability changed lately, because it may
    /// change again.
    pub(super) suspected_until: Time,
    /// Flows that this relay advertised to the peer: alias n + 1 is at index n.
    pub(super) advertised: Vec<Option<AdvertisedFlow>>,
    /// Advertised aliases for which the peer has not reported a receiver, by the time of the next
    /// advertisement.
    pub(super) advertise_queue: BTreeSet<(Time, Alias)>,
    /// Advertised aliases whose senders get a notice about reachability, by the time of the notice.
    pub(super) notify_queue: BTreeSet<(Time, Alias)>,
    /// Free aliases with the time of their withdrawal and their last tenant, the longest free
    /// first. Packets in flight under an old alias are then hardly attributed to another flow.
    pub(super) free_aliases: VecDeque<(Time, Alias, TenantId)>,
    /// Number of free aliases, from the first on, that have rested and that every tenant may use.
    /// The others still count for their last tenant.
    pub(super) reusable_count: usize,
    /// Number of aliases of each tenant, in use or resting.
    pub(super) shares: TenantShares,
    /// Flows for which another tenant's alias was evicted, and the time until which that alias
    /// rests.
    pub(super) awaited: BTreeMap<FlowKey, Time>,
    /// Flows that the peer relay advertised to this one, by its aliases.
    pub(super) remote_flows: AliasTable<RemoteFlow>,
}

/// A flow whose packets this relay sends to a peer relay.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct AdvertisedFlow {
    pub(in super::super) flow: FlowSlot,
    pub(super) tenant: TenantId,
    pub(in super::super) key: FlowKey,
    /// Time of the next advertisement; `None` if the peer has reported a receiver, or is this relay
    /// itself.
    pub(super) advertise_at: Option<Time>,
    /// True if the flow's service changed. The next report of a receiver may then answer an
    /// advertisement of the former service.
    pub(super) is_revised: bool,
    /// Number of advertisements since the peer last reported a receiver, up to a maximum. It
    /// determines the interval to the next one.
    pub(super) advertisements: u8,
    /// True if the peer relay has reported a receiver of the flow.
    pub(super) has_receiver: bool,
    /// True if the flow's packets cannot reach a receiver by this peer: the relay does not answer,
    /// or restarted and lost its registrations.
    pub(super) is_unreachable: bool,
    /// Time of the next notice to the flow's sender about reachability; `None` if none is due.
    pub(super) notify_at: Option<Time>,
    /// Number of notices of unreachability sent, up to a maximum. It determines the interval to the
    /// next one.
    pub(super) notified: u8,
}

/// Change of a flow's reachability by one peer relay, of which its sender gets a notice.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct ReachabilityChange {
    pub(in super::super) flow: FlowSlot,
    pub(in super::super) key: FlowKey,
    pub(in super::super) is_unreachable: bool,
}

impl RelayPeer {
    pub(super) const fn new(relay: (RelayId, Shard), endpoint: PeerEndpoint) -> Self {
        Self {
            relay,
            endpoint,
            is_unreachable: false,
            suspected_until: Time::START,
            advertised: Vec::new(),
            advertise_queue: BTreeSet::new(),
            notify_queue: BTreeSet::new(),
            free_aliases: VecDeque::new(),
            reusable_count: 0,
            shares: TenantShares::new(u16::MAX as u64, None),
            awaited: BTreeMap::new(),
            remote_flows: AliasTable::new(),
        }
    }

    /// Changes the entry of an advertised alias by `change`, and updates the alias's timers.
    /// Returns `None` for a free alias.
    pub(super) fn update<T>(
        &mut self,
        alias: Alias,
        change: impl FnOnce(&mut AdvertisedFlow) -> T,
    ) -> Option<T> {
        let advertised = self.advertised.get_mut(index_of(alias))?.as_mut()?;
        let before = *advertised;
        let result = change(advertised);
        let after = *advertised;
        reschedule(&mut self.advertise_queue, alias, before.advertise_at, after.advertise_at);
        reschedule(&mut self.notify_queue, alias, before.notify_at, after.notify_at);
        Some(result)
    }

    /// Makes free aliases usable for all tenants after they have rested for [`REPAIR_RETENTION`]. A
    /// stored repair packet of an alias's old flow must not be attributed to a new one.
    pub(super) fn release_rested_aliases(&mut self, now: Time) {
        while let Some((since, _, tenant)) = self.free_aliases.get(self.reusable_count)
            && *since + REPAIR_RETENTION <= now
        {
            self.shares.refund(*tenant, 1);
            self.reusable_count += 1;
        }
    }

    /// Returns all aliases that this relay advertised to the peer and that are in use.
    pub(super) fn aliases(&self) -> Vec<Alias> {
        let used = self.advertised.iter().enumerate().filter(|(_, advertised)| advertised.is_some());
        used.filter_map(|(index, _)| alias_at(index)).collect()
    }
}

/// Moves an alias in a queue of timers from its old time to its new one. `None` means that it is
/// not in the queue.
pub(super) fn reschedule(
    queue: &mut BTreeSet<(Time, Alias)>,
    alias: Alias,
    before: Option<Time>,
    after: Option<Time>,
) {
    if before == after {
        return;
    }
    if let Some(at) = before {
        queue.remove(&(at, alias));
    }
    queue.extend(after.map(|at| (at, alias)));
}

impl AdvertisedFlow {
    pub(super) const fn set_unreachable(&mut self, is_unreachable: bool, now: Time) {
        if self.is_unreachable != is_unreachable {
            (self.is_unreachable, self.notify_at, self.notified) = (is_unreachable, Some(now), 0);
        }
    }

    /// Records an advertisement. The interval to the next one doubles, because only a lost reply
    /// makes it necessary.
    pub(super) fn mark_advertised(&mut self, now: Time) {
        self.advertise_at = Some(now + ANNOUNCE_INTERVAL * (1 << self.advertisements));
        self.advertisements = (self.advertisements + 1).min(UNREACHABLE_NOTICE_DOUBLINGS_MAX);
    }

    /// Schedules the next advertisement, and resets the interval.
    pub(super) const fn schedule_advertisement(&mut self, at: Time) {
        (self.advertise_at, self.advertisements) = (Some(at), 0);
    }

    /// Returns the notice for the flow's sender, if one is due. The relay repeats a notice of
    /// unreachability until the sender reacts. It sends a notice of reachability once, because the
    /// sender registers again.
    pub(super) fn poll_reachability_change(&mut self, now: Time) -> Option<ReachabilityChange> {
        self.notify_at.take_if(|at| *at <= now)?;
        if self.is_unreachable {
            self.notify_at = Some(now + ANNOUNCE_INTERVAL * (1 << self.notified));
            self.notified = (self.notified + 1).min(UNREACHABLE_NOTICE_DOUBLINGS_MAX);
        }
        Some(ReachabilityChange { flow: self.flow, key: self.key, is_unreachable: self.is_unreachable })
    }
}

/// A flow that a peer relay advertised to this one, under the peer's alias.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteFlow {
    pub(super) key: FlowKey,
    /// True if a receiver's grant permits the peer as an ingress relay of the flow.
    pub(super) is_granted: bool,
    pub(super) handling: RemoteHandling,
    /// True if the flow's sender copies only some packets.
    pub(super) is_selective: bool,
}

/// Handling of a remote flow's packets by this relay, as egress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RemoteHandling {
    /// It delivers all packets: the service is forwarding or both.
    Deliver,
    /// It repairs what receivers miss.
    Repair,
    /// It repairs what receivers miss, and reports it: the peer adapts the redundancy of the flow's
    /// batches.
    RepairAndReport,
}

/// Returns the index of an alias in a list of all of them. Alias 0 does not exist.
pub(super) fn index_of(alias: Alias) -> usize {
    usize::from(alias.number()) - 1
}

pub(super) fn alias_at(index: usize) -> Option<Alias> {
    Alias::new(u16::try_from(index + 1).ok()?)
}
