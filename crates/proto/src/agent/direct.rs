//! Peers that cannot be reached directly: relays deliver what they would else repair.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use byway_units::Time;

use super::send_flow::SendFlowId;
use super::{Agent, Flow, Role};
use crate::limits::{CLOSED_AFTER, NEVER_OPEN_AFTER};
use crate::session::SessionId;

/// The peers to which no direct path is open.
#[derive(Debug, Default)]
pub(super) struct DirectPaths {
    /// Not for long yet: when relays take over.
    missed: BTreeSet<(Time, SessionId)>,
    /// For so long that relays deliver.
    closed: BTreeSet<SessionId>,
}

impl DirectPaths {
    /// Whether relays deliver to a peer.
    pub(super) fn is_closed(&self, peer: SessionId) -> bool {
        self.closed.contains(&peer)
    }

    /// Notes that a peer is not reached directly; when relays deliver if that does not change.
    fn miss(&mut self, peer: SessionId, until: Time) {
        let is_missed = self.missed.iter().any(|(_, missed)| *missed == peer);
        if !is_missed && !self.is_closed(peer) {
            self.missed.insert((until, peer));
        }
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

    /// A peer for which relays take over now. Call until there is none.
    fn take_due(&mut self, now: Time) -> Option<SessionId> {
        let (_, peer) = self.missed.first().copied().filter(|(at, _)| *at <= now)?;
        self.missed.pop_first();
        self.closed.insert(peer);
        Some(peer)
    }

    /// When relays take over for somebody.
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
                self.stand_in(session, false, now);
            }
            return;
        }
        // A relay may just have been faster.
        self.sessions.try_known_addresses(session, now);
        let was_open = self.sessions.get(session).is_some_and(|session| session.path.address().is_some());
        let wait = if was_open { CLOSED_AFTER } else { NEVER_OPEN_AFTER };
        self.direct_paths.miss(session, now + wait);
    }

    /// Has relays deliver to those who were not reached directly for long enough.
    pub(super) fn take_over(&mut self, now: Time) {
        while let Some(peer) = self.direct_paths.take_due(now) {
            self.stand_in(peer, true, now);
        }
    }

    /// Has relays deliver to a peer, or not any more.
    fn stand_in(&mut self, peer: SessionId, stands_in: bool, now: Time) {
        let flows = self.senders.iter().filter(|(_, flow)| flow.peer == peer);
        let flows: Vec<SendFlowId> = flows.map(|(number, _)| SendFlowId(number)).collect();
        for id in flows {
            let flow = &mut self.senders[id.0 as usize];
            let before = flow.service();
            flow.set_stand_in(stands_in);
            if flow.service() != before {
                for path in 0..flow.settings.paths.len() {
                    flow.registrations.ask_again(path, now);
                }
            }
            self.register(Flow::Sent(id), now);
        }
    }
}
