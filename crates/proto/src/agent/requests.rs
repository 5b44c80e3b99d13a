//! What others ask for and this receiver does not have yet.

use alloc::collections::VecDeque;

use byway_units::Time;
use byway_wire::{Alias, SequenceNumber};

use crate::limits::REQUESTS_MAX;
use crate::session::SessionId;

/// The relay that asked, and what it calls the flow.
pub(super) type Asker = (SessionId, Alias);

/// A packet of this receiver's own flow that somebody else's repair needs.
#[derive(Clone, Copy, Debug)]
struct Request {
    sequence: SequenceNumber,
    asker: Asker,
    /// After this an answer is of no use.
    until: Time,
    /// Whether the relay was told that the packet is lost here too.
    told: bool,
}

/// Requests that wait for their packet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: VecDeque<Request>,
}

impl Requests {
    /// Notes a request.
    pub(super) fn add(&mut self, sequence: SequenceNumber, asker: Asker, until: Time, now: Time) {
        let is_known = |request: &&mut Request| request.sequence == sequence && request.asker == asker;
        if let Some(known) = self.requests.iter_mut().find(is_known) {
            known.until = known.until.max(until);
            return;
        }
        self.requests.retain(|request| request.until > now);
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        self.requests.push_back(Request { sequence, asker, until, told: false });
    }

    /// Who waits for a packet that arrived now. Call until there is nobody.
    pub(super) fn take(&mut self, sequence: SequenceNumber, now: Time) -> Option<Asker> {
        let waits = |request: &Request| request.sequence == sequence && request.until > now;
        let place = self.requests.iter().position(waits)?;
        self.requests.remove(place).map(|request| request.asker)
    }

    /// Whether somebody waits for a packet that is lost, and was not told so.
    pub(super) fn tell(&mut self, sequence: SequenceNumber) -> bool {
        let waiting = self.requests.iter_mut().find(|request| request.sequence == sequence && !request.told);
        waiting.is_some_and(|request| {
            request.told = true;
            true
        })
    }

    pub(super) fn count(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}
