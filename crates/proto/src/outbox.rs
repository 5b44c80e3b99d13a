//! Queues of datagrams and deliveries, with their bytes in one buffer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::Range;

use byway_code::{prefetch, prefetch_value};
use byway_sched::Class;
use byway_units::AgentId;
use byway_wire::{Ecn, FlowKey};

use crate::network_path::{LocalAddress, NetworkPath};

/// Priority of a datagram at the sender's uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Source packets, and messages that keep sessions alive.
    Source,
    /// Copies, repairs, requests and answers: sent only after all source packets.
    Scavenger,
}

/// Datagram that the driver has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Destination address of the datagram.
    pub to: SocketAddr,
    /// Local address that sends the datagram.
    pub from: LocalAddress,
    /// ECN field for the IP header.
    pub ecn: Ecn,
    /// Priority over other datagrams at the uplink.
    pub priority: Priority,
    /// UDP payload to send.
    pub bytes: &'a [u8],
}

/// Flow, group, session or agent whose datagram it is, for a queue that distinguishes them, and its
/// class there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Datagrams of one flow, with its class.
    Flow(FlowKey, Class),
    /// Repair packets of a coding group for an egress relay: number of the relay peer, number of
    /// the group, and class.
    Group(u16, u32, Class),
    /// Messages that keep an established session alive: number of the session.
    Session(u32),
    /// Packets that a relay forwards for this agent to another agent.
    Relayed(AgentId),
    /// Packets that a relay passes on from one relay to another: number of the session with the
    /// former.
    Transit(u32),
}

/// Path, ECN field, priority and owner of an outgoing datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransmitMeta {
    pub(crate) path: NetworkPath,
    pub(crate) ecn: Ecn,
    pub(crate) priority: Priority,
    /// Owner in the uplink's queue; `None` for answers to strangers, and at nodes without a queue.
    pub(crate) owner: Option<Owner>,
}

impl TransmitMeta {
    /// Returns the metadata of a source packet on a path, without ECN and without an owner.
    pub(crate) const fn plain(path: NetworkPath) -> Self {
        Self { path, ecn: Ecn::NotCapable, priority: Priority::Source, owner: None }
    }

    /// Returns the datagram with this UDP payload, for the driver.
    #[inline]
    pub(crate) const fn transmit(self, bytes: &[u8]) -> Transmit<'_> {
        let Self { path, ecn, priority, owner: _ } = self;
        Transmit { to: path.remote, from: path.local, ecn, priority, bytes }
    }
}

/// Queue of entries whose bytes lie end to end in one reused buffer.
///
/// The driver drains it after each input, so it contains the outputs of one input, and no more.
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
    /// Appends an entry, with the bytes that `write` appends to the buffer; returns the result of
    /// `write`.
    pub(crate) fn add<R>(&mut self, entry: T, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let start = self.bytes.len();
        let result = write(&mut self.bytes);
        self.entries.push_back((entry, start..self.bytes.len()));
        result
    }

    /// Prefetches the next entry and the buffer into the processor's cache.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.bytes);
        let (entries, _) = self.entries.as_slices();
        entries.first().into_iter().for_each(prefetch_value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes and returns the oldest entry, with its bytes; empties the buffer if there is no
    /// entry.
    pub(crate) fn pop(&mut self) -> Option<(T, &[u8])> {
        let Some((entry, range)) = self.entries.pop_front() else {
            self.bytes.clear();
            return None;
        };
        Some((entry, &self.bytes[range]))
    }
}
