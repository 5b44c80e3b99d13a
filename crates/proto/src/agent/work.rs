//! Work limits of an agent, for inputs and deadlines, in the units of a relay's work
//! ([`RelayWork`](crate::relay::RelayWork)).
//!
//! The cost of receiving a datagram grows with its bytes. Work beyond that is counted: sequence
//! numbers, flows, requests and blocks that the datagram makes an agent examine. The agent handles
//! no further messages of a datagram that has reached its limit.

use byway_units::Time;

use super::Agent;
use crate::counters::counters;
use crate::limits::{DATAGRAM_WORK_MAX, DECODING_WORK};

counters! {
/// Work that an agent has done since its start, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentWork {
    /// Messages of relays and peers handled.
    pub messages: u64,
    /// Sequence numbers examined, for NACKs, requests and similar messages.
    pub numbers: u64,
    /// Flows, paths, gaps, offers and closed flows examined.
    pub entries: u64,
    /// In-stream blocks decoded.
    pub decodings: u64,
}
}

impl AgentWork {
    /// Returns the sum of all work in units of about 20 ns.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.messages + self.numbers + self.entries + self.decodings * DECODING_WORK
    }
}

impl Agent {
    /// Returns the work done for all inputs so far: the same for the same inputs, on any processor.
    #[must_use]
    pub const fn work(&self) -> AgentWork {
        self.work
    }

    /// Returns the number of work units at which an input that begins now reaches its limit.
    pub(super) const fn work_end(&self) -> u64 {
        self.work.units() + DATAGRAM_WORK_MAX
    }

    /// Returns the number of work units after which the agent handles no more messages of the
    /// current datagram.
    pub(super) fn messages_end(&self) -> u64 {
        self.messages_end.unwrap_or_else(|| self.work_end())
    }

    /// Returns true while the work units are below `end`, so this input may handle more. The rest
    /// stays due, and waiting packets come first.
    pub(super) const fn may_work_on(&self, end: u64) -> bool {
        self.work.units() < end
    }

    /// Handles the flow timers that are due, until the work units reach `end`.
    pub(super) fn handle_timers(&mut self, end: u64, now: Time) {
        while self.may_work_on(end)
            && let Some(key) = self.timers.expire(now)
        {
            self.work.entries += 1;
            self.handle_timer(key, now);
        }
    }
}
