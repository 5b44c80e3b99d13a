//! Work that an agent does for what comes and for what is due, in the units of a relay's
//! ([`RelayWork`](crate::relay::RelayWork)).
//!
//! Bytes pay for their own reception. What they make an agent look at beyond that (numbers of packets, flows,
//! requests, blocks) is counted. A datagram whose messages have cost what one may cost is not read further.

use byway_units::Time;

use super::Agent;
use crate::counters::counters;
use crate::limits::{DATAGRAM_WORK_MAX, DECODING_WORK};

counters! {
/// Work done since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentWork {
    /// Messages read.
    pub messages: u64,
    /// Sequence numbers looked at, for NACKs, requests and their kin.
    pub numbers: u64,
    /// Flows, paths, gaps, offers and closed flows looked at.
    pub entries: u64,
    /// Blocks decoded.
    pub decodings: u64,
}
}

impl AgentWork {
    /// All of it in units of some 20 ns.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.messages + self.numbers + self.entries + self.decodings * DECODING_WORK
    }
}

impl Agent {
    /// The work that was done for what came: the same for the same inputs, however fast the processor is.
    #[must_use]
    pub const fn work(&self) -> AgentWork {
        self.work
    }

    /// The count of units at which an input that begins now has cost what one may.
    pub(super) const fn work_end(&self) -> u64 {
        self.work.units() + DATAGRAM_WORK_MAX
    }

    /// The count of units at which no more messages of the datagram at hand are read.
    pub(super) fn messages_end(&self) -> u64 {
        self.messages_end.unwrap_or_else(|| self.work_end())
    }

    /// True as long as what is due may be handled with this input. The rest stays due, and packets that wait come
    /// first.
    pub(super) const fn may_work_on(&self, end: u64) -> bool {
        self.work.units() < end
    }

    /// Handles the timers that are due, until so many units of work are done in all.
    pub(super) fn handle_timers(&mut self, end: u64, now: Time) {
        while self.may_work_on(end)
            && let Some(key) = self.timers.expire(now)
        {
            self.work.entries += 1;
            self.handle_timer(key, now);
        }
    }
}
