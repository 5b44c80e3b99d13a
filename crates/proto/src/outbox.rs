//! Outputs that wait to be taken, with the bytes they are about.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;

use byway_code::{prefetch, prefetch_value};
use byway_sched::Class;
use byway_units::AgentId;
use byway_wire::{Ecn, FlowKey};

use crate::network_path::{LocalAddress, NetworkPath};

/// How a datagram competes for the sender's uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The application's own packets, and what sessions need to live.
    Original,
    /// Copies, repairs, requests and answers: behind all originals.
    Scavenger,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// The local address that it leaves from.
    pub from: LocalAddress,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// How it competes.
    pub urgency: Urgency,
    /// The UDP payload.
    pub bytes: &'a [u8],
}

/// Whose a datagram is, for a queue that tells flows apart, and the class that it has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// One flow.
    Flow(FlowKey, Class),
    /// The flows of a coding group towards an egress relay: the number of the port, and of the group.
    Group(u16, u32, Class),
    /// What an established session needs to live: its number.
    Session(u32),
    /// What is passed on for this agent to one that it does not reach.
    Passed(AgentId),
}

/// What is said about a datagram beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading {
    pub(crate) path: NetworkPath,
    pub(crate) ecn: Ecn,
    pub(crate) urgency: Urgency,
    /// `None` of what answers strangers, and where nothing waits.
    pub(crate) owner: Option<Owner>,
}

impl Heading {
    /// With nothing said of it beside where it goes.
    pub(crate) const fn plain(path: NetworkPath) -> Self {
        Self { path, ecn: Ecn::NotCapable, urgency: Urgency::Original, owner: None }
    }

    /// Returns the datagram with these bytes.
    #[inline]
    pub(crate) const fn transmit(self, bytes: &[u8]) -> Transmit<'_> {
        let Self { path, ecn, urgency, owner: _ } = self;
        Transmit { to: path.remote, from: path.local, ecn, urgency, bytes }
    }
}

/// A queue of things with bytes, the bytes end to end in one buffer that is used again and again.
///
/// It is emptied after each input, so it holds what one input gives rise to, and no more.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    bytes: Vec<u8>,
    entries: VecDeque<(T, Range<usize>)>,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self { bytes: Vec::new(), entries: VecDeque::new() }
    }
}

impl<T> Outbox<T> {
    /// Adds a thing, with the bytes that `write` appends to the buffer it is given.
    pub(crate) fn add<R>(&mut self, thing: T, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.bytes.len();
        let result = write(&mut self.bytes);
        self.entries.push_back((thing, start..self.bytes.len()));
        result
    }

    /// Brings what comes next into the cache.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.bytes);
        let (entries, _) = self.entries.as_slices();
        entries.first().into_iter().for_each(prefetch_value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The oldest thing, with its bytes.
    pub(crate) fn take(&mut self) -> Option<(T, &[u8])> {
        let Some((thing, range)) = self.entries.pop_front() else {
            self.bytes.clear();
            return None;
        };
        Some((thing, &self.bytes[range]))
    }
}
