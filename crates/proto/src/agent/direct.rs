//! Peers without a direct path: relays deliver the packets to them that relays would otherwise only
//! repair.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use byway_units::Time;

use super::send_flow::SendFlowId;
use super::{Agent, Flow, Role};
use crate::limits::{BRIDGED_FOR, CLOSED_AFTER, NEVER_OPEN_AFTER};
use crate::session::SessionId;

/// Peers that are not reachable by the direct path, and the times at which relays begin to deliver
/// to them.
#[derive(Debug, Default)]
pub(super) struct DirectPaths {
    /// Peers without a direct path, with the time at which relays begin to deliver, or at which
    /// bridged flows are reviewed.
    unreachable: BTreeSet<(Time, SessionId)>,
    /// Peers without a direct path for so long that relays deliver, except flows that repairs
    /// bridge.
    closed: BTreeSet<SessionId>,
}

impl DirectPaths {
    /// Returns true if relays have to deliver new flows to a peer, because its direct path is
    /// closed.
    pub(super) fn is_closed(&self, peer: SessionId) -> bool {
        self.closed.contains(&peer)
    }

    /// Records that a peer has no direct path; relays deliver from `until` on if that does not
    /// change. Returns false if the peer is recorded already.
    fn mark_unreachable(&mut self, peer: SessionId, until: Time) -> bool {
        let is_scheduled = self.unreachable.iter().any(|(_, known)| *known == peer);
        let is_new = !is_scheduled && !self.is_closed(peer);
        if is_new {
            self.unreachable.insert((until, peer));
        }
        is_new
    }

    /// Schedules a review of a peer's flows that repairs bridge.
    fn schedule_review(&mut self, peer: SessionId, at: Time) {
        self.unreachable.insert((at, peer));
    }

    /// Records that a peer is reachable by the direct path; returns true if relays delivered to it.
    fn mark_open(&mut self, peer: SessionId) -> bool {
        self.unreachable.retain(|(_, known)| *known != peer);
        self.closed.remove(&peer)
    }

    /// Forgets the state of a removed peer's direct path.
    pub(super) fn forget(&mut self, peer: SessionId) {
        self.mark_open(peer);
    }

    /// Returns a peer to which relays have to deliver from now on, or whose bridged flows are due
    /// for review, and marks its direct path as closed. Call until it returns `None`.
    fn pop_due(&mut self, now: Time) -> Option<SessionId> {
        let (_, peer) = self.unreachable.first().copied().filter(|(at, _)| *at <= now)?;
        self.unreachable.pop_first();
        self.closed.insert(peer);
        Some(peer)
    }

    /// Returns the earliest time at which [`DirectPaths::pop_due`] returns a peer.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.unreachable.first().map(|(at, _)| *at)
    }
}

impl Agent {
    /// Handles a new session with a peer, or a change of its path: ends relay delivery if the peer
    /// is reachable directly, otherwise schedules it.
    ///
    /// A path that was open before gets more time: most outages end within seconds, and repairs
    /// bridge them.
    pub(super) fn on_direct_path_change(&mut self, session: SessionId, now: Time) {
        if !matches!(self.roles.get(&session), Some(Role::Peer(_))) {
            return;
        }
        if self.sessions.is_direct(session) {
            if self.direct_paths.mark_open(session) {
                let flows = self.flows_to(session);
                self.set_relay_delivery(flows, false, now);
            }
            self.choose_paths_to(session, now);
            return;
        }
        // The direct path may work too: a response through a relay was only faster.
        self.sessions.try_known_addresses(session, now);
        let was_open = self.sessions.get(session).is_some_and(|session| session.path.address().is_some());
        let wait = if was_open { CLOSED_AFTER } else { NEVER_OPEN_AFTER };
        if !self.direct_paths.mark_unreachable(session, now + wait) {
            return;
        }
        // Reviews ignore earlier losses, which do not show how much relays restore from now on.
        for id in self.flows_to(session) {
            self.senders[id.0 as usize].review_bridging();
        }
    }

    /// Starts delivery by relays to peers that had no direct path for long enough. A coded flow is
    /// an exception while repairs restore nearly all of its packets, because repairs take half as
    /// much relay traffic as delivery.
    pub(super) fn start_relay_delivery(&mut self, now: Time) {
        while let Some(peer) = self.direct_paths.pop_due(now) {
            let flows = self.flows_to(peer);
            let (bridged, others): (Vec<_>, Vec<_>) =
                flows.into_iter().partition(|id| self.senders[id.0 as usize].review_bridging());
            if !bridged.is_empty() {
                self.direct_paths.schedule_review(peer, now + BRIDGED_FOR);
            }
            self.set_relay_delivery(others, true, now);
        }
    }

    /// Chooses the path of each flow to a peer again: the direct path, or a relay path that works
    /// if the flow needs one.
    pub(super) fn choose_paths_to(&mut self, peer: SessionId, now: Time) {
        for id in self.flows_to(peer) {
            self.choose_path(Flow::Sent(id), now);
        }
    }

    /// Returns the flows that this agent sends to a peer.
    fn flows_to(&mut self, peer: SessionId) -> Vec<SendFlowId> {
        self.work.entries += self.senders.slots() as u64;
        let flows = self.senders.iter().filter(|(_, flow)| flow.peer == peer);
        flows.map(|(number, _)| SendFlowId(number)).collect()
    }

    /// Starts or stops delivery by relays for some flows, and registers those that change at their
    /// relays again.
    pub(super) fn set_relay_delivery(&mut self, flows: Vec<SendFlowId>, relays_deliver: bool, now: Time) {
        for id in flows {
            let flow = &mut self.senders[id.0 as usize];
            let before = flow.service_asked();
            if !flow.set_relays_deliver(relays_deliver) {
                continue;
            }
            if !relays_deliver {
                flow.forget_failure(now);
            }
            if flow.service_asked() != before {
                flow.registrations.revise();
                for path in 0..flow.settings.paths.len() {
                    if relays_deliver {
                        // Until the relay agrees, it would store these packets for repairs, and no
                        // receiver would request them.
                        flow.registrations.restart(path, now);
                    } else {
                        flow.registrations.request_again(path, now);
                    }
                }
            }
            self.register(Flow::Sent(id), now);
        }
    }
}
