//! What others ask for and this receiver does not have yet.

use alloc::collections::BTreeMap;

use byway_units::Time;
use byway_wire::{Alias, SequenceNumber};

use crate::limits::REQUESTS_MAX;
use crate::session::SessionId;

/// The relay that asked, and what it calls the flow.
pub(super) type Asker = (SessionId, Alias);

/// A packet of this receiver's own flow that somebody else's repair needs.
#[derive(Clone, Copy, Debug)]
struct Request {
    asker: Asker,
    /// After this an answer is of no use.
    until: Time,
    /// Whether the relay was told that the packet is lost here too.
    told: bool,
}

/// Requests that wait for their packet. To note one, or to find those of a packet, takes no longer the more there are of
/// other packets: a datagram names thousands.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By packet, and by the count of requests before them.
    by_packet: BTreeMap<(SequenceNumber, u64), Request>,
    /// Their packets, by the count of requests before them.
    by_age: BTreeMap<u64, SequenceNumber>,
    /// Requests so far.
    count: u64,
    /// No answer is of no use before.
    expire_at: Option<Time>,
}

impl Requests {
    /// Notes a request; returns how many were looked at for that.
    pub(super) fn add(&mut self, sequence: SequenceNumber, asker: Asker, until: Time, now: Time) -> u64 {
        let mut looked_at = 1;
        for (_, known) in self.of_packet(sequence) {
            looked_at += 1;
            if known.asker == asker {
                known.until = known.until.max(until);
                return looked_at;
            }
        }
        looked_at += self.expire(now);
        if self.by_age.len() == REQUESTS_MAX
            && let Some((number, oldest)) = self.by_age.pop_first()
        {
            self.by_packet.remove(&(oldest, number));
        }
        self.by_packet.insert((sequence, self.count), Request { asker, until, told: false });
        self.by_age.insert(self.count, sequence);
        self.count += 1;
        self.expire_at = Some(self.expire_at.map_or(until, |at| at.min(until)));
        looked_at
    }

    /// Forgets requests whose answer is of no use any more; returns how many were looked at.
    fn expire(&mut self, now: Time) -> u64 {
        if self.expire_at.is_none_or(|at| at > now) {
            return 0;
        }
        let looked_at = self.by_packet.len() as u64;
        let by_age = &mut self.by_age;
        self.by_packet.retain(|(_, number), request| {
            let is_of_use = request.until > now;
            if !is_of_use {
                by_age.remove(number);
            }
            is_of_use
        });
        self.expire_at = self.by_packet.values().map(|request| request.until).min();
        looked_at
    }

    /// Who waits for a packet that arrived now. Call until there is nobody.
    pub(super) fn take(&mut self, sequence: SequenceNumber, now: Time) -> Option<Asker> {
        if self.by_packet.is_empty() {
            return None;
        }
        let (number, asker) = self
            .of_packet(sequence)
            .find(|(_, request)| request.until > now)
            .map(|(number, request)| (number, request.asker))?;
        self.by_packet.remove(&(sequence, number));
        self.by_age.remove(&number);
        Some(asker)
    }

    /// Whether somebody waits for a packet that is lost, and was not told so.
    pub(super) fn tell(&mut self, sequence: SequenceNumber) -> bool {
        let waiting = self.of_packet(sequence).find(|(_, request)| !request.told);
        waiting.is_some_and(|(_, request)| {
            request.told = true;
            true
        })
    }

    /// The requests for a packet, the oldest first, by the count of requests before them.
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
