//! Pending cooperative requests of relays: packets that other flows' repairs need, and that this
//! receiver does not have yet.

use alloc::collections::BTreeMap;

use byway_units::Time;
use byway_wire::{Alias, SequenceNumber};

use crate::limits::REQUESTS_MAX;
use crate::session::SessionId;

/// Session with the relay that sent a cooperative request, and its alias for the flow.
pub(super) type Requester = (SessionId, Alias);

/// Request for a packet of this receiver's flow that another receiver's repair needs.
#[derive(Clone, Copy, Debug)]
struct Request {
    requester: Requester,
    /// Time after which an answer is of no use.
    deadline: Time,
    /// True if this receiver has sent the relay a refusal, because the packet is lost here too.
    is_notified: bool,
}

/// Cooperative requests for missing packets of one flow. The cost of adding one, or of finding
/// those of a packet, does not grow with requests for other packets, because a datagram can request
/// thousands.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// Requests by packet, and by the number of requests before them, which is their age.
    by_packet: BTreeMap<(SequenceNumber, u64), Request>,
    /// Requested packets, by the number of requests before them.
    by_age: BTreeMap<u64, SequenceNumber>,
    /// Number of requests added so far, which numbers the next one.
    count: u64,
    /// Time before which no request expires; `None` without requests.
    expire_at: Option<Time>,
}

impl Requests {
    /// Adds a request, or extends the same one; returns the number of entries examined. If there
    /// are too many, the oldest is dropped.
    pub(super) fn add(
        &mut self,
        sequence: SequenceNumber,
        requester: Requester,
        until: Time,
        now: Time,
    ) -> u64 {
        let mut examined = 1;
        for (_, known) in self.of_packet(sequence) {
            examined += 1;
            if known.requester == requester {
                known.deadline = known.deadline.max(until);
                return examined;
            }
        }
        examined += self.expire(now);
        if self.by_age.len() == REQUESTS_MAX
            && let Some((number, oldest)) = self.by_age.pop_first()
        {
            self.by_packet.remove(&(oldest, number));
        }
        self.by_packet
            .insert((sequence, self.count), Request { requester, deadline: until, is_notified: false });
        self.by_age.insert(self.count, sequence);
        self.count += 1;
        self.expire_at = Some(self.expire_at.map_or(until, |at| at.min(until)));
        examined
    }

    /// Removes expired requests; returns the number of entries examined.
    fn expire(&mut self, now: Time) -> u64 {
        if self.expire_at.is_none_or(|at| at > now) {
            return 0;
        }
        let examined = self.by_packet.len() as u64;
        let by_age = &mut self.by_age;
        self.by_packet.retain(|(_, number), request| {
            let is_of_use = request.deadline > now;
            if !is_of_use {
                by_age.remove(number);
            }
            is_of_use
        });
        self.expire_at = self.by_packet.values().map(|request| request.deadline).min();
        examined
    }

    /// Removes a request for a packet that has just arrived, and returns the relay to send it to.
    /// Call until it returns `None`.
    pub(super) fn pop_requester(&mut self, sequence: SequenceNumber, now: Time) -> Option<Requester> {
        if self.by_packet.is_empty() {
            return None;
        }
        let (number, requester) = self
            .of_packet(sequence)
            .find(|(_, request)| request.deadline > now)
            .map(|(number, request)| (number, request.requester))?;
        self.by_packet.remove(&(sequence, number));
        self.by_age.remove(&number);
        Some(requester)
    }

    /// Marks one request for a lost packet as refused; returns false if there is none that was not.
    pub(super) fn mark_notified(&mut self, sequence: SequenceNumber) -> bool {
        let unnotified = self.of_packet(sequence).find(|(_, request)| !request.is_notified);
        unnotified.is_some_and(|(_, request)| {
            request.is_notified = true;
            true
        })
    }

    /// Returns the requests for a packet, the oldest first, with the number of requests before
    /// them.
    fn of_packet(&mut self, sequence: SequenceNumber) -> impl Iterator<Item = (u64, &mut Request)> {
        let all = self.by_packet.range_mut((sequence, 0)..=(sequence, u64::MAX));
        all.map(|((_, number), request)| (*number, request))
    }

    pub(super) fn count(&self) -> usize {
        self.by_packet.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_packet.is_empty()
    }
}
