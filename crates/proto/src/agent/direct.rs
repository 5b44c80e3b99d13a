//! Peers that cannot be reached directly: relays deliver what they would else repair.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use byway_units::Time;

use super::send_flow::SendFlowId;
use super::{Agent, Flow, Role};
use crate::limits::{BRIDGED_FOR, CLOSED_AFTER, NEVER_OPEN_AFTER};
use crate::session::SessionId;

/// The peers to which no direct path is open.
#[derive(Debug, Default)]
pub(super) struct DirectPaths {
    /// Not for long yet: when relays take over.
    missed: BTreeSet<(Time, SessionId)>,
    /// For so long that relays deliver, except flows that are bridged.
    closed: BTreeSet<SessionId>,
}

impl DirectPaths {
    /// Whether relays deliver to a peer what begins now.
    pub(super) fn is_closed(&self, peer: SessionId) -> bool {
        self.closed.contains(&peer)
    }

    /// Notes that a peer is not reached directly; when relays deliver if that does not change. Whether it is news.
    fn miss(&mut self, peer: SessionId, until: Time) -> bool {
        let is_missed = self.missed.iter().any(|(_, missed)| *missed == peer);
        let is_news = !is_missed && !self.is_closed(peer);
        if is_news {
            self.missed.insert((until, peer));
        }
        is_news
    }

    /// Has a peer looked at again, to which relays deliver what they do not repair.
    fn look_again(&mut self, peer: SessionId, at: Time) {
        self.missed.insert((at, peer));
    }

    /// Notes that a peer is reached directly; whether relays delivered.
    fn open(&mut self, peer: SessionId) -> bool {
        self.missed.retain(|(_, missed)| *missed != peer);
        self.closed.remove(&peer)
    }

    /// Forgets a peer.
    pub(super) fn forget(&mut self, peer: SessionId) {
        self.open(peer);
    }

    /// A peer for which relays take over now, or to which they deliver except some flows. Call until there is none.
    fn take_due(&mut self, now: Time) -> Option<SessionId> {
        let (_, peer) = self.missed.first().copied().filter(|(at, _)| *at <= now)?;
        self.missed.pop_first();
        self.closed.insert(peer);
        Some(peer)
    }

    /// When relays may take over for somebody.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.missed.first().map(|(at, _)| *at)
    }
}

impl Agent {
    /// A session with a peer began, or is reached another way than before.
    ///
    /// A path that was open is given time: most outages are over in seconds, and repairs bridge them.
    pub(super) fn look_at_direct_path(&mut self, session: SessionId, now: Time) {
        if !matches!(self.roles.get(&session), Some(Role::Peer(_))) {
            return;
        }
        if self.sessions.is_direct(session) {
            if self.direct_paths.open(session) {
                let flows = self.flows_to(session);
                self.stand_in(flows, false, now);
            }
            self.choose_paths_to(session, now);
            return;
        }
        // A relay may just have been faster.
        self.sessions.try_known_addresses(session, now);
        let was_open = self.sessions.get(session).is_some_and(|session| session.path.address().is_some());
        let wait = if was_open { CLOSED_AFTER } else { NEVER_OPEN_AFTER };
        if !self.direct_paths.miss(session, now + wait) {
            return;
        }
        // What was lost before says nothing about what relays restore from now on.
        for id in self.flows_to(session) {
            self.senders[id.0 as usize].look_whether_bridged();
        }
    }

    /// Has relays deliver to those who were not reached directly for long enough; but flows that are coded, as long as repairs restore
    /// nearly all of their packets: that takes half of what relays send to deliver them.
    pub(super) fn take_over(&mut self, now: Time) {
        while let Some(peer) = self.direct_paths.take_due(now) {
            let flows = self.flows_to(peer);
            let (bridged, others): (Vec<_>, Vec<_>) =
                flows.into_iter().partition(|id| self.senders[id.0 as usize].look_whether_bridged());
            if !bridged.is_empty() {
                self.direct_paths.look_again(peer, now + BRIDGED_FOR);
            }
            self.stand_in(others, true, now);
        }
    }

    /// Has flows that need relays, and have none that works, take a direct path or leave it.
    pub(super) fn choose_paths_to(&mut self, peer: SessionId, now: Time) {
        for id in self.flows_to(peer) {
            self.choose_path(Flow::Sent(id), now);
        }
    }

    fn flows_to(&mut self, peer: SessionId) -> Vec<SendFlowId> {
        self.work.entries += self.senders.slots() as u64;
        let flows = self.senders.iter().filter(|(_, flow)| flow.peer == peer);
        flows.map(|(number, _)| SendFlowId(number)).collect()
    }

    /// Has relays deliver flows, or not any more.
    fn stand_in(&mut self, flows: Vec<SendFlowId>, stands_in: bool, now: Time) {
        for id in flows {
            let flow = &mut self.senders[id.0 as usize];
            let before = flow.service_asked();
            if !flow.set_stand_in(stands_in) {
                continue;
            }
            if flow.service_asked() != before {
                flow.registrations.revise();
                for path in 0..flow.settings.paths.len() {
                    if stands_in {
                        // Until the relay has agreed, it would keep what it gets for repairs, and nobody would ask.
                        flow.registrations.restart(path, now);
                    } else {
                        flow.registrations.ask_again(path, now);
                    }
                }
            }
            self.register(Flow::Sent(id), now);
        }
    }
}
