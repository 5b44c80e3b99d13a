//! Table of everything about packets between relays through third ones.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use byway_units::{Duration, Rate, Time};
use byway_wire::GrantedRelay;

use super::distant::DistantRelay;
use super::labels::Labels;
use crate::session::SessionId;

/// Delays of another relay to others, and the rate up to which it passes on packets.
#[derive(Debug, Default)]
pub(super) struct TransitOffer {
    /// Time of the latest request.
    pub(super) asked_at: Option<Time>,
    /// True until the answer arrives.
    pub(super) is_awaited: bool,
    /// Rate of the answer; zero if the relay passes on none.
    pub(super) rate: Rate,
    /// Round-trip times between the relay and others.
    pub(super) round_trips: Vec<(GrantedRelay, Duration)>,
}

/// Packets between relays through third ones, by the session with each relay.
#[derive(Debug)]
pub(crate) struct TransitTable {
    /// True if this relay passes on packets of others.
    pub(crate) is_offered: bool,
    /// Labels of other relays at this one.
    pub(super) labels: Labels,
    /// Relays to which packets may go through a third one.
    pub(super) distant: BTreeMap<SessionId, DistantRelay>,
    pub(super) offers: BTreeMap<SessionId, TransitOffer>,
    next_review: Option<Time>,
}

impl TransitTable {
    pub(crate) const fn new() -> Self {
        Self {
            is_offered: false,
            labels: Labels::new(),
            distant: BTreeMap::new(),
            offers: BTreeMap::new(),
            next_review: None,
        }
    }

    /// Returns the time of the next review of a distant relay.
    #[inline]
    pub(crate) const fn deadline(&self) -> Option<Time> {
        self.next_review
    }

    /// Returns the memory of the labels, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.labels.bytes()
    }

    /// Removes everything about a relay that was removed.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.labels.forget(session);
        self.distant.remove(&session);
        self.offers.remove(&session);
        for distant in self.distant.values_mut() {
            distant.on_third_lost(session);
        }
        self.schedule();
    }

    /// Sets the time of the next review; needed after each change of those of distant relays.
    pub(super) fn schedule(&mut self) {
        self.next_review = self.distant.values().filter_map(|distant| distant.review_at).min();
    }

    /// Returns the distant relays whose review is due.
    pub(super) fn due(&self, now: Time) -> Vec<SessionId> {
        let is_due = |distant: &DistantRelay| distant.review_at.is_some_and(|at| at <= now);
        self.distant.iter().filter(|(_, distant)| is_due(distant)).map(|(session, _)| *session).collect()
    }
}
